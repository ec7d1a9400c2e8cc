/* Attention over an 8-bit KV cache in memory, as a share of the reading speed: one row
 * after a long context, with the query heads that share a key-value head.
 * SPDX-License-Identifier: MIT */
#include "bench_kernels.h"

#include "bench_machine.h"
#include "layers/kv.h"

enum { CACHE_HEADS = 8, CACHE_DIM = 256, CACHE_AHEAD = 4,
       CACHE_BYTES = 32 << 20 };        /* that a thread reads in a pass */

static const struct cache_shape { uint32_t head_dim, heads; } cache_shapes[] = {
    { 64, 1 }, { 64, 3 }, { 64, 7 }, { 128, 4 }, { 128, 8 }, { 256, 4 },
};

typedef struct cache_work {
    bench_shared        shared;
    const kernel_bench *kb;
    qsf_kv_layout       layout;
    size_t              heads;
} cache_work;

/* What a thread has for one row. */
typedef struct cache_row {
    _Alignas(64) float q[CACHE_HEADS * CACHE_DIM];
    float    o[CACHE_HEADS * CACHE_DIM], s[CACHE_HEADS * QSF_KV_BLOCK];
    float    factor[CACHE_HEADS], qd[CACHE_HEADS], pd[CACHE_HEADS], m[CACHE_HEADS], l[CACHE_HEADS];
    int32_t  qs[CACHE_HEADS];
    int8_t   qc[CACHE_HEADS * CACHE_DIM];
    uint8_t  pc[CACHE_HEADS * QSF_KV_BLOCK];
} cache_row;

static void cache_part(void *arg, uint32_t thread, uint32_t piece)
{
    const cache_work *c = arg;
    const qsf_kernels *k = &c->kb->k;
    const qsf_kv_layout *l = &c->layout;
    const qsf_range mine = bench_shared_part(&c->shared, piece);
    cache_row r;
    qsf_kv_work w = { .vectors = c->heads, .scale = 0.125f, .q = r.q, .o = r.o, .s = r.s, .factor = r.factor,
                      .qd = r.qd, .pd = r.pd, .qs = r.qs, .qc = r.qc, .pc = r.pc };
    (void)thread;
    memcpy(r.q, c->kb->a, c->heads * l->head_dim * sizeof *r.q);
    memset(r.o, 0, sizeof r.o);
    for (size_t v = 0; v < c->heads; v++) {
        r.m[v] = -INFINITY;
        r.l[v] = 0;
    }
    l->ops->begin(l, k, &w);
    for (size_t i = mine.begin; i < mine.end; i++) {
        const uint8_t *record = c->shared.bytes + i * l->record;
        w.ahead = i + CACHE_AHEAD < c->shared.parts ? record + CACHE_AHEAD * l->record : NULL;
        l->ops->scores(l, k, &w, record, QSF_KV_BLOCK);
        l->ops->softmax(k, &w, 0, c->heads, QSF_KV_BLOCK, r.m, r.l);
        l->ops->sum(l, k, &w, record, QSF_KV_BLOCK);
    }
}

/* Scales as keys and values have them, which are not weights that could do harm either: with
 * others, numbers become so small that some processors take longer. */
static void cache_fill(const kernel_bench *kb, const qsf_kv_layout *l, size_t records)
{
    const float scale = 0.0078268051147461f;    /* twice a 1 as half floats */
    for (size_t i = 0; i < records; i++) {
        float *to = (float *)(void *)(kb->w + i * l->record + l->kd_at);
        for (size_t p = 0; p < 2 * QSF_KV_BLOCK; p++) to[p] = scale;
    }
}

/* The same number of bytes is also read after each pass; a pass has left the caches when its
 * bytes come again. */
static void measure_cache(kernel_bench *kb, const bench_team *team, const char *test,
                          const struct cache_shape *shape)
{
    const uint32_t threads = qsf_pool_size(team->pool);
    bench_samples s = { .n = 0 }, shares = { .n = 0 };
    cache_work work = { .shared = { .p = kb->p, .pool = team->pool }, .kb = kb, .heads = shape->heads };
    qsf_kv_layout_init(&work.layout, QSF_KV_Q8, 1, 1, shape->head_dim);
    const size_t record = work.layout.record, records = kb->w_bytes / record,
        parts = QSF_MIN((size_t)CACHE_BYTES * threads / record, records);
    size_t at = 0;
    work.shared.parts = parts;
    cache_fill(kb, &work.layout, records);
    for (long long r = -1; r < kb->set->reps; r++) {
        double seconds[2];
        for (int i = 0; i < 2; i++, at += parts) {
            if (at + parts > records) at = 0;
            work.shared.bytes = kb->w + at * record;
            seconds[i] = i ? bench_read_once(kb->p, team->pool, &team->reader, work.shared.bytes,
                                             parts * record / 1024 * 1024)
                           : bench_shared_run(&work.shared, cache_part, &work);
        }
        if (r < 0) continue;
        s.v[s.n++] = 1e-9 * (double)(parts * record) / seconds[0];
        shares.v[shares.n++] = seconds[1] / seconds[0];
    }
    bench_row_of(kb->report, test, kb->k.isa, threads, "GB/s", &s, &shares, "read");
}

int bench_caches(kernel_bench *kb, const bench_team *teams, size_t n_teams)
{
    char test[64];
    for (size_t i = 0; i < QSF_ARRAY_LEN(cache_shapes); i++) {
        const struct cache_shape *shape = &cache_shapes[i];
        snprintf(test, sizeof test, "attention q8 %ux%u memory", (unsigned)shape->heads,
                 (unsigned)shape->head_dim);
        for (size_t t = 0; t < n_teams && bench_wanted(kb, kb->k.isa, test); t++) {
            if (interrupted()) return EXIT_INTERRUPTED;
            measure_cache(kb, &teams[t], test, shape);
        }
    }
    return EXIT_OK;
}
