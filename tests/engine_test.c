/* The engine on small random models: batches, sequences, streaming, formats, damage.
 * SPDX-License-Identifier: MIT
 *
 * Two bounds.  EXACT: the same kernels see the same rows, so every bit is the same.  CLOSE: the same rows in batches of another size; sums
 * are then made in another order, and a difference in the last bit may move an 8-bit code of an activation or of the KV cache by one. */
#include "compress.h"
#include "engine_bench.h"
#include "qsf_repair.h"

#define EXACT 0
#define CLOSE 0.02          /* of the largest logit */
#define CLOSE_F32 1e-5      /* without 8-bit activations */

enum { N = 45 };            /* tokens of most tests: one block of the KV cache and a part of another */

static bool have_codec(uint32_t c) { return qsf_codec_check(c, "", NULL) == QSF_OK; }

/* ---- batches ---- */

/* All ways to cut N tokens give the logits of one batch. */
static void check_cuts(bench *b, const qsf_context_options *o, double bound, const char *what)
{
    static const size_t cuts[] = { 1, 3, 8, 32 };
    int32_t ids[N];
    float *whole = bench_floats(b, N), *cut = bench_floats(b, N);
    bench_tokens(ids, N, b->n_vocab, 7);
    if (!bench_context(b, o)) return;
    CHECK_EQ(bench_feed(b, 0, ids, N, N, whole), QSF_OK);
    for (size_t i = 0; i < QSF_ARRAY_LEN(cuts); i++) {
        CHECK_EQ(qsf_seq_truncate(b->c, 0, 0), QSF_OK);
        CHECK_EQ(bench_feed(b, 0, ids, N, cuts[i], cut), QSF_OK);
        const double d = bench_distance(whole, cut, N * b->n_vocab);
        CHECK_NEAR(d, 0, bound);
        if (!(d <= bound)) printf("      %s, batches of %d\n", what, (int)cuts[i]);
        CHECK_EQ(qsf_seq_length(b->c, 0), N);
    }
    free(whole);
    free(cut);
}

TEST(a_prompt_in_any_batches_gives_the_same_logits)
{
    static const uint8_t types[] = { QSF_T_4BIT, QSF_T_8BIT, QSF_T_2BIT, QSF_T_TERNARY, QSF_T_5BIT_S, QSF_T_F16 };
    for (size_t i = 0; i < QSF_ARRAY_LEN(types); i += TEST_EVERY) {
        bench b;
        tiny_options o = tiny_defaults();
        qsf_context_options co = bench_options();
        o.type = types[i];
        o.block = (uint16_t)(32 << i % 4);
        if (!bench_write(&b, &o) || !bench_open(&b)) return;
        for (int kv = QSF_KV_F16; kv <= QSF_KV_Q4V2; kv++) {
            co.kv_type = (qsf_kv_type)kv;
            if (kv > QSF_KV_F32 && i) continue;          /* one type of weights is enough for them */
            check_cuts(&b, &co, CLOSE, qsf_type_get(types[i])->name);
        }
        co.f32 = true;
        check_cuts(&b, &co, CLOSE_F32, qsf_type_get(types[i])->name);
        bench_end(&b);
    }
}

static tiny_options variant(int i, const char **name)
{
    tiny_options o = tiny_defaults();
    static const char *const names[] = { "layer norm, GELU, biases, learned positions", "norms on q and k, after attention and FFN, window, soft caps",
                                         "ReLU, pairs, ungated, odd sizes", "linear scaling, local base", "YaRN" };
    *name = names[i];
    switch (i) {
    case 0:
        o.hp.norm = QSF_NORM_LAYER;
        o.hp.act = QSF_ACT_GELU;
        o.hp.rope = QSF_ROPE_NONE;
        o.hp.gated = false;
        o.hp.learned_pos = o.biases = true;
        o.hp.n_kv_heads = 4;
        break;
    case 1:
        o.qk_norms = o.post_norms = true;
        o.hp.act = QSF_ACT_GELU;
        o.hp.window = 16;
        o.hp.window_pattern = 2;
        o.hp.attn_softcap = 20;
        o.hp.final_softcap = 10;
        o.hp.embd_scale = 8;
        break;
    case 2:
        o.hp.act = QSF_ACT_RELU;
        o.hp.rope = QSF_ROPE_PAIRS;
        o.hp.gated = false;
        o.hp.n_embd = 72;
        o.hp.n_ff = 100;
        o.hp.n_vocab = 301;
        o.hp.tied = false;
        break;
    case 3:
        o.hp.scaling = QSF_SCALING_LINEAR;
        o.hp.scaling_factor = 4;
        o.hp.rope_base_local = 1000;
        o.hp.window = 8;
        o.hp.window_pattern = 2;
        break;
    default:
        o.hp.scaling = QSF_SCALING_YARN;
        o.hp.scaling_factor = 4;
        o.hp.scaling_orig_ctx = 32;
        o.hp.rope_dim = 8;
    }
    return o;
}

