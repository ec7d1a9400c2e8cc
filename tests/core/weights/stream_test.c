/* Layers, embedding and head that pass through too little room give the logits of a model that has
 * room enough.
 * SPDX-License-Identifier: MIT */
#include "stream_models.h"

/* ---- results ---- */

/* Feeds through every budget from resident down to the smallest; all logits must be those of the
 * resident context.  Says which kinds of plan came up. */
typedef struct seen { bool two, one, ends, resident; } seen;

static seen check_budgets(bench *b, qsf_context_options co, uint64_t steps, double bound)
{
    seen seen = { 0 };
    qsf_plan plan = { .size = sizeof plan };
    int32_t ids[N];
    float *resident = bench_floats(b, N), *other = bench_floats(b, N);
    bench_tokens(ids, N, b->n_vocab, 2);
    co.ram_budget = 0;
    if (!bench_context(b, &co)) return seen;
    qsf_context_get_plan(b->c, &plan);
    CHECK_EQ(bench_feed(b, 0, ids, N, CHUNK, resident), QSF_OK);
    const uint64_t step = plan.total / steps * TEST_EVERY;
    for (uint64_t budget = plan.total; budget > step; budget -= step) {
        co.ram_budget = budget;
        const qsf_status st = bench_try(b, &co);
        if (st == QSF_E_BUDGET) break;
        if (!bench_ok(b, st)) break;
        qsf_context_get_plan(b->c, &plan);
        if (plan.kv_type != co.kv_type) break;           /* said to be a loss */
        seen.resident |= plan.resident;
        seen.two |= plan.n_slots >= 2;
        seen.one |= plan.n_slots == 1;
        seen.ends |= plan_bytes(&plan, ENDS) > 0;
        for (int round = 0; round < 2; round++) {
            CHECK_EQ(qsf_seq_truncate(b->c, 0, 0), QSF_OK);
            CHECK_EQ(bench_feed(b, 0, ids, N, CHUNK, other), QSF_OK);
            const double d = bench_distance(resident, other, N * b->n_vocab);
            CHECK_NEAR(d, 0, bound);
            if (!(d <= bound))
                printf("      budget %llu, %u buffers, ends %d\n", (unsigned long long)budget,
                       (unsigned)plan.n_slots, plan_bytes(&plan, ENDS) > 0);
        }
        if (test_failed) break;
    }
    free(resident);
    free(other);
    return seen;
}

TEST(layers_through_two_buffers_or_one_give_the_resident_logits)
{
    for (int kind = 0; kind < 6; kind += TEST_EVERY) {
        bench b;
        seen s;
        tiny_options o = layered();
        qsf_context_options co = one_thread();
        o.packing = (uint8_t)(kind % 2);
        o.compression = (uint8_t)(kind / 2 == 2 ? QSF_COMPRESS_ZSTD : kind / 2);
        if (!have_codec(o.compression)) continue;
        if (!any_write(&b, &o) || !bench_open(&b)) return;
        co.n_ctx = 64;
        co.n_batch = 8;
        s = check_budgets(&b, co, 40, 0);
        CHECK(TEST_EVERY > 1 || (s.two && s.one && s.resident));
        bench_end(&b);
    }
}

TEST(embedding_and_head_through_windows_give_the_resident_logits)
{
    for (int tied = 0; tied < 2; tied++) {
        bench b;
        qsf_context_options co = one_thread();
        const tiny_options o = wide(tied);
        if (!any_write(&b, &o) || !bench_open(&b)) return;
        co.n_ctx = 64;
        co.n_batch = 8;
        const seen s = check_budgets(&b, co, 11, 0);
        CHECK(TEST_EVERY > 1 || s.ends);
        bench_end(&b);
    }
}

/* Rows of a head that are not in tiles are multiplied as floats where they pass by; in memory they
 * are made tiles and met by 8-bit activations. */
TEST(a_head_without_tiles_through_windows_is_close)
{
    bench b;
    qsf_context_options co = one_thread();
    tiny_options o = wide(true);
    o.packing = 0;
    if (!any_write(&b, &o) || !bench_open(&b)) return;
    co.n_ctx = 64;
    co.n_batch = 8;
    const seen s = check_budgets(&b, co, 8, 0.02);
    CHECK(TEST_EVERY > 1 || s.ends);
    bench_end(&b);
}

/* Until the reading thread has ended what was begun: then the file may be changed. */
static void settle(bench *b)
{
    for (bool running = true; running;) {
        engine_lock(&b->h);
        running = b->h.running > 0;
        engine_unlock(&b->h);
    }
}

