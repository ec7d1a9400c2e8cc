/* Adapters: rows of one batch have those of their sequences; what changes with them starts anew;
 * damaged files are refused.
 * SPDX-License-Identifier: MIT */
#define tiny_vocab gguf_tiny_vocab      /* make_tiny_qsf.h has one, too */
#include "gguf_build.h"
#undef tiny_vocab
#include "engine_variants.h"
#include "memfile.h"

#include <stdatomic.h>

enum { EMBD = 64, KV_COLS = 32, FF = 96, RANK = 5, TOKENS = 20 };

static const struct { const char *name; uint32_t rows, cols; } matrices[] = {
    { "attn_q", EMBD, EMBD }, { "attn_k", KV_COLS, EMBD }, { "attn_v", KV_COLS, EMBD },
    { "attn_output", EMBD, EMBD }, { "ffn_gate", FF, EMBD }, { "ffn_up", FF, EMBD }, { "ffn_down", EMBD, FF },
};

/* An adapter of tiny_defaults' model, with random numbers of that seed. */
static gguf_build adapter_begin(const char *arch)
{
    gguf_build b;
    gguf_build_init(&b, 3);
    kv_text(&b, "general.architecture", arch);
    kv_text(&b, "general.type", "adapter");
    kv_text(&b, "adapter.type", "lora");
    kv_f32(&b, "adapter.lora.alpha", 8);
    return b;
}
static void adapter_end(gguf_build *b, uint64_t seed)
{
    gguf_build_end(b);
    for (size_t at = b->data_at; at + 4 <= b->len; at += 4)
        qsf_put32(b->out + at, qsf_f32_bits((float)(tiny_uniform(&seed) - 0.5) / 2));
}
static void adapter_pair(gguf_build *b, uint32_t layer, size_t i)
{
    char name[64];
    qsf_format(name, sizeof name, "blk.%u.%s.weight.lora_a", (unsigned)layer, matrices[i].name);
    tensor(b, name, 0, matrices[i].cols, RANK);
    name[strlen(name) - 1] = 'b';
    tensor(b, name, 0, RANK, matrices[i].rows);
}
static gguf_build adapter_of(uint64_t seed)
{
    gguf_build b = adapter_begin("llama");
    for (uint32_t layer = 0; layer < 2; layer++)
        for (size_t i = 0; i < QSF_ARRAY_LEN(matrices); i++) adapter_pair(&b, layer, i);
    tensor(&b, "token_embd.weight.lora_a", 0, RANK, 288);
    tensor(&b, "token_embd.weight.lora_b", 0, RANK, EMBD);
    tensor(&b, "output.weight.lora_a", 0, EMBD, RANK);
    tensor(&b, "output.weight.lora_b", 0, RANK, 288);
    adapter_end(&b, seed);
    return b;
}

static qsf_status adapter_open(bench *b, const void *bytes, size_t len, qsf_adapter **out)
{
    memfile m;
    memfile_init(&m, bytes, len);
    const qsf_status st = qsf_adapter_load(b->m, NULL, &m.file, out, &b->error);
    CHECK_EQ(m.closed, 1);
    return st;
}
static qsf_adapter *adapter_made(bench *b, uint64_t seed)
{
    qsf_adapter *a = NULL;
    gguf_build g = adapter_of(seed);
    bench_ok(b, adapter_open(b, g.out, g.len, &a));
    gguf_build_free(&g);
    return a;
}

/* ---- rows ---- */

