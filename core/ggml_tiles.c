/* Row-major GGUF blocks into tiles and back.
 * SPDX-License-Identifier: MIT
 *
 * A tile holds the same bits as the 16 blocks it is made of, in another order, so that it has their size too: first their 16-bit fields
 * (scale, minimum), then their scale bytes, then the codes in planes.  16 rows are copied aside and come back as one row of tiles; zeros fill
 * the last. */
#include "ggml_tiles.h"

enum {
    GGML_Q4_0 = 2, GGML_Q4_1 = 3, GGML_Q5_0 = 6, GGML_Q5_1 = 7, GGML_Q8_0 = 8, GGML_Q2_K = 10, GGML_Q3_K = 11, GGML_Q4_K = 12,
    GGML_Q5_K = 13, GGML_Q6_K = 14, GGML_IQ4_NL = 20, GGML_IQ4_XS = 23, GGML_N_TYPES
};
enum { GGML_NONE = 0xff };

/* The types that stay what they are, and the groups of 32 in a block. */
#define GGML_EACH_SMALL(X) X(GGML_Q5_1, 1) X(GGML_IQ4_NL, 1)
#define GGML_EACH_SUPER(X) X(GGML_Q2_K, 8) X(GGML_Q3_K, 8) X(GGML_Q4_K, 8) X(GGML_Q5_K, 8) X(GGML_Q6_K, 8) X(GGML_IQ4_XS, 8)

/* Loading waits for these loops: each type gets its own copy, with all places and shifts constant. */
#if defined(__GNUC__)
#  define GGML_TEMPLATE static inline __attribute__((always_inline))
#else
#  define GGML_TEMPLATE static inline
#endif
#if defined(__clang__)
#  define GGML_UNROLL _Pragma("clang loop unroll_count(8)")
#elif defined(__GNUC__)
#  define GGML_UNROLL _Pragma("GCC unroll 8")
#else
#  define GGML_UNROLL
#endif

/* Places in a block. */
typedef struct ggml_fields {
    uint8_t own;              /* QSF type that says the same; GGML_NONE: stays as it is */
    uint8_t bits;             /* of a code; 0: no such type */
    uint8_t first, second;    /* 16-bit fields; GGML_NONE: no second */
    uint8_t scales, n_scales;
    uint8_t low, high;        /* codes: their low bits (4, or 2 of 2 and 3), and the plane of the rest */
} ggml_fields;

GGML_TEMPLATE const ggml_fields *fields_of(uint32_t kind)
{
    static const ggml_fields fields[GGML_N_TYPES] = {
        [GGML_Q4_0]   = { QSF_T_4BIT_S, 4, 0, GGML_NONE, 0, 0, 2, 0 },
        [GGML_Q4_1]   = { QSF_T_4BIT, 4, 0, 2, 0, 0, 4, 0 },
        [GGML_Q5_0]   = { QSF_T_5BIT_S, 5, 0, GGML_NONE, 0, 0, 6, 2 },
        [GGML_Q5_1]   = { GGML_NONE, 5, 0, 2, 0, 0, 8, 4 },
        [GGML_Q8_0]   = { QSF_T_8BIT, 8, 0, GGML_NONE, 0, 0, 2, 0 },
        [GGML_Q2_K]   = { GGML_NONE, 2, 80, 82, 0, 16, 16, 0 },
        [GGML_Q3_K]   = { GGML_NONE, 3, 108, GGML_NONE, 96, 12, 32, 0 },
        [GGML_Q4_K]   = { GGML_NONE, 4, 0, 2, 4, 12, 16, 0 },
        [GGML_Q5_K]   = { GGML_NONE, 5, 0, 2, 4, 12, 48, 16 },
        [GGML_Q6_K]   = { GGML_NONE, 6, 208, GGML_NONE, 192, 16, 0, 128 },
        [GGML_IQ4_NL] = { GGML_NONE, 4, 0, GGML_NONE, 0, 0, 2, 0 },
        [GGML_IQ4_XS] = { GGML_NONE, 4, 0, 2, 4, 4, 8, 0 },
    };
    return kind < GGML_N_TYPES && fields[kind].bits ? &fields[kind] : NULL;
}

int qsf_ggml_tile_type(const qsf_tensor *t)
{
    const ggml_fields *f = t->type >= QSF_T_GGML ? fields_of(t->type - QSF_T_GGML) : NULL;
    if (!f || t->cols % t->block || t->packing != 0) return -1;
    return f->own == GGML_NONE ? t->type : f->own;
}

size_t qsf_ggml_strip_bytes(const qsf_tensor *t)
{
    return (size_t)(t->bytes / t->rows * QSF_TILE_ROWS);
}

