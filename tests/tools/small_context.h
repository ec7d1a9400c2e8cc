/* Options of a small context on one thread, for the programs that scripts run.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SMALL_CONTEXT_H
#define QSF_SMALL_CONTEXT_H

#include "qsf.h"

static inline qsf_context_options small_context(uint32_t n_ctx, uint32_t n_seqs, uint32_t n_batch,
                                                uint32_t n_logits)
{
    qsf_context_options o;
    qsf_context_defaults(&o);
    o.n_ctx = n_ctx;
    o.n_seqs = n_seqs;
    o.n_batch = n_batch;
    o.n_logits = n_logits;
    o.n_threads = 1;
    return o;
}

#endif
