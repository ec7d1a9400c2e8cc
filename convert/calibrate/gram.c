/* Sums of products of the matrices' inputs.
 * SPDX-License-Identifier: MIT
 *
 * The rows of a batch are transposed, so that each column of the input is contiguous; the sum for
 * two columns is then a product that the kernels have for float weights, and threads work on tiles
 * of CAL_STRIP x CAL_STRIP of them.  A tile is one product of whole rows and one addition for each
 * batch: the sums do not depend on the number of threads. */
#include "calibrate/gram.h"

#include "tensor/types.h"

enum { GRAM_LINE = 16 };        /* floats of a line of the cache */

/* ---- one input ---- */

uint32_t qsf_gram_kind(uint32_t kind)
{
    switch (kind) {
    case QSF_K_ATTN_Q: case QSF_K_ATTN_K: case QSF_K_ATTN_V:
    case QSF_K_Q_A: case QSF_K_KV_A:                         return QSF_K_ATTN_Q;
    case QSF_K_ROUTER: case QSF_K_EXPERTS_IN:                return QSF_K_ROUTER;
    case QSF_K_EXPERT_UP: case QSF_K_EXPERT_GATE:            return QSF_K_EXPERT_UP;
    case QSF_K_FFN_UP: case QSF_K_FFN_GATE:                  return QSF_K_FFN_UP;
    case QSF_K_OUTPUT: case QSF_K_TOKEN_EMBD:                return QSF_K_OUTPUT;
    case QSF_K_ATTN_OUT: case QSF_K_FFN_DOWN: case QSF_K_EXPERT_DOWN: case QSF_K_EXPERTS_OUT: return kind;
    }
    return CAL_NO_INPUT;
}

/* The place of the strip with row i; *width: its columns. */
static uint64_t gram_strip(uint32_t cols, uint32_t i, uint32_t *width)
{
    const uint64_t strip = i / CAL_STRIP;
    *width = (uint32_t)QSF_MIN(cols, CAL_STRIP * (strip + 1));
    return (uint64_t)CAL_STRIP * CAL_STRIP * (strip * (strip + 1) / 2);
}

uint64_t qsf_gram_floats(uint32_t cols)
{
    uint32_t width;
    if (!cols) return 0;
    const uint64_t last = gram_strip(cols, cols - 1, &width);
    return last + (uint64_t)((cols - 1) % CAL_STRIP + 1) * width;
}

static float *gram_row(const cal_gram *g, uint32_t i)
{
    uint32_t width;
    const uint64_t at = gram_strip(g->cols, i, &width);
    return g->sums + at + (uint64_t)(i % CAL_STRIP) * width;
}

const float *qsf_gram_row(const cal_gram *g, uint32_t i) { return gram_row(g, i); }

qsf_status qsf_gram_init(const qsf_platform *p, cal_gram *g, qsf_error *err)
{
    g->tokens = g->firsts = 0;
    g->first = NULL;
    if (!(g->sums = qsf_alloc_array(p, qsf_gram_floats(g->cols), sizeof *g->sums, "a Hessian", err)))
        return QSF_E_MEMORY;
    g->first = qsf_alloc_array(p, g->cols, sizeof *g->first, "a Hessian", err);
    return g->first ? QSF_OK : QSF_E_MEMORY;
}

void qsf_gram_done(const qsf_platform *p, cal_gram *g)
{
    qsf_dealloc(p, g->sums, qsf_gram_floats(g->cols) * sizeof *g->sums);
    qsf_dealloc(p, g->first, g->cols * sizeof *g->first);
    g->sums = NULL;
    g->first = NULL;
}

/* ---- memory of a pass ---- */

/* Of a turned column: an odd number of lines, so that columns do not fight for places of the
 * cache. */
static size_t grams_ld(uint32_t n_rows)
{
    return (qsf_ceil_div(n_rows, GRAM_LINE) | 1) * GRAM_LINE;
}

static uint64_t grams_turned(uint32_t n_rows, uint32_t max_cols)
{
    return (uint64_t)grams_ld(n_rows) * max_cols;
}

uint64_t qsf_grams_bytes(uint32_t n_rows, uint32_t max_cols, uint32_t n_threads)
{
    return (grams_turned(n_rows, max_cols) + (uint64_t)n_threads * CAL_STRIP * CAL_STRIP) * sizeof(float);
}

qsf_status qsf_grams_init(cal_grams *k, const qsf_platform *p, uint32_t n_rows, uint32_t max_cols,
                          uint32_t n_threads, qsf_error *err)
{
    *k = (cal_grams){ .platform = p, .n_rows = n_rows, .max_cols = max_cols, .n_threads = n_threads };
    if (!(k->turned = qsf_alloc_array(p, grams_turned(n_rows, max_cols), sizeof(float), "activations", err)))
        return QSF_E_MEMORY;
    k->tiles = qsf_alloc_array(p, n_threads, CAL_STRIP * CAL_STRIP * sizeof(float), "products", err);
    return k->tiles ? QSF_OK : QSF_E_MEMORY;
}

