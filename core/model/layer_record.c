/* Fills the records of layers and of rotary tables from a model's description.
 * SPDX-License-Identifier: MIT */
#include "model/layer_record.h"
#include "model/source_formats.h"

/* Tables in their order: that of layers which see everything,
 * and that of windowed ones where it differs. */
enum { ROPE_GLOBAL, ROPE_LOCAL };

qsf_norm qsf_norm_of(const qsf_hparams *hp) { return (qsf_norm){ hp->norm, hp->norm_eps }; }

qsf_layer qsf_layer_of(const qsf_hparams *hp, uint32_t i)
{
    const uint32_t every = hp->window_pattern;
    const bool windowed = hp->window && (every == 0 || (i + hp->window_first) % every != every - 1);
    const bool still = hp->rope == QSF_ROPE_NONE || (hp->rope_skip && i % hp->rope_skip == hp->rope_skip - 1);
    const bool experts = hp->n_experts && i >= hp->n_dense;
    const uint16_t rope = windowed && hp->rope_base_local > 0 ? ROPE_LOCAL : ROPE_GLOBAL;
    qsf_layer l = {
        .mixer = QSF_MIXER_ATTENTION,
        .feed_forward = experts ? QSF_FEED_FORWARD_EXPERTS
            : hp->gated ? QSF_FEED_FORWARD_GATED : QSF_FEED_FORWARD_PLAIN,
        .act = hp->act,
        .rope = still ? QSF_NO_ROPE : rope,
        .n_heads = hp->n_heads,
        .n_kv_heads = hp->n_kv_heads,
        .head_dim = hp->head_dim,
        .value_dim = hp->head_dim,
        .n_ff = experts ? hp->n_ff_shared : hp->n_ff,
        .window = windowed ? hp->window : 0,
        .norm = qsf_norm_of(hp),
        .attn_scale = hp->attn_scale > 0 ? hp->attn_scale : 1 / sqrtf((float)hp->head_dim),
        .attn_softcap = hp->attn_softcap,
        .both_ways = hp->both_ways,
        .flow = hp->flow == QSF_FLOW_BARE_BEGIN && i ? QSF_FLOW_SERIAL : hp->flow,
        .qk_norm = hp->qk_norm,
        .residual_scale = hp->residual_scale,
        .qkv_clamp = hp->qkv_clamp,
        .alibi = hp->alibi,
        .temp_scale = hp->temp_scale,
        .temp_every = hp->temp_every,
    };
    if (experts) {
        l.n_experts = hp->n_experts;
        l.n_used = hp->n_used;
        l.n_ff_expert = hp->n_ff_expert;
        l.n_groups = hp->n_groups;
        l.n_groups_used = hp->n_groups_used;
        l.router = hp->router;
        l.router_norm = hp->router_norm;
        l.router_scale = hp->router_scale;
    }
    if (hp->xielu) memcpy(l.xielu, hp->xielu + (size_t)i * QSF_XIELU_NUMBERS, sizeof l.xielu);
    return l;
}

/* A base of their own leaves windowed layers without the others' scaling. */
uint32_t qsf_ropes_of(const qsf_hparams *hp, qsf_rope_record ropes[QSF_HPARAMS_ROPES])
{
    const uint32_t dim = hp->rope_dim ? hp->rope_dim : hp->head_dim;
    if (hp->rope == QSF_ROPE_NONE) return 0;
    ropes[ROPE_GLOBAL] = (qsf_rope_record){
        .kind = hp->rope, .scaling = hp->scaling, .dim = dim, .orig_ctx = hp->scaling_orig_ctx,
        .base = hp->rope_base, .factor = hp->scaling_factor, .yarn_ext_factor = hp->yarn_ext_factor,
        .yarn_attn_factor = hp->yarn_attn_factor, .yarn_beta_fast = hp->yarn_beta_fast,
        .yarn_beta_slow = hp->yarn_beta_slow, .attn_factor = hp->rope_attn_factor,
        .factors = hp->rope_factors, .factors_long = hp->rope_factors_long,
    };
    if (!(hp->rope_base_local > 0)) return 1;
    ropes[ROPE_LOCAL] = (qsf_rope_record){
        .kind = hp->rope, .scaling = QSF_SCALING_NONE, .dim = dim, .base = hp->rope_base_local, .factor = 1,
    };
    return 2;
}

