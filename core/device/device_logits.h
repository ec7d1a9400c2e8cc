/* Logits on a device: they, or the most likely tokens, come to the CPU.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_LOGITS_H
#define QSF_DEVICE_LOGITS_H

#include "device/device_candidates.h"
#include "engine/context.h"

typedef struct qsf_device_logits {
    qsf_context        *c;
    qsf_executor       *cpu;        /* which has room for them */
    qsf_device_buffers *b;
    bool                came;       /* all of the batch are here; */
    uint32_t            rows;       /* a bit for each row that came alone; */
    qsf_device_id       read;       /* under way on a host that must not block; 0: none */
    bool                few;        /* candidates of the batch are on the device */
    qsf_device_candidates candidates;
} qsf_device_logits;

/* The head is on the device; ld: floats between rows of logits, there and here. */
qsf_status qsf_device_logits_begin(qsf_device_logits *l, qsf_context *c, qsf_executor *cpu,
                                   qsf_device_buffers *b, uint32_t ld, qsf_error *err);
void       qsf_device_logits_done(qsf_device_logits *l);        /* takes one that is all zeros */
/* A batch begins.  Takes one that is all zeros, too. */
void       qsf_device_logits_drop(qsf_device_logits *l);
/* After the head's dispatches: those that find candidates, if the batch's rows may do with them. */
qsf_status qsf_device_logits_list(qsf_device_logits *l, qsf_device_dispatch *list, size_t *len,
                                  qsf_error *err);
/* rows_out, candidates and logits_row of an executor. */
qsf_status qsf_device_logits_out(qsf_device_logits *l, qsf_rows *out, qsf_error *err);
qsf_status qsf_device_logits_few(qsf_device_logits *l, const qsf_candidates **out, qsf_error *err);
qsf_status qsf_device_logits_row(qsf_device_logits *l, uint32_t i, const float **out, qsf_error *err);

#endif
