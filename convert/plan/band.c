/* Bands of rows: reading, scaling, quantising; also on a sample, to measure what a form would cost.
 * SPDX-License-Identifier: MIT */
#include "plan/band.h"
#include "plan/ternary.h"
#include "tensor/trellis.h"

/* About 64 Ki weights: enough to hide the hand-over, little enough to stay in the cache. */
uint32_t qsf_conv_band_rows(uint32_t cols)
{
    const uint32_t n = 65536 / QSF_MAX(cols, 1) / QSF_TILE_ROWS * QSF_TILE_ROWS;
    return QSF_MAX(n, QSF_TILE_ROWS);
}

static qsf_status band_new(const qsf_platform *p, uint32_t cols, convert_band *b, qsf_error *err)
{
    b->rows = qsf_conv_band_rows(cols);
    b->values_bytes = (uint64_t)b->rows * cols * sizeof(float);
    /* No type takes more than 32 bits a weight, and padding to
     * a block adds less than 256 columns. */
    b->blocks_bytes = (uint64_t)b->rows * ((uint64_t)cols + QSF_MAX_BLOCK) * sizeof(float);
    b->row_bytes = (uint64_t)cols * sizeof(float);
    b->values = qsf_alloc(p, b->values_bytes, "a band of weights", err);
    b->blocks = qsf_alloc(p, b->blocks_bytes, "a band of blocks", err);
    b->weight = qsf_alloc(p, b->row_bytes, "a row of weights", err);
    b->back = qsf_alloc(p, b->row_bytes, "a row of weights", err);
    return b->values && b->blocks && b->weight && b->back ? QSF_OK : QSF_E_MEMORY;
}

qsf_status qsf_conv_bands_new(const qsf_platform *p, uint32_t n, uint32_t cols, convert_band **out,
                              qsf_error *err)
{
    qsf_status st = QSF_OK;
    convert_band *bands = *out = qsf_alloc_array(p, n, sizeof *bands, "bands", err);
    if (!bands) return QSF_E_MEMORY;
    for (uint32_t i = 0; !st && i < n; i++) st = band_new(p, cols, &bands[i], err);
    return st;
}

static void band_free(const qsf_platform *p, convert_band *b)
{
    qsf_dealloc(p, b->values, b->values_bytes);
    qsf_dealloc(p, b->blocks, b->blocks_bytes);
    qsf_dealloc(p, b->weight, b->row_bytes);
    qsf_dealloc(p, b->back, b->row_bytes);
    qsf_conv_found_free(p, &b->found);
}

void qsf_conv_bands_free(const qsf_platform *p, uint32_t n, convert_band *b)
{
    if (!b) return;
    for (uint32_t i = 0; i < n; i++) band_free(p, &b[i]);
    qsf_dealloc(p, b, (uint64_t)n * sizeof *b);
}

static qsf_status band_row_failed(const input_tensor *t, uint32_t row, qsf_status st, const qsf_error *why,
                                  qsf_error *err)
{
    return qsf_fail(err, st, "tensor %s, row %u: %s", t->name, (unsigned)row, why->text);
}

static void band_scale(const convert_tensor *c, uint32_t row, uint32_t n, uint32_t cols, float *w)
{
    for (uint32_t r = 0; r < n; r++, w += cols) {
        if (c->row_scale)
            for (uint32_t j = 0; j < cols; j++) w[j] *= c->row_scale[row + r];
        if (c->col_scale)
            for (uint32_t j = 0; j < cols; j++) w[j] *= c->col_scale[j];
        for (uint32_t j = 0; c->scale != 0 && j < cols; j++) w[j] /= c->scale;
    }
}

/* A row less its cluster's centroid.  The loss is reported for the whole row. */
static qsf_status band_residual_row(const convert_tensor *c, const convert_row *r, uint8_t *dst,
                                    qsf_quant_error *e, qsf_error *err)
{
    float *w = r->w, *mean = r->weight, *back = r->back;
    const uint32_t row = r->row, cols = r->cols;
    qsf_dequant_rows(&c->clusters->centroids, c->clusters->of[row], 1, mean);
    for (uint32_t j = 0; j < cols; j++) w[j] -= mean[j];
    const qsf_status st = qsf_quantize_row(c->type, c->block, w, cols, NULL, dst, e, err);
    if (st || !e) return st;
    const qsf_tensor t = {
        .type = (uint8_t)c->type, .block = (uint16_t)c->block, .rows = 1, .cols = cols, .data = dst
    };
    qsf_dequant_rows(&t, 0, 1, back);
    for (uint32_t j = 0; j < cols; j++) {           /* the quantiser counted w[j] and back[j] */
        const double m = mean[j], v = w[j], d = back[j];
        e->sum_sq += m * (m + 2 * v);
        e->dot += m * (m + v + d);
        e->deq_sq += m * (m + 2 * d);
    }
    return QSF_OK;
}

qsf_status qsf_conv_read(input *in, uint32_t i, const convert_tensor *c, uint32_t row, uint32_t n, float *w,
                         qsf_error *err)
{
    const qsf_status st = in->read(in, i, row, n, w, err);
    if (!st) band_scale(c, row, n, in->tensors[i].cols, w);
    return st;
}

