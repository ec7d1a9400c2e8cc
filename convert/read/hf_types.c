/* The table of model types.  A new one that has nothing new is a row here; its architecture is a
 * row of core/model/arch.c.
 * SPDX-License-Identifier: MIT */
#include "read/hf_types.h"

#define NAME(kind, name) { QSF_K_##kind, 0, name, NULL }
#define NAME_AS(kind, how, name) { QSF_K_##kind, how, name, NULL }
#define PART(kind, part, name) { QSF_K_##kind, 0, name, part }
#define PART_AS(kind, how, part, name) { QSF_K_##kind, how, name, part }
#define NAMES_END { 0, 0, NULL, NULL }

static const hf_alias hf_phi3_names[] = {
    PART(ATTN_Q, "q", "self_attn.qkv_proj.weight"),
    PART(ATTN_K, "k", "self_attn.qkv_proj.weight"),
    PART(ATTN_V, "v", "self_attn.qkv_proj.weight"),
    PART(FFN_GATE, "gate", "mlp.gate_up_proj.weight"),
    PART(FFN_UP, "up", "mlp.gate_up_proj.weight"),
    NAMES_END,
};
/* Llama's post_attention_layernorm stands behind the residual, this one before it. */
static const hf_alias hf_gemma2_names[] = {
    NAME(FFN_NORM, "pre_feedforward_layernorm.weight"),
    NAMES_END,
};
/* 1bitLLM's, before Microsoft's releases. */
static const hf_alias hf_bitnet_names[] = {
    NAME(ATTN_SUB_NORM, "self_attn.inner_attn_ln.weight"),
    NAME(FFN_SUB_NORM, "mlp.ffn_layernorm.weight"),
    NAMES_END,
};
/* Llama's post_attention_layernorm again, with norms of what the parts give. */
static const hf_alias hf_glm4_names[] = {
    NAME(ATTN_POST_NORM, "post_self_attn_layernorm.weight"),
    NAME(FFN_POST_NORM, "post_mlp_layernorm.weight"),
    PART(FFN_GATE, "gate", "mlp.gate_up_proj.weight"),
    PART(FFN_UP, "up", "mlp.gate_up_proj.weight"),
    NAMES_END,
};
static const hf_alias hf_gpt2_names[] = {
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
static const hf_alias hf_bert_names[] = { BERT_NAMES, NAMES_END };
static const hf_alias hf_bert_classes_names[] = {
    BERT_NAMES,
    NAME(CLS, "pooler.dense.weight"),
    NAME(CLS_BIAS, "pooler.dense.bias"),
    NAME_AS(CLS_OUT, HF_BARE, "classifier.weight"),
    NAME_AS(CLS_OUT_BIAS, HF_BARE, "classifier.bias"),
    NAMES_END,
};
static const hf_alias hf_roberta_classes_names[] = {
    BERT_NAMES,
    NAME_AS(CLS, HF_BARE, "classifier.dense.weight"),
    NAME_AS(CLS_BIAS, HF_BARE, "classifier.dense.bias"),
    NAME_AS(CLS_OUT, HF_BARE, "classifier.out_proj.weight"),
    NAME_AS(CLS_OUT_BIAS, HF_BARE, "classifier.out_proj.bias"),
    NAMES_END,
};
/* The activation is taken of the first half. */
static const hf_alias hf_jina_names[] = {
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
static const hf_alias hf_nomic_names[] = {
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
static const hf_alias hf_nomic_older[] = {
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
static const hf_alias hf_modern_names[] = { MODERN_NAMES, NAMES_END };
static const hf_alias hf_modern_classes_names[] = {
    MODERN_NAMES,
    NAME_AS(CLS, HF_BARE, "head.dense.weight"),
    NAME_AS(CLS_NORM, HF_BARE, "head.norm.weight"),
    NAME_AS(CLS_OUT, HF_BARE, "classifier.weight"),
    NAME_AS(CLS_OUT_BIAS, HF_BARE, "classifier.bias"),
    NAMES_END,
};
#undef MODERN_NAMES
/* Modules of sentence-transformers, which have folders of their own. */
static const hf_alias hf_gemma_embedding_names[] = {
    NAME(FFN_NORM, "pre_feedforward_layernorm.weight"),
    NAME_AS(DENSE_2, HF_BARE, "2_Dense/linear.weight"),
    NAME_AS(DENSE_3, HF_BARE, "3_Dense/linear.weight"),
    NAMES_END,
};

static const hf_alias hf_mixtral_names[] = {
    NAME(ROUTER, "block_sparse_moe.gate.weight"),
    NAME(EXPERT_GATE, "block_sparse_moe.experts.*.w1.weight"),
    NAME(EXPERT_UP, "block_sparse_moe.experts.*.w3.weight"),
    NAME(EXPERT_DOWN, "block_sparse_moe.experts.*.w2.weight"),
    NAMES_END,
};
static const hf_alias hf_expert_names[] = {
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
static const hf_alias hf_qwen2_moe_names[] = {
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
static const hf_alias hf_lfm2_names[] = { LFM2_NAMES, NAMES_END };
static const hf_alias hf_lfm2_moe_names[] = {
    LFM2_NAMES,
    NAME(ROUTER, "feed_forward.gate.weight"),
    NAME(ROUTER_CHOICE, "feed_forward.expert_bias"),
    NAME(EXPERT_GATE, "feed_forward.experts.*.w1.weight"),
    NAME(EXPERT_UP, "feed_forward.experts.*.w3.weight"),
    NAME(EXPERT_DOWN, "feed_forward.experts.*.w2.weight"),
    NAMES_END,
};
#undef LFM2_NAMES
static const hf_alias hf_deepseek_names[] = {
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
#define GRANITE_EXPERTS \
    NAME(ROUTER, "block_sparse_moe.router.layer.weight"), \
    PART_AS(EXPERT_GATE, HF_STACKED, "gate", "block_sparse_moe.input_linear.weight"), \
    PART_AS(EXPERT_UP, HF_STACKED, "up", "block_sparse_moe.input_linear.weight"), \
    NAME_AS(EXPERT_DOWN, HF_STACKED, "block_sparse_moe.output_linear.weight")
#define GRANITE_SHARED \
    PART(FFN_GATE, "gate", "shared_mlp.input_linear.weight"), \
    PART(FFN_UP, "up", "shared_mlp.input_linear.weight"), \
    NAME(FFN_DOWN, "shared_mlp.output_linear.weight")
static const hf_alias hf_granite_moe_names[] = { GRANITE_EXPERTS, NAMES_END };
static const hf_alias hf_granite_shared_names[] = { GRANITE_EXPERTS, GRANITE_SHARED, NAMES_END };
static const hf_alias hf_granite_hybrid_names[] = {
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
static const hf_alias hf_qwen35_names[] = { DELTA_NAMES, NAMES_END };
static const hf_alias hf_qwen35_moe_names[] = { DELTA_NAMES, SHARED_EXPERT, EXPERT_EACH, NAMES_END };
/* As the models were released. */
static const hf_alias hf_qwen35_moe_stacked[] = {
    DELTA_NAMES,
    SHARED_EXPERT,
    PART_AS(EXPERT_GATE, HF_STACKED, "gate", "mlp.experts.gate_up_proj"),
    PART_AS(EXPERT_UP, HF_STACKED, "up", "mlp.experts.gate_up_proj"),
    NAME_AS(EXPERT_DOWN, HF_STACKED, "mlp.experts.down_proj"),
    NAMES_END,
};
static const hf_alias hf_qwen3_next_names[] = {
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
static const hf_alias hf_gpt_oss_names[] = {
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
static const hf_alias hf_gemma4_names[] = {
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

static const hf_expert_keys hf_mixtral_experts = { .n = "num_local_experts", .ff = "intermediate_size",
    .used_absent = 2 };
static const hf_expert_keys hf_olmoe_experts = { .n = "num_experts", .ff = "intermediate_size",
    .used_absent = 2, .norm_says = true };
static const hf_expert_keys hf_qwen3_experts = { .n = "num_experts", .ff = "moe_intermediate_size",
    .used_absent = 2, .norm_says = true };
static const hf_expert_keys hf_qwen2_experts = { .n = "num_experts", .ff = "moe_intermediate_size",
    .shared = "shared_expert_intermediate_size", .n_absent = 60, .used_absent = 4, .norm_says = true };
static const hf_expert_keys hf_qwen35_experts = { .n = "num_experts", .ff = "moe_intermediate_size",
    .shared = "shared_expert_intermediate_size", .n_absent = 256, .used_absent = 8 };
static const hf_expert_keys hf_qwen3_next_experts = { .n = "num_experts", .ff = "moe_intermediate_size",
    .shared = "shared_expert_intermediate_size", .n_absent = 512, .used_absent = 10, .norm_says = true,
    .norm_absent = true };
static const hf_expert_keys hf_lfm2_experts = { .n = "num_experts", .ff = "moe_intermediate_size",
    .dense = "num_dense_layers", .sigmoid = true, .n_absent = 32, .used_absent = 4,
    .dense_absent = 2, .norm_says = true, .norm_absent = true };
static const hf_expert_keys hf_granite_experts = { .n = "num_local_experts", .ff = "intermediate_size",
    .n_absent = 8, .used_absent = 2 };
static const hf_expert_keys hf_granite_shared_experts = { .n = "num_local_experts",
    .ff = "intermediate_size", .shared = "shared_intermediate_size", .n_absent = 8, .used_absent = 2 };
static const hf_expert_keys hf_hybrid_experts = { .n = "num_local_experts", .ff = "intermediate_size",
    .shared = "shared_intermediate_size", .n_absent = 8, .used_absent = 2, .may_lack = true };
static const hf_expert_keys hf_deepseek2_experts = { .n = "n_routed_experts",
    .ff = "moe_intermediate_size", .n_shared = "n_shared_experts", .n_shared_absent = 2, .method = "greedy",
    .dense = "first_k_dense_replace", .n_absent = 64, .used_absent = 6 };
static const hf_expert_keys hf_deepseek3_experts = { .n = "n_routed_experts",
    .ff = "moe_intermediate_size", .n_shared = "n_shared_experts", .n_shared_absent = 1,
    .method = "noaux_tc", .dense = "first_k_dense_replace", .n_absent = 256, .used_absent = 8,
    .dense_absent = 3, .sigmoid = true, .norm_says = true, .norm_absent = true };
static const hf_expert_keys hf_oss_experts = { .n = "num_local_experts", .ff = "intermediate_size",
    .n_absent = 128, .used_absent = 4 };
static const hf_expert_keys hf_gemma4_experts = { .when = "enable_moe_block", .n = "num_experts",
    .used = "top_k_experts", .ff = "moe_intermediate_size", .shared = "intermediate_size",
    .used_absent = 2, .may_lack = true };

#define ATTN_BIASES (QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS))
#define BIASES (ATTN_BIASES | QSF_KINDS_FFN_BIAS)

const hf_type qsf_hf_types[] = {
    { .type = "llama", .class_name = "LlamaForCausalLM", .arch = "llama", .vocab = 32000, .embd = 4096,
      .ff = 11008, .layers = 32, .heads = 32, .ctx = 2048, .eps = 1e-6f, .rope_base = 10000,
      .biases = BIASES },
    { .type = "mistral", .class_name = "MistralForCausalLM", .arch = "llama", .vocab = 32000, .embd = 4096,
      .ff = 14336, .layers = 32, .heads = 32, .kv_heads = 8, .ctx = 131072, .eps = 1e-6f,
      .rope_base = 10000, .window = 4096, .biases = BIASES },
    { .type = "qwen2", .class_name = "Qwen2ForCausalLM", .arch = "qwen2", .vocab = 151936, .embd = 4096,
      .ff = 22016, .layers = 32, .heads = 32, .kv_heads = 32, .ctx = 32768, .eps = 1e-6f,
      .rope_base = 10000, .window = 4096, .late_window = true, .need = QSF_KINDS_QKV_BIAS,
      .biases = BIASES },
    { .type = "qwen3", .class_name = "Qwen3ForCausalLM", .arch = "qwen3", .vocab = 151936, .embd = 4096,
      .ff = 22016, .layers = 32, .heads = 32, .kv_heads = 32, .head_dim = 128, .ctx = 32768, .eps = 1e-6f,
      .rope_base = 10000, .window = 4096, .late_window = true, .yes_no = true, .biases = BIASES },
    { .type = "phi3", .class_name = "Phi3ForCausalLM", .arch = "phi3", .vocab = 32064, .embd = 3072,
      .ff = 8192, .layers = 32, .heads = 32, .ctx = 4096, .eps = 1e-5f, .rope_base = 10000,
      .partial_rope = true, .names = hf_phi3_names },
    { .type = "gemma", .class_name = "GemmaForCausalLM", .arch = "gemma", .keys = HF_KEYS_GEMMA,
      .vocab = 256000, .embd = 3072, .ff = 24576, .layers = 28, .heads = 16, .kv_heads = 16,
      .head_dim = 256, .ctx = 8192, .eps = 1e-6f, .rope_base = 10000, .tied = true, .norms_less_one = true,
      .bare_text = true, .biases = BIASES },
    { .type = "gemma2", .class_name = "Gemma2ForCausalLM", .arch = "gemma2", .keys = HF_KEYS_GEMMA2,
      .vocab = 256000, .embd = 2304, .ff = 9216, .layers = 26, .heads = 8, .kv_heads = 4, .head_dim = 256,
      .ctx = 8192, .eps = 1e-6f, .rope_base = 10000, .window = 4096, .tied = true, .norms_less_one = true,
      .bare_text = true, .biases = ATTN_BIASES, .names = hf_gemma2_names },
    { .type = "gemma3", .class_name = "Gemma3ForConditionalGeneration", .arch = "gemma3",
      .keys = HF_KEYS_GEMMA2, .vocab = 262208, .embd = 2304, .ff = 9216, .layers = 26, .heads = 8,
      .kv_heads = 4, .head_dim = 256, .ctx = 131072, .eps = 1e-6f, .rope_base = 1e6f, .window = 4096,
      .tied = true, .window_period = true, .norms_less_one = true, .bare_text = true,
      .biases = ATTN_BIASES, .names = hf_gemma2_names },
    { .type = "gemma3_text", .class_name = "Gemma3ForCausalLM", .arch = "gemma3", .keys = HF_KEYS_GEMMA2,
      .vocab = 262208, .embd = 2304, .ff = 9216, .layers = 26, .heads = 8, .kv_heads = 4, .head_dim = 256,
      .ctx = 131072, .eps = 1e-6f, .rope_base = 1e6f, .window = 4096, .tied = true, .window_period = true,
      .norms_less_one = true, .bare_text = true, .biases = ATTN_BIASES, .names = hf_gemma2_names },
    { .type = "gpt2", .class_name = "GPT2LMHeadModel", .arch = "gpt2", .keys = HF_KEYS_GPT2, .vocab = 50257,
      .embd = 768, .layers = 12, .heads = 12, .ctx = 1024, .eps = 1e-5f, .rope_base = 10000, .tied = true,
      .transposed = true, .layers_at = "h.", .names = hf_gpt2_names },
    { .type = "bert", .class_name = "BertModel", .arch = "bert", .keys = HF_KEYS_BERT, .vocab = 30522,
      .embd = 768, .ff = 3072, .layers = 12, .heads = 12, .ctx = 512, .eps = 1e-12f, .rope_base = 10000,
      .tied = true, .layers_at = "encoder.layer.", .names = hf_bert_names },
    { .type = "xlm-roberta", .class_name = "XLMRobertaModel", .arch = "bert", .keys = HF_KEYS_BERT,
      .vocab = 30522, .embd = 768, .ff = 3072, .layers = 12, .heads = 12, .ctx = 512, .eps = 1e-12f,
      .rope_base = 10000, .tied = true, .pos_first = 2, .layers_at = "encoder.layer.",
      .names = hf_bert_names },
    { .type = "bert_classes", .class_name = "BertForSequenceClassification", .other_type = "bert",
      .arch = "bert", .keys = HF_KEYS_BERT, .vocab = 30522, .embd = 768, .ff = 3072, .layers = 12,
      .heads = 12, .ctx = 512, .eps = 1e-12f, .rope_base = 10000, .tied = true, .classes = true,
      .layers_at = "encoder.layer.", .names = hf_bert_classes_names },
    { .type = "xlm-roberta_classes", .class_name = "XLMRobertaForSequenceClassification",
      .other_type = "xlm-roberta", .arch = "bert", .keys = HF_KEYS_BERT, .vocab = 30522, .embd = 768,
      .ff = 3072, .layers = 12, .heads = 12, .ctx = 512, .eps = 1e-12f, .rope_base = 10000, .tied = true,
      .classes = true, .pos_first = 2, .layers_at = "encoder.layer.", .names = hf_roberta_classes_names },
    { .type = "jina_bert_v2", .class_name = "JinaBertForMaskedLM", .other_class = "JinaBertModel",
      .other_type = "bert", .arch = "jina-bert-v2", .keys = HF_KEYS_BERT, .vocab = 30522, .embd = 768,
      .ff = 3072, .layers = 12, .heads = 12, .ctx = 512, .eps = 1e-12f, .rope_base = 10000, .tied = true,
      .layers_at = "encoder.layer.", .names = hf_jina_names },
    { .type = "nomic_bert", .class_name = "NomicBertModel", .arch = "nomic-bert", .keys = HF_KEYS_NOMIC,
      .vocab = 30528, .embd = 768, .ff = 3072, .layers = 12, .heads = 12, .ctx = 2048, .eps = 1e-12f,
      .rope_base = 1000, .theta = "rotary_emb_base", .tied = true, .names = hf_nomic_names,
      .older_mark = "emb_ln.weight", .older_at = "encoder.layers.", .older = hf_nomic_older },
    { .type = "modernbert", .class_name = "ModernBertModel", .arch = "modern-bert", .keys = HF_KEYS_MODERN,
      .vocab = 50368, .embd = 768, .ff = 1152, .layers = 22, .heads = 12, .ctx = 8192, .eps = 1e-5f,
      .rope_base = 160000, .rope_local = 10000, .theta = "global_rope_theta",
      .theta_local = "local_rope_theta", .window = 128, .tied = true, .names = hf_modern_names },
    { .type = "modernbert_classes", .class_name = "ModernBertForSequenceClassification",
      .other_type = "modernbert", .arch = "modern-bert", .keys = HF_KEYS_MODERN, .vocab = 50368,
      .embd = 768, .ff = 1152, .layers = 22, .heads = 12, .ctx = 8192, .eps = 1e-5f, .rope_base = 160000,
      .rope_local = 10000, .theta = "global_rope_theta", .theta_local = "local_rope_theta", .window = 128,
      .tied = true, .classes = true, .names = hf_modern_classes_names },
    { .type = "gemma3_embedding", .class_name = "Gemma3TextModel", .other_type = "gemma3_text",
      .arch = "gemma-embedding", .keys = HF_KEYS_GEMMA2, .vocab = 262208, .embd = 2304, .ff = 9216,
      .layers = 26, .heads = 8, .kv_heads = 4, .head_dim = 256, .ctx = 131072, .eps = 1e-6f,
      .rope_base = 1e6f, .window = 4096, .tied = true, .window_period = true, .norms_less_one = true,
      .bare_text = true, .biases = ATTN_BIASES, .names = hf_gemma_embedding_names },
    { .type = "bitnet", .class_name = "BitNetForCausalLM", .arch = "bitnet-b1.58", .vocab = 128256,
      .embd = 2560, .ff = 6912, .layers = 30, .heads = 20, .kv_heads = 5, .ctx = 2048, .eps = 1e-5f,
      .rope_base = 500000, .biases = ATTN_BIASES, .ternary = true },
    { .type = "bitnet_b1_58", .class_name = "BitnetForCausalLM", .other_type = "llama", .arch = "bitnet",
      .vocab = 32000, .embd = 4096, .ff = 11008, .layers = 32, .heads = 32, .ctx = 2048, .eps = 1e-6f,
      .rope_base = 10000, .ternary = true, .names = hf_bitnet_names },
    { .type = "smollm3", .class_name = "SmolLM3ForCausalLM", .arch = "smollm3", .vocab = 128256,
      .embd = 2048, .ff = 11008, .layers = 36, .heads = 16, .kv_heads = 4, .ctx = 32768, .eps = 1e-6f,
      .rope_base = 2e6f, .tied = true, .late_window = true, .few_windows = true,
      .biases = QSF_KINDS_QKV_BIAS },
    { .type = "granite", .class_name = "GraniteForCausalLM", .arch = "granite", .vocab = 32000, .embd = 4096,
      .ff = 11008, .layers = 32, .heads = 32, .ctx = 2048, .eps = 1e-6f, .rope_base = 10000,
      .biases = BIASES },
    { .type = "arcee", .class_name = "ArceeForCausalLM", .arch = "arcee", .vocab = 32000, .embd = 2560,
      .ff = 18432, .layers = 32, .heads = 32, .ctx = 4096, .eps = 1e-5f, .rope_base = 10000,
      .biases = QSF_KINDS_QKV_BIAS },
    { .type = "ernie4_5", .class_name = "Ernie4_5ForCausalLM", .arch = "ernie4_5", .vocab = 103424,
      .embd = 1024, .ff = 3072, .layers = 18, .heads = 16, .kv_heads = 2, .head_dim = 128, .ctx = 131072,
      .eps = 1e-5f, .rope_base = 500000, .tied = true, .pairs = true },
    { .type = "seed_oss", .class_name = "SeedOssForCausalLM", .arch = "seed_oss", .vocab = 155136,
      .embd = 4096, .ff = 27648, .layers = 64, .heads = 80, .kv_heads = 8, .head_dim = 128, .ctx = 524288,
      .eps = 1e-6f, .rope_base = 10000, .biased = true, .biases = QSF_KINDS_QKV_BIAS },
    { .type = "glm4", .class_name = "Glm4ForCausalLM", .arch = "glm4", .vocab = 151552, .embd = 4096,
      .ff = 13696, .layers = 40, .heads = 32, .kv_heads = 2, .head_dim = 128, .ctx = 131072,
      .eps = 1.5625e-7f, .rope_base = 10000, .rope_part = 0.5f, .pairs = true, .biased = true,
      .biases = QSF_KINDS_QKV_BIAS, .names = hf_glm4_names },
    { .type = "olmo2", .class_name = "Olmo2ForCausalLM", .arch = "olmo2", .vocab = 50304, .embd = 4096,
      .ff = 11008, .layers = 32, .heads = 32, .ctx = 2048, .eps = 1e-5f, .rope_base = 10000 },
    { .type = "olmo3", .class_name = "Olmo3ForCausalLM", .arch = "olmo2", .vocab = 50304, .embd = 4096,
      .ff = 11008, .layers = 32, .heads = 32, .ctx = 2048, .eps = 1e-5f, .rope_base = 500000,
      .window = 4096 },
    { .type = "exaone4", .class_name = "Exaone4ForCausalLM", .arch = "exaone4", .vocab = 102400,
      .embd = 4096, .ff = 16384, .layers = 32, .heads = 32, .ctx = 2048, .eps = 1e-5f, .rope_base = 10000,
      .window = 4096, .window_period = true },
    { .type = "cohere2", .class_name = "Cohere2ForCausalLM", .arch = "cohere2", .vocab = 256000,
      .embd = 8192, .ff = 22528, .layers = 40, .heads = 64, .ctx = 8192, .eps = 1e-5f, .rope_base = 10000,
      .window = 4096, .tied = true, .window_period = true, .pairs = true, .biases = QSF_KINDS_QKV_BIAS },
    { .type = "mixtral", .class_name = "MixtralForCausalLM", .arch = "llama", .vocab = 32000, .embd = 4096,
      .ff = 14336, .layers = 32, .heads = 32, .kv_heads = 8, .ctx = 131072, .eps = 1e-5f, .rope_base = 1e6f,
      .experts = &hf_mixtral_experts, .names = hf_mixtral_names },
    { .type = "qwen3_moe", .class_name = "Qwen3MoeForCausalLM", .arch = "qwen3moe", .vocab = 151936,
      .embd = 2048, .ff = 6144, .layers = 24, .heads = 32, .kv_heads = 4, .ctx = 32768, .eps = 1e-6f,
      .rope_base = 10000, .window = 4096, .late_window = true, .experts = &hf_qwen3_experts,
      .biases = ATTN_BIASES, .names = hf_expert_names },
    { .type = "olmoe", .class_name = "OlmoeForCausalLM", .arch = "olmoe", .vocab = 50304, .embd = 2048,
      .ff = 2048, .layers = 16, .heads = 16, .ctx = 4096, .eps = 1e-5f, .rope_base = 10000,
      .experts = &hf_olmoe_experts, .biases = ATTN_BIASES, .names = hf_expert_names },
    { .type = "qwen2_moe", .class_name = "Qwen2MoeForCausalLM", .arch = "qwen2moe", .vocab = 151936,
      .embd = 2048, .ff = 5632, .layers = 24, .heads = 16, .kv_heads = 16, .ctx = 32768, .eps = 1e-6f,
      .rope_base = 10000, .window = 4096, .late_window = true, .few_windows = true,
      .experts = &hf_qwen2_experts, .need = QSF_KINDS_QKV_BIAS, .names = hf_qwen2_moe_names },
    { .type = "granitemoe", .class_name = "GraniteMoeForCausalLM", .arch = "granitemoe", .vocab = 32000,
      .embd = 4096, .ff = 11008, .layers = 32, .heads = 32, .ctx = 2048, .eps = 1e-6f, .rope_base = 10000,
      .experts = &hf_granite_experts, .biases = ATTN_BIASES, .names = hf_granite_moe_names },
    { .type = "granitemoeshared", .class_name = "GraniteMoeSharedForCausalLM", .arch = "granitemoe",
      .vocab = 32000, .embd = 4096, .ff = 11008, .layers = 32, .heads = 32, .ctx = 2048, .eps = 1e-6f,
      .rope_base = 10000, .experts = &hf_granite_shared_experts, .biases = ATTN_BIASES,
      .names = hf_granite_shared_names },
    { .type = "granitemoehybrid", .class_name = "GraniteMoeHybridForCausalLM", .arch = "granitehybrid",
      .vocab = 32000, .embd = 4096, .ff = 11008, .layers = 32, .heads = 32, .ctx = 2048, .eps = 1e-6f,
      .rope_base = 10000, .experts = &hf_hybrid_experts, .biases = ATTN_BIASES,
      .names = hf_granite_hybrid_names },
    { .type = "lfm2", .class_name = "Lfm2ForCausalLM", .arch = "lfm2", .keys = HF_KEYS_LFM2, .vocab = 65536,
      .embd = 2560, .ff = 12288, .layers = 32, .heads = 32, .kv_heads = 8, .ctx = 128000, .eps = 1e-5f,
      .rope_base = 1e6f, .tied = true, .names = hf_lfm2_names },
    { .type = "lfm2_moe", .class_name = "Lfm2MoeForCausalLM", .arch = "lfm2moe", .keys = HF_KEYS_LFM2,
      .vocab = 65536, .embd = 2048, .ff = 7168, .layers = 32, .heads = 32, .kv_heads = 8, .ctx = 128000,
      .eps = 1e-5f, .rope_base = 1e6f, .tied = true, .experts = &hf_lfm2_experts,
      .names = hf_lfm2_moe_names },
    { .type = "qwen3_5", .class_name = "Qwen3_5ForConditionalGeneration", .arch = "qwen35",
      .vocab = 248320, .embd = 4096, .ff = 12288, .layers = 32, .heads = 16, .kv_heads = 4, .head_dim = 256,
      .ctx = 32768, .eps = 1e-6f, .rope_base = 10000, .rope_part = 0.25f, .norms_less_one = true,
      .names = hf_qwen35_names },
    { .type = "qwen3_5_text", .class_name = "Qwen3_5ForCausalLM", .arch = "qwen35", .vocab = 248320,
      .embd = 4096, .ff = 12288, .layers = 32, .heads = 16, .kv_heads = 4, .head_dim = 256, .ctx = 32768,
      .eps = 1e-6f, .rope_base = 10000, .rope_part = 0.25f, .norms_less_one = true,
      .names = hf_qwen35_names },
    { .type = "qwen3_5_moe", .class_name = "Qwen3_5MoeForConditionalGeneration", .arch = "qwen35moe",
      .vocab = 248320, .embd = 2048, .ff = 512, .layers = 40, .heads = 16, .kv_heads = 2, .head_dim = 256,
      .ctx = 32768, .eps = 1e-6f, .rope_base = 10000, .rope_part = 0.25f, .norms_less_one = true,
      .experts = &hf_qwen35_experts, .names = hf_qwen35_moe_names,
      .older_mark = "layers.0.mlp.experts.gate_up_proj", .older = hf_qwen35_moe_stacked },
    { .type = "qwen3_5_moe_text", .class_name = "Qwen3_5MoeForCausalLM", .arch = "qwen35moe",
      .vocab = 248320, .embd = 2048, .ff = 512, .layers = 40, .heads = 16, .kv_heads = 2, .head_dim = 256,
      .ctx = 32768, .eps = 1e-6f, .rope_base = 10000, .rope_part = 0.25f, .norms_less_one = true,
      .experts = &hf_qwen35_experts, .names = hf_qwen35_moe_names,
      .older_mark = "layers.0.mlp.experts.gate_up_proj", .older = hf_qwen35_moe_stacked },
    { .type = "qwen3_next", .class_name = "Qwen3NextForCausalLM", .arch = "qwen3next", .vocab = 151936,
      .embd = 2048, .ff = 512, .layers = 48, .heads = 16, .kv_heads = 2, .head_dim = 256, .ctx = 32768,
      .eps = 1e-6f, .rope_base = 10000, .rope_part = 0.25f, .norms_less_one = true,
      .experts = &hf_qwen3_next_experts, .names = hf_qwen3_next_names },
    { .type = "gpt_oss", .class_name = "GptOssForCausalLM", .arch = "gpt-oss", .vocab = 201088,
      .embd = 2880, .ff = 2880, .layers = 36, .heads = 64, .kv_heads = 8, .head_dim = 64, .ctx = 131072,
      .eps = 1e-5f, .rope_base = 150000, .scaled_rope = true, .window = 128, .biased = true,
      .biases = ATTN_BIASES, .mxfp4 = true, .experts = &hf_oss_experts, .names = hf_gpt_oss_names },
    { .type = "deepseek_v2", .class_name = "DeepseekV2ForCausalLM", .arch = "deepseek2", .vocab = 102400,
      .embd = 4096, .ff = 11008, .layers = 32, .heads = 32, .ctx = 2048, .eps = 1e-6f, .rope_base = 10000,
      .pairs = true, .experts = &hf_deepseek2_experts, .names = hf_deepseek_names },
    { .type = "deepseek_v3", .class_name = "DeepseekV3ForCausalLM", .arch = "deepseek2", .vocab = 129280,
      .embd = 7168, .ff = 18432, .layers = 61, .heads = 128, .ctx = 4096, .eps = 1e-6f, .rope_base = 10000,
      .pairs = true, .experts = &hf_deepseek3_experts, .names = hf_deepseek_names },
    { .type = "gemma4", .class_name = "Gemma4ForConditionalGeneration", .arch = "gemma4",
      .keys = HF_KEYS_GEMMA4, .vocab = 262144, .embd = 2304, .ff = 9216, .layers = 30, .heads = 8,
      .kv_heads = 4, .head_dim = 256, .ctx = 131072, .eps = 1e-6f, .rope_base = 1e6f, .window = 512,
      .tied = true, .bare_text = true, .pre = "gemma4", .experts = &hf_gemma4_experts,
      .names = hf_gemma4_names },
    { .type = "gemma4_text", .class_name = "Gemma4ForCausalLM", .arch = "gemma4", .keys = HF_KEYS_GEMMA4,
      .vocab = 262144, .embd = 2304, .ff = 9216, .layers = 30, .heads = 8, .kv_heads = 4, .head_dim = 256,
      .ctx = 131072, .eps = 1e-6f, .rope_base = 1e6f, .window = 512, .tied = true, .bare_text = true,
      .pre = "gemma4", .experts = &hf_gemma4_experts, .names = hf_gemma4_names },
    { .type = NULL },
};

#undef NAME
#undef NAME_AS
#undef PART
#undef PART_AS
#undef NAMES_END
#undef ATTN_BIASES
#undef BIASES
