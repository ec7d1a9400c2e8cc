/* The loops of encode_lanes.h, for LANES rows in a vector; LANE(name) is a name of this set.
 * SPDX-License-Identifier: MIT
 *
 * No guard: encode_lanes_NAME.c include it once each, with an instruction set in force. */
#include "lane_vectors.h"

#define vd LANE(vd)
#if LANES > 1
typedef double vd __attribute__((vector_size(4 * LANES)));
enum { LANE(doubles) = LANES / 2 };
#else
typedef double vd;
enum { LANE(doubles) = 1 };
#endif

static inline vf LANE(size)(vf x) { return LANE_FLOAT(LANE_BITS(x) & 0x7fffffff); }
static inline void LANE(put_bytes)(uint8_t *to, vi v)
{
    int32_t each[LANES];
    memcpy(each, &v, sizeof each);
    for (int l = 0; l < LANES; l++) to[l] = (uint8_t)each[l];
}
static inline void LANE(add_loss)(double *loss, vf v)
{
    float each[LANES];
    memcpy(each, &v, sizeof each);
    for (int l = 0; l < LANES; l++) loss[l] += (double)each[l];
}

/* L[row][16p ..], for row >= 16p. */
static inline const float *LANE(row)(const encode_factor *f, uint32_t p, uint32_t row)
{
    return f->panels + encode_panel_at(f->cols, p) + (size_t)ENCODE_STEP * (row - p * ENCODE_STEP);
}

/* Takes the errors e of panel p's columns off the columns from `from` on. */
static inline void LANE(push)(const encode_factor *f, uint32_t p, const vf *e, uint32_t from, float *w)
{
    if (f->diagonal) return;
    const float *l = LANE(row)(f, p, from);
    for (uint32_t j = from; j < f->cols; j++, l += ENCODE_STEP) {
        vf a = LANE(load)(w + (size_t)ENCODE_ROWS * j);
        for (int i = 0; i < ENCODE_STEP; i++) a -= e[i] * l[i];
        LANE(store)(w + (size_t)ENCODE_ROWS * j, a);
    }
}

/* ---- levels ---- */

/* The level of subset c nearest to x. */
static inline vf LANE(nearest)(const encode_levels *q, int c, vf x)
{
    vf r = LANE(all)(q->first[c]);
    for (uint32_t m = 0; m + 1 < q->n; m++) {
        const vi more = LANE_LESS(LANE(all)(q->above[c][m]), x);
        r += LANE_FLOAT(more & LANE_BITS(LANE(all)(q->by[c][m])));
    }
    return r;
}

/* The subset that a step from state s (its bits are the last u, the one before, the third) with
 * this u takes its level from. */
static inline int LANE(subset)(int s, int u) { return 2 * (u ^ (s & 1) ^ s >> 2) + (s >> 1 & 1); }

/* What the best path through w[n][16], all states allowed before it, costs at this scale. */
static vf LANE(path_cost)(const encode_levels *q, const float *w, const float *weight, uint32_t n, vf scale)
{
    const vf inverse = 1.0f / scale;
    vf metric[ENCODE_STATES], next[ENCODE_STATES], e[4];
    for (int s = 0; s < ENCODE_STATES; s++) metric[s] = (vf){ 0 };
    for (uint32_t i = 0; i < n; i++) {
        const vf x = LANE(load)(w + (size_t)ENCODE_ROWS * i) * inverse;
        for (int c = 0; c < 4; c++) {
            const vf d = x - LANE(nearest)(q, c, x);
            e[c] = d * d * weight[i];
        }
        for (int s = 0; s < ENCODE_STATES; s++) {
            const int a = s >> 1, b = a | 4, u = s & 1;
            const vf ca = metric[a] + e[LANE(subset)(a, u)], cb = metric[b] + e[LANE(subset)(b, u)];
            next[s] = LANE(choose)(LANE_LESS(cb, ca), cb, ca);
        }
        memcpy(metric, next, sizeof metric);
    }
    vf best = metric[0];
    for (int s = 1; s < ENCODE_STATES; s++)
        best = LANE(choose)(LANE_LESS(metric[s], best), metric[s], best);
    return best * scale * scale;
}

/* The best scale of group g: tried are the n_scales next below twice the smallest one that does not
 * clip, among those that a byte can hold, 8 per octave.  They reach that high because errors of
 * columns that count much more than others (the sink's) stretch the columns not yet rounded, and
 * because with more scales, one of them brings such a column closer to a level. */
