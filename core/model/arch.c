/* The table of architectures.  A new one that computes nothing new is a row here, and one in
 * convert/read/hf_types.c for its Hugging Face directories.
 * SPDX-License-Identifier: MIT */
#include "model/arch.h"

#define ENCODER_NEED (QSF_KIND(TOKEN_NORM) | QSF_KIND(TOKEN_NORM_BIAS))
#define ENCODER_MAY (QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) | QSF_KIND(FFN_UP_BIAS) | \
                     QSF_KIND(FFN_DOWN_BIAS))
#define ENCODER_MORE (QSF_KIND_MORE(TOKEN_TYPES) | QSF_KIND_MORE(ATTN_POST_NORM_BIAS) | \
                      QSF_KIND_MORE(FFN_POST_NORM_BIAS) | QSF_KIND_MORE(CLS) | QSF_KIND_MORE(CLS_BIAS) | \
                      QSF_KIND_MORE(CLS_OUT_BIAS))

static const qsf_arch_alias alias_post_norm[] = {
    { "post_attention_norm.weight", QSF_K_FFN_NORM, false }, { 0 },
};
static const qsf_arch_alias alias_neo_bert[] = {
    { "enc.output_norm.weight", QSF_K_OUTPUT_NORM, false }, { 0 },
};
/* The first norm is that of the feed-forward if there is a second one. */
static const qsf_arch_alias alias_falcon[] = {
    { "attn_norm.weight", QSF_K_FFN_NORM, true }, { "attn_norm.bias", QSF_K_FFN_NORM_BIAS, true },
    { "attn_norm_2.weight", QSF_K_ATTN_NORM, true }, { "attn_norm_2.bias", QSF_K_ATTN_NORM_BIAS, true },
    { 0 },
};
static const qsf_arch_alias alias_lfm2[] = {
    { "shortconv.in_proj.weight", QSF_K_MIX_IN, false }, { "shortconv.conv.weight", QSF_K_MIX_CONV, false },
    { "shortconv.out_proj.weight", QSF_K_MIX_OUT, false },
    { "token_embd_norm.weight", QSF_K_OUTPUT_NORM, false }, { 0 },
};
static const qsf_arch_alias alias_rwkv7[] = {
    { "attn_norm_2.weight", QSF_K_FFN_NORM, false }, { "attn_norm_2.bias", QSF_K_FFN_NORM_BIAS, false },
    { "channel_mix_key.weight", QSF_K_FFN_UP, false }, { "channel_mix_value.weight", QSF_K_FFN_DOWN, false },
    { 0 },
};
static const qsf_arch_alias alias_plamo2[] = {
    { "post_attention_norm", QSF_K_ATTN_POST_NORM, false }, { "post_ffw_norm", QSF_K_FFN_POST_NORM, false },
    { 0 },
};
/* Its converter leaves out the suffix. */
static const qsf_arch_alias alias_falcon_h1[] = { { "ffn_norm", QSF_K_FFN_NORM, false }, { 0 } };
static const qsf_arch_alias alias_qwen35[] = {
    { "attn_qkv.weight", QSF_K_MIX_IN, false }, { "post_attention_norm.weight", QSF_K_FFN_NORM, false },
    { 0 },
};
static const qsf_arch_alias alias_qwen3next[] = {
    { "attn_qkv.weight", QSF_K_MIX_IN, false }, { "ssm_ba.weight", QSF_K_MIX_BETA, false },
    { "post_attention_norm.weight", QSF_K_FFN_NORM, false }, { 0 },
};
#if !defined(QSF_NO_EAGLE)
/* What its matrices read is normed where embedding and state are joined. */
static const qsf_arch_alias alias_eagle3[] = {
    { "attn_norm.weight", QSF_K_MTP_EMBD_NORM, false }, { "attn_norm_2.weight", QSF_K_MTP_STATE_NORM, false },
    { 0 },
};
#endif

