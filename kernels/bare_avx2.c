/* Tiles without scales times many rows of activations with AVX2: codes become bytes once for all
 * rows, and four rows at a time meet both halves of a tile with their sums in registers.
 * SPDX-License-Identifier: MIT */
#include "five.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")
#include "tiles_avx2.h"

enum { BARE_BLOCKS = 2, BARE_ROWS = 4 };    /* unpacked in half of the first cache; at once */

/* Codes of two blocks as bytes: [column / 4][16 rows][4]. */
typedef struct bare_codes { uint8_t byte[BARE_BLOCKS * 64][64]; } bare_codes;

QSF_TEMPLATE void bare_unpack_avx2(bare_codes *to, qsf_form form, const uint8_t *w, size_t blocks)
{
    for (size_t i = 0; i < 8 * blocks; i++, w += 128)
        QSF_UNROLL
        for (int half = 0; half < 64; half += 32) {
            source_avx2 from = { 0 };
            QSF_UNROLL
            for (int j = 0; j < 8; j++)
                _mm256_store_si256((__m256i *)(void *)(to->byte[8 * i + (size_t)j] + half),
                                   code_avx2(&from, w + half, j, form));
        }
}

/* T rows of activations times 64 columns: sums in 16 bits, which 16 times 2 * 4 * 127 fit. */
QSF_TEMPLATE void bare_sums_avx2(__m256i sum[BARE_ROWS][2], int T, const uint8_t (*code)[64], const int8_t *q,
                                 size_t ldq)
{
    QSF_UNROLL
    for (int t = 0; t < T; t++) sum[t][0] = sum[t][1] = _mm256_setzero_si256();
    QSF_LOOP
    for (int k = 0; k < 16; k += 8, q += 32)
        QSF_UNROLL
        for (int j = 0; j < 8; j++) {
            const __m256i a = load_avx2(code[k + j]), b = load_avx2(code[k + j] + 32);
            QSF_UNROLL
            for (int t = 0; t < T; t++) {
                const __m256i x = quad_avx2(q + (size_t)t * ldq, j);
                add_here_avx2(&sum[t][0], _mm256_maddubs_epi16(a, x));
                add_here_avx2(&sum[t][1], _mm256_maddubs_epi16(b, x));
            }
        }
}

/* T rows from row m on times unpacked blocks, whose columns begin at `at`.  The steps of
 * value_avx2. */
QSF_TEMPLATE void bare_rows_avx2(float *y, size_t ldy, qsf_form form, int T, const bare_codes *codes,
                                 size_t blocks, const qsf_act *x, size_t m, size_t at)
{
    const int8_t *q = x->q + m * x->cols + at;
    const float *d = x->d + (m * x->cols + at) / 64, *s = x->s + (m * x->cols + at) / 32;
    const __m256 off = _mm256_set1_ps((float)qsf_form_offset(form));
    __m256 acc[BARE_ROWS][2];
    QSF_UNROLL
    for (int t = 0; t < T; t++)
        QSF_UNROLL
        for (int h = 0; h < 2; h++)
            acc[t][h] = at ? _mm256_loadu_ps(y + (size_t)t * ldy + 8 * h) : _mm256_setzero_ps();
    for (size_t p = 0; p < 4 * blocks; p++, q += 64, d++, s += 2) {
        __m256i sum[BARE_ROWS][2];
        bare_sums_avx2(sum, T, codes->byte + 16 * p, q, x->cols);
        QSF_UNROLL
        for (int t = 0; t < T; t++) {
            const float *row = s + (size_t)t * (x->cols / 32);
            const __m256 by = _mm256_broadcast_ss(d + (size_t)t * (x->cols / 64)),
                taken = _mm256_mul_ps(off, _mm256_set1_ps(row[0] + row[1]));
            QSF_UNROLL
            for (int h = 0; h < 2; h++) {
                const __m256 f = _mm256_cvtepi32_ps(widen_avx2(sum[t][h]));
                acc[t][h] = _mm256_fmadd_ps(by, _mm256_sub_ps(f, taken), acc[t][h]);
            }
        }
    }
    QSF_UNROLL
    for (int t = 0; t < T; t++)
        QSF_UNROLL
        for (int h = 0; h < 2; h++) _mm256_storeu_ps(y + (size_t)t * ldy + 8 * h, acc[t][h]);
}

QSF_TEMPLATE void bare_any_avx2(qsf_form form, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                                size_t tiles, size_t blocks)
{
    const size_t band = qsf_band_rows(x->cols);
    _Alignas(32) bare_codes codes;
    for (size_t from = 0; from < x->n; from += band)
        for (size_t t = 0; t < tiles; t++)
            for (size_t b = 0; b < blocks; b += BARE_BLOCKS) {
                const size_t some = QSF_MIN(blocks - b, (size_t)BARE_BLOCKS),
                             end = QSF_MIN(x->n, from + band);
                float *to = y + 16 * t;
                size_t m = from;
                bare_unpack_avx2(&codes, form, w + (t * blocks + b) * QSF_FIVE_TWO, some);
                for (; m + 4 <= end; m += 4)
                    bare_rows_avx2(to + m * ldy, ldy, form, 4, &codes, some, x, m, 256 * b);
                for (; m + 2 <= end; m += 2)
                    bare_rows_avx2(to + m * ldy, ldy, form, 2, &codes, some, x, m, 256 * b);
                for (; m < end; m++) bare_rows_avx2(to + m * ldy, ldy, form, 1, &codes, some, x, m, 256 * b);
            }
}

void qsf_bare_T2_avx2(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks)
{
    bare_any_avx2(QSF_F_T2, y, ldy, w, x, tiles, blocks);
}
void qsf_bare_QK256_avx2(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                         size_t blocks)
{
    bare_any_avx2(QSF_F_QK256, y, ldy, w, x, tiles, blocks);
}

QSF_TARGET_END
#endif