uint64_t qsf_ggml_tiled_bytes(const qsf_tensor *t)
{
    return qsf_ggml_tile_type(t) < 0 ? t->bytes : qsf_ceil_div(t->rows, QSF_TILE_ROWS) * qsf_ggml_strip_bytes(t);
}

/* ---- a block's codes as quads: four columns' codes in the bytes of a 32-bit word ---- */

enum { QUAD_1 = 0x01010101, QUAD_2 = 0x03030303, QUAD_4 = 0x0f0f0f0f };

/* Blocks of 32: byte i has columns i (low nibble) and i + 16; bit n of 32 is the high bit of column n. */
GGML_TEMPLATE void quads32_read(uint32_t *restrict c, const uint8_t *restrict low, const uint8_t *restrict high)
{
    for (uint32_t i = 0; i < 4; i++) {
        c[i] = qsf_le32(low + 4 * i) & QUAD_4;
        c[i + 4] = qsf_le32(low + 4 * i) >> 4 & QUAD_4;
    }
    if (!high) return;
    const uint32_t bits = qsf_le32(high);
    for (uint32_t i = 0; i < 8; i++) c[i] |= ((bits >> 4 * i & 15) * 0x204081 & QUAD_1) << 4;     /* bit b goes to byte b */
}
GGML_TEMPLATE void quads32_write(const uint32_t *restrict c, uint8_t *restrict low, uint8_t *restrict high)
{
    for (uint32_t i = 0; i < 4; i++) qsf_put32(low + 4 * i, (c[i] & QUAD_4) | (c[i + 4] & QUAD_4) << 4);
    if (!high) return;
    uint32_t bits = 0;
    for (uint32_t i = 0; i < 32; i++) bits |= (c[i / 4] >> 8 * (i % 4) >> 4 & 1) << i;
    qsf_put32(high, bits);
}

/* Super-blocks: quad 8 * n + i has columns 32n + 4i ... of the block; word i of a plane's chunk holds their bits.  Nibbles of chunk h are
 * n = 2h and 2h + 1; Q6_K's are 4h, 4h + 2 and 4h + 1, 4h + 3; pairs of chunk h are n = 4h ... 4h + 3; bits are n = 0 ... 7. */
GGML_TEMPLATE uint32_t nibble_shift(uint32_t kind, uint32_t n) { return 4 * (kind == GGML_Q6_K ? n / 2 % 2 : n % 2); }
GGML_TEMPLATE uint32_t nibble_place(uint32_t kind, uint32_t n) { return 32 * (kind == GGML_Q6_K ? n / 4 * 2 + n % 2 : n / 2); }

/* Where the bits of quads 8n ... stand in the two planes. */
typedef struct quad_place { uint32_t low_at, low_shift, low_mask, high_at, high_shift, high_mask, high_to; } quad_place;
GGML_TEMPLATE quad_place quad_place_of(uint32_t kind, const ggml_fields *f, uint32_t n)
{
    quad_place p = { .low_at = f->low, .high_at = f->high };
    if (f->bits < 4) {
        p.low_at += n / 4 * 32;
        p.low_shift = 2 * (n % 4);
        p.low_mask = QUAD_2;
    } else {
        p.low_at += nibble_place(kind, n);
        p.low_shift = nibble_shift(kind, n);
        p.low_mask = QUAD_4;
    }
    if (f->bits == 6) {
        p.high_at += n / 4 * 32;
        p.high_shift = 2 * (n % 4);
        p.high_mask = QUAD_2;
        p.high_to = 4;
    } else if (f->bits == 3 || f->bits == 5) {
        p.high_shift = n;
        p.high_mask = QUAD_1;
        p.high_to = f->bits - 1u;
    }
    return p;
}

/* The quads of group n. */
GGML_TEMPLATE void quads_read(uint32_t kind, const ggml_fields *f, const uint8_t *restrict from, uint32_t n, uint32_t *restrict c)
{
    if (kind == GGML_Q8_0) {
        for (uint32_t i = 0; i < 8; i++) c[i] = qsf_le32(from + f->low + 4 * i);
    } else if (kind == GGML_IQ4_XS || f->n_scales == 0) {
        quads32_read(c, from + f->low + 16 * n, f->bits == 5 ? from + f->high : NULL);
    } else {
        const quad_place p = quad_place_of(kind, f, n);
        for (uint32_t i = 0; i < 8; i++) c[i] = qsf_le32(from + p.low_at + 4 * i) >> p.low_shift & p.low_mask;
        for (uint32_t i = 0; p.high_mask && i < 8; i++) c[i] |= (qsf_le32(from + p.high_at + 4 * i) >> p.high_shift & p.high_mask) << p.high_to;
    }
}

