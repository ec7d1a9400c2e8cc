/* Effort 4: the codes, norms and biases of a file are tuned to its input's predictions.  See
 * tune.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TUNE_H
#define QSF_TUNE_H

#include "qsf_convert.h"
#include "read/input.h"

/* Tunes the QSF file `from`, made of in, and writes it to `to`, whole or not at all: types, sizes
 * and all else stay.  model: a file of the input's weights that can be run.
 *
 * QSF_E_UNSUPPORTED   a network that cannot be tuned, and why
 * QSF_E_BUDGET        ram_bytes is too little */
qsf_status qsf_tune_run_file(input *in, const char *model, const char *from, const char *to,
                             const qsf_convert_options *o, uint64_t *bytes, qsf_error *err);

#endif
