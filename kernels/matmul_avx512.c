/* Tiles times activations with AVX-512 VNNI: one 32-bit lane is one row of the tile, vpdpbusd multiplies four columns.
 * SPDX-License-Identifier: MIT */
#include "sets.h"
#include "types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")

#include "tiles_avx512.h"

/* acc + d * (value of the integer sums); sq is the plain sum of the activations. */
QSF_TEMPLATE __m512 value_avx512(__m512 acc, __m512i sum, __m512 scale, __m512 zero, float d, float sq, qsf_form form)
{
    const __m512 f = _mm512_cvtepi32_ps(sum);
    if (qsf_form_has_zero(form)) return _mm512_fmadd_ps(_mm512_set1_ps(d), _mm512_fmadd_ps(scale, f, _mm512_mul_ps(zero, _mm512_set1_ps(sq))), acc);
    const __m512 c = _mm512_set1_ps(-(float)offset_avx512(form) * sq);          /* exact, as is the sum with f */
    return _mm512_fmadd_ps(_mm512_mul_ps(scale, _mm512_set1_ps(d)), _mm512_add_ps(f, c), acc);
}
QSF_TEMPLATE void store_avx512(float *y, __m512 v, qsf_form form)
{
    _mm512_storeu_ps(y, form == QSF_F_TERNARY ? _mm512_sub_ps(_mm512_setzero_ps(), v) : v);
}

/* Integer sums of one row over `groups` groups.  2- and 4-bit fields stay where they are in their bytes: four sums, each
 * multiplied by its field's place, come together at the end, which is exact.  The others fill four sums in turn, because
 * vpdpbusd takes four cycles. */
QSF_TEMPLATE __m512i dot_avx512(const uint8_t *w, const int8_t *q, int groups, qsf_form form)
{
    const int bits = qsf_form_bits(form);
    __m512i a[4];
    QSF_UNROLL
    for (int i = 0; i < 4; i++) a[i] = _mm512_setzero_si512();
    const size_t group = 64 * (size_t)bits;
    if ((bits == 2 || bits == 4) && !qsf_form_table(form)) {
        const int fields = 8 / bits;
        QSF_UNROLL
        for (int v = 0; v < bits * groups; v++) {
            const __m512i c = fetch_avx512(w + 64 * v);
            QSF_UNROLL
            for (int f = 0; f < fields; f++) {
                const __m512i field = _mm512_and_si512(c, _mm512_set1_epi8((char)(((1 << bits) - 1) << bits * f)));
                const int to = bits == 2 ? f : 2 * (v & 1) + f;
                a[to] = _mm512_dpbusd_epi32(a[to], field, quad_avx512(q, fields * v + f));
            }
        }
        if (bits == 4) return _mm512_add_epi32(_mm512_add_epi32(a[0], a[2]), _mm512_srai_epi32(_mm512_add_epi32(a[1], a[3]), 4));
        return _mm512_add_epi32(_mm512_add_epi32(a[0], _mm512_srai_epi32(a[1], 2)), _mm512_add_epi32(_mm512_srai_epi32(a[2], 4), _mm512_srai_epi32(a[3], 6)));
    }
    source_avx512 source = { a[0], a[0] };
    QSF_UNROLL
    for (int j = 0; j < 8 * groups; j++)
        a[j % 4] = _mm512_dpbusd_epi32(a[j % 4], code_avx512(&source, w + (size_t)(j / 8) * group, j % 8, form), quad_avx512(q, j));
    return _mm512_add_epi32(_mm512_add_epi32(a[0], a[1]), _mm512_add_epi32(a[2], a[3]));
}

QSF_TEMPLATE void matvec_any_avx512(qsf_form form, bool small, float *y, const uint8_t *w, const qsf_act *x, size_t tiles,
                                    size_t blocks, uint32_t block)
{
    const int groups = small ? 1 : 2;
    const size_t group = qsf_form_group(form);
    for (size_t t = 0; t < tiles; t++, y += 16) {
        __m512 acc = _mm512_setzero_ps();
        const int8_t *q = x->q;
        const float *s = x->s;
        size_t part = 0;
        for (size_t b = 0; b < blocks; b++) {
            const __m512 scale = half16_avx512(w), zero = qsf_form_has_zero(form) ? half16_avx512(w + 32) : scale;
            w += qsf_form_head(form);
            for (const uint8_t *end = w + block / 32 * group; w < end; part++) {
                const __m512i sum = dot_avx512(w, q, groups, form);
                acc = value_avx512(acc, sum, scale, zero, x->d[small ? part / 2 : part], small ? s[0] : s[0] + s[1], form);
                w += (size_t)groups * group, q += 32 * groups, s += groups;
            }
        }
        store_avx512(y, acc, form);
    }
}

