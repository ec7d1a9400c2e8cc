/* Checks of recurrent mixers' sums and convolutions.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_SCAN_H
#define KERNELS_SCAN_H

#include "harness.h"

enum { SCAN_TOKENS = 12 };

/* Keys of length 1, as mixers have them: a state that corrects itself stays small then. */
static void fill_keys(table_test *t, float *k, size_t n, size_t ld, size_t tokens)
{
    for (size_t i = 0; i < tokens; i++) {
        double sum = 1e-9;
        fill_f32(t, k + i * ld, n, 1, 1);
        for (size_t j = 0; j < n; j++) sum += (double)k[i * ld + j] * k[i * ld + j];
        for (size_t j = 0; j < n; j++) k[i * ld + j] *= (float)(1 / sqrt(sum));
    }
}

static void check_scan_rows(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 120) {
        static const size_t widths[] = { 128, 64, 16, 1, 7, 9, 20, 256 };
        const size_t n = t->round % 3 ? widths[t->round % QSF_ARRAY_LEN(widths)] : pick(t, 1, 80);
        const size_t rows = pick(t, 1, 21), tokens = pick(t, 1, SCAN_TOKENS);
        const size_t ld = 2 * n + rows + pick(t, 0, 9), room = (tokens - 1) * ld + 2 * n + rows;
        const size_t ld_y = rows + pick(t, 0, 5);
        const size_t given = (tokens - 1) * ld_y + rows;
        SHAPE(t, "n %zu, rows %zu, tokens %zu", n, rows, tokens);
        float *x = guard_f32(t, room), *before = guard_f32(t, rows * n), *keep = guard_f32(t, tokens),
            *gain = guard_f32(t, tokens), *y = guard_f32(t, given), *z = guard_f32(t, given),
            *state = guard_f32(t, rows * n);
        fill_f32(t, x, room, 2, 100);
        fill_keys(t, x, n, ld, tokens);
        fill_f32(t, before, rows * n, 3, 1000);
        float *inplace = guard_f32_copy(t, before, rows * n);
        for (size_t i = 0; i < tokens; i++) {
            keep[i] = t->round < 2 ? (float)t->round : fabsf(pick_f32(t, 1));
            gain[i] = fabsf(pick_f32(t, 1));
        }
        for (size_t i = 0; i < given; i++) y[i] = z[i] = -7;
        qsf_scan s = { .k = x, .q = x + n, .v = x + 2 * n, .y = y, .keep = keep, .gain = gain, .ld = ld,
                       .ld_y = ld_y, .n = n, .tokens = tokens, .skip = pick_f32(t, 1),
                       .correct = t->round % 2 };
        ref->scan_rows(state, before, rows, &s);
        s.y = z;
        var->scan_rows(inplace, inplace, rows, &s);
        same_f32(t, "y", y, z, given, 1e-5);
        same_f32(t, "the sums", state, inplace, rows * n, 1e-5);

        /* token by token, from the first sums to other ones: the same bits */
        float *alone = guard_f32(t, rows * n);
        const float *from = before;
        for (size_t i = 0; i < tokens; i++, from = alone) {
            const qsf_scan one = { .k = x + i * ld, .q = s.q + i * ld, .v = s.v + i * ld, .y = y + i * ld_y,
                                   .keep = keep + i, .gain = gain + i, .ld = ld, .ld_y = ld_y, .n = n,
                                   .tokens = 1, .skip = s.skip, .correct = s.correct };
            var->scan_rows(alone, from, rows, &one);
        }
        same_bytes(t, "y alone", z, y, 4 * given);
        same_bytes(t, "the sums alone", inplace, alone, 4 * rows * n);
    }
}

