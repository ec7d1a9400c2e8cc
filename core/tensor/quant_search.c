/* The search for a block's scale and zero: candidates, then least squares, then fp16 rounding; see
 * docs/quantisers.md.
 * SPDX-License-Identifier: MIT
 *
 * For codes that are fixed, the best step is a quotient of two sums, and so is the error it leaves:
 * with q the levels in steps, step = sum(w x q) / sum(w q q) removes sum(w x q)^2 / sum(w q q) of
 * the weighted energy.  So a candidate costs one pass over the block, and the one that removes most
 * wins.  Passes keep 8 sums side by side: plain C that compilers turn into vectors, with one result
 * on every machine that does not fuse multiply and add. */
#include "tensor/quant_search.h"

enum { QS_LANES = 8, QS_REFINE = 4, QS_WIDTHS = 8 };

/* Adding and taking away 1.5 * 2^23 rounds to the nearest integer, ties to even, without a call. */
#define QS_ROUND 12582912.0f
#define QS_MOST  65504.0f      /* fp16's largest number */

typedef struct qs_grid { float lo, hi, frac; } qs_grid;     /* levels frac + integer, from lo to hi */
typedef struct qs_best { float gain, step; qs_grid grid; } qs_best;

static qs_grid qs_grid_at(float lo, int n_levels)
{
    return (qs_grid){ lo, lo + (float)(n_levels - 1), lo - floorf(lo) };
}

/* *xq = sum of w * x * q and *qq = sum of w * q * q, where q is x * inv on the grid. */
static void qs_project(const float *x, const float *w, size_t n, float inv, qs_grid g, float *xq, float *qq)
{
    float a[QS_LANES] = { 0 }, b[QS_LANES] = { 0 };
    for (size_t i = 0; i < n; i += QS_LANES)
        for (size_t l = 0; l < QS_LANES; l++) {
            float q = (x[i + l] * inv - g.frac) + QS_ROUND;
            q = q - QS_ROUND + g.frac;
            q = q < g.lo ? g.lo : q;
            q = q > g.hi ? g.hi : q;
            const float wq = w[i + l] * q;
            a[l] += wq * x[i + l];
            b[l] += wq * q;
        }
    *xq = ((a[0] + a[4]) + (a[1] + a[5])) + ((a[2] + a[6]) + (a[3] + a[7]));
    *qq = ((b[0] + b[4]) + (b[1] + b[5])) + ((b[2] + b[6]) + (b[3] + b[7]));
}

static void qs_try(qs_best *best, const float *x, const float *w, size_t n, float step, qs_grid g)
{
    float xq, qq;
    qs_project(x, w, n, 1.0f / step, g, &xq, &qq);
    if (!(qq > 0)) return;
    const float gain = xq * xq / qq;
    if (gain > best->gain && xq / qq * step > 0) *best = (qs_best){ gain, xq / qq, g };
}

/* The smallest positive step at which the grid clips none of [low, high]; 0 if no step does. */
static float qs_covering_step(qs_grid g, float low, float high)
{
    float step = 0;
    if (high > 0) { if (g.hi <= 0) return 0; step = high / g.hi; }
    if (low < 0)  { if (g.lo >= 0) return 0; step = QSF_MAX(step, low / g.lo); }
    return step;
}

/* Tries steps of one sign from narrow to a little above what clips nothing. */
static void qs_scan(qs_best *best, const qsf_quant_rule *r, const float *x, const float *w, size_t n,
                    qs_grid g, float low, float high, float sign)
{
    const float cover = sign > 0 ? qs_covering_step(g, low, high) : qs_covering_step(g, -high, -low);
    if (!(cover > 0)) return;
    const float top = 1.04f, by = (top - r->narrow) / (float)(r->n_steps - 1);
    for (int i = 0; i < r->n_steps; i++) qs_try(best, x, w, n, sign * cover * (top - by * (float)i), g);
}

