/* Multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434): all heads' keys and values are
 * made from one short row, the latent, and a few rotary columns; the cache keeps only these.
 * SPDX-License-Identifier: MIT
 *
 * The product of a query with a key made from the latent equals the product of the latent with the
 * query multiplied by the transposed key matrix.  So all heads share one key, [rotary
 * columns][latent], and one value, [zeros][latent], from whose sum each head computes its own.
 * A row of `mix` is what the cache gets, [latent][rotary columns], then the queries' own latent,
 * then queries, [heads][plain columns][rotary columns]; each begins at a whole tile. */
#include "layers/latent.h"
#include "layers/product.h"

/* The columns at which the latents of queries begin, and the queries. */
static uint32_t query_latents_at(const qsf_weights *w) { return qsf_result_columns(w, QSF_K_KV_A); }
static uint32_t queries_at(const qsf_weights *w)
{
    return query_latents_at(w) + qsf_result_columns(w, QSF_K_Q_A);
}

/* Norms of the latents; the key and the value of each row. */
static void ready_latents(const qsf_pass *p, const qsf_task *t)
{
    const qsf_layer *l = p->layer;
    const size_t n = l->kv_latent, turns = l->head_dim - n;
    for (size_t r = t->begin; r < t->end; r++) {
        const float *x = p->b->mix + r * p->b->ld_mix;
        float *q = p->b->mix + r * p->b->ld_mix + query_latents_at(p->w);
        float *k = p->b->k + r * p->b->ld_kv, *v = p->b->v + r * p->b->ld_kv;
        memcpy(k, x + n, turns * sizeof *k);
        memset(v, 0, turns * sizeof *v);
        qsf_pass_norm(p, l->norm, k + turns, x, p->w->v[QSF_K_KV_A_NORM], NULL, n);
        memcpy(v + turns, k + turns, n * sizeof *v);
        if (l->q_latent) qsf_pass_norm(p, l->norm, q, q, p->w->v[QSF_K_Q_A_NORM], NULL, l->q_latent);
    }
}

/* ---- matrices of heads, one below the other ---- */

/* Rows [row, row + n) as floats, as many as a tile has at most. */
static const float *rows_of_head(const qsf_pass *p, const qsf_matrix *m, size_t row, size_t n,
                                 uint32_t thread)
{
    float *w = p->b->float_rows + (size_t)thread * QSF_TILE_ROWS * p->b->max_cols;
    const size_t cols = m->t.cols;
    qsf_dequant_rows(&m->t, (uint32_t)row, (uint32_t)n, w);
    if (m->scale != 1) p->k->vec_scale(w, m->scale, n * cols);
    for (size_t r = 0; m->out_start && r < n; r++)
        for (uint32_t i = m->out_start[row + r]; i < m->out_start[row + r + 1]; i++)
            w[r * cols + m->out_col[i]] += qsf_f16_to_f32(m->out_value[i]);
    return w;
}

/* y[rows][n] = x . rows [row, row + n) of m. */
static void multiply_head(const qsf_pass *p, const qsf_matrix *m, size_t row, size_t n, const float *x,
                          size_t ldx, float *y, uint32_t thread)
{
    for (size_t at = 0; at < n; at += QSF_TILE_ROWS) {
        const size_t rows = QSF_MIN((size_t)QSF_TILE_ROWS, n - at);
        p->k->matmul_f32(y + at, p->b->ld_q, rows_of_head(p, m, row + at, rows, thread), x, ldx, p->batch->n,
                         rows, m->t.cols);
    }
}

/* y[rows] = the sum of rows [row, row + n) of m, weighted by x. */
static void add_rows_of_head(const qsf_pass *p, const qsf_matrix *m, size_t row, size_t n, const float *x,
                             float *y, uint32_t thread)
{
    const size_t cols = m->t.cols;
    for (size_t r = 0; r < p->batch->n; r++) memset(y + r * p->b->ld_q, 0, cols * sizeof *y);
    for (size_t at = 0; at < n; at += QSF_TILE_ROWS) {
        const size_t rows = QSF_MIN((size_t)QSF_TILE_ROWS, n - at);
        const float *w = rows_of_head(p, m, row + at, rows, thread);
        for (size_t r = 0; r < p->batch->n; r++)
            for (size_t i = 0; i < rows; i++) {
                const float times = x[r * p->b->ld_mix + at + i];
                float *to = y + r * p->b->ld_q;
                for (size_t c = 0; c < cols; c++) to[c] += times * w[i * cols + c];
            }
    }
}