TEST(every_architecture_gives_the_same_logits_in_any_batches_and_threads)
{
    for (int i = 0; i < 5; i++) {
        bench b;
        const char *name;
        const tiny_options o = variant(i, &name);
        qsf_context_options co = bench_options();
        if (!bench_write(&b, &o) || !bench_open(&b)) return;
        co.n_threads = 3;
        check_cuts(&b, &co, CLOSE, name);
        co.f32 = true;
        check_cuts(&b, &co, CLOSE_F32, name);
        bench_end(&b);
    }
}

TEST(threads_do_not_change_a_bit)
{
    static const uint32_t threads[] = { 2, 3, 7 };
    bench b;
    int32_t ids[N];
    const tiny_options o = tiny_defaults();
    qsf_context_options co = bench_options();
    if (!bench_begin(&b, &o)) return;
    float *one = bench_floats(&b, N), *more = bench_floats(&b, N);
    bench_tokens(ids, N, b.n_vocab, 8);
    CHECK_EQ(bench_feed(&b, 0, ids, N, 20, one), QSF_OK);
    for (size_t i = 0; i < QSF_ARRAY_LEN(threads); i++) {
        co.n_threads = threads[i];
        if (!bench_context(&b, &co)) return;
        CHECK_EQ(bench_feed(&b, 0, ids, N, 20, more), QSF_OK);
        CHECK_NEAR(bench_distance(one, more, N * b.n_vocab), 0, EXACT);
    }
    free(one);
    free(more);
    bench_end(&b);
}

TEST(the_last_row_alone_has_the_logits_it_has_among_all)
{
    bench b;
    int32_t ids[N];
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    float *all = bench_floats(&b, N);
    const float *last;
    bench_tokens(ids, N, b.n_vocab, 9);
    CHECK_EQ(bench_feed(&b, 0, ids, N, N, all), QSF_OK);
    CHECK_EQ(qsf_feed(b.c, 1, ids, N, &last), QSF_OK);
    CHECK_NEAR(bench_distance(all + (N - 1) * b.n_vocab, last, b.n_vocab), 0, CLOSE);
    /* A batch that asks for nothing ends well and has nothing. */
    CHECK_EQ(qsf_feed(b.c, 2, ids, N, NULL), QSF_OK);
    CHECK(qsf_logits(b.c, 0) == NULL);
    free(all);
    bench_end(&b);
}

TEST(logits_are_there_for_rows_that_asked_and_no_others)
{
    bench b;
    const tiny_options o = tiny_defaults();
    qsf_row rows[6] = { { 0, 5, false }, { 0, 6, true }, { 1, 7, false }, { 0, 8, true }, { 2, 5, true }, { 1, 9, false } };
    int32_t ids[3] = { 5, 6, 8 };
    if (!bench_begin(&b, &o)) return;
    float *alone = bench_floats(&b, 3);
    CHECK_EQ(bench_feed(&b, 0, ids, 3, 3, alone), QSF_OK);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
    CHECK_EQ(qsf_batch_begin(b.c, rows, 6), QSF_OK);
    CHECK(qsf_logits(b.c, 0) == NULL);
    CHECK_EQ(qsf_compute(b.c, rows, 6), QSF_OK);
    CHECK_NEAR(bench_distance(alone + b.n_vocab, qsf_logits(b.c, 0), b.n_vocab), 0, CLOSE);
    CHECK_NEAR(bench_distance(alone + 2 * b.n_vocab, qsf_logits(b.c, 1), b.n_vocab), 0, CLOSE);
    CHECK_NEAR(bench_distance(alone, qsf_logits(b.c, 2), b.n_vocab), 0, CLOSE);
    CHECK(qsf_logits(b.c, 3) == NULL);
    CHECK(qsf_logits(b.c, SIZE_MAX) == NULL);
    free(alone);
    bench_end(&b);
}

TEST(wrong_batches_are_refused_and_change_nothing)
{
    bench b;
    const tiny_options o = tiny_defaults();
    qsf_context_options co = bench_options();
    qsf_row rows[65] = { { 0, 1, true } };
    bool waiting;
    if (!bench_write(&b, &o) || !bench_open(&b)) return;
    co.n_logits = 2;
    if (!bench_context(&b, &co)) return;
    CHECK_EQ(qsf_compute(b.c, rows, 1), QSF_OK);
    for (int i = 1; i < 65; i++) rows[i] = rows[0];
    CHECK_EQ(qsf_batch_begin(b.c, rows, 0), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_batch_begin(b.c, rows, 65), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_batch_begin(b.c, rows, 3), QSF_E_ARGUMENT);
    CHECK(strstr(qsf_last_error(b.c), "n_logits") != NULL);
    CHECK_EQ(qsf_batch_begin(b.c, &(qsf_row){ 0, -1, true }, 1), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_batch_begin(b.c, &(qsf_row){ 0, (int32_t)b.n_vocab, true }, 1), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_batch_begin(b.c, &(qsf_row){ -1, 1, true }, 1), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_batch_begin(b.c, &(qsf_row){ 4, 1, true }, 1), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_step(b.c, &waiting), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_step(b.c, NULL), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_wait(b.c), QSF_OK);
    CHECK_EQ(qsf_feed(b.c, 0, NULL, 0, NULL), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_feed(b.c, 9, &(int32_t){ 1 }, 1, NULL), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 2), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_truncate(b.c, -1, 0), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_truncate(b.c, 4, 0), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_share(b.c, 1, 0, 2), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_share(b.c, 4, 0, 1), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_share(b.c, 1, -1, 1), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_length(b.c, 0), 1);
    CHECK_EQ(qsf_seq_length(b.c, 1), 0);
    CHECK_EQ(qsf_seq_length(b.c, -1), 0);
    CHECK_EQ(qsf_seq_length(b.c, 4), 0);
    CHECK_EQ(qsf_compute(b.c, rows, 2), QSF_OK);
    CHECK_STR(qsf_last_error(b.c), "");
    bench_end(&b);
}

