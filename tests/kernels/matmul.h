/* Checks of tiles times activations and float weights.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_MATMUL_H
#define KERNELS_MATMUL_H

#include "small_forms.h"

static const char *const form_names[QSF_N_FORMS] = {
    "2z", "3z", "4z", "ternary", "8", "3", "4", "5", "6", "5z", "iq4", "q4k", "q5k", "q6k", "q2k", "q3k",
    "iq4xs", "t2", "t5", "qk256", "2s",
    [QSF_F_IQ2XXS] = "iq2xxs", [QSF_F_IQ2XS] = "iq2xs", [QSF_F_IQ2S] = "iq2s", [QSF_F_IQ3XXS] = "iq3xxs",
    [QSF_F_IQ3S] = "iq3s", [QSF_F_IQ1S] = "iq1s", [QSF_F_IQ1M] = "iq1m",
    [QSF_F_TQ1] = "tq1", [QSF_F_MX4] = "mx4", [QSF_F_NV4] = "nv4", [QSF_F_Q1] = "q1", [QSF_F_8K] = "8k",
    [QSF_F_TR2] = "tr2", [QSF_F_TR3] = "tr3", [QSF_F_TR4] = "tr4", [QSF_F_TR5] = "tr5",
    [QSF_F_TB4] = "tb4", [QSF_F_TB3] = "tb3",
};
static const int form_bits[QSF_N_FORMS] = {
    2, 3, 4, 2, 8, 3, 4, 5, 6, 5, 4, 4, 5, 6, 2, 3, 4, 2, 2, 2, 2,
    [QSF_F_TQ1] = 2, [QSF_F_MX4] = 4, [QSF_F_NV4] = 4, [QSF_F_Q1] = 1, [QSF_F_8K] = 8,
    [QSF_F_TR2] = 2, [QSF_F_TR3] = 3, [QSF_F_TR4] = 4, [QSF_F_TR5] = 5,
    [QSF_F_TB4] = 4, [QSF_F_TB3] = 3,
};
static const int form_offset[QSF_N_FORMS] = { 0, 0, 0, 1, 0, 4, 8, 16, 32, 0, 0, 0, 0, 32, 0, 4, 0,
                                              1, 1, 0, 2 };
static bool form_has_zero(int form) { return form <= QSF_F_4Z || form == QSF_F_5Z; }
static bool form_super(int form) { return form >= QSF_F_Q4K && form <= QSF_F_IQ4XS; }
/* No scales. */
static bool form_bare(int form) { return form == QSF_F_T2 || form == QSF_F_T5 || form == QSF_F_QK256; }
/* Super-blocks: scale bytes of a row, columns that share a scale, a second fp16. */
static int form_scales(int form)
{
    return form == QSF_F_Q6K || form == QSF_F_Q2K ? 16 : form == QSF_F_IQ4XS ? 4 : 12;
}
static uint32_t form_sub(int form)
{
    return form == QSF_F_Q6K || form == QSF_F_Q2K || form == QSF_F_Q3K ? 16 : 32;
}
static bool form_has_min(int form) { return form == QSF_F_Q4K || form == QSF_F_Q5K || form == QSF_F_Q2K; }
static size_t form_head(int form)
{
    if (form_small(form)) return small_head(form);
    if (form_bare(form)) return 0;
    if (form_levels(form)) return 16;
    if (!form_super(form)) return form_has_zero(form) ? 64 : 32;
    return (form_has_min(form) || form == QSF_F_IQ4XS ? 64 : 32) + 16 * (size_t)form_scales(form);
}

/* Digit of row r, column c of a tile of TERNARY5: five in a byte, as a number in base 3 times
 * 256 / 243, rounded up. */
static int five_digit(const uint8_t *tile, int r, uint32_t c)
{
    static const int power[5] = { 81, 27, 9, 3, 1 };
    const uint32_t digit = c < 160 ? c / 32 : c < 240 ? (c - 160) / 16 : (c - 240) / 4,
        byte = c < 160 ? c % 32 : c < 240 ? 32 + (c - 160) % 16 : 48 + (c - 240) % 4;
    return tile[64 * (byte / 4) + 4 * (uint32_t)r + byte % 4] * 243 / 256 / power[digit] % 3;
}

