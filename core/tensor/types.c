/* Tensor types: sizes, floats, and the way between rows of blocks and tiles.
 * SPDX-License-Identifier: MIT
 *
 * Every quantised type of QSF is one to three planes of equally wide bit fields.  Rows of blocks
 * and tiles hold the same codes in the same planes, only in another order, so that everything here
 * goes through "the codes of one row of one block". */
#include "tensor/types.h"
#include "tensor/ggml_tiles.h"
#include "tensor/stored.h"
#include "tensor/table.h"
#include "tensor/trellis.h"
#include "tensor/types_ggml.h"

/* ---- what there is ---- */

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

/* Bytes of a block before its codes. */
static uint32_t head_of(uint32_t type)
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
    return type == QSF_T_TERNARY5 ? QSF_FIVE_BYTES : head_of(type) + block * info->bits / 8;
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

/* ---- codes ---- */

/* bits: width of a field; shift: where its bits stand in the code */
typedef struct type_plane { uint8_t bits, shift; } type_plane;
typedef struct type_planes { uint32_t n; type_plane p[3]; } type_planes;

/* The planes of a row's block (tile: of a tile's group).  Ternary rows have sign bits, then the
 * zero mask; in tiles they are one field, zero + 2 * sign. */
static type_planes planes_of(uint32_t type, bool tile)
{
    switch (type) {
    case QSF_T_2BIT_SYM: case QSF_T_2BIT: case QSF_T_TERNARY2: case QSF_T_QK256: case QSF_T_2BIT_S:
        return (type_planes){ 1, { { 2, 0 } } };
    case QSF_T_3BIT: case QSF_T_3BIT_S: case QSF_T_TRELLIS3: case QSF_T_TABLE3:
        return (type_planes){ 2, { { 2, 0 }, { 1, 2 } } };
    case QSF_T_4BIT: case QSF_T_4BIT_S: case QSF_T_TABLE4:
        return (type_planes){ 1, { { 4, 0 } } };
    case QSF_T_5BIT_S: case QSF_T_TRELLIS5: return (type_planes){ 2, { { 4, 0 }, { 1, 4 } } };
    case QSF_T_6BIT_S:                    return (type_planes){ 2, { { 4, 0 }, { 2, 4 } } };
    case QSF_T_8BIT:                      return (type_planes){ 1, { { 8, 0 } } };
    case QSF_T_TRELLIS2:                  return (type_planes){ 2, { { 1, 0 }, { 1, 1 } } };
    case QSF_T_TRELLIS4:                  return (type_planes){ 3, { { 2, 0 }, { 1, 2 }, { 1, 3 } } };
    case QSF_T_TERNARY:
        return tile ? (type_planes){ 1, { { 2, 0 } } } : (type_planes){ 2, { { 1, 1 }, { 1, 0 } } };
    }
    assert(!"a type without codes");
    return (type_planes){ 0 };
}

/* ---- five digits of 3 in a byte ----
 * 3^k times the byte, modulo 256, is the fraction behind the first k digits; three times that is
 * the next digit and what is behind it. */

/* Where digit k of byte i of a block stands: as in GGUF's TQ1_0. */
static inline uint32_t five_column(uint32_t i, uint32_t k)
{
    return i < 32 ? 32 * k + i : i < 48 ? 160 + 16 * k + i - 32 : 240 + 4 * k + i - 48;
}
enum { FIVE_LAST = 48 };        /* from this byte on there are four */

static void five_read(const uint8_t *five, uint8_t *codes)
{
    for (uint32_t i = 0; i < QSF_FIVE_BYTES; i++) {
        uint8_t x = five[i];
        for (uint32_t k = 0; k < (i < FIVE_LAST ? 5u : 4u); k++, x = (uint8_t)(3 * x))
            codes[five_column(i, k)] = (uint8_t)(3 * x >> 8);
    }
}

static void five_write(uint8_t *five, const uint8_t *codes)
{
    for (uint32_t i = 0; i < QSF_FIVE_BYTES; i++) {
        uint32_t v = 0;
        for (uint32_t k = 0; k < 5; k++)
            v = 3 * v + (k < 4 || i < FIVE_LAST ? codes[five_column(i, k)] : 0);
        five[i] = (uint8_t)((v * 256 + 242) / 243);
    }
}

