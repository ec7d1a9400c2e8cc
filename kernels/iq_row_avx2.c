/* GGUF's codebook types times one row of activations with AVX2: with a single row nothing is
 * reused, so entries are loaded whole, 32 columns of a row of weights per vector.
 * SPDX-License-Identifier: MIT */
#include "iq.h"
#include "tensor/codebooks.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")
#include "tiles_avx2.h"

/* A tile's rows in the form used by the product: see qsf_iq_tile. */
typedef struct iq_row_avx2 {
    uint32_t at[8][4][16];      /* [group of 32]: pairs of indices, unless the tile holds them as bytes */
    uint32_t sign[8][16];       /* unless the tile holds them as words */
    uint32_t scale[8][16];      /* of the first 16 columns, of the second ones in the upper half */
    int32_t  rest[8][16];       /* IQ1: what deltas and the codes' offset add */
    float    d[16];
} iq_row_avx2;

/* Types whose entries have four columns; whose indices are bytes; whose signs are whole; whose 16
 * columns have scales of their own. */
QSF_TEMPLATE bool iq_fours_avx2(qsf_form f) { return f == QSF_F_IQ3XXS || f == QSF_F_IQ3S; }
QSF_TEMPLATE bool iq_bytes_avx2(qsf_form f) { return f == QSF_F_IQ2XXS || f == QSF_F_IQ3XXS; }
QSF_TEMPLATE bool iq_whole_avx2(qsf_form f) { return f == QSF_F_IQ2S || f == QSF_F_IQ3S; }
QSF_TEMPLATE bool iq_halves_avx2(qsf_form f)
{
    return f == QSF_F_IQ2XS || f == QSF_F_IQ2S || f == QSF_F_IQ1M;
}

/* ---- decoding a tile's fields, eight rows at a time ---- */

QSF_TEMPLATE void iq_put_avx2(void *to, __m256i v) { _mm256_storeu_si256((__m256i *)to, v); }
QSF_TEMPLATE __m256i iq_and_avx2(__m256i v, uint32_t mask)
{
    return _mm256_and_si256(v, _mm256_set1_epi32((int)mask));
}
/* 2 n + 1 of numbers in 16-bit lanes. */
QSF_TEMPLATE __m256i iq_odd_avx2(__m256i n)
{
    return _mm256_or_si256(_mm256_add_epi16(n, n), _mm256_set1_epi16(1));
}
/* Bits 0 and up of v, and those from bit `second` on in the upper half. */
QSF_TEMPLATE __m256i iq_split_avx2(__m256i v, int second)
{
    return _mm256_or_si256(v, _mm256_slli_epi32(v, 16 - second));
}
/* Bytes 0 and 1 of each word as halves, or 2 and 3. */
QSF_TEMPLATE __m256i iq_bytes16_avx2(__m256i v, int last)
{
    const __m256i low = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1));
    const __m256i high = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15, -1));
    return _mm256_shuffle_epi8(v, last ? high : low);
}
/* Seven signs a byte; the eighth makes their number even. */
QSF_TEMPLATE __m256i iq_eighth_sign_avx2(__m256i s)
{
    const __m256i odd = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
    const __m256i folded = iq_and_avx2(_mm256_xor_si256(s, _mm256_srli_epi16(s, 4)), 0x0f0f0f0f);
    return _mm256_or_si256(s, _mm256_shuffle_epi8(odd, folded));
}
/* The word of IQ2_XXS and IQ3_XXS: four times seven signs, and a scale. */
QSF_TEMPLATE void iq_word_avx2(iq_row_avx2 *to, int g, int r, __m256i w)
{
    const __m256i fourteens = _mm256_or_si256(iq_and_avx2(w, 0x3fff),
                                              iq_and_avx2(_mm256_slli_epi32(w, 2), 0x3fff0000)),
        sevens = _mm256_add_epi16(fourteens, iq_and_avx2(fourteens, 0x3f803f80)),
        scale = _mm256_srli_epi32(w, 28);
    iq_put_avx2(to->sign[g] + r, iq_eighth_sign_avx2(sevens));
    iq_put_avx2(to->scale[g] + r, iq_odd_avx2(iq_split_avx2(scale, 0)));
}
/* Two indices of a word's low bytes or high ones, with n more bits of each: those of the first from
 * bit `at` of more on. */
