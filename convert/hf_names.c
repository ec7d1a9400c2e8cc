/* Which tensor of a Hugging Face model is what: one table of rules for each family, walked in order of use.
 * SPDX-License-Identifier: MIT */
#include "hf.h"

#include <stdlib.h>

/* Sizes that shapes are made of; the value comes from hparams. */
typedef enum hf_dim { DIM_ONE, DIM_EMBD, DIM_Q, DIM_KV, DIM_HEAD, DIM_FF, DIM_VOCAB, DIM_CTX } hf_dim;
/* How several tensors of ours share one of theirs: along the outputs. */
typedef enum hf_part { PART_ALL, PART_Q, PART_K, PART_V, PART_GATE, PART_UP } hf_part;
/* When a tensor must be there.  One that need not be is taken where it is. */
typedef enum hf_need { NEED, NEED_NOT, NEED_Q_BIAS, NEED_O_BIAS, NEED_MLP_BIAS, NEED_QK_NORM } hf_need;

enum { RULE_TRANSPOSED = 1 };

typedef struct hf_rule {
    uint8_t     kind, rows, cols, part, need, flags;
    const char *name;
} hf_rule;

static const hf_rule hf_llama_layer[] = {
    { QSF_K_ATTN_NORM,     DIM_ONE,  DIM_EMBD, PART_ALL, NEED, 0,          "input_layernorm.weight" },
    { QSF_K_ATTN_Q,        DIM_Q,    DIM_EMBD, PART_ALL, NEED, 0,          "self_attn.q_proj.weight" },
    { QSF_K_ATTN_Q_BIAS,   DIM_ONE,  DIM_Q,    PART_ALL, NEED_Q_BIAS, 0,   "self_attn.q_proj.bias" },
    { QSF_K_ATTN_K,        DIM_KV,   DIM_EMBD, PART_ALL, NEED, 0,          "self_attn.k_proj.weight" },
    { QSF_K_ATTN_K_BIAS,   DIM_ONE,  DIM_KV,   PART_ALL, NEED_Q_BIAS, 0,   "self_attn.k_proj.bias" },
    { QSF_K_ATTN_V,        DIM_KV,   DIM_EMBD, PART_ALL, NEED, 0,          "self_attn.v_proj.weight" },
    { QSF_K_ATTN_V_BIAS,   DIM_ONE,  DIM_KV,   PART_ALL, NEED_Q_BIAS, 0,   "self_attn.v_proj.bias" },
    { QSF_K_Q_NORM,        DIM_ONE,  DIM_HEAD, PART_ALL, NEED_QK_NORM, 0,  "self_attn.q_norm.weight" },
    { QSF_K_K_NORM,        DIM_ONE,  DIM_HEAD, PART_ALL, NEED_QK_NORM, 0,  "self_attn.k_norm.weight" },
    { QSF_K_ATTN_OUT,      DIM_EMBD, DIM_Q,    PART_ALL, NEED, 0,          "self_attn.o_proj.weight" },
    { QSF_K_ATTN_OUT_BIAS, DIM_ONE,  DIM_EMBD, PART_ALL, NEED_O_BIAS, 0,   "self_attn.o_proj.bias" },
    { QSF_K_FFN_NORM,      DIM_ONE,  DIM_EMBD, PART_ALL, NEED, 0,          "post_attention_layernorm.weight" },
    { QSF_K_FFN_GATE,      DIM_FF,   DIM_EMBD, PART_ALL, NEED, 0,          "mlp.gate_proj.weight" },
    { QSF_K_FFN_GATE_BIAS, DIM_ONE,  DIM_FF,   PART_ALL, NEED_MLP_BIAS, 0, "mlp.gate_proj.bias" },
    { QSF_K_FFN_UP,        DIM_FF,   DIM_EMBD, PART_ALL, NEED, 0,          "mlp.up_proj.weight" },
    { QSF_K_FFN_UP_BIAS,   DIM_ONE,  DIM_FF,   PART_ALL, NEED_MLP_BIAS, 0, "mlp.up_proj.bias" },
    { QSF_K_FFN_DOWN,      DIM_EMBD, DIM_FF,   PART_ALL, NEED, 0,          "mlp.down_proj.weight" },
    { QSF_K_FFN_DOWN_BIAS, DIM_ONE,  DIM_EMBD, PART_ALL, NEED_MLP_BIAS, 0, "mlp.down_proj.bias" },
};
static const hf_rule hf_phi3_layer[] = {
    { QSF_K_ATTN_NORM, DIM_ONE,  DIM_EMBD, PART_ALL,  NEED, 0, "input_layernorm.weight" },
    { QSF_K_ATTN_Q,    DIM_Q,    DIM_EMBD, PART_Q,    NEED, 0, "self_attn.qkv_proj.weight" },
    { QSF_K_ATTN_K,    DIM_KV,   DIM_EMBD, PART_K,    NEED, 0, "self_attn.qkv_proj.weight" },
    { QSF_K_ATTN_V,    DIM_KV,   DIM_EMBD, PART_V,    NEED, 0, "self_attn.qkv_proj.weight" },
    { QSF_K_ATTN_OUT,  DIM_EMBD, DIM_Q,    PART_ALL,  NEED, 0, "self_attn.o_proj.weight" },
    { QSF_K_FFN_NORM,  DIM_ONE,  DIM_EMBD, PART_ALL,  NEED, 0, "post_attention_layernorm.weight" },
    { QSF_K_FFN_GATE,  DIM_FF,   DIM_EMBD, PART_GATE, NEED, 0, "mlp.gate_up_proj.weight" },
    { QSF_K_FFN_UP,    DIM_FF,   DIM_EMBD, PART_UP,   NEED, 0, "mlp.gate_up_proj.weight" },
    { QSF_K_FFN_DOWN,  DIM_EMBD, DIM_FF,   PART_ALL,  NEED, 0, "mlp.down_proj.weight" },
};
/* Gemma 2 and 3; the first has no q and k norms. */
static const hf_rule hf_gemma_layer[] = {
    { QSF_K_ATTN_NORM,      DIM_ONE,  DIM_EMBD, PART_ALL, NEED, 0,         "input_layernorm.weight" },
    { QSF_K_ATTN_Q,         DIM_Q,    DIM_EMBD, PART_ALL, NEED, 0,         "self_attn.q_proj.weight" },
    { QSF_K_ATTN_Q_BIAS,    DIM_ONE,  DIM_Q,    PART_ALL, NEED_Q_BIAS, 0,  "self_attn.q_proj.bias" },
    { QSF_K_ATTN_K,         DIM_KV,   DIM_EMBD, PART_ALL, NEED, 0,         "self_attn.k_proj.weight" },
    { QSF_K_ATTN_K_BIAS,    DIM_ONE,  DIM_KV,   PART_ALL, NEED_Q_BIAS, 0,  "self_attn.k_proj.bias" },
    { QSF_K_ATTN_V,         DIM_KV,   DIM_EMBD, PART_ALL, NEED, 0,         "self_attn.v_proj.weight" },
    { QSF_K_ATTN_V_BIAS,    DIM_ONE,  DIM_KV,   PART_ALL, NEED_Q_BIAS, 0,  "self_attn.v_proj.bias" },
    { QSF_K_Q_NORM,         DIM_ONE,  DIM_HEAD, PART_ALL, NEED_QK_NORM, 0, "self_attn.q_norm.weight" },
    { QSF_K_K_NORM,         DIM_ONE,  DIM_HEAD, PART_ALL, NEED_QK_NORM, 0, "self_attn.k_norm.weight" },
    { QSF_K_ATTN_OUT,       DIM_EMBD, DIM_Q,    PART_ALL, NEED, 0,         "self_attn.o_proj.weight" },
    { QSF_K_ATTN_OUT_BIAS,  DIM_ONE,  DIM_EMBD, PART_ALL, NEED_O_BIAS, 0,  "self_attn.o_proj.bias" },
    { QSF_K_ATTN_POST_NORM, DIM_ONE,  DIM_EMBD, PART_ALL, NEED, 0,         "post_attention_layernorm.weight" },
    { QSF_K_FFN_NORM,       DIM_ONE,  DIM_EMBD, PART_ALL, NEED, 0,         "pre_feedforward_layernorm.weight" },
    { QSF_K_FFN_GATE,       DIM_FF,   DIM_EMBD, PART_ALL, NEED, 0,         "mlp.gate_proj.weight" },
    { QSF_K_FFN_UP,         DIM_FF,   DIM_EMBD, PART_ALL, NEED, 0,         "mlp.up_proj.weight" },
    { QSF_K_FFN_DOWN,       DIM_EMBD, DIM_FF,   PART_ALL, NEED, 0,         "mlp.down_proj.weight" },
    { QSF_K_FFN_POST_NORM,  DIM_ONE,  DIM_EMBD, PART_ALL, NEED, 0,         "post_feedforward_layernorm.weight" },
};
/* GPT-2's "Conv1D" keeps [inputs][outputs]. */
static const hf_rule hf_gpt2_layer[] = {
    { QSF_K_ATTN_NORM,      DIM_ONE,  DIM_EMBD, PART_ALL, NEED, 0,               "ln_1.weight" },
    { QSF_K_ATTN_NORM_BIAS, DIM_ONE,  DIM_EMBD, PART_ALL, NEED, 0,               "ln_1.bias" },
    { QSF_K_ATTN_Q,         DIM_Q,    DIM_EMBD, PART_Q,   NEED, RULE_TRANSPOSED, "attn.c_attn.weight" },
    { QSF_K_ATTN_Q_BIAS,    DIM_ONE,  DIM_Q,    PART_Q,   NEED, 0,               "attn.c_attn.bias" },
    { QSF_K_ATTN_K,         DIM_KV,   DIM_EMBD, PART_K,   NEED, RULE_TRANSPOSED, "attn.c_attn.weight" },
    { QSF_K_ATTN_K_BIAS,    DIM_ONE,  DIM_KV,   PART_K,   NEED, 0,               "attn.c_attn.bias" },
    { QSF_K_ATTN_V,         DIM_KV,   DIM_EMBD, PART_V,   NEED, RULE_TRANSPOSED, "attn.c_attn.weight" },
    { QSF_K_ATTN_V_BIAS,    DIM_ONE,  DIM_KV,   PART_V,   NEED, 0,               "attn.c_attn.bias" },
    { QSF_K_ATTN_OUT,       DIM_EMBD, DIM_Q,    PART_ALL, NEED, RULE_TRANSPOSED, "attn.c_proj.weight" },
    { QSF_K_ATTN_OUT_BIAS,  DIM_ONE,  DIM_EMBD, PART_ALL, NEED, 0,               "attn.c_proj.bias" },
    { QSF_K_FFN_NORM,       DIM_ONE,  DIM_EMBD, PART_ALL, NEED, 0,               "ln_2.weight" },
    { QSF_K_FFN_NORM_BIAS,  DIM_ONE,  DIM_EMBD, PART_ALL, NEED, 0,               "ln_2.bias" },
    { QSF_K_FFN_UP,         DIM_FF,   DIM_EMBD, PART_ALL, NEED, RULE_TRANSPOSED, "mlp.c_fc.weight" },
    { QSF_K_FFN_UP_BIAS,    DIM_ONE,  DIM_FF,   PART_ALL, NEED, 0,               "mlp.c_fc.bias" },
    { QSF_K_FFN_DOWN,       DIM_EMBD, DIM_FF,   PART_ALL, NEED, RULE_TRANSPOSED, "mlp.c_proj.weight" },
    { QSF_K_FFN_DOWN_BIAS,  DIM_ONE,  DIM_EMBD, PART_ALL, NEED, 0,               "mlp.c_proj.bias" },
};

