/* The tensor names of model types, if they differ from Llama's.
 * SPDX-License-Identifier: MIT */
#include "read/hf_aliases.h"

#define NAME(kind, name) { QSF_K_##kind, 0, name, NULL }
#define NAME_AS(kind, how, name) { QSF_K_##kind, how, name, NULL }
#define PART(kind, part, name) { QSF_K_##kind, 0, name, part }
#define PART_AS(kind, how, part, name) { QSF_K_##kind, how, name, part }
#define NAMES_END { 0, 0, NULL, NULL }

const hf_alias qsf_hf_phi3_names[] = {
    PART(ATTN_Q, "q", "self_attn.qkv_proj.weight"),
    PART(ATTN_K, "k", "self_attn.qkv_proj.weight"),
    PART(ATTN_V, "v", "self_attn.qkv_proj.weight"),
    PART(FFN_GATE, "gate", "mlp.gate_up_proj.weight"),
    PART(FFN_UP, "up", "mlp.gate_up_proj.weight"),
    NAMES_END,
};
/* Llama's post_attention_layernorm comes after the residual, this one before it. */
const hf_alias qsf_hf_gemma2_names[] = {
    NAME(FFN_NORM, "pre_feedforward_layernorm.weight"),
    NAMES_END,
};
/* 1bitLLM's, before Microsoft's releases. */
const hf_alias qsf_hf_bitnet_names[] = {
    NAME(ATTN_SUB_NORM, "self_attn.inner_attn_ln.weight"),
    NAME(FFN_SUB_NORM, "mlp.ffn_layernorm.weight"),
    NAMES_END,
};
/* Llama's post_attention_layernorm again, with norms of what the parts give. */
const hf_alias qsf_hf_glm4_names[] = {
    NAME(ATTN_POST_NORM, "post_self_attn_layernorm.weight"),
    NAME(FFN_POST_NORM, "post_mlp_layernorm.weight"),
    PART(FFN_GATE, "gate", "mlp.gate_up_proj.weight"),
    PART(FFN_UP, "up", "mlp.gate_up_proj.weight"),
    NAMES_END,
};
#define NORM_BIASES \
    NAME(ATTN_NORM_BIAS, "input_layernorm.bias"), \
    NAME(FFN_NORM_BIAS, "post_attention_layernorm.bias"), \
    NAME(OUTPUT_NORM_BIAS, "norm.bias")
const hf_alias qsf_hf_norm_bias_names[] = { NORM_BIASES, NAMES_END };
const hf_alias qsf_hf_starcoder2_names[] = {
    NORM_BIASES,
    NAME(FFN_UP, "mlp.c_fc.weight"),
    NAME(FFN_UP_BIAS, "mlp.c_fc.bias"),
    NAME(FFN_DOWN, "mlp.c_proj.weight"),
    NAME(FFN_DOWN_BIAS, "mlp.c_proj.bias"),
    NAMES_END,
};
#undef NORM_BIASES
const hf_alias qsf_hf_phi_names[] = {
    NAME(ATTN_NORM_BIAS, "input_layernorm.bias"),
    NAME(ATTN_OUT, "self_attn.dense.weight"),
    NAME(ATTN_OUT_BIAS, "self_attn.dense.bias"),
    NAME(FFN_UP, "mlp.fc1.weight"),
    NAME(FFN_UP_BIAS, "mlp.fc1.bias"),
    NAME(FFN_DOWN, "mlp.fc2.weight"),
    NAME(FFN_DOWN_BIAS, "mlp.fc2.bias"),
    NAME(OUTPUT_NORM, "final_layernorm.weight"),
    NAME(OUTPUT_NORM_BIAS, "final_layernorm.bias"),
    NAME_AS(OUTPUT_BIAS, HF_BARE, "lm_head.bias"),
    NAMES_END,
};
const hf_alias qsf_hf_cohere_names[] = {
    NAME_AS(Q_NORM, HF_FLAT, "self_attn.q_norm.weight"),
    NAME_AS(K_NORM, HF_FLAT, "self_attn.k_norm.weight"),
    NAMES_END,
};
const hf_alias qsf_hf_hunyuan_names[] = {
    NAME(Q_NORM, "self_attn.query_layernorm.weight"),
    NAME(K_NORM, "self_attn.key_layernorm.weight"),
    NAMES_END,
};
const hf_alias qsf_hf_gpt2_names[] = {
    NAME(TOKEN_EMBD, "wte.weight"),
    NAME(POS_EMBD, "wpe.weight"),
    NAME(ATTN_NORM, "ln_1.weight"),
    NAME(ATTN_NORM_BIAS, "ln_1.bias"),
    PART(ATTN_Q, "q", "attn.c_attn.weight"),
    PART(ATTN_Q_BIAS, "q", "attn.c_attn.bias"),
    PART(ATTN_K, "k", "attn.c_attn.weight"),
    PART(ATTN_K_BIAS, "k", "attn.c_attn.bias"),
    PART(ATTN_V, "v", "attn.c_attn.weight"),
    PART(ATTN_V_BIAS, "v", "attn.c_attn.bias"),
    NAME(ATTN_OUT, "attn.c_proj.weight"),
    NAME(ATTN_OUT_BIAS, "attn.c_proj.bias"),
    NAME(FFN_NORM, "ln_2.weight"),
    NAME(FFN_NORM_BIAS, "ln_2.bias"),
    NAME(FFN_UP, "mlp.c_fc.weight"),
    NAME(FFN_UP_BIAS, "mlp.c_fc.bias"),
    NAME(FFN_DOWN, "mlp.c_proj.weight"),
    NAME(FFN_DOWN_BIAS, "mlp.c_proj.bias"),
    NAME(OUTPUT_NORM, "ln_f.weight"),
    NAME(OUTPUT_NORM_BIAS, "ln_f.bias"),
    NAMES_END,
};

