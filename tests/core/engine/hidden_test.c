/* Hidden states and embeddings: those that the head gets, the same to the bit in every batch and
 * budget.
 * SPDX-License-Identifier: MIT */
#include "stream_models.h"

enum { LONG = 40 };     /* tokens: several batches, and more than a block of keys and values */

static float *floats(size_t n) { return calloc(n, sizeof(float)); }

/* Rows [0, n) of the last batch, pooled by hand in double precision. */
static void pooled(const float *rows, size_t n, uint32_t n_embd, qsf_pooling how, double *out)
{
    double sum = 0;
    for (uint32_t k = 0; k < n_embd; k++) {
        out[k] = 0;
        for (size_t i = 0; i < n; i++)
            if (how == QSF_POOL_MEAN || i == (how == QSF_POOL_FIRST ? 0 : n - 1))
                out[k] += (double)rows[i * n_embd + k];
        sum += out[k] * out[k];
    }
    for (uint32_t k = 0; k < n_embd; k++) out[k] /= sqrt(sum);
}

TEST(hidden_states_are_what_the_head_gets)
{
    for (int kind = 0; kind < 2; kind++) {
        bench b;
        int32_t ids[N];
        qsf_row rows[N];
        tiny_options o = layered();
        if (kind) o.hp.norm = QSF_NORM_LAYER;
        if (kind) o.biases = true;
        if (!bench_begin(&b, &o)) return;
        bench_tokens(ids, N, b.n_vocab, 3);
        for (int i = 0; i < N; i++) rows[i] = (qsf_row){ i % 2, ids[i], i % 3 != 0 };
        CHECK_EQ(qsf_compute(b.c, rows, N), QSF_OK);
        CHECK(!qsf_hidden(b.c, 0));                     /* not asked */
        qsf_hidden_ask(b.c, true);
        CHECK(!qsf_hidden(b.c, 0));
        CHECK_EQ(qsf_compute(b.c, rows, N), QSF_OK);
        for (int i = 0, j = 0; i < N; i++) {
            CHECK(qsf_hidden(b.c, (size_t)i) != NULL);
            if (i % 3 == 0) continue;
            const float *head = b.c->on_cpu.b.xn + (size_t)j++ * b.c->on_cpu.b.ld_embd;
            CHECK(!memcmp(qsf_hidden(b.c, (size_t)i), head, o.hp.n_embd * sizeof *head));
        }
        CHECK(!qsf_hidden(b.c, N));
        CHECK_EQ(qsf_batch_begin(b.c, rows, N), QSF_OK);
        CHECK(!qsf_hidden(b.c, 0));                     /* under way */
        CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
        CHECK(!qsf_hidden(b.c, 0));                     /* dropped */
        qsf_hidden_ask(b.c, false);
        CHECK_EQ(qsf_compute(b.c, rows, N), QSF_OK);
        CHECK(!qsf_hidden(b.c, 0));
        bench_end(&b);
    }
}

