/* The memory budget: layers, embedding and head that pass through too little room give the logits of a model that has room enough.
 * SPDX-License-Identifier: MIT */
#include "model/compress.h"
#include "base/reserve.h"
#include "engine/plan.h"
#include "engine_bench.h"
#include "make_tiny_clusters.h"

#include <stdatomic.h>

enum { N = 16, CHUNK = 8 };     /* 8 rows: the smallest batch that a plan may grant */

static bool have_codec(uint32_t c) { return qsf_codec_check(c, "", NULL) == QSF_OK; }

static const char ENDS[] = "windows on embedding and head";

static uint64_t plan_bytes(const qsf_plan *p, const char *name)
{
    for (size_t i = 0; i < p->n_items; i++)
        if (!strcmp(p->items[i].name, name)) return p->items[i].bytes;
    return 0;
}

/* Six layers of about 40 KB; the ends are small. */
static tiny_options layered(void)
{
    tiny_options o = tiny_defaults();
    o.hp.n_layers = 6;
    o.hp.n_embd = 128;
    o.hp.n_ff = 192;
    return o;
}

/* The ends are megabytes: parts of the head are 1 MB at least, and windows are widened to chunks of 64 KB. */
static tiny_options wide(bool tied)
{
    tiny_options o = tiny_defaults();
    o.vocab = QSF_VOCAB_NONE;
    o.hp.n_layers = 3;
    o.hp.n_vocab = 50007;
    o.hp.n_ctx_train = 8192;
    o.hp.tied = tied;
    return o;
}

/* As bench_write; the wide models take long to make and are kept. */
static struct { uint8_t *bytes; uint64_t len; } kept[4];
static bool wide_write(bench *b, const tiny_options *o)
{
    const int i = o->hp.tied * 2 + o->packing;
    if (kept[i].bytes) {
        memset(b, 0, sizeof *b);
        engine_host_init(&b->h);
        b->n_vocab = o->hp.n_vocab;
        mem_put(&b->h.m, "m", kept[i].bytes, kept[i].len);
        return true;
    }
    if (!bench_write(b, o)) return false;
    kept[i].len = bench_file(b)->len;
    kept[i].bytes = malloc((size_t)kept[i].len);
    memcpy(kept[i].bytes, bench_file(b)->bytes, (size_t)kept[i].len);
    return true;
}

static bool any_write(bench *b, const tiny_options *o) { return o->vocab == QSF_VOCAB_NONE ? wide_write(b, o) : bench_write(b, o); }

static qsf_context_options one_thread(void)
{
    qsf_context_options o = bench_options();
    o.n_logits = 8;
    o.n_threads = 1;
    return o;
}

/* ---- the plan and what is really taken ---- */

/* What the context asked its reserve for is what was planned, to the byte, but for slots that the
 * plan could not know to be needless, and for the rounding of pieces. */
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

/* Everything that model and context hold, against the plan; stacks, the program's own and a sampler are not seen here. */
static void check_budget(bench *b, const qsf_context_options *o)
{
    qsf_plan plan;
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
    const uint64_t seen = plan.total - plan_bytes(&plan, "thread stacks") - plan_bytes(&plan, "sampler") - plan_bytes(&plan, "program");
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
        printf("      %llu bytes were planned, %llu taken; budget %llu\n", (unsigned long long)seen, (unsigned long long)b->h.m.peak_bytes, (unsigned long long)o->ram_budget);
}

