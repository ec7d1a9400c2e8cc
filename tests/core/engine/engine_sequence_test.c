/* Sequences: those that share a batch or a prefix, that are cut or full, give the logits of a run
 * of their own.
 * SPDX-License-Identifier: MIT */
#include "engine_variants.h"

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
            for (size_t i = 0; i < n; i++)
                memcpy(mixed[rows[i].seq] + from[i] * b.n_vocab, qsf_logits(b.c, i),
                       b.n_vocab * sizeof(float));
        }
        for (int s = 0; s < SEQS; s++)
            CHECK_NEAR(bench_distance(alone[s], mixed[s], lengths[s] * b.n_vocab), 0, CLOSE);
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
        /* The copy goes another way, then the copy's copy goes the first, then the first does
         * not notice. */
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

TEST(usage_counts_shared_blocks_once_and_listed_ones_twice)
{
    bench b;
    int32_t ids[N];
    const tiny_options o = tiny_defaults();
    qsf_context_options co = bench_options();
    if (!bench_write(&b, &o) || !bench_open(&b)) return;
    co.n_ctx = 256;
    if (!bench_context(&b, &co)) return;
    qsf_kv_usage u = { .size = sizeof u };
    CHECK_EQ(qsf_context_get_kv_usage(b.c, &u), QSF_OK);
    const uint32_t all = u.n_blocks, block = u.block;
    CHECK(block && all * block >= 256 && u.n_free == all && !u.n_listed && !u.positions);
    bench_tokens(ids, N, b.n_vocab, 7);
    CHECK(block + 1 <= N);
    CHECK_EQ(qsf_feed(b.c, 0, ids, block + 1, NULL), QSF_OK);
    CHECK_EQ(qsf_seq_share(b.c, 1, 0, block + 1), QSF_OK);
    CHECK_EQ(qsf_context_get_kv_usage(b.c, &u), QSF_OK);
    CHECK(u.n_free == all - 2 && u.n_listed == 4 && u.positions == 2 * (block + 1));
    CHECK_EQ(qsf_feed(b.c, 1, ids, 1, NULL), QSF_OK);       /* the last block is copied, the first is not */
    CHECK_EQ(qsf_context_get_kv_usage(b.c, &u), QSF_OK);
    CHECK(u.n_free == all - 3 && u.n_listed == 4 && u.positions == 2 * block + 3);
    for (int s = 0; s < 2; s++) CHECK_EQ(qsf_seq_truncate(b.c, s, 0), QSF_OK);
    CHECK_EQ(qsf_context_get_kv_usage(b.c, &u), QSF_OK);
    CHECK(u.n_free == all && !u.n_listed && !u.positions);
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
    qsf_stats before = { .size = sizeof before }, after = { .size = sizeof after };
    qsf_context_get_stats(b.c, &before);
    CHECK_EQ(qsf_feed(b.c, 0, ids, 40, NULL), QSF_E_FULL);
    CHECK(strstr(qsf_last_error(b.c), "40 tokens") && strstr(qsf_last_error(b.c), "64 positions") &&
        strstr(qsf_last_error(b.c), "24 more"));
    qsf_context_get_stats(b.c, &after);
    CHECK_EQ(after.tokens_prompt, before.tokens_prompt);
    CHECK_EQ(qsf_seq_length(b.c, 0), 40);
    /* What another sequence has taken is not free, and a shared block that must be copied takes
     * one more. */
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

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(interleaved_sequences_equal_sequences_alone);
    RUN(a_shared_prefix_continues_as_a_fresh_run_does);
    RUN(usage_counts_shared_blocks_once_and_listed_ones_twice);
    RUN(a_cut_sequence_continues_as_a_fresh_run_does);
    RUN(a_dropped_batch_leaves_everything_as_it_was);
    RUN(a_full_context_is_an_error_and_nothing_is_lost);
    return test_end();
}
