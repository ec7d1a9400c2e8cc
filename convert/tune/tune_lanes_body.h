/* The loops of tune_lanes.h in vectors of LANES floats; LANE(name) is a name of this set,
 * LANE_FMA(a, b, c) is a * b + c.
 * SPDX-License-Identifier: MIT
 *
 * No guard: tune_lanes_NAME.c include it once each, with an instruction set in force. */
#include "lane_vectors.h"

/* ---- products ---- */

/* LANE_R rows at a time: as many sums as there are registers for. */
#define LANE_R (LANES == 16 ? TUNE_M : TUNE_M / 2)

static inline void LANE(product_part)(float *c, size_t ldc, const float *a, const float *b, size_t n,
                                      bool add)
{
    vf s[LANE_R][2];
    for (int r = 0; r < LANE_R; r++)
        for (int i = 0; i < 2; i++)
            s[r][i] = add ? LANE(load)(c + (size_t)r * ldc + (size_t)i * LANES) : (vf){ 0 };
    for (size_t j = 0; j < n; j++, a += TUNE_M, b += TUNE_N) {
        const vf b0 = LANE(load)(b), b1 = LANE(load)(b + LANES);
        for (int r = 0; r < LANE_R; r++) {
            const vf x = LANE(all)(a[r]);
            s[r][0] = LANE_FMA(x, b0, s[r][0]);
            s[r][1] = LANE_FMA(x, b1, s[r][1]);
        }
    }
    for (int r = 0; r < LANE_R; r++)
        for (int i = 0; i < 2; i++) LANE(store)(c + (size_t)r * ldc + (size_t)i * LANES, s[r][i]);
}

static void LANE(product)(float *c, size_t ldc, const float *a, const float *b, size_t n, bool add)
{
    for (size_t at = 0; at < TUNE_N; at += 2 * LANES)
        for (size_t r = 0; r < TUNE_M; r += LANE_R)
            LANE(product_part)(c + r * ldc + at, ldc, a + r, b + at, n, add);
}

/* ---- distributions ---- */

/* e^x for x <= 0, to 2 units in the last place: 2^n by bits, the rest by its series. */
static inline vf LANE(exp)(vf x)
{
    const float round = 12582912.0f;        /* adding and taking it away rounds */
    x = LANE(choose)(LANE_LESS(x, LANE(all)(-87.0f)), LANE(all)(-87.0f), x);
    const vf n = x * 1.44269504f + round, whole = n - round;
    const vf r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    vf y = r * (1.0f / 5040) + 1.0f / 720;
    y = y * r + 1.0f / 120;
    y = y * r + 1.0f / 24;
    y = y * r + 1.0f / 6;
    y = y * r + 0.5f;
    y = y * r * r + r + 1.0f;
    return LANE_FLOAT(LANE_BITS(y) + ((LANE_BITS(n) - LANE_BITS(LANE(all)(round))) << 23));
}

static inline float LANE(total)(vf v)
{
    float each[LANES], sum = 0;
    memcpy(each, &v, sizeof each);
    for (int l = 0; l < LANES; l++) sum += each[l];
    return sum;
}

static inline float LANE(largest)(const float *x, size_t n)
{
    float top = x[0];
    for (size_t i = 1; i < n; i++) top = QSF_MAX(top, x[i]);
    return top;
}

static inline double LANE(exp_sum)(const float *x, size_t n, float top)
{
    double all = 0;
    for (size_t i = 0; i < n;) {            /* in pieces, so that small ones are not lost in floats */
        const size_t to = QSF_MIN(n, i + 1024);
        vf sum = { 0 };
        for (; i < to; i += LANES) sum += LANE(exp)(LANE(load)(x + i) - top);
        all += (double)LANE(total)(sum);
    }
    return all;
}

static double LANE(divergence)(float *x, const float *t, size_t n, float by)
{
    const float top_x = LANE(largest)(x, n), top_t = LANE(largest)(t, n);
    const double sum_x = LANE(exp_sum)(x, n, top_x), sum_t = LANE(exp_sum)(t, n, top_t);
    const float log_x = top_x + (float)log(sum_x), log_t = top_t + (float)log(sum_t);
    double kl = 0;
    for (size_t i = 0; i < n;) {
        const size_t to = QSF_MIN(n, i + 1024);
        vf sum = { 0 };
        for (; i < to; i += LANES) {
            const vf lx = LANE(load)(x + i) - log_x, lt = LANE(load)(t + i) - log_t, p = LANE(exp)(lt);
            sum += LANE(choose)(LANE_LESS(LANE(all)(-80.0f), lt), p * (lt - lx), (vf){ 0 });
            LANE(store)(x + i, (LANE(exp)(lx) - p) * by);
        }
        kl += (double)LANE(total)(sum);
    }
    return kl;
}

/* ---- paths ---- */

