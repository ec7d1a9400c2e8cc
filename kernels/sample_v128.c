/* Sampling with vectors of four floats: SSE4.2, NEON and WebAssembly.
 * SPDX-License-Identifier: MIT */
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

#define SAMPLE_SET v128
#define SV_W 4
#define SV_F v4f
#define SV_M v4i
#define SV_LEVELS 2
#define SV_LOAD(p) v4_load(p)
#define SV_STORE(p, a) v4_store(p, a)
#define SV_SET1(f) v4_set1(f)
#define SV_POWER(z) ((v4f)((v4i)(z) << 23))
#if defined(__wasm_relaxed_simd__)      /* other forms become a relaxed maximum, which may return NaN */
#  define SV_MAX(a, b) ((v4f)wasm_v128_bitselect((v128_t)(a), (v128_t)(b), (v128_t)v4_gt(a, b)))
#else
#  define SV_MAX(a, b) v4_max(a, b)
#endif
#define SV_GT(a, b) v4_gt(a, b)
#define SV_GE(a, b) ((v4i)((a) >= (b)))
#define SV_BOTH(a, b) ((a) & (b))
#define SV_AND(m, a) v4_and(a, m)
#define SV_ADD(a, m, b) ((a) + v4_and(b, m))
#define SV_BITS(m) v4_bits(m)
#include "sample.h"

void qsf_sample_v128(qsf_kernels *k) { sample_fill_v128(k); }

QSF_V128_END
#endif
