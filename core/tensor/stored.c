/* 2-bit weights as other engines store them: where each code is, and conversion to floats and
 * tiles.
 * SPDX-License-Identifier: MIT
 *
 * Everything is built on "the codes of some columns of a row".  Most layouts keep 16 rows together
 * and become tiles in place, one strip at a time; others are read to memory after the room for
 * their tiles. */
#include "tensor/stored.h"

#include "tensor/stored_tl.h"

static bool is_split(uint32_t packing)
{
    return packing >= QSF_STORED_SPLIT32_F32 && packing <= QSF_STORED_SPLIT32_BF16;
}
static bool is_tl(uint32_t packing) { return packing >= QSF_STORED_TL1; }
static bool is_apart(uint32_t packing) { return is_split(packing) || is_tl(packing); }
static bool has_scales(uint32_t packing) { return packing == QSF_STORED_BITNET32 || is_split(packing); }

/* ---- sizes ---- */

uint64_t qsf_stored_codes_bytes(uint32_t packing, uint32_t rows, uint32_t cols)
{
    const uint64_t n = (uint64_t)rows * cols;
    switch (packing) {
    case QSF_STORED_I2S_128:   return n % 128 || cols % 8 ? 0 : n / 4;
    case QSF_STORED_I2S_64:    return n % 64 || cols % 4 ? 0 : n / 4;
    case QSF_STORED_I2S_ROWS4: return rows % 4 ? 0 : n / 4;
    case QSF_STORED_QK256:     return (uint64_t)rows * qsf_ceil_div(cols, 256) * 64;
    case QSF_STORED_BITNET32:  return cols % 32 ? 0 : n / 32 * 10;
    case QSF_STORED_SPLIT32_F32: case QSF_STORED_SPLIT32_F16: case QSF_STORED_SPLIT32_BF16:
        return cols % 32 ? 0 : n / 4;
    }
    return packing >= QSF_STORED_TL2 ? qsf_tl2_bytes(rows, cols) : n % 4 ? 0 : n / 4;
}

uint32_t qsf_stored_tl(uint32_t base, uint32_t rows, uint32_t cols)
{
    const int i = qsf_tl_find(base == QSF_STORED_TL2, rows, cols);
    return i < 0 ? 0 : base + (uint32_t)i;
}

uint64_t qsf_stored_tiled_bytes(const qsf_tensor *t)
{
    return qsf_round_up(t->rows, QSF_TILE_ROWS) * qsf_ceil_div(t->cols, t->block)
           * (t->block / 4 + (has_scales(t->packing) ? 2 : 0));
}

uint64_t qsf_stored_codes_at(const qsf_tensor *t)
{
    return is_apart(t->packing) ? qsf_round_up(qsf_stored_tiled_bytes(t), 64) : 0;
}

uint64_t qsf_stored_scales_at(const qsf_tensor *t)
{
    const uint64_t codes = qsf_stored_codes_bytes(t->packing, t->rows, t->cols);
    return qsf_stored_codes_at(t) + qsf_round_up(codes, 64);
}

static uint32_t scale_bytes(uint32_t packing) { return packing == QSF_STORED_SPLIT32_F32 ? 4 : 2; }

void qsf_stored_place(qsf_tensor *t)
{
    t->type = has_scales(t->packing) ? QSF_T_2BIT_S
              : t->packing == QSF_STORED_QK256 ? QSF_T_QK256 : QSF_T_TERNARY2;
    t->block = has_scales(t->packing) ? 32 : 256;
    t->bytes = qsf_stored_codes_at(t) + qsf_stored_codes_bytes(t->packing, t->rows, t->cols);
    if (is_split(t->packing))
        t->bytes = qsf_stored_scales_at(t) + (uint64_t)t->rows * (t->cols / 32) * scale_bytes(t->packing);
}

/* ---- codes and scales ---- */

/* The layout's rows that begin at `codes`; a scale's place is found from the tensor's data. */
typedef struct stored_rows { const qsf_tensor *t; const uint8_t *codes; uint32_t first; } stored_rows;

