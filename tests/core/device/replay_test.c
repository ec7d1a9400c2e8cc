/* A device that fails in the middle: answers continue on the CPU, with the same numbers.
 * SPDX-License-Identifier: MIT
 *
 * QSF_WEBGPU_LIB: a webgpu.h library, with whatever adapter it finds. */
#include "broken_device.h"
#include "engine_bench.h"
#include "device/replay.h"
#include "memfile.h"

enum { PROMPT = 40, SHARED = 37, STEPS = 3, CUT = 20, ROWS = 1 + 2 * STEPS + STEPS };

/* Sequence 0 gets a prompt; 1 shares most of it; both continue in common batches, for which a block
 * is copied; then 0 goes back and takes another way. */
static qsf_status run_sequences(bench *b, float *out)
{
    int32_t ids[PROMPT];
    const float *logits;
    const size_t n = b->n_vocab;
    qsf_status st;
    bench_tokens(ids, PROMPT, b->n_vocab, 5);
    if ((st = qsf_feed(b->c, 0, ids, PROMPT, &logits))) return st;
    memcpy(out, logits, n * sizeof *out);
    out += n;
    if ((st = qsf_seq_share(b->c, 1, 0, SHARED))) return st;
    for (int i = 0; i < STEPS; i++) {
        const qsf_row rows[] = { { 0, ids[i], true }, { 1, ids[i + 7], true } };
        if ((st = qsf_compute(b->c, rows, 2))) return st;
        for (size_t k = 0; k < 2; k++, out += n) memcpy(out, qsf_logits(b->c, k), n * sizeof *out);
    }
    if ((st = qsf_seq_truncate(b->c, 0, CUT))) return st;
    for (int i = 0; i < STEPS; i++, out += n) {
        if ((st = qsf_feed(b->c, 0, ids + 9 + i, 1, &logits))) return st;
        memcpy(out, logits, n * sizeof *out);
    }
    return QSF_OK;
}

static tiny_options small_model(void)
{
    tiny_options o = tiny_defaults();
    o.hp.n_layers = 3;
    return o;
}

static qsf_context_options small_options(void)
{
    qsf_context_options o = bench_options();
    o.n_seqs = 2;
    o.n_batch = 16;         /* a prompt in three */
    o.n_logits = 4;
    return o;
}

/* Two of the three layers on the device. */
static bool begin(bench *b, const tiny_options *t, const qsf_context_options *o, bool device)
{
    if (!bench_write(b, t) || !bench_open(b) || !bench_context(b, o)) return false;
    if (!device) return true;
    const qsf_status st = qsf_context_use_device(b->c, &broken.list, 0, 2, 0);
    if (st && broken.fail_at) return st == broken.how;          /* it stays on the CPU */
    if (st) printf("      %s\n", qsf_last_error(b->c));
    CHECK_EQ(st, QSF_OK);
    return !st;
}

static void end(bench *b)
{
    bench_end(b);
    CHECK_EQ(broken.open, 0);
    CHECK_EQ(broken.live, 0);
}

/* The logits of every step, on the CPU or on a device that does not fail; the caller frees. */
static float *right_numbers(bool device)
{
    const tiny_options t = small_model();
    const qsf_context_options o = small_options();
    bench b;
    broken_reset(0, QSF_OK);
    if (!begin(&b, &t, &o, device)) exit(1);
    float *out = bench_floats(&b, ROWS);
    CHECK_EQ(run_sequences(&b, out), QSF_OK);
    end(&b);
    return out;
}

/* The device rounds differently; the CPU does, a little, if rows come in other batches. */
#define NEAR 0.08
#define SAME 1e-4

/* One run that fails at the nth call or buffer.  Each step's logits are the device's, and from some
 * step on the CPU's. */
