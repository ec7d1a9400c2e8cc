/* GGUF's super-blocks times activations with AVX2: the scales are 16-bit factors of the widening
 * sum, so that they cost nothing.
 * SPDX-License-Identifier: MIT */
#include "sets.h"
#include "tensor/types.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")
#include "tiles_avx2.h"

/* A decoded head of a tile, [half of 8 rows][sub-block]: scales and minimums twice in each row's 32
 * bits.  Minimums of 32 columns are floats with their factor, -dmin, in. */
typedef struct head_avx2 {
    __m256  d[2], dmin[2];
    __m256i scale[2][16], min[2][16];
    __m256  zero[2][8];
} head_avx2;

QSF_TEMPLATE __m256i field_avx2(__m256i v, int n, int b)
{
    return _mm256_and_si256(shift_avx2(v, n), _mm256_set1_epi8((char)b));
}

/* 16 rows' bytes as 16-bit pairs: rows 0-7 to out[0][k], 8-15 to out[1][k]. */
QSF_TEMPLATE void pairs_avx2(__m256i (*out)[16], int k, const uint8_t *from, bool is_signed)
{
    const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)from);
    const __m256i v = is_signed ? _mm256_cvtepi8_epi16(b) : _mm256_cvtepu8_epi16(b);
    /* rows 0-3, 8-11; 4-7, 12-15 */
    const __m256i low = _mm256_unpacklo_epi16(v, v), high = _mm256_unpackhi_epi16(v, v);
    out[0][k] = _mm256_permute2x128_si256(low, high, 0x20);
    out[1][k] = _mm256_permute2x128_si256(low, high, 0x31);
}

/* Each vector holds the bytes of two sub-blocks: see sub_scalar. */
QSF_TEMPLATE void head_bytes_avx2(uint8_t s[8][32], uint8_t z[8][32], qsf_form form, const uint8_t *w)
{
#define AT(v) ((__m256i *)(void *)(v))
    const uint8_t *p = w + (qsf_form_has_min(form) || form == QSF_F_IQ4XS ? 64 : 32);
    if (form == QSF_F_Q4K || form == QSF_F_Q5K) {
        QSF_UNROLL
        for (int i = 0; i < 2; i++) {
            const __m256i a = load_avx2(p + 32 * i), b = load_avx2(p + 64 + 32 * i),
                c = load_avx2(p + 128 + 32 * i);
            _mm256_storeu_si256(AT(s[i]), field_avx2(a, 0, 63));
            _mm256_storeu_si256(AT(z[i]), field_avx2(b, 0, 63));
            _mm256_storeu_si256(AT(s[2 + i]), _mm256_or_si256(field_avx2(c, 0, 15), field_avx2(a, -2, 48)));
            _mm256_storeu_si256(AT(z[2 + i]), _mm256_or_si256(field_avx2(c, -4, 15), field_avx2(b, -2, 48)));
        }
    } else if (form == QSF_F_Q3K) {
        QSF_UNROLL
        for (int i = 0; i < 8; i++) {
            const __m256i low = field_avx2(load_avx2(p + 32 * (i % 4)), i < 4 ? 0 : -4, 15),
                high = load_avx2(p + 128 + 32 * (i % 2));
            _mm256_storeu_si256(AT(s[i]), _mm256_sub_epi8(_mm256_or_si256(low,
                                                          field_avx2(high, 4 - 2 * (i / 2), 48)),
                                                          _mm256_set1_epi8(32)));
        }
    } else if (form == QSF_F_IQ4XS) {
        for (int k = 0; k < 8; k++)
            for (int r = 0; r < 16; r++)
                s[k / 2][16 * (k % 2) + r] = (uint8_t)((p[16 * (k / 2) + r] >> 4 * (k % 2) & 15)
                                                       + (qsf_le16(w + 32 + 2 * r) >> 2 * k & 3) * 16 - 32);
    } else {
        QSF_UNROLL
        for (int i = 0; i < 8; i++) {
            const __m256i a = load_avx2(p + 32 * i);
            _mm256_storeu_si256(AT(s[i]), form == QSF_F_Q2K ? field_avx2(a, 0, 15) : a);
            if (form == QSF_F_Q2K) _mm256_storeu_si256(AT(z[i]), field_avx2(a, -4, 15));
        }
    }
#undef AT
}

