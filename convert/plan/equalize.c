/* Scales channels between the matrices of a layer so that they lose less when they are quantised.
 * SPDX-License-Identifier: MIT
 *
 * A channel may be scaled where it is made and scaled back where it is used, and the network
 * computes the same function:
 *
 *     norm gain -> columns of q, k, v        norm gain -> columns of gate, up
 *     rows of v -> columns of the attention output (of every query head that shares the key head)
 *     rows of up -> columns of down (gated networks only: else an activation lies between)
 *
 * The last two apply only without a norm in between, as in BitNet.
 *
 * In a block all columns share a step, so their errors are similar, and a column's errors count in
 * proportion to its inputs.  With a_j the size of input j and w_j that of column j, scaling the
 * column by s_j costs sum(a_j^2 / s_j^2) times sum(s_j^2 w_j^2), which is least at s_j = sqrt(a_j /
 * w_j).  Without calibration, a_j is estimated from the weights before it: the norm's gain, the
 * energy of the row that makes it.  docs/quantisers.md has the measurements.
 *
 * Error feedback knows more precisely how much each input counts.  With it, the norms' gains are
 * moved entirely into the matrices, so that a block's columns have inputs of about the same size,
 * and nothing else is done, except in a model with outlier channels in the hidden state: see
 * level.h. */
#include "plan/equalize.h"

#include "plan/band.h"
#include "plan/level.h"
#include "plan/team.h"

#include <math.h>

typedef struct equal_layer {
    int tensor[QSF_N_KINDS];        /* index in the input, -1: none */
} equal_layer;

typedef struct equal_work {
    input          *in;
    convert_report *r;
    uint32_t        layer;
    double          bits;           /* of a weight, about */
    bool            odd;            /* the model has channels far larger than others */
    bool            looks;          /* only for these */
    bool            folds;          /* norm gains are moved into the matrices, and nothing else is done */
    equal_layer     at;
} equal_work;

static void equal_find(const input *in, uint32_t layer, equal_layer *out)
{
    for (int k = 0; k < QSF_N_KINDS; k++) out->tensor[k] = -1;
    for (uint32_t i = 0; i < in->n_tensors; i++)
        if (in->tensors[i].unit == layer && in->tensors[i].kind < QSF_N_KINDS)
            out->tensor[in->tensors[i].kind] = (int)i;
}

/* Adds the squares of tensor i to rows[] and columns[]; gain[cols]
 * multiplies what goes to rows.  Any may be NULL. */
static qsf_status equal_energy(const equal_work *k, int i, const double *gain, double *rows, double *columns,
                               qsf_error *err)
{
    const input_tensor *t = &k->in->tensors[i];
    const uint32_t band = qsf_conv_band_rows(t->cols);
    const uint64_t bytes = (uint64_t)band * t->cols * sizeof(float);
    float *w = qsf_alloc(k->in->platform, bytes, "a band of weights", err);
    qsf_status st = w ? QSF_OK : QSF_E_MEMORY;
    for (uint32_t row = 0; st == QSF_OK && row < t->rows; row += band) {
        const uint32_t n = QSF_MIN(band, t->rows - row);
        if ((st = k->in->read(k->in, (uint32_t)i, row, n, w, err))) break;
        for (uint32_t r = 0; r < n; r++) {
            double sum = 0;
            for (uint32_t c = 0; c < t->cols; c++) {
                const double v = w[(size_t)r * t->cols + c], g = gain ? v * gain[c] : v;
                sum += g * g;
                if (columns) columns[c] += v * v;
            }
            if (rows) rows[row + r] += sum;
        }
    }
    qsf_dealloc(k->in->platform, w, bytes);
    return st;
}

static double equal_rounded(double e) { return exp2(rint(e * 64) / 64); }

/* scale[j] = sqrt(size[j] / column[j]) around a geometric mean of 1.  Rounded to a 64th of an
 * octave, so that two readers whose sums differ in the last bits (rows in another order) make one
 * file; and within 16, so that fp16 has room. */
