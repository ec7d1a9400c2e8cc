/* Attention on a device: queries, keys and values to their places, chunks of positions, their sum.
 * SPDX-License-Identifier: MIT */
#include "device/device_parts.h"

#include "layers/key_bias.h"
#include "weights/layers.h"

#include "wgsl/chunks_wgsl.h"
#include "wgsl/places_wgsl.h"
#include "wgsl/prompt_wgsl.h"

static const char *attention_refused(const qsf_source *s, const qsf_layer *l, const qsf_weights *w,
                                     const qsf_context_options *o)
{
    static const uint8_t kinds[] = { QSF_K_ATTN_Q, QSF_K_ATTN_K, QSF_K_ATTN_V, QSF_K_ATTN_OUT };
    const qsf_wgsl_attend a = { .codes = o->kv_type == QSF_KV_Q8, .room = qsf_device_room(s, o->kv_type) };
    const bool whole_rows = l->qkv_clamp > 0 || l->qk_norm == QSF_QK_ALL;
    const char *why;
    if (l->kv_latent) return "its latents";
    if (l->attn_gate && whole_rows) return "its gates of clamped queries";
    if (!w->v[QSF_K_Q_NORM] != (!w->v[QSF_K_K_NORM] && !l->kv_from) && !whole_rows)
        return "its norms of only queries or keys";
    if (w->v[QSF_K_Q_NORM] && l->norm.kind == QSF_NORM_BARE) return "its norms of queries";
    if (o->kv_type != QSF_KV_F16 && o->kv_type != QSF_KV_Q8 && o->kv_type != QSF_KV_F32)
        return "this type of KV cache (-ctk f16, q8, f32)";
    if (!qsf_wgsl_has_room(&a) || !qsf_wgsl_most_share(&a)) return "the size of its heads";
    for (size_t i = 0; i < QSF_ARRAY_LEN(kinds); i++)
        if ((why = qsf_device_matrix_refused(&w->m[kinds[i]]))) return why;
    return NULL;
}

/* The first exponents of ALiBi's slopes: attention.c. */
static void alibi_numbers(const qsf_layer *l, qsf_wgsl_attend_numbers *x)
{
    x->even = 1;
    while (x->even * 2 <= l->n_heads) x->even *= 2;
    x->slope = -l->alibi / (float)x->even;
}

/* Whether queries, keys and values lie side by side in Q. */
static bool side_by_side(const qsf_device_maker *k)
{
    static const uint8_t kinds[] = { QSF_K_ATTN_Q, QSF_K_ATTN_K };
    const qsf_layer *l = k->layer;
    return !l->kv_from && !l->attn_gate && l->qkv_clamp <= 0 && l->qk_norm != QSF_QK_ALL &&
        qsf_device_joined(k, kinds, 2) && !(k->w->m[QSF_K_ATTN_K].t.rows % QSF_TILE_ROWS);
}

/* The numbers of attention, for both of its shaders. */
static void attend_numbers(const qsf_device_maker *k, qsf_wgsl_attend_numbers *x)
{
    const qsf_kv_layout *kv = &k->b->kv;
    const qsf_layer *l = k->layer;
    const uint32_t own = l->window, kept = k->b->o->kv_window;
    const bool outer = kept && !k->b->o->kv_heavy && !l->both_ways && !(own && own <= kept); /* attention.c */
    *x = (qsf_wgsl_attend_numbers){
        .heads = l->n_heads, .kv_heads = l->n_kv_heads, .head_dim = l->head_dim, .q_ld = k->b->q_ld,
        .k_ld = k->b->kv_ld, .v_ld = k->b->kv_ld, .record = (uint32_t)(kv->record / 4),
        .value_at = (uint32_t)(kv->v_at / 4), .key_scales_at = (uint32_t)(kv->kd_at / 4),
        .value_scales_at = (uint32_t)(kv->vd_at / 4), .block = kv->n_kv_heads,
        .q_step = l->head_dim * (l->attn_gate ? 2 : 1),
        .half = l->rope == QSF_NO_ROPE ? 0 : qsf_rope_half(&k->b->source->ropes[l->rope]),
        .mix = !kv->k_bits ? 0 : k->w->v[QSF_K_ATTN_K_BIAS] ? 1 : 8,
        .norm_ld = l->qk_norm == QSF_QK_EACH ? l->head_dim : 0,
        .eps = l->norm.eps, .scale = l->attn_scale, .cap = l->attn_softcap,
        .window = outer ? kept : own, .sinks = outer ? k->b->o->kv_sinks : 0, .far = own,
        .temp = l->temp_scale, .every = QSF_MAX(l->temp_every, 1),
    };
    alibi_numbers(l, x);
    if (!side_by_side(k)) return;
    x->q_ld = x->k_ld = x->v_ld = k->b->qkv_ld;
    x->k_at = k->w->m[QSF_K_ATTN_Q].t.rows;
    x->v_at = x->k_at + k->w->m[QSF_K_ATTN_K].t.rows;
}

