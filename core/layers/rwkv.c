/* RWKV-7 (Peng et al. 2025, arXiv:2503.14456): shares of the row before -> receptance, decay, key,
 * value, rate, gate -> sums that decay and are corrected -> norm and gate -> output.
 * SPDX-License-Identifier: MIT
 *
 * With k' the key's direction and a the rate, both for each column, a head's sums S [keys][values]
 * become w S - (k' a) (k' S) + k v, and the head gives r S.  A row of the mixer's buffer is how far
 * the row before is away, then r, w, k, v, a, g, and a narrow vector, each from a whole tile on.
 *
 * The first layer's values go through all layers; each says what it takes of them. */
#include "layers/rwkv.h"
#include "layers/feed_forward_plain.h"
#include "layers/mixer.h"
#include "layers/product.h"

/* Parts of a row; the second to seventh in the order of their shares. */
enum { RWKV_FAR, RWKV_R, RWKV_W, RWKV_K, RWKV_V, RWKV_A, RWKV_G, RWKV_LOW };

static uint32_t rwkv_part_at(const qsf_hparams *hp, int part)
{
    return (uint32_t)part * (uint32_t)qsf_round_up(hp->n_embd, QSF_TILE_ROWS);
}
static float *part_of(const qsf_pass *p, size_t r, int part)
{
    return p->b->mix + r * p->b->ld_mix + rwkv_part_at(p->hp, part);
}

static float sigmoid(float x) { return 1 / (1 + (float)exp(-x)); }

/* ---- shares of the row before ---- */

/* These columns of all rows: how far the row before is away from xn, which the state's numbers from
 * `at` on become. */
static void shift_columns(const qsf_pass *p, qsf_range columns, size_t at)
{
    const size_t n = columns.end - columns.begin;
    at += columns.begin;
    for (size_t r = 0; r < p->batch->n; r++) {
        const float *x = p->b->xn + r * p->b->ld_embd + columns.begin, *before = qsf_mixer_before(p, r) + at;
        float *far = part_of(p, r, RWKV_FAR) + columns.begin;
        for (size_t i = 0; i < n; i++) far[i] = before[i] - x[i];
        memcpy(qsf_mixer_after(p, r) + at, x, n * sizeof *x);
    }
}

static void shift_mixer(const qsf_pass *p, const qsf_task *t)
{
    shift_columns(p, qsf_mixer_mine(t), 0);
}

static void shift_feed_forward(const qsf_pass *p, const qsf_task *t)
{
    const qsf_layer *l = p->layer;
    shift_columns(p, qsf_mixer_mine(t), l->mix_channels + (size_t)l->mix_inner * l->mix_state);
}

/* y = xn + share * far */
static void take_share(const qsf_pass *p, size_t r, const float *share, float *y)
{
    const float *x = p->b->xn + r * p->b->ld_embd, *far = part_of(p, r, RWKV_FAR);
    for (size_t i = 0; i < p->hp->n_embd; i++) y[i] = x[i] + far[i] * share[i];
}

/* One share, t->row->of, of all rows goes to tmp. */
static void share_rows(const qsf_pass *p, const qsf_task *t)
{
    const float *share = p->w->v[QSF_K_MIX_LERP] + (size_t)(t->row->of - RWKV_R) * p->hp->n_embd;
    for (size_t r = t->begin; r < t->end; r++) take_share(p, r, share, p->b->tmp + r * p->b->ld_embd);
}

/* Between a pair of matrices: tanh of what becomes decays, sigmoid of what becomes gates. */
static void bend_rows(const qsf_pass *p, const qsf_task *t)
{
    const qsf_layer *l = p->layer;
    for (size_t r = t->begin; r < t->end; r++) {
        float *x = part_of(p, r, RWKV_LOW);
        for (size_t i = 0; t->row->of == RWKV_W && i < l->mix_rank; i++) x[i] = 2 * sigmoid(2 * x[i]) - 1;
        for (size_t i = 0; t->row->of == RWKV_G && i < l->mix_gate; i++) x[i] = sigmoid(x[i]);
    }
}

