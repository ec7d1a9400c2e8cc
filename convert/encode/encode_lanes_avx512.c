/* The encoders' loops in vectors of 512 bits.
 * SPDX-License-Identifier: MIT */
#include "encode/encode_lanes.h"
#include "kernels.h"

#include <math.h>

#if defined(__x86_64__)
#define LANES 16
#define LANE(name) name##_avx512
QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl")
#include "encode/encode_lanes_body.h"
QSF_TARGET_END

const encode_lanes qsf_enc_lanes_avx512 = { "avx512", trellis_avx512, plain_avx512, energy_avx512,
                                            product_avx512 };

#undef LANES
#undef LANE
#endif