/* Code of row r, column c of a tile, by the words of kernels.h and nothing else. */
static int tile_code(const uint8_t *tile, int form, int r, uint32_t c)
{
    if (form_small(form)) return small_value(tile, form, r, c);
    if (form == QSF_F_T5) return five_digit(tile, r, c);
    const int bits = form_bits[form];
    const uint8_t *g = tile + form_head(form) + c / 32 * 64 * (size_t)bits + 4 * r;
    const uint32_t k = c % 32, b = k % 4;
    if (bits == 8) return (int8_t)g[64 * (k / 4) + b];
    if (bits < 4) {
        const int low = g[64 * (k / 16) + b] >> 2 * (k / 4 % 4) & 3;
        return bits == 2 ? low : low | (g[128 + b] >> k / 4 & 1) << 2;
    }
    const int low = g[64 * (k / 8) + b] >> 4 * (k / 4 % 2) & 15;
    if (bits == 5) return low | (g[256 + b] >> k / 4 & 1) << 4;
    if (bits == 6) return low | (g[256 + 64 * (k / 16) + b] >> 2 * (k / 4 % 4) & 3) << 4;
    return low;
}
/* The number that is multiplied with the scale. */
static int code_value(int form, int code)
{
    static const int iq4[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };
    if (form == QSF_F_IQ4 || form == QSF_F_IQ4XS) return iq4[code];
    static const int tables[2][16] = { { -50, -38, -29, -22, -16, -10, -5, 0, 5, 10, 15, 21, 28, 36, 46, 63 },
                                       { -34, -19, -9, 0, 8, 17, 29, 48 } };
    if (form_small(form)) return code;
    if (form_levels(form)) return tables[form == QSF_F_TB3][code];
    if (form == QSF_F_QK256) return code < 2 ? code - 2 : code - 1;
    return form == QSF_F_TERNARY ? 1 - code : code - form_offset[form];
}

/* Scale and minimum of sub-block k of row r of a super-block tile, from GGUF's bytes. */
static void sub_get(const uint8_t *tile, int form, int r, int k, int *scale, int *min)
{
    uint8_t s[16];
    const uint8_t *at = tile + (form_has_min(form) || form == QSF_F_IQ4XS ? 64 : 32);
    for (int i = 0; i < form_scales(form); i++) s[i] = at[16 * i + r];
    *min = 0;
    switch (form) {
    case QSF_F_Q6K: *scale = (int8_t)s[k]; break;
    case QSF_F_Q2K: *scale = s[k] % 16, *min = s[k] / 16; break;
    case QSF_F_Q3K:
        *scale = s[k % 8] / (k < 8 ? 1 : 16) % 16 + s[8 + k % 4] / (1 << 2 * (k / 4)) % 4 * 16 - 32; break;
    case QSF_F_IQ4XS:
        *scale = s[k / 2] / (k % 2 ? 16 : 1) % 16 + (qsf_le16(tile + 32 + 2 * r) >> 2 * k & 3) * 16 - 32;
        break;
    default:
        *scale = k < 4 ? s[k] % 64 : s[k + 4] % 16 + s[k - 4] / 64 * 16;
        *min = k < 4 ? s[k + 4] % 64 : s[k + 4] / 16 + s[k] / 64 * 16;
    }
}
/* All scales one, all minimums zero. */
static void subs_unit(uint8_t *tile, int form)
{
    static const uint8_t q4k[12] = { 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1 };
    uint8_t *at = tile + (form_has_min(form) || form == QSF_F_IQ4XS ? 64 : 32);
    for (int i = 0; i < form_scales(form); i++)
        memset(at + 16 * i, form == QSF_F_Q3K ? (i < 8 ? 0x11 : 0xaa) : form == QSF_F_IQ4XS ? 0x11
               : form_sub(form) == 16 ? 1 : q4k[i], 16);
    for (int r = 0; form == QSF_F_IQ4XS && r < 16; r++) qsf_put16(tile + 32 + 2 * r, 0xaaaa);
}

