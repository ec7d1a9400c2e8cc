/* Reads from config.json which layers have a mixer other than attention, and its sizes.
 * SPDX-License-Identifier: MIT */
#include "read/hf_mixers.h"

#ifdef QSF_HAVE_YYJSON

#define CONFIG HF_CONFIG_FILE
enum { MIXERS_WIDEST = 1 << 18 };       /* as core/model/layer_record.c allows */

/* A member whose other value is another network. */
static qsf_status mixers_fixed(yyjson_val *root, const char *key, bool value, qsf_error *err)
{
    bool b;
    const qsf_status st = qsf_json_get_bool(root, CONFIG, key, value, &b, err);
    if (st || b == value) return st;
    return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": %s is %s, which this version cannot run", key,
                    b ? "true" : "false");
}

/* ---- which layers ---------------------------------------------------------------------------- */

/* One word for each layer. */
static qsf_status mixers_by_word(yyjson_val *types, uint8_t mixer, qsf_hparams *hp, qsf_error *err)
{
    static const struct { const char *word; uint8_t mixer; } words[] = {
        { "full_attention", QSF_MIXER_ATTENTION }, { "attention", QSF_MIXER_ATTENTION },
        { "conv", QSF_MIXER_SHORT_CONV }, { "mamba", QSF_MIXER_MAMBA2 },
        { "linear_attention", QSF_MIXER_MAMBA2 }, { "linear_attention", QSF_MIXER_DELTA_NET },
    };
    size_t i, n, k;
    yyjson_val *e;
    if (yyjson_arr_size(types) != hp->n_layers)
        return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": layer_types has %zu entries for %u layers",
                        yyjson_arr_size(types), (unsigned)hp->n_layers);
    yyjson_arr_foreach(types, i, n, e) {
        const char *t = qsf_json_str(e, NULL);
        if (!t) return qsf_json_refuse(e, CONFIG, "layer_types", "a list of strings", err);
        for (k = 0; k < QSF_ARRAY_LEN(words); k++)
            if (!strcmp(t, words[k].word) && (!words[k].mixer || words[k].mixer == mixer)) break;
        if (k == QSF_ARRAY_LEN(words))
            return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": layer %zu is of type \"%.40s\", which no layer "
                            "of a %s model is", i, t, hp->arch);
        hp->mixers[i] = words[k].mixer;
    }
    return QSF_OK;
}

/* LFM2's first files list the layers with attention. */
static qsf_status mixers_by_index(yyjson_val *list, uint8_t mixer, qsf_hparams *hp, qsf_error *err)
{
    size_t i, n;
    yyjson_val *e;
    uint64_t at;
    memset(hp->mixers, mixer, hp->n_layers);
    yyjson_arr_foreach(list, i, n, e) {
        if (!qsf_json_u64(e, &at) || at >= hp->n_layers)
            return qsf_json_refuse(e, CONFIG, "full_attn_idxs", "a list of layers", err);
        hp->mixers[at] = QSF_MIXER_ATTENTION;
    }
    return QSF_OK;
}

/* If they are not listed, the defaults of Transformers: all layers of LFM2 have attention, none of
 * Granite's, every nth of Qwen's. */
static qsf_status mixers_which(yyjson_val *root, uint8_t mixer, qsf_hparams *hp, qsf_error *err)
{
    yyjson_val *types, *list;
    uint32_t every = mixer == QSF_MIXER_SHORT_CONV ? 1 : mixer == QSF_MIXER_DELTA_NET ? 4 : 0;
    qsf_status st;
    if ((st = qsf_json_get_arr(root, CONFIG, "layer_types", &types, err)) ||
        (!types && (st = qsf_json_get_arr(root, CONFIG, "layers_block_type", &types, err))) ||
        (st = qsf_json_get_arr(root, CONFIG, "full_attn_idxs", &list, err))) return st;
    if (types) return mixers_by_word(types, mixer, hp, err);
    if (list && mixer == QSF_MIXER_SHORT_CONV) return mixers_by_index(list, mixer, hp, err);
    if (mixer == QSF_MIXER_DELTA_NET &&
        (st = qsf_json_get_u32(root, CONFIG, "full_attention_interval", every, 1, UINT16_MAX, &every, err)))
        return st;
    for (uint32_t i = 0; i < hp->n_layers; i++)
        hp->mixers[i] = every && (i + 1) % every == 0 ? QSF_MIXER_ATTENTION : mixer;
    return QSF_OK;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The length of LFM2's feed-forward is two thirds of what is written, times a factor, rounded
 * up. */
static qsf_status mixers_lfm2_ff(yyjson_val *root, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    bool adjust;
    float times;
    uint32_t of;
    if ((st = qsf_json_get_u32(root, CONFIG, "block_ff_dim", hp->n_ff, 1, 1 << 24, &hp->n_ff, err)) ||
        (st = qsf_json_get_bool(root, CONFIG, "block_auto_adjust_ff_dim", true, &adjust, err)) ||
        (st = qsf_json_get_number(root, CONFIG, "block_ffn_dim_multiplier", 1, 1e-3, 1e3, &times, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "block_multiple_of", 256, 1, 1 << 16, &of, err))) return st;
    if (!adjust) return QSF_OK;
    const double part = floor((double)times * floor(2.0 * hp->n_ff / 3));
    if (part > 1 << 24 || part < 1)
        return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": a feed-forward of length %g", part);
    hp->n_ff = ((uint32_t)part + of - 1) / of * of;
    return QSF_OK;
}