void qsf_grams_done(cal_grams *k)
{
    qsf_dealloc(k->platform, k->turned, grams_turned(k->n_rows, k->max_cols) * sizeof(float));
    qsf_dealloc(k->platform, k->tiles, (uint64_t)k->n_threads * CAL_STRIP * CAL_STRIP * sizeof(float));
    k->turned = k->tiles = NULL;
}

/* ---- rows ---- */

typedef struct gram_job {
    cal_grams         *k;
    cal_gram          *g;
    const qsf_watched *w;
    size_t             ld;              /* of the columns that are turned now */
    uint32_t           n_pieces, n_strips;
} gram_job;

static uint32_t gram_pos(const qsf_watched *w, uint32_t i)
{
    return w->rows[w->row_of ? w->row_of[i] : i].pos;
}

/* A few columns at a time: they read whole lines of the cache. */
static void gram_turn(void *arg, uint32_t thread, uint32_t piece)
{
    const gram_job *job = arg;
    const qsf_watched *w = job->w;
    const qsf_range lines = qsf_range_of(qsf_ceil_div(w->cols, GRAM_LINE), piece, job->n_pieces);
    (void)thread;
    for (size_t c = lines.begin * GRAM_LINE; c < lines.end * GRAM_LINE && c < w->cols; c += GRAM_LINE) {
        const size_t n = QSF_MIN(GRAM_LINE, w->cols - c);
        float *to = job->k->turned + c * job->ld;
        size_t kept = 0;
        for (uint32_t r = 0; r < w->n; r++) {
            const float *x = w->x + r * w->ld + c;
            const uint32_t pos = gram_pos(w, r);
            for (size_t i = 0; pos == 0 && i < n; i++) job->g->first[c + i] += x[i];
            if (pos < CAL_SKIPPED) continue;
            for (size_t i = 0; i < n; i++) to[i * job->ld + kept] = x[i];
            kept++;
        }
        for (size_t i = 0; i < n; i++) memset(to + i * job->ld + kept, 0, (job->ld - kept) * sizeof *to);
    }
}

static void gram_tile(const gram_job *job, uint32_t row, uint32_t col, float *tile)
{
    const uint32_t cols = job->g->cols;
    const uint32_t n = QSF_MIN(CAL_STRIP, cols - row), m = QSF_MIN(CAL_STRIP, cols - col);
    const float *x = job->k->turned;
    job->w->k->matmul_f32(tile, CAL_STRIP, x + col * job->ld, x + row * job->ld, job->ld, n, m, job->ld);
    for (uint32_t i = 0; i < n; i++) {
        float *to = gram_row(job->g, row + i) + col;
        for (uint32_t j = 0; j < m; j++) to[j] += tile[i * CAL_STRIP + j];
    }
}

/* Tiles are counted strip by strip: strip s has s + 1. */
static void gram_multiply(void *arg, uint32_t thread, uint32_t piece)
{
    const gram_job *job = arg;
    const size_t n = (size_t)job->n_strips * (job->n_strips + 1) / 2;
    const qsf_range mine = qsf_range_of(n, piece, job->n_pieces);
    float *tile = job->k->tiles + (size_t)thread * CAL_STRIP * CAL_STRIP;
    size_t at = 0;
    for (uint32_t s = 0; s < job->n_strips && at < mine.end; at += ++s)
        for (size_t i = QSF_MAX(at, mine.begin); i < mine.end && i <= at + s; i++)
            gram_tile(job, s * CAL_STRIP, (uint32_t)(i - at) * CAL_STRIP, tile);
}

static cal_gram *grams_find(const cal_grams *k, const qsf_watched *w)
{
    for (uint32_t i = 0; i < k->n; i++) {
        cal_gram *g = &k->list[i];
        const bool there = w->layer < 0 || g->unit == (uint32_t)w->layer;
        if (there && g->kind == w->kind && g->expert == w->expert) return g;
    }
    return NULL;
}

void qsf_grams_watch(void *user, const qsf_watched *w)
{
    cal_grams *k = user;
    gram_job job = { .k = k, .g = grams_find(k, w), .w = w };
    uint32_t kept = 0;
    if (!job.g) return;
    assert(job.g->cols == w->cols && w->n <= k->n_rows);
    for (uint32_t r = 0; r < w->n; r++) {
        kept += gram_pos(w, r) >= CAL_SKIPPED;
        job.g->firsts += gram_pos(w, r) == 0;
    }
    job.g->tokens += kept;
    job.ld = grams_ld(kept);
    job.n_pieces = (uint32_t)QSF_MIN(qsf_ceil_div(w->cols, GRAM_LINE), QSF_POOL_PIECES);
    qsf_pool_run(w->pool, job.n_pieces, w->cols, gram_turn, &job);
    job.n_strips = (uint32_t)qsf_ceil_div(w->cols, CAL_STRIP);
    job.n_pieces = (uint32_t)QSF_MIN((uint64_t)job.n_strips * (job.n_strips + 1) / 2, QSF_POOL_PIECES);
    if (kept) qsf_pool_run(w->pool, job.n_pieces, w->cols, gram_multiply, &job);
}