static void one_failure(const float *cpu, const float *device, uint32_t at, qsf_status how)
{
    const tiny_options t = small_model();
    const qsf_context_options o = small_options();
    uint32_t of_cpu = 0, odd = 0;
    bench b;
    broken_reset(at, how);
    if (!begin(&b, &t, &o, true)) {
        CHECK(!"begins");
        return;
    }
    const size_t n = b.n_vocab;
    float *got = bench_floats(&b, ROWS);
    const qsf_status st = run_sequences(&b, got);
    for (size_t i = 0; i < ROWS; i++) {
        const bool there = !of_cpu && bench_distance(device + i * n, got + i * n, n) <= SAME;
        if (there) continue;
        of_cpu++;
        odd += bench_distance(cpu + i * n, got + i * n, n) > SAME;
    }
    if (st || odd) {
        CHECK(!"the same numbers");
        printf("      %s %u: %s, %u of %u steps on the CPU, %u wrong\n", how == QSF_E_IO ? "call" : "buffer",
               (unsigned)at, qsf_last_error(b.c), (unsigned)of_cpu, (unsigned)ROWS, (unsigned)odd);
    }
    qsf_device_use use = { .size = sizeof use };
    CHECK_EQ(qsf_context_device(b.c, &use), QSF_OK);
    CHECK_EQ(use.n_layers, 0);
    free(got);
    end(&b);
}

#define NEEDS_DEVICE if (!broken.real) LEFT_OUT("a library of WebGPU (QSF_WEBGPU_LIB)")

/* A device in software is slow: some of all places, others each time that the program changes. */
TEST(a_device_lost_at_any_call_changes_no_number)
{
    NEEDS_DEVICE;
    float *cpu = right_numbers(false), *device = right_numbers(true);
    const uint32_t calls = broken.calls, every = getenv("QSF_TEST_LONG") ? 1 : 17;
    printf("      %u calls\n", (unsigned)calls);
    /* of the last ones only the end's are left */
    for (uint32_t at = 1; at < calls - 2; at += every) one_failure(cpu, device, at, QSF_E_IO);
    free(cpu), free(device);
}

TEST(a_device_full_at_any_buffer_changes_no_number)
{
    NEEDS_DEVICE;
    float *cpu = right_numbers(false), *device = right_numbers(true);
    const uint32_t buffers = broken.buffers, every = getenv("QSF_TEST_LONG") ? 1 : 4;
    printf("      %u buffers\n", (unsigned)buffers);
    for (uint32_t at = 1; at <= buffers; at += every) one_failure(cpu, device, at, QSF_E_MEMORY);
    free(cpu), free(device);
}

TEST(numbers_that_are_not_finite_are_computed_by_the_cpu)
{
    NEEDS_DEVICE;
    const tiny_options t = small_model();
    const qsf_context_options o = small_options();
    float *want = right_numbers(false);
    bench b;
    broken_reset(0, QSF_OK);
    if (!begin(&b, &t, &o, true)) return;
    float *got = bench_floats(&b, ROWS);
    broken.wrong = true;
    CHECK_EQ(run_sequences(&b, got), QSF_OK);
    CHECK_NEAR(bench_distance(want, got, (size_t)ROWS * b.n_vocab), 0, 1e-5);
    free(got);
    free(want);
    end(&b);
}

/* A damaged scale of a matrix: whatever it is in, device and CPU name its layer. */
static void damaged(uint32_t layer, uint32_t kind, qsf_kv_type kv, size_t n)
{
    const tiny_options t = small_model();
    qsf_context_options o = small_options();
    qsf_device_use use = { .size = sizeof use };
    const float *logits;
    const qsf_weights *w;
    int32_t ids[PROMPT];
    char where[2][48];
    bench b;
    o.kv_type = kv;
    broken_reset(0, QSF_OK);
    if (!begin(&b, &t, &o, true)) return;
    bench_tokens(ids, PROMPT, b.n_vocab, 5);
    CHECK_EQ(qsf_fetch_unit(&b.c->fetch, qsf_id_layer(layer), false, &w, NULL), QSF_OK);
    qsf_put16(qsf_fetch_writable(&b.c->fetch, w->m[kind].t.data), 0x7e00);
    qsf_status st = QSF_OK;
    for (size_t at = 0; at < 4 && !st; at++) st = qsf_feed(b.c, 0, ids + at * n, n, &logits);
    CHECK_EQ(st, QSF_E_CORRUPT);
    CHECK_EQ(qsf_context_device(b.c, &use), QSF_OK);
    snprintf(where[0], sizeof where[0], "layer %u of 0 to 2", (unsigned)layer);
    snprintf(where[1], sizeof where[1], "values of layer %u are not finite", (unsigned)layer);
    const bool named = strstr(qsf_last_error(b.c), where[0]) && strstr(use.left, where[1]);
    CHECK(named);
    if (!named) printf("      kind %u of layer %u: %s; %s\n", (unsigned)kind, (unsigned)layer,
                       qsf_last_error(b.c), use.left);
    end(&b);
}

