/* Computes the factor that error feedback uses from a Hessian: the lower triangular L of inverse(H)
 * = L L'.
 * SPDX-License-Identifier: MIT
 *
 * H with its columns in reverse order is R R' by Cholesky, R lower triangular, and its inverse is
 * V' V with V = inverse(R); V' with its rows and columns in reverse again is L.  This takes one
 * factorisation and the inversion of one triangle; H itself is never inverted.
 *
 * Both work in blocks of 64 columns, in doubles, in the array that held H: R becomes the lower
 * triangle, V, transposed, the upper one, and the inverses of R's diagonal blocks are stored
 * separately.  Nearly all of the work is one product of blocks, whose sums have the same order on
 * every machine.
 *
 * The first position of a sequence is the attention sink: in some layers it is thousands of times
 * as large as anything else, it is the same in every sequence, and everything after it depends on
 * it.  It counts once, next to the mean of all others, and at most a hundred times as much as that
 * mean. */
#include "encode/factor.h"

#include "plan/team.h"
#include "tensor/trellis.h"

#include <math.h>

/* The diagonal for a column that does not exist: its errors cost almost nothing. */
#define FACTOR_ABSENT 1e-6

enum { B = ENCODE_BLOCK };

typedef struct factor_work {
    const qsf_platform        *p;
    const qsf_convert_options *o;
    const encode_lanes        *lanes;
    uint32_t n, blocks, at;     /* at: the block column that is worked on */
    double  *a;                 /* [n][n] */
    double  *inverse;           /* [blocks][B][B] of R's diagonal blocks, lower */
    double  *column;            /* [threads][n][B] */
} factor_work;

static double *factor_block(const factor_work *k, uint32_t row, uint32_t col)
{
    return k->a + (size_t)row * B * k->n + (size_t)col * B;
}
static double *factor_inverse(const factor_work *k, uint32_t i) { return k->inverse + (size_t)i * B * B; }

/* ---- R ---- */

/* R of a diagonal block, and its inverse; false: it is not positive. */
static bool factor_diagonal(const factor_work *k, uint32_t i)
{
    double *r = factor_block(k, i, i), *v = factor_inverse(k, i);
    const size_t ld = k->n;
    for (size_t c = 0; c < B; c++) {
        double d = r[c * ld + c];
        for (size_t j = 0; j < c; j++) d -= r[c * ld + j] * r[c * ld + j];
        if (!(d > 0 && d <= DBL_MAX)) return false;
        const double root = r[c * ld + c] = sqrt(d);
        for (size_t row = c + 1; row < B; row++) {
            double s = r[row * ld + c];
            for (size_t j = 0; j < c; j++) s -= r[row * ld + j] * r[c * ld + j];
            r[row * ld + c] = s / root;
        }
    }
    memset(v, 0, B * B * sizeof *v);
    for (size_t c = 0; c < B; c++)
        for (size_t row = c; row < B; row++) {
            double s = row == c;
            for (size_t j = c; j < row; j++) s -= r[row * ld + j] * v[j * B + c];
            v[row * B + c] = s / r[row * ld + row];
        }
    return true;
}

/* Block i below the diagonal: subtracts the part of R to its left, then applies the diagonal's
 * R. */
static qsf_status factor_below(void *user, uint32_t i, uint32_t thread, qsf_error *err)
{
    const factor_work *k = user;
    const uint32_t row = k->at + 1 + i;
    double *c = factor_block(k, row, k->at), whole[B * B], turned[B * B];
    const double *v = factor_inverse(k, k->at);
    (void)thread, (void)err;
    k->lanes->product(c, k->n, factor_block(k, row, 0), k->n, k->column, (size_t)k->at * B);
    for (size_t r = 0; r < B; r++) {
        memcpy(whole + r * B, c + r * k->n, B * sizeof *c);
        memset(c + r * k->n, 0, B * sizeof *c);
        for (size_t j = 0; j < B; j++) turned[j * B + r] = -v[r * B + j];
    }
    k->lanes->product(c, k->n, whole, B, turned, B);
    return QSF_OK;
}

static qsf_status factor_root(factor_work *k, uint32_t n_threads, qsf_error *err)
{
    qsf_status st = QSF_OK;
    for (k->at = 0; !st && k->at < k->blocks; k->at++) {
        const uint32_t below = k->blocks - k->at - 1;
        const double *row = factor_block(k, k->at, 0);
        for (size_t r = 0; r < B; r++)
            for (size_t j = 0; j < (size_t)k->at * B; j++) k->column[j * B + r] = row[r * k->n + j];
        k->lanes->product(factor_block(k, k->at, k->at), k->n, row, k->n, k->column, (size_t)k->at * B);
        if (!factor_diagonal(k, k->at))
            return qsf_fail(err, QSF_E_CORRUPT, "the calibration's matrix of inputs is not positive");
        if (below) st = qsf_conv_parallel(k->p, k->o, n_threads, below, factor_below, k, err);
    }
    return st;
}