static qsf_wgsl_attend attend_variant(const qsf_device_maker *k)
{
    const qsf_layer *l = k->layer;
    const bool rope = l->rope != QSF_NO_ROPE, codes = k->b->kv.k_bits == 8;
    qsf_wgsl_attend a = { .codes = codes, .wide = k->b->kv.type == QSF_KV_F32, .room = k->b->room,
                          .softcap = l->attn_softcap > 0,
                          .alibi = l->alibi > 0, .both = l->both_ways,
                          .norm = k->w->v[QSF_K_Q_NORM] != NULL && l->qk_norm != QSF_QK_ALL,
                          .values = l->v_norm, .mean = l->norm.kind != QSF_NORM_RMS, .rope = rope,
                          .rotated_first = l->qk_norm == QSF_QK_ROTATED, .temper = l->temp_scale != 0,
                          .still = codes && k->w->v[QSF_K_ATTN_K_BIAS] && !k->w->v[QSF_K_K_NORM],
                          .pairs = rope && k->b->source->ropes[l->rope].kind == QSF_ROPE_PAIRS };
    a.share = QSF_MIN(l->n_heads / l->n_kv_heads, qsf_wgsl_most_share(&a));
    return a;
}

/* What is subtracted from keys of 8 bits before they are stored: the bias of columns that are not
 * rotated, as -(0 - bias). */
static qsf_device_range put_still(qsf_device_maker *k)
{
    const qsf_layer *l = k->layer;
    const size_t n = (size_t)l->n_kv_heads * l->head_dim;
    const qsf_rope *rope = l->rope == QSF_NO_ROPE ? NULL : &k->b->ropes[l->rope];
    const float *bias = k->w->v[QSF_K_ATTN_K_BIAS];
    qsf_device_range r = { 0 };
    if (k->compiles) return qsf_device_put_vector(k, bias, n);
    float *still = qsf_alloc_array(k->b->platform, n, sizeof *still, "the bias of keys", k->err);
    if (!still) {
        k->st = QSF_E_MEMORY;
        return r;
    }
    for (uint32_t h = 0; h < l->n_kv_heads; h++) {
        float *head = still + (size_t)h * l->head_dim;
        qsf_bias_still(head, bias + (size_t)h * l->head_dim, l->head_dim, rope);
        for (uint32_t c = 0; c < l->head_dim; c++) head[c] = -head[c];
    }
    r = qsf_device_put_vector(k, still, n);
    qsf_dealloc(k->b->platform, still, n * sizeof *still);
    return r;
}

static qsf_device_range all_keys(const qsf_device_maker *k)
{
    return (qsf_device_range){ k->l->reads, 0, (uint64_t)k->b->n_blocks * k->b->bytes[QSF_DEVICE_SPARE] };
}

static qsf_device_range head_norms(qsf_device_maker *k)
{
    const float *const *v = k->w->v;
    const size_t hd = k->layer->head_dim, each = k->layer->qk_norm == QSF_QK_EACH;
    return qsf_device_put_vectors(k, v[QSF_K_Q_NORM], each ? k->layer->n_heads * hd : hd, v[QSF_K_K_NORM],
                                  !v[QSF_K_K_NORM] ? 0 : each ? k->layer->n_kv_heads * hd : hd);
}

static void step_places(qsf_device_maker *k, const qsf_wgsl_attend *a)
{
    qsf_device_step *s;
    qsf_wgsl_text t;
    qsf_device_range ranges[9];
    uint32_t n = 1;
    attend_numbers(k, qsf_device_step_new(k, QSF_DEVICE_PLACES, "places", &s));
    s->wide = k->layer->n_heads + (k->layer->kv_from ? 0 : 2 * k->layer->n_kv_heads);
    static const qsf_device_name in[] = { QSF_DEVICE_Q, QSF_DEVICE_K, QSF_DEVICE_V, QSF_DEVICE_PLACE,
                                          QSF_DEVICE_QUERIES };
    for (size_t i = 0; i < QSF_ARRAY_LEN(in); i++) ranges[n++] = qsf_device_all_of(k->b, in[i]);
    if (side_by_side(k)) ranges[2] = ranges[3] = ranges[1];
    ranges[n++] = all_keys(k);
    if (a->rope) ranges[n++] = qsf_device_angles(k->b, k->layer->rope);
    if (a->norm) ranges[n++] = head_norms(k);
    if (a->still) ranges[n++] = put_still(k);
    qsf_pipeline_begin(&k->b->pipelines, &t);
    qsf_wgsl_places(&t, a);
    if (!k->st) k->st = qsf_pipeline_end(&k->b->pipelines, &t, "places", &s->pipeline[0], k->err);
    qsf_device_step_group(k, s, ranges, n);
}

