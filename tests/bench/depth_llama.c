/* The pace of llama.cpp's answers after a long context, for long.py.
 * SPDX-License-Identifier: MIT
 *
 *     depth_llama MODEL.gguf f16|q8_0 THREADS TOKENS DEPTH...
 *
 * prints "DEPTH TOKENS_A_SECOND" a line. A context of 128k tokens would take hours to compute. The
 * cache is filled with copies of the state of 512 computed tokens instead: an answer reads as many
 * keys and values as after a real prompt, and takes the same time. Flash attention is on. */
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PART = 512, FILLED = 0, COPIED = 1 };        /* tokens of a copy; two sequences */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void quiet(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static void fail(const char *why)
{
    fprintf(stderr, "depth_llama: %s\n", why);
    exit(1);
}

/* Computes tokens of sequence FILLED from a position on. */
static void decode(struct llama_context *c, struct llama_batch *b, int pos, int n)
{
    b->n_tokens = n;
    for (int i = 0; i < n; i++) {
        b->token[i] = 100 + (pos + i) % 1000;
        b->pos[i] = pos + i;
        b->n_seq_id[i] = 1;
        b->seq_id[i][0] = FILLED;
        b->logits[i] = i == n - 1;
    }
    if (llama_decode(c, *b)) fail("llama_decode fails");
}

static double pace(struct llama_model *model, struct llama_context_params p, int tokens, int depth)
{
    p.n_ctx = (uint32_t)(depth + tokens + 1 + 2 * PART);
    struct llama_context *c = llama_init_from_model(model, p);
    if (!c) fail("no context: out of memory, or the model does not take this cache");
    llama_memory_t memory = llama_get_memory(c);
    struct llama_batch b = llama_batch_init(PART, 0, 1);
    decode(c, &b, 0, PART);
    const size_t size = llama_state_seq_get_size(c, FILLED);
    unsigned char *state = malloc(size);
    if (!state || llama_state_seq_get_data(c, state, size, FILLED) != size) fail("the state cannot be read");
    for (int filled = PART; filled + PART <= depth; filled += PART) {
        if (!llama_state_seq_set_data(c, state, size, COPIED)) fail("the state cannot be copied");
        llama_memory_seq_cp(memory, COPIED, FILLED, -1, -1);
        llama_memory_seq_rm(memory, COPIED, -1, -1);
    }
    decode(c, &b, PART, 1);
    const double begin = now();
    for (int i = 0; i < tokens; i++) decode(c, &b, PART + 1 + i, 1);
    const double took = now() - begin;
    free(state);
    llama_batch_free(b);
    llama_free(c);
    return tokens / took;
}

int main(int argc, char **argv)
{
    if (argc < 6) fail("usage: depth_llama MODEL.gguf f16|q8_0 THREADS TOKENS DEPTH...");
    llama_log_set(quiet, NULL);
    llama_backend_init();
    struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model) fail("the model cannot be loaded");
    struct llama_context_params p = llama_context_default_params();
    p.n_threads = p.n_threads_batch = atoi(argv[3]);
    p.type_k = p.type_v = !strcmp(argv[2], "q8_0") ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
    p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    p.n_seq_max = 2;
    p.kv_unified = true;
    for (int i = 5; i < argc; i++)
        printf("%s %.3f\n", argv[i], pace(model, p, atoi(argv[4]), atoi(argv[i])));
    llama_model_free(model);
    llama_backend_free();
    return 0;
}
