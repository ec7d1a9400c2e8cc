/* Attention: q, k, v -> rotate, append to the KV cache -> attention of each group -> output.
 * SPDX-License-Identifier: MIT */
#include "layers/attention.h"
#include "layers/kv_codes.h"
#include "layers/latent.h"
#include "layers/product.h"

/* ---- whole rows ---- */

/* Copies queries to q without their gates, which stay in mix: a head's gate follows its query. */
static void part_queries(const qsf_pass *p, const qsf_task *t)
{
    const qsf_buffers *b = p->b;
    const size_t hd = p->layer->head_dim, heads = p->layer->n_heads;
    for (size_t r = t->begin; r < t->end; r++)
        for (size_t h = 0; h < heads; h++)
            memcpy(b->q + r * b->ld_q + h * hd, b->mix + r * b->ld_mix + 2 * h * hd, hd * sizeof *b->q);
}

static void gate_sums(const qsf_pass *p, size_t r)
{
    const size_t hd = p->layer->head_dim;
    float *y = p->b->att + r * p->b->ld_q;
    const float *gates = p->b->mix + r * p->b->ld_mix + hd;
    for (size_t h = 0; h < p->layer->n_heads; h++)
        for (size_t i = 0; i < hd; i++) y[h * hd + i] /= 1 + (float)exp(-gates[2 * h * hd + i]);
}

/* What the model does with whole rows of queries, keys and values. */
static void ready_qkv(const qsf_pass *p, const qsf_task *t)
{
    const qsf_layer *l = p->layer;
    float *const x[3] = { p->b->q, p->b->k, p->b->v };
    const size_t ld[3] = { p->b->ld_q, p->b->ld_kv, p->b->ld_kv };
    const float *const weight[3] = { p->w->v[QSF_K_Q_NORM], p->w->v[QSF_K_K_NORM], NULL };
    const float *const bias[3] = { p->w->v[QSF_K_Q_NORM_BIAS], p->w->v[QSF_K_K_NORM_BIAS], NULL };
    for (size_t r = t->begin; r < t->end; r++)
        for (int i = 0; i < 3; i++) {
            float *y = x[i] + r * ld[i];
            const size_t n = (size_t)(i ? l->n_kv_heads : l->n_heads) * (i < 2 ? l->head_dim : l->value_dim);
            if (l->qkv_clamp > 0) qsf_pass_check(p, y, n);
            for (size_t c = 0; l->qkv_clamp > 0 && c < n; c++)
                y[c] = QSF_MIN(QSF_MAX(y[c], -l->qkv_clamp), l->qkv_clamp);
            if (l->qk_norm == QSF_QK_ALL && weight[i]) qsf_pass_norm(p, l->norm, y, y, weight[i], bias[i], n);
        }
}

/* The buffer with what all heads' attention has made of the rows, and its columns. */
static qsf_view attention_out(const qsf_layer *l)
{
    const bool latent = l->kv_latent != 0;
    return (qsf_view){ .buffer = latent ? QSF_BUF_Q : QSF_BUF_ATT,
                       .cols = l->n_heads * (latent ? l->head_value : l->value_dim) };
}

/* The gates of the sums of all heads and their norm, if the model has one. */
static void end_attention(const qsf_pass *p, const qsf_task *t)
{
    const float *weight = p->w->v[QSF_K_ATTN_SUB_NORM];
    float *from = p->layer->kv_latent ? p->b->q : p->b->att;
    for (size_t r = t->begin; r < t->end; r++) {
        float *x = from + r * p->b->ld_q;
        if (p->layer->attn_gate) gate_sums(p, r);
        if (weight) qsf_pass_norm(p, p->layer->norm, x, x, weight, NULL, attention_out(p->layer).cols);
    }
}

/* ---- heads of a row ---- */

/* NULL: nothing is rotated. */
static const qsf_rope *rope_of(const qsf_pass *p)
{
    return p->layer->rope == QSF_NO_ROPE ? NULL : &p->cpu->ropes[p->layer->rope];
}

