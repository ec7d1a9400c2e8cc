/* Sums of recurrent mixers, and the convolutions before them, over four floats.
 * SPDX-License-Identifier: MIT
 *
 * Models have columns, rows and channels by fours.  What is left over is the reference's. */
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

/* The lanes' sums of four vectors. */
QSF_TEMPLATE v4f sums4_v128(const v4f v[4])
{
    const v4f ab = v4_even(v[0], v[1]) + v4_odd(v[0], v[1]), cd = v4_even(v[2], v[3]) + v4_odd(v[2], v[3]);
    return v4_even(ab, cd) + v4_odd(ab, cd);
}

/* Four rows, which stay in the first cache while all tokens pass. */
static void scan_four_v128(float *after, const float *before, const qsf_scan *s, const float *v, float *y)
{
    const size_t n = s->n;
    const float *k = s->k, *q = s->q;
    float more[4];
    for (size_t t = 0; t < s->tokens; t++, k += s->ld, q += s->ld, v += s->ld, y += s->ld_y, before = after) {
        const v4f keep = v4_set1(s->keep[t]), in = v4_load(v), zero = v4_set1(0);
        v4f known[4] = { zero, zero, zero, zero }, sum[4] = { zero, zero, zero, zero };
        for (size_t j = 0; s->correct && j < n; j += 4) {
            const v4f kv = v4_load(k + j);
            QSF_UNROLL
            for (size_t r = 0; r < 4; r++) known[r] = v4_fma(v4_load(before + r * n + j), kv, known[r]);
        }
        v4_store(more, v4_set1(s->gain[t]) * (in - keep * sums4_v128(known)));
        for (size_t j = 0; j < n; j += 4) {
            const v4f kv = v4_load(k + j), qv = v4_load(q + j);
            QSF_UNROLL
            for (size_t r = 0; r < 4; r++) {
                const v4f is = v4_fma(v4_set1(more[r]), kv, v4_load(before + r * n + j) * keep);
                v4_store(after + r * n + j, is);
                sum[r] = v4_fma(is, qv, sum[r]);
            }
        }
        v4_store(y, sums4_v128(sum) + v4_set1(s->skip) * in);
    }
}

static void scan_rows_v128(float *after, const float *before, size_t rows, const qsf_scan *s)
{
    const size_t n = s->n, whole = n % 4 ? 0 : rows / 4 * 4;
    qsf_scan rest = *s;
    for (size_t i = 0; i < whole; i += 4)
        scan_four_v128(after + i * n, before + i * n, s, s->v + i, s->y + i);
    rest.v += whole;
    rest.y += whole;
    if (whole < rows) qsf_scan_rows_scalar(after + whole * n, before + whole * n, rows - whole, &rest);
}

#if !defined(QSF_SMALL_CODE)        /* Mamba-1 is rare where code size matters */
static void scan_steps_v128(float *after, const float *before, size_t rows, const float *decay,
                            const float *skip, const qsf_scan *s)
{
    const size_t n = s->n;
    if (n % 4) {
        qsf_scan_steps_scalar(after, before, rows, decay, skip, s);
        return;
    }
    for (size_t i = 0; i < rows; i++, after += n, before += n, decay += n) {
        const float *from = before, *k = s->k, *q = s->q, *v = s->v + i;
        float *y = s->y + i;
        for (size_t t = 0; t < s->tokens; t++, k += s->ld, q += s->ld, v += s->ld, y += s->ld_y) {
            const v4f step = v4_set1(*y), more = v4_set1(*y * *v);
            v4f sum = v4_set1(0);
            for (size_t j = 0; j < n; j += 4) {
                const v4f keep = v4_exp(step * v4_load(decay + j));
                const v4f is = v4_fma(more, v4_load(k + j), v4_load(from + j) * keep);
                v4_store(after + j, is);
                sum = v4_fma(is, v4_load(q + j), sum);
            }
            *y = v4_sum(sum) + skip[i] * *v;
            from = after;
        }
    }
}