static void equal_scales(const double *size, const double *column, uint32_t n, float *scale)
{
    double sum = 0;
    uint32_t used = 0;
    for (uint32_t j = 0; j < n; j++) {
        const bool ok = size[j] > 0 && column[j] > 0 && isfinite(size[j]) && isfinite(column[j]);
        scale[j] = ok ? (float)(0.5 * log2(size[j] / column[j])) : NAN;
        if (ok) { sum += scale[j]; used++; }
    }
    const double mean = used ? sum / used : 0;
    for (uint32_t j = 0; j < n; j++) {
        const double e = isnan(scale[j]) ? 0 : scale[j] - mean;
        scale[j] = (float)equal_rounded(QSF_MAX(-4.0, QSF_MIN(4.0, e)));
    }
}

static qsf_status equal_reciprocal(equal_work *k, const float *s, uint32_t n, float **out, qsf_error *err)
{
    if (!(*out = qsf_arena_array(k->in->arena, n, sizeof(float), "channel scales", err))) return QSF_E_MEMORY;
    for (uint32_t j = 0; j < n; j++) (*out)[j] = 1.0f / s[j];
    return QSF_OK;
}

/* scale[j] = gain[j], which leaves a gain of 1 or -1, if gain[j] is valid as a scale. */
static void equal_fold(const double *gain, uint32_t n, float *scale)
{
    for (uint32_t j = 0; j < n; j++) scale[j] = gain[j] > 1e-6 && gain[j] < 1e6 ? (float)gain[j] : 1;
}

/* The calibration's sizes of a matrix's columns; *known false: unknown. */
static qsf_status equal_measured(const equal_work *k, int tensor, float *size, bool *known, qsf_error *err)
{
    const input *in = k->in;
    const input_tensor *t = &in->tensors[tensor];
    *known = false;
    if (!k->folds || !in->sizes) return QSF_OK;
    return in->sizes(in->sizes_user, t->unit, t->kind, t->cols, size, known, err);
}

/* ---- a norm and the matrices that read it ---- */

static qsf_status equal_norm(equal_work *k, int norm, int norm_bias, const int *readers, int n_readers,
                             double *gain, qsf_error *err)
{
    input *in = k->in;
    const uint32_t n = in->tensors[norm].cols;
    const uint64_t bytes = (uint64_t)n * sizeof(double);
    double *column = qsf_alloc(in->platform, bytes, "channel sizes", err);
    float *scale = qsf_arena_array(in->arena, n, sizeof *scale, "channel scales", err), *back;
    float *size = qsf_alloc_array(in->platform, n, sizeof *size, "channel sizes", err);
    qsf_status st = column && scale && size ? QSF_OK : QSF_E_MEMORY;
    uint64_t rows = 0;
    bool known = false;
    if (!st) st = equal_measured(k, readers[0], size, &known, err);
    for (int i = 0; st == QSF_OK && !k->folds && i < n_readers; i++) {
        st = equal_energy(k, readers[i], NULL, NULL, column, err);
        rows += in->tensors[readers[i]].rows;
    }
    if (st == QSF_OK) {
        for (uint32_t j = 0; j < n; j++) column[j] = rows ? sqrt(column[j] / (double)rows) : 0;
        const level_norm of = { readers, n_readers, n, k->bits, gain, size };
        k->odd |= known && qsf_conv_level_odd(&of);
        if (k->odd && known && !k->looks) st = qsf_conv_level(in, &of, scale, err);
        else if (k->folds) equal_fold(gain, n, scale);
        else equal_scales(gain, column, n, scale);
    }
    if (st == QSF_OK && !k->looks) st = equal_reciprocal(k, scale, n, &back, err);
    if (st == QSF_OK && !k->looks) {
        for (int i = 0; i < n_readers; i++) k->r->tensors[readers[i]].col_scale = scale;
        k->r->tensors[norm].col_scale = back;
        if (norm_bias >= 0) k->r->tensors[norm_bias].col_scale = back;
    }
    qsf_dealloc(in->platform, size, (uint64_t)n * sizeof *size);
    qsf_dealloc(in->platform, column, bytes);
    return st;
}

/* ---- a matrix that makes channels and one that reads them ---- */

typedef struct equal_channels {
    int      maker, maker_bias, reader;
    uint32_t n, head_dim, repeat;       /* the reader has n * repeat columns: head h of head_dim columns
                                         * reads channels of head h / repeat */
} equal_channels;

