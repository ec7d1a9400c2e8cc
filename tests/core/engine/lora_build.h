/* Adapters of tiny_defaults' model as GGUF files in memory.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_LORA_BUILD_H
#define QSF_LORA_BUILD_H

#define tiny_vocab gguf_tiny_vocab      /* make_tiny_qsf.h has one, too */
#include "gguf_build.h"
#undef tiny_vocab
#include "make_tiny_qsf.h"

enum { EMBD = 64, KV_COLS = 32, FF = 96, RANK = 5 };


static const struct { const char *name; uint32_t rows, cols; } matrices[] = {
    { "attn_q", EMBD, EMBD }, { "attn_k", KV_COLS, EMBD }, { "attn_v", KV_COLS, EMBD },
    { "attn_output", EMBD, EMBD }, { "ffn_gate", FF, EMBD }, { "ffn_up", FF, EMBD }, { "ffn_down", EMBD, FF },
};

/* An adapter of tiny_defaults' model, with random numbers of that seed. */
static inline gguf_build adapter_begin(const char *arch)
{
    gguf_build b;
    gguf_build_init(&b, 3);
    kv_text(&b, "general.architecture", arch);
    kv_text(&b, "general.type", "adapter");
    kv_text(&b, "adapter.type", "lora");
    kv_f32(&b, "adapter.lora.alpha", 8);
    return b;
}
static inline void adapter_end(gguf_build *b, uint64_t seed)
{
    gguf_build_end(b);
    for (size_t at = b->data_at; at + 4 <= b->len; at += 4)
        qsf_put32(b->out + at, qsf_f32_bits((float)(tiny_uniform(&seed) - 0.5) / 2));
}
static inline void adapter_pair(gguf_build *b, uint32_t layer, size_t i)
{
    char name[64];
    qsf_format(name, sizeof name, "blk.%u.%s.weight.lora_a", (unsigned)layer, matrices[i].name);
    tensor(b, name, 0, matrices[i].cols, RANK);
    name[strlen(name) - 1] = 'b';
    tensor(b, name, 0, RANK, matrices[i].rows);
}
static inline gguf_build adapter_with(uint64_t seed, bool ends)
{
    gguf_build b = adapter_begin("llama");
    for (uint32_t layer = 0; layer < 2; layer++)
        for (size_t i = 0; i < QSF_ARRAY_LEN(matrices); i++) adapter_pair(&b, layer, i);
    if (!ends) {
        adapter_end(&b, seed);
        return b;
    }
    tensor(&b, "token_embd.weight.lora_a", 0, RANK, 288);
    tensor(&b, "token_embd.weight.lora_b", 0, RANK, EMBD);
    tensor(&b, "output.weight.lora_a", 0, EMBD, RANK);
    tensor(&b, "output.weight.lora_b", 0, RANK, 288);
    adapter_end(&b, seed);
    return b;
}

static inline gguf_build adapter_of(uint64_t seed) { return adapter_with(seed, true); }

#endif