QSF_TEMPLATE void iq_pair_avx2(uint32_t *to, __m256i low, int last, __m256i more, int at, int n)
{
    const uint32_t mask = (1u << n) - 1;
    const __m256i up = at <= 8 ? _mm256_slli_epi32(more, 8 - at) : _mm256_srli_epi32(more, at - 8);
    iq_put_avx2(to, _mm256_or_si256(iq_bytes16_avx2(low, last), iq_and_avx2(up, mask << 8 | mask << 24)));
}
/* Sums of 8 activations each as words of two: those of columns 0 and 16 on, and of 8 and 24 on. */
QSF_TEMPLATE void iq_eighths_avx2(uint32_t to[2], __m256i q)
{
    const __m256i sum = _mm256_sub_epi64(
        _mm256_sad_epu8(_mm256_xor_si256(q, _mm256_set1_epi8(-128)), _mm256_setzero_si256()),
        _mm256_set1_epi64x(8 * 128));
    const __m128i two = _mm_blend_epi16(_mm256_castsi256_si128(sum),
                                        _mm_slli_epi64(_mm256_extracti128_si256(sum, 1), 16), 0x22);
    to[0] = (uint32_t)_mm_cvtsi128_si32(two);
    to[1] = (uint32_t)_mm_extract_epi32(two, 2);
}
/* IQ1's rest of 32 columns.  even, odd: 1 if the delta of columns 0 and 16 on, 8 and 24 on is
 * negative: codes are 8 * field - 8 +- 1. */
QSF_TEMPLATE __m256i iq_rest_avx2(__m256i even, __m256i odd, __m256i scale, const uint32_t eighths[2])
{
    const __m256i one = _mm256_set1_epi16(-7);
    even = _mm256_sub_epi16(one, _mm256_add_epi16(even, even));
    odd = _mm256_sub_epi16(one, _mm256_add_epi16(odd, odd));
    /* 2 * 9 * 8 * 127 fit 16 bits */
    return _mm256_madd_epi16(
        _mm256_add_epi16(_mm256_mullo_epi16(even, _mm256_set1_epi32((int)eighths[0])),
                         _mm256_mullo_epi16(odd, _mm256_set1_epi32((int)eighths[1]))), scale);
}