TEST(damaged_weights_are_named_by_device_and_cpu)
{
    NEEDS_DEVICE;
    static const uint32_t kinds[] = { QSF_K_ATTN_Q, QSF_K_ATTN_K, QSF_K_ATTN_V, QSF_K_ATTN_OUT,
                                      QSF_K_FFN_GATE, QSF_K_FFN_UP, QSF_K_FFN_DOWN };
    for (size_t i = 0; i < QSF_ARRAY_LEN(kinds); i++) {
        damaged(1, kinds[i], QSF_KV_F16, 10);
        if (i % 4 == 1) damaged(2, kinds[i], QSF_KV_Q8, 1);     /* keys and up */
    }
}

/* What a window has dropped cannot be computed again: an error, then an empty sequence, which
 * works. */
TEST(positions_that_are_lost_are_an_error)
{
    NEEDS_DEVICE;
    const tiny_options t = small_model();
    qsf_context_options o = small_options();
    int32_t ids[100];
    const float *logits, *again;
    bench b, cpu;
    o.kv_window = 32;
    o.n_ctx = 64;
    broken_reset(0, QSF_OK);
    if (!begin(&b, &t, &o, true)) return;
    bench_tokens(ids, 100, b.n_vocab, 5);
    CHECK_EQ(qsf_feed(b.c, 0, ids, 100, NULL), QSF_OK);
    CHECK_EQ(qsf_feed(b.c, 1, ids, 20, NULL), QSF_OK);
    broken.lost = true;
    CHECK_EQ(qsf_feed(b.c, 1, ids + 20, 1, &logits), QSF_OK);           /* this one is whole */
    CHECK_EQ(qsf_seq_length(b.c, 0), 100);
    CHECK_EQ(qsf_feed(b.c, 0, ids, 1, &logits), QSF_E_IO);
    printf("      %s\n", qsf_last_error(b.c));
    CHECK(strstr(qsf_last_error(b.c), "from the first on") != NULL);
    CHECK_EQ(qsf_seq_length(b.c, 0), 0);
    CHECK_EQ(qsf_seq_length(b.c, 1), 21);
    CHECK_EQ(qsf_feed(b.c, 0, ids, 100, &logits), QSF_OK);
    if (begin(&cpu, &t, &o, false)) {
        CHECK_EQ(qsf_feed(cpu.c, 0, ids, 100, &again), QSF_OK);
        CHECK_NEAR(bench_distance(again, logits, b.n_vocab), 0, 1e-5);
        end(&cpu);
    }
    bench_end(&b);
}

