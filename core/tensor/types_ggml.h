/* GGUF's block types as floats.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TYPES_GGML_H
#define QSF_TYPES_GGML_H

#include "tensor/types.h"

/* What the codes of IQ4_NL and IQ4_XS stand for. */
extern const int8_t qsf_iq4[16];
/* And those of MXFP4 and NVFP4: doubled, the scales are halved. */
extern const int8_t qsf_fp4[16];

/* One row of cols (whole blocks) of one of GGUF's types. */
void qsf_dequant_ggml_row(uint32_t type, const void *row, uint32_t cols, float *out);

#endif
