/* The plan: no more is taken than planned, every budget works or is refused with one that would,
 * and what has to be reduced is reduced in the documented order.
 * SPDX-License-Identifier: MIT */
#include "stream_models.h"

/* ---- the plan and what is really taken ---- */

/* What the context asked its reserve for is what was planned, to the byte, except slots that the
 * plan could not know to be needless, and the rounding of pieces. */
static void check_planned_is_taken(const bench *b)
{
    const qsf_source *s = b->m->source;
    const qsf_fetch *f = &b->c->fetch;
    const uint32_t threads = b->c->o.n_threads;
    const uint64_t most = qsf_fetch_tables(s, s->n_units, threads);
    const uint64_t needless = most - qsf_fetch_tables(s, f->n_weights, threads);
    const uint64_t no_thread = f->worker ? 0 : qsf_worker_bytes();
    CHECK_EQ(b->c->reserve.asked + needless + no_thread + qsf_plan_rounding(s), b->c->reserve.cap);
}

/* Everything that model and context hold, against the plan; stacks, the program's own and a sampler
 * are not seen here. */
static void check_budget(bench *b, const qsf_context_options *o)
{
    qsf_plan plan = { .size = sizeof plan };
    int32_t ids[N];
    uint64_t sum = 0;
    b->h.m.peak_bytes = b->h.m.live_bytes;
    const uint64_t before = b->h.n_allocs;
    if (!bench_context(b, o)) return;
    /* The context, its threads, two tables of the plan, and one piece for all else. */
    if (!QSF_RESERVE_APART) CHECK_EQ(b->h.n_allocs - before, 5);
    check_planned_is_taken(b);
    qsf_context_get_plan(b->c, &plan);
    for (size_t i = 0; i < plan.n_items; i++) sum += plan.items[i].bytes;
    CHECK_EQ(sum, plan.total);
    if (o->ram_budget) CHECK(plan.total <= o->ram_budget);
    const uint64_t seen = plan.total - plan_bytes(&plan, "thread stacks") - plan_bytes(&plan, "sampler") -
        plan_bytes(&plan, "program");
    const uint64_t allocs = b->h.n_allocs;
    bench_tokens(ids, N, b->n_vocab, 1);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(qsf_seq_truncate(b->c, 0, 0), QSF_OK);
        CHECK_EQ(bench_feed(b, 0, ids, N, CHUNK, NULL), QSF_OK);
        CHECK_EQ(qsf_seq_share(b->c, 1, 0, N - 1), QSF_OK);
        CHECK_EQ(bench_feed(b, 1, ids, 1, 1, NULL), QSF_OK);
        CHECK_EQ(qsf_seq_truncate(b->c, 1, 0), QSF_OK);
    }
    CHECK_EQ(b->h.n_allocs, allocs);
    CHECK(b->h.m.peak_bytes <= seen);
    if (b->h.m.peak_bytes > seen)
        printf("      %llu bytes were planned, %llu taken; budget %llu\n", (unsigned long long)seen,
               (unsigned long long)b->h.m.peak_bytes, (unsigned long long)o->ram_budget);
}

TEST(no_more_memory_is_taken_than_planned_and_none_after_the_beginning)
{
    for (int kind = 0; kind < 4; kind += TEST_EVERY) {
        bench b;
        qsf_plan plan = { .size = sizeof plan };
        tiny_options o = kind < 2 ? layered() : wide(kind == 2);
        if (kind == 1 && have_codec(QSF_COMPRESS_LZ4)) o.compression = QSF_COMPRESS_LZ4;
        if (kind == 1) o.packing = 0;
        if (!any_write(&b, &o) || !bench_open(&b)) return;
        qsf_context_options co = one_thread();
        check_budget(&b, &co);
        qsf_context_get_plan(b.c, &plan);
        const uint64_t step = plan.total / 12;
        for (int i = 1; i < 12; i++) {
            co.ram_budget = plan.total - (uint64_t)i * step;
            const qsf_status st = bench_try(&b, &co);
            if (st == QSF_E_BUDGET) break;
            CHECK_EQ(st, QSF_OK);
            check_budget(&b, &co);
        }
        bench_end(&b);
    }
}

/* Every option that changes what a context keeps, without a budget and in three. */
typedef struct planned {
    qsf_kv_type   kv;
    qsf_head_mode head;
    uint32_t      n_seqs, window, threads;
    float         exit;
    bool          f32;
} planned;

