/* Row-major GGUF blocks into tiles and back.
 * SPDX-License-Identifier: MIT
 *
 * A tile holds the same bits as the 16 blocks it is made of, in another order, so that it has their
 * size too: first their 16-bit fields (scale, minimum), then their scale bytes, then the codes in
 * planes.  16 rows are copied aside and come back as one row of tiles; zeros fill the last. */
#include "tensor/ggml_tiles.h"
#include "tensor/iq_tiles.h"

#include "tensor/stored.h"

enum { GGML_NONE = 0xff };

/* The types that stay what they are, and the groups of 32 in a block. */
#define GGML_EACH_SMALL(X)                                      \
    X(QSF_T_Q5_1, 1) X(QSF_T_IQ4_NL, 1) X(QSF_T_MXFP4, 1)       \
    X(QSF_T_NVFP4, 2) X(QSF_T_Q2_0, 2) X(QSF_T_Q1_0, 4)
#define GGML_EACH_SUPER(X)                                      \
    X(QSF_T_Q2_K, 8) X(QSF_T_Q3_K, 8) X(QSF_T_Q4_K, 8)          \
    X(QSF_T_Q5_K, 8) X(QSF_T_Q6_K, 8) X(QSF_T_IQ4_XS, 8)        \
    X(QSF_T_TQ1_0, 8) X(QSF_T_TQ2_0, 8) X(QSF_T_Q8_K, 8)

#define GGML_EACH_OWN(X) X(QSF_T_Q4_0, 1) X(QSF_T_Q4_1, 1) X(QSF_T_Q5_0, 1) X(QSF_T_Q8_0, 1)

/* Loading waits for these loops: each type gets its own copy, with all places and shifts constant.
 * Small code has copies of the usual types, and one for the others. */
#if defined(QSF_SMALL_CODE)
#  define GGML_EACH_QUICK(X)                                        \
    X(QSF_T_Q4_0, 1) X(QSF_T_Q4_1, 1) X(QSF_T_Q8_0, 1)              \
    X(QSF_T_Q4_K, 8) X(QSF_T_Q5_K, 8) X(QSF_T_Q6_K, 8)
#  define GGML_ELSE(all) else all;
#else
#  define GGML_EACH_QUICK(X) GGML_EACH_OWN(X) GGML_EACH_SMALL(X) GGML_EACH_SUPER(X)
#  define GGML_ELSE(all)
#endif
#if defined(__GNUC__)
#  define GGML_TEMPLATE static inline __attribute__((always_inline))
#else
#  define GGML_TEMPLATE static inline
#endif
#if defined(QSF_SMALL_CODE)
#  define GGML_UNROLL
#elif defined(__clang__)
#  define GGML_UNROLL _Pragma("clang loop unroll_count(8)")
#elif defined(__GNUC__)
#  define GGML_UNROLL _Pragma("GCC unroll 8")
#else
#  define GGML_UNROLL
#endif

/* Places in a block. */
typedef struct ggml_fields {
    uint8_t own;              /* equivalent QSF type; GGML_NONE: keeps its own type */
    uint8_t bits;             /* of a code; 0: no such type */
    uint8_t first, second;    /* 16-bit fields; GGML_NONE: not there */
    uint16_t scales;
    uint8_t n_scales;
    uint8_t low, high;        /* codes: their low bits (4, or 2 of 2 and 3), and the plane of the rest */
} ggml_fields;

