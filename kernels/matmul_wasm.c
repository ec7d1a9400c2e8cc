/* Tiles times activations in WebAssembly, with relaxed SIMD's dot product where the module is compiled for it.
 * SPDX-License-Identifier: MIT
 *
 * A tile is read as four quarters of 4 rows: a vector holds 4 columns of each, and a 32-bit lane of sums is a row.  relaxed_dot takes
 * bytes and 7-bit codes, a combination for which every lowering of it is the same integer sum; int8 codes go in as their low 7 bits
 * and their sign bits.  Without it bytes widen to 16 bits, those at even places and those at odd ones apart, for dot_i16x8.
 * An engine may run relaxed_dot as one instruction (x86 with AVX-VNNI, ARM with dotprod) or as four. */
#include "v128.h"

#if defined(__wasm_simd128__)

#if defined(__wasm_relaxed_simd__)
enum { RELAXED_WASM = 1, WIDTH_WASM = 1 };      /* vectors that 16 unpacked codes take */
#else
enum { RELAXED_WASM = 0, WIDTH_WASM = 2 };
#endif

/* ---- codes ---- */
typedef struct source_wasm { v128_t low, high; } source_wasm;

/* v moved left by n bits, or right where n is negative; bits that cross bytes are masked by the caller. */
QSF_TEMPLATE v128_t shift_wasm(v128_t v, int n) { return n < 0 ? wasm_u16x8_shr(v, -n) : n > 0 ? wasm_i16x8_shl(v, n) : v; }

/* Columns 4j..4j+3 of a group for the four rows whose quarter begins at g.  To be called with j = 0..7 in turn. */
QSF_TEMPLATE v128_t code_wasm(source_wasm *s, const uint8_t *g, int j, int bits)
{
    if (bits == 8) return wasm_v128_load(g + 64 * j);
    const int low = bits < 4 ? 2 : 4, fields = 8 / low, f = j % fields;
    const uint8_t *high = g + 64 * low;
    if (f == 0) s->low = wasm_v128_load(g + 64 * (j / fields));
    if ((bits == 3 || bits == 5) && j == 0) s->high = wasm_v128_load(high);
    if (bits == 6 && j % 4 == 0) s->high = wasm_v128_load(high + 64 * (j / 4));
    const v128_t c = wasm_v128_and(shift_wasm(s->low, -low * f), wasm_i8x16_splat((int8_t)((1 << low) - 1)));
    if (bits == 3 || bits == 5) return wasm_v128_or(c, wasm_v128_and(shift_wasm(s->high, low - j), wasm_i8x16_splat((int8_t)(1 << low))));
    if (bits == 6) return wasm_v128_or(c, wasm_v128_and(shift_wasm(s->high, 4 - 2 * (j % 4)), wasm_i8x16_splat(48)));
    return c;
}

/* ---- sums ---- */
/* Four activations, for all rows of a quarter. */
typedef struct quad_wasm { v128_t v[WIDTH_WASM]; } quad_wasm;
/* Sums of four rows; second is for the sign bits of 8-bit codes. */
typedef struct sum_wasm { v128_t first, second; } sum_wasm;

QSF_TEMPLATE quad_wasm quad_of_wasm(const int8_t *q)
{
    const v128_t a = wasm_v128_load32_splat(q);
    quad_wasm out;
#if defined(__wasm_relaxed_simd__)
    out.v[0] = a;
#else
    out.v[0] = v16_wide_even(a);
    out.v[1] = v16_wide_odd(a);
#endif
    return out;
}
QSF_TEMPLATE sum_wasm sum_zero_wasm(void) { return (sum_wasm){ wasm_i32x4_splat(0), wasm_i32x4_splat(0) }; }
QSF_TEMPLATE void sum_add_wasm(sum_wasm *s, v128_t c, quad_wasm q, int bits)
{
#if defined(__wasm_relaxed_simd__)
    if (bits == 8) {
        s->second = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(q.v[0], wasm_v128_and(wasm_u16x8_shr(c, 7), wasm_i8x16_splat(1)), s->second);
        c = wasm_v128_and(c, wasm_i8x16_splat(127));
    }
    s->first = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(q.v[0], c, s->first);
#else
    const v128_t even = bits == 8 ? v16_wide_even(c) : wasm_v128_and(c, wasm_i16x8_splat(0xff)), odd = bits == 8 ? v16_wide_odd(c) : wasm_u16x8_shr(c, 8);
    s->first = wasm_i32x4_add(s->first, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even, q.v[0]), wasm_i32x4_dot_i16x8(odd, q.v[1])));
