/* Cases of adapter_wgsl: what adapters add to products.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_WGSL_ADAPTER_H
#define KERNELS_WGSL_ADAPTER_H

#include "wgsl/adapter_wgsl.h"
#include "wgsl/choice_wgsl.h"
#include "wgsl_rows.h"

enum { L_ROWS = 3, L_USED = 2, L_EXPERTS = 4, L_RANK = 21, L_PLANES = 2 };

/* B of a matrix of `rows` rows: tiles of codes, or planes of fp16. */
static uint32_t *adapter_b(table_test *t, uint32_t rows, bool exact, size_t *words)
{
    const size_t tiles = (rows + 15) / 16, depth = (L_RANK + 3) / 4;
    *words = exact ? L_PLANES * tiles * L_RANK * 8 : tiles * (16 + 16 * depth);
    uint32_t *b = malloc(*words * 4);
    if (!b) exit(1);
    for (size_t i = 0; i < *words; i++) {
        uint16_t two[2];
        int8_t four[4];
        const bool scale = i % (16 + 16 * depth) < 16;
        for (int k = 0; k < 2; k++) two[k] = qsf_f32_to_f16(pick_f32(t, 1));
        for (int k = 0; k < 4; k++) four[k] = (int8_t)((int)pick(t, 0, 254) - 127);
        if (exact) memcpy(b + i, two, 4);
        else if (scale) b[i] = qsf_f32_bits(pick_f32(t, 0.01f));
        else memcpy(b + i, four, 4);
    }
    return b;
}

/* y += B h * times, as qsf_lora_up computes it. */
static void adapter_reference(const qsf_kernels *k, float *y, const uint32_t *b, const float *h,
                              uint32_t rows, bool exact, float times)
{
    const uint32_t tiles = (rows + 15) / 16, depth = (L_RANK + 3) / 4;
    float sums[512] = { 0 }, padded[4 * ((L_RANK + 3) / 4)] = { 0 };
    assert(16 * tiles <= 512);
    memcpy(padded, h, L_RANK * sizeof *h);
    if (exact) {
        const uint16_t *w = (const uint16_t *)(const void *)b;
        for (uint32_t r = 0; r < rows; r++)
            for (uint32_t i = 0; i < L_PLANES * L_RANK; i++) {
                const uint32_t c = i % L_RANK, at = (i / L_RANK * tiles + r / 16) * L_RANK + c;
                sums[r] += qsf_f16_to_f32(w[16 * at + r % 16]) * (h[c] + h[L_RANK + c]) * times;
            }
    } else {
        int8_t q[sizeof padded / sizeof *padded];
        float d;
        k->quantize_kv_8bit(q, &d, padded, 4 * depth);
        d *= times;
        k->add_narrow(sums, 0, (const uint8_t *)b, depth, tiles, q, 0, &d, 0, 1);
    }
    for (uint32_t r = 0; r < rows; r++) y[r] += sums[r];
}

/* One matrix of 300 rows and one of 40; of experts one of 40 for each. */
static void adapter_run(wgsl_folder *f, table_test *t, const qsf_kernels *k, const qsf_wgsl_adapter *a)
{
    const uint32_t rows[2] = { a->slots ? 40 : 300, 40 }, n = a->slots ? L_ROWS * L_USED : L_ROWS;
    const uint32_t n_pairs = a->slots ? 1 : 2, planes = a->exact ? L_PLANES : 0;
    const float uses[L_ROWS] = { 0.5f, 0, -1 }, scales[L_EXPERTS] = { 1, 0.25f, 0, 2 };
    const uint32_t slots[L_ROWS * (L_USED + 1)][2] = { { 0 }, { 3 }, { QSF_WGSL_NO_EXPERT }, { 1 }, { 2 },
                                                      { QSF_WGSL_NO_EXPERT }, { 1 }, { 2 },
                                                      { QSF_WGSL_NO_EXPERT } };
    size_t words[2], step = 0;
    uint32_t *of[2] = { adapter_b(t, a->slots ? L_EXPERTS * 48 : rows[0], a->exact, &words[0]),
                        adapter_b(t, rows[1], a->exact, &words[1]) };
    uint32_t *b = malloc((words[0] + words[1]) * 4);
    qsf_wgsl_adapter_numbers p = { .h_ld = 100, .y_ld = 400, .times = 0.5f, .used = L_USED,
                                   .slots = L_USED + 1, .y_slots = L_USED + 1 };
    if (!b) exit(1);
    memcpy(b, of[0], words[0] * 4);
    memcpy(b + words[0], of[1], words[1] * 4);
    p.b_step = (uint32_t)(step = a->slots ? words[0] / L_EXPERTS : 0);
    p.pairs[0] = (qsf_wgsl_pair){ rows[0], (rows[0] + 255) / 256, 0, 3, 1, L_RANK, planes, 0.75f };
    p.pairs[1] = (qsf_wgsl_pair){ rows[1], p.pairs[0].end + 1, (uint32_t)words[0], 50, 350, L_RANK, planes,
                                  3 };
    const uint32_t y_rows = L_ROWS * (L_USED + 1);
    float *h = random_floats(t, n * (size_t)p.h_ld, 2), *y = random_floats(t, y_rows * (size_t)p.y_ld, 1),
        *want = malloc(y_rows * (size_t)p.y_ld * 4);
    if (!want) exit(1);
    memcpy(want, y, y_rows * (size_t)p.y_ld * 4);
    for (uint32_t m = 0; m < n; m++)
        for (uint32_t i = 0; i < n_pairs; i++) {
            const uint32_t row = a->slots ? m / L_USED : m,
                to = a->slots ? row * (L_USED + 1) + m % L_USED : m;
            const uint32_t expert = a->slots ? slots[to][0] : 0;
            const float times = uses[row] * (a->slots ? scales[expert] : 1) * p.pairs[i].scale * p.times;
            if (times != 0)
                adapter_reference(k, want + (size_t)to * p.y_ld + p.pairs[i].y_at,
                                  b + p.pairs[i].b_at + expert * step,
                                  h + (size_t)m * p.h_ld + p.pairs[i].h_at, rows[i], a->exact, times);
        }
    wgsl_run(f, (const uint32_t[3]){ p.pairs[n_pairs - 1].end, n, 1 });
    wgsl_buffer(f, &p, sizeof p, false);
    wgsl_buffer(f, b, (words[0] + words[1]) * 4, false);
    wgsl_buffer(f, h, n * (size_t)p.h_ld * 4, false);
    wgsl_buffer(f, uses, sizeof uses, false);
    wgsl_buffer(f, y, y_rows * (size_t)p.y_ld * 4, !a->slots);
    if (a->slots) wgsl_buffer(f, slots, sizeof slots, false);
    if (a->slots) wgsl_buffer(f, scales, sizeof scales, true);
    wgsl_expect(f, 4, "f32", 1e-5, want, y_rows * (size_t)p.y_ld * 4);
    free(of[0]), free(of[1]), free(b), free(h), free(y), free(want);
}

static void adapter_cases(wgsl_folder *f, table_test *t, const qsf_kernels *k)
{
    for (int i = 0; i < 3; i++) {
        const qsf_wgsl_adapter a = { .exact = i == 1, .slots = i == 2 };
        qsf_wgsl_adapter_text(wgsl_shader(f), &a);
        wgsl_shader_end(f, i == 1 ? "adapter_exact" : i == 2 ? "adapter_slots" : "adapter");
        adapter_run(f, t, k, &a);
    }
}

#endif