TEST(wrong_options_are_refused)
{
    bench b;
    const tiny_options o = tiny_defaults();
    if (!bench_write(&b, &o) || !bench_open(&b)) return;
    const qsf_context_options good = bench_options();
    qsf_context_options bad[9];
    for (int i = 0; i < 9; i++) bad[i] = good;
    bad[0].n_threads = 257;
    bad[1].n_batch = 0;
    bad[2].n_batch = 1 << 20;
    bad[3].n_seqs = 0;
    bad[4].n_ctx = UINT32_MAX;
    bad[5].kv_type = (qsf_kv_type)7;
    bad[6].quality = 1.5f;
    bad[7].quality = NAN;
    bad[8].isa = "no such set";
    for (int i = 0; i < 9; i++) {
        const qsf_status st = bench_try(&b, &bad[i]);
        CHECK_EQ(st, i == 8 ? QSF_E_UNSUPPORTED : QSF_E_ARGUMENT);
        CHECK(b.c == NULL && b.error.text[0] != 0);
    }
    CHECK_EQ(bench_try(&b, &good), QSF_OK);
    CHECK_EQ(bench_try(&b, NULL), QSF_OK);
    bench_end(&b);
}

/* ---- sequences ---- */

TEST(interleaved_sequences_equal_sequences_alone)
{
    enum { SEQS = 3 };
    static const size_t lengths[SEQS] = { 20, 37, 5 };
    bench b;
    int32_t ids[SEQS][N];
    float *alone[SEQS], *mixed[SEQS];
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    for (int s = 0; s < SEQS; s++) {
        alone[s] = bench_floats(&b, N);
        mixed[s] = bench_floats(&b, N);
        bench_tokens(ids[s], N, b.n_vocab, 20 + (uint64_t)s);
        CHECK_EQ(bench_feed(&b, 3, ids[s], lengths[s], 64, alone[s]), QSF_OK);
        CHECK_EQ(qsf_seq_truncate(b.c, 3, 0), QSF_OK);
    }
    for (uint64_t seed = 1; seed < 6; seed++) {
        size_t at[SEQS] = { 0 }, from[64];
        uint64_t rng = seed;
        for (int s = 0; s < SEQS; s++) CHECK_EQ(qsf_seq_truncate(b.c, s, 0), QSF_OK);
        for (;;) {
            qsf_row rows[64];
            size_t n = 0;
            const size_t want = 1 + (size_t)(tiny_uniform(&rng) * 30);
            for (int tries = 0; tries < 400 && n < want; tries++) {
                const int s = (int)(tiny_uniform(&rng) * SEQS);
                if (at[s] == lengths[s]) continue;
                from[n] = at[s];
                rows[n++] = (qsf_row){ s, ids[s][at[s]++], true };
            }
            if (n == 0) break;
            CHECK_EQ(qsf_compute(b.c, rows, n), QSF_OK);
            for (size_t i = 0; i < n; i++) memcpy(mixed[rows[i].seq] + from[i] * b.n_vocab, qsf_logits(b.c, i), b.n_vocab * sizeof(float));
        }
        for (int s = 0; s < SEQS; s++) CHECK_NEAR(bench_distance(alone[s], mixed[s], lengths[s] * b.n_vocab), 0, CLOSE);
    }
    for (int s = 0; s < SEQS; s++) {
        free(alone[s]);
        free(mixed[s]);
    }
    bench_end(&b);
}

