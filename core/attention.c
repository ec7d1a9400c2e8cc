/* Attention: heads are normed, rotated and stored, then each group of rows is summed up over the KV
 * cache.
 * SPDX-License-Identifier: MIT */
#include "attention.h"

static bool layer_windowed(const qsf_hparams *hp, uint32_t layer)
{
    return hp->window && (hp->window_pattern == 0 || layer % hp->window_pattern != hp->window_pattern - 1);
}
/* Which of the two rotary tables a layer uses. */
static int layer_rope(const qsf_hparams *hp, uint32_t layer)
{
    return hp->rope_base_local > 0 && layer_windowed(hp, layer);
}

void qsf_attention_place(const qsf_context *c, uint32_t layer, uint32_t row, uint32_t head)
{
    const qsf_hparams *hp = c->hp;
    const bool query = head < hp->n_heads;
    const uint32_t kv = head - hp->n_heads, hd = hp->head_dim;
    float *x = query ? c->b.q + row * c->b.ld_q + (size_t)head * hd
        : c->b.k + row * c->b.ld_kv + (size_t)kv * hd;
    const float *weight = c->w->v[query ? QSF_K_Q_NORM : QSF_K_K_NORM],
        *apart = query ? NULL : qsf_bias_of(c, kv);
    for (size_t i = 0; apart && i < hd; i++) x[i] -= apart[i];
    if (weight) c->k.rms_norm(x, x, weight, hd, hp->norm_eps);
    if (hp->rope != QSF_ROPE_NONE) {
        const int r = layer_rope(hp, layer);
        const size_t half = c->rope[r].half;
        c->k.rope_apply(x, 1, hd, half, c->b.cos[r] + row * half, c->b.sin[r] + row * half,
                        hp->rope == QSF_ROPE_PAIRS);
    }
    if (c->kv.layout.k_bits) {
        const float *bias = c->w->v[QSF_K_ATTN_K_BIAS];
        if (bias && !query && !weight && !apart)
            qsf_bias_still(c, x, bias + (size_t)kv * hd, &c->rope[layer_rope(hp, layer)]);
        /* Mixed in queries as in keys, which changes none of their products and spreads the few
         * large channels of a key, so that one scale fits all better (QuaRot, Ashkboos et al. 2024,
         * arXiv:2404.00456); eight apart is faster and does for 8 bits without biases. */
        c->k.hadamard_inplace(x, hd, bias || qsf_kv_packed(c->kv.layout.k_bits) ? 1 : 8);
    }
    if (!query) {
        const qsf_batch_row *b = &c->rows[row];
        float *v = c->b.v + row * c->b.ld_kv + (size_t)kv * hd;
        /* taken back from the sum */
        if (qsf_kv_packed(c->kv.layout.v_bits)) c->k.hadamard_inplace(v, hd, 1);
        qsf_kv_store(&c->kv, &c->k, c->kv_layer, b->seq, b->pos, kv, x, v);
    }
}

/* What one thread computes attention in: up to ATT_ROWS rows times the rep query heads that share
 * a key-value head. */
typedef struct attention_scratch {
    float   *q, *o;             /* [rows * rep][head_dim] */
    float   *s;                 /* [rows * rep][QSF_KV_BLOCK] */
    float   *m, *l, *factor;    /* [rows * rep] */
    float   *qd, *pd;           /* [rows * rep] scales of the codes, for 8-bit keys and values */
    int32_t *qs;                /* [rows * rep] sums of the queries' codes */
    int8_t  *qc;                /* [rows * rep][dim] */
    uint8_t *pc;                /* [rows * rep][QSF_KV_BLOCK] */
    uint8_t *unpacked;          /* [qsf_kv_scratch] */
    /* [rows * rep][head_dim], [rows * rep][QSF_KV_BLOCK] and [head_dim]: where keys are stored
     * without their bias */
    float   *bias, *bias_work;
    qsf_heat heat;
} attention_scratch;

size_t qsf_attention_scratch(const qsf_hparams *hp, qsf_kv_type type)
{
    const size_t vectors = (size_t)QSF_ATTENTION_ROWS * (hp->n_heads / hp->n_kv_heads);
    const size_t codes = vectors * (qsf_kv_dim(hp->head_dim) + QSF_KV_BLOCK) / sizeof(float);
    const size_t bias = qsf_bias_apart(hp, type) ? vectors * (hp->head_dim + QSF_KV_BLOCK) + hp->head_dim : 0;
    const size_t unpacked = qsf_kv_scratch(hp->head_dim) / sizeof(float);
    const size_t sums = vectors * (2 * hp->head_dim + QSF_KV_BLOCK + 6);
    return (size_t)qsf_round_up(sums + codes + bias + unpacked, 16);
}

