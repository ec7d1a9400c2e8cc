/* Converts config.json to hparams, with the Transformers library's defaults for missing members.
 * SPDX-License-Identifier: MIT */
#include "read/hf_config.h"

#include "read/hf_encoders.h"
#include "read/hf_experts.h"
#include "read/hf_family.h"
#include "read/hf_gemma4.h"
#include "read/hf_latent.h"
#include "read/hf_mixers.h"
#include "read/hf_rerank.h"
#include "read/hf_rope.h"

#ifdef QSF_HAVE_YYJSON

#define CONFIG HF_CONFIG_FILE

static bool config_sign(char c) { return c == '_' || c == '-'; }

/* The architecture of GGUF files with this type's name, ignoring dashes; NULL if unknown. */
static const qsf_arch *config_gguf(const char *type)
{
    for (const qsf_arch *a = qsf_archs; a->name && type; a++) {
        const char *x = type, *y = a->name;
        while (*x || *y) {
            if (config_sign(*x)) x++;
            else if (config_sign(*y)) y++;
            else if (*x != *y) break;
            else x++, y++;
        }
        if (!*x && !*y) return a;
    }
    return NULL;
}

static qsf_status config_type(yyjson_val *root, const hf_type **out, qsf_error *err)
{
    const char *type, *cls;
    yyjson_val *classes;
    qsf_status st;
    if ((st = qsf_json_get_text(root, CONFIG, "model_type", &type, err)) ||
        (st = qsf_json_get_arr(root, CONFIG, "architectures", &classes, err))) return st;
    /* Its text model has another type, which determines everything else. */
    if (type && !strcmp(type, "mistral3")) {
        yyjson_val *text;
        if ((st = qsf_json_get_obj(root, CONFIG, "text_config", &text, err)) ||
            (st = qsf_json_get_text(text, CONFIG ": text_config", "model_type", &type, err))) return st;
        if (!type) type = "mistral";
    }
    cls = qsf_json_str(yyjson_arr_get_first(classes), NULL);
    if (yyjson_arr_size(classes) && !cls)
        return qsf_json_refuse(yyjson_arr_get_first(classes), CONFIG, "architectures[0]", "a string", err);
    if ((*out = qsf_hf_type_find(type, cls))) return QSF_OK;
    return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": directories of model type \"%.60s\" are not supported; "
                    "%s: make one with llama.cpp's convert_hf_to_gguf.py, and convert that; docs/models.md "
                    "lists what is supported",
                    type ? type : cls ? cls : "(none)",
                    config_gguf(type) ? "its GGUF files are" : "a GGUF file of it may be");
}

/* ---- sliding windows ------------------------------------------------------------------------- */

/* The older settings of a model type: every nth layer sees all, or the first ones do. */
typedef struct config_period { bool regular; uint32_t every, full_layers; } config_period;

/* Whether layer i sees only a window, by layer_types, or by the older settings. */
static bool config_windowed(yyjson_val *types, const config_period *p, uint32_t i)
{
    const char *t = qsf_json_str(yyjson_arr_get(types, i), NULL);
    if (t) return !strcmp(t, "sliding_attention");
    return p->regular ? p->every && (i + 1) % p->every != 0 : i >= p->full_layers;
}

/* One of two words for each layer. */
static qsf_status config_layer_types(yyjson_val *root, uint32_t n_layers, yyjson_val **types, qsf_error *err)
{
    size_t i, n;
    yyjson_val *e;
    const qsf_status st = qsf_json_get_arr(root, CONFIG, "layer_types", types, err);
    if (st || !*types) return st;
    if (yyjson_arr_size(*types) != n_layers)
        return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": layer_types has %zu entries for %u layers",
                        yyjson_arr_size(*types), (unsigned)n_layers);
    yyjson_arr_foreach(*types, i, n, e) {
        const char *t = qsf_json_str(e, NULL);
        if (!t) return qsf_json_refuse(e, CONFIG, "layer_types", "a list of strings", err);
        if (strcmp(t, "sliding_attention") && strcmp(t, "full_attention"))
            return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": layer %zu is of type \"%s\" (supported: "
                            "full_attention, sliding_attention)", i, t);
    }
    return QSF_OK;
}

/* One layer in this many attends to everything: given as a number, or as a letter for each layer
 * ("LLLG"). */
