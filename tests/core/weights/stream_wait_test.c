/* Streaming on hosts that must not block, and what is read, counted and waited for.
 * SPDX-License-Identifier: MIT */
#include "stream_models.h"

/* ---- hosts that must not block ---- */

/* As an event loop has it: qsf_step alone, until it is done.  Returns how often it was waiting;
 * *ahead: something was read while something else was computed. */
static long step_through(bench *b, const int32_t *ids, float *out, bool *ahead)
{
    long waits = 0;
    for (size_t at = 0; at < N; at += CHUNK) {
        qsf_row rows[CHUNK];
        qsf_status st;
        for (size_t i = 0; i < CHUNK; i++) rows[i] = (qsf_row){ 0, ids[at + i], true };
        CHECK_EQ(qsf_batch_begin(b->c, rows, CHUNK), QSF_OK);
        for (long steps = 0;; steps++) {
            bool waiting;
            if ((st = qsf_step(b->c, &waiting)) != QSF_PENDING) break;
            waits += waiting;
            *ahead |= !waiting && b->h.running > 0;
            CHECK(steps < 10000);
            if (steps >= 10000) break;
        }
        CHECK_EQ(st, QSF_OK);
        if (st) break;
        for (size_t i = 0; i < CHUNK; i++)
            memcpy(out + (at + i) * b->n_vocab, qsf_logits(b->c, i), b->n_vocab * sizeof *out);
    }
    return waits;
}

TEST(steps_never_block_and_say_when_they_wait)
{
    for (int kind = 0; kind < 4; kind += TEST_EVERY) {
        bench b;
        int32_t ids[N];
        qsf_plan plan = { .size = sizeof plan };
        tiny_options o = kind < 2 ? layered() : wide(kind == 2);
        qsf_context_options co = one_thread();
        co.kv_type = QSF_KV_F32;          /* the only type that the smallest budget leaves as it is */
        if (kind == 1 && have_codec(QSF_COMPRESS_ZSTD)) o.compression = QSF_COMPRESS_ZSTD;
        if (!any_write(&b, &o)) return;
        engine_host_never_wait(&b.h);
        if (!bench_open(&b) || !bench_context(&b, &co)) return;
        qsf_context_get_plan(b.c, &plan);
        float *right = bench_floats(&b, N), *again = bench_floats(&b, N);
        bench_tokens(ids, N, b.n_vocab, 4);
        bool ahead = false;
        CHECK(step_through(&b, ids, right, &ahead) >= 0);
        for (uint32_t polls = 1; polls < 8; polls += 3)
            for (int resident = 0; resident < 2; resident++) {
                b.h.polls = polls;
                co.ram_budget = 0;
                if (!resident && kind < 2) co.ram_budget = plan.total - 100000;
                if (!resident && kind >= 2 && !bench_least(&b, &co)) return;
                if (!bench_context(&b, &co)) return;
                ahead = false;
                const long waits = step_through(&b, ids, again, &ahead);
                CHECK(waits > 0 && ahead);
                CHECK_NEAR(bench_distance(right, again, N * b.n_vocab), 0, 0);
                b.h.polls = 0;
            }
        free(right);
        free(again);
        bench_end(&b);
    }
}

/* The bytes of all reads are here. */
static void arrive(engine_host *h)
{
    for (int i = 0; i < ENGINE_READS; i++) h->reads[i].polls = 0;
}

/* An event loop sleeps until a read ends: one step that waits for none is the last.  Batches are
 * left at every place. */
TEST(a_step_that_waits_has_a_read_to_wait_for)
{
    enum { PLACES = 32 };
    bench b;
    qsf_plan plan = { .size = sizeof plan };
    const qsf_row row = { 0, 5, true };
    tiny_options o = layered();
    qsf_context_options co = one_thread();
    co.kv_type = QSF_KV_F32;
    /* needs the staging buffer besides */
    if (have_codec(QSF_COMPRESS_ZSTD)) o.compression = QSF_COMPRESS_ZSTD;
    if (!any_write(&b, &o)) return;
    engine_host_never_wait(&b.h);
    if (!bench_open(&b) || !bench_context(&b, &co)) return;
    qsf_context_get_plan(b.c, &plan);
    for (int least = 0; least < 2; least++) {
        co.ram_budget = plan.total - 100000;
        if (least ? !bench_least(&b, &co) : !bench_context(&b, &co)) return;
        b.h.polls = 1000000;
        for (int place = 0; place < 2 * PLACES; place++) {
            qsf_status st = QSF_PENDING;
            CHECK_EQ(qsf_batch_begin(b.c, &row, 1), QSF_OK);
            for (int steps = 0; st == QSF_PENDING && steps < (place % 2 ? 10000 : place / 2); steps++) {
                bool waiting;
                st = qsf_step(b.c, &waiting);
                CHECK(!waiting || b.h.running > 0);
                if (waiting && b.h.running == 0) return;
                if (waiting) arrive(&b.h);
            }
            arrive(&b.h);
            if (place % 2) {
                CHECK_EQ(st, QSF_OK);
                CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
            }
        }
        b.h.polls = 0;
    }
    bench_end(&b);
}

