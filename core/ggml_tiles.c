/* Row-major GGUF blocks of 32 into tiles.
 * SPDX-License-Identifier: MIT
 *
 * Each of these blocks is fp16 scale, maybe fp16 minimum, and codes: exactly a QSF block in another order, and of the same size.  So 16 rows
 * are copied aside and come back as one row of tiles. */
#include "ggml_tiles.h"

enum { GGML_Q4_0 = 2, GGML_Q4_1 = 3, GGML_Q5_0 = 6, GGML_Q8_0 = 8, GGML_BLOCK = 32 };

int qsf_ggml_tile_type(const qsf_tensor *t)
{
    if (t->rows % QSF_TILE_ROWS || t->cols % GGML_BLOCK || t->packing != 0) return -1;
    switch ((int)t->type - QSF_T_GGML) {
    case GGML_Q4_0: return QSF_T_4BIT_S;
    case GGML_Q4_1: return QSF_T_4BIT;
    case GGML_Q5_0: return QSF_T_5BIT_S;
    case GGML_Q8_0: return QSF_T_8BIT;
    default: return -1;
    }
}

size_t qsf_ggml_strip_bytes(const qsf_tensor *t)
{
    return (size_t)(t->bytes / t->rows * QSF_TILE_ROWS);
}

/* The codes of row r of a tile, 4 bits: byte 4r + b of vector j is columns 8j + b (low) and 8j + 4 + b.  GGUF has column c in the low nibble of
 * byte c and column 16 + c in the high one. */
static void place_nibbles(uint8_t *group, uint32_t r, const uint8_t *qs)
{
    for (uint32_t j = 0; j < 2; j++)
        for (uint32_t b = 0; b < 4; b++) {
            const uint8_t x = qs[8 * j + b], y = qs[8 * j + 4 + b];
            group[64 * j + 4 * r + b] = (uint8_t)((x & 15) | (y & 15) << 4);
            group[64 * (j + 2) + 4 * r + b] = (uint8_t)(x >> 4 | (y & 0xf0));
        }
}

/* Bit f of byte 4r + b of the fifth vector is the high bit of column 4f + b. */
static void place_high_bits(uint8_t *vector, uint32_t r, uint32_t high)
{
    for (uint32_t b = 0; b < 4; b++) {
        uint8_t bits = 0;
        for (uint32_t f = 0; f < 8; f++) bits |= (uint8_t)((high >> (4 * f + b) & 1) << f);
        vector[4 * r + b] = bits;
    }
}

static void place_bytes(uint8_t *group, uint32_t r, const uint8_t *qs)
{
    for (uint32_t j = 0; j < 8; j++) memcpy(group + 64 * j + 4 * r, qs + 4 * j, 4);
}

void qsf_ggml_to_tiles(qsf_tensor *t, void *data, void *strip)
{
    const int kind = (int)t->type - QSF_T_GGML, type = qsf_ggml_tile_type(t);
    const size_t strip_bytes = qsf_ggml_strip_bytes(t), blocks = t->cols / GGML_BLOCK, each = strip_bytes / QSF_TILE_ROWS / blocks;
    const size_t head = kind == GGML_Q4_1 ? 4 : 2;
    assert(type >= 0 && each == qsf_block_bytes((uint32_t)type, GGML_BLOCK));
    for (uint32_t row = 0; row < t->rows; row += QSF_TILE_ROWS) {
        uint8_t *to = (uint8_t *)data + row / QSF_TILE_ROWS * strip_bytes;
        memcpy(strip, to, strip_bytes);
        for (size_t b = 0; b < blocks; b++)
            for (uint32_t r = 0; r < QSF_TILE_ROWS; r++) {
                const uint8_t *from = (const uint8_t *)strip + (r * blocks + b) * each;
                uint8_t *tile = to + b * each * QSF_TILE_ROWS, *group = tile + head * QSF_TILE_ROWS;
                memcpy(tile + 2 * r, from, 2);
                if (kind == GGML_Q4_1) memcpy(tile + 2 * QSF_TILE_ROWS + 2 * r, from + 2, 2);
                if (kind == GGML_Q8_0) {
                    place_bytes(group, r, from + 2);
                } else if (kind == GGML_Q5_0) {
                    place_nibbles(group, r, from + 6);
                    place_high_bits(group + 256, r, qsf_le32(from + 2));
                } else {
                    place_nibbles(group, r, from + head);
                }
            }
    }
    t->type = (uint8_t)type;
    t->packing = 1;
    t->block = GGML_BLOCK;
    t->data = data;
}
