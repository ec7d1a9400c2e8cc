/* GGUF's super-blocks times activations over vectors of 128 bits: SSE4.2 and NEON.
 * SPDX-License-Identifier: MIT
 *
 * The head of a tile, the walk over tiles and rows, and what turns integer sums into values are the
 * same in every set; a function of the set makes the integer sums. */
#ifndef QSF_SUPER_V128_H
#define QSF_SUPER_V128_H

#include "tiles_v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

enum { TOKENS_SUPER_V128 = 8 };     /* rows of activations that share one unpacking of the weights */

/* Integer sums of 32 columns and four rows of weights for each of n rows of activations, ldx bytes
 * apart: sum[t] = sum of scale[i] * (c - offset) . q, added to the previous sum if `add`.  c: the
 * columns' codes, four to a vector; scale: one of 32 columns or two of 16; h: see qsf_act.  NV4: of
 * 16 columns, times a scale of one. */
typedef void super_sums_v128(v4i *sum, const v16b *c, const int8_t *q, const int16_t *h, size_t ldx, size_t n,
                             const v4i *scale, qsf_form form, bool add);

/* Columns that one call of it takes. */
QSF_TEMPLATE int super_sums_cols(qsf_form form) { return form == QSF_F_NV4 ? 16 : 32; }

/* A decoded head of a tile, [sub-block][quarter of 4 rows].  Minimums of 32 columns are floats with
 * their factor, -dmin, in. */
typedef struct head_v128 {
    v4f d[4], dmin[4];
    v4i scale[16][4], min[16][4];
    v4f zero[8][4];
} head_v128;

/* Bits b of v moved left by n. */
QSF_TEMPLATE v16b field_v128(v16b v, int n, int b) { return v16_shift(v, n) & v16_set1(b); }

/* Heads of rare types. */
#if defined(QSF_SMALL_CODE)
#  define HEAD_UNROLL QSF_LOOP
#else
#  define HEAD_UNROLL QSF_UNROLL
#endif

/* Scales and minimums of each sub-block's 16 rows: see sub_scalar. */
QSF_TEMPLATE void head_bytes_v128(v16b s[16], v16b z[16], qsf_form form, const uint8_t *w)
{
    const uint8_t *p = w + (qsf_form_has_min(form) || form == QSF_F_IQ4XS ? 64 : 32);
    if (form == QSF_F_Q4K || form == QSF_F_Q5K) {
        QSF_UNROLL
        for (int k = 0; k < 4; k++) {
            const v16b a = v16_load(p + 16 * k), b = v16_load(p + 64 + 16 * k),
                c = v16_load(p + 128 + 16 * k);
            s[k] = field_v128(a, 0, 63);
            z[k] = field_v128(b, 0, 63);
            s[4 + k] = field_v128(c, 0, 15) | field_v128(a, -2, 48);
            z[4 + k] = field_v128(c, -4, 15) | field_v128(b, -2, 48);
        }
    } else if (form == QSF_F_Q3K) {
        HEAD_UNROLL
        for (int k = 0; k < 16; k++) {
            const v16b low = field_v128(v16_load(p + 16 * (k % 8)), k < 8 ? 0 : -4, 15),
                high = v16_load(p + 128 + 16 * (k % 4));
            s[k] = v16_minus(low | field_v128(high, 4 - 2 * (k / 4), 48), v16_set1(32));
        }
    } else if (form == QSF_F_IQ4XS) {
        const v16b first = v16_load(w + 32), second = v16_load(w + 48),
            high[2] = { v16_even(first, second), v16_odd(first, second) };
        HEAD_UNROLL
        for (int k = 0; k < 8; k++) {
            const v16b low = field_v128(v16_load(p + 16 * (k / 2)), k % 2 ? -4 : 0, 15);
            s[k] = v16_minus(low | field_v128(high[k / 4], 4 - 2 * (k % 4), 48), v16_set1(32));
        }
    } else {
        QSF_UNROLL
        for (int k = 0; k < 16; k++) {
            const v16b a = v16_load(p + 16 * k);
            s[k] = form == QSF_F_Q2K ? field_v128(a, 0, 15) : a;
            if (form == QSF_F_Q2K) z[k] = field_v128(a, -4, 15);
        }
    }
}

QSF_TEMPLATE void head_any_v128(head_v128 *h, qsf_form form, const uint8_t *w)
{
    v16b s[16], z[16];
    const bool floats = qsf_form_has_min(form) && qsf_form_sub(form) == 32;
    v8_halves(h->d, w);
    v8_halves(h->d + 2, w + 16);
    v8_halves(h->dmin, w + 32);
    v8_halves(h->dmin + 2, w + 48);
    for (int i = 0; i < 4; i++) h->dmin[i] = -h->dmin[i];
    head_bytes_v128(s, z, form, w);
    QSF_UNROLL
    for (int k = 0; k < 256 / qsf_form_sub(form); k++) {
        v16_factors(h->scale[k], s[k]);
        if (floats) {
            v4i min[4];
            v16_ints(min, z[k]);
            for (int i = 0; i < 4; i++) h->zero[k % 8][i] = h->dmin[i] * v4_float(min[i]);
        } else if (qsf_form_has_min(form)) {
            v16_factors(h->min[k], z[k]);
        }
    }
}

