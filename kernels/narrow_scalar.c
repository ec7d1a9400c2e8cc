/* Narrow weights, as adapters have them: what is plain.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

static void add_narrow_scalar(float *y, size_t ldy, const uint8_t *w, size_t depth, size_t tiles,
                              const int8_t *q, size_t ldq, const float *d, size_t ldd, size_t n)
{
    for (size_t t = 0; t < tiles; t++, y += 16, w += qsf_narrow_bytes(depth)) {
        const float *scale = (const float *)(const void *)w;
        const int8_t *code = (const int8_t *)(w + 64);
        for (size_t m = 0; m < n; m++)
            for (size_t r = 0; r < 16; r++) {
                int32_t sum = 0;
                for (size_t k = 0; k < 4 * depth; k++)
                    sum += code[64 * (k / 4) + 4 * r + k % 4] * q[m * ldq + k];
                y[m * ldy + r] += scale[r] * ((float)sum * d[m * ldd]);
            }
    }
}

void qsf_narrow_scalar(qsf_kernels *k) { k->add_narrow = add_narrow_scalar; }
