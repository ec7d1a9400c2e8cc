/* qsf-bench --kernels: what the machine can do, then every product with quantised weights as a
 * share of that.
 * SPDX-License-Identifier: MIT */
#include "bench_kernels.h"

#include "bench_machine.h"
#include "tensor/types.h"

#include <stdlib.h>

/* Weights in cache fit the second level of every usual processor. */
enum { KB_NEAR = 256 << 10 };

/* ---- products with weights in cache, one thread ---- */

typedef struct near_work { kernel_bench *kb; qsf_form form; uint32_t block; size_t tiles, blocks; } near_work;

static void near_call(void *arg)
{
    const near_work *n = arg;
    kernel_bench *kb = n->kb;
    if (kb->x.n == 1) kb->k.matvec[n->form](kb->y, kb->w, &kb->x, n->tiles, n->blocks, n->block);
    else kb->k.matmul[n->form](kb->y, 16 * n->tiles, kb->w, &kb->x, n->tiles, n->blocks, n->block);
}

static near_work near_begin(kernel_bench *kb, qsf_form form, uint32_t block, uint32_t n)
{
    const size_t row = KB_COLS / block * qsf_tile_bytes(form, block);
    kb->x.n = n;
    return (near_work){ kb, form, block, KB_NEAR / row ? KB_NEAR / row : 1, KB_COLS / block };
}

/* The best repetition against the best of the peak's loop, which runs again after each: two
 * milliseconds are either undisturbed or useless. */
static void measure_near(kernel_bench *kb, const char *test, qsf_form form, uint32_t block, uint32_t n)
{
    near_work work = near_begin(kb, form, block, n);
    bench_samples s = { .n = 0 }, share = { .n = 1 };
    const size_t calls = bench_calibrate(kb, near_call, &work);
    const double madds = 16.0 * KB_COLS * n * (double)work.tiles * (double)calls;
    double best = 0;
    for (long long r = 0; r < kb->set->reps; r++) {
        const double speed = madds / bench_calls(kb, near_call, &work, calls), begin = bench_seconds(kb);
        const double done = (double)kb->peak_run((uint64_t)(2e-3 * kb->peak));
        kb->peak = QSF_MAX(kb->peak, done / (bench_seconds(kb) - begin));
        best = QSF_MAX(best, speed);
        s.v[s.n++] = 1e-9 * speed;
    }
    share.v[0] = best / kb->peak;
    bench_row_of(kb->report, test, kb->k.isa, 1, n == 1 ? "G weights/s" : "G madds/s", &s, &share, "peak");
}

/* ---- one row of activations, weights from memory ---- */

typedef struct far_work {
    bench_shared        shared;
    const kernel_bench *kb;
    qsf_form            form;
    uint32_t            block;
} far_work;

static void far_part(void *arg, uint32_t thread, uint32_t piece)
{
    const far_work *f = arg;
    const kernel_bench *kb = f->kb;
    const qsf_range mine = bench_shared_part(&f->shared, piece);
    const size_t row = KB_COLS / f->block * qsf_tile_bytes(f->form, f->block);
    (void)thread;
    kb->k.matvec[f->form](kb->y + 16 * mine.begin, f->shared.bytes + mine.begin * row, &kb->x,
                          mine.end - mine.begin, KB_COLS / f->block, f->block);
}

/* A pass is all of the weights, or what takes 50 ms: the next continues after it, and has left the
 * caches again.  The same bytes' plain reading is measured after each. */