static void LANE(find_scale)(const encode_trellis *t, uint32_t g, int lane)
{
    enum { BIAS = 800, MOST = 255 };      /* byte e stands for the float with the bits (e + 800) << 20 */
    const float *w = t->w + (size_t)ENCODE_ROWS * ENCODE_GROUP * g + lane;
    const vi none = { 0 }, least = none + 1, top = none + MOST;
    vf most = { 0 }, cost = LANE(all)(INFINITY);
    for (uint32_t i = 0; i < ENCODE_GROUP; i++) {
        const vf x = LANE(size)(LANE(load)(w + (size_t)ENCODE_ROWS * i));
        most = LANE(choose)(LANE_LESS(most, x), x, most);
    }
    vi e = (LANE_BITS(most * (2.0f / 127.0f)) >> 20) - BIAS, best = none;
    e = LANE(choose_int)(LANE_LESS(top, e), top, e);
    for (uint32_t k = 0; k < t->q->n_scales; k++, e -= 1) {
        const vi now = LANE(choose_int)(LANE_LESS(e, least), least, e);
        const vf c = LANE(path_cost)(t->q, w, t->f->weight + (size_t)ENCODE_GROUP * g, ENCODE_GROUP,
                                     LANE_FLOAT((now + BIAS) << 20));
        const vi better = LANE_LESS(c, cost) & LANE_LESS(none, e);
        best = LANE(choose_int)(better, e, best);
        cost = LANE(choose)(better, c, cost);
    }
    const vi some = LANE_LESS(none, best);
    LANE(put_bytes)(t->scale_byte + (size_t)ENCODE_ROWS * g + lane, best);
    LANE(store)(t->scale + (size_t)ENCODE_ROWS * g + lane, LANE_FLOAT(some & ((best + BIAS) << 20)));
}

static inline vf LANE(scale_at)(const encode_trellis *t, uint32_t column, int lane)
{
    return LANE(load)(t->scale + (size_t)ENCODE_ROWS * (column / ENCODE_GROUP) + lane);
}

/* 1 / scale; 0 for a scale of 0, whose values are 0 whatever the codes are. */
static inline vf LANE(inverse)(vf scale)
{
    const vi some = LANE_LESS((vf){ 0 }, scale);
    return LANE_FLOAT(some & LANE_BITS(1.0f / LANE(choose)(some, scale, LANE(all)(1))));
}

/* ---- the search ---- */

typedef struct LANE(search) {
    float l[ENCODE_WINDOW][ENCODE_WINDOW];      /* L's rows and columns of the window */
    vf    e[2][ENCODE_WINDOW][ENCODE_STATES];   /* the errors of each survivor, and of the next ones */
    vf    metric[ENCODE_STATES];
    vi    path[ENCODE_STATES];                  /* bit c is u of column c */
} LANE(search);

/* Column c: every survivor's two ways on, and for each state the better way in. */
static inline void LANE(search_step)(LANE(search) *k, const encode_levels *q, const float *l, int c, vf w,
                                     vf scale)
{
    const vf inverse = LANE(inverse)(scale);
    vf (*from)[ENCODE_STATES] = k->e[c & 1], (*to)[ENCODE_STATES] = k->e[~c & 1];
    vf way[ENCODE_STATES][2], metric[ENCODE_STATES];
    vi path[ENCODE_STATES];
    const float over = 1.0f / l[c];
    for (int s = 0; s < ENCODE_STATES; s += 4) {
        vf a0 = w, a1 = w, a2 = w, a3 = w;
        for (int i = 0; i < c; i++) {
            const float by = l[i];
            a0 -= from[i][s] * by;
            a1 -= from[i][s + 1] * by;
            a2 -= from[i][s + 2] * by;
            a3 -= from[i][s + 3] * by;
        }
        const vf a[4] = { a0, a1, a2, a3 };
        for (int j = 0; j < 4; j++)
            for (int u = 0; u < 2; u++) {
                const vf level = LANE(nearest)(q, LANE(subset)(s + j, u), a[j] * inverse);
                way[s + j][u] = (a[j] - level * scale) * over;
            }
    }
    for (int s = 0; s < ENCODE_STATES; s++) {
        const int a = s >> 1, b = a | 4, u = s & 1;
        const vf ca = k->metric[a] + way[a][u] * way[a][u], cb = k->metric[b] + way[b][u] * way[b][u];
        const vi second = LANE_LESS(cb, ca);
        metric[s] = LANE(choose)(second, cb, ca);
        path[s] = LANE(choose_int)(second, k->path[b], k->path[a]);
        path[s] |= (vi){ 0 } + (int32_t)((uint32_t)u << c);
        for (int i = 0; i < c; i++) to[i][s] = LANE(choose)(second, from[i][b], from[i][a]);
        to[c][s] = LANE(choose)(second, way[b][u], way[a][u]);
    }
    memcpy(k->metric, metric, sizeof metric);
    memcpy(k->path, path, sizeof path);
}

