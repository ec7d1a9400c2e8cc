/* What tests of experts that are read alone share: a model on a host that notes what is read, and
 * its answer to one prompt.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_EXPERTS_BENCH_H
#define QSF_EXPERTS_BENCH_H

#include "engine/context.h"
#include "engine_host.h"
#include "test.h"

enum { TOKENS = 12, PROMPT = 7, SEEN = 4096 };

typedef struct bench {
    engine_host    h;
    qsf_model     *m;
    qsf_context   *c;
    qsf_error      error;
    const int32_t *ids;         /* [TOKENS] */
    size_t         vocab;
} bench;

static bool bench_ok(bench *b, qsf_status st)
{
    if (st) test_fail(__FILE__, __LINE__, b->error.text);
    return !st;
}

/* ---- which bytes are read ---- */

static struct { uint64_t at; size_t len; } seen[SEEN];
static uint32_t n_seen;
static qsf_status seen_start(void *user, qsf_file *f, uint64_t at, void *dst, size_t len, qsf_read **out)
{
    if (n_seen < SEEN) {
        seen[n_seen].at = at;
        seen[n_seen++].len = len;
    }
    return engine_read_start(user, f, at, dst, len, out);
}

/* ---- host, model and context ---- */

static void bench_begin(bench *b, const int32_t *ids, size_t vocab, bool waits)
{
    memset(b, 0, sizeof *b);
    b->ids = ids;
    b->vocab = vocab;
    engine_host_init(&b->h);
    b->h.m.p.read_start = seen_start;
    if (!waits) engine_host_never_wait(&b->h);
}

static void bench_close(bench *b)
{
    qsf_context_free(b->c);
    qsf_model_close(b->m);
    CHECK_EQ(b->h.m.live, 0);
    engine_host_done(&b->h);
}

/* A new model in the place of the last, of the file "m" that is there. */
static qsf_status bench_model(bench *b)
{
    qsf_model_options mo;
    qsf_context_free(b->c);
    qsf_model_close(b->m);
    b->c = NULL;
    b->m = NULL;
    qsf_model_defaults(&mo);
    mo.platform = &b->h.m.p;
    return qsf_model_open("m", &mo, &b->m, &b->error);
}

static qsf_context_options bench_options(uint32_t threads, uint64_t budget)
{
    qsf_context_options o;
    qsf_context_defaults(&o);
    o.n_ctx = 32;
    o.n_batch = 8;
    o.n_threads = threads;
    o.kv_type = QSF_KV_F16;
    o.ram_budget = budget;
    return o;
}

/* A new context in the place of the last. */
static bool bench_context(bench *b, const qsf_context_options *o)
{
    qsf_context_free(b->c);
    b->c = NULL;
    return bench_ok(b, qsf_context_new(b->m, o, &b->c, &b->error));
}

static uint64_t bench_least(bench *b, uint32_t threads)
{
    qsf_plan plan = { .size = sizeof plan };
    const qsf_context_options o = bench_options(threads, 1);
    CHECK_EQ(qsf_context_plan(b->m, &o, &plan, &b->error), QSF_E_BUDGET);
    return plan.least;
}

/* Feeds rows by steps, as a program does that must not wait. */
static qsf_status feed(bench *b, const int32_t *from, size_t n, const float **logits)
{
    qsf_row rows[PROMPT];
    bool waiting;
    for (size_t i = 0; i < n; i++) rows[i] = (qsf_row){ 0, from[i], i == n - 1 };
    qsf_status st = qsf_batch_begin(b->c, rows, n);
    while (!st && (st = qsf_step(b->c, &waiting)) == QSF_PENDING) st = QSF_OK;
    *logits = qsf_logits(b->c, 0);
    return st;
}

/* A prompt in one batch, then token by token; logits[TOKENS - PROMPT + 1][vocab]. */
static qsf_status answer(bench *b, float *logits)
{
    const float *now;
    qsf_status st = qsf_seq_truncate(b->c, 0, 0);
    for (int at = 0; !st && at < TOKENS; at += at ? 1 : PROMPT, logits += b->vocab) {
        st = feed(b, b->ids + at, at ? 1 : PROMPT, &now);
        if (st) qsf_fail(&b->error, st, "%s", qsf_last_error(b->c));
        else memcpy(logits, now, b->vocab * sizeof *now);
    }
    return st;
}

#endif
