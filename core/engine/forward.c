/* The arithmetic of one step: embedding, a transformer layer, the head.  A layer is a row of jobs; the pool's threads take pieces of each, which are
 * rows, tiles or heads.
 * SPDX-License-Identifier: MIT
 *
 *   x -> norm -> q, k, v -> rotate, append to the KV cache -> attention -> output -> + x
 *   x -> norm -> gate, up -> act(gate) * up -> down -> + x */
#include "engine/context.h"
#include "engine/kv_codes.h"

static size_t tiles_of(const qsf_matrix *m) { return (m->t.rows + QSF_TILE_ROWS - 1) / QSF_TILE_ROWS; }

/* ---- matrices ---- */

static bool uses_act(const qsf_context *c, const qsf_matrix *m) { return m->t.data && m->form >= 0 && !c->f32; }

/* Float weights as they lie in the file; false: no kernel takes them.  bf16's rounds what it is multiplied with. */
static bool multiply_floats(const qsf_context *c, const qsf_matrix *m, const float *x, size_t ldx, size_t n, float *y, size_t ldy, qsf_range tiles, uint32_t thread)
{
    const size_t row = tiles.begin * QSF_TILE_ROWS, rows = QSF_MIN(tiles.end * QSF_TILE_ROWS, m->t.rows) - row, at = row * m->t.cols;
    float *scratch = c->b.strip + (size_t)thread * QSF_TILE_ROWS * c->b.max_cols;
    if ((uintptr_t)m->t.data % sizeof(float)) return false;     /* a file may put them anywhere */
    if (m->t.type == QSF_T_F32) c->k.matmul_f32(y + row, ldy, (const float *)m->t.data + at, x, ldx, n, rows, m->t.cols);
    else if (m->t.type == QSF_T_F16) c->k.matmul_f16(y + row, ldy, (const uint16_t *)m->t.data + at, x, ldx, n, rows, m->t.cols, scratch);
    else if (m->t.type == QSF_T_BF16 && !c->f32) c->k.matmul_bf16(y + row, ldy, (const uint16_t *)m->t.data + at, x, ldx, n, rows, m->t.cols, scratch);
    else return false;
    return true;
}

/* Rows as floats, a strip of 16 at a time: types without a kernel of their own, and float activations. */
static void multiply_rows(const qsf_context *c, const qsf_matrix *m, const float *x, size_t ldx, size_t n, float *y, size_t ldy, qsf_range tiles, uint32_t thread)
{
    float *strip = c->b.strip + (size_t)thread * QSF_TILE_ROWS * c->b.max_cols;
    for (size_t t = tiles.begin; t < tiles.end; t++) {
        const uint32_t row = (uint32_t)t * QSF_TILE_ROWS, rows = QSF_MIN(QSF_TILE_ROWS, m->t.rows - row);
        qsf_dequant_rows(&m->t, row, rows, strip);
        c->k.matmul_f32(y + row, ldy, strip, x, ldx, n, rows, m->t.cols);
    }
}

static void add_outliers(const qsf_matrix *m, const float *x, size_t ldx, size_t n, float *y, size_t ldy, qsf_range tiles)
{
    const size_t end = QSF_MIN(tiles.end * QSF_TILE_ROWS, m->t.rows);
    for (size_t r = tiles.begin * QSF_TILE_ROWS; r < end; r++)
        for (uint32_t i = m->out_start[r]; i < m->out_start[r + 1]; i++) {
            const float w = qsf_f16_to_f32(m->out_value[i]);
            for (size_t j = 0; j < n; j++) y[j * ldy + r] += w * x[j * ldx + m->out_col[i]];
        }
}

/* y[n][ldy] = x . m for the tiles of this share.  x is [n][ldx] floats; act the same rows quantised (only read where uses_act). */
static void multiply(const qsf_context *c, const qsf_matrix *m, const float *x, size_t ldx, const qsf_act *act, size_t n,
                     float *y, size_t ldy, qsf_range tiles, uint32_t thread)
{
    if (tiles.begin >= tiles.end) return;
    if (uses_act(c, m)) {
        const uint8_t *w = (const uint8_t *)m->t.data + tiles.begin * m->blocks * qsf_tile_bytes((qsf_form)m->form, m->t.block);
        float *to = y + tiles.begin * QSF_TILE_ROWS;
        if (n == 1) c->k.matvec[m->form](to, w, act, tiles.end - tiles.begin, m->blocks, m->t.block);
        else c->k.matmul[m->form](to, ldy, w, act, tiles.end - tiles.begin, m->blocks, m->t.block);
    } else if (!multiply_floats(c, m, x, ldx, n, y, ldy, tiles, thread)) {
        multiply_rows(c, m, x, ldx, n, y, ldy, tiles, thread);
    }
    if (m->out_start) add_outliers(m, x, ldx, n, y, ldy, tiles);
}

