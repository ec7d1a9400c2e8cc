/* The table of architectures.  A new one that computes nothing new is a row here, and one in
 * convert/read/hf_types.c for its Hugging Face directories.
 * SPDX-License-Identifier: MIT */
#include "model/arch.h"

const qsf_arch qsf_archs[] = {
    { .name = "llama", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS, .gated = true,
      .may_window = true, .longrope = true,
      .may = QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) | QSF_KINDS_FFN_BIAS },
    { .name = "qwen2", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .may = QSF_KIND(OUTPUT_BIAS) | QSF_KINDS_QKV_BIAS },
    { .name = "qwen3", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
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
    { .name = "gpt2", .norm = QSF_NORM_LAYER, .act = QSF_ACT_GELU, .rope = QSF_ROPE_NONE, .learned_pos = true,
      .need = QSF_KIND(ATTN_NORM_BIAS) | QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) |
              QSF_KIND(FFN_NORM_BIAS) | QSF_KIND(FFN_UP_BIAS) | QSF_KIND(FFN_DOWN_BIAS) |
              QSF_KIND(OUTPUT_NORM_BIAS) },
    /* BitNet: norms before the attention's output matrix and before the one that narrows.  Under
     * the first name llama.cpp and Microsoft's fork of it run the models of 1bitLLM, by the same
     * graph with SiLU, and no key of a file says otherwise; the fork ran its first 2B model under
     * the second one and releases bitnet-b1.58-2B-4T under the third, both by one graph with
     * squared ReLU, which takes biases of the attention and none of the feed-forward.  Rows of
     * queries and keys lie as in Hugging Face files under all three names: no converter permutes
     * them, and every graph turns halves. */
    { .name = "bitnet", .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_HALVES, .gated = true,
      .need = QSF_KINDS_SUB_NORM },
    { .name = "bitnet-25", .norm = QSF_NORM_RMS, .act = QSF_ACT_RELU2, .rope = QSF_ROPE_HALVES,
      .gated = true, .need = QSF_KINDS_SUB_NORM, .may = QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) },
    { .name = "bitnet-b1.58", .norm = QSF_NORM_RMS, .act = QSF_ACT_RELU2, .rope = QSF_ROPE_HALVES,
      .gated = true, .need = QSF_KINDS_SUB_NORM, .may = QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) },
    { .name = NULL },
};

const qsf_arch *qsf_arch_find(const char *name)
{
    for (const qsf_arch *a = qsf_archs; a->name; a++)
        if (!strcmp(a->name, name)) return a;
    return NULL;
}

void qsf_arch_list(char *out, size_t cap)
{
    size_t at = 0;
    for (const qsf_arch *a = qsf_archs; a->name && at < cap; a++)
        at += qsf_format(out + at, cap - at, "%s%s", at ? ", " : "", a->name);
}

static bool arch_bit(uint64_t kinds, const qsf_role *role) { return kinds >> role->kind & 1; }

bool qsf_arch_needs(const qsf_arch *a, const qsf_hparams *hp, const qsf_layer *layer, const qsf_role *role)
{
    return qsf_role_needed(hp, layer, role) || arch_bit(a->need, role);
}

bool qsf_arch_takes(const qsf_arch *a, const qsf_hparams *hp, const qsf_layer *layer, const qsf_role *role)
{
    return qsf_arch_needs(a, hp, layer, role) || arch_bit(a->may, role);
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