static qsf_status mixers_lfm2(yyjson_val *root, const hf_config *cfg, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    if ((st = mixers_fixed(root, "conv_bias", false, err)) ||
        (!cfg->type->experts && (st = mixers_lfm2_ff(root, hp, err)))) return st;
    return qsf_json_get_u32(root, CONFIG, "conv_L_cache", 3, 2, QSF_MAX_MIX_CONV, &hp->mix_conv, err);
}

/* [0, infinity] means no limit. */
static qsf_status mixers_no_limit(yyjson_val *root, qsf_error *err)
{
    yyjson_val *list;
    const qsf_status st = qsf_json_get_arr(root, CONFIG, "time_step_limit", &list, err);
    if (st || !list) return st;
    yyjson_val *low = yyjson_arr_get_first(list), *high = yyjson_arr_get_last(list);
    const bool finite = yyjson_is_num(high) && yyjson_get_num(high) <= FLT_MAX;
    const bool none = yyjson_is_num(low) && yyjson_get_num(low) == 0 && !finite;
    if (none && yyjson_arr_size(list) == 2) return QSF_OK;
    return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": a time_step_limit other than [0, infinity]");
}

static qsf_status mixers_granite(yyjson_val *root, qsf_hparams *hp, qsf_error *err)
{
    const char *positions;
    float expand;
    uint32_t head, own;
    qsf_status st;
    if ((st = qsf_json_get_u32(root, CONFIG, "mamba_d_conv", 4, 2, QSF_MAX_MIX_CONV, &hp->mix_conv, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "mamba_d_state", 256, 1, QSF_MAX_MIX_STATE, &hp->mix_state,
                               err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "mamba_n_heads", 128, 1, 1 << 16, &hp->mix_heads, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "mamba_n_groups", 1, 1, 1 << 16, &hp->mix_groups, err)) ||
        (st = qsf_json_get_number(root, CONFIG, "mamba_expand", 2, 1e-3, 1e3, &expand, err)) ||
        (st = mixers_fixed(root, "mamba_proj_bias", false, err)) || (st = mixers_no_limit(root, err)) ||
        (st = qsf_json_get_text(root, CONFIG, "position_embedding_type", &positions, err))) return st;
    const double inner = floor((double)expand * hp->n_embd);
    hp->mix_inner = inner <= MIXERS_WIDEST ? (uint32_t)inner : 0;
    head = own = hp->mix_inner / hp->mix_heads;
    if (!qsf_json_str(qsf_json_get(root, "mamba_d_head"), NULL) &&      /* "auto" */
        (st = qsf_json_get_u32(root, CONFIG, "mamba_d_head", own, 1, MIXERS_WIDEST, &head, err))) return st;
    if (!own || head != own || hp->mix_inner % hp->mix_heads || hp->mix_heads % hp->mix_groups)
        return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": %u heads of length %u in %u groups for %g channels "
                        "(mamba_n_heads, mamba_d_head, mamba_n_groups, mamba_expand)",
                        (unsigned)hp->mix_heads, (unsigned)head, (unsigned)hp->mix_groups, inner);
    if (positions && !strcmp(positions, "rope")) return QSF_OK;
    if (positions && strcmp(positions, "nope"))
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": position_embedding_type \"%.40s\" (supported: "
                        "rope, nope)", positions);
    hp->rope = QSF_ROPE_NONE;
    return QSF_OK;
}

static qsf_status mixers_delta(yyjson_val *root, const qsf_arch *a, qsf_hparams *hp, qsf_error *err)
{
    uint32_t value;
    qsf_status st;
    if ((st = qsf_json_get_u32(root, CONFIG, "linear_conv_kernel_dim", 4, 2, QSF_MAX_MIX_CONV, &hp->mix_conv,
                               err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "linear_key_head_dim", 128, 1, QSF_MAX_MIX_STATE,
                               &hp->mix_state, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "linear_value_head_dim", 128, 1, QSF_MAX_MIX_STATE, &value,
                               err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "linear_num_key_heads", 16, 1, 1 << 16, &hp->mix_groups, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "linear_num_value_heads", 32, 2, 1 << 16, &hp->mix_heads,
                               err)) ||
        (st = mixers_fixed(root, "attn_output_gate", true, err))) return st;
    if (value != hp->mix_state || hp->mix_heads % hp->mix_groups ||
        (uint64_t)value * hp->mix_heads > MIXERS_WIDEST)
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": %u value heads of length %u for %u key heads of "
                        "length %u (linear_...), which this version cannot run", (unsigned)hp->mix_heads,
                        (unsigned)value, (unsigned)hp->mix_groups, (unsigned)hp->mix_state);
    hp->mix_inner = value * hp->mix_heads;
    hp->attn_gate = 1;
    hp->mix_neighbours = a->has & QSF_HAS_NEIGHBOURS ? 1 : 0;
    return QSF_OK;
}

qsf_status qsf_hf_mixers(yyjson_val *root, const hf_config *cfg, qsf_arena *arena, qsf_hparams *hp,
                         qsf_error *err)
{
    const uint8_t mixer = cfg->arch->mixer;
    hp->mixers = qsf_arena_array(arena, hp->n_layers, sizeof *hp->mixers, "mixers", err);
    if (!hp->mixers) return QSF_E_MEMORY;
    const qsf_status st = mixers_which(root, mixer, hp, err);
    if (st) return st;
    if (mixer == QSF_MIXER_SHORT_CONV) return mixers_lfm2(root, cfg, hp, err);
    if (mixer == QSF_MIXER_DELTA_NET) return mixers_delta(root, cfg->arch, hp, err);
    return mixers_granite(root, hp, err);
}

#undef CONFIG
#endif