QSF_TEMPLATE void head_read_avx2(head_avx2 *h, qsf_form form, const uint8_t *w)
{
    uint8_t s[8][32], z[8][32];
    const bool floats = qsf_form_has_min(form) && qsf_form_sub(form) == 32;
    for (int i = 0; i < 2; i++) {
        h->d[i] = half8_avx2(w + 16 * i);
        h->dmin[i] = _mm256_sub_ps(_mm256_setzero_ps(), half8_avx2(w + 32 + 16 * i));
    }
    head_bytes_avx2(s, z, form, w);
    QSF_UNROLL
    for (int k = 0; k < 256 / qsf_form_sub(form); k++) {
        const uint8_t *min = z[k / 2] + 16 * (k % 2);
        pairs_avx2(h->scale, k, s[k / 2] + 16 * (k % 2), !qsf_form_has_min(form));
        for (int i = 0; floats && i < 2; i++) {
            const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)(min + 8 * i));
            h->zero[i][k % 8] = _mm256_mul_ps(h->dmin[i], _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)));
        }
        if (!floats && qsf_form_has_min(form)) pairs_avx2(h->min, k, min, false);
    }
}

QSF_TEMPLATE __m256i two_avx2(const int16_t *h)
{
    int32_t v;
    memcpy(&v, h, 4);
    return _mm256_set1_epi32(v);
}

/* Sum of a sub-block of `quads` code vectors, times its scales.  Sums of 16 bits may wrap on their
 * way: with the offset taken off they are at most 8 * 32 * 127 = 32512. */
QSF_TEMPLATE __m256i sub_avx2(const __m256i *c, int quads, const int8_t *q, const int16_t *h, __m256i scale,
                              qsf_form form)
{
    const int full = qsf_form_sub(form) == 16 ? quads : QSF_MIN(quads, sums16_avx2(form));
    __m256i sum = _mm256_setzero_si256();
    QSF_UNROLL
    for (int i = 0; i < quads / full; i++) {
        __m256i s16 = products_avx2(c[i * full], quad_avx2(q, i * full), form);
        QSF_UNROLL
        for (int j = 1; j < full; j++)
            s16 = _mm256_add_epi16(s16, products_avx2(c[i * full + j], quad_avx2(q, i * full + j), form));
        if (qsf_form_offset(form))
            s16 = _mm256_sub_epi16(s16, _mm256_slli_epi16(two_avx2(h), form == QSF_F_Q6K ? 5 : 2));
        const __m256i product = _mm256_madd_epi16(s16, scale);
        sum = i ? _mm256_add_epi32(sum, product) : product;
    }
    return sum;
}

/* The running sums of up to TOKENS_AVX2 rows: of 64 columns in integers, of all in floats. */
typedef struct super_avx2 {
    __m256i sum[TOKENS_AVX2], min[TOKENS_AVX2];
    __m256  acc[2][TOKENS_AVX2];
} super_avx2;

/* A group of one half and n rows.  k: its first sub-block; at: its first column. */
QSF_TEMPLATE void super_group_avx2(super_avx2 *a, qsf_form form, const uint8_t *g, const __m256i *scale,
                                   const __m256i *min, const qsf_act *x, size_t m, size_t n, size_t at)
{
    const bool second = at % 64 != 0, small = qsf_form_sub(form) == 16;
    const int8_t *q = x->q + m * x->cols + at;
    const int16_t *h = x->h + m * (x->cols / 8) + at / 8;
    source_avx2 from = { 0 };
    __m256i c[8];
    QSF_UNROLL
    for (int j = 0; j < 8; j++) c[j] = code_avx2(&from, g, j, form);
    for (size_t t = 0; t < n; t++, q += x->cols, h += x->cols / 8) {
        __m256i sum = sub_avx2(c, small ? 4 : 8, q, h, scale[0], form);
        if (small) sum = _mm256_add_epi32(sum, sub_avx2(c + 4, 4, q + 16, h + 2, scale[1], form));
        a->sum[t] = second ? _mm256_add_epi32(a->sum[t], sum) : sum;
        if (!small || !qsf_form_has_min(form)) continue;
        const __m256i least = _mm256_add_epi32(_mm256_madd_epi16(min[0], two_avx2(h)),
                                               _mm256_madd_epi16(min[1], two_avx2(h + 2)));
        a->min[t] = second ? _mm256_add_epi32(a->min[t], least) : least;
    }
}

