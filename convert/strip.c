/* Strips of rows on all threads: reading, scaling, quantising; also on a sample, to measure what a form would cost.
 * SPDX-License-Identifier: MIT */
#include "convert.h"

#include <stdatomic.h>

/* ---- threads ---- */

typedef struct convert_team {
    convert_job         fn;
    void               *user;
    uint32_t            n;
    atomic_uint         next;
    atomic_bool         stop;
    const atomic_int *cancelled;
} convert_team;

typedef struct convert_member {
    convert_team *team;
    uint32_t      thread, failed_at;
    qsf_status    st;
    qsf_error     err;
    qsf_thread   *handle;
} convert_member;

static void convert_work(void *arg)
{
    convert_member *m = arg;
    convert_team *t = m->team;
    for (;;) {
        const uint32_t i = atomic_fetch_add(&t->next, 1);
        if (i >= t->n || atomic_load(&t->stop)) return;
        if (t->cancelled && *t->cancelled) m->st = qsf_fail(&m->err, QSF_E_CANCELLED, "interrupted");
        else m->st = t->fn(t->user, i, m->thread, &m->err);
        if (m->st) {
            m->failed_at = i;
            atomic_store(&t->stop, true);
            return;
        }
    }
}

uint32_t convert_threads(const qsf_platform *p, const convert_options *o)
{
    if (!p->thread_start) return 1;
    const uint32_t n = o->n_threads ? o->n_threads : p->cpu_count ? p->cpu_count(p->user) : 1;
    return QSF_MAX(1, QSF_MIN(n, CONVERT_MAX_THREADS));
}

qsf_status convert_parallel(const qsf_platform *p, uint32_t n_threads, uint32_t n, convert_job fn, void *user,
                            const atomic_int *cancelled, qsf_error *err)
{
    convert_team team = { .fn = fn, .user = user, .n = n, .cancelled = cancelled };
    n_threads = QSF_MAX(1, QSF_MIN(n_threads, n));
    convert_member *m = qsf_alloc_array(p, n_threads, sizeof *m, "threads", err);
    if (!m) return QSF_E_MEMORY;
    uint32_t started = 1;
    for (; started < n_threads; started++) {
        m[started] = (convert_member){ .team = &team, .thread = started };
        if (p->thread_start(p->user, convert_work, &m[started], &m[started].handle)) break;    /* fewer do the work as well */
    }
    m[0].team = &team;
    convert_work(&m[0]);
    const convert_member *first = NULL;
    for (uint32_t i = 0; i < started; i++) {
        if (i) p->thread_join(p->user, m[i].handle);
        if (m[i].st && (!first || m[i].failed_at < first->failed_at)) first = &m[i];
    }
    const qsf_status st = first ? first->st : QSF_OK;
    if (first && err) *err = first->err;
    qsf_dealloc(p, m, (uint64_t)n_threads * sizeof *m);
    return st;
}

/* ---- strips ---- */

/* About 64 Ki weights: enough to hide the hand-over, little enough to stay in the cache. */
uint32_t convert_strip_rows(uint32_t cols)
{
    const uint32_t n = 65536 / QSF_MAX(cols, 1) / QSF_TILE_ROWS * QSF_TILE_ROWS;
    return QSF_MAX(n, QSF_TILE_ROWS);
}

qsf_status convert_strip_new(const qsf_platform *p, uint32_t cols, convert_strip *s, qsf_error *err)
{
    memset(s, 0, sizeof *s);
    s->rows = convert_strip_rows(cols);
    s->values_bytes = (uint64_t)s->rows * cols * sizeof(float);
    /* No type takes more than 32 bits a weight, and padding to a block adds less than 256 columns. */
    s->blocks_bytes = (uint64_t)s->rows * ((uint64_t)cols + QSF_MAX_BLOCK) * sizeof(float);
    s->row_bytes = (uint64_t)cols * sizeof(float);
    s->values = qsf_alloc(p, s->values_bytes, "a strip of weights", err);
    s->blocks = qsf_alloc(p, s->blocks_bytes, "a strip of blocks", err);
    s->weight = qsf_alloc(p, s->row_bytes, "a row of weights", err);
    s->back = qsf_alloc(p, s->row_bytes, "a row of weights", err);
    if (s->values && s->blocks && s->weight && s->back) return QSF_OK;
    convert_strip_free(p, s);
    return QSF_E_MEMORY;
}

void convert_strip_free(const qsf_platform *p, convert_strip *s)
{
    qsf_dealloc(p, s->values, s->values_bytes);
    qsf_dealloc(p, s->blocks, s->blocks_bytes);
    qsf_dealloc(p, s->weight, s->row_bytes);
    qsf_dealloc(p, s->back, s->row_bytes);
    convert_found_free(p, &s->found);
    memset(s, 0, sizeof *s);
}