static qsf_status config_window_period(yyjson_val *root, const qsf_arch *a, uint32_t *every, qsf_error *err)
{
    const char *key = qsf_json_get(root, "sliding_window_pattern") ? "sliding_window_pattern"
                                                                   : "_sliding_window_pattern";
    const char *letters = qsf_json_str(qsf_json_get(root, key), NULL);
    if (!letters) return qsf_json_get_u32(root, CONFIG, key, a->window_pattern, 0, UINT16_MAX, every, err);
    const size_t n = strspn(letters, "L");
    if (strcmp(letters + n, "G") || n >= UINT16_MAX)
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": %s \"%.32s\" (supported: a number, or as LLLG)",
                        key, letters);
    *every = (uint32_t)n + 1;
    return QSF_OK;
}

static qsf_status config_window(yyjson_val *root, const hf_type *d, const qsf_arch *a, qsf_hparams *hp,
                                qsf_error *err)
{
    config_period p = { .regular = a->window_pattern != 0, .every = a->window_pattern };
    yyjson_val *types, *v = yyjson_obj_get(root, "sliding_window");
    uint32_t period = 0, n_local = 0;
    bool use = true;
    qsf_status st;

    if ((st = config_layer_types(root, hp->n_layers, &types, err))) return st;
    if (v && yyjson_is_null(v)) return QSF_OK;          /* null is an answer: no window */
    if ((st = qsf_json_get_u32(root, CONFIG, "sliding_window", d->window, 0, INT32_MAX, &hp->window, err)) ||
        (st = qsf_json_get_bool(root, CONFIG, "use_sliding_window", !d->late_window, &use, err)) ||
        (d->late_window && !d->experts &&
         (st = qsf_json_get_u32(root, CONFIG, "max_window_layers", 28, 0, UINT16_MAX, &p.full_layers,
                                err))) ||
        (d->window_period && !types &&
         (st = config_window_period(root, a, &p.every, err))))
        return st;
    if (!use) hp->window = 0;
    if (!hp->window) return QSF_OK;
    if (d->few_windows && !types)
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": use_sliding_window without layer_types in a %s "
                        "model", d->type);
    for (uint32_t i = 0; i < hp->n_layers; i++) {       /* the first global layer gives the period */
        const bool local = config_windowed(types, &p, i);
        n_local += local;
        if (!local && !period) period = i + 1;
    }
    if (!n_local) hp->window = 0;
    if (!n_local || n_local == hp->n_layers) {
        /* Without a global layer among these few, the type's own period still applies. */
        hp->window_pattern = n_local && !types && p.regular ? p.every : 0;
        return QSF_OK;
    }
    hp->window_pattern = period;
    for (uint32_t i = 0; i < hp->n_layers; i++)
        if (config_windowed(types, &p, i) != (i % period != period - 1))
            return qsf_fail(err, QSF_E_UNSUPPORTED,
                            CONFIG
                            ": layer %u breaks the regular pattern of windowed and full attention layers",
                            (unsigned)i);
    return QSF_OK;
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* Leaves hp->act unchanged if config.json does not set it. */
static qsf_status config_activation(yyjson_val *root, const char *key, qsf_hparams *hp, qsf_error *err)
{
    static const struct { const char *name; uint8_t act; } known[] = {
        { "gelu", QSF_ACT_GELU },       /* of encoders, as in their GGUF files */
        { "silu", QSF_ACT_SILU }, { "swish", QSF_ACT_SILU }, { "relu", QSF_ACT_RELU },
        { "relu2", QSF_ACT_RELU2 },
        { "gelu_new", QSF_ACT_GELU },
        { "gelu_pytorch_tanh", QSF_ACT_GELU }, { "gelu_fast", QSF_ACT_GELU },
    };
    const char *name;
    const qsf_status st = qsf_json_get_text(root, CONFIG, key, &name, err);
    if (st || !name) return st;
    for (size_t i = 0; i < QSF_ARRAY_LEN(known); i++)
        if (!strcmp(name, known[i].name) && (i || hp->both_ways)) {
            /* gpt-oss has silu, which its own activation is based on */
            if (hp->act != QSF_ACT_SWIGLU_OAI || known[i].act != QSF_ACT_SILU) hp->act = known[i].act;
            return QSF_OK;
        }
    return qsf_fail(
        err, QSF_E_UNSUPPORTED,
        CONFIG ": activation \"%s\" (supported: silu, relu, relu2, gelu_pytorch_tanh, gelu_new, "
               "gelu_fast)", name);
}