/* A row of the embedding is on its way for a batch that was left: no step of the next one
 * waits for it. */
TEST(a_left_row_of_the_embedding_holds_up_no_step)
{
    enum { POLLS = 1000000 };
    bench b;
    qsf_row row = { 0, 5, true };
    qsf_context_options co = one_thread();
    const tiny_options o = wide(false);
    if (!any_write(&b, &o)) return;
    engine_host_never_wait(&b.h);
    if (!bench_open(&b) || !bench_least(&b, &co)) return;
    b.h.polls = POLLS;
    for (int32_t token = 5; token < 50000; token += 20000) {
        const uint64_t begun = b.h.n_reads;
        bool waiting = false;
        row.token = token;
        CHECK_EQ(qsf_batch_begin(b.c, &row, 1), QSF_OK);
        CHECK_EQ(qsf_step(b.c, &waiting), QSF_PENDING);
        CHECK(waiting && b.h.running == 1);
        CHECK_EQ(b.h.n_reads - begun, token == 5);              /* the first batch's read is still there */
        for (int i = 0; i < ENGINE_READS; i++)
            if (b.h.reads[i].taken) CHECK(b.h.reads[i].polls > POLLS - 100);
    }
    qsf_status st = QSF_PENDING;
    for (int steps = 0; st == QSF_PENDING && steps < 10000; steps++) {
        arrive(&b.h);
        st = qsf_step(b.c, NULL);
    }
    CHECK_EQ(st, QSF_OK);
    bench_end(&b);
}

/* Parts of the head that are read ahead for the next batch, and fail, are read again. */
TEST(a_part_read_ahead_for_another_batch_may_fail)
{
    bench b;
    const qsf_row row = { 0, 5, true };
    qsf_context_options co = one_thread();
    const tiny_options o = wide(true);
    long steps = 0;
    qsf_status st;
    if (!any_write(&b, &o)) return;
    engine_host_never_wait(&b.h);           /* no thread: all batches have the same steps */
    if (!bench_open(&b) || !bench_least(&b, &co)) return;
    float *right = bench_floats(&b, 1);
    for (int batch = 0; batch < 4; batch++) {
        const long last = steps;
        CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
        CHECK_EQ(qsf_batch_begin(b.c, &row, 1), QSF_OK);
        for (steps = 1;; steps++) {
            b.h.doomed = batch == 2 && steps == last;
            if ((st = qsf_step(b.c, NULL)) != QSF_PENDING || steps > 10000) break;
        }
        b.h.doomed = false;
        b.h.polls = batch == 2;             /* the last batch meets the failure on its way */
        CHECK_EQ(st, QSF_OK);
        if (st) break;
        if (batch == 1) memcpy(right, qsf_logits(b.c, 0), b.n_vocab * sizeof *right);
        if (batch == 3) CHECK(!memcmp(right, qsf_logits(b.c, 0), b.n_vocab * sizeof *right));
    }
    free(right);
    bench_end(&b);
}

TEST(waiting_on_a_host_that_must_not_is_refused_and_the_batch_goes_on)
{
    bench b;
    qsf_row row = { 0, 5, true };
    const tiny_options o = layered();
    if (!any_write(&b, &o)) return;
    engine_host_never_wait(&b.h);
    if (!bench_open(&b)) return;
    const qsf_context_options co = one_thread();
    if (!bench_context(&b, &co)) return;
    b.h.polls = 3;
    bool waiting = false;
    qsf_status st;
    CHECK_EQ(qsf_batch_begin(b.c, &row, 1), QSF_OK);
    CHECK_EQ(qsf_step(b.c, &waiting), QSF_PENDING);
    CHECK(waiting);
    CHECK_EQ(qsf_wait(b.c), QSF_E_UNSUPPORTED);
    CHECK(strstr(qsf_last_error(b.c), "wait") != NULL);
    for (int i = 0; (st = qsf_step(b.c, NULL)) == QSF_PENDING && i < 1000;) i++;
    CHECK_EQ(st, QSF_OK);
    CHECK(qsf_logits(b.c, 0) != NULL);
    bench_end(&b);
}

