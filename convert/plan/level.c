/* How far the sizes of the channels after a norm are made equal.
 * SPDX-License-Identifier: MIT
 *
 * A gain that is moved entirely into the matrices leaves the plain hidden state.  Activations are
 * rounded to 8 bits in blocks, scaled by the largest of each: a channel that is far larger than its
 * neighbours costs them precision.  Making it smaller and its column larger costs the weights of
 * its block precision instead.  The same holds for channels that a matrix makes, as after a norm
 * with a gain of 1.
 *
 * Which loses less depends on the model and on the bits per weight, so each is tried: some rows of
 * the matrices that read the channels are rounded on an even grid, with the channels kept within
 * several ranges.  Only models with outlier channels are changed: SmolLM2, which does not have any,
 * got worse.  docs/quantisers.md has the gains. */
#include "plan/level.h"

#include "base/host.h"

#include <math.h>

enum { LEVEL_ROWS = 32, LEVEL_BLOCK = 64, LEVEL_RANGES = 8, LEVEL_STEPS = 6 };

/* Relative to the geometric mean; the last: unchanged. */
static const double level_range[LEVEL_RANGES] = { 1, 1.5, 2.5, 4, 8, 16, 32, INFINITY };

typedef struct level_work {
    const level_norm *of;
    double            mean;             /* log2 of the hidden state's channels */
    float            *row;              /* [n] as the input has it */
    float            *scale;            /* [LEVEL_RANGES][n] */
    double           *noise;            /* [LEVEL_RANGES][n]: squares of an activation's rounding */
} level_work;

static bool level_usable(double v) { return v > 1e-6 && v < 1e6; }

static double level_rounded(double e) { return exp2(rint(e * 64) / 64); }

static double level_mean(const level_norm *of)
{
    double sum = 0;
    uint32_t used = 0;
    for (uint32_t j = 0; j < of->n; j++)
        if (level_usable(of->size[j]) && level_usable(of->gain[j])) {
            sum += log2(of->size[j] / of->gain[j]);
            used++;
        }
    return used ? sum / used : 0;
}

#define LEVEL_ODD 60.0          /* Gemma 3 has 75 to 400 */

bool qsf_conv_level_odd(const level_norm *of)
{
    const double mean = level_mean(of);
    for (uint32_t j = 0; j < of->n; j++)
        if (level_usable(of->size[j]) && level_usable(of->gain[j]) &&
            log2(of->size[j] / of->gain[j]) - mean > log2(LEVEL_ODD)) return true;
    return false;
}

#undef LEVEL_ODD

/* scale[j] = gain[j] if that keeps the channel within the range around the mean. */
static void level_scales(const level_norm *of, double mean, double range, float *scale)
{
    for (uint32_t j = 0; j < of->n; j++) {
        const double gain = level_usable(of->gain[j]) ? of->gain[j] : 1;
        scale[j] = (float)gain;
        if (!level_usable(of->size[j]) || isinf(range)) continue;
        const double e = log2(of->size[j] / gain) - mean, most = log2(range);
        if (fabs(e) > most)
            scale[j] = (float)level_rounded(log2(of->size[j]) - mean - (e < 0 ? -most : most));
    }
}

/* The largest of a block of normally distributed values is estimated by a high moment of theirs. */
static void level_noise(const level_norm *of, const float *scale, double *noise)
{
    for (uint32_t at = 0; at < of->n; at += LEVEL_BLOCK) {
        const uint32_t end = QSF_MIN(of->n, at + LEVEL_BLOCK);
        double moment = 0;
        for (uint32_t j = at; j < end; j++) moment += pow(of->size[j] / scale[j], 8);
        const double largest = 0.6 * pow(105 * moment, 0.25);      /* its square */
        for (uint32_t j = at; j < end; j++) noise[j] = largest / (127.0 * 127 * 12);
    }
}

