/* Reads rows of floats from the weight files of a Hugging Face directory, in any of their layouts.
 * SPDX-License-Identifier: MIT */
#include "read/hf_rows.h"

/* ---- plain values ---- */

/* Half floats in the second half of out's bytes are widened to floats from the front: value i is
 * written at 4i, and the unread ones begin at 2n + 2(i + 1), which is never below 4i + 4. */
static void weights_widen(float *out, size_t n, uint8_t type)
{
    const uint8_t *src = (const uint8_t *)out + 2 * n;
    for (size_t i = 0; i < n; i++) {
        const uint16_t h = qsf_le16(src + 2 * i);
        out[i] = type == QSF_T_BF16 ? qsf_bf16_to_f32(h) : qsf_f16_to_f32(h);
    }
}

static float weights_value(const uint8_t *src, uint8_t type)
{
    if (type == QSF_T_F32) return qsf_lef32(src);
    return type == QSF_T_BF16 ? qsf_bf16_to_f32(qsf_le16(src)) : qsf_f16_to_f32(qsf_le16(src));
}

/* Reads bytes [at, at + len) of a tensor. */
static qsf_status weights_read_bytes(const qsf_platform *p, const hf_weights *w, const weights_tensor *t,
                                     uint64_t at, void *dst, uint64_t len, qsf_error *err)
{
    const weights_file *f = &w->files[t->file];
    return qsf_read_all(p, f->file, f->path, t->at + at, dst, (size_t)len, err);
}

static qsf_status weights_read_dense(const qsf_platform *p, const hf_weights *w, const weights_tensor *t,
                                     uint64_t first, size_t n, float *out, qsf_error *err)
{
    const size_t size = t->type == QSF_T_F32 ? 4 : 2;
    uint8_t *dst = (uint8_t *)out + (4 - size) * n;
    const qsf_status st = weights_read_bytes(p, w, t, first * size, dst, n * size, err);
    if (st) return st;
    if (size == 2) weights_widen(out, n, t->type);
    else for (size_t i = 0; i < n; i++) out[i] = qsf_lef32((const uint8_t *)out + 4 * i);
    return QSF_OK;
}

/* Columns are col_step values apart: the wanted rows are a span of each stored line.  Many lines
 * are read at a time if the span is a large part of them, otherwise span by span. */
static qsf_status weights_read_turned(const qsf_platform *p, const hf_weights *w, const hf_place *pl,
                                      const weights_tensor *t, uint64_t first, uint32_t n, uint32_t cols,
                                      float *out, qsf_error *err)
{
    const uint64_t size = t->type == QSF_T_F32 ? 4 : 2, line = pl->col_step * size;
    const uint64_t span = ((n - 1) * pl->row_step + 1) * size;
    const uint64_t room = QSF_MAX((uint64_t)1 << 20, span);
    const uint32_t most = span * 8 < line ? 1 : (uint32_t)QSF_MIN((uint64_t)cols, (room - span) / line + 1);
    uint8_t *buf = qsf_alloc(p, (most - 1) * line + span, "rows of a transposed tensor", err);
    qsf_status st = QSF_OK;
    if (!buf) return QSF_E_MEMORY;
    for (uint32_t c = 0; c < cols && !st; ) {
        const uint32_t k = QSF_MIN(most, cols - c);
        st = weights_read_bytes(p, w, t, first * size + c * line, buf, (k - 1) * line + span, err);
        for (uint32_t j = 0; j < k && !st; j++)
            for (uint32_t r = 0; r < n; r++)
                out[(size_t)r * cols + c + j] = weights_value(buf + j * line + r * pl->row_step * size,
                                                              t->type);
        c += k;
    }
    qsf_dealloc(p, buf, (most - 1) * line + span);
    return st;
}

/* ---- MXFP4 ---- */

enum { MXFP4_BLOCK = 32, MXFP4_BIAS = 127, MXFP4_MOST = 252 };   /* 6 * 2^125 is the largest that is finite */