GGML_TEMPLATE const ggml_fields *fields_of(uint32_t type)
{
    static const ggml_fields fields[QSF_T_GGML_END - QSF_T_GGML]  = {
        [QSF_T_Q4_0 - QSF_T_GGML]   = { QSF_T_4BIT_S, 4, 0, GGML_NONE, 0, 0, 2, 0 },
        [QSF_T_Q4_1 - QSF_T_GGML]   = { QSF_T_4BIT, 4, 0, 2, 0, 0, 4, 0 },
        [QSF_T_Q5_0 - QSF_T_GGML]   = { QSF_T_5BIT_S, 5, 0, GGML_NONE, 0, 0, 6, 2 },
        [QSF_T_Q5_1 - QSF_T_GGML]   = { GGML_NONE, 5, 0, 2, 0, 0, 8, 4 },
        [QSF_T_Q8_0 - QSF_T_GGML]   = { QSF_T_8BIT, 8, 0, GGML_NONE, 0, 0, 2, 0 },
        [QSF_T_Q2_K - QSF_T_GGML]   = { GGML_NONE, 2, 80, 82, 0, 16, 16, 0 },
        [QSF_T_Q3_K - QSF_T_GGML]   = { GGML_NONE, 3, 108, GGML_NONE, 96, 12, 32, 0 },
        [QSF_T_Q4_K - QSF_T_GGML]   = { GGML_NONE, 4, 0, 2, 4, 12, 16, 0 },
        [QSF_T_Q5_K - QSF_T_GGML]   = { GGML_NONE, 5, 0, 2, 4, 12, 48, 16 },
        [QSF_T_Q6_K - QSF_T_GGML]   = { GGML_NONE, 6, 208, GGML_NONE, 192, 16, 0, 128 },
        [QSF_T_IQ4_NL - QSF_T_GGML] = { GGML_NONE, 4, 0, GGML_NONE, 0, 0, 2, 0 },
        [QSF_T_IQ4_XS - QSF_T_GGML] = { GGML_NONE, 4, 0, 2, 4, 4, 8, 0 },
        /* the halves of its float; its sums of codes lie where others have scales */
        [QSF_T_Q8_K - QSF_T_GGML]   = { GGML_NONE, 8, 0, 2, 260, 32, 4, 0 },
        [QSF_T_TQ1_0 - QSF_T_GGML]  = { GGML_NONE, 8, 52, GGML_NONE, 0, 0, 0, 0 },
        [QSF_T_TQ2_0 - QSF_T_GGML]  = { GGML_NONE, 2, 64, GGML_NONE, 0, 0, 0, 0 },
        [QSF_T_MXFP4 - QSF_T_GGML]  = { GGML_NONE, 4, GGML_NONE, GGML_NONE, 0, 1, 1, 0 },
        [QSF_T_NVFP4 - QSF_T_GGML]  = { GGML_NONE, 4, GGML_NONE, GGML_NONE, 0, 4, 4, 0 },
        [QSF_T_Q1_0 - QSF_T_GGML]   = { GGML_NONE, 1, 0, GGML_NONE, 0, 0, 2, 0 },
        [QSF_T_Q2_0 - QSF_T_GGML]   = { GGML_NONE, 2, 0, GGML_NONE, 0, 0, 2, 0 },
    };
    const uint32_t i = type - QSF_T_GGML;
    return i < QSF_ARRAY_LEN(fields) && fields[i].bits ? &fields[i] : NULL;
}

/* Types that become ternary tiles, whose codes count down: their scales change sign. */
GGML_TEMPLATE bool counts_up(uint32_t type) { return type == QSF_T_TQ2_0 || type == QSF_T_Q2_0; }

int qsf_ggml_tile_type(const qsf_tensor *t)
{
    const ggml_fields *f = fields_of(t->type);
    const bool iq = qsf_iq_type(t->type);
    if (t->packing > 1) return t->type;
    if ((!f && !iq) || t->cols % t->block || t->packing != 0) return -1;
    if (iq) return t->type;
    return f->own == GGML_NONE ? t->type : f->own;
}

size_t qsf_ggml_strip_bytes(const qsf_tensor *t)
{
    return t->packing > 1 ? qsf_stored_strip_bytes(t) : (size_t)(t->bytes / t->rows * QSF_TILE_ROWS);
}

uint64_t qsf_ggml_tiled_bytes(const qsf_tensor *t)
{
    return t->packing > 1 ? qsf_stored_tiled_bytes(t)
        : qsf_ggml_tile_type(t) < 0 ? t->bytes
        : qsf_ceil_div(t->rows, QSF_TILE_ROWS) * qsf_ggml_strip_bytes(t);
}

/* ---- planes: fields of 1, 2 or 4 bits, four columns in the bytes of a 32-bit word ----
 * Blocks and tiles hold the same words with one difference: field n of word i belongs to column
 * group n in the block, and to column group i in the tile.  So a set of 8 / bits words is
 * transposed like a matrix; the inverse is the same operation. */