const qsf_arch qsf_archs[] = {
    { .name = "llama", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS, .gated = true,
      .may_window = true, .longrope = true, .experts = QSF_EXPERTS_MAY, .router_norm = true,
      .may = QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) | QSF_KINDS_FFN_BIAS, .asks_causal = true,
      .hf_rows = QSF_ROPE_HALVES },
    { .name = "qwen2", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .mtp = true,
      .may = QSF_KIND(OUTPUT_BIAS) | QSF_KINDS_QKV_BIAS, .asks_causal = true },
    { .name = "qwen3", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .need = QSF_KINDS_QK_NORM, .may = QSF_KINDS_QKV_BIAS, .may_more = QSF_KIND_MORE(CLS_OUT_BIAS),
      .asks_causal = true },
    /* The text parts of vision models: for text, all rotary sections have the same position. */
    { .name = "qwen2vl", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .may = QSF_KINDS_QKV_BIAS, .spare_output_bias = true },
    { .name = "qwen3vl", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .need = QSF_KINDS_QK_NORM, .may = QSF_KINDS_QKV_BIAS },
    { .name = "phi3", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .fused_gate = true, .may_window = true, .longrope = true, .may = QSF_KINDS_QKV_BIAS },
    { .name = "gemma", .norm = QSF_NORM_RMS, .act = QSF_ACT_GELU, .rope = QSF_ROPE_HALVES, .gated = true,
      .scaled_embd = true },
    { .name = "gemma2", .norm = QSF_NORM_RMS, .act = QSF_ACT_GELU, .rope = QSF_ROPE_HALVES, .gated = true,
      .scaled_embd = true, .may_window = true, .window = 4096, .window_pattern = 2, .attn_softcap = 50,
      .final_softcap = 30, .caps_logits = true, .n_layers_27b = 46, .need = QSF_KINDS_POST_NORM },
    { .name = "gemma3", .norm = QSF_NORM_RMS, .act = QSF_ACT_GELU, .rope = QSF_ROPE_HALVES, .gated = true,
      .scaled_embd = true, .may_window = true, .window_pattern = 6, .caps_logits = true, .base_local = 10000,
      .n_layers_27b = 62, .need = QSF_KINDS_QK_NORM | QSF_KINDS_POST_NORM },
    /* Its attention needs no scale: norms are before it. */
    { .name = "gemma4", .norm = QSF_NORM_RMS, .act = QSF_ACT_GELU, .rope = QSF_ROPE_HALVES, .gated = true,
      .scaled_embd = true, .longrope = true, .may_window = true, .window_pattern = 6, .caps_logits = true,
      .base_local = 10000, .later_gemma = true, .experts = QSF_EXPERTS_MAY, .router_norm = true,
      .need = QSF_KINDS_QK_NORM | QSF_KINDS_POST_NORM, .may_more = QSF_KIND_MORE(EXPERT_WEIGHT) },
    { .name = "gemma3n", .norm = QSF_NORM_RMS, .act = QSF_ACT_GELU, .rope = QSF_ROPE_HALVES, .gated = true,
      .scaled_embd = true, .may_window = true, .window_pattern = 5, .final_softcap = 30, .caps_logits = true,
      .base_local = 10000, .later_gemma = true, .altup = true,
      .need = QSF_KINDS_QK_NORM | QSF_KINDS_POST_NORM },
    { .name = "gpt2", .norm = QSF_NORM_LAYER, .act = QSF_ACT_GELU, .rope = QSF_ROPE_NONE, .learned_pos = true,
      .need = QSF_KIND(ATTN_NORM_BIAS) | QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) |
              QSF_KIND(FFN_NORM_BIAS) | QSF_KIND(FFN_UP_BIAS) | QSF_KIND(FFN_DOWN_BIAS) |
              QSF_KIND(OUTPUT_NORM_BIAS) },
    /* BitNet: norms before the attention's output matrix and before the one that narrows.  Under
     * the first name llama.cpp and Microsoft's fork of it run the models of 1bitLLM, by the same
     * graph with SiLU, and no key of a file says otherwise; the fork ran its first 2B model under
     * the second one and releases bitnet-b1.58-2B-4T under the third, both by one graph with
     * squared ReLU, which takes biases of the attention and none of the feed-forward.  Rows of
     * queries and keys are as in Hugging Face files under all three names: no converter permutes
     * them, and every graph rotates halves. */
    { .name = "bitnet", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .need = QSF_KINDS_SUB_NORM },
    { .name = "bitnet-25", .norm = QSF_NORM_RMS, .act = QSF_ACT_RELU2, .rope = QSF_ROPE_HALVES,
      .gated = true, .need = QSF_KINDS_SUB_NORM, .may = QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) },
    { .name = "bitnet-b1.58", .norm = QSF_NORM_RMS, .act = QSF_ACT_RELU2, .rope = QSF_ROPE_HALVES,
      .gated = true, .need = QSF_KINDS_SUB_NORM, .may = QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) },
    /* Llama and what changes a little of it. */
    { .name = "smollm3", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS, .gated = true,
      .rope_skip = 4, .may = QSF_KINDS_QKV_BIAS, .hf_rows = QSF_ROPE_HALVES },
    { .name = "granite", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS, .gated = true,
      .longrope = true, .experts = QSF_EXPERTS_MAY, .router_norm = true,
      .has = QSF_HAS_SCALES | QSF_HAS_DIVISOR | QSF_HAS_SWITCH,
      .may = QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) | QSF_KINDS_FFN_BIAS, .hf_rows = QSF_ROPE_HALVES },
    { .name = "minicpm", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS, .gated = true,
      .longrope = true, .experts = QSF_EXPERTS_MAY, .router_norm = true,
      .has = QSF_HAS_SCALES | QSF_HAS_DIVISOR | QSF_HAS_OLD_SCALES,
      .may = QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) | QSF_KINDS_FFN_BIAS, .hf_rows = QSF_ROPE_HALVES },
    { .name = "minicpm3", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .longrope = true, .has = QSF_HAS_LATENT | QSF_HAS_OLD_SCALES },
    { .name = "mistral3", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS, .gated = true,
      .longrope = true, .experts = QSF_EXPERTS_MAY, .router_norm = true, .has = QSF_HAS_TEMP,
      .may = QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) | QSF_KINDS_FFN_BIAS, .hf_rows = QSF_ROPE_HALVES },
    { .name = "arcee", .norm = QSF_NORM_RMS, .act = QSF_ACT_RELU2, .rope = QSF_ROPE_PAIRS,
      .longrope = true, .may = QSF_KINDS_QKV_BIAS, .hf_rows = QSF_ROPE_HALVES },
    { .name = "ernie4_5", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS, .gated = true,
      .may = QSF_KINDS_QKV_BIAS, .hf_rows = QSF_ROPE_PAIRS },
    { .name = "internlm2", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS, .gated = true,
      .may = QSF_KINDS_QKV_BIAS },
    { .name = "seed_oss", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .may = QSF_KINDS_QKV_BIAS, .aliases = alias_post_norm },
    { .name = "hunyuan-dense", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES,
      .gated = true, .qk_norm = QSF_QK_ROTATED, .has = QSF_HAS_ALPHA | QSF_HAS_SECTIONS,
      .need = QSF_KINDS_QK_NORM, .may = QSF_KINDS_QKV_BIAS },
    { .name = "glm4", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS, .gated = true,
      .fused_gate = true, .need = QSF_KINDS_POST_NORM,
      .may = QSF_KINDS_QKV_BIAS, .sections_halve = true, .hf_rows = QSF_ROPE_PAIRS },
    { .name = "olmo2", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .flow = QSF_FLOW_POST, .qk_norm = QSF_QK_ALL, .may_window = true, .window_pattern = 4,
      .has = QSF_HAS_ONE_BASE | QSF_HAS_PLAIN_LOCAL, .need = QSF_KINDS_QK_NORM | QSF_KINDS_POST_NORM },
    { .name = "exaone4", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .flow = QSF_FLOW_POST, .longrope = true, .may_window = true, .window = 4096, .window_pattern = 4,
      .has = QSF_HAS_64 | QSF_HAS_ONE_BASE | QSF_HAS_STILL_GLOBAL,
      .need = QSF_KINDS_QK_NORM | QSF_KINDS_POST_NORM, .may = QSF_KINDS_QKV_BIAS },
    { .name = "apertus", .norm = QSF_NORM_RMS, .act = QSF_ACT_XIELU, .rope = QSF_ROPE_HALVES,
      .longrope = true, .has = QSF_HAS_XIELU, .need = QSF_KINDS_QK_NORM,
      .may = QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) },
    { .name = "qwen", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .has = QSF_HAS_HALF_FF, .need = QSF_KINDS_QKV_BIAS },
    { .name = "baichuan", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS, .gated = true,
      .alibi = 8, .has = QSF_HAS_32, .may = QSF_KINDS_QKV_BIAS },
    /* Layer norms.  Nemotron's have the 1 that it adds to their weights in the file already. */
    { .name = "stablelm", .norm = QSF_NORM_LAYER, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES,
      .gated = true, .qk_norm = QSF_QK_EACH, .has = QSF_HAS_MAY_PARALLEL,
      .need = QSF_KIND(ATTN_NORM_BIAS) | QSF_KIND(OUTPUT_NORM_BIAS),
      .may = QSF_KIND(FFN_NORM_BIAS) | QSF_KINDS_QK_NORM | QSF_KINDS_QKV_BIAS },
    { .name = "starcoder2", .norm = QSF_NORM_LAYER, .act = QSF_ACT_GELU, .rope = QSF_ROPE_HALVES,
      .need = QSF_KINDS_NORM_BIAS | QSF_KIND(ATTN_OUT_BIAS) | QSF_KIND(FFN_UP_BIAS) | QSF_KIND(FFN_DOWN_BIAS),
      .may = QSF_KINDS_QKV_BIAS },
    { .name = "phi2", .norm = QSF_NORM_LAYER, .act = QSF_ACT_GELU, .rope = QSF_ROPE_HALVES,
      .flow = QSF_FLOW_PARALLEL,
      .need = QSF_KIND(ATTN_NORM_BIAS) | QSF_KIND(OUTPUT_NORM_BIAS) | QSF_KIND(OUTPUT_BIAS) |
              QSF_KIND(ATTN_OUT_BIAS) | QSF_KIND(FFN_UP_BIAS) | QSF_KIND(FFN_DOWN_BIAS),
      .may = QSF_KINDS_QKV_BIAS },
    { .name = "falcon", .norm = QSF_NORM_LAYER, .act = QSF_ACT_GELU, .rope = QSF_ROPE_HALVES,
      .flow = QSF_FLOW_PARALLEL, .has = QSF_HAS_TWO_NORMS,
      .need = QSF_KIND(ATTN_NORM_BIAS) | QSF_KIND(OUTPUT_NORM_BIAS), .may = QSF_KIND(FFN_NORM_BIAS),
      .aliases = alias_falcon },
    { .name = "gptneox", .norm = QSF_NORM_LAYER, .act = QSF_ACT_GELU, .rope = QSF_ROPE_HALVES,
      .has = QSF_HAS_CHOICE,
      .need = QSF_KINDS_NORM_BIAS | QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) | QSF_KIND(FFN_UP_BIAS) |
              QSF_KIND(FFN_DOWN_BIAS) },
    { .name = "command-r", .norm = QSF_NORM_LAYER, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS,
      .gated = true, .flow = QSF_FLOW_PARALLEL, .qk_norm = QSF_QK_EACH, .has = QSF_HAS_LOGIT | QSF_HAS_64,
      .may = QSF_KINDS_QKV_BIAS | QSF_KINDS_QK_NORM, .hf_rows = QSF_ROPE_PAIRS },
    { .name = "cohere2", .norm = QSF_NORM_LAYER, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS,
      .gated = true, .flow = QSF_FLOW_PARALLEL, .may_window = true, .window_pattern = 4,
      .has = QSF_HAS_LOGIT | QSF_HAS_ONE_BASE | QSF_HAS_STILL_GLOBAL, .may = QSF_KINDS_QKV_BIAS,
      .hf_rows = QSF_ROPE_PAIRS },
    { .name = "olmo", .norm = QSF_NORM_BARE, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS, .gated = true,
      .has = QSF_HAS_CLAMP, .may = QSF_KINDS_QKV_BIAS, .hf_rows = QSF_ROPE_HALVES },
    { .name = "nemotron", .norm = QSF_NORM_LAYER, .act = QSF_ACT_RELU2, .rope = QSF_ROPE_HALVES,
      .need = QSF_KINDS_NORM_BIAS,
      .may = QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) | QSF_KIND(FFN_UP_BIAS) | QSF_KIND(FFN_DOWN_BIAS) },
    { .name = "mpt", .norm = QSF_NORM_LAYER, .act = QSF_ACT_GELU, .rope = QSF_ROPE_NONE,
      .has = QSF_HAS_CLAMP | QSF_HAS_ALIBI | QSF_HAS_LOOSE_POS, .qk_norm = QSF_QK_ALL,
      .may = QSF_KINDS_NORM_BIAS | QSF_KINDS_QKV_BIAS | QSF_KINDS_QK_NORM | QSF_KIND(ATTN_OUT_BIAS) |
             QSF_KIND(FFN_UP_BIAS) | QSF_KIND(FFN_DOWN_BIAS) },
    { .name = "bloom", .norm = QSF_NORM_LAYER, .act = QSF_ACT_GELU, .rope = QSF_ROPE_NONE, .alibi = 8,
      .need = QSF_KINDS_NORM_BIAS | QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) | QSF_KIND(FFN_UP_BIAS) |
              QSF_KIND(FFN_DOWN_BIAS) | QSF_KIND(TOKEN_NORM) | QSF_KIND(TOKEN_NORM_BIAS) },
    /* Mixtures of experts. */
    { .name = "qwen2moe", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .experts = QSF_EXPERTS_SHARED, .need = QSF_KIND(SHARED_ROUTER), .may = QSF_KINDS_QKV_BIAS,
      .ff_of_used = true },
    { .name = "qwen3moe", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .experts = QSF_EXPERTS_ALWAYS, .router_norm = true, .need = QSF_KINDS_QK_NORM,
      .may = QSF_KINDS_QKV_BIAS, .ff_of_used = true },
    { .name = "olmoe", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .experts = QSF_EXPERTS_ALWAYS, .qk_norm = QSF_QK_ALL, .need = QSF_KINDS_QK_NORM,
      .may = QSF_KINDS_QKV_BIAS },
    { .name = "granitemoe", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS, .gated = true,
      .longrope = true, .experts = QSF_EXPERTS_ALWAYS, .router_norm = true,
      .has = QSF_HAS_SCALES | QSF_HAS_DIVISOR | QSF_HAS_SWITCH,
      .may = QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS), .hf_rows = QSF_ROPE_HALVES },
    /* As llama.cpp runs it: norms divide by the root mean square, and the experts' weights have the
     * sum 1. */
    { .name = "phimoe", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .longrope = true, .may_window = true, .experts = QSF_EXPERTS_ALWAYS, .router_norm = true,
      .need = QSF_KINDS_NORM_BIAS | QSF_KIND(ATTN_OUT_BIAS) | QSF_KIND(OUTPUT_BIAS),
      .may = QSF_KINDS_QKV_BIAS },
    { .name = "ernie4_5-moe", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS,
      .gated = true, .experts = QSF_EXPERTS_ALWAYS, .router_norm = true, .has = QSF_HAS_SECTIONS,
      .may = QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) | QSF_KIND(ROUTER_CHOICE),
      .hf_rows = QSF_ROPE_PAIRS },
    { .name = "glm4moe", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .mtp = true,
      .experts = QSF_EXPERTS_ALWAYS, .router = QSF_ROUTER_SIGMOID,
      .may = QSF_KINDS_QKV_BIAS | QSF_KINDS_QK_NORM | QSF_KIND(ROUTER_CHOICE), .asks_router_norm = true,
      .sections_halve = true, .aliases = alias_post_norm },
    { .name = "bailingmoe2", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES,
      .gated = true, .experts = QSF_EXPERTS_EACH, .need = QSF_KINDS_QK_NORM,
      .may = QSF_KIND(ROUTER_CHOICE), .asks_router_norm = true },
    { .name = "smallthinker", .norm = QSF_NORM_RMS, .act = QSF_ACT_RELU, .rope = QSF_ROPE_HALVES,
      .gated = true, .may_window = true, .window_pattern = 4, .experts = QSF_EXPERTS_ALWAYS,
      .router_norm = true,
      .has = QSF_HAS_EARLY | QSF_HAS_FIRST_GLOBAL | QSF_HAS_STILL_GLOBAL,
      .may = QSF_KINDS_QKV_BIAS },
    { .name = "deepseek2", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS, .gated = true,
      .mtp = true,
      .experts = QSF_EXPERTS_ALWAYS, .has = QSF_HAS_LATENT, .may = QSF_KIND(ROUTER_CHOICE),
      .asks_router_norm = true },
    { .name = "gpt-oss", .norm = QSF_NORM_RMS, .act = QSF_ACT_SWIGLU_OAI, .rope = QSF_ROPE_HALVES,
      .gated = true, .may_window = true, .window_pattern = 2,
      .experts = QSF_EXPERTS_ALWAYS, .router = QSF_ROUTER_CHOSEN,
      .need = QSF_KIND(ATTN_OUT_BIAS) | QSF_KIND(ATTN_SINKS) | QSF_KIND(ROUTER_BIAS) |
              QSF_KIND(EXPERT_GATE_BIAS) | QSF_KIND(EXPERT_UP_BIAS) | QSF_KIND(EXPERT_DOWN_BIAS),
      .may = QSF_KINDS_QKV_BIAS, .aliases = alias_post_norm },
    /* Encoders.  GELU is the tanh form in all of them, as in llama.cpp. */
    { .name = "bert", .norm = QSF_NORM_LAYER, .act = QSF_ACT_GELU, .rope = QSF_ROPE_NONE, .learned_pos = true,
      .both_ways = true, .flow = QSF_FLOW_SUMS, .need = ENCODER_NEED,
      .may = ENCODER_MAY, .may_more = ENCODER_MORE },
    { .name = "nomic-bert", .norm = QSF_NORM_LAYER, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES,
      .gated = true, .both_ways = true, .flow = QSF_FLOW_SUMS, .need = ENCODER_NEED,
      .may = QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS), .may_more = ENCODER_MORE },
    { .name = "nomic-bert-moe", .norm = QSF_NORM_LAYER, .act = QSF_ACT_GELU, .rope = QSF_ROPE_HALVES,
      .both_ways = true, .flow = QSF_FLOW_SUMS, .experts = QSF_EXPERTS_SOME, .need = ENCODER_NEED,
      .may = ENCODER_MAY, .may_more = ENCODER_MORE },
    { .name = "jina-bert-v3", .norm = QSF_NORM_LAYER, .act = QSF_ACT_GELU, .rope = QSF_ROPE_HALVES,
      .both_ways = true, .flow = QSF_FLOW_SUMS, .need = ENCODER_NEED,
      .may = ENCODER_MAY, .may_more = ENCODER_MORE },
    { .name = "jina-bert-v2", .norm = QSF_NORM_LAYER, .act = QSF_ACT_GELU, .rope = QSF_ROPE_NONE, .alibi = 8,
      .gated = true, .both_ways = true, .flow = QSF_FLOW_SUMS, .qk_norm = QSF_QK_ALL,
      .has = QSF_HAS_LOOSE_GATE,
      .need = ENCODER_NEED | QSF_KIND(ATTN_OUT_BIAS) | QSF_KIND(FFN_DOWN_BIAS),
      .may = ENCODER_MAY | QSF_KINDS_QK_NORM,
      .may_more = ENCODER_MORE | QSF_KIND_MORE(Q_NORM_BIAS) | QSF_KIND_MORE(K_NORM_BIAS) |
                  QSF_KIND_MORE(ATTN_NORM_2) | QSF_KIND_MORE(ATTN_NORM_2_BIAS) },
    { .name = "modern-bert", .norm = QSF_NORM_LAYER, .act = QSF_ACT_GELU, .rope = QSF_ROPE_HALVES,
      .gated = true, .fused_gate = true, .both_ways = true, .may_window = true, .window_pattern = 3,
      .base_local = 10000,
      .has = QSF_HAS_BARE_BEGIN | QSF_HAS_FIRST_GLOBAL | QSF_HAS_ACT | QSF_HAS_RANK_MEAN,
      .need = QSF_KIND(TOKEN_NORM),
      .may_more = QSF_KIND_MORE(CLS) | QSF_KIND_MORE(CLS_NORM) | QSF_KIND_MORE(CLS_OUT_BIAS) },
    { .name = "gemma-embedding", .norm = QSF_NORM_RMS, .act = QSF_ACT_GELU, .rope = QSF_ROPE_HALVES,
      .gated = true, .both_ways = true, .scaled_embd = true, .may_window = true, .window_pattern = 6,
      .base_local = 10000, .need = QSF_KINDS_QK_NORM | QSF_KINDS_POST_NORM,
      .may_more = QSF_KIND_MORE(DENSE_2) | QSF_KIND_MORE(DENSE_3) },
    { .name = "eurobert", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .both_ways = true },
    { .name = "neo-bert", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS, .gated = true,
      .fused_gate = true, .both_ways = true, .aliases = alias_neo_bert },
    /* Some layers, those without key and value heads, have another mixer. */
    { .name = "lfm2", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .mixer = QSF_MIXER_SHORT_CONV, .may_window = true, .need = QSF_KINDS_QK_NORM, .aliases = alias_lfm2 },
    { .name = "granitehybrid", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS,
      .gated = true, .longrope = true, .mixer = QSF_MIXER_MAMBA2, .experts = QSF_EXPERTS_MAY,
      .router_norm = true,
      .has = QSF_HAS_SCALES | QSF_HAS_DIVISOR | QSF_HAS_SWITCH,
      .may = QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) | QSF_KINDS_FFN_BIAS, .hf_rows = QSF_ROPE_HALVES },
    { .name = "lfm2moe", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .mixer = QSF_MIXER_SHORT_CONV, .experts = QSF_EXPERTS_ALWAYS, .router_norm = true,
      .need = QSF_KINDS_QK_NORM, .may = QSF_KIND(ROUTER_CHOICE), .aliases = alias_lfm2 },
    { .name = "qwen35", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .mtp = true,
      .mixer = QSF_MIXER_DELTA_NET, .has = QSF_HAS_INTERVAL | QSF_HAS_GATE, .need = QSF_KINDS_QK_NORM,
      .aliases = alias_qwen35 },
    { .name = "mamba", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_NONE,
      .mixer = QSF_MIXER_MAMBA, .layers = QSF_LAYERS_MIXER },
    { .name = "plamo2", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .fused_gate = true, .mixer = QSF_MIXER_PLAMO, .qk_norm = QSF_QK_EACH,
      .need = QSF_KINDS_QK_NORM | QSF_KINDS_POST_NORM, .aliases = alias_plamo2 },
    { .name = "mamba2", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_NONE,
      .mixer = QSF_MIXER_MAMBA2, .layers = QSF_LAYERS_MIXER },
    { .name = "rwkv7", .norm = QSF_NORM_LAYER, .act = QSF_ACT_RELU2, .rope = QSF_ROPE_NONE,
      .mixer = QSF_MIXER_RWKV, .layers = QSF_LAYERS_SHIFTED,
      .need = QSF_KINDS_NORM_BIAS | QSF_KIND(TOKEN_NORM) | QSF_KIND(TOKEN_NORM_BIAS),
      .aliases = alias_rwkv7 },
    { .name = "arwkv7", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_NONE, .gated = true,
      .mixer = QSF_MIXER_RWKV, .layers = QSF_LAYERS_STATE },
    { .name = "nemotron_h", .norm = QSF_NORM_RMS, .act = QSF_ACT_RELU2, .rope = QSF_ROPE_NONE,
      .mixer = QSF_MIXER_MAMBA2, .layers = QSF_LAYERS_ONE,
      .may = QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) | QSF_KIND(FFN_UP_BIAS) | QSF_KIND(FFN_DOWN_BIAS) },
    { .name = "nemotron_h_moe", .norm = QSF_NORM_RMS, .act = QSF_ACT_RELU2, .rope = QSF_ROPE_NONE,
      .mixer = QSF_MIXER_MAMBA2, .layers = QSF_LAYERS_ONE, .experts = QSF_EXPERTS_ALWAYS,
      .router = QSF_ROUTER_SIGMOID, .need = QSF_KIND(ROUTER_CHOICE),
      .may = QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS), .asks_router_norm = true, .ff_of_used = true },
    { .name = "falcon-h1", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES,
      .gated = true, .mixer = QSF_MIXER_MAMBA2_BESIDE, .layers = QSF_LAYERS_PARALLEL,
      .may = QSF_KINDS_QKV_BIAS | QSF_KINDS_FFN_BIAS, .aliases = alias_falcon_h1 },
    { .name = "qwen35moe", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .mtp = true,
      .mixer = QSF_MIXER_DELTA_NET, .experts = QSF_EXPERTS_SHARED, .router_norm = true,
      .has = QSF_HAS_INTERVAL | QSF_HAS_GATE, .need = QSF_KINDS_QK_NORM | QSF_KIND(SHARED_ROUTER),
      .ff_of_used = true, .aliases = alias_qwen35 },
    { .name = "qwen3next", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .mtp = true,
      .mixer = QSF_MIXER_DELTA_NET, .experts = QSF_EXPERTS_SHARED, .router_norm = true,
      .has = QSF_HAS_INTERVAL | QSF_HAS_GATE | QSF_HAS_NEIGHBOURS,
      .need = QSF_KINDS_QK_NORM | QSF_KIND(SHARED_ROUTER), .ff_of_used = true, .aliases = alias_qwen3next },
