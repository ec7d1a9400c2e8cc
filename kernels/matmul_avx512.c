/* Tiles times activations with AVX-512 VNNI: one 32-bit lane is one row of the tile, vpdpbusd
 * multiplies four columns.
 * SPDX-License-Identifier: MIT */
#include "five.h"
#include "iq.h"
#include "panel_avx512.h"
#include "tensor/types.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")

#include "tiles_avx512.h"

/* part + value of the integer sums of the columns that share a scale; sq is the plain sum of the
 * activations.  The first of 64 columns begins a part.  Every way through these files takes the
 * same steps, so that a row's result does not depend on what else is in its batch. */
QSF_TEMPLATE __m512 part_avx512(__m512 part, bool first, __m512i sum, __m512 scale, __m512 zero, float sq,
                                qsf_form form)
{
    __m512 f = _mm512_cvtepi32_ps(sum);
    /* exact */
    if (!qsf_form_has_zero(form)) f = _mm512_sub_ps(f, _mm512_set1_ps((float)offset_avx512(form) * sq));
    part = first ? _mm512_mul_ps(scale, f) : _mm512_fmadd_ps(scale, f, part);
    return qsf_form_has_zero(form) ? _mm512_fmadd_ps(zero, _mm512_set1_ps(sq), part) : part;
}
QSF_TEMPLATE void store_avx512(float *y, __m512 v, qsf_form form)
{
    _mm512_storeu_ps(y, qsf_form_negated(form) ? _mm512_sub_ps(_mm512_setzero_ps(), v) : v);
}

/* Integer sums of one row over `groups` groups.  2- and 4-bit fields stay where they are in their
 * bytes: four sums, each multiplied by its field's place, come together at the end, which is exact.
 * The others fill four sums in turn, because vpdpbusd takes four cycles. */
QSF_TEMPLATE __m512i dot_avx512(const uint8_t *w, const int8_t *q, int groups, qsf_form form)
{
    const int bits = qsf_form_bits(form);
    __m512i a[4];
    QSF_UNROLL
    for (int i = 0; i < 4; i++) a[i] = _mm512_setzero_si512();
    const size_t group = 64 * (size_t)bits;
    if (qsf_form_plain(form)) {
        const int fields = 8 / bits;
        QSF_UNROLL
        for (int v = 0; v < bits * groups; v++) {
            const __m512i c = fetch_avx512(w + 64 * v);
            QSF_UNROLL
            for (int f = 0; f < fields; f++) {
                const __m512i field =
                    _mm512_and_si512(c, _mm512_set1_epi8((char)(((1 << bits) - 1) << bits * f)));
                const int to = bits == 2 ? f : 2 * (v & 1) + f;
                a[to] = _mm512_dpbusd_epi32(a[to], field, quad_avx512(q, fields * v + f));
            }
        }
        if (bits == 4)
            return _mm512_add_epi32(_mm512_add_epi32(a[0], a[2]),
                                    _mm512_srai_epi32(_mm512_add_epi32(a[1], a[3]), 4));
        return _mm512_add_epi32(_mm512_add_epi32(a[0], _mm512_srai_epi32(a[1], 2)),
                                _mm512_add_epi32(_mm512_srai_epi32(a[2], 4), _mm512_srai_epi32(a[3], 6)));
    }
    source_avx512 source = { a[0], a[0] };
    QSF_UNROLL
    for (int j = 0; j < 8 * groups; j++) {
        const __m512i code = code_avx512(&source, w + (size_t)(j / 8) * group, j % 8, form);
        a[j % 4] = _mm512_dpbusd_epi32(a[j % 4], code, quad_avx512(q, j));
    }
    return _mm512_add_epi32(_mm512_add_epi32(a[0], a[1]), _mm512_add_epi32(a[2], a[3]));
}

QSF_TEMPLATE void matvec_any_avx512(qsf_form form, bool small, float *y, const uint8_t *w, const qsf_act *x,
                                    size_t tiles, size_t blocks, uint32_t block)
{
    const int groups = small ? 1 : 2;
    const size_t group = qsf_form_group(form);
    for (size_t t = 0; t < tiles; t++, y += 16) {
        __m512 acc = _mm512_setzero_ps(), part = acc;
        const int8_t *q = x->q;
        const float *s = x->s, *d = x->d;
        for (size_t b = 0; b < blocks; b++) {
            const __m512 scale = scale16_avx512(w, form),
                zero = qsf_form_has_zero(form) ? half16_avx512(w + 32) : scale;
            const bool first = !small || b % 2 == 0, last = !small || !first || b + 1 == blocks;
            w += qsf_form_head(form);
            for (const uint8_t *end = w + block / 32 * group; w < end; w += (size_t)groups * group,
                 q += 32 * groups, s += groups) {
                part = part_avx512(first ? _mm512_setzero_ps() : part, false, dot_avx512(w, q, groups, form),
                                   scale, zero, small ? s[0] : s[0] + s[1], form);
                if (last) acc = _mm512_fmadd_ps(_mm512_set1_ps(*d++), part, acc);
            }
        }
        store_avx512(y, acc, form);
    }
}