static const planned all_planned[] = {
    { .kv = QSF_KV_F16, .n_seqs = 4, .threads = 2 },
    { .kv = QSF_KV_Q8, .n_seqs = 1, .threads = 1, .exit = 0.9f },
    { .kv = QSF_KV_Q4V2, .n_seqs = 3, .window = 64, .threads = 1 },
    { .kv = QSF_KV_F32, .n_seqs = 2, .threads = 2, .f32 = true },
    { .kv = QSF_KV_Q8V4, .head = QSF_HEAD_SCREEN, .n_seqs = 1, .threads = 2 },
    { .kv = QSF_KV_Q2, .head = QSF_HEAD_CLUSTERS, .n_seqs = 2, .threads = 1 },
};

static void check_planned(bench *b, const planned *of)
{
    qsf_plan plan = { .size = sizeof plan };
    qsf_context_options co = one_thread();
    co.kv_type = of->kv;
    co.head = of->head;
    co.n_seqs = of->n_seqs;
    co.kv_window = of->window;
    co.n_threads = of->threads;
    co.early_exit = of->exit;
    co.f32 = of->f32;
    if (bench_try(b, &co)) {
        CHECK_EQ(of->head, QSF_HEAD_CLUSTERS);      /* which not every file has */
        return;
    }
    qsf_context_get_plan(b->c, &plan);
    const uint64_t total = plan.total, least = plan.least;
    check_planned_is_taken(b);
    for (uint64_t i = 0; i < 3; i++) {
        co.ram_budget = least + (total - least) * i / 3;
        if (bench_context(b, &co)) check_planned_is_taken(b);
    }
}

TEST(what_is_planned_is_what_is_taken)
{
    for (int kind = 0; kind < 5; kind++) {
        bench b;
        static tiny_clusters clusters;
        tiny_options o = kind < 3 ? layered() : wide(kind == 3);
        if (kind == 1 && have_codec(QSF_COMPRESS_LZ4)) o.compression = QSF_COMPRESS_LZ4;
        if (kind == 2) {
            CHECK(tiny_clusters_make(&clusters, o.hp.n_vocab, o.hp.n_embd, 0.5f));
            o.clusters = &clusters.k;
        }
        if (!any_write(&b, &o) || !bench_open(&b)) return;
        for (size_t i = 0; i < QSF_ARRAY_LEN(all_planned); i += TEST_EVERY)
            check_planned(&b, &all_planned[i]);
        bench_end(&b);
        if (kind == 2) tiny_clusters_free(&clusters);
    }
}

static uint64_t least_budget(const char *text)
{
    const char *at = strstr(text, "at least ");
    return at ? strtoull(at + 9, NULL, 10) * 1000000 : 0;
}

TEST(too_small_a_budget_names_the_smallest_that_works)
{
    for (int kind = 0; kind < 5; kind += TEST_EVERY) {
        bench b;
        tiny_options o = kind == 4 ? layered() : wide(kind % 2);
        if (kind == 4) {
            o.hp.n_layers = 2;
            o.hp.n_ff = 3000;
        }
        if (kind >= 2 && kind < 4) o.packing = 0;
        if (!any_write(&b, &o) || !bench_open(&b)) return;
        qsf_context_options co = one_thread();
        co.n_threads = 2;
        co.kv_type = QSF_KV_F16;
        co.n_ctx = 0;
        co.ram_budget = 1;
        CHECK_EQ(bench_try(&b, &co), QSF_E_BUDGET);
        const uint64_t least = least_budget(b.error.text);
        CHECK(least > 0);
        co.ram_budget = least;
        CHECK_EQ(bench_try(&b, &co), QSF_OK);
        check_budget(&b, &co);
        co.ram_budget = least - 1000000;
        if (co.ram_budget) CHECK_EQ(bench_try(&b, &co), QSF_E_BUDGET);
        bench_end(&b);
    }
}

/* Whatever the budget is: from the resident size down, a context is granted, until none is; no
 * budget fails between two that work. */
TEST(a_larger_budget_never_fails_where_a_smaller_works)
{
    for (int tied = 0; tied < 2; tied++) {
        bench b;
        qsf_plan plan = { .size = sizeof plan };
        tiny_options o = wide(tied);
        if (!any_write(&b, &o) || !bench_open(&b)) return;
        qsf_context_options co = one_thread();
        if (!bench_context(&b, &co)) return;
        qsf_context_get_plan(b.c, &plan);
        bool failed = false;
        for (uint64_t budget = plan.total + 1000; budget > 200000; budget -= 197001) {
            co.ram_budget = budget;
            const qsf_status st = bench_try(&b, &co);
            CHECK(st == QSF_OK || st == QSF_E_BUDGET);
            if (failed) CHECK_EQ(st, QSF_E_BUDGET);
            failed |= st == QSF_E_BUDGET;
        }
        CHECK(failed);
        bench_end(&b);
    }
}