TEST(a_shared_prefix_continues_as_a_fresh_run_does)
{
    static const uint32_t prefixes[] = { 1, 7, 31, 32, 33, 44 };
    bench b;
    int32_t ids[2][N];
    const tiny_options o = tiny_defaults();
    qsf_context_options co = bench_options();
    if (!bench_write(&b, &o) || !bench_open(&b)) return;
    co.n_ctx = 256;
    if (!bench_context(&b, &co)) return;
    float *fresh[2] = { bench_floats(&b, N), bench_floats(&b, N) }, *shared = bench_floats(&b, N);
    for (size_t p = 0; p < QSF_ARRAY_LEN(prefixes); p++) {
        const uint32_t n = prefixes[p];
        for (int i = 0; i < 2; i++) {
            bench_tokens(ids[i], N, b.n_vocab, 30 + (uint64_t)i);
            memcpy(ids[i], ids[0], n * sizeof(int32_t));
            CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
            CHECK_EQ(bench_feed(&b, 0, ids[i], N, 1, fresh[i]), QSF_OK);
        }
        CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
        CHECK_EQ(bench_feed(&b, 0, ids[0], N, 1, NULL), QSF_OK);
        CHECK_EQ(qsf_seq_share(b.c, 1, 0, n), QSF_OK);
        CHECK_EQ(qsf_seq_share(b.c, 2, 1, n), QSF_OK);
        CHECK_EQ(qsf_seq_length(b.c, 1), n);
        /* The copy goes another way, then the copy's copy goes the first, then the first does not notice. */
        CHECK_EQ(bench_feed(&b, 1, ids[1] + n, N - n, 1, shared), QSF_OK);
        CHECK_NEAR(bench_distance(fresh[1] + n * b.n_vocab, shared, (N - n) * b.n_vocab), 0, EXACT);
        CHECK_EQ(bench_feed(&b, 2, ids[0] + n, N - n, 1, shared), QSF_OK);
        CHECK_NEAR(bench_distance(fresh[0] + n * b.n_vocab, shared, (N - n) * b.n_vocab), 0, EXACT);
        CHECK_EQ(qsf_seq_truncate(b.c, 0, n), QSF_OK);
        CHECK_EQ(bench_feed(&b, 0, ids[1] + n, N - n, 1, shared), QSF_OK);
        CHECK_NEAR(bench_distance(fresh[1] + n * b.n_vocab, shared, (N - n) * b.n_vocab), 0, EXACT);
        for (int s = 1; s < 3; s++) CHECK_EQ(qsf_seq_truncate(b.c, s, 0), QSF_OK);
    }
    /* Sharing with itself only cuts. */
    CHECK_EQ(qsf_seq_share(b.c, 0, 0, 3), QSF_OK);
    CHECK_EQ(qsf_seq_length(b.c, 0), 3);
    for (int i = 0; i < 2; i++) free(fresh[i]);
    free(shared);
    bench_end(&b);
}

TEST(a_cut_sequence_continues_as_a_fresh_run_does)
{
    bench b;
    int32_t ids[N], other[N];
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    float *fresh = bench_floats(&b, N), *again = bench_floats(&b, N);
    bench_tokens(ids, N, b.n_vocab, 40);
    bench_tokens(other, N, b.n_vocab, 41);
    CHECK_EQ(bench_feed(&b, 0, ids, N, 1, fresh), QSF_OK);
    for (uint32_t n = 0; n < N; n += 4) {
        CHECK_EQ(qsf_seq_truncate(b.c, 0, n), QSF_OK);
        CHECK_EQ(bench_feed(&b, 0, other, N, 16, NULL), QSF_OK);
        CHECK_EQ(qsf_seq_truncate(b.c, 0, n), QSF_OK);
        CHECK_EQ(bench_feed(&b, 0, ids + n, N - n, 1, again), QSF_OK);
        CHECK_NEAR(bench_distance(fresh + n * b.n_vocab, again, (N - n) * b.n_vocab), 0, EXACT);
    }
    free(fresh);
    free(again);
    bench_end(&b);
}

/* A batch is left after k steps, for every k and in every way of leaving it. */
TEST(a_dropped_batch_leaves_everything_as_it_was)
{
    bench b;
    int32_t ids[N];
    qsf_row rows[20];
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    float *fresh = bench_floats(&b, N), *again = bench_floats(&b, N);
    bench_tokens(ids, N, b.n_vocab, 50);
    CHECK_EQ(bench_feed(&b, 0, ids, N, 1, fresh), QSF_OK);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 25), QSF_OK);
    CHECK_EQ(qsf_seq_share(b.c, 1, 0, 25), QSF_OK);
    for (int i = 0; i < 20; i++) rows[i] = (qsf_row){ i % 3 == 2 ? 2 : i % 3, 100 + i, true };
    for (int k = 0; k < 4; k++)
        for (int way = 0; way < 4; way++) {
            bool waiting;
            CHECK_EQ(qsf_batch_begin(b.c, rows, 20), QSF_OK);
            for (int i = 0; i < k; i++) {
                const qsf_status st = qsf_step(b.c, &waiting);
                CHECK_EQ(st, QSF_PENDING);
                if (waiting) CHECK_EQ(qsf_wait(b.c), QSF_OK);
                if (waiting) i--;
                if (st != QSF_PENDING) break;
            }
            CHECK_EQ(qsf_seq_length(b.c, 0), 25);       /* the batch has not happened yet */
            CHECK_EQ(qsf_seq_length(b.c, 2), 0);
            if (way == 1) CHECK_EQ(qsf_seq_truncate(b.c, 2, 0), QSF_OK);
            if (way == 2) CHECK_EQ(qsf_seq_share(b.c, 3, 0, 25), QSF_OK);
            if (way == 3) CHECK_EQ(qsf_batch_begin(b.c, rows, 0), QSF_E_ARGUMENT);
            CHECK_EQ(bench_feed(&b, 0, ids + 25, N - 25, 1, again), QSF_OK);
            CHECK_NEAR(bench_distance(fresh + 25 * b.n_vocab, again, (N - 25) * b.n_vocab), 0, EXACT);
            CHECK_EQ(qsf_seq_truncate(b.c, 0, 25), QSF_OK);
            CHECK_EQ(qsf_seq_length(b.c, 1), 25);
            CHECK_EQ(qsf_seq_length(b.c, 2), 0);
        }
    free(fresh);
    free(again);
    bench_end(&b);
}

