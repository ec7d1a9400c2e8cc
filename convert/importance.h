/* How much the model would miss each of its layers: see importance.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_IMPORTANCE_H
#define QSF_CONVERT_IMPORTANCE_H

#include "base/host.h"
#include "qsf_convert.h"

/* Measures on a text file how important each layer of the model in the QSF file `from` is, and
 * writes the file to `to` with these importances, whole or not at all.  From o it uses threads,
 * memory and the caller's functions. */
qsf_status qsf_conv_calibrate(const qsf_platform *p, const char *from, const char *text, const char *to,
                              const qsf_convert_options *o, uint64_t *bytes, qsf_error *err);

#endif