static uint32_t equal_channel(const equal_channels *p, uint32_t column)
{
    return column / p->head_dim / p->repeat * p->head_dim + column % p->head_dim;
}

/* From scale[n]. */
static qsf_status equal_pair_set(equal_work *k, const equal_channels *p, const float *scale, qsf_error *err)
{
    const uint32_t cols = k->in->tensors[p->reader].cols;
    float *wide = qsf_arena_array(k->in->arena, cols, sizeof *wide, "channel scales", err), *back;
    if (!wide) return QSF_E_MEMORY;
    for (uint32_t c = 0; c < cols; c++) wide[c] = scale[equal_channel(p, c)];
    const qsf_status st = equal_reciprocal(k, scale, p->n, &back, err);
    if (st) return st;
    k->r->tensors[p->reader].col_scale = wide;
    k->r->tensors[p->maker].row_scale = back;
    if (p->maker_bias >= 0) k->r->tensors[p->maker_bias].col_scale = back;
    return QSF_OK;
}

/* size[n]: of the made channels. */
static qsf_status equal_pair(equal_work *k, const equal_channels *p, const double *size, qsf_error *err)
{
    input *in = k->in;
    const uint32_t cols = in->tensors[p->reader].cols;
    const uint64_t bytes = (uint64_t)cols * sizeof(double);
    double *column = qsf_alloc(in->platform, bytes, "channel sizes", err),
           *made = qsf_alloc(in->platform, bytes, "channel sizes", err);
    float *scale = qsf_alloc_array(in->platform, p->n, sizeof *scale, "channel scales", err);
    qsf_status st = column && made && scale ? equal_energy(k, p->reader, NULL, NULL, column, err)
                                            : QSF_E_MEMORY;
    if (st == QSF_OK) {
        for (uint32_t c = 0; c < cols; c++) made[equal_channel(p, c)] += column[c];
        for (uint32_t j = 0; j < p->n; j++)
            made[j] = sqrt(made[j] / ((double)in->tensors[p->reader].rows * p->repeat));
        equal_scales(size, made, p->n, scale);
        st = equal_pair_set(k, p, scale, err);
    }
    qsf_dealloc(in->platform, column, bytes);
    qsf_dealloc(in->platform, made, bytes);
    qsf_dealloc(in->platform, scale, (uint64_t)p->n * sizeof *scale);
    return st;
}

/* Uses the reader's columns in the calibration; does nothing if it does not have them. */
static qsf_status equal_pair_level(equal_work *k, const equal_channels *p, qsf_error *err)
{
    input *in = k->in;
    const uint32_t cols = in->tensors[p->reader].cols;
    if (!k->odd || k->looks) return QSF_OK;
    float *size = qsf_alloc_array(in->platform, cols, sizeof *size, "channel sizes", err),
          *scale = qsf_alloc_array(in->platform, cols, sizeof *scale, "channel sizes", err);
    double *gain = qsf_alloc_array(in->platform, cols, sizeof *gain, "channel sizes", err);
    const level_norm of = { &p->reader, 1, cols, k->bits, gain, size };
    bool known = false;
    qsf_status st = size && scale && gain ? equal_measured(k, p->reader, size, &known, err) : QSF_E_MEMORY;
    if (st == QSF_OK && known) {
        for (uint32_t c = 0; c < cols; c++)
            gain[equal_channel(p, c)] += (double)size[c] * size[c] / p->repeat;
        for (uint32_t c = 0; c < p->n; c++) scale[c] = (float)sqrt(gain[c]);
        for (uint32_t c = 0; c < cols; c++) size[c] = scale[equal_channel(p, c)], gain[c] = 1;
        st = qsf_conv_level(in, &of, scale, err);
        for (uint32_t c = 0; c < cols; c++) size[equal_channel(p, c)] = scale[c];
        if (st == QSF_OK) st = equal_pair_set(k, p, size, err);
    }
    qsf_dealloc(in->platform, size, (uint64_t)cols * sizeof *size);
    qsf_dealloc(in->platform, scale, (uint64_t)cols * sizeof *scale);
    qsf_dealloc(in->platform, gain, (uint64_t)cols * sizeof *gain);
    return st;
}