static qsf_status config_gpt2(yyjson_val *root, const hf_type *d, qsf_hparams *hp, qsf_error *err)
{
    static const struct { const char *key; bool value; } fixed[] = {
        { "scale_attn_weights", true }, { "scale_attn_by_inverse_layer_idx", false },
        { "add_cross_attention", false },
    };
    qsf_status st;
    for (size_t i = 0; i < QSF_ARRAY_LEN(fixed); i++) {
        bool b;
        if ((st = qsf_json_get_bool(root, CONFIG, fixed[i].key, fixed[i].value, &b, err))) return st;
        if (b != fixed[i].value)
            return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": \"%s\": %s", fixed[i].key,
                            b ? "true" : "false");
    }
    if ((st = qsf_json_get_u32(root, CONFIG, "n_embd", d->embd, 1, 1 << 20, &hp->n_embd, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "n_layer", d->layers, 1, 4096, &hp->n_layers, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "n_head", d->heads, 1, 1 << 16, &hp->n_heads, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "n_inner", 4 * hp->n_embd, 1, 1 << 24, &hp->n_ff, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, qsf_json_get(root, "n_positions") ? "n_positions" : "n_ctx",
                               d->ctx, 1, INT32_MAX, &hp->n_ctx_train, err)) ||
        (st = qsf_json_get_f32(root, CONFIG, "layer_norm_epsilon", d->eps, &hp->norm_eps, err)))
        return st;
    hp->n_kv_heads = hp->n_heads;
    return config_activation(root, "activation_function", hp, err);
}

static const char *config_eps_at(const hf_type *d, const qsf_hparams *hp)
{
    if (d->eps_at) return d->eps_at;
    if (d->keys == HF_KEYS_LFM2 || d->keys == HF_KEYS_MODERN) return "norm_eps";
    return hp->norm == QSF_NORM_RMS ? "rms_norm_eps" : "layer_norm_eps";
}

static qsf_status config_common(yyjson_val *root, const hf_type *d, qsf_hparams *hp, qsf_error *err)
{
    qsf_status st;
    if ((st = qsf_json_get_u32(root, CONFIG, "hidden_size", d->embd, 1, 1 << 20, &hp->n_embd, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "num_hidden_layers", d->layers, 1, 4096, &hp->n_layers, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "num_attention_heads", d->heads, 1, 1 << 16, &hp->n_heads,
                               err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "num_key_value_heads", d->kv_heads ? d->kv_heads : hp->n_heads,
                               1, hp->n_heads, &hp->n_kv_heads, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "intermediate_size", d->ff, 1, 1 << 24, &hp->n_ff, err)) ||
        (st = qsf_json_get_u32(root, CONFIG, "max_position_embeddings", d->ctx, 1, INT32_MAX,
                               &hp->n_ctx_train, err)) ||
        (st = qsf_json_get_f32(root, CONFIG, config_eps_at(d, hp), d->eps, &hp->norm_eps, err)))
        return st;
    const bool longer = d->keys == HF_KEYS_GEMMA || d->keys == HF_KEYS_GEMMA2 || d->keys == HF_KEYS_GEMMA4 ||
                        d->keys == HF_KEYS_MODERN;
    /* The first Gemma has both members, or the shorter one, in which gelu means its tanh form. */
    if (d->keys == HF_KEYS_GEMMA && !qsf_json_get(root, "hidden_activation")) {
        const char *act = qsf_json_get_str(root, "hidden_act");
        return act && !strcmp(act, "gelu") ? QSF_OK : config_activation(root, "hidden_act", hp, err);
    }
    return config_activation(root, longer ? "hidden_activation" : "hidden_act", hp, err);
}

/* A soft cap of null is none. */
static qsf_status config_gemma2(yyjson_val *root, const qsf_arch *a, qsf_hparams *hp, qsf_error *err)
{
    float scalar;
    bool bidirectional;
    qsf_status st;
    const float attn = yyjson_obj_get(root, "attn_logit_softcapping") ? 0 : a->attn_softcap;
    const float final = yyjson_obj_get(root, "final_logit_softcapping") ? 0 : a->final_softcap;
    if ((st = qsf_json_get_number(root, CONFIG, "query_pre_attn_scalar", 256, 1e-6, HF_CONFIG_MOST, &scalar,
                                  err)) ||
        (st = qsf_json_get_number(root, CONFIG, "attn_logit_softcapping", attn, 0, HF_CONFIG_MOST,
                                  &hp->attn_softcap, err)) ||
        (st = qsf_json_get_number(root, CONFIG, "final_logit_softcapping", final, 0, HF_CONFIG_MOST,
                                  &hp->final_softcap, err)) ||
        (st = qsf_json_get_bool(root, CONFIG, "use_bidirectional_attention", false, &bidirectional, err)))
        return st;
    if (bidirectional != hp->both_ways)
        return qsf_fail(err, QSF_E_UNSUPPORTED, CONFIG ": %s (supported: an embedding model of the class "
                        "Gemma3TextModel with use_bidirectional_attention, any other model without)",
                        bidirectional ? "use_bidirectional_attention" : "no use_bidirectional_attention");
    if (scalar != (float)hp->head_dim) hp->attn_scale = 1 / sqrtf(scalar);
    return QSF_OK;
}