/* Least sum of w[j] * (rounding of x[j])^2 on an even grid with this many levels around 0. */
static double level_rounding(const double *x, const double *w, uint32_t n, double levels)
{
    double largest = 0, least = INFINITY;
    for (uint32_t j = 0; j < n; j++) largest = QSF_MAX(largest, fabs(x[j]));
    if (largest == 0) return 0;
    for (int s = 0; s < LEVEL_STEPS; s++) {
        const double reach = largest * (1 - 0.13 * s), step = 2 * reach / levels, most = levels / 2 - 0.5;
        double sum = 0;
        for (uint32_t j = 0; j < n; j++) {
            const double q = QSF_MAX(-most, QSF_MIN(most, rint(x[j] / step + most) - most));
            sum += w[j] * (x[j] - q * step) * (x[j] - q * step);
        }
        least = QSF_MIN(least, sum);
    }
    return least;
}

/* What a row loses with the scales of range r. */
static double level_loss(const level_work *k, int r)
{
    const level_norm *of = k->of;
    const float *scale = k->scale + (size_t)r * of->n;
    const double *noise = k->noise + (size_t)r * of->n, levels = exp2(of->bits);
    double loss = 0, x[LEVEL_BLOCK], w[LEVEL_BLOCK];
    for (uint32_t at = 0; at < of->n; at += LEVEL_BLOCK) {
        const uint32_t n = QSF_MIN(LEVEL_BLOCK, of->n - at);
        for (uint32_t j = 0; j < n; j++) {
            const double size = of->size[at + j] / scale[at + j];
            x[j] = (double)k->row[at + j] * scale[at + j];
            w[j] = size * size;
            loss += x[j] * x[j] * noise[at + j];
        }
        loss += level_rounding(x, w, n, levels);
    }
    return loss;
}

/* loss[r] += what reader i loses with each range, of what it yields. */
static qsf_status level_reader(input *in, const level_work *k, int tensor, double *loss, qsf_error *err)
{
    const uint32_t rows = in->tensors[tensor].rows, n = QSF_MIN(rows, LEVEL_ROWS);
    double energy = 0, own[LEVEL_RANGES] = { 0 };
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t row = (uint32_t)((uint64_t)rows * i / n);
        const qsf_status st = in->read(in, (uint32_t)tensor, row, 1, k->row, err);
        if (st) return st;
        for (uint32_t j = 0; j < k->of->n; j++) {
            const double y = (double)k->row[j] * k->of->size[j];
            energy += y * y;
        }
        for (int r = 0; r < LEVEL_RANGES; r++) own[r] += level_loss(k, r);
    }
    for (int r = 0; r < LEVEL_RANGES && energy > 0; r++) loss[r] += own[r] / energy;
    return QSF_OK;
}

qsf_status qsf_conv_level(input *in, const level_norm *of, float *scale, qsf_error *err)
{
    const uint64_t n = of->n, all = LEVEL_RANGES * n;
    double loss[LEVEL_RANGES] = { 0 };
    level_work k = { .of = of, .mean = level_mean(of),
                     .row = qsf_alloc_array(in->platform, n, sizeof(float), "a row", err),
                     .scale = qsf_alloc_array(in->platform, all, sizeof(float), "scales", err),
                     .noise = qsf_alloc_array(in->platform, all, sizeof(double), "scales", err) };
    qsf_status st = k.row && k.scale && k.noise ? QSF_OK : QSF_E_MEMORY;
    for (int r = 0; r < LEVEL_RANGES && st == QSF_OK; r++) {
        level_scales(of, k.mean, level_range[r], k.scale + (size_t)r * n);
        level_noise(of, k.scale + (size_t)r * n, k.noise + (size_t)r * n);
    }
    for (int i = 0; i < of->n_readers && st == QSF_OK; i++)
        st = level_reader(in, &k, of->readers[i], loss, err);
    if (st == QSF_OK) {
        int best = LEVEL_RANGES - 1;
        for (int r = LEVEL_RANGES - 2; r >= 0; r--)
            if (loss[r] < loss[best]) best = r;
        memcpy(scale, k.scale + (size_t)best * n, n * sizeof *scale);
    }
    qsf_dealloc(in->platform, k.row, n * sizeof(float));
    qsf_dealloc(in->platform, k.scale, all * sizeof(float));
    qsf_dealloc(in->platform, k.noise, all * sizeof(double));
    return st;
}
