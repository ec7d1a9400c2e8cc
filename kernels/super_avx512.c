/* GGUF's super-blocks times activations with AVX-512 VNNI: as the other tiles, with scales that
 * change every 16 or 32 columns.
 * SPDX-License-Identifier: MIT */
#include "sets.h"
#include "panel_avx512.h"
#include "tensor/types.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#include "tiles_avx512.h"

/* A decoded head of a tile, [sub-block]: value = scale * (code - offset) + zero. */
typedef struct head_avx512 { __m512 scale[16], zero[16]; } head_avx512;

QSF_TEMPLATE __m512 unsigned_avx512(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
QSF_TEMPLATE __m512 signed_avx512(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
QSF_TEMPLATE __m512i bytes_avx512(int b) { return _mm512_set1_epi8((char)b); }
/* Bits b of v moved left by n. */
QSF_TEMPLATE __m512i field_avx512(__m512i v, int n, int b)
{
    return _mm512_and_si512(shift_avx512(v, n), bytes_avx512(b));
}

/* Each vector holds the bytes of four sub-blocks: see sub_scalar. */
QSF_TEMPLATE void head_read_avx512(head_avx512 *h, qsf_form form, const uint8_t *w)
{
    uint8_t s[4][64], z[4][64];
    const int subs = 256 / qsf_form_sub(form);
    if (form == QSF_F_NV4) {
        QSF_UNROLL
        for (int k = 0; k < 4; k++) h->scale[k] = scale16_avx512(w + 16 * k, form);
        return;
    }
    const __m512 d = half16_avx512(w), dmin = _mm512_sub_ps(_mm512_setzero_ps(), half16_avx512(w + 32));
    const uint8_t *p = w + (qsf_form_has_min(form) ? 64 : 32);
    if (form == QSF_F_Q4K || form == QSF_F_Q5K) {
        const __m512i a = load_avx512(p), b = load_avx512(p + 64), c = load_avx512(p + 128);
        _mm512_storeu_si512(s[0], field_avx512(a, 0, 63));
        _mm512_storeu_si512(z[0], field_avx512(b, 0, 63));
        _mm512_storeu_si512(s[1], _mm512_or_si512(field_avx512(c, 0, 15), field_avx512(a, -2, 48)));
        _mm512_storeu_si512(z[1], _mm512_or_si512(field_avx512(c, -4, 15), field_avx512(b, -2, 48)));
    } else if (form == QSF_F_Q2K) {
        QSF_UNROLL
        for (int i = 0; i < 4; i++) {
            const __m512i a = load_avx512(p + 64 * i);
            _mm512_storeu_si512(s[i], field_avx512(a, 0, 15));
            _mm512_storeu_si512(z[i], field_avx512(a, -4, 15));
        }
    } else if (form == QSF_F_Q3K) {
        const __m512i high = load_avx512(p + 128);
        QSF_UNROLL
        for (int i = 0; i < 4; i++) {
            const __m512i low = field_avx512(load_avx512(p + 64 * (i % 2)), i < 2 ? 0 : -4, 15);
            _mm512_storeu_si512(s[i], _mm512_sub_epi8(_mm512_or_si512(low, field_avx512(high, 4 - 2 * i, 48)),
                                                      bytes_avx512(32)));
        }
    } else if (form == QSF_F_IQ4XS) {
        const __m512i low = load_avx512(w + 64),
            high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(w + 32)));
        QSF_UNROLL
        for (int k = 0; k < 8; k++) {
            const __m512i two = _mm512_slli_epi32(_mm512_and_si512(_mm512_srli_epi32(high, 2 * (unsigned)k),
                                                  _mm512_set1_epi32(3)), 4);
            _mm_storeu_si128((__m128i *)(void *)(s[k / 4] + 16 * (k % 4)), _mm512_cvtepi32_epi8(two));
        }
        __m128i lows[4];
        memcpy(lows, &low, sizeof lows);
        QSF_UNROLL
        for (int k = 0; k < 8; k++) {
            __m128i *to = (__m128i *)(void *)(s[k / 4] + 16 * (k % 4));
            const __m128i four = _mm_and_si128(k % 2 ? _mm_srli_epi16(lows[k / 2], 4) : lows[k / 2],
                                               _mm_set1_epi8(15));
            _mm_storeu_si128(to, _mm_sub_epi8(_mm_or_si128(_mm_loadu_si128(to), four), _mm_set1_epi8(32)));
        }
    }
    QSF_UNROLL
    for (int k = 0; k < subs; k++) {
        const uint8_t *from = form == QSF_F_Q6K ? p + 16 * k : s[k / 4] + 16 * (k % 4);
        h->scale[k] = _mm512_mul_ps(d, qsf_form_has_min(form) ? unsigned_avx512(from) : signed_avx512(from));
        if (qsf_form_has_min(form))
            h->zero[k] = _mm512_mul_ps(dmin, unsigned_avx512(z[k / 4] + 16 * (k % 4)));
    }
}

