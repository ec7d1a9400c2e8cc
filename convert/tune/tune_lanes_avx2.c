/* Tuning's loops in vectors of 256 bits.
 * SPDX-License-Identifier: MIT */
#include "tune/tune_lanes.h"
#include "kernels.h"

#include <math.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define LANES 8
#define LANE(name) tune_##name##_avx2
#define LANE_FMA(a, b, c) ((LANE(vf))_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
QSF_TARGET_BEGIN("avx2,fma")
#include "tune/tune_lanes_body.h"
QSF_TARGET_END

const tune_lanes qsf_tune_lanes_avx2 = { "avx2", tune_product_avx2, tune_path_avx2,
                                          tune_divergence_avx2 };

#undef LANES
#undef LANE
#undef LANE_FMA
#endif