TEST(a_full_context_is_an_error_and_nothing_is_lost)
{
    bench b;
    int32_t ids[64];
    qsf_row rows[64];
    const tiny_options o = tiny_defaults();
    qsf_context_options co = bench_options();
    if (!bench_write(&b, &o) || !bench_open(&b)) return;
    co.n_ctx = 64;
    co.n_seqs = 2;
    if (!bench_context(&b, &co)) return;
    float *fresh = bench_floats(&b, 64), *again = bench_floats(&b, 64);
    bench_tokens(ids, 64, b.n_vocab, 60);
    CHECK_EQ(bench_feed(&b, 0, ids, 64, 1, fresh), QSF_OK);
    CHECK_EQ(bench_feed(&b, 0, ids, 1, 1, NULL), QSF_E_FULL);
    CHECK(strstr(qsf_last_error(b.c), "64") != NULL);
    CHECK_EQ(qsf_seq_length(b.c, 0), 64);
    /* A batch that fits only in part is not begun at all. */
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 50), QSF_OK);
    for (int i = 0; i < 15; i++) rows[i] = (qsf_row){ 0, ids[50], true };
    CHECK_EQ(qsf_batch_begin(b.c, rows, 15), QSF_E_FULL);
    CHECK_EQ(qsf_step(b.c, NULL), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_length(b.c, 0), 50);
    CHECK_EQ(bench_feed(&b, 0, ids + 50, 14, 1, again), QSF_OK);
    CHECK_NEAR(bench_distance(fresh + 50 * b.n_vocab, again, 14 * b.n_vocab), 0, EXACT);
    /* Two sequences share the positions; the last block of each may be begun. */
    CHECK_EQ(bench_feed(&b, 1, ids, 32, 32, NULL), QSF_OK);
    CHECK_EQ(bench_feed(&b, 1, ids, 1, 1, NULL), QSF_E_FULL);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 32), QSF_OK);
    CHECK_EQ(bench_feed(&b, 1, ids, 1, 1, NULL), QSF_OK);
    /* feed computes nothing of what does not fit whole, and says how much does. */
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
    CHECK_EQ(qsf_seq_truncate(b.c, 1, 0), QSF_OK);
    CHECK_EQ(qsf_seq_room(b.c, 0), 64);
    CHECK_EQ(qsf_feed(b.c, 0, ids, 40, NULL), QSF_OK);
    CHECK_EQ(qsf_seq_room(b.c, 0), 24);
    qsf_stats before, after;
    qsf_context_get_stats(b.c, &before);
    CHECK_EQ(qsf_feed(b.c, 0, ids, 40, NULL), QSF_E_FULL);
    CHECK(strstr(qsf_last_error(b.c), "40 tokens") && strstr(qsf_last_error(b.c), "64 positions") &&
        strstr(qsf_last_error(b.c), "24 more"));
    qsf_context_get_stats(b.c, &after);
    CHECK_EQ(after.tokens_prompt, before.tokens_prompt);
    CHECK_EQ(qsf_seq_length(b.c, 0), 40);
    /* What another sequence has taken is no room, and a shared block that must be copied takes one. */
    CHECK_EQ(qsf_seq_room(b.c, 1), 32);
    CHECK_EQ(qsf_seq_share(b.c, 1, 0, 40), QSF_OK);
    CHECK_EQ(qsf_seq_room(b.c, 1), 24);
    CHECK_EQ(qsf_feed(b.c, 1, ids, 24, NULL), QSF_OK);
    CHECK_EQ(qsf_seq_room(b.c, 1), 0);
    CHECK_EQ(qsf_seq_room(b.c, 2), 0);
    CHECK_EQ(qsf_feed(b.c, 2, ids, 1, NULL), QSF_E_ARGUMENT);
    free(fresh);
    free(again);
    bench_end(&b);
}

/* ---- formats ---- */

/* Logits of N tokens, 15 at a time, of a file with these options. */
static float *logits_of(const tiny_options *o, const qsf_context_options *co)
{
    bench b;
    int32_t ids[N];
    float *out = NULL;
    if (!bench_write(&b, o) || !bench_open(&b) || !bench_context(&b, co)) return NULL;
    out = bench_floats(&b, N);
    bench_tokens(ids, N, b.n_vocab, 70);
    CHECK_EQ(bench_feed(&b, 0, ids, N, 15, out), QSF_OK);
    bench_end(&b);
    return out;
}