static double tile_value(const uint8_t *tile, int form, int r, uint32_t c)
{
    if (form_small(form)) return small_scale(tile, form, r, c) * small_value(tile, form, r, c);
    double scale = form_bare(form) ? 1 : form_levels(form) ? levels_scale(tile[r])
        : qsf_f16_to_f32(qsf_le16(tile + 2 * r)), zero = 0;
    if (form_has_zero(form)) zero = qsf_f16_to_f32(qsf_le16(tile + 32 + 2 * r));
    if (form_super(form)) {
        int s, min;
        sub_get(tile, form, r, (int)(c / form_sub(form)), &s, &min);
        scale *= s;
        if (form_has_min(form)) zero = -min * (double)qsf_f16_to_f32(qsf_le16(tile + 32 + 2 * r));
    }
    return scale * code_value(form, tile_code(tile, form, r, c)) + zero;
}

typedef struct matmul_case {
    size_t tiles, blocks, n, ldy;
    uint32_t block;
    uint8_t *w;
    qsf_act x;
} matmul_case;

static void fill_act(table_test *t, qsf_act *x, bool unit)
{
    for (size_t i = 0; i < (size_t)x->n * x->cols; i++) {
        const size_t r = pick(t, 0, 254);
        x->q[i] = (int8_t)(t->round == 0 ? 0 : t->round == 1 ? 127 : t->round == 2 ? (r & 1 ? 127 : -127)
                           : (int)r - 127);
    }
    for (size_t i = 0; i < (size_t)x->n * x->cols / 64; i++)
        x->d[i] = unit ? 1 : t->round == 0 ? 0 : 0.001f + fabsf(pick_f32(t, 0.05f));
    for (size_t i = 0; i < (size_t)x->n * x->cols / 32; i++) {
        int sum = 0;
        for (size_t c = 0; c < 32; c++) sum += x->q[32 * i + c];
        x->s[i] = (float)sum;
    }
    memset(x->h, 0, (size_t)x->n * x->cols / 4);
    for (size_t i = 0; i < (size_t)x->n * x->cols; i++)
        x->h[i / 16 * 2 + i / 2 % 2] = (int16_t)(x->h[i / 16 * 2 + i / 2 % 2] + x->q[i]);
}
static qsf_act guard_act(table_test *t, size_t n, size_t cols)
{
    qsf_act x = { .n = (uint32_t)n, .cols = qsf_act_cols((uint32_t)cols) };
    x.q = (int8_t *)guard_alloc(t, n * x.cols);
    x.d = guard_f32(t, n * x.cols / 64);
    x.s = guard_f32(t, n * x.cols / 32);
    x.h = (int16_t *)(void *)guard_alloc(t, n * x.cols / 4);
    return x;
}

/* unit: scales and d of one and no zeros, so that y is the integer sum. */
static matmul_case random_case(table_test *t, bool unit, size_t n)
{
    static const uint32_t sizes[] = { 32, 64, 128, 256 };
    matmul_case c = { .tiles = pick(t, 1, 3), .n = n,
                      .block = form_block(t->form) ? form_block(t->form) : sizes[t->round % 4] };
    c.blocks = pick(t, 1, (unit ? 512 : t->round / 4 == 1 ? 1536 * 4 : 1536) / c.block);
    c.ldy = 16 * c.tiles + (n > 1 ? pick(t, 0, 3) : 0);
    /* of a super-block the bytes from here on are scales */
    const size_t tile = qsf_tile_bytes((qsf_form)t->form, c.block),
        head = form_bare(t->form) ? 0 : form_has_zero(t->form) ? 64 : 32;
    c.w = guard_alloc(t, c.tiles * c.blocks * tile);
    for (size_t i = 0; i < c.tiles * c.blocks; i++) {
        uint8_t *p = c.w + i * tile;
        for (size_t b = form_own_scales(t->form) ? 0 : head; b < tile; b++)
            p[b] = (uint8_t)(t->round == 0 ? 0 : t->round == 1 ? 0xff : t->round == 2 ? 0x80
                             : rng_next(t) >> 32);
        for (int r = 0; r < 16 && head && !form_own_scales(t->form); r++) {
            qsf_put16(p + 2 * r, qsf_f32_to_f16(unit ? 1 : t->round == 1 ? 65504 : pick_f32(t, 0.1f)));
            if (head == 64 || form_has_min(t->form))
                qsf_put16(p + 32 + 2 * r, qsf_f32_to_f16(unit ? 0 : t->round == 1 ? -65504
                                                         : pick_f32(t, 0.5f)));
        }
        if (form_own_scales(t->form)) small_scales(t, p, t->form, unit);
        if (unit && form_super(t->form)) subs_unit(p, t->form);
    }
    c.x = guard_act(t, n, c.blocks * c.block);
    fill_act(t, &c.x, unit);
    SHAPE(t, "form %s, tiles %zu, blocks %zu of %u, rows %zu, ldy %zu", form_names[t->form], c.tiles,
          c.blocks, (unsigned)c.block, n, c.ldy);
    return c;
}

