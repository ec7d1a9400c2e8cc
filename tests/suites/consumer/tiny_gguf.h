/* A tiny GGUF file, for users of the installed libraries: keys, descriptions of tensors, their
 * floats.  Little-endian machines, which write floats as GGUF has them.
 * SPDX-License-Identifier: MIT */
#ifndef TINY_GGUF_H
#define TINY_GGUF_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EMBD = 32, FF = 48, VOCAB = 300, LAYERS = 2, KEYS = 13, TENSORS = 2 + 9 * LAYERS };

static inline void put(FILE *f, uint64_t v, size_t bytes) { fwrite(&v, bytes, 1, f); }

static inline void put_text(FILE *f, const char *s)
{
    put(f, strlen(s), 8);
    fwrite(s, strlen(s), 1, f);
}

static inline void put_number(FILE *f, const char *key, uint32_t v)
{
    put_text(f, key);
    put(f, 4, 4);
    put(f, v, 4);
}

static inline void put_word(FILE *f, const char *key, const char *v)
{
    put_text(f, key);
    put(f, 8, 4);
    put_text(f, v);
}

static inline void put_keys(FILE *f)
{
    const float eps = 1e-5f;
    char token[16];
    put_word(f, "general.architecture", "llama");
    put_word(f, "general.name", "Tiny");
    put_number(f, "llama.context_length", 64);
    put_number(f, "llama.embedding_length", EMBD);
    put_number(f, "llama.block_count", LAYERS);
    put_number(f, "llama.feed_forward_length", FF);
    put_number(f, "llama.attention.head_count", 2);
    put_text(f, "llama.attention.layer_norm_rms_epsilon");
    put(f, 6, 4);
    fwrite(&eps, sizeof eps, 1, f);
    put_word(f, "tokenizer.ggml.model", "gpt2");
    put_word(f, "tokenizer.ggml.pre", "llama-bpe");
    put_text(f, "tokenizer.ggml.tokens");
    put(f, 9, 4), put(f, 8, 4), put(f, VOCAB, 8);
    for (int i = 0; i < VOCAB; i++) {
        /* every letter, for a text file to measure with */
        if (i < 94) snprintf(token, sizeof token, "%c", 33 + i);
        else snprintf(token, sizeof token, "t%d", i);
        put_text(f, token);
    }
    put_text(f, "tokenizer.ggml.merges");
    put(f, 9, 4), put(f, 8, 4), put(f, 0, 8);
    put_number(f, "tokenizer.ggml.eos_token_id", 0);
}

/* One tensor's description, and where the next one's floats begin. */
static inline uint64_t put_tensor(FILE *f, const char *name, uint32_t cols, uint32_t rows, uint64_t at)
{
    put_text(f, name);
    put(f, rows ? 2 : 1, 4);
    put(f, cols, 8);
    if (rows) put(f, rows, 8);
    put(f, 0, 4), put(f, at, 8);
    return at + 4ull * cols * (rows ? rows : 1);
}

static inline uint64_t put_tensors(FILE *f)
{
    static const struct { const char *name; uint32_t cols, rows; } layer[9] = {
        { "attn_norm", EMBD, 0 }, { "attn_q", EMBD, EMBD }, { "attn_k", EMBD, EMBD },
        { "attn_v", EMBD, EMBD }, { "attn_output", EMBD, EMBD }, { "ffn_norm", EMBD, 0 },
        { "ffn_gate", EMBD, FF }, { "ffn_up", EMBD, FF }, { "ffn_down", FF, EMBD },
    };
    char name[64];
    uint64_t at = put_tensor(f, "token_embd.weight", EMBD, VOCAB, 0);
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < 9; i++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", l, layer[i].name);
            at = put_tensor(f, name, layer[i].cols, layer[i].rows, at);
        }
    return put_tensor(f, "output_norm.weight", EMBD, 0, at);
}

static inline void tiny_gguf_write(const char *path)
{
    FILE *f = fopen(path, "wb");
    uint32_t random = 1;
    if (!f) exit(1);
    fwrite("GGUF", 4, 1, f);
    put(f, 3, 4), put(f, TENSORS, 8), put(f, KEYS, 8);
    put_keys(f);
    const uint64_t bytes = put_tensors(f);
    while (ftell(f) % 32) fputc(0, f);
    for (uint64_t i = 0; i < bytes / 4; i++) {
        random = random * 1664525u + 1013904223u;
        const float v = (float)((int32_t)random >> 8) / (1 << 24);
        fwrite(&v, sizeof v, 1, f);
    }
    fclose(f);
}

#endif
