/* Four streams of a row instead of one (AltUp, Baykal et al. 2023, arXiv:2301.13310), and a short
 * way around attention (Laurel, arXiv:2411.07501), of Gemma 3n.
 * SPDX-License-Identifier: MIT
 *
 * A layer computes the first stream, x; the others are predicted by sums of all, with coefficients
 * that depend on x, and corrected by how far x came from its own prediction. */
#include "layers/altup.h"
#include "layers/product.h"

enum { STREAMS = QSF_ALTUP, OTHERS = STREAMS - 1 };

static float *stream(const qsf_pass *p, size_t r, int k)
{
    return k ? p->b->alt + r * p->b->ld_alt + (size_t)(k - 1) * p->hp->n_embd : p->b->x + r * p->b->ld_embd;
}

static double altup_dot(const float *a, const float *b, size_t n)
{
    double sum[8] = { 0 };
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t l = 0; l < 8; l++) sum[l] += (double)a[i + l] * b[i + l];
    for (; i < n; i++) sum[0] += (double)a[i] * b[i];
    for (size_t l = 1; l < 8; l++) sum[0] += sum[l];
    return sum[0];
}

/* Columns of several streams that are added up at a time, so that compilers see no overlap. */
enum { ALTUP_SOME = 64 };

static void altup_run(qsf_pass_job *job, uint32_t kind, const float *x, size_t ld, size_t cols, float *y,
                      size_t ldy)
{
    const qsf_product_to to = { .kind = kind, .x = x, .ld = ld, .cols = cols, .y = y, .ldy = ldy,
                                .codes = QSF_OP_LAYER_CODES, .op = QSF_OP_ALTUP };
    qsf_product_run(job, &to);
}

/* ---- before a layer ---- */

/* What the stream x is like: a number for each stream. */
static void altup_router(const qsf_pass *p, const float *x, float work[], float out[STREAMS])
{
    const size_t n = p->hp->n_embd;
    qsf_pass_norm(p, p->layer->norm, work, x, p->w->v[QSF_K_ALTUP_ROUTER_NORM], NULL, n);
    p->k->matmul_f32(out, STREAMS, p->w->v[QSF_K_ALTUP_ROUTER], work, n, 1, STREAMS, n);
    for (int k = 0; k < STREAMS; k++) out[k] = (float)(1 - 2 / (exp(2 * out[k] / (double)n) + 1));
}

/* The other streams get the first one's length. */
static void altup_lengths(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const size_t n = p->hp->n_embd;
    const qsf_range rows = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        const double want = altup_dot(stream(p, r, 0), stream(p, r, 0), n);
        for (int k = 1; k < STREAMS; k++) {
            float *x = stream(p, r, k);
            const double is = altup_dot(x, x, n);
            p->k->vec_scale(x, is > 0 ? (float)sqrt(want / is) : 0, n);
        }
    }
}

static void altup_predict(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const size_t n = p->hp->n_embd;
    const float *coefs = p->w->v[QSF_K_ALTUP_PREDICT];
    const qsf_range rows = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        float like[STREAMS], c[STREAMS][STREAMS], *x[STREAMS];
        altup_router(p, stream(p, r, 0), p->b->xn + r * p->b->ld_embd, like);
        for (int k = 0; k < STREAMS; k++) {
            x[k] = stream(p, r, k);
            for (int j = 0; j < STREAMS; j++) {
                const size_t row = (size_t)(k * STREAMS + j);
                c[k][j] = (float)altup_dot(coefs + row * STREAMS, like, STREAMS) + (k == j);
            }
        }
        for (size_t i = 0; i < n; i += ALTUP_SOME) {
            const size_t some = QSF_MIN(n - i, (size_t)ALTUP_SOME);
            float is[STREAMS][ALTUP_SOME] = { { 0 } };
            for (int k = 0; k < STREAMS; k++) memcpy(is[k], x[k] + i, some * sizeof(float));
            for (int k = 0; k < STREAMS; k++) {
                float sum[ALTUP_SOME];
                const float *by = c[k];
                for (size_t l = 0; l < ALTUP_SOME; l++)
                    sum[l] = by[0] * is[0][l] + by[1] * is[1][l] + by[2] * is[2][l] + by[3] * is[3][l];
                memcpy(x[k] + i, sum, some * sizeof(float));
            }
        }
        memcpy(p->b->predicted + r * p->b->ld_embd, x[0], n * sizeof(float));
    }
}