TEST(pooling_takes_the_mean_the_first_or_the_last)
{
    static const qsf_pooling kinds[] = { QSF_POOL_MEAN, QSF_POOL_FIRST, QSF_POOL_LAST, QSF_POOL_RANK };
    bench b;
    int32_t ids[N];
    qsf_row rows[N];
    const tiny_options o = layered();
    const uint32_t n_embd = o.hp.n_embd;
    if (!bench_begin(&b, &o)) return;
    float *states = floats((size_t)N * n_embd), *out = floats(n_embd), *other = floats(n_embd);
    double *right = calloc(n_embd, sizeof *right);
    bench_tokens(ids, N, b.n_vocab, 4);
    for (int i = 0; i < N; i++) rows[i] = (qsf_row){ 0, ids[i], false };
    qsf_hidden_ask(b.c, true);
    CHECK_EQ(qsf_compute(b.c, rows, N), QSF_OK);
    for (size_t i = 0; i < N; i++)
        memcpy(states + i * n_embd, qsf_hidden(b.c, i), n_embd * sizeof *states);
    for (size_t k = 0; k < QSF_ARRAY_LEN(kinds); k++) {
        pooled(states, N, n_embd, kinds[k], right);
        CHECK(qsf_hidden_pool(b.c, 0, N, 0, N, kinds[k], out));
        for (uint32_t i = 0; i < n_embd; i++) CHECK_NEAR(out[i], right[i], 1e-6);
        CHECK(qsf_hidden_pool(b.c, 0, 5, 0, N, kinds[k], other));
        CHECK(qsf_hidden_pool(b.c, 5, N - 5, 5, N, kinds[k], other));
        CHECK(!memcmp(out, other, n_embd * sizeof *out));
    }
    CHECK(qsf_hidden_pool(b.c, 0, N, 0, N, QSF_POOL_MEAN, out));
    CHECK(qsf_hidden_pool(b.c, 0, N, 0, N, QSF_POOL_NONE, other));
    CHECK(!memcmp(out, other, n_embd * sizeof *out));
    CHECK(!qsf_hidden_pool(b.c, 1, N, 0, N, QSF_POOL_MEAN, other));     /* no such rows */
    CHECK(!qsf_hidden_pool(b.c, 0, 0, 0, N, QSF_POOL_MEAN, other));
    CHECK(!qsf_hidden_pool(b.c, 0, 2, N - 1, N, QSF_POOL_MEAN, other));
    CHECK(!memcmp(out, other, n_embd * sizeof *out));
    free(states);
    free(out);
    free(other);
    free(right);
    bench_end(&b);
}

TEST(an_embedding_is_the_same_whatever_else_is_in_the_batch)
{
    enum { TEXTS = 3 };
    static const size_t lengths[TEXTS] = { LONG, 17, 1 };
    bench b;
    int32_t ids[TEXTS + 1][LONG];
    float *alone[TEXTS], *mixed[TEXTS];
    const tiny_options o = layered();
    const uint32_t n_embd = o.hp.n_embd;
    if (!bench_begin(&b, &o)) return;
    for (int t = 0; t <= TEXTS; t++) bench_tokens(ids[t], LONG, b.n_vocab, 40 + (uint64_t)t);
    for (int t = 0; t < TEXTS; t++) {
        alone[t] = floats(n_embd);
        mixed[t] = floats(n_embd);
        CHECK_EQ(qsf_embed(b.c, 3, ids[t], lengths[t], QSF_POOL_MEAN, alone[t]), QSF_OK);
        CHECK_EQ(qsf_seq_truncate(b.c, 3, 0), QSF_OK);
    }
    qsf_hidden_ask(b.c, true);
    for (uint64_t seed = 1; seed < 6; seed++) {
        size_t at[TEXTS] = { 0 };
        uint64_t rng = seed;
        for (int s = 0; s < 4; s++) CHECK_EQ(qsf_seq_truncate(b.c, s, 0), QSF_OK);
        for (int step = 0; step < LONG; step++) {
            qsf_row rows[64];
            size_t n = 0, first[TEXTS], more[TEXTS];
            for (int t = 0; t < TEXTS; t++) {
                const size_t left = lengths[t] - at[t];
                more[t] = QSF_MIN(left, 1 + (size_t)(tiny_uniform(&rng) * 13));
                first[t] = n;
                for (size_t i = 0; i < more[t]; i++) rows[n++] = (qsf_row){ t, ids[t][at[t] + i], false };
            }
            if (!n) break;
            rows[n++] = (qsf_row){ 3, ids[TEXTS][step], step % 2 == 0 };        /* somebody's answer */
            CHECK_EQ(qsf_compute(b.c, rows, n), QSF_OK);
            for (int t = 0; t < TEXTS; t++) {
                if (more[t])
                    CHECK(qsf_hidden_pool(b.c, first[t], more[t], at[t], lengths[t], QSF_POOL_MEAN,
                                          mixed[t]));
                at[t] += more[t];
            }
        }
        for (int t = 0; t < TEXTS; t++) CHECK(!memcmp(alone[t], mixed[t], n_embd * sizeof(float)));
    }
    for (int t = 0; t < TEXTS; t++) {
        free(alone[t]);
        free(mixed[t]);
    }
    bench_end(&b);
}