/* The bias that keys of this head are stored without, NULL: none. */
static const float *bias_apart(const qsf_pass *p, uint32_t kv)
{
    const bool apart = p->cpu->key_bias->steps && rope_of(p) && !p->w->v[QSF_K_K_NORM];
    const float *bias = apart ? p->w->v[QSF_K_ATTN_K_BIAS] : NULL;
    return bias ? bias + (size_t)kv * p->layer->head_dim : NULL;
}

static void rotate(const qsf_pass *p, float *x, uint32_t row)
{
    const qsf_rope *r = rope_of(p);
    if (!r) return;
    const size_t at = (size_t)row * r->half;
    p->k->rope_apply(x, 1, p->layer->head_dim, r->half, r->cos + at, r->sin + at, r->pairs);
}

/* Mixed in queries as in keys, which changes none of their products and spreads the few large
 * channels of a key, so that one scale fits all better (QuaRot, Ashkboos et al. 2024,
 * arXiv:2404.00456); eight apart is faster and does for 8 bits without biases. */
static void mix(const qsf_pass *p, float *x)
{
    const bool all = p->w->v[QSF_K_ATTN_K_BIAS] || qsf_kv_packed(p->cpu->kv->layout.k_bits);
    p->k->hadamard_inplace(x, p->layer->head_dim, all ? 1 : 8);
}

/* A head's norm, if the model has one; then its rotation, or the two the other way round. */
static void norm_and_rotate(const qsf_pass *p, float *x, const float *weight, uint32_t row, uint32_t head)
{
    const qsf_layer *l = p->layer;
    const uint8_t how = l->qk_norm;
    if (how == QSF_QK_ROTATED) rotate(p, x, row);
    if (weight && how == QSF_QK_EACH) weight += (size_t)head * l->head_dim;
    if (weight && how != QSF_QK_ALL) qsf_pass_norm(p, l->norm, x, x, weight, NULL, l->head_dim);
    if (how != QSF_QK_ROTATED) rotate(p, x, row);
}

static void place_query(const qsf_pass *p, uint32_t row, uint32_t head)
{
    const size_t hd = p->layer->head_dim;
    float *q = p->b->q + row * p->b->ld_q + head * hd;
    norm_and_rotate(p, q, p->w->v[QSF_K_Q_NORM], row, head);
    if (p->layer->temp_scale != 0) {
        const double far = 1 + floor((double)p->batch->rows[row].pos / p->layer->temp_every);
        p->k->vec_scale(q, (float)(1 + p->layer->temp_scale * log(far)), hd);
    }
    qsf_pass_check(p, q, hd);
    if (p->cpu->kv->layout.k_bits) mix(p, q);
}

/* Norm, rotation and storing of one key and its value. */
static void place_key(const qsf_pass *p, uint32_t row, uint32_t kv)
{
    const size_t hd = p->layer->head_dim, at = row * p->b->ld_kv + kv * hd;
    const qsf_batch_row *b = &p->batch->rows[row];
    const float *weight = p->w->v[QSF_K_K_NORM], *bias = p->w->v[QSF_K_ATTN_K_BIAS];
    const float *apart = bias_apart(p, kv);
    float *k = p->b->k + at, *v = p->b->v + at;
    if (p->layer->kv_from) return;
    if (p->layer->v_norm) qsf_pass_norm(p, p->layer->norm, v, v, NULL, NULL, hd);
    for (size_t i = 0; apart && i < hd; i++) k[i] -= apart[i];
    norm_and_rotate(p, k, weight, row, kv);
    qsf_pass_check(p, k, hd);
    qsf_pass_check(p, v, hd);
    if (p->cpu->kv->layout.k_bits) {
        if (bias && !weight && !apart) qsf_bias_still(k, bias + kv * hd, hd, rope_of(p));
        mix(p, k);
    }
    /* attend() takes the mixture back from the sum. */
    if (qsf_kv_packed(p->cpu->kv->layout.v_bits)) p->k->hadamard_inplace(v, hd, 1);
    if (hd < p->cpu->kv->layout.head_dim) {
        float wide[2][QSF_MAX_HEAD_DIM];
        memset(wide, 0, sizeof wide);
        memcpy(wide[0], k, hd * sizeof *k);
        memcpy(wide[1], v, hd * sizeof *v);
        qsf_kv_store(p->cpu->kv, p->k, p->place.kv, &p->cpu->seqs[b->seq], b->pos, kv, wide[0], wide[1]);
        return;
    }
    qsf_kv_store(p->cpu->kv, p->k, p->place.kv, &p->cpu->seqs[b->seq], b->pos, kv, k, v);
}