const int8_t qsf_qk256[16] = { 0, 1, 3, 4 };

/* Ternary zero with a sign is zero. */
enum { TERNARY_ZERO = 1, TERNARY_SIGNED_ZERO = 3 };

static inline void plane_read_bits(const uint8_t *restrict src, unsigned bits, unsigned shift, uint32_t n,
                                   uint8_t *restrict codes)
{
    const unsigned each = 8 / bits, mask = (1u << bits) - 1;
    for (uint32_t i = 0; i < n / each; i++)
        for (unsigned f = 0; f < each; f++)
            codes[i * each + f] |= (uint8_t)((src[i] >> bits * f & mask) << shift);
}

/* In a group, vector j has 4 bytes of each of the 16 rows; field f of a row's byte b is column (8 /
 * bits * j + f) * 4 + b.  tile: where the row's 4 bytes of the plane's first vector stand. */
static inline void plane_read_tile(const uint8_t *restrict tile, unsigned bits, unsigned shift,
                                   uint8_t *restrict codes)
{
    const unsigned each = 8 / bits, mask = (1u << bits) - 1;
    for (unsigned j = 0; j < bits; j++)
        for (unsigned f = 0; f < each; f++)
            for (unsigned b = 0; b < 4; b++)
                codes[(each * j + f) * 4 + b] |= (uint8_t)((tile[64 * j + b] >> bits * f & mask) << shift);
}

static inline void plane_write_tile(uint8_t *restrict tile, unsigned bits, unsigned shift,
                                    const uint8_t *restrict codes)
{
    const unsigned each = 8 / bits, mask = (1u << bits) - 1;
    for (unsigned j = 0; j < bits; j++)
        for (unsigned b = 0; b < 4; b++) {
            unsigned v = 0;
            for (unsigned f = 0; f < each; f++)
                v |= (codes[(each * j + f) * 4 + b] >> shift & mask) << bits * f;
            tile[64 * j + b] = (uint8_t)v;
        }
}

/* Each width gets loops of its own with constants. */
#define PLANE_EACH_WIDTH(bits, call)                                                        \
    switch (bits) { case 1: call(1); break; case 2: call(2); break; case 4: call(4); break; \
                    default: call(8); break; }

/* The codes behind a row's block header. */
static void codes_read(const uint8_t *src, uint32_t type, uint32_t block, uint8_t *codes)
{
    if (type == QSF_T_TERNARY5) {
        five_read(src, codes);
        return;
    }
    const type_planes pl = planes_of(type, false);
    memset(codes, 0, block);
    for (uint32_t i = 0; i < pl.n; i++) {
#define CALL(b) plane_read_bits(src, b, pl.p[i].shift, block, codes)
        PLANE_EACH_WIDTH(pl.p[i].bits, CALL)
#undef CALL
        src += block * pl.p[i].bits / 8;
    }
    for (uint32_t i = 0; type == QSF_T_TERNARY && i < block; i++)
        if (codes[i] == TERNARY_SIGNED_ZERO) codes[i] = TERNARY_ZERO;
}

/* The codes of row r of a tile; groups: behind the tile's header. */
static void tile_codes_read(const uint8_t *groups, uint32_t type, uint32_t block, uint32_t r, uint8_t *codes)
{
    if (type == QSF_T_TERNARY5) {
        uint8_t five[QSF_FIVE_BYTES];
        for (size_t i = 0; i < sizeof five; i += 4) memcpy(five + i, groups + 16 * i + 4 * r, 4);
        five_read(five, codes);
        return;
    }
    const type_planes pl = planes_of(type, true);
    memset(codes, 0, block);
    const uint8_t *src = groups + 4 * r;
    for (uint32_t col = 0; col < block; col += 32)
        for (uint32_t i = 0; i < pl.n; i++) {
#define CALL(b) plane_read_tile(src, b, pl.p[i].shift, codes + col)
            PLANE_EACH_WIDTH(pl.p[i].bits, CALL)
#undef CALL
            src += 64 * pl.p[i].bits;
        }
}

