/* Tiles of the trellis forms with vectors of 128 bits, for several rows of activations: they are
 * unpacked to tiles of the 8-bit form, and in WebAssembly to levels of 16 bits.  A tile is read as
 * four quarters of 4 rows.
 * SPDX-License-Identifier: MIT */
#include "trellis_v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

QSF_TEMPLATE void trellis_expand_v128(uint8_t *to, const uint8_t *from, const v16b tables[4], v4u last,
                                      int k)
{
    trellis_quarter_v128 s;
    for (int g = 0; g < 2; g++, from += 64 * k, to += 512) {
        trellis_fetch_v128(&s, from, last, NULL, k);
        last = (v4u)v16_load(from + 64 * (k - 1));
        QSF_UNROLL
        for (int j = 0; j < 8; j++) v16_store(to + 64 * j, trellis_step_v128(&s, tables, j, k));
    }
}

void qsf_trellis_eight_v128(uint8_t *eight, const uint8_t *tile, const qsf_trellis_tables *levels,
                            unsigned k, bool first)
{
    v16b tables[4];
    trellis_tables_v128(tables, levels, k);
    for (int r = 0; r < 16; r++) qsf_put16(eight + 2 * r, qsf_trellis_half(tile[r]));
    for (int i = 0; i < 64; i += 16) {
        const v4u last = first ? (v4u){ 0 } : (v4u)v16_load(tile - 64 + i);
        uint8_t *to = eight + 32 + i;
        const uint8_t *from = tile + 16 + i;
        switch (k) {
        case 2:  trellis_expand_v128(to, from, tables, last, 2); break;
        case 3:  trellis_expand_v128(to, from, tables, last, 3); break;
        case 4:  trellis_expand_v128(to, from, tables, last, 4); break;
        default: trellis_expand_v128(to, from, tables, last, 5); break;
        }
    }
}

#if defined(__wasm_simd128__)
/* ---- several rows of activations ----
 * Levels and activations both have signs, and their products fill 16 bits: as bytes they would need
 * two products and a widening for each vector.  In 16 bits it is two products alone. */
enum { TRELLIS_PANEL_BAND = 64, TRELLIS_PANEL_ROWS = 4 };

/* 64 columns of two tiles, or of one, as pairs: 0 and 2 of each four, then 1 and 3 of each. */
typedef struct trellis_panel {
    v8h     level[32][8];               /* [pair][quarter] */
    int16_t q[TRELLIS_PANEL_ROWS][64];
    v4f     scale[8], acc[TRELLIS_PANEL_BAND][8];
    int     quarters;                   /* 8 or 4 */
} trellis_panel;

/* The four quarters from the at-th on. */
QSF_TEMPLATE void trellis_panel_levels(trellis_panel *p, int at, const uint8_t *w, const v16b tables[4],
                                       bool first, int k)
{
    for (int i = 0; i < 4; i++) {
        const uint8_t *from = w + 16 + 16 * i;
        v4u last = first ? (v4u){ 0 } : (v4u)v16_load(w - 64 + 16 * i);
        QSF_LOOP
        for (int j = 0; j < 16; j += 8, from += 64 * k) {
            trellis_quarter_v128 s;
            trellis_fetch_v128(&s, from, last, NULL, k);
            last = (v4u)v16_load(from + 64 * (k - 1));
            QSF_UNROLL
            for (int n = 0; n < 8; n++) {
                const v16b level = trellis_step_v128(&s, tables, n, k);
                p->level[j + n][at + i] = v16_wide_even(level);
                p->level[16 + j + n][at + i] = v16_wide_odd(level);
            }
        }
    }
}