static const hf_rule hf_llama_embd[]  = { { QSF_K_TOKEN_EMBD, DIM_VOCAB, DIM_EMBD, PART_ALL, NEED, 0, "embed_tokens.weight" } };
static const hf_rule hf_llama_final[] = { { QSF_K_OUTPUT_NORM, DIM_ONE, DIM_EMBD, PART_ALL, NEED, 0, "norm.weight" } };
static const hf_rule hf_gpt2_embd[] = {
    { QSF_K_TOKEN_EMBD, DIM_VOCAB, DIM_EMBD, PART_ALL, NEED, 0, "wte.weight" },
    { QSF_K_POS_EMBD,   DIM_CTX,   DIM_EMBD, PART_ALL, NEED, 0, "wpe.weight" },
};
static const hf_rule hf_gpt2_final[] = {
    { QSF_K_OUTPUT_NORM,      DIM_ONE, DIM_EMBD, PART_ALL, NEED, 0, "ln_f.weight" },
    { QSF_K_OUTPUT_NORM_BIAS, DIM_ONE, DIM_EMBD, PART_ALL, NEED, 0, "ln_f.bias" },
};
static const hf_rule hf_head = { QSF_K_OUTPUT, DIM_VOCAB, DIM_EMBD, PART_ALL, NEED, 0, "lm_head.weight" };