/* Loads a session on one side and continues it, saves it there, and continues it on the other. */
static void session_moves(bool from_device)
{
    const tiny_options t = small_model();
    const qsf_context_options o = small_options();
    static memfile_bytes saved, again;
    int32_t ids[PROMPT], own[PROMPT];
    const float *want, *got;
    bench b[2];
    size_t n = 0;
    memfile f;
    saved.len = again.len = 0;
    broken_reset(0, QSF_OK);
    for (int k = 0; k < 2; k++) if (!begin(&b[k], &t, &o, from_device == (k == 0))) return;
    bench_tokens(ids, PROMPT, b[0].n_vocab, 5);
    CHECK_EQ(qsf_feed(b[0].c, 0, ids, PROMPT - 1, NULL), QSF_OK);
    CHECK_EQ(qsf_session_save(b[0].c, 0, ids, PROMPT - 1, memfile_write, &saved, &b[0].error), QSF_OK);
    memfile_init(&f, saved.bytes, saved.len);
    CHECK_EQ(qsf_session_load(b[1].c, 0, &f.file, own, PROMPT, &n, &b[1].error), QSF_OK);
    CHECK_EQ(n, PROMPT - 1);
    CHECK_EQ(qsf_session_save(b[1].c, 0, own, n, memfile_write, &again, &b[1].error), QSF_OK);
    CHECK(saved.len == again.len && !memcmp(saved.bytes, again.bytes, saved.len));
    for (int k = 0; k < 2; k++) CHECK_EQ(qsf_seq_share(b[k].c, 1, 0, PROMPT - 1), QSF_OK);
    /* copies a block */
    for (int k = 0; k < 2; k++) CHECK_EQ(qsf_feed(b[k].c, 1, ids, 1, k ? &got : &want), QSF_OK);
    CHECK_NEAR(bench_distance(want, got, b[0].n_vocab), 0, NEAR);
    /* a loaded session's tokens are not known: its bytes are still there */
    broken.lost = true;
    for (int k = 0; k < 2; k++)
        CHECK_EQ(qsf_feed(b[k].c, 0, ids + PROMPT - 1, 1, k ? &got : &want), QSF_OK);
    CHECK_NEAR(bench_distance(want, got, b[0].n_vocab), 0, NEAR);
    for (int k = 0; k < 2; k++) CHECK_EQ(qsf_feed(b[k].c, 1, ids + 1, 1, k ? &got : &want), QSF_OK);
    CHECK_NEAR(bench_distance(want, got, b[0].n_vocab), 0, NEAR);
    for (int k = 0; k < 2; k++) bench_end(&b[k]);
    CHECK_EQ(broken.open, 0);
    CHECK_EQ(broken.live, 0);
}

TEST(sessions_move_between_cpu_and_device) { NEEDS_DEVICE; session_moves(false); session_moves(true); }

/* A CPU and a device get the same session and tokens; the device is lost before the session comes,
 * or after a token that follows it. */
static void session_outlives(bool lost_first)
{
    const tiny_options t = small_model();
    const qsf_context_options o = small_options();
    static memfile_bytes saved;
    int32_t ids[PROMPT], own[PROMPT];
    const float *want, *got;
    bench b[2];
    size_t n = 0;
    memfile f;
    saved.len = 0;
    broken_reset(0, QSF_OK);
    for (int k = 0; k < 2; k++) if (!begin(&b[k], &t, &o, k == 1)) return;
    bench_tokens(ids, PROMPT, b[0].n_vocab, 5);
    CHECK_EQ(qsf_feed(b[0].c, 0, ids, PROMPT - 2, NULL), QSF_OK);
    CHECK_EQ(qsf_session_save(b[0].c, 0, ids, PROMPT - 2, memfile_write, &saved, &b[0].error), QSF_OK);
    if (lost_first) {
        CHECK_EQ(qsf_feed(b[1].c, 1, ids, 3, NULL), QSF_OK);
        broken.lost = true;
        CHECK_EQ(qsf_feed(b[1].c, 1, ids + 3, 1, NULL), QSF_OK);
    }
    for (int k = 0; k < 2; k++) {
        memfile_init(&f, saved.bytes, saved.len);
        CHECK_EQ(qsf_session_load(b[k].c, 0, &f.file, own, PROMPT, &n, &b[k].error), QSF_OK);
        CHECK_EQ(qsf_feed(b[k].c, 0, ids + PROMPT - 2, 1, k ? &got : &want), QSF_OK);
    }
    CHECK_NEAR(bench_distance(want, got, b[0].n_vocab), 0, NEAR);
    broken.lost = true;
    for (int k = 0; k < 2; k++)
        CHECK_EQ(qsf_feed(b[k].c, 0, ids + PROMPT - 1, 1, k ? &got : &want), QSF_OK);
    CHECK_NEAR(bench_distance(want, got, b[0].n_vocab), 0, NEAR);
    for (int k = 0; k < 2; k++) bench_end(&b[k]);
}

TEST(sessions_outlive_a_device) { NEEDS_DEVICE; session_outlives(false); session_outlives(true); }