static void add_bias(const qsf_context *c, const float *bias, size_t rows, float *y, size_t ldy, size_t n, qsf_range tiles)
{
    if (!bias || tiles.begin >= tiles.end) return;
    const size_t begin = tiles.begin * QSF_TILE_ROWS, end = QSF_MIN(tiles.end * QSF_TILE_ROWS, rows);
    for (size_t j = 0; j < n; j++) c->k.vec_add(y + j * ldy + begin, y + j * ldy + begin, bias + begin, end - begin);
}

/* The part of share s of a concatenation that falls into [at, at + n), counted from at. */
static qsf_range share_cut(qsf_range s, size_t at, size_t n)
{
    const size_t b = s.begin > at ? s.begin - at : 0, e = s.end > at ? s.end - at : 0;
    return (qsf_range){ QSF_MIN(b, n), QSF_MIN(e, n) };
}

/* The batch's activations as the kernels take them, for inputs of cols columns. */
static qsf_act act_view(const qsf_context *c, size_t cols, size_t n)
{
    qsf_act a = c->b.act;
    a.cols = qsf_act_cols((uint32_t)cols);
    a.n = (uint32_t)n;
    return a;
}

/* ---- vectors ---- */

static void norm(const qsf_context *c, float *y, const float *x, const float *weight, const float *bias, size_t n)
{
    if (c->hp->norm == QSF_NORM_RMS) c->k.rms_norm(y, x, weight, n, c->hp->norm_eps);
    else c->k.layer_norm(y, x, weight, bias, n, c->hp->norm_eps);
}

static void activate(const qsf_context *c, float *x, size_t n)
{
    if (c->hp->act == QSF_ACT_SILU) c->k.silu_inplace(x, n);
    else if (c->hp->act == QSF_ACT_GELU) c->k.gelu_inplace(x, n);
    else c->k.relu_inplace(x, n);
}

static void activate_gated(const qsf_context *c, float *gate, const float *up, size_t n)
{
    if (c->hp->act == QSF_ACT_SILU) {
        c->k.silu_mul(gate, gate, up, n);
    } else if (c->hp->act == QSF_ACT_GELU) {
        c->k.gelu_mul(gate, gate, up, n);
    } else {
        c->k.relu_inplace(gate, n);
        c->k.vec_mul(gate, gate, up, n);
    }
}

/* ---- attention ---- */

static bool layer_windowed(const qsf_hparams *hp, uint32_t layer)
{
    return hp->window && (hp->window_pattern == 0 || layer % hp->window_pattern != hp->window_pattern - 1);
}
/* Which of the two rotary tables a layer uses. */
static int layer_rope(const qsf_hparams *hp, uint32_t layer) { return hp->rope_base_local > 0 && layer_windowed(hp, layer); }

/* Norm, rotation and storing of one head of one row.  Heads 0 .. n_heads-1 are queries, then come the key-value heads. */
static void place_head(const qsf_context *c, uint32_t layer, uint32_t row, uint32_t head)
{
    const qsf_hparams *hp = c->hp;
    const bool query = head < hp->n_heads;
    const uint32_t kv = head - hp->n_heads, hd = hp->head_dim;
    float *x = query ? c->b.q + row * c->b.ld_q + (size_t)head * hd : c->b.k + row * c->b.ld_kv + (size_t)kv * hd;
    const float *weight = c->w->v[query ? QSF_K_Q_NORM : QSF_K_K_NORM], *apart = query ? NULL : qsf_bias_of(c, kv);
    for (size_t i = 0; apart && i < hd; i++) x[i] -= apart[i];
    if (weight) c->k.rms_norm(x, x, weight, hd, hp->norm_eps);
    if (hp->rope != QSF_ROPE_NONE) {
        const int r = layer_rope(hp, layer);
        const size_t half = c->rope[r].half;
        c->k.rope_apply(x, 1, hd, half, c->b.cos[r] + row * half, c->b.sin[r] + row * half, hp->rope == QSF_ROPE_PAIRS);
    }
    if (c->kv.layout.k_bits) {
        const float *bias = c->w->v[QSF_K_ATTN_K_BIAS];
        if (bias && !query && !weight && !apart) qsf_bias_still(c, x, bias + (size_t)kv * hd, &c->rope[layer_rope(hp, layer)]);
        /* Mixed in queries as in keys, which changes none of their products and spreads the few large channels of a key, so that one scale fits all better
         * (QuaRot, Ashkboos et al. 2024, arXiv:2404.00456); eight apart is faster and does for 8 bits without biases. */
        c->k.hadamard_inplace(x, hd, bias || qsf_kv_packed(c->kv.layout.k_bits) ? 1 : 8);
    }
    if (!query) {
        const qsf_batch_row *b = &c->rows[row];
        float *v = c->b.v + row * c->b.ld_kv + (size_t)kv * hd;
        if (qsf_kv_packed(c->kv.layout.v_bits)) c->k.hadamard_inplace(v, hd, 1);        /* attend() takes it back from the sum */
        qsf_kv_store(&c->kv, &c->k, c->kv_layer, b->seq, b->pos, kv, x, v);
    }
}

