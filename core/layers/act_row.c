/* Activations in 8 bits with one scale for a whole row: the same codes as bitnet.cpp's.
 * SPDX-License-Identifier: MIT
 *
 * Plain C that compilers vectorize; a row of activations is multiplied by thousands of rows of
 * weights, so its conversion costs next to nothing. */
#include "layers/act_row.h"

/* Adding and taking away 1.5 * 2^23 rounds to the nearest integer, ties to even. */
#define ACT_ROUND 12582912.0f
#define ACT_LEAST 1e-5f

/* NaN counts as zero, infinities as the largest number. */
static inline float act_finite(float x)
{
    const float low = x > -FLT_MAX ? x : x <= -FLT_MAX ? -FLT_MAX : 0;
    return low < FLT_MAX ? low : FLT_MAX;
}

static float act_largest(const float *x, size_t n)
{
    float most[8] = { 0 };
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t l = 0; l < 8; l++) {
            const float v = fabsf(x[i + l]);
            most[l] = v > most[l] ? v : most[l];
        }
    for (; i < n; i++) most[0] = fabsf(x[i]) > most[0] ? fabsf(x[i]) : most[0];
    for (size_t l = 1; l < 8; l++) most[0] = most[l] > most[0] ? most[l] : most[0];
    return act_finite(most[0]);
}

static void act_sums(qsf_act *a, size_t m)
{
    const int8_t *q = a->q + m * a->cols;
    float *s = a->s + m * (a->cols / 32);
    int16_t *h = a->h + m * (a->cols / 8);
    for (size_t i = 0; i < a->cols; i += 16, h += 2) {
        int first = 0, second = 0;
        for (size_t j = i; j < i + 16; j += 4) {
            first += q[j] + q[j + 1];
            second += q[j + 2] + q[j + 3];
        }
        h[0] = (int16_t)first;
        h[1] = (int16_t)second;
        s[i / 32] = (float)(first + second) + (i % 32 ? s[i / 32] : 0);
    }
}

void qsf_quantize_act_row(qsf_act *a, size_t m, const float *x, size_t cols)
{
    int8_t *q = a->q + m * a->cols;
    float *d = a->d + m * (a->cols / 64);
    const float largest = act_largest(x, cols), times = (float)(127.0 / (double)QSF_MAX(largest, ACT_LEAST));
    for (size_t i = 0; i < cols; i++) {
        const float v = act_finite(x[i]) * times;       /* rounded before it is added to */
        const float rounded = v + ACT_ROUND;
        q[i] = (int8_t)(rounded - ACT_ROUND);
    }
    memset(q + cols, 0, a->cols - cols);
    for (size_t i = 0; i < a->cols / 64; i++) d[i] = 1 / times;
    act_sums(a, m);
}