#define BERT_ATTENTION \
    NAME(TOKEN_EMBD, "embeddings.word_embeddings.weight"), \
    NAME(TOKEN_TYPES, "embeddings.token_type_embeddings.weight"), \
    NAME(TOKEN_NORM, "embeddings.LayerNorm.weight"), \
    NAME(TOKEN_NORM_BIAS, "embeddings.LayerNorm.bias"), \
    NAME(ATTN_Q, "attention.self.query.weight"), \
    NAME(ATTN_Q_BIAS, "attention.self.query.bias"), \
    NAME(ATTN_K, "attention.self.key.weight"), \
    NAME(ATTN_K_BIAS, "attention.self.key.bias"), \
    NAME(ATTN_V, "attention.self.value.weight"), \
    NAME(ATTN_V_BIAS, "attention.self.value.bias"), \
    NAME(ATTN_OUT, "attention.output.dense.weight"), \
    NAME(ATTN_OUT_BIAS, "attention.output.dense.bias"), \
    NAME(ATTN_POST_NORM, "attention.output.LayerNorm.weight"), \
    NAME(ATTN_POST_NORM_BIAS, "attention.output.LayerNorm.bias")
#define BERT_NAMES \
    BERT_ATTENTION, \
    NAME(POS_EMBD, "embeddings.position_embeddings.weight"), \
    NAME(FFN_UP, "intermediate.dense.weight"), \
    NAME(FFN_UP_BIAS, "intermediate.dense.bias"), \
    NAME(FFN_DOWN, "output.dense.weight"), \
    NAME(FFN_DOWN_BIAS, "output.dense.bias"), \
    NAME(FFN_POST_NORM, "output.LayerNorm.weight"), \
    NAME(FFN_POST_NORM_BIAS, "output.LayerNorm.bias")