TEST(packing_and_compression_do_not_change_a_bit)
{
    for (int tied = 0; tied < 2; tied++) {
        tiny_options o = tiny_defaults();
        const qsf_context_options co = bench_options();
        o.hp.tied = tied;
        o.outliers = true;
        float *plain = logits_of(&o, &co);
        for (uint8_t c = QSF_COMPRESS_NONE; c <= QSF_COMPRESS_ZSTD; c++)
            for (uint8_t packing = 0; packing < 2; packing++) {
                if (!have_codec(c)) continue;
                o.packing = packing;
                o.compression = c;
                float *other = logits_of(&o, &co);
                if (plain && other) CHECK_NEAR(bench_distance(plain, other, N * o.hp.n_vocab), 0, EXACT);
                free(other);
            }
        free(plain);
    }
}

/* With key biases as well, as long as a key, and with a head that is no power of two. */
TEST(kv_types_and_float_arithmetic_are_close)
{
    static const struct { qsf_kv_type type; double bound; } types[] = {
        { QSF_KV_F32, 0.1 }, { QSF_KV_F16, 0.1 }, { QSF_KV_Q8, 0.1 }, { QSF_KV_Q8V4, 0.25 }, { QSF_KV_Q4, 0.35 }, { QSF_KV_Q4V2, 0.8 }, { QSF_KV_Q2, 1.1 },
    };
    for (int shape = 0; shape < 3; shape++) {
        tiny_options o = tiny_defaults();
        qsf_context_options co = bench_options();
        double last = 0;
        o.biases = shape == 1;
        if (shape == 2) o.hp.head_dim = 24;
        co.f32 = true;
        float *exact = logits_of(&o, &co);
        co.f32 = false;
        for (size_t i = 0; i < QSF_ARRAY_LEN(types); i++) {
            co.kv_type = types[i].type;
            float *other = logits_of(&o, &co);
            const double d = exact && other ? bench_rms(exact, other, N * o.hp.n_vocab) : 9;
            CHECK_NEAR(d, 0, types[i].bound);
            if (getenv("QSF_TEST_PRINT")) printf("shape %d type %d: %g\n", shape, (int)types[i].type, d);
            last = d;
            free(other);
        }
        CHECK(last > 0);
        free(exact);
    }
}

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