/* rec is read where keys and values are floats, codes where they are codes. */
static void block_scores(const qsf_context *c, const attention_scratch *a, const uint8_t *rec,
                         const qsf_kv_codes *codes, size_t n, size_t vectors, float scale)
{
    const size_t hd = c->hp->head_dim;
    if (c->kv.layout.type == QSF_KV_F16) {
        c->k.attention_scores_f16(a->s, QSF_KV_BLOCK, a->q, (const uint16_t *)(const void *)rec, n, hd,
                                  vectors, scale);
    } else if (c->kv.layout.type == QSF_KV_F32) {
        c->k.matmul_f32(a->s, QSF_KV_BLOCK, (const float *)(const void *)rec, a->q, hd, vectors, n, hd);
        for (size_t v = 0; v < vectors; v++) c->k.vec_scale(a->s + v * QSF_KV_BLOCK, scale, n);
    } else {
        c->k.attention_scores_q8(a->s, QSF_KV_BLOCK, a->qc, a->qd, a->qs, codes->k, codes->kd, n,
                                 qsf_kv_dim(hd), vectors, scale);
    }
}

static void block_sum(const qsf_context *c, const attention_scratch *a, const uint8_t *rec,
                      const qsf_kv_codes *codes, size_t n, size_t vectors)
{
    const size_t hd = c->hp->head_dim;
    const void *v = rec + c->kv.layout.v_at;
    if (c->kv.layout.type == QSF_KV_F16) {
        c->k.attention_weighted_sum_f16(a->o, a->factor, a->s, QSF_KV_BLOCK, v, n, hd, vectors);
    } else if (c->kv.layout.type == QSF_KV_F32) {
        const float *vf = v;
        for (size_t r = 0; r < vectors; r++) {
            float *o = a->o + r * hd;
            c->k.vec_scale(o, a->factor[r], hd);
            for (size_t i = 0; i < n; i++)
                for (size_t d = 0; d < hd; d++) o[d] += a->s[r * QSF_KV_BLOCK + i] * vf[i * hd + d];
        }
    } else {
        c->k.attention_weights_q8(a->pc, a->pd, a->s, QSF_KV_BLOCK, codes->vd, n, vectors);
        c->k.attention_weighted_sum_q8(a->o, a->factor, a->pc, a->pd, codes->v, hd, vectors);
    }
}

static attention_scratch scratch_of(const qsf_context *c, uint32_t thread)
{
    const qsf_hparams *hp = c->hp;
    const size_t vectors = (size_t)QSF_ATTENTION_ROWS * (hp->n_heads / hp->n_kv_heads);
    attention_scratch a;
    float *own = c->b.attention + thread * qsf_attention_scratch(hp, c->o.kv_type);
    a.heat = (qsf_heat){ 0 };
    a.unpacked = (uint8_t *)own;
    a.q = own + qsf_kv_scratch(hp->head_dim) / sizeof(float);
    a.o = a.q + vectors * hp->head_dim;
    a.s = a.o + vectors * hp->head_dim;
    a.m = a.s + vectors * QSF_KV_BLOCK;
    a.l = a.m + vectors;
    a.factor = a.l + vectors;
    a.qd = a.factor + vectors;
    a.pd = a.qd + vectors;
    a.qs = (int32_t *)(void *)(a.pd + vectors);
    a.qc = (int8_t *)(a.qs + vectors);
    a.pc = (uint8_t *)a.qc + vectors * qsf_kv_dim(hp->head_dim);
    a.bias = (float *)(void *)(a.pc + vectors * QSF_KV_BLOCK);
    a.bias_work = a.bias + vectors * hp->head_dim;
    return a;
}

/* What rows see of the positions before them: the last `window` (0: all) and, of a window that the
 * cache has, the first `sinks`, if `far` (the model's own window; 0: none) reaches them. */
typedef struct attention_view { uint32_t window, sinks, far; } attention_view;
static attention_view layer_view(const qsf_context *c, uint32_t layer)
{
    const uint32_t own = layer_windowed(c->hp, layer) ? c->hp->window : 0, kept = c->o.kv_window;
    /* with heavy hitters: whatever is there */
    if (!kept || c->o.kv_heavy || (own && own <= kept)) return (attention_view){ own, 0, own };
    return (attention_view){ kept, c->o.kv_sinks, own };
}
static uint32_t window_begin(uint32_t pos, uint32_t window)
{
    return window && pos + 1 > window ? pos + 1 - window : 0;
}
/* Whether the row at pos sees nothing of the block at [at, at + n). */
static bool view_misses(const attention_view *w, uint32_t at, size_t n, uint32_t pos)
{
    return at > pos || at + n <= window_begin(pos, w->far)
        || (at + n <= window_begin(pos, w->window) && at >= w->sinks);
}
static void view_mask(const qsf_context *c, const attention_view *w, float *s, size_t n, uint32_t at,
                      uint32_t pos)
{
    const uint32_t first = window_begin(pos, w->window);
    if (at >= first && at + n <= (size_t)pos + 1) return;
    c->k.causal_mask_apply(s, n, at, pos, at < w->sinks ? w->far : w->window);
    for (uint32_t i = w->sinks; at < w->sinks && i < first && i < at + n; i++) s[i - at] = -INFINITY;
}

/* One row's scores of the positions [at, at + n): soft cap, mask, one step of the online softmax
 * for each of its rep vectors. */
