/* The thread pool: every piece is done once, late threads delay little, errors do not leak.  And
 * how many threads a streamed pass settles at.
 * SPDX-License-Identifier: MIT */
#include "base/crc_shared.h"
#include "base/pool.h"
#include "base/pool_rest.h"
#include "test.h"
#include "engine/thread_count.h"

#include <stdatomic.h>

enum { ROUNDS = 200, MOST = 300 };

typedef struct work {
    qsf_pool *pool;
    uint32_t  n, job;
    _Atomic uint32_t done[MOST];            /* the last job that did this piece */
    _Atomic uint32_t busy[QSF_MAX_THREADS]; /* calls under way with this thread's number */
    _Atomic uint32_t ran;                   /* bits of the threads that did anything */
    _Atomic bool wrong;
    uint32_t  threads;
    uint32_t  late_thread, late_ms;         /* this one sleeps in every piece */
} work;

static void nap(uint32_t ms)
{
    const qsf_platform *p = qsf_platform_native();
    uint32_t word = 0;
    const uint64_t end = p->now_ns(p->user) + ms * 1000000ull;
    while (p->now_ns(p->user) < end) p->wait32(p->user, &word, 0, end - p->now_ns(p->user));
}

static void work_piece(void *arg, uint32_t thread, uint32_t piece)
{
    work *w = arg;
    if (thread >= w->threads || piece >= w->n || atomic_fetch_add(&w->busy[thread], 1)) w->wrong = true;
    if (atomic_exchange(&w->done[piece], w->job) != w->job - 1) w->wrong = true;
    atomic_fetch_or(&w->ran, 1u << thread % 32);
    if (w->late_ms && thread == w->late_thread) nap(w->late_ms);
    atomic_fetch_sub(&w->busy[thread], 1);
}

/* Every piece of every job is done once, before the run returns, and no two calls have one thread's
 * number at once. */
static void check_jobs(work *w, uint32_t jobs)
{
    for (uint32_t j = 0; j < jobs; j++) {
        w->n = j % 7 ? 1 + j * 37 % MOST : MOST;
        for (uint32_t i = 0; i < w->n; i++) w->done[i] = w->job;
        w->job++;
        qsf_pool_run(w->pool, w->n, 1, work_piece, w);
        for (uint32_t i = 0; i < w->n; i++)
            if (w->done[i] != w->job) w->wrong = true;
    }
    CHECK(!w->wrong);
}

static void check_pool(uint32_t n)
{
    static work w;
    w = (work){ .threads = n };
    CHECK_EQ(qsf_pool_new(qsf_platform_native(), n, &w.pool, NULL), QSF_OK);
    CHECK_EQ(qsf_pool_size(w.pool), n);
    check_jobs(&w, n > 8 ? 20 : ROUNDS);
    qsf_pool_run(w.pool, 0, 1, work_piece, &w);              /* nothing to do */
    CHECK(!w.wrong);
    qsf_pool_free(w.pool);
}

/* Those that stay away come back: whatever number ran before, and whether they slept meanwhile. */
static void check_use(uint32_t n)
{
    static work w;
    w = (work){ .threads = n };
    CHECK_EQ(qsf_pool_new(qsf_platform_native(), n, &w.pool, NULL), QSF_OK);
    for (uint32_t r = 0; r < ROUNDS; r++) {
        const uint32_t some = 1 + r * r / 7 % n;
        qsf_pool_use(w.pool, some);
        CHECK_EQ(qsf_pool_size(w.pool), some);
        if (r % 50 == 49) nap(3);
        check_jobs(&w, 8);
    }
    qsf_pool_free(w.pool);
}

/* Threads take part at all: while each piece sleeps, somebody else must take the next. */
TEST(pool_shares_its_pieces)
{
    static work w;
    w = (work){ .threads = 3, .n = 12 };
    CHECK_EQ(qsf_pool_new(qsf_platform_native(), 3, &w.pool, NULL), QSF_OK);
    for (uint32_t r = 0; r < 100 && w.ran != 7; r++)
        for (w.late_thread = 0; w.late_thread < 3; w.late_thread++) {
            w.late_ms = 2;
            for (uint32_t i = 0; i < w.n; i++) w.done[i] = w.job;
            w.job++;
            qsf_pool_run(w.pool, w.n, 1, work_piece, &w);
        }
    CHECK_EQ(w.ran, 7);
    CHECK(!w.wrong);
    qsf_pool_free(w.pool);
}

/* A thread that is stopped in each of its pieces for 20 ms, as on a machine that others keep busy:
 * it is sent to rest, so that a job's usual time is not its own. */
