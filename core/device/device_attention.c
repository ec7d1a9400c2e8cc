/* Attention on a device: queries, keys and values to their places, chunks of positions, their sum.
 * SPDX-License-Identifier: MIT */
#include "device/device_parts.h"

#include "layers/rope.h"
#include "weights/layers.h"

#include "wgsl/chunks_wgsl.h"
#include "wgsl/places_wgsl.h"

/* Codes of 8 bits are stored mixed, and without some biases, which no shader does. */
static const char *attention_refused(const qsf_source *s, const qsf_layer *l, const qsf_weights *w,
                                     const qsf_context_options *o)
{
    static const uint8_t kinds[] = { QSF_K_ATTN_Q, QSF_K_ATTN_K, QSF_K_ATTN_V, QSF_K_ATTN_OUT };
    const char *why;
    (void)s;
    if (l->kv_latent || l->attn_gate || l->both_ways || l->kv_from || l->sparse > 0) return "its mixer";
    if (l->qkv_clamp != 0 || l->alibi != 0 || l->temp_scale != 0 || l->v_norm) return "its attention";
    if (l->qk_norm == QSF_QK_ALL || !w->v[QSF_K_Q_NORM] != !w->v[QSF_K_K_NORM] ||
        (w->v[QSF_K_Q_NORM] && l->norm.kind != QSF_NORM_RMS)) return "its norms of queries";
    if (w->v[QSF_K_ATTN_SUB_NORM]) return "its norms";
    if (l->rope != QSF_NO_ROPE && l->rope > 1) return "its third rotary table";
    if (o->kv_type != QSF_KV_F16 && o->kv_type != QSF_KV_Q8) return "this type of KV cache (-ctk f16, q8)";
    if (w->v[QSF_K_ATTN_K_BIAS] && o->kv_type == QSF_KV_Q8)
        return "biases of keys that are stored in 8 bits (-ctk f16)";
    for (size_t i = 0; i < QSF_ARRAY_LEN(kinds); i++)
        if ((why = qsf_device_matrix_refused(&w->m[kinds[i]]))) return why;
    return NULL;
}

/* The numbers of attention, for both of its shaders. */
static void attend_numbers(const qsf_device_maker *k, qsf_wgsl_attend_numbers *x)
{
    const qsf_kv_layout *kv = &k->b->kv;
    const qsf_layer *l = k->layer;
    const uint32_t own = l->window, kept = k->b->o->kv_window;
    const bool outer = kept && !k->b->o->kv_heavy && !(own && own <= kept);     /* attention.c */
    *x = (qsf_wgsl_attend_numbers){
        .heads = l->n_heads, .kv_heads = l->n_kv_heads, .head_dim = l->head_dim, .q_ld = k->b->q_ld,
        .k_ld = k->b->kv_ld, .v_ld = k->b->kv_ld, .record = (uint32_t)(kv->record / 4),
        .value_at = (uint32_t)(kv->v_at / 4), .key_scales_at = (uint32_t)(kv->kd_at / 4),
        .value_scales_at = (uint32_t)(kv->vd_at / 4),
        .half = l->rope == QSF_NO_ROPE ? 0 : qsf_rope_half(&k->b->source->ropes[l->rope]),
        .mix = kv->k_bits ? 8 : 0, .norm_ld = l->qk_norm == QSF_QK_EACH ? l->head_dim : 0,
        .eps = l->norm.eps, .scale = l->attn_scale, .cap = l->attn_softcap,
        .window = outer ? kept : own, .sinks = outer ? k->b->o->kv_sinks : 0, .far = own,
    };
}

static qsf_wgsl_attend attend_variant(const qsf_device_maker *k)
{
    const qsf_layer *l = k->layer;
    const bool rope = l->rope != QSF_NO_ROPE;
    qsf_wgsl_attend a = { .codes = k->b->kv.k_bits == 8, .room = k->b->kv.head_dim,
                          .blocks = k->b->chunk_blocks, .softcap = l->attn_softcap > 0,
                          .norm = k->w->v[QSF_K_Q_NORM] != NULL, .rope = rope,
                          .rotated_first = l->qk_norm == QSF_QK_ROTATED,
                          .pairs = rope && k->b->source->ropes[l->rope].kind == QSF_ROPE_PAIRS };
    a.share = QSF_MIN(l->n_heads / l->n_kv_heads, qsf_wgsl_most_share(&a));
    return a;
}