#undef HEAD_UNROLL

#if defined(__wasm_simd128__)
/* One function per form in every file that reads its heads: called once per tile, so that the call
 * costs nothing. */
#define FORM_V128(F)                                                                                         \
    static QSF_NOINLINE void head_read_##F##_v128(head_v128 *h, const uint8_t *w)                            \
    { head_any_v128(h, QSF_F_##F, w); }
QSF_EACH_SUPER_FORM(FORM_V128)
#undef FORM_V128
QSF_TEMPLATE void head_read_v128(head_v128 *h, qsf_form form, const uint8_t *w)
{
    switch (form) {
#define FORM_V128(F) case QSF_F_##F: head_read_##F##_v128(h, w); break;
    QSF_EACH_SUPER_FORM(FORM_V128)
#undef FORM_V128
    default: break;
    }
}
#else
QSF_TEMPLATE void head_read_v128(head_v128 *h, qsf_form form, const uint8_t *w)
{
    head_any_v128(h, form, w);
}
#endif

/* The running sums: of 64 columns in integers, of all in floats. */
typedef struct super_v128 {
    v4i sum[TOKENS_SUPER_V128], min[TOKENS_SUPER_V128];
    v4f acc[4][TOKENS_SUPER_V128];
} super_v128;

/* A group of 32 columns, one quarter, n rows.  k: its first sub-block; at: its first column. */
QSF_TEMPLATE void super_group_v128(super_v128 *a, qsf_form form, const uint8_t *g, const head_v128 *head,
                                   int k, int quarter, const qsf_act *x, size_t m, size_t n, size_t at,
                                   super_sums_v128 *sums)
{
    const bool add = at % 64 != 0, small = qsf_form_sub(form) == 16;
    const int16_t *h = x->h + m * (x->cols / 8) + at / 8;
    const v4i scale[2] = { head->scale[k][quarter], head->scale[small ? k + 1 : k][quarter] };
    source_v128 from = { v16_set1(0), v16_set1(0) };
    v16b c[8];
    QSF_UNROLL
    for (int j = 0; j < 8; j++) c[j] = code_v128(&from, g, j, form);
    sums(a->sum, c, x->q + m * x->cols + at, h, x->cols, n, scale, form, add);
    if (!small || !qsf_form_has_min(form)) return;
    for (size_t t = 0; t < n; t++, h += x->cols / 8) {
        const v4i least = v4_times_two(head->min[k][quarter],
                                       h) + v4_times_two(head->min[k + 1][quarter], h + 2);
        a->min[t] = add ? a->min[t] + least : least;
    }
}

/* 64 columns of one quarter and n rows; part: which of the super-block's four. */
QSF_TEMPLATE void super_part_v128(super_v128 *a, qsf_form form, int quarter, const uint8_t *w,
                                  const head_v128 *head, int part, const qsf_act *x, size_t m, size_t n,
                                  size_t at, super_sums_v128 *sums)
{
    const int subs = 32 / qsf_form_sub(form), k = part * 2 * subs;
    const float *d = x->d + m * (x->cols / 64) + at / 64, *s = x->s + m * (x->cols / 32) + at / 32;
    super_group_v128(a, form, w, head, k, quarter, x, m, n, at, sums);
    super_group_v128(a, form, w + qsf_form_group(form), head, k + subs, quarter, x, m, n, at + 32, sums);
    for (size_t t = 0; t < n; t++, d += x->cols / 64, s += x->cols / 32) {
        v4f p = v4_float(a->sum[t]) * head->d[quarter];
        if (qsf_form_has_min(form) && subs == 2) p = v4_fma(v4_float(a->min[t]), head->dmin[quarter], p);
        else if (qsf_form_has_min(form)) {
            p = v4_fma(head->zero[k % 8][quarter], v4_set1(s[0]), p);
            p = v4_fma(head->zero[(k + 1) % 8][quarter], v4_set1(s[1]), p);
        }
        a->acc[quarter][t] = v4_fma(v4_set1(*d), p, a->acc[quarter][t]);
    }
}

QSF_TEMPLATE void super_row_v128(float *y, size_t ldy, qsf_form form, const uint8_t *w, const qsf_act *x,
                                 size_t m, size_t n, size_t blocks, super_sums_v128 *sums)
{
    super_v128 a;
    for (size_t t = 0; t < n; t++) {
        a.sum[t] = a.min[t] = v4_set1i(0);
        for (int i = 0; i < 4; i++) a.acc[i][t] = v4_set1(0);
    }
    for (size_t b = 0; b < blocks; b++) {
        head_v128 head;
        head_read_v128(&head, form, w);
        w += qsf_form_head(form);
        for (int part = 0; part < 4; part++, w += 2 * qsf_form_group(form))
            for (int i = 0; i < 4; i++)
                super_part_v128(&a, form, i, w + 16 * i, &head, part, x, m, n,
                                256 * b + 64 * (size_t)part, sums);
    }
    for (size_t t = 0; t < n; t++, y += ldy)
        for (int i = 0; i < 4; i++) v4_store(y + 4 * i, a.acc[i][t]);
}

QSF_TEMPLATE void super_any_v128(qsf_form form, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                                 size_t tiles, size_t blocks, super_sums_v128 *sums)
{
    const size_t row_bytes = blocks * qsf_tile_bytes(form, 256), band = qsf_band_rows(x->cols);
    for (size_t from = 0; from < x->n; from += band)
        for (size_t t = 0; t < tiles; t++)
            for (size_t m = from; m < x->n && m < from + band; m += TOKENS_SUPER_V128)
                super_row_v128(y + m * ldy + 16 * t, ldy, form, w + t * row_bytes, x, m,
                               QSF_MIN(x->n - m, (size_t)TOKENS_SUPER_V128), blocks, sums);
}

/* One row of activations. */
QSF_TEMPLATE void super_one_v128(qsf_form form, float *y, const uint8_t *w, const qsf_act *x, size_t tiles,
                                 size_t blocks, super_sums_v128 *sums)
{
    for (size_t t = 0; t < tiles; t++)
        super_row_v128(y + 16 * t, 16, form, w + t * blocks * qsf_tile_bytes(form, 256), x, 0, 1,
                       blocks, sums);
}

/* ---- NV4: 64 columns with four scales, which are not integers ---- */
/* One quarter of a block of n rows: part = its value without the activations' scale. */
QSF_TEMPLATE void nv4_block_v128(v4f *part, const uint8_t *w, int quarter, const v4f scale[4][4],
                                 const qsf_act *x, size_t at, size_t n, super_sums_v128 *sums)
{
    for (int k = 0; k < 4; k++) {               /* 16 columns are two vectors of nibbles */
        const uint8_t *g = w + 128 * k + 16 * quarter;
        v4i sum[TOKENS_SUPER_V128], one[4];
        v16b c[4];
        v16_factors(one, v16_set1(1));
        QSF_UNROLL
        for (int j = 0; j < 4; j++)
            c[j] = code_of_v128(v16_load(g + 64 * (j / 2)), v16_set1(0), j, QSF_F_NV4);
        sums(sum, c, x->q + at + 16 * (size_t)k, x->h + at / 8 + 2 * (size_t)k, x->cols, n, one, QSF_F_NV4,
             false);
        for (size_t t = 0; t < n; t++) {
            const v4f value = v4_float(sum[t]) * scale[k][quarter];
            part[t] = k ? part[t] + value : value;
        }
    }
}
QSF_TEMPLATE void nv4_any_v128(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                               size_t blocks, super_sums_v128 *sums)
{
    const size_t tile_bytes = qsf_tile_bytes(QSF_F_NV4, 64);
    for (size_t t = 0; t < tiles; t++, w += blocks * tile_bytes)
        for (size_t m = 0; m < x->n; m += TOKENS_SUPER_V128) {
            const size_t n = QSF_MIN(x->n - m, (size_t)TOKENS_SUPER_V128);
            v4f acc[4][TOKENS_SUPER_V128];
            memset(acc, 0, sizeof acc);
            for (size_t b = 0; b < blocks; b++) {
                const uint8_t *tile = w + b * tile_bytes;
                const size_t at = m * x->cols + 64 * b;
                v4f scale[4][4], part[TOKENS_SUPER_V128];
                for (int k = 0; k < 4; k++) scales_v128(scale[k], tile + 16 * k, QSF_F_NV4);
                for (int i = 0; i < 4; i++) {
                    nv4_block_v128(part, tile + 64, i, (const v4f (*)[4])scale, x, at, n, sums);
                    for (size_t r = 0; r < n; r++)
                        acc[i][r] = v4_fma(v4_set1(x->d[at / 64 + r * (x->cols / 64)]), part[r], acc[i][r]);
                }
            }
            for (size_t r = 0; r < n; r++)
                for (int i = 0; i < 4; i++) v4_store(y + (m + r) * ldy + 16 * t + 4 * (size_t)i, acc[i][r]);
        }
}
/* Both entries of a set, from its sums. */
#define QSF_NV4_V128(set)                                                                                    \
    static void matmul_NV4_##set(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,     \
                                 size_t blocks, uint32_t block)                                              \
    { (void)block; nv4_any_v128(y, ldy, w, x, tiles, blocks, sums_##set); }                                  \
    static void matvec_NV4_##set(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,  \
                                 uint32_t block)                                                             \
    { matmul_NV4_##set(y, 16 * tiles, w, x, tiles, blocks, block); }

QSF_V128_END
#endif
#endif