/* The embedding of the same text through every budget; seen: which plans came up. */
static void check_embeddings(bench *b, uint32_t n_embd, uint64_t steps, bool *layers, bool *ends)
{
    qsf_context_options co = one_thread();
    qsf_plan plan = { .size = sizeof plan };
    int32_t ids[N];
    float *resident = floats(n_embd), *other = floats(n_embd);
    co.n_ctx = 64;
    co.n_batch = 8;
    bench_tokens(ids, N, b->n_vocab, 5);
    if (!bench_context(b, &co)) return;
    qsf_context_get_plan(b->c, &plan);
    CHECK_EQ(qsf_embed(b->c, 0, ids, N, QSF_POOL_MEAN, resident), QSF_OK);
    const uint64_t step = plan.total / steps * TEST_EVERY;
    for (uint64_t budget = plan.total; budget > step; budget -= step) {
        co.ram_budget = budget;
        const qsf_status st = bench_try(b, &co);
        if (st == QSF_E_BUDGET || !bench_ok(b, st)) break;
        qsf_context_get_plan(b->c, &plan);
        if (plan.kv_type != co.kv_type) break;
        *layers |= plan.n_slots > 0;
        *ends |= plan_bytes(&plan, ENDS) > 0;
        for (int round = 0; round < 2; round++) {
            CHECK_EQ(qsf_seq_truncate(b->c, 0, 0), QSF_OK);
            CHECK_EQ(qsf_embed(b->c, 0, ids, N, QSF_POOL_MEAN, other), QSF_OK);
            CHECK(!memcmp(resident, other, n_embd * sizeof *other));
        }
        /* And together with logits, of a head that may be computed in parts. */
        const qsf_row row = { 1, ids[0], true };
        qsf_hidden_ask(b->c, true);
        CHECK_EQ(qsf_compute(b->c, &row, 1), QSF_OK);
        CHECK(qsf_hidden(b->c, 0) && qsf_logits(b->c, 0));
        qsf_hidden_ask(b->c, false);
    }
    free(resident);
    free(other);
}

TEST(embeddings_through_every_budget_are_those_of_a_resident_model)
{
    bool layers = false, ends = false;
    for (int kind = 0; kind < 3; kind++) {
        bench b;
        const tiny_options o = kind ? wide(kind == 2) : layered();
        if (!any_write(&b, &o) || !bench_open(&b)) return;
        check_embeddings(&b, o.hp.n_embd, kind ? 11 : 40, &layers, &ends);
        bench_end(&b);
    }
    CHECK(TEST_EVERY > 1 || (layers && ends));
}

TEST(rows_of_hidden_states_do_not_exit_early)
{
    bench b;
    int32_t ids[N];
    qsf_stats stats = { .size = sizeof stats };
    qsf_context_options co = bench_options();
    tiny_options o = layered();
    o.hp.n_layers = 12;
    co.early_exit = 0.01f;
    if (!bench_write(&b, &o) || !bench_open(&b) || !bench_context(&b, &co)) return;
    bench_tokens(ids, N, b.n_vocab, 6);
    for (int asked = 1; asked >= 0; asked--) {
        qsf_hidden_ask(b.c, asked);
        for (int i = 0; i < N; i++) {
            const qsf_row row = { 0, ids[i], true };
            CHECK_EQ(qsf_compute(b.c, &row, 1), QSF_OK);
            CHECK(!asked || qsf_hidden(b.c, 0));
        }
        qsf_context_get_stats(b.c, &stats);
        CHECK_EQ(stats.layers_left == 0, asked);
    }
    /* Rows that wait for their layers join a batch that asks; its states are its own rows'. */
    const qsf_row row = { 1, ids[0], false };
    float first[256];
    qsf_hidden_ask(b.c, true);
    CHECK_EQ(qsf_compute(b.c, &row, 1), QSF_OK);
    memcpy(first, qsf_hidden(b.c, 0), o.hp.n_embd * sizeof *first);
    CHECK_EQ(qsf_seq_truncate(b.c, 1, 0), QSF_OK);
    CHECK_EQ(qsf_compute(b.c, &row, 1), QSF_OK);
    CHECK(!memcmp(first, qsf_hidden(b.c, 0), o.hp.n_embd * sizeof *first));
    bench_end(&b);
}