static int32_t integer_sum(const matmul_case *c, int form, size_t m, size_t row)
{
    const size_t tile = qsf_tile_bytes((qsf_form)form, c->block);
    int32_t sum = 0;
    for (uint32_t k = 0; form_trellis(form) && k < 64 * c->blocks; k++)
        sum += trellis_level(c->w + row / 16 * c->blocks * tile, form, (int)(row % 16), k)
            * c->x.q[m * c->x.cols + k];
    for (size_t b = 0; b < c->blocks && !form_trellis(form); b++)
        for (uint32_t k = 0; k < c->block; k++) {
            const int code = tile_code(c->w + (row / 16 * c->blocks + b) * tile, form, (int)(row % 16), k);
            sum += code_value(form, code) * c->x.q[m * c->x.cols + b * c->block + k];
        }
    return sum;
}

/* Room for n rows, the gaps between them filled with a value that must stay. */
static float *guard_rows(table_test *t, size_t n, size_t ldy, size_t used)
{
    float *y = guard_f32(t, (n - 1) * ldy + used);
    for (size_t i = 0; i < (n - 1) * ldy + used; i++) y[i] = 12345;
    return y;
}

/* Some of the rows by themselves: a row's result does not depend on its neighbours. */
static void same_rows(table_test *t, const float *alone, const float *among, size_t ldy, size_t n,
                      size_t rows)
{
    for (size_t m = 0; m < n; m++)
        for (size_t r = 0; r < rows; r++)
            if (alone[m * ldy + r] != among[m * ldy + r])
                miss(t, "y[%zu][%zu]: %.9g alone, %.9g among others", m, r, alone[m * ldy + r],
                     among[m * ldy + r]);
}
static void row_alone(table_test *t, const qsf_kernels *var, const matmul_case *c, const float *among)
{
    const size_t m = pick(t, 0, (uint32_t)c->n - 1);
    const size_t at = m * c->x.cols;
    const qsf_act one = { .q = c->x.q + at, .d = c->x.d + at / 64, .s = c->x.s + at / 32,
                          .h = c->x.h + at / 8, .n = 1, .cols = c->x.cols };
    float *y = guard_f32(t, 16 * c->tiles);
    var->matvec[t->form](y, c->w, &one, c->tiles, c->blocks, c->block);
    same_rows(t, y, among + m * c->ldy, c->ldy, 1, 16 * c->tiles);
}