/* The words of some rows at once. */
#if defined(__has_builtin) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#  if __has_builtin(__builtin_shufflevector)
#    define GGML_ROWS 4
#  endif
#endif
#ifdef GGML_ROWS
typedef uint32_t row_words __attribute__((vector_size(16)));
GGML_TEMPLATE row_words words_at(const uint8_t *p)
{
    row_words w;
    memcpy(&w, p, sizeof w);
    return w;
}
GGML_TEMPLATE void words_put(uint8_t *p, row_words w) { memcpy(p, &w, sizeof w); }
GGML_TEMPLATE row_words words_of_one(uint32_t w) { return (row_words){ w }; }
GGML_TEMPLATE uint32_t words_first(row_words w) { return w[0]; }

/* One word, and four words, of rows that are `stride` bytes apart. */
GGML_TEMPLATE row_words rows_word(const uint8_t *p, size_t stride)
{
    return (row_words){ qsf_le32(p), qsf_le32(p + stride), qsf_le32(p + 2 * stride),
                        qsf_le32(p + 3 * stride) };
}
GGML_TEMPLATE void rows_words(const uint8_t *p, size_t stride, row_words *w)
{
    const row_words a = words_at(p), b = words_at(p + stride), c = words_at(p + 2 * stride),
        d = words_at(p + 3 * stride);
    const row_words ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5),
        ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const row_words cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5),
        cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    w[0] = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    w[1] = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    w[2] = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    w[3] = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}
#else
#  define GGML_ROWS 1
typedef uint32_t row_words;
GGML_TEMPLATE void words_put(uint8_t *p, row_words w) { qsf_put32(p, w); }
GGML_TEMPLATE row_words words_of_one(uint32_t w) { return w; }
GGML_TEMPLATE uint32_t words_first(row_words w) { return w; }
GGML_TEMPLATE row_words rows_word(const uint8_t *p, size_t stride) { return (void)stride, qsf_le32(p); }
GGML_TEMPLATE void rows_words(const uint8_t *p, size_t stride, row_words *w)
{
    (void)stride;
    for (uint32_t i = 0; i < 4; i++) w[i] = qsf_le32(p + 4 * i);
}
#endif

/* Exchanges field n of word i with field i of word n in 8 / bits words. */
GGML_TEMPLATE void words_turn(row_words *w, uint32_t bits)
{
    const uint32_t n = 8 / bits;
    GGML_UNROLL
    for (uint32_t step = n / 2; step; step /= 2) {
        const uint32_t shift = step * bits, mask = shift == 4 ? 0x0f0f0f0f : shift == 2 ? 0x33333333
            : 0x55555555;
        GGML_UNROLL
        for (uint32_t i = 0; i < n; i++) {
            if (i & step) continue;
            const row_words t = (w[i] >> shift ^ w[i + step]) & mask;
            w[i + step] ^= t;
            w[i] ^= t << shift;
        }
    }
}

/* A word of single bits of blocks of 32: bit 4 i + b, column 4 i + b, becomes bit i of byte b.
 * Each step exchanges two digits of the bits' numbers. */
GGML_TEMPLATE row_words bits_exchange(row_words w, uint32_t shift, uint32_t mask)
{
    const row_words t = (w >> shift ^ w) & mask;
    return w ^ t ^ t << shift;
}
GGML_TEMPLATE row_words bits_to_tile(row_words w)
{
    return bits_exchange(bits_exchange(bits_exchange(bits_exchange(w, 14, 0xcccc), 7, 0xaa00aa), 2,
                                       0x0c0c0c0c), 1, 0x22222222);
}
GGML_TEMPLATE row_words bits_to_block(row_words w)
{
    return bits_exchange(bits_exchange(bits_exchange(bits_exchange(w, 1, 0x22222222), 2, 0x0c0c0c0c), 7,
                                       0xaa00aa), 14, 0xcccc);
}

/* A word of pairs of bits of Q2_0: pair 4 b + i, column 4 b + i, becomes pair b of byte i, and
 * back. */
GGML_TEMPLATE row_words pairs_turn(row_words w)
{
    return bits_exchange(bits_exchange(w, 6, 0x00cc00cc), 12, 0x0000f0f0);
}
GGML_TEMPLATE row_words word_to_tile(uint32_t type, row_words w)
{
    return type == QSF_T_TQ1_0 ? w : type == QSF_T_Q2_0 ? pairs_turn(w) : bits_to_tile(w);
}
GGML_TEMPLATE row_words word_to_block(uint32_t type, row_words w)
{
    return type == QSF_T_TQ1_0 ? w : type == QSF_T_Q2_0 ? pairs_turn(w) : bits_to_block(w);
}

