/* The sampler, as the core itself makes and plans one.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SAMPLER_H
#define QSF_SAMPLER_H

#include "model/model.h"

/* Memory of a sampler with the default options. */
uint64_t   qsf_sampler_bytes(uint32_t n_vocab);
/* qsf_sampler_new without a model. */
qsf_status qsf_sampler_for(const qsf_platform *p, uint32_t n_vocab, const qsf_sampler_options *opts,
                           qsf_sampler **out, qsf_error *err);

#endif