TEST(no_more_memory_is_taken_than_planned_and_none_after_the_beginning)
{
    for (int kind = 0; kind < 4; kind += TEST_EVERY) {
        bench b;
        qsf_plan plan;
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
    qsf_plan plan;
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

/* Whatever the budget is: from the resident size down, a context is granted, until none is; no budget fails between two that work. */
TEST(a_larger_budget_never_fails_where_a_smaller_works)
{
    for (int tied = 0; tied < 2; tied++) {
        bench b;
        qsf_plan plan;
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

/* The smallest budget. */
static bool bench_least(bench *b, qsf_context_options *co)
{
    qsf_plan plan;
    co->ram_budget = 1;
    CHECK_EQ(qsf_context_plan(b->m, co, &plan, &b->error), QSF_E_BUDGET);
    co->ram_budget = plan.least;
    return bench_context(b, co);
}

/* A plan made beforehand is the context's plan; the least budget is exact; every reduction has a text, which the log repeats. */
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
    qsf_plan before, after;
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
    CHECK(before.total == after.total && before.least == after.least && before.n_ctx == after.n_ctx && before.n_batch == qsf_context_batch(b->c));
    CHECK(before.resident == after.resident && before.n_slots == after.n_slots && before.n_reductions == after.n_reductions);
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
    qsf_plan plan;
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
        for (co.ram_budget = plan.total + 1000; co.ram_budget > plan.least; co.ram_budget -= (plan.total - plan.least) / 11) check_plan(&b, &co, &ends, &ctx);
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
    qsf_plan plan;
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

    /* Asked, the length stays while batch, resident ends and bits of keys and values give way; it is shorter only with the smallest of all.
     * What may change answers is said as a warning, the rest is not. */
    bool streamed = false, coarse = false;
    for (co.ram_budget = plan.total; bench_try(&b, &co) == QSF_OK; co.ram_budget -= 50000) {
        qsf_context_get_plan(b.c, &plan);
        if (plan.n_ctx < 2048) break;
        CHECK_EQ(log_lines, plan.kv_type != QSF_KV_Q8);
        CHECK_EQ(plan_losses(&plan), log_lines);
        if (plan.kv_type != QSF_KV_Q8) CHECK(plan_bytes(&plan, ENDS) > 0 && strstr(logged, "keys and values q8 -> "));
        streamed |= plan_bytes(&plan, ENDS) > 0;
        coarse |= plan.kv_type != QSF_KV_Q8;
        log_lines = 0;
    }
    CHECK(streamed && coarse);
    if (b.c) CHECK(plan_bytes(&plan, ENDS) > 0 && plan.n_ctx < 2048 && log_lines == plan_losses(&plan));

    /* Not asked, it is shorter before the ends are seen through windows. */
    co.n_ctx = 0;
    co.ram_budget += 1200000;
    if (!bench_context(&b, &co)) return;
    qsf_context_get_plan(b.c, &plan);
    CHECK(plan.n_ctx >= 512 && plan.n_ctx < 4096 && plan_bytes(&plan, ENDS) == 0);
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
    qsf_plan plan;
    int shortened = 0;
    const tiny_options o = wide(true);
    if (!any_write(&b, &o) || !bench_open(&b)) return;
    qsf_context_options co = one_thread();
    co.n_ctx = 0;
    co.n_seqs = 1;
    CHECK_EQ(qsf_context_plan(b.m, &co, &plan, &b.error), QSF_OK);
    for (co.ram_budget = plan.total; qsf_context_plan(b.m, &co, &plan, &b.error) == QSF_OK; co.ram_budget -= 20000) {
        CHECK(plan.kv_type == QSF_KV_Q8 || plan.n_ctx == 128);
        shortened += plan.kv_type == QSF_KV_Q8 && plan.n_ctx < 512;
    }
    CHECK(shortened > 0 && co.ram_budget < plan.least);
    co.ram_budget = plan.least;
    CHECK_EQ(qsf_context_plan(b.m, &co, &plan, &b.error), QSF_OK);
    CHECK(plan.n_ctx == 128 && plan.kv_type != QSF_KV_Q8);
    bench_end(&b);
}

/* Biases of keys are stored by how slowly they turn over the context: that which was asked for, whatever a budget leaves of it. */
TEST(a_shorter_context_gives_the_same_logits)
{
    bench b;
    qsf_plan plan;
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
        CHECK(plan.kv_type == QSF_KV_Q8 && (i ? plan.n_ctx < 1024 : plan.n_ctx == 4096));
        CHECK_EQ(bench_feed(&b, 0, ids, N, CHUNK, i ? other : whole), QSF_OK);
        co.ram_budget = plan.total - plan_bytes(&plan, "KV cache") * 7 / 8;
    }
    CHECK_NEAR(bench_distance(whole, other, N * b.n_vocab), 0, 0);
    free(whole);
    free(other);
    bench_end(&b);
}

/* Where it may, a plan drops positions before a context that was asked for gets shorter, and before bits that cost more; the text goes to its end. */
TEST(positions_are_dropped_before_an_asked_context_gives_way)
{
    enum { CTX = 2048, ROWS = 32 };
    bench b;
    qsf_plan plan, kept;
    int32_t ids[ROWS];
    int half = 0, fewer = 0;
    const tiny_options o = wide(true);
    if (!any_write(&b, &o) || !bench_open(&b)) return;
    qsf_context_options co = one_thread(), dropping;
    co.n_ctx = CTX;
    co.n_seqs = 1;
    CHECK_EQ(qsf_context_plan(b.m, &co, &kept, &b.error), QSF_OK);
    for (co.ram_budget = kept.total; qsf_context_plan(b.m, &co, &kept, &b.error) == QSF_OK; co.ram_budget -= 20000) {
        dropping = co;
        dropping.kv_may_drop = true;
        if (!bench_ok(&b, qsf_context_plan(b.m, &dropping, &plan, &b.error))) break;
        CHECK(kept.kv_heavy == 0 && plan.least == kept.least && plan.total <= co.ram_budget && plan.n_ctx >= kept.n_ctx);
        if (!plan.kv_heavy) continue;
        const uint32_t stay = plan.kv_window + plan.kv_heavy;
        CHECK(plan.n_ctx == CTX && stay >= 256 && stay <= CTX / 2 && plan_losses(&plan) > 0);
        if (stay == CTX / 2) half += plan.kv_type == QSF_KV_Q8V4 || plan.kv_type == QSF_KV_Q8;
        else fewer++;
    }
    CHECK(half > 0 && fewer > 0);

    /* Below where 8 and 4 bits of all fit: half stays, and the text may be as long as was asked. */
    for (co.ram_budget = kept.least; qsf_context_plan(b.m, &co, &kept, &b.error) == QSF_OK && (kept.n_ctx < CTX || kept.kv_type != QSF_KV_Q4); co.ram_budget += 20000) ;
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

/* ---- results ---- */

/* Feeds through every budget from resident down to the smallest; all logits must be those of the resident context.  Says which kinds of plan came up. */
typedef struct seen { bool two, one, ends, resident; } seen;

static seen check_budgets(bench *b, qsf_context_options co, uint64_t steps, double bound)
{
    seen seen = { 0 };
    qsf_plan plan;
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
            if (!(d <= bound)) printf("      budget %llu, %u buffers, ends %d\n", (unsigned long long)budget, (unsigned)plan.n_slots, plan_bytes(&plan, ENDS) > 0);
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

/* Rows of a head that are not in tiles are multiplied as floats where they pass by; in memory they are made tiles and met by 8-bit activations. */
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
                /* A row of the embedding that is looked up and not among those that are kept, the middle of the head. */
                int32_t fresh[N];
                for (int i = 0; i < N; i++) fresh[i] = end ? ids[i] : (int32_t)(((uint32_t)ids[i] + 7000u * (uint32_t)(shrink + 1)) % b.n_vocab);
                const uint64_t row = s->places[s->units[u].first_tensor] + (uint64_t)(fresh[9] / 16) * 16 * 66;
                const uint64_t at = s->extents[s->units[u].first_extent].at + (end ? 1900000 : row), len = f->len;
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
        qsf_stats stats;
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
        CHECK_EQ(bench_feed(&b, 1, ids, N, CHUNK, out), QSF_OK);        /* what was read ahead comes to an end */
        qsf_context_reset_stats(b.c);
        crc_bytes = 0;
        CHECK_EQ(bench_feed(&b, 2, ids, N, CHUNK, out), QSF_OK);
        qsf_context_get_stats(b.c, &stats);
        if (co.check_every) CHECK(crc_bytes > head && stats.ns_check > 0);
        else CHECK_EQ(crc_bytes, 0);
        CHECK(stats.bytes_read > (uint64_t)head && stats.ns_prepare >= stats.ns_check && stats.overlap >= 0 && stats.overlap <= 1);
        free(out);
        bench_end(&b);
    }
}

/* However many threads compute a few rows, the logits are the same; what they take is timed where layers stream, and only there. */
TEST(few_rows_are_computed_by_as_many_threads_as_suit)
{
    enum { THREADS = 5 };
    bench b, alone;
    int32_t ids[N];
    const tiny_options o = layered();
    qsf_context_options co = one_thread();
    co.kv_type = QSF_KV_Q4V2;               /* what the least budget leaves */
    if (!any_write(&b, &o) || !bench_open(&b) || !any_write(&alone, &o) || !bench_open(&alone) || !bench_context(&alone, &co)) return;
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

/* ---- hosts that must not block ---- */

/* As an event loop has it: qsf_step alone, until it is done.  Returns how often it was waiting; *ahead: something
 * was read while something else was computed. */
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
        for (size_t i = 0; i < CHUNK; i++) memcpy(out + (at + i) * b->n_vocab, qsf_logits(b->c, i), b->n_vocab * sizeof *out);
    }
    return waits;
}

TEST(steps_never_block_and_say_when_they_wait)
{
    for (int kind = 0; kind < 4; kind += TEST_EVERY) {
        bench b;
        int32_t ids[N];
        qsf_plan plan;
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
/* An event loop sleeps until a read ends: one step that waits for none is the last.  Batches are left at every place. */
TEST(a_step_that_waits_has_a_read_to_wait_for)
{
    enum { PLACES = 32 };
    bench b;
    qsf_plan plan;
    const qsf_row row = { 0, 5, true };
    tiny_options o = layered();
    qsf_context_options co = one_thread();
    co.kv_type = QSF_KV_F32;
    if (have_codec(QSF_COMPRESS_ZSTD)) o.compression = QSF_COMPRESS_ZSTD;       /* needs the staging buffer besides */
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

/* A row of the embedding is on its way for a batch that was left: no step of the next one waits for it. */
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

/* A clock that goes on with each look, and by leaps. */
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
    qsf_stats s;
    if (!any_write(&b, &o)) return;
    engine_host_never_wait(&b.h);
    b.h.m.p.now_ns = tick;
    if (!bench_open(&b) || !bench_context(&b, &co)) return;
    b.h.polls = 3;
    bool waiting = false;
    CHECK_EQ(qsf_batch_begin(b.c, &row, 1), QSF_OK);
    CHECK_EQ(qsf_step(b.c, &waiting), QSF_PENDING);
    CHECK(waiting);
    ticking += LEAP;                                        /* and nobody steps on */
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
        qsf_plan plan;
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

/* The embedding of a model whose head is another matrix gives way first; a row is read once as long as it is among those that are kept. */
TEST(rows_of_the_embedding_that_were_used_lately_are_not_read_again)
{
    enum { MANY = 300 };        /* more than are kept */
    bench b;
    qsf_plan plan;
    qsf_stats stats;
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
    CHECK(plan.resident && plan_bytes(&plan, "window on the embedding") > 0 && plan_bytes(&plan, "final norm and head") > 0);
    CHECK_EQ(bench_feed(&b, 0, &first, 1, 1, again), QSF_OK);      /* loads the layers and the head, too */
    CHECK_NEAR(bench_distance(right, again, b.n_vocab), 0, 0);
    qsf_context_reset_stats(b.c);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
    CHECK_EQ(bench_feed(&b, 0, &first, 1, 1, again), QSF_OK);
    CHECK_NEAR(bench_distance(right, again, b.n_vocab), 0, 0);
    qsf_context_get_stats(b.c, &stats);
    CHECK_EQ(stats.bytes_read, 0);
    for (int32_t i = 0; i < MANY; i++) {                            /* far apart: each in a chunk of its own or nearly so */
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
    qsf_stats stats;
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
    RUN(no_more_memory_is_taken_than_planned_and_none_after_the_beginning);
    RUN(what_is_planned_is_what_is_taken);
    RUN(too_small_a_budget_names_the_smallest_that_works);
    RUN(a_larger_budget_never_fails_where_a_smaller_works);
    RUN(a_plan_beforehand_is_the_plan_of_the_context);
    RUN(an_asked_context_length_gives_way_last_and_a_warning_says_so);
    RUN(a_context_length_that_nobody_asked_for_gives_way_before_bits_do);
    RUN(a_shorter_context_gives_the_same_logits);
    RUN(positions_are_dropped_before_an_asked_context_gives_way);
    RUN(layers_through_two_buffers_or_one_give_the_resident_logits);
    RUN(embedding_and_head_through_windows_give_the_resident_logits);
    RUN(a_head_without_tiles_through_windows_is_close);
    RUN(damage_under_a_window_is_found_and_survived);
    RUN(a_window_is_checked_on_its_first_pass_or_on_every);
    RUN(few_rows_are_computed_by_as_many_threads_as_suit);
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