/* 64 columns of one half and n rows; part: which of the super-block's four. */
QSF_TEMPLATE void super_part_avx2(super_avx2 *a, qsf_form form, int half, const uint8_t *w,
                                  const head_avx2 *head, int part, const qsf_act *x, size_t m,
                                  size_t n, size_t at)
{
    const int subs = 32 / qsf_form_sub(form), k = part * 2 * subs;
    const float *d = x->d + m * (x->cols / 64) + at / 64, *s = x->s + m * (x->cols / 32) + at / 32;
    super_group_avx2(a, form, w, head->scale[half] + k, head->min[half] + k, x, m, n, at);
    super_group_avx2(a, form, w + qsf_form_group(form), head->scale[half] + k + subs,
                     head->min[half] + k + subs, x, m, n, at + 32);
    for (size_t t = 0; t < n; t++, d += x->cols / 64, s += x->cols / 32) {
        __m256 p = _mm256_mul_ps(_mm256_cvtepi32_ps(a->sum[t]), head->d[half]);
        if (qsf_form_has_min(form) && subs == 2)
            p = _mm256_fmadd_ps(_mm256_cvtepi32_ps(a->min[t]), head->dmin[half], p);
        else if (qsf_form_has_min(form)) {
            p = _mm256_fmadd_ps(head->zero[half][k], _mm256_broadcast_ss(s), p);
            p = _mm256_fmadd_ps(head->zero[half][k + 1], _mm256_broadcast_ss(s + 1), p);
        }
        a->acc[half][t] = _mm256_fmadd_ps(_mm256_broadcast_ss(d), p, a->acc[half][t]);
    }
}

QSF_TEMPLATE void super_row_avx2(float *y, size_t ldy, qsf_form form, const uint8_t *w, const qsf_act *x,
                                 size_t m, size_t n, size_t blocks)
{
    super_avx2 a;
    for (size_t t = 0; t < n; t++) {
        a.sum[t] = a.min[t] = _mm256_setzero_si256();
        a.acc[0][t] = a.acc[1][t] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < blocks; b++) {
        head_avx2 head;
        head_read_avx2(&head, form, w);
        w += qsf_form_head(form);
        for (int part = 0; part < 4; part++, w += 2 * qsf_form_group(form))
            for (int half = 0; half < 2; half++)
                super_part_avx2(&a, form, half, w + 32 * half, &head, part, x, m, n,
                                256 * b + 64 * (size_t)part);
    }
    for (size_t t = 0; t < n; t++, y += ldy) {
        _mm256_storeu_ps(y, a.acc[0][t]);
        _mm256_storeu_ps(y + 8, a.acc[1][t]);
    }
}

QSF_TEMPLATE void super_any_avx2(qsf_form form, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                                 size_t tiles, size_t blocks)
{
    const size_t row_bytes = blocks * qsf_tile_bytes(form, 256), band = qsf_band_rows(x->cols);
    for (size_t from = 0; from < x->n; from += band)
        for (size_t t = 0; t < tiles; t++)
            for (size_t m = from; m < x->n && m < from + band; m += TOKENS_AVX2)
                super_row_avx2(y + m * ldy + 16 * t, ldy, form, w + t * row_bytes, x, m,
                               QSF_MIN(x->n - m, (size_t)TOKENS_AVX2), blocks);
}