/* size[r] = root of the energy of the maker's row r after a norm with this gain. */
static qsf_status equal_made_size(equal_work *k, int maker, const double *gain, double *size, qsf_error *err)
{
    const uint32_t rows = k->in->tensors[maker].rows;
    const qsf_status st = equal_energy(k, maker, gain, size, NULL, err);
    for (uint32_t r = 0; st == QSF_OK && r < rows; r++) size[r] = sqrt(size[r]);
    return st;
}

/* ---- a layer ---- */

static qsf_status equal_gain(equal_work *k, int norm, double *gain, qsf_error *err)
{
    const uint32_t n = k->in->tensors[norm].cols;
    float *g = qsf_alloc_array(k->in->platform, n, sizeof *g, "a norm", err);
    const qsf_status st = g ? k->in->read(k->in, (uint32_t)norm, 0, 1, g, err) : QSF_E_MEMORY;
    for (uint32_t j = 0; st == QSF_OK && j < n; j++) gain[j] = fabs((double)g[j]);
    qsf_dealloc(k->in->platform, g, (uint64_t)n * sizeof *g);
    return st;
}

static bool equal_shape(const input *in, int i, uint32_t rows, uint32_t cols)
{
    return i >= 0 && in->tensors[i].rows == rows && in->tensors[i].cols == cols;
}

/* Norms of q and k, or any other part, may follow: only the inputs' scale changes, and the matrices
 * compensate it.  If both parts of a layer read the same norm, all matrices that read it are
 * scaled. */
static qsf_status equal_attention(equal_work *k, double *gain, double *size, qsf_error *err)
{
    const input *in = k->in;
    const int *t = k->at.tensor, readers[] = { t[QSF_K_ATTN_Q], t[QSF_K_ATTN_K], t[QSF_K_ATTN_V],
                                               t[QSF_K_FFN_UP], t[QSF_K_FFN_GATE] };
    const int n_readers = in->hp.flow != QSF_FLOW_PARALLEL ? 3 : in->hp.gated ? 5 : 4;
    const uint32_t d = in->hp.head_dim, kv = in->hp.n_kv_heads, repeat = kv ? in->hp.n_heads / kv : 0;
    qsf_status st;
    /* With streams the normed rows are also added to the attention's output; Mamba-2 next to
     * attention reads them, too. */
    if (!equal_shape(in, t[QSF_K_ATTN_NORM], 1, in->hp.n_embd) || in->hp.altup || t[QSF_K_MIX_IN] >= 0)
        return QSF_OK;
    for (int i = 0; i < n_readers; i++)
        if (readers[i] < 0 || in->tensors[readers[i]].cols != in->hp.n_embd) return QSF_OK;
    if ((st = equal_gain(k, t[QSF_K_ATTN_NORM], gain, err))) return st;
    if ((st = equal_norm(k, t[QSF_K_ATTN_NORM], t[QSF_K_ATTN_NORM_BIAS], readers, n_readers, gain,
                         err))) return st;
    /* Values that are clamped, or normed, cannot be scaled. */
    if (in->hp.v_norm || t[QSF_K_ATTN_SUB_NORM] >= 0 || in->hp.qkv_clamp > 0) return QSF_OK;
    if (!repeat || !equal_shape(in, t[QSF_K_ATTN_V], kv * d, in->hp.n_embd) || t[QSF_K_ATTN_OUT] < 0 ||
        in->tensors[t[QSF_K_ATTN_OUT]].cols != kv * d * repeat) return QSF_OK;
    const equal_channels values = { t[QSF_K_ATTN_V], t[QSF_K_ATTN_V_BIAS], t[QSF_K_ATTN_OUT], kv * d, d,
                                    repeat };
    if (k->folds) return equal_pair_level(k, &values, err);
    if ((st = equal_made_size(k, values.maker, gain, size, err))) return st;
    return equal_pair(k, &values, size, err);
}