#if !defined(QSF_NO_EAGLE)
    { .name = "eagle3", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS, .gated = true,
      .longrope = true, .eagle = true, .aliases = alias_eagle3 },
#endif
    { .name = NULL },
};
#undef ENCODER_NEED
#undef ENCODER_MAY
#undef ENCODER_MORE

const qsf_arch *qsf_arch_find(const char *name)
{
    for (const qsf_arch *a = qsf_archs; a->name; a++)
        if (!strcmp(a->name, name)) return a;
    return NULL;
}

const qsf_arch *qsf_arch_nearest(const char *name)
{
    const qsf_arch *nearest = qsf_archs;        /* llama, which most others vary */
    size_t most = 2;
    for (const qsf_arch *a = qsf_archs; a->name; a++) {
        size_t same = 0;
        while (a->name[same] && a->name[same] == name[same]) same++;
        if (same <= most) continue;
        most = same;
        nearest = a;
    }
    return nearest;
}

bool qsf_arch_needs(const qsf_arch *a, const qsf_hparams *hp, const qsf_layer *layer, const qsf_role *role)
{
    const bool need = qsf_kinds_have(a->need, role->kind) && qsf_role_fits(layer, role);
    return need || qsf_role_needed(hp, layer, role);
}

bool qsf_arch_takes(const qsf_arch *a, const qsf_hparams *hp, const qsf_layer *layer, const qsf_role *role)
{
    if (qsf_arch_needs(a, hp, layer, role)) return true;
    const bool may = role->when == QSF_WHEN_MAY_STATE || role->when == QSF_WHEN_MAY_MTP ||
                     qsf_kinds_have(a->may, role->kind) ||
                     (role->when == QSF_WHEN_MAY_LAYER && a->later_gemma) ||
                     (role->kind >= 64 && qsf_kinds_have(a->may_more, role->kind - 64u));
    return may && qsf_role_fits(layer, role);
}

/* A different list from the one above: released numbers, of which some name no architecture of this
 * version.  The first name is a number's own. */
static const struct { const char *name; uint32_t number; } arch_numbers[] = {
    { "gpt2", 0 }, { "llama", 1 }, { "mistral", 2 }, { "phi3", 3 }, { "phi2", 3 },
};

uint32_t qsf_arch_number(const char *name)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(arch_numbers); i++)
        if (!strcmp(arch_numbers[i].name, name)) return arch_numbers[i].number;
    return QSF_ARCH_CUSTOM;
}

const char *qsf_arch_of_number(uint32_t number)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(arch_numbers); i++)
        if (arch_numbers[i].number == number) return arch_numbers[i].name;
    return "custom";
}
