/* The arithmetic of one step: embedding, a transformer layer, the head.  A layer is a row of jobs;
 * the pool's threads take pieces of each, which are rows, tiles or heads.
 * SPDX-License-Identifier: MIT
 *
 *   x -> norm -> q, k, v -> rotate, append to the KV cache -> attention -> output -> + x
 *   x -> norm -> gate, up -> act(gate) * up -> down -> + x */
#include "attention.h"

static size_t tiles_of(const qsf_matrix *m) { return (m->t.rows + QSF_TILE_ROWS - 1) / QSF_TILE_ROWS; }

/* ---- matrices ---- */

static bool uses_act(const qsf_context *c, const qsf_matrix *m)
{
    return m->t.data && m->form >= 0 && !c->f32;
}

/* Float weights as they lie in the file; false: no kernel takes them.
 * bf16's rounds what it is multiplied with. */
static bool multiply_floats(const qsf_context *c, const qsf_matrix *m, const float *x, size_t ldx, size_t n,
                            float *y, size_t ldy, qsf_share tiles, uint32_t thread)
{
    const size_t row = tiles.begin * QSF_TILE_ROWS,
        rows = QSF_MIN(tiles.end * QSF_TILE_ROWS, m->t.rows) - row, at = row * m->t.cols;
    float *scratch = c->b.strip + (size_t)thread * QSF_TILE_ROWS * c->b.max_cols;
    if ((uintptr_t)m->t.data % sizeof(float)) return false;     /* a file may put them anywhere */
    if (m->t.type == QSF_T_F32)
        c->k.matmul_f32(y + row, ldy, (const float *)m->t.data + at, x, ldx, n, rows, m->t.cols);
    else if (m->t.type == QSF_T_F16)
        c->k.matmul_f16(y + row, ldy, (const uint16_t *)m->t.data + at, x, ldx, n, rows, m->t.cols, scratch);
    else if (m->t.type == QSF_T_BF16 && !c->f32)
        c->k.matmul_bf16(y + row, ldy, (const uint16_t *)m->t.data + at, x, ldx, n, rows, m->t.cols, scratch);
    else return false;
    return true;
}

/* Rows as floats, a strip of 16 at a time: types without a kernel of their own,
 * and float activations. */
static void multiply_rows(const qsf_context *c, const qsf_matrix *m, const float *x, size_t ldx, size_t n,
                          float *y, size_t ldy, qsf_share tiles, uint32_t thread)
{
    float *strip = c->b.strip + (size_t)thread * QSF_TILE_ROWS * c->b.max_cols;
    for (size_t t = tiles.begin; t < tiles.end; t++) {
        const uint32_t row = (uint32_t)t * QSF_TILE_ROWS, rows = QSF_MIN(QSF_TILE_ROWS, m->t.rows - row);
        qsf_dequant_rows(&m->t, row, rows, strip);
        c->k.matmul_f32(y + row, ldy, strip, x, ldx, n, rows, m->t.cols);
    }
}

static void add_outliers(const qsf_matrix *m, const float *x, size_t ldx, size_t n, float *y, size_t ldy,
                         qsf_share tiles)
{
    const size_t end = QSF_MIN(tiles.end * QSF_TILE_ROWS, m->t.rows);
    for (size_t r = tiles.begin * QSF_TILE_ROWS; r < end; r++)
        for (uint32_t i = m->out_start[r]; i < m->out_start[r + 1]; i++) {
            const float w = qsf_f16_to_f32(m->out_value[i]);
            for (size_t j = 0; j < n; j++) y[j * ldy + r] += w * x[j * ldx + m->out_col[i]];
        }
}

/* y[n][ldy] = x . m for the tiles of this share.  x is [n][ldx] floats; act the same rows quantised
 * (only read where uses_act). */
static void multiply(const qsf_context *c, const qsf_matrix *m, const float *x, size_t ldx,
                     const qsf_act *act, size_t n, float *y, size_t ldy, qsf_share tiles, uint32_t thread)
{
    if (tiles.begin >= tiles.end) return;
    if (uses_act(c, m)) {
        const uint8_t *w = (const uint8_t *)m->t.data + tiles.begin * m->blocks
            * qsf_tile_bytes((qsf_form)m->form, m->t.block);
        float *to = y + tiles.begin * QSF_TILE_ROWS;
        if (n == 1) c->k.matvec[m->form](to, w, act, tiles.end - tiles.begin, m->blocks, m->t.block);
        else c->k.matmul[m->form](to, ldy, w, act, tiles.end - tiles.begin, m->blocks, m->t.block);
    } else if (!multiply_floats(c, m, x, ldx, n, y, ldy, tiles, thread)) {
        multiply_rows(c, m, x, ldx, n, y, ldy, tiles, thread);
    }
    if (m->out_start) add_outliers(m, x, ldx, n, y, ldy, tiles);
}

static void add_bias(const qsf_context *c, const float *bias, size_t rows, float *y, size_t ldy, size_t n,
                     qsf_share tiles)
{
    if (!bias || tiles.begin >= tiles.end) return;
    const size_t begin = tiles.begin * QSF_TILE_ROWS, end = QSF_MIN(tiles.end * QSF_TILE_ROWS, rows);
    for (size_t j = 0; j < n; j++)
        c->k.vec_add(y + j * ldy + begin, y + j * ldy + begin, bias + begin, end - begin);
}