/* What two groups add to acc: each with a scale of its own, or both with the first's. */
QSF_TEMPLATE __m512 parts_avx512(__m512 acc, bool small, __m512i sum, __m512i sum2, __m512 scale,
                                 __m512 scale2, __m512 zero, __m512 zero2, const float *s, qsf_form form)
{
    if (!small)
        return part_avx512(acc, true, _mm512_add_epi32(sum, sum2), scale, zero, s[0] + s[1], form);
    const __m512 part = part_avx512(acc, true, sum, scale, zero, s[0], form);
    return part_avx512(part, false, sum2, scale2, zero2, s[1], form);
}

/* A tile's digits as codes; *next: the next tile. */
QSF_TEMPLATE const uint8_t *tq1_digits_avx512(uint8_t *digits, const uint8_t *tile, const uint8_t **next)
{
    tq1_expand_avx512(digits, tile);
    *next = tile + QSF_TQ1_TILE;
    return digits;
}

/* A group's sums with T rows of activations from column `at` on.  With few rows, two sums for each
 * keep both multipliers busy.  Weights are read in memory order: when two groups alternated, the
 * hardware prefetcher did not recognise one stream. */
QSF_TEMPLATE void group_sums_avx512(__m512i sum[8], int T, const uint8_t *w, const int8_t *const q[8],
                                    size_t at, size_t ahead, qsf_form form)
{
    const bool two = T <= 4;
    __m512i odd[8];
    if (form != QSF_F_TQ1) prefetch_avx512(w + ahead, qsf_form_group(form));
    source_avx512 source = { _mm512_setzero_si512(), _mm512_setzero_si512() };
    QSF_UNROLL
    for (int t = 0; t < T; t++) sum[t] = odd[t] = _mm512_setzero_si512();
    QSF_UNROLL
    for (int j = 0; j < 8; j++) {
        const __m512i c = code_avx512(&source, w, j, form);
        QSF_UNROLL
        for (int t = 0; t < T; t++) {
            __m512i *to = two && j % 2 ? &odd[t] : &sum[t];
            *to = _mm512_dpbusd_epi32(*to, c, quad_avx512(q[t] + at, j));
        }
    }
    QSF_UNROLL
    for (int t = 0; t < T; t++) if (two) sum[t] = _mm512_add_epi32(sum[t], odd[t]);
}

/* One tile row times T rows of activations, of which n are stored; the others repeat the last.  Two
 * groups at a time, as many columns as share a scale of the activations. */
QSF_TEMPLATE void tile_row_avx512(float *y, size_t ldy, qsf_form form, bool small, int T, const uint8_t *w,
                                  const qsf_act *x, size_t m, size_t n, size_t blocks, uint32_t block,
                                  size_t ahead)
{
    const size_t group = qsf_form_group(form), head = qsf_form_head(form), step = small ? 2 : 1;
    const int8_t *q[8];
    const float *d[8], *s[8];
    const uint8_t *next = w;
    uint8_t digits[QSF_TQ1_CODES];
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
    for (size_t b = 0; b < blocks; b += step) {
        /* A last block of 32 without a second one stands for it too, with a scale of zero. */
        const bool lone = small && b + 1 == blocks;
        const uint8_t *second = small && !lone ? w + head + group : w;
        const __m512 scale = scale16_avx512(w, form),
            scale2 = lone ? _mm512_setzero_ps() : small ? scale16_avx512(second, form) : scale;
        const __m512 zero = qsf_form_has_zero(form) ? half16_avx512(w + 32) : scale;
        const __m512 zero2 = lone || !qsf_form_has_zero(form) ? _mm512_setzero_ps()
            : half16_avx512(second + 32);
        w += head;
        if (form == QSF_F_TQ1) w = tq1_digits_avx512(digits, w - head, &next);
        second = small ? second + head : w + group;
        for (const uint8_t *end = w + (small ? 1 : block / 32) * group; w < end; w += 2 * group,
             second += 2 * group, at += 64) {
            __m512i sum[8], sum2[8];
            group_sums_avx512(sum, T, w, q, at, ahead, form);
            group_sums_avx512(sum2, T, second, q, at + 32, ahead, form);
            QSF_UNROLL
            for (int t = 0; t < T; t++) {
                const __m512 part = parts_avx512(acc[t], small, sum[t], sum2[t], scale, scale2, zero, zero2,
                                                 s[t] + at / 32, form);
                acc[t] = _mm512_fmadd_ps(_mm512_set1_ps(d[t][at / 64]), part, acc[t]);
            }
        }
        if (small) w = second - group;
        if (form == QSF_F_TQ1) w = next;
    }
    QSF_UNROLL
    for (int t = 0; t < T; t++) if ((size_t)t < n) store_avx512(y + (size_t)t * ldy, acc[t], form);
}

