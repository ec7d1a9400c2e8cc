/* The thread pool: every thread runs, barriers hold, errors leave nothing behind.  And how many threads a streamed pass settles at.
 * SPDX-License-Identifier: MIT */
#include "pool.h"
#include "test.h"
#include "thread_count.h"

enum { ROUNDS = 200, PHASES = 5 };

typedef struct work {
    qsf_pool *pool;
    uint32_t  n;
    uint32_t  marks[QSF_MAX_THREADS];   /* phases each thread has finished */
    bool      wrong;
} work;

static void phases(void *arg, uint32_t thread)
{
    work *w = arg;
    for (uint32_t p = 1; p <= PHASES; p++) {
        w->marks[thread]++;
        qsf_pool_barrier(w->pool);
        for (uint32_t i = 0; i < w->n; i++)              /* behind the barrier everybody has finished this phase */
            if (w->marks[i] != w->marks[thread]) w->wrong = true;
        qsf_pool_barrier(w->pool);
    }
}

static void check_pool(uint32_t n)
{
    static work w;
    w = (work){ .n = n };
    CHECK_EQ(qsf_pool_new(qsf_platform_native(), n, &w.pool, NULL), QSF_OK);
    CHECK_EQ(qsf_pool_size(w.pool), n);
    const int rounds = n > 8 ? 5 : ROUNDS;
    for (int r = 0; r < rounds; r++) qsf_pool_run(w.pool, phases, &w);
    for (uint32_t i = 0; i < n; i++) CHECK_EQ(w.marks[i], (uint32_t)rounds * PHASES);
    CHECK(!w.wrong);
    qsf_pool_free(w.pool);
}

/* Those that stay away come back: whatever number ran before, and whether they slept meanwhile. */
static void check_use(uint32_t n)
{
    static work w;
    w = (work){ .n = n };
    CHECK_EQ(qsf_pool_new(qsf_platform_native(), n, &w.pool, NULL), QSF_OK);
    for (uint32_t r = 0; r < 5 * ROUNDS; r++) {
        w.n = 1 + r * r / 7 % n;
        memset(w.marks, 0, sizeof w.marks);
        qsf_pool_use(w.pool, w.n);
        CHECK_EQ(qsf_pool_size(w.pool), w.n);
        qsf_pool_run(w.pool, phases, &w);
        for (uint32_t i = 0; i < n; i++) CHECK_EQ(w.marks[i], i < w.n ? (uint32_t)PHASES : 0);
    }
    CHECK(!w.wrong);
    qsf_pool_free(w.pool);
}

TEST(pool_of_which_some_run)
{
    check_use(2);
    check_use(3);
    check_use(7);
}

TEST(pool_of_one) { check_pool(1); }
TEST(pool_of_two) { check_pool(2); }
TEST(pool_of_more_than_processors) { check_pool(7); }
TEST(pool_of_the_most) { check_pool(QSF_MAX_THREADS); }

TEST(pool_refuses_too_many)
{
    qsf_pool *pool;
    qsf_error e = { 0 };
    CHECK_EQ(qsf_pool_new(qsf_platform_native(), QSF_MAX_THREADS + 1, &pool, &e), QSF_E_ARGUMENT);
    CHECK(!pool && strstr(e.text, "257"));
}

static int starts_left;
static const qsf_platform *real;
static qsf_status failing_start(void *user, void (*fn)(void *), void *arg, qsf_thread **out)
{
    if (starts_left-- == 0) return QSF_E_MEMORY;
    return real->thread_start(user, fn, arg, out);
}

TEST(pool_ends_threads_when_one_cannot_start)
{
    qsf_platform p = *(real = qsf_platform_native());
    qsf_pool *pool;
    p.thread_start = failing_start;
    for (int n = 0; n < 3; n++) {
        qsf_error e = { 0 };
        starts_left = n;
        CHECK_EQ(qsf_pool_new(&p, 4, &pool, &e), QSF_E_MEMORY);
        CHECK(!pool && strstr(e.text, "thread"));
    }
}

/* ---- how many threads suit few rows ---- */

/* Passes of a machine where n threads take ns[n]; every 11th pass something else has the processor.  Returns threads in the end. */
static uint32_t settles_at(qsf_thread_count *t, const uint64_t *ns, uint32_t passes, uint64_t *all)
{
    *all = 0;
    for (uint32_t i = 0; i < passes; i++) {
        const uint32_t n = qsf_thread_count_next(t);
        CHECK(n >= 1 && n <= t->most);
        const uint64_t took = i % 11 ? ns[n] + i % 3 : 9 * ns[n];
        *all += ns[n];
        qsf_thread_count_took(t, took);
    }
    return t->best;
}

TEST(thread_count_finds_what_is_fastest)
{
    static const uint64_t more[9] = { [1] = 8000, [2] = 4000, [3] = 2700, [4] = 2000, [6] = 1500, [8] = 1000 };
    static const uint64_t fewer[9] = { [1] = 1000, [2] = 1800, [3] = 2000, [4] = 3000, [6] = 3500, [8] = 4000 };
    static const uint64_t same[9] = { [1] = 1000, [2] = 1000, [3] = 1000, [4] = 1000, [6] = 1000, [8] = 1000 };
    uint64_t all;
    qsf_thread_count t = qsf_thread_count_of(8);
    CHECK_EQ(settles_at(&t, more, 2000, &all), 8);
    CHECK(all < 2000 * more[8] * 103 / 100);               /* trials are rare */
    CHECK_EQ(settles_at(&t, fewer, 4000, &all), 1);        /* the machine has changed */
    CHECK_EQ(settles_at(&t, fewer, 2000, &all), 1);
    CHECK(all < 2000 * fewer[1] * 103 / 100);
    CHECK_EQ(settles_at(&t, more, 4000, &all), 8);
    t = qsf_thread_count_of(2);
    CHECK_EQ(settles_at(&t, fewer, 64, &all), 1);
    CHECK(all < 64 * fewer[1] * 104 / 100);                /* a short answer pays for little */
    t = qsf_thread_count_of(8);
    CHECK_EQ(settles_at(&t, fewer, 20, &all), 1);          /* downhill without a pause */
    t = qsf_thread_count_of(6);
    CHECK_EQ(settles_at(&t, fewer, 20, &all), 1);          /* 6, 3, 2, 1 */
    t = qsf_thread_count_of(8);
    CHECK_EQ(settles_at(&t, same, 2000, &all), 4);         /* no reason to leave what it began with */
    t = qsf_thread_count_of(1);
    CHECK_EQ(settles_at(&t, same, 100, &all), 1);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(pool_of_one);
    RUN(pool_of_two);
    RUN(pool_of_more_than_processors);
    RUN(pool_of_the_most);
    RUN(pool_of_which_some_run);
    RUN(pool_refuses_too_many);
    RUN(pool_ends_threads_when_one_cannot_start);
    RUN(thread_count_finds_what_is_fastest);
    return test_end();
}