QSF_TEMPLATE __m512i pair_avx512(const int16_t *h)
{
    int32_t two;
    memcpy(&two, h, 4);
    return _mm512_set1_epi32(two);
}

/* The place of a row's activations. */
typedef struct row_avx512 { const int8_t *q; const float *d, *s; const int16_t *h; } row_avx512;

/* p[T] = value of 64 columns, without the activations' scale.  k: their first sub-block. */
QSF_TEMPLATE void super_part_avx512(__m512 *p, qsf_form form, int T, const uint8_t *w,
                                    const head_avx512 *head, int k, const row_avx512 *x, size_t at)
{
    const int cols = qsf_form_sub(form);
    source_avx512 source = { _mm512_setzero_si512(), _mm512_setzero_si512() };
    QSF_UNROLL
    for (int t = 0; t < T; t++) p[t] = _mm512_setzero_ps();
    QSF_UNROLL
    for (int i = 0; i < 64 / cols; i++) {
        __m512i sum[8];
        QSF_UNROLL
        for (int t = 0; t < T; t++)
            sum[t] = cols == 16 && qsf_form_offset(form) ? _mm512_madd_epi16(pair_avx512(x[t].h + at / 8
                    + 2 * (size_t)i), _mm512_set1_epi16((short)-qsf_form_offset(form)))
                                                         : _mm512_setzero_si512();
        QSF_UNROLL
        for (int v = 0; v < cols / 4; v++) {
            const int j = i * (cols / 4) + v;
            const __m512i c = code_avx512(&source, w + (size_t)(j / 8) * qsf_form_group(form), j % 8, form);
            QSF_UNROLL
            for (int t = 0; t < T; t++) sum[t] = _mm512_dpbusd_epi32(sum[t], c, quad_avx512(x[t].q + at, j));
        }
        const __m512 scale = head->scale[k + i], zero = qsf_form_has_min(form) ? head->zero[k + i] : scale;
        QSF_UNROLL
        for (int t = 0; t < T; t++) {
            __m512 f = _mm512_cvtepi32_ps(sum[t]);
            const __m512 s = cols == 32 ? _mm512_set1_ps(x[t].s[at / 32 + (size_t)i])
                             : _mm512_cvtepi32_ps(_mm512_madd_epi16(pair_avx512(x[t].h + at / 8
                                                  + 2 * (size_t)i), _mm512_set1_epi16(1)));
            if (qsf_form_table(form)) f = _mm512_fnmadd_ps(_mm512_set1_ps(128), s, f);
            p[t] = _mm512_fmadd_ps(scale, f, p[t]);
            if (qsf_form_has_min(form)) p[t] = _mm512_fmadd_ps(zero, s, p[t]);
        }
    }
}

/* One tile row times T rows of activations, of which n are stored; the others repeat the last. */
QSF_TEMPLATE void super_row_avx512(float *y, size_t ldy, qsf_form form, int T, const uint8_t *w,
                                   const qsf_act *x, size_t m, size_t n, size_t blocks, size_t ahead)
{
    const uint32_t cols = qsf_form_block(form);
    row_avx512 row[8];
    __m512 acc[8], p[8];
    QSF_UNROLL
    for (int t = 0; t < T; t++) {
        const size_t i = m + QSF_MIN((size_t)t, n - 1);
        row[t] = (row_avx512){ x->q + i * x->cols, x->d + i * (x->cols / 64), x->s + i * (x->cols / 32),
                               x->h + i * (x->cols / 8) };
        acc[t] = _mm512_setzero_ps();
    }
    for (size_t b = 0; b < blocks; b++) {
        head_avx512 head;
        head_read_avx512(&head, form, w);
        w += qsf_form_head(form);
        for (uint32_t part = 0; part < cols / 64; part++, w += 2 * qsf_form_group(form)) {
            const size_t at = cols * b + 64 * (size_t)part;
            if (T > 1) prefetch_avx512(w + ahead, 2 * qsf_form_group(form));
            super_part_avx512(p, form, T, w, &head, (int)part * (64 / qsf_form_sub(form)), row, at);
            QSF_UNROLL
            for (int t = 0; t < T; t++)
                acc[t] = _mm512_fmadd_ps(_mm512_set1_ps(row[t].d[at / 64]), p[t], acc[t]);
        }
    }
    QSF_UNROLL
    for (int t = 0; t < T; t++) if ((size_t)t < n) _mm512_storeu_ps(y + (size_t)t * ldy, acc[t]);
}