/* A plan made beforehand is the context's plan; the least budget is exact; every reduction has a
 * description, which the log repeats. */
static char all_logged[8192];

static void take_all(void *user, qsf_log_level level, const char *line)
{
    (void)user;
    (void)level;
    strncat(all_logged, line, sizeof all_logged - strlen(all_logged) - 1);
    strcat(all_logged, "\n");
}

static void check_plan(bench *b, const qsf_context_options *co, bool *seen_ends, bool *seen_ctx)
{
    qsf_plan before = { .size = sizeof before }, after = { .size = sizeof after };
    const uint64_t memory = b->h.m.live_bytes;
    all_logged[0] = 0;
    const qsf_status st = qsf_context_plan(b->m, co, &before, &b->error);
    CHECK_EQ(b->h.m.live_bytes, memory);
    CHECK_STR(all_logged, "");
    CHECK_EQ(st, bench_try(b, co));
    if (st) {
        CHECK(st == QSF_E_BUDGET && before.least > co->ram_budget && before.n_items == 0);
        return;
    }
    qsf_context_get_plan(b->c, &after);
    CHECK_EQ(before.n_items, after.n_items);
    CHECK(!memcmp(before.items, after.items, sizeof before.items));
    CHECK(!memcmp(before.reductions, after.reductions, sizeof before.reductions));
    CHECK(before.total == after.total && before.least == after.least && before.n_ctx == after.n_ctx &&
          before.n_batch == qsf_context_batch(b->c));
    CHECK(before.resident == after.resident && before.n_slots == after.n_slots &&
          before.n_reductions == after.n_reductions);
    if (!co->ram_budget) CHECK_EQ(before.n_reductions, 0);
    for (size_t i = 0; i < before.n_reductions; i++) {
        CHECK(before.reductions[i][0] != 0 && strstr(all_logged, before.reductions[i]) != NULL);
        *seen_ends |= !strcmp(before.reductions[i], "embedding and head stream");
        *seen_ctx |= !strncmp(before.reductions[i], "context length 4096 -> ", 23);
    }
}

TEST(a_plan_beforehand_is_the_plan_of_the_context)
{
    bench b;
    qsf_plan plan = { .size = sizeof plan };
    qsf_model_options mo;
    tiny_options o = wide(true);
    bool ends = false, ctx = false;
    if (!any_write(&b, &o)) return;
    qsf_model_defaults(&mo);
    mo.platform = &b.h.m.p;
    mo.log = take_all;
    if (!bench_ok(&b, qsf_model_open("m", &mo, &b.m, &b.error))) return;
    qsf_context_options co = one_thread();
    for (uint32_t threads = 1; threads <= 2; threads++) {
        co.n_threads = threads;
        co.ram_budget = 0;
        co.n_ctx = 4096;
        check_plan(&b, &co, &ends, &ctx);
        CHECK_EQ(qsf_context_plan(b.m, &co, &plan, &b.error), QSF_OK);
        for (co.ram_budget = plan.total + 1000; co.ram_budget > plan.least;
             co.ram_budget -= (plan.total - plan.least) / 11)
            check_plan(&b, &co, &ends, &ctx);
        for (int off = -1; off < 2; off++) {
            co.ram_budget = plan.least + (uint64_t)(int64_t)off;
            CHECK_EQ(qsf_context_plan(b.m, &co, &plan, &b.error), off < 0 ? QSF_E_BUDGET : QSF_OK);
            check_plan(&b, &co, &ends, &ctx);
        }
    }
    CHECK(ends && ctx);
    co.isa = "abacus";
    CHECK(qsf_context_plan(b.m, &co, &plan, &b.error) != QSF_OK);
    CHECK_EQ(qsf_context_plan(b.m, NULL, &plan, NULL), QSF_OK);
    CHECK(plan.resident && plan.kv_type == QSF_KV_Q8);
    bench_end(&b);
}

static char logged[512];
static int  log_lines;        /* warnings */

static void take_log(void *user, qsf_log_level level, const char *line)
{
    if (level > QSF_LOG_WARN) return;
    *(qsf_log_level *)user = level;
    snprintf(logged, sizeof logged, "%s", line);
    log_lines++;
}

static int plan_losses(const qsf_plan *plan)
{
    int n = 0;
    for (size_t i = 0; i < plan->n_reductions; i++) n += plan->losses[i];
    return n;
}