/* ---- what a row sees ---- */

/* The positions that a row attends to: the last `window` (0: all) and, if the window is the KV
 * cache's, the first `sinks` as far as `far` (the model's own window; 0: none) reaches them.  In an
 * encoder, rows see half the window on each side, in an input whose last position is `last`. */
typedef struct attention_view { uint32_t window, sinks, far; bool both; uint32_t last; } attention_view;

static attention_view layer_view(const qsf_pass *p, uint32_t seq)
{
    const uint32_t own = p->layer->window, kept = p->o->kv_window;
    if (p->layer->both_ways)
        return (attention_view){ .window = own, .far = own, .both = true,
                                 .last = p->cpu->seqs[seq].length - 1 };
    /* With heavy hitters: whatever is there. */
    if (!kept || p->o->kv_heavy || (own && own <= kept)) return (attention_view){ .window = own, .far = own };
    return (attention_view){ .window = kept, .sinks = p->o->kv_sinks, .far = own };
}
static uint32_t window_begin(uint32_t pos, uint32_t window)
{
    return window && pos + 1 > window ? pos + 1 - window : 0;
}
/* Converts the view of the row at *pos to that of a causal row, whose position becomes *pos. */
static attention_view view_of_row(const attention_view *w, uint32_t *pos)
{
    attention_view v = *w;
    if (!w->both) return v;
    const uint32_t half = w->window / 2, begin = w->window && *pos > half ? *pos - half : 0;
    *pos = w->window && half < w->last - *pos ? *pos + half : w->last;
    v.window = v.far = *pos + 1 - begin;
    return v;
}
/* Whether the row at pos sees nothing of the block at [at, at + n). */
static bool view_misses(const attention_view *w, uint32_t at, size_t n, uint32_t pos)
{
    if (at > pos || at + n <= window_begin(pos, w->far)) return true;
    return at + n <= window_begin(pos, w->window) && at >= w->sinks;
}
/* Whether all rows of a group, whose positions rise, see the whole block at [at, at + n). */
static bool view_is_whole(const qsf_pass *p, const attention_view *w, qsf_row_group g, uint32_t at, size_t n)
{
    const qsf_batch_row *rows = &p->batch->rows[g.first];
    return !w->both && at + n <= (size_t)rows[0].pos + 1 && at >= window_begin(rows[g.n - 1].pos, w->window);
}
static void view_mask(const qsf_pass *p, const attention_view *w, float *s, size_t n, uint32_t at,
                      uint32_t pos)
{
    const uint32_t first = window_begin(pos, w->window);
    if (at >= first && at + n <= (size_t)pos + 1) return;
    p->k->causal_mask_apply(s, n, at, pos, at < w->sinks ? w->far : w->window);
    for (uint32_t i = w->sinks; at < w->sinks && i < first && i < at + n; i++) s[i - at] = -INFINITY;
}

/* ---- attention ---- */

/* What one thread computes attention in: up to QSF_ATTENTION_ROWS rows times the query heads that
 * share a key-value head. */
typedef struct attention_scratch {
    qsf_kv_work work;
    float   *m, *l;             /* [vectors] running maximum and sum of the softmax */
    /* [vectors][head_dim], [vectors][QSF_KV_BLOCK] and [head_dim]: where keys have lost their
     * bias */
    float   *bias, *bias_work;
    qsf_kv_counts counts;
    attention_view view;
    uint32_t    head;           /* the first one of the vectors */
} attention_scratch;