/* One tile row times T rows of activations, of which n are stored; the others repeat the last. */
QSF_TEMPLATE void tile_row_avx512(float *y, size_t ldy, qsf_form form, bool small, int T, const uint8_t *w, const qsf_act *x,
                                  size_t m, size_t n, size_t blocks, uint32_t block)
{
    const int groups = small ? 1 : 2;
    const size_t group = qsf_form_group(form);
    const int8_t *q[8];
    const float *d[8], *s[8];
    __m512 acc[8];
    QSF_UNROLL
    for (int t = 0; t < T; t++) {
        const size_t row = m + QSF_MIN((size_t)t, n - 1);
        q[t] = x->q + row * x->cols;
        d[t] = x->d + row * (x->cols / 64);
        s[t] = x->s + row * (x->cols / 32);
        acc[t] = _mm512_setzero_ps();
    }
    size_t at = 0;
    for (size_t b = 0; b < blocks; b++) {
        const __m512 scale = half16_avx512(w), zero = qsf_form_has_zero(form) ? half16_avx512(w + 32) : scale;
        w += qsf_form_head(form);
        for (const uint8_t *end = w + block / 32 * group; w < end; w += (size_t)groups * group, at += 32 * (size_t)groups) {
            __m512i sum[8];
            source_avx512 source = { _mm512_setzero_si512(), _mm512_setzero_si512() };
            QSF_UNROLL
            for (int t = 0; t < T; t++) sum[t] = _mm512_setzero_si512();
            QSF_UNROLL
            for (int j = 0; j < 8 * groups; j++) {
                const __m512i c = code_avx512(&source, w + (size_t)(j / 8) * group, j % 8, form);
                QSF_UNROLL
                for (int t = 0; t < T; t++) sum[t] = _mm512_dpbusd_epi32(sum[t], c, quad_avx512(q[t] + at, j));
            }
            QSF_UNROLL
            for (int t = 0; t < T; t++) {
                const float *sq = s[t] + at / 32;
                acc[t] = value_avx512(acc[t], sum[t], scale, zero, d[t][at / 64], small ? sq[0] : sq[0] + sq[1], form);
            }
        }
    }
    QSF_UNROLL
    for (int t = 0; t < T; t++) if ((size_t)t < n) store_avx512(y + (size_t)t * ldy, acc[t], form);
}

QSF_TEMPLATE void matmul_any_avx512(qsf_form form, bool small, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                                    size_t tiles, size_t blocks, uint32_t block)
{
    const size_t row_bytes = blocks * qsf_tile_bytes(form, block), strip = qsf_strip_rows(x->cols);
    for (size_t from = 0; from < x->n; from += strip)
        for (size_t t = 0; t < tiles; t++)
            for (size_t m = from; m < x->n && m < from + strip; m += 8) {
                const size_t n = QSF_MIN(x->n - m, (size_t)8);
                float *out = y + m * ldy + 16 * t;
                const uint8_t *row = w + t * row_bytes;
                if (n <= 2) tile_row_avx512(out, ldy, form, small, 2, row, x, m, n, blocks, block);
                else if (n <= 4) tile_row_avx512(out, ldy, form, small, 4, row, x, m, n, blocks, block);
                else if (n <= 6) tile_row_avx512(out, ldy, form, small, 6, row, x, m, n, blocks, block);
                else tile_row_avx512(out, ldy, form, small, 8, row, x, m, n, blocks, block);
            }
}

#define FORM_AVX512(F)                                                                                                         \
    static void matvec_##F##_avx512(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks, uint32_t block) \
    {                                                                                                                          \
        if (block == 32) matvec_any_avx512(QSF_F_##F, true, y, w, x, tiles, blocks, block);                                    \
        else matvec_any_avx512(QSF_F_##F, false, y, w, x, tiles, blocks, block);                                               \
    }                                                                                                                          \
    static void matmul_##F##_avx512(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,     \
                                    uint32_t block)                                                                            \
    {                                                                                                                          \
        if (x->n == 1) matvec_##F##_avx512(y, w, x, tiles, blocks, block);                                                     \
        else if (block == 32) matmul_any_avx512(QSF_F_##F, true, y, ldy, w, x, tiles, blocks, block);                          \
        else matmul_any_avx512(QSF_F_##F, false, y, ldy, w, x, tiles, blocks, block);                                          \
    }
QSF_EACH_FORM(FORM_AVX512)
QSF_EACH_GGML_FORM(FORM_AVX512)
#undef FORM_AVX512

static void attention_qkv_project_avx512(float *const y[3], qsf_form form, const uint8_t *const w[3], const size_t tiles[3],
                                         const qsf_act *x, size_t blocks, uint32_t block)
{
    qsf_kernels k;
    qsf_matmul_avx512(&k);
    for (int i = 0; i < 3; i++) k.matmul[form](y[i], 16 * tiles[i], w[i], x, tiles[i], blocks, block);
}

void qsf_matmul_avx512(qsf_kernels *k)
{
#define FORM_AVX512(F) k->matvec[QSF_F_##F] = matvec_##F##_avx512; k->matmul[QSF_F_##F] = matmul_##F##_avx512;
    QSF_EACH_FORM(FORM_AVX512)
    QSF_EACH_GGML_FORM(FORM_AVX512)
#undef FORM_AVX512
    qsf_super_avx512(k);
    k->attention_qkv_project = attention_qkv_project_avx512;
}

QSF_TARGET_END
#endif
