/* Reads a GGUF file's description of a mixture of experts.
 * SPDX-License-Identifier: MIT */
#include "model/gguf.h"

static qsf_status expert_wrong(const gguf *g, const char *what, uint32_t value, qsf_error *err)
{
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: %s %u, which this version cannot run", g->s->path, what,
                    (unsigned)value);
}

/* GGUF's numbers of what makes weights of a router's logits. */
static qsf_status router_kind(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    static const uint8_t kinds[] = { 0, QSF_ROUTER_SOFTMAX, QSF_ROUTER_SIGMOID, QSF_ROUTER_CHOSEN };
    uint32_t kind = 0;
    const qsf_status st = qsf_gguf_u32(g, "%s.expert_gating_func", false, &kind, err);
    hp->router = g->row->router;
    if (st || !kind) return st;
    if (kind >= QSF_ARRAY_LEN(kinds)) return expert_wrong(g, "a router of kind", kind, err);
    hp->router = kinds[kind];
    return QSF_OK;
}

static qsf_status expert_lengths(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    uint32_t n_shared = 0;
    bool differ;
    hp->n_ff_expert = g->row->ff_of_used && hp->n_used ? hp->n_ff / hp->n_used : hp->n_ff;
    hp->n_ff_shared = g->row->experts == QSF_EXPERTS_SHARED || g->row->later_gemma ? hp->n_ff : 0;
    if ((st = qsf_gguf_layer_u32(g, GGUF_LAYER_EXPERT_FF, false, &hp->n_ff_expert, &differ, err)) ||
        (st = qsf_gguf_u32(g, "%s.expert_shared_count", false, &n_shared, err)) ||
        (st = qsf_gguf_u32(g, "%s.expert_shared_feed_forward_length", false, &hp->n_ff_shared, err)))
        return st;
    if (n_shared > QSF_MAX_EXPERTS || hp->n_ff_shared > 1 << 24)
        return expert_wrong(g, "shared experts,", n_shared, err);
    const uint64_t each = hp->n_ff_shared ? hp->n_ff_shared : hp->n_ff_expert;
    const bool times = !hp->n_ff_shared || g->row->experts == QSF_EXPERTS_EACH;
    if (n_shared && times) hp->n_ff_shared = (uint32_t)QSF_MIN(n_shared * each, UINT32_MAX);
    return QSF_OK;
}

/* Experts in every nth layer only, the second one first; in no layer if n is 0 or 1. */
static qsf_status expert_layers(const gguf *g, qsf_hparams *hp, qsf_error *err)
{
    uint32_t n = 0;
    const qsf_status st = qsf_gguf_u32(g, "%s.moe_every_n_layers", false, &n, err);
    if (st || g->row->experts != QSF_EXPERTS_SOME) return st;
    if (n < 2 || hp->n_layers < 2) {
        hp->n_experts = 0;
        return QSF_OK;
    }
    /* before anything of their number is allocated */
    if (hp->n_layers > g->n_tensors) return expert_wrong(g, "fewer tensors than layers,", hp->n_layers, err);
    hp->feed_forwards = qsf_arena_array(g->s->arena, hp->n_layers, 1, "feed-forwards", err);
    if (!hp->feed_forwards) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < hp->n_layers; i++)
        hp->feed_forwards[i] = i % n == 1 ? QSF_FEED_FORWARD_EXPERTS
            : hp->gated ? QSF_FEED_FORWARD_GATED : QSF_FEED_FORWARD_PLAIN;
    return QSF_OK;
}

qsf_status qsf_gguf_experts(gguf *g, qsf_error *err)
{
    qsf_hparams *hp = &g->s->hp;
    qsf_status st;
    uint32_t step = 1;
    bool differ;
    if (!g->row->experts) return QSF_OK;
    const bool always = g->row->experts > QSF_EXPERTS_MAY;
    if ((st = qsf_gguf_u32(g, "%s.expert_count", always, &hp->n_experts, err))) return st;
    if (hp->n_experts < 2 && !always) hp->n_experts = 0;
    if (!hp->n_experts && !always) return QSF_OK;
    hp->router_norm = g->row->router_norm;
    hp->router_early = (g->row->has & QSF_HAS_EARLY) != 0;
    hp->experts_beside = g->row->later_gemma;
    if ((st = qsf_gguf_layer_u32(g, GGUF_LAYER_USED, true, &hp->n_used, &differ, err)) ||
        (st = expert_lengths(g, hp, err)) || (st = router_kind(g, hp, err)) ||
        (st = qsf_gguf_u32(g, "%s.leading_dense_block_count", false, &hp->n_dense, err)) ||
        (st = qsf_gguf_u32(g, "%s.interleave_moe_layer_step", false, &step, err)) ||
        (st = qsf_gguf_u32(g, "%s.moe_latent_size", false, &hp->n_expert_embd, err)) ||
        (st = qsf_gguf_u32(g, "%s.expert_group_count", false, &hp->n_groups, err)) ||
        (st = qsf_gguf_u32(g, "%s.expert_group_used_count", false, &hp->n_groups_used, err)) ||
        (st = qsf_gguf_bool(g, "%s.expert_weights_norm", &hp->router_norm, err)) ||
        (st = qsf_gguf_f32(g, "%s.expert_weights_scale", false, &hp->router_scale, err))) return st;
    if (step > 1) return expert_wrong(g, "experts only in one layer out of", step, err);
    return expert_layers(g, hp, err);
}
