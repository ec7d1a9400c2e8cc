/* Sampling in plain C, one float per vector.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

QSF_TEMPLATE float sample_power_scalar(float z) { return qsf_f32_from_bits(qsf_f32_bits(z) << 23); }

#define SAMPLE_SET scalar
#define SV_W 1
#define SV_F float
#define SV_M int
#define SV_LEVELS 1
#define SV_LOAD(p) (*(p))
#define SV_STORE(p, a) (*(p) = (a))
#define SV_SET1(f) ((float)(f))
#define SV_POWER(z) sample_power_scalar(z)
#define SV_MAX(a, b) ((a) > (b) ? (a) : (b))
#define SV_GT(a, b) ((a) > (b))
#define SV_GE(a, b) ((a) >= (b))
#define SV_BOTH(a, b) ((a) & (b))
#define SV_AND(m, a) ((m) ? (a) : 0.0f)
#define SV_ADD(a, m, b) ((a) + ((m) ? (b) : 0.0f))
#define SV_BITS(m) (m)
#include "sample.h"

void qsf_sample_scalar(qsf_kernels *k) { sample_fill_scalar(k); }
