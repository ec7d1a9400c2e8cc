/* The thread pool.  The caller never waits for a thread, only for pieces that one has begun.
 * SPDX-License-Identifier: MIT
 *
 * Each thread has a range of a job's pieces, which are adjacent in memory, and claims them one by
 * one; then it claims pieces left in the ranges of other threads.  The caller does the same, and
 * continues as soon as all pieces are done, whichever thread did them: a thread that is not
 * scheduled delays only the piece it has begun.  When other programs compete for the processors,
 * even that happens too often: such a thread is preempted in the middle of a piece at the end of
 * each time slice, for some milliseconds.  So the caller detects late pieces, and
 * measures whether it is faster without their threads (pool_rest.c).
 *
 * A waiting thread spins first, because waking it takes longer than most waits.  The spin time is
 * learned from earlier waits; a jump of the clock during a spin means that another thread had the
 * processor, and would have had it sooner if this one had slept. */
#include "base/pool.h"
#include "base/pool_rest.h"

#include <stdatomic.h>

/* WebAssembly has no pause, and asking for the time is dear there. */
#if defined(__x86_64__) || defined(__i386__)
#  define POOL_RELAX() __builtin_ia32_pause()
enum { POOL_LOOKS = 64 };
#elif defined(__aarch64__)
#  define POOL_RELAX() __asm__ volatile("yield")
enum { POOL_LOOKS = 64 };
#else
#  define POOL_RELAX() ((void)0)
enum { POOL_LOOKS = 4096 };
#endif

/* Nanoseconds. */
enum {
    SPIN_LEAST = 20000,   /* a thread for the next job, at least */
    SPIN_MOST = 1000000,  /* and at most */
    SPIN_CALLER = 50000,  /* the caller for the last pieces, or as long as two pieces take */
    STALL_LEAST = 300000, /* a piece this late was preempted, if it is also late by several pieces */
    JUMP = 250000,        /* POOL_LOOKS looks take a thousandth of this time */
    WAKE_EVERY = 500000   /* a thread that sleeps again and again is not woken for each job */
};
enum { WAKES_OFTEN = 6 }; /* in a row, at most 4 WAKE_EVERY apart: another program has its processor */

/* A job in a word: its number (they only grow) << 21 | threads - 1 << 13 | pieces.  The same with
 * the pieces of a range that are claimed: number << 21 | pieces. */
enum { JOB_PIECES = 13, JOB_NUMBER = 21 };
static uint32_t job_pieces(uint64_t job) { return job & ((1u << JOB_PIECES) - 1); }
static uint32_t job_threads(uint64_t job) { return (job >> JOB_PIECES & (QSF_MAX_THREADS - 1)) + 1; }

typedef struct pool_worker {
    _Alignas(64) _Atomic uint64_t claimed; /* of its range */
    _Alignas(64) _Atomic uint32_t resting; /* sleeps on it while it is 1 */
    _Atomic uint32_t working, asleep;      /* may have a piece in hand; waits for the bell */
    uint64_t seen;                         /* the job of which it found nothing more to claim */
    qsf_pool *pool;
    uint32_t index;
    qsf_thread *thread;
    uint64_t usual;       /* the longest of its short waits for a job, decaying slowly */
    bool rests, was_late; /* the caller's: it is to rest; it did so before the trial */
} pool_worker;

struct qsf_pool {
    _Alignas(64) _Atomic uint64_t job;      /* the one under way, or the last one */
    void (*fn)(void *, uint32_t, uint32_t); /* of the job; stays until its last piece is done */
    void *arg;
    _Alignas(64) _Atomic uint32_t left; /* pieces that are not done; the caller sleeps on it */
    _Atomic uint32_t caller_sleeps;
    _Alignas(64) _Atomic uint32_t bell; /* workers sleep on it */
    _Atomic uint32_t sleepers;
    _Atomic bool stop;
    _Alignas(64) uint32_t n, active;
    uint32_t n_resting; /* of the active ones */
    qsf_rest rest;
    uint64_t woken; /* when a thread was last woken */
    uint32_t wakes; /* shortly after one another */
    bool crowded;   /* more threads than processors: a spinning thread keeps another from working */
    const qsf_platform *platform;
    pool_worker workers[]; /* [0]: the caller's range */
};

/* ---- pieces ---- */

/* The next piece of a thread's range, -1: all are claimed.
 * While one is not, the job is under way. */