/* As Qwen 2 has them: far larger than what tokens add, and turning with the position, at which few bits would fail. */
TEST(large_biases_of_keys_take_no_codes)
{
    static const char *const names[] = { "halves", "pairs", "part of the head, YaRN", "odd head" };
    for (int i = 0; i < 4; i += TEST_EVERY) {
        tiny_options o = tiny_defaults();
        qsf_context_options co = bench_options();
        o.biases = true;
        o.key_bias = 10;
        if (i == 1) o.hp.rope = QSF_ROPE_PAIRS;
        if (i == 2) o.hp.scaling = QSF_SCALING_YARN, o.hp.scaling_factor = 4, o.hp.scaling_orig_ctx = 32, o.hp.rope_dim = 8;
        if (i == 3) o.hp.head_dim = 24;
        co.f32 = true;
        float *exact = logits_of(&o, &co);
        co.f32 = false;
        static const struct { qsf_kv_type type; double bound; } types[] = { { QSF_KV_F16, 0.1 }, { QSF_KV_Q4, 0.4 }, { QSF_KV_Q4V2, 0.9 } };
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

/* Where a text has left its window's memory behind, biases turn as they do in a context that holds all of it. */
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

/* Each row's attention is 1 in each head and layer, wherever it goes; and of the blocks that left the window the one that drew most of it is there. */
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
    const qsf_kv_seq *q = &b.c->kv.seqs[0];
    double sum = 0;
    for (uint32_t e = 0; e < q->n; e++) sum += q->heat[e];
    CHECK_NEAR(sum / ((double)FIRST * o.hp.n_heads * o.hp.n_layers), 1, 1e-3);
    /* As much heat as nothing in this text brings, for the second block. */
    q->heat[1] += 1e6f;
    for (uint32_t at = FIRST; at + 32 <= LONG; at += 32) {
        CHECK_EQ(bench_feed(&b, 0, ids + at, 32, 32, NULL), QSF_OK);
        CHECK(q->n <= b.c->kv.n_blocks && q->n <= 1 + 128 / 32 + 1 + 1);
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
        const tiny_options o = i ? variant(3, &name) : tiny_defaults();     /* with layers that have windows of their own */
        qsf_context_options co = bench_options();
        qsf_plan plan;
        co.n_ctx = 64;
        co.n_batch = 32;
        co.n_seqs = 2;
        co.kv_window = 40;
        if (!bench_write(&b, &o) || !bench_open(&b)) return;
        float *whole = bench_floats(&b, 20), *other = bench_floats(&b, 20);
        if (!feed_long(&b, &co, 32, 20, whole)) return;
        qsf_context_get_plan(b.c, &plan);
        const uint32_t used = b.c->kv.seqs[0].n;
        CHECK(used <= 1 + 2 + 1 + 1);
        CHECK(b.c->kv.n_blocks <= 2 * 5 + 1);
        static const size_t chunks[] = { 1, 7 };
        for (size_t k = 0; k < 2; k++) {
            if (!feed_long(&b, &co, chunks[k], 20, other)) return;
            CHECK_NEAR(bench_distance(whole, other, 20 * b.n_vocab), 0, CLOSE);
        }

        /* Back a few positions and on again, in this sequence and in one that shares it; not back to what was dropped. */
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
        CHECK_EQ(b.c->kv.n_free, b.c->kv.n_blocks);
        free(whole);
        free(other);
        bench_end(&b);
    }
}

/* A file whose down projections are floats with outliers beside them equals one where they are added in. */
TEST(outliers_are_added_to_their_matrix)
{
    bench b;
    int32_t ids[N];
    tiny_options o = tiny_defaults();
    const qsf_context_options co = bench_options();
    o.type = QSF_T_F32;
    o.outliers = true;
    if (!bench_begin(&b, &o)) return;
    float *beside = bench_floats(&b, N), *inside = bench_floats(&b, N), *without = bench_floats(&b, N);
    bench_tokens(ids, N, b.n_vocab, 90);
    CHECK_EQ(bench_feed(&b, 0, ids, N, 15, beside), QSF_OK);
    const qsf_source *s = b.m->source;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t u = 0; u < s->hp.n_layers; u++) {
            const uint32_t first = s->units[u].first_tensor;
            const uint32_t out = first + (uint32_t)qsf_unit_find(s, u, QSF_K_OUTLIERS + QSF_K_FFN_DOWN);
            const uint32_t down = first + (uint32_t)qsf_unit_find(s, u, QSF_K_FFN_DOWN);
            uint8_t *unit = bench_file(&b)->bytes + s->extents[s->units[u].first_extent].at, *sparse = unit + s->places[out];
            const qsf_tensor *t = &s->tensors[out];
            uint8_t *cols = sparse + 4 * (t->rows + 1), *deltas = cols + 4 * (uint64_t)t->cols;
            for (uint32_t r = 0; pass == 0 && r < t->rows; r++)
                for (uint32_t i = qsf_le32(sparse + 4 * r); i < qsf_le32(sparse + 4 * r + 4); i++) {
                    uint8_t *w = unit + s->places[down] + 4 * ((uint64_t)r * s->tensors[down].cols + qsf_le32(cols + 4 * i));
                    qsf_put32(w, qsf_f32_bits(qsf_lef32(w) + qsf_f16_to_f32(qsf_le16(deltas + 2 * i))));
                }
            if (pass == 0) memset(deltas, 0, 2 * (size_t)t->cols);
            else memset(unit + s->places[down], 0, (size_t)s->tensors[down].bytes);
        }
        qsf_repair(bench_file(&b)->bytes, bench_file(&b)->len);
        qsf_context_free(b.c);
        qsf_model_close(b.m);
        b.c = NULL;
        b.m = NULL;
        if (!bench_open(&b) || !bench_context(&b, &co)) return;
        s = b.m->source;
        CHECK_EQ(bench_feed(&b, 0, ids, N, 15, pass ? without : inside), QSF_OK);
    }
    CHECK_NEAR(bench_distance(beside, inside, N * b.n_vocab), 0, CLOSE);
    CHECK(bench_distance(beside, without, N * b.n_vocab) > 0.1);
    free(beside);
    free(inside);
    free(without);
    bench_end(&b);
}

/* ---- damage ---- */

/* The engine meets damage in unit u with this context: an error, an unharmed state, and the right logits once the file is whole again. */
static void check_damage(bench *b, const float *right, const int32_t *ids, uint32_t u, bool shrink)
{
    mem_file *f = bench_file(b);
    const qsf_source *s = b->m->source;
    const uint64_t at = s->extents[s->units[u].first_extent].at, len = f->len, hit = at + s->units[u].stored / 2;
    float *again = bench_floats(b, N);
    if (shrink) f->len = hit;
    else f->bytes[hit] ^= 0x10;
    const qsf_status st = bench_feed(b, 0, ids, N, 15, again);
    CHECK_EQ(st, shrink ? QSF_E_IO : QSF_E_CORRUPT);
    CHECK(strstr(qsf_last_error(b->c), "m") != NULL && strlen(qsf_last_error(b->c)) > 10);
    CHECK_EQ(qsf_seq_length(b->c, 0), 0);
    CHECK_EQ(qsf_step(b->c, NULL), QSF_E_ARGUMENT);
    CHECK(qsf_logits(b->c, 0) == NULL);
    CHECK(bench_feed(b, 0, ids, N, 15, again) == st);       /* the error stays as long as the damage does */
    f->len = len;
    if (!shrink) f->bytes[hit] ^= 0x10;
    CHECK_EQ(bench_feed(b, 0, ids, N, 15, again), QSF_OK);
    CHECK_NEAR(bench_distance(right, again, N * b->n_vocab), 0, EXACT);
    free(again);
}

