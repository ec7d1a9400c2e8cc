/* Drafts by an EAGLE 3 head, as far as they differ from those of a layer for multi-token
 * prediction.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_EAGLE_H
#define QSF_EAGLE_H

#include "turn/guess.h"

typedef struct qsf_eagle {
    qsf_context   *context, *layer; /* of the model, of the head */
    qsf_embedding *words;           /* whose rows it takes: its own, or the model's */
    uint32_t       n_words;         /* of them */
    const int32_t *ids;             /* the model's tokens that the head's stand for; NULL: the same ones */
    float         *tapped;          /* [n_batch of context][n_features] what the model's last batch gave */
    float         *embd;            /* [rows + 1][n_embd] embeddings of a batch of the head, a spare row */
} qsf_eagle;

#if defined(QSF_NO_EAGLE)               /* no model is a head */
static inline qsf_status qsf_eagle_check(const qsf_model *m, const qsf_model *head, qsf_error *err)
{
    (void)m, (void)head, (void)err;
    return QSF_OK;
}
static inline qsf_status qsf_eagle_check_context(const qsf_context *c, qsf_error *err)
{
    (void)c, (void)err;
    return QSF_OK;
}
static inline uint64_t qsf_eagle_floats(const qsf_hparams *head, uint32_t n_batch, uint32_t rows)
{
    (void)head, (void)n_batch, (void)rows;
    return 0;
}
static inline void qsf_eagle_init(qsf_eagle *e, qsf_context *c, qsf_context *layer, float *floats)
{
    (void)e, (void)c, (void)layer, (void)floats;
}
static inline qsf_status qsf_eagle_compute(qsf_eagle *e, const qsf_row *rows, size_t n, const float *states,
                                           bool own)
{
    (void)e, (void)rows, (void)n, (void)states, (void)own;
    return QSF_E_UNSUPPORTED;
}
#else
/* Whether the head is one for this model. */
qsf_status qsf_eagle_check(const qsf_model *m, const qsf_model *head, qsf_error *err);
/* The same of what the contexts can do. */
qsf_status qsf_eagle_check_context(const qsf_context *c, qsf_error *err);
/* Floats that it takes for batches of n_batch rows of the model, and of `rows` of its own. */
uint64_t   qsf_eagle_floats(const qsf_hparams *head, uint32_t n_batch, uint32_t rows);
/* Connects the contexts; of qsf_eagle_floats numbers. */
void       qsf_eagle_init(qsf_eagle *e, qsf_context *c, qsf_context *layer, float *floats);
/* Computes rows of the head, as qsf_compute_eagle. */
qsf_status qsf_eagle_compute(qsf_eagle *e, const qsf_row *rows, size_t n, const float *states, bool own);
#endif
/* The model's token that the head means by its own. */
static inline int32_t qsf_eagle_token(const qsf_eagle *e, int32_t id) { return e->ids ? e->ids[id] : id; }

#endif