/* ---- rows of the program ---- */

static qsf_view part_view(const qsf_program *g, int part, uint32_t cols)
{
    return qsf_mixer_view(cols, rwkv_part_at(g->hp, part));
}

static void rwkv_list_rows(qsf_program *g, int part, uint8_t work, qsf_view to, qsf_row_fn *fn)
{
    QSF_ADD(g, .op = QSF_OP_MIX, .work = work, .over = QSF_OVER_ROWS, .of = (uint8_t)part, .to = { to },
            .fn = fn);
}

/* part = tmp . matrix */
static void rwkv_list_product(qsf_program *g, uint8_t kind, int part)
{
    QSF_ADD(g, .op = QSF_OP_MIX_IN, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES,
            .in = qsf_stream_view(g, QSF_BUF_TMP), .codes = QSF_OP_MIX_CODES, .watch = (uint8_t)(1 + kind),
            .n = 1, .kinds = { kind }, .to = { part_view(g, part, 0) }, .fn = qsf_product_row);
}

/* A share of the rows, and its matrix. */
static void rwkv_list_share(qsf_program *g, uint8_t kind, int part)
{
    rwkv_list_rows(g, part, QSF_WORK_SHIFT, qsf_stream_view(g, QSF_BUF_TMP), share_rows);
    rwkv_list_product(g, kind, part);
}

/* A pair of matrices applied to tmp: the first makes narrow rows of `columns` columns, the second
 * widens them to a part (or, with `to`, to another buffer) and adds a bias, if one is named. */
typedef struct rwkv_pair { uint8_t in, out, bias, to; uint32_t columns; } rwkv_pair;

static void rwkv_list_pair(qsf_program *g, int part, rwkv_pair pair)
{
    const qsf_view narrow = part_view(g, RWKV_LOW, pair.columns);
    rwkv_list_product(g, pair.in, RWKV_LOW);
    if (part == RWKV_W || part == RWKV_G) rwkv_list_rows(g, part, QSF_WORK_ACTIVATE, narrow, bend_rows);
    QSF_ADD(g, .op = QSF_OP_MIX_STEP, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES,
            .in = narrow, .codes = QSF_OP_MIX_CODES, .watch = (uint8_t)(1 + pair.out), .n = 1,
            .kinds = { pair.out }, .bias = { pair.bias },
            .to = { pair.to ? (qsf_view){ .buffer = pair.to } : part_view(g, part, 0) },
            .fn = qsf_product_row);
}

static void rwkv_list_share_pair(qsf_program *g, int part, rwkv_pair pair)
{
    rwkv_list_rows(g, part, QSF_WORK_SHIFT, qsf_stream_view(g, QSF_BUF_TMP), share_rows);
    rwkv_list_pair(g, part, pair);
}

/* All that the sums take; shares of the first layer's values are in att. */
static void rwkv_list_inputs(const qsf_layer *l, qsf_program *g)
{
    const rwkv_pair decay = { QSF_K_MIX_X, QSF_K_MIX_STEP, QSF_K_MIX_STEP_BIAS, 0, l->mix_rank };
    const rwkv_pair first = { QSF_K_MIX_FIRST_IN, QSF_K_MIX_FIRST_OUT, QSF_K_MIX_FIRST_BIAS, QSF_BUF_ATT,
                              l->mix_first };
    const rwkv_pair rate = { QSF_K_MIX_RATE_IN, QSF_K_MIX_RATE_OUT, QSF_K_MIX_RATE_BIAS, 0, l->mix_rate };
    const rwkv_pair gate = { QSF_K_MIX_GATE_IN, QSF_K_MIX_GATE_OUT, 0, 0, l->mix_gate };
    rwkv_list_share(g, QSF_K_MIX_IN, RWKV_R);
    rwkv_list_share_pair(g, RWKV_W, decay);
    rwkv_list_share(g, QSF_K_MIX_KEY, RWKV_K);
    rwkv_list_share(g, QSF_K_MIX_VALUE, RWKV_V);
    if (l->mix_first) rwkv_list_pair(g, RWKV_V, first);
    rwkv_list_share_pair(g, RWKV_A, rate);
    if (l->mix_gate) rwkv_list_share_pair(g, RWKV_G, gate);
}

