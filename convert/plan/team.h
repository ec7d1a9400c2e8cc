/* Work in equal pieces on the platform's threads.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_TEAM_H
#define QSF_CONVERT_TEAM_H

#include "base/host.h"
#include "qsf_convert.h"

uint32_t qsf_conv_threads(const qsf_platform *p, const qsf_convert_options *o);      /* at least 1 */

typedef qsf_status (*convert_job)(void *user, uint32_t i, uint32_t thread, qsf_error *err);
/* Runs fn(user, i) for i in [0, n) on at most n_threads threads, until one fails or o's caller
 * cancels; the error with the lowest i is reported. */
qsf_status qsf_conv_parallel(const qsf_platform *p, const qsf_convert_options *o, uint32_t n_threads,
                             uint32_t n, convert_job fn, void *user, qsf_error *err);

#endif
