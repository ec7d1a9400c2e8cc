/* Checks of 2-bit weights that are looked up.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_LOOK_UPS_H
#define KERNELS_LOOK_UPS_H

#include "lut.h"
#include "matmul.h"

TEST(turned_tiles_hold_the_codes_where_they_say)
{
    enum { BLOCKS = 3, BYTES = BLOCKS * QSF_LUT_TILE };
    static uint8_t tiles[BYTES], turned[BYTES], again[BYTES];
    uint32_t seed = 7;
    for (int i = 0; i < BYTES; i++) tiles[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
    qsf_lut_turn(turned, tiles, BYTES);
    for (uint32_t b = 0; b < BLOCKS; b++)
        for (int r = 0; r < 16; r++)
            for (uint32_t c = 0; c < 256; c++)
                CHECK_EQ(turned[b * QSF_LUT_TILE + c / 4 * 16 + (uint32_t)r] >> 2 * (c % 4) & 3,
                         tile_code(tiles + b * QSF_LUT_TILE, QSF_F_T2, r, c));
    memcpy(again, tiles, BYTES);
    qsf_lut_turn(again, again, BYTES);
    CHECK(!memcmp(again, turned, BYTES));
    qsf_lut_turn_back(again, turned, BYTES);
    CHECK(!memcmp(again, tiles, BYTES));
    qsf_lut_turn_back(turned, turned, BYTES);
    CHECK(!memcmp(turned, tiles, BYTES));
}

enum { LUT_BLOCKS = 7, LUT_TILES = 5 };

/* One shape in a set: codes and activations at random, or all the largest, where sums are the
 * largest too. */
static void lut_shape(const qsf_kernels *k, bool four, size_t tiles, size_t blocks, int kind)
{
    static uint8_t w[LUT_TILES * LUT_BLOCKS * QSF_LUT_TILE], turned[sizeof w];
    static int8_t q[LUT_BLOCKS * 256];
    static float d[LUT_BLOCKS * 4], s[LUT_BLOCKS * 8];
    static int16_t h[LUT_BLOCKS * 32];
    float want[16 * LUT_TILES], y[16 * LUT_TILES + 1];
    uint32_t seed = (uint32_t)(kind + 10 * blocks + 100 * tiles);
    const size_t bytes = tiles * blocks * QSF_LUT_TILE, cols = 256 * blocks;
    for (size_t i = 0; i < bytes; i++)
        w[i] = kind == 1 ? 0xff : kind == 2 ? 0 : (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
    qsf_lut_turn(turned, w, bytes);
    memset(s, 0, sizeof s);
    for (size_t i = 0; i < cols; i++) {
        seed = seed * 1664525 + 1013904223;
        q[i] = kind == 0 ? (int8_t)((seed >> 20) % 255 - 127) : kind == 3 && seed >> 31 ? -127 : 127;
        s[i / 32] += q[i];
    }
    for (size_t i = 0; i < cols / 64; i++) {
        seed = seed * 1664525 + 1013904223;
        d[i] = 0.001f + (float)(seed >> 8) * 1e-9f;
    }
    const qsf_act x = { .q = q, .d = d, .s = s, .h = h, .n = 1, .cols = (uint32_t)cols };
    const int form = four ? QSF_F_QK256 : QSF_F_T2;
    k->matvec[form](want, w, &x, tiles, blocks, 256);
    for (size_t i = 0; i < QSF_ARRAY_LEN(y); i++) y[i] = 12345;
    k->matvec_lut(y, turned, &x, tiles, blocks, four);
    for (size_t i = 0; i < 16 * tiles; i++) CHECK(y[i] == want[i]);
    CHECK(y[16 * tiles] == 12345);
}

static uint32_t lut_cpu;
TEST(look_ups_have_the_bits_of_products)
{
    static const char *const sets[] = { "scalar", "sse42", "avx2", "avxvnni", "avx512", "avx512vbmi",
                                        "avx512bf16", "amx", "neon", "dotprod", "i8mm", "wasm",
                                        "wasm-relaxed", "wasm-dot" };
    int n_sets = 0;
    for (size_t i = 0; i < QSF_ARRAY_LEN(sets); i++) {
        qsf_kernels k;
        if (qsf_kernels_init(&k, lut_cpu, sets[i], NULL)) continue;
        n_sets++;
        for (size_t tiles = 1; tiles <= LUT_TILES; tiles++)
            for (size_t blocks = 1; blocks <= LUT_BLOCKS; blocks++)
                for (int kind = 0; kind < 4; kind++)
                    for (int four = 0; four < 2; four++) lut_shape(&k, four, tiles, blocks, kind);
    }
    CHECK(n_sets > 0);
}

#endif
