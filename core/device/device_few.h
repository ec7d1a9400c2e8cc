/* The most likely tokens in place of the logits of a batch, for the executor.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_FEW_H
#define QSF_DEVICE_FEW_H

#include "device/device_executor.h"

/* The head is on the device; ld: floats between rows of logits, there and here. */
qsf_status qsf_device_few_begin(device_executor *e, uint32_t ld, qsf_error *err);
/* Whether the batch's rows may do with candidates; those that are read one by one later need a host
 * that may block. */
static inline bool qsf_device_few_wanted(const device_executor *e)
{
#if defined(QSF_NO_CANDIDATES)
    (void)e;
    return false;
#else
    return !e->candidates.bare && e->c->now.few && e->c->batch.n_asked <= e->candidates.rows;
#endif
}
/* Appends dispatches after the head's, if the batch's rows may do with candidates, or the next
 * tokens can be chosen. */
qsf_status qsf_device_few_list(device_executor *e, qsf_error *err);
#if !defined(QSF_NO_CANDIDATES)
/* candidates and logits_row of the executor's table. */
qsf_status qsf_device_few_out(qsf_executor *x, const qsf_candidates **out, qsf_error *err);
qsf_status qsf_device_few_row(qsf_executor *x, uint32_t i, const float **out, qsf_error *err);
#endif

#endif