static void matmul_rounds(table_test *t, const qsf_kernels *ref, const qsf_kernels *var, bool vec)
{
    SOME_ROUNDS(t, 60) {                /* integer sums: exact */
        const matmul_case c = random_case(t, true, vec ? 1 : t->round < 36 ? 1 + (size_t)t->round / 2
                                          : pick(t, 1, t->round % 8 == 7 ? 60 : 40));
        float *y = guard_rows(t, c.n, c.ldy, 16 * c.tiles);
        if (vec) var->matvec[t->form](y, c.w, &c.x, c.tiles, c.blocks, c.block);
        else var->matmul[t->form](y, c.ldy, c.w, &c.x, c.tiles, c.blocks, c.block);
        for (size_t i = 0; i < (c.n - 1) * c.ldy + 16 * c.tiles; i++) {
            const size_t m = i / c.ldy, row = i % c.ldy;
            const float want = row < 16 * c.tiles ? (float)integer_sum(&c, t->form, m, row) : 12345;
            if (y[i] != want) { miss(t, "y[%zu][%zu]: %.9g, not %.9g", m, row, y[i], want); break; }
        }
    }
    SOME_ROUNDS(t, 60) {                /* scales and zeros */
        const matmul_case c = random_case(t, false, vec ? 1 : pick(t, 1, 20));
        float *a = guard_rows(t, c.n, c.ldy, 16 * c.tiles), *b = guard_rows(t, c.n, c.ldy, 16 * c.tiles);
        if (vec) ref->matvec[t->form](a, c.w, &c.x, c.tiles, c.blocks, c.block);
        else ref->matmul[t->form](a, c.ldy, c.w, &c.x, c.tiles, c.blocks, c.block);
        if (vec) var->matvec[t->form](b, c.w, &c.x, c.tiles, c.blocks, c.block);
        else var->matmul[t->form](b, c.ldy, c.w, &c.x, c.tiles, c.blocks, c.block);
        for (size_t m = 0; m < c.n; m++) same_f32(t, "y", a + m * c.ldy, b + m * c.ldy, 16 * c.tiles, 1e-5);
        if (!vec) row_alone(t, var, &c, b);
    }
}
static void check_matvec(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    matmul_rounds(t, ref, var, true);
}
static void check_matmul(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    matmul_rounds(t, ref, var, false);
}

static void check_matmul_f32(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 80) {
        const size_t cols = pick_size(t, 700), rows = pick(t, 1, 19), n = pick(t, 1, 11),
            ldx = cols + pick(t, 0, 2), ldy = rows + pick(t, 0, 2);
        SHAPE(t, "cols %zu, rows %zu, n %zu", cols, rows, n);
        float *w = guard_f32(t, rows * cols), *x = guard_f32(t, (n - 1) * ldx + cols);
        fill_f32(t, w, rows * cols, 1, 1e15f);
        fill_f32(t, x, (n - 1) * ldx + cols, 1, 1e15f);
        float *a = guard_rows(t, n, ldy, rows), *b = guard_rows(t, n, ldy, rows);
        ref->matmul_f32(a, ldy, w, x, ldx, n, rows, cols);
        var->matmul_f32(b, ldy, w, x, ldx, n, rows, cols);
        for (size_t m = 0; m < n; m++)
            for (size_t r = 0; r < rows; r++) {
                double size = 0;
                for (size_t i = 0; i < cols; i++) size += fabs((double)w[r * cols + i] * x[m * ldx + i]);
                if (!(fabs((double)a[m * ldy + r] - b[m * ldy + r]) <= 1e-5 * size))
                    miss(t, "y[%zu][%zu]: %.9g, not %.9g", m, r, b[m * ldy + r], a[m * ldy + r]);
            }
        for (size_t i = 0; i < (n - 1) * ldy + rows; i++)
            if (i % ldy >= rows && b[i] != 12345) miss(t, "wrote between rows");
        const size_t first = pick(t, 0, (uint32_t)n - 1), some = pick(t, 1, (uint32_t)(n - first));
        var->matmul_f32(a, ldy, w, x + first * ldx, ldx, some, rows, cols);
        same_rows(t, a, b + first * ldy, ldy, some, rows);
    }
}

/* Half floats: like matmul_f32, against the reference's doubles.
 * The scratch is as long as it says. */