/* A clock that advances with each reading, and by leaps. */
static uint64_t ticking;

static uint64_t tick(void *user)
{
    (void)user;
    return ticking += 1000;
}

TEST(waiting_between_steps_counts_but_not_that_before_another_batch)
{
    enum { LEAP = 1000000000 };
    bench b;
    const qsf_row row = { 0, 5, true };
    const tiny_options o = layered();
    const qsf_context_options co = one_thread();
    qsf_stats s = { .size = sizeof s };
    if (!any_write(&b, &o)) return;
    engine_host_never_wait(&b.h);
    b.h.m.p.now_ns = tick;
    if (!bench_open(&b) || !bench_context(&b, &co)) return;
    b.h.polls = 3;
    bool waiting = false;
    CHECK_EQ(qsf_batch_begin(b.c, &row, 1), QSF_OK);
    CHECK_EQ(qsf_step(b.c, &waiting), QSF_PENDING);
    CHECK(waiting);
    ticking += LEAP;                                        /* without a step */
    uint64_t leaps = 0;
    qsf_status st;
    CHECK_EQ(qsf_batch_begin(b.c, &row, 1), QSF_OK);
    while ((st = qsf_step(b.c, &waiting)) == QSF_PENDING && leaps < 1000) {
        leaps += waiting;
        ticking += waiting ? LEAP : 0;
    }
    CHECK_EQ(st, QSF_OK);
    CHECK(leaps > 0);
    qsf_context_get_stats(b.c, &s);
    CHECK_EQ(s.ns_wait_io / LEAP, leaps);
    CHECK_EQ(s.ns_read / LEAP, leaps);
    CHECK_EQ(s.ns_prompt / LEAP + s.ns_generated / LEAP, leaps);
    CHECK_NEAR(s.overlap, 0, 0.01);
    bench_end(&b);
}

TEST(reads_under_way_are_ended_when_a_context_goes_or_turns_back)
{
    for (int steps = 0; steps < 40; steps += 5 * TEST_EVERY) {
        bench b;
        int32_t ids[N];
        qsf_plan plan = { .size = sizeof plan };
        qsf_row row = { 0, 5, true };
        const tiny_options o = steps % 2 ? layered() : wide(steps % 4 == 0);
        qsf_context_options co = one_thread();
        co.kv_type = QSF_KV_F32;          /* the only type that the smallest budget leaves as it is */
        if (!any_write(&b, &o) || !bench_open(&b) || !bench_context(&b, &co)) return;
        float *right = bench_floats(&b, N), *again = bench_floats(&b, N);
        bench_tokens(ids, N, b.n_vocab, 5);
        CHECK_EQ(bench_feed(&b, 0, ids, N, CHUNK, right), QSF_OK);
        qsf_context_get_plan(b.c, &plan);
        co.ram_budget = plan.total - 100000;
        if (steps % 2 ? !bench_context(&b, &co) : !bench_least(&b, &co)) return;
        b.h.polls = 5;
        CHECK_EQ(qsf_batch_begin(b.c, &row, 1), QSF_OK);
        for (int i = 0; i < steps; i++)
            if (qsf_step(b.c, NULL) != QSF_PENDING) break;
        CHECK_EQ(bench_feed(&b, 1, ids, N, CHUNK, again), QSF_OK);
        CHECK_NEAR(bench_distance(right, again, N * b.n_vocab), 0, 0);
        CHECK_EQ(qsf_batch_begin(b.c, &row, 1), QSF_OK);
        for (int i = 0; i < steps; i++)
            if (qsf_step(b.c, NULL) != QSF_PENDING) break;
        free(right);
        free(again);
        bench_end(&b);
    }
}

/* The embedding of a model whose head is another matrix is evicted first; a row is not read again
 * while it is among those that are kept. */