/* What one thread computes attention in: up to QSF_ATTENTION_ROWS rows times the query heads that
 * share a key-value head. */
typedef struct attention_scratch {
    qsf_kv_work work;
    float   *m, *l;             /* [vectors] running maximum and sum of the softmax */
    /* [vectors][head_dim], [vectors][QSF_KV_BLOCK] and [head_dim]: where keys have lost their bias */
    float   *bias, *bias_work;
    qsf_heat heat;
} attention_scratch;

size_t qsf_attention_scratch(const qsf_hparams *hp, qsf_kv_type type)
{
    const size_t vectors = (size_t)QSF_ATTENTION_ROWS * (hp->n_heads / hp->n_kv_heads);
    const size_t codes = vectors * (qsf_kv_dim(hp->head_dim) + QSF_KV_BLOCK) / sizeof(float);
    const size_t bias = qsf_bias_apart(hp, type) ? vectors * (hp->head_dim + QSF_KV_BLOCK) + hp->head_dim : 0;
    return (size_t)qsf_round_up(vectors * (2 * hp->head_dim + QSF_KV_BLOCK + 6) + codes + bias + qsf_kv_scratch(hp->head_dim) / sizeof(float), 16);
}

static attention_scratch scratch_of(const qsf_context *c, uint32_t thread)
{
    const qsf_hparams *hp = c->hp;
    const size_t vectors = (size_t)QSF_ATTENTION_ROWS * (hp->n_heads / hp->n_kv_heads);
    float *own = c->b.attention + thread * qsf_attention_scratch(hp, c->o.kv_type);
    attention_scratch a = { 0 };
    qsf_kv_work *w = &a.work;
    w->unpacked = (uint8_t *)own;
    w->q = own + qsf_kv_scratch(hp->head_dim) / sizeof(float);
    w->o = w->q + vectors * hp->head_dim;
    w->s = w->o + vectors * hp->head_dim;
    a.m = w->s + vectors * QSF_KV_BLOCK;
    a.l = a.m + vectors;
    w->factor = a.l + vectors;
    w->qd = w->factor + vectors;
    w->pd = w->qd + vectors;
    w->qs = (int32_t *)(void *)(w->pd + vectors);
    w->qc = (int8_t *)(w->qs + vectors);
    w->pc = (uint8_t *)w->qc + vectors * qsf_kv_dim(hp->head_dim);
    a.bias = (float *)(void *)(w->pc + vectors * QSF_KV_BLOCK);
    a.bias_work = a.bias + vectors * hp->head_dim;
    return a;
}

/* What rows see of the positions before them: the last `window` (0: all) and, of a window that the cache has, the first `sinks`, if `far` (the model's own
 * window; 0: none) reaches them. */
typedef struct attention_view { uint32_t window, sinks, far; } attention_view;
static attention_view layer_view(const qsf_context *c, uint32_t layer)
{
    const uint32_t own = layer_windowed(c->hp, layer) ? c->hp->window : 0, kept = c->o.kv_window;
    if (!kept || c->o.kv_heavy || (own && own <= kept)) return (attention_view){ own, 0, own };      /* with heavy hitters: whatever is there */
    return (attention_view){ kept, c->o.kv_sinks, own };
}
static uint32_t window_begin(uint32_t pos, uint32_t window) { return window && pos + 1 > window ? pos + 1 - window : 0; }
/* Whether the row at pos sees nothing of the block at [at, at + n). */
static bool view_misses(const attention_view *w, uint32_t at, size_t n, uint32_t pos)
{
    return at > pos || at + n <= window_begin(pos, w->far) || (at + n <= window_begin(pos, w->window) && at >= w->sinks);
}
static void view_mask(const qsf_context *c, const attention_view *w, float *s, size_t n, uint32_t at, uint32_t pos)
{
    const uint32_t first = window_begin(pos, w->window);
    if (at >= first && at + n <= (size_t)pos + 1) return;
    c->k.causal_mask_apply(s, n, at, pos, at < w->sinks ? w->far : w->window);
    for (uint32_t i = w->sinks; at < w->sinks && i < first && i < at + n; i++) s[i - at] = -INFINITY;
}

