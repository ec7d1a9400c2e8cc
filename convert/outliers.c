/* The few largest weights of a row, kept apart in fp16 so that their blocks need not stretch to them.
 * SPDX-License-Identifier: MIT
 *
 * An outlier lies more than three standard deviations from its row's mean.  The founding document clamps where they are
 * few, keeps them apart up to one in a hundred, and gives the matrix more bits beyond that; whether keeping them pays is
 * measured: it must take clearly more error away for each byte (6 for each outlier, 4 for each row) than any larger form
 * does, because outliers also cost time: they are added one by one. */
#include "budget.h"

#include <math.h>

#define OUTLIER_SIGMAS 3.0
#define OUTLIER_MOST   0.01         /* of the weights */
#define OUTLIER_MARGIN 2.0
enum { OUTLIER_BYTES = 6, OUTLIER_RIVALS = 5 };

/* ---- lists ---- */

void convert_found_free(const qsf_platform *p, convert_found *f)
{
    qsf_dealloc(p, f->row, (uint64_t)f->cap * sizeof *f->row);
    qsf_dealloc(p, f->col, (uint64_t)f->cap * sizeof *f->col);
    qsf_dealloc(p, f->delta, (uint64_t)f->cap * sizeof *f->delta);
    memset(f, 0, sizeof *f);
}

/* A list with room for cap, holding what from holds. */
static qsf_status found_new(const qsf_platform *p, const convert_found *from, uint32_t cap, convert_found *to, qsf_error *err)
{
    convert_found f = { .n = from->n, .cap = cap };
    f.row = qsf_alloc_array(p, cap, sizeof *f.row, "outliers", err);
    f.col = qsf_alloc_array(p, cap, sizeof *f.col, "outliers", err);
    f.delta = qsf_alloc_array(p, cap, sizeof *f.delta, "outliers", err);
    if (!f.row || !f.col || !f.delta) {
        convert_found_free(p, &f);
        return QSF_E_MEMORY;
    }
    if (from->n) {
        memcpy(f.row, from->row, from->n * sizeof *f.row);
        memcpy(f.col, from->col, from->n * sizeof *f.col);
        memcpy(f.delta, from->delta, from->n * sizeof *f.delta);
    }
    *to = f;
    return QSF_OK;
}

qsf_status convert_found_copy(const qsf_platform *p, const convert_found *from, convert_found *to, qsf_error *err)
{
    return found_new(p, from, from->n, to, err);
}

static qsf_status found_add(const qsf_platform *p, convert_found *f, uint32_t row, uint32_t col, uint16_t delta, qsf_error *err)
{
    if (f->n == f->cap) {
        convert_found larger;
        const qsf_status st = found_new(p, f, f->cap ? 2 * f->cap : 1024, &larger, err);
        if (st) return st;
        convert_found_free(p, f);
        *f = larger;
    }
    f->row[f->n] = row;
    f->col[f->n] = col;
    f->delta[f->n++] = delta;
    return QSF_OK;
}

qsf_status convert_found_join(const qsf_platform *p, const convert_found *f, uint32_t n, uint32_t rows, convert_tensor *c, void **data, qsf_error *err)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < n; i++) all += f[i].n;
    if (all == 0) return QSF_OK;
    qsf_status st = qsf_tensor_bytes(QSF_T_SPARSE, 0, 1, rows, (uint32_t)all, &c->outlier_bytes, err);
    uint8_t *out = st ? NULL : qsf_alloc(p, c->outlier_bytes, "outliers", err);
    if (!out) {
        c->outlier_bytes = 0;
        return st ? st : QSF_E_MEMORY;
    }
    uint8_t *cols = out + 4 * ((uint64_t)rows + 1), *deltas = cols + 4 * all;
    uint64_t at = 0;
    uint32_t row = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < f[i].n; k++, at++) {
            while (row <= f[i].row[k]) qsf_put32(out + 4 * (uint64_t)row++, (uint32_t)at);       /* rows start before their first */
            qsf_put32(cols + 4 * at, f[i].col[k]);
            qsf_put16(deltas + 2 * at, f[i].delta[k]);
        }
    while (row <= rows) qsf_put32(out + 4 * (uint64_t)row++, (uint32_t)at);
    c->n_outliers = all;
    *data = out;
    return QSF_OK;
}

/* ---- a row ---- */

/* |w - mean| beyond which a weight is an outlier of its row. */
static void outlier_limits(const float *w, uint32_t cols, double *mean, double *limit)
{
    double sum = 0, squares = 0;
    for (uint32_t j = 0; j < cols; j++) {
        sum += w[j];
        squares += (double)w[j] * w[j];
    }
    *mean = sum / cols;
    *limit = OUTLIER_SIGMAS * sqrt(QSF_MAX(squares / cols - *mean * *mean, 0));
}

