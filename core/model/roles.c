/* The table of what tensors are for.  A new kind of tensor is a row here.
 * SPDX-License-Identifier: MIT */
#include "model/roles.h"

/* GGUF writes ".weight" behind a weight's name, and nothing behind a bias's. */
#define WEIGHT(part, kind, rows, cols, when, name, hf)                                                         \
    { QSF_K_##kind, QSF_PART_##part, QSF_DIM_##rows, QSF_DIM_##cols, QSF_WHEN_##when, name, name ".weight",     \
      name ".outliers", hf }
#define BIAS(part, kind, cols, name, hf)                                                                       \
    { QSF_K_##kind, QSF_PART_##part, QSF_DIM_ONE, QSF_DIM_##cols, QSF_WHEN_IT_IS, name, name,                   \
      name ".outliers", hf }

const qsf_role qsf_roles[QSF_N_ROLES] = {
    WEIGHT(LAYER, ATTN_NORM, ONE, EMBD, ALWAYS, "attn_norm", "input_layernorm.weight"),
    BIAS(LAYER, ATTN_NORM_BIAS, EMBD, "attn_norm.bias", NULL),
    WEIGHT(LAYER, ATTN_Q, Q, EMBD, ALWAYS, "attn_q", "self_attn.q_proj.weight"),
    BIAS(LAYER, ATTN_Q_BIAS, Q, "attn_q.bias", "self_attn.q_proj.bias"),
    WEIGHT(LAYER, ATTN_K, KV, EMBD, ALWAYS, "attn_k", "self_attn.k_proj.weight"),
    BIAS(LAYER, ATTN_K_BIAS, KV, "attn_k.bias", "self_attn.k_proj.bias"),
    WEIGHT(LAYER, ATTN_V, V, EMBD, ALWAYS, "attn_v", "self_attn.v_proj.weight"),
    BIAS(LAYER, ATTN_V_BIAS, V, "attn_v.bias", "self_attn.v_proj.bias"),
    WEIGHT(LAYER, Q_NORM, ONE, HEAD, IT_IS, "attn_q_norm", "self_attn.q_norm.weight"),
    WEIGHT(LAYER, K_NORM, ONE, HEAD, IT_IS, "attn_k_norm", "self_attn.k_norm.weight"),
    WEIGHT(LAYER, ATTN_OUT, EMBD, SUMS, ALWAYS, "attn_output", "self_attn.o_proj.weight"),
    BIAS(LAYER, ATTN_OUT_BIAS, EMBD, "attn_output.bias", "self_attn.o_proj.bias"),
    WEIGHT(LAYER, ATTN_POST_NORM, ONE, EMBD, IT_IS, "post_attention_norm", "post_attention_layernorm.weight"),
    WEIGHT(LAYER, FFN_NORM, ONE, EMBD, ALWAYS, "ffn_norm", "post_attention_layernorm.weight"),
    BIAS(LAYER, FFN_NORM_BIAS, EMBD, "ffn_norm.bias", NULL),
    WEIGHT(LAYER, FFN_GATE, FF, EMBD, GATED, "ffn_gate", "mlp.gate_proj.weight"),
    BIAS(LAYER, FFN_GATE_BIAS, FF, "ffn_gate.bias", "mlp.gate_proj.bias"),
    WEIGHT(LAYER, FFN_UP, FF, EMBD, ALWAYS, "ffn_up", "mlp.up_proj.weight"),
    BIAS(LAYER, FFN_UP_BIAS, FF, "ffn_up.bias", "mlp.up_proj.bias"),
    WEIGHT(LAYER, FFN_DOWN, EMBD, FF, ALWAYS, "ffn_down", "mlp.down_proj.weight"),
    BIAS(LAYER, FFN_DOWN_BIAS, EMBD, "ffn_down.bias", "mlp.down_proj.bias"),
    WEIGHT(LAYER, FFN_POST_NORM, ONE, EMBD, IT_IS, "post_ffw_norm", "post_feedforward_layernorm.weight"),
    WEIGHT(EMBD, TOKEN_EMBD, VOCAB, EMBD, ALWAYS, "token_embd", "embed_tokens.weight"),
    WEIGHT(EMBD, POS_EMBD, CTX, EMBD, LEARNED_POS, "position_embd", NULL),
    WEIGHT(FINAL, OUTPUT_NORM, ONE, EMBD, ALWAYS, "output_norm", "norm.weight"),
    BIAS(FINAL, OUTPUT_NORM_BIAS, EMBD, "output_norm.bias", NULL),
    WEIGHT(FINAL, OUTPUT, VOCAB, EMBD, UNTIED, "output", "lm_head.weight"),
    BIAS(FINAL, OUTPUT_BIAS, VOCAB, "output.bias", NULL),
};
#undef WEIGHT
#undef BIAS

const qsf_role *qsf_role_of(uint32_t kind)
{
    for (size_t i = 0; i < QSF_N_ROLES; i++)
        if (qsf_roles[i].kind == kind) return &qsf_roles[i];
    return NULL;
}

const char *qsf_kind_name(uint32_t kind)
{
    if (kind == QSF_K_PAD) return "padding";
    const bool outliers = kind >= QSF_K_OUTLIERS;
    const qsf_role *role = qsf_role_of(outliers ? kind - QSF_K_OUTLIERS : kind);
    return !role ? "unknown kind" : outliers ? role->outliers : role->name;
}

uint64_t qsf_dim_size(const qsf_hparams *hp, const qsf_layer *l, qsf_dim dim)
{
    assert(l || dim < QSF_DIM_Q);
    switch (dim) {
    case QSF_DIM_EMBD:  return hp->n_embd;
    case QSF_DIM_VOCAB: return hp->n_vocab;
    case QSF_DIM_CTX:   return hp->n_ctx_train;
    case QSF_DIM_Q:     return (uint64_t)l->n_heads * l->head_dim;
    case QSF_DIM_KV:    return (uint64_t)l->n_kv_heads * l->head_dim;
    case QSF_DIM_V:     return (uint64_t)l->n_kv_heads * l->value_dim;
    case QSF_DIM_SUMS:  return (uint64_t)l->n_heads * l->value_dim;
    case QSF_DIM_HEAD:  return l->head_dim;
    case QSF_DIM_FF:    return l->n_ff;
    case QSF_DIM_ONE:   break;
    }
    return 1;
}

bool qsf_role_needed(const qsf_hparams *hp, const qsf_layer *layer, const qsf_role *role)
{
    switch ((qsf_when)role->when) {
    case QSF_WHEN_ALWAYS:      return true;
    case QSF_WHEN_GATED:       return layer && layer->feed_forward == QSF_FEED_FORWARD_GATED;
    case QSF_WHEN_LEARNED_POS: return hp->learned_pos;
    case QSF_WHEN_UNTIED:      return !hp->tied;
    case QSF_WHEN_IT_IS:       break;
    }
    return false;
}
