/* What the parts of qsf-bench share: the settings, a measured row and the report that rows go to.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_BENCHMARK_H
#define QSF_CLI_BENCHMARK_H

#include "run.h"

enum { BENCH_LIST_MAX = 16, BENCH_REPS_MAX = 100 };

/* "128,512" and "avx2,avx512", taken apart. */
typedef struct bench_numbers { uint32_t v[BENCH_LIST_MAX]; size_t n; } bench_numbers;
typedef struct bench_words { char v[BENCH_LIST_MAX][24]; size_t n; } bench_words;

typedef struct bench_settings {
    option_list   models;
    model_settings hub;
    const char   *prompts_text, *decodes_text, *depths_text, *threads_text, *isa_text, *io, *filter, *compare,
        *head_topk, *lora, *i2s_layout;
    bench_numbers prompts, decodes, depths, threads;
    bench_words   isas;          /* none: the engine's choice; for kernels, every set of this processor */
    qsf_context_options context; /* --ram-budget, --batch-size, --kv-type */
    device_settings gpu;
    long long     reps, buffer_mb, positions;
    double        tolerance;
    bool          load, parts, operations, kernels, limits, json, csv;
    program_settings program;
} bench_settings;

/* ---- bench_report.c ---- */

typedef struct bench_samples { double v[BENCH_REPS_MAX]; size_t n; } bench_samples;

/* One figure: what was measured, where, and the spread of its repetitions. */
typedef struct bench_row {
    char     model[128];         /* file name without folders; "" for kernels and the machine */
    char     test[64];           /* "pp512", "tg128", "tg128@4096", "load", "4bit/64 n=1 memory" */
    char     isa[24];
    uint32_t threads;
    /* of the figures; of "ms", "ns" and "MB" less is better, of the rest more */
    char     unit[16];
    double   median, min, max, stdev;
    size_t   n;                  /* repetitions */
    double   share;              /* of what the machine can do; < 0: not known */
    const char *share_of;        /* "read", "peak" */
    uint64_t memory;             /* bytes that the model takes; 0: unknown */
} bench_row;

void bench_sort(double *v, size_t n);
/* Median, smallest, largest and standard deviation of the samples (which are put in order). */
void bench_row_figures(bench_row *r, bench_samples *s);

typedef struct bench_report {
    const bench_settings *set;
    bench_row *before;           /* of --compare */
    bool      *used;
    size_t     n_before, n_rows, n_compared, n_slower;
} bench_report;

/* A row for the machine or for a kernel.  shares: one, or one for each repetition, whose median
 * counts; NULL if there is nothing to compare the row with. */
void bench_row_of(bench_report *rep, const char *test, const char *isa, uint32_t threads, const char *unit,
                  bench_samples *s, bench_samples *shares, const char *share_of);

/* Reads the --compare file and prints what comes before the rows.  Returns an exit code. */
int  bench_report_begin(bench_report *rep, const bench_settings *set);
void bench_report_row(bench_report *rep, const bench_row *r);
/* Prints what follows the rows and frees the report.  code: of the run; the result is that, or
 * EXIT_FAILED if the run succeeded and a row is slower than --tolerance allows. */
int  bench_report_end(bench_report *rep, int code);

/* ---- bench_compare.c ---- */
/* The rows of an earlier --json output; the caller frees.  Returns an exit code; errors are
 * reported on stderr. */
int bench_read_rows(const char *path, bench_row **rows, size_t *n);

/* ---- bench_sets.c ---- */
/* The names of all instruction sets that this processor and this build have, weakest first. */
void bench_all_sets(bench_words *out);

/* ---- bench_model.c ---- */
int bench_models(const bench_settings *set, bench_report *rep);
void bench_row_model(bench_row *r, const char *path);

/* ---- bench_head.c ---- */
int bench_heads(const bench_settings *set, bench_report *rep);

/* ---- bench_kernels.c ---- */
int bench_all_kernels(const bench_settings *set, bench_report *rep);

#endif
