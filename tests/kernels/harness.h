/* What the kernel checks share: random numbers with a printed seed, memory that ends at an
 * unreadable page, comparison.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_HARNESS_H
#define KERNELS_HARNESS_H

#include "kernels.h"
#include "test.h"

#if !defined(__wasm__)
#  include <setjmp.h>
#  include <signal.h>
#endif
#if !defined(_WIN32) && !defined(__wasm__)
#  define GUARD_PAGES 1
#  include <sys/mman.h>
#  include <unistd.h>
#endif

enum { GUARD_SLOTS = 26, GUARD_BYTES = 1 << 21, CANARY_BYTES = 256, CANARY = 0xa5 };

typedef struct guard_slot { uint8_t *base, *end, *p; } guard_slot;

/* One check of one entry: misses are counted, and printed unless the check is
 * expected to find some. */
typedef struct table_test {
    uint64_t    rng;
    const char *entry;
    int         form;           /* of matvec and matmul */
    bool        quiet;
    int         misses, round;
    char        shape[160];     /* of the round, for the message */
    guard_slot  slots[GUARD_SLOTS];
    int         n_slots;
} table_test;

static uint64_t rng_next(table_test *t)
{
    t->rng ^= t->rng >> 12, t->rng ^= t->rng << 25, t->rng ^= t->rng >> 27;
    return t->rng * 0x2545f4914f6cdd1d;
}
/* In 64 bits, so that every machine checks the same cases. */
static size_t pick(table_test *t, size_t lo, size_t hi)
{
    return lo + (size_t)((rng_next(t) >> 16) % (hi - lo + 1));
}
static float  pick_f32(table_test *t, float amp)
{
    return amp * (2 * (float)(rng_next(t) >> 40) * 0x1p-24f - 1);
}

static void miss(table_test *t, const char *fmt, ...) QSF_PRINTF(2, 3);
static void miss(table_test *t, const char *fmt, ...)
{
    if (t->misses++ || t->quiet) return;
    va_list ap;
    va_start(ap, fmt);
    printf("    %s, round %d, %s: ", t->entry, t->round, t->shape);
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
}

#define SHAPE(t, ...) snprintf((t)->shape, sizeof (t)->shape, __VA_ARGS__)

/* ---- memory that ends where an unreadable page begins; bytes before it are watched ---- */
static uint8_t *guard_alloc(table_test *t, size_t bytes)
{
    if (t->n_slots == GUARD_SLOTS || bytes + CANARY_BYTES > GUARD_BYTES) {
        printf("kernels_test: too much guarded memory\n");
        exit(1);
    }
    guard_slot *s = &t->slots[t->n_slots++];
    if (!s->base) {
#if GUARD_PAGES
        const size_t page = (size_t)sysconf(_SC_PAGESIZE);
        s->base = mmap(NULL, GUARD_BYTES + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (s->base == MAP_FAILED || mprotect(s->base + GUARD_BYTES, page, PROT_NONE)) {
            perror("mmap");
            exit(1);
        }
#else
        s->base = malloc(GUARD_BYTES + CANARY_BYTES);
        if (!s->base) { perror("malloc"); exit(1); }
        memset(s->base + GUARD_BYTES, CANARY, CANARY_BYTES);
#endif
        s->end = s->base + GUARD_BYTES;
    }
    s->p = s->end - bytes;
    memset(s->p - CANARY_BYTES, CANARY, CANARY_BYTES);
    return s->p;
}
static float *guard_f32(table_test *t, size_t n) { return (float *)(void *)guard_alloc(t, 4 * n); }
static float *guard_f32_copy(table_test *t, const float *x, size_t n)
{
    float *p = guard_f32(t, n);
    if (n) memcpy(p, x, 4 * n);
    return p;
}

/* Ends a round: nothing was written before a buffer (or,
 * without guard pages, after it). */
static void guard_end(table_test *t)
{
    for (int i = 0; i < t->n_slots; i++) {
        for (int b = 1; b <= CANARY_BYTES; b++)
            if (*(t->slots[i].p - b) != CANARY) { miss(t, "wrote %d bytes before buffer %d", b, i); break; }
#if !GUARD_PAGES
        for (int b = 0; b < CANARY_BYTES; b++)
            if (t->slots[i].end[b] != CANARY) {
                miss(t, "wrote %d bytes after buffer %d", b, i);
                t->slots[i].end[b] = CANARY;
                break;
            }
#endif
    }
    t->n_slots = 0;
}

/* ---- input ---- */
/* Round 0 is all zero, 1 extreme, the rest random. */
static void fill_f32(table_test *t, float *x, size_t n, float amp, float extreme)
{
    for (size_t i = 0; i < n; i++)
        x[i] = t->round == 0 ? 0 : t->round == 1 ? (rng_next(t) & 1 << 20 ? extreme : -extreme)
        : pick_f32(t, amp);
}
static size_t pick_size(table_test *t, size_t max)
{
    static const size_t edge[] = { 64, 64, 0, 1, 63, 64, 65, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33,
                                   127, 128, 129 };
    const size_t n = t->round < (int)QSF_ARRAY_LEN(edge) ? edge[t->round] : pick(t, 1, max);
    return QSF_MIN(n, max);
}
#define ROUNDS(t, n) for ((t)->round = 0; (t)->round < (n) && (t)->misses < 3; guard_end(t), (t)->round++)
/* Rounds 0 to 2 have special values.  Of the others a slow build takes every fifth, which has every
 * remainder of 2, 3 and 4; the sets of ARM and WebAssembly have no other build. */
#if defined(__aarch64__) || defined(__wasm__)
enum { ROUND_STEP = 1 };
#else
enum { ROUND_STEP = TEST_EVERY > 1 ? 5 : 1 };
#endif
#define SOME_ROUNDS(t, n) for ((t)->round = 0; (t)->round < (n) && (t)->misses < 3; \
                               guard_end(t), (t)->round += (t)->round < 2 ? 1 : ROUND_STEP)

