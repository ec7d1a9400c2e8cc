/* Tiles of TERNARY5 times activations with AVX2: several rows as TERNARY2, one row digit by digit.
 * SPDX-License-Identifier: MIT */
#include "five.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")

#include "tiles_avx2.h"

/* A constant that GCC does not know: it makes two instructions of a comparison with one that it
 * does. */
QSF_TEMPLATE __m256i five_limit_avx2(int v)
{
    __m256i limit = _mm256_set1_epi8((char)v);
    __asm__("" : "+x"(limit));
    return limit;
}
/* x is the remainder after the previous digits, less 128, which multiplying by three preserves: the
 * next digit is the number of limits among 86 and 171 that it reaches. */
QSF_TEMPLATE __m256i five_digit_avx2(__m256i x)
{
    return _mm256_abs_epi8(_mm256_add_epi8(_mm256_cmpgt_epi8(x, five_limit_avx2(85 - 128)),
                                           _mm256_cmpgt_epi8(x, five_limit_avx2(170 - 128))));
}
QSF_TEMPLATE __m256i five_times3_avx2(__m256i x) { return _mm256_add_epi8(x, _mm256_add_epi8(x, x)); }
/* Four vectors' next digits as one vector of TERNARY2. */
QSF_TEMPLATE __m256i five_next_avx2(__m256i x[4])
{
    __m256i two = _mm256_setzero_si256();
    QSF_UNROLL
    for (int f = 0; f < 4; f++) {
        two = _mm256_or_si256(two, _mm256_slli_epi16(five_digit_avx2(x[f]), 2 * f));
        x[f] = five_times3_avx2(x[f]);
    }
    return two;
}

static void five_avx2(uint8_t *two, const uint8_t *five)
{
    const __m256i bias = _mm256_set1_epi8(-128);
    for (int i = 0; i < 64; i += 32) {
        __m256i x[4];
        for (int v = 0; v < 12; v += 4) {
            QSF_UNROLL
            for (int f = 0; f < 4; f++) x[f] = _mm256_xor_si256(load_avx2(five + 64 * (v + f) + i), bias);
            for (int k = 0; k < 5; k++)
                _mm256_storeu_si256((__m256i *)(void *)(two + 64 * (v < 8 ? 2 * k + v / 4 : 10 + k) + i),
                                    five_next_avx2(x));
        }
        x[0] = _mm256_xor_si256(load_avx2(five + 64 * 12 + i), bias);
        QSF_UNROLL
        for (int f = 1; f < 4; f++) x[f] = five_times3_avx2(x[f - 1]);
        _mm256_storeu_si256((__m256i *)(void *)(two + 64 * 15 + i), five_next_avx2(x));
    }
}
/* One row of activations: two digits at a time.  Nine times a byte is 16 bits, of which the upper
 * eight are two digits as a number, 0 to 8, and the lower eight are the digits after them; even and
 * odd bytes are kept apart. */
typedef struct five_halves { __m256i even, odd; } five_halves;
QSF_TEMPLATE __m256i five_numbers_avx2(const five_halves *p)
{
    const __m256i high = _mm256_set1_epi16((short)0xff00);
    return _mm256_or_si256(_mm256_srli_epi16(p->even, 8), _mm256_and_si256(p->odd, high));
}
/* Times 9 or 3, once more. */
QSF_TEMPLATE void five_onward_avx2(five_halves *p, int by)
{
    const __m256i low = _mm256_set1_epi16((short)by);
    p->even = _mm256_maddubs_epi16(p->even, low);
    p->odd = _mm256_maddubs_epi16(p->odd, low);
}
/* Codes of 8 rows' 4 columns times activations, into the 16-bit sums of their 64 columns, which 16
 * pairs of products of at most 254 fit. */
QSF_TEMPLATE void five_times_avx2(__m256i s16[4], __m256i codes, const int8_t *q, int at)
{
    add_here_avx2(&s16[at / 64], _mm256_maddubs_epi16(codes, quad_avx2(q + at, 0)));
}
QSF_TEMPLATE void five_two_avx2(__m256i s16[4], __m256i numbers, const int8_t *q, int at, int step)
{
    const __m256i first = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0));
    const __m256i second = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0));
    five_times_avx2(s16, _mm256_shuffle_epi8(first, numbers), q, at);
    five_times_avx2(s16, _mm256_shuffle_epi8(second, numbers), q, at + step);
}
/* Digits of one vector of 8 rows, `step` columns apart from column `at` on. */
QSF_TEMPLATE void five_digits_avx2(__m256i s16[4], const uint8_t *w, const int8_t *q, int at, int step,
                                   int digits)
{
    const __m256i x = load_avx2(w);
    five_halves p = { _mm256_maddubs_epi16(x, _mm256_set1_epi16(9)),
                      _mm256_maddubs_epi16(x, _mm256_set1_epi16(9 << 8)) };
    five_two_avx2(s16, five_numbers_avx2(&p), q, at, step);
    five_onward_avx2(&p, 9);
    five_two_avx2(s16, five_numbers_avx2(&p), q, at + 2 * step, step);
    if (digits == 4) return;
    five_onward_avx2(&p, 3);
    five_times_avx2(s16, five_numbers_avx2(&p), q, at + 4 * step);
}

