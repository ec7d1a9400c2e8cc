/* A Hugging Face directory as the converter's input.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_H
#define QSF_CONVERT_HF_H

#include "read/input.h"

/* The directory as an input; mtp: with its layer for multi-token prediction.  QSF_E_UNSUPPORTED in
 * a build without JSON. */
qsf_status qsf_input_open_hf(const qsf_platform *p, const char *dir, bool mtp, input **out, qsf_error *err);

#endif