static qsf_status convert_row_failed(const input_tensor *t, uint32_t row, qsf_status st, const qsf_error *why, qsf_error *err)
{
    return qsf_fail(err, st, "tensor %s, row %u: %s", t->name, (unsigned)row, why->text);
}

static void convert_scale(const convert_tensor *c, uint32_t row, uint32_t n, uint32_t cols, float *w)
{
    for (uint32_t r = 0; r < n; r++, w += cols) {
        if (c->row_scale)
            for (uint32_t j = 0; j < cols; j++) w[j] *= c->row_scale[row + r];
        if (c->col_scale)
            for (uint32_t j = 0; j < cols; j++) w[j] *= c->col_scale[j];
    }
}

/* A row less its cluster's centroid.  What is lost is told of the whole row. */
static qsf_status convert_residual_row(const convert_tensor *c, float *w, uint32_t cols, uint32_t row, uint8_t *dst, convert_strip *s, qsf_quant_error *e, qsf_error *err)
{
    float *mean = s->weight;
    qsf_dequant_rows(&c->clusters->centroids, c->clusters->of[row], 1, mean);
    for (uint32_t j = 0; j < cols; j++) w[j] -= mean[j];
    const qsf_status st = qsf_quantize_row(c->type, c->block, w, cols, c->importance, dst, e, err);
    if (st || !e) return st;
    const qsf_tensor t = { .type = (uint8_t)c->type, .block = (uint16_t)c->block, .rows = 1, .cols = cols, .data = dst };
    qsf_dequant_rows(&t, 0, 1, s->back);
    for (uint32_t j = 0; j < cols; j++) {           /* the quantiser counted w[j] and back[j] */
        const double m = mean[j], v = w[j], d = s->back[j];
        e->sum_sq += m * (m + 2 * v);
        e->dot += m * (m + v + d);
        e->deq_sq += m * (m + 2 * d);
    }
    return QSF_OK;
}

qsf_status convert_rows(input *in, uint32_t i, const convert_tensor *c, uint32_t row, uint32_t n, convert_strip *s,
                        uint8_t *dst, qsf_quant_error *e, qsf_error *err)
{
    const input_tensor *t = &in->tensors[i];
    uint64_t row_bytes;
    qsf_error why;
    qsf_status st;
    if ((st = in->read(in, i, row, n, s->values, err))) return st;
    if ((st = qsf_tensor_bytes(c->type, 0, c->block, 1, t->cols, &row_bytes, err))) return st;
    convert_scale(c, row, n, t->cols, s->values);
    uint8_t *blocks = c->packing || !dst ? s->blocks : dst;
    s->found.n = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (c->keeps_outliers) st = convert_outlier_row(in->platform, c, s->values + (size_t)k * t->cols, t->cols, row + k, blocks + k * row_bytes, s, e, &why);
        else if (c->clusters) st = convert_residual_row(c, s->values + (size_t)k * t->cols, t->cols, row + k, blocks + k * row_bytes, s, e, &why);
        else st = qsf_quantize_row(c->type, c->block, s->values + (size_t)k * t->cols, t->cols, c->importance, blocks + k * row_bytes, e, &why);
        if (st) return convert_row_failed(t, row + k, st, &why, err);
    }
    if (c->packing && dst) {
        const qsf_tensor plain = { .kind = t->kind, .type = (uint8_t)c->type, .packing = 0, .block = (uint16_t)c->block,
                                   .rows = n, .cols = t->cols, .bytes = n * row_bytes, .data = blocks };
        qsf_pack_tiles(&plain, dst);
    }
    return QSF_OK;
}

/* ---- measuring ---- */

enum { CONVERT_SAMPLES = 6 };

qsf_status convert_measure(input *in, uint32_t i, const convert_tensor *c, convert_strip *s, qsf_quant_error *e, double *outliers, qsf_error *err)
{
    const input_tensor *t = &in->tensors[i];
    const uint32_t n = QSF_MIN(QSF_TILE_ROWS, t->rows), places = QSF_MIN(CONVERT_SAMPLES, (uint32_t)qsf_ceil_div(t->rows, n));
    convert_tensor plain = *c;
    uint64_t found = 0;
    plain.packing = 0;
    memset(e, 0, sizeof *e);
    for (uint32_t p = 0; p < places; p++) {
        const uint32_t row = (uint32_t)((uint64_t)p * (t->rows - n) / QSF_MAX(places - 1, 1));
        const qsf_status st = convert_rows(in, i, &plain, row, n, s, NULL, e, err);
        if (st) return st;
        found += s->found.n;
    }
    if (outliers) *outliers = (double)found / ((double)places * n * t->cols);
    return QSF_OK;
}
