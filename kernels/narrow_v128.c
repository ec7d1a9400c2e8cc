/* Narrow weights, as adapters have them, over vectors of 128 bits.
 * SPDX-License-Identifier: MIT */
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

static void add_narrow_v128(float *y, size_t ldy, const uint8_t *w, size_t depth, size_t tiles,
                            const int8_t *q, size_t ldq, const float *d, size_t ldd, size_t n)
{
    for (size_t t = 0; t < tiles; t++, y += 16, w += qsf_narrow_bytes(depth))
        for (size_t m = 0; m < n; m++) {
            v4i sum[4] = { { 0 }, { 0 }, { 0 }, { 0 } };
            for (size_t j = 0; j < depth; j++) {
                const v16b quad = v16_quad(q + m * ldq + 4 * j);
                QSF_UNROLL
                for (size_t i = 0; i < 4; i++)
                    sum[i] = v16_dot4(sum[i], v16_load(w + 64 + 64 * j + 16 * i), quad);
            }
            QSF_UNROLL
            for (size_t i = 0; i < 4; i++) {
                float *to = y + m * ldy + 4 * i;
                const v4f scale = v4_load((const float *)(const void *)w + 4 * i);
                v4_store(to, v4_fma(scale, v4_float(sum[i]) * v4_set1(d[m * ldd]), v4_load(to)));
            }
        }
}

void qsf_narrow_v128(qsf_kernels *k) { k->add_narrow = add_narrow_v128; }

QSF_V128_END
#endif
