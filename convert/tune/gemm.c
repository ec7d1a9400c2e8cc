/* Products of matrices of floats, on all threads.
 * SPDX-License-Identifier: MIT
 *
 * Both sides are copied to panels, of 8 rows and of 32 columns, a stretch of their common side at a
 * time; a panel of the right side stays in a thread's cache while all of the left one goes by.
 * Sums go along the common side: they are the same for any number of threads. */
#include "tune/gemm.h"

enum { GEMM_K = 512, GEMM_M = 4096 };       /* of the common side, and rows, at a time */

/* ---- panels ---- */

static void gemm_pack(float *to, tune_view v, size_t first, size_t n, size_t width, size_t k0, size_t k)
{
    const float *from = v.p + first * v.row + k0 * v.col;
    for (size_t j = 0; j < k; j++, to += width) {
        for (size_t i = 0; i < n; i++) to[i] = from[i * v.row + j * v.col];
        for (size_t i = n; i < width; i++) to[i] = 0;
    }
}

static tune_view gemm_turned(tune_view v) { return (tune_view){ v.p, v.col, v.row }; }

/* One panel of columns, n <= 32 of them, with all rows. */
static void gemm_column(const tune_lanes *l, float *c, size_t ldc, const float *a, const float *b, size_t m,
                        size_t n, size_t k, bool add)
{
    float edge[TUNE_M * TUNE_N];
    for (size_t i = 0; i < m; i += TUNE_M, a += TUNE_M * k, c += TUNE_M * ldc) {
        if (n == TUNE_N && i + TUNE_M <= m) {
            l->product(c, ldc, a, b, k, add);
            continue;
        }
        l->product(edge, TUNE_N, a, b, k, false);
        for (size_t r = 0; r < TUNE_M && i + r < m; r++)
            for (size_t j = 0; j < n; j++)
                c[r * ldc + j] = edge[r * TUNE_N + j] + (add ? c[r * ldc + j] : 0);
    }
}

/* ---- one thread ---- */

size_t qsf_tune_scratch(size_t m, size_t n, size_t k)
{
    return (qsf_round_up(m, TUNE_M) + qsf_round_up(n, TUNE_N)) * QSF_MIN(k, GEMM_K);
}

void qsf_tune_product_own(const tune_lanes *l, float *c, size_t ldc, tune_view a, tune_view b, size_t m,
                          size_t n, size_t k, bool add, float *scratch)
{
    float *pb = scratch + qsf_round_up(m, TUNE_M) * QSF_MIN(k, GEMM_K);
    for (size_t k0 = 0; k0 < k; k0 += GEMM_K, add = true) {
        const size_t some = QSF_MIN(GEMM_K, k - k0);
        for (size_t i = 0; i < m; i += TUNE_M)
            gemm_pack(scratch + i * some, a, i, QSF_MIN(TUNE_M, m - i), TUNE_M, k0, some);
        for (size_t j = 0; j < n; j += TUNE_N) {
            const size_t width = QSF_MIN(TUNE_N, n - j);
            gemm_pack(pb, gemm_turned(b), j, width, TUNE_N, k0, some);
            gemm_column(l, c + j, ldc, scratch, pb, m, width, some, add);
        }
    }
}

/* ---- all threads ---- */

typedef struct team_job {
    tune_rows_fn *fn;
    void         *arg;
    size_t        n;
    uint32_t      pieces;
} team_job;

static void team_piece(void *arg, uint32_t thread, uint32_t piece)
{
    const team_job *j = arg;
    const qsf_range r = qsf_range_of(j->n, piece, j->pieces);
    if (r.begin < r.end) j->fn(j->arg, thread, r.begin, r.end);
}

void qsf_tune_rows(tune_team *t, size_t n, tune_rows_fn *fn, void *arg)
{
    team_job j = { fn, arg, n, (uint32_t)QSF_MIN(n, (size_t)t->n_threads * 8) };
    if (n) qsf_pool_run(t->pool, j.pieces, 0, team_piece, &j);
}

typedef struct gemm_job {
    tune_team *t;
    float     *c;
    tune_view  a, b;
    size_t     ldc, m, n, k0, k;
    bool       add;
} gemm_job;

static void gemm_pack_a(void *arg, uint32_t thread, size_t begin, size_t end)
{
    const gemm_job *j = arg;
    (void)thread;
    for (size_t i = begin; i < end; i++)
        gemm_pack(j->t->a + i * TUNE_M * j->k, j->a, i * TUNE_M, QSF_MIN(TUNE_M, j->m - i * TUNE_M), TUNE_M,
                  j->k0, j->k);
}

static void gemm_columns(void *arg, uint32_t thread, size_t begin, size_t end)
{
    const gemm_job *j = arg;
    float *b = j->t->b + (size_t)thread * TUNE_N * GEMM_K;
    for (size_t i = begin; i < end; i++) {
        const size_t width = QSF_MIN(TUNE_N, j->n - i * TUNE_N);
        gemm_pack(b, gemm_turned(j->b), i * TUNE_N, width, TUNE_N, j->k0, j->k);
        gemm_column(j->t->lanes, j->c + i * TUNE_N, j->ldc, j->t->a, b, j->m, width, j->k, j->add);
    }
}

void qsf_tune_product(tune_team *t, float *c, size_t ldc, tune_view a, tune_view b, size_t m, size_t n,
                      size_t k, bool add)
{
    for (size_t i = 0; i < m; i += GEMM_M) {
        gemm_job j = { .t = t, .c = c + i * ldc, .a = a, .b = b, .ldc = ldc, .n = n, .add = add };
        j.a.p += i * a.row;
        j.m = QSF_MIN(GEMM_M, m - i);
        for (; j.k0 < k; j.k0 += GEMM_K, j.add = true) {
            j.k = QSF_MIN(GEMM_K, k - j.k0);
            qsf_tune_rows(t, (size_t)qsf_ceil_div(j.m, TUNE_M), gemm_pack_a, &j);
            qsf_tune_rows(t, (size_t)qsf_ceil_div(n, TUNE_N), gemm_columns, &j);
        }
    }
}

/* ---- a team ---- */

qsf_status qsf_tune_team_new(tune_team *t, const qsf_platform *p, uint32_t n_threads, size_t own,
                             qsf_error *err)
{
    *t = (tune_team){ .platform = p, .n_threads = n_threads, .cap_own = own };
    t->lanes = qsf_tune_lanes(p->cpu_features ? p->cpu_features(p->user) : 0);
    t->cap_a = (size_t)GEMM_M * GEMM_K;
    t->cap_b = (size_t)n_threads * TUNE_N * GEMM_K;
    t->a = qsf_alloc_array(p, t->cap_a, sizeof *t->a, "products", err);
    t->b = t->a ? qsf_alloc_array(p, t->cap_b, sizeof *t->b, "products", err) : NULL;
    t->own = t->b ? qsf_alloc_array(p, n_threads * own, sizeof *t->own, "products", err) : NULL;
    return t->own ? qsf_pool_new(p, n_threads, &t->pool, err) : QSF_E_MEMORY;
}

void qsf_tune_team_done(tune_team *t)
{
    const qsf_platform *p = t->platform;
    if (!p) return;
    qsf_pool_free(t->pool);
    qsf_dealloc(p, t->own, t->n_threads * t->cap_own * sizeof *t->own);
    qsf_dealloc(p, t->b, t->cap_b * sizeof *t->b);
    qsf_dealloc(p, t->a, t->cap_a * sizeof *t->a);
    *t = (tune_team){ 0 };
}
