/* Tuning's loops in vectors of 512 bits.
 * SPDX-License-Identifier: MIT */
#include "tune/tune_lanes.h"
#include "kernels.h"

#include <math.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define LANES 16
#define LANE(name) tune_##name##_avx512
#define LANE_FMA(a, b, c) ((LANE(vf))_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl")
#include "tune/tune_lanes_body.h"
QSF_TARGET_END

const tune_lanes qsf_tune_lanes_avx512 = { "avx512", tune_product_avx512, tune_path_avx512,
                                            tune_divergence_avx512 };

#undef LANES
#undef LANE
#undef LANE_FMA
#endif