/* n values from `first` on: a byte has two of them, the first below; 32 share a power of two. */
static qsf_status weights_read_mxfp4(const qsf_platform *p, const hf_weights *w, const hf_place *pl,
                                     uint64_t first, size_t n, float *out, qsf_error *err)
{
    static const float halves[8] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
    const weights_tensor *t = pl->t, *s = pl->scales;
    const size_t bytes = n / 2 + n / MXFP4_BLOCK;
    uint8_t *codes = qsf_alloc(p, bytes, "MXFP4 blocks", err), *powers = codes + n / 2;
    qsf_status st;
    if (!codes) return QSF_E_MEMORY;
    if (!(st = weights_read_bytes(p, w, t, first / 2, codes, n / 2, err)))
        st = weights_read_bytes(p, w, s, first / MXFP4_BLOCK, powers, n / MXFP4_BLOCK, err);
    for (size_t i = 0; i < n && !st; i++) {
        const unsigned code = codes[i / 2] >> (i % 2 ? 4 : 0) & 15, power = powers[i / MXFP4_BLOCK];
        if (power > MXFP4_MOST)
            st = qsf_fail(err, QSF_E_CORRUPT, "tensor %s: block %llu has the scale 2^%d, beyond which values "
                          "are not finite", s->name, (unsigned long long)((first + i) / MXFP4_BLOCK),
                          (int)power - MXFP4_BIAS);
        else out[i] = ldexpf(code & 8 ? -halves[code & 7] : halves[code & 7], (int)power - MXFP4_BIAS);
    }
    qsf_dealloc(p, codes, bytes);
    return st;
}

/* ---- heads that share a key ---- */

/* The place of row or column i in a file in which heads of one key are adjacent, while ours are
 * ordered: the first head of every key, then the second one. */
static uint32_t weights_head_place(const hf_heads *h, uint32_t i)
{
    if (!h->each || i < h->first) return i;
    const uint32_t head = (i - h->first) / h->size, in = (i - h->first) % h->size;
    return h->first + (head % h->keys * h->each + head / h->keys) * h->size + in;
}

/* Likewise of sets. */
static uint32_t weights_set_place(const hf_sets *s, uint32_t i)
{
    const uint32_t half = s->first / 2, in = i < half ? i : i - half, j = i - s->first;
    if (!s->all) return i;
    if (i < s->first) return in / s->key * s->all + (i < half ? 0 : s->key) + in % s->key;
    return j / s->values * s->all + s->at + j % s->values;
}

static qsf_status weights_order_columns(const qsf_platform *p, const hf_heads *h, uint32_t n, uint32_t cols,
                                        float *out, qsf_error *err)
{
    float *row = qsf_alloc_array(p, cols, sizeof *row, "a row", err);
    if (!row) return QSF_E_MEMORY;
    for (uint32_t r = 0; r < n; r++, out += cols) {
        memcpy(row, out, cols * sizeof *row);
        for (uint32_t c = h->first; c < cols; c++) out[c] = row[weights_head_place(h, c)];
    }
    qsf_dealloc(p, row, (uint64_t)cols * sizeof *row);
    return QSF_OK;
}

static void weights_exchange(uint32_t n, uint32_t cols, float *out)
{
    const uint32_t half = cols / 2;
    for (uint32_t r = 0; r < n; r++, out += cols)
        for (uint32_t c = 0; c < half; c++) {
            const float first = out[c];
            out[c] = out[c + half];
            out[c + half] = first;
        }
}

/* ---- ternary matrices ---- */

/* Row r of four groups of rows is in bits 2g, 2g + 1 of stored row r % (rows / 4), g = r / (rows /
 * 4); codes 0, 1, 2 are -1, 0, 1. */