QSF_TEMPLATE void unpack_super_avx512(qsf_form form, qsf_panel *p, const uint8_t *w, size_t blocks)
{
    const size_t groups = qsf_form_block(form) / 32, subs = 32 * groups / (size_t)qsf_form_sub(form);
    for (size_t b = 0; b < blocks; b++) {
        head_avx512 head;
        head_read_avx512(&head, form, w);
        memcpy(p->scale[b * subs], head.scale, subs * sizeof head.scale[0]);
        if (qsf_form_has_min(form)) memcpy(p->zero[b * subs], head.zero, subs * sizeof head.zero[0]);
        w += qsf_form_head(form);
        for (size_t g = 0; g < groups; g++, w += qsf_form_group(form)) {
            source_avx512 source = { _mm512_setzero_si512(), _mm512_setzero_si512() };
            QSF_UNROLL
            for (int j = 0; j < 8; j++)
                _mm512_storeu_si512(p->code[8 * (groups * b + g) + (size_t)j],
                                    code_avx512(&source, w, j, form));
        }
    }
}

QSF_TEMPLATE void super_any_avx512(qsf_form form, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                                   size_t tiles, size_t blocks, qsf_panel_unpack *unpack)
{
    const size_t row_bytes = blocks * qsf_tile_bytes(form, qsf_form_block(form));
    /* if scales change every 16 columns, a panel pays off sooner */
    if (x->n >= (qsf_form_sub(form) == 16 ? 16 : QSF_PANEL_ROWS)) {
        const qsf_panel_form f = { unpack, qsf_form_sub(form), offset_avx512(form), qsf_form_has_min(form),
                                   NULL };
        qsf_panel_matmul_avx512(&f, y, ldy, w, row_bytes, x, tiles, blocks, qsf_form_block(form));
        return;
    }
    for (size_t t = 0; t < tiles; t++)
        for (size_t m = 0; m < x->n; m += 8) {
            const size_t n = QSF_MIN(x->n - m, (size_t)8);
            float *out = y + m * ldy + 16 * t;
            const uint8_t *row = w + t * row_bytes;
            const size_t ahead = ahead_avx512(m, x->n, row_bytes);
            if (n <= 2) super_row_avx512(out, ldy, form, 2, row, x, m, n, blocks, ahead);
            else if (n <= 4) super_row_avx512(out, ldy, form, 4, row, x, m, n, blocks, ahead);
            else if (n <= 6) super_row_avx512(out, ldy, form, 6, row, x, m, n, blocks, ahead);
            else super_row_avx512(out, ldy, form, 8, row, x, m, n, blocks, ahead);
        }
}

#define FORM_AVX512(F)                                                                                      \
    static void matvec_##F##_avx512(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,             \
                                    size_t blocks, uint32_t block)                                          \
    {                                                                                                       \
        for (size_t t = 0; t < tiles; t++)                                                                  \
            super_row_avx512(y + 16 * t, 16, QSF_F_##F, 1,                                                  \
                             w + t * blocks * qsf_tile_bytes(QSF_F_##F, block), x, 0, 1, blocks, 0);        \
    }                                                                                                       \
    static void unpack_##F##_avx512(qsf_panel *p, const uint8_t *w, size_t blocks, uint32_t block)          \
    {                                                                                                       \
        (void)block;                                                                                        \
        unpack_super_avx512(QSF_F_##F, p, w, blocks);                                                       \
    }                                                                                                       \
    static void matmul_##F##_avx512(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, \
                                    size_t blocks,                                                          \
                                    uint32_t block)                                                         \
    {                                                                                                       \
        if (x->n == 1) matvec_##F##_avx512(y, w, x, tiles, blocks, block);                                  \
        else super_any_avx512(QSF_F_##F, y, ldy, w, x, tiles, blocks, unpack_##F##_avx512);                 \
    }
QSF_EACH_SUPER_FORM(FORM_AVX512)
FORM_AVX512(NV4)
#undef FORM_AVX512
QSF_PANEL_USE(Q4K, matmul_Q4K_avx512, unpack_Q4K_avx512)
QSF_PANEL_USE(Q5K, matmul_Q5K_avx512, unpack_Q5K_avx512)
QSF_PANEL_USE(IQ4XS, matmul_IQ4XS_avx512, unpack_IQ4XS_avx512)

void qsf_super_avx512(qsf_kernels *k)
{
#define FORM_AVX512(F) k->matvec[QSF_F_##F] = matvec_##F##_avx512; k->matmul[QSF_F_##F] = matmul_##F##_avx512;
    QSF_EACH_SUPER_FORM(FORM_AVX512)
    FORM_AVX512(NV4)
#undef FORM_AVX512
}

QSF_TARGET_END
#endif