/* Adds to zeroed bytes. */
GGML_TEMPLATE void quads_write(uint32_t kind, const ggml_fields *f, const uint32_t *restrict c, uint32_t n, uint8_t *restrict to)
{
    if (kind == GGML_IQ4_XS || f->n_scales == 0) {
        quads32_write(c, to + f->low + 16 * n, f->bits == 5 ? to + f->high : NULL);
        return;
    }
    const quad_place p = quad_place_of(kind, f, n);
    for (uint32_t i = 0; i < 8; i++) {
        uint8_t *low = to + p.low_at + 4 * i, *high = to + p.high_at + 4 * i;
        qsf_put32(low, qsf_le32(low) | (c[i] & p.low_mask) << p.low_shift);
        if (p.high_mask) qsf_put32(high, qsf_le32(high) | (c[i] >> p.high_to & p.high_mask) << p.high_shift);
    }
}

/* ---- a group of a tile: 32 columns of a row are one word of each vector ---- */

/* A plane of `bits` wide fields, taken from bit `from` of the codes on: field f of vector j is quad 8 / bits * j + f. */
GGML_TEMPLATE void plane_put(uint8_t *restrict to, const uint32_t *restrict c, uint32_t bits, uint32_t from)
{
    const uint32_t each = 8 / bits, mask = ((1u << bits) - 1) * QUAD_1;
    for (uint32_t j = 0; j < bits; j++) {
        uint32_t v = 0;
        for (uint32_t f = 0; f < each; f++) v |= (c[each * j + f] >> from & mask) << bits * f;
        qsf_put32(to + 64 * j, v);
    }
}
GGML_TEMPLATE void plane_get(const uint8_t *restrict from, uint32_t *restrict c, uint32_t bits, uint32_t to)
{
    const uint32_t each = 8 / bits, mask = ((1u << bits) - 1) * QUAD_1;
    for (uint32_t j = 0; j < bits; j++) {
        const uint32_t v = qsf_le32(from + 64 * j);
        for (uint32_t f = 0; f < each; f++) c[each * j + f] |= (v >> bits * f & mask) << to;
    }
}

GGML_TEMPLATE void group_put(uint8_t *to, const uint32_t *c, uint32_t bits)
{
    if (bits == 8) plane_put(to, c, 8, 0);
    else if (bits < 4) plane_put(to, c, 2, 0);
    else plane_put(to, c, 4, 0);
    if (bits == 3) plane_put(to + 64 * 2, c, 1, 2);
    else if (bits == 5) plane_put(to + 64 * 4, c, 1, 4);
    else if (bits == 6) plane_put(to + 64 * 4, c, 2, 4);
}
GGML_TEMPLATE void group_get(const uint8_t *from, uint32_t *c, uint32_t bits)
{
    memset(c, 0, 8 * sizeof *c);
    if (bits < 4) plane_get(from, c, 2, 0);
    else plane_get(from, c, 4, 0);
    if (bits == 3) plane_get(from + 64 * 2, c, 1, 2);
    else if (bits == 5) plane_get(from + 64 * 4, c, 1, 4);
    else if (bits == 6) plane_get(from + 64 * 4, c, 2, 4);
}

/* ---- tiles ---- */

GGML_TEMPLATE void block_to_tile(uint32_t kind, const ggml_fields *f, const uint8_t *from, uint32_t groups, uint8_t *tile, uint32_t r)
{
    memcpy(tile + 2 * r, from + f->first, 2);
    tile += 2 * QSF_TILE_ROWS;
    if (f->second != GGML_NONE) {
        memcpy(tile + 2 * r, from + f->second, 2);
        tile += 2 * QSF_TILE_ROWS;
    }
    for (uint32_t i = 0; i < f->n_scales; i++, tile += QSF_TILE_ROWS) tile[r] = from[f->scales + i];
    tile += 4 * r;
    GGML_UNROLL
    for (uint32_t n = 0; n < groups; n++) {
        uint32_t c[8];
        quads_read(kind, f, from, n, c);
        group_put(tile + n * 64 * f->bits, c, f->bits);
    }
}

GGML_TEMPLATE void strip_to_tiles(uint32_t kind, uint32_t groups, const uint8_t *from, size_t blocks, size_t each, uint8_t *to)
{
    for (size_t b = 0; b < blocks; b++)
        for (uint32_t r = 0; r < QSF_TILE_ROWS; r++)
            block_to_tile(kind, fields_of(kind), from + (r * blocks + b) * each, groups, to + b * each * QSF_TILE_ROWS, r);
}