static void halves_rounds(table_test *t, const qsf_kernels *ref, const qsf_kernels *var, bool b16)
{
    ROUNDS(t, 80) {
        const size_t cols = pick_size(t, 700), rows = pick(t, 1, 19), n = pick(t, 1, 40),
            ldx = cols + pick(t, 0, 2), ldy = rows + pick(t, 0, 2);
        SHAPE(t, "cols %zu, rows %zu, n %zu", cols, rows, n);
        uint16_t *w = (uint16_t *)(void *)guard_alloc(t, 2 * rows * cols);
        float *x = guard_f32(t, (n - 1) * ldx + cols),
            *scratch = guard_f32(t, 16 * (size_t)qsf_act_cols((uint32_t)cols));
        fill_f32(t, x, (n - 1) * ldx + cols, 1, 1e15f);
        for (size_t i = 0; i < rows * cols; i++) {
            const float f = t->round == 0 ? 0 : t->round == 1 ? (rng_next(t) & 1 << 20 ? 65504 : -0x1p-24f)
                : pick_f32(t, t->round % 4 == 3 ? 0x1p-15f : 1);
            w[i] = b16 ? qsf_f32_to_bf16(f) : qsf_f32_to_f16(f);
        }
        float *a = guard_rows(t, n, ldy, rows), *b = guard_rows(t, n, ldy, rows);
        (b16 ? ref->matmul_bf16 : ref->matmul_f16)(a, ldy, w, x, ldx, n, rows, cols, scratch);
        (b16 ? var->matmul_bf16 : var->matmul_f16)(b, ldy, w, x, ldx, n, rows, cols, scratch);
        for (size_t m = 0; m < n; m++)
            for (size_t r = 0; r < rows; r++) {
                double size = 0, sum = 0;
                for (size_t i = 0; i < cols; i++) {
                    const uint16_t h = w[r * cols + i];
                    const double p = (double)(b16 ? qsf_bf16_to_f32(h) : qsf_f16_to_f32(h)) * x[m * ldx + i];
                    sum += p, size += fabs(p);
                }
                if (!(fabs((double)a[m * ldy + r] - b[m * ldy + r]) <= 1e-5 * size))
                    miss(t, "y[%zu][%zu]: %.9g, not %.9g", m, r, b[m * ldy + r], a[m * ldy + r]);
                if (!(fabs(sum - b[m * ldy + r]) <= (b16 ? 4e-3 : 1e-5) * size))
                    miss(t, "y[%zu][%zu]: %.9g, not %.9g without rounding", m, r, b[m * ldy + r], sum);
            }
        for (size_t i = 0; i < (n - 1) * ldy + rows; i++)
            if (i % ldy >= rows && b[i] != 12345) miss(t, "wrote between rows");
        const size_t first = pick(t, 0, (uint32_t)n - 1), some = pick(t, 1, (uint32_t)(n - first));
        (b16 ? var->matmul_bf16 : var->matmul_f16)(a, ldy, w, x + first * ldx, ldx, some, rows,
                                                   cols, scratch);
        same_rows(t, a, b + first * ldy, ldy, some, rows);
    }
}
static void check_matmul_f16(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    halves_rounds(t, ref, var, false);
}
static void check_matmul_bf16(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    halves_rounds(t, ref, var, true);
}

/* ---- against the plain meaning of the bytes, in doubles ---- */
static double dequantised_product(const matmul_case *c, int form, const float *x, size_t row, double *size)
{
    const size_t tile = qsf_tile_bytes((qsf_form)form, c->block);
    double sum = *size = 0;
    for (size_t b = 0; b < c->blocks; b++)
        for (uint32_t k = 0; k < c->block; k++) {
            const uint8_t *w = c->w + row / 16 * c->blocks * tile;
            const double value = form_trellis(form) ? trellis_value(w, form, (int)(row % 16),
                                                                    (uint32_t)b * c->block + k)
                : tile_value(w + b * tile, form, (int)(row % 16), k), p = value * x[b * c->block + k];
            sum += p;
            *size += fabs(p);
        }
    return sum;
}

/* Floats quantised by the set's own quantize_act:
 * 1e-3 of sum |w||x| for 4 and more bits; 1e-2 below, and if scales within a row differ widely, so
 * that a few columns dominate it. */