/* The same for all layers: keys and values have records of one size. */
static size_t attention_floats(const qsf_source *s, const qsf_context_options *o)
{
    const size_t vectors = (size_t)QSF_ATTENTION_ROWS * s->most.share, hd = s->most.head_dim;
    const size_t codes = vectors * (qsf_kv_dim(hd) + QSF_KV_BLOCK) / sizeof(float);
    const size_t unpacked = qsf_kv_scratch((uint32_t)hd) / sizeof(float);
    const size_t bias = qsf_bias_apart(s, o->kv_type) ? vectors * (hd + QSF_KV_BLOCK) + hd : 0;
    return (size_t)qsf_round_up(vectors * (2 * hd + QSF_KV_BLOCK + 6) + codes + bias + unpacked, 16);
}

static attention_scratch scratch_of(const qsf_pass *p, uint32_t seq, uint32_t thread)
{
    const size_t share = p->layer->n_heads / p->layer->n_kv_heads, hd = p->cpu->kv->layout.head_dim;
    const size_t vectors = QSF_ATTENTION_ROWS * share;
    float *own = p->b->scratch + thread * p->b->ld_scratch;
    attention_scratch a = { .view = layer_view(p, seq), .work.scale = p->layer->attn_scale };
    qsf_kv_work *w = &a.work;
    w->unpacked = (uint8_t *)own;
    w->q = own + qsf_kv_scratch((uint32_t)hd) / sizeof(float);
    w->o = w->q + vectors * hd;
    w->s = w->o + vectors * hd;
    a.m = w->s + vectors * QSF_KV_BLOCK;
    a.l = a.m + vectors;
    w->factor = a.l + vectors;
    w->qd = w->factor + vectors;
    w->pd = w->qd + vectors;
    w->qs = (int32_t *)(void *)(w->pd + vectors);
    w->qc = (int8_t *)(w->qs + vectors);
    w->pc = (uint8_t *)w->qc + vectors * qsf_kv_dim(hd);
    a.bias = (float *)(void *)(w->pc + vectors * QSF_KV_BLOCK);
    a.bias_work = a.bias + vectors * hd;
    return a;
}

/* What ALiBi (Press et al. 2021, arXiv:2108.12409) takes from a head's score for each position in
 * between. */
static float alibi_slope(const qsf_layer *l, uint32_t head)
{
    uint32_t even = 1;
    while (even * 2 <= l->n_heads) even *= 2;
    const double all = -(double)l->alibi / even;
    return (float)pow(2, head < even ? all * (head + 1) : all / 2 * (2 * (head - even) + 1));
}

static void add_alibi(const qsf_pass *p, float *s, uint32_t head, uint32_t at, size_t n, uint32_t pos)
{
    const float slope = alibi_slope(p->layer, head);
    for (size_t i = 0; i < n; i++) s[i] -= slope * fabsf((float)(at + i) - (float)pos);
}

/* Scores of entry e, the positions [at, at + n), of the vectors of a group's rows: soft cap, mask,
 * one step of the online softmax. */
