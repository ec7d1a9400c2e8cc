/* Layers that do not fit into a device's memory pass through slots there: the same numbers, within
 * the budget, also if the device fails.
 * SPDX-License-Identifier: MIT
 *
 * QSF_WEBGPU_LIB: a webgpu.h library, with whatever adapter it finds.  QSF_TEST_LONG: a device is
 * lost at more calls. */
#include "broken_device.h"
#include "device/device_executor.h"
#include "engine_bench.h"
#include "memfile.h"

enum { LAYERS = 5, PROMPT = 40, SHARED = 37, BATCH = 16, MORE = 3, AGAIN = 9,
       ROWS = 1 + 2 * MORE + 1 + MORE };

typedef struct run {
    qsf_device_stream_kind stream;
    bool     device, limited;           /* memory for not all layers */
    bool     never_waits;
    uint32_t fail_at;
    qsf_status how;
    uint64_t memory;                    /* output: the limit */
    qsf_device_use use;                 /* output: at the start, */
    uint32_t left;                      /* layers on the device at the end */
    uint32_t calls, buffers, begun;     /* output: begun: calls before the first token */
    float   *logits;                    /* output [ROWS][n_vocab]; the caller frees */
    uint32_t n_vocab;
} run;

static qsf_status stream_compute(bench *b, const qsf_row *rows, size_t n)
{
    qsf_status st = qsf_batch_begin(b->c, rows, n);
    bool waiting;
    if (st) return st;
    while ((st = qsf_step(b->c, &waiting)) == QSF_PENDING) { }
    return st;
}

/* Tokens of a sequence; the last one's logits. */
static qsf_status stream_feed(bench *b, qsf_seq s, const int32_t *ids, size_t n, float *out)
{
    qsf_row rows[BATCH];
    for (size_t at = 0; at < n;) {
        const size_t len = QSF_MIN((size_t)BATCH, n - at);
        for (size_t i = 0; i < len; i++) rows[i] = (qsf_row){ s, ids[at + i], at + i + 1 == n };
        const qsf_status st = stream_compute(b, rows, len);
        if (st) return st;
        at += len;
    }
    memcpy(out, qsf_logits(b->c, 0), b->n_vocab * sizeof *out);
    return QSF_OK;
}

/* A prompt, which a second sequence shares; both continue in common batches; then the first gets
 * more of a prompt, and a shorter answer. */
static qsf_status stream_steps(bench *b, float *out)
{
    int32_t ids[PROMPT];
    const size_t n = b->n_vocab;
    bench_tokens(ids, PROMPT, b->n_vocab, 5);
    qsf_status st = stream_feed(b, 0, ids, PROMPT, out);
    out += n;
    if (st || (st = qsf_seq_share(b->c, 1, 0, SHARED))) return st;
    for (int i = 0; i < MORE; i++) {
        const qsf_row rows[] = { { 0, ids[i], true }, { 1, ids[i + 7], true } };
        if ((st = stream_compute(b, rows, 2))) return st;
        for (size_t k = 0; k < 2; k++, out += n) memcpy(out, qsf_logits(b->c, k), n * sizeof *out);
    }
    if ((st = stream_feed(b, 0, ids + 11, AGAIN, out))) return st;
    out += n;
    for (int i = 0; i < MORE && !st; i++, out += n) st = stream_feed(b, 0, ids + 20 + i, 1, out);
    return st;
}

static qsf_context_options stream_options(const run *r)
{
    qsf_context_options o = bench_options();
    o.n_seqs = 2;
    o.n_batch = BATCH;
    o.n_logits = 2;
    o.kv_type = QSF_KV_F16;
    o.device_stream = r->stream;
    return o;
}

static uint64_t stream_total(const qsf_device_use *u) { return u->weights + u->kv + u->batch + u->slots; }

/* A byte too few for all layers. */
static uint64_t stream_memory(bench *b)
{
    qsf_device_use all = { .size = sizeof all };
    CHECK_EQ(qsf_context_device_fits(b->c, &broken.list, 0, UINT32_MAX, 0, &all), QSF_OK);
    CHECK_EQ(all.n_layers, LAYERS);
    CHECK_EQ(all.streamed, 0);
    return stream_total(&all) - 1;
}

static bool stream_begin(bench *b, run *r)
{
    tiny_options t = tiny_defaults();
    const qsf_context_options o = stream_options(r);
    t.hp.n_layers = LAYERS;
    broken_reset(r->fail_at, r->how);
    if (!bench_write(b, &t)) return false;
    if (r->never_waits) engine_host_never_wait(&b->h);
    if (r->never_waits) b->h.polls = 2;
    if (!bench_open(b) || !bench_context(b, &o)) return false;
    r->n_vocab = b->n_vocab;
    if (!r->device) return true;
    r->memory = r->limited ? stream_memory(b) : 0;
    qsf_device_use fits = { .size = sizeof fits };
    CHECK_EQ(qsf_context_device_fits(b->c, &broken.list, 0, UINT32_MAX, r->memory, &fits), QSF_OK);
    const qsf_status st = qsf_context_use_device(b->c, &broken.list, 0, UINT32_MAX, r->memory);
    if (st && r->fail_at) return st == r->how;
    if (st) printf("      %s\n", qsf_last_error(b->c));
    CHECK_EQ(st, QSF_OK);
    r->use = (qsf_device_use){ .size = sizeof r->use };
    CHECK_EQ(qsf_context_device(b->c, &r->use), QSF_OK);
    if (r->stream != QSF_STREAM_AUTO) CHECK_EQ(fits.n_layers, r->use.n_layers);
    if (r->memory) CHECK(stream_total(&r->use) <= r->memory);
    return !st;
}