TEST(an_asked_context_length_gives_way_last_and_a_warning_says_so)
{
    bench b;
    qsf_plan plan = { .size = sizeof plan };
    qsf_log_level level = QSF_LOG_DEBUG;
    qsf_model_options mo;
    tiny_options o = wide(true);
    if (!any_write(&b, &o)) return;
    qsf_model_defaults(&mo);
    mo.platform = &b.h.m.p;
    mo.log = take_log;
    mo.log_user = &level;
    if (!bench_ok(&b, qsf_model_open("m", &mo, &b.m, &b.error))) return;
    qsf_context_options co = one_thread();
    co.n_ctx = 2048;
    if (!bench_context(&b, &co)) return;
    qsf_context_get_plan(b.c, &plan);
    CHECK_EQ(log_lines, 0);

    /* If a length is requested, it stays while batch, resident ends and bits of keys and values are
     * reduced; it is shortened only when all of these are at their smallest. What may change
     * answers is logged as a warning, the rest is not. */
    bool streamed = false, coarse = false;
    for (co.ram_budget = plan.total; bench_try(&b, &co) == QSF_OK; co.ram_budget -= 50000) {
        qsf_context_get_plan(b.c, &plan);
        if (plan.n_ctx < 2048) break;
        CHECK_EQ(log_lines, plan.kv_type != QSF_KV_Q8);
        CHECK_EQ(plan_losses(&plan), log_lines);
        if (plan.kv_type != QSF_KV_Q8)
            CHECK(plan_bytes(&plan, ENDS) > 0 && strstr(logged, "keys and values q8 -> "));
        streamed |= plan_bytes(&plan, ENDS) > 0;
        coarse |= plan.kv_type != QSF_KV_Q8;
        log_lines = 0;
    }
    CHECK(streamed && coarse);
    if (b.c) CHECK(plan_bytes(&plan, ENDS) > 0 && plan.n_ctx < 2048 && log_lines == plan_losses(&plan));

    /* If n_ctx is not set, the context is shortened before keys and values get fewer bits, and
     * windows on the embedding and head come before that. */
    co.n_ctx = 0;
    co.ram_budget += 200000;
    if (!bench_context(&b, &co)) return;
    qsf_context_get_plan(b.c, &plan);
    CHECK(plan.n_ctx >= 1024 && plan.n_ctx < 4096 && plan.kv_type == QSF_KV_Q8 &&
          plan_bytes(&plan, ENDS) > 0);
    log_lines = 0;

    /* Asked, and no other way. */
    co.n_ctx = 8192;
    if (!bench_least(&b, &co)) return;
    qsf_context_get_plan(b.c, &plan);
    CHECK(plan.n_ctx < 8192 && plan.n_ctx >= 128);
    CHECK(log_lines > 0 && log_lines == plan_losses(&plan) && level == QSF_LOG_WARN);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
    bench_end(&b);
}

TEST(a_context_length_that_nobody_asked_for_gives_way_before_bits_do)
{
    bench b;
    qsf_plan plan = { .size = sizeof plan };
    int shortened = 0;
    const tiny_options o = wide(true);
    if (!any_write(&b, &o) || !bench_open(&b)) return;
    qsf_context_options co = one_thread();
    co.n_ctx = 0;
    co.n_seqs = 1;
    CHECK_EQ(qsf_context_plan(b.m, &co, &plan, &b.error), QSF_OK);
    for (co.ram_budget = plan.total; qsf_context_plan(b.m, &co, &plan, &b.error) == QSF_OK;
         co.ram_budget -= 20000) {
        CHECK(plan.kv_type == QSF_KV_Q8 || plan.n_ctx == 128);
        shortened += plan.kv_type == QSF_KV_Q8 && plan.n_ctx < 512;
    }
    CHECK(shortened > 0 && co.ram_budget < plan.least);
    co.ram_budget = plan.least;
    CHECK_EQ(qsf_context_plan(b.m, &co, &plan, &b.error), QSF_OK);
    CHECK(plan.n_ctx == 128 && plan.kv_type != QSF_KV_Q8);
    bench_end(&b);
}

/* Biases of keys are stored by how slowly they turn over the context: that which was asked for,
 * whatever a budget leaves of it. */
