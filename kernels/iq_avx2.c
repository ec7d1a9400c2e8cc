/* GGUF's codebook types times activations with AVX2: entries become bytes by shuffles, and the
 * scales are factors of the widening sum.
 * SPDX-License-Identifier: MIT */
#include "iq.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")
#include "tiles_avx2.h"
#define IQ_SET(name) name##_avx2
#define IQ_WIDE 32
#include "iq_read.h"

/* rows of activations at a time, of all that pass by a few tiles that were read once */
enum { TOKENS_IQ_AVX2 = 8, TILES_IQ_AVX2 = 4 };

QSF_TEMPLATE __m256i iq_table_avx2(qsf_iq_kind kind, int high, __m256i nibbles)
{
    const __m128i table = _mm_loadu_si128((const __m128i *)(const void *)qsf_iq_codes[kind][high]);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), nibbles);
}

/* Sizes of 16 columns of 8 rows, whose first entries are at entry and second ones at entry + 16:
 * byte 4 r + b of c[i] is column 4 b + i. */
QSF_TEMPLATE void iq_sizes_avx2(__m256i c[4], qsf_iq_kind kind, const uint32_t *entry)
{
    const __m256i low4 = _mm256_set1_epi8(15), a = load_avx2(entry);
    if (kind == QSF_IQ1 || kind == QSF_IQ2) {
        const __m256i low = _mm256_and_si256(a, low4), high = _mm256_and_si256(_mm256_srli_epi16(a, 4), low4);
        c[0] = iq_table_avx2(kind, 0, low);
        c[1] = iq_table_avx2(kind, 1, low);
        c[2] = iq_table_avx2(kind, 0, high);
        c[3] = iq_table_avx2(kind, 1, high);
        return;
    }
    /* four entries' first bytes, and their second ones */
    const __m256i part =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
    const __m256i first = _mm256_shuffle_epi8(a, part),
                  second = _mm256_shuffle_epi8(load_avx2(entry + 16), part);
    const __m256i x = _mm256_blend_epi16(first, _mm256_slli_epi32(second, 16), 0xaa),
        y = _mm256_blend_epi16(_mm256_srli_epi32(first, 16), second, 0xaa);
    c[0] = iq_table_avx2(kind, 0, _mm256_and_si256(x, low4));
    c[1] = iq_table_avx2(kind, 0, _mm256_and_si256(_mm256_srli_epi16(x, 4), low4));
    c[2] = iq_table_avx2(kind, 0, _mm256_and_si256(y, low4));
    c[3] = iq_table_avx2(kind, 0, _mm256_and_si256(_mm256_srli_epi16(y, 4), low4));
}

/* Of 8 rows' words s for two times 16 columns: bit 4 + i of byte 4 r + b is the sign of column 4
 * b + i; IQ1: byte 4 r + b is the delta of column 4 b. */
QSF_TEMPLATE void iq_signs_avx2(__m256i out[2], qsf_iq_kind kind, __m256i s)
{
    const __m256i even = kind == QSF_IQ1 ? s : _mm256_slli_epi16(s, 4);
    const __m256 low = _mm256_castsi256_ps(_mm256_unpacklo_epi8(even, s)),
        high = _mm256_castsi256_ps(_mm256_unpackhi_epi8(even, s));
    out[0] = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0x88));
    out[1] = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0xdd));
}

/* The running sums of up to TOKENS_IQ_AVX2 rows: of 64 columns in integers, of all in floats. */
typedef struct iq_avx2 {
    __m256i sum[TOKENS_IQ_AVX2];
    __m256  acc[2][TOKENS_IQ_AVX2];
    int8_t  q[TOKENS_IQ_AVX2][256];     /* activations of the tile's columns, turned */
} iq_avx2;