static void softmax_row(const qsf_context *c, const attention_scratch *a, size_t vector, size_t rep,
                        uint32_t e, uint32_t at, size_t n, uint32_t pos, const attention_view *view)
{
    for (size_t v = vector; v < vector + rep; v++) {
        float *s = a->s + v * QSF_KV_BLOCK;
        if (view_misses(view, at, n, pos)) {             /* nothing here is for this row */
            memset(s, 0, n * sizeof(float));
            a->factor[v] = 1;
            continue;
        }
        if (c->hp->attn_softcap > 0) c->k.softcap_inplace(s, c->hp->attn_softcap, n);
        view_mask(c, view, s, n, at, pos);
        const float l = a->l[v];
        a->factor[v] = c->k.attention_softmax_inplace(s, n, &a->m[v], &a->l[v]);
        if (a->heat.of) qsf_heat_note(&a->heat, v, e, l, a->factor[v], a->m[v], a->l[v]);
    }
}

static void quantize_queries(const qsf_context *c, const attention_scratch *a, size_t vectors)
{
    const size_t hd = c->hp->head_dim, dim = qsf_kv_dim(hd);
    for (size_t v = 0; v < vectors; v++) {
        int8_t *codes = a->qc + v * dim;
        c->k.quantize_kv_8bit(codes, &a->qd[v], a->q + v * hd, hd);
        memset(codes + hd, 0, dim - hd);
        a->qs[v] = 0;
        for (size_t d = 0; d < hd; d++) a->qs[v] += codes[d];
    }
}

/* Block by block with an online softmax (Milakov and Gimelshein 2018, arXiv:1805.02867), so that no
 * score outlives its block; each block is brought to floats once for all vectors of the group. */
void qsf_attention_group(const qsf_context *c, uint32_t layer, qsf_row_group g, uint32_t kv, uint32_t thread)
{
    const qsf_hparams *hp = c->hp;
    const qsf_batch_row *rows = &c->rows[g.first];
    const size_t hd = hp->head_dim, rep = hp->n_heads / hp->n_kv_heads, vectors = g.n * rep;
    const qsf_kv_seq *seq = &c->kv.seqs[rows[0].seq];
    const attention_view view = layer_view(c, layer);
    const uint32_t last = rows[g.n - 1].pos;
    const float scale = hp->attn_scale > 0 ? hp->attn_scale : 1 / sqrtf((float)hd);
    attention_scratch a = scratch_of(c, thread);
    const bool coded = c->kv.layout.k_bits > 0;
    const float *bias = qsf_bias_of(c, kv);

    for (size_t r = 0; r < g.n; r++)
        memcpy(a.q + r * rep * hd, c->b.q + (g.first + r) * c->b.ld_q + kv * rep * hd,
               rep * hd * sizeof(float));
    memset(a.o, 0, vectors * hd * sizeof(float));
    for (size_t v = 0; v < vectors; v++) {
        a.m[v] = -INFINITY;
        a.l[v] = 0;
    }
    if (coded) quantize_queries(c, &a, vectors);
    if (bias) qsf_bias_factors(c, a.bias, a.q, vectors, bias, scale);
    a.heat = qsf_heat_begin(c, thread, rows[0].seq, vectors);
    for (uint32_t e = 0; e < seq->n && seq->places[e] * QSF_KV_BLOCK <= last; e++) {
        const uint32_t at = seq->places[e] * QSF_KV_BLOCK;
        /* the rows behind it see no more of what is past */
        if (view_misses(&view, at, QSF_KV_BLOCK, rows[0].pos) && at <= rows[0].pos) continue;
        /* Whole vectors of any set, what is too much masked: then sums have one order, and a row's
         * result does not depend on the rows beside it. */
        const size_t n = QSF_MIN(QSF_KV_BLOCK, qsf_round_up(last + 1 - at, 16));
        const uint8_t *rec = qsf_kv_record(&c->kv, c->kv_layer, seq->blocks[e], kv);
        const qsf_kv_codes codes = coded ? qsf_kv_unpack(&c->kv.layout, &c->k, rec, a.unpacked)
            : (qsf_kv_codes){ 0 };
        block_scores(c, &a, rec, &codes, n, vectors, scale);
        if (bias) qsf_bias_scores(c, a.s, a.bias, a.q, a.bias_work, vectors, seq->places[e], n);
        for (size_t r = 0; r < g.n; r++) softmax_row(c, &a, r * rep, rep, e, at, n, rows[r].pos, &view);
        block_sum(c, &a, rec, &codes, n, vectors);
    }
    qsf_heat_end(&a.heat, a.m, a.l);
    for (size_t v = 0; v < vectors; v++) {
        c->k.vec_scale(a.o + v * hd, 1 / a.l[v], hd);
        /* its own inverse */
        if (qsf_kv_packed(c->kv.layout.v_bits)) c->k.hadamard_inplace(a.o + v * hd, hd, 1);
    }
    for (size_t r = 0; r < g.n; r++)
        memcpy(c->b.att + (g.first + r) * c->b.ld_q + kv * rep * hd, a.o + r * rep * hd,
               rep * hd * sizeof(float));
}