/* max(x, 0) + log(1 + u), u = e^-|x|: twice the area tangent of s = u / (2 + u), at most 1/3, by
 * its series. */
static void softplus_inplace_v128(float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 4) {
        const v4f v = i + 4 > n ? v4_load_part(x + i, n - i) : v4_load(x + i);
        const v4f u = v4_exp(-v4_abs(v)), s = u / (u + v4_set1(2)), z = s * s;
        v4f p = v4_set1(2 / 15.0f);
        for (int k = 13; k > 0; k -= 2) p = v4_fma(p, z, v4_set1(2 / (float)k));
        const v4f y = v4_fma(p, s, v4_max(v, v4_set1(0)));
        if (i + 4 > n) v4_store_part(x + i, y, n - i);
        else v4_store(x + i, y);
    }
}
#endif

/* Columns of four rows. */
QSF_TEMPLATE void turn_v128(v4f out[4], const float *a, const float *b, const float *c, const float *d)
{
    const v4f ac = v4_zip_low(v4_load(a), v4_load(c)), bd = v4_zip_low(v4_load(b), v4_load(d));
    const v4f ac2 = v4_zip_high(v4_load(a), v4_load(c)), bd2 = v4_zip_high(v4_load(b), v4_load(d));
    out[0] = v4_zip_low(ac, bd);
    out[1] = v4_zip_high(ac, bd);
    out[2] = v4_zip_low(ac2, bd2);
    out[3] = v4_zip_high(ac2, bd2);
}
/* Four channels, whose last inputs stay in registers.  With fewer than four taps, the first ones
 * are zeros, as are the inputs that they are multiplied with. */
static void convolve_four_v128(float *x, size_t ld, size_t tokens, float *after, const float *before,
                               size_t ld_state, const float *w, v4f bias, size_t taps)
{
    float first[4][4] = { { 0 } };
    v4f tap[4], was[3] = { v4_set1(0), v4_set1(0), v4_set1(0) };
    for (size_t c = 0; c < 4; c++) memcpy(first[c] + 4 - taps, w + c * taps, taps * sizeof *w);
    turn_v128(tap, first[0], first[1], first[2], first[3]);
    for (size_t k = 4 - taps; k < 3; k++) was[k] = v4_load(before + (k + taps - 4) * ld_state);
    for (size_t t = 0; t < tokens; t++, x += ld) {
        const v4f in = v4_load(x);
        v4f sum = tap[3] * in;
        sum = v4_fma(tap[0], was[0], sum);
        sum = v4_fma(tap[1], was[1], sum);
        sum = v4_fma(tap[2], was[2], sum);
        was[0] = taps > 3 ? was[1] : was[0];
        was[1] = taps > 2 ? was[2] : was[1];
        was[2] = in;
        v4_store(x, sum + bias);
    }
    for (size_t k = 4 - taps; k < 3; k++) v4_store(after + (k + taps - 4) * ld_state, was[k]);
}

static void convolve_inplace_v128(float *x, size_t ld, size_t tokens, size_t channels, float *after,
                                  const float *before, size_t ld_state, const float *w, const float *bias,
                                  size_t taps)
{
    const size_t whole = taps > 4 ? 0 : channels / 4 * 4;
    for (size_t c = 0; c < whole; c += 4)
        convolve_four_v128(x + c, ld, tokens, after + c, before + c, ld_state, w + c * taps,
                           bias ? v4_load(bias + c) : v4_set1(0), taps);
    if (whole < channels)
        qsf_convolve_scalar(x + whole, ld, tokens, channels - whole, after + whole, before + whole, ld_state,
                            w + whole * taps, bias ? bias + whole : NULL, taps);
}

void qsf_scan_v128(qsf_kernels *k)
{
    k->scan_rows = scan_rows_v128;
#if !defined(QSF_SMALL_CODE)
    k->scan_steps = scan_steps_v128;
    k->softplus_inplace = softplus_inplace_v128;
#endif
    k->convolve_inplace = convolve_inplace_v128;
}

QSF_V128_END
#endif
