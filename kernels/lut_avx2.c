/* Look-ups of 2-bit weights with AVX2: two vectors of 16 rows are one, each with its own tables.
 * SPDX-License-Identifier: MIT */
#include "lut.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")

/* Sums of at most 508 in two bytes: bits 0 to 6, so that two add up in a byte without a sign, and
 * the rest, -4 to 3, so that 32 add up in one with a sign. */
typedef struct lut_pair_avx2 { __m256i low, high; } lut_pair_avx2;
typedef struct lut_tables_avx2 {
    lut_pair_avx2 first[QSF_LUT_COLS / 8], second[QSF_LUT_COLS / 8];    /* of the low and high nibbles */
} lut_tables_avx2;

/* The sums of the pair of columns that both halves of q repeat; values: of the two codes in an
 * index, for indices below 8 and from 8 on. */
static inline lut_pair_avx2 lut_pair_of_avx2(__m256i q, const __m256i values[2])
{
    __m256i t[2];
    for (int i = 0; i < 2; i++)
        t[i] = _mm256_maddubs_epi16(_mm256_abs_epi8(values[i]), _mm256_sign_epi8(q, values[i]));
    const __m256i seven = _mm256_set1_epi16(127);
    return (lut_pair_avx2){
        _mm256_packus_epi16(_mm256_and_si256(t[0], seven), _mm256_and_si256(t[1], seven)),
        _mm256_packs_epi16(_mm256_srai_epi16(t[0], 7), _mm256_srai_epi16(t[1], 7)) };
}

static void lut_fill_avx2(lut_tables_avx2 *to, const int8_t *q, size_t cols, bool four)
{
    __m256i values[2];
    for (int h = 0; h < 2; h++) {
        int8_t v[32];
        for (int j = 0; j < 8; j++) {
            v[2 * j] = v[2 * j + 16] = (int8_t)qsf_lut_value(four, j & 3);
            v[2 * j + 1] = v[2 * j + 17] = (int8_t)qsf_lut_value(four, 2 * h + j / 4);
        }
        values[h] = _mm256_loadu_si256((const __m256i *)(const void *)v);
    }
    const __m256i first = _mm256_setr_epi32(0x01000100, 0x01000100, 0x01000100, 0x01000100, 0x05040504,
                                            0x05040504, 0x05040504, 0x05040504),
        second = _mm256_add_epi8(first, _mm256_set1_epi8(2));
    for (size_t i = 0; i < cols / 8; i++) {
        int64_t eight;
        memcpy(&eight, q + 8 * i, 8);
        const __m256i a = _mm256_set1_epi64x(eight);
        to->first[i] = lut_pair_of_avx2(_mm256_shuffle_epi8(a, first), values);
        to->second[i] = lut_pair_of_avx2(_mm256_shuffle_epi8(a, second), values);
    }
}

/* Bytes of even and odd rows in 16-bit lanes: since they are unsigned, a second sum of the odd rows
 * alone is subtracted from the first. */
typedef struct lut_sum_avx2 { __m256i both, odd, high; } lut_sum_avx2;

QSF_TEMPLATE void lut_add_avx2(lut_sum_avx2 *s, const uint8_t *w, const lut_pair_avx2 *first,
                               const lut_pair_avx2 *second)
{
    const __m256i c = _mm256_loadu_si256((const __m256i *)(const void *)w), nibble = _mm256_set1_epi8(15),
        i = _mm256_and_si256(c, nibble), j = _mm256_and_si256(_mm256_srli_epi16(c, 4), nibble);
    const __m256i low = _mm256_add_epi8(_mm256_shuffle_epi8(first->low, i),
                                        _mm256_shuffle_epi8(second->low, j));
    s->both = _mm256_add_epi16(s->both, low);
    s->odd = _mm256_add_epi16(s->odd, _mm256_srli_epi16(low, 8));
    s->high = _mm256_add_epi8(s->high, _mm256_add_epi8(_mm256_shuffle_epi8(first->high, i),
                                                       _mm256_shuffle_epi8(second->high, j)));
}

QSF_TEMPLATE __m128i lut_halves_avx2(__m256i v)
{
    return _mm_add_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}
/* acc + d * sums, of rows 0 to 7 and 8 to 15. */
QSF_TEMPLATE void lut_end_avx2(__m256 acc[2], const lut_sum_avx2 *s, __m256 d)
{
    const __m256i even_low = _mm256_sub_epi16(s->both, _mm256_slli_epi16(s->odd, 8)),
        even_high = _mm256_srai_epi16(_mm256_slli_epi16(s->high, 8), 1),
        odd_high = _mm256_slli_epi16(_mm256_srai_epi16(s->high, 8), 7);
    const __m128i even = lut_halves_avx2(_mm256_add_epi16(even_low, even_high)),
        odd = lut_halves_avx2(_mm256_add_epi16(s->odd, odd_high));
    acc[0] = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_unpacklo_epi16(even, odd))),
                             acc[0]);
    acc[1] = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_unpackhi_epi16(even, odd))),
                             acc[1]);
}

/* T tile rows, `row` bytes apart, from a part's first byte on. */
QSF_TEMPLATE void lut_rows_avx2(float *y, const uint8_t *w, size_t row, int T, const lut_tables_avx2 *tables,
                                const float *d, size_t n, bool begin)
{
    __m256 acc[2][2];
    QSF_UNROLL
    for (int t = 0; t < T; t++)
        for (int h = 0; h < 2; h++)
            acc[t][h] = begin ? _mm256_setzero_ps() : _mm256_loadu_ps(y + 16 * t + 8 * h);
    const lut_pair_avx2 *first = tables->first, *second = tables->second;
    for (size_t p = 0; p < 4 * n; p++, w += 256, first += 8, second += 8) {
        lut_sum_avx2 s[2];
        QSF_UNROLL
        for (int t = 0; t < T; t++) s[t].both = s[t].odd = s[t].high = _mm256_setzero_si256();
        QSF_UNROLL
        for (int v = 0; v < 8; v++)
            QSF_UNROLL
            for (int t = 0; t < T; t++)
                lut_add_avx2(&s[t], w + (size_t)t * row + 32 * v, first + v, second + v);
        QSF_UNROLL
        for (int t = 0; t < T; t++) lut_end_avx2(acc[t], &s[t], _mm256_broadcast_ss(d + p));
    }
    QSF_UNROLL
    for (int t = 0; t < T; t++)
        for (int h = 0; h < 2; h++) _mm256_storeu_ps(y + 16 * t + 8 * h, acc[t][h]);
}

static void lut_part_avx2(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t at, size_t n,
                          size_t blocks, bool four)
{
    lut_tables_avx2 tables;
    const size_t row = blocks * QSF_LUT_TILE;
    const float *d = x->d + 4 * at;
    lut_fill_avx2(&tables, x->q + 256 * at, 256 * n, four);
    w += at * QSF_LUT_TILE;
    size_t t = 0;
    for (; t + 2 <= tiles; t += 2) lut_rows_avx2(y + 16 * t, w + t * row, row, 2, &tables, d, n, at == 0);
    if (t < tiles) lut_rows_avx2(y + 16 * t, w + t * row, row, 1, &tables, d, n, at == 0);
}

static void matvec_lut_avx2(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                            bool four)
{
    qsf_lut_parts(y, w, x, tiles, blocks, four, lut_part_avx2);
}

void qsf_lut_avx2(qsf_kernels *k) { k->matvec_lut = matvec_lut_avx2; }

QSF_TARGET_END
#endif
