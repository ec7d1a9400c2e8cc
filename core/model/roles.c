/* The table of what tensors are for.  A new kind of tensor is a row here.
 * SPDX-License-Identifier: MIT */
#include "model/roles.h"

/* GGUF names of weights end with ".weight"; those of biases have no such suffix. */
#if defined(QSF_NO_CONVERTER)           /* which is who looks for Hugging Face's names */
#  define HF(name) NULL
#else
#  define HF(name) name
#endif
#define ANY(part, kind, use, rows, cols, when, name, gguf, scale, hf) \
    { QSF_K_##kind, QSF_PART_##part, QSF_USE_##use, QSF_DIM_##rows, QSF_DIM_##cols, QSF_WHEN_##when, name, \
      gguf, name ".outliers", scale, HF(hf) }
#define ROLE(part, kind, use, rows, cols, when, name, gguf, hf) \
    ANY(part, kind, use, rows, cols, when, name, gguf, NULL, hf)
#define MATRIX(part, kind, rows, cols, when, name, hf) \
    ANY(part, kind, MATRIX, rows, cols, when, name, name ".weight", name ".scale", hf)
#define NORM(part, kind, cols, when, name, hf) \
    ROLE(part, kind, NORM, ONE, cols, when, name, name ".weight", hf)
#define PREDICT_NAME "altup_predict_coef.weight"
#define CORRECT_NAME "altup_correct_coef.weight"
#define SCALE_NAME "layer_output_scale.weight"
#define BIAS(part, kind, cols, name, hf) ROLE(part, kind, ADD, ONE, cols, IT_IS, name, name, hf)

