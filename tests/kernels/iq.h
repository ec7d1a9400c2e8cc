/* Checks of GGUF's codebook forms: tiles of random blocks against the blocks as floats.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_IQ_H
#define KERNELS_IQ_H

#include "matmul.h"
#include "tensor/iq_tiles.h"
#include "tensor/types_iq.h"

static const struct {
    uint32_t type, bytes;
    float whole;
} iq_forms[] = {
    /* whole: d that makes integers */
    { QSF_T_IQ2_XXS, 66, 8 }, { QSF_T_IQ2_XS, 74, 8 }, { QSF_T_IQ2_S, 82, 8 }, { QSF_T_IQ3_XXS, 98, 4 },
    { QSF_T_IQ3_S, 110, 1 },  { QSF_T_IQ1_S, 50, 8 },  { QSF_T_IQ1_M, 56, 8 },
};
#define IQ_FORM(t) iq_forms[(t)->form - QSF_F_IQ2XXS]

static void iq_put_d(uint8_t *block, uint32_t type, float d)
{
    const uint32_t half = qsf_f32_to_f16(d);
    if (type != QSF_T_IQ1_M) qsf_put16(block, (uint16_t)half);
    else for (int i = 0; i < 4; i++)
        block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (half >> 4 * i & 15) << 4);
}
/* All scales one. */
static void iq_unit(uint8_t *b, uint32_t type)
{
    switch (type) {
    case QSF_T_IQ2_XXS: for (int i = 9; i < 66; i += 8) b[i] &= 15; break;
    case QSF_T_IQ2_XS:  memset(b + 66, 0, 8); break;
    case QSF_T_IQ2_S:   memset(b + 74, 0, 8); break;
    case QSF_T_IQ3_XXS: for (int i = 69; i < 98; i += 4) b[i] &= 15; break;
    case QSF_T_IQ3_S:   memset(b + 106, 0, 4); break;
    case QSF_T_IQ1_S:   for (int i = 35; i < 50; i += 2) b[i] &= 0x8f; break;
    default:            for (int i = 48; i < 56; i += 2) b[i] = 0, b[i + 1] &= 0xf0;
    }
}

typedef struct iq_case {
    matmul_case c;
    float *w;           /* [16 * tiles][256 * blocks] */
} iq_case;

static iq_case random_iq(table_test *t, bool unit, size_t n)
{
    const uint32_t type = IQ_FORM(t).type, bytes = IQ_FORM(t).bytes;
    iq_case q = { .c = { .tiles = pick(t, 1, 3), .n = n, .block = 256 } };
    matmul_case *c = &q.c;
    c->blocks = pick(t, 1, unit ? 2 : 6);
    c->ldy = 16 * c->tiles + (n > 1 ? pick(t, 0, 3) : 0);
    c->w = guard_alloc(t, c->tiles * c->blocks * 16 * bytes);
    q.w = (float *)(void *)guard_alloc(t, 16 * c->tiles * 256 * c->blocks * 4);
    uint8_t *rows = guard_alloc(t, 16 * c->blocks * bytes);
    for (size_t i = 0; i < c->tiles; i++) {
        for (size_t b = 0; b < 16 * c->blocks * bytes; b++)
            rows[b] = (uint8_t)(t->round == 0 ? 0 : t->round == 1 ? 0xff : rng_next(t) >> 32);
        for (size_t b = 0; b < 16 * c->blocks; b++) {
            if (unit) iq_unit(rows + b * bytes, type);
            iq_put_d(rows + b * bytes, type,
                     unit            ? IQ_FORM(t).whole
                     : t->round == 1 ? 65504
                                     : pick_f32(t, 0.1f));
        }
        for (size_t b = 0; b < c->blocks; b++)
            qsf_iq_to_tile(type, rows + b * bytes, c->blocks * bytes,
                           c->w + (i * c->blocks + b) * 16 * bytes);
        for (size_t r = 0; r < 16; r++)
            qsf_dequant_iq_row(type, rows + r * c->blocks * bytes, c->blocks,
                               q.w + (16 * i + r) * 256 * c->blocks);
    }
    c->x = guard_act(t, n, c->blocks * 256);
    fill_act(t, &c->x, unit);
    SHAPE(t, "form %s, tiles %zu, blocks %zu, rows %zu, ldy %zu", form_names[t->form], c->tiles, c->blocks, n,
          c->ldy);
    return q;
}

/* x . row in doubles, and the sum of the sizes. */
static double iq_product(const iq_case *q, size_t m, size_t row, double *size)
{
    const matmul_case *c = &q->c;
    double sum = *size = 0;
    for (size_t i = 0; i < 256 * c->blocks; i++) {
        const double p = (double)q->w[row * 256 * c->blocks + i] * c->x.q[m * c->x.cols + i]
            * c->x.d[m * (c->x.cols / 64) + i / 64];
        sum += p, *size += fabs(p);
    }
    return sum;
}

/* Unit scales: every float on the way is an integer, and the result the exact sum.  Others: near
 * it. */
static void iq_rounds(table_test *t, const qsf_kernels *var, bool vec)
{
    SOME_ROUNDS(t, 80) {
        const bool unit = t->round < 40;
        if (!unit) t->round -= 40;
        const iq_case q = random_iq(t, unit,
                                    vec             ? 1
                                    : t->round < 36 ? 1 + (size_t)t->round / 2
                                                    : pick(t, 1, 40));
        const matmul_case *c = &q.c;
        float *y = guard_rows(t, c->n, c->ldy, 16 * c->tiles);
        if (vec) var->matvec[t->form](y, c->w, &c->x, c->tiles, c->blocks, c->block);
        else var->matmul[t->form](y, c->ldy, c->w, &c->x, c->tiles, c->blocks, c->block);
        for (size_t i = 0; i < (c->n - 1) * c->ldy + 16 * c->tiles; i++) {
            const size_t m = i / c->ldy, row = i % c->ldy;
            double size = 0, want = row < 16 * c->tiles ? iq_product(&q, m, row, &size) : 12345;
            if (!(fabs(y[i] - want) <= (unit ? 0 : 2e-6 * size))) {
                miss(t, "y[%zu][%zu]: %.9g, not %.9g", m, row, y[i], want);
                break;
            }
        }
        /* some of the rows by themselves */
        const size_t first = pick(t, 0, (uint32_t)c->n - 1);
        qsf_act some = c->x;
        some.q += first * some.cols, some.d += first * (some.cols / 64), some.s += first * (some.cols / 32);
        some.h += first * (some.cols / 8), some.n = pick(t, 1, (uint32_t)(c->n - first));
        if (!vec) {
            float *z = guard_rows(t, some.n, c->ldy, 16 * c->tiles);
            var->matmul[t->form](z, c->ldy, c->w, &some, c->tiles, c->blocks, c->block);
            same_rows(t, z, y + first * c->ldy, c->ldy, some.n, 16 * c->tiles);
        }
        if (!unit) t->round += 40;
    }
}
static void check_iq_matvec(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    (void)ref;
    iq_rounds(t, var, true);
}
static void check_iq_matmul(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    (void)ref;
    iq_rounds(t, var, false);
}

#undef IQ_FORM
#endif