/* What the threads of a pool share: a part of each tensor's strips is each one's. */
typedef struct tiles_run {
    qsf_tensor *const *t;
    uint32_t n, n_threads;
    uint8_t *strips;
    size_t   strip_room;
} tiles_run;

static void tensor_to_tiles(const qsf_tensor *t, uint64_t from, uint64_t until, uint8_t *strip)
{
    const size_t strip_bytes = qsf_ggml_strip_bytes(t), blocks = t->cols / t->block, each = strip_bytes / QSF_TILE_ROWS / blocks;
    for (uint64_t i = from; i < until; i++) {
        uint8_t *to = (uint8_t *)(uintptr_t)t->data + i * strip_bytes;
        const size_t here = (size_t)QSF_MIN(t->rows - i * QSF_TILE_ROWS, QSF_TILE_ROWS) * each * blocks;
        memcpy(strip, to, here);
        memset(strip + here, 0, strip_bytes - here);
        switch (t->type - QSF_T_GGML) {
#define CASE(k, groups) case k: strip_to_tiles(k, groups, strip, blocks, each, to); break;
        CASE(GGML_Q4_0, 1) CASE(GGML_Q4_1, 1) CASE(GGML_Q5_0, 1) CASE(GGML_Q8_0, 1)
        GGML_EACH_SMALL(CASE)
        GGML_EACH_SUPER(CASE)
#undef CASE
        }
    }
}

static void tiles_thread(void *arg, uint32_t thread)
{
    const tiles_run *run = arg;
    for (uint32_t i = 0; i < run->n; i++) {
        const uint64_t strips = qsf_ceil_div(run->t[i]->rows, QSF_TILE_ROWS);
        tensor_to_tiles(run->t[i], strips * thread / run->n_threads, strips * (thread + 1) / run->n_threads, run->strips + thread * run->strip_room);
    }
}

void qsf_ggml_to_tiles(qsf_tensor *const *t, uint32_t n, void *strips, qsf_pool *pool)
{
    enum { ALONE = 1 << 18 };       /* bytes that are there sooner than another thread */
    tiles_run run = { .t = t, .n = n, .n_threads = 1, .strips = strips };
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        run.strip_room = QSF_MAX(run.strip_room, qsf_ggml_strip_bytes(t[i]));
        bytes += t[i]->bytes;
    }
    if (pool && bytes > ALONE) {
        run.n_threads = qsf_pool_size(pool);
        qsf_pool_run(pool, tiles_thread, &run);
    } else {
        tiles_thread(&run, 0);
    }
    for (uint32_t i = 0; i < n; i++) {
        const int type = qsf_ggml_tile_type(t[i]);
        assert(type >= 0 && qsf_ggml_strip_bytes(t[i]) == (size_t)qsf_block_bytes((uint32_t)type, t[i]->block) * QSF_TILE_ROWS * (t[i]->cols / t[i]->block));
        t[i]->bytes = qsf_ggml_tiled_bytes(t[i]);
        t[i]->type = (uint8_t)type;
        t[i]->packing = 1;
    }
}

GGML_TEMPLATE void tile_to_block(uint32_t kind, uint32_t groups, const uint8_t *tile, uint32_t r, uint8_t *to)
{
    const ggml_fields *f = fields_of(kind);
    memcpy(to + f->first, tile + 2 * r, 2);
    tile += 2 * QSF_TILE_ROWS;
    if (f->second != GGML_NONE) {
        memcpy(to + f->second, tile + 2 * r, 2);
        tile += 2 * QSF_TILE_ROWS;
    }
    for (uint32_t i = 0; i < f->n_scales; i++, tile += QSF_TILE_ROWS) to[f->scales + i] = tile[r];
    tile += 4 * r;
    GGML_UNROLL
    for (uint32_t n = 0; n < groups; n++) {
        uint32_t c[8];
        group_get(tile + n * 64 * f->bits, c, f->bits);
        quads_write(kind, f, c, n, to);
    }
}

void qsf_ggml_from_tile(uint32_t type, const uint8_t *tile, uint32_t r, uint8_t *block)
{
    memset(block, 0, qsf_type_get(type)->own_bytes);
    switch (type - QSF_T_GGML) {
#define CASE(kind, groups) case kind: tile_to_block(kind, groups, tile, r, block); break;
    GGML_EACH_SMALL(CASE)
    GGML_EACH_SUPER(CASE)
#undef CASE
    }
}

#undef GGML_TEMPLATE
#undef GGML_UNROLL
#undef GGML_EACH_SMALL
#undef GGML_EACH_SUPER