/* One row's scores of the positions [at, at + n): soft cap, mask, one step of the online softmax for each of its rep vectors. */
static void softmax_row(const qsf_context *c, const attention_scratch *a, size_t vector, size_t rep, uint32_t e, uint32_t at, size_t n, uint32_t pos, const attention_view *view)
{
    for (size_t v = vector; v < vector + rep; v++) {
        float *s = a->work.s + v * QSF_KV_BLOCK;
        if (view_misses(view, at, n, pos)) {             /* nothing here is for this row */
            memset(s, 0, n * sizeof(float));
            a->work.factor[v] = 1;
            continue;
        }
        if (c->hp->attn_softcap > 0) c->k.softcap_inplace(s, c->hp->attn_softcap, n);
        view_mask(c, view, s, n, at, pos);
        const float l = a->l[v];
        a->work.factor[v] = c->k.attention_softmax_inplace(s, n, &a->m[v], &a->l[v]);
        if (a->heat.of) qsf_heat_note(&a->heat, v, e, l, a->work.factor[v], a->m[v], a->l[v]);
    }
}

/* Attention of a group of rows in one key-value head, block by block with an online softmax (Milakov and Gimelshein 2018,
 * arXiv:1805.02867), so that no score outlives its block; each block is brought to floats once for all vectors of the group. */
static void attend(const qsf_context *c, uint32_t layer, qsf_row_group g, uint32_t kv, uint32_t thread)
{
    const qsf_hparams *hp = c->hp;
    const qsf_batch_row *rows = &c->rows[g.first];
    const size_t hd = hp->head_dim, rep = hp->n_heads / hp->n_kv_heads, vectors = g.n * rep;
    const qsf_kv_seq *seq = &c->kv.seqs[rows[0].seq];
    const attention_view view = layer_view(c, layer);
    const uint32_t last = rows[g.n - 1].pos;
    const float scale = hp->attn_scale > 0 ? hp->attn_scale : 1 / sqrtf((float)hd);
    attention_scratch a = scratch_of(c, thread);
    a.work.vectors = vectors;
    a.work.scale = scale;
    const qsf_kv_layout *layout = &c->kv.layout;
    const float *bias = qsf_bias_of(c, kv);

    for (size_t r = 0; r < g.n; r++) memcpy(a.work.q + r * rep * hd, c->b.q + (g.first + r) * c->b.ld_q + kv * rep * hd, rep * hd * sizeof(float));
    memset(a.work.o, 0, vectors * hd * sizeof(float));
    for (size_t v = 0; v < vectors; v++) {
        a.m[v] = -INFINITY;
        a.l[v] = 0;
    }
    layout->ops->begin(layout, &c->k, &a.work);
    if (bias) qsf_bias_factors(c, a.bias, a.work.q, vectors, bias, scale);
    a.heat = qsf_heat_begin(c, thread, rows[0].seq, vectors);
    for (uint32_t e = 0; e < seq->n && seq->places[e] * QSF_KV_BLOCK <= last; e++) {
        const uint32_t at = seq->places[e] * QSF_KV_BLOCK;
        if (view_misses(&view, at, QSF_KV_BLOCK, rows[0].pos) && at <= rows[0].pos) continue;       /* the rows behind it see no more of what is past */
        /* Whole vectors of any set, what is too much masked: then sums have one order, and a row's result does not depend on the rows beside it. */
        const size_t n = QSF_MIN(QSF_KV_BLOCK, qsf_round_up(last + 1 - at, 16));
        const uint8_t *rec = qsf_kv_record(&c->kv, c->kv_layer, seq->blocks[e], kv);
        layout->ops->scores(layout, &c->k, &a.work, rec, n);
        if (bias) qsf_bias_scores(c, a.work.s, a.bias, a.work.q, a.bias_work, vectors, seq->places[e], n);
        for (size_t r = 0; r < g.n; r++) softmax_row(c, &a, r * rep, rep, e, at, n, rows[r].pos, &view);
        layout->ops->sum(layout, &c->k, &a.work, rec, n);
    }
    qsf_heat_end(&a.heat, a.m, a.l);
    for (size_t v = 0; v < vectors; v++) {
        c->k.vec_scale(a.work.o + v * hd, 1 / a.l[v], hd);
        if (qsf_kv_packed(c->kv.layout.v_bits)) c->k.hadamard_inplace(a.work.o + v * hd, hd, 1);        /* its own inverse */
    }
    for (size_t r = 0; r < g.n; r++) memcpy(c->b.att + (g.first + r) * c->b.ld_q + kv * rep * hd, a.work.o + r * rep * hd, rep * hd * sizeof(float));
}

