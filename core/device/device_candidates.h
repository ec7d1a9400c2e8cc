/* The most likely tokens of rows of logits that are on a device.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_CANDIDATES_H
#define QSF_DEVICE_CANDIDATES_H

#include "device/device_buffers.h"
#include "engine/candidates.h"

#include "wgsl/candidates_wgsl.h"

/* The tokens that are kept of a row, the rows that they are kept of, and the dispatches. */
enum { QSF_DEVICE_KEPT = 64, QSF_DEVICE_KEPT_ROWS = 32, QSF_DEVICE_KEPT_STEPS = 6 };

/* Rows of logits on a device, as the head's product leaves them. */
typedef struct qsf_device_logit_rows {
    qsf_device_range range;
    uint32_t rows, n_vocab, ld;
    float    scale, cap;                /* that the model applies to them; 1, 0: none */
    bool     chooses;                   /* the next token of each row is chosen, too, if that is wanted; */
    bool     bare;                      /* nothing else is */
} qsf_device_logit_rows;

typedef struct qsf_device_candidates {
    uint32_t rows;                      /* at most; 0: the device finds none */
    uint32_t n_steps;                   /* without a choice; with one there is another last step */
    bool     chooses;                   /* which writes to QSF_DEVICE_IDS; */
    bool     bare;                      /* that alone, and no records */
    uint32_t wide[QSF_DEVICE_KEPT_STEPS];               /* workgroups of a row */
    qsf_device_id pipeline[QSF_DEVICE_KEPT_STEPS], group[QSF_DEVICE_KEPT_STEPS];
    qsf_device_id numbers, pairs[2], sums, records, rules, last;
    uint32_t *words;                    /* [rows] records on their way */
    qsf_candidates *found;              /* [rows] */
    uint32_t n_vocab;
} qsf_device_candidates;

/* Makes room for candidates of all rows of logits, and begins to compile the pipelines.  c->rows
 * stays 0 if the rows, or what they need, are too many for the device. */
qsf_status qsf_device_candidates_begin(qsf_device_candidates *c, qsf_device_buffers *b,
                                       const qsf_device_logit_rows *logits, qsf_error *err);
/* How the tokens of the first n rows are chosen. */
qsf_status qsf_device_candidates_rules(qsf_device_candidates *c, const qsf_device_buffers *b,
                                       const qsf_wgsl_rule *rules, uint32_t n, qsf_error *err);
/* The last tokens of a row: its rule's last_at is row * QSF_CHOICE_LAST. */
qsf_status qsf_device_candidates_last(const qsf_device_candidates *c, const qsf_device_buffers *b,
                                      uint32_t row, const int32_t *last, uint32_t n, qsf_error *err);
/* Appends the dispatches for the first n rows. */
qsf_status qsf_device_candidates_list(qsf_device_candidates *c, qsf_device_buffers *b, uint32_t n,
                                      bool choose, qsf_device_dispatch *list, size_t *len, qsf_error *err);
/* After these have been submitted: begins to read them, then waits and sets c->found.  *finite:
 * whether all logits are. */
qsf_status qsf_device_candidates_start(qsf_device_candidates *c, const qsf_device_buffers *b, uint32_t n,
                                       qsf_device_id *read, qsf_error *err);
qsf_status qsf_device_candidates_read(qsf_device_candidates *c, const qsf_device_buffers *b,
                                      qsf_device_id *read, uint32_t n, bool *finite, qsf_error *err);
/* The token that was chosen for row i. */
int32_t    qsf_device_candidates_chosen(const qsf_device_candidates *c, uint32_t i);
/* Whether its buffers found memory. */
qsf_status qsf_device_candidates_there(const qsf_device_candidates *c, const qsf_device_buffers *b,
                                       qsf_error *err);
void       qsf_device_candidates_done(qsf_device_candidates *c, const qsf_device_buffers *b);

#endif