static qsf_status weights_read_packed(const qsf_platform *p, const hf_weights *w, const hf_place *pl,
                                      uint32_t row, uint32_t n, uint32_t cols, float *out, qsf_error *err)
{
    const weights_tensor *t = pl->t;
    const uint32_t stored = pl->rows / 4;
    uint8_t *line = qsf_alloc(p, cols, "a row of ternary codes", err);
    qsf_status st = line ? QSF_OK : QSF_E_MEMORY;
    for (uint32_t r = row; r < row + n && !st; r++, out += cols) {
        st = weights_read_bytes(p, w, t, (uint64_t)(r % stored) * cols, line, cols, err);
        for (uint32_t c = 0; c < cols && !st; c++) {
            const int code = line[c] >> 2 * (r / stored) & 3;
            if (code == 3)
                st = qsf_fail(err, QSF_E_CORRUPT, "tensor %s: row %u, column %u has code 3, which no ternary "
                              "value has", t->name, (unsigned)r, (unsigned)c);
            out[c] = (float)(code - 1) * pl->scale;
        }
    }
    qsf_dealloc(p, line, cols);
    return st;
}

static void weights_round_masters(const hf_place *pl, size_t n, float *w)
{
    for (size_t i = 0; i < n; i++) {
        const float code = QSF_MAX(-1.0f, QSF_MIN(1.0f, rintf(w[i] * pl->sharp)));
        w[i] = code == 0 ? 0 : code * pl->scale;               /* no zero below zero */
    }
}

enum { WEIGHTS_BAND = 1 << 18 };        /* values that are looked at together */

qsf_status qsf_hf_weights_masters(const qsf_platform *p, const hf_weights *w, hf_place *pl, uint32_t rows,
                                  uint32_t cols, qsf_error *err)
{
    const uint32_t band = QSF_MIN(rows, QSF_MAX(1u, (uint32_t)WEIGHTS_BAND / cols));
    const uint64_t bytes = (uint64_t)band * cols * sizeof(float);
    float *v = qsf_alloc(p, bytes, "rows of a ternary tensor", err), one = 0;
    qsf_status st = v ? QSF_OK : QSF_E_MEMORY;
    bool ternary = true;
    double sum = 0;
    for (uint32_t row = 0; row < rows && !st; row += band) {
        const uint32_t n = QSF_MIN(band, rows - row);
        st = qsf_hf_weights_rows(p, w, pl, cols, row, n, v, err);
        for (size_t i = 0; i < (size_t)n * cols && !st; i++) {
            const float size = fabsf(v[i]);
            if (one == 0) one = size;
            ternary = ternary && (size == 0 || size == one);
            sum += size;
        }
    }
    qsf_dealloc(p, v, bytes);
    if (st || ternary) return st;
    const double mean = sum / ((double)rows * cols);
    if (!isfinite(mean))
        return qsf_fail(err, QSF_E_CORRUPT, "tensor %s: its mean magnitude is %g", pl->t->name, mean);
    pl->sharp = 1 / QSF_MAX((float)mean, 1e-5f);
    pl->scale = 1 / pl->sharp;
    return QSF_OK;
}

qsf_status qsf_hf_weights_number(const qsf_platform *p, const hf_weights *w, const weights_tensor *t,
                                 float *value, qsf_error *err)
{
    const uint64_t size = t->type == QSF_T_F32 ? 4 : 2;
    if (t->type == WEIGHTS_NO_TYPE || t->bytes != size)
        return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is of type %s and %llu bytes, expected one number",
                        t->name, t->dtype, (unsigned long long)t->bytes);
    const qsf_status st = weights_read_dense(p, w, t, 0, 1, value, err);
    if (st || (isfinite(*value) && *value > 0)) return st;
    return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is %g, expected a number above 0", t->name,
                    (double)*value);
}

/* ---- any rows ---- */

/* How many of n rows from `row` on are consecutive in the file. */
static uint32_t weights_run(const hf_place *pl, uint32_t row, uint32_t n)
{
    const hf_heads *h = &pl->heads;
    const hf_sets *s = &pl->sets;
    if (pl->block) n = QSF_MIN(n, pl->block - row % pl->block);
    if (s->all) return QSF_MIN(n, row < s->first ? s->key - row % s->key
                                                 : s->values - (row - s->first) % s->values);
    if (!h->each || h->columns) return n;
    return QSF_MIN(n, row < h->first ? h->first - row : h->size - (row - h->first) % h->size);
}