/* ---- the sums ---- */

/* Of row r: decays, keys, values, and instead of rates and of how far the row before is away the
 * two sides of what is taken out, k' a and k'. */
static void ready_row(const qsf_pass *p, size_t r)
{
    const float *const *v = p->w->v;
    const size_t n = p->hp->n_embd, each = p->layer->mix_state;
    float *out = part_of(p, r, RWKV_FAR), *w = part_of(p, r, RWKV_W), *k = part_of(p, r, RWKV_K);
    float *values = part_of(p, r, RWKV_V), *a = part_of(p, r, RWKV_A);
    float *first = p->b->first + r * p->b->ld_embd;
    const float *take = p->b->att + r * p->b->ld_q;
    if (!p->layer->mix_first) memcpy(first, values, n * sizeof *values);
    for (size_t i = 0; p->layer->mix_first && i < n; i++)
        values[i] += (first[i] - values[i]) * sigmoid(take[i]);
    p->k->vec_mul(out, k, v[QSF_K_MIX_KEY_OUT], n);
    for (size_t at = 0; at < n; at += each) {
        double sum = 0;
        for (size_t i = at; i < at + each; i++) sum += (double)out[i] * out[i];
        p->k->vec_scale(out + at, 1 / (float)QSF_MAX(sqrt(sum), 1e-12), each);
    }
    for (size_t i = 0; i < n; i++) {
        const float rate = sigmoid(a[i]);
        w[i] = (float)exp(-0.606531 * sigmoid(w[i]));       /* e^(-1/2) */
        k[i] += k[i] * v[QSF_K_MIX_KEY_RATE][i] * (rate - 1);
        a[i] = out[i] * rate;
    }
}

static void ready_mixer(const qsf_pass *p, const qsf_task *t)
{
    for (size_t r = t->begin; r < t->end; r++) ready_row(p, r);
}

/* The vectors of one head in one row. */
typedef struct rwkv_head { const float *r, *w, *k, *v, *out, *a; float *y; } rwkv_head;

/* `wide` values of a head, from the first on: all sums of one are computed one by one, so that
 * values lie side by side in vectors. */
static inline void rwkv_values(const rwkv_head *h, size_t first, size_t wide, size_t n, const float *before,
                               float *after)
{
    float taken[QSF_TILE_ROWS] = { 0 }, y[QSF_TILE_ROWS] = { 0 }, v[QSF_TILE_ROWS], s[QSF_TILE_ROWS];
    for (size_t i = 0; i < wide; i++) v[i] = h->v[first + i];
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < wide; i++) taken[i] += h->out[k] * before[k * n + first + i];
    for (size_t k = 0; k < n; k++) {
        const float w = h->w[k], key = h->k[k], a = h->a[k], r = h->r[k];
        for (size_t i = 0; i < wide; i++) s[i] = before[k * n + first + i] * w + v[i] * key - taken[i] * a;
        for (size_t i = 0; i < wide; i++) after[k * n + first + i] = s[i];
        for (size_t i = 0; i < wide; i++) y[i] += s[i] * r;
    }
    for (size_t i = 0; i < wide; i++) h->y[first + i] = y[i];
}

