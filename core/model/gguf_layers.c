/* Reads GGUF keys with one value for all layers, or an array with one for each.
 * SPDX-License-Identifier: MIT */
#include "model/gguf.h"

#include <stddef.h>

static const struct gguf_layer_field { const char *key; size_t at; } gguf_layer_fields[GGUF_N_LAYER_KEYS] = {
    [GGUF_LAYER_FF] = { "%s.feed_forward_length", offsetof(qsf_layer, n_ff) },
    [GGUF_LAYER_HEADS] = { "%s.attention.head_count", offsetof(qsf_layer, n_heads) },
    [GGUF_LAYER_KV_HEADS] = { "%s.attention.head_count_kv", offsetof(qsf_layer, n_kv_heads) },
    [GGUF_LAYER_USED] = { "%s.expert_used_count", offsetof(qsf_layer, n_used) },
    [GGUF_LAYER_EXPERT_FF] = { "%s.expert_feed_forward_length", offsetof(qsf_layer, n_ff_expert) },
};

/* The key if its values differ; NULL: they are equal, or one of them is not a size. */
static const gguf_kv *find_differing(const gguf *g, gguf_layer_key key, uint32_t *most)
{
    const gguf_kv *kv = qsf_gguf_find(g, gguf_layer_fields[key].key);
    int64_t v, first = 0;
    bool differ = false;
    *most = 0;
    for (uint64_t i = 0; kv && i < kv->n; i++) {
        if (!qsf_gguf_integer(kv, i, &v) || v < 0 || v > UINT32_MAX) return NULL;
        if (i == 0) first = v;
        differ |= v != first;
        *most = QSF_MAX(*most, (uint32_t)v);
    }
    return differ ? kv : NULL;
}

qsf_status qsf_gguf_layer_u32(const gguf *g, gguf_layer_key key, bool need, uint32_t *out, bool *differ,
                              qsf_error *err)
{
    const uint32_t n_layers = g->s->hp.n_layers;
    uint32_t most;
    const gguf_kv *kv = find_differing(g, key, &most);
    *differ = kv != NULL;
    if (!kv) return qsf_gguf_u32(g, gguf_layer_fields[key].key, need, out, err);
    if (kv->n != n_layers && kv->n != n_layers + (uint64_t)g->n_nextn)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: key \"%.*s\" has %llu values for %u layers", g->s->path,
                        (int)kv->key.len, kv->key.p, (unsigned long long)kv->n, (unsigned)n_layers);
    *out = most;
    return QSF_OK;
}

/* So that files of other formats can say it: what differs, as the model's description has it.  A
 * layer without experts gets the largest of their sizes. */
static qsf_status keep_differing(const gguf *g, gguf_layer_key key, uint32_t **out, qsf_error *err)
{
    uint32_t most;
    const gguf_kv *kv = find_differing(g, key, &most);
    const bool experts = key == GGUF_LAYER_USED || key == GGUF_LAYER_EXPERT_FF;
    if (!kv || (!g->row->later_gemma && !experts)) return QSF_OK;
    *out = qsf_arena_array(g->s->arena, g->s->hp.n_layers, sizeof **out, "sizes of layers", err);
    for (uint32_t i = 0; *out && i < g->s->hp.n_layers; i++) {
        int64_t v = 0;
        (void)qsf_gguf_integer(kv, i, &v);
        (*out)[i] = experts && !g->s->layers[i].n_experts ? most : (uint32_t)v;
    }
    return *out ? QSF_OK : QSF_E_MEMORY;
}

/* Whether a layer has what the key is the size of. */
static bool layer_has(const qsf_source *s, const qsf_layer *l, gguf_layer_key key)
{
    if (key == GGUF_LAYER_USED || key == GGUF_LAYER_EXPERT_FF) return l->n_experts;
    /* if layers have one part, the length shows that this one is a feed-forward */
    if (key == GGUF_LAYER_FF) return !s->hp.feed_forwards || !l->n_experts;
    return qsf_layer_attends(l);
}

qsf_status qsf_gguf_layer_sizes(gguf *g, qsf_error *err)
{
    qsf_source *s = g->s;
    const bool shared = qsf_gguf_find(g, gguf_layer_fields[GGUF_LAYER_KV_HEADS].key) != NULL;
    uint32_t most;
    for (int key = 0; key < GGUF_N_LAYER_KEYS; key++) {
        const gguf_kv *kv = find_differing(g, (gguf_layer_key)key, &most);
        for (uint32_t i = 0; kv && i < s->hp.n_layers; i++) {
            int64_t v = 0;
            (void)qsf_gguf_integer(kv, i, &v);
            const uint32_t size = (uint32_t)v;
            if (!layer_has(s, &s->layers[i], (gguf_layer_key)key)) continue;
            memcpy((uint8_t *)&s->layers[i] + gguf_layer_fields[key].at, &size, sizeof size);
        }
    }
    for (uint32_t i = 0; i < s->hp.n_layers; i++) {
        qsf_layer *l = &s->layers[i];
        if (!shared && qsf_layer_attends(l) && !l->kv_latent) l->n_kv_heads = l->n_heads;
        const bool short_of = !l->n_ff && !l->n_experts && l->feed_forward != QSF_FEED_FORWARD_NONE;
        if (short_of || !l->n_heads || !l->n_kv_heads || l->n_heads % l->n_kv_heads)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layer %u has %u heads, %u key and value heads and a "
                            "feed-forward length of %u, which this version cannot run", s->path, (unsigned)i,
                            (unsigned)l->n_heads, (unsigned)l->n_kv_heads, (unsigned)l->n_ff);
        if (l->n_experts && (!l->n_used || l->n_ff_expert < 2))
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layer %u has experts of length %u and takes %u of "
                            "them, which this version cannot run", s->path, (unsigned)i,
                            (unsigned)l->n_ff_expert, (unsigned)l->n_used);
    }
    s->most = qsf_layers_most(s->layers, s->hp.n_layers);
    qsf_status st = keep_differing(g, GGUF_LAYER_FF, &s->hp.ffs, err);
    if (!st) st = keep_differing(g, GGUF_LAYER_KV_HEADS, &s->hp.kv_heads, err);
    if (!st) st = keep_differing(g, GGUF_LAYER_USED, &s->hp.useds, err);
    return st ? st : keep_differing(g, GGUF_LAYER_EXPERT_FF, &s->hp.expert_ffs, err);
}
