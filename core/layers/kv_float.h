/* Keys and values as floats of 16 or 32 bits.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_KV_FLOAT_H
#define QSF_KV_FLOAT_H

#include "layers/kv.h"

extern const qsf_kv_ops qsf_kv_f16_ops, qsf_kv_f32_ops;

#endif