/* 16 columns of 8 rows.  q, h: the first row's. */
QSF_TEMPLATE void iq_sub_avx2(iq_avx2 *a, qsf_iq_kind kind, const uint32_t *entry, __m256i signs,
                              const uint8_t *scale, const int8_t *q, const int16_t *h, size_t ldh, size_t n,
                              bool add)
{
    const __m256i one = _mm256_set1_epi8(1);
    __m256i c[4], sign[4];
    __m256i by = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)scale));
    by = _mm256_or_si256(by, _mm256_slli_epi32(by, 16));
    iq_sizes_avx2(c, kind, entry);
    QSF_UNROLL
    for (int i = 3; i >= 0; i--) {
        if (kind == QSF_IQ1) c[i] = _mm256_or_si256(c[i], signs);
        sign[i] = _mm256_or_si256(signs, one);
        signs = kind == QSF_IQ1 ? signs : _mm256_add_epi8(signs, signs);
    }
    for (size_t t = 0; t < n; t++, q += 256, h += ldh) {
        __m256i s16[4], sum;
        QSF_UNROLL
        for (int i = 0; i < 4; i++) {
            const __m256i x = quad_avx2(q, i);
            s16[i] = _mm256_maddubs_epi16(c[i], kind == QSF_IQ1 ? x : _mm256_sign_epi8(x, sign[i]));
        }
        /* 4 * 2 * 15 * 127 fit 16 bits, of 43 and 62 two products */
        s16[0] = _mm256_add_epi16(s16[0], s16[1]);
        s16[2] = _mm256_add_epi16(s16[2], s16[3]);
        if (kind == QSF_IQ1 || kind == QSF_IQ3S) {
            s16[0] = _mm256_add_epi16(s16[0], s16[2]);
            if (kind == QSF_IQ1) {
                int32_t two;
                memcpy(&two, h, 4);
                s16[0] = _mm256_sub_epi16(s16[0], _mm256_mullo_epi16(_mm256_set1_epi32(two),
                                                                     _mm256_set1_epi16(QSF_IQ1_OFFSET)));
            }
            sum = _mm256_madd_epi16(s16[0], by);
        } else {
            sum = _mm256_add_epi32(_mm256_madd_epi16(s16[0], by), _mm256_madd_epi16(s16[2], by));
        }
        a->sum[t] = add ? _mm256_add_epi32(a->sum[t], sum) : sum;
    }
}

/* A tile times n rows of activations from m on, from column `at`. */
QSF_TEMPLATE void iq_tile_avx2(iq_avx2 *a, qsf_iq_kind kind, const qsf_iq_tile *w, const qsf_act *x, size_t m,
                               size_t n, size_t at)
{
    const __m256i turn =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const size_t ldh = x->cols / 8, ldd = x->cols / 64;
    for (size_t t = 0; t < n; t++)
        for (int k = 0; k < 256; k += 32)
            _mm256_storeu_si256((__m256i *)(void *)(a->q[t] + k),
                                _mm256_shuffle_epi8(load_avx2(x->q + (m + t) * x->cols + at + k), turn));
    for (int g = 0; g < 8; g += 2)
        for (int half = 0; half < 2; half++) {
            const int8_t *q = a->q[0] + 32 * g;
            const int16_t *h = x->h + m * ldh + (at + 32 * (size_t)g) / 8;
            const float *d = x->d + m * ldd + at / 64 + g / 2;
            const __m256 by = _mm256_loadu_ps(w->d + 8 * half);
            for (int k = g; k < g + 2; k++, q += 32, h += 4) {
                __m256i signs[2];
                iq_signs_avx2(signs, kind, load_avx2(w->sign[k] + 8 * half));
                iq_sub_avx2(a, kind, w->entry[k][0][0] + 8 * half, signs[0],
                            w->scale[2 * k] + 8 * half, q, h, ldh, n, k > g);
                iq_sub_avx2(a, kind, w->entry[k][1][0] + 8 * half, signs[1],
                            w->scale[2 * k + 1] + 8 * half, q + 16, h + 2, ldh, n, true);
            }
            for (size_t t = 0; t < n; t++, d += ldd)
                a->acc[half][t] = _mm256_fmadd_ps(_mm256_broadcast_ss(d),
                                                  _mm256_mul_ps(_mm256_cvtepi32_ps(a->sum[t]), by),
                                                  a->acc[half][t]);
        }
}

/* Up to TILES_IQ_AVX2 tiles of a row, read before, times n rows of activations; y has what the
 * tiles before them gave. */