#define WORDS(n) load_avx2(w + 16 * (n) + 4 * r)
#define HALVES(n) shorts8_avx2(w + 16 * (n) + 2 * r)
#define BYTES(n) bytes8_avx2(w + 16 * (n) + r)
/* Rows r to r + 7 of group g. */
QSF_TEMPLATE void iq_read_iq2_avx2(iq_row_avx2 *to, qsf_form f, const uint8_t *w, int g, int r)
{
    if (f == QSF_F_IQ2XXS) {
        iq_word_avx2(to, g, r, WORDS(6 + 8 * g));
        return;
    }
    if (f == QSF_F_IQ2XS) {
        const __m256i a = WORDS(2 + 8 * g), b = WORDS(6 + 8 * g);
        const __m256i rows = _mm256_broadcastsi128_si256(
            _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
        iq_put_avx2(to->at[g][0] + r, iq_and_avx2(a, 0x1ff01ff));
        iq_put_avx2(to->at[g][1] + r, iq_and_avx2(b, 0x1ff01ff));
        const __m256i s = _mm256_packus_epi16(_mm256_srli_epi16(a, 9), _mm256_srli_epi16(b, 9));
        iq_put_avx2(to->sign[g] + r, iq_eighth_sign_avx2(_mm256_shuffle_epi8(s, rows)));
    } else {
        const __m256i more = iq_split_avx2(BYTES(66 + g), 2);
        iq_pair_avx2(to->at[g][0] + r, WORDS(2 + 4 * g), 0, more, 0, 2);
        iq_pair_avx2(to->at[g][1] + r, WORDS(2 + 4 * g), 1, more, 4, 2);
    }
    const __m256i s = iq_split_avx2(BYTES((f == QSF_F_IQ2XS ? 66 : 74) + g), 4);
    iq_put_avx2(to->scale[g] + r, iq_odd_avx2(iq_and_avx2(s, 0xf000f)));
}
QSF_TEMPLATE void iq_read_iq3_avx2(iq_row_avx2 *to, qsf_form f, const uint8_t *w, int g, int r)
{
    if (f == QSF_F_IQ3XXS) {
        iq_word_avx2(to, g, r, WORDS(66 + 4 * g));
        return;
    }
    const __m256i more = iq_split_avx2(BYTES(66 + g), 1),
        s = _mm256_srl_epi32(BYTES(106 + g / 2), _mm_cvtsi32_si128(4 * (g % 2)));
    iq_pair_avx2(to->at[g][0] + r, WORDS(2 + 8 * g), 0, more, 0, 1);
    iq_pair_avx2(to->at[g][1] + r, WORDS(2 + 8 * g), 1, more, 2, 1);
    iq_pair_avx2(to->at[g][2] + r, WORDS(6 + 8 * g), 0, more, 4, 1);
    iq_pair_avx2(to->at[g][3] + r, WORDS(6 + 8 * g), 1, more, 6, 1);
    iq_put_avx2(to->scale[g] + r, iq_odd_avx2(iq_and_avx2(iq_split_avx2(s, 0), 0xf000f)));
}
QSF_TEMPLATE void iq_read_iq1_avx2(iq_row_avx2 *to, qsf_form f, const uint8_t *w, int g, int r,
                                   const uint32_t eighths[2])
{
    const int bits = f == QSF_F_IQ1S ? 3 : 4;       /* from one index's three more bits to the next's */
    const __m256i low = WORDS((f == QSF_F_IQ1S ? 2 : 0) + 4 * g),
        h = HALVES((f == QSF_F_IQ1S ? 34 : 32) + 2 * g), more = iq_split_avx2(h, bits);
    __m256i even, odd, scale;
    iq_pair_avx2(to->at[g][0] + r, low, 0, more, 0, 3);
    iq_pair_avx2(to->at[g][1] + r, low, 1, more, 2 * bits, 3);
    if (f == QSF_F_IQ1S) {
        scale = iq_split_avx2(_mm256_srli_epi32(h, 12), 0);
        even = odd = iq_split_avx2(_mm256_srli_epi32(h, 15), 0);
    } else {
        const __m256i delta = iq_split_avx2(h, 8);
        even = iq_and_avx2(_mm256_srli_epi32(delta, 3), 0x10001);
        odd = iq_and_avx2(_mm256_srli_epi32(delta, 7), 0x10001);
        scale = iq_split_avx2(_mm256_srl_epi32(HALVES(48 + g / 2 * 2), _mm_cvtsi32_si128(6 * (g % 2))), 3);
    }
    scale = iq_odd_avx2(iq_and_avx2(scale, 0x70007));
    iq_put_avx2(to->scale[g] + r, scale);
    iq_put_avx2(to->rest[g] + r, iq_rest_avx2(even, odd, scale, eighths));
}
/* Rows' factors: fp16, of which IQ1_M keeps a nibble on top of each four scales. */
QSF_TEMPLATE void iq_factors_avx2(float *d, qsf_form f, const uint8_t *w)
{
    const float by = f == QSF_F_IQ3S ? 1 : f == QSF_F_IQ3XXS ? 0.25f : 0.125f;
    __m256i half = load_avx2(w);
    if (f == QSF_F_IQ1M) {
        half = _mm256_setzero_si256();
        QSF_UNROLL
        for (int i = 0; i < 4; i++) {
            const __m256i nibble = _mm256_srli_epi16(load_avx2(w + 16 * (48 + 2 * i)), 12);
            half = _mm256_or_si256(half, _mm256_slli_epi16(nibble, 4 * i));
        }
    }
    const __m256 low = _mm256_cvtph_ps(_mm256_castsi256_si128(half)),
        high = _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1));
    _mm256_storeu_ps(d, _mm256_mul_ps(_mm256_set1_ps(by), low));
    _mm256_storeu_ps(d + 8, _mm256_mul_ps(_mm256_set1_ps(by), high));
}
/* q: the activations of its columns. */
QSF_TEMPLATE void iq_read_row_avx2(iq_row_avx2 *to, qsf_form f, const uint8_t *w, const int8_t *q)
{
    iq_factors_avx2(to->d, f, w);
    QSF_LOOP
    for (int g = 0; g < 8; g++) {
        uint32_t eighths[2];
        if (qsf_iq_kind_of(f) == QSF_IQ1) iq_eighths_avx2(eighths, load_avx2(q + 32 * g));
        QSF_UNROLL
        for (int r = 0; r < 16; r += 8) {
            if (qsf_iq_kind_of(f) == QSF_IQ1) iq_read_iq1_avx2(to, f, w, g, r, eighths);
            else if (iq_fours_avx2(f)) iq_read_iq3_avx2(to, f, w, g, r);
            else iq_read_iq2_avx2(to, f, w, g, r);
        }
    }
}
#undef WORDS
#undef HALVES
#undef BYTES

