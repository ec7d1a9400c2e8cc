/* Tensor types: the list of types, and the sizes of tensors.
 * SPDX-License-Identifier: MIT */
#include "tensor/types.h"
#include "tensor/table.h"
#include "tensor/trellis.h"

static const qsf_type_info types_own[] = {
    [QSF_T_2BIT_SYM] = { "2bit-sym", 2, true, 0, 0, 0 },
    [QSF_T_2BIT]     = { "2bit", 2, true, 0, 0, 0 },
    [QSF_T_3BIT]     = { "3bit", 3, true, 0, 0, 0 },
    [QSF_T_4BIT]     = { "4bit", 4, true, 0, 0, 0 },
    [QSF_T_TERNARY]  = { "ternary", 2, false, 0, 0, 1 },
    [QSF_T_MIXED]    = { "mixed", 0, false, 0, 0, 0 },
    [QSF_T_F16]      = { "f16", 0, false, 0, 2, 0 },
    [QSF_T_F32]      = { "f32", 0, false, 0, 4, 0 },
    [QSF_T_8BIT]     = { "8bit", 8, false, 0, 0, 0 },
    [QSF_T_4BIT_S]   = { "4bit_s", 4, false, 0, 0, 8 },
    [QSF_T_5BIT_S]   = { "5bit_s", 5, false, 0, 0, 16 },
    [QSF_T_6BIT_S]   = { "6bit_s", 6, false, 0, 0, 32 },
    [QSF_T_3BIT_S]   = { "3bit_s", 3, false, 0, 0, 4 },
    [QSF_T_BF16]     = { "bf16", 0, false, 0, 2, 0 },
    [QSF_T_SPARSE]   = { "sparse", 0, false, 0, 0, 0 },
    [QSF_T_TERNARY2] = { "ternary2", 2, false, 0, 0, 1 },
    [QSF_T_TERNARY5] = { "ternary5", 2, false, 0, 0, 1 },
    [QSF_T_QK256]    = { "qk256", 2, false, 0, 0, 2 },
    [QSF_T_2BIT_S]   = { "2bit_s", 2, false, 0, 0, 2 },
    [QSF_T_TRELLIS2] = { "trellis2", 2, false, 0, 0, 0 },
    [QSF_T_TRELLIS3] = { "trellis3", 3, false, 0, 0, 0 },
    [QSF_T_TRELLIS4] = { "trellis4", 4, false, 0, 0, 0 },
    [QSF_T_TRELLIS5] = { "trellis5", 5, false, 0, 0, 0 },
    [QSF_T_TABLE4]   = { "table4", 4, false, 0, 0, QSF_TABLE_OFFSET },
    [QSF_T_TABLE3]   = { "table3", 3, false, 0, 0, QSF_TABLE_OFFSET },
};

const qsf_type_info *qsf_type_get(uint32_t type)
{
    static const qsf_type_info ggml[] = {
        [QSF_T_Q4_0 - QSF_T_GGML]    = { "q4_0", 0, false, 5, 18, 0 },
        [QSF_T_Q4_1 - QSF_T_GGML]    = { "q4_1", 0, false, 5, 20, 0 },
        [QSF_T_Q5_0 - QSF_T_GGML]    = { "q5_0", 0, false, 5, 22, 0 },
        [QSF_T_Q5_1 - QSF_T_GGML]    = { "q5_1", 0, false, 5, 24, 0 },
        [QSF_T_Q8_0 - QSF_T_GGML]    = { "q8_0", 0, false, 5, 34, 0 },
        [QSF_T_Q2_K - QSF_T_GGML]    = { "q2_K", 0, false, 8, 84, 0 },
        [QSF_T_Q3_K - QSF_T_GGML]    = { "q3_K", 0, false, 8, 110, 0 },
        [QSF_T_Q4_K - QSF_T_GGML]    = { "q4_K", 0, false, 8, 144, 0 },
        [QSF_T_Q5_K - QSF_T_GGML]    = { "q5_K", 0, false, 8, 176, 0 },
        [QSF_T_Q6_K - QSF_T_GGML]    = { "q6_K", 0, false, 8, 210, 0 },
        [QSF_T_Q8_K - QSF_T_GGML]    = { "q8_K", 0, false, 8, 292, 0 },
        [QSF_T_IQ2_XXS - QSF_T_GGML] = { "iq2_xxs", 0, false, 8, 66, 0 },
        [QSF_T_IQ2_XS - QSF_T_GGML]  = { "iq2_xs", 0, false, 8, 74, 0 },
        [QSF_T_IQ3_XXS - QSF_T_GGML] = { "iq3_xxs", 0, false, 8, 98, 0 },
        [QSF_T_IQ1_S - QSF_T_GGML]   = { "iq1_s", 0, false, 8, 50, 0 },
        [QSF_T_IQ4_NL - QSF_T_GGML]  = { "iq4_nl", 0, false, 5, 18, 0 },
        [QSF_T_IQ3_S - QSF_T_GGML]   = { "iq3_s", 0, false, 8, 110, 0 },
        [QSF_T_IQ2_S - QSF_T_GGML]   = { "iq2_s", 0, false, 8, 82, 0 },
        [QSF_T_IQ4_XS - QSF_T_GGML]  = { "iq4_xs", 0, false, 8, 136, 0 },
        [QSF_T_IQ1_M - QSF_T_GGML]   = { "iq1_m", 0, false, 8, 56, 0 },
        [QSF_T_TQ1_0 - QSF_T_GGML]   = { "tq1_0", 0, false, 8, 54, 0 },
        [QSF_T_TQ2_0 - QSF_T_GGML]   = { "tq2_0", 0, false, 8, 66, 0 },
        [QSF_T_MXFP4 - QSF_T_GGML]   = { "mxfp4", 0, false, 5, 17, 0 },
        [QSF_T_NVFP4 - QSF_T_GGML]   = { "nvfp4", 0, false, 6, 36, 0 },
        [QSF_T_Q1_0 - QSF_T_GGML]    = { "q1_0", 0, false, 7, 18, 0 },
        [QSF_T_Q2_0 - QSF_T_GGML]    = { "q2_0", 0, false, 6, 18, 0 },
    };
    const qsf_type_info *info = NULL;
    if (type < QSF_ARRAY_LEN(types_own)) info = &types_own[type];
    else if (type >= QSF_T_GGML && type - QSF_T_GGML < QSF_ARRAY_LEN(ggml)) info = &ggml[type - QSF_T_GGML];
    return info && info->name ? info : NULL;
}