#define RULES(a) a, QSF_ARRAY_LEN(a)
typedef struct hf_rules {
    const hf_rule *embd;  size_t n_embd;
    const hf_rule *layer; size_t n_layer;
    const hf_rule *final; size_t n_final;
    const char    *layers;           /* "layers." or "h." */
} hf_rules;
static const hf_rules hf_families[] = {
    [HF_LLAMA]  = { RULES(hf_llama_embd), RULES(hf_llama_layer), RULES(hf_llama_final), "layers." },
    [HF_PHI3]   = { RULES(hf_llama_embd), RULES(hf_phi3_layer), RULES(hf_llama_final), "layers." },
    [HF_GEMMA]  = { RULES(hf_llama_embd), RULES(hf_llama_layer), RULES(hf_llama_final), "layers." },
    [HF_GEMMA2] = { RULES(hf_llama_embd), RULES(hf_gemma_layer), RULES(hf_llama_final), "layers." },
    [HF_GEMMA3] = { RULES(hf_llama_embd), RULES(hf_gemma_layer), RULES(hf_llama_final), "layers." },
    [HF_GPT2]   = { RULES(hf_gpt2_embd), RULES(hf_gpt2_layer), RULES(hf_gpt2_final), "h." },
};
#undef RULES

/* What stands before the names above, and before lm_head: base models, models with a head, models with pictures. */
static const struct { const char *body, *head; } hf_prefixes[] = {
    { "model.", "" }, { "transformer.", "" }, { "", "" },
    { "language_model.model.", "language_model." }, { "model.language_model.", "" }, { "model.language_model.model.", "model.language_model." },
};

