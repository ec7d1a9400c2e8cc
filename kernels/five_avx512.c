/* Tiles of TERNARY5 times activations with AVX-512 VNNI.
 * SPDX-License-Identifier: MIT
 *
 * One row does not need the digits.  The remainder after the first k digits of a byte is X(k) =
 * 3^k X mod 256, and digit k is (3 X(k) - X(k+1)) / 256, so that the sum of digits times
 * activations is (3 * sum of X(k) q - sum of X(k+1) q) / 256: this is exact, and a product takes
 * one instruction. */
#include "five.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")

#include "tiles_avx512.h"

QSF_TEMPLATE __m512i times3_avx512(__m512i x) { return _mm512_add_epi8(x, _mm512_add_epi8(x, x)); }

/* Four vectors' next digits as one vector of TERNARY2. */
QSF_TEMPLATE __m512i five_next_avx512(__m512i x[4])
{
    __m512i two = _mm512_setzero_si512();
    QSF_UNROLL
    for (int f = 0; f < 4; f++) {
        const __mmask64 one = _mm512_cmpgt_epu8_mask(x[f], _mm512_set1_epi8(85)),
            more = _mm512_cmpgt_epu8_mask(x[f], _mm512_set1_epi8((char)170));
        const __m512i by = _mm512_set1_epi8((char)(1 << 2 * f));
        two = _mm512_mask_add_epi8(two, one, two, by);
        two = _mm512_mask_add_epi8(two, more, two, by);
        x[f] = times3_avx512(x[f]);
    }
    return two;
}
static void five_avx512(uint8_t *two, const uint8_t *five)
{
    __m512i x[4];
    for (int v = 0; v < 12; v += 4) {
        QSF_UNROLL
        for (int f = 0; f < 4; f++) x[f] = load_avx512(five + 64 * (v + f));
        for (int k = 0; k < 5; k++)
            _mm512_storeu_si512(two + 64 * (v < 8 ? 2 * k + v / 4 : 10 + k), five_next_avx512(x));
    }
    x[0] = load_avx512(five + 64 * 12);
    QSF_UNROLL
    for (int f = 1; f < 4; f++) x[f] = times3_avx512(x[f - 1]);
    _mm512_storeu_si512(two + 64 * 15, five_next_avx512(x));
}

/* Digits of one vector, `step` columns apart, the first at q: sums of X(k) q and of X(k+1) q for
 * each 64 columns. */
QSF_TEMPLATE void five_digits_avx512(__m512i a[4], __m512i b[4], const uint8_t *w, const int8_t *q, int at,
                                     int step, int digits)
{
    __m512i x = load_avx512(w);
    QSF_UNROLL
    for (int k = 0; k < digits; k++) {
        const int part = (at + step * k) / 64;
        const __m512i quad = quad_avx512(q + at + step * k, 0), next = times3_avx512(x);
        a[part] = _mm512_dpbusd_epi32(a[part], x, quad);
        b[part] = _mm512_dpbusd_epi32(b[part], next, quad);
        x = next;
    }
}

QSF_TEMPLATE __m512 five_block_avx512(__m512 acc, const uint8_t *w, const int8_t *q, const float *d,
                                      const float *s)
{
    __m512i a[4], b[4];
    QSF_UNROLL
    for (int i = 0; i < 4; i++) a[i] = b[i] = _mm512_setzero_si512();
    QSF_UNROLL
    for (int v = 0; v < 8; v++) five_digits_avx512(a, b, w + 64 * v, q, 4 * v, 32, 5);
    QSF_UNROLL
    for (int v = 0; v < 4; v++) five_digits_avx512(a, b, w + 512 + 64 * v, q, 160 + 4 * v, 16, 5);
    five_digits_avx512(a, b, w + 768, q, 240, 4, 4);
    QSF_UNROLL
    for (int i = 0; i < 4; i++) {
        const __m512i three = _mm512_add_epi32(a[i], _mm512_slli_epi32(a[i], 1));
        const __m512 sum = _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_sub_epi32(three, b[i]), 8));
        const __m512 f = _mm512_sub_ps(sum, _mm512_set1_ps(s[2 * i] + s[2 * i + 1]));
        acc = _mm512_fmadd_ps(_mm512_set1_ps(d[i]), f, acc);
    }
    return acc;
}

static void matvec_T5_avx512(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                             uint32_t block)
{
    (void)block;
    for (size_t t = 0; t < tiles; t++, y += 16) {
        __m512 sum = _mm512_setzero_ps();
        for (size_t b = 0; b < blocks;) {
            const size_t end = QSF_MIN(b + QSF_FIVE_BLOCKS, blocks);
            const bool first = b == 0;
            __m512 acc = _mm512_setzero_ps();
            for (; b < end; b++, w += QSF_FIVE_TILE)
                acc = five_block_avx512(acc, w, x->q + 256 * b, x->d + 4 * b, x->s + 8 * b);
            sum = first ? acc : _mm512_add_ps(sum, acc);
        }
        _mm512_storeu_ps(y, sum);
    }
}

static void matmul_T5_avx512(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                             size_t blocks, uint32_t block)
{
    if (x->n == 1) matvec_T5_avx512(y, w, x, tiles, blocks, block);
    else qsf_five_matmul(y, ldy, w, x, tiles, blocks, five_avx512, qsf_matmul_T2_avx512);
}

void qsf_five_fill_avx512(qsf_kernels *k)
{
    k->matvec[QSF_F_T5] = matvec_T5_avx512;
    k->matmul[QSF_F_T5] = matmul_T5_avx512;
}

QSF_TARGET_END
#endif