/* Rows of a prompt in groups, to Q, which has become QUERIES. */
static void step_prompt(qsf_device_maker *k, const qsf_wgsl_attend *variant)
{
    qsf_device_step *s;
    qsf_wgsl_text t;
    qsf_device_range ranges[8];
    uint32_t n = 1;
    qsf_wgsl_attend a = *variant;
    a.head_sinks = k->w->v[QSF_K_ATTN_SINKS] != NULL;
    attend_numbers(k, qsf_device_step_new(k, QSF_DEVICE_PROMPT, "attention of prompts", &s));
    s->wide = k->layer->n_heads;
    ranges[n++] = qsf_device_all_of(k->b, QSF_DEVICE_QUERIES);
    ranges[n++] = all_keys(k);
    ranges[n++] = qsf_device_all_of(k->b, QSF_DEVICE_PLACE);
    ranges[n++] = qsf_device_all_of(k->b, QSF_DEVICE_TABLE);
    ranges[n++] = qsf_device_all_of(k->b, QSF_DEVICE_GROUPS);
    ranges[n++] = qsf_device_all_of(k->b, QSF_DEVICE_Q);
    if (a.head_sinks) ranges[n++] = qsf_device_put_vector(k, k->w->v[QSF_K_ATTN_SINKS], k->layer->n_heads);
    qsf_pipeline_begin(&k->b->pipelines, &t);
    qsf_wgsl_prompt(&t, &a);
    if (!k->st) k->st = qsf_pipeline_end(&k->b->pipelines, &t, s->name, &s->pipeline[0], k->err);
    if (!k->st && k->compiles && k->b->test)
        k->st = qsf_self_test_prompt(k->b->test, &a, &k->b->kv, k->err);
    qsf_device_step_group(k, s, ranges, n);
}

static void step_chunks(qsf_device_maker *k, const qsf_wgsl_attend *a)
{
    qsf_device_step *s;
    qsf_wgsl_text t;
    qsf_device_range ranges[7];
    const uint32_t shared = k->layer->n_heads / k->layer->n_kv_heads;
    attend_numbers(k, qsf_device_step_new(k, QSF_DEVICE_CHUNKS, "attention", &s));
    s->wide = k->layer->n_kv_heads * ((shared + a->share - 1) / a->share);
    ranges[1] = qsf_device_all_of(k->b, QSF_DEVICE_QUERIES);
    ranges[2] = all_keys(k);
    ranges[3] = qsf_device_all_of(k->b, QSF_DEVICE_PLACE);
    ranges[4] = qsf_device_all_of(k->b, QSF_DEVICE_TABLE);
    ranges[5] = qsf_device_all_of(k->b, QSF_DEVICE_SUMS);
    ranges[6] = qsf_device_all_of(k->b, QSF_DEVICE_TOPS);
    qsf_pipeline_begin(&k->b->pipelines, &t);
    qsf_wgsl_chunks(&t, a);
    if (!k->st) k->st = qsf_pipeline_end(&k->b->pipelines, &t, "attention", &s->pipeline[0], k->err);
    if (!k->st && k->compiles && k->b->test)
        k->st = qsf_self_test_attention(k->b->test, a, &k->b->kv, k->err);
    qsf_device_step_group(k, s, ranges, 7);
}

/* What is done with whole rows of queries and keys. */
static void step_whole(qsf_device_maker *k, qsf_device_name to, uint32_t cols, uint32_t ld, int norm,
                       int bias)
{
    const float limit[4] = { k->layer->qkv_clamp };
    qsf_device_rows x = { .name = "whole rows of heads", .to = to, .cols = cols, .to_ld = ld,
                          .r = { .source = QSF_WGSL_FROM_ITSELF, .floats = true },
                          .of_function = limit };
    if (limit[0] > 0) x.r.function = QSF_WGSL_CLAMP;
    if (norm && k->layer->qk_norm == QSF_QK_ALL && k->w->v[norm]) qsf_device_set_norm(k, &x, norm, bias);
    if (x.r.function || x.r.norm) qsf_device_add_rows(k, &x);
}

