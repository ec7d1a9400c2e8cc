/* Tensor types: sizes, values, and the way to tiles and back.
 * SPDX-License-Identifier: MIT */
#include "test.h"
#include "model/roles.h"
#include "tensor/types.h"
#include "tensor/ggml_tiles.h"
#include "tensor/table.h"
#include "tensor/trellis.h"
#include "golden/types_golden.h"

static const uint32_t tiling[] = { QSF_T_2BIT_SYM, QSF_T_2BIT, QSF_T_3BIT, QSF_T_4BIT,
                                   QSF_T_TERNARY, QSF_T_8BIT,
                                   QSF_T_4BIT_S, QSF_T_5BIT_S, QSF_T_6BIT_S, QSF_T_3BIT_S,
                                   QSF_T_2BIT_S, QSF_T_TERNARY2, QSF_T_TERNARY5, QSF_T_QK256,
                                   QSF_T_TABLE4, QSF_T_TABLE3 };
static const uint32_t blocks[] = { 32, 64, 128, 256 };

static uint64_t seed;
static uint32_t rnd(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

static qsf_tensor make(uint32_t type, uint32_t packing, uint32_t block, uint32_t rows, uint32_t cols)
{
    qsf_tensor t = { .type = (uint8_t)type, .packing = (uint8_t)packing, .block = (uint16_t)block,
                     .rows = rows, .cols = cols };
    CHECK_EQ(qsf_tensor_bytes(type, packing, block, rows, cols, &t.bytes, NULL), QSF_OK);
    t.data = calloc(1, (size_t)t.bytes);
    return t;
}

/* Random codes, scales and zeros that are plain numbers. */
static void fill(qsf_tensor *t)
{
    const uint32_t each = qsf_block_bytes(t->type, t->block);
    uint8_t *p = (uint8_t *)(uintptr_t)t->data;
    for (uint64_t i = 0; i < t->bytes; i++) p[i] = (uint8_t)rnd();
    for (uint64_t at = 0; at < t->bytes && !qsf_type_bare(t->type); at += each) {
        if (qsf_type_scale_bytes(t->type) == 1) continue;       /* any byte is one */
        qsf_put16(p + at, qsf_f32_to_f16((float)(rnd() % 1000 + 1) / 4096));
        if (qsf_type_get(t->type)->has_zero)
            qsf_put16(p + at + 2, qsf_f32_to_f16((float)(rnd() % 1000) / -1024));
    }
}

/* Bit n of a little-endian bit string. */
static int bit(const uint8_t *p, uint32_t n) { return p[n / 8] >> n % 8 & 1; }

/* Digit n, from the left, of a byte of five in base 3, kept times 256 / 243, rounded up. */
static int digit(uint8_t byte, int n)
{
    int v = byte * 243 / 256;
    for (; n < 4; n++) v /= 3;
    return v % 3;
}

/* A table's scale byte: a sign, 4 bits of exponent, 3 of mantissa. */
static float table_scale(uint8_t e)
{
    const int exponent = e / 8 % 16, mantissa = exponent ? 8 + e % 8 : e % 8;
    return (float)ldexp(e & 128 ? -mantissa : mantissa, QSF_MAX(exponent, 1) - 18);
}

/* The value of column i of a block, by the words of types.h, one bit after another. */
static float plain_value(uint32_t type, uint32_t block, const uint8_t *p, uint32_t i)
{
    const float s = qsf_f16_to_f32(qsf_le16(p)), z = qsf_f16_to_f32(qsf_le16(p + 2));
    static const int table4[16] = { -50, -38, -29, -22, -16, -10, -5, 0, 5, 10, 15, 21, 28, 36, 46, 63 },
        table3[8] = { -34, -19, -9, 0, 8, 17, 29, 48 };
    const uint8_t *c = p + 2, *cz = p + 4, *ct = p + 1;
    /* codes after a scale, after scale and zero, after a byte */
#define FIELD2(q) (bit(q, 2 * i) + 2 * bit(q, 2 * i + 1))
#define FIELD4(q) (FIELD4_LOW(q) + 4 * bit(q, 4 * i + 2) + 8 * bit(q, 4 * i + 3))
#define FIELD4_LOW(q) (bit(q, 4 * i) + 2 * bit(q, 4 * i + 1))
    switch (type) {
    case QSF_T_2BIT_SYM: case QSF_T_2BIT: return s * (float)FIELD2(cz) + z;
    case QSF_T_3BIT: return s * (float)(FIELD2(cz) + 4 * bit(cz + block / 4, i)) + z;
    case QSF_T_4BIT: return s * (float)FIELD4(cz) + z;
    case QSF_T_TABLE4: return table_scale(*p) * (float)table4[FIELD4(ct)];
    case QSF_T_TABLE3: return table_scale(*p) * (float)table3[FIELD2(ct) + 4 * bit(ct + block / 4, i)];
    case QSF_T_TERNARY: return bit(c + block / 8, i) ? 0 : bit(c, i) ? -s : s;
    case QSF_T_8BIT: return s * (float)(int8_t)c[i];
    case QSF_T_2BIT_S: return s * (float)(FIELD2(c) - 2);
    case QSF_T_TERNARY2: return (float)FIELD2(p) - 1;
    case QSF_T_QK256: return (float[]){ -2, -1, 1, 2 }[FIELD2(p)];
    case QSF_T_TERNARY5:
        if (i < 160) return (float)digit(p[i % 32], (int)i / 32) - 1;
        if (i < 240) return (float)digit(p[32 + i % 16], (int)(i - 160) / 16) - 1;
        return (float)digit(p[48 + i % 4], (int)(i - 240) / 4) - 1;
    case QSF_T_3BIT_S: return s * (float)(FIELD2(c) + 4 * bit(c + block / 4, i) - 4);
    case QSF_T_4BIT_S: return s * (float)(FIELD4(c) - 8);
    case QSF_T_5BIT_S: return s * (float)(FIELD4(c) + 16 * bit(c + block / 2, i) - 16);
    case QSF_T_6BIT_S: return s * (float)(FIELD4(c) + 16 * FIELD2(c + block / 2) - 32);
    }
    return NAN;
}

TEST(types_rows_mean_what_the_header_says)
{
    for (size_t k = 0; k < QSF_ARRAY_LEN(tiling); k++)
        for (size_t b = qsf_type_bare(tiling[k]) ? 3 : 0; b < QSF_ARRAY_LEN(blocks); b++) {
            const uint32_t cols = 2 * blocks[b] + 5, each = qsf_block_bytes(tiling[k], blocks[b]);
            qsf_tensor t = make(tiling[k], 0, blocks[b], 3, cols);
            float *out = malloc(3 * cols * sizeof *out);
            seed = 100 * k + b;
            fill(&t);
            qsf_dequant_rows(&t, 0, 3, out);
            for (uint32_t r = 0; r < 3; r++)
                for (uint32_t i = 0; i < cols; i++) {
                    const uint8_t *p = (const uint8_t *)t.data + (r * 3 + i / blocks[b]) * each;
                    CHECK_NEAR(out[r * cols + i], plain_value(tiling[k], blocks[b], p, i % blocks[b]), 1e-6);
                }
            free(out);
            free((void *)(uintptr_t)t.data);
        }
}

TEST(types_tiles_hold_the_same_values)
{
    static const uint32_t rows[] = { 1, 15, 16, 17, 48 };
    for (size_t k = 0; k < QSF_ARRAY_LEN(tiling); k++)
        for (size_t b = qsf_type_bare(tiling[k]) ? 3 : 0; b < QSF_ARRAY_LEN(blocks); b++)
            for (size_t n = 0; n < QSF_ARRAY_LEN(rows); n++) {
                const uint32_t cols = blocks[b] * (uint32_t)(n + 1) - (n % 2 ? 3 : 0);
                qsf_tensor t = make(tiling[k], 0, blocks[b], rows[n], cols),
                    tiles = make(tiling[k], 1, blocks[b], rows[n], cols);
                float *x = malloc((size_t)rows[n] * cols * sizeof *x),
                    *y = malloc((size_t)rows[n] * cols * sizeof *y);
                seed = 1000 * k + 10 * b + n;
                fill(&t);
                qsf_pack_tiles(&t, (void *)(uintptr_t)tiles.data);
                qsf_dequant_rows(&t, 0, rows[n], x);
                qsf_dequant_rows(&tiles, 0, rows[n], y);
                CHECK(!memcmp(x, y, (size_t)rows[n] * cols * sizeof *x));
                qsf_dequant_rows(&tiles, rows[n] - 1, 1, y);
                CHECK(!memcmp(x + (size_t)(rows[n] - 1) * cols, y, cols * sizeof *x));
                free(x);
                free(y);
                free((void *)(uintptr_t)t.data);
                free((void *)(uintptr_t)tiles.data);
            }
}

/* The drawing in kernels/kernels.h, for one 4-bit tile and one 2-bit tile. */
TEST(types_tile_bytes_stand_where_kernels_expect_them)
{
    qsf_tensor t = make(QSF_T_4BIT_S, 0, 32, 16, 32), tile = make(QSF_T_4BIT_S, 1, 32, 16, 32);
    uint8_t *p = (uint8_t *)(uintptr_t)t.data;
    qsf_put16(p + 5 * 18, 0x3c00);
    p[5 * 18 + 2 + 10 / 2] = 0x70;               /* row 5: column 10 is 0, column 11 is 7 */
    p[5 * 18 + 2 + 14 / 2] = 0x09;               /* column 14 is 9 */
    qsf_pack_tiles(&t, (void *)(uintptr_t)tile.data);
    const uint8_t *g = tile.data;
    CHECK_EQ(qsf_le16(g + 2 * 5), 0x3c00);
    CHECK_EQ(g[32 + 64 * 1 + 4 * 5 + 3], 7);     /* 11 = 8 * 1 + 3, low nibble */
    CHECK_EQ(g[32 + 64 * 1 + 4 * 5 + 2], 0x90);  /* 14 = 8 * 1 + 4 + 2, high nibble */
    free(p);
    free((void *)(uintptr_t)g);

    t = make(QSF_T_2BIT, 0, 32, 16, 32);
    tile = make(QSF_T_2BIT, 1, 32, 16, 32);
    p = (uint8_t *)(uintptr_t)t.data;
    qsf_put16(p + 15 * 12 + 2, 0x4000);
    p[15 * 12 + 4 + 27 / 4] = 3 << 2 * (27 % 4); /* row 15: column 27 is 3 */
    qsf_pack_tiles(&t, (void *)(uintptr_t)tile.data);
    g = tile.data;
    CHECK_EQ(qsf_le16(g + 32 + 2 * 15), 0x4000);
    CHECK_EQ(g[64 + 64 * 1 + 4 * 15 + 3], 3 << 4);   /* 27 = 16 * 1 + 4 * 2 + 3 */
    free(p);
    free((void *)(uintptr_t)g);
}

/* The words of docs/format.md, one step after another, on random bytes. */
TEST(types_trellises_mean_what_the_format_says)
{
    for (unsigned k = 2; k <= 5; k++) {
        const uint32_t rows = 37, cols = 3 * 64 - 11;
        static float out[37 * 3 * 64];
        qsf_tensor t = make(QSF_T_TRELLIS2 + k - 2, 1, 64, rows, cols);
        uint8_t *p = (uint8_t *)(uintptr_t)t.data;
        CHECK_EQ(t.bytes, 3 * 3 * (16 + 128 * k));
        seed = k;
        for (uint64_t i = 0; i < t.bytes; i++) p[i] = (uint8_t)rnd();
        qsf_dequant_rows(&t, 0, rows, out);
        for (uint32_t r = 0; r < rows; r++) {
            unsigned u1 = 0, u2 = 0, u3 = 0;        /* of the steps before */
            for (uint32_t step = 0; step < 3 * 64; step++) {
                const uint32_t f = step % 8, b = step % 32 / 8, col = step / 32 * 32 + 4 * f + b;
                const uint8_t *tile = p + (size_t)(r / 16 * 3 + step / 64) * (16 + 128 * k),
                    *g = tile + 16 + step % 64 / 32 * 64 * k + 4 * (r % 16) + b;
                const unsigned e = tile[r % 16], u = g[64 * (k - 1)] >> f & 1u,
                    m = k == 2 ? g[0] >> f & 1u : k == 5 ? g[64 * (f / 2)] >> 4 * (f % 2) & 15u
                        : (g[64 * (f / 4)] >> 2 * (f % 4) & 3u) | (k == 4 ? (g[128] >> f & 1u) << 2 : 0);
                const int8_t level = qsf_trellis_levels[k - 2][4 * m + 2 * (u ^ u1 ^ u3) + u2];
                const double scale = e ? ldexp(8 + e % 8, (int)(e / 8) - 30) : 0;
                if (col < cols) CHECK_NEAR(out[r * cols + col], scale * level, 0);
                u3 = u2, u2 = u1, u1 = u;
            }
        }
        for (int i = 0; i < 64; i++) {
            CHECK_EQ(qsf_trellis_levels[k - 2][i], -qsf_trellis_levels[k - 2][63 - i]);
            CHECK_EQ(qsf_trellis_levels[k - 2][i], qsf_trellis_levels[k - 2][i % (2 << k)]);
        }
        free(p);
    }
}

/* Every scale comes back as its byte, and what lies between two goes to the nearer; levels fit
 * seven bits and have an exact zero. */
TEST(types_table_scales_and_levels)
{
    for (int sign = 0; sign < 256; sign += 128)
        for (int e = 1; e < 127; e++) {
            const float a = qsf_table_scale((uint8_t)(e | sign)),
                b = qsf_table_scale((uint8_t)((e + 1) | sign));
            CHECK(sign ? b < a && a < 0 : b > a && a > 0);
            CHECK_NEAR(a, table_scale((uint8_t)(e | sign)), 0);
            CHECK_EQ(qsf_table_scale_near(a), e | sign);
            CHECK_EQ(qsf_table_scale_near(a + 0.49f * (b - a)), e | sign);
            CHECK_EQ(qsf_table_scale_near(a + 0.51f * (b - a)), (e + 1) | sign);
        }
    CHECK_EQ(qsf_table_scale_near(0), 0);
    CHECK_EQ(qsf_table_scale_near(-0.49f * qsf_table_scale(1)), 0);
    CHECK_EQ(qsf_table_scale_near(-0.51f * qsf_table_scale(1)), 129);
    CHECK_EQ(qsf_table_scale_near(-1e30f), 255);
    CHECK_NEAR(qsf_table_scale(127), 1.875, 0);
    for (uint32_t type = QSF_T_TABLE4; type <= QSF_T_TABLE3; type++) {
        const uint32_t n = 1u << qsf_type_get(type)->bits;
        CHECK_EQ(qsf_table_level(type, n / 2 - 1), 0);
        for (uint32_t c = 0; c < 16; c++) {
            CHECK_EQ(qsf_table_level(type, c), qsf_table_level(type, c % n));
            CHECK(qsf_table_level(type, c) >= -63 && qsf_table_level(type, c) <= 63);
            if (c % n) CHECK(qsf_table_level(type, c) > qsf_table_level(type, c - 1));
        }
    }
}

TEST(types_trellis_scales_are_the_nearest)
{
    CHECK_EQ(qsf_trellis_scale_near(0), 0);
    for (unsigned e = 1; e < 255; e++) {
        const float a = qsf_trellis_scale((uint8_t)e), b = qsf_trellis_scale((uint8_t)(e + 1));
        CHECK(a < b);
        CHECK_EQ(qsf_trellis_scale_near(a), e);
        CHECK_EQ(qsf_trellis_scale_near(a + 0.49f * (b - a)), e);
        CHECK_EQ(qsf_trellis_scale_near(a + 0.51f * (b - a)), e + 1);
    }
    CHECK_EQ(qsf_trellis_scale_near(0.49f * qsf_trellis_scale(1)), 0);
    CHECK_EQ(qsf_trellis_scale_near(0.51f * qsf_trellis_scale(1)), 1);
    CHECK_EQ(qsf_trellis_scale_near(1e30f), 255);
    CHECK_NEAR(qsf_trellis_scale(255), 30, 0);
}

TEST(types_gguf_values_equal_the_python_package)
{
    float out[256];
    for (size_t k = 0; k < QSF_ARRAY_LEN(types_golden); k++) {
        const uint32_t type = QSF_T_GGML + types_golden[k].type, cols = types_golden[k].cols;
        qsf_tensor t = { .type = (uint8_t)type, .block = (uint16_t)(1u << qsf_type_get(type)->own_block),
                         .rows = 1, .cols = cols, .data = types_golden[k].bytes };
        CHECK_EQ(qsf_tensor_bytes(type, 0, t.block, 1, cols, &t.bytes, NULL), QSF_OK);
        qsf_dequant_rows(&t, 0, 1, out);
        for (uint32_t i = 0; i < cols; i++) {
            const float want = qsf_f32_from_bits(types_golden[k].bits[i]);
            if (fabsf(out[i] - want) > 1e-6f * fabsf(want) + 1e-6f)
                printf("      %s value %u\n", qsf_type_get(type)->name, i);
            CHECK_NEAR(out[i], want, 1e-6 * fabsf(want) + 1e-6);
        }
    }
}

/* Bit for bit what the package and llama.cpp make of many random blocks. */
TEST(types_gguf_values_have_the_same_bits)
{
    for (size_t k = 0; k < QSF_ARRAY_LEN(types_sums); k++) {
        const uint32_t type = QSF_T_GGML + types_sums[k].type, block = 1u << qsf_type_get(type)->own_block,
            each = qsf_type_get(type)->own_bytes;
        qsf_tensor t = make(type, 0, block, TYPES_MANY, block);
        uint8_t *p = (uint8_t *)(uintptr_t)t.data;
        float *out = malloc((size_t)TYPES_MANY * block * sizeof *out);
        seed = types_sums[k].type;
        for (uint64_t i = 0; i < t.bytes; i++) p[i] = (uint8_t)rnd();
        for (uint64_t i = 0; types_sums[k].half >= 0 && i < t.bytes; i += each)
            p[i + (uint32_t)types_sums[k].half + 1] &= 0xbf;
        qsf_dequant_rows(&t, 0, TYPES_MANY, out);
        for (uint32_t i = 0; i < TYPES_MANY * block; i++) {
            const uint32_t bits = qsf_f32_bits(out[i]);
            qsf_put32((uint8_t *)&out[i], bits);
        }
        const uint32_t crc = qsf_crc32(0, (const uint8_t *)out, (size_t)TYPES_MANY * block * 4);
        if (crc != types_sums[k].crc) printf("      %s\n", qsf_type_get(type)->name);
        CHECK_EQ(crc, types_sums[k].crc);
        free(out);
        free(p);
    }
}

TEST(types_of_gguf_are_all_tested)
{
    for (uint32_t type = QSF_T_GGML; type < 256; type++) {
        bool golden = false;
        for (size_t k = 0; k < QSF_ARRAY_LEN(types_golden); k++)
            golden |= type == QSF_T_GGML + types_golden[k].type;
        CHECK_EQ(golden, qsf_type_get(type) != NULL);
    }
}

/* Every GGUF type of blocks: random bytes into tiles and back, block by block and as floats. */
TEST(types_gguf_tiles_lose_nothing)
{
    static const uint8_t types[] = {
        QSF_T_Q4_0, QSF_T_Q4_1, QSF_T_Q5_0, QSF_T_Q5_1, QSF_T_Q8_0, QSF_T_Q2_K, QSF_T_Q3_K, QSF_T_Q4_K,
        QSF_T_Q5_K, QSF_T_Q6_K, QSF_T_IQ4_NL, QSF_T_IQ4_XS, QSF_T_TQ1_0, QSF_T_TQ2_0, QSF_T_MXFP4,
        QSF_T_NVFP4, QSF_T_Q1_0, QSF_T_Q2_0, QSF_T_Q8_K,
        QSF_T_IQ2_XXS, QSF_T_IQ2_XS, QSF_T_IQ2_S, QSF_T_IQ3_XXS, QSF_T_IQ3_S, QSF_T_IQ1_S, QSF_T_IQ1_M,
    };
    for (size_t k = 0; k < QSF_ARRAY_LEN(types); k++) {
        const uint32_t type = types[k], block = 1u << qsf_type_get(type)->own_block, cols = 3 * block,
            rows = k % 2 ? 48 : 33 + (uint32_t)k;
        const uint32_t each = qsf_type_get(type)->own_bytes;
        qsf_tensor t = make(type, 0, block, rows, cols), tiles = t;
        uint8_t *data = malloc((size_t)qsf_ggml_tiled_bytes(&t)),
            *strip = malloc(3 * qsf_ggml_strip_bytes(&t)), back[QSF_MAX_BLOCK_BYTES];
        qsf_tensor *const one = &tiles;
        qsf_pool *pool = NULL;
        if (k % 3) CHECK_EQ(qsf_pool_new(qsf_platform_native(), 3, &pool, NULL), QSF_OK);
        float *x = malloc((size_t)rows * cols * sizeof *x), *y = malloc((size_t)rows * cols * sizeof *y);
        seed = 77 + k;
        for (uint64_t i = 0; i < t.bytes; i++) ((uint8_t *)(uintptr_t)t.data)[i] = (uint8_t)rnd();
        memcpy(data, t.data, (size_t)t.bytes);
        qsf_dequant_rows(&t, 0, rows, x);
        CHECK(qsf_ggml_tile_type(&t) >= 0);
        tiles.data = data;
        qsf_ggml_to_tiles(&one, &data, 1, strip, pool);
        qsf_pool_free(pool);
        CHECK_EQ(tiles.packing, 1);
        CHECK_EQ(tiles.bytes, t.bytes / rows * ((rows + 15) / 16 * 16));
        qsf_dequant_rows(&tiles, 0, rows, y);
        /* NaN (random scales) differ in nothing that matters. */
        for (uint32_t i = 0; i < rows * cols; i++)
            if (x[i] == x[i] || y[i] == y[i]) CHECK_EQ(qsf_f32_bits(x[i]), qsf_f32_bits(y[i]));
        qsf_dequant_rows(&tiles, rows - 1, 1, y);
        for (uint32_t i = 0; i < cols; i++)
            if (x[(rows - 1) * cols + i] == x[(rows - 1) * cols + i])
                CHECK_EQ(qsf_f32_bits(x[(rows - 1) * cols + i]), qsf_f32_bits(y[i]));
        for (uint32_t r = 0; tiles.type >= QSF_T_GGML && r < rows; r++)
            for (uint32_t b = 0; b < 3; b++) {
                qsf_ggml_from_tile(type, data + (r / 16 * 3 + b) * 16 * each, r % 16, back);
                CHECK(!memcmp(back, (const uint8_t *)t.data + (r * 3 + b) * each, each));
            }
        /* what fills the last strip is zero */
        for (uint32_t r = rows; tiles.type >= QSF_T_GGML && r < (rows + 15) / 16 * 16; r++) {
            qsf_ggml_from_tile(type, data + r / 16 * 3 * 16 * each, r % 16, back);
            for (uint32_t i = 0; i < each; i++) CHECK_EQ(back[i], 0);
        }
        free(x);
        free(y);
        free(data);
        free(strip);
        free((void *)(uintptr_t)t.data);
    }
}

TEST(types_gguf_tile_types)
{
    qsf_tensor t = { .type = QSF_T_Q4_K, .block = 256, .rows = 32, .cols = 512, .bytes = 32 * 288 };
    CHECK_EQ(qsf_ggml_tile_type(&t), QSF_T_Q4_K);
    CHECK_EQ(qsf_ggml_tiled_bytes(&t), t.bytes);
    t.rows = 33, t.bytes = 33 * 288;
    CHECK_EQ(qsf_ggml_tile_type(&t), QSF_T_Q4_K);
    CHECK_EQ(qsf_ggml_tiled_bytes(&t), 48 * 288);
    t.rows = 32, t.packing = 1;
    CHECK_EQ(qsf_ggml_tile_type(&t), -1);
    t.packing = 0, t.type = QSF_T_4BIT;
    CHECK_EQ(qsf_ggml_tile_type(&t), -1);
    t.type = QSF_T_Q4_0, t.block = 32;
    CHECK_EQ(qsf_ggml_tile_type(&t), QSF_T_4BIT_S);
}

TEST(types_floats_are_read_from_any_address)
{
    static const float want[6] = { 0, -1, 0.5f, 65504, 6.103515625e-05f, -3 };
    uint8_t bytes[1 + 24];
    float out[6];
    qsf_tensor t = { .type = QSF_T_F32, .block = 1, .rows = 2, .cols = 3, .data = bytes + 1 };
    for (int i = 0; i < 6; i++) qsf_put32(bytes + 1 + 4 * i, qsf_f32_bits(want[i]));
    qsf_dequant_rows(&t, 0, 2, out);
    CHECK(!memcmp(out, want, sizeof want));
    t.type = QSF_T_F16;
    for (int i = 0; i < 6; i++) qsf_put16(bytes + 1 + 2 * i, qsf_f32_to_f16(want[i]));
    qsf_dequant_rows(&t, 1, 1, out);
    CHECK(!memcmp(out, want + 3, 12));
    t.type = QSF_T_BF16;
    for (int i = 0; i < 6; i++) qsf_put16(bytes + 1 + 2 * i, (uint16_t)(qsf_f32_bits(want[i]) >> 16));
    qsf_dequant_rows(&t, 0, 2, out);
    CHECK_NEAR(out[1], -1, 0);
    CHECK_NEAR(out[3], 65280, 0);
}

TEST(types_half_floats_are_exact)
{
    uint8_t *bytes = malloc(2 * 65536);
    float *out = malloc(65536 * sizeof *out);
    const qsf_tensor t = { .type = QSF_T_F16, .block = 1, .rows = 1, .cols = 65536, .data = bytes };
    for (uint32_t h = 0; h < 65536; h++) qsf_put16(bytes + 2 * h, (uint16_t)h);
    qsf_dequant_rows(&t, 0, 1, out);
    for (uint32_t h = 0; h < 65536; h++)
        CHECK_EQ(qsf_f32_bits(out[h]), qsf_f32_bits(qsf_f16_to_f32((uint16_t)h)));
    free(out);
    free(bytes);
}

TEST(types_have_the_sizes_of_the_specification)
{
    uint64_t bytes;
    CHECK_EQ(qsf_block_bytes(QSF_T_2BIT, 64), 20);
    CHECK_EQ(qsf_block_bytes(QSF_T_4BIT, 64), 36);
    CHECK_EQ(qsf_block_bytes(QSF_T_TERNARY, 64), 18);
    CHECK_EQ(qsf_block_bytes(QSF_T_8BIT, 64), 66);
    CHECK_EQ(qsf_block_bytes(QSF_T_TERNARY2, 256), 64);
    CHECK_EQ(qsf_block_bytes(QSF_T_TERNARY5, 256), 52);
    CHECK_EQ(qsf_block_bytes(QSF_T_QK256, 256), 64);
    CHECK_EQ(qsf_block_bytes(QSF_T_QK256, 64), 0);
    CHECK_EQ(qsf_block_bytes(QSF_T_2BIT_S, 32), 10);
    CHECK_EQ(qsf_block_bytes(QSF_T_Q4_K, 256), 144);
    CHECK_EQ(qsf_block_bytes(QSF_T_Q4_K, 64), 0);
    CHECK_EQ(qsf_block_bytes(QSF_T_4BIT, 48), 0);
    CHECK_EQ(qsf_block_bytes(QSF_T_F32, 1), 4);
    CHECK_EQ(qsf_tensor_bytes(QSF_T_4BIT, 1, 64, 17, 65, &bytes, NULL), QSF_OK);
    CHECK_EQ(bytes, 32 * 2 * 36);
    CHECK_EQ(qsf_tensor_bytes(QSF_T_SPARSE, 0, 1, 10, 3, &bytes, NULL), QSF_OK);
    CHECK_EQ(bytes, 11 * 4 + 3 * 4 + 8);
}

TEST(types_refuse_what_cannot_be)
{
    uint64_t bytes;
    qsf_error err = { 0 };
    CHECK_EQ(qsf_tensor_bytes(9, 0, 64, 1, 64, &bytes, &err), QSF_E_UNSUPPORTED);
    CHECK_EQ(qsf_tensor_bytes(QSF_T_MIXED, 0, 64, 1, 64, &bytes, NULL), QSF_E_UNSUPPORTED);
    CHECK_EQ(qsf_tensor_bytes(QSF_T_GGML + 1, 0, 1, 1, 64, &bytes, NULL), QSF_E_UNSUPPORTED);
    CHECK_EQ(qsf_tensor_bytes(UINT32_MAX, 0, 1, 1, 64, &bytes, NULL), QSF_E_UNSUPPORTED);
    CHECK_EQ(qsf_tensor_bytes(QSF_T_4BIT, 2, 64, 1, 64, &bytes, NULL), QSF_E_UNSUPPORTED);
    CHECK_EQ(qsf_tensor_bytes(QSF_T_F16, 1, 1, 16, 64, &bytes, NULL), QSF_E_UNSUPPORTED);
    CHECK_EQ(qsf_tensor_bytes(QSF_T_4BIT, 0, 33, 1, 64, &bytes, NULL), QSF_E_UNSUPPORTED);
    CHECK_EQ(qsf_tensor_bytes(QSF_T_TRELLIS3, 0, 64, 1, 64, &bytes, &err), QSF_E_UNSUPPORTED);
    CHECK_STR(err.text, "packing 0 of type trellis3 is unknown to this version");
    CHECK_EQ(qsf_tensor_bytes(QSF_T_TRELLIS5, 1, 32, 1, 64, &bytes, &err), QSF_E_UNSUPPORTED);
    CHECK_STR(err.text, "type trellis5 has no blocks of 32");
    CHECK_EQ(qsf_tensor_bytes(QSF_T_TABLE3 + 1, 1, 32, 1, 64, &bytes, &err), QSF_E_UNSUPPORTED);
    CHECK_STR(err.text, "tensor type 38 is unknown to this version");
    CHECK_EQ(qsf_tensor_bytes(QSF_T_Q4_K, 0, 256, 1, 255, &bytes, NULL), QSF_E_CORRUPT);
    CHECK_EQ(qsf_tensor_bytes(QSF_T_F32, 0, 1, 0, 1, &bytes, NULL), QSF_E_CORRUPT);
    CHECK_EQ(qsf_tensor_bytes(QSF_T_F32, 0, 1, UINT32_MAX, UINT32_MAX, &bytes, NULL), QSF_E_CORRUPT);
    CHECK(!qsf_type_tiles(QSF_T_F16));
    CHECK(!qsf_type_tiles(QSF_T_Q4_K));
    CHECK(qsf_type_tiles(QSF_T_5BIT_S));
    CHECK_STR(qsf_kind_name(QSF_K_ATTN_Q), "attn_q");
    CHECK_STR(qsf_kind_name(QSF_K_OUTLIERS + QSF_K_FFN_DOWN), "ffn_down.outliers");
    CHECK_STR(qsf_kind_name(QSF_K_SCALE + QSF_K_FFN_DOWN), "ffn_down.scale");
    CHECK_STR(qsf_kind_name(QSF_K_SCALE + QSF_K_FFN_NORM), "unknown kind");
    CHECK_STR(qsf_kind_name(148), "unknown kind");
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(types_rows_mean_what_the_header_says);
    RUN(types_tiles_hold_the_same_values);
    RUN(types_tile_bytes_stand_where_kernels_expect_them);
    RUN(types_trellises_mean_what_the_format_says);
    RUN(types_trellis_scales_are_the_nearest);
    RUN(types_table_scales_and_levels);
    RUN(types_gguf_values_equal_the_python_package);
    RUN(types_gguf_values_have_the_same_bits);
    RUN(types_of_gguf_are_all_tested);
    RUN(types_gguf_tiles_lose_nothing);
    RUN(types_gguf_tile_types);
    RUN(types_floats_are_read_from_any_address);
    RUN(types_half_floats_are_exact);
    RUN(types_have_the_sizes_of_the_specification);
    RUN(types_refuse_what_cannot_be);
    return test_end();
}