const hf_alias qsf_hf_bert_names[] = { BERT_NAMES, NAMES_END };
const hf_alias qsf_hf_bert_classes_names[] = {
    BERT_NAMES,
    NAME(CLS, "pooler.dense.weight"),
    NAME(CLS_BIAS, "pooler.dense.bias"),
    NAME_AS(CLS_OUT, HF_BARE, "classifier.weight"),
    NAME_AS(CLS_OUT_BIAS, HF_BARE, "classifier.bias"),
    NAMES_END,
};
const hf_alias qsf_hf_roberta_classes_names[] = {
    BERT_NAMES,
    NAME_AS(CLS, HF_BARE, "classifier.dense.weight"),
    NAME_AS(CLS_BIAS, HF_BARE, "classifier.dense.bias"),
    NAME_AS(CLS_OUT, HF_BARE, "classifier.out_proj.weight"),
    NAME_AS(CLS_OUT_BIAS, HF_BARE, "classifier.out_proj.bias"),
    NAMES_END,
};
/* The activation is taken of the first half. */
const hf_alias qsf_hf_jina_names[] = {
    BERT_ATTENTION,
    NAME(Q_NORM, "attention.self.layer_norm_q.weight"),
    NAME(Q_NORM_BIAS, "attention.self.layer_norm_q.bias"),
    NAME(K_NORM, "attention.self.layer_norm_k.weight"),
    NAME(K_NORM_BIAS, "attention.self.layer_norm_k.bias"),
    PART(FFN_GATE, "gate", "mlp.gated_layers.weight"),
    PART(FFN_UP, "up", "mlp.gated_layers.weight"),
    NAME(FFN_DOWN, "mlp.wo.weight"),
    NAME(FFN_DOWN_BIAS, "mlp.wo.bias"),
    NAME(FFN_POST_NORM, "mlp.layernorm.weight"),
    NAME(FFN_POST_NORM_BIAS, "mlp.layernorm.bias"),
    NAMES_END,
};
#undef BERT_NAMES
#undef BERT_ATTENTION
/* As the Transformers library has them, and as the models' own code and files do. */
const hf_alias qsf_hf_nomic_names[] = {
    NAME(TOKEN_EMBD, "embeddings.word_embeddings.weight"),
    NAME(TOKEN_TYPES, "embeddings.token_type_embeddings.weight"),
    NAME(TOKEN_NORM, "embeddings.LayerNorm.weight"),
    NAME(TOKEN_NORM_BIAS, "embeddings.LayerNorm.bias"),
    NAME(ATTN_POST_NORM, "post_attention_layernorm.weight"),
    NAME(ATTN_POST_NORM_BIAS, "post_attention_layernorm.bias"),
    NAME(FFN_POST_NORM, "post_mlp_layernorm.weight"),
    NAME(FFN_POST_NORM_BIAS, "post_mlp_layernorm.bias"),
    NAMES_END,
};
const hf_alias qsf_hf_nomic_older[] = {
    NAME(TOKEN_EMBD, "embeddings.word_embeddings.weight"),
    NAME(TOKEN_TYPES, "embeddings.token_type_embeddings.weight"),
    NAME(TOKEN_NORM, "emb_ln.weight"),
    NAME(TOKEN_NORM_BIAS, "emb_ln.bias"),
    PART(ATTN_Q, "q", "attn.Wqkv.weight"),
    PART(ATTN_K, "k", "attn.Wqkv.weight"),
    PART(ATTN_V, "v", "attn.Wqkv.weight"),
    NAME(ATTN_OUT, "attn.out_proj.weight"),
    NAME(ATTN_POST_NORM, "norm1.weight"),
    NAME(ATTN_POST_NORM_BIAS, "norm1.bias"),
    NAME(FFN_GATE, "mlp.fc12.weight"),
    NAME(FFN_UP, "mlp.fc11.weight"),
    NAME(FFN_DOWN, "mlp.fc2.weight"),
    NAME(FFN_POST_NORM, "norm2.weight"),
    NAME(FFN_POST_NORM_BIAS, "norm2.bias"),
    NAMES_END,
};
#define MODERN_NAMES \
    NAME(TOKEN_EMBD, "embeddings.tok_embeddings.weight"), \
    NAME(TOKEN_NORM, "embeddings.norm.weight"), \
    NAME(ATTN_NORM, "attn_norm.weight"), \
    PART(ATTN_Q, "q", "attn.Wqkv.weight"), \
    PART(ATTN_K, "k", "attn.Wqkv.weight"), \
    PART(ATTN_V, "v", "attn.Wqkv.weight"), \
    NAME(ATTN_OUT, "attn.Wo.weight"), \
    NAME(FFN_NORM, "mlp_norm.weight"), \
    PART(FFN_GATE, "gate", "mlp.Wi.weight"), \
    PART(FFN_UP, "up", "mlp.Wi.weight"), \
    NAME(FFN_DOWN, "mlp.Wo.weight"), \
    NAME(OUTPUT_NORM, "final_norm.weight")
