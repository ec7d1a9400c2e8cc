/* Calls to the caller during the work: progress, warnings, and whether to continue.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_CALLER_H
#define QSF_CONVERT_CALLER_H

#include "base/base.h"
#include "qsf_convert.h"

bool qsf_conv_cancelled(const qsf_convert_options *o);       /* on any thread */
void qsf_conv_progress(const qsf_convert_options *o, const char *stage, const char *name, uint64_t done,
                       uint64_t total);
void qsf_conv_warn(const qsf_convert_options *o, const char *fmt, ...) QSF_PRINTF(2, 3);

#endif
