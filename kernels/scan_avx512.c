/* Sums of recurrent mixers with AVX-512.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#include "math_avx512.h"

enum { SCAN_ALL = 0xffff };     /* lanes */

/* past: one token alone, so that sums are read from memory and written past the caches, which would
 * otherwise first read the lines to be written.  While the processor waits for `known`, it does not
 * prefetch far enough ahead: both passes prefetch the next rows. */

/* known[r] += the lanes' columns of before . k */
QSF_TEMPLATE void scan_known_avx512(__m512 known[4], const float *before, const float *k, size_t n,
                                    __mmask16 lanes, int R, bool past)
{
    const __m512 kv = _mm512_maskz_loadu_ps(lanes, k);
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        if (past) _mm_prefetch((const char *)(before + (size_t)(R + r) * n), _MM_HINT_T0);
        known[r] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(lanes, before + (size_t)r * n), kv, known[r]);
    }
}
/* The same columns move on, and sum[r] += what they give. */
QSF_TEMPLATE void scan_move_avx512(__m512 sum[4], float *after, const float *before, const float *k,
                                   const float *q, size_t n, __m512 keep, const __m512 more[4],
                                   __mmask16 lanes, int R, bool past)
{
    const __m512 kv = _mm512_maskz_loadu_ps(lanes, k), qv = _mm512_maskz_loadu_ps(lanes, q);
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        const __m512 was = _mm512_maskz_loadu_ps(lanes, before + (size_t)r * n);
        const __m512 is = _mm512_fmadd_ps(more[r], kv, _mm512_mul_ps(was, keep));
        if (past) {
            _mm_prefetch((const char *)(before + (size_t)(R + r) * n), _MM_HINT_T0);
            _mm512_stream_ps(after + (size_t)r * n, is);
        } else _mm512_mask_storeu_ps(after + (size_t)r * n, lanes, is);
        sum[r] = _mm512_fmadd_ps(is, qv, sum[r]);
    }
}

/* R rows, 1 or 4, from row i on: they stay in the first cache while all tokens pass. */
QSF_TEMPLATE void scan_some_avx512(float *after, const float *before, size_t i, const qsf_scan *s, int R,
                                   bool past)
{
    const size_t n = s->n, whole = n / 16 * 16;
    const __mmask16 part = first_avx512(n - whole);
    const __mmask8 rows = (__mmask8)((1 << R) - 1);
    const float *k = s->k, *q = s->q, *v = s->v + i;
    float *y = s->y + i, f[4];
    after += i * n;
    before += i * n;
    for (size_t t = 0; t < s->tokens; t++, k += s->ld, q += s->ld, v += s->ld, y += s->ld_y, before = after) {
        const __m512 keep = _mm512_set1_ps(s->keep[t]), zero = _mm512_setzero_ps();
        const __m128 in = _mm_maskz_loadu_ps(rows, v);
        __m128 error = in;
        __m512 known[4] = { zero, zero, zero, zero }, sum[4] = { zero, zero, zero, zero }, more[4];
        if (s->correct) {
            for (size_t j = 0; j < whole; j += 16)
                scan_known_avx512(known, before + j, k + j, n, SCAN_ALL, R, past);
            if (part) scan_known_avx512(known, before + whole, k + whole, n, part, R, past);
            error = _mm_sub_ps(in, _mm_mul_ps(_mm512_castps512_ps128(keep),
                                              sums4_avx512(known[0], known[1], known[2], known[3])));
        }
        _mm_storeu_ps(f, _mm_mul_ps(_mm_set1_ps(s->gain[t]), error));
        QSF_UNROLL
        for (int r = 0; r < R; r++) more[r] = _mm512_set1_ps(f[r]);
        for (size_t j = 0; j < whole; j += 16)
            scan_move_avx512(sum, after + j, before + j, k + j, q + j, n, keep, more, SCAN_ALL, R, past);
        if (part)
            scan_move_avx512(sum, after + whole, before + whole, k + whole, q + whole, n, keep, more, part,
                             R, past);
        _mm_mask_storeu_ps(y, rows, _mm_fmadd_ps(_mm_set1_ps(s->skip), in,
                                                 sums4_avx512(sum[0], sum[1], sum[2], sum[3])));
    }
}

static void scan_rows_avx512(float *after, const float *before, size_t rows, const qsf_scan *s)
{
    size_t i = 0;
    if (s->tokens == 1 && after != before && s->n % 16 == 0 && (uintptr_t)after % 64 == 0) {
        for (; i + 4 <= rows; i += 4) scan_some_avx512(after, before, i, s, 4, true);
        _mm_sfence();
    }
    for (; i + 4 <= rows; i += 4) scan_some_avx512(after, before, i, s, 4, false);
    for (; i < rows; i++) scan_some_avx512(after, before, i, s, 1, false);
}