TEST(rows_of_one_batch_have_the_adapters_of_their_sequences)
{
    enum { SEQS = 4 };
    bench b;
    int32_t ids[TOKENS];
    float *alone[SEQS], *mixed[SEQS];
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    qsf_adapter *x = adapter_made(&b, 1), *y = adapter_made(&b, 2);
    const qsf_adapter_use uses[SEQS][2] = { { { x, 0 } }, { { x, 1 } }, { { y, -0.5f } },
                                            { { x, 1 }, { y, 2 } } };
    bench_tokens(ids, TOKENS, b.n_vocab, 7);
    for (int s = 0; s < SEQS; s++) {
        alone[s] = bench_floats(&b, TOKENS);
        mixed[s] = bench_floats(&b, TOKENS);
        CHECK_EQ(qsf_seq_set_adapters(b.c, s, uses[s], s == 3 ? 2 : 1), QSF_OK);
        CHECK_EQ(bench_feed(&b, s, ids, TOKENS, 16, alone[s]), QSF_OK);
        CHECK_EQ(qsf_seq_truncate(b.c, s, 0), QSF_OK);
        if (s) CHECK(bench_distance(alone[0], alone[s], TOKENS * b.n_vocab) > 10 * CLOSE);
    }
    CHECK(bench_distance(alone[1], alone[3], TOKENS * b.n_vocab) > 10 * CLOSE);
    for (int at = 0; at < TOKENS; at += 2) {        /* 0 0 1 1 2 2 3 3, then one of each */
        qsf_row rows[2 * SEQS];
        for (int i = 0; i < 2 * SEQS; i++) rows[i] = (qsf_row){ i / 2, ids[at + i % 2], true };
        CHECK_EQ(qsf_compute(b.c, rows, 2 * SEQS), QSF_OK);
        for (int i = 0; i < 2 * SEQS; i++)
            memcpy(mixed[i / 2] + (size_t)(at + i % 2) * b.n_vocab, qsf_logits(b.c, (size_t)i),
                   b.n_vocab * sizeof(float));
    }
    for (int s = 0; s < SEQS; s++) {
        CHECK_NEAR(bench_distance(alone[s], mixed[s], TOKENS * b.n_vocab), 0, CLOSE);
        free(alone[s]);
        free(mixed[s]);
    }
    qsf_adapter_free(x);
    qsf_adapter_free(y);
    bench_end(&b);
}

TEST(a_sequence_without_adapters_is_bit_for_bit_as_before)
{
    bench b;
    int32_t ids[TOKENS];
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    float *before = bench_floats(&b, TOKENS), *beside = bench_floats(&b, TOKENS);
    bench_tokens(ids, TOKENS, b.n_vocab, 7);
    CHECK_EQ(bench_feed(&b, 0, ids, TOKENS, 16, before), QSF_OK);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
    qsf_adapter *x = adapter_made(&b, 1);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 1, &(qsf_adapter_use){ x, 1 }, 1), QSF_OK);
    qsf_adapter_free(x);        /* sequence 1 has it still */
    CHECK_EQ(bench_feed(&b, 1, ids, TOKENS, 16, NULL), QSF_OK);
    CHECK_EQ(bench_feed(&b, 0, ids, TOKENS, 16, beside), QSF_OK);
    CHECK(!memcmp(before, beside, TOKENS * b.n_vocab * sizeof *before));
    CHECK(atomic_load(&b.m->adapter_bytes) > 0);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 1, NULL, 0), QSF_OK);
    CHECK_EQ(atomic_load(&b.m->adapter_bytes), 0);
    CHECK_EQ(bench_feed(&b, 1, ids, TOKENS, 16, beside), QSF_OK);
    CHECK(!memcmp(before, beside, TOKENS * b.n_vocab * sizeof *before));
    free(before);
    free(beside);
    bench_end(&b);
}

/* ---- keys and values ---- */

typedef struct saved { uint8_t *bytes; size_t len; } saved;

static qsf_status save_bytes(void *user, const void *bytes, size_t len)
{
    saved *s = user;
    s->bytes = realloc(s->bytes, s->len + len);
    memcpy(s->bytes + s->len, bytes, len);
    s->len += len;
    return QSF_OK;
}