const qsf_role qsf_roles[QSF_N_ROLES] = {
    NORM(LAYER, FEATURES_NORM, FEATURES, FEATURES, "enc.output_norm", NULL),
    NORM(LAYER, MTP_EMBD_NORM, EMBD, MTP, "nextn.enorm", "enorm.weight"),
    NORM(LAYER, MTP_STATE_NORM, EMBD, MTP, "nextn.hnorm", "hnorm.weight"),
    MATRIX(LAYER, MTP_PROJ, EMBD, STATE_IN, MTP, "nextn.eh_proj", "eh_proj.weight"),
    NORM(LAYER, ATTN_NORM, EMBD, ATTN_NORM, "attn_norm", "input_layernorm.weight"),
    BIAS(LAYER, ATTN_NORM_BIAS, EMBD, "attn_norm.bias", NULL),
    MATRIX(LAYER, ATTN_Q, Q, ATTN_IN, QUERIES, "attn_q", "self_attn.q_proj.weight"),
    BIAS(LAYER, ATTN_Q_BIAS, Q, "attn_q.bias", "self_attn.q_proj.bias"),
    MATRIX(LAYER, ATTN_K, KV, ATTN_IN, KEYS, "attn_k", "self_attn.k_proj.weight"),
    BIAS(LAYER, ATTN_K_BIAS, KV, "attn_k.bias", "self_attn.k_proj.bias"),
    MATRIX(LAYER, ATTN_V, V, ATTN_IN, KEYS, "attn_v", "self_attn.v_proj.weight"),
    BIAS(LAYER, ATTN_V_BIAS, V, "attn_v.bias", "self_attn.v_proj.bias"),
    MATRIX(LAYER, Q_A, Q_LATENT, EMBD, Q_LATENT, "attn_q_a", "self_attn.q_a_proj.weight"),
    NORM(LAYER, Q_A_NORM, Q_LATENT, Q_LATENT, "attn_q_a_norm", "self_attn.q_a_layernorm.weight"),
    MATRIX(LAYER, Q_B, Q, Q_LATENT, Q_LATENT, "attn_q_b", "self_attn.q_b_proj.weight"),
    MATRIX(LAYER, KV_A, KV, EMBD, LATENT, "attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa.weight"),
    NORM(LAYER, KV_A_NORM, LATENT, LATENT, "attn_kv_a_norm", "self_attn.kv_a_layernorm.weight"),
    MATRIX(LAYER, KEY_UP, HEADS_LATENT, PLAIN, SPLIT, "attn_k_b", NULL),
    MATRIX(LAYER, VALUE_UP, SUMS, LATENT, SPLIT, "attn_v_b", NULL),
    MATRIX(LAYER, KV_B, KV_B, LATENT, JOINED, "attn_kv_b", "self_attn.kv_b_proj.weight"),
    ROLE(LAYER, ATTN_SINKS, ADD, ONE, HEADS, IT_IS, "attn_sinks", "attn_sinks.weight", "self_attn.sinks"),
    NORM(LAYER, Q_NORM, Q_NORM, IT_IS, "attn_q_norm", "self_attn.q_norm.weight"),
    NORM(LAYER, K_NORM, K_NORM, IT_IS, "attn_k_norm", "self_attn.k_norm.weight"),
    BIAS(LAYER, Q_NORM_BIAS, Q_NORM, "attn_q_norm.bias", NULL),
    BIAS(LAYER, K_NORM_BIAS, K_NORM, "attn_k_norm.bias", NULL),
    NORM(LAYER, ATTN_SUB_NORM, SUMS, IT_IS, "attn_sub_norm", "self_attn.attn_sub_norm.weight"),
    MATRIX(LAYER, ATTN_OUT, EMBD, SUMS, ATTENTION, "attn_output", "self_attn.o_proj.weight"),
    BIAS(LAYER, ATTN_OUT_BIAS, EMBD, "attn_output.bias", "self_attn.o_proj.bias"),
    MATRIX(LAYER, MIX_IN, MIX_IN, EMBD, MIXER, "ssm_in", NULL),
    ROLE(LAYER, MIX_LERP, ADD, ONE, LERPS, RWKV, "time_mix_lerp", "time_mix_lerp_fused.weight", NULL),
    ROLE(LAYER, MIX_CONV, ADD, ONE, CONV, CONV, "ssm_conv1d", "ssm_conv1d.weight", NULL),
    ROLE(LAYER, MIX_CONV_BIAS, ADD, ONE, CHANNELS, MAY_STATE, "ssm_conv1d.bias", "ssm_conv1d.bias", NULL),
    ROLE(LAYER, MIX_STEP_BIAS, ADD, ONE, MIX_HEADS, STATE, "ssm_dt.bias", "ssm_dt.bias", NULL),
    ROLE(LAYER, MIX_DECAY, ADD, ONE, MIX_DECAY, DECAY, "ssm_a", "ssm_a", NULL),
    ROLE(LAYER, MIX_SKIP, ADD, ONE, MIX_HEADS, MAMBA, "ssm_d", "ssm_d", NULL),
    MATRIX(LAYER, MIX_X, MIX_X, MIX, MAMBA1, "ssm_x", NULL),
    MATRIX(LAYER, MIX_STEP, MIX_STEPS, MIX_RANK, MAMBA1, "ssm_dt", NULL),
    ROLE(LAYER, MIX_STEP_NORM, NORM, ONE, MIX_RANK, PLAMO, "ssm_dt_norm", "ssm_dt_norm", NULL),
    ROLE(LAYER, MIX_WRITE_NORM, NORM, ONE, MIX_STATE, PLAMO, "ssm_b_norm", "ssm_b_norm", NULL),
    ROLE(LAYER, MIX_READ_NORM, NORM, ONE, MIX_STATE, PLAMO, "ssm_c_norm", "ssm_c_norm", NULL),
    MATRIX(LAYER, MIX_KEY, MIX, EMBD, RWKV, "time_mix_key", NULL),
    MATRIX(LAYER, MIX_VALUE, MIX, EMBD, RWKV, "time_mix_value", NULL),
    MATRIX(LAYER, MIX_FIRST_IN, MIX_FIRST, EMBD, RWKV_FIRST, "time_mix_v1", NULL),
    MATRIX(LAYER, MIX_FIRST_OUT, MIX, MIX_FIRST, RWKV_FIRST, "time_mix_v2", NULL),
    ROLE(LAYER, MIX_FIRST_BIAS, ADD, ONE, MIX, RWKV_FIRST, "time_mix_v0", "time_mix_v0.weight", NULL),
    MATRIX(LAYER, MIX_RATE_IN, MIX_RATE, EMBD, RWKV, "time_mix_a1", NULL),
    MATRIX(LAYER, MIX_RATE_OUT, MIX, MIX_RATE, RWKV, "time_mix_a2", NULL),
    ROLE(LAYER, MIX_RATE_BIAS, ADD, ONE, MIX, RWKV, "time_mix_a0", "time_mix_a0.weight", NULL),
    MATRIX(LAYER, MIX_GATE_IN, MIX_GATE, EMBD, RWKV_GATE, "time_mix_g1", NULL),
    MATRIX(LAYER, MIX_GATE_OUT, MIX, MIX_GATE, RWKV_GATE, "time_mix_g2", NULL),
    ROLE(LAYER, MIX_KEY_OUT, ADD, ONE, MIX, RWKV, "time_mix_k_k", "time_mix_k_k.weight", NULL),
    ROLE(LAYER, MIX_KEY_RATE, ADD, ONE, MIX, RWKV, "time_mix_k_a", "time_mix_k_a.weight", NULL),
    MATRIX(LAYER, MIX_GATE, MIX, EMBD, MIX_GATE, "attn_gate", NULL),
    MATRIX(LAYER, MIX_BETA, BETAS, EMBD, DELTA, "ssm_beta", NULL),
    MATRIX(LAYER, MIX_ALPHA, MIX_HEADS, EMBD, ALPHA, "ssm_alpha", NULL),
    NORM(LAYER, MIX_NORM, MIX_NORM, MAY_STATE, "ssm_norm", NULL),
    ROLE(LAYER, MIX_NORM_BIAS, ADD, ONE, MIX, MAY_STATE, "time_mix_ln.bias", "time_mix_ln.bias", NULL),
    MATRIX(LAYER, MIX_OUT, EMBD, MIX, MIXER, "ssm_out", NULL),
    NORM(LAYER, ATTN_POST_NORM, EMBD, SUMS, "post_attention_norm", "post_attention_layernorm.weight"),
    BIAS(LAYER, ATTN_POST_NORM_BIAS, EMBD, "post_attention_norm.bias", NULL),
    NORM(LAYER, ATTN_NORM_2, EMBD, IT_IS, "attn_norm_2", NULL),
    BIAS(LAYER, ATTN_NORM_2_BIAS, EMBD, "attn_norm_2.bias", NULL),
    NORM(LAYER, FFN_NORM, EMBD, FFN_NORM, "ffn_norm", "post_attention_layernorm.weight"),
    BIAS(LAYER, FFN_NORM_BIAS, EMBD, "ffn_norm.bias", NULL),
    ROLE(LAYER, FFN_LERP, ADD, ONE, EMBD, SHIFTED, "channel_mix_lerp_k", "channel_mix_lerp_k.weight", NULL),
    MATRIX(LAYER, FFN_GATE, FF, EMBD, GATED, "ffn_gate", "mlp.gate_proj.weight"),
    BIAS(LAYER, FFN_GATE_BIAS, FF, "ffn_gate.bias", "mlp.gate_proj.bias"),
    MATRIX(LAYER, FFN_UP, FF, EMBD, FF, "ffn_up", "mlp.up_proj.weight"),
    BIAS(LAYER, FFN_UP_BIAS, FF, "ffn_up.bias", "mlp.up_proj.bias"),
    NORM(LAYER, FFN_SUB_NORM, FF, IT_IS, "ffn_sub_norm", "mlp.ffn_sub_norm.weight"),
    MATRIX(LAYER, FFN_DOWN, EMBD, FF, FF, "ffn_down", "mlp.down_proj.weight"),
    BIAS(LAYER, FFN_DOWN_BIAS, EMBD, "ffn_down.bias", "mlp.down_proj.bias"),
    ROLE(LAYER, ROUTER_NORM, NORM, ONE, EMBD, PARALLEL, "router_norm", "ffn_gate_inp.scale", NULL),
    MATRIX(LAYER, ROUTER, EXPERTS, EMBD, EXPERTS, "ffn_gate_inp", NULL),
    BIAS(LAYER, ROUTER_BIAS, EXPERTS, "ffn_gate_inp.bias", NULL),
    ROLE(LAYER, ROUTER_CHOICE, ADD, ONE, EXPERTS, MAY_EXPERTS, "exp_probs_b.bias", "exp_probs_b.bias", NULL),
    ROLE(LAYER, EXPERT_WEIGHT, ADD, ONE, EXPERTS, MAY_EXPERTS, "expert_weight", "ffn_down_exps.scale", NULL),
    NORM(LAYER, EXPERT_NORM, EMBD, PARALLEL, "pre_ffw_norm_2", NULL),
    MATRIX(LAYER, EXPERTS_IN, EXPERT_EMBD, EMBD, EXPERTS_APART, "ffn_latent_down", NULL),
    MATRIX(LAYER, EXPERT_GATE, EXPERTS_FF, EXPERT_EMBD, EXPERT_GATE, "ffn_gate_exps", NULL),
    BIAS(LAYER, EXPERT_GATE_BIAS, EXPERTS_FF, "ffn_gate_exps.bias", NULL),
    MATRIX(LAYER, EXPERT_UP, EXPERTS_FF, EXPERT_EMBD, EXPERTS, "ffn_up_exps", NULL),
    BIAS(LAYER, EXPERT_UP_BIAS, EXPERTS_FF, "ffn_up_exps.bias", NULL),
    MATRIX(LAYER, EXPERT_DOWN, EXPERTS_EMBD, EXPERT_FF, EXPERTS, "ffn_down_exps", NULL),
    BIAS(LAYER, EXPERT_DOWN_BIAS, EXPERTS_EMBD, "ffn_down_exps.bias", NULL),
    MATRIX(LAYER, EXPERTS_OUT, EMBD, EXPERT_EMBD, EXPERTS_APART, "ffn_latent_up", NULL),
    NORM(LAYER, EXPERT_POST_NORM, EMBD, PARALLEL, "post_ffw_norm_2", NULL),
    NORM(LAYER, SHARED_POST_NORM, EMBD, PARALLEL, "post_ffw_norm_1", NULL),
    ROLE(LAYER, SHARED_ROUTER, ADD, ONE, EMBD, IT_IS, "shared_router", "ffn_gate_inp_shexp.weight", NULL),
    NORM(LAYER, FFN_POST_NORM, EMBD, SUMS, "post_ffw_norm", "post_feedforward_layernorm.weight"),
    BIAS(LAYER, FFN_POST_NORM_BIAS, EMBD, "post_ffw_norm.bias", NULL),
    MATRIX(LAYER, LAYER_EMBD, LAYER_EMBD, EMBD, LAYER_EMBD, "layer_embd", NULL),
    NORM(LAYER, LAYER_EMBD_NORM, LAYER_EMBD, LAYER_EMBD, "layer_embd_norm", NULL),
    MATRIX(LAYER, LAYER_GATE, LAYER_EMBD, EMBD, LAYER_EMBD, "inp_gate", "per_layer_input_gate.weight"),
    MATRIX(LAYER, LAYER_OUT, EMBD, LAYER_EMBD, LAYER_EMBD, "proj", "per_layer_projection.weight"),
    NORM(LAYER, LAYER_POST_NORM, EMBD, LAYER_EMBD, "post_norm", "post_per_layer_input_norm.weight"),
    ROLE(LAYER, LAYER_SCALE, ADD, ONE, ONE, MAY_LAYER, "layer_output_scale", SCALE_NAME, "layer_scalar"),
    MATRIX(LAYER, ALTUP_PROJ, OTHERS, EMBD, ALTUP_BEGIN, "altup_proj", NULL),
    MATRIX(LAYER, ALTUP_BACK_1, EMBD, EMBD, ALTUP_END, "altup_unembd_proj_1", NULL),
    MATRIX(LAYER, ALTUP_BACK_2, EMBD, EMBD, ALTUP_END, "altup_unembd_proj_2", NULL),
    MATRIX(LAYER, ALTUP_BACK_3, EMBD, EMBD, ALTUP_END, "altup_unembd_proj_3", NULL),
    ROLE(LAYER, ALTUP_ROUTER, ADD, ONE, ALTUP, ALTUP, "altup_router", "altup_router.weight", NULL),
    NORM(LAYER, ALTUP_ROUTER_NORM, EMBD, ALTUP, "altup_router_norm", NULL),
    ROLE(LAYER, ALTUP_PREDICT, ADD, ONE, PREDICT, ALTUP, "altup_predict_coef", PREDICT_NAME, NULL),
    ROLE(LAYER, ALTUP_CORRECT, ADD, ONE, CORRECT, ALTUP, "altup_correct_coef", CORRECT_NAME, NULL),
    NORM(LAYER, ALTUP_SCALE, EMBD, ALTUP, "altup_correct_scale", NULL),
    MATRIX(LAYER, LAUREL_L, LAUREL, EMBD, ALTUP, "laurel_l", NULL),
    MATRIX(LAYER, LAUREL_R, EMBD, LAUREL, ALTUP, "laurel_r", NULL),
    NORM(LAYER, LAUREL_POST_NORM, EMBD, ALTUP, "laurel_post_norm", NULL),
    NORM(LAYER, MTP_NORM, EMBD, MAY_MTP, "nextn.shared_head_norm", "shared_head.norm.weight"),
    MATRIX(EMBD, TOKEN_EMBD, WORDS, EMBD, ALWAYS, "token_embd", "embed_tokens.weight"),
    MATRIX(EMBD, LAYER_TABLE, VOCAB, TABLE, LAYER_EMBD, "per_layer_token_embd", NULL),
    ROLE(EMBD, POS_EMBD, ADD, CTX, EMBD, LEARNED_POS, "position_embd", "position_embd.weight", NULL),
    ROLE(EMBD, TOKEN_TYPES, ADD, TYPES, EMBD, TYPES, "token_types", "token_types.weight", NULL),
    NORM(EMBD, TOKEN_NORM, EMBD, IT_IS, "token_embd_norm", NULL),
    BIAS(EMBD, TOKEN_NORM_BIAS, EMBD, "token_embd_norm.bias", NULL),
    NORM(FINAL, OUTPUT_NORM, EMBD, FINAL_NORM, "output_norm", "norm.weight"),
    BIAS(FINAL, OUTPUT_NORM_BIAS, EMBD, "output_norm.bias", NULL),
    MATRIX(FINAL, OUTPUT, VOCAB, EMBD, UNTIED, "output", "lm_head.weight"),
    BIAS(FINAL, OUTPUT_BIAS, VOCAB, "output.bias", NULL),
    ROLE(FINAL, CLS, ADD, EMBD, EMBD, IT_IS, "cls", "cls.weight", NULL),
    BIAS(FINAL, CLS_BIAS, EMBD, "cls.bias", NULL),
    NORM(FINAL, CLS_NORM, EMBD, IT_IS, "cls.norm", NULL),
    ROLE(FINAL, CLS_OUT, ADD, CLASSES, EMBD, CLASSES, "cls.output", "cls.output.weight", NULL),
    BIAS(FINAL, CLS_OUT_BIAS, CLASSES, "cls.output.bias", NULL),
    ROLE(FINAL, DENSE_2, ADD, DENSE, EMBD, DENSE, "dense_2", "dense_2.weight", NULL),
    ROLE(FINAL, DENSE_3, ADD, EMBD, DENSE, DENSE, "dense_3", "dense_3.weight", NULL),
};
#undef HF
#undef ROLE
#undef ANY
#undef MATRIX
#undef NORM
#undef BIAS
#undef PREDICT_NAME
#undef CORRECT_NAME
#undef SCALE_NAME

