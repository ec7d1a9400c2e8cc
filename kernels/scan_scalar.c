/* Sums of recurrent mixers, and the convolutions before them, in plain C.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

void qsf_scan_rows_scalar(float *after, const float *before, size_t rows, const qsf_scan *s)
{
    for (size_t i = 0; i < rows; i++, before += s->n, after += s->n)
        for (size_t t = 0; t < s->tokens; t++) {
            const float *from = t ? after : before, *k = s->k + t * s->ld, *q = s->q + t * s->ld;
            const float v = s->v[t * s->ld + i];
            float known = 0, sum = 0;
            for (size_t j = 0; s->correct && j < s->n; j++) known += from[j] * k[j];
            const float more = s->gain[t] * (v - s->keep[t] * known);
            for (size_t j = 0; j < s->n; j++) {
                after[j] = from[j] * s->keep[t] + more * k[j];
                sum += after[j] * q[j];
            }
            s->y[t * s->ld_y + i] = sum + s->skip * v;
        }
}

void qsf_scan_steps_scalar(float *after, const float *before, size_t rows, const float *decay,
                           const float *skip, const qsf_scan *s)
{
    for (size_t i = 0; i < rows; i++, before += s->n, after += s->n, decay += s->n)
        for (size_t t = 0; t < s->tokens; t++) {
            const float *from = t ? after : before, *k = s->k + t * s->ld, *q = s->q + t * s->ld;
            const float v = s->v[t * s->ld + i], step = s->y[t * s->ld_y + i], more = step * v;
            float sum = 0;
            for (size_t j = 0; j < s->n; j++) {
                after[j] = from[j] * expf(step * decay[j]) + more * k[j];
                sum += after[j] * q[j];
            }
            s->y[t * s->ld_y + i] = sum + skip[i] * v;
        }
}

void qsf_convolve_scalar(float *x, size_t ld, size_t tokens, size_t channels, float *after,
                         const float *before, size_t ld_state, const float *w, const float *bias, size_t taps)
{
    const size_t back = taps - 1;
    for (size_t t = 0; t < tokens; t++, x += ld, before = after)
        for (size_t c = 0; c < channels; c++) {
            const float *tap = w + c * taps, in = x[c];
            float sum = tap[back] * in;
            for (size_t k = 0; k < back; k++) sum += tap[k] * before[k * ld_state + c];
            for (size_t k = 0; k + 1 < back; k++) after[k * ld_state + c] = before[(k + 1) * ld_state + c];
            after[(back - 1) * ld_state + c] = in;
            x[c] = bias ? sum + bias[c] : sum;
        }
}

void qsf_scan_scalar(qsf_kernels *k)
{
    k->scan_rows = qsf_scan_rows_scalar;
    k->scan_steps = qsf_scan_steps_scalar;
    k->convolve_inplace = qsf_convolve_scalar;
}