#define FORM_AVX2(F)                                                                                         \
    static void matvec_##F##_avx2(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks, \
                                  uint32_t block)                                                            \
    {                                                                                                        \
        for (size_t t = 0; t < tiles; t++)                                                                   \
            super_row_avx2(y + 16 * t, 16, QSF_F_##F, w + t * blocks * qsf_tile_bytes(QSF_F_##F, block), x,  \
                           0, 1, blocks);                                                                    \
    }                                                                                                        \
    static void matmul_##F##_avx2(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,    \
                                  size_t blocks,                                                             \
                                  uint32_t block)                                                            \
    {                                                                                                        \
        if (x->n == 1) matvec_##F##_avx2(y, w, x, tiles, blocks, block);                                     \
        else super_any_avx2(QSF_F_##F, y, ldy, w, x, tiles, blocks);                                         \
    }
QSF_EACH_SUPER_FORM(FORM_AVX2)
#undef FORM_AVX2

/* ---- NV4: 64 columns with four scales, which are not integers ---- */
/* The k-th 16 columns of one half, for n rows: part += scale * sum. */
QSF_TEMPLATE void nv4_sub_avx2(__m256 *part, const __m256i *c, const int8_t *q, const int16_t *h, size_t ldx,
                               size_t n, __m256 scale, bool first)
{
    for (size_t t = 0; t < n; t++, q += ldx, h += ldx / 8) {
        __m256i s16 = products_avx2(c[0], quad_avx2(q, 0), QSF_F_NV4);
        QSF_UNROLL
        for (int j = 1; j < 4; j++)
            s16 = _mm256_add_epi16(s16, products_avx2(c[j], quad_avx2(q, j), QSF_F_NV4));
        s16 = _mm256_sub_epi16(s16, _mm256_mullo_epi16(two_avx2(h), _mm256_set1_epi16(12)));
        const __m256 f = _mm256_cvtepi32_ps(widen_avx2(s16));
        part[t] = first ? _mm256_mul_ps(scale, f) : _mm256_fmadd_ps(scale, f, part[t]);
    }
}
QSF_TEMPLATE void nv4_row_avx2(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t m, size_t n,
                               size_t blocks)
{
    __m256 acc[2][TOKENS_AVX2], part[TOKENS_AVX2];
    for (size_t t = 0; t < n; t++) acc[0][t] = acc[1][t] = _mm256_setzero_ps();
    for (size_t b = 0; b < blocks; b++, w += 64 + 8 * 64)
        for (int h = 0; h < 2; h++) {
            const size_t at = m * x->cols + 64 * b;
            QSF_UNROLL
            for (int g = 0; g < 2; g++) {
                __m256i c[8];
                source_avx2 from = { 0 };
                QSF_UNROLL
                for (int j = 0; j < 8; j++)
                    c[j] = code_avx2(&from, w + 64 + 256 * g + 32 * h, j, QSF_F_NV4);
                QSF_UNROLL
                for (int k = 0; k < 2; k++)
                    nv4_sub_avx2(part, c + 4 * k, x->q + at + 32 * g + 16 * k, x->h + at / 8 + 4 * g + 2 * k,
                                 x->cols, n, scale8_avx2(w + 32 * g + 16 * k, h, QSF_F_NV4), g + k == 0);
            }
            for (size_t t = 0; t < n; t++)
                acc[h][t] = _mm256_fmadd_ps(_mm256_broadcast_ss(x->d + at / 64 + t * (x->cols / 64)), part[t],
                                            acc[h][t]);
        }
    for (size_t t = 0; t < n; t++, y += ldy) {
        _mm256_storeu_ps(y, acc[0][t]);
        _mm256_storeu_ps(y + 8, acc[1][t]);
    }
}
static void matvec_NV4_avx2(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                            uint32_t block)
{
    const size_t row_bytes = blocks * qsf_tile_bytes(QSF_F_NV4, block);
    for (size_t t = 0; t < tiles; t++) nv4_row_avx2(y + 16 * t, 16, w + t * row_bytes, x, 0, 1, blocks);
}
static void matmul_NV4_avx2(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                            size_t blocks, uint32_t block)
{
    const size_t row_bytes = blocks * qsf_tile_bytes(QSF_F_NV4, block), band = qsf_band_rows(x->cols);
    for (size_t from = 0; from < x->n; from += band)
        for (size_t t = 0; t < tiles; t++)
            for (size_t m = from; m < x->n && m < from + band; m += TOKENS_AVX2)
                nv4_row_avx2(y + m * ldy + 16 * t, ldy, w + t * row_bytes, x, m,
                             QSF_MIN(x->n - m, (size_t)TOKENS_AVX2), blocks);
}

void qsf_super_avx2(qsf_kernels *k)
{
#define FORM_AVX2(F) k->matvec[QSF_F_##F] = matvec_##F##_avx2; k->matmul[QSF_F_##F] = matmul_##F##_avx2;
    QSF_EACH_SUPER_FORM(FORM_AVX2)
#undef FORM_AVX2
    k->matvec[QSF_F_NV4] = matvec_NV4_avx2;
    k->matmul[QSF_F_NV4] = matmul_NV4_avx2;
}

QSF_TARGET_END
#endif