TEST(pool_goes_on_without_a_thread_that_is_late)
{
    static work w;
    const qsf_platform *p = qsf_platform_native();
    w = (work){ .threads = 2, .n = 8, .late_thread = 1, .late_ms = 20 };
    CHECK_EQ(qsf_pool_new(p, 2, &w.pool, NULL), QSF_OK);
    const uint64_t begin = p->now_ns(p->user);
    uint32_t slow = 0, jobs = 0;
    while (p->now_ns(p->user) - begin < 600000000u) {
        const uint64_t from = p->now_ns(p->user);
        for (uint32_t i = 0; i < w.n; i++) w.done[i] = w.job;
        w.job++;
        qsf_pool_run(w.pool, w.n, 1, work_piece, &w);
        slow += p->now_ns(p->user) - from > 15000000u;
        jobs++;
    }
    CHECK(!w.wrong);
    CHECK(jobs > 5 * slow);                 /* thirty slow jobs would fill the time */
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

TEST(pool_on_a_host_without_threads)
{
    static work w;
    qsf_platform p = *qsf_platform_native();
    p.thread_start = NULL;
    p.wait32 = NULL;
    p.wake32 = NULL;
    w = (work){ .threads = 1 };
    CHECK_EQ(qsf_pool_new(&p, 0, &w.pool, NULL), QSF_OK);
    check_jobs(&w, 3);
    qsf_pool_free(w.pool);
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

/* Passes of a machine where n threads take ns[n]; every 11th pass something else has the processor.
 * Returns threads in the end. */
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
    static const uint64_t more[9] = { [1] = 8000, [2] = 4000, [3] = 2700, [4] = 2000, [6] = 1500,
                                      [8] = 1000 };
    static const uint64_t fewer[9] = { [1] = 1000, [2] = 1800, [3] = 2000, [4] = 3000, [6] = 3500,
                                       [8] = 4000 };
    static const uint64_t same[9] = { [1] = 1000, [2] = 1000, [3] = 1000, [4] = 1000, [6] = 1000,
                                      [8] = 1000 };
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

/* ---- whether threads that are late help ---- */

/* A second of jobs of 100 us each, alone; with the others, a job takes with_us.  Returns for how
 * many ms the others ran. */
static uint32_t rest_second(qsf_rest *r, uint64_t *now, uint64_t with_us)
{
    uint32_t with = 0;
    for (const uint64_t end = *now + 1000000000u; *now < end;) {
        const uint64_t begin = *now;
        const bool alone = r->state == QSF_REST_ALONE;
        *now += 1000 * (alone ? 100 : with_us);
        with += alone ? 0 : (uint32_t)with_us;
        if (!alone && with_us > 40) qsf_rest_late(r, *now);
        if (qsf_rest_wants(r, 77)) qsf_rest_job(r, 77, begin, *now);
    }
    return with / 1000;
}

TEST(rest_forgives_a_piece_that_is_late_alone)
{
    qsf_rest r = { .state = QSF_REST_NONE };
    const uint64_t ms = 1000000;
    for (uint64_t i = 1; i < 20; i++) CHECK(!qsf_rest_late(&r, 1000 * ms + 60 * ms * i));
    CHECK(qsf_rest_late(&r, 1000 * ms + 60 * ms * 19 + 40 * ms));
    CHECK_EQ(r.state, QSF_REST_ALONE);
}

TEST(rest_follows_what_the_machine_gives)
{
    qsf_rest r = { .state = QSF_REST_NONE };
    uint64_t now = 1000000000u;
    CHECK_EQ(rest_second(&r, &now, 40), 1000);             /* no thread is late: nothing is tried */
    CHECK(rest_second(&r, &now, 300) < 100);               /* three times as slow with them */
    CHECK(rest_second(&r, &now, 300) < 30);
    CHECK(rest_second(&r, &now, 300) < 30);
    /* the neighbours have gone: found out within the second */
    CHECK(rest_second(&r, &now, 40) > 0);
    CHECK(rest_second(&r, &now, 40) > 950);
    CHECK(rest_second(&r, &now, 60) > 850);                /* late at times, and still faster with them */
    CHECK(rest_second(&r, &now, 60) > 850);
}

/* Of parts of any length, the last one shorter or not. */
TEST(pool_computes_the_crc_of_one)
{
    static const size_t lens[] = { 0, 1, 65536, 131071, 131072, 131073, 1000003, 4 << 20 };
    uint8_t *bytes = malloc(4 << 20);
    CHECK(bytes);
    uint32_t x = 1;
    for (uint32_t i = 0; i < 4 << 20; i++) bytes[i] = (uint8_t)((x = x * 1664525u + 1013904223u) >> 24);
    for (uint32_t threads = 1; threads <= 5; threads += 2) {
        qsf_pool *pool;
        CHECK_EQ(qsf_pool_new(qsf_platform_native(), threads, &pool, NULL), QSF_OK);
        for (size_t i = 0; i < sizeof lens / sizeof *lens; i++)
            CHECK_EQ(qsf_crc32_shared(pool, qsf_crc32, bytes, lens[i]), qsf_crc32(0, bytes, lens[i]));
        qsf_pool_free(pool);
    }
    CHECK_EQ(qsf_crc32_shared(NULL, qsf_crc32, bytes, 1000003), qsf_crc32(0, bytes, 1000003));
    free(bytes);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(pool_computes_the_crc_of_one);
    RUN(pool_of_one);
    RUN(pool_of_two);
    RUN(pool_of_more_than_processors);
    RUN(pool_of_the_most);
    RUN(pool_of_which_some_run);
    RUN(pool_shares_its_pieces);
    RUN(pool_goes_on_without_a_thread_that_is_late);
    RUN(pool_on_a_host_without_threads);
    RUN(pool_refuses_too_many);
    RUN(pool_ends_threads_when_one_cannot_start);
    RUN(thread_count_finds_what_is_fastest);
    RUN(rest_forgives_a_piece_that_is_late_alone);
    RUN(rest_follows_what_the_machine_gives);
    return test_end();
}
