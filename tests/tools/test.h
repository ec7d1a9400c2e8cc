/* The test harness: one file, no dependency, also fit for WebAssembly.  A test is a function; a
 * failed check prints both values, the place, and makes the program exit with 1.
 * SPDX-License-Identifier: MIT
 *
 *   TEST(gguf_rejects_tensor_past_end) { CHECK_EQ(qsf_..., QSF_E_CORRUPT); }
 *   int main(int argc, char **argv) { RUN(gguf_rejects_tensor_past_end); return test_end(); }
 *
 * argv[1], where given to test_begin, runs only tests whose name contains it. */
#ifndef QSF_TEST_H
#define QSF_TEST_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int test_count, test_failed_count, test_skipped_count;
static bool test_failed;
static const char *test_filter;

#define TEST(name) static void name(void)
#define RUN(name) test_run(#name, name)
#define CHECK(cond) do { if (!(cond)) test_fail(__FILE__, __LINE__, #cond); } while (0)
#define CHECK_EQ(a, b) do {                                                             \
        const long long a_ = (long long)(a), b_ = (long long)(b);                       \
        if (a_ != b_) {                                                                 \
            test_fail(__FILE__, __LINE__, #a " == " #b);                                \
            printf("      %lld != %lld\n", a_, b_);                                     \
        }                                                                               \
    } while (0)
#define CHECK_STR(a, b) do {                                                            \
        const char *a_ = (a), *b_ = (b);                                                \
        if (!a_ || !b_ || strcmp(a_, b_)) {                                             \
            test_fail(__FILE__, __LINE__, #a " is " #b);                                \
            printf("      \"%s\" != \"%s\"\n", a_ ? a_ : "(null)", b_ ? b_ : "(null)"); \
        }                                                                               \
    } while (0)
#define CHECK_NEAR(a, b, tol) do {                                                      \
        const double a_ = (a), b_ = (b);                                                \
        if (!(fabs(a_ - b_) <= (tol))) {                                                \
            test_fail(__FILE__, __LINE__, #a " ~ " #b);                                 \
            printf("      %.9g != %.9g (allowed %g)\n", a_, b_, (double)(tol));         \
        }                                                                               \
    } while (0)
/* For what a user's machine need not have (../shared data): CI fails on it through
 * QSF_TEST_NO_SKIP=1. */
#define SKIP(why) do {                                                                  \
        printf("  skipped: %s\n", why);                                                 \
        test_skipped_count++;                                                           \
        if (getenv("QSF_TEST_NO_SKIP"))                                                 \
            test_fail(__FILE__, __LINE__, "skipped where QSF_TEST_NO_SKIP is set");     \
        return;                                                                         \
    } while (0)

/* For features that this build lacks and reports as missing. */
#define LEFT_OUT(why) do { printf("  left out of this build: %s\n", why); return; } while (0)
/* Sweeps take every TEST_EVERYth case where the program runs up to twenty times slower: under
 * ThreadSanitizer and emulators, and, if it reads no foreign bytes, under the address sanitizer. */
#if defined(QSF_TEST_SLOW)
enum { TEST_EVERY = 3 };
#else
enum { TEST_EVERY = 1 };
#endif

/* ThreadSanitizer has nothing to see in a sweep over one thread, and takes a minute for it. */
#if defined(__SANITIZE_THREAD__)
enum { TEST_THREADS_ONLY = 1 };
#else
enum { TEST_THREADS_ONLY = 0 };
#endif

/* What shows that time does not grow with the square of a length: long in one build, short in the
 * others, which run the same C. */
#if defined(QSF_TEST_SHORT) || defined(QSF_TEST_SLOW)
enum { TEST_LONG = 1 << 15 };
#else
enum { TEST_LONG = 1 << 20 };
#endif

static inline void test_fail(const char *file, int line, const char *what)
{
    test_failed = true;
    printf("    %s:%d: %s\n", file, line, what);
}
static inline void test_run(const char *name, void (*fn)(void))
{
    if (test_filter && !strstr(name, test_filter)) return;
    test_failed = false;
    fn();
    test_count++;
    if (test_failed) test_failed_count++;
    printf("%s %s\n", test_failed ? "FAIL" : "ok  ", name);
    fflush(stdout);
}
static inline void test_begin(int argc, char **argv) { test_filter = argc > 1 ? argv[1] : NULL; }
static inline int test_end(void)
{
    printf("%d tests, %d failed, %d skipped\n", test_count, test_failed_count, test_skipped_count);
    if (test_failed_count || !test_count) return 1;
    return test_skipped_count == test_count ? 77 : 0;      /* ctest: skipped */
}

#endif
