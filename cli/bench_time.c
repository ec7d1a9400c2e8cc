/* qsf-bench --kernels: which measurements are wanted, and how long a call takes.
 * SPDX-License-Identifier: MIT */
#include "bench_kernels.h"

#include "bench_machine.h"

double bench_seconds(const kernel_bench *kb) { return bench_clock(kb->p); }

bool bench_wanted(const kernel_bench *kb, const char *isa, const char *test)
{
    char full[120], word[40];
    snprintf(full, sizeof full, "%s %s", isa, test);
    for (const char *p = kb->set->filter; p && *p;) {
        const size_t len = strcspn(p, " ");
        if (len >= sizeof word) return false;
        memcpy(word, p, len);
        word[len] = 0;
        if (!strstr(full, word)) return false;
        p += len + (p[len] == ' ');
    }
    return true;
}

double bench_calls(const kernel_bench *kb, bench_work *work, void *arg, size_t calls)
{
    const double begin = bench_seconds(kb);
    for (size_t i = 0; i < calls; i++) work(arg);
    return bench_seconds(kb) - begin;
}

size_t bench_calibrate(const kernel_bench *kb, bench_work *work, void *arg)
{
    size_t calls = 1;
    while (bench_calls(kb, work, arg, calls) < 2e-3) calls *= 2;
    return calls;
}

void bench_time(const kernel_bench *kb, bench_work *work, void *arg, bench_samples *out)
{
    const size_t calls = bench_calibrate(kb, work, arg);
    out->n = 0;
    for (long long i = 0; i < kb->set->reps; i++)
        out->v[out->n++] = bench_calls(kb, work, arg, calls) / (double)calls;
}