static void mask_row(const qsf_pass *p, const attention_scratch *a, const attention_view *view, size_t vector,
                     size_t rep, uint32_t at, size_t n, uint32_t pos, uint32_t end)
{
    for (size_t v = vector; v < vector + rep; v++) {
        float *s = a->work.s + v * QSF_KV_BLOCK;
        if (p->layer->alibi > 0) add_alibi(p, s, a->head + (uint32_t)(v - vector), at, n, pos);
        if (p->layer->attn_softcap > 0) p->k->softcap_inplace(s, p->layer->attn_softcap, n);
        view_mask(p, view, s, n, at, end);
    }
}
static void softmax_vectors(const qsf_pass *p, const attention_scratch *a, size_t vector, size_t n_vectors,
                            uint32_t e, size_t n)
{
    const size_t each = a->counts.of ? 1 : n_vectors;
    for (size_t v = vector; v < vector + n_vectors; v += each) {
        const float l = a->l[v];
        p->cpu->kv->layout.ops->softmax(p->k, &a->work, v, each, n, a->m, a->l);
        if (a->counts.of)
            qsf_kv_attention_note(&a->counts, v, e, l, a->work.factor[v], a->m[v], a->l[v]);
    }
}
static void softmax_group(const qsf_pass *p, const attention_scratch *a, qsf_row_group g, uint32_t e,
                          uint32_t at, size_t n)
{
    const size_t rep = p->layer->n_heads / p->layer->n_kv_heads;
    size_t first = 0;           /* of the vectors that the next step is for */
    const bool plain = p->layer->alibi <= 0 && p->layer->attn_softcap <= 0 &&
        view_is_whole(p, &a->view, g, at, n);
    for (size_t r = 0; r < g.n && !plain; r++) {
        const uint32_t pos = p->batch->rows[g.first + r].pos;
        uint32_t end = pos;
        const attention_view view = view_of_row(&a->view, &end);
        if (!view_misses(&view, at, n, end)) {
            mask_row(p, a, &view, r * rep, rep, at, n, pos, end);
            continue;
        }
        softmax_vectors(p, a, first, r * rep - first, e, n);
        first = (r + 1) * rep;
        for (size_t v = r * rep; v < first; v++) {      /* nothing here is for this row */
            memset(a->work.s + v * QSF_KV_BLOCK, 0, n * sizeof(float));
            memset(a->work.pc + v * QSF_KV_BLOCK, 0, QSF_KV_BLOCK);
            a->work.factor[v] = 1;
            a->work.pd[v] = 0;
        }
    }
    softmax_vectors(p, a, first, g.n * rep - first, e, n);
}

/* n vectors, whose lengths may differ in zeros at their ends. */
static void copy_heads(float *to, size_t to_len, const float *from, size_t from_len, size_t n)
{
    const size_t len = QSF_MIN(to_len, from_len);
    for (size_t i = 0; i < n; i++, to += to_len, from += from_len) {
        memcpy(to, from, len * sizeof *to);
        memset(to + len, 0, (to_len - len) * sizeof *to);
    }
}

/* The rows' queries of the heads that share key-value head kv; and back, what these have drawn. */
static void gather_queries(const qsf_pass *p, const attention_scratch *a, qsf_row_group g, uint32_t kv,
                           size_t rep)
{
    const size_t hd = p->layer->head_dim, room = p->cpu->kv->layout.head_dim;
    const float *q = p->b->q + g.first * p->b->ld_q + kv * rep * hd;
    for (size_t r = 0; r < g.n; r++)
        copy_heads(a->work.q + r * rep * room, room, q + r * p->b->ld_q, hd, rep);
}
static void spread_sums(const qsf_pass *p, const attention_scratch *a, qsf_row_group g, uint32_t kv,
                        size_t rep)
{
    const size_t hd = p->layer->head_dim, room = p->cpu->kv->layout.head_dim;
    float *att = p->b->att + g.first * p->b->ld_q + kv * rep * hd;
    for (size_t r = 0; r < g.n; r++)
        copy_heads(att + r * p->b->ld_q, hd, a->work.o + r * rep * room, room, rep);
}

/* Memory takes longer to answer than a block takes to compute, with few heads three of them. */
enum { KV_AHEAD = 4 };

/* Block by block with an online softmax (Milakov and Gimelshein 2018, arXiv:1805.02867), so that no
 * score outlives its block; each block is brought to what kernels take once for all vectors of the
 * group. */
static void attend_blocks(const qsf_pass *p, attention_scratch *a, qsf_row_group g, uint32_t kv,
                          const float *bias)
{
    const qsf_batch_row *rows = &p->batch->rows[g.first];
    const qsf_kv_layout *layout = &p->cpu->kv->layout;
    const qsf_kv_seq *seq = &p->cpu->seqs[rows[0].seq];
    const uint32_t last = a->view.both ? a->view.last : rows[g.n - 1].pos;
    uint32_t begin = rows[0].pos;
    const attention_view first = view_of_row(&a->view, &begin);
    qsf_kv_work *w = &a->work;
    for (uint32_t e = 0; e < seq->n && seq->places[e] * QSF_KV_BLOCK <= last; e++) {
        const uint32_t at = seq->places[e] * QSF_KV_BLOCK;
        /* Later rows see no further back than the first one. */
        if (view_misses(&first, at, QSF_KV_BLOCK, begin) && at <= begin) continue;
        /* Rounded up to whole vectors of every instruction set, with the excess masked: so sums
         * have one order, and a row's result does not depend on the other rows of its group. */
        const size_t n = QSF_MIN(QSF_KV_BLOCK, qsf_round_up(last + 1 - at, 16));
        const uint8_t *record = qsf_kv_record(p->cpu->kv, p->place.kv, seq->blocks[e], kv);
        const uint32_t then = e + KV_AHEAD;
        w->ahead = then < seq->n ? qsf_kv_record(p->cpu->kv, p->place.kv, seq->blocks[then], kv) : NULL;
        layout->ops->scores(layout, p->k, w, record, n);
        if (bias)
            qsf_bias_scores(p->cpu->key_bias, w->s, a->bias, w->q, a->bias_work, w->vectors,
                            seq->places[e], n);
        softmax_group(p, a, g, e, at, n);
        layout->ops->sum(layout, p->k, w, record, n);
    }
}