/* ---- a layer ---- */

/* What the pieces of a layer's jobs know. */
typedef struct layer_run {
    qsf_context *c;
    uint32_t     layer;
    uint64_t     clock;         /* for the statistics */
    qsf_act      in, att, ff;   /* the rows' activations: of n_embd, heads, n_ff columns */
    size_t       items;         /* of the job under way, which its pieces share */
    uint32_t     n_pieces;
    float       *out_of;        /* project_out: input, */
    size_t       ld_out_of;
    qsf_act     *out_act;       /* the same quantised, */
    int          out, out_bias; /* matrix and bias */
} layer_run;

/* The time since the last call goes to the account. */
static void book(layer_run *run, uint64_t *account)
{
    const uint64_t now = qsf_now(run->c->platform);
    *account += now - run->clock;
    run->clock = now;
}

/* A job of so many items; nothing of it is still under way when this returns. */
static void share_out(layer_run *run, size_t items, void (*fn)(void *, uint32_t, uint32_t), uint64_t *account)
{
    const qsf_context *c = run->c;
    const uint32_t most = 4 * qsf_pool_pieces(c->pool, items);
    run->items = items;
    run->n_pieces = qsf_pool_pieces(c->pool, items);
    if (c->n_rows > QSF_ATTENTION_ROWS) run->n_pieces = (uint32_t)QSF_MIN(QSF_MIN(most, items), QSF_POOL_PIECES);     /* a piece of a prompt is long */
    qsf_pool_run(c->pool, run->n_pieces, c->n_rows, fn, run);
    book(run, account);
}
static qsf_range share_mine(const layer_run *run, uint32_t piece) { return qsf_range_of(run->items, piece, run->n_pieces); }

static void quantize_rows(const qsf_context *c, const qsf_act *a, const float *x, size_t ldx, size_t cols, qsf_range rows)
{
    for (size_t r = rows.begin; r < rows.end; r++) c->k.quantize_act((qsf_act *)a, r, x + r * ldx, cols);
}

static void attention_norm(void *arg, uint32_t thread, uint32_t piece)
{
    const layer_run *run = arg;
    const qsf_context *c = run->c;
    const qsf_weights *w = c->w;
    const qsf_range rows = share_mine(run, piece);
    const size_t n_embd = c->hp->n_embd;
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++)
        norm(c, c->b.xn + r * c->b.ld_embd, c->b.x + r * c->b.ld_embd, w->v[QSF_K_ATTN_NORM], w->v[QSF_K_ATTN_NORM_BIAS], n_embd);
    if (uses_act(c, &w->m[QSF_K_ATTN_Q]) || uses_act(c, &w->m[QSF_K_ATTN_K]) || uses_act(c, &w->m[QSF_K_ATTN_V]))
        quantize_rows(c, &run->in, c->b.xn, c->b.ld_embd, n_embd, rows);
}

static const int QKV[3] = { QSF_K_ATTN_Q, QSF_K_ATTN_K, QSF_K_ATTN_V };

static void project_qkv(void *arg, uint32_t thread, uint32_t piece)
{
    static const int biases[3] = { QSF_K_ATTN_Q_BIAS, QSF_K_ATTN_K_BIAS, QSF_K_ATTN_V_BIAS };
    const layer_run *run = arg;
    const qsf_context *c = run->c;
    float *const out[3] = { c->b.q, c->b.k, c->b.v };
    const size_t ld[3] = { c->b.ld_q, c->b.ld_kv, c->b.ld_kv };
    const qsf_range mine = share_mine(run, piece);
    size_t at = 0;
    for (int i = 0; i < 3; i++) {
        const qsf_matrix *m = &c->w->m[QKV[i]];
        const qsf_range tiles = share_cut(mine, at, tiles_of(m));
        multiply(c, m, c->b.xn, c->b.ld_embd, &run->in, c->n_rows, out[i], ld[i], tiles, thread);
        add_bias(c, c->w->v[biases[i]], m->t.rows, out[i], ld[i], c->n_rows, tiles);
        at += tiles_of(m);
    }
}

static void place_heads(void *arg, uint32_t thread, uint32_t piece)
{
    const layer_run *run = arg;
    const qsf_hparams *hp = run->c->hp;
    const size_t heads = hp->n_heads + hp->n_kv_heads;
    const qsf_range mine = share_mine(run, piece);
    (void)thread;
    for (size_t i = mine.begin; i < mine.end; i++) place_head(run->c, run->layer, (uint32_t)(i / heads), (uint32_t)(i % heads));
}

