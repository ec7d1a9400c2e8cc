/* Trellis types: rows of tiles to floats, and a row of floats to codes by a search of the whole
 * trellis.
 * SPDX-License-Identifier: MIT */
#include "tensor/trellis.h"

/* Level i of N is the normal distribution's quantile of (i + 0.5) / N, in 127ths of the largest. */
#define LEVELS_8 -127, -73, -40, -13, 13, 40, 73, 127
#define LEVELS_16 \
    -127, -90, -69, -53, -39, -27, -16, -5, 5, 16, 27, 39, 53, 69, 90, 127
#define LEVELS_32 \
    -127, -99, -84, -73, -64, -56, -49, -43, -37, -31, -26, -21, -16, -12, -7, -2, \
    2, 7, 12, 16, 21, 26, 31, 37, 43, 49, 56, 64, 73, 84, 99, 127
const int8_t qsf_trellis_levels[4][64] = {
    { LEVELS_8, LEVELS_8, LEVELS_8, LEVELS_8, LEVELS_8, LEVELS_8, LEVELS_8, LEVELS_8 },
    { LEVELS_16, LEVELS_16, LEVELS_16, LEVELS_16 },
    { LEVELS_32, LEVELS_32 },
    { -127, -104, -93, -84, -77, -72, -67, -62, -58, -55, -51, -48, -45, -42, -39, -37,
      -34, -32, -29, -27, -25, -22, -20, -18, -16, -14, -11, -9, -7, -5, -3, -1,
      1, 3, 5, 7, 9, 11, 14, 16, 18, 20, 22, 25, 27, 29, 32, 34,
      37, 39, 42, 45, 48, 51, 55, 58, 62, 67, 72, 77, 84, 93, 104, 127 },
};
#undef LEVELS_8
#undef LEVELS_16
#undef LEVELS_32

enum { TRELLIS_MOST = 127 };        /* the largest level of every type */

uint8_t qsf_trellis_scale_near(float s)
{
    const float least = qsf_trellis_scale(1);
    if (!(s >= least)) return s >= least / 2;
    if (s >= qsf_trellis_scale(255)) return 255;
    /* between two bytes, mantissas are linear */
    return (uint8_t)(((qsf_f32_bits(s) + (1u << 19)) >> 20) - 800);
}

/* The coset that u leads to: the index's two low bits; last: u of the steps before. */
static inline unsigned trellis_coset(uint32_t last, unsigned u)
{
    return 2 * ((u ^ last ^ last >> 2) & 1) + (last >> 1 & 1);
}

void qsf_trellis_values(unsigned k, uint8_t scale, const uint8_t codes[64], uint32_t *last, float out[64])
{
    const int8_t *level = qsf_trellis_levels[k - 2];
    const float s = qsf_trellis_scale(scale);
    for (uint32_t t = 0; t < QSF_TRELLIS_BLOCK; t++) {
        const uint32_t col = qsf_trellis_column(t);
        const unsigned u = codes[col] >> (k - 1) & 1, m = codes[col] & ((1u << (k - 1)) - 1);
        out[col] = s * (float)level[4 * m + trellis_coset(*last, u)];
        *last = (*last << 1 | u) & (QSF_TRELLIS_STATES - 1);
    }
}

static size_t trellis_tile_bytes(uint32_t type)
{
    return (size_t)QSF_TILE_ROWS * qsf_block_bytes(type, QSF_TRELLIS_BLOCK);
}

void qsf_trellis_put_row(void *tiles, unsigned k, uint32_t blocks, uint32_t r, const uint8_t *scale,
                         const uint8_t *codes)
{
    const uint32_t type = QSF_T_TRELLIS2 + (k - 2);
    uint8_t *tile = tiles;
    for (uint32_t b = 0; b < blocks; b++, tile += trellis_tile_bytes(type), codes += QSF_TRELLIS_BLOCK) {
        tile[r] = scale[b];
        qsf_tile_put_codes(tile, type, QSF_TRELLIS_BLOCK, r, codes);
    }
}