/* ---- products ---- */

/* Index i of row r in group g. */
QSF_TEMPLATE size_t iq_index_avx2(const iq_row_avx2 *a, qsf_form f, const uint8_t *w, int g, int i, int r)
{
    if (iq_bytes_avx2(f)) return w[16 * (2 + 8 * g + i / 4 * 4) + 4 * r + i % 4];
    uint16_t v;
    memcpy(&v, (const uint8_t *)&a->at[g][i / 2][r] + 2 * (i % 2), sizeof v);
    return v;
}
/* Codes of row r for 16 columns from entry i on. */
QSF_TEMPLATE __m128i iq_codes16_avx2(const iq_row_avx2 *a, qsf_form f, const uint8_t *w, int g, int i, int r)
{
    if (iq_fours_avx2(f)) {
        const uint32_t *codes = f == QSF_F_IQ3S ? qsf_iq3_s_codes : qsf_iq3_xxs_codes;
        __m128i v = _mm_cvtsi32_si128((int)codes[iq_index_avx2(a, f, w, g, i, r)]);
        v = _mm_insert_epi32(v, (int)codes[iq_index_avx2(a, f, w, g, i + 1, r)], 1);
        v = _mm_insert_epi32(v, (int)codes[iq_index_avx2(a, f, w, g, i + 2, r)], 2);
        return _mm_insert_epi32(v, (int)codes[iq_index_avx2(a, f, w, g, i + 3, r)], 3);
    }
    const uint64_t *codes = f == QSF_F_IQ2XXS ? qsf_iq2_xxs_codes : f == QSF_F_IQ2XS ? qsf_iq2_xs_codes
        : f == QSF_F_IQ2S ? qsf_iq2_s_codes : qsf_iq1_codes;
    const uint64_t *first = codes + iq_index_avx2(a, f, w, g, i, r),
        *second = codes + iq_index_avx2(a, f, w, g, i + 1, r);
    const __m128i low = _mm_loadl_epi64((const __m128i *)(const void *)first);
    return _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(low), (const __m64 *)(const void *)second));
}
/* 32 columns of row r: eight sums of products times scales. */
QSF_TEMPLATE __m256i iq_unit_avx2(const iq_row_avx2 *a, qsf_form f, const uint8_t *w, int g, int r, __m256i q)
{
    const __m128i low = iq_codes16_avx2(a, f, w, g, 0, r),
        high = iq_codes16_avx2(a, f, w, g, iq_fours_avx2(f) ? 4 : 2, r);
    const __m256i codes = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    __m256i by = _mm256_set1_epi32((int)a->scale[g][r]);
    if (qsf_iq_kind_of(f) != QSF_IQ1) {
        /* the byte of bit i for column i of 8; that bit becomes the sign of a byte that is never 0:
         * 128 less the bit, and 1 under the highest one */
        const __m256i spread = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202,
                                                  0x0303030303030303);
        const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201),
            rest = _mm256_set1_epi64x(0x01406070787c7e7f);
        int32_t s;
        memcpy(&s, iq_whole_avx2(f) ? w + 16 * ((f == QSF_F_IQ2S ? 34 : 74) + 4 * g) + 4 * r
               : (const uint8_t *)&a->sign[g][r], sizeof s);
        const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(s), spread);
        q = _mm256_sign_epi8(q, _mm256_add_epi8(_mm256_and_si256(bytes, bit), rest));
    }
    if (iq_halves_avx2(f))
        by = _mm256_shuffle_epi8(by, _mm256_setr_epi64x(0x0100010001000100, 0x0100010001000100,
                                                        0x0302030203020302, 0x0302030203020302));
    return _mm256_madd_epi16(_mm256_maddubs_epi16(codes, q), by);
}