/* A block's planes: all low bits, then the rest. */
typedef struct ggml_plane {
    uint32_t bits;       /* of a field; 0: no such plane */
    uint32_t at;         /* in the block */
    uint32_t first;      /* of a group's vectors in the tile */
    uint32_t words;
} ggml_plane;
GGML_TEMPLATE ggml_plane plane_low(const ggml_fields *f, uint32_t groups)
{
    const uint32_t bits = f->bits == 8 || f->bits == 1 ? f->bits : f->bits < 4 ? 2 : 4;
    return (ggml_plane){ bits, f->low, 0, groups * bits };
}
GGML_TEMPLATE ggml_plane plane_high(const ggml_fields *f, uint32_t groups)
{
    const uint32_t low = f->bits < 4 ? 2 : 4, bits = f->bits == 8 || f->bits == 1 ? 0 : f->bits - low;
    return (ggml_plane){ bits, f->high, low, groups * bits };
}

/* Words that are not transposed with others, all or none: TQ1_0's bytes of five digits stay whole.
 */
GGML_TEMPLATE uint32_t words_alone(uint32_t type, const ggml_plane *p)
{
    return type == QSF_T_TQ1_0                                         ? 13
           : p->words == 1 || type == QSF_T_Q1_0 || type == QSF_T_Q2_0 ? p->words
                                                                       : 0;
}

/* The index of word i of a transposed plane among the vectors of a tile.  A super-block's chunk of
 * eight words has as many groups as a byte has fields (Q6_K's nibbles: every other one); in blocks
 * of 32, and IQ4_XS, a chunk is the four words of one group.  NVFP4's words are in order. */
GGML_TEMPLATE uint32_t plane_vector(uint32_t type, const ggml_fields *f, const ggml_plane *p, uint32_t i)
{
    const uint32_t fields = 8 / p->bits;
    if (p->bits == 8 || type == QSF_T_NVFP4) return i;
    if (type == QSF_T_IQ4_XS || type == QSF_T_MXFP4 || (f->n_scales == 0 && type != QSF_T_TQ2_0))
        return i / 4 * f->bits + p->first + i % 4 / 2 + i % 2 * 2;
    const uint32_t chunk = i / 8, n = i % fields;
    const uint32_t group = type == QSF_T_Q6_K && p->bits == 4 ? chunk / 2 * 4 + chunk % 2 + 2 * n
        : fields * chunk + n;
    return group * f->bits + p->first + i % 8 / fields;
}

GGML_TEMPLATE void plane_to_tile(uint32_t type, const ggml_fields *f, ggml_plane p,
                                 const uint8_t *restrict from, size_t stride, uint8_t *restrict to)
{
    const uint32_t once = p.bits == 1 ? 8 : 4, alone = words_alone(type, &p);
    for (uint32_t i = 0; i < alone; i++)
        words_put(to + 64 * (p.first + i), word_to_tile(type, rows_word(from + p.at + 4 * i, stride)));
    if (alone) return;
    GGML_UNROLL
    for (uint32_t i = 0; i < p.words; i += once) {
        row_words w[8];
        for (uint32_t j = 0; j < once; j += 4) rows_words(from + p.at + 4 * (i + j), stride, w + j);
        for (uint32_t j = 0; j < once; j += 8 / p.bits) words_turn(w + j, p.bits);
        GGML_UNROLL
        for (uint32_t j = 0; j < once; j++) words_put(to + 64 * plane_vector(type, f, &p, i + j), w[j]);
    }
}

GGML_TEMPLATE void plane_to_block(uint32_t type, const ggml_fields *f, ggml_plane p,
                                  const uint8_t *restrict from, uint8_t *restrict to)
{
    const uint32_t alone = words_alone(type, &p);
    for (uint32_t i = 0; i < alone; i++) {
        const row_words w = words_of_one(qsf_le32(from + 64 * (p.first + i)));
        qsf_put32(to + p.at + 4 * i, words_first(word_to_block(type, w)));
    }
    if (alone) return;
    for (uint32_t i = 0; i < p.words; i += 8 / p.bits) {
        row_words w[8];
        for (uint32_t j = 0; j < 8 / p.bits; j++)
            w[j] = words_of_one(qsf_le32(from + 64 * plane_vector(type, f, &p, i + j)));
        words_turn(w, p.bits);
        for (uint32_t j = 0; j < 8 / p.bits; j++) qsf_put32(to + p.at + 4 * (i + j), words_first(w[j]));
    }
}