/* ---- names ------------------------------------------------------------------------------------------------------- */

static int weights_name_order(const void *key, const void *elem)
{
    return strcmp(key, (*(weights_tensor *const *)elem)->name);
}

weights_tensor *hf_weights_find(const hf_weights *w, const char *name)
{
    weights_tensor **at = w->n ? bsearch(name, w->by_name, w->n, sizeof *w->by_name, weights_name_order) : NULL;
    return at ? *at : NULL;
}

typedef struct hf_mapper {
    const hf_weights *w;
    const hf_config  *cfg;
    const hf_rules   *rules;
    input            *in;
    hf_place         *places;
    uint32_t          n, cap;
    const char       *body, *head;      /* prefixes */
} hf_mapper;

static uint32_t hf_dim_of(const qsf_hparams *hp, uint8_t dim)
{
    switch ((hf_dim)dim) {
    case DIM_EMBD:  return hp->n_embd;
    case DIM_Q:     return hp->n_heads * hp->head_dim;
    case DIM_KV:    return hp->n_kv_heads * hp->head_dim;
    case DIM_HEAD:  return hp->head_dim;
    case DIM_FF:    return hp->n_ff;
    case DIM_VOCAB: return hp->n_vocab;
    case DIM_CTX:   return hp->n_ctx_train;
    case DIM_ONE:   break;
    }
    return 1;
}

