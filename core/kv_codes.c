/* Keys and values as codes of 8, 4 or 2 bits: how they are stored, and how a block of fewer bits becomes one of 8-bit codes, which attention takes.
 * SPDX-License-Identifier: MIT
 *
 * Below 8 bits a code c of b bits stands for the odd number 2c + 1 - 2^b, times the position's scale (fp16).  Keys and values come mixed by a Hadamard transform
 * (forward.c), after which their numbers are spread like a bell: there the scale of least squares, which lets a few large numbers be cut, is better
 * than the one that holds the largest.
 *
 * Codes lie as the 8-bit ones of kernels.h do, with 8/b of them in a byte.  They are of one position, so that threads that store neighbouring
 * positions never write the same byte: in keys, of vectors that follow each other; in values, of parts of one vector. */
#include "kv.h"

enum { KV_VECTOR = 64, KV_ROUNDS = 3 };

/* Bytes of a part of 8-bit codes: field f of a byte belongs to the f-th part behind the byte's own. */
static size_t key_part(void) { return KV_VECTOR; }
static size_t value_part(unsigned bits) { return KV_VECTOR * bits / 8; }

static uint32_t level_of(float x, float inverse, unsigned bits)
{
    const float most = (float)((1u << bits) - 1), c = x * inverse + 0.5f * (most + 1);
    return (uint32_t)(c > 0 ? c < most ? c : most : 0);          /* NaN becomes 0 */
}
static float level_value(uint32_t code, unsigned bits) { return (float)(2 * (int32_t)code + 1 - (1 << bits)); }

/* Codes of x[n] and their scale as fp16, which is finite and not negative. */
static uint16_t quantize_levels(uint8_t *codes, const float *x, size_t n, unsigned bits)
{
    float top = 0;
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        const float a = fabsf(x[i]);
        top = a > top ? a : top;
        squares += (double)x[i] * x[i];
    }
    /* Begins at the largest, or with few levels where a bell's best scale is. */
    float d = bits == 2 ? 0.5f * sqrtf((float)(squares / (double)n)) : top / (float)((1u << bits) - 1);
    for (int round = 0; round < KV_ROUNDS; round++) {
        const float inverse = d > FLT_MIN ? 0.5f / d : 0;
        float with = 0, of = 0;
        for (size_t i = 0; i < n; i++) {
            const float v = level_value(level_of(x[i], inverse, bits), bits);
            with += v * x[i];
            of += v * v;
        }
        d = with / of;
    }
    const uint16_t scale = qsf_f32_to_f16(d > 0 ? QSF_MIN(d, 65504.0f) : 0);
    const float rounded = qsf_f16_to_f32(scale), inverse = rounded > 0 ? 0.5f / rounded : 0;
    for (size_t i = 0; i < n; i++) codes[i] = (uint8_t)level_of(x[i], inverse, bits);
    return scale;
}

/* The code of a place among 8-bit codes. */
static void put_code(uint8_t *to, size_t at, unsigned code, unsigned bits, size_t part)
{
    const size_t whole = part * (8 / bits), in = at % whole;
    uint8_t *byte = to + at / whole * part + in % part;
    const unsigned shift = (unsigned)(in / part) * bits, mask = (1u << bits) - 1;
    *byte = (uint8_t)((*byte & ~(mask << shift)) | code << shift);
}

void qsf_kv_store_codes(const qsf_kv_layout *l, const qsf_kernels *kn, uint8_t *record, size_t i, const float *k, const float *v)
{
    int8_t whole[QSF_MAX_HEAD_DIM + 16];
    uint8_t *const codes = (uint8_t *)whole, *const to = record + l->v_at;
    const size_t n = l->head_dim, dim = qsf_kv_dim(n);
    memset(whole + n, 0, dim - n);
    if (l->k_bits == 8) {
        kn->quantize_kv_8bit(whole, (float *)(void *)(record + l->kd_at) + i, k, n);
        for (size_t d = 0; d < dim; d += 4) memcpy(record + qsf_kv_k_at(i, d, dim), whole + d, 4);
    } else {
        ((uint16_t *)(void *)(record + l->kd_at))[i] = quantize_levels(codes, k, n, l->k_bits);
        for (size_t d = 0; d < dim; d++) put_code(record, qsf_kv_k_at(i, d, dim), codes[d], l->k_bits, key_part());
    }
    if (l->v_bits == 8) {
        kn->quantize_kv_8bit(whole, (float *)(void *)(record + l->vd_at) + i, v, n);
        for (size_t d = 0; d < dim; d++) to[qsf_kv_v_at(i, d)] = codes[d];
    } else {
        ((uint16_t *)(void *)(record + l->vd_at))[i] = quantize_levels(codes, v, n, l->v_bits);
        for (size_t d = 0; d < dim; d++) put_code(to, qsf_kv_v_at(i, d), codes[d], l->v_bits, value_part(l->v_bits));
    }
}

static inline void unpack_parts(int8_t *out, const uint8_t *in, size_t n, size_t part, unsigned bits)
{
    const int bias = (1 << bits) - 1;
    const unsigned mask = (1u << bits) - 1;
    for (size_t at = 0; at < n; at += part, in += part, out += part * (8 / bits))
        for (unsigned f = 0; f < 8 / bits; f++)
            for (size_t i = 0; i < part; i++) out[f * part + i] = (int8_t)(2 * (int)(in[i] >> f * bits & mask) - bias);
}

qsf_kv_codes qsf_kv_unpack(const qsf_kv_layout *l, const qsf_kernels *kn, const uint8_t *record, uint8_t *scratch)
{
    const size_t codes = QSF_KV_BLOCK * qsf_kv_dim(l->head_dim);
    const uint8_t *const v = record + l->v_at, *const kd = record + l->kd_at, *const vd = record + l->vd_at;
    int8_t *const own_k = (int8_t *)scratch, *const own_v = own_k + codes;
    float *const own_kd = (float *)(void *)(scratch + 2 * codes), *const own_vd = own_kd + QSF_KV_BLOCK;
    const size_t k_bytes = l->v_at, v_bytes = l->kd_at - l->v_at;
    qsf_kv_codes c = { (const int8_t *)record, (const int8_t *)v, (const float *)(const void *)kd, (const float *)(const void *)vd };
    if (qsf_kv_packed(l->k_bits)) {
        if (l->k_bits == 4) unpack_parts(own_k, record, k_bytes, KV_VECTOR, 4);         /* constants, for the compiler */
        else unpack_parts(own_k, record, k_bytes, KV_VECTOR, 2);
        kn->fp16_to_fp32_array(own_kd, (const uint16_t *)(const void *)kd, QSF_KV_BLOCK);
        c.k = own_k;
        c.kd = own_kd;
    }
    if (qsf_kv_packed(l->v_bits)) {
        if (l->v_bits == 4) unpack_parts(own_v, v, v_bytes, KV_VECTOR / 2, 4);
        else unpack_parts(own_v, v, v_bytes, KV_VECTOR / 4, 2);
        kn->fp16_to_fp32_array(own_vd, (const uint16_t *)(const void *)vd, QSF_KV_BLOCK);
        c.v = own_v;
        c.vd = own_vd;
    }
    return c;
}