QSF_TEMPLATE void unpack_any_avx512(qsf_form form, qsf_panel *p, const uint8_t *w, size_t blocks,
                                    uint32_t block)
{
    const size_t group = qsf_form_group(form), cols = blocks * block;
    uint8_t (*to)[64] = p->code;
    for (size_t at = 0; at < cols; w += group, at += 32, to += 8) {
        if (at % block == 0) {
            const __m512 scale = scale16_avx512(w, form),
                zero = qsf_form_has_zero(form) ? half16_avx512(w + 32) : scale;
            for (size_t k = at / QSF_MIN(block, 64); k < (at + block) / QSF_MIN(block, 64); k++) {
                store_avx512(p->scale[k], scale, form);
                _mm512_storeu_ps(p->zero[k], zero);
            }
            w += qsf_form_head(form);
        }
        source_avx512 source = { _mm512_setzero_si512(), _mm512_setzero_si512() };
        QSF_UNROLL
        for (int j = 0; j < 8; j++) _mm512_storeu_si512(to[j], code_avx512(&source, w, j, form));
    }
    if (cols % 64 == 0) return;
    _mm512_storeu_ps(p->scale[cols / 32], _mm512_setzero_ps());
    _mm512_storeu_ps(p->zero[cols / 32], _mm512_setzero_ps());
    for (int j = 0; j < 8; j++) _mm512_storeu_si512(to[j], _mm512_setzero_si512());
}

QSF_TEMPLATE void matmul_any_avx512(qsf_form form, bool small, float *y, size_t ldy, const uint8_t *w,
                                    const qsf_act *x, size_t tiles, size_t blocks, uint32_t block,
                                    qsf_panel_unpack *unpack)
{
    const size_t row_bytes = blocks * qsf_tile_bytes(form, block);
    if (x->n >= QSF_PANEL_ROWS) {
        const qsf_panel_form f = { unpack, small ? 32 : 64, offset_avx512(form), qsf_form_has_zero(form),
                                   NULL };
        qsf_panel_matmul_avx512(&f, y, ldy, w, row_bytes, x, tiles, blocks, block);
        return;
    }
    for (size_t t = 0; t < tiles; t++)
        for (size_t m = 0; m < x->n; m += 8) {
            const size_t n = QSF_MIN(x->n - m, (size_t)8);
            float *out = y + m * ldy + 16 * t;
            const uint8_t *row = w + t * row_bytes;
            const size_t ahead = ahead_avx512(m, x->n, row_bytes);
            if (n <= 2) tile_row_avx512(out, ldy, form, small, 2, row, x, m, n, blocks, block, ahead);
            else if (n <= 4) tile_row_avx512(out, ldy, form, small, 4, row, x, m, n, blocks, block, ahead);
            else if (n <= 6) tile_row_avx512(out, ldy, form, small, 6, row, x, m, n, blocks, block, ahead);
            else tile_row_avx512(out, ldy, form, small, 8, row, x, m, n, blocks, block, ahead);
        }
}

