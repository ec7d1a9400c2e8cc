/* What is done to rows one by one, and its way back: norms, rotation, gates.
 * SPDX-License-Identifier: MIT */
#include "tune/rows.h"

#include <math.h>

typedef struct rows_job {
    float       *y, *y2, *inverse;
    const float *x, *dy, *gain, *up;
    size_t       rows, n;
    float        eps;
    uint8_t      act;
    bool         add;
} rows_job;

/* ---- norms ---- */

static float norm_inverse(const float *x, size_t n, float eps)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return (float)(1 / sqrt(sum / (double)n + (double)eps));
}

static void norm_rows(void *arg, uint32_t thread, size_t begin, size_t end)
{
    const rows_job *k = arg;
    (void)thread;
    for (size_t r = begin; r < end; r++) {
        const float *x = k->x + r * k->n, by = norm_inverse(x, k->n, k->eps);
        float *y = k->y + r * k->n;
        for (size_t i = 0; i < k->n; i++) y[i] = x[i] * by * k->gain[i];
    }
}

void qsf_tune_norm(tune_team *t, float *y, const float *x, const float *gain, float eps, size_t rows,
                   size_t n)
{
    rows_job k = { .y = y, .x = x, .gain = gain, .eps = eps, .n = n };
    qsf_tune_rows(t, rows, norm_rows, &k);
}

static void norm_inverses(void *arg, uint32_t thread, size_t begin, size_t end)
{
    const rows_job *k = arg;
    (void)thread;
    for (size_t r = begin; r < end; r++) k->inverse[r] = norm_inverse(k->x + r * k->n, k->n, k->eps);
}

static void norm_gains(void *arg, uint32_t thread, size_t begin, size_t end)
{
    const rows_job *k = arg;
    (void)thread;
    for (size_t i = begin; i < end; i++) k->y2[i] = 0;
    for (size_t r = 0; r < k->rows; r++) {
        const float *x = k->x + r * k->n, *dy = k->dy + r * k->n;
        for (size_t i = begin; i < end; i++) k->y2[i] += dy[i] * x[i] * k->inverse[r];
    }
}

/* With y = g x r and r = 1 / sqrt(mean(x^2) + eps): dx = r g dy - x r^3 sum(g dy x) / n. */
static void norm_back_rows(void *arg, uint32_t thread, size_t begin, size_t end)
{
    const rows_job *k = arg;
    (void)thread;
    for (size_t r = begin; r < end; r++) {
        const float *x = k->x + r * k->n, *dy = k->dy + r * k->n, by = k->inverse[r];
        float *dx = k->y + r * k->n;
        double sum = 0;
        for (size_t i = 0; i < k->n; i++) sum += (double)(k->gain[i] * dy[i]) * (double)x[i];
        const float all = (float)(sum * (double)by * (double)by * (double)by / (double)k->n);
        for (size_t i = 0; i < k->n; i++) {
            const float d = by * k->gain[i] * dy[i] - x[i] * all;
            dx[i] = k->add ? dx[i] + d : d;
        }
    }
}

void qsf_tune_norm_back(tune_team *t, float *dx, const float *dy, const float *x, const float *gain,
                        float eps, size_t rows, size_t n, bool add, float *d_gain, float *inverse)
{
    rows_job k = { .y = dx, .y2 = d_gain, .inverse = inverse, .x = x, .dy = dy, .gain = gain, .eps = eps,
                   .rows = rows, .n = n, .add = add };
    qsf_tune_rows(t, rows, norm_inverses, &k);
    qsf_tune_rows(t, n, norm_gains, &k);
    qsf_tune_rows(t, rows, norm_back_rows, &k);
}

/* ---- rotation ---- */