/* ---- output ---- */
/* |a - b| <= tol * largest |a|, infinities and NaN in the same places. */
static void same_f32(table_test *t, const char *what, const float *a, const float *b, size_t n, double tol)
{
    double top = 0;
    for (size_t i = 0; i < n; i++) if (isfinite(a[i]) && fabs(a[i]) > top) top = fabs(a[i]);
    for (size_t i = 0; i < n; i++) {
        const bool same = isfinite(a[i]) ? fabs((double)a[i] - b[i]) <= tol * top : isnan(a[i]) ? isnan(b[i])
            : a[i] == b[i];
        if (!same) { miss(t, "%s[%zu]: %.9g, not %.9g (largest %.3g)", what, i, b[i], a[i], top); return; }
    }
}
/* Each one within tol of its own size, or within floor. */
static void near_f32(table_test *t, const char *what, const float *a, const float *b, size_t n, double tol,
                     double floor)
{
    for (size_t i = 0; i < n; i++) {
        const bool same = isfinite(a[i]) ? fabs((double)a[i] - b[i]) <= tol * fabs(a[i]) + floor : isnan(a[i])
            ? isnan(b[i]) : a[i] == b[i];
        if (!same) { miss(t, "%s[%zu]: %.9g, not %.9g", what, i, b[i], a[i]); return; }
    }
}
static void same_bytes(table_test *t, const char *what, const void *a, const void *b, size_t n)
{
    const uint8_t *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i]) {
            miss(t, "%s, byte %zu: %d, not %d", what, i, y[i], x[i]);
            return;
        }
}

/* ---- one check, also when it crashes ---- */
typedef void check_fn(table_test *t, const qsf_kernels *ref, const qsf_kernels *var);
#if defined(__wasm__)           /* no signals: a trap ends the program */
static int run_check(table_test *t, check_fn *check, const qsf_kernels *ref, const qsf_kernels *var)
{
    t->misses = 0, t->n_slots = 0;
    check(t, ref, var);
    return t->misses;
}
#else
static jmp_buf check_crashed;
static void on_crash(int sig) { signal(sig, on_crash); longjmp(check_crashed, sig); }

static int run_check(table_test *t, check_fn *check, const qsf_kernels *ref, const qsf_kernels *var)
{
    static const int signals[] = { SIGSEGV, SIGILL, SIGFPE,
#ifdef SIGBUS
        SIGBUS,
#endif
    };
    t->misses = 0, t->n_slots = 0;
    for (size_t i = 0; i < QSF_ARRAY_LEN(signals); i++) signal(signals[i], on_crash);
#if GUARD_PAGES
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);      /* longjmp leaves the signal blocked */
#endif
    const int crash = setjmp(check_crashed);
    if (!crash) check(t, ref, var);
    else miss(t, "signal %d: read or written outside a buffer", crash);
    for (size_t i = 0; i < QSF_ARRAY_LEN(signals); i++) signal(signals[i], SIG_DFL);
    return t->misses;
}
#endif

#endif
