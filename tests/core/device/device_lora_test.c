/* Adapters on a device: rows of one batch have those of their sequences, as on the CPU; what the
 * device cannot compute, and what fails there, is the CPU's.
 * SPDX-License-Identifier: MIT
 *
 * QSF_WEBGPU_LIB: a webgpu.h library, with whatever adapter it finds. */
#include "broken_device.h"
#include "../engine/lora_build.h"
#include "engine_bench.h"
#include "memfile.h"

enum { SEQS = 8, PROMPT = 13, STEPS = 2, WORDS = PROMPT + STEPS };

/* Codes of activations near a half may be the next one: in a tiny model that shows, and adapters of
 * the head make it larger.  So rows that see no others are compared closely, and all loosely. */
#define NEAR 0.08
#define NEAR_ENDS 0.3
#define SAME 1e-3

#define NEEDS_DEVICE if (!broken.real) LEFT_OUT("a library of WebGPU (QSF_WEBGPU_LIB)")

/* A CPU and a device with the same model, and the same two adapters. */
typedef struct pair_of { bench b[2]; qsf_adapter *x[2], *y[2]; double near; } pair_of;
enum { CPU, GPU };

static qsf_adapter *adapter_made(bench *b, uint64_t seed, bool ends, bool exact)
{
    qsf_adapter *a = NULL;
    qsf_adapter_options o = { .size = sizeof o, .exact = exact };
    gguf_build g = adapter_with(seed, ends);
    memfile m;
    memfile_init(&m, g.out, g.len);
    o.file = &m.file;
    bench_ok(b, qsf_adapter_open(b->m, NULL, &o, &a, &b->error));
    gguf_build_free(&g);
    return a;
}

static qsf_context_options seq_options(void)
{
    qsf_context_options o = bench_options();
    o.n_seqs = SEQS;
    o.n_batch = 32;
    o.n_logits = 32;
    return o;
}

static bool device_begin(bench *b, const tiny_options *t, uint64_t memory)
{
    const qsf_context_options o = seq_options();
    if (!bench_write(b, t) || !bench_open(b) || !bench_context(b, &o)) return false;
    const qsf_status st = qsf_context_use_device(b->c, &broken.list, 0, 9, memory);
    if (st) printf("      %s\n", qsf_last_error(b->c));
    CHECK_EQ(st, QSF_OK);
    return !st;
}

static bool pair_begin(pair_of *p, const tiny_options *t, bool ends, bool exact)
{
    const qsf_context_options o = seq_options();
    memset(p, 0, sizeof *p);
    p->near = ends ? NEAR_ENDS : NEAR;
    broken_reset(0, QSF_OK);
    bench *cpu = &p->b[CPU];
    if (!bench_write(cpu, t) || !bench_open(cpu) || !bench_context(cpu, &o)) return false;
    if (!device_begin(&p->b[GPU], t, 0)) return false;
    for (int k = 0; k < 2; k++) {
        p->x[k] = adapter_made(&p->b[k], 1, ends, exact);
        p->y[k] = adapter_made(&p->b[k], 2, ends, exact);
    }
    return true;
}

static void pair_end(pair_of *p)
{
    for (int k = 0; k < 2; k++) {
        qsf_adapter_free(p->x[k]);
        qsf_adapter_free(p->y[k]);
        bench_end(&p->b[k]);
    }
    CHECK_EQ(broken.open, 0);
    CHECK_EQ(broken.live, 0);
}

static uint32_t layers_there(const bench *b)
{
    qsf_device_use use = { .size = sizeof use };
    CHECK_EQ(qsf_context_device(b->c, &use), QSF_OK);
    if (use.left[0]) printf("      %s\n", use.left);
    return use.n_layers;
}

/* Sequences 0 to 3: none, x, half of y the other way, both; then the same again. */
static void set_adapters(pair_of *p)
{
    for (int k = 0; k < 2; k++) {
        const qsf_adapter_use uses[4][2] = { { { p->x[k], 0 } }, { { p->x[k], 1 } }, { { p->y[k], -0.5f } },
                                             { { p->x[k], 1 }, { p->y[k], 2 } } };
        for (int s = 0; s < SEQS; s++)
            CHECK_EQ(qsf_seq_set_adapters(p->b[k].c, s, uses[s % 4], s % 4 == 3 ? 2 : 1), QSF_OK);
    }
}