static void tile_codes_write(uint8_t *groups, uint32_t type, uint32_t block, uint32_t r, const uint8_t *codes)
{
    if (type == QSF_T_TERNARY5) {
        uint8_t five[QSF_FIVE_BYTES];
        five_write(five, codes);
        for (size_t i = 0; i < sizeof five; i += 4) memcpy(groups + 16 * i + 4 * r, five + i, 4);
        return;
    }
    const type_planes pl = planes_of(type, true);
    uint8_t *dst = groups + 4 * r;
    for (uint32_t col = 0; col < block; col += 32)
        for (uint32_t i = 0; i < pl.n; i++) {
#define CALL(b) plane_write_tile(dst, b, pl.p[i].shift, codes + col)
            PLANE_EACH_WIDTH(pl.p[i].bits, CALL)
#undef CALL
            dst += 64 * pl.p[i].bits;
        }
}

/* ---- floats ---- */

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
    const uint32_t block = t->block, each = qsf_block_bytes(t->type, block), head = head_of(t->type);
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
            tile_codes_read(scale + QSF_TILE_ROWS * head, t->type, block, r, codes);
            scale += qsf_type_scale_bytes(t->type) * r;
        } else {
            scale = p + ((size_t)row * blocks + b) * each;
            zero_at = 2;
            codes_read(scale + head, t->type, block, codes);
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

/* ---- tiles ---- */

void qsf_pack_tiles(const qsf_tensor *rows, void *dst)
{
    const bool has_zero = qsf_type_get(rows->type)->has_zero;
    const uint32_t block = rows->block, each = qsf_block_bytes(rows->type, block), head = head_of(rows->type);
    const size_t blocks = (size_t)qsf_ceil_div(rows->cols, block),
        tiles = (size_t)qsf_ceil_div(rows->rows, QSF_TILE_ROWS);
    const uint8_t *src = rows->data;
    uint8_t *tile = dst, codes[QSF_MAX_BLOCK];

    for (size_t t = 0; t < tiles; t++)
        for (size_t b = 0; b < blocks; b++, tile += (size_t)each * QSF_TILE_ROWS)
            for (uint32_t r = 0; r < QSF_TILE_ROWS; r++) {
                const size_t row = t * QSF_TILE_ROWS + r;
                const uint8_t *from = src + (row * blocks + b) * each;
                const bool here = row < rows->rows;
                if (head == 1) tile[r] = here ? *from : 0;
                else if (head) qsf_put16(tile + 2 * r, here ? qsf_le16(from) : 0);
                if (has_zero) qsf_put16(tile + 2 * QSF_TILE_ROWS + 2 * r, here ? qsf_le16(from + 2) : 0);
                if (here) codes_read(from + head, rows->type, block, codes);
                else memset(codes, head ? 0 : 1, sizeof codes);
                tile_codes_write(tile + head * QSF_TILE_ROWS, rows->type, block, r, codes);
            }
}

void qsf_tile_put_row(void *tile, uint32_t type, uint32_t block, uint32_t r, float scale,
                      const uint8_t *codes)
{
    assert(!qsf_type_get(type)->has_zero);
    const uint32_t head = head_of(type);
    if (head == 1) ((uint8_t *)tile)[r] = qsf_table_scale_near(scale);
    else if (head) qsf_put16((uint8_t *)tile + 2 * r, qsf_f32_to_f16(scale));
    tile_codes_write((uint8_t *)tile + head * QSF_TILE_ROWS, type, block, r, codes);
}

void qsf_tile_put_codes(void *tile, uint32_t type, uint32_t block, uint32_t r, const uint8_t *codes)
{
    tile_codes_write((uint8_t *)tile + head_of(type) * QSF_TILE_ROWS, type, block, r, codes);
}

void qsf_tile_get_codes(const void *tile, uint32_t type, uint32_t block, uint32_t r, uint8_t *codes)
{
    tile_codes_read((const uint8_t *)tile + head_of(type) * QSF_TILE_ROWS, type, block, r, codes);
}

void qsf_block_put_codes(void *to, uint32_t type, uint32_t block, const uint8_t *codes)
{
    uint8_t *out = to;
    assert(type == QSF_T_2BIT_S || qsf_type_bare(type));
    if (type == QSF_T_TERNARY5) five_write(out, codes);
    else
        for (uint32_t i = 0; i < block; i += 4)
            *out++ = (uint8_t)(codes[i] | codes[i + 1] << 2 | codes[i + 2] << 4 | codes[i + 3] << 6);
}

#undef PLANE_EACH_WIDTH
