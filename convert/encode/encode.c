/* Encodes bands of rows with a factor: error feedback for types with a grid, and the trellis.
 * SPDX-License-Identifier: MIT
 *
 * Columns are rounded from the first to the last, and the error that each adds to the outputs is
 * compensated in those not yet rounded (Frantar et al. 2022, arXiv:2210.17323).  A block's scale is
 * searched for when its first column is reached, on the weights as corrected so far; the factor's
 * diagonal gives the cost of an error there. */
#include "encode/encode.h"

#include "tensor/table.h"
#include "tensor/trellis.h"

/* ---- memory ---- */

static qsf_status encode_band_new(const qsf_platform *p, uint32_t cols, encode_band *b, qsf_error *err)
{
    const uint64_t n = (uint64_t)cols * ENCODE_ROWS;
    b->cols = cols;
    b->w = qsf_alloc_array(p, n, sizeof *b->w, "a tile of weights", err);
    b->copy = qsf_alloc_array(p, n, sizeof *b->copy, "a tile of weights", err);
    b->scale = qsf_alloc_array(p, n / ENCODE_GROUP, sizeof *b->scale, "a tile's scales", err);
    b->scale_byte = qsf_alloc(p, n / ENCODE_GROUP, "a tile's scales", err);
    b->codes = qsf_alloc(p, n, "a tile's codes", err);
    return b->w && b->copy && b->scale && b->scale_byte && b->codes ? QSF_OK : QSF_E_MEMORY;
}

qsf_status qsf_enc_bands_new(const qsf_platform *p, uint32_t n, uint32_t cols, encode_band **out,
                             qsf_error *err)
{
    qsf_status st = QSF_OK;
    encode_band *bands = *out = qsf_alloc_array(p, n, sizeof *bands, "bands", err);
    if (!bands) return QSF_E_MEMORY;
    for (uint32_t i = 0; !st && i < n; i++)
        st = encode_band_new(p, (uint32_t)qsf_round_up(cols, ENCODE_GROUP), &bands[i], err);
    return st;
}

void qsf_enc_bands_free(const qsf_platform *p, uint32_t n, encode_band *b)
{
    for (uint32_t i = 0; b && i < n; i++) {
        const uint64_t each = (uint64_t)b[i].cols * ENCODE_ROWS;
        qsf_dealloc(p, b[i].w, each * sizeof *b[i].w);
        qsf_dealloc(p, b[i].copy, each * sizeof *b[i].copy);
        qsf_dealloc(p, b[i].scale, each / ENCODE_GROUP * sizeof *b[i].scale);
        qsf_dealloc(p, b[i].scale_byte, each / ENCODE_GROUP);
        qsf_dealloc(p, b[i].codes, each);
    }
    qsf_dealloc(p, b, (uint64_t)n * sizeof *b);
}

uint64_t qsf_enc_band_bytes(uint32_t cols)
{
    return qsf_round_up(cols, ENCODE_GROUP) * ENCODE_ROWS * (2 * sizeof(float) + 2);
}

bool qsf_enc_steps(uint32_t type) { return qsf_trellis_bits(type) > 0; }
bool qsf_enc_can(uint32_t type) { return qsf_enc_steps(type) || qsf_quant_fits(type); }

/* ---- the trellis ---- */

static void encode_levels_of(uint32_t bits, encode_levels *q)
{
    const int8_t *level = qsf_trellis_levels[bits - 2];
    *q = (encode_levels){ .bits = bits, .n = 1u << (bits - 1) };
    q->n_scales = bits <= 3 ? 19 : bits == 4 ? 16 : 12;       /* down to 0.4, 0.5, 0.7 */
    for (uint32_t c = 0; c < 4; c++) {
        q->first[c] = level[c];
        for (uint32_t m = 0; m + 1 < q->n; m++) {
            const float a = level[c + 4 * m], b = level[c + 4 * m + 4];
            q->above[c][m] = (a + b) / 2;
            q->by[c][m] = b - a;
        }
    }
}

static double encode_sum(const double *loss)
{
    double sum = 0;
    for (int r = 0; r < ENCODE_ROWS; r++) sum += loss[r];
    return sum;
}