static const float *logits_of(const pair_of *p, int k, size_t i) { return qsf_logits(p->b[k].c, i); }

/* The same batch on both; logits of its n rows, which are near; returns how many are the same. */
static uint32_t both(pair_of *p, const qsf_row *rows, uint32_t n)
{
    uint32_t same = 0, far = 0;
    for (int k = 0; k < 2; k++) {
        const qsf_status st = qsf_compute(p->b[k].c, rows, n);
        if (st) printf("      %s\n", qsf_last_error(p->b[k].c));
        CHECK_EQ(st, QSF_OK);
        if (st) return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        const double d = bench_distance(logits_of(p, CPU, i), logits_of(p, GPU, i), p->b[0].n_vocab);
        same += d <= SAME;
        far += !(d <= p->near);
    }
    CHECK_EQ(far, 0);
    return same;
}

/* A row in each sequence, which sees no other: most are the same.  Then a prompt in two, and
 * answers of all. */
static void compare(pair_of *p)
{
    int32_t ids[SEQS * WORDS];
    qsf_row rows[2 * PROMPT];
    uint32_t same = 0;
    bench_tokens(ids, SEQS * WORDS, p->b[0].n_vocab, 7);
    for (int round = 0; round < 4; round++) {
        for (int s = 0; s < SEQS; s++) rows[s] = (qsf_row){ s, ids[SEQS * round + s], true };
        same += both(p, rows, SEQS);
        for (int k = 0; k < 2; k++)
            for (int s = 0; s < SEQS; s++) CHECK_EQ(qsf_seq_truncate(p->b[k].c, s, 0), QSF_OK);
    }
    printf("      %u of %d rows are the same\n", (unsigned)same, 4 * SEQS);
    CHECK(4 * same >= 3 * 4 * SEQS);
    for (int i = 0; i < 2 * PROMPT; i++) rows[i] = (qsf_row){ i < PROMPT ? 1 : 3, ids[i], true };
    (void)both(p, rows, 2 * PROMPT);
    for (int i = 0; i < STEPS; i++) {
        for (int s = 0; s < SEQS; s++) rows[s] = (qsf_row){ s, ids[40 + SEQS * i + s], true };
        (void)both(p, rows, SEQS);
        for (int s = 1; s < 4; s += 2) (void)both(p, &(qsf_row){ s, ids[20 + i + s], true }, 1);
    }
}

TEST(rows_have_the_adapters_of_their_sequences)
{
    NEEDS_DEVICE;
    const tiny_options t = tiny_defaults();
    pair_of p;
    if (!pair_begin(&p, &t, false, false)) return;
    set_adapters(&p);
    compare(&p);
    CHECK_EQ(layers_there(&p.b[GPU]), 2);
    /* what they change is more than what is between CPU and GPU */
    for (int s = 0; s < SEQS; s++) CHECK_EQ(qsf_seq_truncate(p.b[GPU].c, s, 0), QSF_OK);
    const qsf_row rows[] = { { 0, 5, true }, { 1, 5, true }, { 3, 5, true } };
    CHECK_EQ(qsf_compute(p.b[GPU].c, rows, 3), QSF_OK);
    for (size_t i = 1; i < 3; i++)
        CHECK(bench_distance(logits_of(&p, GPU, 0), logits_of(&p, GPU, i), p.b[0].n_vocab) > 3 * NEAR);
    pair_end(&p);
}

/* A model of which all layers stay on the device. */
static void compare_model(const tiny_options *t, bool ends)
{
    pair_of p;
    if (!pair_begin(&p, t, ends, false)) return;
    set_adapters(&p);
    compare(&p);
    CHECK_EQ(layers_there(&p.b[GPU]), 2);
    pair_end(&p);
}

/* The embedding's and the head's are the CPU's. */
TEST(adapters_of_embedding_and_head_are_added)
{
    NEEDS_DEVICE;
    const tiny_options t = tiny_defaults();
    compare_model(&t, true);
}

/* Then adapters are of floats, too. */
TEST(matrices_of_floats_have_adapters)
{
    NEEDS_DEVICE;
    tiny_options t = tiny_defaults();
    t.type = QSF_T_F16;
    compare_model(&t, false);
}

/* The parts' outputs have norms, biases and scales of their own. */
TEST(outputs_with_norms_and_biases_have_adapters)
{
    NEEDS_DEVICE;
    tiny_options t = tiny_defaults();
    t.biases = t.post_norms = true;
    t.scales = 2;
    t.hp.residual_scale = 0.5f;
    compare_model(&t, false);
}