/* Outputs of the stored tensor before the part, and all of them. */
static void hf_part_of(const qsf_hparams *hp, uint8_t part, uint64_t outputs, uint64_t *before, uint64_t *all)
{
    const uint64_t q = hf_dim_of(hp, DIM_Q), kv = hf_dim_of(hp, DIM_KV), ff = hp->n_ff;
    *before = part == PART_K ? q : part == PART_V ? q + kv : part == PART_UP ? ff : 0;
    *all = part == PART_ALL ? outputs : part == PART_GATE || part == PART_UP ? 2 * ff : q + 2 * kv;
}

static bool hf_needed(const hf_config *cfg, uint8_t need)
{
    switch ((hf_need)need) {
    case NEED:          return true;
    case NEED_Q_BIAS:   return cfg->q_bias;
    case NEED_O_BIAS:   return cfg->o_bias;
    case NEED_MLP_BIAS: return cfg->mlp_bias;
    case NEED_QK_NORM:  return cfg->qk_norm;
    case NEED_NOT:      break;
    }
    return false;
}

/* "3 x 4", for messages. */
static void hf_shape_text(const weights_tensor *t, char *out, size_t cap)
{
    size_t len = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < t->n_dims && i < WEIGHTS_MAX_DIMS; i++)
        len += qsf_format(out + len, cap - len, "%s%llu", i ? " x " : "", (unsigned long long)t->shape[i]);
    if (t->n_dims > WEIGHTS_MAX_DIMS)
        qsf_format(out + len, cap - len, " x ... (%u dimensions)", (unsigned)t->n_dims);
}

/* Whether t's shape is that of the rule; stored [a][b], or one dimension. */
static qsf_status hf_check_shape(const weights_tensor *t, bool vector, uint64_t a, uint64_t b, qsf_error *err)
{
    char shape[128];        /* four numbers of 64 bits fit */
    if (vector && t->n_dims == 1 && t->shape[0] == b) return QSF_OK;
    if (!vector && t->n_dims == 2 && t->shape[0] == a && t->shape[1] == b) return QSF_OK;
    hf_shape_text(t, shape, sizeof shape);
    return vector ? qsf_fail(err, QSF_E_CORRUPT, "tensor %s is of shape [%s], config.json asks for [%llu]",
                             t->name, shape, (unsigned long long)b)
                  : qsf_fail(err, QSF_E_CORRUPT,
                             "tensor %s is of shape [%s], config.json asks for [%llu x %llu]", t->name, shape,
                             (unsigned long long)a, (unsigned long long)b);
}

/* The converter's name: the file's, and which part of it. */
static const char *hf_part_name(hf_mapper *m, const weights_tensor *t, uint8_t part, qsf_error *err)
{
    static const char *const names[] = { [PART_Q] = "q", [PART_K] = "k", [PART_V] = "v", [PART_GATE] = "gate", [PART_UP] = "up" };
    if (part == PART_ALL) return t->name;
    const size_t cap = strlen(t->name) + 8;
    char *name = qsf_arena_alloc(m->in->arena, cap, "tensor name", err);
    if (name) qsf_format(name, cap, "%s[%s]", t->name, names[part]);
    return name;
}

/* Gemma multiplies by 1 + weight. */
static bool hf_norms_less_one(hf_family f) { return f == HF_GEMMA || f == HF_GEMMA2 || f == HF_GEMMA3; }
static bool hf_is_norm(uint8_t kind)
{
    return kind == QSF_K_ATTN_NORM || kind == QSF_K_FFN_NORM || kind == QSF_K_Q_NORM || kind == QSF_K_K_NORM ||
           kind == QSF_K_ATTN_POST_NORM || kind == QSF_K_FFN_POST_NORM || kind == QSF_K_OUTPUT_NORM;
}

