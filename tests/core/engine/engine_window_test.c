/* Sequences longer than the context: a window of the cache, heavy hitters besides it, and keys
 * whose biases rotate with the position.
 * SPDX-License-Identifier: MIT */
#include "engine_variants.h"

/* ---- a window of the cache ---- */

enum { LONG = 300 };

/* The last `tail` rows' logits of LONG tokens in batches of `chunk`. */
static bool feed_long(bench *b, const qsf_context_options *o, size_t chunk, size_t tail, float *out)
{
    int32_t ids[LONG];
    bench_tokens(ids, LONG, b->n_vocab, 12);
    if (!bench_context(b, o)) return false;
    CHECK_EQ(bench_feed(b, 0, ids, LONG - tail, chunk, NULL), QSF_OK);
    CHECK_EQ(bench_feed(b, 0, ids + LONG - tail, tail, chunk, out), QSF_OK);
    CHECK_EQ(qsf_seq_length(b->c, 0), LONG);
    return true;
}

/* As Qwen 2 has them: far larger than what tokens add, and turning with the position, at which few
 * bits would fail. */
TEST(large_biases_of_keys_take_no_codes)
{
    static const char *const names[] = { "halves", "pairs", "part of the head, YaRN", "odd head" };
    for (int i = 0; i < 4; i += TEST_EVERY) {
        tiny_options o = tiny_defaults();
        qsf_context_options co = bench_options();
        o.biases = true;
        o.key_bias = 10;
        if (i == 1) o.hp.rope = QSF_ROPE_PAIRS;
        if (i == 2)
            o.hp.scaling = QSF_SCALING_YARN, o.hp.scaling_factor = 4, o.hp.scaling_orig_ctx = 32,
                o.hp.rope_dim = 8;
        if (i == 3) o.hp.head_dim = 24;
        co.f32 = true;
        float *exact = logits_of(&o, &co);
        co.f32 = false;
        static const struct { qsf_kv_type type; double bound;
                              } types[] = { { QSF_KV_F16, 0.1 }, { QSF_KV_Q4, 0.4 }, { QSF_KV_Q4V2, 0.9 } };
        for (size_t t = 0; t < QSF_ARRAY_LEN(types); t++) {
            co.kv_type = types[t].type;
            float *other = logits_of(&o, &co);
            const double d = exact && other ? bench_rms(exact, other, N * o.hp.n_vocab) : 9;
            if (getenv("QSF_TEST_PRINT")) printf("%s type %d: %g\n", names[i], (int)types[t].type, d);
            CHECK_NEAR(d, 0, types[t].bound);
            free(other);
        }
        free(exact);
    }
}

/* Beyond the positions that its window keeps, biases rotate as they do in a context that holds the
 * whole sequence. */
TEST(biases_of_keys_turn_on_beyond_the_context)
{
    bench b;
    tiny_options o = tiny_defaults();
    qsf_context_options co = bench_options();
    o.biases = true;
    o.key_bias = 10;
    co.kv_type = QSF_KV_Q4;
    co.kv_window = 40;
    co.n_batch = 32;
    if (!bench_write(&b, &o) || !bench_open(&b)) return;
    float *out[3];
    for (int i = 0; i < 3; i++) {
        co.n_ctx = i ? 64 : LONG;
        if (!(out[i] = bench_floats(&b, 20)) || !feed_long(&b, &co, i == 2 ? 7 : 32, 20, out[i])) return;
    }
    CHECK_NEAR(bench_distance(out[0], out[1], 20 * b.n_vocab), 0, EXACT);
    CHECK_NEAR(bench_distance(out[0], out[2], 20 * b.n_vocab), 0, CLOSE);
    for (int i = 0; i < 3; i++) free(out[i]);
    bench_end(&b);
}

TEST(a_window_longer_than_the_text_changes_nothing)
{
    static const qsf_kv_type types[] = { QSF_KV_Q8, QSF_KV_F16, QSF_KV_Q4 };
    const tiny_options o = tiny_defaults();
    for (size_t i = 0; i < QSF_ARRAY_LEN(types); i++) {
        qsf_context_options co = bench_options();
        co.kv_type = types[i];
        float *without = logits_of(&o, &co);
        co.kv_window = N;
        for (co.kv_heavy = 0; co.kv_heavy < 100; co.kv_heavy += 64) {
            float *with = logits_of(&o, &co);
            if (with && without) CHECK_NEAR(bench_distance(without, with, N * o.hp.n_vocab), 0, EXACT);
            free(with);
        }
        free(without);
    }
}

/* Each row's attention is 1 in each head and layer, wherever it goes; and of the blocks that left
 * the window the one that drew most of it is there. */