/* Exact adapters of codes need rows of floats, which the device does not have: all layers move. */
TEST(what_the_device_cannot_compute_is_named)
{
    NEEDS_DEVICE;
    const tiny_options t = tiny_defaults();
    pair_of p;
    if (!pair_begin(&p, &t, false, true)) return;
    int32_t ids[WORDS];
    bench_tokens(ids, WORDS, p.b[0].n_vocab, 3);
    qsf_row rows[WORDS];
    for (int i = 0; i < WORDS; i++) rows[i] = (qsf_row){ 0, ids[i], true };
    (void)both(&p, rows, PROMPT);
    set_adapters(&p);
    qsf_device_use use = { .size = sizeof use };
    CHECK_EQ(qsf_context_device(p.b[GPU].c, &use), QSF_OK);
    CHECK_EQ(use.n_layers, 0);
    CHECK(strstr(use.left, "exact numbers") != NULL);
    printf("      %s\n", use.left);
    CHECK_EQ(qsf_seq_length(p.b[GPU].c, 0), PROMPT);            /* without adapters */
    (void)both(&p, rows + PROMPT, STEPS);
    pair_end(&p);
}

/* Others keep their tokens, and the device its layers, while a sequence gets adapters, others, and
 * none. */
TEST(sequences_stay_while_adapters_come_and_go)
{
    NEEDS_DEVICE;
    const tiny_options t = tiny_defaults();
    int32_t ids[64];
    pair_of p;
    if (!pair_begin(&p, &t, false, false)) return;
    bench_tokens(ids, 64, p.b[0].n_vocab, 3);
    qsf_row rows[PROMPT];
    for (int i = 0; i < PROMPT; i++) rows[i] = (qsf_row){ 0, ids[i], true };
    (void)both(&p, rows, PROMPT);
    int live = 0;
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 2; k++) {
            const qsf_adapter_use use = { i & 1 ? p.y[k] : p.x[k], 1 + (float)i };
            CHECK_EQ(qsf_seq_set_adapters(p.b[k].c, 1, &use, i < 3), QSF_OK);
            CHECK_EQ(qsf_seq_length(p.b[k].c, 0), PROMPT + i);
            CHECK_EQ(qsf_seq_length(p.b[k].c, 1), 0);
        }
        const qsf_row two[] = { { 0, ids[20 + i], true }, { 1, ids[30 + i], true } };
        (void)both(&p, two, 2);
        if (i == 0) live = broken.live;
    }
    CHECK(broken.live < live);          /* the last batch was without adapters */
    CHECK_EQ(layers_there(&p.b[GPU]), 2);
    pair_end(&p);
}

/* Bytes of adapters are the GPU's, too. */
TEST(adapters_count_in_the_limit)
{
    NEEDS_DEVICE;
    const tiny_options t = tiny_defaults();
    qsf_device_use use = { .size = sizeof use }, more = { .size = sizeof more };
    bench b;
    broken_reset(0, QSF_OK);
    if (!device_begin(&b, &t, 0)) return;
    CHECK_EQ(qsf_context_device(b.c, &use), QSF_OK);
    qsf_adapter *x = adapter_made(&b, 1, false, false);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 1, &(qsf_adapter_use){ x, 1 }, 1), QSF_OK);
    CHECK_EQ(qsf_context_device(b.c, &more), QSF_OK);
    const uint64_t all = use.weights + use.kv + use.batch, with = more.weights + more.kv + more.batch;
    printf("      %llu bytes, an adapter %llu\n", (unsigned long long)all, (unsigned long long)(with - all));
    CHECK(with > all);
    qsf_adapter_free(x);
    bench_end(&b);
    for (int fits = 0; fits < 2; fits++) {
        const float *logits;
        if (!device_begin(&b, &t, fits ? with : with - 1)) return;
        CHECK_EQ(layers_there(&b), 2);
        CHECK_EQ(qsf_feed(b.c, 0, (const int32_t[]){ 4, 5, 6 }, 3, &logits), QSF_OK);
        x = adapter_made(&b, 1, false, false);
        CHECK_EQ(qsf_seq_set_adapters(b.c, 1, &(qsf_adapter_use){ x, 1 }, 1), QSF_OK);
        CHECK_EQ(layers_there(&b), fits ? 2 : 0);
        CHECK_EQ(qsf_seq_length(b.c, 0), 3);
        CHECK_EQ(qsf_feed(b.c, 1, (const int32_t[]){ 4, 5, 6 }, 3, &logits), QSF_OK);
        qsf_adapter_free(x);
        bench_end(&b);
    }
    CHECK_EQ(broken.live, 0);
}