/* Attention of a group of rows in one key-value head. */
static void attend(const qsf_pass *p, qsf_row_group g, uint32_t kv, uint32_t thread)
{
    const qsf_kv_layout *layout = &p->cpu->kv->layout;
    const size_t hd = layout->head_dim, rep = p->layer->n_heads / p->layer->n_kv_heads, vectors = g.n * rep;
    const uint32_t s = p->batch->rows[g.first].seq;
    const float *bias = bias_apart(p, kv), *sinks = p->w->v[QSF_K_ATTN_SINKS];
    attention_scratch a = scratch_of(p, s, thread);
    a.work.vectors = vectors;
    a.head = kv * (uint32_t)rep;
    gather_queries(p, &a, g, kv, rep);
    memset(a.work.o, 0, vectors * hd * sizeof(float));
    for (size_t v = 0; v < vectors; v++) {
        /* A sink is one score more, of no position. */
        a.m[v] = sinks ? sinks[a.head + v % rep] : -INFINITY;
        a.l[v] = sinks ? 1 : 0;
    }
    layout->ops->begin(layout, p->k, &a.work);
    if (bias) qsf_bias_factors(p->cpu->key_bias, a.bias, a.work.q, vectors, hd, bias, a.work.scale);
    a.counts = qsf_kv_attention_begin(p->cpu->kv_attention, &p->cpu->seqs[s], s, vectors, thread);
    attend_blocks(p, &a, g, kv, bias);
    qsf_kv_attention_end(&a.counts, a.m, a.l);
    for (size_t v = 0; v < vectors; v++) {
        p->k->vec_scale(a.work.o + v * hd, 1 / a.l[v], hd);
        /* The mixture of values is its own inverse. */
        if (qsf_kv_packed(layout->v_bits)) p->k->hadamard_inplace(a.work.o + v * hd, p->layer->head_dim, 1);
    }
    spread_sums(p, &a, g, kv, rep);
}

/* ---- rows of the program ---- */

static bool qkv_changes(const qsf_layer *l, const qsf_weights *w)
{
    const bool norm = w->v[QSF_K_Q_NORM] || w->v[QSF_K_K_NORM];
    return l->qkv_clamp > 0 || (l->qk_norm == QSF_QK_ALL && norm);
}

/* Heads 0 .. n_heads-1 are queries, then come the key-value heads. */
static void place_heads(const qsf_pass *p, const qsf_task *t)
{
    const uint32_t queries = p->layer->n_heads, heads = queries + p->layer->n_kv_heads;
    for (size_t i = t->begin; i < t->end; i++) {
        const uint32_t row = (uint32_t)(i / heads), head = (uint32_t)(i % heads);
        if (head < queries) place_query(p, row, head);
        else place_key(p, row, head - queries);
    }
}

/* Of a group of rows in one key-value head, if no other group sees its keys. */
static void place_group(const qsf_pass *p, qsf_row_group g, uint32_t kv)
{
    const uint32_t rep = p->layer->n_heads / p->layer->n_kv_heads;
    for (uint32_t r = g.first; r < g.first + g.n; r++) {
        for (uint32_t h = 0; h < rep; h++) place_query(p, r, kv * rep + h);
        place_key(p, r, kv);
    }
}

