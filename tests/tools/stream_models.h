/* Models for tests of the budget: small layers, or an embedding and a head of megabytes.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_STREAM_MODELS_H
#define QSF_STREAM_MODELS_H

#include "model/compress.h"
#include "base/reserve.h"
#include "engine/plan.h"
#include "engine_bench.h"
#include "make_tiny_clusters.h"
#include <stdatomic.h>

enum { N = 16, CHUNK = 8 };     /* 8 rows: the smallest batch that a plan may grant */

static inline bool have_codec(uint32_t c) { return qsf_codec_check(c, "", NULL) == QSF_OK; }

static const char ENDS[] = "windows on embedding and head";

static inline uint64_t plan_bytes(const qsf_plan *p, const char *name)
{
    for (size_t i = 0; i < p->n_items; i++)
        if (!strcmp(p->items[i].name, name)) return p->items[i].bytes;
    return 0;
}

/* Six layers of about 40 KB; the ends are small. */
static inline tiny_options layered(void)
{
    tiny_options o = tiny_defaults();
    o.hp.n_layers = 6;
    o.hp.n_embd = 128;
    o.hp.n_ff = 192;
    return o;
}

/* The ends are megabytes: parts of the head are 1 MB at least, and windows are widened to
 * chunks of 64 KB. */
static inline tiny_options wide(bool tied)
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

static inline bool wide_write(bench *b, const tiny_options *o)
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

static inline bool any_write(bench *b, const tiny_options *o)
{
    return o->vocab == QSF_VOCAB_NONE ? wide_write(b, o) : bench_write(b, o);
}

static inline qsf_context_options one_thread(void)
{
    qsf_context_options o = bench_options();
    o.n_logits = 8;
    o.n_threads = 1;
    return o;
}

/* The smallest budget. */
static inline bool bench_least(bench *b, qsf_context_options *co)
{
    qsf_plan plan = { .size = sizeof plan };
    co->ram_budget = 1;
    CHECK_EQ(qsf_context_plan(b->m, co, &plan, &b->error), QSF_E_BUDGET);
    co->ram_budget = plan.least;
    return bench_context(b, co);
}

#endif
