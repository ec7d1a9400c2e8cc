/* The tensor names of model types, if they differ from Llama's: lists for the table of types.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_ALIASES_H
#define QSF_CONVERT_HF_ALIASES_H

#include "read/hf_types.h"

extern const hf_alias qsf_hf_phi3_names[], qsf_hf_gemma2_names[], qsf_hf_bitnet_names[],
    qsf_hf_glm4_names[], qsf_hf_gpt2_names[], qsf_hf_bert_names[], qsf_hf_bert_classes_names[],
    qsf_hf_roberta_classes_names[], qsf_hf_jina_names[], qsf_hf_nomic_names[],
    qsf_hf_nomic_older[], qsf_hf_modern_names[], qsf_hf_modern_classes_names[],
    qsf_hf_gemma_embedding_names[], qsf_hf_mixtral_names[], qsf_hf_expert_names[],
    qsf_hf_qwen2_moe_names[], qsf_hf_lfm2_names[], qsf_hf_lfm2_moe_names[],
    qsf_hf_deepseek_names[], qsf_hf_granite_moe_names[], qsf_hf_granite_shared_names[],
    qsf_hf_granite_hybrid_names[], qsf_hf_qwen35_names[], qsf_hf_qwen35_moe_names[],
    qsf_hf_qwen35_moe_stacked[], qsf_hf_qwen3_next_names[], qsf_hf_gpt_oss_names[],
    qsf_hf_gemma4_names[], qsf_hf_norm_bias_names[], qsf_hf_starcoder2_names[], qsf_hf_phi_names[],
    qsf_hf_cohere_names[], qsf_hf_hunyuan_names[], qsf_hf_ernie_moe_names[];

#endif
