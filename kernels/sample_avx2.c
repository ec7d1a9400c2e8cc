/* Sampling with AVX2.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2")

#define SAMPLE_SET avx2
#define SV_W 8
#define SV_F __m256
#define SV_M __m256
#define SV_LEVELS 4
#define SV_LOAD(p) _mm256_loadu_ps(p)
#define SV_STORE(p, a) _mm256_storeu_ps(p, a)
#define SV_SET1(f) _mm256_set1_ps(f)
#define SV_POWER(z) _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(z), 23))
#define SV_MAX(a, b) _mm256_max_ps(a, b)
#define SV_GT(a, b) _mm256_cmp_ps(a, b, _CMP_GT_OQ)
#define SV_GE(a, b) _mm256_cmp_ps(a, b, _CMP_GE_OQ)
#define SV_BOTH(a, b) _mm256_and_ps(a, b)
#define SV_AND(m, a) _mm256_and_ps(m, a)
#define SV_ADD(a, m, b) _mm256_add_ps(a, _mm256_and_ps(m, b))
#define SV_BITS(m) _mm256_movemask_ps(m)
#include "sample.h"

void qsf_sample_avx2(qsf_kernels *k) { sample_fill_avx2(k); }

QSF_TARGET_END
#endif