/* Heads of all rows, one after another. */
static void sum_heads(const qsf_pass *p, const qsf_task *t)
{
    const size_t n = p->layer->mix_state;
    for (size_t head = t->begin; head < t->end; head++)
        for (size_t r = 0; r < p->batch->n; r++) {
            const size_t c = head * n, at = p->layer->mix_channels + c * n;
            const rwkv_head h = {
                .r = part_of(p, r, RWKV_R) + c, .w = part_of(p, r, RWKV_W) + c,
                .k = part_of(p, r, RWKV_K) + c, .v = part_of(p, r, RWKV_V) + c,
                .out = part_of(p, r, RWKV_FAR) + c, .a = part_of(p, r, RWKV_A) + c,
                .y = p->b->att + r * p->b->ld_q + c,
            };
            const float *before = qsf_mixer_before(p, r) + at;
            float *after = qsf_mixer_after(p, r) + at;
            size_t first = 0;
            for (; first + QSF_TILE_ROWS <= n; first += QSF_TILE_ROWS)
                rwkv_values(&h, first, QSF_TILE_ROWS, n, before, after);
            if (first < n) rwkv_values(&h, first, n - first, n, before, after);
        }
}

/* The norm of each head, if the model has one, a part of the row's own values, and the gate. */
static void rwkv_gate(const qsf_pass *p, const qsf_task *t)
{
    const float *norm = p->w->v[QSF_K_MIX_NORM], *bias = p->w->v[QSF_K_MIX_NORM_BIAS];
    const float *skip = p->w->v[QSF_K_MIX_SKIP];
    const size_t n = p->layer->mix_state;
    for (size_t row = t->begin; row < t->end; row++) {
        const float *r = part_of(p, row, RWKV_R), *k = part_of(p, row, RWKV_K), *v = part_of(p, row, RWKV_V);
        float *y = p->b->att + row * p->b->ld_q;
        for (size_t at = 0; at < p->hp->n_embd; at += n) {
            double own = 0;
            if (norm && bias) p->k->layer_norm(y + at, y + at, norm + at, bias + at, n, 64e-5f);
            for (size_t i = at; i < at + n; i++) own += (double)k[i] * r[i] * skip[i];
            for (size_t i = at; i < at + n; i++) y[i] += v[i] * (float)own;
        }
        if (p->layer->mix_gate) p->k->vec_mul(y, y, part_of(p, row, RWKV_G), p->hp->n_embd);
    }
}

void qsf_rwkv_list(const qsf_layer *l, qsf_program *g)
{
    qsf_mixer_list_columns(g, QSF_WORK_SHIFT, part_view(g, RWKV_FAR, g->hp->n_embd), shift_mixer);
    rwkv_list_inputs(l, g);
    qsf_mixer_list_rows(g, QSF_WORK_NORM, qsf_mixer_view(rwkv_part_at(g->hp, RWKV_G), 0),
                        qsf_stream_view(g, QSF_BUF_FIRST), ready_mixer);
    QSF_ADD(g, .op = QSF_OP_MIX, .work = QSF_WORK_SCAN, .over = QSF_OVER_MIX_HEADS,
            .to = { qsf_mixer_result(l) }, .fn = sum_heads);
    qsf_mixer_list_rows(g, QSF_WORK_ACTIVATE, qsf_mixer_result(l), (qsf_view){ 0 }, rwkv_gate);
    qsf_mixer_list_out(l, g);
}

/* ---- the feed-forward ---- */

static void share_feed_forward(const qsf_pass *p, const qsf_task *t)
{
    for (size_t r = t->begin; r < t->end; r++)
        take_share(p, r, p->w->v[QSF_K_FFN_LERP], p->b->xn + r * p->b->ld_embd);
}

void qsf_rwkv_feed_forward_list(const qsf_layer *l, qsf_program *g)
{
    qsf_mixer_list_columns(g, QSF_WORK_SHIFT, part_view(g, RWKV_FAR, g->hp->n_embd), shift_feed_forward);
    QSF_ADD(g, .op = QSF_OP_FFN_CODES, .work = QSF_WORK_SHIFT, .over = QSF_OVER_ROWS,
            .to = { qsf_stream_view(g, QSF_BUF_XN) }, .fn = share_feed_forward);
    qsf_feed_forward_plain_list(l, g);
}