void qsf_trellis_get_row(const void *tiles, unsigned k, uint32_t blocks, uint32_t r, uint8_t *scale,
                         uint8_t *codes)
{
    const uint32_t type = QSF_T_TRELLIS2 + (k - 2);
    const uint8_t *tile = tiles;
    for (uint32_t b = 0; b < blocks; b++, tile += trellis_tile_bytes(type), codes += QSF_TRELLIS_BLOCK) {
        scale[b] = tile[r];
        qsf_tile_get_codes(tile, type, QSF_TRELLIS_BLOCK, r, codes);
    }
}

void qsf_trellis_rows(const qsf_tensor *t, uint32_t row, uint32_t n, float *out)
{
    const unsigned k = qsf_trellis_bits(t->type);
    const uint32_t blocks = (uint32_t)qsf_ceil_div(t->cols, QSF_TRELLIS_BLOCK);
    const size_t tile_bytes = trellis_tile_bytes(t->type);
    for (uint32_t i = row; i < row + n; i++, out += t->cols) {
        const uint8_t *tile = (const uint8_t *)t->data + i / QSF_TILE_ROWS * blocks * tile_bytes;
        uint32_t last = 0;
        for (uint32_t b = 0; b < blocks; b++, tile += tile_bytes) {
            const uint32_t at = b * QSF_TRELLIS_BLOCK;
            uint8_t codes[QSF_TRELLIS_BLOCK];
            float x[QSF_TRELLIS_BLOCK];
            qsf_tile_get_codes(tile, t->type, QSF_TRELLIS_BLOCK, i % QSF_TILE_ROWS, codes);
            qsf_trellis_values(k, tile[i % QSF_TILE_ROWS], codes, &last, x);
            memcpy(out + at, x, QSF_MIN(QSF_TRELLIS_BLOCK, t->cols - at) * sizeof *x);
        }
    }
}

/* ---- quantising ----
 * The Viterbi algorithm: for each of the eight states, which are the last three u, the best path to
 * it.  A state's two predecessors differ in the u that is shifted out; a bit for each state records
 * the better one. */

enum { TRELLIS_HALF = 256, TRELLIS_ALL = 2 * TRELLIS_HALF };

typedef struct trellis_search {
    const int8_t *level;
    float   cost[QSF_TRELLIS_STATES];
    /* [coset]: m of the level nearest to x, at the whole part of 2x: borders lie at halves. */
    uint8_t closest[4][TRELLIS_ALL];
} trellis_search;

static void trellis_search_begin(trellis_search *s, unsigned k)
{
    const unsigned n = 1u << (k - 1);
    s->level = qsf_trellis_levels[k - 2];
    s->cost[0] = 0;
    for (int i = 1; i < QSF_TRELLIS_STATES; i++) s->cost[i] = FLT_MAX / 4;
    for (unsigned c = 0; c < 4; c++)
        for (unsigned m = 0, i = 0; i < TRELLIS_ALL; i++) {
            while (m + 1 < n && (int)i - TRELLIS_HALF >= s->level[4 * m + c] + s->level[4 * m + 4 + c]) m++;
            s->closest[c][i] = (uint8_t)m;
        }
}

static unsigned trellis_search_nearest(const trellis_search *s, unsigned coset, float x)
{
    const float at = floorf(2 * x) + TRELLIS_HALF;
    return s->closest[coset][at < 0 ? 0 : at >= TRELLIS_ALL ? TRELLIS_ALL - 1 : (unsigned)at];
}

/* 64 columns on from the states' costs; before[64], by steps: bit i is the forgotten u of the
 * better way to state i.  Returns the least cost. */
static float trellis_search_block(const trellis_search *s, const float *w, const float *weight, float scale,
                                  float cost[QSF_TRELLIS_STATES], uint8_t *before)
{
    const float inverse = scale > 0 ? 1 / scale : 0;
    for (uint32_t t = 0; t < QSF_TRELLIS_BLOCK; t++) {
        const uint32_t col = qsf_trellis_column(t);
        const float x = w[col] * inverse;
        float error[4], next[QSF_TRELLIS_STATES];
        unsigned ways = 0;
        for (unsigned c = 0; c < 4; c++) {
            const float e = w[col] - scale * (float)s->level[4 * trellis_search_nearest(s, c, x) + c];
            error[c] = weight[col] * e * e;
        }
        for (unsigned i = 0; i < QSF_TRELLIS_STATES; i++) {
            const unsigned a = i >> 1, b = a | 4;
            const float by_a = cost[a] + error[trellis_coset(a, i & 1)],
                by_b = cost[b] + error[trellis_coset(b, i & 1)];
            ways |= (unsigned)(by_b < by_a) << i;
            next[i] = QSF_MIN(by_a, by_b);
        }
        memcpy(cost, next, sizeof next);
        before[t] = (uint8_t)ways;
    }
    float least = cost[0];
    for (int i = 1; i < QSF_TRELLIS_STATES; i++) least = QSF_MIN(least, cost[i]);
    return least;
}

