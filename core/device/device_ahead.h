/* The batch after the one under way, computed before the host has its tokens.
 * SPDX-License-Identifier: MIT
 *
 * The last dispatch of a batch chooses the next token of each row, as the caller said that it will
 * (qsf_choice), and writes it where the embedding reads it.  So the same list of dispatches, with
 * positions that are one further, can be submitted before the results are read: the device computes
 * while the host samples, makes text and lists.
 *
 * The choice is a guess: the caller chooses as without it.  If its next batch has the same rows,
 * positions, blocks and tokens, that batch is computed already; if not, what was computed is
 * dropped.  Only keys and values after the end of sequences have changed then.
 *
 * A host that must not block reads whole rows of logits, as it cannot ask for one later, and the
 * tokens of the guess.  Both reads begin before the next batch is submitted.
 *
 * If a position begins a block of the KV cache, nothing is submitted: blocks are given out when a
 * batch begins. */
#ifndef QSF_DEVICE_AHEAD_H
#define QSF_DEVICE_AHEAD_H

#include "device/device_candidates.h"

typedef struct qsf_device_ahead {
    bool     off;                       /* for tests */
    bool     again;                     /* the list can be submitted again: it is whole and chooses */
    bool     wary;                      /* not after this batch: it is computed for the second time */
    bool     flies;                     /* the next batch is submitted */
    bool     ran;                       /* the batch under way was submitted before it began */
    bool     kept;                      /* its logits are in `logits`: the next batch has others */
    uint32_t n;                         /* rows of the last batch that was submitted: */
    uint32_t seq[QSF_DEVICE_KEPT_ROWS];
    uint32_t place[QSF_DEVICE_KEPT_ROWS][4];            /* as in QSF_DEVICE_PLACE */
    int32_t  token[QSF_DEVICE_KEPT_ROWS];
    qsf_device_id logits;               /* [rows][ld]; 0: the host reads all of them */
    qsf_device_id read;                 /* of `token`, under way; 0: none */
    uint64_t n_flown, n_taken;          /* batches submitted so, and those that the caller had, too */
} qsf_device_ahead;

typedef struct device_executor device_executor;

/* A batch begins; whether it has been submitted. */
bool       qsf_device_ahead_begin(device_executor *e, bool embed);
/* The rows' places, as they go to the device. */
void       qsf_device_ahead_note(device_executor *e, const uint32_t *place);
/* The next batch will be another one, or keys and values change. */
void       qsf_device_ahead_drop(device_executor *e);
/* Before the batch's choice is listed; whether it is to be. */
qsf_status qsf_device_ahead_choose(device_executor *e, bool *choose, qsf_error *err);
/* After the batch is submitted and its read has begun: submits the next one if it can. */
qsf_status qsf_device_ahead_submit(device_executor *e, qsf_error *err);
/* The tokens that a bare choice found, or QSF_PENDING. */
qsf_status qsf_device_ahead_tokens(device_executor *e, qsf_error *err);
/* QSF_PENDING: the batch begins again, is computed alone, and none is submitted after it. */
qsf_status qsf_device_ahead_repeat(device_executor *e);

#endif