static void step_places(qsf_device_maker *k, const qsf_wgsl_attend *a)
{
    qsf_device_step *s;
    qsf_wgsl_text t;
    qsf_device_range ranges[9];
    uint32_t n = 1;
    const float *const *v = k->w->v;
    const size_t each = k->layer->head_dim;
    attend_numbers(k, qsf_device_step_new(k, QSF_DEVICE_PLACES, "places", &s));
    s->wide = k->layer->n_heads + 2 * k->layer->n_kv_heads;
    static const qsf_device_name in[] = { QSF_DEVICE_Q, QSF_DEVICE_K, QSF_DEVICE_V, QSF_DEVICE_PLACE,
                                          QSF_DEVICE_QUERIES };
    for (size_t i = 0; i < QSF_ARRAY_LEN(in); i++) ranges[n++] = qsf_device_all_of(k->b, in[i]);
    ranges[n++] = (qsf_device_range){ k->l->kv, 0, (uint64_t)k->b->n_blocks * k->b->bytes[QSF_DEVICE_SPARE] };
    if (a->rope) ranges[n++] = qsf_device_all_of(k->b, (qsf_device_name)(QSF_DEVICE_ANGLES + k->layer->rope));
    if (a->norm) ranges[n++] = qsf_device_put_vector(k, v[QSF_K_Q_NORM], v[QSF_K_K_NORM], each);
    qsf_pipeline_begin(&k->b->pipelines, &t);
    qsf_wgsl_places(&t, a);
    if (!k->st) k->st = qsf_pipeline_end(&k->b->pipelines, &t, "places", &s->pipeline[0], k->err);
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
    ranges[2] = (qsf_device_range){ k->l->kv, 0, (uint64_t)k->b->n_blocks * k->b->bytes[QSF_DEVICE_SPARE] };
    ranges[3] = qsf_device_all_of(k->b, QSF_DEVICE_PLACE);
    ranges[4] = qsf_device_all_of(k->b, QSF_DEVICE_TABLE);
    ranges[5] = qsf_device_all_of(k->b, QSF_DEVICE_SUMS);
    ranges[6] = qsf_device_all_of(k->b, QSF_DEVICE_TOPS);
    qsf_pipeline_begin(&k->b->pipelines, &t);
    qsf_wgsl_chunks(&t, a);
    if (!k->st) k->st = qsf_pipeline_end(&k->b->pipelines, &t, "attention", &s->pipeline[0], k->err);
    qsf_device_step_group(k, s, ranges, 7);
}

static void attention_list(qsf_device_maker *k)
{
    const qsf_wgsl_attend a = attend_variant(k);
    const qsf_wgsl_rows join = { .source = QSF_WGSL_FROM_ATTENTION, .codes = true,
                                 .sinks = k->w->v[QSF_K_ATTN_SINKS] != NULL };
    qsf_device_step_product(k, "queries", QSF_K_ATTN_Q, QSF_K_ATTN_Q_BIAS, QSF_DEVICE_Q, k->b->q_ld, false);
    qsf_device_step_product(k, "keys", QSF_K_ATTN_K, QSF_K_ATTN_K_BIAS, QSF_DEVICE_K, k->b->kv_ld, false);
    qsf_device_step_product(k, "values", QSF_K_ATTN_V, QSF_K_ATTN_V_BIAS, QSF_DEVICE_V, k->b->kv_ld, false);
    step_places(k, &a);
    step_chunks(k, &a);
    qsf_device_step_rows(k, &join, "attention codes", QSF_DEVICE_SUMS, QSF_DEVICE_TOPS,
                         k->layer->n_heads * k->layer->head_dim, 0, 0, 0);
    qsf_device_step_out(k, "attention output", QSF_K_ATTN_OUT, QSF_K_ATTN_OUT_BIAS);
}

const qsf_device_part qsf_device_attention = { attention_refused, attention_list };