static void check_scan_steps(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 120) {
        const size_t n = t->round % 3 ? 16 : pick(t, 1, 40), rows = pick(t, 1, 21);
        const size_t tokens = pick(t, 1, SCAN_TOKENS), ld = 2 * n + rows + pick(t, 0, 9);
        const size_t ld_y = rows + pick(t, 0, 5), given = (tokens - 1) * ld_y + rows;
        const size_t room = (tokens - 1) * ld + 2 * n + rows;
        SHAPE(t, "n %zu, rows %zu, tokens %zu", n, rows, tokens);
        float *x = guard_f32(t, room), *before = guard_f32(t, rows * n), *decay = guard_f32(t, rows * n),
            *skip = guard_f32(t, rows), *y = guard_f32(t, given), *state = guard_f32(t, rows * n);
        fill_f32(t, x, room, 2, 100);
        fill_f32(t, before, rows * n, 3, 1000);
        fill_f32(t, skip, rows, 1, 1);
        for (size_t i = 0; i < rows * n; i++) decay[i] = -fabsf(pick_f32(t, t->round == 1 ? 1e5f : 9));
        for (size_t i = 0; i < given; i++) y[i] = fabsf(pick_f32(t, 1));
        float *z = guard_f32_copy(t, y, given), *alone = guard_f32_copy(t, y, given);
        float *inplace = guard_f32_copy(t, before, rows * n), *one = guard_f32(t, rows * n);
        qsf_scan s = { .k = x, .q = x + n, .v = x + 2 * n, .y = y, .ld = ld, .ld_y = ld_y, .n = n,
                       .tokens = tokens };
        ref->scan_steps(state, before, rows, decay, skip, &s);
        s.y = z;
        var->scan_steps(inplace, inplace, rows, decay, skip, &s);
        same_f32(t, "y", y, z, given, 1e-5);
        same_f32(t, "the sums", state, inplace, rows * n, 1e-5);

        const float *from = before;             /* token by token: the same bits */
        for (size_t i = 0; i < tokens; i++, from = one) {
            const qsf_scan a = { .k = x + i * ld, .q = s.q + i * ld, .v = s.v + i * ld, .y = alone + i * ld_y,
                                 .ld = ld, .ld_y = ld_y, .n = n, .tokens = 1 };
            var->scan_steps(one, from, rows, decay, skip, &a);
        }
        same_bytes(t, "y alone", z, alone, 4 * given);
        same_bytes(t, "the sums alone", inplace, one, 4 * rows * n);
    }
}

static void check_convolve(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 120) {
        const size_t taps = t->round % 3 ? (t->round % 2 ? 3 : 4) : pick(t, 2, 7), channels = pick(t, 1, 30);
        const size_t tokens = pick(t, 1, 9), ld = channels + pick(t, 0, 9);
        const size_t ld_state = channels + pick(t, 0, 5), room = (tokens - 1) * ld + channels;
        const size_t past = (taps - 2) * ld_state + channels;
        SHAPE(t, "taps %zu, channels %zu, tokens %zu", taps, channels, tokens);
        float *x = guard_f32(t, room), *before = guard_f32(t, past), *w = guard_f32(t, taps * channels),
            *bias = guard_f32(t, channels);
        fill_f32(t, x, room, 3, 1e15f);
        fill_f32(t, before, past, 3, 1e15f);
        fill_f32(t, w, taps * channels, 1, 1);
        fill_f32(t, bias, channels, 1, 1);
        float *y = guard_f32_copy(t, x, room), *z = guard_f32_copy(t, x, room),
            *alone = guard_f32_copy(t, x, room);
        float *after = guard_f32_copy(t, before, past), *inplace = guard_f32_copy(t, before, past),
            *one = guard_f32_copy(t, before, past);
        const float *more = t->round % 2 ? bias : NULL;
        ref->convolve_inplace(y, ld, tokens, channels, after, before, ld_state, w, more, taps);
        var->convolve_inplace(z, ld, tokens, channels, inplace, inplace, ld_state, w, more, taps);
        same_f32(t, "x", y, z, room, 1e-6);
        same_f32(t, "the last inputs", after, inplace, past, 0);
        for (size_t i = 0; i < tokens; i++)     /* token by token: the same bits */
            var->convolve_inplace(alone + i * ld, ld, 1, channels, one, one, ld_state, w, more, taps);
        same_bytes(t, "x alone", z, alone, 4 * room);
        same_bytes(t, "the last inputs alone", inplace, one, 4 * past);
    }
}

#endif
