/* Sampling with AVX-512.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl")

/* Writes 16 indices, of which the first ones are those of the set bits. */
QSF_TEMPLATE void sample_places_avx512(uint32_t *at, uint32_t bits, int first)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i all = _mm512_add_epi32(lanes, _mm512_set1_epi32(first));
    _mm512_storeu_si512(at, _mm512_maskz_compress_epi32((__mmask16)bits, all));
}

#define SAMPLE_SET avx512
#define SV_W 16
#define SV_F __m512
#define SV_M __mmask16
#define SV_LEVELS 8
#define SV_LOAD(p) _mm512_loadu_ps(p)
#define SV_STORE(p, a) _mm512_storeu_ps(p, a)
#define SV_SET1(f) _mm512_set1_ps(f)
#define SV_POWER(z) _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(z), 23))
#define SV_MAX(a, b) _mm512_max_ps(a, b)
#define SV_GT(a, b) _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ)
#define SV_GE(a, b) _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ)
#define SV_BOTH(a, b) ((__mmask16)((a) & (b)))
#define SV_AND(m, a) _mm512_maskz_mov_ps(m, a)
#define SV_ADD(a, m, b) _mm512_mask_add_ps(a, m, a, b)
#define SV_BITS(m) (m)
#define SV_PLACES(at, bits, first) sample_places_avx512(at, bits, first)
#include "sample.h"

void qsf_sample_avx512(qsf_kernels *k) { sample_fill_avx512(k); }

QSF_TARGET_END
#endif
