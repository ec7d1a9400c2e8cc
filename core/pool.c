/* The thread pool: spinning barriers that give the processor back after about a millisecond.
 * SPDX-License-Identifier: MIT */
#include "pool.h"

#include <stdatomic.h>

/* How often a waiting thread looks before it sleeps: for about a millisecond.  WebAssembly has no pause, and waking is dear there. */
#if defined(__x86_64__) || defined(__i386__)
#  define POOL_RELAX() __builtin_ia32_pause()
enum { POOL_SPINS = 20000 };
#elif defined(__aarch64__)
#  define POOL_RELAX() __asm__ volatile("yield")
enum { POOL_SPINS = 20000 };
#else
#  define POOL_RELAX() ((void)0)
enum { POOL_SPINS = 1000000 };
#endif

/* A word that threads wait on.  The low bit of sleepers would be enough for waking; the count spares needless calls. */
typedef struct pool_word {
    _Alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} pool_word;

typedef struct pool_worker {
    qsf_pool   *pool;
    uint32_t    index;
    qsf_thread *thread;
} pool_worker;

struct qsf_pool {
    pool_word region;       /* counts regions from bit 8 on, below is the last thread that runs; workers begin when it moves */
    pool_word rest;         /* moves when more threads run than in the region before; those that do not run wait for it */
    pool_word phase;        /* counts barriers */
    _Alignas(64) _Atomic uint32_t arrived;
    _Alignas(64) void (*fn)(void *, uint32_t);
    void     *arg;
    _Atomic bool stop;
    uint32_t  n, active, spins;
    const qsf_platform *platform;
    pool_worker workers[];
};

/* Waits until w->value is no longer old. */
static uint32_t pool_wait(const qsf_pool *pool, pool_word *w, uint32_t old)
{
    uint32_t now;
    for (uint32_t i = 0; i < pool->spins; i++) {
        if ((now = atomic_load_explicit(&w->value, memory_order_acquire)) != old) return now;
        POOL_RELAX();
    }
    atomic_fetch_add(&w->sleepers, 1);
    while ((now = atomic_load(&w->value)) == old)
        pool->platform->wait32(pool->platform->user, (uint32_t *)&w->value, old, 1000000000u);
    atomic_fetch_sub(&w->sleepers, 1);
    return now;
}

static void pool_set(const qsf_pool *pool, pool_word *w, uint32_t value)
{
    atomic_store(&w->value, value);                /* sequentially consistent with the sleeper's count */
    if (atomic_load(&w->sleepers)) pool->platform->wake32(pool->platform->user, (uint32_t *)&w->value, UINT32_MAX);
}

/* A region of the threads that run now. */
static uint32_t pool_region(const qsf_pool *pool, uint32_t before) { return ((before >> 8) + 1) << 8 | (pool->active - 1); }
static uint32_t pool_last(uint32_t region) { return region & 255; }

void qsf_pool_barrier(qsf_pool *pool)
{
    const uint32_t last = pool->active - 1;         /* read before the last one arrives: then it may change */
    if (!last) return;
    const uint32_t phase = atomic_load_explicit(&pool->phase.value, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&pool->arrived, 1, memory_order_acq_rel) == last) {
        atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed);
        pool_set(pool, &pool->phase, phase + 1);
    } else {
        pool_wait(pool, &pool->phase, phase);
    }
}

static void pool_worker_main(void *arg)
{
    pool_worker *w = arg;
    qsf_pool *pool = w->pool;
    if (pool->platform->thread_pin) pool->platform->thread_pin(pool->platform->user, w->index);
    uint32_t region = pool->n - 1;                  /* as it was made */
    for (;;) {
        const uint32_t rest = atomic_load(&pool->rest.value);       /* before the region: what comes after it moves this word too */
        if (w->index <= pool_last(region) || region != atomic_load(&pool->region.value)) region = pool_wait(pool, &pool->region, region);
        else (void)pool_wait(pool, &pool->rest, rest);
        if (atomic_load(&pool->stop)) return;
        if (w->index > pool_last(region)) continue;
        pool->fn(pool->arg, w->index);
        qsf_pool_barrier(pool);
    }
}

void qsf_pool_run(qsf_pool *pool, void (*fn)(void *, uint32_t), void *arg)
{
    if (pool->active == 1) {
        fn(arg, 0);
        return;
    }
    pool->fn = fn;
    pool->arg = arg;
    const uint32_t before = atomic_load_explicit(&pool->region.value, memory_order_relaxed);
    pool_set(pool, &pool->region, pool_region(pool, before));
    if (pool->active - 1 > pool_last(before)) pool_set(pool, &pool->rest, atomic_load_explicit(&pool->rest.value, memory_order_relaxed) + 1);
    fn(arg, 0);
    qsf_pool_barrier(pool);
}

uint32_t qsf_pool_size(const qsf_pool *pool) { return pool->active; }

void qsf_pool_use(qsf_pool *pool, uint32_t n)
{
    assert(n >= 1 && n <= pool->n);
    pool->active = n;
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
    if (n > QSF_MAX_THREADS) return qsf_fail(err, QSF_E_ARGUMENT, "%u threads; 1 to %u are possible", (unsigned)n, (unsigned)QSF_MAX_THREADS);
    const uint32_t cpus = pool_cpus(p);
    n = qsf_pool_threads(p, n);

    qsf_pool *pool = qsf_alloc(p, qsf_pool_bytes(n), "thread pool", err);
    if (!pool) return QSF_E_MEMORY;
    pool->platform = p;
    pool->n = pool->active = n;
    atomic_store_explicit(&pool->region.value, n - 1, memory_order_relaxed);
    pool->spins = n > cpus ? 64 : POOL_SPINS;           /* more threads than processors: whoever spins keeps a worker from working */
    for (uint32_t i = 1; i < n; i++) {
        pool_worker *w = &pool->workers[i];
        w->pool = pool;
        w->index = i;
        const qsf_status st = p->thread_start(p->user, pool_worker_main, w, &w->thread);
        if (st) {
            w->thread = NULL;
            qsf_pool_free(pool);
            return qsf_fail(err, st, "cannot start thread %u of %u; fewer threads may do", (unsigned)i, (unsigned)n);
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
    pool_set(pool, &pool->region, pool_region(pool, atomic_load(&pool->region.value)));
    pool_set(pool, &pool->rest, atomic_load(&pool->rest.value) + 1);
    for (uint32_t i = 1; i < pool->n; i++)
        if (pool->workers[i].thread) p->thread_join(p->user, pool->workers[i].thread);
    qsf_dealloc(p, pool, qsf_pool_bytes(pool->n));
}

#undef POOL_RELAX