/* Weight i of a group of 4 n is in byte i mod n; the first n are in the highest bits. */
static void read_group(const uint8_t *codes, uint64_t at, uint32_t each, uint32_t n, uint8_t *restrict out)
{
    while (n) {
        const uint32_t in = (uint32_t)(at % (4 * each)), lane = in % each, run = QSF_MIN(each - lane, n);
        const uint8_t *restrict from = codes + at / (4 * each) * each + lane;
        const uint32_t shift = 6 - 2 * (in / each);
        for (uint32_t i = 0; i < run; i++) out[i] = from[i] >> shift & 3;
        at += run;
        out += run;
        n -= run;
    }
}

static void read_low_first(const uint8_t *restrict from, uint32_t n, uint8_t *restrict out)
{
    for (uint32_t i = 0; i < n; i++) out[i] = from[i / 4] >> 2 * (i % 4) & 3;
}

/* Codes of n columns from col on, within a block of the type. */
static void read_codes(const stored_rows *s, uint32_t row, uint32_t col, uint32_t n, uint8_t *out)
{
    const qsf_tensor *t = s->t;
    const uint64_t r = row - s->first, at = r * t->cols + col;
    switch (t->packing) {
    case QSF_STORED_I2S_128: read_group(s->codes, at, 32, n, out); return;
    case QSF_STORED_I2S_64:  read_group(s->codes, at, 16, n, out); return;
    case QSF_STORED_I2S_ROWS4: {
        const uint8_t *from = s->codes + r / 4 * t->cols + col;
        const uint32_t shift = 6 - 2 * (uint32_t)(r % 4);
        for (uint32_t i = 0; i < n; i++) out[i] = from[i] >> shift & 3;
        return;
    }
    case QSF_STORED_QK256:
        read_low_first(s->codes + (r * qsf_ceil_div(t->cols, 256) + col / 256) * 64, n, out);
        return;
    case QSF_STORED_BITNET32: read_low_first(s->codes + at / 32 * 10, n, out); return;
    }
    if (is_split(t->packing)) read_low_first(s->codes + at / 4, n, out);
    else qsf_tl_codes(t->packing >= QSF_STORED_TL2, t->packing % 32, s->codes, t->rows, row, col, n, out);
}

static float read_scale(const stored_rows *s, uint32_t row, uint32_t col)
{
    const qsf_tensor *t = s->t;
    const uint64_t blocks = t->cols / 32, i = (uint64_t)row * blocks + col / 32;
    if (t->packing == QSF_STORED_BITNET32)
        return qsf_f16_to_f32(qsf_le16(s->codes + (i - s->first * blocks) * 10 + 8));
    const uint8_t *scales = (const uint8_t *)t->data + qsf_stored_scales_at(t);
    if (t->packing == QSF_STORED_SPLIT32_F32) return qsf_lef32(scales + 4 * i);
    const uint16_t half = qsf_le16(scales + 2 * i);
    return t->packing == QSF_STORED_SPLIT32_F16 ? qsf_f16_to_f32(half) : qsf_bf16_to_f32(half);
}

bool qsf_stored_scales_ok(const qsf_tensor *t, float *bad)
{
    const stored_rows s = { t, (const uint8_t *)t->data + qsf_stored_codes_at(t), 0 };
    if (!has_scales(t->packing)) return true;
    for (uint32_t r = 0; r < t->rows; r++)
        for (uint32_t c = 0; c < t->cols; c += 32) {
            *bad = read_scale(&s, r, c);
            if (!isfinite(qsf_f16_to_f32(qsf_f32_to_f16(*bad)))) return false;
        }
    return true;
}

