/* Keys and values as codes of 8, 4 or 2 bits.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_KV_CODES_H
#define QSF_KV_CODES_H

#include "layers/kv.h"

extern const qsf_kv_ops qsf_kv_code_ops;

/* Bytes of scratch for a record that is unpacked. */
static inline size_t qsf_kv_scratch(uint32_t head_dim)
{
    return 2 * QSF_KV_BLOCK * (qsf_kv_dim(head_dim) + sizeof(float));
}
/* What has 8 bits where it lies, the rest unpacked into scratch. */
qsf_kv_codes qsf_kv_unpack(const qsf_kv_layout *l, const qsf_kernels *kn, const uint8_t *record,
                           uint8_t *scratch);

#endif
