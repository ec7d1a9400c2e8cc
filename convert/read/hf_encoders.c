/* Reads config.json of encoders: token types and positions, unsupported variants, windows on both
 * sides, classes.
 * SPDX-License-Identifier: MIT */
#include "read/hf_encoders.h"

#ifdef QSF_HAVE_YYJSON

#define CONFIG HF_CONFIG_FILE

/* A switch that must be off: on it is another network. */
static qsf_status encoder_off(yyjson_val *root, const hf_type *d, const char *const *keys, size_t n,
                              qsf_error *err)
{
    for (size_t i = 0; i < n; i++) {
        bool on;
        const qsf_status st = qsf_json_get_bool(root, CONFIG, keys[i], false, &on, err);
        if (st) return st;
        if (on)
            return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": %s in a model of type %s", keys[i], d->type);
    }
    return QSF_OK;
}

/* A text that may have one value only. */
static qsf_status encoder_only(yyjson_val *root, const char *key, const char *only, qsf_error *err)
{
    const char *text;
    const qsf_status st = qsf_json_get_text(root, CONFIG, key, &text, err);
    if (st || !text || !strcmp(text, only)) return st;
    return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": %s \"%s\" (supported: %s)", key, text, only);
}

/* Scores per input: as many as there are labels, two if the file does not list them. */
static qsf_status encoder_classes(yyjson_val *root, qsf_hparams *hp, qsf_error *err)
{
    yyjson_val *labels;
    qsf_status st = qsf_json_get_obj(root, CONFIG, "id2label", &labels, err);
    const size_t n = st || !labels ? 2 : yyjson_obj_size(labels);
    if (!st) st = qsf_json_get_u32(root, CONFIG, "num_labels", (uint32_t)n, 1, 1 << 24, &hp->n_classes, err);
    hp->pooling = QSF_POOL_RANK;
    return st;
}

/* ---- BERT, and Jina's with ALiBi ------------------------------------------------------------- */

static qsf_status encoder_bert(yyjson_val *root, const hf_config *cfg, qsf_hparams *hp, qsf_error *err)
{
    static const char *const off[] = { "is_decoder" };
    const hf_type *d = cfg->type;
    const bool alibi = cfg->arch->alibi > 0;
    qsf_status st;
    if ((st = qsf_json_get_u32(root, CONFIG, "type_vocab_size", 2, 1, 1 << 16, &hp->n_token_types, err)) ||
        (st = encoder_off(root, d, off, QSF_ARRAY_LEN(off), err)) ||
        (st = encoder_only(root, "position_embedding_type", alibi ? "alibi" : "absolute", err)) ||
        (alibi && (st = encoder_only(root, "feed_forward_type", "geglu", err)))) return st;
    hp->alibi = cfg->arch->alibi;
    if (hp->n_ctx_train <= d->pos_first)
        return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": max_position_embeddings is %u",
                        (unsigned)hp->n_ctx_train);
    /* Positions begin after that of the padding. */
    if (d->pos_first && cfg->pad >= 0 && (uint32_t)cfg->pad + 1 != d->pos_first)
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": pad_token_id is %d (supported: %u)", (int)cfg->pad,
                        (unsigned)d->pos_first - 1);
    hp->n_ctx_train -= d->pos_first;
    return QSF_OK;
}

/* ---- Nomic's --------------------------------------------------------------------------------- */

/* The models' own code has GPT-2's names of sizes, the Transformers library BERT's. */
static qsf_status nomic_size(yyjson_val *root, const char *older, const char *newer, uint32_t absent,
                             uint32_t most, uint32_t *out, qsf_error *err)
{
    return qsf_json_get_u32(root, CONFIG, qsf_json_get(root, older) ? older : newer, absent, 1, most, out,
                            err);
}

/* Beyond the positions that it was trained with the models' own code stretches frequencies. */
static qsf_status nomic_positions(yyjson_val *root, const hf_type *d, qsf_hparams *hp, qsf_error *err)
{
    uint32_t trained;
    qsf_status st;
    if ((st = nomic_size(root, "n_positions", "max_position_embeddings", d->ctx, INT32_MAX,
                         &hp->n_ctx_train, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "max_trained_positions", hp->n_ctx_train, 1, INT32_MAX, &trained,
                               err))) return st;
    hp->n_ctx_train = QSF_MIN(hp->n_ctx_train, trained);
    return QSF_OK;
}

