/* Values of GGUF's keys as numbers.
 * SPDX-License-Identifier: MIT */
#include "model/gguf.h"
#include "base/order.h"

uint32_t qsf_gguf_value_bytes(uint32_t type)
{
    static const uint8_t bytes[GGUF_N_TYPES] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    return type < GGUF_N_TYPES ? bytes[type] : 0;
}

bool qsf_gguf_integer(const gguf_kv *kv, uint64_t i, int64_t *out)
{
    if (i >= kv->n) return false;
    const uint8_t *p = kv->data + i * qsf_gguf_value_bytes(kv->type);
    switch (kv->type) {
    case GGUF_U8: case GGUF_BOOL: *out = *p; return true;
    case GGUF_I8:  *out = (int8_t)*p; return true;
    case GGUF_U16: *out = qsf_le16(p); return true;
    case GGUF_I16: *out = (int16_t)qsf_le16(p); return true;
    case GGUF_U32: *out = qsf_le32(p); return true;
    case GGUF_I32: *out = (int32_t)qsf_le32(p); return true;
    case GGUF_U64: *out = (int64_t)qsf_le64(p); return *out >= 0;
    case GGUF_I64: *out = (int64_t)qsf_le64(p); return true;
    }
    return false;
}

bool qsf_gguf_number(const gguf_kv *kv, uint64_t i, double *out)
{
    int64_t n;
    if (i >= kv->n) return false;
    if (kv->type == GGUF_F32) {
        *out = qsf_lef32(kv->data + 4 * i);
        return true;
    }
    if (kv->type == GGUF_F64) {
        const uint64_t bits = qsf_le64(kv->data + 8 * i);
        memcpy(out, &bits, 8);
        return true;
    }
    if (!qsf_gguf_integer(kv, i, &n)) return false;
    *out = (double)n;
    return true;
}
