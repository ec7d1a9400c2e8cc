/* The encoders' loops in vectors of 256 bits.
 * SPDX-License-Identifier: MIT */
#include "encode/encode_lanes.h"
#include "kernels.h"

#include <math.h>

#if defined(__x86_64__)
#define LANES 8
#define LANE(name) name##_avx2
QSF_TARGET_BEGIN("avx2")
#include "encode/encode_lanes_body.h"
QSF_TARGET_END

const encode_lanes qsf_enc_lanes_avx2 = { "avx2", trellis_avx2, plain_avx2, energy_avx2, product_avx2 };

#undef LANES
#undef LANE
#endif