const hf_alias qsf_hf_modern_names[] = { MODERN_NAMES, NAMES_END };
const hf_alias qsf_hf_modern_classes_names[] = {
    MODERN_NAMES,
    NAME_AS(CLS, HF_BARE, "head.dense.weight"),
    NAME_AS(CLS_NORM, HF_BARE, "head.norm.weight"),
    NAME_AS(CLS_OUT, HF_BARE, "classifier.weight"),
    NAME_AS(CLS_OUT_BIAS, HF_BARE, "classifier.bias"),
    NAMES_END,
};
#undef MODERN_NAMES
/* Modules of sentence-transformers, which have folders of their own. */
const hf_alias qsf_hf_gemma_embedding_names[] = {
    NAME(FFN_NORM, "pre_feedforward_layernorm.weight"),
    NAME_AS(DENSE_2, HF_BARE, "2_Dense/linear.weight"),
    NAME_AS(DENSE_3, HF_BARE, "3_Dense/linear.weight"),
    NAMES_END,
};

const hf_alias qsf_hf_mixtral_names[] = {
    NAME(ROUTER, "block_sparse_moe.gate.weight"),
    NAME(EXPERT_GATE, "block_sparse_moe.experts.*.w1.weight"),
    NAME(EXPERT_UP, "block_sparse_moe.experts.*.w3.weight"),
    NAME(EXPERT_DOWN, "block_sparse_moe.experts.*.w2.weight"),
    NAMES_END,
};
const hf_alias qsf_hf_expert_names[] = {
    NAME(ROUTER, "mlp.gate.weight"),
    NAME(EXPERT_GATE, "mlp.experts.*.gate_proj.weight"),
    NAME(EXPERT_UP, "mlp.experts.*.up_proj.weight"),
    NAME(EXPERT_DOWN, "mlp.experts.*.down_proj.weight"),
    NAMES_END,
};

#define SHARED_EXPERT \
    NAME(ROUTER, "mlp.gate.weight"), \
    NAME(FFN_GATE, "mlp.shared_expert.gate_proj.weight"), \
    NAME(FFN_UP, "mlp.shared_expert.up_proj.weight"), \
    NAME(FFN_DOWN, "mlp.shared_expert.down_proj.weight"), \
    NAME_AS(SHARED_ROUTER, HF_FLAT, "mlp.shared_expert_gate.weight")
#define EXPERT_EACH \
    NAME(EXPERT_GATE, "mlp.experts.*.gate_proj.weight"), \
    NAME(EXPERT_UP, "mlp.experts.*.up_proj.weight"), \
    NAME(EXPERT_DOWN, "mlp.experts.*.down_proj.weight")
const hf_alias qsf_hf_qwen2_moe_names[] = {
    SHARED_EXPERT,
    EXPERT_EACH,
    NAMES_END,
};
#define LFM2_NAMES \
    NAME(ATTN_NORM, "operator_norm.weight"), \
    NAME(FFN_NORM, "ffn_norm.weight"), \
    NAME(ATTN_OUT, "self_attn.out_proj.weight"), \
    NAME(Q_NORM, "self_attn.q_layernorm.weight"), \
    NAME(K_NORM, "self_attn.k_layernorm.weight"), \
    NAME(MIX_IN, "conv.in_proj.weight"), \
    NAME_AS(MIX_CONV, HF_FLAT, "conv.conv.weight"), \
    NAME(MIX_OUT, "conv.out_proj.weight"), \
    NAME(FFN_GATE, "feed_forward.w1.weight"), \
    NAME(FFN_UP, "feed_forward.w3.weight"), \
    NAME(FFN_DOWN, "feed_forward.w2.weight"), \
    NAME(OUTPUT_NORM, "embedding_norm.weight")
