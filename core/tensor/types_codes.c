/* The way between rows of blocks and tiles.
 * SPDX-License-Identifier: MIT
 *
 * Every quantised type of QSF is one to three planes of equally wide bit fields.  Rows of blocks
 * and tiles hold the same codes in the same planes, only in another order, so that everything here
 * goes through "the codes of one row of one block". */
#include "tensor/table.h"
#include "tensor/types.h"

/* bits: width of a field; shift: position of its bits in the code */
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
 * 3^k times the byte, modulo 256, is the fraction after the first k digits; three times that is the
 * next digit and the fraction after it. */

/* The column of digit k of byte i of a block: as in GGUF's TQ1_0. */
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

/* Reads the codes after a row's block header. */
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

/* Reads the codes of row r of a tile; groups: the bytes after the tile's header. */
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

/* ---- tiles ---- */

void qsf_pack_tiles(const qsf_tensor *rows, void *dst)
{
    const bool has_zero = qsf_type_get(rows->type)->has_zero;
    const uint32_t block = rows->block, each = qsf_block_bytes(rows->type, block),
        head = qsf_type_head_bytes(rows->type);
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
    const uint32_t head = qsf_type_head_bytes(type);
    if (head == 1) ((uint8_t *)tile)[r] = qsf_table_scale_near(scale);
    else if (head) qsf_put16((uint8_t *)tile + 2 * r, qsf_f32_to_f16(scale));
    tile_codes_write((uint8_t *)tile + head * QSF_TILE_ROWS, type, block, r, codes);
}

void qsf_tile_put_codes(void *tile, uint32_t type, uint32_t block, uint32_t r, const uint8_t *codes)
{
    tile_codes_write((uint8_t *)tile + qsf_type_head_bytes(type) * QSF_TILE_ROWS, type, block, r, codes);
}

void qsf_tile_get_codes(const void *tile, uint32_t type, uint32_t block, uint32_t r, uint8_t *codes)
{
    tile_codes_read((const uint8_t *)tile + qsf_type_head_bytes(type) * QSF_TILE_ROWS, type, block, r, codes);
}

void qsf_block_get_codes(const void *from, uint32_t type, uint32_t block, uint8_t *codes)
{
    codes_read((const uint8_t *)from + qsf_type_head_bytes(type), type, block, codes);
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
