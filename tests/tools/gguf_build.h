/* Builds small GGUF files in memory, right ones and wrong ones.
 * SPDX-License-Identifier: MIT
 *
 *   gguf_build b;  gguf_build_init(&b, 3);
 *   kv_text(&b, "general.architecture", "llama");  ...
 *   tensor(&b, "output_norm.weight", 0, 1, 32, 0);
 *   gguf_build_end(&b);          b.out, b.len
 *   gguf_build_free(&b); */
#ifndef QSF_GGUF_BUILD_H
#define QSF_GGUF_BUILD_H

#include <stdlib.h>
#include <string.h>
#include "tensor/types.h"

typedef struct gguf_bytes { uint8_t *p; size_t len, cap; } gguf_bytes;
typedef struct gguf_build {
    uint32_t   version, n_kv, n_tensors, align;
    gguf_bytes kv, infos, data;
    size_t     last_info;          /* where the last tensor's entry begins in infos */
    uint8_t   *out;                /* of exactly len bytes */
    size_t     len, data_at;
} gguf_build;

static inline void put_bytes(gguf_bytes *b, const void *p, size_t len)
{
    if (b->len + len > b->cap) b->p = realloc(b->p, b->cap = 2 * (b->len + len));
    if (len) memcpy(b->p + b->len, p, len);
    b->len += len;
}
static inline void put_u32(gguf_bytes *b, uint32_t v) { uint8_t x[4]; qsf_put32(x, v); put_bytes(b, x, 4); }
static inline void put_u64(gguf_bytes *b, uint64_t v) { uint8_t x[8]; qsf_put64(x, v); put_bytes(b, x, 8); }
static inline void put_text(gguf_bytes *b, const char *s)
{
    put_u64(b, strlen(s));
    put_bytes(b, s, strlen(s));
}

static inline void gguf_build_init(gguf_build *b, uint32_t version)
{
    memset(b, 0, sizeof *b);
    b->version = version;
    b->align = 32;
}
static inline void kv_key(gguf_build *b, const char *key, uint32_t type)
{
    put_text(&b->kv, key);
    put_u32(&b->kv, type);
    b->n_kv++;
}
static inline void kv_u32(gguf_build *b, const char *key, uint32_t v)
{
    kv_key(b, key, 4);
    put_u32(&b->kv, v);
}
static inline void kv_f32(gguf_build *b, const char *key, float v)
{
    kv_key(b, key, 6);
    put_u32(&b->kv, qsf_f32_bits(v));
}
static inline void kv_bool(gguf_build *b, const char *key, bool v)
{
    kv_key(b, key, 7);
    put_bytes(&b->kv, &(uint8_t){ v }, 1);
}
static inline void kv_u16(gguf_build *b, const char *key, uint16_t v)
{
    uint8_t x[2];
    kv_key(b, key, 2);
    qsf_put16(x, v);
    put_bytes(&b->kv, x, 2);
}
static inline void kv_text(gguf_build *b, const char *key, const char *v)
{
    kv_key(b, key, 8);
    put_text(&b->kv, v);
}
static inline void kv_array(gguf_build *b, const char *key, uint32_t type, uint64_t n)
{
    kv_key(b, key, 9);
    put_u32(&b->kv, type);
    put_u64(&b->kv, n);
}
static inline void kv_texts(gguf_build *b, const char *key, const char *const *v, size_t n)
{
    kv_array(b, key, 8, n);
    for (size_t i = 0; i < n; i++) put_text(&b->kv, v[i]);
}

/* A tensor of cols x rows (rows 0: a vector) filled with a pattern that differs from tensor to
 * tensor: float i is n_tensors + i / 1024. */
static inline void tensor(gguf_build *b, const char *name, uint32_t type, uint32_t cols, uint32_t rows)
{
    uint64_t bytes;
    const uint32_t qtype = type == 0 ? QSF_T_F32 : type == 1 ? QSF_T_F16 : QSF_T_GGML + type;
    const qsf_type_info *info = qsf_type_get(qtype);
    const uint64_t n = (uint64_t)cols * (rows ? rows : 1);
    while (b->data.len % b->align) put_bytes(&b->data, "", 1);
    b->last_info = b->infos.len;
    put_text(&b->infos, name);
    put_u32(&b->infos, rows ? 2 : 1);
    put_u64(&b->infos, cols);
    if (rows) put_u64(&b->infos, rows);
    put_u32(&b->infos, type);
    put_u64(&b->infos, b->data.len);
    b->n_tensors++;
    if (type == 0) {
        for (uint64_t i = 0; i < n; i++)
            put_u32(&b->data, qsf_f32_bits((float)b->n_tensors + (float)i / 1024));
        return;
    }
    bytes = n / (1u << info->own_block) * info->own_bytes;
    for (uint64_t i = 0; i < bytes; i++)
        put_bytes(&b->data, &(uint8_t){ (uint8_t)(i * 7 + b->n_tensors) }, 1);
}