static void stream_run(run *r)
{
    bench b;
    if (!stream_begin(&b, r)) exit(1);
    r->begun = broken.calls;
    r->logits = bench_floats(&b, ROWS);
    const qsf_status st = stream_steps(&b, r->logits);
    CHECK_EQ(st, QSF_OK);
    if (st) printf("      failing at %u: %s\n", (unsigned)r->fail_at, qsf_last_error(b.c));
    qsf_device_use use = { .size = sizeof use };
    CHECK_EQ(qsf_context_device(b.c, &use), QSF_OK);
    r->left = use.n_layers;
    if (r->memory) CHECK(use.bytes <= r->memory);
    r->calls = broken.calls;
    r->buffers = broken.buffers;
    bench_end(&b);
    CHECK_EQ(broken.open, 0);
    CHECK_EQ(broken.live, 0);
}

static double stream_distance(const run *a, const run *b)
{
    return bench_distance(a->logits, b->logits, (size_t)ROWS * a->n_vocab);
}

#define NEEDS_DEVICE if (!broken.real) LEFT_OUT("a library of WebGPU (QSF_WEBGPU_LIB)")
#define NEAR 0.08       /* the device rounds differently */

TEST(layers_that_pass_through_change_no_number)
{
    NEEDS_DEVICE;
    run all = { .device = true, .stream = QSF_STREAM_OFF }, cpu = { .device = false };
    stream_run(&all), stream_run(&cpu);
    CHECK_EQ(all.use.streamed, 0);
    run some = { .device = true, .limited = true, .stream = QSF_STREAM_ALL };
    stream_run(&some);
    CHECK(some.use.streamed > 2);                       /* slots are used again */
    CHECK_EQ(some.use.streamed + some.use.n_layers, LAYERS);
    CHECK_EQ(some.use.first, some.use.streamed);
    CHECK_EQ(some.left, some.use.n_layers);
    CHECK_EQ(stream_distance(&all, &some), 0);
    printf("      %u layers there, %u pass through: %s\n", (unsigned)some.use.n_layers,
           (unsigned)some.use.streamed, some.use.left);
    /* prompts there, answers here: keys and values cross both ways */
    run mixed = { .device = true, .limited = true, .stream = QSF_STREAM_PROMPTS, .never_waits = true };
    stream_run(&mixed);
    CHECK_EQ(mixed.use.streamed, some.use.streamed);
    CHECK_EQ(bench_distance(all.logits, mixed.logits, all.n_vocab), 0);         /* the prompt's */
    CHECK(stream_distance(&cpu, &mixed) > 0);
    CHECK(stream_distance(&cpu, &mixed) < NEAR);
    free(mixed.logits), free(some.logits), free(all.logits), free(cpu.logits);
}

/* Each row is the device's, and from some row on the CPU's. */
static void stream_failure(const run *right, const run *cpu, uint32_t at, qsf_status how)
{
    const size_t n = right->n_vocab;
    run r = { .device = true, .limited = true, .stream = right->stream, .fail_at = at, .how = how };
    uint32_t of_cpu = 0, odd = 0;
    stream_run(&r);
    for (size_t i = 0; i < ROWS * n; i += n) {
        if (!of_cpu && bench_distance(right->logits + i, r.logits + i, n) <= 1e-4) continue;
        of_cpu++;
        odd += bench_distance(cpu->logits + i, r.logits + i, n) > NEAR / 4;
    }
    CHECK_EQ(odd, 0);
    CHECK_EQ(r.left, 0);
    if (odd) printf("      failing at %u: %u rows are wrong\n", (unsigned)at, (unsigned)odd);
    free(r.logits);
}

TEST(a_device_lost_while_layers_pass_through_changes_no_number)
{
    NEEDS_DEVICE;
    run cpu = { .device = false },
        right = { .device = true, .limited = true, .stream = QSF_STREAM_PROMPTS };
    stream_run(&cpu), stream_run(&right);
    const uint32_t n = right.calls - right.begun, every = getenv("QSF_TEST_LONG") ? 3 : n / 4;
    printf("      %u calls\n", (unsigned)n);
    for (uint32_t at = right.begun + 1; at < right.calls - 2; at += every)
        stream_failure(&right, &cpu, at, QSF_E_IO);
    for (uint32_t at = 3; at <= right.buffers; at += right.buffers / 2)
        stream_failure(&right, &cpu, at, QSF_E_MEMORY);
    free(cpu.logits), free(right.logits);
}

/* Whatever is faster here: layers pass through for batches of some size, or stay on the CPU. */
TEST(a_trial_decides_which_batches_pass_through)
{
    NEEDS_DEVICE;
    run tried = { .device = true, .limited = true };
    bench b;
    stream_run(&tried);
    printf("      %s\n", tried.use.stream);
    CHECK(strstr(tried.use.stream, "CPU") != NULL);
    CHECK_EQ(tried.use.streamed > 0, strstr(tried.use.stream, "pass through") != NULL);
    CHECK_EQ(tried.left, tried.use.n_layers);
    free(tried.logits);
    /* hosts that must not block try nothing, and have room for another layer */
    tried.never_waits = true;
    if (!stream_begin(&b, &tried)) exit(1);
    CHECK_EQ(tried.use.n_layers, LAYERS - 1);
    CHECK_EQ(tried.use.streamed, 0);
    bench_end(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    broken_begin();
    RUN(layers_that_pass_through_change_no_number);
    RUN(a_trial_decides_which_batches_pass_through);
    RUN(a_device_lost_while_layers_pass_through_changes_no_number);
    broken_end();
    return test_end();
}