static void measure_far(kernel_bench *kb, const bench_team *team, const char *test, qsf_form form,
                        uint32_t block)
{
    const size_t row = KB_COLS / block * qsf_tile_bytes(form, block);
    const uint32_t threads = qsf_pool_size(team->pool);
    bench_samples s = { .n = 0 }, shares = { .n = 0 };
    near_work near = near_begin(kb, form, block, 1);
    const double tile_seconds = bench_calls(kb, near_call, &near, 1) / (double)near.tiles,
        tiles = 0.05 * threads / tile_seconds;
    size_t parts = kb->w_bytes / row;
    if (tiles < (double)parts) parts = tiles < threads ? threads : (size_t)tiles;
    far_work work = { .shared = { .p = kb->p, .pool = team->pool, .parts = parts },
                      .kb = kb, .form = form, .block = block };
    for (long long r = -1; r < kb->set->reps; r++) {
        double seconds[2];
        for (int i = 0; i < 2; i++) {
            const size_t len = parts * row / 1024 * 1024;
            if (kb->w_at + parts * row > kb->w_bytes) kb->w_at = 0;
            work.shared.bytes = kb->w + kb->w_at;
            seconds[i] = i ? bench_read_once(kb->p, team->pool, &team->reader, work.shared.bytes, len)
                           : bench_shared_run(&work.shared, far_part, &work);
            kb->w_at += (size_t)qsf_round_up(parts * row, 1024);
        }
        if (r < 0) continue;
        s.v[s.n++] = 16e-9 * KB_COLS * (double)parts / seconds[0];
        const double read = (double)(parts * row / 1024 * 1024) / seconds[1];
        shares.v[shares.n++] = (double)(parts * row) / seconds[0] / read;
    }
    bench_row_of(kb->report, test, kb->k.isa, threads, "G weights/s", &s, &shares, "read");
}

/* ---- all forms of a set ---- */

static int bench_products(kernel_bench *kb, const bench_team *teams, size_t n_teams)
{
    static const uint8_t types[QSF_N_FORMS] = {
        [QSF_F_2Z] = QSF_T_2BIT, [QSF_F_3Z] = QSF_T_3BIT, [QSF_F_4Z] = QSF_T_4BIT,
        [QSF_F_TERNARY] = QSF_T_TERNARY, [QSF_F_8] = QSF_T_8BIT, [QSF_F_3] = QSF_T_3BIT_S,
        [QSF_F_4] = QSF_T_4BIT_S, [QSF_F_5] = QSF_T_5BIT_S, [QSF_F_6] = QSF_T_6BIT_S,
        [QSF_F_5Z] = QSF_T_Q5_1, [QSF_F_IQ4] = QSF_T_IQ4_NL, [QSF_F_Q4K] = QSF_T_Q4_K,
        [QSF_F_Q5K] = QSF_T_Q5_K, [QSF_F_Q6K] = QSF_T_Q6_K, [QSF_F_Q2K] = QSF_T_Q2_K,
        [QSF_F_Q3K] = QSF_T_Q3_K, [QSF_F_IQ4XS] = QSF_T_IQ4_XS,
        [QSF_F_TQ1] = QSF_T_TQ1_0, [QSF_F_MX4] = QSF_T_MXFP4, [QSF_F_NV4] = QSF_T_NVFP4,
        [QSF_F_Q1] = QSF_T_Q1_0, [QSF_F_8K] = QSF_T_Q8_K,
        [QSF_F_T2] = QSF_T_TERNARY2, [QSF_F_T5] = QSF_T_TERNARY5, [QSF_F_QK256] = QSF_T_QK256,
        [QSF_F_2S] = QSF_T_2BIT_S,
        [QSF_F_IQ2XXS] = QSF_T_IQ2_XXS, [QSF_F_IQ2XS] = QSF_T_IQ2_XS, [QSF_F_IQ2S] = QSF_T_IQ2_S,
        [QSF_F_IQ3XXS] = QSF_T_IQ3_XXS, [QSF_F_IQ3S] = QSF_T_IQ3_S, [QSF_F_IQ1S] = QSF_T_IQ1_S,
        [QSF_F_IQ1M] = QSF_T_IQ1_M,
        [QSF_F_TR2] = QSF_T_TRELLIS2, [QSF_F_TR3] = QSF_T_TRELLIS3, [QSF_F_TR4] = QSF_T_TRELLIS4,
        [QSF_F_TR5] = QSF_T_TRELLIS5, [QSF_F_TB4] = QSF_T_TABLE4, [QSF_F_TB3] = QSF_T_TABLE3,
    };
    static const uint32_t rows[] = { 1, 2, 4, 8, KB_ROWS };
    for (int form = 0; form < QSF_N_FORMS; form++)
        for (uint32_t block = 32; block <= QSF_MAX_BLOCK; block *= 2) {
            const char *name = qsf_type_get(types[form])->name;
            char test[64];
            /* GGUF's types have one size */
            if (!kb->k.matvec[form] || !qsf_block_bytes(types[form], block)) continue;
            if (interrupted()) return EXIT_INTERRUPTED;
            for (size_t i = 0; i < QSF_ARRAY_LEN(rows); i++) {
                snprintf(test, sizeof test, "%s/%u n=%u cache", name, (unsigned)block, (unsigned)rows[i]);
                if (bench_wanted(kb, kb->k.isa, test)) measure_near(kb, test, (qsf_form)form, block, rows[i]);
            }
            snprintf(test, sizeof test, "%s/%u n=1 memory", name, (unsigned)block);
            for (size_t t = 0; t < n_teams && bench_wanted(kb, kb->k.isa, test); t++)
                measure_far(kb, &teams[t], test, (qsf_form)form, block);
        }
    return EXIT_OK;
}