/* Floats in three dimensions. */
static inline void tensor3(gguf_build *b, const char *name, uint32_t cols, uint32_t rows, uint32_t n)
{
    while (b->data.len % b->align) put_bytes(&b->data, "", 1);
    b->last_info = b->infos.len;
    put_text(&b->infos, name);
    put_u32(&b->infos, 3);
    put_u64(&b->infos, cols);
    put_u64(&b->infos, rows);
    put_u64(&b->infos, n);
    put_u32(&b->infos, 0);
    put_u64(&b->infos, b->data.len);
    b->n_tensors++;
    for (uint32_t i = 0; i < cols * rows * n; i++) put_u32(&b->data, qsf_f32_bits((float)i / 1024));
}

static inline void gguf_build_end(gguf_build *b)
{
    gguf_bytes o = { 0 };
    put_bytes(&o, "GGUF", 4);
    put_u32(&o, b->version);
    put_u64(&o, b->n_tensors);
    put_u64(&o, b->n_kv);
    put_bytes(&o, b->kv.p, b->kv.len);
    put_bytes(&o, b->infos.p, b->infos.len);
    while (o.len % b->align) put_bytes(&o, "", 1);
    b->data_at = o.len;
    put_bytes(&o, b->data.p, b->data.len);
    b->out = malloc(o.len);
    memcpy(b->out, o.p, b->len = o.len);
    free(o.p);
}
static inline void gguf_build_free(gguf_build *b)
{
    free(b->kv.p);
    free(b->infos.p);
    free(b->data.p);
    free(b->out);
}

/* ---- whole models: 2 layers, 32 wide, 2 heads of 16, 1 key head, 48 in the FFN, 10 tokens ---- */
enum { TINY_LAYERS = 2, TINY_EMBD = 32, TINY_HEADS = 2, TINY_KV_HEADS = 1, TINY_HEAD = 16, TINY_FF = 48,
       TINY_CTX = 64, TINY_VOCAB = 10 };

static inline const char *tiny_key(const char *arch, const char *rest)
{
    static char key[128];
    strcpy(key, arch);
    return strcat(key, rest);
}
static inline void tiny_keys(gguf_build *b, const char *arch)
{
    kv_text(b, "general.architecture", arch);
    kv_text(b, "general.name", "Tiny Test");
    kv_u32(b, tiny_key(arch, ".context_length"), TINY_CTX);
    kv_u32(b, tiny_key(arch, ".embedding_length"), TINY_EMBD);
    kv_u32(b, tiny_key(arch, ".block_count"), TINY_LAYERS);
    kv_u32(b, tiny_key(arch, ".feed_forward_length"), TINY_FF);
    kv_u32(b, tiny_key(arch, ".attention.head_count"), TINY_HEADS);
    kv_u32(b, tiny_key(arch, ".attention.head_count_kv"), TINY_KV_HEADS);
    kv_f32(b, tiny_key(arch, strcmp(arch, "gpt2") ? ".attention.layer_norm_rms_epsilon"
                       : ".attention.layer_norm_epsilon"), 1e-5f);
}
static inline void tiny_vocab(gguf_build *b)
{
    static const char *const tokens[TINY_VOCAB] =
        { "<|endoftext|>", "a", "b", "ab", "<|im_end|>", "", "\xc4\xa0", "\304\240a", "c", "abc" };
    static const char *const merges[] = { "a b", "ab c", "x y", "\304\240 a", "b", "a x" };
    kv_text(b, "tokenizer.ggml.model", "gpt2");
    kv_text(b, "tokenizer.ggml.pre", "llama-bpe");
    kv_texts(b, "tokenizer.ggml.tokens", tokens, TINY_VOCAB);
    kv_array(b, "tokenizer.ggml.token_type", 5, TINY_VOCAB);
    for (uint32_t i = 0; i < TINY_VOCAB; i++) put_u32(&b->kv, i == 0 ? 3 : i == 5 ? 99 : 1);
    kv_texts(b, "tokenizer.ggml.merges", merges, 6);
    kv_u32(b, "tokenizer.ggml.bos_token_id", 0);
    kv_u32(b, "tokenizer.ggml.eos_token_id", 0);
    kv_u32(b, "tokenizer.ggml.padding_token_id", 77);
    static const char *const templates[] = { "tool_use", "rag", "a name", "missing" };
    kv_text(b, "tokenizer.chat_template", "{{ messages }}");
    kv_texts(b, "tokenizer.chat_templates", templates, 4);
    kv_text(b, "tokenizer.chat_template.rag", "{{ documents }}");
    kv_text(b, "tokenizer.chat_template.tool_use", "{{ tools }}");
    kv_text(b, "tokenizer.chat_template.a name", "{{ nothing }}");
}
static inline void tiny_layer_tensor(gguf_build *b, int layer, const char *rest, uint32_t cols, uint32_t rows)
{
    char name[96] = "blk.0.";
    name[4] = (char)('0' + layer);
    tensor(b, strcat(name, rest), 0, cols, rows);
}
/* Three dimensions. */
static inline void tiny_layer_experts(gguf_build *b, int layer, const char *rest, uint32_t cols,
                                      uint32_t rows, uint32_t n)
{
    char name[96] = "blk.0.";
    name[4] = (char)('0' + layer);
    tensor3(b, strcat(name, rest), cols, rows, n);
}
/* Names and shapes are written out, not taken from core/model/roles.c: a wrong row there shows.
 * skip: a tensor name (without "blk.1.") that the last layer lacks, or NULL */