void qsf_altup_begin(qsf_pass_job *job)
{
    const qsf_pass *p = job->p;
    if (p->layer->altup_begin) {
        altup_run(job, QSF_K_ALTUP_PROJ, p->b->x, p->b->ld_embd, p->hp->n_embd, p->b->alt, p->b->ld_alt);
        qsf_pass_run(job, QSF_OP_RESIDUAL, p->batch->n, altup_lengths);
    }
    qsf_pass_run(job, QSF_OP_RESIDUAL, p->batch->n, altup_predict);
}

/* ---- around attention ---- */

void qsf_laurel_run(qsf_pass_job *job)
{
    const qsf_buffers *b = job->p->b;
    altup_run(job, QSF_K_LAUREL_L, b->xn, b->ld_embd, job->p->hp->n_embd, b->gate, b->ld_ff);
    altup_run(job, QSF_K_LAUREL_R, b->gate, b->ld_ff, job->p->layer->n_laurel, b->laurel, b->ld_embd);
}

void qsf_laurel_add(const qsf_pass *p, size_t r)
{
    const size_t n = p->hp->n_embd, at = r * p->b->ld_embd;
    float *around = p->b->laurel + at, *x = p->b->x + at;
    qsf_pass_norm(p, p->layer->norm, around, around, p->w->v[QSF_K_LAUREL_POST_NORM], NULL, n);
    p->k->vec_add(x, x, around, n);
    p->k->vec_add(x, x, p->b->xn + at, n);
    p->k->vec_scale(x, 1 / sqrtf(2), n);
}

/* ---- after a layer ---- */

static void altup_come(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const size_t n = p->hp->n_embd;
    const qsf_range rows = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        float like[STREAMS], c[STREAMS], *xn = p->b->xn + r * p->b->ld_embd, *x[STREAMS];
        const float *was = p->b->predicted + r * p->b->ld_embd;
        altup_router(p, stream(p, r, 0), xn, like);
        for (int k = 0; k < STREAMS; k++) {
            x[k] = stream(p, r, k);
            c[k] = 1 + (float)altup_dot(p->w->v[QSF_K_ALTUP_CORRECT] + k * STREAMS, like, STREAMS);
        }
        for (size_t i = 0; i < n; i += ALTUP_SOME) {
            const size_t some = QSF_MIN(n - i, (size_t)ALTUP_SOME);
            float far[ALTUP_SOME];
            for (size_t l = 0; l < some; l++) far[l] = x[0][i + l] - was[i + l];
            memcpy(x[0] + i, was + i, some * sizeof(float));
            for (int k = 0; k < STREAMS; k++)
                for (size_t l = 0; l < some; l++) x[k][i + l] += c[k] * far[l];
        }
        p->k->vec_mul(xn, x[0], p->w->v[QSF_K_ALTUP_SCALE], n);
    }
}

void qsf_altup_correct(qsf_pass_job *job)
{
    qsf_pass_run(job, QSF_OP_RESIDUAL, job->p->batch->n, altup_come);
}

void qsf_altup_add(const qsf_pass *p, size_t r, const float *t)
{
    for (int k = 1; k < STREAMS; k++) p->k->vec_add(stream(p, r, k), stream(p, r, k), t, p->hp->n_embd);
}

/* predicted += tmp, with the length of x. */
static void altup_join(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const size_t n = p->hp->n_embd;
    const qsf_range rows = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        const float *x = stream(p, r, 0);
        float *t = p->b->tmp + r * p->b->ld_embd, *sum = p->b->predicted + r * p->b->ld_embd;
        const double want = altup_dot(x, x, n), is = altup_dot(t, t, n);
        p->k->vec_scale(t, is > 0 ? (float)sqrt(want / is) : 0, n);
        p->k->vec_add(sum, sum, t, n);
    }
}

void qsf_altup_end(qsf_pass_job *job)
{
    const qsf_pass *p = job->p;
    const size_t ld = p->b->ld_embd, n = p->hp->n_embd;
    memcpy(p->b->predicted, p->b->x, p->batch->n * ld * sizeof(float));
    for (int k = 0; k < OTHERS; k++) {
        const float *x = p->b->alt + (size_t)k * n;
        altup_run(job, QSF_K_ALTUP_BACK_1 + (uint32_t)k, x, p->b->ld_alt, n, p->b->tmp, ld);
        qsf_pass_run(job, QSF_OP_RESIDUAL, p->batch->n, altup_join);
    }
    memcpy(p->b->x, p->b->predicted, p->batch->n * ld * sizeof(float));
    p->k->vec_scale(p->b->x, 1 / (float)STREAMS, p->batch->n * ld);
}
