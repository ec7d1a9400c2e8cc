/* What the parts of qsf-bench --kernels share.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_BENCH_KERNELS_H
#define QSF_CLI_BENCH_KERNELS_H

#include "benchmark.h"
#include "kernels.h"

enum { KB_COLS = 2048, KB_ROWS = 64, KB_FLOATS = 1 << 18 };

/* The function that is timed; it is called with the sample's own argument. */
typedef void bench_work(void *arg);

typedef struct kernel_bench {
    const bench_settings *set;
    bench_report       *report;
    const qsf_platform *p;
    qsf_kernels         k;             /* of the instruction set at work */
    /* weights, larger than every cache, in the pages that the engine's weights have */
    uint8_t            *w;
    size_t              w_bytes, w_at; /* w_at: where the next pass through memory begins */
    float              *y;             /* of all rows of w */
    size_t              y_bytes;
    qsf_act             x;             /* KB_ROWS rows of KB_COLS */
    float              *a, *b, *c;     /* KB_FLOATS each: numbers, numbers, results */
    uint16_t           *h;             /* KB_FLOATS */
    int8_t             *q;             /* KB_FLOATS */
    void               *scratch;       /* the small arrays above in one piece */
    size_t              scratch_bytes;
    double              peak;          /* multiply-adds a second of one thread, by the set at work, */
    uint64_t          (*peak_run)(uint64_t least);      /* and the loop that does them */
} kernel_bench;

/* ---- bench_time.c ---- */
/* Whether --filter wants "isa test": each of its words is in there. */
bool bench_wanted(const kernel_bench *kb, const char *isa, const char *test);
double bench_seconds(const kernel_bench *kb);
/* Seconds that this many calls take; how many calls take two milliseconds. */
double bench_calls(const kernel_bench *kb, bench_work *work, void *arg, size_t calls);
size_t bench_calibrate(const kernel_bench *kb, bench_work *work, void *arg);
/* Times calls of work(arg) in seconds, --repetitions times, each the mean of the calls in two
 * milliseconds. */
void bench_time(const kernel_bench *kb, bench_work *work, void *arg, bench_samples *out);

/* ---- bench_cache.c: attention over a KV cache in memory ---- */
struct bench_team;
int bench_caches(kernel_bench *kb, const struct bench_team *teams, size_t n_teams);

/* ---- bench_entries.c: everything but the products with weights ---- */
int bench_entries(kernel_bench *kb);

#endif