static qsf_status hf_add(hf_mapper *m, uint32_t unit, const hf_rule *r, weights_tensor *t, qsf_error *err)
{
    const qsf_hparams *hp = &m->in->hp;
    const uint32_t rows = hf_dim_of(hp, r->rows), cols = hf_dim_of(hp, r->cols);
    const bool vector = r->rows == DIM_ONE, file_transposed = (r->flags & RULE_TRANSPOSED) != 0;
    uint64_t before, all;
    qsf_status st;

    hf_part_of(hp, r->part, vector ? cols : rows, &before, &all);
    if ((st = file_transposed ? hf_check_shape(t, vector, cols, all, err)
            : hf_check_shape(t, vector, vector ? 1 : all, vector ? all : cols, err))) return st;
    if (t->type == WEIGHTS_NO_TYPE)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "tensor %s is of type %s (supported: F16, BF16, F32)", t->name, t->dtype);
    if (m->n == m->cap) return qsf_fail(err, QSF_E_CORRUPT, "more tensors than the model's layers have");
    input_tensor *i = &m->in->tensors[m->n];
    hf_place *p = &m->places[m->n++];
    p->t = t;
    p->add = hf_norms_less_one(m->cfg->family) && hf_is_norm(r->kind) ? 1 : 0;
    /* The file's own strides may turn the rule's order round. */
    const bool dense_outputs = !vector && file_transposed != t->transposed;
    p->stride = dense_outputs ? all : 0;
    p->first = vector || dense_outputs ? before : before * cols;
    t->used = true;
    i->unit = unit;
    i->kind = r->kind;
    i->rows = rows;
    i->cols = cols;
    i->source_type = t->type;
    i->stored_bytes = (uint64_t)rows * cols * (t->type == QSF_T_F32 ? 4 : 2);
    i->name = hf_part_name(m, t, r->part, err);
    return i->name ? QSF_OK : QSF_E_MEMORY;
}

static qsf_status hf_apply(hf_mapper *m, uint32_t unit, const char *prefix, const hf_rule *rules, size_t n, qsf_error *err)
{
    char name[256];
    for (size_t i = 0; i < n; i++) {
        const hf_rule *r = &rules[i];
        if (unit < m->in->hp.n_layers) qsf_format(name, sizeof name, "%s%s%u.%s", prefix, m->rules->layers, (unsigned)unit, r->name);
        else qsf_format(name, sizeof name, "%s%s", prefix, r->name);
        weights_tensor *t = hf_weights_find(m->w, name);
        /* A norm that this model should not have is left alone here and refused as unknown. */
        if (!t && !hf_needed(m->cfg, r->need)) continue;
        if (t && r->need == NEED_QK_NORM && !m->cfg->qk_norm) continue;
        if (!t) return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is missing; is a shard missing, or the download incomplete?", name);
        const qsf_status st = hf_add(m, unit, r, t, err);
        if (st) return st;
    }
    return QSF_OK;
}

/* ---- what is left over ------------------------------------------------------------------------------------------- */

static bool hf_has_suffix(const char *s, const char *suffix)
{
    const size_t n = strlen(s), m = strlen(suffix);
    return n >= m && !strcmp(s + n - m, suffix);
}

static bool hf_has_prefix(const char *s, const char *prefix) { return !strncmp(s, prefix, strlen(prefix)); }

/* Tensors that no text depends on: masks and frequencies, which are computed, a copy of the embedding where
 * the head is tied to it, and what a model with pictures has for those. */
static bool hf_harmless(const hf_mapper *m, const char *name)
{
    static const char *const suffixes[] = { "rotary_emb.inv_freq", "rotary_emb.cos_cached",
                                            "rotary_emb.sin_cached", ".attn.bias", ".attn.masked_bias",
                                            ".position_ids" };
    static const char *const parts[] = { "vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                                         "model.multi_modal_projector." };
    for (size_t i = 0; i < QSF_ARRAY_LEN(suffixes); i++)
        if (hf_has_suffix(name, suffixes[i])) return true;
    for (size_t i = 0; i < QSF_ARRAY_LEN(parts); i++)
        if (m->cfg->pictures && hf_has_prefix(name, parts[i])) return true;
    const size_t head = strlen(m->head);
    return m->in->hp.tied && !strncmp(name, m->head, head) && !strcmp(name + head, hf_head.name);
}

/* A tensor that was not used would be lost without a word: only those that are known to be harmless may. */
static qsf_status hf_check_rest(const hf_mapper *m, uint32_t *ignored, qsf_error *err)
{
    char layers[64], *end;
    qsf_format(layers, sizeof layers, "%s%s", m->body, m->rules->layers);
    *ignored = 0;
    for (uint32_t i = 0; i < m->w->n; i++) {
        const weights_tensor *t = m->w->by_name[i];
        if (t->used) continue;
        if (hf_harmless(m, t->name)) {
            (*ignored)++;
            continue;
        }
        const char *number = hf_has_prefix(t->name, layers) ? t->name + strlen(layers) : "";
        const unsigned long layer = strtoul(number, &end, 10);
        if (end > number && *end == '.' && layer >= m->in->hp.n_layers)
            return qsf_fail(err, QSF_E_CORRUPT, "tensor %s belongs to layer %lu, but config.json has %u "
                            "layers (the first is layer 0); "
                            "is this its config.json?", t->name, layer, (unsigned)m->in->hp.n_layers);
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "tensor %s has no place in a %s model as this converter knows it", t->name,
                        m->cfg->model_type);
    }
    return QSF_OK;
}

