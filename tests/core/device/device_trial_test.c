/* The trial of a device: it measures both sides, changes no number, and a device may fail in it.
 * SPDX-License-Identifier: MIT
 *
 * QSF_WEBGPU_LIB: a webgpu.h library, with whatever adapter it finds. */
#include "broken_device.h"
#include "engine_bench.h"
#include "memfile.h"
#include "device/device_make.h"
#include "device/device_trial.h"

enum { PROMPT = 20, ANSWER = 3, ROWS = 1 + ANSWER };

static bool begin(bench *b, bool device)
{
    tiny_options t = tiny_defaults();
    qsf_context_options o = bench_options();
    t.hp.n_layers = 3;
    o.n_logits = 1;
    if (!bench_write(b, &t) || !bench_open(b) || !bench_context(b, &o)) return false;
    if (!device) return true;
    const qsf_status st = qsf_context_use_device(b->c, &broken.list, 0, 2, 0);
    if (st) printf("      %s\n", qsf_last_error(b->c));
    return !st;
}

static void end(bench *b)
{
    bench_end(b);
    CHECK_EQ(broken.open, 0);
    CHECK_EQ(broken.live, 0);
}

static uint32_t layers_there(const bench *b)
{
    qsf_device_use use = { .size = sizeof use };
    CHECK_EQ(qsf_context_device(b->c, &use), QSF_OK);
    return use.n_layers;
}

/* [ROWS][n_vocab] logits of an answer; the caller frees. */
static float *numbers(bench *b)
{
    int32_t ids[PROMPT];
    float *out = bench_floats(b, ROWS);
    const float *logits;
    bench_tokens(ids, PROMPT, b->n_vocab, 5);
    for (int i = 0; i < ROWS; i++) {
        CHECK_EQ(qsf_feed(b->c, 0, i ? ids + i : ids, i ? 1 : PROMPT, &logits), QSF_OK);
        memcpy(out + (size_t)i * b->n_vocab, logits, b->n_vocab * sizeof *out);
    }
    return out;
}

static bool try_device(bench *b, qsf_device_trial *t)
{
    bool reading = true;
    *t = (qsf_device_trial){ 0 };
    const qsf_status st = qsf_device_trial_step(b->c, t, &reading);
    CHECK_EQ(st, QSF_OK);
    CHECK(!reading);
    return !st;
}

static void check_same(const bench *b, const float *wanted, const float *got)
{
    CHECK(!memcmp(wanted, got, (size_t)ROWS * b->n_vocab * sizeof *got));
}

#define NEEDS_DEVICE if (!broken.real) LEFT_OUT("a library of WebGPU (QSF_WEBGPU_LIB)")

TEST(a_trial_measures_both_and_changes_no_number)
{
    NEEDS_DEVICE;
    qsf_device_trial t;
    bench b;
    float *wanted[2], *got;
    for (int device = 0; device < 2; device++) {
        broken_reset(0, QSF_OK);
        if (!begin(&b, device)) exit(1);
        wanted[device] = numbers(&b);
        end(&b);
    }
    for (int leaves = 0; leaves < 2; leaves++) {
        broken_reset(0, QSF_OK);
        if (!begin(&b, true)) exit(1);
        if (try_device(&b, &t)) {
            for (int i = 0; i < QSF_N_TRIAL_KINDS; i++) CHECK(t.ns[i] > 0 && t.ns[i] < 1e12);
            printf("      GPU %.3f and %.3f ms a row, CPU %.3f and %.3f\n", t.ns[0] / 1e6, t.ns[1] / 1e6,
                   t.ns[2] / 1e6, t.ns[3] / 1e6);
        }
        CHECK_EQ(layers_there(&b), 2);
        if (leaves) qsf_context_leave_device(b.c);
        CHECK_EQ(layers_there(&b), leaves ? 0 : 2);
        got = numbers(&b);
        check_same(&b, wanted[!leaves], got);
        free(got);
        end(&b);
    }
    free(wanted[0]), free(wanted[1]);
}

TEST(a_device_that_fails_in_a_trial_has_no_layers)
{
    NEEDS_DEVICE;
    qsf_device_trial t;
    bench b;
    broken_reset(0, QSF_OK);
    if (!begin(&b, false)) exit(1);
    float *wanted = numbers(&b);
    end(&b);
    broken_reset(0, QSF_OK);
    if (!begin(&b, true)) exit(1);
    const uint32_t before = broken.calls;
    if (!try_device(&b, &t)) exit(1);
    const uint32_t calls = broken.calls;
    end(&b);
    /* how often a layer is listed depends on time, the first runs do not */
    const uint32_t last = QSF_MIN(calls - 2, before + 120);
    for (uint32_t at = before + 1; at < last; at += 41) {
        broken_reset(at, QSF_E_IO);
        if (!begin(&b, true)) {
            CHECK(!"begins");
            continue;
        }
        if (try_device(&b, &t)) CHECK_EQ(layers_there(&b), 0);
        float *got = numbers(&b);
        check_same(&b, wanted, got);
        free(got);
        end(&b);
    }
    free(wanted);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    broken_begin();
    RUN(a_trial_measures_both_and_changes_no_number);
    RUN(a_device_that_fails_in_a_trial_has_no_layers);
    broken_end();
    return test_end();
}