/* Rows of a tile that b->w holds, to dst, and what their errors cost. */
static double encode_trellis_tile(const encode_rows *k, uint32_t rows, encode_band *b, uint8_t *dst)
{
    const uint32_t bits = qsf_trellis_bits(k->c->type), cols = b->cols, blocks = cols / ENCODE_GROUP;
    encode_levels q;
    encode_levels_of(bits, &q);
    encode_trellis t = { .f = k->f, .q = &q, .w = b->w, .scale = b->scale, .scale_byte = b->scale_byte,
                         .codes = b->codes };
    k->lanes->trellis(&t);
    /* the copy is no longer needed: its memory holds a row's codes and scales */
    uint8_t *codes = (uint8_t *)b->copy, *scale = codes + cols;
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t i = 0; i < cols; i++) codes[k->f->column[i]] = b->codes[(size_t)ENCODE_ROWS * i + r];
        for (uint32_t g = 0; g < blocks; g++) scale[g] = b->scale_byte[(size_t)ENCODE_ROWS * g + r];
        qsf_trellis_put_row(dst, bits, blocks, r, scale, codes);
    }
    return encode_sum(t.loss);
}

/* ---- types with a grid ---- */

/* One subset of all levels of a table. */
static void encode_table_of(uint32_t type, encode_levels *q)
{
    *q = (encode_levels){ .n = 1u << qsf_type_get(type)->bits, .first[0] = (float)qsf_table_level(type, 0) };
    for (uint32_t c = 0; c + 1 < q->n; c++) {
        const float a = (float)qsf_table_level(type, c), b = (float)qsf_table_level(type, c + 1);
        q->above[0][c] = (a + b) / 2;
        q->by[0][c] = b - a;
    }
}

/* The block of columns from `at` on: each row's scale and zero, then columns after columns. */
static void encode_plain_block(const encode_rows *k, uint32_t at, uint32_t rows, encode_band *b,
                               encode_plain *t, uint8_t *dst, uint64_t row_bytes)
{
    const uint32_t block = k->c->block, cols = k->in->tensors[k->tensor].cols, n = QSF_MIN(block, cols - at);
    uint8_t code[ENCODE_ROWS][QSF_MAX_BLOCK];
    qsf_quant_fit fit[ENCODE_ROWS] = { 0 };
    float x[QSF_MAX_BLOCK] = { 0 }, weight[QSF_MAX_BLOCK] = { 0 };
    for (uint32_t i = 0; i < n; i++) weight[i] = k->f->weight[at + i];
    for (uint32_t r = 0; r < ENCODE_ROWS; r++) {
        for (uint32_t i = 0; i < n; i++) x[i] = b->w[(size_t)ENCODE_ROWS * (at + i) + r];
        if (r < rows) fit[r] = qsf_quant_fit_of(k->c->type, x, weight, block, code[r]);
        t->scale[r] = fit[r].scale;
        t->zero[r] = fit[r].zero;
        t->inverse[r] = fit[r].scale != 0 ? 1.0f / fit[r].scale : 0;
    }
    for (t->from = at; t->from < QSF_MIN(at + block, b->cols); t->from += ENCODE_STEP) k->lanes->plain(t);
    for (uint32_t r = 0; r < rows; r++) {
        /* columns after the last one keep the search's codes, as do blocks whose scale is 0 */
        for (uint32_t i = 0; i < n && fit[r].scale != 0; i++)
            code[r][i] = b->codes[(size_t)ENCODE_ROWS * (at + i) + r];
        qsf_quant_put_block(dst + r * row_bytes, k->c->type, &fit[r], code[r], block);
    }
}

static double encode_plain_tile(const encode_rows *k, uint32_t rows, encode_band *b, uint8_t *dst,
                                uint64_t row_bytes)
{
    const uint32_t block = k->c->block, cols = k->in->tensors[k->tensor].cols;
    const uint32_t each = qsf_block_bytes(k->c->type, block);
    const qsf_quant_rule *rule = qsf_quant_rule_of(k->c->type);
    encode_plain t = { .f = k->f, .w = b->w, .codes = b->codes };
    encode_levels table;
    if (rule) t.top = (float)(rule->n_levels - 1);
    else {
        encode_table_of(k->c->type, &table);
        t.table = &table;
    }
    for (uint32_t at = 0; at < cols; at += block, dst += each)
        encode_plain_block(k, at, rows, b, &t, dst, row_bytes);
    return encode_sum(t.loss);
}