static qsf_status config_biases(yyjson_val *root, hf_config *cfg, qsf_error *err)
{
    const hf_type *d = cfg->type;
    qsf_status st;
    bool attention, mlp;
    if ((st = qsf_json_get_bool(root, CONFIG, "attention_bias", d->biased, &attention, err)) ||
        (st = qsf_json_get_bool(root, CONFIG, "mlp_bias", false, &mlp, err))) return st;
    if (attention) cfg->need |= d->biases & ~QSF_KINDS_FFN_BIAS;
    if (mlp) cfg->need |= d->biases & QSF_KINDS_FFN_BIAS;
    return QSF_OK;
}

/* What holds for every model of the architecture, or is the default if config.json does not set
 * it. */
static void config_arch(const qsf_arch *a, const hf_type *d, qsf_hparams *hp)
{
    qsf_format(hp->arch, sizeof hp->arch, "%s", a->name);
    hp->norm = a->norm;
    hp->act = a->act;
    hp->rope = a->rope == QSF_ROPE_NONE ? QSF_ROPE_NONE : d->pairs ? QSF_ROPE_PAIRS : QSF_ROPE_HALVES;
    hp->flow = a->flow;
    hp->qk_norm = a->qk_norm;
    hp->gated = a->gated;
    hp->both_ways = a->both_ways;
    hp->qk_norm = a->qk_norm;
    hp->learned_pos = a->learned_pos;
    hp->rope_base = d->rope_base;
    hp->scaling_factor = 1;
    hp->yarn_ext_factor = -1;
}

/* Sizes, norms' epsilons and the activation, by the names that the type has. */
static qsf_status config_sizes(yyjson_val *root, const hf_type *d, qsf_hparams *hp, qsf_error *err)
{
    if (d->keys == HF_KEYS_GPT2) return config_gpt2(root, d, hp, err);
    return d->keys == HF_KEYS_NOMIC ? qsf_hf_nomic(root, d, hp, err) : config_common(root, d, hp, err);
}

/* -1 is written for "none". */
static qsf_status config_id(yyjson_val *v, const char *what, const char *key, int32_t *id, qsf_error *err)
{
    uint64_t n;
    if (yyjson_is_sint(v) && yyjson_get_sint(v) == -1) return *id = -1, QSF_OK;
    if (!qsf_json_u64(v, &n) || n > INT32_MAX) return qsf_json_refuse(v, what, key, "a token's id", err);
    *id = (int32_t)n;
    return QSF_OK;
}

/* A number, or a list whose first counts. */
static qsf_status config_ids(yyjson_val *root, const char *what, const char *key, int32_t *id, qsf_error *err)
{
    yyjson_val *v = qsf_json_get(root, key);
    if (yyjson_is_arr(v)) v = yyjson_arr_get_first(v);
    return v ? config_id(v, what, key, id, err) : QSF_OK;
}

qsf_status qsf_hf_add_end(hf_config *cfg, const char *what, int32_t id, qsf_error *err)
{
    for (uint32_t i = 0; i < cfg->n_more_eos; i++)
        if (cfg->more_eos[i] == id) return QSF_OK;
    if (id < 0) return QSF_OK;
    if (cfg->n_more_eos == QSF_ARRAY_LEN(cfg->more_eos))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: more than %d end tokens (\"eos_token_id\")", what,
                        (int)QSF_ARRAY_LEN(cfg->more_eos));
    cfg->more_eos[cfg->n_more_eos++] = id;
    return QSF_OK;
}

