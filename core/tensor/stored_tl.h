/* The order in which the lookup kernels of bitnet.cpp, TL1 and TL2, want their weights.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_STORED_TL_H
#define QSF_STORED_TL_H

#include "base/base.h"

/* The row of the table of kernels for this shape; -1: none. */
int      qsf_tl_find(bool tl2, uint32_t rows, uint32_t cols);
/* Bytes of a TL2 matrix; 0: it cannot be. */
uint64_t qsf_tl2_bytes(uint32_t rows, uint32_t cols);
/* Codes (value + 1) of columns [col, col + n) of a row. */
void     qsf_tl_codes(bool tl2, uint32_t kernel, const uint8_t *data, uint32_t rows, uint32_t row,
                      uint32_t col, uint32_t n, uint8_t *out);

#endif