/* A sequence with adapters and one without, in common batches. */
static qsf_status run_both(bench *b, qsf_adapter *x, float *out)
{
    int32_t ids[WORDS];
    const size_t n = b->n_vocab;
    qsf_status st = qsf_seq_set_adapters(b->c, 1, &(qsf_adapter_use){ x, 1 }, 1);
    bench_tokens(ids, WORDS, b->n_vocab, 5);
    for (int i = 0; i < STEPS + 1 && !st; i++) {
        qsf_row rows[2 * PROMPT];
        const uint32_t len = i ? 1 : PROMPT;
        for (uint32_t k = 0; k < 2 * len; k++)
            rows[k] = (qsf_row){ k / len, ids[i ? PROMPT + (uint32_t)i - 1 : k % len], k % len == len - 1 };
        if ((st = qsf_compute(b->c, rows, 2 * len))) break;
        for (size_t k = 0; k < 2; k++, out += n) memcpy(out, qsf_logits(b->c, k), n * sizeof *out);
    }
    return st;
}

/* The numbers of run_both on a device that fails at a call, or a buffer; false: it did not
 * begin. */
static bool run_failing(uint32_t at, qsf_status how, bool device, float *out)
{
    const tiny_options t = tiny_defaults();
    const qsf_context_options o = seq_options();
    bench b;
    broken_reset(at, how);
    if (!bench_write(&b, &t) || !bench_open(&b) || !bench_context(&b, &o)) return false;
    const bool there = device && !qsf_context_use_device(b.c, &broken.list, 0, 9, 0);
    qsf_adapter *x = adapter_made(&b, 1, false, false);
    const qsf_status st = run_both(&b, x, out);
    if (st) printf("      %u: %s\n", (unsigned)at, qsf_last_error(b.c));
    CHECK_EQ(st, QSF_OK);
    if (there && at) CHECK_EQ(layers_there(&b), 0);
    qsf_adapter_free(x);
    bench_end(&b);
    CHECK_EQ(broken.open, 0);
    CHECK_EQ(broken.live, 0);
    return there;
}

TEST(a_device_that_fails_with_adapters_changes_no_number)
{
    enum { ROWS = 2 * (STEPS + 1), N = 288 };
    NEEDS_DEVICE;
    float *cpu = calloc(ROWS * N, sizeof *cpu), *gpu = calloc(ROWS * N, sizeof *gpu),
        *got = calloc(ROWS * N, sizeof *got);
    (void)run_failing(0, QSF_OK, false, cpu);
    (void)run_failing(0, QSF_OK, true, gpu);
    const uint32_t calls = broken.calls, buffers = broken.buffers, few = getenv("QSF_TEST_LONG") ? 1 : 31;
    for (int full = 0; full < 2; full++)
        for (uint32_t at = full ? 1 : calls / 4; at < (full ? buffers + 1 : calls - 2);
             at += full ? (few + 2) / 3 : few) {
            bool on_cpu = false;
            if (!run_failing(at, full ? QSF_E_MEMORY : QSF_E_IO, true, got)) continue;
            for (size_t i = 0; i < ROWS; i++) {
                on_cpu |= !(bench_distance(gpu + i * N, got + i * N, N) <= 1e-4);
                if (on_cpu) CHECK_NEAR(bench_distance(cpu + i * N, got + i * N, N), 0, 1e-4);
            }
        }
    printf("      %u calls, %u buffers\n", (unsigned)calls, (unsigned)buffers);
    free(cpu), free(gpu), free(got);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    broken_begin();
    RUN(rows_have_the_adapters_of_their_sequences);
    RUN(adapters_of_embedding_and_head_are_added);
    RUN(matrices_of_floats_have_adapters);
    RUN(outputs_with_norms_and_biases_have_adapters);
    RUN(what_the_device_cannot_compute_is_named);
    RUN(sequences_stay_while_adapters_come_and_go);
    RUN(adapters_count_in_the_limit);
    RUN(a_device_that_fails_with_adapters_changes_no_number);
    broken_end();
    return test_end();
}