const qsf_role *qsf_role_of(uint32_t kind)
{
    for (size_t i = 0; i < QSF_N_ROLES; i++)
        if (qsf_roles[i].kind == kind) return &qsf_roles[i];
    return NULL;
}

const char *qsf_kind_name(uint32_t kind)
{
    if (kind == QSF_K_PAD) return "padding";
    const qsf_role *role = qsf_role_of(qsf_kind_base(kind));
    const char *name = !role                      ? NULL
                       : kind >= QSF_K_SCALE    ? role->scale
                       : kind >= QSF_K_OUTLIERS ? role->outliers
                                                : role->name;
    return name ? name : "unknown kind";
}

static uint32_t qk_norm_heads(const qsf_layer *l, uint32_t heads)
{
    return l->qk_norm == QSF_QK_ALL || l->qk_norm == QSF_QK_EACH ? heads : 1;
}

/* What may be different in an EAGLE 3 head. */
static uint64_t dim_of_eagle(const qsf_hparams *hp, qsf_dim dim)
{
    const uint64_t twice = 2 * (uint64_t)hp->n_embd;
    if (dim == QSF_DIM_VOCAB || (dim == QSF_DIM_WORDS && !hp->n_words)) return hp->n_vocab;
    if (dim == QSF_DIM_WORDS) return hp->n_words;
    if (dim == QSF_DIM_FEATURES) return hp->n_features;
    if (dim == QSF_DIM_STATE_IN) return hp->eagle ? hp->n_features : twice;
    return hp->eagle ? twice : hp->n_embd;              /* what attention reads */
}