TEST(keys_and_values_stay_with_the_adapters_that_made_them)
{
    bench b;
    saved s = { 0 };
    memfile m;
    int32_t ids[TOKENS];
    size_t n;
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    qsf_adapter *x = adapter_made(&b, 1);
    bench_tokens(ids, TOKENS, b.n_vocab, 7);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, &(qsf_adapter_use){ x, 1 }, 1), QSF_OK);
    CHECK_EQ(bench_feed(&b, 0, ids, TOKENS, 16, NULL), QSF_OK);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, &(qsf_adapter_use){ x, 1 }, 1), QSF_OK);
    CHECK_EQ(qsf_seq_length(b.c, 0), TOKENS);
    CHECK_EQ(qsf_session_save(b.c, 0, ids, TOKENS, save_bytes, &s, &b.error), QSF_OK);
    CHECK_EQ(qsf_seq_share(b.c, 1, 0, TOKENS), QSF_E_ARGUMENT);
    memfile_init(&m, s.bytes, s.len);
    CHECK_EQ(qsf_session_load(b.c, 1, &m.file, ids, TOKENS, &n, &b.error), QSF_E_ARGUMENT);
    CHECK(strstr(b.error.text, "other adapters") != NULL);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 1, &(qsf_adapter_use){ x, 0.5f }, 1), QSF_OK);
    CHECK_EQ(qsf_seq_share(b.c, 1, 0, TOKENS), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_session_load(b.c, 1, &m.file, ids, TOKENS, &n, &b.error), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 1, &(qsf_adapter_use){ x, 1 }, 1), QSF_OK);
    CHECK_EQ(qsf_seq_share(b.c, 1, 0, TOKENS), QSF_OK);
    CHECK_EQ(qsf_session_load(b.c, 1, &m.file, ids, TOKENS, &n, &b.error), QSF_OK);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, &(qsf_adapter_use){ x, 2 }, 1), QSF_OK);
    CHECK_EQ(qsf_seq_length(b.c, 0), 0);
    free(s.bytes);
    qsf_adapter_free(x);
    bench_end(&b);
}

/* ---- memory and limits ---- */

TEST(a_budget_counts_adapters)
{
    bench b;
    const tiny_options o = tiny_defaults();
    qsf_context_options co = bench_options();
    qsf_adapter_info info = { .size = sizeof info };
    qsf_plan plan = { .size = sizeof plan }, with = { .size = sizeof with };
    if (!bench_begin(&b, &o)) return;
    qsf_adapter *x = adapter_made(&b, 1);
    CHECK_EQ(qsf_adapter_get_info(x, &info), QSF_OK);
    CHECK_EQ(info.rank, RANK);
    CHECK_EQ(info.n_matrices, 16);
    co.ram_budget = 100000000;
    CHECK(bench_context(&b, &co));
    CHECK_EQ(qsf_context_get_plan(b.c, &plan), QSF_OK);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, &(qsf_adapter_use){ x, 1 }, 1), QSF_E_BUDGET);
    co.adapter_bytes = info.bytes;
    CHECK(bench_context(&b, &co));
    CHECK_EQ(qsf_context_get_plan(b.c, &with), QSF_OK);
    CHECK_EQ(with.total, plan.total + info.bytes);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, &(qsf_adapter_use){ x, 1 }, 1), QSF_OK);
    const qsf_adapter_use many[9] = { { x, 1 }, { x, 1 }, { x, 1 }, { x, 1 }, { x, 1 }, { x, 1 }, { x, 1 },
                                      { x, 1 }, { x, 1 } };
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, many, 9), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, &(qsf_adapter_use){ x, NAN }, 1), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 99, many, 1), QSF_E_ARGUMENT);
    qsf_adapter_free(x);
    bench_end(&b);
}

/* ---- files ---- */

static void adapter_refused(bench *b, gguf_build *g, qsf_status want, const char *words)
{
    qsf_adapter *a;
    adapter_end(g, 3);
    CHECK_EQ(adapter_open(b, g->out, g->len, &a), want);
    CHECK(a == NULL);
    if (!strstr(b->error.text, words)) test_fail(__FILE__, __LINE__, b->error.text);
    gguf_build_free(g);
}

