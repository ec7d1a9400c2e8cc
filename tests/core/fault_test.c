/* Every call to the system fails in turn, from opening a model to the last sampled token: always an
 * error, never a leak.
 * SPDX-License-Identifier: MIT */
#include "model/compress.h"
#include "engine_bench.h"

#include <limits.h>

typedef struct plan_of_work {
    tiny_options o;
    uint64_t     budget;
    uint32_t     threads, polls;
    bool         never_wait;
    uint32_t     sum;              /* of all logits of the last run */
} plan_of_work;

static void work_sum(plan_of_work *w, const qsf_context *c)
{
    w->sum = qsf_crc32(w->sum, qsf_logits(c, 0), w->o.hp.n_vocab * sizeof(float));
}

/* Samples from the logits of a context until something fails. */
static qsf_status work_generate(plan_of_work *w, qsf_model *m, qsf_context *c, qsf_error *err)
{
    qsf_sampler_options so;
    qsf_sampler *s;
    const float *logits = NULL;
    int32_t ids[16];
    size_t n = 3;
    qsf_status st;
    qsf_sampler_defaults(&so);
    so.seed = 1;
    ids[0] = 10, ids[1] = 20, ids[2] = 30;
    if (m->tokenizer && (st = qsf_tokens_encode(m, "the end", 7, QSF_TOK_ADD_SPECIAL, ids, 16, &n, err)))
        return st;
    if ((st = qsf_sampler_new(m, &so, &s, err))) return st;
    for (int i = 0; i < 3 && !st; i++) {
        if ((st = qsf_feed(c, 0, ids, n, &logits))) qsf_fail(err, st, "%s", qsf_last_error(c));
        if (!st && i == 1) st = qsf_seq_share(c, 1, 0, 2);
        if (!st) ids[0] = qsf_sampler_pick(s, logits);
        if (!st) work_sum(w, c);
        n = 1;
    }
    qsf_sampler_free(s);
    return st;
}

/* The same without qsf_wait. */
static qsf_status work_step(plan_of_work *w, qsf_context *c, qsf_error *err)
{
    const qsf_row rows[3] = { { 0, 10, false }, { 0, 11, true }, { 1, 12, true } };
    qsf_status st = qsf_batch_begin(c, rows, 3);
    if (!st) while ((st = qsf_step(c, NULL)) == QSF_PENDING) ;
    if (st) return qsf_fail(err, st, "%s", qsf_last_error(c));
    work_sum(w, c);
    return QSF_OK;
}

static qsf_status work(engine_host *h, plan_of_work *w, qsf_error *err)
{
    qsf_model_options mo;
    qsf_context_options co = bench_options();
    qsf_model *m = NULL;
    qsf_context *c = NULL;
    qsf_status st;
    w->sum = 0;
    qsf_model_defaults(&mo);
    mo.platform = &h->m.p;
    co.n_logits = 4;
    co.n_threads = w->threads;
    co.ram_budget = w->budget;
    if (!(st = qsf_model_open("m", &mo, &m, err)) && !(st = qsf_context_new(m, &co, &c, err)))
        st = w->never_wait ? work_step(w, c, err) : work_generate(w, m, c, err);
    if (!m) CHECK(c == NULL);
    qsf_context_free(c);
    qsf_model_close(m);
    return st;
}

/* once: only the nth call fails; else all from the nth on. */
static void sweep(plan_of_work *w, bool once)
{
    bench b;
    long n = 1, calls;
    if (!bench_write(&b, &w->o)) return;
    b.h.polls = w->polls;
    if (w->never_wait) engine_host_never_wait(&b.h);
    CHECK_EQ(b.h.m.live, 0);
    b.h.m.calls = 0;
    CHECK(bench_ok(&b, work(&b.h, w, &b.error)));
    calls = b.h.m.calls;
    const uint32_t right = w->sum;
    CHECK(calls > 20);
    for (; n <= calls && !test_failed; n += TEST_EVERY) {
        b.error = (qsf_error){ 0 };
        b.h.m.calls = 0;
        b.h.read_failed = false;
        b.h.m.fail_at = n;
        b.h.m.fail_on = !once;
        const qsf_status st = work(&b.h, w, &b.error);
        /* A read ahead that fails is made again when its layer's turn comes, if it ever does. */
        if (st == QSF_OK) CHECK(b.h.read_failed && w->sum == right);
        else CHECK(st == QSF_E_MEMORY || st == QSF_E_IO);
        if (st) CHECK(b.error.status == st && b.error.text[0] != 0);
        CHECK_EQ(b.h.m.live, 0);
        CHECK_EQ(b.h.m.live_bytes, 0);
        CHECK_EQ(b.h.running, 0);
        if (test_failed) printf("      call %ld of %ld, %s\n", n, calls, once ? "alone" : "and all after it");
    }
    b.h.m.fail_at = 0;
    CHECK_EQ(work(&b.h, w, &b.error), QSF_OK);
    bench_end(&b);
}

