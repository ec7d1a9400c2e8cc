/* The figures of qsf-bench as a table, as JSON or as CSV, compared with those of an earlier run.
 * SPDX-License-Identifier: MIT */
#include "benchmark.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int bench_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_sort(double *v, size_t n) { qsort(v, n, sizeof *v, bench_order); }

void bench_row_figures(bench_row *r, bench_samples *s)
{
    double sum = 0, squares = 0;
    bench_sort(s->v, s->n);
    for (size_t i = 0; i < s->n; i++) sum += s->v[i];
    const double mean = sum / (double)s->n;
    for (size_t i = 0; i < s->n; i++) squares += (s->v[i] - mean) * (s->v[i] - mean);
    r->n = s->n;
    r->min = s->v[0];
    r->max = s->v[s->n - 1];
    r->median = (s->v[(s->n - 1) / 2] + s->v[s->n / 2]) / 2;
    r->stdev = s->n > 1 ? sqrt(squares / (double)(s->n - 1)) : 0;
}

void bench_row_of(bench_report *rep, const char *test, const char *isa, uint32_t threads, const char *unit,
                  bench_samples *s, bench_samples *shares, const char *share_of)
{
    bench_row r = { .threads = threads, .share = -1, .share_of = share_of }, middle;
    snprintf(r.test, sizeof r.test, "%s", test);
    snprintf(r.isa, sizeof r.isa, "%s", isa);
    snprintf(r.unit, sizeof r.unit, "%s", unit);
    bench_row_figures(&r, s);
    if (shares) {
        bench_row_figures(&middle, shares);
        r.share = middle.median;
    }
    bench_report_row(rep, &r);
}

/* ---- comparison with an earlier run ---- */

/* Less of it is better. */
static bool bench_is_cost(const bench_row *r)
{
    return !strcmp(r->unit, "ms") || !strcmp(r->unit, "ns") || !strcmp(r->unit, "MB");
}

static bool bench_same(const bench_row *a, const bench_row *b)
{
    return a->threads == b->threads && !strcmp(a->test, b->test) && !strcmp(a->model, b->model)
        && !strcmp(a->isa, b->isa) && !strcmp(a->unit, b->unit);
}

static const bench_row *bench_before(bench_report *rep, const bench_row *r)
{
    size_t i = 0;
    while (i < rep->n_before && (rep->used[i] || !bench_same(&rep->before[i], r))) i++;
    if (i == rep->n_before) return NULL;
    rep->used[i] = true;
    return &rep->before[i];
}

/* Above 1 is faster than before, for times too; 0: unknown. */
static double bench_ratio(const bench_row *now, const bench_row *before)
{
    if (!before || !(now->median > 0) || !(before->median > 0)) return 0;
    return bench_is_cost(now) ? before->median / now->median : now->median / before->median;
}

/* ---- the three forms ---- */

static void bench_json_text(const char *text)
{
    putchar('"');
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\') printf("\\%c", *p);
        else if (*p < 0x20) printf("\\u%04x", *p);
        else putchar(*p);
    }
    putchar('"');
}

static void bench_csv_text(const char *text)
{
    if (!text[strcspn(text, ",\"\n\r")]) {
        fputs(text, stdout);
        return;
    }
    putchar('"');
    for (; *text; text++) printf(*text == '"' ? "\"\"" : "%c", *text);
    putchar('"');
}

static void bench_print_json(const bench_report *rep, const bench_row *r, const bench_row *before,
                             double ratio)
{
    printf("%s\n  {", rep->n_rows ? "," : "");
    if (r->model[0]) {
        printf("\"model\": ");
        bench_json_text(r->model);
        printf(", ");
    }
    printf("\"test\": ");
    bench_json_text(r->test);
    printf(", \"isa\": \"%s\", \"threads\": %u, \"unit\": \"%s\", \"median\": %.6g, \"min\": %.6g, \"max\": "
           "%.6g, \"stdev\": %.4g, \"n\": %u", r->isa, (unsigned)r->threads, r->unit, r->median, r->min,
           r->max, r->stdev, (unsigned)r->n);
    if (r->share >= 0) printf(", \"share\": %.4f, \"share_of\": \"%s\"", r->share, r->share_of);
    if (r->memory) printf(", \"memory\": %llu", (unsigned long long)r->memory);
    if (before) printf(", \"before\": %.6g, \"ratio\": %.4f", before->median, ratio);
    printf("}");
}