/* The lanes' columns of R rows, which decay by their own steps. */
QSF_TEMPLATE void scan_decay_avx512(__m512 sum[4], float *after, const float *before, const float *decay,
                                    const float *k, const float *q, size_t n, const float step[4],
                                    const float more[4], __mmask16 lanes, int R)
{
    const __m512 kv = _mm512_maskz_loadu_ps(lanes, k), qv = _mm512_maskz_loadu_ps(lanes, q);
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        const __m512 by = _mm512_maskz_loadu_ps(lanes, decay + (size_t)r * n);
        const __m512 was = _mm512_maskz_loadu_ps(lanes, before + (size_t)r * n);
        const __m512 keep = exp_avx512(_mm512_mul_ps(_mm512_set1_ps(step[r]), by));
        const __m512 is = _mm512_fmadd_ps(_mm512_set1_ps(more[r]), kv, _mm512_mul_ps(was, keep));
        _mm512_mask_storeu_ps(after + (size_t)r * n, lanes, is);
        sum[r] = _mm512_fmadd_ps(is, qv, sum[r]);
    }
}
QSF_TEMPLATE void scan_steps_some_avx512(float *after, const float *before, size_t i, const float *decay,
                                         const float *skip, const qsf_scan *s, int R)
{
    const size_t n = s->n;
    const __mmask8 rows = (__mmask8)((1 << R) - 1);
    const __m128 part = _mm_maskz_loadu_ps(rows, skip + i);
    const float *k = s->k, *q = s->q, *v = s->v + i;
    float *y = s->y + i, step[4], more[4];
    after += i * n;
    before += i * n;
    decay += i * n;
    for (size_t t = 0; t < s->tokens; t++, k += s->ld, q += s->ld, v += s->ld, y += s->ld_y, before = after) {
        const __m128 in = _mm_maskz_loadu_ps(rows, v), steps = _mm_maskz_loadu_ps(rows, y);
        const __m512 zero = _mm512_setzero_ps();
        __m512 sum[4] = { zero, zero, zero, zero };
        _mm_storeu_ps(step, steps);
        _mm_storeu_ps(more, _mm_mul_ps(steps, in));
        for (size_t j = 0; j < n; j += 16)
            scan_decay_avx512(sum, after + j, before + j, decay + j, k + j, q + j, n, step, more,
                              first_avx512(n - j), R);
        _mm_mask_storeu_ps(y, rows, _mm_fmadd_ps(part, in, sums4_avx512(sum[0], sum[1], sum[2], sum[3])));
    }
}

static void scan_steps_avx512(float *after, const float *before, size_t rows, const float *decay,
                              const float *skip, const qsf_scan *s)
{
    size_t i = 0;
    for (; i + 4 <= rows; i += 4) scan_steps_some_avx512(after, before, i, decay, skip, s, 4);
    for (; i < rows; i++) scan_steps_some_avx512(after, before, i, decay, skip, s, 1);
}

/* Tap `k` of sixteen channels, whose taps are in 64 floats one channel after the other. */
QSF_TEMPLATE __m512 scan_tap_avx512(const __m512 w[4], size_t taps, size_t k)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i at = _mm512_add_epi32(_mm512_mullo_epi32(lanes, _mm512_set1_epi32((int)taps)),
                                        _mm512_set1_epi32((int)k));
    const __mmask16 behind = _mm512_cmpge_epi32_mask(at, _mm512_set1_epi32(32));
    return _mm512_mask_blend_ps(behind, _mm512_permutex2var_ps(w[0], at, w[1]),
                                _mm512_permutex2var_ps(w[2], at, w[3]));
}

/* Sixteen channels, or the first of them, as convolve_four_v128 does four. */
QSF_TEMPLATE void convolve_some_avx512(float *x, size_t ld, size_t tokens, float *after, const float *before,
                                       size_t ld_state, const float *w, const float *bias, size_t taps,
                                       size_t channels)
{
    const __mmask16 some = first_avx512(channels);
    const __m512 add = bias ? _mm512_maskz_loadu_ps(some, bias) : _mm512_setzero_ps();
    __m512 from[4], tap[4], was[3];
    for (size_t i = 0; i < 4; i++)
        from[i] = _mm512_maskz_loadu_ps(16 * i < channels * taps ? first_avx512(channels * taps - 16 * i) : 0,
                                        w + 16 * i);
    for (size_t k = 0; k < 4; k++)
        tap[k] = k + taps < 4 ? _mm512_setzero_ps() : scan_tap_avx512(from, taps, k + taps - 4);
    for (size_t k = 0; k < 3; k++)
        was[k] = k + taps < 4 ? _mm512_setzero_ps()
            : _mm512_maskz_loadu_ps(some, before + (k + taps - 4) * ld_state);
    for (size_t t = 0; t < tokens; t++, x += ld) {
        const __m512 in = _mm512_maskz_loadu_ps(some, x);
        __m512 sum = _mm512_mul_ps(tap[3], in);
        sum = _mm512_fmadd_ps(tap[0], was[0], sum);
        sum = _mm512_fmadd_ps(tap[1], was[1], sum);
        sum = _mm512_fmadd_ps(tap[2], was[2], sum);
        was[0] = taps > 3 ? was[1] : was[0];
        was[1] = taps > 2 ? was[2] : was[1];
        was[2] = in;
        _mm512_mask_storeu_ps(x, some, _mm512_add_ps(sum, add));
    }
    for (size_t k = 4 - taps; k < 3; k++)
        _mm512_mask_storeu_ps(after + (k + taps - 4) * ld_state, some, was[k]);
}

static void convolve_inplace_avx512(float *x, size_t ld, size_t tokens, size_t channels, float *after,
                                    const float *before, size_t ld_state, const float *w, const float *bias,
                                    size_t taps)
{
    if (taps > 4) {
        qsf_convolve_scalar(x, ld, tokens, channels, after, before, ld_state, w, bias, taps);
        return;
    }
    for (size_t c = 0; c < channels; c += 16)
        convolve_some_avx512(x + c, ld, tokens, after + c, before + c, ld_state, w + c * taps,
                             bias ? bias + c : NULL, taps, QSF_MIN(channels - c, (size_t)16));
}

void qsf_scan_avx512(qsf_kernels *k)
{
    k->convolve_inplace = convolve_inplace_avx512;
    k->scan_rows = scan_rows_avx512;
    k->scan_steps = scan_steps_avx512;
}

QSF_TARGET_END
#endif