static qsf_status equal_feed_forward(equal_work *k, double *gain, double *size, double *other, qsf_error *err)
{
    const input *in = k->in;
    const int *t = k->at.tensor, readers[] = { t[QSF_K_FFN_UP], t[QSF_K_FFN_GATE] };
    const uint32_t ff = in->hp.n_ff;
    qsf_status st;
    if (t[QSF_K_ROUTER] >= 0) return QSF_OK;        /* whose experts take these rows, too */
    if (!equal_shape(in, t[QSF_K_FFN_NORM], 1, in->hp.n_embd) ||
        !equal_shape(in, readers[0], ff, in->hp.n_embd))
        return QSF_OK;
    if (in->hp.gated && !equal_shape(in, readers[1], ff, in->hp.n_embd)) return QSF_OK;
    if ((st = equal_gain(k, t[QSF_K_FFN_NORM], gain, err))) return st;
    if ((st = equal_norm(k, t[QSF_K_FFN_NORM], t[QSF_K_FFN_NORM_BIAS], readers, in->hp.gated ? 2 : 1, gain,
                         err)))
        return st;
    if (t[QSF_K_FFN_SUB_NORM] >= 0) return QSF_OK;
    if (!in->hp.gated || t[QSF_K_FFN_DOWN] < 0 || in->tensors[t[QSF_K_FFN_DOWN]].cols != ff) return QSF_OK;
    const equal_channels hidden = { t[QSF_K_FFN_UP], t[QSF_K_FFN_UP_BIAS], t[QSF_K_FFN_DOWN], ff, ff, 1 };
    if (k->folds) return equal_pair_level(k, &hidden, err);
    if ((st = equal_made_size(k, t[QSF_K_FFN_UP], gain, size, err)) ||
        (st = equal_made_size(k, t[QSF_K_FFN_GATE], gain, other, err)))
        return st;
    for (uint32_t j = 0; j < ff; j++) size[j] *= other[j];
    return equal_pair(k, &hidden, size, err);
}

static qsf_status equal_one_layer(void *user, uint32_t layer, uint32_t thread, qsf_error *err)
{
    equal_work *all = user, k = *all;
    const qsf_platform *p = k.in->platform;
    const uint64_t n =
        (uint64_t)k.in->hp.n_embd + k.in->hp.n_ff + (uint64_t)k.in->hp.n_kv_heads * k.in->hp.head_dim;
    (void)thread;
    k.layer = layer;
    equal_find(k.in, layer, &k.at);
    double *v = qsf_alloc_array(p, 3 * n, sizeof *v, "channel sizes", err);
    if (!v) return QSF_E_MEMORY;
    qsf_status st = equal_attention(&k, v, v + n, err);
    memset(v, 0, 3 * n * sizeof *v);
    if (st == QSF_OK) st = equal_feed_forward(&k, v, v + n, v + 2 * n, err);
    qsf_dealloc(p, v, 3 * n * sizeof *v);
    all->odd = k.odd;
    return st;
}

/* The bits that a weight will have, roughly; types chosen by a target are not known yet. */
static double equal_bits(const input *in, const qsf_convert_options *o, const convert_report *r)
{
    double weights = 0, bytes = 0;
    if (in->level_bits > 0) return in->level_bits;
    for (uint32_t i = 0; i < in->n_tensors; i++) {
        const input_tensor *t = &in->tensors[i];
        if (!qsf_input_is_matrix(t)) continue;
        weights += (double)t->rows * t->cols;
        bytes += (double)r->tensors[i].bytes;
    }
    return 8 * (o->target_bytes ? (double)o->target_bytes : bytes) / QSF_MAX(weights, 1);
}

qsf_status qsf_conv_equalize(input *in, const qsf_convert_options *o, convert_report *r, qsf_error *err)
{
    equal_work k = { .in = in, .r = r, .folds = o->effort >= 2, .bits = equal_bits(in, o, r) };
    k.looks = k.folds && in->sizes;
    /* One thread: the arena is not shared, and reading bounds this anyway. */
    if (k.looks) {
        const qsf_status st =
            qsf_conv_parallel(in->platform, o, 1, in->hp.n_layers, equal_one_layer, &k, err);
        if (st) return st;
        k.looks = false;
    }
    return qsf_conv_parallel(in->platform, o, 1, in->hp.n_layers, equal_one_layer, &k, err);
}
