/* A context whose layers move to a device: their weights pass through memory, and are read again if
 * the device is lost.
 * SPDX-License-Identifier: MIT
 *
 * QSF_WEBGPU_LIB: a webgpu.h library, with whatever adapter it finds.  QSF_TEST_LONG: the device is
 * lost at more calls. */
#include "broken_device.h"
#include "stream_models.h"

enum { LAYERS = 6, PROMPT = 8, BATCH = 4, MORE = 2, ROWS = 1 + MORE };

/* Weights are more than everything else; the ends come in several parts. */
static tiny_options large_model(bool tied)
{
    tiny_options o = tiny_defaults();
    o.vocab = QSF_VOCAB_NONE;
    o.hp.n_layers = LAYERS;
    o.hp.n_embd = 256;
    o.hp.n_ff = 2048;
    o.hp.n_vocab = 20007;
    o.hp.tied = tied;
    return o;
}

static qsf_context_options moved_options(uint32_t device_layers)
{
    qsf_context_options o = bench_options();
    o.n_seqs = 1;
    o.n_batch = BATCH;
    o.kv_type = QSF_KV_F16;         /* few pipelines */
    o.n_logits = 1;
    o.device_layers = device_layers;
    return o;
}

typedef struct run {
    bool     tied, device, never_waits;
    uint32_t moves;                 /* device_layers */
    uint32_t fail_at;               /* as in broken_reset */
    uint64_t weights, peak;         /* output: bytes of the file; of all memory, at most */
    uint32_t begun, calls;          /* output: calls of the device before the first token, and in all */
    float   *logits;                /* output [ROWS][n_vocab]; the caller frees */
} run;

/* Also on a host that cannot wait. */
static qsf_status moved_feed(bench *b, const int32_t *ids, size_t n)
{
    qsf_row rows[BATCH];
    qsf_status st;
    bool waiting;
    for (size_t i = 0; i < n; i++) rows[i] = (qsf_row){ 0, ids[i], i + 1 == n };
    if ((st = qsf_batch_begin(b->c, rows, n))) return st;
    while ((st = qsf_step(b->c, &waiting)) == QSF_PENDING) { }
    return st;
}

static qsf_status moved_steps(bench *b, float *out)
{
    int32_t ids[PROMPT + MORE];
    qsf_status st = QSF_OK;
    bench_tokens(ids, PROMPT + MORE, b->n_vocab, 5);
    for (size_t at = 0; at < PROMPT + MORE && !st;) {
        const size_t n = at < PROMPT ? QSF_MIN(BATCH, PROMPT - at) : 1;
        st = moved_feed(b, ids + at, n);
        at += n;
        if (st || at < PROMPT) continue;
        memcpy(out, qsf_logits(b->c, 0), b->n_vocab * sizeof *out);
        out += b->n_vocab;
    }
    return st;
}

static bool moved_run(run *r)
{
    const tiny_options t = large_model(r->tied);
    const qsf_context_options o = moved_options(r->moves);
    qsf_device_use use = { .size = sizeof use }, fits = use;
    bench b;
    broken_reset(r->fail_at, QSF_E_IO);
    if (!wide_write(&b, &t)) return false;
    if (r->never_waits) engine_host_never_wait(&b.h);
    if (r->never_waits) b.h.polls = 2;
    if (!bench_open(&b) || !bench_context(&b, &o)) return false;
    if (r->device) {
        CHECK_EQ(qsf_context_device_fits(b.c, &broken.list, 0, LAYERS, 0, &fits), QSF_OK);
        CHECK_EQ(broken.open, 0);
        CHECK_EQ(qsf_context_use_device(b.c, &broken.list, 0, LAYERS, 0), QSF_OK);
        CHECK_EQ(qsf_context_device(b.c, &use), QSF_OK);
        fits.bytes = use.bytes;
        CHECK(!memcmp(&use, &fits, sizeof use));
    }
    b.h.m.peak_bytes = b.h.m.live_bytes;
    r->begun = broken.calls;
    r->logits = bench_floats(&b, ROWS);
    const qsf_status st = moved_steps(&b, r->logits);
    CHECK_EQ(st, QSF_OK);
    if (st) printf("      %s\n", qsf_last_error(b.c));
    r->peak = b.h.m.peak_bytes;
    r->calls = broken.calls;
    r->weights = bench_file(&b)->len;
    CHECK_EQ(qsf_context_device(b.c, &use), QSF_OK);
    CHECK_EQ(use.n_layers, r->device && !r->fail_at ? LAYERS : 0);
    CHECK_EQ(use.head, use.n_layers > 0);
    bench_end(&b);
    CHECK_EQ(broken.open, 0);
    CHECK_EQ(broken.live, 0);
    return !st;
}