/* ---- its inverse ---- */

/* Column at of V's blocks, from the diagonal down. */
static qsf_status factor_column(void *user, uint32_t at, uint32_t thread, qsf_error *err)
{
    const factor_work *k = user;
    double *v = k->column + (size_t)thread * k->n * B, sum[B * B], minus[B * B];
    (void)err;
    memcpy(v, factor_inverse(k, at), B * B * sizeof *v);
    for (uint32_t i = at + 1; i < k->blocks; i++) {
        double *now = v + (size_t)(i - at) * B * B;
        memset(sum, 0, sizeof sum);
        memset(now, 0, sizeof sum);
        k->lanes->product(sum, B, factor_block(k, i, at), k->n, v, (size_t)(i - at) * B);
        const double *own = factor_inverse(k, i);
        for (size_t j = 0; j < B * B; j++) minus[j] = -own[j];
        k->lanes->product(now, B, minus, B, sum, B);
        double *to = factor_block(k, at, i);
        for (size_t r = 0; r < B; r++)
            for (size_t c = 0; c < B; c++) to[c * k->n + r] = now[r * B + c];
    }
    return QSF_OK;
}

static double factor_v(const factor_work *k, size_t row, size_t col)
{
    if (row / B == col / B) return factor_inverse(k, (uint32_t)(row / B))[row % B * B + col % B];
    return k->a[col * k->n + row];
}

/* ---- from the inputs ---- */

static double factor_scale(const encode_inputs *in, uint32_t col)
{
    return in->col_scale ? 1.0 / (double)in->col_scale[col] : 1;
}

/* Of h's diagonal; how much the first position counts. */
typedef struct factor_sums { double mean, sink; } factor_sums;

static double factor_h(const encode_inputs *in, uint32_t i, uint32_t j)
{
    const double h = in->diagonal ? i == j ? in->h[i] : 0 : in->h[(size_t)i * in->cols + j];
    return h * factor_scale(in, i) * factor_scale(in, j);
}

/* With all that is added, in units of the mean: weights stay within what floats can hold. */
static double factor_element(const encode_inputs *in, const factor_sums *s, uint32_t i, uint32_t j)
{
    double h = factor_h(in, i, j);
    if (in->first)
        h += s->sink * in->first[i] * factor_scale(in, i) * in->first[j] * factor_scale(in, j);
    return h / s->mean + (i == j ? in->identity + in->damping * (1 + in->identity) : 0);
}

static factor_sums factor_sum(const encode_inputs *in)
{
    double trace = 0, first = 0;
    for (uint32_t i = 0; i < in->cols; i++) {
        trace += factor_h(in, i, i);
        const double x = in->first ? in->first[i] * factor_scale(in, i) : 0;
        first += x * x;
    }
    /* No input at all: every error is as good as another. */
    return (factor_sums){ trace > 0 ? trace / in->cols : 1, first > 0 ? QSF_MIN(1, 100 * trace / first) : 0 };
}

static bool factor_finite(const encode_inputs *in)
{
    const size_t n = in->diagonal ? in->cols : (size_t)in->cols * in->cols;
    if (!qsf_all_finite(in->h, n) || (in->first && !qsf_all_finite(in->first, in->cols))) return false;
    for (uint32_t i = 0; i < in->cols; i++)
        if (factor_h(in, i, i) < 0) return false;
    return true;
}

static void factor_fill(const factor_work *k, const encode_inputs *in, const factor_sums *s,
                        const uint32_t *column)
{
    const uint32_t n = k->n;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j <= i; j++) {
            const uint32_t from = column[n - 1 - i], to = column[n - 1 - j];
            double *h = &k->a[(size_t)i * n + j];
            if (from < in->cols && to < in->cols) *h = factor_element(in, s, from, to);
            else *h = i == j ? FACTOR_ABSENT : 0;
        }
}

/* ---- the factor ---- */

static size_t factor_panels(uint32_t cols) { return encode_panel_at(cols, cols / ENCODE_STEP); }

void qsf_enc_factor_free(const qsf_platform *p, encode_factor *f)
{
    if (!f) return;
    qsf_dealloc(p, (void *)f->column, (uint64_t)f->cols * sizeof *f->column);
    qsf_dealloc(p, (void *)f->panels, (uint64_t)factor_panels(f->cols) * sizeof *f->panels);
    qsf_dealloc(p, (void *)f->weight, (uint64_t)f->cols * sizeof *f->weight);
    qsf_dealloc(p, f, sizeof *f);
}

uint64_t qsf_enc_factor_bytes(const encode_factor *f)
{
    return factor_panels(f->cols) * sizeof *f->panels + f->cols * (sizeof *f->column + sizeof *f->weight);
}

typedef struct factor_parts { encode_factor *f; uint32_t *column; float *panels, *weight; } factor_parts;