/* ---- tiles ---- */

/* 16 rows' blocks, `stride` bytes apart. */
GGML_TEMPLATE void blocks_to_tile(uint32_t type, uint32_t groups, const uint8_t *restrict from, size_t stride,
                                  uint8_t *restrict tile)
{
    const ggml_fields *f = fields_of(type);
    const bool one = f->first != GGML_NONE, two = f->second != GGML_NONE;
    uint8_t *scales = tile + (two ? 4 : one ? 2 : 0) * QSF_TILE_ROWS,
        *codes = scales + f->n_scales * QSF_TILE_ROWS;
    for (uint32_t r = 0; r < QSF_TILE_ROWS; r++) {
        const uint8_t *b = from + r * stride;
        if (one) memcpy(tile + 2 * r, b + f->first, 2);
        if (counts_up(type)) tile[2 * r + 1] ^= 0x80;
        if (two) memcpy(tile + 2 * QSF_TILE_ROWS + 2 * r, b + f->second, 2);
        GGML_UNROLL
        for (uint32_t i = 0; i < f->n_scales; i++) scales[i * QSF_TILE_ROWS + r] = b[f->scales + i];
    }
    for (uint32_t r = 0; r < QSF_TILE_ROWS; r += GGML_ROWS) {
        plane_to_tile(type, f, plane_low(f, groups), from + r * stride, stride, codes + 4 * r);
        if (plane_high(f, groups).bits)
            plane_to_tile(type, f, plane_high(f, groups), from + r * stride, stride, codes + 4 * r);
    }
}

GGML_TEMPLATE void strip_to_tiles(uint32_t type, uint32_t groups, const uint8_t *restrict from, size_t blocks,
                                  size_t each, uint8_t *restrict to)
{
    for (size_t b = 0; b < blocks; b++)
        blocks_to_tile(type, groups, from + b * each, blocks * each, to + b * each * QSF_TILE_ROWS);
}

static void strip_of_type(uint32_t type, uint32_t groups, const uint8_t *restrict from, size_t blocks,
                          size_t each, uint8_t *restrict to)
{
    (void)groups;
    switch (type) {
#define CASE(k, groups) case k: strip_to_tiles(k, groups, from, blocks, each, to); break;
    GGML_EACH_QUICK(CASE)
#undef CASE
    default:
        if (qsf_iq_type(type))
            for (size_t b = 0; b < blocks; b++)
                qsf_iq_to_tile(type, from + b * each, blocks * each, to + b * each * QSF_TILE_ROWS);
        GGML_ELSE(strip_to_tiles(type, groups, from, blocks, each, to))
    }
}

/* What the threads of a pool share: a part of each tensor's strips is a piece. */
typedef struct tiles_run {
    qsf_tensor *const *t;
    uint8_t *const *data;           /* of each, to be written */
    uint32_t n, n_pieces;
    uint8_t *strips;                /* [threads][strip_room] */
    size_t   strip_room;
} tiles_run;

static void tensor_to_tiles(const qsf_tensor *t, uint8_t *data, uint64_t from, uint64_t until, uint8_t *strip)
{
    const size_t strip_bytes = qsf_ggml_strip_bytes(t), blocks = t->cols / t->block,
        each = strip_bytes / QSF_TILE_ROWS / blocks;
    for (uint64_t i = from; i < until; i++) {
        uint8_t *to = data + i * strip_bytes;
        const size_t here = (size_t)QSF_MIN(t->rows - i * QSF_TILE_ROWS, QSF_TILE_ROWS) * each * blocks;
        memcpy(strip, to, here);
        memset(strip + here, 0, strip_bytes - here);
        strip_of_type(t->type, t->block / 32, strip, blocks, each, to);
    }
}

