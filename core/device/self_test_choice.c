/* The self-test's choice of experts.
 * SPDX-License-Identifier: MIT */
#include "device/self_test_own.h"

#include "wgsl/choice_wgsl.h"

enum { CHOICE_ROWS = 2, CHOICE_EXPERTS = 12, CHOICE_USED = 3, CHOICE_GROUPS = 4, CHOICE_GROUPS_USED = 2,
       CHOICE_LD = 16, CHOICE_EACH = CHOICE_EXPERTS / CHOICE_GROUPS };
#define CHOICE_NEAR 1e-4f
#define CHOICE_SCALE 2.5f

typedef struct choice_numbers {
    float    a[CHOICE_ROWS * CHOICE_LD], bias[CHOICE_EXPERTS], scales[CHOICE_EXPERTS];
    uint32_t want[CHOICE_ROWS * (CHOICE_USED + 1) * 2];
} choice_numbers;

/* x[n] become their softmax. */
static void choice_softmax(float *x, uint32_t n)
{
    float top = x[0], sum = 0;
    for (uint32_t i = 0; i < n; i++) top = QSF_MAX(top, x[i]);
    for (uint32_t i = 0; i < n; i++) sum += x[i] = expf(x[i] - top);
    for (uint32_t i = 0; i < n; i++) x[i] /= sum;
}

/* Takes away the scores of all groups but the best: those with the largest sums of two. */
static void choice_groups(float score[CHOICE_EXPERTS])
{
    float of[CHOICE_GROUPS];
    for (uint32_t g = 0; g < CHOICE_GROUPS; g++) {
        const float *s = score + g * CHOICE_EACH;
        of[g] = s[0] + s[1] + s[2] - QSF_MIN(QSF_MIN(s[0], s[1]), s[2]);
    }
    for (uint32_t g = 0; g < CHOICE_GROUPS; g++) {
        uint32_t better = 0;
        for (uint32_t k = 0; k < CHOICE_GROUPS; k++) better += of[k] > of[g];
        for (uint32_t i = 0; better >= CHOICE_GROUPS_USED && i < CHOICE_EACH; i++)
            score[g * CHOICE_EACH + i] = -FLT_MAX;
    }
}

/* A row as core/layers/router.c computes it; all scores are different. */
static void choice_reference(const qsf_wgsl_choice *c, choice_numbers *x, uint32_t m)
{
    const uint32_t slots = CHOICE_USED + (c->shared != QSF_WGSL_ALONE);
    const float *a = x->a + m * CHOICE_LD;
    float value[CHOICE_EXPERTS], score[CHOICE_EXPERTS], w[CHOICE_USED], sum = 0;
    uint32_t *to = x->want + m * slots * 2, n = 0;
    memcpy(value, a, sizeof value);
    if (c->router == QSF_WGSL_OF_ALL) choice_softmax(value, CHOICE_EXPERTS);
    for (uint32_t i = 0; c->router == QSF_WGSL_OF_EACH && i < CHOICE_EXPERTS; i++)
        value[i] = 1 / (1 + expf(-value[i]));
    for (uint32_t i = 0; i < CHOICE_EXPERTS; i++) score[i] = value[i] + (c->bias ? x->bias[i] : 0);
    if (c->groups) choice_groups(score);
    for (uint32_t i = 0; i < CHOICE_EXPERTS; i++) {
        uint32_t better = 0;
        for (uint32_t k = 0; k < CHOICE_EXPERTS; k++) better += score[k] > score[i];
        if (better >= CHOICE_USED || n == CHOICE_USED) continue;
        to[2 * n] = i;
        w[n++] = value[i];
    }
    if (c->router == QSF_WGSL_OF_CHOSEN) choice_softmax(w, CHOICE_USED);
    for (uint32_t i = 0; i < CHOICE_USED; i++) sum += w[i];
    for (uint32_t i = 0; i < CHOICE_USED; i++)
        to[2 * i + 1] = qsf_f32_bits(w[i] * CHOICE_SCALE / (c->norm ? sum : 1)
                                     * (c->scales ? x->scales[to[2 * i]] : 1));
    if (c->shared == QSF_WGSL_ALONE) return;
    to[2 * n] = QSF_WGSL_NO_EXPERT;
    to[2 * n + 1] = qsf_f32_bits(c->shared == QSF_WGSL_BESIDE ? 1 : 1 / (1 + expf(-a[CHOICE_EXPERTS])));
}

static void choice_run(self_build *b, const qsf_wgsl_choice *c, qsf_device_id pipeline, choice_numbers *x)
{
    const uint32_t slots = CHOICE_USED + (c->shared != QSF_WGSL_ALONE), words = CHOICE_ROWS * slots * 2;
    const qsf_wgsl_choice_numbers numbers = {
        .experts = CHOICE_EXPERTS, .used = CHOICE_USED, .a_ld = CHOICE_LD, .slots = slots,
        .groups = CHOICE_GROUPS, .groups_used = CHOICE_GROUPS_USED, .scale = CHOICE_SCALE,
    };
    self_random r = { 3 };
    qsf_device_range ranges[5];
    uint32_t n = 0;
    for (uint32_t i = 0; i < CHOICE_ROWS * CHOICE_LD; i++) x->a[i] = self_float(&r, 2);
    for (uint32_t i = 0; i < CHOICE_EXPERTS; i++) {
        x->bias[i] = self_float(&r, 0.1f);
        x->scales[i] = 1 + self_float(&r, 0.5f);
    }
    for (uint32_t m = 0; m < CHOICE_ROWS; m++) choice_reference(c, x, m);
    ranges[n++] = qsf_self_buffer(b, QSF_DEVICE_UNIFORM, &numbers, sizeof numbers);
    ranges[n++] = qsf_self_buffer(b, QSF_DEVICE_STORAGE, x->a, sizeof x->a);
    if (c->bias) ranges[n++] = qsf_self_buffer(b, QSF_DEVICE_STORAGE, x->bias, sizeof x->bias);
    if (c->scales) ranges[n++] = qsf_self_buffer(b, QSF_DEVICE_STORAGE, x->scales, sizeof x->scales);
    ranges[n++] = qsf_self_buffer(b, QSF_DEVICE_STORAGE, NULL, words * sizeof *x->want);
    qsf_self_step(b, pipeline, ranges, n, 1, CHOICE_ROWS, 1);
    qsf_self_expect(b, ranges[n - 1].buffer, SELF_SLOTS, CHOICE_NEAR, x->want, words);
}

qsf_status qsf_self_test_choice(qsf_self_test *t, const qsf_wgsl_choice *c, qsf_error *err)
{
    self_build b;
    qsf_device_id pipeline;
    qsf_self_begin(&b, t, "the choice of experts", err);
    if (b.st) return b.st;
    qsf_wgsl_choice_text(&b.text, c);
    if (qsf_self_is_new(&b, &pipeline)) {
        choice_numbers *x = qsf_self_room(&b, sizeof *x);
        if (x) choice_run(&b, c, pipeline, x);
        qsf_self_room_free(&b, x, sizeof *x);
    }
    return qsf_self_end(&b);
}