static qsf_status factor_new(const qsf_platform *p, uint32_t cols, bool steps, bool diagonal,
                             factor_parts *out, qsf_error *err)
{
    encode_factor *f = out->f = qsf_alloc(p, sizeof *f, "a factor", err);
    if (!f) return QSF_E_MEMORY;
    f->cols = (uint32_t)qsf_round_up(cols, ENCODE_GROUP);
    f->diagonal = diagonal;
    f->column = out->column = qsf_alloc_array(p, f->cols, sizeof *out->column, "a factor", err);
    f->panels = out->panels =
        qsf_alloc_array(p, factor_panels(f->cols), sizeof *out->panels, "a factor", err);
    f->weight = out->weight = qsf_alloc_array(p, f->cols, sizeof *out->weight, "a factor", err);
    if (!out->column || !out->panels || !out->weight) {
        qsf_enc_factor_free(p, f);
        out->f = NULL;
        return QSF_E_MEMORY;
    }
    for (uint32_t i = 0; i < f->cols; i++) out->column[i] = steps ? qsf_trellis_column(i) : i;
    return QSF_OK;
}

static void factor_put(const factor_parts *to, uint32_t row, uint32_t col, double l)
{
    const uint32_t p = col / ENCODE_STEP;
    to->panels[encode_panel_at(to->f->cols, p) + (size_t)ENCODE_STEP * (row - p * ENCODE_STEP) +
               col % ENCODE_STEP] = (float)l;
    if (row == col) to->weight[row] = (float)(1 / (l * l));
}

static void factor_put_diagonal(const encode_inputs *in, const factor_parts *to)
{
    const factor_sums s = factor_sum(in);
    for (uint32_t i = 0; i < to->f->cols; i++) {
        const uint32_t c = to->column[i];
        const double h = c < in->cols ? factor_element(in, &s, c, c) : FACTOR_ABSENT;
        factor_put(to, i, i, 1 / sqrt(h));
    }
}

static qsf_status factor_compute(factor_work *k, const encode_inputs *in, const factor_parts *to,
                                 qsf_error *err)
{
    const factor_sums s = factor_sum(in);
    const uint32_t n_threads = qsf_conv_threads(k->p, k->o), n = k->n;
    const uint64_t columns = (uint64_t)n_threads * n * B, inverses = (uint64_t)k->blocks * B * B;
    k->a = qsf_alloc_array(k->p, (uint64_t)n * n, sizeof *k->a, "a matrix of inputs", err);
    k->inverse = qsf_alloc_array(k->p, inverses, sizeof *k->inverse, "a factor", err);
    k->column = qsf_alloc_array(k->p, columns, sizeof *k->column, "a factor", err);
    qsf_status st = k->a && k->inverse && k->column ? QSF_OK : QSF_E_MEMORY;
    if (!st) factor_fill(k, in, &s, to->column);
    if (!st) st = factor_root(k, n_threads, err);
    if (!st) st = qsf_conv_parallel(k->p, k->o, n_threads, k->blocks, factor_column, k, err);
    for (uint32_t row = 0; !st && row < n; row++)
        for (uint32_t col = 0; col <= row; col++)
            factor_put(to, row, col, factor_v(k, n - 1 - col, n - 1 - row));
    qsf_dealloc(k->p, k->a, (uint64_t)n * n * sizeof *k->a);
    qsf_dealloc(k->p, k->inverse, inverses * sizeof *k->inverse);
    qsf_dealloc(k->p, k->column, columns * sizeof *k->column);
    return st;
}

qsf_status qsf_enc_factor_new(const qsf_platform *p, const qsf_convert_options *o, const encode_inputs *in,
                              encode_factor **out, qsf_error *err)
{
    factor_parts parts;
    *out = NULL;
    if (!factor_finite(in))
        return qsf_fail(err, QSF_E_CORRUPT, "the calibration's matrix of inputs has numbers that are not "
                        "finite, or less than 0 on its diagonal");
    qsf_status st = factor_new(p, in->cols, in->steps, in->diagonal, &parts, err);
    if (st) return st;
    if (in->diagonal) factor_put_diagonal(in, &parts);
    else {
        factor_work k = { .p = p, .o = o, .n = parts.f->cols, .blocks = parts.f->cols / B };
        k.lanes = qsf_enc_lanes(p->cpu_features ? p->cpu_features(p->user) : 0);
        st = factor_compute(&k, in, &parts, err);
    }
    if (st) qsf_enc_factor_free(p, parts.f);
    else *out = parts.f;
    return st;
}

qsf_status qsf_enc_factor_none(const qsf_platform *p, uint32_t cols, bool steps, encode_factor **out,
                               qsf_error *err)
{
    factor_parts parts;
    *out = NULL;
    const qsf_status st = factor_new(p, cols, steps, true, &parts, err);
    if (st) return st;
    for (uint32_t i = 0; i < parts.f->cols; i++)
        factor_put(&parts, i, i, parts.column[i] < cols ? 1 : 1 / sqrt(FACTOR_ABSENT));
    *out = parts.f;
    return st;
}

#undef FACTOR_ABSENT