TEST(damage_found_while_running_is_an_error_and_the_context_lives_on)
{
    for (int variant = 0; variant < 4; variant++) {
        bench b;
        int32_t ids[N];
        tiny_options o = tiny_defaults();
        qsf_context_options co = bench_options();
        qsf_plan plan;
        o.hp.tied = variant % 2 == 0;
        o.hp.n_layers = 4;
        if (variant >= 2 && have_codec(QSF_COMPRESS_LZ4)) o.compression = QSF_COMPRESS_LZ4;
        if (!bench_begin(&b, &o)) return;
        qsf_context_get_plan(b.c, &plan);
        if (variant == 1 || variant == 3) co.ram_budget = plan.total - 40000;
        float *right = bench_floats(&b, N);
        bench_tokens(ids, N, b.n_vocab, 100);
        CHECK_EQ(bench_feed(&b, 0, ids, N, 15, right), QSF_OK);
        for (uint32_t u = 0; u < b.m->source->n_units; u++)
            for (int shrink = 0; shrink < 2; shrink++) {
                if (!bench_context(&b, &co)) return;
                check_damage(&b, right, ids, u, shrink);
            }
        free(right);
        bench_end(&b);
    }
}

/* Scales that are no numbers, in a file whose checksums are right: the error names where they show, and nothing
 * is lost. */
TEST(numbers_that_are_none_are_an_error_that_names_the_layer)
{
    static const uint16_t bad[] = { 0x7e00, 0x7c00, 0xfc00 };       /* NaN and the infinities as halves */
    bench b;
    int32_t ids[N];
    tiny_options o = tiny_defaults();
    o.hp.n_layers = 4;
    o.hp.tied = false;
    if (!bench_begin(&b, &o)) return;
    float *right = bench_floats(&b, N), *again = bench_floats(&b, N);
    bench_tokens(ids, N, b.n_vocab, 100);
    CHECK_EQ(bench_feed(&b, 0, ids, N, 15, right), QSF_OK);
    for (uint32_t layer = 0; layer <= o.hp.n_layers; layer++)
        for (size_t i = 0; i < QSF_ARRAY_LEN(bad); i++) {
            const qsf_weights *w;
            char where[32];
            const bool head = layer == o.hp.n_layers;
            const uint32_t unit = head ? qsf_unit_final(b.m->source) : layer;
            CHECK_EQ(qsf_loader_get(&b.c->loader, unit, &w, NULL), QSF_OK);
            const qsf_matrix *m = &w->m[head ? QSF_K_OUTPUT : QSF_K_FFN_DOWN];
            uint8_t *scale = (uint8_t *)(uintptr_t)m->t.data;      /* of a tile's first row */
            const uint16_t old = qsf_le16(scale);
            qsf_put16(scale, bad[i]);
            CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
            CHECK_EQ(bench_feed(&b, 0, ids, N, 15, again), QSF_E_CORRUPT);
            snprintf(where, sizeof where, head ? "output head" : "layer %u ", (unsigned)layer);
            CHECK(strstr(qsf_last_error(b.c), where) && strstr(qsf_last_error(b.c), "not finite"));
            qsf_put16(scale, old);
            CHECK_EQ(bench_feed(&b, 0, ids, N, 15, again), QSF_OK);
            CHECK(!memcmp(right, again, (size_t)N * b.n_vocab * sizeof *right));
        }
    free(right);
    free(again);
    bench_end(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(a_prompt_in_any_batches_gives_the_same_logits);
    RUN(every_architecture_gives_the_same_logits_in_any_batches_and_threads);
    RUN(threads_do_not_change_a_bit);
    RUN(the_last_row_alone_has_the_logits_it_has_among_all);
    RUN(logits_are_there_for_rows_that_asked_and_no_others);
    RUN(wrong_batches_are_refused_and_change_nothing);
    RUN(wrong_options_are_refused);
    RUN(interleaved_sequences_equal_sequences_alone);
    RUN(a_shared_prefix_continues_as_a_fresh_run_does);
    RUN(a_cut_sequence_continues_as_a_fresh_run_does);
    RUN(a_dropped_batch_leaves_everything_as_it_was);
    RUN(a_full_context_is_an_error_and_nothing_is_lost);
    RUN(packing_and_compression_do_not_change_a_bit);
    RUN(kv_types_and_float_arithmetic_are_close);
    RUN(large_biases_of_keys_take_no_codes);
    RUN(biases_of_keys_turn_on_beyond_the_context);
    RUN(a_window_longer_than_the_text_changes_nothing);
    RUN(heavy_hitters_stay_beside_the_window);
    RUN(a_window_without_sinks_is_the_models_window);
    RUN(with_a_window_a_text_goes_on_beyond_the_context_in_bounded_memory);
    RUN(outliers_are_added_to_their_matrix);
    RUN(damage_found_while_running_is_an_error_and_the_context_lives_on);
    RUN(numbers_that_are_none_are_an_error_that_names_the_layer);
    return test_end();
}