static void bench_print_csv(const bench_row *r, const bench_row *before, double ratio)
{
    bench_csv_text(r->model);
    putchar(',');
    bench_csv_text(r->test);
    printf(",%s,%u,%s,%.6g,%.6g,%.6g,%.4g,%u,", r->isa, (unsigned)r->threads, r->unit, r->median, r->min,
           r->max, r->stdev, (unsigned)r->n);
    if (r->share >= 0) printf("%.4f", r->share);
    putchar(',');
    if (before) printf("%.6g,%.4f\n", before->median, ratio);
    else printf(",\n");
}

static void bench_print_table(const bench_report *rep, const bench_row *r, const bench_row *before,
                              double ratio)
{
    if (!rep->n_rows)
        printf("%-30s %-27s %-8s %3s %9s %9s %9s %8s  %s\n", "model", "test", "isa", "thr", "median", "min",
               "max", "stdev", "unit");
    printf("%-30.30s %-27s %-8s %3u %9.4g %9.4g %9.4g %8.2g  %s", r->model, r->test, r->isa,
           (unsigned)r->threads, r->median, r->min, r->max, r->stdev, r->unit);
    if (r->share >= 0) printf("  %.0f%% of %s", 100 * r->share, r->share_of);
    if (before) printf("  x%.3f of %.4g", ratio, before->median);
    putchar('\n');
}

/* ---- the report ---- */

int bench_report_begin(bench_report *rep, const bench_settings *set)
{
    *rep = (bench_report){ .set = set };
    if (set->compare) {
        const int code = bench_read_rows(set->compare, &rep->before, &rep->n_before);
        if (code) return code;
        rep->used = calloc(rep->n_before ? rep->n_before : 1, sizeof *rep->used);
        if (!rep->used) {
            fputs("out of memory\n", stderr);
            free(rep->before);
            return EXIT_NO_MEMORY;
        }
    }
    if (set->json) {
        size_t len;
        const char *kv = option_word("kv-type", (int)set->context.kv_type, &len);
        printf("{\"qsf-bench\": \"%s\", \"batch\": %u, \"kv\": \"%.*s\", \"results\": [", qsf_version(),
               (unsigned)set->context.n_batch, (int)len, kv);
    }
    if (set->csv) printf("model,test,isa,threads,unit,median,min,max,stdev,n,share,before,ratio\n");
    return EXIT_OK;
}

void bench_report_row(bench_report *rep, const bench_row *r)
{
    const bench_row *before = bench_before(rep, r);
    const double ratio = bench_ratio(r, before);
    if (rep->set->json) bench_print_json(rep, r, before, ratio);
    else if (rep->set->csv) bench_print_csv(r, before, ratio);
    else bench_print_table(rep, r, before, ratio);
    fflush(stdout);              /* a run takes minutes: each figure shows when it is there */
    rep->n_rows++;
    if (ratio <= 0) return;
    rep->n_compared++;
    if (ratio >= 1 - rep->set->tolerance / 100) return;
    rep->n_slower++;
    fprintf(stderr, "slower: %s%s%s, %s, %u threads: %.4g %s, before %.4g\n", r->model,
            r->model[0] ? ", " : "", r->test, r->isa, (unsigned)r->threads, r->median, r->unit,
            before->median);
}

int bench_report_end(bench_report *rep, int code)
{
    if (rep->set->json) printf("\n]}\n");
    if (rep->set->compare) {
        fprintf(stderr, "%u rows compared, %u slower by more than %g percent\n", (unsigned)rep->n_compared,
                (unsigned)rep->n_slower, rep->set->tolerance);
        if (!code && rep->n_slower) code = EXIT_FAILED;
        if (!code && !rep->n_compared) {
            fprintf(stderr,
                    "%s has no row to compare with: model, test, instruction set and threads must be the "
                    "same\n", rep->set->compare);
            code = EXIT_FAILED;
        }
    }
    free(rep->before);
    free(rep->used);
    return code;
}
