/* GGUF files with the smallest possible dimensions: each one runs or is refused with a reason.
 * SPDX-License-Identifier: MIT */
#include "gguf_build.h"
#include "memfile.h"
#include "qsf.h"
#include "test.h"

static int n_ran, n_refused;

/* Opens and runs the file; a refusal must name it and give the reason. */
static void run_bytes(const uint8_t *bytes, size_t len, const char *what)
{
    memfile f;
    qsf_model_options mo;
    qsf_context_options co;
    qsf_model *m = NULL;
    qsf_context *c = NULL;
    qsf_error err = { 0 };
    memfile_init(&f, bytes, len);
    qsf_model_defaults(&mo);
    mo.file = &f.file;
    qsf_status st = qsf_model_open("m.gguf", &mo, &m, &err);
    qsf_context_defaults(&co);
    co.n_threads = 1;
    co.n_batch = 8;
    qsf_model_info info = { .size = sizeof info };
    if (!st) st = qsf_model_get_info(m, &info);
    if (!st && info.n_ctx_train > 4096) co.n_ctx = 64;
    if (!st) st = qsf_context_new(m, &co, &c, &err);
    if (!st) {
        const int32_t ids[2] = { 0, (int32_t)info.n_vocab - 1 };
        const float *logits = NULL;
        st = info.encoder ? qsf_compute(c, &(qsf_row){ 0, 0, 0 }, 1) : qsf_feed(c, 0, ids, 2, &logits);
        const bool full = st == QSF_E_FULL && info.n_ctx_train < 2;
        if (st != QSF_E_CORRUPT && !full) CHECK_STR(qsf_status_name(st), "QSF_OK");
        n_ran++;
    } else {
        CHECK(strlen(err.text) > 12 && strstr(err.text, "m.gguf"));
        CHECK(st == QSF_E_CORRUPT || st == QSF_E_UNSUPPORTED || st == QSF_E_ARGUMENT);
        if (test_failed) printf("      %s: %s\n", what, err.text);
        n_refused++;
    }
    qsf_context_free(c);
    qsf_model_close(m);
}

/* ---- llama ---- */

typedef struct dims {
    uint32_t layers, embd, ff, heads, kv_heads, head, vocab, ctx, rope, experts, used;
} dims;

static void put(gguf_build *b, uint32_t type, const char *name, uint32_t cols, uint32_t rows)
{
    tensor(b, name, cols % 32 || !rows ? 0 : type, cols, rows);
}

static void build(gguf_build *b, const dims *d, uint32_t type)
{
    char name[64];
    const uint32_t q = d->heads * d->head, kv = d->kv_heads * d->head;
    gguf_build_init(b, 3);
    kv_text(b, "general.architecture", "llama");
    kv_u32(b, "llama.context_length", d->ctx);
    kv_u32(b, "llama.embedding_length", d->embd);
    kv_u32(b, "llama.block_count", d->layers);
    kv_u32(b, "llama.feed_forward_length", d->ff);
    kv_u32(b, "llama.attention.head_count", d->heads);
    kv_u32(b, "llama.attention.head_count_kv", d->kv_heads);
    kv_u32(b, "llama.attention.key_length", d->head);
    kv_u32(b, "llama.attention.value_length", d->head);
    kv_u32(b, "llama.rope.dimension_count", d->rope);
    kv_u32(b, "llama.vocab_size", d->vocab);
    if (d->experts) {
        kv_u32(b, "llama.expert_count", d->experts);
        kv_u32(b, "llama.expert_used_count", d->used);
    }
    kv_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    kv_text(b, "tokenizer.ggml.model", "no_vocab");
    put(b, type, "token_embd.weight", d->embd, d->vocab);
    for (uint32_t i = 0; i < d->layers; i++) {
#define LAYER(rest, cols, rows) \
        (snprintf(name, sizeof name, "blk.%u.%s", (unsigned)i, rest), put(b, type, name, cols, rows))
        LAYER("attn_norm.weight", d->embd, 0);
        LAYER("attn_q.weight", d->embd, q);
        LAYER("attn_k.weight", d->embd, kv);
        LAYER("attn_v.weight", d->embd, kv);
        LAYER("attn_output.weight", q, d->embd);
        LAYER("ffn_norm.weight", d->embd, 0);
        if (d->experts) {
            LAYER("ffn_gate_inp.weight", d->embd, d->experts);
            tiny_layer_experts(b, (int)i, "ffn_gate_exps.weight", d->embd, d->ff, d->experts);
            tiny_layer_experts(b, (int)i, "ffn_up_exps.weight", d->embd, d->ff, d->experts);
            tiny_layer_experts(b, (int)i, "ffn_down_exps.weight", d->ff, d->embd, d->experts);
            continue;
        }
        LAYER("ffn_gate.weight", d->embd, d->ff);
        LAYER("ffn_up.weight", d->embd, d->ff);
        LAYER("ffn_down.weight", d->ff, d->embd);
#undef LAYER
    }
    put(b, type, "output_norm.weight", d->embd, 0);
    gguf_build_end(b);
}

static void run_dims(const dims *d, uint32_t type, const char *what)
{
    gguf_build b;
    build(&b, d, type);
    run_bytes(b.out, b.len, what);
    gguf_build_free(&b);
}

static const dims usual = { 2, 32, 64, 4, 2, 8, 20, 64, 8, 0, 0 };
enum { DIMS = sizeof(dims) / sizeof(uint32_t) };

TEST(small_dimensions_run_or_are_refused)
{
    char what[64];
    for (uint32_t at = 0; at < DIMS; at++)
        for (uint32_t v = 0; v < 4; v++)
            for (int experts = 0; experts < 2; experts++) {
                dims d = usual;
                if (experts) d.experts = 4, d.used = 2;
                memcpy((char *)&d + at * sizeof v, &v, sizeof v);
                snprintf(what, sizeof what, "dimension %u is %u", (unsigned)at, (unsigned)v);
                run_dims(&d, 0, what);
                run_dims(&d, 2, what);
                run_dims(&d, 8, what);
            }
    CHECK(n_ran > 50 && n_refused > 20);
}

TEST(several_small_dimensions_run_or_are_refused)
{
    static const uint32_t values[] = { 1, 2, 3, 4, 16, 32 };
    uint64_t state = 1;
    char what[64];
    for (int round = 0; round < 600; round += TEST_EVERY) {
        dims d = usual;
        if (round % 3 == 0) d.experts = 4, d.used = 2;
        for (int i = 0; i < 5; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            const uint32_t at = (uint32_t)(state >> 33) % DIMS;
            const uint32_t v = values[(state >> 45) % (round % 2 ? 3 : QSF_ARRAY_LEN(values))];
            memcpy((char *)&d + at * sizeof v, &v, sizeof v);
        }
        if (d.layers > 4) d.layers = 4;
        snprintf(what, sizeof what, "round %d", round);
        run_dims(&d, round % 2 ? 2 : 0, what);
    }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(small_dimensions_run_or_are_refused);
    RUN(several_small_dimensions_run_or_are_refused);
    return test_end();
}