/* Tries scales that clip the largest weights more or less, and continues with the one that encodes
 * the 64 columns at the lowest cost. */
static uint8_t trellis_search_scale(trellis_search *s, unsigned k, const float *w, const float *weight,
                                    uint8_t *before)
{
    const float narrow = k <= 3 ? 0.4f : k == 4 ? 0.6f : 0.8f, wide = 1.1f;
    float most = 0, best = INFINITY, cost[QSF_TRELLIS_STATES], kept[QSF_TRELLIS_STATES] = { 0 };
    for (uint32_t i = 0; i < QSF_TRELLIS_BLOCK; i++) most = QSF_MAX(most, fabsf(w[i]));
    const unsigned from = qsf_trellis_scale_near(narrow * most / TRELLIS_MOST),
        to = qsf_trellis_scale_near(wide * most / TRELLIS_MOST);
    unsigned scale = from;
    for (unsigned e = from; e <= to; e++) {
        uint8_t ways[QSF_TRELLIS_BLOCK];
        memcpy(cost, s->cost, sizeof cost);
        const float c = trellis_search_block(s, w, weight, qsf_trellis_scale((uint8_t)e), cost, ways);
        if (!(c < best)) continue;
        best = c;
        scale = e;
        memcpy(kept, cost, sizeof kept);
        memcpy(before, ways, sizeof ways);
    }
    /* A common part of all costs does not matter, and would absorb small differences. */
    for (int i = 0; i < QSF_TRELLIS_STATES; i++) s->cost[i] = kept[i] - best;
    return (uint8_t)scale;
}

/* Back along the best way: ways by steps become codes by steps, then by columns. */
static void trellis_search_end(const trellis_search *s, unsigned k, const float *w, uint32_t cols,
                               const uint8_t *scale, uint8_t *codes)
{
    unsigned state = 0;
    for (unsigned i = 1; i < QSF_TRELLIS_STATES; i++)
        if (s->cost[i] < s->cost[state]) state = i;
    for (uint32_t t = (uint32_t)qsf_round_up(cols, QSF_TRELLIS_BLOCK); t-- > 0;) {
        const float by = qsf_trellis_scale(scale[t / QSF_TRELLIS_BLOCK]);
        const uint32_t col = qsf_trellis_column(t);
        const unsigned u = state & 1, last = state >> 1 | (codes[t] >> state & 1u) << 2;
        const float x = col < cols && by > 0 ? w[col] * (1 / by) : 0;
        codes[t] = (uint8_t)(trellis_search_nearest(s, trellis_coset(last, u), x) | u << (k - 1));
        state = last;
        if (t % 32) continue;
        uint8_t steps[32];
        memcpy(steps, codes + t, sizeof steps);
        for (uint32_t i = 0; i < 32; i++) codes[t + qsf_trellis_column(i)] = steps[i];
    }
}

void qsf_trellis_quantize_row(unsigned k, const float *w, uint32_t cols, const float *importance,
                              uint8_t *scale, uint8_t *codes)
{
    trellis_search s;
    trellis_search_begin(&s, k);
    for (uint32_t at = 0; at < cols; at += QSF_TRELLIS_BLOCK) {
        float x[QSF_TRELLIS_BLOCK] = { 0 }, weight[QSF_TRELLIS_BLOCK] = { 0 };
        for (uint32_t i = 0; i < QSF_MIN(QSF_TRELLIS_BLOCK, cols - at); i++) {
            x[i] = w[at + i];
            weight[i] = importance ? importance[at + i] : 1;
        }
        scale[at / QSF_TRELLIS_BLOCK] = trellis_search_scale(&s, k, x, weight, codes + at);
    }
    trellis_search_end(&s, k, w, cols, scale, codes);
}