static int32_t pool_claim(pool_worker *of, uint64_t job, qsf_range range)
{
    const uint64_t none = job >> JOB_NUMBER << JOB_NUMBER;
    uint64_t at = atomic_load_explicit(&of->claimed, memory_order_relaxed);
    for (;;) {
        const uint64_t from = QSF_MAX(at, none); /* claims of an earlier job do not count */
        const uint64_t piece = range.begin + (from - none);
        if (piece >= range.end) return -1; /* also if a later job has begun */
        if (atomic_compare_exchange_weak_explicit(&of->claimed, &at, from + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return (int32_t)piece;
    }
}

/* Does pieces until all are claimed; returns how many.
 * The job cannot end before they are taken off. */
static uint32_t pool_work(qsf_pool *pool, uint32_t thread, uint64_t job)
{
    const uint32_t threads = job_threads(job);
    uint32_t done = 0;
    for (uint32_t k = 0; k < threads; k++) {
        const uint32_t of = (thread + k) % threads;
        const qsf_range range = qsf_range_of(job_pieces(job), of, threads);
        for (int32_t piece; (piece = pool_claim(&pool->workers[of], job, range)) >= 0; done++)
            pool->fn(pool->arg, thread, (uint32_t)piece);
    }
    return done;
}

/* ---- the workers ---- */

static void helper_learn(pool_worker *w, uint64_t waited)
{
    if (waited > SPIN_MOST) return; /* between two answers: no reason to spin longer */
    w->usual -= w->usual / 256;
    w->usual = QSF_MAX(w->usual, waited);
}

/* Spins, then sleeps, until a job arrives. */
static void helper_wait(pool_worker *w)
{
    qsf_pool *pool = w->pool;
    const qsf_platform *p = pool->platform;
    const uint64_t begin = qsf_now(p);
    const uint64_t most = pool->crowded ? 0 : QSF_MIN(QSF_MAX(2 * w->usual, SPIN_LEAST), SPIN_MOST);
    uint64_t last = begin;
    for (uint32_t i = 1;; i++) {
        if (atomic_load_explicit(&pool->job, memory_order_relaxed) != w->seen ||
            atomic_load_explicit(&w->resting, memory_order_relaxed) ||
            atomic_load_explicit(&pool->stop, memory_order_relaxed)) {
            if (i > POOL_LOOKS) helper_learn(w, last - begin);
            return;
        }
        POOL_RELAX();
        if (i % POOL_LOOKS) continue;
        const uint64_t now = qsf_now(p);
        if (now - last > JUMP) {
            w->usual = 0;
            break;
        }
        last = now;
        if (now - begin >= most || !now) break; /* 0: the host has no clock */
    }
    const uint32_t bell = atomic_load(&pool->bell);
    atomic_store_explicit(&w->asleep, 1, memory_order_relaxed);
    atomic_fetch_add(&pool->sleepers, 1);
    if (atomic_load(&pool->job) == w->seen && !atomic_load(&pool->stop) && !atomic_load(&w->resting))
        p->wait32(p->user, (uint32_t *)&pool->bell, bell, 1000000000u);
    atomic_fetch_sub(&pool->sleepers, 1);
    atomic_store_explicit(&w->asleep, 0, memory_order_relaxed);
    helper_learn(w, qsf_now(p) - begin);
}

static void helper_main(void *arg)
{
    pool_worker *w = arg;
    qsf_pool *pool = w->pool;
    const qsf_platform *p = pool->platform;
    while (!atomic_load_explicit(&pool->stop, memory_order_acquire)) {
        if (atomic_load_explicit(&w->resting, memory_order_relaxed)) {
            p->wait32(p->user, (uint32_t *)&w->resting, 1, 1000000000u);
            continue;
        }
        const uint64_t job = atomic_load_explicit(&pool->job, memory_order_acquire);
        if (job == w->seen) {
            helper_wait(w);
            continue;
        }
        atomic_store_explicit(&w->working, 1, memory_order_relaxed);
        const uint32_t done = pool_work(pool, w->index, job);
        atomic_store_explicit(&w->working, 0, memory_order_relaxed);
        w->seen = job;
        if (done && atomic_fetch_sub(&pool->left, done) == done && atomic_load(&pool->caller_sleeps))
            p->wake32(p->user, (uint32_t *)&pool->left, 1);
    }
}

/* ---- the caller ---- */

static void helper_rest(pool_worker *w, bool rest)
{
    const qsf_platform *p = w->pool->platform;
    if (atomic_load_explicit(&w->resting, memory_order_relaxed) == rest) return;
    atomic_store(&w->resting, rest);
    if (!rest) p->wake32(p->user, (uint32_t *)&w->resting, 1);
}

/* Updates which threads rest and which run, after a piece was late or a rest has ended. */
static void pool_rest(qsf_pool *pool)
{
    pool->n_resting = 0;
    for (uint32_t i = 1; i < pool->n; i++) {
        pool_worker *w = &pool->workers[i];
        pool->n_resting += i < pool->active && w->rests;
        helper_rest(w, i >= pool->active || w->rests);
    }
}

/* A piece was far too late, or a thread falls asleep repeatedly: such threads may have to rest. */
static void pool_late(qsf_pool *pool, uint64_t now)
{
    if (!qsf_rest_late(&pool->rest, now)) return;
    for (uint32_t i = 1; i < pool->active; i++) {
        pool_worker *w = &pool->workers[i];
        w->rests |= atomic_load_explicit(&w->working, memory_order_relaxed) ||
                    atomic_load_explicit(&w->asleep, memory_order_relaxed);
    }
    pool_rest(pool);
}

static void pool_wake(qsf_pool *pool, uint64_t now)
{
    const qsf_platform *p = pool->platform;
    if (now && now - pool->woken < WAKE_EVERY) return;
    pool->wakes = now - pool->woken < 4 * WAKE_EVERY ? pool->wakes + 1 : 0;
    pool->woken = now;
    atomic_fetch_add(&pool->bell, 1);
    p->wake32(p->user, (uint32_t *)&pool->bell, UINT32_MAX);
    if (pool->wakes < WAKES_OFTEN) return;
    pool->wakes = 0;
    pool_late(pool, now);
}

/* Those that have been late come back for a trial, or rest again after one. */
static void pool_job_done(qsf_pool *pool, uintptr_t kind, uint64_t begin)
{
    if (!qsf_rest_job(&pool->rest, kind, begin, qsf_now(pool->platform))) return;
    for (uint32_t i = 1; i < pool->n; i++) {
        pool_worker *w = &pool->workers[i];
        if (pool->rest.state != QSF_REST_ALONE) w->was_late = w->rests;
        w->rests = pool->rest.state == QSF_REST_ALONE && w->was_late;
    }
    pool_rest(pool);
}

/* Waits for the pieces that others have in hand.  begin: when the job began;
 * own: pieces that it did. */
static void pool_finish(qsf_pool *pool, uint64_t begin, uint32_t own)
{
    const qsf_platform *p = pool->platform;
    for (uint32_t i = 0; i < POOL_LOOKS; i++) {
        if (!atomic_load_explicit(&pool->left, memory_order_acquire)) return;
        POOL_RELAX();
    }
    const uint64_t since = qsf_now(p), piece = (since - begin) / QSF_MAX(own, 1);
    const uint64_t spin = QSF_MAX(SPIN_CALLER, 2 * piece), late = QSF_MAX(STALL_LEAST, 4 * piece);
    bool stalled = false;
    uint64_t now = since, last = since;
    for (;;) {
        for (uint32_t i = 0; i < POOL_LOOKS; i++) {
            if (!atomic_load_explicit(&pool->left, memory_order_acquire)) return;
            POOL_RELAX();
        }
        now = qsf_now(p);
        if (!stalled && now - since > late) pool_late(pool, now), stalled = true;
        if (pool->crowded || now - since > spin || now - last > JUMP || !now) break;
        last = now;
    }
    atomic_store(&pool->caller_sleeps, 1);
    for (uint32_t left; (left = atomic_load(&pool->left));) {
        p->wait32(p->user, (uint32_t *)&pool->left, left, stalled ? 1000000000u : late);
        now = qsf_now(p);
        if (!stalled && atomic_load(&pool->left) && now - since > late) pool_late(pool, now), stalled = true;
    }
    atomic_store_explicit(&pool->caller_sleeps, 0, memory_order_relaxed);
}

static void pool_share(qsf_pool *pool, uint32_t n, void (*fn)(void *, uint32_t, uint32_t), void *arg,
                       uint64_t begin)
{
    pool->fn = fn;
    pool->arg = arg;
    atomic_store_explicit(&pool->left, n, memory_order_relaxed);
    const uint64_t number = (atomic_load_explicit(&pool->job, memory_order_relaxed) >> JOB_NUMBER) + 1;
    const uint64_t job = number << JOB_NUMBER | (pool->active - 1) << JOB_PIECES | n;
    atomic_store(&pool->job, job); /* sequentially consistent with the sleepers' count */
    if (atomic_load(&pool->sleepers)) pool_wake(pool, begin);
    const uint32_t own = pool_work(pool, 0, job);
    if (atomic_fetch_sub_explicit(&pool->left, own, memory_order_acq_rel) != own)
        pool_finish(pool, begin, own);
}

void qsf_pool_run(qsf_pool *pool, uint32_t n, uint32_t size, void (*fn)(void *, uint32_t, uint32_t),
                  void *arg)
{
    assert(n <= QSF_POOL_PIECES);
    if (pool->active == 1 || n <= 1) {
        for (uint32_t i = 0; i < n; i++) fn(arg, 0, i);
        return;
    }
    const uint64_t begin = qsf_now(pool->platform);
    const uintptr_t kind = (uintptr_t)fn + 8191 * (uintptr_t)n + 131 * (uintptr_t)size;
    if (pool->active == pool->n_resting + 1)
        for (uint32_t i = 0; i < n; i++) fn(arg, 0, i);
    else
        pool_share(pool, n, fn, arg, begin);
    if (qsf_rest_wants(&pool->rest, kind)) pool_job_done(pool, kind, begin);
}

uint32_t qsf_pool_size(const qsf_pool *pool) { return pool->active; }

void qsf_pool_use(qsf_pool *pool, uint32_t n)
{
    assert(n >= 1 && n <= pool->n);
    if (n == pool->active) return;
    pool->active = n;
    pool_rest(pool);
}

uint32_t qsf_pool_pieces(const qsf_pool *pool, size_t n)
{
    const uint32_t most = pool->active == 1 ? 1 : QSF_MIN(4 * pool->active, QSF_POOL_PIECES);
    return n < most ? (uint32_t)n : most;
}

uint64_t qsf_pool_bytes(uint32_t n) { return sizeof(qsf_pool) + (uint64_t)n * sizeof(pool_worker); }

static uint32_t pool_cpus(const qsf_platform *p) { return p->cpu_count ? p->cpu_count(p->user) : 1; }

uint32_t qsf_pool_threads(const qsf_platform *p, uint32_t n)
{
    if (!p->thread_start || !p->wait32 || !p->wake32) return 1;
    return n ? n : QSF_MIN(pool_cpus(p), QSF_MAX_THREADS);
}

qsf_status qsf_pool_new(const qsf_platform *p, uint32_t n, qsf_pool **out, qsf_error *err)
{
    *out = NULL;
    if (n > QSF_MAX_THREADS)
        return qsf_fail(err, QSF_E_ARGUMENT, "%u threads; the range is 1 to %u", (unsigned)n,
                        (unsigned)QSF_MAX_THREADS);
    const uint32_t cpus = pool_cpus(p);
    n = qsf_pool_threads(p, n);

    qsf_pool *pool = qsf_alloc(p, qsf_pool_bytes(n), "thread pool", err);
    if (!pool) return QSF_E_MEMORY;
    pool->platform = p;
    pool->n = pool->active = n;
    pool->crowded = n > cpus;
    for (uint32_t i = 1; i < n; i++) {
        pool_worker *w = &pool->workers[i];
        w->pool = pool;
        w->index = i;
        const qsf_status st = p->thread_start(p->user, helper_main, w, &w->thread);
        if (st) {
            w->thread = NULL;
            qsf_pool_free(pool);
            return qsf_fail(err, st, "cannot start thread %u of %u; try fewer threads", (unsigned)i,
                            (unsigned)n);
        }
    }
    *out = pool;
    return QSF_OK;
}

void qsf_pool_free(qsf_pool *pool)
{
    if (!pool) return;
    const qsf_platform *p = pool->platform;
    atomic_store(&pool->stop, true);
    atomic_fetch_add(&pool->bell, 1);
    if (pool->n > 1) p->wake32(p->user, (uint32_t *)&pool->bell, UINT32_MAX);       /* NULL without threads */
    for (uint32_t i = 1; i < pool->n && pool->workers[i].thread; i++) {
        helper_rest(&pool->workers[i], false);
        p->thread_join(p->user, pool->workers[i].thread);
    }
    qsf_dealloc(p, pool, qsf_pool_bytes(pool->n));
}

#undef POOL_RELAX
