/* What the machine can do: how fast it reads memory and multiplies.  Figures of models and kernels
 * are shares of that.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_BENCH_MACHINE_H
#define QSF_CLI_BENCH_MACHINE_H

#include "bench_peak.h"
#include "benchmark.h"
#include "base/pool.h"

/* Work that a pool's threads share: parts of anything. */
typedef struct bench_shared {
    const qsf_platform *p;
    qsf_pool *pool;
    const uint8_t *bytes;
    size_t parts;
} bench_shared;

double bench_clock(const qsf_platform *p); /* seconds */
/* Calls part(arg, thread, piece) for all pieces; returns the seconds that it took. */
double bench_shared_run(const bench_shared *s, void (*part)(void *arg, uint32_t thread, uint32_t piece),
                        void *arg);
/* The parts of a piece. */
qsf_range bench_shared_part(const bench_shared *s, uint32_t piece);

/* Threads that are measured, and the loop that reads fastest with them. */
typedef struct bench_team {
    qsf_pool *pool;
    bench_reader reader;
} bench_team;

/* Reports GB/s over len bytes, a multiple of 1024, under the name of test; returns the fastest
 * loop, whose best is reader.best. */
bench_reader bench_read(const bench_settings *set, bench_report *rep, qsf_pool *pool, const uint8_t *bytes,
                        size_t len, const char *test);
/* Seconds of one pass over len bytes. */
double bench_read_once(const qsf_platform *p, qsf_pool *pool, const bench_reader *reader,
                       const uint8_t *bytes, size_t len);
/* Reports the 8-bit multiply-adds of an instruction set; returns the most in a second. */
double bench_madds(const bench_settings *set, bench_report *rep, qsf_pool *pool, const char *isa);

/* For --limits: both, by this many threads. */
typedef struct bench_limits {
    double read, madds;
} bench_limits; /* bytes and multiply-adds a second */
int bench_machine(const bench_settings *set, bench_report *rep, uint32_t threads, const char *isa,
                  bench_limits *out); /* returns an exit code */

#endif