/* Multiplies queries by the keys' matrix; the results follow their rotary columns. */
static void absorb_heads(const qsf_pass *p, const qsf_task *t)
{
    const qsf_layer *l = p->layer;
    const size_t plain = l->head_plain, turns = l->head_dim - l->kv_latent;
    for (size_t h = t->begin; h < t->end; h++) {
        const float *x = p->b->mix + queries_at(p->w) + h * (plain + turns);
        float *y = p->b->q + h * l->head_dim;
        for (size_t r = 0; r < p->batch->n; r++)
            memcpy(y + r * p->b->ld_q, x + r * p->b->ld_mix + plain, turns * sizeof *y);
        if (l->latent_joined)
            add_rows_of_head(p, &p->w->m[QSF_K_KV_B], h * (plain + l->head_value), plain, x, y + turns,
                             t->thread);
        else
            multiply_head(p, &p->w->m[QSF_K_KEY_UP], h * l->kv_latent, l->kv_latent, x, p->b->ld_mix,
                          y + turns, t->thread);
    }
}

static void widen_values(const qsf_pass *p, const qsf_task *t)
{
    const qsf_layer *l = p->layer;
    const size_t n = l->head_value, before = l->latent_joined ? l->head_plain : 0;
    const qsf_matrix *m = &p->w->m[l->latent_joined ? QSF_K_KV_B : QSF_K_VALUE_UP];
    for (size_t h = t->begin; h < t->end; h++)
        multiply_head(p, m, h * (before + n) + before, n,
                      p->b->att + (h + 1) * l->head_dim - l->kv_latent, p->b->ld_q, p->b->q + h * n,
                      t->thread);
}

/* ---- rows of the program ---- */

void qsf_latent_list_in(const qsf_layer *l, qsf_program *g)
{
    const qsf_view mix = { .buffer = QSF_BUF_MIX };
    const qsf_view k = { .buffer = QSF_BUF_K, .cols = l->head_dim };
    const qsf_view v = { .buffer = QSF_BUF_V, .cols = l->head_dim };
    const qsf_view q = { .buffer = QSF_BUF_MIX, .cols = l->q_latent, .first = query_latents_at(g->w) };
    QSF_ADD(g, .op = QSF_OP_LATENT, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES,
            .in = qsf_stream_view(g, QSF_BUF_XN), .codes = QSF_OP_ATTN_CODES, .watch = 1 + QSF_K_ATTN_Q,
            .n = 3, .kinds = { QSF_K_KV_A, QSF_K_Q_A, QSF_K_ATTN_Q }, .to = { mix, mix, mix },
            .fn = qsf_product_row);
    QSF_ADD(g, .op = QSF_OP_PLACE, .work = QSF_WORK_NORM, .over = QSF_OVER_ROWS,
            .to = { k, v, l->q_latent ? q : (qsf_view){ 0 } }, .fn = ready_latents);
    if (l->q_latent)
        QSF_ADD(g, .op = QSF_OP_LATENT_QUERIES, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES,
                .in = q, .codes = QSF_OP_ATTN_CODES, .n = 1, .kinds = { QSF_K_Q_B },
                .to = { { .buffer = QSF_BUF_MIX, .first = queries_at(g->w) } }, .fn = qsf_product_row);
    QSF_ADD(g, .op = QSF_OP_LATENT_HEADS, .work = QSF_WORK_HEAD_PRODUCT, .over = QSF_OVER_HEADS,
            .n = 1, .kinds = { l->latent_joined ? QSF_K_KV_B : QSF_K_KEY_UP },
            .to = { { .buffer = QSF_BUF_Q, .cols = l->n_heads * l->head_dim } }, .fn = absorb_heads);
}

void qsf_latent_list_out(const qsf_layer *l, qsf_program *g)
{
    QSF_ADD(g, .op = QSF_OP_LATENT_HEADS, .work = QSF_WORK_HEAD_PRODUCT, .over = QSF_OVER_HEADS,
            .n = 1, .kinds = { l->latent_joined ? QSF_K_KV_B : QSF_K_VALUE_UP },
            .to = { { .buffer = QSF_BUF_Q, .cols = l->n_heads * l->head_value } }, .fn = widen_values);
}