/* Moves the step to the least squares answer of its own codes until nothing is gained. */
static void qs_refine(qs_best *best, const float *x, const float *w, size_t n)
{
    for (int i = 0; i < QS_REFINE; i++) {
        const float before = best->gain;
        qs_try(best, x, w, n, best->step, best->grid);
        if (!(best->gain > before)) return;
    }
}

/* ---- lo searched for: the type stores a zero ---- */

static void qs_scan_zeros(qs_best *best, const qsf_quant_rule *r, const float *x, const float *w, size_t n,
                          float low, float high)
{
    const int top = r->n_levels - 1;
    const float span = QSF_MAX(high, 0) - QSF_MIN(low, 0);
    const int middle = (int)floorf((float)top * -QSF_MIN(low, 0) / span + 0.5f);
    for (int k = QSF_MAX(middle - 2, 0); k <= QSF_MIN(middle + 2, top); k++)
        qs_scan(best, r, x, w, n, qs_grid_at((float)-k, r->n_levels), low, high, 1);
}

/* ---- a grid that may lie anywhere ---- */

typedef struct qs_line { float gain, step, zero; } qs_line;

/* Codes for the line, then the step and zero that are best for them; false: they take away no more
 * than *best.  x is around its weighted mean, so that the two unknowns part: step = cov / var, and
 * cov^2 / var of the energy is taken away. */
static bool qs_line_try(qs_line *best, const float *x, const float *w, size_t n, float sum_w, float step,
                        float zero, float top)
{
    float a[QS_LANES] = { 0 }, b[QS_LANES] = { 0 }, e[QS_LANES] = { 0 };
    const float inv = 1.0f / step;
    for (size_t i = 0; i < n; i += QS_LANES)
        for (size_t l = 0; l < QS_LANES; l++) {
            float c = (x[i + l] - zero) * inv + QS_ROUND;
            c -= QS_ROUND;
            c = c < 0 ? 0 : c;
            c = c > top ? top : c;
            const float wc = w[i + l] * c;
            a[l] += wc;
            b[l] += wc * c;
            e[l] += wc * x[i + l];
        }
    float c = 0, cc = 0, cov = 0;
    for (size_t l = 0; l < QS_LANES; l++) { c += a[l]; cc += b[l]; cov += e[l]; }
    const float var = cc - c * c / sum_w, gain = cov * cov / var;
    if (!(var > 0) || !(cov > 0) || !(gain > best->gain)) return false;
    *best = (qs_line){ gain, cov / var, -cov / var * c / sum_w };
    return true;
}

/* Starts at several widths, and at the best grid with an exact zero. */
static qs_line qs_line_search(const qsf_quant_rule *r, const qs_best *exact, const float *x, const float *w,
                              size_t n, float low, float high)
{
    const float top = (float)(r->n_levels - 1);
    float y[QSF_QUANT_MOST], sum_w = 0, sum = 0;
    qs_line best = { 0, 0, 0 };
    assert(n <= QSF_QUANT_MOST);
    for (size_t i = 0; i < n; i++) {
        sum_w += w[i];
        sum += w[i] * x[i];
    }
    if (!(sum_w > 0)) return best;
    const float mean = sum / sum_w;
    for (size_t i = 0; i < n; i++) y[i] = x[i] - mean;
    for (int i = 0; i <= QS_WIDTHS; i++) {
        const float step = i < QS_WIDTHS ? (high - low) * (1.0f - 0.09f * (float)i) / top : exact->step;
        const float zero = i < QS_WIDTHS ? 0.5f * (low + high) - 0.5f * step * top - mean
            : exact->step * exact->grid.lo - mean;
        qs_line here = { 0, 0, 0 };
        bool more = step > 0 && qs_line_try(&here, y, w, n, sum_w, step, zero, top);
        for (int k = 0; more && k < QS_REFINE; k++)
            more = qs_line_try(&here, y, w, n, sum_w, here.step, here.zero, top);
        if (here.gain > best.gain) best = here;
    }
    best.zero += mean;
    return best;
}