#endif
}
QSF_TEMPLATE v128_t sum_end_wasm(const sum_wasm *s, int bits)
{
    return RELAXED_WASM && bits == 8 ? wasm_i32x4_sub(s->first, wasm_i32x4_shl(s->second, 7)) : s->first;
}

/* ---- values ---- */
/* Scales are finite: here the exponent moves by a multiplication alone. */
QSF_TEMPLATE v4f half4_wasm(const uint8_t *p)
{
    const v128_t h = wasm_v128_load64_zero(p), zero = wasm_i32x4_splat(0);
    const v128_t w = wasm_i32x4_shr(wasm_i16x8_shuffle(zero, h, 0, 8, 1, 9, 2, 10, 3, 11), 3);
    return (v4f)wasm_v128_and(w, wasm_i32x4_splat((int32_t)0x8fffe000)) * v4_set1(0x1p112f);
}
/* acc + d * (value of the integer sums); sq is the plain sum of the activations. */
QSF_TEMPLATE v4f value_wasm(v4f acc, v128_t sum, v4f scale, v4f zero, float d, float sq, qsf_form form)
{
    const v4f f = v4_float((v4i)sum);
    if (qsf_form_has_zero(form)) return acc + v4_set1(d) * (scale * f + zero * v4_set1(sq));
    if (!qsf_form_offset(form)) return acc + scale * v4_set1(d) * f;
    return acc + scale * v4_set1(d) * (f - v4_set1((float)qsf_form_offset(form) * sq));
}
QSF_TEMPLATE void store_wasm(float *y, v4f v, qsf_form form) { v4_store(y, form == QSF_F_TERNARY ? -v : v); }

/* ---- one row of activations: the quarters take turns, so that no sum waits for the one before it ---- */
QSF_TEMPLATE void matvec_any_wasm(qsf_form form, bool small, float *y, const uint8_t *w, const qsf_act *x, size_t tiles,
                                  size_t blocks, uint32_t block)
{
    const int bits = qsf_form_bits(form), groups = small ? 1 : 2;
    const size_t group = qsf_form_group(form);
    for (size_t t = 0; t < tiles; t++, y += 16) {
        v4f acc[4] = { v4_set1(0), v4_set1(0), v4_set1(0), v4_set1(0) };
        const int8_t *q = x->q;
        const float *s = x->s;
        size_t part = 0;
        for (size_t b = 0; b < blocks; b++) {
            const uint8_t *head = w;
            w += qsf_form_head(form);
            for (const uint8_t *end = w + block / 32 * group; w < end; part++) {
                sum_wasm sum[4] = { sum_zero_wasm(), sum_zero_wasm(), sum_zero_wasm(), sum_zero_wasm() };
                source_wasm from[4];
                QSF_UNROLL
                for (int j = 0; j < 8 * groups; j++) {
                    const quad_wasm a = quad_of_wasm(q + 4 * j);
                    QSF_UNROLL
                    for (int i = 0; i < 4; i++)
                        sum_add_wasm(&sum[i], code_wasm(&from[i], w + (size_t)(j / 8) * group + 16 * i, j % 8, bits), a, bits);
                }
                const float d = x->d[small ? part / 2 : part], sq = small ? s[0] : s[0] + s[1];
                QSF_UNROLL
                for (int i = 0; i < 4; i++) {
                    const v4f scale = half4_wasm(head + 8 * i), zero = qsf_form_has_zero(form) ? half4_wasm(head + 32 + 8 * i) : scale;
                    acc[i] = value_wasm(acc[i], sum_end_wasm(&sum[i], bits), scale, zero, d, sq, form);
                }
                w += (size_t)groups * group, q += 32 * groups, s += groups;
            }
        }
        QSF_UNROLL
        for (int i = 0; i < 4; i++) store_wasm(y + 4 * i, acc[i], form);
    }
}

/* ---- several rows of activations: 64 columns of a tile are unpacked once, then all rows of a strip pass by ---- */
enum { TOKENS_WASM = 16 };      /* rows that share one unpacking */

typedef struct part_wasm {
    v128_t codes[16][4][2];     /* [4 columns][quarter]: as bytes, or 16 bits at even and at odd places; 8 bits: low bits and signs */
    v4f    scale[4], zero[4];
    int    groups;
    size_t at;                  /* the first column */
    const qsf_act *x;
    size_t m, n;                /* rows of x; n <= TOKENS_WASM */
    v4f    acc[TOKENS_WASM][4];
} part_wasm;