uint64_t qsf_dim_size(const qsf_hparams *hp, const qsf_layer *l, qsf_dim dim)
{
    assert(l || dim < QSF_DIM_Q);
    switch (dim) {
    case QSF_DIM_EMBD:  return hp->n_embd;
    case QSF_DIM_CTX:   return hp->n_ctx_train;
    case QSF_DIM_TYPES: return hp->n_token_types;
    case QSF_DIM_CLASSES: return hp->n_classes;
    case QSF_DIM_DENSE: return hp->n_between;
    case QSF_DIM_TABLE: return (uint64_t)hp->n_layers * hp->n_embd_layer;
    case QSF_DIM_LAYER_EMBD: return hp->n_embd_layer;
    case QSF_DIM_ALTUP: return (uint64_t)QSF_ALTUP * hp->n_embd;
    case QSF_DIM_OTHERS: return (uint64_t)(QSF_ALTUP - 1) * hp->n_embd;
    case QSF_DIM_PREDICT: return QSF_ALTUP * QSF_ALTUP * QSF_ALTUP;
    case QSF_DIM_CORRECT: return QSF_ALTUP * QSF_ALTUP;
    case QSF_DIM_LAUREL: return hp->n_laurel;
    case QSF_DIM_VOCAB: case QSF_DIM_WORDS: case QSF_DIM_FEATURES: case QSF_DIM_STATE_IN:
    case QSF_DIM_ATTN_IN: return dim_of_eagle(hp, dim);
    case QSF_DIM_Q:
        if (l->kv_latent) return (uint64_t)l->n_heads * (l->head_plain + l->head_dim - l->kv_latent);
        return (uint64_t)l->n_heads * l->head_dim * (l->attn_gate ? 2 : 1);
    case QSF_DIM_LATENT: return l->kv_latent;
    case QSF_DIM_Q_LATENT: return l->q_latent;
    case QSF_DIM_PLAIN: return l->head_plain;
    case QSF_DIM_HEADS_LATENT: return (uint64_t)l->n_heads * l->kv_latent;
    case QSF_DIM_KV_B:  return (uint64_t)l->n_heads * (l->head_plain + l->head_value);
    case QSF_DIM_KV:    return (uint64_t)l->n_kv_heads * l->head_dim;
    case QSF_DIM_V:     return (uint64_t)l->n_kv_heads * l->value_dim;
    case QSF_DIM_SUMS:  return (uint64_t)l->n_heads * (l->kv_latent ? l->head_value : l->value_dim);
    case QSF_DIM_Q_NORM: return (uint64_t)qk_norm_heads(l, l->n_heads) * l->head_dim;
    case QSF_DIM_K_NORM: return (uint64_t)qk_norm_heads(l, l->n_kv_heads) * l->head_dim;
    case QSF_DIM_FF:    return l->n_ff;
    case QSF_DIM_HEADS: return l->n_heads;
    case QSF_DIM_EXPERTS: return l->n_experts;
    case QSF_DIM_EXPERT_FF: return l->n_ff_expert;
    case QSF_DIM_EXPERTS_FF: return (uint64_t)l->n_experts * l->n_ff_expert;
    case QSF_DIM_EXPERT_EMBD: return l->n_expert_embd;
    case QSF_DIM_EXPERTS_EMBD: return (uint64_t)l->n_experts * l->n_expert_embd;
    case QSF_DIM_MIX_IN: return l->mix_in;
    case QSF_DIM_MIX:   return l->mix_inner;
    case QSF_DIM_CHANNELS: return l->mix_channels;
    case QSF_DIM_CONV:  return (uint64_t)l->mix_channels * l->mix_conv;
    case QSF_DIM_MIX_HEADS: return l->mixer == QSF_MIXER_RWKV ? l->mix_inner : l->mix_heads;
    case QSF_DIM_BETAS: return (uint64_t)l->mix_heads * (l->mix_neighbours ? 2 : 1);
    case QSF_DIM_MIX_DECAY:
        return (uint64_t)l->mix_heads * (l->mixer == QSF_MIXER_MAMBA ? l->mix_state : 1);
    case QSF_DIM_MIX_RANK: return l->mix_rank;
    case QSF_DIM_MIX_STEPS: return l->mixer == QSF_MIXER_PLAMO ? l->mix_heads : l->mix_inner;
    case QSF_DIM_MIX_STATE: return l->mix_state;
    case QSF_DIM_MIX_X: return l->mix_rank + (l->mixer == QSF_MIXER_RWKV ? 0 : 2 * (uint64_t)l->mix_state);
    case QSF_DIM_LERPS: return (uint64_t)hp->n_embd * (l->mix_gate ? 6 : 5);
    case QSF_DIM_MIX_RATE: return l->mix_rate;
    case QSF_DIM_MIX_FIRST: return l->mix_first;
    case QSF_DIM_MIX_GATE: return l->mix_gate;
    case QSF_DIM_MIX_NORM:
        return l->mixer == QSF_MIXER_DELTA_NET ? l->mix_inner / l->mix_heads : l->mix_inner;
    case QSF_DIM_ONE:   break;
    }
    return 1;
}

