/* A library with the functions that qsf-parity calls of llama.cpp's, for what the real one does
 * rarely: FAKE_LLAMA says what goes wrong.  Its logits are of no model.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE __attribute__((visibility("default")))

typedef struct fake_context { uint64_t words[20]; } fake_context;     /* the layout of 0.5 */
typedef struct fake_model { uint64_t words[10]; } fake_model;
typedef struct fake_batch {
    int32_t n, *ids;
    float *embeddings;
    int32_t *positions, *n_seqs, **seqs;
    int8_t *logits;
} fake_batch;

static void (*fake_log)(int, const char *, void *);
static void *fake_log_user;
static float fake_rows[16][65536];

static bool fake_is(const char *what)
{
    const char *how = getenv("FAKE_LLAMA");
    return how && !strcmp(how, what);
}

static int fake_vocab(void)
{
    const char *n = getenv("FAKE_VOCAB");
    return n ? atoi(n) : 300;
}

static void fake_put(void *to, int at, int32_t v) { memcpy((char *)to + at, &v, sizeof v); }

FAKE fake_context llama_context_default_params(void);
FAKE fake_context llama_context_default_params(void)
{
    static const int32_t numbers[][2] = { { 0, 512 }, { 4, 2048 }, { 8, 512 }, { 12, 1 }, { 24, 1 }, { 28,
                                                                                                       4 },
                                          { 32, 4 }, { 40, -1 }, { 44, -1 }, { 48, -1 }, { 52, -1 }, { 104,
                                                                                                       1 },
                                          { 108, 1 } };
    const float extent = -1;
    fake_context c = { { 0 } };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) fake_put(&c, numbers[i][0],
                                                                             numbers[i][1]);
    memcpy((char *)&c + 64, &extent, sizeof extent);
    if (fake_is("layout")) fake_put(&c, 104, 30);
    return c;
}

FAKE fake_model llama_model_default_params(void);
FAKE fake_model llama_model_default_params(void) { return (fake_model){ { 0 } }; }
FAKE void llama_backend_init(void);
FAKE void llama_backend_init(void) { }
FAKE uint32_t llama_n_rs_seq(const void *c);
FAKE uint32_t llama_n_rs_seq(const void *c) { return c != NULL; }
FAKE const char *llama_version(void);
FAKE const char *llama_version(void) { return "fake"; }

FAKE void llama_log_set(void (*log)(int, const char *, void *), void *user);
FAKE void llama_log_set(void (*log)(int, const char *, void *), void *user) { fake_log = log,
                                                                              fake_log_user = user; }

FAKE void *llama_model_load_from_file(const char *path, fake_model p);
FAKE void *llama_model_load_from_file(const char *path, fake_model p)
{
    (void)p;
    if (!fake_is("refuse")) return malloc(1);
    if (fake_log) fake_log(4, "error: no such\n\x1b[31m architecture\n", fake_log_user);
    return path ? NULL : malloc(1);
}

FAKE void llama_model_free(void *m);
FAKE void llama_model_free(void *m) { free(m); }
FAKE const void *llama_model_get_vocab(const void *m);
FAKE const void *llama_model_get_vocab(const void *m) { return m; }
FAKE int32_t llama_vocab_n_tokens(const void *v);
FAKE int32_t llama_vocab_n_tokens(const void *v) { return v ? fake_vocab() : 0; }
FAKE bool llama_vocab_is_eog(const void *v, int32_t id);
FAKE bool llama_vocab_is_eog(const void *v, int32_t id) { return v && id == 2; }

FAKE void *llama_init_from_model(void *m, fake_context p);
FAKE void *llama_init_from_model(void *m, fake_context p)
{
    int32_t n, outputs;
    memcpy(&n, &p, 4), memcpy(&outputs, (char *)&p + 24, 4);
    return m && n >= 256 && outputs == 16 && !fake_is("context") ? malloc(1) : NULL;
}

FAKE void llama_free(void *c);
FAKE void llama_free(void *c) { free(c); }

#ifndef FAKE_WITHOUT_DECODE
FAKE int32_t llama_decode(void *c, fake_batch b);
FAKE int32_t llama_decode(void *c, fake_batch b)
{
    if (!c || fake_is("decode")) return -3;
    for (int32_t i = 0; i < b.n; i++) {
        uint32_t x = (uint32_t)b.ids[i] * 2654435761u + (uint32_t)b.positions[i];
        for (int k = 0; k < fake_vocab() && k < 65536; k++, x = x * 1664525u + 1013904223u)
            fake_rows[i][k] = (float)(x >> 8) / 16777216.0f;
        if (fake_is("nan") && b.positions[i] == 2) fake_rows[i][5] = NAN;
    }
    return 0;
}
#endif

FAKE float *llama_get_logits_ith(void *c, int32_t i);
FAKE float *llama_get_logits_ith(void *c, int32_t i) { return c && !fake_is("logits") ? fake_rows[i] : NULL; }

FAKE int32_t llama_tokenize(const void *v, const char *text, int32_t len, int32_t *ids, int32_t cap, bool add,
                            bool special);
FAKE int32_t llama_tokenize(const void *v, const char *text, int32_t len, int32_t *ids, int32_t cap, bool add,
                            bool special)
{
    if (!v || !add || !special) return 0;
    if (len + 1 > cap) return -(len + 1);
    ids[0] = 1;
    for (int32_t i = 0; i < len; i++) ids[i + 1] = (unsigned char)text[i];
    return len + 1;
}