static void tiles_piece(void *arg, uint32_t thread, uint32_t piece)
{
    const tiles_run *run = arg;
    for (uint32_t i = 0; i < run->n; i++) {
        const uint64_t strips = qsf_ceil_div(run->t[i]->rows, QSF_TILE_ROWS);
        const qsf_range mine = qsf_range_of((size_t)strips, piece, run->n_pieces);
        uint8_t *strip = run->strips + thread * run->strip_room;
        if (run->t[i]->packing > 1) {
            const bool all = !qsf_stored_shares(run->t[i]);
            if (!all) qsf_stored_to_tiles(run->t[i], run->data[i], mine.begin, mine.end, strip);
            else if (i % run->n_pieces == piece)
                qsf_stored_to_tiles(run->t[i], run->data[i], 0, strips, strip);
            continue;
        }
        tensor_to_tiles(run->t[i], run->data[i], mine.begin, mine.end, strip);
    }
}

void qsf_ggml_to_tiles(qsf_tensor *const *t, uint8_t *const *data, uint32_t n, void *strips, qsf_pool *pool)
{
    enum { ALONE = 1 << 18 };       /* bytes that are there sooner than another thread */
    tiles_run run = { .t = t, .data = data, .n = n, .n_pieces = 1, .strips = strips };
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        run.strip_room = QSF_MAX(run.strip_room, qsf_ggml_strip_bytes(t[i]));
        bytes += t[i]->bytes;
    }
    if (pool && bytes > ALONE) {
        run.n_pieces = qsf_pool_pieces(pool, UINT32_MAX);
        qsf_pool_run(pool, run.n_pieces, t[0]->rows, tiles_piece, &run);
    } else {
        tiles_piece(&run, 0, 0);
    }
    for (uint32_t i = 0; i < n; i++) {
        const int type = qsf_ggml_tile_type(t[i]);
        assert(type >= 0 && t[i]->data == data[i]);
        assert(t[i]->packing > 1 || qsf_ggml_strip_bytes(t[i]) ==
                                    (size_t)qsf_block_bytes((uint32_t)type, t[i]->block) *
                                             QSF_TILE_ROWS * (t[i]->cols / t[i]->block));
        t[i]->bytes = qsf_ggml_tiled_bytes(t[i]);
        t[i]->type = (uint8_t)type;
        t[i]->packing = 1;
    }
}

GGML_TEMPLATE void tile_to_block(uint32_t type, uint32_t groups, const uint8_t *restrict tile, uint32_t r,
                                 uint8_t *restrict to)
{
    const ggml_fields *f = fields_of(type);
    if (f->first != GGML_NONE) {
        memcpy(to + f->first, tile + 2 * r, 2);
        if (counts_up(type)) to[f->first + 1] ^= 0x80;
        tile += 2 * QSF_TILE_ROWS;
    }
    if (f->second != GGML_NONE) {
        memcpy(to + f->second, tile + 2 * r, 2);
        tile += 2 * QSF_TILE_ROWS;
    }
    for (uint32_t i = 0; i < f->n_scales; i++, tile += QSF_TILE_ROWS) to[f->scales + i] = tile[r];
    plane_to_block(type, f, plane_low(f, groups), tile + 4 * r, to);
    if (plane_high(f, groups).bits) plane_to_block(type, f, plane_high(f, groups), tile + 4 * r, to);
}

void qsf_ggml_from_tile(uint32_t type, const uint8_t *tile, uint32_t r, uint8_t *block)
{
#if defined(QSF_SMALL_CODE)
#  define CASE(type, n) case type: groups = n; break;
    uint32_t groups;
#else
#  define CASE(type, groups) case type: tile_to_block(type, groups, tile, r, block); return;
#endif
    switch (type) {
    GGML_EACH_SMALL(CASE)
    GGML_EACH_SUPER(CASE)
    default: qsf_iq_from_tile(type, tile, r, block); return;
    }
#undef CASE
#if defined(QSF_SMALL_CODE)
    tile_to_block(type, groups, tile, r, block);
#endif
}

#undef GGML_TEMPLATE
#undef GGML_UNROLL
#undef GGML_ROWS
#undef GGML_EACH_SMALL
#undef GGML_EACH_SUPER
#undef GGML_EACH_OWN
#undef GGML_EACH_QUICK
#undef GGML_ELSE