uint64_t qsf_role_outputs(const qsf_hparams *hp, const qsf_layer *layer, const qsf_role *role)
{
    return qsf_dim_size(hp, layer, (qsf_dim)(role->rows == QSF_DIM_ONE ? role->cols : role->rows));
}

static bool layer_has_ffn(const qsf_layer *l) { return l && l->feed_forward != QSF_FEED_FORWARD_NONE; }
static bool layer_has_mixer(const qsf_layer *l)
{
    return l && l->mixer != QSF_MIXER_ATTENTION && l->mixer != QSF_MIXER_NONE;
}

/* Of what mixers with sums may have: the convolution's bias, the norm and its bias. */
static bool mixer_may(const qsf_layer *l, uint32_t kind)
{
    if (kind == QSF_K_MIX_NORM) return l->mixer != QSF_MIXER_MAMBA && l->mixer != QSF_MIXER_PLAMO;
    return (kind == QSF_K_MIX_NORM_BIAS) == (l->mixer == QSF_MIXER_RWKV);
}

bool qsf_role_fits(const qsf_layer *layer, const qsf_role *role)
{
    if (!layer || role->part != QSF_PART_LAYER) return true;
    const bool rwkv = layer->mixer == QSF_MIXER_RWKV, plamo = layer->mixer == QSF_MIXER_PLAMO;
    const bool slow = layer->mixer == QSF_MIXER_MAMBA || plamo || rwkv;
    switch ((qsf_when)role->when) {
    case QSF_WHEN_ATTENTION: return qsf_layer_attends(layer);
    case QSF_WHEN_KEYS:      return qsf_layer_has_kv(layer) && !layer->kv_latent;
    case QSF_WHEN_LAYER_EMBD: return layer->n_embd_layer != 0;
    case QSF_WHEN_ALTUP:     return layer->altup;
    case QSF_WHEN_MTP: case QSF_WHEN_MAY_MTP: return layer->mtp;
    case QSF_WHEN_FEATURES:  return layer->features_normed;
    case QSF_WHEN_ALTUP_BEGIN: return layer->altup_begin;
    case QSF_WHEN_ALTUP_END: return layer->altup_end;
    case QSF_WHEN_QUERIES:   return qsf_layer_attends(layer) && !layer->q_latent;
    case QSF_WHEN_LATENT:    return layer->kv_latent;
    case QSF_WHEN_Q_LATENT:  return layer->q_latent;
    case QSF_WHEN_SPLIT:     return layer->kv_latent && !layer->latent_joined;
    case QSF_WHEN_JOINED:    return layer->latent_joined;
    case QSF_WHEN_MIXER:     return layer_has_mixer(layer);
    case QSF_WHEN_EXPERT_GATE: return layer->n_experts && !layer->experts_plain;
    case QSF_WHEN_PARALLEL:  return layer->experts_beside;
    case QSF_WHEN_EXPERTS_APART: return layer->experts_apart;
    case QSF_WHEN_MAY_EXPERTS: return layer->n_experts;
    case QSF_WHEN_CONV:      return layer_has_mixer(layer) && !rwkv;
    case QSF_WHEN_STATE:     return layer_has_mixer(layer) && layer->mix_state;
    case QSF_WHEN_DECAY:     return layer_has_mixer(layer) && layer->mix_state && !rwkv;
    case QSF_WHEN_MAY_STATE:
        return layer_has_mixer(layer) && layer->mix_state && mixer_may(layer, role->kind);
    case QSF_WHEN_MAMBA:
        return qsf_mixer_is_mamba2(layer->mixer) || slow;
    case QSF_WHEN_MAMBA1:    return slow;
    case QSF_WHEN_PLAMO:     return plamo;
    case QSF_WHEN_MIX_GATE:  return layer->mixer == QSF_MIXER_DELTA_NET || plamo;
    case QSF_WHEN_RWKV:      return rwkv;
    case QSF_WHEN_RWKV_FIRST: return rwkv && layer->mix_first;
    case QSF_WHEN_RWKV_GATE: return rwkv && layer->mix_gate;
    case QSF_WHEN_SHIFTED:   return layer->feed_forward == QSF_FEED_FORWARD_SHIFTED;
    case QSF_WHEN_DELTA:     return layer->mixer == QSF_MIXER_DELTA_NET;
    case QSF_WHEN_ATTN_NORM: return layer->mixer != QSF_MIXER_NONE && !layer->eagle;
    case QSF_WHEN_ALPHA:     return layer->mixer == QSF_MIXER_DELTA_NET && !layer->mix_neighbours;
    case QSF_WHEN_FF: case QSF_WHEN_GATED: case QSF_WHEN_FFN_NORM: return layer_has_ffn(layer);
    default: break;
    }
    if (role->kind == QSF_K_K_NORM && layer->kv_from) return false;
    if (qsf_kinds_have(QSF_KINDS_ATTENTION, role->kind)) return qsf_layer_attends(layer);
    if (qsf_kinds_have(QSF_KINDS_FFN, role->kind)) return layer_has_ffn(layer);
    return true;
}