QSF_TEMPLATE void iq_rows_avx2(float *y, size_t ldy, qsf_iq_kind kind, const qsf_iq_tile *w, size_t tiles,
                               const qsf_act *x, size_t m, size_t n, size_t at)
{
    iq_avx2 a;
    for (size_t t = 0; t < n; t++)
        for (int half = 0; half < 2; half++)
            a.acc[half][t] = at ? _mm256_loadu_ps(y + t * ldy + 8 * half) : _mm256_setzero_ps();
    for (size_t i = 0; i < tiles; i++, at += 256) {
        if (n == 1) iq_tile_avx2(&a, kind, w + i, x, m, 1, at);
        else iq_tile_avx2(&a, kind, w + i, x, m, n, at);
    }
    for (size_t t = 0; t < n; t++)
        for (int half = 0; half < 2; half++) _mm256_storeu_ps(y + t * ldy + 8 * half, a.acc[half][t]);
}
#define KIND_AVX2(K)                                                                                       \
      static void rows_##K##_avx2(float *y, size_t ldy, const qsf_iq_tile *w, size_t tiles,                  \
                                  const qsf_act *x, size_t m, size_t n, size_t at)                           \
      {                                                                                                      \
          iq_rows_avx2(y, ldy, K, w, tiles, x, m, n, at);                                                    \
      }
KIND_AVX2(QSF_IQ1) KIND_AVX2(QSF_IQ2) KIND_AVX2(QSF_IQ3XXS) KIND_AVX2(QSF_IQ3S)
#undef KIND_AVX2

static void iq_any_avx2(qsf_form form, float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                        size_t blocks)
{
    static void (*const rows[4])(float *, size_t, const qsf_iq_tile *, size_t, const qsf_act *, size_t,
                                 size_t, size_t) = {
        [QSF_IQ1] = rows_QSF_IQ1_avx2,
        [QSF_IQ2] = rows_QSF_IQ2_avx2,
        [QSF_IQ3XXS] = rows_QSF_IQ3XXS_avx2,
        [QSF_IQ3S] = rows_QSF_IQ3S_avx2,
    };
    const size_t bytes = qsf_tile_bytes(form, 256), band = qsf_band_rows(x->cols);
    qsf_iq_tile part[TILES_IQ_AVX2];
    for (size_t from = 0; from < x->n; from += band)
        for (size_t t = 0; t < tiles; t++)
            for (size_t b = 0; b < blocks; b += TILES_IQ_AVX2) {
                const size_t here = QSF_MIN(blocks - b, (size_t)TILES_IQ_AVX2),
                             last = QSF_MIN(x->n, from + band);
                for (size_t i = 0; i < here; i++)
                    iq_read_avx2(part + i, form, w + (t * blocks + b + i) * bytes);
                for (size_t m = from; m < last; m += TOKENS_IQ_AVX2)
                    rows[qsf_iq_kind_of(form)](y + m * ldy + 16 * t, ldy, part, here, x, m,
                                               QSF_MIN(last - m, (size_t)TOKENS_IQ_AVX2), 256 * b);
            }
}

#define FORM_AVX2(F)                                                                                      \
    static void matmul_##F##_avx2(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, \
                                  size_t blocks, uint32_t block)                                          \
    {                                                                                                     \
        if (x->n == 1) qsf_iq_matvec_avx2(QSF_F_##F, y, w, x, tiles, blocks);                             \
        else iq_any_avx2(QSF_F_##F, y, ldy, w, x, tiles, blocks);                                         \
        (void)block;                                                                                      \
    }                                                                                                     \
    static void matvec_##F##_avx2(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,             \
                                  size_t blocks, uint32_t block)                                          \
    { (void)block; qsf_iq_matvec_avx2(QSF_F_##F, y, w, x, tiles, blocks); }
QSF_EACH_IQ_FORM(FORM_AVX2)
#undef FORM_AVX2

void qsf_iq_avx2(qsf_kernels *k)
{
#define FORM_AVX2(F) k->matvec[QSF_F_##F] = matvec_##F##_avx2; k->matmul[QSF_F_##F] = matmul_##F##_avx2;
    QSF_EACH_IQ_FORM(FORM_AVX2)
#undef FORM_AVX2
}

QSF_TARGET_END
#endif
