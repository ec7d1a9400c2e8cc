/* GGUF's IQ2, IQ3 and IQ1 types as floats.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TYPES_IQ_H
#define QSF_TYPES_IQ_H

#include "tensor/types.h"

/* So many blocks, one after another, of one of these types. */
void qsf_dequant_iq_row(uint32_t type, const void *row, size_t blocks, float *out);

#endif