/* The nearest level of a subset, in *m its place. */
static inline vf LANE(near)(const tune_levels *q, int subset, vf x, vi *m)
{
    vf r = LANE(all)(q->level[subset][0]);
    vi at = { 0 };
    for (uint32_t i = 0; i + 1 < q->n; i++) {
        const vi more = LANE_LESS(LANE(all)(q->above[subset][i]), x);
        r = LANE(choose)(more, LANE(all)(q->level[subset][i + 1]), r);
        at -= more;
    }
    *m = at;
    return r;
}

static inline vf LANE(path_scale)(const tune_path *p, uint32_t c, int lane, vf *inverse)
{
    const vf scale = LANE(load)(p->scale + (size_t)TUNE_ROWS * (c / TUNE_GROUP) + lane);
    const vi some = LANE_LESS((vf){ 0 }, scale);
    *inverse = LANE_FLOAT(some & LANE_BITS(1.0f / LANE(choose)(some, scale, LANE(all)(1))));
    return scale;
}

/* For each state, the last three u, the better of two ways to it; bit s of a column's way is the
 * u that state s has forgotten.  Returns the best last state. */
static vi LANE(path_search)(tune_path *p, int lane)
{
    vf cost[8];
    for (int s = 0; s < 8; s++) cost[s] = LANE(all)(s ? 1e30f : 0);
    for (uint32_t c = 0; c < p->cols; c++) {
        vf inverse, error[4], next[8];
        vi way = { 0 }, m;
        const vf scale = LANE(path_scale)(p, c, lane, &inverse);
        const vf w = LANE(load)(p->w + (size_t)TUNE_ROWS * c + lane), x = w * inverse;
        for (int i = 0; i < 4; i++) {
            const vf e = w - LANE(near)(p->q, i, x, &m) * scale;
            error[i] = e * e * p->weight[c];
        }
        for (int s = 0; s < 8; s++) {
            const int a = s >> 1, b = a | 4, u = s & 1;
            const vf ca = cost[a] + error[((u ^ a ^ a >> 2) & 1) * 2 + (a >> 1 & 1)];
            const vf cb = cost[b] + error[((u ^ b ^ b >> 2) & 1) * 2 + (b >> 1 & 1)];
            const vi second = LANE_LESS(cb, ca);
            next[s] = LANE(choose)(second, cb, ca);
            way |= second & (1 << s);
        }
        memcpy(p->ways + (size_t)TUNE_ROWS * c + lane, &way, sizeof way);
        for (int s = 0; s < 8; s++) cost[s] = next[s] - next[0];    /* differences alone count */
    }
    vf least = cost[0];
    vi state = { 0 };
    for (int s = 1; s < 8; s++) {
        const vi better = LANE_LESS(cost[s], least);
        least = LANE(choose)(better, cost[s], least);
        state = LANE(choose_int)(better, (vi){ 0 } + s, state);
    }
    return state;
}

/* Traces the best path back: each column's entry in ways is replaced by its subset and its u. */
static void LANE(path_back)(tune_path *p, int lane, vi state)
{
    for (uint32_t c = p->cols; c-- > 0;) {
        int32_t *at = p->ways + (size_t)TUNE_ROWS * c + lane;
        vi way;
        memcpy(&way, at, sizeof way);
        const vi u = state & 1, before = (state >> 1) | ((way >> state & 1) << 2);
        way = ((u ^ before ^ (before >> 2)) & 1) * 2 + (before >> 1 & 1) + (u << 2);
        memcpy(at, &way, sizeof way);
        state = before;
    }
}

static void LANE(path)(tune_path *p)
{
    for (int lane = 0; lane < TUNE_ROWS; lane += LANES) {
        LANE(path_back)(p, lane, LANE(path_search)(p, lane));
        for (uint32_t c = 0; c < p->cols; c++) {
            float *w = p->w + (size_t)TUNE_ROWS * c + lane;
            vf inverse, value = { 0 };
            vi way, place = { 0 };
            memcpy(&way, p->ways + (size_t)TUNE_ROWS * c + lane, sizeof way);
            const vf scale = LANE(path_scale)(p, c, lane, &inverse), x = LANE(load)(w) * inverse;
            for (int i = 0; i < 4; i++) {
                vi m;
                const vf level = LANE(near)(p->q, i, x, &m);
                const vi here = LANE_SAME(way & 3, (vi){ 0 } + i);
                value = LANE(choose)(here, level, value);
                place = LANE(choose_int)(here, m, place);
            }
            LANE(store)(w, value * scale);
            place |= (way >> 2) << (int)(p->q->bits - 1);
            int32_t each[LANES];
            memcpy(each, &place, sizeof each);
            for (int l = 0; p->codes && l < LANES; l++)
                p->codes[(size_t)TUNE_ROWS * c + (size_t)(lane + l)] = (uint8_t)each[l];
        }
    }
}

#undef LANE_R
#include "lane_vectors_end.h"
