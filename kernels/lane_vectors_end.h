/* The end of what lane_vectors.h defines.
 * SPDX-License-Identifier: MIT */
#undef vf
#undef vi
#undef LANE_BITS
#undef LANE_FLOAT
#undef LANE_LESS
#undef LANE_SAME
