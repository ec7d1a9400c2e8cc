/* Narrow weights, as adapters have them, with AVX-512 VNNI.
 * SPDX-License-Identifier: MIT */
#include "sets.h"
#include "tensor/types.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#include "tiles_avx512.h"

/* T rows of activations against all tiles.  Weights become unsigned by adding 128; the initial sums
 * subtract what that adds.  With few rows, the next weights are prefetched, also those of the next
 * matrix, which follows in memory: a matrix is finished before the hardware prefetcher detects a
 * stream. */
QSF_TEMPLATE void narrow_rows_avx512(int T, float *y, size_t ldy, const uint8_t *w, size_t depth,
                                     size_t tiles, const int8_t *q, size_t ldq, const float *d, size_t ldd)
{
    const __m512i turn = _mm512_set1_epi8((char)0x80);
    __m512i begin[8];
    QSF_UNROLL
    for (int m = 0; m < T; m++) {
        __m512i more = _mm512_setzero_si512();
        for (size_t j = 0; j < depth; j++)
            more = _mm512_dpbusd_epi32(more, turn, quad_avx512(q + (size_t)m * ldq, (int)j));
        begin[m] = _mm512_sub_epi32(_mm512_setzero_si512(), more);
    }
    for (size_t t = 0; t < tiles; t++, y += 16) {
        const __m512 scale = _mm512_loadu_ps(w);
        __m512i sum[8];
        if (T <= 2) prefetch_avx512(w + AHEAD_AVX512, 64);
        QSF_UNROLL
        for (int m = 0; m < T; m++) sum[m] = begin[m];
        w += 64;
        for (size_t j = 0; j < depth; j++, w += 64) {
            const __m512i c = _mm512_xor_si512(load_avx512(w), turn);
            if (T <= 2) prefetch_avx512(w + AHEAD_AVX512, 64);
            QSF_UNROLL
            for (int m = 0; m < T; m++)
                sum[m] = _mm512_dpbusd_epi32(sum[m], c, quad_avx512(q + (size_t)m * ldq, (int)j));
        }
        QSF_UNROLL
        for (int m = 0; m < T; m++) {
            float *to = y + (size_t)m * ldy;
            const __m512 f = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[m]), _mm512_set1_ps(d[(size_t)m * ldd]));
            _mm512_storeu_ps(to, _mm512_fmadd_ps(scale, f, _mm512_loadu_ps(to)));
        }
    }
}

static void add_narrow_avx512(float *y, size_t ldy, const uint8_t *w, size_t depth, size_t tiles,
                              const int8_t *q, size_t ldq, const float *d, size_t ldd, size_t n)
{
    size_t m = 0;
    for (; m + 8 <= n; m += 8)
        narrow_rows_avx512(8, y + m * ldy, ldy, w, depth, tiles, q + m * ldq, ldq, d + m * ldd, ldd);
    for (; m + 2 <= n; m += 2)
        narrow_rows_avx512(2, y + m * ldy, ldy, w, depth, tiles, q + m * ldq, ldq, d + m * ldd, ldd);
    if (m < n) narrow_rows_avx512(1, y + m * ldy, ldy, w, depth, tiles, q + m * ldq, ldq, d + m * ldd, ldd);
}

void qsf_narrow_avx512(qsf_kernels *k) { k->add_narrow = add_narrow_avx512; }

QSF_TARGET_END
#endif