qsf_status convert_outlier_row(const qsf_platform *p, const convert_tensor *c, float *w, uint32_t cols, uint32_t row, uint8_t *dst,
                               convert_strip *s, qsf_quant_error *e, qsf_error *err)
{
    const uint32_t first = s->found.n;
    double mean, limit;
    qsf_status st;
    outlier_limits(w, cols, &mean, &limit);
    for (uint32_t j = 0; j < cols; j++) {
        s->weight[j] = c->importance ? c->importance[j] : 1;
        s->back[j] = w[j];
        if (!(fabs(w[j] - mean) > limit) || !isfinite(w[j]) || fabsf(w[j]) > 65000.0f) continue;
        if ((st = found_add(p, &s->found, row, j, 0, err))) return st;
        s->weight[j] = w[j] = 0;
    }
    if ((st = qsf_quantize_row(c->type, c->block, w, cols, s->weight, dst, e, err))) return st;
    for (uint32_t k = first; k < s->found.n; k++) w[s->found.col[k]] = s->back[s->found.col[k]];
    const qsf_tensor t = { .type = (uint8_t)c->type, .block = (uint16_t)c->block, .rows = 1, .cols = cols, .data = dst };
    qsf_dequant_rows(&t, 0, 1, s->back);
    for (uint32_t k = first; k < s->found.n; k++) {
        const uint32_t j = s->found.col[k];
        const double v = w[j], stored = s->back[j];
        s->found.delta[k] = qsf_f32_to_f16((float)(v - stored));
        const double d = stored + qsf_f16_to_f32(s->found.delta[k]);
        if (!e) continue;                            /* the quantiser counted it as a weight of 0 */
        e->sum_sq += v * v;
        e->err_sq += (v - d) * (v - d) - stored * stored;
        e->dot += v * d;
        e->deq_sq += d * d - stored * stored;
    }
    return QSF_OK;
}

/* ---- the decision ---- */

typedef struct outlier_work {
    input                 *in;
    const convert_options *o;
    convert_report        *r;
    convert_strip         *strips;      /* one a thread */
} outlier_work;

/* Only matrices of layers at 4 bits and less: with more, no weight of a block is far from a level. */
static bool outlier_possible(const input *in, uint32_t i, const convert_tensor *c)
{
    const qsf_type_info *info = qsf_type_get(c->type);
    return in->tensors[i].unit < in->hp.n_layers && convert_is_matrix(&in->tensors[i]) && qsf_type_tiles(c->type) && info->bits <= 4;
}

/* The most error that a byte takes away when it goes to a larger form instead. */
static qsf_status outlier_rival(outlier_work *k, uint32_t i, double now, convert_strip *s, double *best, qsf_error *err)
{
    convert_tensor larger = k->r->tensors[i];
    const uint64_t bytes = larger.bytes;
    *best = 0;
    for (int n = 0; n < OUTLIER_RIVALS && convert_raise(&k->in->tensors[i], k->o, &larger); n++) {
        qsf_quant_error e;
        const qsf_status st = convert_measure(k->in, i, &larger, s, &e, NULL, err);
        if (st) return st;
        *best = QSF_MAX(*best, (now - convert_relative_error(&e)) / (double)(larger.bytes - bytes));
    }
    return QSF_OK;
}

static qsf_status outlier_one(void *user, uint32_t i, uint32_t thread, qsf_error *err)
{
    outlier_work *k = user;
    const input_tensor *t = &k->in->tensors[i];
    convert_tensor *c = &k->r->tensors[i], with = *c;
    convert_strip *s = &k->strips[thread];
    qsf_quant_error none, apart;
    double share, rival;
    qsf_status st;
    if (!outlier_possible(k->in, i, c)) return QSF_OK;
    with.keeps_outliers = true;
    if ((st = convert_measure(k->in, i, c, s, &none, NULL, err)) || (st = convert_measure(k->in, i, &with, s, &apart, &share, err))) return st;
    if (share == 0) return QSF_OK;
    if (k->o->outliers == CONVERT_ON) {
        if (share <= OUTLIER_MOST) c->keeps_outliers = true;
        else if (!c->fixed) convert_raise(t, k->o, c);
        return QSF_OK;
    }
    if (share > OUTLIER_MOST) return QSF_OK;
    const double weights = (double)t->rows * t->cols, bytes = share * weights * OUTLIER_BYTES + 4.0 * ((double)t->rows + 1);
    const double before = convert_relative_error(&none), gain = (before - convert_relative_error(&apart)) / bytes;
    if ((st = outlier_rival(k, i, before, s, &rival, err))) return st;
    c->keeps_outliers = gain > OUTLIER_MARGIN * rival;
    return QSF_OK;
}

qsf_status convert_outliers(input *in, const convert_options *o, convert_report *r, qsf_error *err)
{
    outlier_work k = { .in = in, .o = o, .r = r };
    const qsf_platform *p = in->platform;
    const uint32_t n_threads = convert_threads(p, o);
    uint32_t cols = 0, ready = 0;
    qsf_status st = QSF_OK;
    /* A target size has spent its bytes already, where they gain most. */
    if (o->outliers == CONVERT_OFF || (o->target_bytes && o->outliers == CONVERT_AUTO)) return QSF_OK;
    for (uint32_t i = 0; i < in->n_tensors; i++)
        if (outlier_possible(in, i, &r->tensors[i])) cols = QSF_MAX(cols, in->tensors[i].cols);
    if (!cols) return QSF_OK;
    if (!(k.strips = qsf_alloc_array(p, n_threads, sizeof *k.strips, "strips", err))) return QSF_E_MEMORY;
    for (; st == QSF_OK && ready < n_threads; ready++) st = convert_strip_new(p, cols, &k.strips[ready], err);
    if (st == QSF_OK) st = convert_parallel(p, n_threads, in->n_tensors, outlier_one, &k, o->cancelled, err);
    while (ready > 0) convert_strip_free(p, &k.strips[--ready]);
    qsf_dealloc(p, k.strips, (uint64_t)n_threads * sizeof *k.strips);
    return st;
}

#undef OUTLIER_SIGMAS
#undef OUTLIER_MOST
#undef OUTLIER_MARGIN