bool qsf_type_tiles(uint32_t type)
{
    const qsf_type_info *info = qsf_type_get(type);
    return info && info->bits > 0;
}

bool qsf_type_bare(uint32_t type) { return type >= QSF_T_TERNARY2 && type <= QSF_T_QK256; }

uint32_t qsf_type_scale_bytes(uint32_t type)
{
    return qsf_type_bare(type) ? 0 : qsf_trellis_bits(type) || qsf_table_of(type) ? 1 : 2;
}

uint32_t qsf_type_head_bytes(uint32_t type)
{
    return qsf_type_scale_bytes(type) + (qsf_type_get(type)->has_zero ? 2 : 0);
}

uint32_t qsf_block_bytes(uint32_t type, uint32_t block)
{
    const qsf_type_info *info = qsf_type_get(type);
    if (!info) return 0;
    if (info->own_block) return block == 1u << info->own_block ? info->own_bytes : 0;
    if (!info->bits) return block == 1 ? info->own_bytes : 0;
    if (block != 32 && block != 64 && block != 128 && block != 256) return 0;
    if (qsf_type_bare(type) && block != QSF_MAX_BLOCK) return 0;
    if (qsf_trellis_bits(type) && block != QSF_TRELLIS_BLOCK) return 0;
    return type == QSF_T_TERNARY5 ? QSF_FIVE_BYTES : qsf_type_head_bytes(type) + block * info->bits / 8;
}

qsf_status qsf_tensor_bytes(uint32_t type, uint32_t packing, uint32_t block, uint32_t rows, uint32_t cols,
                            uint64_t *bytes, qsf_error *err)
{
    const qsf_type_info *info = qsf_type_get(type);
    *bytes = 0;
    if (!info || type == QSF_T_MIXED)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "tensor type %u is unknown to this version", (unsigned)type);
    if (packing > 1 || (packing == 1 && !info->bits) || (packing == 0 && qsf_trellis_bits(type)))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "packing %u of type %s is unknown to this version",
                        (unsigned)packing, info->name);
    if (type == QSF_T_SPARSE) {         /* any number of entries, also none */
        *bytes = qsf_round_up(4 * ((uint64_t)rows + 1) + 6 * (uint64_t)cols, 4);
        return QSF_OK;
    }
    const uint32_t each = qsf_block_bytes(type, block);
    if (!each)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "type %s has no blocks of %u", info->name, (unsigned)block);
    if (!rows || !cols)
        return qsf_fail(err, QSF_E_CORRUPT, "a tensor of %u x %u", (unsigned)rows, (unsigned)cols);
    if (info->own_block && cols % block)
        return qsf_fail(err, QSF_E_CORRUPT, "rows of %u values are not whole blocks of type %s",
                        (unsigned)cols, info->name);
    const uint64_t lines = packing == 1 ? qsf_round_up(rows, QSF_TILE_ROWS) : rows;
    if (qsf_mul_u64(lines * qsf_ceil_div(cols, block), each, bytes))
        return qsf_fail(err, QSF_E_CORRUPT, "a tensor of %u x %u is too large", (unsigned)rows,
                        (unsigned)cols);
    return QSF_OK;
}
