/* How much the model would miss each of its layers: see importance.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_IMPORTANCE_H
#define QSF_CONVERT_IMPORTANCE_H

#include "base/host.h"
#include "qsf_convert.h"

/* Measures on a text how much the model in the QSF file `from` would miss each layer, and writes it
 * again with that as their importance, whole or not at all.  Of o it takes threads, memory and the
 * caller's functions. */
qsf_status qsf_conv_calibrate(const qsf_platform *p, const char *from, const char *text, const char *to,
                              const qsf_convert_options *o, uint64_t *bytes, qsf_error *err);

#endif
