/* Sums of recurrent mixers with AVX2.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")
#include "math_avx2.h"

/* Eight floats, or those of `part`. */
QSF_TEMPLATE __m256 scan_load_avx2(const float *p, __m256i part, bool all)
{
    return all ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, part);
}

/* known[r] += eight columns, or a part of them, of before . k; past: as in scan_avx512.c */
QSF_TEMPLATE void scan_known_avx2(__m256 known[4], const float *before, const float *k, size_t n,
                                  __m256i part, bool all, int R, bool past)
{
    const __m256 kv = scan_load_avx2(k, part, all);
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        if (past) _mm_prefetch((const char *)(before + (size_t)(R + r) * n), _MM_HINT_T0);
        known[r] = _mm256_fmadd_ps(scan_load_avx2(before + (size_t)r * n, part, all), kv, known[r]);
    }
}
/* The same columns move on, and sum[r] += what they give. */
QSF_TEMPLATE void scan_move_avx2(__m256 sum[4], float *after, const float *before, const float *k,
                                 const float *q, size_t n, __m256 keep, const float more[4], __m256i part,
                                 bool all, int R, bool past)
{
    const __m256 kv = scan_load_avx2(k, part, all), qv = scan_load_avx2(q, part, all);
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        const __m256 was = scan_load_avx2(before + (size_t)r * n, part, all);
        const __m256 is = _mm256_fmadd_ps(_mm256_set1_ps(more[r]), kv, _mm256_mul_ps(was, keep));
        if (past) {
            _mm_prefetch((const char *)(before + (size_t)(R + r) * n), _MM_HINT_T0);
            _mm256_stream_ps(after + (size_t)r * n, is);
        } else if (all) _mm256_storeu_ps(after + (size_t)r * n, is);
        else _mm256_maskstore_ps(after + (size_t)r * n, part, is);
        sum[r] = _mm256_fmadd_ps(is, qv, sum[r]);
    }
}

/* R rows, 1 or 4, from row i on: they stay in the first cache while all tokens pass. */
QSF_TEMPLATE void scan_some_avx2(float *after, const float *before, size_t i, const qsf_scan *s, int R,
                                 bool past)
{
    const size_t n = s->n, whole = n / 8 * 8;
    const __m256i all = _mm256_setzero_si256(), part = first_avx2(n - whole);
    const float *k = s->k, *q = s->q, *v = s->v + i;
    float *y = s->y + i, more[4];
    after += i * n;
    before += i * n;
    for (size_t t = 0; t < s->tokens; t++, k += s->ld, q += s->ld, v += s->ld, y += s->ld_y, before = after) {
        const __m256 keep = _mm256_set1_ps(s->keep[t]), zero = _mm256_setzero_ps();
        const __m128 in = R < 4 ? _mm_set1_ps(*v) : _mm_loadu_ps(v);
        __m128 error = in;
        __m256 known[4] = { zero, zero, zero, zero }, sum[4] = { zero, zero, zero, zero };
        if (s->correct) {
            for (size_t j = 0; j < whole; j += 8)
                scan_known_avx2(known, before + j, k + j, n, all, true, R, past);
            if (whole < n) scan_known_avx2(known, before + whole, k + whole, n, part, false, R, past);
            error = _mm_sub_ps(in, _mm_mul_ps(_mm256_castps256_ps128(keep), sums4_avx2(known)));
        }
        _mm_storeu_ps(more, _mm_mul_ps(_mm_set1_ps(s->gain[t]), error));
        for (size_t j = 0; j < whole; j += 8)
            scan_move_avx2(sum, after + j, before + j, k + j, q + j, n, keep, more, all, true, R, past);
        if (whole < n)
            scan_move_avx2(sum, after + whole, before + whole, k + whole, q + whole, n, keep, more, part,
                           false, R, past);
        const __m128 out = _mm_fmadd_ps(_mm_set1_ps(s->skip), in, sums4_avx2(sum));
        if (R < 4) _mm_store_ss(y, out);
        else _mm_storeu_ps(y, out);
    }
}

