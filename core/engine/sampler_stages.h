/* The stages of a sampler by name and by letter.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ENGINE_SAMPLER_STAGES_H
#define QSF_ENGINE_SAMPLER_STAGES_H

#include "base/base.h"

/* The letters of all stages, in the default order. */
#define QSF_SAMPLER_STAGES "edstmkypx"

#if defined(QSF_NO_SAMPLER_ORDER)       /* saves the code if no caller can ask for an order */
static inline qsf_status qsf_sampler_stages_check(const char order[QSF_SAMPLER_ORDER], qsf_error *err)
{
    if (!*order) return QSF_OK;
    return qsf_fail(err, QSF_E_UNSUPPORTED, "samplers: this build runs them in the default order only");
}
static inline qsf_status qsf_sampler_stages(const char *text, char out[QSF_SAMPLER_ORDER], qsf_error *err)
{
    *out = 0;
    return qsf_sampler_stages_check(text, err);
}
#else
/* Reads names separated by ';' or ',', or the letters themselves; "" is the default.  Writes the
 * letters and a terminating zero.  QSF_E_ARGUMENT: an unknown stage, or too many. */
qsf_status qsf_sampler_stages(const char *text, char out[QSF_SAMPLER_ORDER], qsf_error *err);
/* Checks letters that a caller wrote into its options. */
qsf_status qsf_sampler_stages_check(const char order[QSF_SAMPLER_ORDER], qsf_error *err);
#endif

#endif