/* On its first pass, and on every pass where that is asked for. */
TEST(damage_under_a_window_is_found_and_survived)
{
    for (int kind = 0; kind < 4; kind++) {
        bench b;
        int32_t ids[N];
        qsf_context_options co = one_thread();
        const tiny_options o = wide(kind % 2);
        if (!any_write(&b, &o) || !bench_open(&b)) return;
        co.n_batch = 8;
        co.check_every = kind / 2;
        if (!bench_least(&b, &co)) return;
        float *right = bench_floats(&b, N), *again = bench_floats(&b, N);
        bench_tokens(ids, N, b.n_vocab, 3);
        CHECK_EQ(bench_feed(&b, 0, ids, N, CHUNK, right), QSF_OK);
        const qsf_source *s = b.m->source;
        for (int end = 0; end < 2; end++) {
            const uint32_t u = end ? qsf_unit_final(s) : qsf_unit_embd(s);
            if (s->units[u].stored < 2000000) continue;
            mem_file *f = bench_file(&b);
            for (int shrink = 0; shrink < 2; shrink++) {
                /* A row of the embedding that is looked up and not among those that are kept, the
                 * middle of the head. */
                int32_t fresh[N];
                for (int i = 0; i < N; i++)
                    fresh[i] = end ? ids[i]
                        : (int32_t)(((uint32_t)ids[i] + 7000u * (uint32_t)(shrink + 1)) % b.n_vocab);
                const uint64_t row = s->places[s->units[u].first_tensor] +
                    (uint64_t)(fresh[9] / 16) * 16 * 66;
                const uint64_t at = s->extents[s->units[u].first_extent].at + (end ? 1900000 : row),
                    len = f->len;
                if (!co.check_every && !bench_context(&b, &co)) return;
                settle(&b);
                if (shrink) f->len = at;
                else f->bytes[at] ^= 2;
                CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
                CHECK_EQ(bench_feed(&b, 0, fresh, N, CHUNK, again), shrink ? QSF_E_IO : QSF_E_CORRUPT);
                CHECK_EQ(qsf_step(b.c, NULL), QSF_E_ARGUMENT);
                settle(&b);
                f->len = len;
                if (!shrink) f->bytes[at] ^= 2;
                CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
                CHECK_EQ(bench_feed(&b, 0, ids, N, CHUNK, again), QSF_OK);
                CHECK_NEAR(bench_distance(right, again, N * b.n_vocab), 0, 0);
            }
        }
        free(right);
        free(again);
        bench_end(&b);
    }
}

static atomic_llong crc_bytes;
static uint32_t (*crc_below)(uint32_t crc, const void *p, size_t len);

static uint32_t crc_counted(uint32_t crc, const void *p, size_t len)
{
    crc_bytes += (long long)len;
    return crc_below(crc, p, len);
}

TEST(a_window_is_checked_on_its_first_pass_or_on_every)
{
    for (int kind = 0; kind < 4; kind++) {
        bench b;
        int32_t ids[N];
        qsf_stats stats = { .size = sizeof stats };
        qsf_context_options co = one_thread();
        const tiny_options o = wide(kind % 2);
        const long long head = 50007ll * 66;
        if (!any_write(&b, &o) || !bench_open(&b)) return;
        crc_below = b.m->source->crc32;
        b.m->source->crc32 = crc_counted;
        co.n_batch = 8;
        co.check_every = kind / 2;
        if (!bench_least(&b, &co)) return;
        bench_tokens(ids, N, b.n_vocab, 7);
        float *out = bench_floats(&b, N);
        crc_bytes = 0;
        CHECK_EQ(bench_feed(&b, 0, ids, N, CHUNK, out), QSF_OK);
        CHECK(crc_bytes > head);
        /* what was read ahead comes to an end */
        CHECK_EQ(bench_feed(&b, 1, ids, N, CHUNK, out), QSF_OK);
        qsf_context_reset_stats(b.c);
        crc_bytes = 0;
        CHECK_EQ(bench_feed(&b, 2, ids, N, CHUNK, out), QSF_OK);
        qsf_context_get_stats(b.c, &stats);
        if (co.check_every) CHECK(crc_bytes > head && stats.ns_check > 0);
        else CHECK_EQ(crc_bytes, 0);
        CHECK(stats.bytes_read > (uint64_t)head && stats.ns_prepare >= stats.ns_check && stats.overlap >= 0 &&
              stats.overlap <= 1);
        free(out);
        bench_end(&b);
    }
}

/* However many threads compute a few rows, the logits are the same; what they take is timed where
 * layers stream, and only there. */
TEST(few_rows_are_computed_by_as_many_threads_as_suit)
{
    enum { THREADS = 5 };
    bench b, alone;
    int32_t ids[N];
    const tiny_options o = layered();
    qsf_context_options co = one_thread();
    co.kv_type = QSF_KV_Q4V2;               /* what the least budget leaves */
    if (!any_write(&b, &o) || !bench_open(&b) || !any_write(&alone, &o) || !bench_open(&alone) ||
        !bench_context(&alone, &co)) return;
    co.n_threads = THREADS;
    if (!bench_least(&b, &co) || !bench_context(&b, &co)) return;
    float *mine = bench_floats(&b, N), *other = bench_floats(&b, N);
    bench_tokens(ids, N, b.n_vocab, 6);
    for (uint32_t n = 1; n <= b.c->o.n_threads; n++) {
        b.c->threads[0] = qsf_thread_count_of(THREADS);
        b.c->threads[0].other = n;
        CHECK_EQ(bench_feed(&b, 0, ids + n, 1, 1, mine), QSF_OK);
        CHECK_EQ(b.c->threads[0].passes, 1);
        CHECK_EQ(bench_feed(&alone, 0, ids + n, 1, 1, other), QSF_OK);
        CHECK(!memcmp(mine, other, b.n_vocab * sizeof *mine));
    }
    CHECK_EQ(alone.c->threads[0].passes, 0);
    CHECK_EQ(bench_feed(&b, 1, ids, CHUNK, CHUNK, mine), QSF_OK);
    CHECK_EQ(b.c->threads[1].passes, b.c->o.n_threads > 1);        /* eight rows are few still */
    free(mine);
    free(other);
    bench_end(&b);
    bench_end(&alone);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(layers_through_two_buffers_or_one_give_the_resident_logits);
    RUN(embedding_and_head_through_windows_give_the_resident_logits);
    RUN(a_head_without_tiles_through_windows_is_close);
    RUN(damage_under_a_window_is_found_and_survived);
    RUN(a_window_is_checked_on_its_first_pass_or_on_every);
    RUN(few_rows_are_computed_by_as_many_threads_as_suit);
    for (size_t i = 0; i < QSF_ARRAY_LEN(kept); i++) free(kept[i].bytes);
    return test_end();
}
