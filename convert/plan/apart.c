/* A row whose largest weights are kept apart, and lists of such weights.
 * SPDX-License-Identifier: MIT */
#include "plan/apart.h"

#include <math.h>

#define OUTLIER_SIGMAS 3.0

/* ---- lists ---- */

void qsf_conv_found_free(const qsf_platform *p, convert_found *f)
{
    qsf_dealloc(p, f->row, (uint64_t)f->cap * sizeof *f->row);
    qsf_dealloc(p, f->col, (uint64_t)f->cap * sizeof *f->col);
    qsf_dealloc(p, f->delta, (uint64_t)f->cap * sizeof *f->delta);
    memset(f, 0, sizeof *f);
}

/* A list with room for cap, holding what from holds. */
static qsf_status found_new(const qsf_platform *p, const convert_found *from, uint32_t cap, convert_found *to,
                            qsf_error *err)
{
    convert_found f = { .n = from->n, .cap = cap };
    f.row = qsf_alloc_array(p, cap, sizeof *f.row, "outliers", err);
    f.col = qsf_alloc_array(p, cap, sizeof *f.col, "outliers", err);
    f.delta = qsf_alloc_array(p, cap, sizeof *f.delta, "outliers", err);
    if (!f.row || !f.col || !f.delta) {
        qsf_conv_found_free(p, &f);
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

qsf_status qsf_conv_found_copy(const qsf_platform *p, const convert_found *from, convert_found *to,
                               qsf_error *err)
{
    return found_new(p, from, from->n, to, err);
}

static qsf_status found_add(const qsf_platform *p, convert_found *f, uint32_t row, uint32_t col,
                            uint16_t delta, qsf_error *err)
{
    if (f->n == f->cap) {
        convert_found larger;
        const qsf_status st = found_new(p, f, f->cap ? 2 * f->cap : 1024, &larger, err);
        if (st) return st;
        qsf_conv_found_free(p, f);
        *f = larger;
    }
    f->row[f->n] = row;
    f->col[f->n] = col;
    f->delta[f->n++] = delta;
    return QSF_OK;
}

qsf_status qsf_conv_found_join(const qsf_platform *p, const convert_found *f, uint32_t n, uint32_t rows,
                               convert_tensor *c, void **data, qsf_error *err)
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
            /* rows start before their first */
            while (row <= f[i].row[k]) qsf_put32(out + 4 * (uint64_t)row++, (uint32_t)at);
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

qsf_status qsf_conv_row_apart(const qsf_platform *p, const convert_tensor *c, const convert_row *r,
                              uint8_t *dst, convert_found *found, qsf_quant_error *e, qsf_error *err)
{
    float *w = r->w, *weight = r->weight, *back = r->back;
    const uint32_t cols = r->cols;
    const uint32_t first = found->n;
    double mean, limit;
    qsf_status st;
    outlier_limits(w, cols, &mean, &limit);
    for (uint32_t j = 0; j < cols; j++) {
        weight[j] = 1;
        back[j] = w[j];
        if (!(fabs(w[j] - mean) > limit) || !isfinite(w[j]) || fabsf(w[j]) > 65000.0f) continue;
        if ((st = found_add(p, found, r->row, j, 0, err))) return st;
        weight[j] = w[j] = 0;
    }
    if ((st = qsf_quantize_row(c->type, c->block, w, cols, weight, dst, e, err))) return st;
    for (uint32_t k = first; k < found->n; k++) w[found->col[k]] = back[found->col[k]];
    const qsf_tensor t = {
        .type = (uint8_t)c->type, .block = (uint16_t)c->block, .rows = 1, .cols = cols, .data = dst
    };
    qsf_dequant_rows(&t, 0, 1, back);
    for (uint32_t k = first; k < found->n; k++) {
        const uint32_t j = found->col[k];
        const double v = w[j], stored = back[j];
        found->delta[k] = qsf_f32_to_f16((float)(v - stored));
        const double d = stored + qsf_f16_to_f32(found->delta[k]);
        if (!e) continue;                            /* the quantiser counted it as a weight of 0 */
        e->sum_sq += v * v;
        e->err_sq += (v - d) * (v - d) - stored * stored;
        e->dot += v * d;
        e->deq_sq += d * d - stored * stored;
    }
    return QSF_OK;
}

#undef OUTLIER_SIGMAS