qsf_status qsf_hf_config_tokens(yyjson_val *root, const char *what, hf_config *cfg, qsf_error *err)
{
    yyjson_val *list = qsf_json_get(root, "eos_token_id"), *v;
    size_t i, n;
    qsf_status st;
    if ((st = config_ids(root, what, "bos_token_id", &cfg->bos, err)) ||
        (st = config_ids(root, what, "eos_token_id", &cfg->eos, err)) ||
        (st = config_ids(root, what, "pad_token_id", &cfg->pad, err))) return st;
    if (!yyjson_is_arr(list)) return QSF_OK;
    yyjson_arr_foreach(list, i, n, v) {
        int32_t id = -1;
        if ((st = config_id(v, what, "eos_token_id", &id, err)) || (st = qsf_hf_add_end(cfg, what, id, err)))
            return st;
    }
    return QSF_OK;
}

qsf_status qsf_hf_check_tokens(const hf_config *cfg, const char *what, uint32_t n_vocab, qsf_error *err)
{
    const struct { const char *key; int32_t id; } ids[] = { { "bos_token_id", cfg->bos },
                                                            { "eos_token_id", cfg->eos },
                                                            { "pad_token_id", cfg->pad } };
    static const char beyond[] = "%s: \"%s\" is %d, but the embedding has %u rows: the first is token 0, the "
        "last token %u";
    for (size_t i = 0; i < QSF_ARRAY_LEN(ids); i++)
        if (ids[i].id >= 0 && (uint32_t)ids[i].id >= n_vocab)
            return qsf_fail(err, QSF_E_CORRUPT, beyond, what, ids[i].key, (int)ids[i].id, (unsigned)n_vocab,
                            (unsigned)n_vocab - 1);
    for (uint32_t i = 0; i < cfg->n_more_eos; i++)
        if ((uint32_t)cfg->more_eos[i] >= n_vocab)
            return qsf_fail(err, QSF_E_CORRUPT, beyond, what, "eos_token_id", (int)cfg->more_eos[i],
                            (unsigned)n_vocab, (unsigned)n_vocab - 1);
    return QSF_OK;
}

static qsf_status config_shape(yyjson_val *root, const hf_type *d, qsf_hparams *hp, qsf_error *err)
{
    const uint32_t own = d->head_dim ? d->head_dim : hp->n_embd / hp->n_heads;
    qsf_status st;
    if ((st = qsf_json_get_u32(root, CONFIG, "vocab_size", d->vocab, 1, 1 << 24, &hp->n_vocab, err)))
        return st;
    if (!own) return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": more attention heads than channels");
    if ((st = qsf_json_get_u32(root, CONFIG, "head_dim", own, 1, QSF_MAX_HEAD_DIM, &hp->head_dim, err)))
        return st;
    if (hp->n_heads % hp->n_kv_heads)
        return qsf_fail(err, QSF_E_CORRUPT,
                        CONFIG ": %u attention heads do not divide into %u key-value heads",
                        (unsigned)hp->n_heads, (unsigned)hp->n_kv_heads);
    if (!(hp->norm_eps > 0 && hp->norm_eps < 1))
        return qsf_fail(err, QSF_E_CORRUPT, CONFIG ": the norm's epsilon is %g", (double)hp->norm_eps);
    return QSF_OK;
}

/* quantization_config of the method "bitnet", with the defaults of the Transformers library.  Its
 * two linear classes use one name for a scale and for its reciprocal. */
static qsf_status config_ternary(yyjson_val *q, uint8_t *ternary, qsf_error *err)
{
    static const char what[] = CONFIG ": quantization_config";
    const char *linear, *mode;
    bool norms;
    qsf_status st;
    if ((st = qsf_json_get_text(q, what, "linear_class", &linear, err)) ||
        (st = qsf_json_get_text(q, what, "quantization_mode", &mode, err)) ||
        (st = qsf_json_get_bool(q, what, "use_rms_norm", false, &norms, err))) return st;
    const bool automatic = linear && !strcmp(linear, "autobitlinear");
    const bool online = mode && !strcmp(mode, "online");
    if ((linear && !automatic && strcmp(linear, "bitlinear")) || (mode && !online && strcmp(mode, "offline")))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: linear_class \"%s\", quantization_mode \"%s\" "
                        "(supported: bitlinear, autobitlinear; offline, online)", what,
                        linear ? linear : "bitlinear",
                        mode ? mode : "offline");
    if (norms)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: use_rms_norm: a norm before each matrix", what);
    *ternary = !automatic ? HF_TERNARY_OVER : online ? HF_TERNARY_MASTERS : HF_TERNARY_TIMES;
    return QSF_OK;
}