/* One block of 8 rows; scale: theirs, of TQ1. */
QSF_TEMPLATE __m256 five_block_avx2(__m256 acc, const uint8_t *w, const int8_t *q, const float *d,
                                    const float *s, const __m256 *scale)
{
    __m256i s16[4];
    QSF_UNROLL
    for (int i = 0; i < 4; i++) s16[i] = _mm256_setzero_si256();
    QSF_UNROLL
    for (int v = 0; v < 8; v++) five_digits_avx2(s16, w + 64 * v, q, 4 * v, 32, 5);
    QSF_UNROLL
    for (int v = 0; v < 4; v++) five_digits_avx2(s16, w + 512 + 64 * v, q, 160 + 4 * v, 16, 5);
    five_digits_avx2(s16, w + 768, q, 240, 4, 4);
    QSF_UNROLL
    for (int i = 0; i < 4; i++) {
        const __m256 sq = _mm256_set1_ps(s[2 * i] + s[2 * i + 1]);
        const __m256 by = _mm256_broadcast_ss(d + i);
        acc = _mm256_fmadd_ps(scale ? _mm256_mul_ps(*scale, by) : by,
                              _mm256_sub_ps(_mm256_cvtepi32_ps(widen_avx2(s16[i])), sq), acc);
    }
    return acc;
}

static void matvec_T5_avx2(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                           uint32_t block)
{
    (void)block;
    for (size_t t = 0; t < tiles; t++, y += 16) {
        __m256 sum[2] = { _mm256_setzero_ps(), _mm256_setzero_ps() };
        for (size_t b = 0; b < blocks;) {
            const size_t end = QSF_MIN(b + QSF_FIVE_BLOCKS, blocks);
            const bool first = b == 0;
            __m256 acc[2] = { _mm256_setzero_ps(), _mm256_setzero_ps() };
            for (; b < end; b++, w += QSF_FIVE_TILE)
                QSF_LOOP
                for (int h = 0; h < 2; h++)
                    acc[h] = five_block_avx2(acc[h], w + 32 * h, x->q + 256 * b, x->d + 4 * b, x->s + 8 * b,
                                             NULL);
            for (int h = 0; h < 2; h++) sum[h] = first ? acc[h] : _mm256_add_ps(sum[h], acc[h]);
        }
        _mm256_storeu_ps(y, sum[0]);
        _mm256_storeu_ps(y + 8, sum[1]);
    }
}

static void matvec_TQ1_avx2(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                            uint32_t block)
{
    (void)block;
    for (size_t t = 0; t < tiles; t++, w += blocks * QSF_TQ1_TILE)
        for (int h = 0; h < 2; h++, y += 8) {
            const uint8_t *tile = w;
            __m256 acc = _mm256_setzero_ps();
            for (size_t b = 0; b < blocks; b++, tile += QSF_TQ1_TILE) {
                const __m256 scale = half8_avx2(tile + 16 * h);
                acc = five_block_avx2(acc, tile + QSF_FIVE_HEAD + 32 * h, x->q + 256 * b, x->d + 4 * b,
                                      x->s + 8 * b, &scale);
            }
            _mm256_storeu_ps(y, acc);
        }
}

static void matmul_T5_avx2(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                           size_t blocks, uint32_t block)
{
    if (x->n == 1) matvec_T5_avx2(y, w, x, tiles, blocks, block);
    else qsf_five_matmul(y, ldy, w, x, tiles, blocks, five_avx2, qsf_matmul_T2_avx2);
}

static void matmul_TQ1_avx2(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                            size_t blocks, uint32_t block)
{
    if (x->n == 1) matvec_TQ1_avx2(y, w, x, tiles, blocks, block);
    else qsf_matmul_TQ1_avx2(y, ldy, w, x, tiles, blocks, block);
}

void qsf_five_fill_avx2(qsf_kernels *k)
{
    k->matvec[QSF_F_T5] = matvec_T5_avx2;
    k->matmul[QSF_F_T5] = matmul_T5_avx2;
    k->matvec[QSF_F_TQ1] = matvec_TQ1_avx2;
    k->matmul[QSF_F_TQ1] = matmul_TQ1_avx2;
}

QSF_TARGET_END
#endif