static void turn_rows(void *arg, uint32_t thread, size_t begin, size_t end)
{
    const tune_turn *k = arg;
    const size_t step = k->pairs ? 2 : 1, other = k->pairs ? 1 : k->half;
    (void)thread;
    for (size_t r = begin; r < end; r++) {
        const float *c = k->cos + k->pos[r] * k->stride, *s = k->sin + k->pos[r] * k->stride;
        for (uint32_t h = 0; h < k->heads; h++) {
            float *x = k->x + (r * k->heads + h) * k->dim;
            for (uint32_t i = 0; i < k->half; i++) {
                const float a = x[i * step], b = x[i * step + other], by = k->back ? -s[i] : s[i];
                x[i * step] = a * c[i] - b * by;
                x[i * step + other] = a * by + b * c[i];
            }
        }
    }
}

void qsf_tune_turn(tune_team *t, const tune_turn *k, size_t rows)
{
    tune_turn own = *k;
    qsf_tune_rows(t, rows, turn_rows, &own);
}

/* ---- gates ---- */

/* Both activations are x / (1 + e^-c(x)): c(x) is x, or of GELU's tanh form an odd cubic. */
static float gate_sigmoid(uint8_t act, float x, float *slope)
{
    const float c = act == QSF_ACT_SILU ? x : 1.5957691216f * (x + 0.044715f * x * x * x);
    *slope = act == QSF_ACT_SILU ? 1 : 1.5957691216f * (1 + 0.134145f * x * x);
    return 1 / (1 + expf(-c));
}

static void gate_rows(void *arg, uint32_t thread, size_t begin, size_t end)
{
    const rows_job *k = arg;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        float slope;
        k->y[i] = k->x[i] * gate_sigmoid(k->act, k->x[i], &slope) * k->up[i];
    }
}

void qsf_tune_gate(tune_team *t, float *h, const float *gate, const float *up, uint8_t act, size_t n)
{
    rows_job k = { .y = h, .x = gate, .up = up, .act = act };
    qsf_tune_rows(t, n, gate_rows, &k);
}

static void gate_back_rows(void *arg, uint32_t thread, size_t begin, size_t end)
{
    const rows_job *k = arg;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        const float x = k->x[i], d = k->dy[i];
        float slope;
        const float s = gate_sigmoid(k->act, x, &slope);
        k->y[i] = d * k->up[i] * (s + x * s * (1 - s) * slope);
        k->y2[i] = d * x * s;
    }
}

void qsf_tune_gate_back(tune_team *t, float *d_gate, float *d_up, const float *dh, const float *gate,
                        const float *up, uint8_t act, size_t n)
{
    rows_job k = { .y = d_gate, .y2 = d_up, .dy = dh, .x = gate, .up = up, .act = act };
    qsf_tune_rows(t, n, gate_back_rows, &k);
}

/* ---- sums ---- */

static void add_rows(void *arg, uint32_t thread, size_t begin, size_t end)
{
    const rows_job *k = arg;
    (void)thread;
    for (size_t i = begin; i < end; i++) k->y[i] += k->x[i];
}

void qsf_tune_add(tune_team *t, float *y, const float *x, size_t n)
{
    rows_job k = { .y = y, .x = x };
    qsf_tune_rows(t, n, add_rows, &k);
}

static void bias_rows(void *arg, uint32_t thread, size_t begin, size_t end)
{
    const rows_job *k = arg;
    (void)thread;
    for (size_t r = begin; r < end; r++)
        for (size_t i = 0; i < k->n; i++) k->y[r * k->n + i] += k->x[i];
}

void qsf_tune_add_bias(tune_team *t, float *y, const float *bias, size_t rows, size_t n)
{
    rows_job k = { .y = y, .x = bias, .n = n };
    if (bias) qsf_tune_rows(t, rows, bias_rows, &k);
}

static void sum_columns(void *arg, uint32_t thread, size_t begin, size_t end)
{
    const rows_job *k = arg;
    (void)thread;
    for (size_t i = begin; i < end; i++) k->y[i] = 0;
    for (size_t r = 0; r < k->rows; r++)
        for (size_t i = begin; i < end; i++) k->y[i] += k->x[r * k->n + i];
}

void qsf_tune_sum_rows(tune_team *t, float *sums, const float *x, size_t rows, size_t n)
{
    rows_job k = { .y = sums, .x = x, .rows = rows, .n = n };
    qsf_tune_rows(t, n, sum_columns, &k);
}