/* Later groups see more: they come first. */
static void attend_heads(void *arg, uint32_t thread, uint32_t piece)
{
    const layer_run *run = arg;
    const qsf_context *c = run->c;
    const qsf_range mine = share_mine(run, run->n_pieces - 1 - piece);
    for (size_t i = mine.begin; i < mine.end; i++)
        attend(c, run->layer, c->groups[i / c->hp->n_kv_heads], (uint32_t)(i % c->hp->n_kv_heads), thread);
}

/* Both at once, where a group sees no key of another one of the batch. */
static void place_and_attend(void *arg, uint32_t thread, uint32_t piece)
{
    const layer_run *run = arg;
    const qsf_context *c = run->c;
    const uint32_t n_kv = c->hp->n_kv_heads, rep = c->hp->n_heads / n_kv;
    const qsf_range mine = share_mine(run, piece);
    for (size_t i = mine.begin; i < mine.end; i++) {
        const qsf_row_group g = c->groups[i / n_kv];
        const uint32_t kv = (uint32_t)(i % n_kv);
        for (uint32_t r = g.first; r < g.first + g.n; r++) {
            for (uint32_t h = 0; h < rep; h++) place_head(c, run->layer, r, kv * rep + h);
            place_head(c, run->layer, r, c->hp->n_heads + kv);
        }
        attend(c, run->layer, g, kv, thread);
    }
}

static void quantize_attention(void *arg, uint32_t thread, uint32_t piece)
{
    const layer_run *run = arg;
    const qsf_context *c = run->c;
    (void)thread;
    quantize_rows(c, &run->att, c->b.att, c->b.ld_q, (size_t)c->hp->n_heads * c->hp->head_dim, share_mine(run, piece));
}

/* tmp = in . m + bias. */
static void project_out(void *arg, uint32_t thread, uint32_t piece)
{
    const layer_run *run = arg;
    const qsf_context *c = run->c;
    const qsf_matrix *m = &c->w->m[run->out];
    const qsf_range tiles = share_mine(run, piece);
    multiply(c, m, run->out_of, run->ld_out_of, run->out_act, c->n_rows, c->b.tmp, c->b.ld_embd, tiles, thread);
    add_bias(c, c->w->v[run->out_bias], m->t.rows, c->b.tmp, c->b.ld_embd, c->n_rows, tiles);
}

/* x += tmp, through the post norm where the model has one. */
static void add_residual(const qsf_context *c, size_t row, const float *post_norm)
{
    float *x = c->b.x + row * c->b.ld_embd, *t = c->b.tmp + row * c->b.ld_embd;
    if (post_norm) norm(c, t, t, post_norm, NULL, c->hp->n_embd);
    c->k.vec_add(x, x, t, c->hp->n_embd);
}

static void feed_forward_norm(void *arg, uint32_t thread, uint32_t piece)
{
    const layer_run *run = arg;
    const qsf_context *c = run->c;
    const qsf_weights *w = c->w;
    const qsf_range rows = share_mine(run, piece);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        add_residual(c, r, w->v[QSF_K_ATTN_POST_NORM]);
        norm(c, c->b.xn + r * c->b.ld_embd, c->b.x + r * c->b.ld_embd, w->v[QSF_K_FFN_NORM], w->v[QSF_K_FFN_NORM_BIAS], c->hp->n_embd);
    }
    if (uses_act(c, &w->m[QSF_K_FFN_UP]) || uses_act(c, &w->m[QSF_K_FFN_GATE]))
        quantize_rows(c, &run->in, c->b.xn, c->b.ld_embd, c->hp->n_embd, rows);
}

static void feed_forward(void *arg, uint32_t thread, uint32_t piece)
{
    const layer_run *run = arg;
    const qsf_context *c = run->c;
    const qsf_matrix *up = &c->w->m[QSF_K_FFN_UP], *gate = &c->w->m[QSF_K_FFN_GATE];
    const qsf_range tiles = share_mine(run, piece);
    const size_t begin = tiles.begin * QSF_TILE_ROWS, end = QSF_MIN(tiles.end * QSF_TILE_ROWS, up->t.rows);
    multiply(c, up, c->b.xn, c->b.ld_embd, &run->in, c->n_rows, c->b.up, c->b.ld_ff, tiles, thread);
    add_bias(c, c->w->v[QSF_K_FFN_UP_BIAS], up->t.rows, c->b.up, c->b.ld_ff, c->n_rows, tiles);
    if (c->hp->gated) {
        multiply(c, gate, c->b.xn, c->b.ld_embd, &run->in, c->n_rows, c->b.gate, c->b.ld_ff, tiles, thread);
        add_bias(c, c->w->v[QSF_K_FFN_GATE_BIAS], gate->t.rows, c->b.gate, c->b.ld_ff, c->n_rows, tiles);
    }
    for (size_t j = 0; begin < end && j < c->n_rows; j++) {
        float *u = c->b.up + j * c->b.ld_ff + begin, *g = c->b.gate + j * c->b.ld_ff + begin;
        if (c->hp->gated) {
            activate_gated(c, g, u, end - begin);
        } else {
            memcpy(g, u, (end - begin) * sizeof(float));
            activate(c, g, end - begin);
        }
    }
}