#define FORM_AVX512(F)                                                                                      \
    static void matvec_##F##_avx512(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,             \
                                    size_t blocks, uint32_t block)                                          \
    {                                                                                                       \
        if (QSF_SMALL(F, block)) matvec_any_avx512(QSF_F_##F, true, y, w, x, tiles, blocks, block);         \
        else matvec_any_avx512(QSF_F_##F, false, y, w, x, tiles, blocks, block);                            \
    }                                                                                                       \
    static void unpack_##F##_avx512(qsf_panel *p, const uint8_t *w, size_t blocks, uint32_t block)          \
    {                                                                                                       \
        unpack_any_avx512(QSF_F_##F, p, w, blocks, block);                                                  \
    }                                                                                                       \
    static void matmul_##F##_avx512(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, \
                                    size_t blocks,                                                          \
                                    uint32_t block)                                                         \
    {                                                                                                       \
        if (x->n == 1) matvec_##F##_avx512(y, w, x, tiles, blocks, block);                                  \
        else if (QSF_SMALL(F, block))                                                                       \
            matmul_any_avx512(QSF_F_##F, true, y, ldy, w, x, tiles, blocks, block, unpack_##F##_avx512);    \
        else matmul_any_avx512(QSF_F_##F, false, y, ldy, w, x, tiles, blocks, block, unpack_##F##_avx512);  \
    }                                                                                                       \
    QSF_PANEL_USE(F, matmul_##F##_avx512, unpack_##F##_avx512)
QSF_EACH_FORM(FORM_AVX512)
QSF_EACH_GGML_FORM(FORM_AVX512)
#undef FORM_AVX512

/* ---- TQ1: digits are taken while they are multiplied ---- */
static void matvec_TQ1_avx512(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                              uint32_t block)
{
    (void)block;
    for (size_t t = 0; t < tiles; t++, y += 16) {
        __m512 acc = _mm512_setzero_ps();
        const int8_t *q = x->q;
        for (size_t b = 0; b < blocks; b++, w += QSF_TQ1_TILE, q += 256) {
            const __m512 scale = half16_avx512(w);
            __m512i v[8], sum[2] = { _mm512_setzero_si512(), _mm512_setzero_si512() };
            QSF_UNROLL
            for (int g = 0; g < 8; g++) {
                QSF_UNROLL
                for (int j = 0; j < 8; j++) {
                    const int i = 8 * g + j, from = qsf_tq1_vector(i), at = from % 8;
                    if (qsf_tq1_digit(i) == 0) v[at] = tq1_fetch_avx512(w + 32 + 64 * from);
                    sum[j % 2] = _mm512_dpbusd_epi32(sum[j % 2], tq1_digit_avx512(&v[at]), quad_avx512(q, i));
                }
                if (g % 2 == 0) continue;
                const size_t k = 8 * b + (size_t)g;
                const __m512i whole = _mm512_srai_epi32(_mm512_add_epi32(sum[0], sum[1]), 6);
                const __m512 part = part_avx512(scale, true, whole, scale, scale, x->s[k - 1] + x->s[k],
                                                QSF_F_TQ1);
                acc = _mm512_fmadd_ps(_mm512_set1_ps(x->d[k / 2]), part, acc);
                sum[0] = sum[1] = _mm512_setzero_si512();
            }
        }
        _mm512_storeu_ps(y, acc);
    }
}
static void unpack_TQ1_avx512(qsf_panel *p, const uint8_t *w, size_t blocks, uint32_t block)
{
    (void)block;
    for (size_t b = 0; b < blocks; b++, w += QSF_TQ1_TILE) {
        for (size_t k = 4 * b; k < 4 * b + 4; k++) _mm512_storeu_ps(p->scale[k], half16_avx512(w));
        tq1_expand_avx512(p->code[64 * b], w);
    }
}
static void matmul_TQ1_avx512(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                              size_t blocks, uint32_t block)
{
    if (x->n == 1) matvec_TQ1_avx512(y, w, x, tiles, blocks, block);
    else matmul_any_avx512(QSF_F_TQ1, false, y, ldy, w, x, tiles, blocks, block, unpack_TQ1_avx512);
}
QSF_PANEL_USE(TQ1, matmul_TQ1_avx512, unpack_TQ1_avx512)

void qsf_matmul_T2_avx512(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                          size_t blocks, uint32_t block)
{
    matmul_T2_avx512(y, ldy, w, x, tiles, blocks, block);
}

void qsf_matmul_avx512(qsf_kernels *k)
{
#define FORM_AVX512(F) k->matvec[QSF_F_##F] = matvec_##F##_avx512; k->matmul[QSF_F_##F] = matmul_##F##_avx512;
    QSF_EACH_FORM(FORM_AVX512)
    QSF_EACH_GGML_FORM(FORM_AVX512)
#undef FORM_AVX512
    k->matvec[QSF_F_TQ1] = matvec_TQ1_avx512;
    k->matmul[QSF_F_TQ1] = matmul_TQ1_avx512;
    qsf_super_avx512(k);
    qsf_iq_avx512(k);
    qsf_trellis_avx512(k);
}

QSF_TARGET_END
#endif
