/* Sums of recurrent mixers, and the convolutions before them, over four floats.
 * SPDX-License-Identifier: MIT */
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

/* The lanes' sums of four vectors. */
QSF_TEMPLATE v4f sums4_v128(const v4f v[4])
{
    const v4f ab = v4_even(v[0], v[1]) + v4_odd(v[0], v[1]), cd = v4_even(v[2], v[3]) + v4_odd(v[2], v[3]);
    return v4_even(ab, cd) + v4_odd(ab, cd);
}
QSF_TEMPLATE v4f scan_load_v128(const float *p, size_t some)
{
    return some < 4 ? v4_load_part(p, some) : v4_load(p);
}

/* known[r] += four columns, or some, of before . k */
QSF_TEMPLATE void scan_known_v128(v4f known[4], const float *before, const float *k, size_t n, size_t some,
                                  int R)
{
    const v4f kv = scan_load_v128(k, some);
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        known[r] = v4_fma(scan_load_v128(before + (size_t)r * n, some), kv, known[r]);
}
/* The same columns move on, and sum[r] += what they give. */
QSF_TEMPLATE void scan_move_v128(v4f sum[4], float *after, const float *before, const float *k,
                                 const float *q, size_t n, v4f keep, const float more[4], size_t some, int R)
{
    const v4f kv = scan_load_v128(k, some), qv = scan_load_v128(q, some);
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        const v4f was = scan_load_v128(before + (size_t)r * n, some);
        const v4f is = v4_fma(v4_set1(more[r]), kv, was * keep);
        if (some < 4) v4_store_part(after + (size_t)r * n, is, some);
        else v4_store(after + (size_t)r * n, is);
        sum[r] = v4_fma(is, qv, sum[r]);
    }
}

/* R rows, 1 or 4, from row i on: they stay in the first cache while all tokens pass. */
QSF_TEMPLATE void scan_some_v128(float *after, const float *before, size_t i, const qsf_scan *s, int R)
{
    const size_t n = s->n, whole = n / 4 * 4;
    const float *k = s->k, *q = s->q, *v = s->v + i;
    float *y = s->y + i, more[4];
    after += i * n;
    before += i * n;
    for (size_t t = 0; t < s->tokens; t++, k += s->ld, q += s->ld, v += s->ld, y += s->ld_y, before = after) {
        const v4f keep = v4_set1(s->keep[t]), in = R < 4 ? v4_set1(*v) : v4_load(v);
        const v4f zero = v4_set1(0);
        v4f known[4] = { zero, zero, zero, zero }, sum[4] = { zero, zero, zero, zero };
        if (s->correct) {
            for (size_t j = 0; j < whole; j += 4) scan_known_v128(known, before + j, k + j, n, 4, R);
            if (whole < n) scan_known_v128(known, before + whole, k + whole, n, n - whole, R);
        }
        v4_store(more, v4_set1(s->gain[t]) * (in - keep * sums4_v128(known)));
        for (size_t j = 0; j < whole; j += 4)
            scan_move_v128(sum, after + j, before + j, k + j, q + j, n, keep, more, 4, R);
        if (whole < n)
            scan_move_v128(sum, after + whole, before + whole, k + whole, q + whole, n, keep, more, n - whole,
                           R);
        const v4f out = sums4_v128(sum) + v4_set1(s->skip) * in;
        if (R < 4) *y = out[0];
        else v4_store(y, out);
    }
}

static void scan_rows_v128(float *after, const float *before, size_t rows, const qsf_scan *s)
{
    size_t i = 0;
    for (; i + 4 <= rows; i += 4) scan_some_v128(after, before, i, s, 4);
    for (; i < rows; i++) scan_some_v128(after, before, i, s, 1);
}

/* Four columns, or some, of R rows, which decay by their own steps. */
QSF_TEMPLATE void scan_decay_v128(v4f sum[4], float *after, const float *before, const float *decay,
                                  const float *k, const float *q, size_t n, const float step[4],
                                  const float more[4], size_t some, int R)
{
    const v4f kv = scan_load_v128(k, some), qv = scan_load_v128(q, some);
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        const v4f keep = v4_exp(v4_set1(step[r]) * scan_load_v128(decay + (size_t)r * n, some));
        const v4f was = scan_load_v128(before + (size_t)r * n, some);
        const v4f is = v4_fma(v4_set1(more[r]), kv, was * keep);
        if (some < 4) v4_store_part(after + (size_t)r * n, is, some);
        else v4_store(after + (size_t)r * n, is);
        sum[r] = v4_fma(is, qv, sum[r]);
    }
}
QSF_TEMPLATE void scan_steps_some_v128(float *after, const float *before, size_t i, const float *decay,
                                       const float *skip, const qsf_scan *s, int R)
{
    const size_t n = s->n, whole = n / 4 * 4;
    const float *k = s->k, *q = s->q, *v = s->v + i;
    float *y = s->y + i, step[4], more[4];
    after += i * n;
    before += i * n;
    decay += i * n;
    const v4f part = R < 4 ? v4_set1(skip[i]) : v4_load(skip + i);
    for (size_t t = 0; t < s->tokens; t++, k += s->ld, q += s->ld, v += s->ld, y += s->ld_y, before = after) {
        const v4f in = R < 4 ? v4_set1(*v) : v4_load(v), steps = R < 4 ? v4_set1(*y) : v4_load(y);
        const v4f zero = v4_set1(0);
        v4f sum[4] = { zero, zero, zero, zero };
        v4_store(step, steps);
        v4_store(more, steps * in);
        for (size_t j = 0; j < whole; j += 4)
            scan_decay_v128(sum, after + j, before + j, decay + j, k + j, q + j, n, step, more, 4, R);
        if (whole < n)
            scan_decay_v128(sum, after + whole, before + whole, decay + whole, k + whole, q + whole, n, step,
                            more, n - whole, R);
        const v4f out = sums4_v128(sum) + part * in;
        if (R < 4) *y = out[0];
        else v4_store(y, out);
    }
}

