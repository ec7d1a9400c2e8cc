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

static void altup_list_product(qsf_program *g, uint8_t kind, qsf_view in, uint8_t to)
{
    QSF_ADD(g, .op = QSF_OP_ALTUP, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES, .in = in,
            .codes = QSF_OP_LAYER_CODES, .watch = (uint8_t)(1 + kind), .n = 1, .kinds = { kind },
            .to = { { .buffer = to } }, .fn = qsf_product_row);
}

qsf_view qsf_altup_view(const qsf_program *g)
{
    return (qsf_view){ .buffer = QSF_BUF_ALT, .cols = OTHERS * g->hp->n_embd };
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
static void altup_lengths(const qsf_pass *p, const qsf_task *t)
{
    const size_t n = p->hp->n_embd;
    for (size_t r = t->begin; r < t->end; r++) {
        const double want = altup_dot(stream(p, r, 0), stream(p, r, 0), n);
        for (int k = 1; k < STREAMS; k++) {
            float *x = stream(p, r, k);
            const double is = altup_dot(x, x, n);
            p->k->vec_scale(x, is > 0 ? (float)sqrt(want / is) : 0, n);
        }
    }
}

static void altup_predict(const qsf_pass *p, const qsf_task *t)
{
    const size_t n = p->hp->n_embd;
    const float *coefs = p->w->v[QSF_K_ALTUP_PREDICT];
    for (size_t r = t->begin; r < t->end; r++) {
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

void qsf_altup_list_begin(const qsf_layer *l, qsf_program *g)
{
    const qsf_view x = qsf_stream_view(g, QSF_BUF_X), others = qsf_altup_view(g);
    if (l->altup_begin) {
        altup_list_product(g, QSF_K_ALTUP_PROJ, x, QSF_BUF_ALT);
        QSF_ADD(g, .op = QSF_OP_RESIDUAL, .work = QSF_WORK_NORM, .over = QSF_OVER_ROWS, .to = { others },
                .fn = altup_lengths);
    }
    QSF_ADD(g, .op = QSF_OP_RESIDUAL, .work = QSF_WORK_ADD, .over = QSF_OVER_ROWS,
            .to = { x, others, qsf_stream_view(g, QSF_BUF_XN), qsf_stream_view(g, QSF_BUF_PREDICTED) },
            .fn = altup_predict);
}

/* ---- around attention ---- */

void qsf_laurel_list(const qsf_layer *l, qsf_program *g)
{
    const qsf_view narrow = { .buffer = QSF_BUF_GATE, .cols = l->n_laurel };
    altup_list_product(g, QSF_K_LAUREL_L, qsf_stream_view(g, QSF_BUF_XN), QSF_BUF_GATE);
    altup_list_product(g, QSF_K_LAUREL_R, narrow, QSF_BUF_LAUREL);
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

static void altup_come(const qsf_pass *p, const qsf_task *t)
{
    const size_t n = p->hp->n_embd;
    for (size_t r = t->begin; r < t->end; r++) {
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

void qsf_altup_add(const qsf_pass *p, size_t r, const float *t)
{
    for (int k = 1; k < STREAMS; k++) p->k->vec_add(stream(p, r, k), stream(p, r, k), t, p->hp->n_embd);
}

/* predicted += tmp, with the length of x. */
static void altup_join(const qsf_pass *p, const qsf_task *t)
{
    const size_t n = p->hp->n_embd;
    for (size_t r = t->begin; r < t->end; r++) {
        const float *x = stream(p, r, 0);
        float *t = p->b->tmp + r * p->b->ld_embd, *sum = p->b->predicted + r * p->b->ld_embd;
        const double want = altup_dot(x, x, n), is = altup_dot(t, t, n);
        p->k->vec_scale(t, is > 0 ? (float)sqrt(want / is) : 0, n);
        p->k->vec_add(sum, sum, t, n);
    }
}

static void altup_first(const qsf_pass *p, const qsf_task *t)
{
    (void)t;
    memcpy(p->b->predicted, p->b->x, p->batch->n * p->b->ld_embd * sizeof(float));
}

static void altup_mean(const qsf_pass *p, const qsf_task *t)
{
    const size_t ld = p->b->ld_embd;
    (void)t;
    memcpy(p->b->x, p->b->predicted, p->batch->n * ld * sizeof(float));
    p->k->vec_scale(p->b->x, 1 / (float)STREAMS, p->batch->n * ld);
}

void qsf_altup_list_correct(qsf_program *g)
{
    QSF_ADD(g, .op = QSF_OP_RESIDUAL, .work = QSF_WORK_ADD, .over = QSF_OVER_ROWS,
            .to = { qsf_stream_view(g, QSF_BUF_X), qsf_altup_view(g), qsf_stream_view(g, QSF_BUF_XN) },
            .fn = altup_come);
}

void qsf_altup_list_end(qsf_program *g)
{
    const qsf_view sum = qsf_stream_view(g, QSF_BUF_PREDICTED), tmp = qsf_stream_view(g, QSF_BUF_TMP);
    QSF_ADD(g, .work = QSF_WORK_COPY, .over = QSF_OVER_NOTHING, .to = { sum }, .fn = altup_first);
    for (uint32_t k = 0; k < OTHERS; k++) {
        const qsf_view other = { .buffer = QSF_BUF_ALT, .cols = g->hp->n_embd, .first = k * g->hp->n_embd };
        altup_list_product(g, (uint8_t)(QSF_K_ALTUP_BACK_1 + k), other, QSF_BUF_TMP);
        QSF_ADD(g, .op = QSF_OP_RESIDUAL, .work = QSF_WORK_ADD, .over = QSF_OVER_ROWS, .to = { tmp, sum },
                .fn = altup_join);
    }
    QSF_ADD(g, .work = QSF_WORK_COPY, .over = QSF_OVER_NOTHING, .to = { qsf_stream_view(g, QSF_BUF_X) },
            .fn = altup_mean);
}