QSF_TEMPLATE void unpack_wasm(part_wasm *p, const uint8_t *w, int bits)
{
    for (int g = 0; g < p->groups; g++, w += 64 * bits)
        for (int i = 0; i < 4; i++) {
            source_wasm s;
            QSF_UNROLL
            for (int j = 0; j < 8; j++) {
                const v128_t c = code_wasm(&s, w + 16 * i, j, bits);
                v128_t *to = p->codes[8 * g + j][i];
#if defined(__wasm_relaxed_simd__)
                to[0] = bits == 8 ? wasm_v128_and(c, wasm_i8x16_splat(127)) : c;
                if (bits == 8) to[1] = wasm_v128_and(wasm_u16x8_shr(c, 7), wasm_i8x16_splat(1));
#else
                to[0] = bits == 8 ? v16_wide_even(c) : wasm_v128_and(c, wasm_i16x8_splat(0xff));
                to[1] = bits == 8 ? v16_wide_odd(c) : wasm_u16x8_shr(c, 8);
#endif
            }
        }
}

/* Two quarters of an unpacked part times T rows: 2 * T sums are all the registers that x86 can spare. */
QSF_TEMPLATE void multiply_some_wasm(part_wasm *p, size_t t, int T, qsf_form form, bool is8)
{
    const int8_t *q[4];
    QSF_UNROLL
    for (int r = 0; r < T; r++) q[r] = p->x->q + (p->m + QSF_MIN(t + (size_t)r, p->n - 1)) * p->x->cols + p->at;
    for (int half = 0; half < 4; half += 2) {
        v128_t sum[4][2], signs[4][2];
        QSF_UNROLL
        for (int r = 0; r < T; r++)
            QSF_UNROLL
            for (int h = 0; h < 2; h++) sum[r][h] = signs[r][h] = wasm_i32x4_splat(0);
        for (int k = 0; k < 8 * p->groups; k += 4)
            QSF_UNROLL
            for (int j = k; j < k + 4; j++)
                QSF_UNROLL
                for (int r = 0; r < T; r++) {
                    const quad_wasm a = quad_of_wasm(q[r] + 4 * j);
                    QSF_UNROLL
                    for (int h = 0; h < 2; h++) {
                        const v128_t *c = p->codes[j][half + h];
#if defined(__wasm_relaxed_simd__)
                        sum[r][h] = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(a.v[0], c[0], sum[r][h]);
                        if (is8) signs[r][h] = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(a.v[0], c[1], signs[r][h]);
#else
                        sum[r][h] = wasm_i32x4_add(sum[r][h], wasm_i32x4_add(wasm_i32x4_dot_i16x8(c[0], a.v[0]), wasm_i32x4_dot_i16x8(c[1], a.v[1])));
#endif
                    }
                }
        QSF_UNROLL
        for (int r = 0; r < T; r++) {
            if (t + (size_t)r >= p->n) continue;
            const size_t row = p->m + t + (size_t)r;
            const float d = p->x->d[row * (p->x->cols / 64) + p->at / 64], *s = p->x->s + row * (p->x->cols / 32) + p->at / 32;
            const float sq = p->groups == 1 ? s[0] : s[0] + s[1];
            QSF_UNROLL
            for (int h = 0; h < 2; h++) {
                const v128_t all = RELAXED_WASM && is8 ? wasm_i32x4_sub(sum[r][h], wasm_i32x4_shl(signs[r][h], 7)) : sum[r][h];
                v4f *acc = &p->acc[t + (size_t)r][half + h];
                *acc = value_wasm(*acc, all, p->scale[half + h], p->zero[half + h], d, sq, form);
            }
        }
    }
}
QSF_TEMPLATE void multiply_wasm(part_wasm *p, qsf_form form)
{
    const bool is8 = qsf_form_bits(form) == 8;
    for (size_t t = 0; t < p->n; t += 4) {
        if (p->n - t <= 2) multiply_some_wasm(p, t, 2, form, is8);
        else multiply_some_wasm(p, t, 4, form, is8);
    }
}
/* The forms differ in how sums become values: with zeros, with an offset, or with neither. */
typedef void multiply_fn_wasm(part_wasm *p);
static void multiply_zero_wasm(part_wasm *p) { multiply_wasm(p, QSF_F_4Z); }
static void multiply_one_wasm(part_wasm *p) { multiply_wasm(p, QSF_F_TERNARY); }
static void multiply_3_wasm(part_wasm *p) { multiply_wasm(p, QSF_F_3); }
static void multiply_4_wasm(part_wasm *p) { multiply_wasm(p, QSF_F_4); }
static void multiply_5_wasm(part_wasm *p) { multiply_wasm(p, QSF_F_5); }
static void multiply_6_wasm(part_wasm *p) { multiply_wasm(p, QSF_F_6); }
static void multiply_8_wasm(part_wasm *p) { multiply_wasm(p, QSF_F_8); }