const hf_alias qsf_hf_lfm2_names[] = { LFM2_NAMES, NAMES_END };
const hf_alias qsf_hf_lfm2_moe_names[] = {
    LFM2_NAMES,
    NAME(ROUTER, "feed_forward.gate.weight"),
    NAME(ROUTER_CHOICE, "feed_forward.expert_bias"),
    NAME(EXPERT_GATE, "feed_forward.experts.*.w1.weight"),
    NAME(EXPERT_UP, "feed_forward.experts.*.w3.weight"),
    NAME(EXPERT_DOWN, "feed_forward.experts.*.w2.weight"),
    NAMES_END,
};
#undef LFM2_NAMES
const hf_alias qsf_hf_deepseek_names[] = {
    NAME(ROUTER, "mlp.gate.weight"),
    NAME(ROUTER_CHOICE, "mlp.gate.e_score_correction_bias"),
    NAME(EXPERT_GATE, "mlp.experts.*.gate_proj.weight"),
    NAME(EXPERT_UP, "mlp.experts.*.up_proj.weight"),
    NAME(EXPERT_DOWN, "mlp.experts.*.down_proj.weight"),
    NAME_AS(FFN_GATE, HF_SHARED, "mlp.shared_experts.gate_proj.weight"),
    NAME_AS(FFN_UP, HF_SHARED, "mlp.shared_experts.up_proj.weight"),
    NAME_AS(FFN_DOWN, HF_SHARED, "mlp.shared_experts.down_proj.weight"),
    NAMES_END,
};
const hf_alias qsf_hf_ernie_moe_names[] = {
    NAME(ROUTER, "mlp.gate.weight"),
    NAME_AS(ROUTER_CHOICE, HF_FLAT, "mlp.moe_statics.e_score_correction_bias"),
    EXPERT_EACH,
    NAME_AS(FFN_GATE, HF_SHARED, "mlp.shared_experts.gate_proj.weight"),
    NAME_AS(FFN_UP, HF_SHARED, "mlp.shared_experts.up_proj.weight"),
    NAME_AS(FFN_DOWN, HF_SHARED, "mlp.shared_experts.down_proj.weight"),
    NAMES_END,
};
#define GRANITE_EXPERTS \
    NAME(ROUTER, "block_sparse_moe.router.layer.weight"), \
    PART_AS(EXPERT_GATE, HF_STACKED, "gate", "block_sparse_moe.input_linear.weight"), \
    PART_AS(EXPERT_UP, HF_STACKED, "up", "block_sparse_moe.input_linear.weight"), \
    NAME_AS(EXPERT_DOWN, HF_STACKED, "block_sparse_moe.output_linear.weight")
#define GRANITE_SHARED \
    PART(FFN_GATE, "gate", "shared_mlp.input_linear.weight"), \
    PART(FFN_UP, "up", "shared_mlp.input_linear.weight"), \
    NAME(FFN_DOWN, "shared_mlp.output_linear.weight")
const hf_alias qsf_hf_granite_moe_names[] = { GRANITE_EXPERTS, NAMES_END };
const hf_alias qsf_hf_granite_shared_names[] = { GRANITE_EXPERTS, GRANITE_SHARED, NAMES_END };
const hf_alias qsf_hf_granite_hybrid_names[] = {
    GRANITE_EXPERTS,
    GRANITE_SHARED,
    NAME(MIX_IN, "mamba.in_proj.weight"),
    NAME_AS(MIX_CONV, HF_FLAT, "mamba.conv1d.weight"),
    NAME(MIX_CONV_BIAS, "mamba.conv1d.bias"),
    NAME(MIX_STEP_BIAS, "mamba.dt_bias"),
    NAME_AS(MIX_DECAY, HF_DECAY, "mamba.A_log"),
    NAME(MIX_SKIP, "mamba.D"),
    NAME(MIX_NORM, "mamba.norm.weight"),
    NAME(MIX_OUT, "mamba.out_proj.weight"),
    NAMES_END,
};
#undef GRANITE_EXPERTS
#undef GRANITE_SHARED
#define DELTA_NAMES \
    NAME_AS(MIX_IN, HF_HEADS, "linear_attn.in_proj_qkv.weight"), \
    NAME_AS(MIX_CONV, HF_FLAT | HF_HEADS, "linear_attn.conv1d.weight"), \
    NAME_AS(MIX_STEP_BIAS, HF_HEADS, "linear_attn.dt_bias"), \
    NAME_AS(MIX_DECAY, HF_HEADS | HF_DECAY, "linear_attn.A_log"), \
    NAME_AS(MIX_GATE, HF_HEADS, "linear_attn.in_proj_z.weight"), \
    NAME_AS(MIX_BETA, HF_HEADS, "linear_attn.in_proj_b.weight"), \
    NAME_AS(MIX_ALPHA, HF_HEADS, "linear_attn.in_proj_a.weight"), \
    NAME_AS(MIX_NORM, HF_PLAIN, "linear_attn.norm.weight"), \
    NAME_AS(MIX_OUT, HF_HEADS, "linear_attn.out_proj.weight")