/* Sums of n rows from the m-th on, in 64 columns; up to T at once. */
QSF_TEMPLATE void trellis_panel_some(trellis_panel *p, v4f (*acc)[8], const qsf_act *x, size_t m, size_t n,
                                     size_t at, int T)
{
    for (size_t t = 0; t < (size_t)T; t++) {
        const int8_t *q = x->q + (m + QSF_MIN(t, n - 1)) * x->cols + at;
        QSF_UNROLL
        for (int i = 0; i < 4; i++) {
            v16_store(p->q[t] + 8 * i, v16_wide_even(v16_load(q + 16 * i)));
            v16_store(p->q[t] + 32 + 8 * i, v16_wide_odd(v16_load(q + 16 * i)));
        }
    }
    for (int half = 0; half < p->quarters; half += 2) {
        v4i sum[TRELLIS_PANEL_ROWS][2];
        QSF_UNROLL
        for (int t = 0; t < T; t++) sum[t][0] = sum[t][1] = v4_set1i(0);
        const v8h *level = &p->level[0][half];
        const int16_t *q = p->q[0];
        QSF_LOOP    /* one pair: in longer blocks engines run out of registers */
        for (int i = 0; i < 32; i++, q += 2, level += 8) {
            __asm__("" : "+r"(q), "+r"(level));     /* else each load's place is an addition of its own */
            QSF_UNROLL
            for (int t = 0; t < T; t++) {
                const v8h two = v16_quad(q + 64 * t);
                sum[t][0] = v8_dot2(sum[t][0], level[0], two);
                sum[t][1] = v8_dot2(sum[t][1], level[1], two);
            }
        }
        QSF_UNROLL
        for (size_t t = 0; t < (size_t)T; t++) {
            if (t >= n) continue;
            const v4f d = v4_set1(x->d[((m + t) * x->cols + at) / 64]);
            acc[t][half] += p->scale[half] * d * v4_float(sum[t][0]);
            acc[t][half + 1] += p->scale[half + 1] * d * v4_float(sum[t][1]);
        }
    }
}

static QSF_NOINLINE void trellis_panel_sums(trellis_panel *p, v4f (*acc)[8], const qsf_act *x, size_t m,
                                            size_t n, size_t at)
{
    if (n > 2) trellis_panel_some(p, acc, x, m, n, at, TRELLIS_PANEL_ROWS);
    else trellis_panel_some(p, acc, x, m, n, at, 2);
}

static void trellis_panel_store(float *y, size_t ldy, const trellis_panel *p, size_t n, bool first)
{
    for (size_t t = 0; t < n; t++, y += ldy)
        for (int i = 0; i < p->quarters; i++)
            v4_store(y + 4 * i, first ? p->acc[t][i] : v4_load(y + 4 * i) + p->acc[t][i]);
}

/* A block of tiles, which are a row apart. */
static void trellis_panel_fill(trellis_panel *p, const uint8_t *w, size_t row, const v16b tables[4],
                               bool first, unsigned k)
{
    for (int i = 0; i < p->quarters; i += 4, w += row) {
        trellis_scales_v128(p->scale + i, w);
        switch (k) {
        case 2:  trellis_panel_levels(p, i, w, tables, first, 2); break;
        case 3:  trellis_panel_levels(p, i, w, tables, first, 3); break;
        case 4:  trellis_panel_levels(p, i, w, tables, first, 4); break;
        default: trellis_panel_levels(p, i, w, tables, first, 5); break;
        }
    }
}

void qsf_trellis_panel_v128(unsigned k, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                            size_t tiles, size_t blocks)
{
    const size_t band = QSF_MIN(qsf_band_rows(x->cols), (size_t)TRELLIS_PANEL_BAND),
        tile = 16 + 128 * (size_t)k, row = blocks * tile;
    trellis_panel p;
    qsf_trellis_tables levels;
    v16b tables[4];
    qsf_trellis_tables_make(&levels, k);
    trellis_tables_v128(tables, &levels, k);
    for (size_t m = 0; m < x->n; m += band) {
        const size_t n = QSF_MIN(x->n - m, band);
        for (size_t t = 0; t < tiles; t += 2) {
            p.quarters = tiles - t > 1 ? 8 : 4;
            for (size_t b = 0; b < blocks; b++) {
                const size_t stretch = b / QSF_TRELLIS_STRETCH * QSF_TRELLIS_STRETCH;
                if (b == stretch) memset(p.acc, 0, n * sizeof *p.acc);
                trellis_panel_fill(&p, w + t * row + b * tile, row, tables, b == 0, k);
                for (size_t r = 0; r < n; r += TRELLIS_PANEL_ROWS)
                    trellis_panel_sums(&p, p.acc + r, x, m + r, QSF_MIN(n - r, (size_t)TRELLIS_PANEL_ROWS),
                                       64 * b);
                if (b + 1 == QSF_MIN(stretch + QSF_TRELLIS_STRETCH, blocks))
                    trellis_panel_store(y + m * ldy + 16 * t, ldy, &p, n, stretch == 0);
            }
        }
    }
}
#endif

QSF_V128_END
#endif
