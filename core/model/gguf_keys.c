/* GGUF keys to treat as missing: when llama.cpp saves a model it writes every key, and those that
 * it had not read get the initial value of its own variable.
 * SPDX-License-Identifier: MIT */
#include "model/gguf.h"

/* When a key is treated as missing. */
typedef enum gguf_silent {
    SILENT_ZERO,                /* if all values are 0, which stands for unset */
    SILENT_ZERO_PARTS,          /* the same, unless layers without a feed-forward may have 0 */
    SILENT_FIXED_ALIBI,         /* if the architecture's bias is fixed */
    SILENT_FIXED_NORM           /* if the architecture fixes whether experts' weights are normalised */
} gguf_silent;

static const struct { const char *key; gguf_silent when; } gguf_silent_keys[] = {
    { "%s.feed_forward_length", SILENT_ZERO_PARTS },
    { "%s.expert_feed_forward_length", SILENT_ZERO },
    { "%s.expert_shared_feed_forward_length", SILENT_ZERO },
    { "%s.expert_weights_norm", SILENT_FIXED_NORM },
    { "%s.attention.key_length", SILENT_ZERO },
    { "%s.attention.value_length", SILENT_ZERO },
    { "%s.attention.key_length_swa", SILENT_ZERO },
    { "%s.attention.value_length_swa", SILENT_ZERO },
    { "%s.attention.key_length_mla", SILENT_ZERO },
    { "%s.attention.value_length_mla", SILENT_ZERO },
    { "%s.attention.max_alibi_bias", SILENT_FIXED_ALIBI },
    { "%s.rope.dimension_sections", SILENT_ZERO },
    { "%s.ssm.group_count", SILENT_ZERO },
};

static bool all_zero(const gguf_kv *kv)
{
    double v;
    for (uint64_t i = 0; i < kv->n; i++)
        if (!qsf_gguf_number(kv, i, &v) || v != 0) return false;
    return true;
}

bool qsf_gguf_is_silent(const gguf *g, const char *key, const gguf_kv *kv)
{
    for (size_t i = 0; g->row && i < QSF_ARRAY_LEN(gguf_silent_keys); i++) {
        if (strcmp(key, gguf_silent_keys[i].key)) continue;
        switch (gguf_silent_keys[i].when) {
        case SILENT_ZERO: return all_zero(kv);
        case SILENT_ZERO_PARTS: return g->row->layers != QSF_LAYERS_ONE && all_zero(kv);
        case SILENT_FIXED_ALIBI: return g->row->alibi > 0 && !(g->row->has & QSF_HAS_ALIBI);
        case SILENT_FIXED_NORM: return !g->row->asks_router_norm;
        }
    }
    return false;
}