static void scan_rows_avx2(float *after, const float *before, size_t rows, const qsf_scan *s)
{
    size_t i = 0;
    if (s->tokens == 1 && after != before && s->n % 8 == 0 && (uintptr_t)after % 32 == 0) {
        for (; i + 4 <= rows; i += 4) scan_some_avx2(after, before, i, s, 4, true);
        _mm_sfence();
    }
    for (; i + 4 <= rows; i += 4) scan_some_avx2(after, before, i, s, 4, false);
    for (; i < rows; i++) scan_some_avx2(after, before, i, s, 1, false);
}

/* Eight columns, or a part of them, of R rows, which decay by their own steps. */
QSF_TEMPLATE void scan_decay_avx2(__m256 sum[4], float *after, const float *before, const float *decay,
                                  const float *k, const float *q, size_t n, const float step[4],
                                  const float more[4], __m256i part, bool all, int R)
{
    const __m256 kv = scan_load_avx2(k, part, all), qv = scan_load_avx2(q, part, all);
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        const __m256 by = scan_load_avx2(decay + (size_t)r * n, part, all);
        const __m256 was = scan_load_avx2(before + (size_t)r * n, part, all);
        const __m256 keep = exp_avx2(_mm256_mul_ps(_mm256_set1_ps(step[r]), by));
        const __m256 is = _mm256_fmadd_ps(_mm256_set1_ps(more[r]), kv, _mm256_mul_ps(was, keep));
        if (all) _mm256_storeu_ps(after + (size_t)r * n, is);
        else _mm256_maskstore_ps(after + (size_t)r * n, part, is);
        sum[r] = _mm256_fmadd_ps(is, qv, sum[r]);
    }
}
QSF_TEMPLATE void scan_steps_some_avx2(float *after, const float *before, size_t i, const float *decay,
                                       const float *skip, const qsf_scan *s, int R)
{
    const size_t n = s->n, whole = n / 8 * 8;
    const __m256i all = _mm256_setzero_si256(), part = first_avx2(n - whole);
    const float *k = s->k, *q = s->q, *v = s->v + i;
    float *y = s->y + i, step[4], more[4];
    after += i * n;
    before += i * n;
    decay += i * n;
    const __m128 less = R < 4 ? _mm_set1_ps(skip[i]) : _mm_loadu_ps(skip + i);
    for (size_t t = 0; t < s->tokens; t++, k += s->ld, q += s->ld, v += s->ld, y += s->ld_y, before = after) {
        const __m128 in = R < 4 ? _mm_set1_ps(*v) : _mm_loadu_ps(v);
        const __m128 steps = R < 4 ? _mm_set1_ps(*y) : _mm_loadu_ps(y);
        const __m256 zero = _mm256_setzero_ps();
        __m256 sum[4] = { zero, zero, zero, zero };
        _mm_storeu_ps(step, steps);
        _mm_storeu_ps(more, _mm_mul_ps(steps, in));
        for (size_t j = 0; j < whole; j += 8)
            scan_decay_avx2(sum, after + j, before + j, decay + j, k + j, q + j, n, step, more, all, true, R);
        if (whole < n)
            scan_decay_avx2(sum, after + whole, before + whole, decay + whole, k + whole, q + whole, n, step,
                            more, part, false, R);
        const __m128 out = _mm_fmadd_ps(less, in, sums4_avx2(sum));
        if (R < 4) _mm_store_ss(y, out);
        else _mm_storeu_ps(y, out);
    }
}

static void scan_steps_avx2(float *after, const float *before, size_t rows, const float *decay,
                            const float *skip, const qsf_scan *s)
{
    size_t i = 0;
    for (; i + 4 <= rows; i += 4) scan_steps_some_avx2(after, before, i, decay, skip, s, 4);
    for (; i < rows; i++) scan_steps_some_avx2(after, before, i, decay, skip, s, 1);
}

void qsf_scan_avx2(qsf_kernels *k)
{
    k->scan_rows = scan_rows_avx2;
    k->scan_steps = scan_steps_avx2;
}

QSF_TARGET_END
#endif