QSF_TEMPLATE multiply_fn_wasm *multiply_of_wasm(qsf_form form)
{
    switch (form) {
    case QSF_F_TERNARY: return multiply_one_wasm;
    case QSF_F_3:       return multiply_3_wasm;
    case QSF_F_4:       return multiply_4_wasm;
    case QSF_F_5:       return multiply_5_wasm;
    case QSF_F_6:       return multiply_6_wasm;
    case QSF_F_8:       return multiply_8_wasm;
    default:            return multiply_zero_wasm;
    }
}

QSF_TEMPLATE void tile_row_wasm(part_wasm *p, float *y, size_t ldy, qsf_form form, const uint8_t *w, size_t blocks, uint32_t block)
{
    p->groups = block == 32 ? 1 : 2, p->at = 0;
    memset(p->acc, 0, sizeof p->acc);
    for (size_t b = 0; b < blocks; b++) {
        for (int i = 0; i < 4; i++) {
            p->scale[i] = half4_wasm(w + 8 * i);
            p->zero[i] = qsf_form_has_zero(form) ? half4_wasm(w + 32 + 8 * i) : p->scale[i];
        }
        w += qsf_form_head(form);
        for (const uint8_t *end = w + block / 32 * qsf_form_group(form); w < end; w += (size_t)p->groups * qsf_form_group(form)) {
            unpack_wasm(p, w, qsf_form_bits(form));
            multiply_of_wasm(form)(p);
            p->at += 32 * (size_t)p->groups;
        }
    }
    for (size_t t = 0; t < p->n; t++)
        for (int i = 0; i < 4; i++) store_wasm(y + t * ldy + 4 * i, p->acc[t][i], form);
}

QSF_TEMPLATE void matmul_any_wasm(qsf_form form, float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                                  size_t blocks, uint32_t block)
{
    const size_t row_bytes = blocks * qsf_tile_bytes(form, block), strip = qsf_strip_rows(x->cols);
    part_wasm p;
    p.x = x;
    for (size_t from = 0; from < x->n; from += strip)
        for (size_t t = 0; t < tiles; t++)
            for (size_t m = from; m < x->n && m < from + strip; m += TOKENS_WASM) {
                p.m = m, p.n = QSF_MIN(x->n - m, (size_t)TOKENS_WASM);
                tile_row_wasm(&p, y + m * ldy + 16 * t, ldy, form, w + t * row_bytes, blocks, block);
            }
}

#define FORM_WASM(F)                                                                                                         \
    static void matvec_##F##_wasm(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks, uint32_t block) \
    {                                                                                                                        \
        if (block == 32) matvec_any_wasm(QSF_F_##F, true, y, w, x, tiles, blocks, block);                                    \
        else matvec_any_wasm(QSF_F_##F, false, y, w, x, tiles, blocks, block);                                               \
    }                                                                                                                        \
    static void matmul_##F##_wasm(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,     \
                                  uint32_t block)                                                                            \
    {                                                                                                                        \
        if (x->n == 1) matvec_##F##_wasm(y, w, x, tiles, blocks, block);                                                     \
        else matmul_any_wasm(QSF_F_##F, y, ldy, w, x, tiles, blocks, block);                                                 \
    }
QSF_EACH_FORM(FORM_WASM)
#undef FORM_WASM

static void attention_qkv_project_wasm(float *const y[3], qsf_form form, const uint8_t *const w[3], const size_t tiles[3],
                                       const qsf_act *x, size_t blocks, uint32_t block)
{
    qsf_kernels k;
    qsf_matmul_scalar(&k);
    qsf_matmul_wasm(&k);
    for (int i = 0; i < 3; i++) k.matmul[form](y[i], 16 * tiles[i], w[i], x, tiles[i], blocks, block);
}

void qsf_matmul_wasm(qsf_kernels *k)
{
#define FORM_WASM(F) k->matvec[QSF_F_##F] = matvec_##F##_wasm; k->matmul[QSF_F_##F] = matmul_##F##_wasm;
    QSF_EACH_FORM(FORM_WASM)
#undef FORM_WASM
    k->attention_qkv_project = attention_qkv_project_wasm;
}
#endif