/* With a window as long as the context a sequence has more blocks than positions fill. */
TEST(windows_may_be_as_long_as_the_context)
{
    NEEDS_DEVICE;
    const tiny_options t = small_model();
    qsf_context_options o = small_options();
    int32_t ids[PROMPT];
    const float *want, *got;
    bench b[2];
    o.n_seqs = 1;
    o.n_ctx = o.kv_window = 64;
    broken_reset(0, QSF_OK);
    for (int k = 0; k < 2; k++) if (!begin(&b[k], &t, &o, k == 1)) return;
    bench_tokens(ids, PROMPT, b[0].n_vocab, 5);
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 2; k++) CHECK_EQ(qsf_feed(b[k].c, 0, ids, PROMPT, k ? &got : &want), QSF_OK);
        CHECK_NEAR(bench_distance(want, got, b[0].n_vocab), 0, NEAR);
    }
    qsf_device_use use = { .size = sizeof use };
    CHECK_EQ(qsf_context_device(b[1].c, &use), QSF_OK);
    CHECK_EQ(use.n_layers, 2);
    for (int k = 0; k < 2; k++) bench_end(&b[k]);
}

/* The first layers of a model, or its last ones from the states of the CPU's first ones. */
static void part_on_device(bool last)
{
    const tiny_options t = small_model();
    const qsf_context_options o = small_options();
    int32_t ids[4];
    qsf_row rows[4];
    bench first, b[2];
    qsf_model_options mo;
    broken_reset(0, QSF_OK);
    qsf_model_defaults(&mo);
    for (int k = 0; k < 3; k++) {
        bench *x = k == 2 ? &first : &b[k];
        mo.first_layer = last && k < 2 ? 1 : 0;
        mo.end_layer = last && k < 2 ? 0 : last ? 1 : 2;
        if (!bench_write(x, &t)) return;
        mo.platform = &x->h.m.p;
        if (!bench_ok(x, qsf_model_open("m", &mo, &x->m, &x->error)) || !bench_context(x, &o)) return;
    }
    CHECK_EQ(qsf_context_use_device(b[1].c, &broken.list, 0, 9, 0), QSF_OK);
    qsf_device_use use = { .size = sizeof use };
    CHECK_EQ(qsf_context_device(b[1].c, &use), QSF_OK);
    CHECK_EQ(use.n_layers, 2);
    CHECK_EQ(use.first, last ? 1 : 0);
    bench_tokens(ids, 4, first.n_vocab, 5);
    for (int i = 0; i < 4; i++) rows[i] = (qsf_row){ 0, ids[i], last };
    CHECK_EQ(qsf_compute(first.c, rows, 4), QSF_OK);
    for (int k = 0; k < 2; k++)
        CHECK_EQ(last ? qsf_compute_from(b[k].c, rows, 4, qsf_batch_states(first.c, 0))
                      : qsf_compute(b[k].c, rows, 4), QSF_OK);
    const size_t n = last ? first.n_vocab : t.hp.n_embd;
    for (size_t i = 0; i < 4; i++) {
        const float *want = last ? qsf_logits(b[0].c, i) : qsf_batch_states(b[0].c, i),
            *got = last ? qsf_logits(b[1].c, i) : qsf_batch_states(b[1].c, i);
        CHECK(want && got && bench_distance(want, got, n) <= NEAR);
    }
    bench_end(&first);
    for (int k = 0; k < 2; k++) bench_end(&b[k]);
}

TEST(parts_of_a_model_are_computed_there) { NEEDS_DEVICE; part_on_device(false); part_on_device(true); }

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    broken_begin();
    RUN(a_device_lost_at_any_call_changes_no_number);
    RUN(a_device_full_at_any_buffer_changes_no_number);
    RUN(numbers_that_are_not_finite_are_computed_by_the_cpu);
    RUN(damaged_weights_are_named_by_device_and_cpu);
    RUN(positions_that_are_lost_are_an_error);
    RUN(sessions_move_between_cpu_and_device);
    RUN(sessions_outlive_a_device);
    RUN(windows_may_be_as_long_as_the_context);
    RUN(parts_of_a_model_are_computed_there);
    broken_end();
    return test_end();
}
