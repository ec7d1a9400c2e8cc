/* Pooling of hidden states, as embeddings of one text and of many share it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_EMBED_H
#define QSF_EMBED_H

#include "engine/context.h"
#include "model/part.h"

/* Most texts in one batch. */
enum { EMBED_PARTS = 64 };

/* The pooling for a caller's option: the file's if the caller sets none, else the mean. */
qsf_pooling qsf_pooling_of(const qsf_hparams *hp, qsf_pooling asked);
/* Rows [first, first + rows) of the batch are tokens [at, at + rows) of an input of n tokens. */
typedef struct embed_part { size_t text, first, rows, at, n; } embed_part;

/* Texts under way: qsf_embed_texts and qsf_rerank, a step at a time.  ids, lens and out must stay
 * valid until the end. */
struct qsf_embed_run {
    const int32_t    *ids;
    const size_t     *lens;
    size_t            n;
    float            *out;
    qsf_embed_options o;
    qsf_pooling       how;                     /* QSF_POOL_RANK: with score, one number each */
    bool              score, asked;            /* asked: whether others want hidden states */
    int32_t           yes, no;                 /* score, without a classifier: its words */
    embed_part        from, parts[EMBED_PARTS];
    size_t            n_parts;
    uint32_t          first_seq, n_seqs;       /* the sequences for them */
    qsf_context      *context;                 /* the rest: of qsf_embed_begin */
    bool              ended;
    qsf_status        status;                  /* if ended */
};

/* As qsf_embed_texts, or with score as qsf_rerank, which ignores opts.  Then call
 * qsf_embed_run_step until it returns something other than QSF_PENDING, or qsf_embed_run_end. */
qsf_status qsf_embed_run_begin(qsf_context *c, qsf_embed_run *r, const int32_t *ids, const size_t *lens,
                               size_t n, const qsf_embed_options *opts, bool score, float *out);
/* As qsf_step. */
qsf_status qsf_embed_run_step(qsf_context *c, qsf_embed_run *r, bool *waiting);
void       qsf_embed_run_end(qsf_context *c, const qsf_embed_run *r);
/* Computes and waits until the end. */
qsf_status qsf_embed_run_all(qsf_context *c, qsf_embed_run *r);

#endif