bool qsf_role_needed(const qsf_hparams *hp, const qsf_layer *layer, const qsf_role *role)
{
    if (!qsf_role_fits(layer, role)) return false;
    switch ((qsf_when)role->when) {
    case QSF_WHEN_ALWAYS:      return !hp->eagle || hp->n_words;
    case QSF_WHEN_FF:          return layer && layer->n_ff;
    case QSF_WHEN_GATED:
        return layer && layer->n_ff && layer->feed_forward != QSF_FEED_FORWARD_PLAIN &&
               layer->feed_forward != QSF_FEED_FORWARD_SHIFTED && !layer->experts_plain;
    case QSF_WHEN_EXPERTS:     return layer && layer->n_experts;
    case QSF_WHEN_LEARNED_POS: return hp->learned_pos;
    case QSF_WHEN_UNTIED:      return !hp->tied;
    case QSF_WHEN_ATTN_NORM:
        return layer && layer->norm.kind != QSF_NORM_BARE && layer->flow != QSF_FLOW_POST &&
               layer->flow != QSF_FLOW_SUMS && layer->flow != QSF_FLOW_BARE_BEGIN;
    case QSF_WHEN_FFN_NORM:
        return layer && layer->norm.kind != QSF_NORM_BARE && (layer->flow == QSF_FLOW_SERIAL ||
               layer->flow == QSF_FLOW_PARALLEL_NORMS || layer->flow == QSF_FLOW_BARE_BEGIN);
    case QSF_WHEN_FINAL_NORM:  return qsf_final_norm(hp);
    case QSF_WHEN_SUMS:        return layer && layer->flow == QSF_FLOW_SUMS;
    case QSF_WHEN_CLASSES:     return hp->n_classes != 0;
    case QSF_WHEN_TYPES:       return hp->n_token_types != 0;
    case QSF_WHEN_DENSE:       return hp->n_between != 0;
    case QSF_WHEN_EXPERT_GATE: case QSF_WHEN_PARALLEL: case QSF_WHEN_EXPERTS_APART:
    case QSF_WHEN_QUERIES: case QSF_WHEN_KEYS: case QSF_WHEN_LATENT: case QSF_WHEN_Q_LATENT:
    case QSF_WHEN_SPLIT: case QSF_WHEN_JOINED:
    case QSF_WHEN_ATTENTION: case QSF_WHEN_MIXER: case QSF_WHEN_STATE:
    case QSF_WHEN_CONV: case QSF_WHEN_DECAY: case QSF_WHEN_RWKV: case QSF_WHEN_RWKV_FIRST:
    case QSF_WHEN_RWKV_GATE: case QSF_WHEN_SHIFTED:
    case QSF_WHEN_MAMBA: case QSF_WHEN_MAMBA1: case QSF_WHEN_DELTA: case QSF_WHEN_ALPHA:
    case QSF_WHEN_PLAMO: case QSF_WHEN_MIX_GATE:
    case QSF_WHEN_ALTUP: case QSF_WHEN_ALTUP_BEGIN: case QSF_WHEN_ALTUP_END: case QSF_WHEN_MTP:
    case QSF_WHEN_FEATURES:
        return layer != NULL;
    case QSF_WHEN_LAYER_EMBD:  return hp->n_embd_layer != 0;
    case QSF_WHEN_MAY_STATE: case QSF_WHEN_MAY_LAYER: case QSF_WHEN_MAY_EXPERTS: case QSF_WHEN_IT_IS:
    case QSF_WHEN_MAY_MTP: break;
    }
    return false;
}
