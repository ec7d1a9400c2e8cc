/* A GGUF or QSF file as the converter's input.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_SOURCE_INPUT_H
#define QSF_CONVERT_SOURCE_INPUT_H

#include "read/input.h"

qsf_status qsf_input_open_source(const qsf_platform *p, const char *path, input **out, qsf_error *err);
qsf_status qsf_input_open_source_as(const qsf_platform *p, const char *path, qsf_i2s_layout i2s, bool mtp,
                                    input **out, qsf_error *err);

#endif