static inline void tiny_tensors(gguf_build *b, const char *arch, const char *skip)
{
    const bool gpt2 = !strcmp(arch, "gpt2"), phi3 = !strcmp(arch, "phi3"),
        gemma = !strncmp(arch, "gemma", 5) && strlen(arch) == 6;
    const bool qk = !strcmp(arch, "qwen3") || !strcmp(arch, "gemma3");
    const uint32_t q = TINY_HEADS * TINY_HEAD, kv = (gpt2 ? TINY_HEADS : TINY_KV_HEADS) * TINY_HEAD;
    tensor(b, "token_embd.weight", 0, TINY_EMBD, TINY_VOCAB);
    if (gpt2) tensor(b, "position_embd.weight", 0, TINY_EMBD, TINY_CTX);
    for (int i = 0; i < TINY_LAYERS; i++) {
        const bool last = i == TINY_LAYERS - 1;
#define LAYER(name, cols, rows) \
    if (!(last && skip && !strcmp(skip, name))) tiny_layer_tensor(b, i, name, cols, rows)
        LAYER("attn_norm.weight", TINY_EMBD, 0);
        if (gpt2) LAYER("attn_norm.bias", TINY_EMBD, 0);
        if (gpt2 || phi3) {
            LAYER("attn_qkv.weight", TINY_EMBD, q + 2 * kv);
            if (gpt2) LAYER("attn_qkv.bias", q + 2 * kv, 0);
        } else {
            LAYER("attn_q.weight", TINY_EMBD, q);
            LAYER("attn_k.weight", TINY_EMBD, kv);
            LAYER("attn_v.weight", TINY_EMBD, kv);
        }
        if (!strcmp(arch, "qwen2")) {
            LAYER("attn_q.bias", q, 0);
            LAYER("attn_k.bias", kv, 0);
            LAYER("attn_v.bias", kv, 0);
        }
        if (qk) {
            LAYER("attn_q_norm.weight", TINY_HEAD, 0);
            LAYER("attn_k_norm.weight", TINY_HEAD, 0);
        }
        LAYER("attn_output.weight", q, TINY_EMBD);
        if (gpt2) LAYER("attn_output.bias", TINY_EMBD, 0);
        if (gemma) LAYER("post_attention_norm.weight", TINY_EMBD, 0);
        LAYER("ffn_norm.weight", TINY_EMBD, 0);
        if (gpt2) LAYER("ffn_norm.bias", TINY_EMBD, 0);
        if (!gpt2 && !phi3) LAYER("ffn_gate.weight", TINY_EMBD, TINY_FF);
        LAYER("ffn_up.weight", TINY_EMBD, phi3 ? 2 * TINY_FF : TINY_FF);
        if (gpt2) LAYER("ffn_up.bias", TINY_FF, 0);
        LAYER("ffn_down.weight", TINY_FF, TINY_EMBD);
        if (gpt2) LAYER("ffn_down.bias", TINY_EMBD, 0);
        if (gemma) LAYER("post_ffw_norm.weight", TINY_EMBD, 0);
#undef LAYER
    }
    tensor(b, "output_norm.weight", 0, TINY_EMBD, 0);
    if (gpt2) tensor(b, "output_norm.bias", 0, TINY_EMBD, 0);
}

#endif