/* ---- fp16 ---- */

/* The fp16 number nearest to step whose product with lo is an fp16 number too.  A product of an
 * a-bit and a b-bit integer has at most a + b bits and fp16 keeps 11: the step keeps 11 less the
 * bits of lo's odd part. */
static float qs_exact_step(float step, float lo)
{
    int odd = (int)fabsf(lo * 2), bits = 0;
    while (odd && !(odd & 1)) odd >>= 1;
    for (odd = odd == 1 ? 0 : odd; odd; odd >>= 1) bits++;
    const int h = qsf_f32_to_f16(step), sign = h & 0x8000;
    int m = h & 0x7fff, own = 0;
    if (m < 0x400) {                                 /* subnormal: it has fewer bits to begin with */
        while (m >> own) own++;
        bits = QSF_MAX(bits - (11 - own), 0);
    }
    const int unit = 1 << bits;
    m += unit / 2;
    m -= m % unit;
    /* infinite, or its zero would be */
    while (qsf_f16_to_f32((uint16_t)m) * QSF_MAX(fabsf(lo), 1.0f) > QS_MOST) m -= unit;
    return qsf_f16_to_f32((uint16_t)(sign | m));
}

/* The fp16 number nearest to step, for types that store no zero. */
static float qs_plain_step(float step)
{
    const float s = qsf_f16_to_f32(qsf_f32_to_f16(step));
    return s > QS_MOST ? QS_MOST : s < -QS_MOST ? -QS_MOST : s;
}

static void qs_encode(const float *x, size_t n, const qsf_quant_fit *f, int n_levels, uint8_t *code)
{
    const float inv = f->scale != 0 ? 1.0f / f->scale : 0, top = (float)(n_levels - 1);
    for (size_t i = 0; i < n; i++) {
        float c = (x[i] - f->zero) * inv;
        c = c < 0 ? 0 : c > top ? top : c;
        code[i] = (uint8_t)(int)(c + 0.5f);
    }
}

qsf_quant_fit qsf_quant_search(const qsf_quant_rule *r, const float *x, const float *w, size_t n,
                               uint8_t *code)
{
    float low = x[0], high = x[0];
    for (size_t i = 1; i < n; i++) {
        low = QSF_MIN(low, x[i]);
        high = QSF_MAX(high, x[i]);
    }
    qs_best best = { 0, 0, qs_grid_at(r->lo, r->n_levels) };
    /* Below a quarter of fp16's smallest number nothing is left after rounding,
     * and 1 / step would overflow. */
    if (QSF_MAX(high, -low) > 0x1p-26f) {
        if (r->any_lo) qs_scan_zeros(&best, r, x, w, n, low, high);
        else           qs_scan(&best, r, x, w, n, best.grid, low, high, 1);
        if (r->both_signs) qs_scan(&best, r, x, w, n, best.grid, low, high, -1);
        qs_refine(&best, x, w, n);
    }
    qsf_quant_fit f = { 0, 0, best.grid.lo };
    f.scale = r->has_zero ? qs_exact_step(best.step, f.lo) : qs_plain_step(best.step);
    f.zero = f.scale * f.lo;
    if (r->free_zero && high - low > 0x1p-20f) {     /* below that fp16 has too few numbers to choose from */
        const qs_line t = qs_line_search(r, &best, x, w, n, low, high);
        if (t.gain > 0) {
            f.scale = qs_plain_step(t.step);
            f.zero = qs_plain_step(t.zero);
        }
    }
    qs_encode(x, n, &f, r->n_levels, code);
    /* decodes to 0 whatever the reader does with the scale */
    if (f.scale == 0) memset(code, f.lo < 0 ? (int)-f.lo : 0, n);
    return f;
}

#undef QS_ROUND
#undef QS_MOST
