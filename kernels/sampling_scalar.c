/* Choosing among a vocabulary in plain C: softmax, top-k, top-p, drawing, argmax.  Nothing is sorted and nothing allocated:
 * thresholds are found by counting the bits of the floats from the top down.
 * SPDX-License-Identifier: MIT */
#include "sampling.h"

/* Greater float, greater key; the two zeros are equal, NaN has the least. */
static uint32_t float_key_scalar(float x)
{
    const uint32_t u = qsf_f32_bits(x + 0.0f);
    if (x != x) return 0;
    return u & 0x80000000 ? ~u : u | 0x80000000;
}

static size_t argmax_scalar(const float *x, size_t n)
{
    size_t best = 0;
    bool seen = false;
    for (size_t i = 0; i < n; i++)
        if (x[i] == x[i] && (!seen || x[i] > x[best])) best = i, seen = true;
    return best;
}

static void softmax_with_temperature_scalar(float *probs, const float *logits, size_t n, float temperature)
{
    if (!n) return;
    const size_t best = argmax_scalar(logits, n);
    const float top = logits[best];
    if (!(temperature > 0) || !(top > -INFINITY)) {             /* cold, or nothing to choose from */
        memset(probs, 0, n * sizeof *probs);
        probs[best] = 1;
        return;
    }
    const float f = 1 / temperature;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const float e = logits[i] == top ? 1 : logits[i] == logits[i] ? expf((logits[i] - top) * f) : 0;
        sum += probs[i] = e;
    }
    const float r = (float)(1 / sum);
    for (size_t i = 0; i < n; i++) probs[i] *= r;
}

static void top_k_filter_scalar(float *logits, size_t n, size_t k)
{
    uint32_t key = 0, known = 0;                        /* the k-th largest key, and which of its bits are found */
    size_t left = k;                                    /* how many of those that share these bits stay */
    if (!k) key = UINT32_MAX;
    else if (k < n) for (int shift = 24; shift >= 0; shift -= 8, known = known >> 8 | 0xff000000) {
        size_t count[256] = { 0 };
        for (size_t i = 0; i < n; i++) {
            const uint32_t u = float_key_scalar(logits[i]);
            if ((u & known) == key) count[u >> shift & 255]++;
        }
        uint32_t digit = 255;
        while (left > count[digit]) left -= count[digit--];
        key |= digit << shift;
    }
    for (size_t i = 0; i < n; i++) {
        const uint32_t u = float_key_scalar(logits[i]);
        bool stays = u > key || k >= n;
        if (u == key && left) stays = true, left--;
        if (!stays || !u) logits[i] = -INFINITY;
    }
}

static void top_p_filter_scalar(float *probs, size_t n, float p)
{
    if (!(p < 1)) return;
    uint32_t key = 0, known = 0;                        /* the least probability that stays, bit by bit */
    double above = 0;                                   /* sum of the probabilities over it */
    for (int shift = 24; shift >= 0; shift -= 8, known = known >> 8 | 0xff000000) {
        double sum[256] = { 0 };
        for (size_t i = 0; i < n; i++) {
            const uint32_t u = qsf_f32_bits(probs[i]);
            if ((u & known) == key && probs[i] > 0) sum[u >> shift & 255] += probs[i];
        }
        const int digit = qsf_top_p_digit(sum, p, &above);
        if (digit < 0) return;                          /* no probability at all */
        key |= (uint32_t)digit << shift;
    }
    const float last = qsf_f32_from_bits(key);
    double kept = 0;
    for (size_t i = 0; i < n; i++) if (probs[i] > last) kept += probs[i];
    for (size_t i = 0; i < n; i++)
        if (!(probs[i] > last)) {
            if (probs[i] == last && (kept < p || kept == 0)) kept += last;
            else probs[i] = 0;
        }
    const float f = (float)(1 / kept);
    for (size_t i = 0; i < n; i++) probs[i] *= f;
}

/* Sums of 64 in eight lanes, joined in one order that the vector sets keep, so that every set draws the same token. */
static double sum64_scalar(const float *p)
{
    double s[8] = { 0 };
    for (int i = 0; i < 64; i++) s[i % 8] += p[i];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

static size_t sample_from_probs_scalar(const float *probs, size_t n, float u)
{
    double below = 0;
    size_t i = 0, last = 0;
    for (; i + 64 <= n; i += 64) {
        const double s = sum64_scalar(probs + i);
        if (below + s > u) break;
        below += s;
    }
    for (; i < n; i++) {
        below += probs[i];
        if (below > u && probs[i] > 0) return i;
    }
    for (i = 0; i < n; i++) if (probs[i] > 0) last = i;     /* rounding left u at the end */
    return last;
}

void qsf_sampling_scalar(qsf_kernels *k)
{
    k->softmax_with_temperature = softmax_with_temperature_scalar;
    k->top_k_filter = top_k_filter_scalar;
    k->top_p_filter = top_p_filter_scalar;
    k->sample_from_probs = sample_from_probs_scalar;
    k->argmax = argmax_scalar;
}