static void check_f32_bounds(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    const bool few = t->form == QSF_F_MX4 || t->form == QSF_F_NV4 || form_trellis(t->form)
        || form_levels(t->form);
    (void)ref;
    ROUNDS(t, 40) {
        t->round += 3;
        matmul_case c = random_case(t, false, 1);
        c.blocks = 1024 / c.block;
        const size_t tile = qsf_tile_bytes((qsf_form)t->form, c.block), cols = c.blocks * c.block;
        t->n_slots = 0;
        c.w = guard_alloc(t, c.tiles * c.blocks * tile);
        for (size_t i = 0; i < c.tiles * c.blocks * tile; i++) c.w[i] = (uint8_t)(rng_next(t) >> 32);
        for (size_t i = 0; i < c.tiles * c.blocks; i++)
            for (int r = 0; r < 16 && !form_bare(t->form); r++) {
                const float scale = 0.01f + fabsf(pick_f32(t, 0.1f)),
                    zero = -scale * (float)(1 << (form_bits[t->form] - 1));
                if (!form_own_scales(t->form)) qsf_put16(c.w + i * tile + 2 * r, qsf_f32_to_f16(scale));
                if (form_own_scales(t->form)) small_scales(t, c.w + i * tile, t->form, false);
                if (form_has_zero(t->form) || form_has_min(t->form))
                    qsf_put16(c.w + i * tile + 32 + 2 * r,
                              qsf_f32_to_f16(form_super(t->form) ? -zero : zero));
            }
        float *x = guard_f32(t, cols), *y = guard_f32(t, 16 * c.tiles);
        for (size_t i = 0; i < cols; i++) x[i] = pick_f32(t, 3);
        c.x = guard_act(t, 1, cols);
        var->quantize_act(&c.x, 0, x, cols);
        var->matvec[t->form](y, c.w, &c.x, c.tiles, c.blocks, c.block);
        for (size_t r = 0; r < 16 * c.tiles; r++) {
            double size;
            const double want = dequantised_product(&c, t->form, x, r, &size);
            if (!(fabs(y[r] - want) <= (form_bits[t->form] >= 4 && !few ? 1e-3 : 1e-2) * size))
                miss(t, "y[%zu]: %g, not %g (size %g)", r, y[r], want, size);
        }
        t->round -= 3;
    }
}

/* ---- narrow weights ---- */

static void check_add_narrow(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 60) {
        const size_t depth = pick(t, 1, t->round % 7 ? 8 : 40), tiles = pick(t, 1, 5), n = pick(t, 1, 19);
        const size_t ldq = 4 * (depth + pick(t, 0, 3)), ldd = pick(t, 1, 3), ldy = 16 * tiles + pick(t, 0, 5);
        const size_t tile = 64 + 64 * depth, total = (n - 1) * ldy + 16 * tiles;
        uint8_t *w = guard_alloc(t, tiles * tile);
        int8_t *q = (int8_t *)guard_alloc(t, (n - 1) * ldq + 4 * depth);
        float *d = guard_f32(t, (n - 1) * ldd + 1), *y[2] = { guard_f32(t, total), guard_f32(t, total) };
        SHAPE(t, "depth %d, tiles %d, rows %d", (int)depth, (int)tiles, (int)n);
        for (size_t i = 0; i < tiles * tile; i++) {
            const float scale = pick_f32(t, 1);
            if (i % tile >= 64) w[i] = (uint8_t)(t->round == 1 ? 129 : (int)pick(t, 1, 255) - 128);
            else if (i % 4 == 0) memcpy(w + i, &scale, 4);
        }
        for (size_t i = 0; i < (n - 1) * ldq + 4 * depth; i++)
            q[i] = (int8_t)(t->round == 1 ? 127 : (int)pick(t, 1, 255) - 128);
        for (size_t i = 0; i < (n - 1) * ldd + 1; i++) d[i] = t->round ? pick_f32(t, 1) : 0;
        for (size_t i = 0; i < total; i++) y[0][i] = y[1][i] = pick_f32(t, 100);
        const float before = y[0][total - 1];
        for (int v = 0; v < 2; v++)
            (v ? var : ref)->add_narrow(y[v], ldy, w, depth, tiles, q, ldq, d, ldd, n);
        same_f32(t, "y", y[0], y[1], total, 1e-5);
        double sum = 0;         /* of the last number, in the header's words */
        float scale;
        memcpy(&scale, w + (tiles - 1) * tile + 60, 4);
        for (size_t k = 0; k < 4 * depth; k++)
            sum += (double)(int8_t)w[(tiles - 1) * tile + 64 + 64 * (k / 4) + 60 + k % 4]
                * q[(n - 1) * ldq + k];
        const double want = before + sum * scale * d[(n - 1) * ldd];
        if (fabs(y[0][total - 1] - want) > 1e-5 * (fabs(want) + fabs(before)) + 1e-3)
            miss(t, "the reference is wrong");
    }
}

#endif
