/* Rows of any type as floats: the plain meaning of every type.
 * SPDX-License-Identifier: MIT */
#include "tensor/ggml_tiles.h"
#include "tensor/stored.h"
#include "tensor/table.h"
#include "tensor/trellis.h"
#include "tensor/types.h"
#include "tensor/types_ggml.h"

/* qsf_f16_to_f32 without branches: loops over it become vectors. */
static inline float half_to_float(uint32_t h)
{
    const uint32_t sign = (h & 0x8000) << 16, em = h & 0x7fff;
    /* the exponents' biases differ by 112 */
    const uint32_t bits = qsf_f32_bits(qsf_f32_from_bits(em << 13) * 0x1p112f);
    return qsf_f32_from_bits(sign | bits | (em >= 0x7c00 ? 0x7f800000 : 0));
}

/* A block's scale: what its head begins with. */
static float scale_of(uint32_t type, const uint8_t *p)
{
    switch (qsf_type_scale_bytes(type)) {
    case 0:  return 1;
    case 1:  return qsf_table_scale(*p);
    default: return qsf_f16_to_f32(qsf_le16(p));
    }
}

static void codes_to_floats(const qsf_type_info *info, uint32_t type, float scale, float zero,
                            const uint8_t *restrict codes, uint32_t n, float *restrict out)
{
    if (type == QSF_T_8BIT)
        for (uint32_t i = 0; i < n; i++) out[i] = scale * (float)(int8_t)codes[i];
    else if (type == QSF_T_TERNARY)
        for (uint32_t i = 0; i < n; i++) out[i] = scale * (float)(1 - codes[i]);
    else if (type == QSF_T_QK256)
        for (uint32_t i = 0; i < n; i++) out[i] = (float)(qsf_qk256[codes[i]] - info->offset);
    else if (qsf_table_of(type))
        for (uint32_t i = 0; i < n; i++) out[i] = scale * (float)qsf_table_level(type, codes[i]);
    else if (info->has_zero)
        for (uint32_t i = 0; i < n; i++) out[i] = scale * (float)codes[i] + zero;
    else
        for (uint32_t i = 0; i < n; i++) out[i] = scale * (float)(codes[i] - info->offset);
}

static void dequant_coded_row(const qsf_tensor *t, uint32_t row, float *out)
{
    const qsf_type_info *info = qsf_type_get(t->type);
    const uint32_t block = t->block, each = qsf_block_bytes(t->type, block);
    const size_t blocks = (size_t)qsf_ceil_div(t->cols, block);
    const uint32_t r = row % QSF_TILE_ROWS;
    uint8_t codes[QSF_MAX_BLOCK];

    for (size_t b = 0; b < blocks; b++) {
        const uint32_t col = (uint32_t)b * block;
        const uint8_t *p = t->data, *scale;
        uint32_t zero_at;
        if (t->packing == 1) {
            scale = p + ((size_t)(row / QSF_TILE_ROWS) * blocks + b) * QSF_TILE_ROWS * each;
            zero_at = 2 * QSF_TILE_ROWS;
            qsf_tile_get_codes(scale, t->type, block, r, codes);
            scale += qsf_type_scale_bytes(t->type) * r;
        } else {
            scale = p + ((size_t)row * blocks + b) * each;
            zero_at = 2;
            qsf_block_get_codes(scale, t->type, block, codes);
        }
        const float zero = info->has_zero ? qsf_f16_to_f32(qsf_le16(scale + zero_at)) : 0;
        codes_to_floats(info, t->type, scale_of(t->type, scale), zero, codes, QSF_MIN(block, t->cols - col),
                        out + col);
    }
}

/* A row of tiles of a GGUF type: back to GGUF's bytes, block after block. */
static void dequant_ggml_tiles(const qsf_tensor *t, uint32_t row, float *out)
{
    const uint32_t each = qsf_block_bytes(t->type, t->block);
    const size_t blocks = t->cols / t->block;
    const uint8_t *tile = (const uint8_t *)t->data + row / QSF_TILE_ROWS * blocks * QSF_TILE_ROWS * each;
    uint8_t block[QSF_MAX_BLOCK_BYTES];
    for (size_t b = 0; b < blocks; b++, tile += (size_t)QSF_TILE_ROWS * each, out += t->block) {
        qsf_ggml_from_tile(t->type, tile, row % QSF_TILE_ROWS, block);
        qsf_dequant_ggml_row(t->type, block, t->block, out);
    }
}

void qsf_dequant_rows(const qsf_tensor *t, uint32_t row, uint32_t n, float *out)
{
    const uint8_t *p = t->data;
    const size_t cols = t->cols, count = (size_t)n * cols;
    const qsf_type_info *info = qsf_type_get(t->type);
    if (t->packing > 1 || qsf_trellis_bits(t->type)) {
        (t->packing > 1 ? qsf_stored_rows : qsf_trellis_rows)(t, row, n, out);
        return;
    }
    switch (t->type) {
    case QSF_T_F32:
        p += (size_t)row * cols * 4;
        for (size_t i = 0; i < count; i++) out[i] = qsf_lef32(p + 4 * i);
        return;
    case QSF_T_F16:
        p += (size_t)row * cols * 2;
        for (size_t i = 0; i < count; i++) out[i] = half_to_float(qsf_le16(p + 2 * i));
        return;
    case QSF_T_BF16:
        p += (size_t)row * cols * 2;
        for (size_t i = 0; i < count; i++) out[i] = qsf_bf16_to_f32(qsf_le16(p + 2 * i));
        return;
    }
    assert(info && t->type != QSF_T_SPARSE && t->type != QSF_T_MIXED);
    const size_t row_bytes = info->own_block ? (cols >> info->own_block) * info->own_bytes : 0;
    for (uint32_t i = 0; i < n; i++, out += cols) {
        if (info->own_block && t->packing == 1) dequant_ggml_tiles(t, row + i, out);
        else if (info->own_block) qsf_dequant_ggml_row(t->type, p + (row + i) * row_bytes, t->cols, out);
        else dequant_coded_row(t, row + i, out);
    }
}
