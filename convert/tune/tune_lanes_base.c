/* Tuning's loops in vectors of 128 bits, and which set is best.
 * SPDX-License-Identifier: MIT */
#include "tune/tune_lanes.h"

#include <math.h>

#if defined(__GNUC__)
#  define LANES 4
#else
#  define LANES 1
#endif
#define LANE(name) tune_##name##_base
#define LANE_FMA(a, b, c) ((a) * (b) + (c))
#include "tune/tune_lanes_body.h"

const tune_lanes qsf_tune_lanes_base = { "base", tune_product_base, tune_path_base, tune_divergence_base };

const tune_lanes *qsf_tune_lanes(uint32_t cpu)
{
#if defined(__x86_64__)
    if (cpu & QSF_CPU_AVX512) return &qsf_tune_lanes_avx512;
    if (cpu & QSF_CPU_AVX2) return &qsf_tune_lanes_avx2;
#endif
    (void)cpu;
    return &qsf_tune_lanes_base;
}

#undef LANES
#undef LANE
#undef LANE_FMA
