/* Reading speed and multiply-add peak, by one thread or by all of a pool.
 * SPDX-License-Identifier: MIT */
#include "bench_machine.h"

#include <string.h>

/* Pieces for each thread: one that is late with a piece holds up a sixteenth of its share. */
enum { PIECES = 16 };

double bench_clock(const qsf_platform *p) { return 1e-9 * (double)p->now_ns(p->user); }

static uint32_t shared_pieces(const bench_shared *s) { return PIECES * qsf_pool_size(s->pool); }

qsf_range bench_shared_part(const bench_shared *s, uint32_t piece)
{
    return qsf_range_of(s->parts, piece, shared_pieces(s));
}

double bench_shared_run(const bench_shared *s, void (*part)(void *, uint32_t, uint32_t), void *arg)
{
    const double begin = bench_clock(s->p);
    qsf_pool_run(s->pool, shared_pieces(s), (uint32_t)s->parts, part, arg);
    return bench_clock(s->p) - begin;
}

/* ---- reading ---- */

typedef struct read_work {
    bench_shared shared;
    uint64_t (*run)(const uint8_t *p, size_t n);
} read_work;

static void read_part(void *arg, uint32_t thread, uint32_t piece)
{
    const read_work *w = arg;
    const qsf_range mine = bench_shared_part(&w->shared, piece);
    volatile uint64_t sum = w->run(w->shared.bytes + mine.begin * 1024, (mine.end - mine.begin) * 1024);
    (void)sum, (void)thread;
}

double bench_read_once(const qsf_platform *p, qsf_pool *pool, const bench_reader *reader,
                       const uint8_t *bytes, size_t len)
{
    read_work w = { .shared = { .p = p, .pool = pool, .bytes = bytes, .parts = len / 1024 },
                    .run = reader->run };
    return bench_shared_run(&w.shared, read_part, &w);
}

bench_reader bench_read(const bench_settings *set, bench_report *rep, qsf_pool *pool, const uint8_t *bytes,
                        size_t len, const char *test)
{
    const qsf_platform *p = qsf_platform_native();
    bench_reader readers[4], best = { .isa = "" };
    bench_samples shown = { .n = 0 };
    const size_t n = bench_readers(p->cpu_features(p->user), readers);
    for (size_t i = 0; i < n; i++) {
        bench_samples got = { .n = 0 };
        bench_read_once(p, pool, &readers[i], bytes, len);
        for (long long r = 0; r < set->reps; r++) {
            const double speed = (double)len / bench_read_once(p, pool, &readers[i], bytes, len);
            got.v[got.n++] = 1e-9 * speed;
            readers[i].best = QSF_MAX(readers[i].best, speed);
        }
        if (readers[i].best > best.best) best = readers[i], shown = got;
    }
    bench_row_of(rep, test, "", qsf_pool_size(pool), "GB/s", &shown, NULL,
                 NULL); /* which loop was best changes from run to run */
    return best;
}

/* ---- multiplying ---- */

typedef struct madds_work {
    bench_shared shared;
    bench_peak peak;
    uint64_t madds;
} madds_work;

static void madds_part(void *arg, uint32_t thread, uint32_t piece)
{
    const madds_work *w = arg;
    (void)thread, (void)piece;
    w->peak.run(w->madds / PIECES);
}

double bench_madds(const bench_settings *set, bench_report *rep, qsf_pool *pool, const char *isa)
{
    madds_work w = { .shared = { .p = qsf_platform_native(), .pool = pool, .parts = 1 },
                     .peak = bench_peak_of(isa),
                     .madds = 1000000 };
    bench_samples got = { .n = 0 };
    double most = 0;
    while (bench_shared_run(&w.shared, madds_part, &w) < 5e-3) w.madds *= 2;
    for (long long r = 0; r < set->reps; r++) {
        const double speed =
            (double)w.madds * qsf_pool_size(pool) / bench_shared_run(&w.shared, madds_part, &w);
        got.v[got.n++] = 1e-9 * speed;
        most = QSF_MAX(most, speed);
    }
    bench_row_of(rep, "peak", isa, qsf_pool_size(pool), "G madds/s", &got, NULL, NULL);
    return most;
}

/* ---- both, in a run with models ---- */

int bench_machine(const bench_settings *set, bench_report *rep, uint32_t threads, const char *isa,
                  bench_limits *out)
{
    const qsf_platform *p = qsf_platform_native();
    const size_t len = (size_t)set->buffer_mb << 20;
    qsf_pool *pool = NULL;
    qsf_error err;
    const qsf_status st = qsf_pool_new(p, threads, &pool, &err);
    if (st) return report(&err);
    uint8_t *bytes = p->mem_alloc(p->user, len);
    if (bytes) {
        memset(bytes, 1, len);
        out->read = bench_read(set, rep, pool, bytes, len, "read").best;
        out->madds = bench_madds(set, rep, pool, isa);
        p->mem_free(p->user, bytes, len);
    } else {
        fprintf(stderr, "out of memory: --limits needs %lld MB; reduce --buffer\n", set->buffer_mb);
    }
    qsf_pool_free(pool);
    return bytes ? EXIT_OK : EXIT_NO_MEMORY;
}