/* The path of the best survivor. */
static inline vi LANE(search_best)(const LANE(search) *k)
{
    vf least = k->metric[0];
    vi path = k->path[0];
    for (int s = 1; s < ENCODE_STATES; s++) {
        const vi better = LANE_LESS(k->metric[s], least);
        least = LANE(choose)(better, k->metric[s], least);
        path = LANE(choose_int)(better, k->path[s], path);
    }
    return path;
}

/* Goes the first columns of a path from this state: codes, values, errors. */
static inline vi LANE(settle)(encode_trellis *t, const LANE(search) *k, uint32_t from, int lane, vi path,
                              vi state, vf *e)
{
    const encode_levels *q = t->q;
    vf loss = { 0 };
    for (int c = 0; c < ENCODE_STEP; c++) {
        float *w = t->w + (size_t)ENCODE_ROWS * (from + (uint32_t)c) + lane;
        const float *l = k->l[c];
        const vf scale = LANE(scale_at)(t, from + (uint32_t)c, lane), inverse = LANE(inverse)(scale);
        vf a = LANE(load)(w), level = { 0 };
        vi m = { 0 };
        for (int i = 0; i < c; i++) a -= e[i] * l[i];
        const vf x = a * inverse;
        const vi u = path >> c & 1, subset = (u ^ (state & 1) ^ (state >> 2 & 1)) * 2 + (state >> 1 & 1);
        for (int s = 0; s < 4; s++) {
            const vi here = LANE_SAME(subset, (vi){ 0 } + s);
            vi n = { 0 };
            for (uint32_t j = 0; j + 1 < q->n; j++) n -= LANE_LESS(LANE(all)(q->above[s][j]), x);
            level = LANE(choose)(here, LANE(nearest)(q, s, x), level);
            m = LANE(choose_int)(here, n, m);
        }
        const vf value = level * scale;
        e[c] = (a - value) * (1.0f / l[c]);
        loss += e[c] * e[c];
        LANE(store)(w, value);
        LANE(put_bytes)(t->codes + (size_t)ENCODE_ROWS * (from + (uint32_t)c) + lane,
                        m | u << (int)(q->bits - 1));
        state = (state << 1 | u) & (ENCODE_STATES - 1);
    }
    LANE(add_loss)(t->loss + lane, loss);
    return state;
}

/* Rows of L within a window, gathered from its two panels. */
static inline void LANE(search_rows)(LANE(search) *k, const encode_factor *f, uint32_t from, uint32_t n)
{
    const uint32_t p = from / ENCODE_STEP;
    for (uint32_t c = 0; c < n; c++) {
        memcpy(k->l[c], LANE(row)(f, p, from + c), ENCODE_STEP * sizeof(float));
        if (c >= ENCODE_STEP)
            memcpy(k->l[c] + ENCODE_STEP, LANE(row)(f, p + 1, from + c), ENCODE_STEP * sizeof(float));
    }
}

static void LANE(trellis_lanes)(encode_trellis *t, LANE(search) *k, int lane)
{
    const uint32_t cols = t->f->cols;
    uint32_t scaled = 0;
    vi state = { 0 };
    vf e[ENCODE_STEP];
    for (uint32_t from = 0; from < cols; from += ENCODE_STEP) {
        const uint32_t n = QSF_MIN(cols - from, (uint32_t)ENCODE_WINDOW);
        while (scaled * ENCODE_GROUP < from + n) LANE(find_scale)(t, scaled++, lane);
        LANE(search_rows)(k, t->f, from, n);
        for (int s = 0; s < ENCODE_STATES; s++) {
            k->metric[s] = LANE(choose)(LANE_SAME(state, (vi){ 0 } + s), (vf){ 0 }, LANE(all)(1e30f));
            k->path[s] = (vi){ 0 };
        }
        for (uint32_t c = 0; c < n; c++) {
            LANE(search_step)(k, t->q, k->l[c], (int)c,
                              LANE(load)(t->w + (size_t)ENCODE_ROWS * (from + c) + lane),
                              LANE(scale_at)(t, from + c, lane));
        }
        state = LANE(settle)(t, k, from, lane, LANE(search_best)(k), state, e);
        LANE(push)(t->f, from / ENCODE_STEP, e, from + ENCODE_STEP, t->w + lane);
    }
}

static void LANE(trellis)(encode_trellis *t)
{
    LANE(search) k;
    memset(t->loss, 0, sizeof t->loss);
    memset(k.l, 0, sizeof k.l);
    for (int lane = 0; lane < ENCODE_ROWS; lane += LANES) LANE(trellis_lanes)(t, &k, lane);
}

/* ---- types with a grid ---- */

