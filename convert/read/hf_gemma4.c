/* Reads config.json of Gemma 4's text models: global attention layers have their own sizes, the
 * last layers read other layers' keys, and tokens have a row for each layer.
 * SPDX-License-Identifier: MIT */
#include "read/hf_gemma4.h"

#ifdef QSF_HAVE_YYJSON

#define CONFIG HF_CONFIG_FILE

static bool gemma4_windowed(const qsf_hparams *hp, uint32_t i)
{
    return hp->window && (!hp->window_pattern || (i + 1) % hp->window_pattern != 0);
}

/* What Transformers 5 writes instead of global_head_dim: an object for each layer that sees
 * everything, by its number, with what differs from the others. */
static qsf_status gemma4_each(yyjson_val *root, const qsf_hparams *hp, uint32_t *dim, uint32_t *kv_heads,
                              qsf_error *err)
{
    static const char what[] = CONFIG ": per_layer_config";
    yyjson_val *all, *key, *val;
    size_t i, n, count = 0;
    qsf_status st = qsf_json_get_obj(root, CONFIG, "per_layer_config", &all, err);
    if (st || !all) return st;
    *dim = hp->head_dim;
    *kv_heads = hp->n_kv_heads;
    json_members(all, i, n, key, val) {
        const char *number = qsf_json_str(key, NULL);
        uint32_t own_dim = *dim, own_kv = *kv_heads, layer = 0;
        while (number && *number >= '0' && *number <= '9' && layer < hp->n_layers)
            layer = layer * 10 + (uint32_t)(*number++ - '0');
        if (!number || *number || layer >= hp->n_layers || gemma4_windowed(hp, layer))
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: \"%.40s\" is not a layer with full attention", what,
                            qsf_json_str(key, NULL) ? qsf_json_str(key, NULL) : "");
        if ((st = qsf_json_get_u32(val, what, "head_dim", own_dim, 1, QSF_MAX_HEAD_DIM, &own_dim, err)) ||
            (st = qsf_json_get_u32(val, what, "num_key_value_heads", own_kv, 1, hp->n_heads, &own_kv, err)))
            return st;
        if (count++ && (own_dim != *dim || own_kv != *kv_heads))
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layer %u has other sizes than an earlier one", what,
                            (unsigned)layer);
        *dim = own_dim;
        *kv_heads = own_kv;
    }
    return QSF_OK;
}

static qsf_status gemma4_heads(yyjson_val *root, qsf_arena *arena, qsf_hparams *hp, qsf_error *err)
{
    uint32_t dim, kv;
    bool same;
    qsf_status st;
    if ((st = qsf_json_get_u32(root, CONFIG, "global_head_dim", 512, 1, QSF_MAX_HEAD_DIM, &dim, err)) ||
        (st = qsf_json_get_bool(root, CONFIG, "attention_k_eq_v", false, &same, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "num_global_key_value_heads", hp->n_kv_heads, 1, hp->n_heads,
                               &kv, err))) return st;
    if (!same) kv = hp->n_kv_heads;
    if ((st = gemma4_each(root, hp, &dim, &kv, err))) return st;
    if (hp->n_heads % kv)
        return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": %u attention heads do not divide into %u key-value "
                        "heads", (unsigned)hp->n_heads, (unsigned)kv);
    if (dim != hp->head_dim) hp->head_dim_local = hp->head_dim;
    hp->head_dim = dim;
    if (kv == hp->n_kv_heads) return QSF_OK;
    if (!(hp->kv_heads = qsf_arena_array(arena, hp->n_layers, sizeof *hp->kv_heads, "sizes of layers", err)))
        return QSF_E_MEMORY;
    for (uint32_t i = 0; i < hp->n_layers; i++)
        hp->kv_heads[i] = gemma4_windowed(hp, i) ? hp->n_kv_heads : kv;
    hp->n_kv_heads = QSF_MAX(hp->n_kv_heads, kv);
    return QSF_OK;
}

/* Layers that read others' keys may have a feed-forward of twice the length. */
static qsf_status gemma4_lengths(yyjson_val *root, qsf_arena *arena, qsf_hparams *hp, qsf_error *err)
{
    bool twice;
    const qsf_status st = qsf_json_get_bool(root, CONFIG, "use_double_wide_mlp", false, &twice, err);
    if (st || !twice || !hp->n_kv_shared) return st;
    if (!(hp->ffs = qsf_arena_array(arena, hp->n_layers, sizeof *hp->ffs, "sizes of layers", err)))
        return QSF_E_MEMORY;
    for (uint32_t i = 0; i < hp->n_layers; i++)
        hp->ffs[i] = i + hp->n_kv_shared < hp->n_layers ? hp->n_ff : 2 * hp->n_ff;
    hp->n_ff *= 2;
    return QSF_OK;
}

static qsf_status gemma4_refuse(yyjson_val *root, const qsf_hparams *hp, qsf_error *err)
{
    const char *both;
    const qsf_status st = qsf_json_get_text(root, CONFIG, "use_bidirectional_attention", &both, err);
    if (st) return st;
    /* "vision" does not matter for text */
    if (both && strcmp(both, "vision"))
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": use_bidirectional_attention \"%.40s\" (supported: "
                        "vision)", both);
    if (gemma4_windowed(hp, hp->n_layers - 1))
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": layer_types: the last layer, %u, is windowed",
                        (unsigned)hp->n_layers - 1);
    return QSF_OK;
}

qsf_status qsf_hf_gemma4(yyjson_val *root, hf_config *cfg, qsf_arena *arena, qsf_hparams *hp, qsf_error *err)
{
    yyjson_val *row = yyjson_obj_get(root, "hidden_size_per_layer_input");
    qsf_status st;
    if ((st = gemma4_refuse(root, hp, err)) || (st = gemma4_heads(root, arena, hp, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "num_kv_shared_layers", 0, 0, hp->n_layers - 1,
                               &hp->n_kv_shared, err)) ||
        (st = gemma4_lengths(root, arena, hp, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "hidden_size_per_layer_input", row ? 0 : 256, 0, 1 << 16,
                               &hp->n_embd_layer, err)) ||
        (st = qsf_json_get_number(root, CONFIG, "final_logit_softcapping", 0, 0, HF_CONFIG_MOST,
                                  &hp->final_softcap, err))) return st;
    if (hp->n_embd_layer == 1 || (uint64_t)hp->n_embd_layer * hp->n_layers > INT32_MAX)
        return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": hidden_size_per_layer_input is %u",
                        (unsigned)hp->n_embd_layer);
    hp->v_norm = true;
    hp->attn_scale = 1;
    /* The embedding is read by row while the head stays. */
    cfg->head_twice = hp->tied && hp->n_embd_layer;
    if (cfg->head_twice) hp->tied = false;
    return QSF_OK;
}

#undef CONFIG
#endif
