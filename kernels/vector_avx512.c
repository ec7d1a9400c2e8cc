/* Gates with AVX-512.  The other vector kernels would not be faster with it or are too small a part
 * of a prompt's time: the AVX2 versions are used.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#include "math_avx512.h"

/* x / (1 + e^u); u of NaN passes. */
QSF_TEMPLATE __m512 gate_avx512(__m512 x, __m512 u)
{
    return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1),
                                          exp_avx512(_mm512_min_ps(_mm512_set1_ps(89), u))));
}
QSF_TEMPLATE __m512 silu_avx512(__m512 x) { return gate_avx512(x, _mm512_sub_ps(_mm512_setzero_ps(), x)); }
QSF_TEMPLATE __m512 gelu_avx512(__m512 x)
{
    const __m512 cube = _mm512_mul_ps(_mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(0.044715f), x), x), x);
    return gate_avx512(x, _mm512_mul_ps(_mm512_set1_ps(-2 * 0.7978845608f), _mm512_add_ps(x, cube)));
}

/* y = gate(x), times up where it is not NULL. */
QSF_TEMPLATE void gates_avx512(float *y, const float *x, const float *up, size_t n, bool gelu)
{
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 part = first_avx512(n - i);
        const __m512 v = _mm512_maskz_loadu_ps(part, x + i), g = gelu ? gelu_avx512(v) : silu_avx512(v);
        _mm512_mask_storeu_ps(y + i, part, up ? _mm512_mul_ps(g, _mm512_maskz_loadu_ps(part, up + i)) : g);
    }
}

static void silu_inplace_avx512(float *x, size_t n) { gates_avx512(x, x, NULL, n, false); }
static void gelu_inplace_avx512(float *x, size_t n) { gates_avx512(x, x, NULL, n, true); }
static void silu_mul_avx512(float *y, const float *gate, const float *up, size_t n)
{
    gates_avx512(y, gate, up, n, false);
}
static void gelu_mul_avx512(float *y, const float *gate, const float *up, size_t n)
{
    gates_avx512(y, gate, up, n, true);
}

void qsf_vector_avx512(qsf_kernels *k)
{
    k->silu_inplace = silu_inplace_avx512;
    k->gelu_inplace = gelu_inplace_avx512;
    k->silu_mul = silu_mul_avx512;
    k->gelu_mul = gelu_mul_avx512;
}

QSF_TARGET_END
#endif