/* The code of the level nearest to x, in *level. */
static inline vi LANE(place)(const encode_levels *q, vf x, vf *level)
{
    vf r = LANE(all)(q->first[0]);
    vi code = { 0 };
    for (uint32_t m = 0; m + 1 < q->n; m++) {
        const vi more = LANE_LESS(LANE(all)(q->above[0][m]), x);
        r += LANE_FLOAT(more & LANE_BITS(LANE(all)(q->by[0][m])));
        code -= more;
    }
    *level = r;
    return code;
}

/* The integer nearest to x within 0 and top, in *level too. */
static inline vi LANE(round)(vf top, vf x, vf *level)
{
    /* adding and taking it away rounds to the nearest integer */
    const float round = 12582912.0f;
    vf code = LANE(choose)(LANE_LESS(x, (vf){ 0 }), (vf){ 0 }, x);
    code = LANE(choose)(LANE_LESS(top, code), top, code);
    *level = code + round - round;
    return LANE_BITS(code + round) - LANE_BITS(LANE(all)(round));
}

static void LANE(plain_lanes)(encode_plain *t, int lane)
{
    const vf scale = LANE(load)(t->scale + lane), zero = LANE(load)(t->zero + lane),
             inverse = LANE(load)(t->inverse + lane), top = LANE(all)(t->top);
    const uint32_t p = t->from / ENCODE_STEP;
    vf e[ENCODE_STEP], loss = { 0 };
    for (int c = 0; c < ENCODE_STEP; c++) {
        const uint32_t at = t->from + (uint32_t)c;
        float *w = t->w + (size_t)ENCODE_ROWS * at + lane;
        const float *l = LANE(row)(t->f, p, at);
        vf a = LANE(load)(w);
        for (int i = 0; i < c; i++) a -= e[i] * l[i];
        const vf x = (a - zero) * inverse;
        vf level;
        const vi bits = t->table ? LANE(place)(t->table, x, &level) : LANE(round)(top, x, &level);
        const vf value = scale * level + zero;
        e[c] = (a - value) * (1.0f / l[c]);
        loss += e[c] * e[c];
        LANE(store)(w, value);
        LANE(put_bytes)(t->codes + (size_t)ENCODE_ROWS * at + lane, bits);
    }
    LANE(add_loss)(t->loss + lane, loss);
    LANE(push)(t->f, p, e, t->from + ENCODE_STEP, t->w + lane);
}

static void LANE(plain)(encode_plain *t)
{
    for (int lane = 0; lane < ENCODE_ROWS; lane += LANES) LANE(plain_lanes)(t, lane);
}

static void LANE(energy)(const encode_factor *f, float *w, double loss[ENCODE_ROWS])
{
    for (int lane = 0; lane < ENCODE_ROWS; lane += LANES)
        for (uint32_t from = 0; from < f->cols; from += ENCODE_STEP) {
            const uint32_t p = from / ENCODE_STEP;
            vf e[ENCODE_STEP], sum = { 0 };
            for (int c = 0; c < ENCODE_STEP; c++) {
                const float *l = LANE(row)(f, p, from + (uint32_t)c);
                vf a = LANE(load)(w + (size_t)ENCODE_ROWS * (from + (uint32_t)c) + lane);
                for (int i = 0; i < c; i++) a -= e[i] * l[i];
                e[c] = a * (1.0f / l[c]);
                sum += e[c] * e[c];
            }
            LANE(add_loss)(loss + lane, sum);
            LANE(push)(f, p, e, from + ENCODE_STEP, w + lane);
        }
}

/* ---- the product of factors ---- */

static inline void LANE(product_part)(double *c, size_t ldc, const double *a, size_t lda, const double *b,
                                      size_t n)
{
    vd s[4][2];
    for (int r = 0; r < 4; r++) memcpy(s[r], c + (size_t)r * ldc, sizeof s[r]);
    for (size_t i = 0; i < n; i++, b += ENCODE_BLOCK) {
        vd x[2];
        memcpy(x, b, sizeof x);
        for (int r = 0; r < 4; r++) {
            const double by = a[(size_t)r * lda + i];
            s[r][0] -= x[0] * by;
            s[r][1] -= x[1] * by;
        }
    }
    for (int r = 0; r < 4; r++) memcpy(c + (size_t)r * ldc, s[r], sizeof s[r]);
}

static void LANE(product)(double *c, size_t ldc, const double *a, size_t lda, const double *b, size_t n)
{
    for (int at = 0; at < ENCODE_BLOCK; at += 2 * LANE(doubles))
        for (int r = 0; r < ENCODE_BLOCK; r += 4)
            LANE(product_part)(c + (size_t)r * ldc + at, ldc, a + (size_t)r * lda, lda, b + at, n);
}

#undef vd
#include "lane_vectors_end.h"