/* ---- life ---- */

static size_t scratch_take(size_t *at, size_t bytes)
{
    const size_t here = *at;
    *at += (size_t)qsf_round_up(bytes, 64);
    return here;
}

/* Random numbers: halves below 1 for weights (never infinite or NaN, which would take another
 * time), floats around 0. */
static void kernel_fill(kernel_bench *kb)
{
    uint64_t r = 0x9e3779b97f4a7c15;
    for (size_t i = 0; i < kb->w_bytes; i += 8) {
        r ^= r >> 12, r ^= r << 25, r ^= r >> 27;
        const uint64_t v = (r * 0x2545f4914f6cdd1d) & 0x3bff3bff3bff3bff;
        memcpy(kb->w + i, &v, 8);
    }
    for (size_t i = 0; i < KB_FLOATS; i++) {
        r ^= r >> 12, r ^= r << 25, r ^= r >> 27;
        kb->a[i] = 4 * ((float)(r >> 40) * 0x1p-23f - 1);
        kb->b[i] = (float)(r >> 8 & 0xffff) * 0x1p-16f;
        kb->h[i] = qsf_f32_to_f16(kb->b[i]);
        kb->q[i] = (int8_t)((int)(r >> 32 & 0xff) - 128);
    }
    qsf_kernels k;
    qsf_kernels_scalar(&k);
    for (size_t m = 0; m < KB_ROWS; m++) k.quantize_act(&kb->x, m, kb->a + m * KB_COLS, KB_COLS);
}

static int kernel_open(kernel_bench *kb)
{
    qsf_error err;
    kb->w_bytes = (size_t)kb->set->buffer_mb << 20;
    kb->w = kb->p->mem_alloc(kb->p->user, kb->w_bytes);
    size_t at = 0;
    const size_t q = scratch_take(&at, KB_ROWS * KB_COLS),
                 d = scratch_take(&at, KB_ROWS * KB_COLS / 64 * sizeof(float)),
                 s = scratch_take(&at, KB_ROWS * KB_COLS / 32 * sizeof(float)),
                 x16 = scratch_take(&at, KB_ROWS * KB_COLS / 8 * sizeof(int16_t)),
                 a = scratch_take(&at, KB_FLOATS * sizeof(float)),
                 b = scratch_take(&at, KB_FLOATS * sizeof(float)),
                 c = scratch_take(&at, KB_FLOATS * sizeof(float)),
                 h = scratch_take(&at, KB_FLOATS * sizeof(uint16_t)), codes = scratch_take(&at, KB_FLOATS);
    kb->scratch_bytes = at;
    /* A row of the smallest form, of more than one bit a weight, is one float for KB_COLS / 8
     * bytes; KB_ROWS outputs for the weights in cache are fewer. */
    kb->y_bytes = kb->w_bytes / (KB_COLS / 8) * sizeof(float);
    uint8_t *m = kb->w ? qsf_alloc(kb->p, at, "numbers", &err) : NULL;
    kb->scratch = m;
    kb->y = m ? qsf_alloc(kb->p, kb->y_bytes, "results", &err) : NULL;
    if (!kb->y) {
        fprintf(stderr, "out of memory: the kernels need %lld MB; reduce --buffer\n",
                kb->set->buffer_mb + 16);
        return EXIT_NO_MEMORY;
    }
    kb->x = (qsf_act){ .q = (int8_t *)m + q, .d = (float *)(void *)(m + d), .s = (float *)(void *)(m + s),
                       .h = (int16_t *)(void *)(m + x16),
                       .n = KB_ROWS, .cols = KB_COLS };
    kb->a = (float *)(void *)(m + a), kb->b = (float *)(void *)(m + b), kb->c = (float *)(void *)(m + c);
    kb->h = (uint16_t *)(void *)(m + h), kb->q = (int8_t *)m + codes;
    kernel_fill(kb);
    return EXIT_OK;
}