static qsf_status weights_read_run(const qsf_platform *p, const hf_weights *w, const hf_place *pl,
                                   uint32_t cols, uint32_t row, uint32_t n, float *out, qsf_error *err)
{
    const uint32_t own = pl->heads.columns ? row : weights_head_place(&pl->heads, row);
    const uint32_t at = weights_set_place(&pl->sets, own);
    const uint32_t block = pl->block ? at / pl->block : 0, in = pl->block ? at % pl->block : at;
    const weights_tensor *t = pl->each ? pl->each[block] : pl->t;
    const uint64_t first = pl->first + (pl->each ? 0 : block * pl->block_step) + in * pl->row_step;
    const bool whole = pl->row_step == cols;
    qsf_status st = QSF_OK;
    if (pl->col_step != 1) return weights_read_turned(p, w, pl, t, first, n, cols, out, err);
    for (uint32_t r = 0; r < n && !st; r += whole ? n : 1) {
        const uint64_t from = first + r * pl->row_step;
        const size_t count = (size_t)(whole ? n : 1) * cols;
        float *to = out + (size_t)r * cols;
        st = pl->scales ? weights_read_mxfp4(p, w, pl, from, count, to, err)
                        : weights_read_dense(p, w, t, from, count, to, err);
    }
    return st;
}

qsf_status qsf_hf_weights_rows(const qsf_platform *p, const hf_weights *w, const hf_place *pl, uint32_t cols,
                               uint32_t row, uint32_t n, float *out, qsf_error *err)
{
    const size_t count = (size_t)n * cols;
    qsf_status st = QSF_OK;
    if (!n) return QSF_OK;
    if (pl->packed) return weights_read_packed(p, w, pl, row, n, cols, out, err);
    for (uint32_t r = 0, k; r < n && !st; r += k) {
        k = weights_run(pl, row + r, n - r);
        st = weights_read_run(p, w, pl, cols, row + r, k, out + (size_t)r * cols, err);
    }
    if (!st && pl->heads.columns) st = weights_order_columns(p, &pl->heads, n, cols, out, err);
    if (!st && pl->exchanged) weights_exchange(n, cols, out);
    if (!st && pl->add != 0)
        for (size_t i = 0; i < count; i++) out[i] += pl->add;
    if (!st && pl->decay)
        for (size_t i = 0; i < count; i++) out[i] = -expf(out[i]);
    if (!st && pl->sharp != 0) weights_round_masters(pl, count, out);
    return st;
}

enum { HF_SAME_ROWS = 64 };             /* compared at once */

qsf_status qsf_hf_weights_same(const qsf_platform *p, const hf_weights *w, const weights_tensor *a,
                               const weights_tensor *b, bool *same, qsf_error *err)
{
    const uint32_t rows = (uint32_t)a->shape[0], cols = (uint32_t)a->shape[1];
    const hf_place one = { .t = a, .row_step = cols, .col_step = 1 };
    const hf_place two = { .t = b, .row_step = cols, .col_step = 1 };
    const uint64_t half = (uint64_t)HF_SAME_ROWS * cols;
    float *x = qsf_alloc_array(p, 2 * half, sizeof *x, "rows to compare", err);
    qsf_status st = x ? QSF_OK : QSF_E_MEMORY;
    *same = true;
    for (uint32_t row = 0; row < rows && *same && !st; row += HF_SAME_ROWS) {
        const uint32_t n = QSF_MIN((uint32_t)HF_SAME_ROWS, rows - row);
        st = qsf_hf_weights_rows(p, w, &one, cols, row, n, x, err);
        if (!st) st = qsf_hf_weights_rows(p, w, &two, cols, row, n, x + half, err);
        for (uint64_t i = 0; i < (uint64_t)n * cols && !st; i++) *same = *same && x[i] == x[half + i];
    }
    qsf_dealloc(p, x, 2 * half * sizeof *x);
    return st;
}
