/* Narrow weights, as adapters have them, with AVX2.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")

/* T rows of activations against all tiles: eight sums of 8 rows of weights in flight. */
QSF_TEMPLATE void narrow_rows_avx2(int T, float *y, size_t ldy, const uint8_t *w, size_t depth, size_t tiles,
                                   const int8_t *q, size_t ldq, const float *d, size_t ldd)
{
    const __m256i ones = _mm256_set1_epi16(1);
    for (size_t t = 0; t < tiles; t++, y += 16) {
        const float *scale = (const float *)(const void *)w;
        __m256i sum[4][2];
        QSF_UNROLL
        for (int m = 0; m < T; m++) sum[m][0] = sum[m][1] = _mm256_setzero_si256();
        w += 64;
        for (size_t j = 0; j < depth; j++, w += 64) {
            QSF_UNROLL
            for (int h = 0; h < 2; h++) {
                const __m256i c = _mm256_loadu_si256((const __m256i *)(const void *)(w + 32 * h)),
                    size = _mm256_abs_epi8(c);
                QSF_UNROLL
                for (int m = 0; m < T; m++) {
                    int32_t four;
                    memcpy(&four, q + (size_t)m * ldq + 4 * j, 4);
                    /* 2 * 127 * 127 fits 16 bits */
                    const __m256i two = _mm256_maddubs_epi16(size, _mm256_sign_epi8(_mm256_set1_epi32(four),
                                                                                    c));
                    sum[m][h] = _mm256_add_epi32(sum[m][h], _mm256_madd_epi16(two, ones));
                }
            }
        }
        QSF_UNROLL
        for (int h = 0; h < 2; h++)
            QSF_UNROLL
            for (int m = 0; m < T; m++) {
                float *to = y + (size_t)m * ldy + 8 * h;
                const __m256 f = _mm256_mul_ps(_mm256_cvtepi32_ps(sum[m][h]),
                                               _mm256_set1_ps(d[(size_t)m * ldd]));
                _mm256_storeu_ps(to, _mm256_fmadd_ps(_mm256_loadu_ps(scale + 8 * h), f, _mm256_loadu_ps(to)));
            }
    }
}

static void add_narrow_avx2(float *y, size_t ldy, const uint8_t *w, size_t depth, size_t tiles,
                            const int8_t *q, size_t ldq, const float *d, size_t ldd, size_t n)
{
    size_t m = 0;
    for (; m + 4 <= n; m += 4)
        narrow_rows_avx2(4, y + m * ldy, ldy, w, depth, tiles, q + m * ldq, ldq, d + m * ldd, ldd);
    for (; m < n; m++)
        narrow_rows_avx2(1, y + m * ldy, ldy, w, depth, tiles, q + m * ldq, ldq, d + m * ldd, ldd);
}

void qsf_narrow_avx2(qsf_kernels *k) { k->add_narrow = add_narrow_avx2; }

QSF_TARGET_END
#endif