/* A vision model sets it for the whole model; older files set it for the text part alone. */
static qsf_status config_tied(yyjson_val *top, yyjson_val *text, const hf_type *d, qsf_hparams *hp,
                              qsf_error *err)
{
    bool inner;
    qsf_status st;
    if ((st = qsf_json_get_bool(top, CONFIG, "tie_word_embeddings", d->tied, &hp->tied, err)) ||
        (st = qsf_json_get_bool(text, CONFIG ": text_config", "tie_word_embeddings", false, &inner, err)))
        return st;
    hp->tied = hp->tied || inner;
    return QSF_OK;
}

qsf_status qsf_hf_config_read(yyjson_val *top, qsf_arena *arena, qsf_hparams *hp, hf_config *cfg,
                              qsf_error *err)
{
    const hf_type *d = NULL;
    yyjson_val *text, *quantised;
    const char *method;
    qsf_status st;
    memset(hp, 0, sizeof *hp);
    memset(cfg, 0, sizeof *cfg);
    cfg->bos = cfg->eos = cfg->pad = -1;
    if ((st = qsf_json_check_object(top, CONFIG, err)) || (st = config_type(top, &d, err)) ||
        (st = qsf_json_get_obj(top, CONFIG, "quantization_config", &quantised, err)) ||
        (st = qsf_json_get_text(quantised, CONFIG ": quantization_config", "quant_method", &method, err)) ||
        (st = qsf_json_get_obj(top, CONFIG, "text_config", &text, err))) return st;
    const bool mxfp4 = method && !strcmp(method, "mxfp4") && d->mxfp4;
    if (quantised && !mxfp4 && (!method || strcmp(method, "bitnet")))
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        CONFIG ": the weights are already quantised (%s); convert the 16-bit original",
                        method ? method : "unknown method");
    cfg->ternary = d->ternary ? HF_TERNARY_MASTERS : HF_TERNARY_NONE;
    if (quantised && !mxfp4 && (st = config_ternary(quantised, &cfg->ternary, err))) return st;
    /* A model with pictures keeps the text part's settings in an object of its own. */
    yyjson_val *root = text ? text : top;
    cfg->pictures = text || qsf_json_get(top, "vision_config");
    const qsf_arch *a = qsf_arch_find(d->arch);
    cfg->type = d;
    cfg->arch = a;
    cfg->need = d->need;
    if (d->yes_no) cfg->rerank = qsf_hf_rerank_name(qsf_json_get_str(root, "_name_or_path"));
    config_arch(a, d, hp);
    if ((st = config_sizes(root, d, hp, err)) ||
        (st = config_shape(root, d, hp, err)) ||
        (st = config_tied(top, text, d, hp, err)) ||
        (d->keys == HF_KEYS_LFM2 &&
         (st = qsf_json_get_bool(root, CONFIG, "tie_embedding", hp->tied, &hp->tied, err))) ||
        (st = qsf_hf_config_tokens(top, CONFIG, cfg, err)) ||
        (text && (st = qsf_hf_config_tokens(text, CONFIG, cfg, err))))
        return st;
    hp->embd_scale = a->scaled_embd ? sqrtf((float)hp->n_embd) : 1;
    const bool encoder = d->keys == HF_KEYS_BERT || d->keys == HF_KEYS_NOMIC || d->keys == HF_KEYS_MODERN;
    if (encoder && (st = qsf_hf_encoder(root, cfg, hp, err))) return st;
    hp->scaling_orig_ctx = hp->n_ctx_train;
    if (encoder || d->keys == HF_KEYS_GPT2)
        return hp->rope == QSF_ROPE_NONE ? QSF_OK : qsf_hf_rope(root, d, a, arena, hp, err);
    if ((st = a->mixer ? qsf_hf_mixers(root, cfg, arena, hp, err) : config_window(root, d, a, hp, err)) ||
        (d->keys == HF_KEYS_GEMMA4 && (st = qsf_hf_gemma4(root, cfg, arena, hp, err))) ||
        (a->has & QSF_HAS_LATENT && (st = qsf_hf_latent_turning(root, hp, err))) ||
        (hp->rope != QSF_ROPE_NONE && (st = qsf_hf_rope(root, d, a, arena, hp, err))) ||
        (a->has & QSF_HAS_LATENT && (st = qsf_hf_latent(root, hp, err))) ||
        (st = config_biases(root, cfg, err)) || (st = qsf_hf_experts(root, d, a, hp, err)) ||
        (st = qsf_hf_family(root, cfg, hp, err))) return st;
    return d->keys == HF_KEYS_GEMMA2 ? config_gemma2(root, a, hp, err) : QSF_OK;
}

#undef CONFIG
#endif