TEST(embed_refuses_what_it_cannot_do)
{
    bench b;
    int32_t ids[200];
    const tiny_options o = layered();
    float *out = floats(o.hp.n_embd);
    if (!bench_begin(&b, &o)) return;
    bench_tokens(ids, 200, b.n_vocab, 7);
    CHECK_EQ(qsf_embed(b.c, 0, ids, 0, QSF_POOL_MEAN, out), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_embed(b.c, -1, ids, 3, QSF_POOL_MEAN, out), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_embed(b.c, 0, ids, 200, QSF_POOL_MEAN, out), QSF_E_FULL);
    CHECK_EQ(qsf_seq_length(b.c, 0), 0);
    CHECK_EQ(qsf_embed(b.c, 0, ids, 128, QSF_POOL_MEAN, out), QSF_OK);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
    ids[1] = -1;
    CHECK_EQ(qsf_embed(b.c, 0, ids, 3, QSF_POOL_MEAN, out), QSF_E_ARGUMENT);
    ids[1] = 1;
    const qsf_row row = { 0, 1, false };
    CHECK_EQ(qsf_compute(b.c, &row, 1), QSF_OK);
    CHECK(!qsf_hidden(b.c, 0));                         /* what it asked for is forgotten */
    free(out);
    bench_end(&b);
}

TEST(embeddings_by_steps_are_those_of_one_call)
{
    enum { WIDTH = 256 };
    static const size_t lens[2] = { 5, LONG };
    bench b;
    int32_t ids[5 + LONG];
    float whole[2 * WIDTH], steps[2 * WIDTH];
    qsf_embed_run *e;
    const tiny_options o = layered();
    const uint32_t n = o.hp.n_embd;
    if (!bench_begin(&b, &o)) return;
    bench_tokens(ids, 5 + LONG, b.n_vocab, 8);
    CHECK_EQ(qsf_embed_texts(b.c, ids, lens, 2, NULL, whole), QSF_OK);
    for (int cancelled = 1; cancelled >= 0; cancelled--) {
        bool waiting;
        int pending = 0;
        CHECK_EQ(qsf_embed_begin(b.c, ids, lens, 2, NULL, steps, &e), QSF_OK);
        qsf_status st;
        while ((st = qsf_embed_step(e, &waiting)) == QSF_PENDING && !(cancelled && pending))
            pending++, waiting ? (void)qsf_wait(b.c) : (void)0;
        CHECK_EQ(st, cancelled ? QSF_PENDING : QSF_OK);
        CHECK(pending > 0);
        if (!cancelled) CHECK_EQ(qsf_embed_step(e, NULL), QSF_OK);
        qsf_embed_end(e);
        CHECK_EQ(qsf_seq_length(b.c, 0), 0);
        const qsf_row row = { 0, 1, true };             /* the context computes again, without states */
        CHECK_EQ(qsf_compute(b.c, &row, 1), QSF_OK);
        CHECK(!qsf_hidden(b.c, 0) && qsf_logits(b.c, 0));
    }
    CHECK(!memcmp(whole, steps, 2 * n * sizeof *steps));
    const size_t none = 0;
    CHECK_EQ(qsf_embed_begin(b.c, ids, &none, 1, NULL, steps, &e), QSF_E_ARGUMENT);
    CHECK(!e && strstr(qsf_last_error(b.c), "no tokens"));
    CHECK_EQ(qsf_rerank_begin(b.c, ids, lens, 1, steps, &e), QSF_E_UNSUPPORTED);
    CHECK(!e && *qsf_last_error(b.c));
    qsf_embed_end(NULL);
    bench_end(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(hidden_states_are_what_the_head_gets);
    RUN(pooling_takes_the_mean_the_first_or_the_last);
    RUN(an_embedding_is_the_same_whatever_else_is_in_the_batch);
    RUN(embeddings_through_every_budget_are_those_of_a_resident_model);
    RUN(rows_of_hidden_states_do_not_exit_early);
    RUN(embed_refuses_what_it_cannot_do);
    RUN(embeddings_by_steps_are_those_of_one_call);
    for (size_t i = 0; i < QSF_ARRAY_LEN(kept); i++) free(kept[i].bytes);
    return test_end();
}