static double moved_distance(const run *a, const run *b, size_t row)
{
    const size_t n = large_model(false).hp.n_vocab;
    return bench_distance(a->logits + row * n, b->logits + row * n, n);
}

#define NEEDS_DEVICE if (!broken.real) LEFT_OUT("a library of WebGPU (QSF_WEBGPU_LIB)")

TEST(weights_that_move_to_a_device_leave_memory_and_change_no_number)
{
    NEEDS_DEVICE;
    run here = { .device = true }, moved = { .device = true, .moves = LAYERS };
    if (!moved_run(&here) || !moved_run(&moved)) return;
    for (size_t row = 0; row < ROWS; row++) CHECK_EQ(moved_distance(&here, &moved, row), 0);
    CHECK(here.peak > here.weights);
    CHECK(moved.peak < moved.weights / 2);
    printf("      a file of %.1f MB: %.1f MB of memory, %.1f MB if its weights stay\n",
           (double)moved.weights / 1e6, (double)moved.peak / 1e6, (double)here.peak / 1e6);
    free(here.logits), free(moved.logits);
}

/* Each step has the device's numbers, and from some step on the CPU's: within 1e-4 of the largest,
 * since rows come in other batches. */
TEST(a_lost_device_leaves_an_answer_to_the_cpu_which_reads_the_weights_again)
{
    NEEDS_DEVICE;
    run cpu = { .tied = true }, device = { .tied = true, .device = true, .moves = LAYERS };
    if (!moved_run(&cpu) || !moved_run(&device)) return;
    for (size_t row = 0; row < ROWS; row++) CHECK(moved_distance(&cpu, &device, row) < 0.08);
    for (uint32_t i = 0; i < 4; i += getenv("QSF_TEST_LONG") ? 1 : 3) {    /* early and late */
        run lost = device;
        uint32_t of_cpu = 0;
        lost.never_waits = i & 1;
        lost.fail_at = device.begun + (device.calls - device.begun) * (1 + 2 * i) / 8;
        if (!moved_run(&lost)) return;
        for (size_t row = 0; row < ROWS; row++) {
            if (!of_cpu && moved_distance(&device, &lost, row) <= 1e-4) continue;
            of_cpu++;
            CHECK(moved_distance(&cpu, &lost, row) <= 1e-4);
        }
        CHECK(of_cpu > 0);
        free(lost.logits);
    }
    free(cpu.logits), free(device.logits);
}

/* What stays is planned, and the same for every number of layers that move. */
TEST(the_plan_counts_what_stays)
{
    const tiny_options t = large_model(false);
    qsf_plan all = { .size = sizeof all }, half = all, none = all;
    bench b;
    if (!wide_write(&b, &t) || !bench_open(&b)) return;
    for (uint32_t n = 0; n <= LAYERS; n += LAYERS / 2) {
        const qsf_context_options o = moved_options(n);
        CHECK_EQ(qsf_context_plan(b.m, &o, n == 0 ? &none : n == LAYERS ? &all : &half, &b.error), QSF_OK);
    }
    const uint64_t layer = plan_bytes(&none, "layers that stay") / LAYERS;
    CHECK(none.resident && !half.resident && !all.resident);
    CHECK_EQ(plan_bytes(&half, "layers that stay"), LAYERS / 2 * layer);
    CHECK_EQ(plan_bytes(&all, "layers that stay"), 0);
    CHECK_EQ(plan_bytes(&all, "layer buffers"), layer);
    CHECK_EQ(plan_bytes(&all, "embedding"), 0);
    CHECK_EQ(plan_bytes(&half, "embedding"), plan_bytes(&none, "embedding"));
    CHECK_EQ(plan_bytes(&half, "final norm and head"), 0);
    CHECK(plan_bytes(&all, "KV cache") < plan_bytes(&none, "KV cache") / 4);
    CHECK_EQ(all.least, none.least);
    /* a limit is for the CPU too */
    qsf_context_options o = moved_options(LAYERS);
    o.ram_budget = none.total;
    CHECK_EQ(qsf_context_plan(b.m, &o, &half, &b.error), QSF_OK);
    CHECK_EQ(half.total, none.total);
    bench_end(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    broken_begin();
    RUN(weights_that_move_to_a_device_leave_memory_and_change_no_number);
    RUN(a_lost_device_leaves_an_answer_to_the_cpu_which_reads_the_weights_again);
    RUN(the_plan_counts_what_stays);
    broken_end();
    return test_end();
}