TEST(rows_of_the_embedding_that_were_used_lately_are_not_read_again)
{
    enum { MANY = 300 };        /* more than are kept */
    bench b;
    qsf_plan plan = { .size = sizeof plan };
    qsf_stats stats = { .size = sizeof stats };
    qsf_context_options co = one_thread();
    const tiny_options o = wide(false);
    if (!any_write(&b, &o) || !bench_open(&b)) return;
    co.n_ctx = 2 * MANY;
    if (!bench_context(&b, &co)) return;
    qsf_context_get_plan(b.c, &plan);
    float *right = bench_floats(&b, 1), *again = bench_floats(&b, 1);
    const int32_t first = 12345;
    CHECK_EQ(bench_feed(&b, 0, &first, 1, 1, right), QSF_OK);
    co.ram_budget = plan.total - 1;
    if (!bench_context(&b, &co)) return;
    qsf_context_get_plan(b.c, &plan);
    CHECK(plan.resident && plan_bytes(&plan, "window on the embedding") > 0 &&
          plan_bytes(&plan, "final norm and head") > 0);
    CHECK_EQ(bench_feed(&b, 0, &first, 1, 1, again), QSF_OK);      /* loads the layers and the head, too */
    CHECK_NEAR(bench_distance(right, again, b.n_vocab), 0, 0);
    qsf_context_reset_stats(b.c);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
    CHECK_EQ(bench_feed(&b, 0, &first, 1, 1, again), QSF_OK);
    CHECK_NEAR(bench_distance(right, again, b.n_vocab), 0, 0);
    qsf_context_get_stats(b.c, &stats);
    CHECK_EQ(stats.bytes_read, 0);
    /* far apart: each in a chunk of its own or nearly so */
    for (int32_t i = 0; i < MANY; i++) {
        const int32_t id = 16 * 9 * i;
        CHECK_EQ(qsf_feed(b.c, 1, &id, 1, NULL), QSF_OK);
    }
    qsf_context_get_stats(b.c, &stats);
    const uint64_t before = stats.bytes_read;
    CHECK(before > 0);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
    CHECK_EQ(bench_feed(&b, 0, &first, 1, 1, again), QSF_OK);       /* gone, and read anew */
    CHECK_NEAR(bench_distance(right, again, b.n_vocab), 0, 0);
    qsf_context_get_stats(b.c, &stats);
    CHECK(stats.bytes_read > before);
    free(right);
    free(again);
    bench_end(&b);
}

TEST(the_bytes_that_were_read_are_counted)
{
    bench b;
    int32_t ids[N];
    qsf_stats stats = { .size = sizeof stats };
    qsf_context_options co = one_thread();
    const tiny_options o = wide(true);
    if (!any_write(&b, &o) || !bench_open(&b)) return;
    co.n_batch = 8;
    if (!bench_least(&b, &co)) return;
    bench_tokens(ids, N, b.n_vocab, 6);
    float *out = bench_floats(&b, N);
    CHECK_EQ(bench_feed(&b, 0, ids, N, CHUNK, out), QSF_OK);
    qsf_context_get_stats(b.c, &stats);
    CHECK(stats.bytes_read > 2 * 50007ull * 66);        /* each of two batches goes through the whole head */
    CHECK_EQ(stats.tokens_prompt, 0);
    CHECK_EQ(stats.tokens_generated, N);                /* every row asked for logits */
    CHECK_EQ(qsf_feed(b.c, 0, ids, 1, NULL), QSF_OK);
    qsf_context_get_stats(b.c, &stats);
    CHECK_EQ(stats.tokens_prompt, 1);
    CHECK_EQ(stats.tokens_generated, N);
    CHECK(stats.n_threads == 1 && stats.isa != NULL);
    qsf_context_reset_stats(b.c);
    qsf_context_get_stats(b.c, &stats);
    CHECK_EQ(stats.bytes_read, 0);
    CHECK_EQ(stats.tokens_prompt, 0);
    free(out);
    bench_end(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(steps_never_block_and_say_when_they_wait);
    RUN(a_step_that_waits_has_a_read_to_wait_for);
    RUN(a_left_row_of_the_embedding_holds_up_no_step);
    RUN(a_part_read_ahead_for_another_batch_may_fail);
    RUN(waiting_on_a_host_that_must_not_is_refused_and_the_batch_goes_on);
    RUN(waiting_between_steps_counts_but_not_that_before_another_batch);
    RUN(reads_under_way_are_ended_when_a_context_goes_or_turns_back);
    RUN(rows_of_the_embedding_that_were_used_lately_are_not_read_again);
    RUN(the_bytes_that_were_read_are_counted);
    for (size_t i = 0; i < QSF_ARRAY_LEN(kept); i++) free(kept[i].bytes);
    return test_end();
}