static void quantize_feed_forward(void *arg, uint32_t thread, uint32_t piece)
{
    const layer_run *run = arg;
    const qsf_context *c = run->c;
    (void)thread;
    quantize_rows(c, &run->ff, c->b.gate, c->b.ld_ff, c->hp->n_ff, share_mine(run, piece));
}

static void layer_residual(void *arg, uint32_t thread, uint32_t piece)
{
    const layer_run *run = arg;
    qsf_context *c = run->c;
    const qsf_range rows = share_mine(run, piece);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        add_residual(c, r, c->w->v[QSF_K_FFN_POST_NORM]);
        if (!qsf_all_finite(c->b.x + r * c->b.ld_embd, c->hp->n_embd)) atomic_store_explicit(&c->not_finite, true, memory_order_relaxed);
    }
}

static void layer_attention(layer_run *run)
{
    qsf_context *c = run->c;
    const qsf_hparams *hp = c->hp;
    uint64_t *const matmul = &c->stats.ns_matmul, *const attention = &c->stats.ns_attention, *const other = &c->stats.ns_other;
    size_t tiles = 0;
    for (int i = 0; i < 3; i++) tiles += tiles_of(&c->w->m[QKV[i]]);
    share_out(run, c->n_rows, attention_norm, other);
    share_out(run, tiles, project_qkv, matmul);
    if (c->groups_apart) {
        share_out(run, (size_t)c->n_groups * hp->n_kv_heads, place_and_attend, attention);
    } else {
        share_out(run, (size_t)c->n_rows * (hp->n_heads + hp->n_kv_heads), place_heads, other);
        share_out(run, (size_t)c->n_groups * hp->n_kv_heads, attend_heads, attention);
    }
    if (uses_act(c, &c->w->m[QSF_K_ATTN_OUT])) share_out(run, c->n_rows, quantize_attention, other);
    run->out = QSF_K_ATTN_OUT;
    run->out_bias = QSF_K_ATTN_OUT_BIAS;
    run->out_of = c->b.att;
    run->ld_out_of = c->b.ld_q;
    run->out_act = &run->att;
    share_out(run, tiles_of(&c->w->m[QSF_K_ATTN_OUT]), project_out, matmul);
}

static void layer_feed_forward(layer_run *run)
{
    qsf_context *c = run->c;
    uint64_t *const matmul = &c->stats.ns_matmul, *const other = &c->stats.ns_other;
    share_out(run, c->n_rows, feed_forward_norm, other);
    share_out(run, tiles_of(&c->w->m[QSF_K_FFN_UP]), feed_forward, matmul);
    if (uses_act(c, &c->w->m[QSF_K_FFN_DOWN])) share_out(run, c->n_rows, quantize_feed_forward, other);
    run->out = QSF_K_FFN_DOWN;
    run->out_bias = QSF_K_FFN_DOWN_BIAS;
    run->out_of = c->b.gate;
    run->ld_out_of = c->b.ld_ff;
    run->out_act = &run->ff;
    share_out(run, tiles_of(&c->w->m[QSF_K_FFN_DOWN]), project_out, matmul);
    share_out(run, c->n_rows, layer_residual, other);
}

void qsf_forward_layer(qsf_context *c, uint32_t layer, const qsf_weights *w)
{
    const qsf_hparams *hp = c->hp;
    layer_run run = { .c = c, .layer = layer, .clock = qsf_now(c->platform) };
    c->w = w;
    c->kv_layer = qsf_layers_run(c->model->source, c->o.quality, layer);
    run.in = act_view(c, hp->n_embd, c->n_rows);
    run.att = act_view(c, (size_t)hp->n_heads * hp->head_dim, c->n_rows);
    run.ff = act_view(c, hp->n_ff, c->n_rows);
    layer_attention(&run);
    layer_feed_forward(&run);
}

/* ---- the two ends ---- */