/* ---- bands ---- */

static qsf_status encode_check(const input_tensor *t, uint32_t type, const float *w, uint32_t row, uint32_t n,
                               qsf_error *err)
{
    const float most = qsf_quant_most(type);
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t c = 0; c < t->cols; c++, w++)
            if (!(fabsf(*w) <= most))
                return qsf_fail(err, QSF_E_CORRUPT, "tensor %s, row %u: column %u is %s", t->name,
                                (unsigned)(row + r), (unsigned)c,
                                isnan(*w) ? "not a number" : isinf(*w) ? "infinite"
                                : most < 65504 ? "too large for a table" : "too large for fp16");
    return QSF_OK;
}

/* A tile of values[rows][cols] in the factor's order. */
static void encode_take(const encode_factor *f, const float *values, uint32_t rows, uint32_t cols, float *w)
{
    for (uint32_t i = 0; i < f->cols; i++, w += ENCODE_ROWS)
        for (uint32_t r = 0; r < ENCODE_ROWS; r++)
            w[r] = r < rows && f->column[i] < cols ? values[(size_t)r * cols + f->column[i]] : 0;
}

static void encode_compare(const encode_factor *f, const float *values, uint32_t rows, uint32_t cols,
                           const float *w, qsf_quant_error *e)
{
    for (uint32_t i = 0; i < f->cols; i++, w += ENCODE_ROWS)
        for (uint32_t r = 0; r < rows && f->column[i] < cols; r++) {
            const double v = values[(size_t)r * cols + f->column[i]], d = w[r];
            e->sum_sq += v * v;
            e->err_sq += (v - d) * (v - d);
            e->dot += v * d;
            e->deq_sq += d * d;
        }
}

static void encode_tile(const encode_rows *k, const float *values, uint32_t rows, encode_band *own,
                        uint8_t *dst, uint64_t row_bytes, qsf_quant_error *e, encode_loss *loss)
{
    const uint32_t cols = k->in->tensors[k->tensor].cols;
    double energy[ENCODE_ROWS] = { 0 };
    assert(own->cols == k->f->cols);
    encode_take(k->f, values, rows, cols, own->w);
    memcpy(own->copy, own->w, (size_t)k->f->cols * ENCODE_ROWS * sizeof *own->w);
    k->lanes->energy(k->f, own->copy, energy);
    loss->energy += encode_sum(energy);
    loss->error += qsf_enc_steps(k->c->type) ? encode_trellis_tile(k, rows, own, dst)
                                             : encode_plain_tile(k, rows, own, dst, row_bytes);
    encode_compare(k->f, values, rows, cols, own->w, e);
}

qsf_status qsf_enc_rows(const encode_rows *k, uint32_t row, uint32_t n, convert_band *b, encode_band *own,
                        uint8_t *dst, qsf_quant_error *e, encode_loss *loss, qsf_error *err)
{
    const input_tensor *t = &k->in->tensors[k->tensor];
    const bool steps = qsf_enc_steps(k->c->type), packs = k->c->packing && !steps;
    uint64_t row_bytes = 0, tile_bytes = 0;
    qsf_status st = qsf_conv_read(k->in, k->tensor, k->c, row, n, b->values, err);
    if (!st) st = encode_check(t, k->c->type, b->values, row, n, err);
    if (!st && !steps) st = qsf_tensor_bytes(k->c->type, 0, k->c->block, 1, t->cols, &row_bytes, err);
    if (!st && steps)
        st = qsf_tensor_bytes(k->c->type, 1, k->c->block, ENCODE_ROWS, t->cols, &tile_bytes, err);
    if (st) return st;
    uint8_t *blocks = packs ? b->blocks : dst;
    for (uint32_t r = 0; r < n; r += ENCODE_ROWS)
        encode_tile(k, b->values + (size_t)r * t->cols, QSF_MIN(n - r, (uint32_t)ENCODE_ROWS), own,
                    blocks + (steps ? r / ENCODE_ROWS * tile_bytes : r * row_bytes), row_bytes, e, loss);
    if (packs) qsf_conv_pack(t, k->c, n, blocks, dst);
    return QSF_OK;
}