TEST(a_shorter_context_gives_the_same_logits)
{
    bench b;
    qsf_plan plan = { .size = sizeof plan };
    int32_t ids[N];
    tiny_options o = tiny_defaults();
    o.hp.n_ctx_train = 4096;
    o.biases = true;
    o.key_bias = 10;
    if (!bench_write(&b, &o) || !bench_open(&b)) return;
    qsf_context_options co = one_thread();
    co.n_ctx = 0;
    float *whole = bench_floats(&b, N), *other = bench_floats(&b, N);
    bench_tokens(ids, N, b.n_vocab, 5);
    for (int i = 0; i < 2; i++) {
        if (!bench_context(&b, &co)) break;
        qsf_context_get_plan(b.c, &plan);
        CHECK(plan.kv_type == QSF_KV_Q8 && (i ? plan.n_ctx < 2048 : plan.n_ctx == 4096));
        CHECK_EQ(bench_feed(&b, 0, ids, N, CHUNK, i ? other : whole), QSF_OK);
        co.ram_budget = plan.total - plan_bytes(&plan, "KV cache") * 7 / 8;
    }
    CHECK_NEAR(bench_distance(whole, other, N * b.n_vocab), 0, 0);
    free(whole);
    free(other);
    bench_end(&b);
}

/* Where it may, a plan drops positions before a context that was asked for gets shorter, and before
 * bits that cost more; the text goes to its end. */
TEST(positions_are_dropped_before_an_asked_context_gives_way)
{
    enum { CTX = 2048, ROWS = 32 };
    bench b;
    qsf_plan plan = { .size = sizeof plan }, kept = { .size = sizeof kept };
    int32_t ids[ROWS];
    int half = 0, fewer = 0;
    const tiny_options o = wide(true);
    if (!any_write(&b, &o) || !bench_open(&b)) return;
    qsf_context_options co = one_thread(), dropping;
    co.n_ctx = CTX;
    co.n_seqs = 1;
    CHECK_EQ(qsf_context_plan(b.m, &co, &kept, &b.error), QSF_OK);
    for (co.ram_budget = kept.total; qsf_context_plan(b.m, &co, &kept, &b.error) == QSF_OK;
         co.ram_budget -= 20000) {
        dropping = co;
        dropping.kv_may_drop = true;
        if (!bench_ok(&b, qsf_context_plan(b.m, &dropping, &plan, &b.error))) break;
        CHECK(kept.kv_heavy == 0 && plan.least == kept.least && plan.total <= co.ram_budget &&
              plan.n_ctx >= QSF_MIN(kept.n_ctx, 256));
        if (!plan.kv_heavy) continue;
        const uint32_t stay = plan.kv_window + plan.kv_heavy;
        CHECK(plan.n_ctx == CTX && stay >= 256 && stay <= CTX / 2 && plan_losses(&plan) > 0);
        if (stay == CTX / 2) half += plan.kv_type == QSF_KV_Q8V4 || plan.kv_type == QSF_KV_Q8;
        else fewer++;
    }
    CHECK(half > 0 && fewer > 0);

    /* Below where 8 and 4 bits of all fit: half stays, and the text may be as long as was asked. */
    for (co.ram_budget = kept.least;
         qsf_context_plan(b.m, &co, &kept, &b.error) == QSF_OK &&
         (kept.n_ctx < CTX || kept.kv_type != QSF_KV_Q4); co.ram_budget += 20000) ;
    co.kv_may_drop = true;
    if (!bench_context(&b, &co)) return;
    qsf_context_get_plan(b.c, &plan);
    CHECK_EQ(plan.kv_window + plan.kv_heavy, CTX / 2);
    bench_tokens(ids, ROWS, b.n_vocab, 4);
    for (uint32_t at = 0; at < CTX; at += ROWS) CHECK_EQ(bench_feed(&b, 0, ids, ROWS, 8, NULL), QSF_OK);
    CHECK_EQ(qsf_seq_length(b.c, 0), CTX);
    CHECK(b.h.m.peak_bytes <= co.ram_budget);
    bench_end(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(no_more_memory_is_taken_than_planned_and_none_after_the_beginning);
    RUN(what_is_planned_is_what_is_taken);
    RUN(too_small_a_budget_names_the_smallest_that_works);
    RUN(a_larger_budget_never_fails_where_a_smaller_works);
    RUN(a_plan_beforehand_is_the_plan_of_the_context);
    RUN(an_asked_context_length_gives_way_last_and_a_warning_says_so);
    RUN(a_context_length_that_nobody_asked_for_gives_way_before_bits_do);
    RUN(a_shorter_context_gives_the_same_logits);
    RUN(positions_are_dropped_before_an_asked_context_gives_way);
    for (size_t i = 0; i < QSF_ARRAY_LEN(kept); i++) free(kept[i].bytes);
    return test_end();
}