void qsf_forward_embed(qsf_context *c, uint32_t r, const qsf_tensor *embd, uint32_t row, const qsf_tensor *pos)
{
    const qsf_hparams *hp = c->hp;
    const qsf_batch_row *b = &c->rows[r];
    float *x = c->b.x + r * c->b.ld_embd;
    qsf_dequant_rows(embd, row, 1, x);
    const qsf_embd_clusters *clusters = c->model->source->embd_clusters;
    if (clusters) {
        qsf_dequant_rows(&clusters->centroids, clusters->of[b->token], 1, c->b.tmp);
        c->k.vec_add(x, x, c->b.tmp, hp->n_embd);
    }
    if (hp->embd_scale > 0 && hp->embd_scale != 1) c->k.vec_scale(x, hp->embd_scale, hp->n_embd);
    if (pos) {
        qsf_dequant_rows(pos, b->pos, 1, c->b.tmp);
        c->k.vec_add(x, x, c->b.tmp, hp->n_embd);
    }
    qsf_forward_angles(c, r);
}

void qsf_forward_angles(qsf_context *c, uint32_t r)
{
    for (int i = 0; i < 2 && c->hp->rope != QSF_ROPE_NONE; i++) {
        const size_t half = c->rope[i].half;
        qsf_rope_angles(&c->rope[i], c->rows[r].pos, c->b.cos[i] + r * half, c->b.sin[i] + r * half);
    }
}

void qsf_forward_product(const qsf_context *c, const qsf_matrix *m, uint32_t j, uint32_t n, float *y, size_t ldy, qsf_range tiles, uint32_t thread)
{
    qsf_act act = act_view(c, c->hp->n_embd, n);
    act.q += (size_t)j * act.cols;
    act.d += (size_t)j * act.cols / 64;
    act.s += (size_t)j * act.cols / 32;
    act.h += (size_t)j * act.cols / 8;
    multiply(c, m, c->b.xn + j * c->b.ld_embd, c->b.ld_embd, &act, n, y, ldy, tiles, thread);
}

void qsf_forward_logits(const qsf_context *c, const qsf_matrix *m, uint32_t j, uint32_t n, qsf_range tiles, uint32_t thread)
{
    float *logits = c->b.logits + j * c->b.ld_vocab + c->head_row;
    qsf_forward_product(c, m, j, n, logits, c->b.ld_vocab, tiles, thread);
    const float *bias = c->w_final->v[QSF_K_OUTPUT_BIAS];
    add_bias(c, bias ? bias + c->head_row : NULL, m->t.rows, logits, c->b.ld_vocab, n, tiles);
    const size_t begin = tiles.begin * QSF_TILE_ROWS, end = QSF_MIN(tiles.end * QSF_TILE_ROWS, m->t.rows);
    for (size_t i = 0; c->hp->final_softcap > 0 && begin < end && i < n; i++)
        c->k.softcap_inplace(logits + i * c->b.ld_vocab + begin, c->hp->final_softcap, end - begin);
}

typedef struct logits_run {
    const qsf_context *c;
    const qsf_matrix  *m;
    uint32_t           n, n_pieces;
} logits_run;

static void logits_piece(void *arg, uint32_t thread, uint32_t piece)
{
    const logits_run *run = arg;
    qsf_forward_logits(run->c, run->m, 0, run->n, qsf_range_of(tiles_of(run->m), piece, run->n_pieces), thread);
}

void qsf_forward_logits_run(const qsf_context *c, const qsf_matrix *m, uint32_t n)
{
    logits_run run = { c, m, n, qsf_pool_pieces(c->pool, tiles_of(m)) };
    qsf_pool_run(c->pool, run.n_pieces, n, logits_piece, &run);
}

void qsf_forward_head(qsf_context *c, const qsf_matrix *head, uint32_t head_row, bool first)
{
    const uint64_t begin = qsf_now(c->platform);
    const qsf_weights *w = c->w_final;
    const bool approximate = qsf_head_wanted(c);
    uint32_t j = 0;
    for (uint32_t r = 0; first && r < c->n_rows; r++) {
        if (c->rows[r].logits < 0) continue;
        norm(c, c->b.xn + j++ * c->b.ld_embd, c->b.x + r * c->b.ld_embd, w->v[QSF_K_OUTPUT_NORM], w->v[QSF_K_OUTPUT_NORM_BIAS], c->hp->n_embd);
    }
    if (first && (approximate || uses_act(c, head))) {
        const qsf_act act = act_view(c, c->hp->n_embd, c->n_asked);
        quantize_rows(c, &act, c->b.xn, c->b.ld_embd, c->hp->n_embd, (qsf_range){ 0, c->n_asked });
    }
    c->head = head;
    c->head_row = head_row;
    if (approximate) {
        qsf_head_run(c, head);
    } else {
        qsf_forward_logits_run(c, head, c->n_asked);
        c->stats.ns_head += qsf_now(c->platform) - begin;
        qsf_head_order(c);
    }
}
