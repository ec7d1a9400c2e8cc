/* What it takes to continue without the device in the middle of an answer: the token of each
 * position whose keys and values are there.
 * SPDX-License-Identifier: MIT
 *
 * Tokens are noted by block of the KV cache and place in it, as batches store them; so shared
 * prefixes and copies on write need nothing of their own.  When a device fails, the context's
 * layers become the CPU's: the positions of all sequences are computed again, into the same blocks,
 * and the batch that failed begins again.  Callers see a batch that takes longer.
 *
 * Positions that cannot be computed again are lost: those of which a window has dropped the
 * predecessors, of models whose layers keep state or that begin with a part of the layers.  A batch
 * that needs them fails, with a message, and its sequences are empty then. */
#ifndef QSF_REPLAY_H
#define QSF_REPLAY_H

#include "engine/context.h"

typedef struct qsf_replay {
    qsf_context *c;
    bool      embeds;           /* the batch under way began with tokens */
    bool      fallen;           /* the device has failed */
    bool      runs;             /* positions are computed again just now */
    bool      checked;          /* what the batch under way sees is not lost */
    bool      steps;            /* by the caller's steps, in place of the batch under way: */
    qsf_batch_state was;        /* that batch, */
    uint32_t  n, n_asked;       /* and its rows */
    uint32_t  seq, pos;         /* whose positions from which on come next */
    uint64_t  begun_ns;         /* the batch under way */
    uint32_t  n_blocks;
    int32_t  *tokens;           /* [n_blocks][QSF_KV_BLOCK] */
    /* [n_blocks], a bit for each place: its token is noted; the CPU's cache has its keys and values
     * too; no cache has them */
    uint32_t *known, *kept, *lost;
    uint32_t *lengths;          /* [n_seqs] of sequences, while positions are computed again */
    qsf_batch_row *rows;        /* [rows of a batch] those under way, meanwhile */
} qsf_replay;

qsf_status qsf_replay_init(qsf_replay *r, qsf_context *c, qsf_error *err);
void       qsf_replay_done(qsf_replay *r);      /* takes one that is all zeros */
/* A batch begins, with tokens or not. */
void       qsf_replay_begin(qsf_replay *r, bool embed);
/* A block was copied. */
void       qsf_replay_copy(qsf_replay *r, uint32_t to, uint32_t from);
/* A block is being filled with bytes, which the CPU's cache gets, too. */
void       qsf_replay_kept(qsf_replay *r, uint32_t block);
/* The layers are the CPU's now: computes what the device had, and begins the batch under way again.
 * QSF_OK also if positions are lost. */
qsf_status qsf_replay_run(qsf_replay *r, qsf_error *err);
/* Before the first stage of the batch under way.  QSF_PENDING: it needs positions that are lost;
 * they are computed first, by the next steps.  QSF_E_IO: that is not possible. */
qsf_status qsf_replay_check(qsf_replay *r, qsf_error *err);
/* A batch has ended, or was dropped: the next of such positions follow, or the batch that waits for
 * them begins again. */
void       qsf_replay_end(qsf_replay *r, bool done);

#endif