TEST(what_is_no_adapter_of_the_model_is_refused_by_name)
{
    bench b;
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    gguf_build g = adapter_begin("qwen2");
    adapter_refused(&b, &g, QSF_E_UNSUPPORTED, "qwen2");
    gguf_build_init(&g, 3);
    kv_text(&g, "general.architecture", "llama");
    adapter_refused(&b, &g, QSF_E_UNSUPPORTED, "is no adapter");
    g = adapter_begin("llama");
    adapter_refused(&b, &g, QSF_E_CORRUPT, "no weights");
    g = adapter_begin("llama");
    kv_array(&g, "adapter.alora.invocation_tokens", 4, 1);
    put_u32(&g.kv, 5);
    adapter_refused(&b, &g, QSF_E_UNSUPPORTED, "activated");
    g = adapter_begin("llama");
    tensor(&g, "blk.0.attn_q.weight.lora_a", 0, EMBD, RANK);
    adapter_refused(&b, &g, QSF_E_CORRUPT, "partner");
    g = adapter_begin("llama");
    tensor(&g, "blk.0.attn_q.weight.lora_a", 0, EMBD, RANK);
    tensor(&g, "blk.0.attn_q.weight.lora_b", 0, RANK, EMBD + 1);
    adapter_refused(&b, &g, QSF_E_CORRUPT, "another model's");
    g = adapter_begin("llama");
    tensor(&g, "blk.0.attn_q.weight.lora_a", 0, EMBD, RANK);
    tensor(&g, "blk.0.attn_q.weight.lora_b", 0, RANK + 1, EMBD);
    adapter_refused(&b, &g, QSF_E_CORRUPT, "another model's");
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = { "blk.2.attn_q.weight", "blk.0.ffn_gate_inp.weight",
                                             "rope_freqs" };
        char name[64];
        g = adapter_begin("llama");
        qsf_format(name, sizeof name, "%s.lora_a", names[i]);
        tensor(&g, name, 0, EMBD, RANK);
        name[strlen(name) - 1] = 'b';
        tensor(&g, name, 0, RANK, EMBD);
        adapter_refused(&b, &g, QSF_E_UNSUPPORTED, names[i]);
    }
    g = adapter_begin("llama");
    tensor(&g, "blk.0.attn_q.weight", 0, EMBD, EMBD);
    adapter_refused(&b, &g, QSF_E_UNSUPPORTED, "neither");
    g = adapter_begin("llama");
    tensor3(&g, "blk.0.ffn_up.weight.lora_a", EMBD, RANK, 2);
    tensor3(&g, "blk.0.ffn_up.weight.lora_b", RANK, FF, 2);
    adapter_refused(&b, &g, QSF_E_UNSUPPORTED, "experts");
    bench_end(&b);
}

TEST(a_damaged_adapter_is_refused_or_read_but_never_worse)
{
    bench b;
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    gguf_build g = adapter_begin("llama");
    adapter_pair(&g, 1, 1);
    adapter_end(&g, 4);
    for (size_t len = 0; len < g.len; len++) {
        qsf_adapter *a;
        uint8_t *cut = malloc(len ? len : 1);
        memcpy(cut, g.out, len);
        CHECK(adapter_open(&b, cut, len, &a) != QSF_OK && !a);
        free(cut);
    }
    for (size_t at = 0; at < g.data_at; at++)
        for (int bit = 0; bit < 8; bit++) {
            qsf_adapter *a;
            g.out[at] ^= (uint8_t)(1 << bit);
            (void)adapter_open(&b, g.out, g.len, &a);
            qsf_adapter_free(a);
            g.out[at] ^= (uint8_t)(1 << bit);
        }
    gguf_build_free(&g);
    CHECK_EQ(atomic_load(&b.m->adapter_bytes), 0);
    bench_end(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(rows_of_one_batch_have_the_adapters_of_their_sequences);
    RUN(a_sequence_without_adapters_is_bit_for_bit_as_before);
    RUN(keys_and_values_stay_with_the_adapters_that_made_them);
    RUN(a_budget_counts_adapters);
    RUN(what_is_no_adapter_of_the_model_is_refused_by_name);
    RUN(a_damaged_adapter_is_refused_or_read_but_never_worse);
    return test_end();
}