/* The sums of eight vectors' lanes. */
QSF_TEMPLATE __m256i iq_sums_avx2(const __m256i v[8])
{
    __m256i two[4], four[2];
    QSF_UNROLL
    for (int i = 0; i < 4; i++)
        two[i] = _mm256_add_epi32(_mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                  _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    QSF_UNROLL
    for (int i = 0; i < 2; i++)
        four[i] = _mm256_add_epi32(_mm256_unpacklo_epi64(two[2 * i], two[2 * i + 1]),
                                   _mm256_unpackhi_epi64(two[2 * i], two[2 * i + 1]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(four[0], four[1], 0x20),
                            _mm256_permute2x128_si256(four[0], four[1], 0x31));
}

/* A tile times the 256 columns whose activations are at q and scales at d. */
QSF_TEMPLATE void iq_tile_row_avx2(__m256 acc[2], qsf_form f, const uint8_t *w, const int8_t *q,
                                   const float *d)
{
    iq_row_avx2 a;
    iq_read_row_avx2(&a, f, w, q);
    for (int g = 0; g < 8; g += 2, q += 64, d++)
        for (int r = 0; r < 16; r += 8) {
            const __m256i q0 = load_avx2(q), q1 = load_avx2(q + 32);
            __m256i v[8];
            QSF_UNROLL
            for (int i = 0; i < 8; i++)
                v[i] = _mm256_add_epi32(iq_unit_avx2(&a, f, w, g, r + i, q0),
                                        iq_unit_avx2(&a, f, w, g + 1, r + i, q1));
            __m256i sum = iq_sums_avx2(v);
            if (qsf_iq_kind_of(f) == QSF_IQ1)
                sum = _mm256_add_epi32(sum, _mm256_add_epi32(load_avx2(a.rest[g] + r),
                                                             load_avx2(a.rest[g + 1] + r)));
            acc[r / 8] = _mm256_fmadd_ps(
                _mm256_broadcast_ss(d), _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_loadu_ps(a.d + r)),
                acc[r / 8]);
        }
}

QSF_TEMPLATE void iq_matvec_avx2(qsf_form f, float *y, const uint8_t *w, const qsf_act *x, size_t tiles,
                                 size_t blocks)
{
    const size_t bytes = qsf_tile_bytes(f, 256);
    for (size_t t = 0; t < tiles; t++, y += 16) {
        __m256 acc[2] = { _mm256_setzero_ps(), _mm256_setzero_ps() };
        for (size_t b = 0; b < blocks; b++, w += bytes)
            iq_tile_row_avx2(acc, f, w, x->q + 256 * b, x->d + 4 * b);
        _mm256_storeu_ps(y, acc[0]);
        _mm256_storeu_ps(y + 8, acc[1]);
    }
}

#define FORM_AVX2(F)                                                                                      \
    static void row_##F##_avx2(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks) \
    { iq_matvec_avx2(QSF_F_##F, y, w, x, tiles, blocks); }
QSF_EACH_IQ_FORM(FORM_AVX2)
#undef FORM_AVX2

void qsf_iq_matvec_avx2(qsf_form f, float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks)
{
#define FORM_AVX2(F) case QSF_F_##F: row_##F##_avx2(y, w, x, tiles, blocks); break;
    switch (f) {
    QSF_EACH_IQ_FORM(FORM_AVX2)
    default: break;
    }
#undef FORM_AVX2
}

QSF_TARGET_END
#endif