/* The part of share s of a concatenation that falls into [at, at + n), counted from at. */
static qsf_share share_cut(qsf_share s, size_t at, size_t n)
{
    const size_t b = s.begin > at ? s.begin - at : 0, e = s.end > at ? s.end - at : 0;
    return (qsf_share){ QSF_MIN(b, n), QSF_MIN(e, n) };
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

static void norm(const qsf_context *c, float *y, const float *x, const float *weight,
                 const float *bias, size_t n)
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

/* ---- a layer ---- */

/* What the pieces of a layer's jobs know. */
typedef struct layer_run {
    qsf_context *c;
    uint32_t     layer;
    uint64_t     clock;         /* for the statistics */
    qsf_act      in, att, ff;   /* the rows' activations: of n_embd, heads, n_ff columns */
    size_t       items;         /* of the job under way, which its pieces share */
    uint32_t     n_pieces;
    struct layer_out {          /* project_out: what is multiplied with which matrix and bias */
        int            matrix, bias;
        const float   *of;
        size_t         ld;
        const qsf_act *act;     /* the same quantised */
    } out;
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
    const uint32_t finer = c->n_rows > QSF_ATTENTION_ROWS ? 4 : 1;     /* a piece of a prompt is long */
    run->items = items;
    run->n_pieces = finer * qsf_pool_pieces(c->pool, items);
    run->n_pieces = (uint32_t)QSF_MIN(QSF_MIN(run->n_pieces, items), QSF_POOL_PIECES);
    qsf_pool_run(c->pool, run->n_pieces, c->n_rows, fn, run);
    book(run, account);
}
static qsf_share share_mine(const layer_run *run, uint32_t piece)
{
    return qsf_share_of(run->items, piece, run->n_pieces);
}

static void quantize_rows(const qsf_context *c, const qsf_act *a, const float *x, size_t ldx, size_t cols,
                          qsf_share rows)
{
    for (size_t r = rows.begin; r < rows.end; r++) c->k.quantize_act((qsf_act *)a, r, x + r * ldx, cols);
}

static void attention_norm(void *arg, uint32_t thread, uint32_t piece)
{
    const layer_run *run = arg;
    const qsf_context *c = run->c;
    const qsf_weights *w = c->w;
    const qsf_share rows = share_mine(run, piece);
    const size_t n_embd = c->hp->n_embd;
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++)
        norm(c, c->b.xn + r * c->b.ld_embd, c->b.x + r * c->b.ld_embd, w->v[QSF_K_ATTN_NORM],
             w->v[QSF_K_ATTN_NORM_BIAS], n_embd);
    if (uses_act(c, &w->m[QSF_K_ATTN_Q]) || uses_act(c, &w->m[QSF_K_ATTN_K])
        || uses_act(c, &w->m[QSF_K_ATTN_V]))
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
    const qsf_share mine = share_mine(run, piece);
    size_t at = 0;
    for (int i = 0; i < 3; i++) {
        const qsf_matrix *m = &c->w->m[QKV[i]];
        const qsf_share tiles = share_cut(mine, at, tiles_of(m));
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
    const qsf_share mine = share_mine(run, piece);
    (void)thread;
    for (size_t i = mine.begin; i < mine.end; i++)
        qsf_attention_place(run->c, run->layer, (uint32_t)(i / heads), (uint32_t)(i % heads));
}

/* Later groups see more: they come first. */
static void attend_heads(void *arg, uint32_t thread, uint32_t piece)
{
    const layer_run *run = arg;
    const qsf_context *c = run->c;
    const qsf_share mine = share_mine(run, run->n_pieces - 1 - piece);
    for (size_t i = mine.begin; i < mine.end; i++)
        qsf_attention_group(c, run->layer, c->groups[i / c->hp->n_kv_heads],
                            (uint32_t)(i % c->hp->n_kv_heads), thread);
}

/* Both at once, where a group sees no key of another one of the batch. */
static void place_and_attend(void *arg, uint32_t thread, uint32_t piece)
{
    const layer_run *run = arg;
    const qsf_context *c = run->c;
    const uint32_t n_kv = c->hp->n_kv_heads, rep = c->hp->n_heads / n_kv;
    const qsf_share mine = share_mine(run, piece);
    for (size_t i = mine.begin; i < mine.end; i++) {
        const qsf_row_group g = c->groups[i / n_kv];
        const uint32_t kv = (uint32_t)(i % n_kv);
        for (uint32_t r = g.first; r < g.first + g.n; r++) {
            for (uint32_t h = 0; h < rep; h++) qsf_attention_place(c, run->layer, r, kv * rep + h);
            qsf_attention_place(c, run->layer, r, c->hp->n_heads + kv);
        }
        qsf_attention_group(c, run->layer, g, kv, thread);
    }
}

static void quantize_attention(void *arg, uint32_t thread, uint32_t piece)
{
    const layer_run *run = arg;
    const qsf_context *c = run->c;
    (void)thread;
    quantize_rows(c, &run->att, c->b.att, c->b.ld_q, (size_t)c->hp->n_heads * c->hp->head_dim,
                  share_mine(run, piece));
}

/* tmp = in . m + bias. */
static void project_out(void *arg, uint32_t thread, uint32_t piece)
{
    const layer_run *run = arg;
    const qsf_context *c = run->c;
    const struct layer_out *out = &run->out;
    const qsf_matrix *m = &c->w->m[out->matrix];
    const qsf_share tiles = share_mine(run, piece);
    multiply(c, m, out->of, out->ld, out->act, c->n_rows, c->b.tmp, c->b.ld_embd, tiles, thread);
    add_bias(c, c->w->v[out->bias], m->t.rows, c->b.tmp, c->b.ld_embd, c->n_rows, tiles);
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
    const qsf_share rows = share_mine(run, piece);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        add_residual(c, r, w->v[QSF_K_ATTN_POST_NORM]);
        norm(c, c->b.xn + r * c->b.ld_embd, c->b.x + r * c->b.ld_embd, w->v[QSF_K_FFN_NORM],
             w->v[QSF_K_FFN_NORM_BIAS], c->hp->n_embd);
    }
    if (uses_act(c, &w->m[QSF_K_FFN_UP]) || uses_act(c, &w->m[QSF_K_FFN_GATE]))
        quantize_rows(c, &run->in, c->b.xn, c->b.ld_embd, c->hp->n_embd, rows);
}