static void kernel_close(kernel_bench *kb)
{
    kb->p->mem_free(kb->p->user, kb->w, kb->w_bytes);
    qsf_dealloc(kb->p, kb->scratch, kb->scratch_bytes);
    qsf_dealloc(kb->p, kb->y, kb->y_bytes);
}

/* Reading speed in the engine's pages, and in the smallest ones if the system offers a choice. */
static void bench_reading(kernel_bench *kb, bench_team *teams, size_t n)
{
    for (size_t t = 0; t < n; t++)
        teams[t].reader = bench_read(kb->set, kb->report, teams[t].pool, kb->w, kb->w_bytes, "read");
    uint8_t *small = bench_small_pages(kb->w_bytes);
    if (!small) return;
    memset(small, 1, kb->w_bytes);
    for (size_t t = 0; t < n; t++)
        bench_read(kb->set, kb->report, teams[t].pool, small, kb->w_bytes, "read, small pages");
    bench_small_pages_free(small, kb->w_bytes);
}

/* By one thread it is what kernels are held against. */
static void bench_peaks(kernel_bench *kb, const bench_team *teams, size_t n)
{
    for (size_t t = 0; t < n; t++) {
        const double most = bench_madds(kb->set, kb->report, teams[t].pool, kb->k.isa);
        if (qsf_pool_size(teams[t].pool) > 1) continue;
        kb->peak = most;
        kb->peak_run = bench_peak_of(kb->k.isa).run;
    }
}

static int bench_set(kernel_bench *kb, const char *isa, const bench_team *teams, size_t n)
{
    qsf_error err;
    if (qsf_kernels_init(&kb->k, kb->p->cpu_features(kb->p->user), isa, &err)) return report(&err);
    bench_peaks(kb, teams, n);
    int code = bench_products(kb, teams, n);
    if (!code) code = bench_caches(kb, teams, n);
    return code ? code : bench_entries(kb);
}

int bench_all_kernels(const bench_settings *set, bench_report *rep)
{
    kernel_bench kb = { .set = set, .report = rep, .p = qsf_platform_native() };
    bench_team teams[BENCH_LIST_MAX + 1] = { { .pool = NULL } };
    bench_words isas = set->isas;
    qsf_error err;
    size_t n = 0;
    int code = kernel_open(&kb);
    /* Figures in cache are for one thread, so there is always a team of one. */
    for (size_t i = 0; !code && i <= set->threads.n; i++) {
        const qsf_status st = qsf_pool_new(kb.p, i ? set->threads.v[i - 1] : 1, &teams[n].pool, &err);
        bool seen = false;
        if (st) {
            code = report(&err);
            break;
        }
        for (size_t j = 0; j < n; j++) seen |= qsf_pool_size(teams[j].pool) == qsf_pool_size(teams[n].pool);
        if (seen) qsf_pool_free(teams[n].pool);
        else n++;
    }
    if (!isas.n && getenv("QSF_ISA") && *getenv("QSF_ISA"))
        snprintf(isas.v[isas.n++], sizeof isas.v[0], "%s", getenv("QSF_ISA"));
    if (!isas.n) bench_all_sets(&isas);
    if (!code) bench_reading(&kb, teams, n);
    for (size_t i = 0; !code && i < isas.n; i++) code = bench_set(&kb, isas.v[i], teams, n);
    for (size_t i = 0; i < n; i++) qsf_pool_free(teams[i].pool);
    kernel_close(&kb);
    return code;
}