static void joined_in(qsf_device_maker *k)
{
    static const uint8_t kinds[] = { QSF_K_ATTN_Q, QSF_K_ATTN_K, QSF_K_ATTN_V };
    const uint32_t at = k->w->m[QSF_K_ATTN_Q].t.rows + k->w->m[QSF_K_ATTN_K].t.rows;
    const bool all = qsf_device_joined(k, kinds, 3),
        scaled = qsf_device_scaled(k->b->source, k->number, QSF_K_ATTN_V);
    const qsf_device_to to = { QSF_DEVICE_Q, k->b->qkv_ld, at, false, scaled, 1 };
    qsf_device_products p = { .name = "queries, keys and values",
                              .to = { QSF_DEVICE_Q, k->b->qkv_ld, 0, false, false, 1 } };
    qsf_device_set_matrix(k, &p, QSF_K_ATTN_Q, QSF_K_ATTN_Q_BIAS);
    qsf_device_set_matrix(k, &p, QSF_K_ATTN_K, QSF_K_ATTN_K_BIAS);
    if (all) qsf_device_set_matrix(k, &p, QSF_K_ATTN_V, QSF_K_ATTN_V_BIAS);
    qsf_device_step_products(k, &p);
    if (!all)
        qsf_device_step_matrix(k, "values", &k->w->m[QSF_K_ATTN_V], k->w->v[QSF_K_ATTN_V_BIAS], &to);
}

static void attention_in(qsf_device_maker *k)
{
    const qsf_device_buffers *b = k->b;
    if (side_by_side(k)) {
        joined_in(k);
        return;
    }
    qsf_device_step_product(k, "queries", QSF_K_ATTN_Q, QSF_K_ATTN_Q_BIAS, QSF_DEVICE_Q, b->q_ld, false);
    if (k->layer->kv_from) return;
    qsf_device_step_product(k, "keys", QSF_K_ATTN_K, QSF_K_ATTN_K_BIAS, QSF_DEVICE_K, b->kv_ld, false);
    qsf_device_step_product(k, "values", QSF_K_ATTN_V, QSF_K_ATTN_V_BIAS, QSF_DEVICE_V, b->kv_ld, false);
}

static void attention_list(qsf_device_maker *k)
{
    static const uint8_t out = QSF_K_ATTN_OUT;
    const qsf_layer *l = k->layer;
    const qsf_wgsl_attend a = attend_variant(k);
    const uint32_t q = l->n_heads * l->head_dim, kv = l->n_kv_heads * l->head_dim;
    qsf_device_rows join = { .name = "attention codes", .a = QSF_DEVICE_SUMS, .b = QSF_DEVICE_TOPS, .cols = q,
                             .r = { .source = QSF_WGSL_FROM_ATTENTION, .gated = l->attn_gate != 0,
                                    .sinks = k->w->v[QSF_K_ATTN_SINKS] != NULL } };
    step_whole(k, QSF_DEVICE_Q, q, k->b->q_ld, QSF_K_Q_NORM, QSF_K_Q_NORM_BIAS);
    if (!l->kv_from) {
        step_whole(k, QSF_DEVICE_K, kv, k->b->kv_ld, QSF_K_K_NORM, QSF_K_K_NORM_BIAS);
        step_whole(k, QSF_DEVICE_V, kv, k->b->kv_ld, 0, 0);
    }
    step_places(k, &a);
    if (k->w->v[QSF_K_ATTN_SUB_NORM]) qsf_device_set_norm(k, &join, QSF_K_ATTN_SUB_NORM, 0);
    /* Rows by themselves in chunks of positions, which are joined; or groups of rows. */
    if (k->b->prompts) {
        qsf_device_rows codes = join;
        codes.r.source = QSF_WGSL_FROM_FLOATS;
        codes.r.sinks = false;
        codes.a = QSF_DEVICE_Q, codes.ld = side_by_side(k) ? k->b->qkv_ld : k->b->q_ld;
        k->of.attention = QSF_DEVICE_IN_GROUPS;
        step_prompt(k, &a);
        qsf_device_add_input(k, codes, &out, 1);
        k->of.attention = QSF_DEVICE_IN_CHUNKS;
    }
    step_chunks(k, &a);
    qsf_device_add_input(k, join, &out, 1);
    k->of.attention = QSF_DEVICE_ALL;
    qsf_device_fuse(k, QSF_DEVICE_FUSED_COLUMNS);
    qsf_device_step_out(k, "attention output", QSF_K_ATTN_OUT, QSF_K_ATTN_OUT_BIAS);
}

const qsf_device_part qsf_device_attention = {
    attention_refused, attention_list, attention_in, 3, { QSF_K_ATTN_Q, QSF_K_ATTN_K, QSF_K_ATTN_V },
};
