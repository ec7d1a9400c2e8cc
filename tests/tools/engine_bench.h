/* A small model, opened on an engine_host, with a context: what tests of the engine begin with.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ENGINE_BENCH_H
#define QSF_ENGINE_BENCH_H

#include "engine/context.h"
#include "engine_host.h"
#include "make_tiny_qsf.h"
#include "test.h"

typedef struct bench {
    engine_host  h;
    qsf_model   *m;
    qsf_context *c;
    qsf_error    error;
    uint32_t     n_vocab;
} bench;

static inline bool bench_ok(bench *b, qsf_status st)
{
    if (st) test_fail(__FILE__, __LINE__, b->error.text);
    return !st;
}

static inline mem_file *bench_file(bench *b) { return mem_find(&b->h.m, "m"); }

/* Writes the model; it is not opened yet. */
static inline bool bench_write(bench *b, const tiny_options *o)
{
    memset(b, 0, sizeof *b);
    engine_host_init(&b->h);
    b->n_vocab = o->hp.n_vocab;
    return bench_ok(b, tiny_write(&b->h.m.p, "m", o, &b->error));
}
static inline bool bench_open(bench *b)
{
    qsf_model_options mo;
    qsf_model_defaults(&mo);
    mo.platform = &b->h.m.p;
    return bench_ok(b, qsf_model_open("m", &mo, &b->m, &b->error));
}
/* A new context in the place of the last. */
static inline qsf_status bench_try(bench *b, const qsf_context_options *o)
{
    qsf_context_free(b->c);
    b->c = NULL;
    return qsf_context_new(b->m, o, &b->c, &b->error);
}
static inline bool bench_context(bench *b, const qsf_context_options *o)
{
    return bench_ok(b, bench_try(b, o));
}

static inline qsf_context_options bench_options(void)
{
    qsf_context_options o;
    qsf_context_defaults(&o);
    o.n_ctx = 128;
    o.n_batch = 64;
    o.n_logits = 64;
    o.n_threads = 1;
    return o;
}

/* All three, with bench_options. */
static inline bool bench_begin(bench *b, const tiny_options *o)
{
    const qsf_context_options co = bench_options();
    return bench_write(b, o) && bench_open(b) && bench_context(b, &co);
}

/* Frees everything; nothing may be left. */
static inline void bench_end(bench *b)
{
    qsf_context_free(b->c);
    qsf_model_close(b->m);
    CHECK_EQ(b->h.m.live, 0);
    CHECK_EQ(b->h.running, 0);
    engine_host_done(&b->h);
}

static inline void bench_tokens(int32_t *ids, size_t n, uint32_t n_vocab, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)(tiny_uniform(&seed) * n_vocab);
}

/* Logits of all rows, out[n][n_vocab], in batches of at most `chunk`. */
static inline qsf_status bench_feed(bench *b, qsf_seq s, const int32_t *ids, size_t n,
                                    size_t chunk, float *out)
{
    qsf_row rows[64];
    for (size_t at = 0; at < n;) {
        const size_t len = QSF_MIN(QSF_MIN(chunk, QSF_ARRAY_LEN(rows)), n - at);
        for (size_t i = 0; i < len; i++) rows[i] = (qsf_row){ s, ids[at + i], out != NULL };
        const qsf_status st = qsf_compute(b->c, rows, len);
        if (st) return st;
        for (size_t i = 0; out && i < len; i++)
            memcpy(out + (at + i) * b->n_vocab, qsf_logits(b->c, i), b->n_vocab * sizeof *out);
        at += len;
    }
    return QSF_OK;
}

/* The largest difference, as a share of the largest value of a. */
static inline double bench_distance(const float *a, const float *b, size_t n)
{
    double most = 0, d = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(a[i]) || !isfinite(b[i])) return INFINITY;
        most = fmax(most, fabs((double)a[i]));
        d = fmax(d, fabs((double)a[i] - (double)b[i]));
    }
    return most > 0 ? d / most : INFINITY;
}

/* The root of the mean squared difference, as a share of a's. */
static inline double bench_rms(const float *a, const float *b, size_t n)
{
    double of = 0, d = 0;
    for (size_t i = 0; i < n; i++) {
        of += (double)a[i] * a[i];
        d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    }
    return of > 0 ? sqrt(d / of) : INFINITY;
}

static inline float *bench_floats(const bench *b, size_t rows)
{
    return calloc(rows * b->n_vocab, sizeof(float));
}

#endif