qsf_status qsf_hf_nomic(yyjson_val *root, const hf_type *d, qsf_hparams *hp, qsf_error *err)
{
    static const char *const off[] = { "prenorm", "causal", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias",
                                       "use_rms_norm", "parallel_block", "rotary_emb_interleaved" };
    const bool older = qsf_json_get(root, "n_embd") != NULL;
    yyjson_val *scale = qsf_json_get(root, "rotary_emb_scale_base");
    uint32_t moe = 0;
    float part;
    qsf_status st;
    if ((st = nomic_size(root, "n_embd", "hidden_size", d->embd, 1 << 20, &hp->n_embd, err)) ||
        (st = nomic_size(root, "n_layer", "num_hidden_layers", d->layers, 4096, &hp->n_layers, err)) ||
        (st = nomic_size(root, "n_head", "num_attention_heads", d->heads, 1 << 16, &hp->n_heads, err)) ||
        (st = nomic_size(root, "n_inner", "intermediate_size", d->ff, 1 << 24, &hp->n_ff, err)) ||
        (st = nomic_positions(root, d, hp, err)) ||
        (st = qsf_json_get_f32(root, CONFIG, older ? "layer_norm_epsilon" : "layer_norm_eps", d->eps,
                               &hp->norm_eps, err)) ||
        (st = qsf_json_get_f32(root, CONFIG, "rotary_emb_fraction", 1, &part, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "moe_every_n_layers", 0, 0, UINT16_MAX, &moe, err)) ||
        (st = encoder_off(root, d, off, QSF_ARRAY_LEN(off), err)) ||
        (st = encoder_only(root, "activation_function", "swiglu", err)) ||
        (st = encoder_only(root, "hidden_act", "silu", err))) return st;
    hp->n_kv_heads = hp->n_heads;
    if (moe || scale || part != 1)
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": %s in a model of type %s",
                        moe ? "moe_every_n_layers" : scale ? "rotary_emb_scale_base" : "rotary_emb_fraction",
                        d->type);
    return QSF_OK;
}

/* ---- ModernBERT ------------------------------------------------------------------------------ */

/* Every nth layer sees everything, the first one does; layer_types lists the same. */
static qsf_status modern_period(yyjson_val *root, const qsf_hparams *hp, uint32_t *period, qsf_error *err)
{
    size_t i, n;
    yyjson_val *e, *types;
    qsf_status st;
    if ((st = qsf_json_get_u32(root, CONFIG, "global_attn_every_n_layers", 3, 1, UINT16_MAX, period, err)) ||
        (st = qsf_json_get_arr(root, CONFIG, "layer_types", &types, err)) || !types) return st;
    if (yyjson_arr_size(types) != hp->n_layers)
        return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": layer_types has %zu entries for %u layers",
                        yyjson_arr_size(types), (unsigned)hp->n_layers);
    *period = hp->n_layers;
    yyjson_arr_foreach(types, i, n, e) {
        const char *t = qsf_json_str(e, NULL);
        const bool all = t && !strcmp(t, "full_attention");
        if (!all && (!t || strcmp(t, "sliding_attention")))
            return qsf_json_refuse(e, CONFIG, "layer_types", "full_attention or sliding_attention", err);
        if (all && i && *period == hp->n_layers) *period = (uint32_t)i;
        if (all != (i % *period == 0))
            return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": layer %zu breaks the regular pattern of "
                            "windowed and full attention layers, of which the first is full", i);
    }
    return QSF_OK;
}

static qsf_status encoder_modern(yyjson_val *root, const hf_type *d, qsf_hparams *hp, qsf_error *err)
{
    static const char *const off[] = { "norm_bias", "attention_bias", "mlp_bias", "classifier_bias" };
    const size_t n = QSF_ARRAY_LEN(off) - !d->classes;
    const char *pooling;
    qsf_status st;
    if ((st = encoder_off(root, d, off, n, err)) ||
        (st = modern_period(root, hp, &hp->window_pattern, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "local_attention", d->window, 2, INT32_MAX, &hp->window, err)))
        return st;
    hp->window_first = hp->window_pattern - 1;
    if (hp->window_pattern == 1) hp->window = 0;
    hp->flow = QSF_FLOW_BARE_BEGIN;
    if (!d->classes) return QSF_OK;
    if ((st = encoder_only(root, "classifier_activation", "gelu", err)) ||
        (st = qsf_json_get_text(root, CONFIG, "classifier_pooling", &pooling, err))) return st;
    hp->rank_mean = pooling && !strcmp(pooling, "mean");
    return hp->rank_mean ? QSF_OK : encoder_only(root, "classifier_pooling", "cls", err);
}

qsf_status qsf_hf_encoder(yyjson_val *root, const hf_config *cfg, qsf_hparams *hp, qsf_error *err)
{
    const hf_type *d = cfg->type;
    qsf_status st = QSF_OK;
    if (d->keys == HF_KEYS_BERT) st = encoder_bert(root, cfg, hp, err);
    else if (d->keys == HF_KEYS_MODERN) st = encoder_modern(root, d, hp, err);
    else st = qsf_json_get_u32(root, CONFIG, "type_vocab_size", 2, 1, 1 << 16, &hp->n_token_types, err);
    if (!st && d->classes) st = encoder_classes(root, hp, err);
    hp->tied = true;
    return st;
}

#undef CONFIG
#endif
