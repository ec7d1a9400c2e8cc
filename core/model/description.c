/* The table of the members of a model's description.
 * SPDX-License-Identifier: MIT */
#include "model/description.h"

_Static_assert(sizeof(bool) == 1, "flags are written as bytes");

#define SIZE_OF(member) sizeof ((qsf_hparams *)0)->member
#define MEMBER(key, type, member, saved, limit) \
    { key, QSF_MEMBER_##type, QSF_COUNT_ONE, QSF_SAVED_##saved, limit, offsetof(qsf_hparams, member), 0 }
#define LIST(key, type, member, count, saved, limit) \
    { key, QSF_MEMBER_##type, QSF_COUNT_##count, QSF_SAVED_##saved, limit, offsetof(qsf_hparams, member), 0 }
/* A size for each layer, none above the model's. */
#define SIZES(key, member, most) \
    { key, QSF_MEMBER_U32, QSF_COUNT_LAYERS, QSF_SAVED_NEEDED, 0, offsetof(qsf_hparams, member), \
      offsetof(qsf_hparams, most) }

const qsf_member qsf_members[] = {
    /* In the header, or what follows from the tensors or from how the file was opened: these keys
     * are in no section. */
    MEMBER("header.layers",         U32,  n_layers,         HEADER, 0),
    MEMBER("header.embd",           U32,  n_embd,           HEADER, 0),
    MEMBER("header.heads",          U32,  n_heads,          HEADER, 0),
    MEMBER("header.kv_heads",       U32,  n_kv_heads,       HEADER, 0),
    MEMBER("header.head_dim",       U32,  head_dim,         HEADER, 0),
    MEMBER("header.ff",             U32,  n_ff,             HEADER, 0),
    MEMBER("header.vocab",          U32,  n_vocab,          HEADER, 0),
    MEMBER("header.ctx",            U32,  n_ctx_train,      HEADER, 0),
    MEMBER("header.norm",           U8,   norm,             HEADER, QSF_NORM_BARE),
    MEMBER("header.act",            U8,   act,              HEADER, QSF_ACT_SWIGLU_OAI),
    MEMBER("header.learned_pos",    BOOL, learned_pos,      HEADER, 1),
    MEMBER("header.tied",           BOOL, tied,             HEADER, 1),
    MEMBER("header.rope_base",      F32,  rope_base,        HEADER, 0),
    MEMBER("header.mtp_norm",       BOOL, mtp_norm,         HEADER, 1),
    MEMBER("header.eagle",          BOOL, eagle,            HEADER, 1),
    MEMBER("header.eagle_normed",   BOOL, eagle_normed,     HEADER, 1),
    MEMBER("header.features_normed", BOOL, features_normed, HEADER, 1),
    MEMBER("header.features",       U32,  n_features,       HEADER, 0),
    MEMBER("header.words",          U32,  n_words,          HEADER, 0),
    MEMBER("arch",                  TEXT, arch,             ALWAYS, SIZE_OF(arch)),
    MEMBER("name",                  TEXT, name,             ALWAYS, SIZE_OF(name)),
    MEMBER("norm.eps",              F32,  norm_eps,         ALWAYS, 0),
    MEMBER("ffn.gated",             BOOL, gated,            ALWAYS, 1),
    MEMBER("embd.scale",            F32,  embd_scale,       ALWAYS, 0),
    MEMBER("attn.scale",            F32,  attn_scale,       ALWAYS, 0),
    MEMBER("attn.softcap",          F32,  attn_softcap,     ALWAYS, 0),
    MEMBER("final.softcap",         F32,  final_softcap,    ALWAYS, 0),
    MEMBER("attn.window",           U32,  window,           ALWAYS, 0),
    MEMBER("attn.window_pattern",   U32,  window_pattern,   ALWAYS, 0),
    MEMBER("rope.style",            U8,   rope,             ALWAYS, QSF_ROPE_HALVES),
    MEMBER("rope.dim",              U32,  rope_dim,         ALWAYS, 0),
    MEMBER("rope.base_local",       F32,  rope_base_local,  ALWAYS, 0),
    MEMBER("rope.scaling",          U8,   scaling,          ALWAYS, QSF_SCALING_LONGROPE),
    MEMBER("rope.factor",           F32,  scaling_factor,   ALWAYS, 0),
    MEMBER("rope.orig_ctx",         U32,  scaling_orig_ctx, ALWAYS, 0),
    MEMBER("rope.yarn_ext",         F32,  yarn_ext_factor,  ALWAYS, 0),
    MEMBER("rope.yarn_attn",        F32,  yarn_attn_factor, ALWAYS, 0),
    MEMBER("rope.yarn_fast",        F32,  yarn_beta_fast,   ALWAYS, 0),
    MEMBER("rope.yarn_slow",        F32,  yarn_beta_slow,   ALWAYS, 0),
    MEMBER("rope.attn_factor",      F32,  rope_attn_factor, ALWAYS, 0),
    MEMBER("layer.flow",            U8,   flow,             NEEDED, QSF_FLOW_BARE_BEGIN),
    MEMBER("layer.residual_scale",  F32,  residual_scale,   NEEDED, 0),
    MEMBER("layer.mtp",             BOOL, mtp,              NEEDED, 1),
    MEMBER("attn.qk_norm",          U8,   qk_norm,          NEEDED, QSF_QK_ROTATED),
    MEMBER("attn.qkv_clamp",        F32,  qkv_clamp,        NEEDED, 0),
    MEMBER("attn.alibi",            F32,  alibi,            NEEDED, 0),
    MEMBER("attn.temp_scale",       F32,  temp_scale,       NEEDED, 0),
    MEMBER("attn.temp_every",       U32,  temp_every,       NEEDED, 0),
    MEMBER("rope.skip",             U32,  rope_skip,        NEEDED, 0),
    MEMBER("attn.gate",             U8,   attn_gate,        NEEDED, 1),
    MEMBER("mix.conv",              U32,  mix_conv,         NEEDED, 0),
    MEMBER("mix.inner",             U32,  mix_inner,        NEEDED, 0),
    MEMBER("mix.state",             U32,  mix_state,        NEEDED, 0),
    MEMBER("mix.heads",             U32,  mix_heads,        NEEDED, 0),
    MEMBER("mix.groups",            U32,  mix_groups,       NEEDED, 0),
    MEMBER("mix.neighbours",        U8,   mix_neighbours,   NEEDED, 1),
    MEMBER("mix.norms",             BOOL, mix_norms,        NEEDED, 1),
    MEMBER("mix.rate",              U32,  mix_rate,         NEEDED, 0),
    MEMBER("mix.first",             U32,  mix_first,        NEEDED, 0),
    MEMBER("mix.gate",              U32,  mix_gate,         NEEDED, 0),
    MEMBER("latent.kv",             U32,  kv_latent,        NEEDED, 0),
    MEMBER("latent.q",              U32,  q_latent,         NEEDED, 0),
    MEMBER("latent.plain",          U32,  head_plain,       NEEDED, 0),
    MEMBER("latent.value",          U32,  head_value,       NEEDED, 0),
    MEMBER("latent.joined",         U8,   latent_joined,    NEEDED, 1),
    MEMBER("final.scale",           F32,  logit_scale,      NEEDED, 0),
    MEMBER("experts.n",             U32,  n_experts,        NEEDED, 0),
    MEMBER("experts.used",          U32,  n_used,           NEEDED, 0),
    MEMBER("experts.ff",            U32,  n_ff_expert,      NEEDED, 0),
    MEMBER("experts.shared_ff",     U32,  n_ff_shared,      NEEDED, 0),
    MEMBER("experts.dense",         U32,  n_dense,          NEEDED, 0),
    MEMBER("experts.groups",        U32,  n_groups,         NEEDED, 0),
    MEMBER("experts.groups_used",   U32,  n_groups_used,    NEEDED, 0),
    MEMBER("experts.embd",          U32,  n_expert_embd,    NEEDED, 0),
    MEMBER("experts.beside",        BOOL, experts_beside,   NEEDED, 1),
    MEMBER("router.kind",           U8,   router,           NEEDED, QSF_ROUTER_CHOSEN),
    MEMBER("router.norm",           BOOL, router_norm,      NEEDED, 1),
    MEMBER("router.scale",          F32,  router_scale,     NEEDED, 0),
    MEMBER("router.early",          BOOL, router_early,     NEEDED, 1),
    MEMBER("attn.both_ways",        BOOL, both_ways,        NEEDED, 1),
    MEMBER("attn.window_first",     U32,  window_first,     NEEDED, 0),
    MEMBER("embd.token_types",      U32,  n_token_types,    NEEDED, 0),
    MEMBER("rank.mean",             BOOL, rank_mean,        NEEDED, 1),
    MEMBER("rank.classes",          U32,  n_classes,        NEEDED, 0),
    MEMBER("dense.width",           U32,  n_between,        NEEDED, 0),
    MEMBER("attn.head_dim_local",   U32,  head_dim_local,   NEEDED, 0),
    MEMBER("rope.dim_local",        U32,  rope_dim_local,   NEEDED, 0),
    MEMBER("attn.kv_shared",        U32,  n_kv_shared,      NEEDED, 0),
    MEMBER("attn.v_norm",           BOOL, v_norm,           NEEDED, 1),
    MEMBER("layer.altup",           BOOL, altup,            NEEDED, 1),
    MEMBER("layer.laurel",          U32,  n_laurel,         NEEDED, 0),
    MEMBER("ffn.sparse_layers",     U32,  n_sparse,         NEEDED, 0),
    MEMBER("ffn.sparse",            F32,  sparse,           NEEDED, 0),
    MEMBER("embd.per_layer",        U32,  n_embd_layer,     NEEDED, 0),
    MEMBER("pooling",               U8,   pooling,          OPTION, QSF_POOL_RANK),
    /* Arrays come last: the numbers above give their lengths. */
    LIST("rope.factors",            F32, rope_factors,      ROTARY, OPTION, 1),
    LIST("rope.factors_long",       F32, rope_factors_long, ROTARY, OPTION, 1),
    LIST("layer.mixers",            U8,  mixers,            LAYERS, NEEDED, 0),
    LIST("layer.ffns",              U8,  feed_forwards,     LAYERS, NEEDED, 0),
    LIST("layer.windowed",          U8,  windowed,          LAYERS, NEEDED, 0),
    SIZES("layer.ff",               ffs,             n_ff),
    SIZES("layer.kv_heads",         kv_heads,        n_kv_heads),
    SIZES("layer.experts_used",     useds,           n_used),
    SIZES("layer.experts_ff",       expert_ffs,      n_ff_expert),
    LIST("ffn.xielu",               F32, xielu,             XIELU,  NEEDED, 0),
};
#undef SIZE_OF
#undef MEMBER
#undef LIST
#undef SIZES
const size_t qsf_n_members = QSF_ARRAY_LEN(qsf_members);

const void *qsf_member_values(const qsf_hparams *hp, const qsf_member *m)
{
    const uint8_t *at = (const uint8_t *)hp + m->at;
    if (m->count == QSF_COUNT_ONE) return at;
    if (m->type == QSF_MEMBER_F32) return *(float *const *)(const void *)at;
    if (m->type == QSF_MEMBER_U32) return *(uint32_t *const *)(const void *)at;
    return *(uint8_t *const *)(const void *)at;
}

uint32_t qsf_member_count(const qsf_hparams *hp, const qsf_member *m)
{
    switch (m->count) {
    case QSF_COUNT_LAYERS: return hp->n_layers;
    case QSF_COUNT_XIELU: return hp->n_layers * QSF_XIELU_NUMBERS;
    case QSF_COUNT_ROTARY: return (hp->rope_dim ? hp->rope_dim : hp->head_dim) / 2;
    default: return 1;
    }
}

bool qsf_member_is_set(const qsf_hparams *hp, const qsf_member *m)
{
    const uint8_t *v = qsf_member_values(hp, m);
    if (m->count != QSF_COUNT_ONE) return v != NULL;
    if (m->type == QSF_MEMBER_U32 || m->type == QSF_MEMBER_F32) return v[0] || v[1] || v[2] || v[3];
    return v[0] != 0;
}

static uint64_t member_hash_values(uint64_t h, const qsf_member *m, const void *values, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint8_t b[4];
        if (m->type == QSF_MEMBER_F32) qsf_put32(b, qsf_f32_bits(((const float *)values)[i]));
        else qsf_put32(b, m->type == QSF_MEMBER_U32 ? ((const uint32_t *)values)[i]
                       : ((const uint8_t *)values)[i]);
        h = qsf_fnv1a(h, b, sizeof b);
    }
    return h;
}

uint64_t qsf_hparams_hash(uint64_t h, const qsf_hparams *hp)
{
    for (size_t i = 0; i < qsf_n_members; i++) {
        const qsf_member *m = &qsf_members[i];
        const void *values = qsf_member_values(hp, m);
        if (!qsf_member_is_set(hp, m)) continue;
        h = qsf_fnv1a(h, m->key, strlen(m->key) + 1);
        h = m->type == QSF_MEMBER_TEXT ? qsf_fnv1a(h, values, strlen(values) + 1)
            : member_hash_values(h, m, values, qsf_member_count(hp, m));
    }
    return h;
}