static void scan_steps_v128(float *after, const float *before, size_t rows, const float *decay,
                            const float *skip, const qsf_scan *s)
{
    size_t i = 0;
    for (; i + 4 <= rows; i += 4) scan_steps_some_v128(after, before, i, decay, skip, s, 4);
    for (; i < rows; i++) scan_steps_some_v128(after, before, i, decay, skip, s, 1);
}

/* tap[j] of four channels, or some. */
QSF_TEMPLATE void convolve_taps_v128(v4f tap[4], const float *w, size_t some, int back)
{
    float lanes[4][4] = { { 0 } };
    if (some == 4 && back == 3) {
        const v4f a = v4_load(w), b = v4_load(w + 4), c = v4_load(w + 8), d = v4_load(w + 12);
        const v4f ac = v4_zip_low(a, c), bd = v4_zip_low(b, d);
        const v4f ac2 = v4_zip_high(a, c), bd2 = v4_zip_high(b, d);
        tap[0] = v4_zip_low(ac, bd);
        tap[1] = v4_zip_high(ac, bd);
        tap[2] = v4_zip_low(ac2, bd2);
        tap[3] = v4_zip_high(ac2, bd2);
        return;
    }
    QSF_UNROLL
    for (int k = 0; k <= back; k++) {
        for (size_t c = 0; c < some; c++) lanes[k][c] = w[c * (size_t)(back + 1) + (size_t)k];
        tap[k] = v4_load(lanes[k]);
    }
}
/* Four channels, or some: their last inputs stay in registers. */
QSF_TEMPLATE void convolve_v128(float *x, size_t ld, size_t tokens, float *after, const float *before,
                                size_t ld_state, const float *w, const float *bias, size_t some, int back)
{
    v4f tap[4], was[3];
    convolve_taps_v128(tap, w, some, back);
    QSF_UNROLL
    for (int k = 0; k < back; k++) was[k] = scan_load_v128(before + (size_t)k * ld_state, some);
    const v4f more = bias ? scan_load_v128(bias, some) : v4_set1(0);
    for (size_t t = 0; t < tokens; t++, x += ld) {
        const v4f in = scan_load_v128(x, some);
        v4f sum = tap[back] * in;
        QSF_UNROLL
        for (int k = 0; k < back; k++) sum = v4_fma(tap[k], was[k], sum);
        QSF_UNROLL
        for (int k = 0; k + 1 < back; k++) was[k] = was[k + 1];
        was[back - 1] = in;
        if (some < 4) v4_store_part(x, sum + more, some);
        else v4_store(x, sum + more);
    }
    QSF_UNROLL
    for (int k = 0; k < back; k++)
        if (some < 4) v4_store_part(after + (size_t)k * ld_state, was[k], some);
        else v4_store(after + (size_t)k * ld_state, was[k]);
}
QSF_TEMPLATE void convolve_all_v128(float *x, size_t ld, size_t tokens, size_t channels, float *after,
                                    const float *before, size_t ld_state, const float *w, const float *bias,
                                    int back)
{
    const size_t whole = channels / 4 * 4, taps = (size_t)back + 1;
    for (size_t c = 0; c < whole; c += 4)
        convolve_v128(x + c, ld, tokens, after + c, before + c, ld_state, w + c * taps,
                      bias ? bias + c : NULL, 4, back);
    if (whole < channels)
        convolve_v128(x + whole, ld, tokens, after + whole, before + whole, ld_state, w + whole * taps,
                      bias ? bias + whole : NULL, channels - whole, back);
}

static void convolve_inplace_v128(float *x, size_t ld, size_t tokens, size_t channels, float *after,
                                  const float *before, size_t ld_state, const float *w, const float *bias,
                                  size_t taps)
{
    if (taps == 4) convolve_all_v128(x, ld, tokens, channels, after, before, ld_state, w, bias, 3);
    else if (taps == 3) convolve_all_v128(x, ld, tokens, channels, after, before, ld_state, w, bias, 2);
    else qsf_convolve_scalar(x, ld, tokens, channels, after, before, ld_state, w, bias, taps);
}

void qsf_scan_v128(qsf_kernels *k)
{
    k->scan_rows = scan_rows_v128;
    k->scan_steps = scan_steps_v128;
    k->convolve_inplace = convolve_inplace_v128;
}

QSF_V128_END
#endif
