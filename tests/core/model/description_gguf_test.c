/* Sessions of GGUF files whose descriptions differ in one member.
 * SPDX-License-Identifier: MIT */
#include "description_pairs.h"
#include "gguf_build.h"

typedef struct opened { memfile f; qsf_model *m; qsf_context *c; } opened;

/* A small Llama with the keys that `more` adds. */
static bool open_with(opened *o, gguf_build *b, void (*more)(gguf_build *b))
{
    qsf_model_options mo;
    qsf_context_options co;
    qsf_error err = { 0 };
    gguf_build_init(b, 3);
    tiny_keys(b, "llama");
    if (more) more(b);
    tiny_vocab(b);
    tiny_tensors(b, "llama", NULL);
    gguf_build_end(b);
    *o = (opened){ 0 };
    memfile_init(&o->f, b->out, b->len);
    qsf_model_defaults(&mo);
    mo.file = &o->f.file;
    qsf_status st = qsf_model_open("m.gguf", &mo, &o->m, &err);
    qsf_context_defaults(&co);
    co.n_ctx = 32;
    co.n_threads = 1;
    if (!st) st = qsf_context_new(o->m, &co, &o->c, &err);
    CHECK_STR(st ? err.text : "", "");
    return !st;
}

static void done(opened *o, gguf_build *b)
{
    qsf_context_free(o->c);
    qsf_model_close(o->m);
    gguf_build_free(b);
}

TEST(a_session_of_a_model_that_differs_in_one_member_is_refused)
{
    opened o;
    gguf_build b;
    if (open_with(&o, &b, NULL)) {
        CHECK_STR(o.m->source->format, "GGUF");
        pairs_of_every_member(o.c);
    }
    done(&o, &b);
}

/* Files of equal length and with equal weights, which differ in the value of one key. */
static uint32_t value;
static const char *key;
static void put_number(gguf_build *b) { kv_f32(b, key, (float)value); }
static void put_whole(gguf_build *b) { kv_u32(b, key, value); }
static void put_yarn(gguf_build *b)
{
    kv_text(b, "llama.rope.scaling.type", "yarn");
    kv_f32(b, "llama.rope.scaling.factor", 4);
    kv_f32(b, key, (float)value);
}

TEST(a_session_of_a_file_that_differs_in_one_key_is_refused)
{
    static const struct { const char *key; void (*put)(gguf_build *b); uint32_t a, b; } keys[] = {
        { "llama.rope.freq_base", put_number, 10000, 10001 },
        { "llama.rope.dimension_count", put_whole, 16, 8 },
        { "llama.attention.sliding_window", put_whole, 0, 8 },
        { "llama.pooling_type", put_whole, 0, 1 },
        { "llama.rope.scaling.original_context_length", put_whole, TINY_CTX, 32 },
        { "llama.rope.scaling.yarn_beta_fast", put_yarn, 32, 33 },
        { "llama.rope.scaling.yarn_beta_slow", put_yarn, 1, 2 },
        { "llama.rope.scaling.yarn_ext_factor", put_yarn, 1, 2 },
        { "llama.rope.scaling.attn_factor", put_number, 1, 2 },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(keys); i++) {
        opened x[3];
        gguf_build b[3];
        pair_session base;
        key = keys[i].key;
        for (int k = 0; k < 3; k++) {
            value = k == 2 ? keys[i].b : keys[i].a;
            if (!open_with(&x[k], &b[k], keys[i].put)) return;
        }
        CHECK_EQ(b[0].len, b[2].len);
        if (!pair_save(x[0].c, &base)) return;
        CHECK(pair_takes(x[1].c, &base, key));
        if (pair_takes(x[2].c, &base, key)) CHECK_STR(key, "refused");
        for (int k = 0; k < 3; k++) done(&x[k], &b[k]);
    }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(a_session_of_a_model_that_differs_in_one_member_is_refused);
    RUN(a_session_of_a_file_that_differs_in_one_key_is_refused);
    return test_end();
}