const hf_alias qsf_hf_qwen35_names[] = { DELTA_NAMES, NAMES_END };
const hf_alias qsf_hf_qwen35_moe_names[] = { DELTA_NAMES, SHARED_EXPERT, EXPERT_EACH, NAMES_END };
/* As the models were released. */
const hf_alias qsf_hf_qwen35_moe_stacked[] = {
    DELTA_NAMES,
    SHARED_EXPERT,
    PART_AS(EXPERT_GATE, HF_STACKED, "gate", "mlp.experts.gate_up_proj"),
    PART_AS(EXPERT_UP, HF_STACKED, "up", "mlp.experts.gate_up_proj"),
    NAME_AS(EXPERT_DOWN, HF_STACKED, "mlp.experts.down_proj"),
    NAMES_END,
};
const hf_alias qsf_hf_qwen3_next_names[] = {
    PART_AS(MIX_IN, HF_SETS, "qkv", "linear_attn.in_proj_qkvz.weight"),
    PART_AS(MIX_GATE, HF_SETS, "z", "linear_attn.in_proj_qkvz.weight"),
    NAME_AS(MIX_CONV, HF_FLAT, "linear_attn.conv1d.weight"),
    NAME(MIX_STEP_BIAS, "linear_attn.dt_bias"),
    NAME_AS(MIX_DECAY, HF_DECAY, "linear_attn.A_log"),
    NAME(MIX_BETA, "linear_attn.in_proj_ba.weight"),
    NAME_AS(MIX_NORM, HF_PLAIN, "linear_attn.norm.weight"),
    NAME(MIX_OUT, "linear_attn.out_proj.weight"),
    SHARED_EXPERT,
    EXPERT_EACH,
    NAMES_END,
};
#undef DELTA_NAMES
#undef SHARED_EXPERT
#undef EXPERT_EACH
const hf_alias qsf_hf_gpt_oss_names[] = {
    NAME(ROUTER, "mlp.router.weight"),
    NAME(ROUTER_BIAS, "mlp.router.bias"),
    PART_AS(EXPERT_GATE, HF_STACKED | HF_TURNED | HF_WOVEN, "gate", "mlp.experts.gate_up_proj"),
    PART_AS(EXPERT_UP, HF_STACKED | HF_TURNED | HF_WOVEN, "up", "mlp.experts.gate_up_proj"),
    NAME_AS(EXPERT_DOWN, HF_STACKED | HF_TURNED, "mlp.experts.down_proj"),
    PART_AS(EXPERT_GATE_BIAS, HF_STACKED | HF_WOVEN, "gate", "mlp.experts.gate_up_proj_bias"),
    PART_AS(EXPERT_UP_BIAS, HF_STACKED | HF_WOVEN, "up", "mlp.experts.gate_up_proj_bias"),
    NAME_AS(EXPERT_DOWN_BIAS, HF_STACKED, "mlp.experts.down_proj_bias"),
    NAMES_END,
};
const hf_alias qsf_hf_gemma4_names[] = {
    NAME(FFN_NORM, "pre_feedforward_layernorm.weight"),
    NAME(LAYER_TABLE, "embed_tokens_per_layer.weight"),
    NAME_AS(LAYER_EMBD, HF_OUTSIDE, "per_layer_model_projection.weight"),
    NAME_AS(LAYER_EMBD_NORM, HF_OUTSIDE, "per_layer_projection_norm.weight"),
    NAME(ROUTER_NORM, "router.scale"),
    NAME(ROUTER, "router.proj.weight"),
    NAME(EXPERT_WEIGHT, "router.per_expert_scale"),
    NAME(EXPERT_NORM, "pre_feedforward_layernorm_2.weight"),
    PART_AS(EXPERT_GATE, HF_STACKED, "gate", "experts.gate_up_proj"),
    PART_AS(EXPERT_UP, HF_STACKED, "up", "experts.gate_up_proj"),
    NAME_AS(EXPERT_DOWN, HF_STACKED, "experts.down_proj"),
    NAME(EXPERT_POST_NORM, "post_feedforward_layernorm_2.weight"),
    NAME(SHARED_POST_NORM, "post_feedforward_layernorm_1.weight"),
    NAMES_END,
};

#undef NAME
#undef NAME_AS
#undef PART
#undef PART_AS
#undef NAMES_END