TEST(heavy_hitters_stay_beside_the_window)
{
    enum { FIRST = 100 };
    bench b;
    int32_t ids[LONG];
    const tiny_options o = tiny_defaults();
    qsf_context_options co = bench_options();
    co.n_ctx = 64;
    co.n_batch = 32;
    co.kv_window = 128;
    co.kv_heavy = 32;
    co.kv_sinks = 0;
    if (!bench_write(&b, &o) || !bench_open(&b) || !bench_context(&b, &co)) return;
    bench_tokens(ids, LONG, b.n_vocab, 12);
    CHECK_EQ(bench_feed(&b, 0, ids, FIRST, 32, NULL), QSF_OK);
    const qsf_kv_seq *q = &b.c->tables.seqs[0];
    double sum = 0;
    for (uint32_t e = 0; e < q->n; e++) sum += q->attention[e];
    CHECK_NEAR(sum / ((double)FIRST * o.hp.n_heads * o.hp.n_layers), 1, 1e-3);
    /* As much attention as nothing in this text brings, for the second block. */
    q->attention[1] += 1e6f;
    for (uint32_t at = FIRST; at + 32 <= LONG; at += 32) {
        CHECK_EQ(bench_feed(&b, 0, ids + at, 32, 32, NULL), QSF_OK);
        CHECK(q->n <= b.c->tables.n_blocks && q->n <= 1 + 128 / 32 + 1 + 1);
        CHECK_EQ(q->places[q->places[0] == 0], 1);
    }
    CHECK(!qsf_kv_whole(q) && q->places[0] == 1 && q->places[1] > 1);
    bench_end(&b);
}

/* Without sinks a window of the cache is the window that some models have themselves. */
TEST(a_window_without_sinks_is_the_models_window)
{
    bench b;
    float *out[2];
    for (int i = 0; i < 2; i++) {
        tiny_options o = tiny_defaults();
        qsf_context_options co = bench_options();
        if (i == 0) o.hp.window = 40;
        else co.kv_window = 40;
        co.kv_sinks = 0;
        co.n_ctx = i ? 64 : LONG;
        co.n_batch = 32;
        if (!bench_write(&b, &o) || !bench_open(&b)) return;
        out[i] = bench_floats(&b, 20);
        if (!feed_long(&b, &co, 32, 20, out[i])) return;
        if (i == 0) bench_end(&b);
    }
    CHECK_NEAR(bench_distance(out[0], out[1], 20 * b.n_vocab), 0, EXACT);
    bench_end(&b);
    free(out[0]);
    free(out[1]);
}

TEST(with_a_window_a_text_goes_on_beyond_the_context_in_bounded_memory)
{
    for (int i = 0; i < 2; i++) {
        bench b;
        const char *name;
        /* with layers that have windows of their own */
        const tiny_options o = i ? variant(3, &name) : tiny_defaults();
        qsf_context_options co = bench_options();
        qsf_plan plan = { .size = sizeof plan };
        co.n_ctx = 64;
        co.n_batch = 32;
        co.n_seqs = 2;
        co.kv_window = 40;
        if (!bench_write(&b, &o) || !bench_open(&b)) return;
        float *whole = bench_floats(&b, 20), *other = bench_floats(&b, 20);
        if (!feed_long(&b, &co, 32, 20, whole)) return;
        qsf_context_get_plan(b.c, &plan);
        const uint32_t used = b.c->tables.seqs[0].n;
        CHECK(used <= 1 + 2 + 1 + 1);
        CHECK(b.c->tables.n_blocks <= 2 * 5 + 1);
        static const size_t chunks[] = { 1, 7 };
        for (size_t k = 0; k < 2; k++) {
            if (!feed_long(&b, &co, chunks[k], 20, other)) return;
            CHECK_NEAR(bench_distance(whole, other, 20 * b.n_vocab), 0, CLOSE);
        }

        /* Back a few positions and on again, in this sequence and in one that shares it; not back
         * to what was dropped. */
        int32_t ids[LONG];
        bench_tokens(ids, LONG, b.n_vocab, 12);
        CHECK_EQ(qsf_seq_truncate(b.c, 0, 70), QSF_E_ARGUMENT);
        CHECK(strstr(qsf_last_error(b.c), "window") != NULL && qsf_seq_length(b.c, 0) == LONG);
        CHECK_EQ(qsf_seq_share(b.c, 1, 0, 100), QSF_E_ARGUMENT);
        CHECK_EQ(qsf_seq_truncate(b.c, 0, LONG - 6), QSF_OK);
        CHECK_EQ(qsf_seq_share(b.c, 1, 0, LONG - 6), QSF_OK);
        for (qsf_seq s = 0; s < 2; s++) {
            CHECK_EQ(bench_feed(&b, s, ids + LONG - 6, 6, 6, other), QSF_OK);
            CHECK_NEAR(bench_distance(whole + 14 * b.n_vocab, other, 6 * b.n_vocab), 0, CLOSE);
        }
        /* Within the sinks' block everything is there; then it is a sequence like any other. */
        CHECK_EQ(qsf_seq_truncate(b.c, 0, 20), QSF_OK);
        CHECK_EQ(bench_feed(&b, 0, ids + 20, 25, 25, NULL), QSF_OK);
        CHECK_EQ(qsf_seq_truncate(b.c, 0, 3), QSF_OK);
        CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
        CHECK_EQ(qsf_seq_truncate(b.c, 1, 0), QSF_OK);
        CHECK_EQ(b.c->tables.n_free, b.c->tables.n_blocks);
        free(whole);
        free(other);
        bench_end(&b);
    }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(large_biases_of_keys_take_no_codes);
    RUN(biases_of_keys_turn_on_beyond_the_context);
    RUN(a_window_longer_than_the_text_changes_nothing);
    RUN(heavy_hitters_stay_beside_the_window);
    RUN(a_window_without_sinks_is_the_models_window);
    RUN(with_a_window_a_text_goes_on_beyond_the_context_in_bounded_memory);
    return test_end();
}
