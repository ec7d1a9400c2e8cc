/* The encoders' loops in vectors of 128 bits, which every processor has that has any; and which set
 * is best.
 * SPDX-License-Identifier: MIT */
#include "encode/encode_lanes.h"

#include <math.h>

#if defined(__GNUC__)
#  define LANES 4
#else
#  define LANES 1
#endif
#define LANE(name) name##_base
#include "encode/encode_lanes_body.h"

const encode_lanes qsf_enc_lanes_base = { "base", trellis_base, plain_base, energy_base, product_base };

const encode_lanes *qsf_enc_lanes(uint32_t cpu)
{
#if defined(__x86_64__)
    if (cpu & QSF_CPU_AVX512) return &qsf_enc_lanes_avx512;
    if (cpu & QSF_CPU_AVX2) return &qsf_enc_lanes_avx2;
#endif
    (void)cpu;
    return &qsf_enc_lanes_base;
}

#undef LANES
#undef LANE