static bool hf_find_prefix(hf_mapper *m)
{
    char name[128];
    for (size_t i = 0; i < QSF_ARRAY_LEN(hf_prefixes); i++) {
        qsf_format(name, sizeof name, "%s%s", hf_prefixes[i].body, m->rules->embd[0].name);
        if (!hf_weights_find(m->w, name)) continue;
        m->body = hf_prefixes[i].body;
        m->head = hf_prefixes[i].head;
        return true;
    }
    return false;
}

/* Rows of the embedding say how many tokens there are; vocab_size of some configs is a default that nobody set. */
static qsf_status hf_vocab_size(hf_mapper *m, qsf_error *err)
{
    char name[128];
    qsf_format(name, sizeof name, "%s%s", m->body, m->rules->embd[0].name);
    const weights_tensor *t = hf_weights_find(m->w, name);
    if (t->n_dims != 2 || !t->shape[0] || t->shape[0] > 1 << 24) {
        char shape[128];
        hf_shape_text(t, shape, sizeof shape);
        return qsf_fail(err, QSF_E_CORRUPT,
                        "tensor %s is of shape [%s], expected one row for each token, at most 2^24", name,
                        shape);
    }
    m->in->hp.n_vocab = (uint32_t)t->shape[0];
    return QSF_OK;
}

qsf_status hf_map_tensors(const hf_weights *w, const hf_config *cfg, input *in, hf_place **places, uint32_t *ignored, qsf_error *err)
{
    const hf_rules *r = &hf_families[cfg->family];
    const uint32_t n_layers = in->hp.n_layers;
    hf_mapper m = { .w = w, .cfg = cfg, .rules = r, .in = in };
    qsf_status st;

    if (!hf_find_prefix(&m)) return qsf_fail(err, QSF_E_CORRUPT, "tensor %s is missing", r->embd[0].name);
    if ((st = hf_vocab_size(&m, err))) return st;
    /* A config may claim thousands of layers: the files must have a tensor for each before room is made. */
    if (n_layers > w->n) return qsf_fail(err, QSF_E_CORRUPT, "config.json says %u layers, the files have %u tensors", (unsigned)n_layers, (unsigned)w->n);
    m.cap = (uint32_t)(r->n_embd + n_layers * r->n_layer + r->n_final + 1);
    if (!(in->tensors = qsf_arena_array(in->arena, m.cap, sizeof *in->tensors, "tensor list", err)) ||
        !(m.places = qsf_arena_array(in->arena, m.cap, sizeof *m.places, "tensor list", err))) return QSF_E_MEMORY;
    *places = m.places;
    if ((st = hf_apply(&m, qsf_unit_number(n_layers, qsf_id_embd()), m.body, r->embd, r->n_embd, err))) return st;
    for (uint32_t i = 0; i < n_layers; i++)
        if ((st = hf_apply(&m, i, m.body, r->layer, r->n_layer, err))) return st;
    const uint32_t final = qsf_unit_number(n_layers, qsf_id_final());
    if ((st = hf_apply(&m, final, m.body, r->final, r->n_final, err))) return st;
    if (!in->hp.tied && (st = hf_apply(&m, final, m.head, &hf_head, 1, err))) return st;
    in->n_tensors = m.n;
    return hf_check_rest(&m, ignored, err);
}