qsf_layer_most qsf_layers_most(const qsf_layer *layers, uint32_t n)
{
    qsf_layer_most m = { 0 };
    for (uint32_t i = 0; i < n; i++) {
        const qsf_layer *l = &layers[i];
        const uint32_t wide = QSF_MAX(l->head_dim, l->value_dim);
        m.n_heads = QSF_MAX(m.n_heads, l->n_heads);
        m.n_kv_heads = QSF_MAX(m.n_kv_heads, l->n_kv_heads);
        m.head_dim = QSF_MAX(m.head_dim, wide);
        m.n_ff = QSF_MAX(m.n_ff, QSF_MAX(l->n_ff, l->n_ff_expert));
        m.n_experts = QSF_MAX(m.n_experts, l->n_experts);
        m.n_used = QSF_MAX(m.n_used, l->n_used);
        m.q = QSF_MAX(m.q, l->n_heads * wide);
        m.kv = QSF_MAX(m.kv, l->n_kv_heads * wide);
        m.share = QSF_MAX(m.share, l->n_heads / l->n_kv_heads);
    }
    return m;
}

uint32_t qsf_layer_apart(const qsf_hparams *hp, const qsf_layer *layers, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && layers[i].n_heads == hp->n_heads && layers[i].n_kv_heads == hp->n_kv_heads &&
           layers[i].n_ff == qsf_layer_of(hp, i).n_ff) i++;
    return i;
}

/* Numbers that shapes, allocations and choices of experts go by. */
static qsf_status experts_check(const qsf_source *s, qsf_error *err)
{
    const qsf_hparams *hp = &s->hp;
    const uint32_t each = hp->n_groups > 1 ? hp->n_experts / hp->n_groups : hp->n_experts;
    const uint64_t longest = QSF_MAX(hp->n_ff_expert, hp->n_embd);
    if (!hp->n_experts) return QSF_OK;
    if (hp->n_experts < 2 || hp->n_experts > QSF_MAX_EXPERTS || !hp->n_used || hp->n_used > hp->n_experts)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %u experts, of which %u are used; 2 to %d are possible",
                        s->path, (unsigned)hp->n_experts, (unsigned)hp->n_used, QSF_MAX_EXPERTS);
    if (hp->n_ff_expert < 2 || hp->n_ff_shared > 1 << 24 || longest * hp->n_experts > INT32_MAX)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %u experts of length %u beside one of %u", s->path,
                        (unsigned)hp->n_experts, (unsigned)hp->n_ff_expert, (unsigned)hp->n_ff_shared);
    if (hp->n_groups > 1 && (!each || hp->n_experts % hp->n_groups || hp->n_groups_used > hp->n_groups ||
                             (uint64_t)hp->n_groups_used * each < hp->n_used))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: %u experts in %u groups, of which %u are used for %u "
                        "experts", s->path, (unsigned)hp->n_experts, (unsigned)hp->n_groups,
                        (unsigned)hp->n_groups_used, (unsigned)hp->n_used);
    if (hp->gated) return QSF_OK;
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: experts without a gate", s->path);
}

qsf_status qsf_layers_fill(qsf_source *s, qsf_error *err)
{
    const qsf_status st = experts_check(s, err);
    if (st) return st;
    qsf_rope_record ropes[QSF_HPARAMS_ROPES];
    const uint32_t n = s->hp.n_layers;
    s->n_ropes = qsf_ropes_of(&s->hp, ropes);
    s->ropes = qsf_arena_array(s->arena, s->n_ropes, sizeof *s->ropes, "rotary tables", err);
    s->layers = s->ropes ? qsf_arena_array(s->arena, n, sizeof *s->layers, "layers", err) : NULL;
    if (!s->layers) return QSF_E_MEMORY;
    memcpy(s->ropes, ropes, s->n_ropes * sizeof *ropes);
    for (uint32_t i = 0; i < n; i++) s->layers[i] = qsf_layer_of(&s->hp, i);
    s->most = qsf_layers_most(s->layers, n);
    return QSF_OK;
}