void qsf_conv_pack(const input_tensor *t, const convert_tensor *c, uint32_t n, const uint8_t *blocks,
                   uint8_t *dst)
{
    const qsf_tensor plain = { .kind = t->kind,
                               .type = (uint8_t)c->type,
                               .packing = 0,
                               .block = (uint16_t)c->block,
                               .rows = n,
                               .cols = t->cols,
                               .data = blocks };
    qsf_pack_tiles(&plain, dst);
}

/* Rows of a trellis to tiles, where dst is not NULL.  The band's blocks are their scales and codes;
 * their values take the places of those that were read. */
static qsf_status band_trellis(const input_tensor *t, const convert_tensor *c, uint32_t row, uint32_t n,
                               convert_band *b, uint8_t *dst, qsf_quant_error *e, qsf_error *err)
{
    const unsigned k = qsf_trellis_bits(c->type);
    const uint32_t cols = t->cols, blocks = (uint32_t)qsf_ceil_div(cols, QSF_TRELLIS_BLOCK);
    const size_t row_bytes = (size_t)blocks * qsf_block_bytes(c->type, QSF_TRELLIS_BLOCK) * QSF_TILE_ROWS;
    uint8_t *scale = b->blocks, *codes = scale + blocks;
    uint64_t bytes;
    const qsf_status st = qsf_tensor_bytes(c->type, 1, c->block, n, cols, &bytes, err);
    if (st) return st;
    if (dst) memset(dst, 0, (size_t)bytes);
    for (uint32_t r = 0; r < n; r++) {
        const float *w = b->values + (size_t)r * cols;
        uint32_t last = 0;
        if (!qsf_all_finite(w, cols))
            return qsf_fail(err, QSF_E_CORRUPT, "tensor %s, row %u: a weight is not finite", t->name,
                            (unsigned)(row + r));
        qsf_trellis_quantize_row(k, w, cols, NULL, scale, codes);
        if (dst) qsf_trellis_put_row(dst + r / QSF_TILE_ROWS * row_bytes, k, blocks, r % QSF_TILE_ROWS, scale,
                                     codes);
        for (uint32_t at = 0; e && at < cols; at++) {
            float back[QSF_TRELLIS_BLOCK];
            if (at % QSF_TRELLIS_BLOCK == 0)
                qsf_trellis_values(k, scale[at / QSF_TRELLIS_BLOCK], codes + at, &last, back);
            const double v = w[at], d = back[at % QSF_TRELLIS_BLOCK];
            e->sum_sq += v * v;
            e->err_sq += (v - d) * (v - d);
            e->dot += v * d;
            e->deq_sq += d * d;
        }
    }
    return QSF_OK;
}

qsf_status qsf_conv_rows(input *in, uint32_t i, const convert_tensor *c, uint32_t row, uint32_t n,
                         convert_band *b, uint8_t *dst, qsf_quant_error *e, qsf_error *err)
{
    const input_tensor *t = &in->tensors[i];
    uint64_t row_bytes;
    qsf_error why;
    qsf_status st;
    if ((st = qsf_conv_read(in, i, c, row, n, b->values, err))) return st;
    b->found.n = 0;
    if (qsf_trellis_bits(c->type)) return band_trellis(t, c, row, n, b, dst, e, err);
    if ((st = qsf_tensor_bytes(c->type, 0, c->block, 1, t->cols, &row_bytes, err))) return st;
    uint8_t *blocks = c->packing || !dst ? b->blocks : dst;
    for (uint32_t k = 0; k < n; k++) {
        const convert_row r = { b->values + (size_t)k * t->cols, b->weight, b->back, row + k, t->cols };
        uint8_t *to = blocks + k * row_bytes;
        if (c->scale != 0) st = qsf_conv_ternary_row(c->type, r.w, t->cols, to, e, &why);
        else if (c->keeps_outliers) st = qsf_conv_row_apart(in->platform, c, &r, to, &b->found, e, &why);
        else if (c->clusters) st = band_residual_row(c, &r, to, e, &why);
        else st = qsf_quantize_row(c->type, c->block, r.w, t->cols, c->importance, to, e, &why);
        if (st) return band_row_failed(t, row + k, st, &why, err);
    }
    if (c->packing && dst) qsf_conv_pack(t, c, n, blocks, dst);
    return QSF_OK;
}

/* ---- measuring ---- */

enum { BAND_SAMPLES = 6 };

qsf_status qsf_conv_measure(input *in, uint32_t i, const convert_tensor *c, convert_band *b,
                            qsf_quant_error *e, double *outliers, qsf_error *err)
{
    const input_tensor *t = &in->tensors[i];
    const uint32_t n = QSF_MIN(QSF_TILE_ROWS, t->rows),
                   places = QSF_MIN(BAND_SAMPLES, (uint32_t)qsf_ceil_div(t->rows, n));
    convert_tensor plain = *c;
    uint64_t found = 0;
    plain.packing = 0;
    memset(e, 0, sizeof *e);
    for (uint32_t p = 0; p < places; p++) {
        const uint32_t row = (uint32_t)((uint64_t)p * (t->rows - n) / QSF_MAX(places - 1, 1));
        const qsf_status st = qsf_conv_rows(in, i, &plain, row, n, b, NULL, e, err);
        if (st) return st;
        found += b->found.n;
    }
    if (outliers) *outliers = (double)found / ((double)places * n * t->cols);
    return QSF_OK;
}