static void attend_groups(const qsf_pass *p, const qsf_task *t)
{
    const uint32_t n_kv = p->layer->n_kv_heads;
    for (size_t i = t->begin; i < t->end; i++) {
        const qsf_row_group g = p->batch->groups[i / n_kv];
        const uint32_t kv = (uint32_t)(i % n_kv);
        if (p->batch->groups_apart) place_group(p, g, kv);      /* else all keys are placed before */
        attend(p, g, kv, t->thread);
    }
}

static void list_qkv(const qsf_layer *l, qsf_program *g)
{
    const qsf_view joined = { .buffer = QSF_BUF_JOINED, .cols = 2 * g->hp->n_embd };
    QSF_ADD(g, .op = QSF_OP_QKV, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES,
            .in = l->eagle ? joined : qsf_stream_view(g, QSF_BUF_XN), .codes = QSF_OP_ATTN_CODES,
            .watch = 1 + QSF_K_ATTN_Q,
            .n = l->kv_from ? 1 : 3, .kinds = { QSF_K_ATTN_Q, QSF_K_ATTN_K, QSF_K_ATTN_V },
            .bias = { QSF_K_ATTN_Q_BIAS, QSF_K_ATTN_K_BIAS, QSF_K_ATTN_V_BIAS },
            .to = { { .buffer = l->attn_gate ? QSF_BUF_MIX : QSF_BUF_Q }, { .buffer = QSF_BUF_K },
                    { .buffer = QSF_BUF_V } }, .fn = qsf_product_row);
}

void qsf_attention_list(const qsf_layer *l, qsf_program *g)
{
    const qsf_view out = attention_out(l), q = { .buffer = QSF_BUF_Q, .cols = l->n_heads * l->head_dim };
    const qsf_view k = { .buffer = QSF_BUF_K, .cols = l->n_kv_heads * l->head_dim };
    const qsf_view v = { .buffer = QSF_BUF_V, .cols = l->n_kv_heads * l->value_dim };
    const qsf_view sums = { .buffer = QSF_BUF_ATT, .cols = l->n_heads * l->value_dim };
    if (l->kv_latent) qsf_latent_list_in(l, g);
    else list_qkv(l, g);
    if (l->attn_gate)
        QSF_ADD(g, .op = QSF_OP_PLACE, .work = QSF_WORK_COPY, .over = QSF_OVER_ROWS, .to = { q },
                .fn = part_queries);
    if (qkv_changes(l, g->w))
        QSF_ADD(g, .op = QSF_OP_PLACE, .work = QSF_WORK_NORM, .over = QSF_OVER_ROWS, .to = { q, k, v },
                .fn = ready_qkv);
    QSF_ADD(g, .op = QSF_OP_PLACE, .work = QSF_WORK_PLACE, .over = QSF_OVER_PLACES, .to = { q, k, v },
            .when = QSF_ROW_GROUPS_MEET, .fn = place_heads);
    /* Later groups see more: they come first. */
    QSF_ADD(g, .op = QSF_OP_ATTENTION, .work = QSF_WORK_ATTEND, .over = QSF_OVER_GROUPS, .backwards = true,
            .to = { q, k, v, sums }, .scratch = attention_floats, .fn = attend_groups);
    if (l->kv_latent) qsf_latent_list_out(l, g);
    if (l->attn_gate || g->w->v[QSF_K_ATTN_SUB_NORM])
        QSF_ADD(g, .op = QSF_OP_ATTN_CODES, .work = QSF_WORK_NORM, .over = QSF_OVER_ROWS, .to = { out },
                .fn = end_attention);
    QSF_ADD(g, .op = QSF_OP_ATTN_OUT, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES, .in = out,
            .codes = QSF_OP_ATTN_CODES, .watch = 1 + QSF_K_ATTN_OUT, .n = 1, .kinds = { QSF_K_ATTN_OUT },
            .bias = { QSF_K_ATTN_OUT_BIAS }, .to = { { .buffer = QSF_BUF_TMP } }, .fn = qsf_product_row);
}