void qsf_stored_rows(const qsf_tensor *t, uint32_t row, uint32_t n, float *out)
{
    const stored_rows s = { t, (const uint8_t *)t->data + qsf_stored_codes_at(t), 0 };
    static const float ternary[4] = { -1, 0, 1, 2 }, qk256[4] = { -2, -1, 1, 2 }, two[4] = { -2, -1, 0, 1 };
    const float *value = t->type == QSF_T_TERNARY2 ? ternary : t->type == QSF_T_QK256 ? qk256 : two;
    uint8_t codes[QSF_MAX_BLOCK];
    for (uint32_t end = row + n; row < end; row++)
        for (uint32_t c = 0; c < t->cols; c += t->block) {
            const uint32_t here = QSF_MIN(t->block, t->cols - c);
            const float scale = has_scales(t->packing) ? read_scale(&s, row, c) : 1;
            read_codes(&s, row, c, here, codes);
            for (uint32_t i = 0; i < here; i++) *out++ = scale * value[codes[i]];
        }
}

/* ---- tiles ---- */

size_t qsf_stored_strip_bytes(const qsf_tensor *t)
{
    if (is_apart(t->packing)) return 0;
    if (t->packing == QSF_STORED_QK256) return (size_t)qsf_ceil_div(t->cols, 256) * 64 * QSF_TILE_ROWS;
    return (size_t)t->cols * QSF_TILE_ROWS / 4 + (t->packing == QSF_STORED_BITNET32 ? t->cols : 0);
}

bool qsf_stored_shares(const qsf_tensor *t)
{
    return is_apart(t->packing) || t->cols % t->block == 0 || t->packing == QSF_STORED_QK256;
}

/* Row r of a tile: each 32 columns are two words a row, 64 bytes apart from the next row's. */
static void put_codes(uint8_t *tile, uint32_t r, const uint8_t *codes, uint32_t block)
{
    for (uint32_t c = 0; c < block; c += 16) {
        const uint8_t *from = codes + c;
        const uint32_t w = qsf_le32(from) | qsf_le32(from + 4) << 2 | qsf_le32(from + 8) << 4 |
                           qsf_le32(from + 12) << 6;
        qsf_put32(tile + 4 * c + 4 * r, w);
    }
}

static void stored_strip_to_tiles(const stored_rows *s, uint32_t row, uint8_t *to)
{
    const qsf_tensor *t = s->t;
    const uint32_t head = has_scales(t->packing) ? 2 : 0, each = (t->block / 4 + head) * QSF_TILE_ROWS;
    uint8_t codes[QSF_MAX_BLOCK];
    for (uint32_t c = 0; c < t->cols; c += t->block, to += each)
        for (uint32_t r = 0; r < QSF_TILE_ROWS; r++) {
            const bool here = row + r < t->rows;
            const uint32_t n = here ? QSF_MIN(t->block, t->cols - c) : 0;
            if (n < t->block) memset(codes, head ? 2 : 1, t->block);       /* zeros */
            if (here) read_codes(s, row + r, c, n, codes);
            if (head) qsf_put16(to + 2 * r, here ? qsf_f32_to_f16(read_scale(s, row + r, c)) : 0);
            put_codes(to + head * QSF_TILE_ROWS, r, codes, t->block);
        }
}

void qsf_stored_to_tiles(const qsf_tensor *t, uint8_t *data, uint64_t from, uint64_t until, uint8_t *strip)
{
    const size_t in = qsf_stored_strip_bytes(t), strips = (size_t)qsf_ceil_div(t->rows, QSF_TILE_ROWS);
    const size_t out = (size_t)(qsf_stored_tiled_bytes(t) / strips);
    stored_rows s = { t, data + qsf_stored_codes_at(t), 0 };
    for (uint64_t i = until; i-- > from;) {
        const uint32_t row = (uint32_t)i * QSF_TILE_ROWS;
        if (in) {       /* in place: what it grows over has been read */
            memcpy(strip, data + i * in, in / QSF_TILE_ROWS * QSF_MIN(t->rows - row, QSF_TILE_ROWS));
            s.codes = strip;
            s.first = row;
        }
        stored_strip_to_tiles(&s, row, data + i * out);
    }
}
