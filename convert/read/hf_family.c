/* Reads members of config.json that only some architectures have: scales, layers without rotation,
 * biases with other names.
 * SPDX-License-Identifier: MIT */
#include "read/hf_family.h"

#ifdef QSF_HAVE_YYJSON

#define CONFIG HF_CONFIG_FILE

static qsf_status family_number(yyjson_val *root, const char *key, float absent, float *out, qsf_error *err)
{
    const qsf_status st = qsf_json_get_number(root, CONFIG, key, absent, 0, HF_CONFIG_MOST, out, err);
    if (st || *out > 0) return st;
    return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": %s is %g", key, (double)*out);
}

/* Granite's multipliers, and the factor of Command R's logits. */
static qsf_status family_scales(yyjson_val *root, const qsf_arch *a, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    float divisor;
    if (a->has & QSF_HAS_LOGIT) return family_number(root, "logit_scale", 0.0625f, &hp->logit_scale, err);
    if (!(a->has & QSF_HAS_SCALES)) return QSF_OK;
    if ((st = family_number(root, "embedding_multiplier", 1, &hp->embd_scale, err)) ||
        (st = family_number(root, "residual_multiplier", 1, &hp->residual_scale, err)) ||
        (st = family_number(root, "attention_multiplier", 1, &hp->attn_scale, err)) ||
        (st = family_number(root, "logits_scaling", 1, &divisor, err))) return st;
    hp->logit_scale = 1 / divisor;
    return QSF_OK;
}

/* A list with a number for each layer, 0 if the layer does not rotate; without the list every
 * fourth layer, or one in no_rope_layer_interval. */
static qsf_status family_rope_skip(yyjson_val *root, const qsf_arch *a, qsf_hparams *hp, qsf_error *err)
{
    uint32_t every, first = 0;
    yyjson_val *list;
    qsf_status st;
    if ((st = qsf_json_get_u32(root, CONFIG, "no_rope_layer_interval", a->rope_skip, 1, UINT16_MAX, &every,
                               err)) ||
        (st = qsf_json_get_arr(root, CONFIG, "no_rope_layers", &list, err))) return st;
    hp->rope_skip = every;
    if (!list) return QSF_OK;
    if (yyjson_arr_size(list) != hp->n_layers)
        return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": no_rope_layers has %zu entries for %u layers",
                        yyjson_arr_size(list), (unsigned)hp->n_layers);
    size_t i, n;
    yyjson_val *v;
    uint64_t turns;
    yyjson_arr_foreach(list, i, n, v) {
        if (!qsf_json_u64(v, &turns) || turns > 1)
            return qsf_json_refuse(v, CONFIG, "no_rope_layers", "a list of 0 and 1", err);
        if (!turns && !first) first = (uint32_t)i + 1;
    }
    hp->rope_skip = first;
    yyjson_arr_foreach(list, i, n, v)
        if (first && (yyjson_get_uint(v) == 0) != (i % first == first - 1))
            return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": no_rope_layers: layer %zu breaks the regular "
                            "pattern of layers that do not rotate", i);
    return QSF_OK;
}

/* Layers that see everything do not rotate where others are windowed, or keep to the scaling that
 * windowed ones do without. */
static qsf_status family_windows(const qsf_arch *a, qsf_hparams *hp, qsf_error *err)
{
    if (a->has & QSF_HAS_STILL_GLOBAL && hp->window) hp->rope_skip = hp->window_pattern;
    if (a->has & QSF_HAS_STILL_GLOBAL && !hp->window && !(a->has & QSF_HAS_64))
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": a model of type %s without windowed layers",
                        a->name);
    const bool scaled = hp->scaling != QSF_SCALING_NONE || hp->rope_factors;
    if (a->has & QSF_HAS_PLAIN_LOCAL && hp->window && scaled && !(hp->rope_base_local > 0))
        hp->rope_base_local = hp->rope_base;
    return QSF_OK;
}

static qsf_status family_biases(yyjson_val *root, hf_config *cfg, qsf_error *err)
{
    const bool always = qsf_kinds_have(cfg->arch->need, QSF_K_ATTN_OUT_BIAS);
    qsf_status st;
    bool all, out, qkv, always_qkv;
    if ((st = qsf_json_get_bool(root, CONFIG, "use_bias", always, &all, err)) ||
        (st = qsf_json_get_bool(root, CONFIG, "use_qkv_bias", false, &qkv, err)) ||
        (st = qsf_json_get_bool(root, CONFIG, "qkv_bias", true, &always_qkv, err)) ||
        (st = qsf_json_get_bool(root, CONFIG, "attention_out_bias", false, &out, err))) return st;
    if (qkv) cfg->need |= QSF_KINDS_QKV_BIAS;
    if (!always_qkv) cfg->need &= ~QSF_KINDS_QKV_BIAS;
    if (all == always && !out) return QSF_OK;
    if (always && !all)
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": use_bias is false in a model of type %s",
                        cfg->type->type);
    return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": %s in a model of type %s",
                    all != always ? "use_bias" : "attention_out_bias", cfg->type->type);
}

/* Norms of queries and keys that only some models of a type have. */
static qsf_status family_qk_norms(yyjson_val *root, hf_config *cfg, qsf_error *err)
{
    const uint64_t takes = cfg->arch->may | cfg->arch->need;
    qsf_status st;
    bool each, some;
    if ((st = qsf_json_get_bool(root, CONFIG, "use_qk_norm", false, &some, err)) ||
        (st = qsf_json_get_bool(root, CONFIG, "qk_layernorm", false, &each, err))) return st;
    if (each || (some && !qsf_kinds_have(takes, QSF_K_Q_NORM)))
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": %s in a model of type %s",
                        each ? "qk_layernorm" : "use_qk_norm", cfg->type->type);
    if (some) cfg->need |= QSF_KINDS_QK_NORM;
    return QSF_OK;
}

/* StableLM's layers may have both parts side by side, after one norm; OLMo's queries, keys and
 * values may be clamped; GLM 4.5 has layers that predict further tokens. */
static qsf_status family_layers(yyjson_val *root, hf_config *cfg, qsf_hparams *hp, qsf_error *err)
{
    const qsf_arch *a = cfg->arch;
    bool parallel = false;
    qsf_status st = QSF_OK;
    if (a->has & QSF_HAS_MAY_PARALLEL &&
        (st = qsf_json_get_bool(root, CONFIG, "use_parallel_residual", false, &parallel, err))) return st;
    if (parallel) {
        hp->flow = QSF_FLOW_PARALLEL;
        cfg->need &= ~QSF_KIND(FFN_NORM_BIAS);
    }
    if (a->has & QSF_HAS_CLAMP &&
        (st = qsf_json_get_number(root, CONFIG, "clip_qkv", 0, 0, HF_CONFIG_MOST, &hp->qkv_clamp, err)))
        return st;
    return qsf_json_get_u32(root, CONFIG, qsf_json_get(root, "num_mtp_layers") ? "num_mtp_layers"
                            : "num_nextn_predict_layers", 0, 0, 64, &cfg->n_guessing, err);
}

qsf_status qsf_hf_family(yyjson_val *root, hf_config *cfg, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    const qsf_arch *a = cfg->arch;
    if ((st = family_scales(root, a, hp, err)) || (st = family_windows(a, hp, err)) ||
        (st = family_biases(root, cfg, err)) || (st = family_qk_norms(root, cfg, err)) ||
        (st = family_layers(root, cfg, hp, err))) return st;
    return a->rope_skip ? family_rope_skip(root, a, hp, err) : QSF_OK;
}

#undef CONFIG
#endif