static void sweeps(plan_of_work w)
{
    for (int i = 0; i < 2; i++) sweep(&w, i == 0);
    w.never_wait = true;
    w.polls = 2;
    for (int i = 0; i < 2; i++) sweep(&w, i == 0);
}

static plan_of_work resident(void)
{
    plan_of_work w = { .o = tiny_defaults(), .threads = 2 };
    w.o.hp.tied = false;
    return w;
}

/* A budget that keeps some layers from staying. */
static uint64_t tight(const plan_of_work *w)
{
    bench b;
    qsf_plan plan = { .size = sizeof plan };
    qsf_context_options co = bench_options();
    co.n_logits = 4;
    co.n_threads = w->threads;
    if (!bench_write(&b, &w->o) || !bench_open(&b) || !bench_context(&b, &co)) return 0;
    qsf_context_get_plan(b.c, &plan);
    co.ram_budget = plan.total - 30000;
    if (!bench_context(&b, &co)) return 0;
    qsf_context_get_plan(b.c, &plan);
    CHECK(!plan.resident && plan.n_slots > 0);
    bench_end(&b);
    return co.ram_budget;
}

TEST(any_call_may_fail_with_all_in_memory) { sweeps(resident()); }

TEST(any_call_may_fail_with_layers_that_stream)
{
    plan_of_work w = resident();
    w.o.hp.n_layers = 5;
    w.budget = tight(&w);
    sweeps(w);
}

TEST(any_call_may_fail_with_compressed_layers)
{
    plan_of_work w = resident();
    w.o.hp.n_layers = 5;
    w.o.compression = QSF_COMPRESS_LZ4;
    w.o.packing = 0;
    if (qsf_codec_check(QSF_COMPRESS_LZ4, "", NULL)) LEFT_OUT("LZ4");
    w.budget = tight(&w);
    sweeps(w);
}

/* From the nth step on, reads that begin will fail. */
static qsf_status step_doomed(bench *b, long n)
{
    const qsf_row rows[2] = { { 0, 10, false }, { 0, 11, true } };
    qsf_status st = qsf_batch_begin(b->c, rows, 2);
    for (long i = 0; !st || st == QSF_PENDING; i++) {
        b->h.doomed = i >= n;
        if (!(st = qsf_step(b->c, NULL))) break;
    }
    b->h.doomed = false;
    return st;
}

/* One context: other failures than the read that ended a batch are not reported in the next one. */
static void goes_on(plan_of_work *w, bool never_wait)
{
    bench b;
    qsf_context_options co = bench_options();
    co.n_logits = 4;
    co.n_threads = w->threads;
    co.ram_budget = w->budget;
    if (!bench_write(&b, &w->o)) return;
    b.h.polls = 2;
    if (never_wait) engine_host_never_wait(&b.h);
    if (!bench_open(&b) || !bench_context(&b, &co)) return;
    uint32_t right = 0, failed = 0;
    for (long n = 0; n < 40; n++) {
        CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
        const qsf_status st = step_doomed(&b, n);
        CHECK(st == QSF_OK || st == QSF_E_IO);
        failed += st == QSF_E_IO;
        CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
        w->sum = 0;
        const qsf_status then = step_doomed(&b, LONG_MAX);
        CHECK_EQ(then, QSF_OK);
        if (then) break;
        work_sum(w, b.c);
        if (n) CHECK_EQ(w->sum, right);
        right = w->sum;
    }
    CHECK(failed > 0);
    bench_end(&b);
}

TEST(a_batch_after_one_that_failed_is_right)
{
    plan_of_work w = resident();
    w.o.hp.n_layers = 5;
    w.budget = tight(&w);
    for (int never_wait = 0; never_wait < 2; never_wait++) goes_on(&w, never_wait);
}

/* Too small for the machine's memory instead of the budget: the same promise. */
TEST(any_limit_of_memory_is_survived)
{
    bench b;
    plan_of_work w = resident();
    if (!bench_write(&b, &w.o)) return;
    CHECK_EQ(work(&b.h, &w, &b.error), QSF_OK);
    const uint64_t peak = b.h.m.peak_bytes;
    for (uint64_t limit = 1; limit < peak; limit += peak / 97) {
        b.h.m.limit_bytes = limit;
        CHECK_EQ(work(&b.h, &w, &b.error), QSF_E_MEMORY);
        CHECK_EQ(b.h.m.live, 0);
    }
    bench_end(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(any_call_may_fail_with_all_in_memory);
    RUN(any_call_may_fail_with_layers_that_stream);
    RUN(any_call_may_fail_with_compressed_layers);
    RUN(a_batch_after_one_that_failed_is_right);
    RUN(any_limit_of_memory_is_survived);
    return test_end();
}