static void feed_forward(void *arg, uint32_t thread, uint32_t piece)
{
    const layer_run *run = arg;
    const qsf_context *c = run->c;
    const qsf_matrix *up = &c->w->m[QSF_K_FFN_UP], *gate = &c->w->m[QSF_K_FFN_GATE];
    const qsf_share tiles = share_mine(run, piece);
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
    const qsf_share rows = share_mine(run, piece);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        add_residual(c, r, c->w->v[QSF_K_FFN_POST_NORM]);
        if (!qsf_all_finite(c->b.x + r * c->b.ld_embd, c->hp->n_embd))
            atomic_store_explicit(&c->not_finite, true, memory_order_relaxed);
    }
}

static void layer_attention(layer_run *run)
{
    qsf_context *c = run->c;
    const qsf_hparams *hp = c->hp;
    uint64_t *const matmul = &c->stats.ns_matmul, *const attention = &c->stats.ns_attention,
        *const other = &c->stats.ns_other;
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
    run->out = (struct layer_out){ QSF_K_ATTN_OUT, QSF_K_ATTN_OUT_BIAS, c->b.att, c->b.ld_q, &run->att };
    share_out(run, tiles_of(&c->w->m[QSF_K_ATTN_OUT]), project_out, matmul);
}

static void layer_feed_forward(layer_run *run)
{
    qsf_context *c = run->c;
    uint64_t *const matmul = &c->stats.ns_matmul, *const other = &c->stats.ns_other;
    share_out(run, c->n_rows, feed_forward_norm, other);
    share_out(run, tiles_of(&c->w->m[QSF_K_FFN_UP]), feed_forward, matmul);
    if (uses_act(c, &c->w->m[QSF_K_FFN_DOWN])) share_out(run, c->n_rows, quantize_feed_forward, other);
    run->out = (struct layer_out){ QSF_K_FFN_DOWN, QSF_K_FFN_DOWN_BIAS, c->b.gate, c->b.ld_ff, &run->ff };
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

void qsf_forward_embed(qsf_context *c, uint32_t r, const qsf_tensor *embd, uint32_t row,
                       const qsf_tensor *pos)
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

void qsf_forward_product(const qsf_context *c, const qsf_matrix *m, uint32_t j, uint32_t n, float *y,
                         size_t ldy, qsf_share tiles, uint32_t thread)
{
    qsf_act act = act_view(c, c->hp->n_embd, n);
    act.q += (size_t)j * act.cols;
    act.d += (size_t)j * act.cols / 64;
    act.s += (size_t)j * act.cols / 32;
    act.h += (size_t)j * act.cols / 8;
    multiply(c, m, c->b.xn + j * c->b.ld_embd, c->b.ld_embd, &act, n, y, ldy, tiles, thread);
}

void qsf_forward_logits(const qsf_context *c, const qsf_matrix *m, uint32_t j, uint32_t n, qsf_share tiles,
                        uint32_t thread)
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
    qsf_forward_logits(run->c, run->m, 0, run->n, qsf_share_of(tiles_of(run->m), piece, run->n_pieces),
                       thread);
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
        norm(c, c->b.xn + j++ * c->b.ld_embd, c->b.x + r * c->b.ld_embd, w->v[QSF_K_OUTPUT_NORM],
             w->v[QSF_K_OUTPUT_NORM_BIAS], c->hp->n_embd);
    }
    if (first && (approximate || uses_act(c, head))) {
        const qsf_act act = act_view(c, c->hp->n_embd, c->n_asked);
        quantize_rows(c, &act, c->b.xn, c->b.ld_embd, c->hp->n_embd, (qsf_share){ 0, c->n_asked });
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
