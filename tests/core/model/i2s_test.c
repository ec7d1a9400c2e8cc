/* Layouts of 2-bit weights that other programs write: what Microsoft's code packed comes back, as
 * rows and as tiles, and GGUF files say by sizes which layout they have.
 * SPDX-License-Identifier: MIT */
#include "golden/i2s_golden.h"
#include "gguf_case.h"
#include "tensor/ggml_tiles.h"
#include "tensor/stored.h"

/* ---- layouts ---- */

/* t as tiles, in a copy that has room for them. */
static qsf_tensor tiled(const qsf_tensor *t, uint8_t **mem)
{
    const uint64_t room = QSF_MAX(t->bytes, qsf_ggml_tiled_bytes(t));
    uint8_t *strip = malloc(qsf_ggml_strip_bytes(t) + 1);
    *mem = malloc((size_t)room);
    memcpy(*mem, t->data, (size_t)t->bytes);
    qsf_tensor out = *t, *const list[1] = { &out };
    uint8_t *const data[1] = { *mem };
    out.data = *mem;
    qsf_ggml_to_tiles(list, data, 1, strip, NULL);
    free(strip);
    return out;
}

/* The values of t, unchanged and as tiles, are `want` times scale[block of 32 % 3]. */
static void check_values(const qsf_tensor *t, const int8_t *want, const float scale[3])
{
    uint8_t *mem;
    const size_t n = (size_t)t->rows * t->cols;
    float *rows = malloc(n * sizeof *rows), *tiles = malloc(n * sizeof *tiles);
    qsf_dequant_rows(t, 0, t->rows, rows);
    const qsf_tensor tile = tiled(t, &mem);
    CHECK_EQ(tile.packing, 1);
    CHECK_EQ(tile.type, t->type);
    qsf_dequant_rows(&tile, 0, t->rows, tiles);
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++)
        wrong += rows[i] != scale[i / 32 % 3] * (float)want[i] || tiles[i] != rows[i];
    CHECK_EQ(wrong, 0);
    free(rows);
    free(tiles);
    free(mem);
}

static qsf_tensor stored(uint32_t packing, uint32_t rows, uint32_t cols, const void *data)
{
    qsf_tensor t = { .packing = (uint8_t)packing, .rows = rows, .cols = cols, .data = data };
    qsf_stored_place(&t);
    return t;
}

TEST(what_microsofts_code_packs_comes_back)
{
    static const struct { uint32_t packing; const uint8_t *bytes[2]; size_t len[2]; } codes[] = {
        { QSF_STORED_I2S_128, { i2s_x86_0, i2s_x86_1 }, { sizeof i2s_x86_0, sizeof i2s_x86_1 } },
        { QSF_STORED_I2S_64, { i2s_arm_0, i2s_arm_1 }, { sizeof i2s_arm_0, sizeof i2s_arm_1 } },
        { QSF_STORED_I2S_ROWS4, { i2s_rows4_0, i2s_rows4_1 }, { sizeof i2s_rows4_0, sizeof i2s_rows4_1 } },
    };
    static const uint32_t shapes[][2] = { { 20, 256 }, { 16, 104 } };
    static const float ones[3] = { 1, 1, 1 };
    for (size_t i = 0; i < QSF_ARRAY_LEN(codes); i++)
        for (int k = 0; k < 2; k++) {
            const qsf_tensor t = stored(codes[i].packing, shapes[k][0], shapes[k][1], codes[i].bytes[k]);
            CHECK_EQ(t.type, QSF_T_TERNARY2);
            CHECK_EQ(t.bytes + 32, codes[i].len[k]);
            CHECK_NEAR(qsf_lef32(codes[i].bytes[k] + t.bytes), 0.75, 0);
            check_values(&t, k ? i2s_values_1 : i2s_values_0, ones);
        }
}

static void fill(uint8_t *bytes, size_t size, const i2s_place *base, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const size_t end = i + 1 < n ? base[i + 1].at : size;
        memset(bytes + base[i].at, (int)base[i].value, end - base[i].at);
    }
}

/* Files of lookup kernels: single weights in a matrix of zeros. */
TEST(weights_in_the_order_of_lookup_kernels_come_back)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(tl_golden); i += TEST_EVERY) {
        const uint32_t rows = tl_golden[i].rows, cols = tl_golden[i].cols;
        const uint32_t packing = qsf_stored_tl(tl_golden[i].tl == 2 ? QSF_STORED_TL2 : QSF_STORED_TL1, rows,
                                               cols);
        CHECK(packing != 0);
        if (!packing) continue;
        qsf_tensor t = stored(packing, rows, cols, NULL);
        CHECK_EQ(t.bytes - qsf_stored_codes_at(&t), tl_golden[i].bytes);
        uint8_t *mem = malloc((size_t)t.bytes), *tiles, *codes = mem + qsf_stored_codes_at(&t);
        fill(codes, tl_golden[i].bytes, tl_golden[i].base, tl_golden[i].n_base);
        for (uint32_t k = 0; k < tl_golden[i].n_changes; k++)
            codes[tl_golden[i].changes[k].at] = (uint8_t)tl_golden[i].changes[k].value;
        t.data = mem;
        const qsf_tensor tile = tiled(&t, &tiles);
        float *row = malloc(cols * sizeof *row), *same = malloc(cols * sizeof *same);
        uint32_t at = 0, wrong = 0;
        for (uint32_t r = 0; r < rows; r++) {
            qsf_dequant_rows(&tile, r, 1, row);
            if (r % 61 == 0 || r + 1 == rows) {
                qsf_dequant_rows(&t, r, 1, same);
                wrong += memcmp(row, same, cols * sizeof *row) != 0;
            }
            for (uint32_t c = 0; c < cols; c++) {
                const bool here = at < tl_golden[i].n_weights && tl_golden[i].weights[at].row == r &&
                    tl_golden[i].weights[at].col == c;
                wrong += row[c] != (here ? (float)tl_golden[i].weights[at].value : 0);
                at += here;
            }
        }
        CHECK_EQ(at, tl_golden[i].n_weights);
        CHECK_EQ(wrong, 0);
        free(row);
        free(same);
        free(tiles);
        free(mem);
    }
    CHECK_EQ(qsf_stored_tl(QSF_STORED_TL1, 14336, 4096), 0);     /* two kernels, and no way to tell */
    CHECK_EQ(qsf_stored_tl(QSF_STORED_TL2, 2560, 6912), 0);
}

/* Blocks of 32 codes with scales: packed here, by their description. */
static void pack_two(uint32_t rows, uint32_t cols, const int8_t *v, uint8_t *codes, size_t stride)
{
    for (size_t i = 0; i < (size_t)rows * cols; i++)
        codes[i / 32 * stride + i % 32 / 4] |= (uint8_t)((v[i] + 2) << 2 * (i % 4));
}

TEST(blocks_of_32_with_scales_within_and_beside_come_back)
{
    enum { ROWS = 19, COLS = 96, BLOCKS = ROWS * COLS / 32 };
    int8_t v[ROWS * COLS];
    uint8_t mem[1 << 14];
    static const float scales[3] = { 0.125f, -1.5f, 1 };
    for (size_t i = 0; i < sizeof v; i++) v[i] = (int8_t)(i * i % 7 % 4) - 2;
    for (uint32_t packing = QSF_STORED_BITNET32; packing <= QSF_STORED_SPLIT32_BF16; packing++) {
        qsf_tensor t = stored(packing, ROWS, COLS, mem);
        const size_t inside = packing == QSF_STORED_BITNET32;
        CHECK_EQ(t.type, QSF_T_2BIT_S);
        CHECK(t.bytes <= sizeof mem);
        memset(mem, 0, sizeof mem);
        pack_two(ROWS, COLS, v, mem + qsf_stored_codes_at(&t), inside ? 10 : 8);
        for (size_t i = 0; i < BLOCKS; i++) {
            uint8_t *to = inside ? mem + 10 * i + 8
                : mem + qsf_stored_scales_at(&t) + i * (packing == QSF_STORED_SPLIT32_F32 ? 4 : 2);
            if (packing == QSF_STORED_SPLIT32_F32) qsf_put32(to, qsf_f32_bits(scales[i % 3]));
            else if (packing == QSF_STORED_SPLIT32_BF16)
                qsf_put16(to, (uint16_t)(qsf_f32_bits(scales[i % 3]) >> 16));
            else qsf_put16(to, qsf_f32_to_f16(scales[i % 3]));
        }
        check_values(&t, v, scales);
        float bad;
        CHECK(qsf_stored_scales_ok(&t, &bad));
        const bool wide = packing == QSF_STORED_SPLIT32_F32 || packing == QSF_STORED_SPLIT32_BF16;
        qsf_put16(mem + t.bytes - 2, wide ? 0x7fc0 : 0x7e00);
        CHECK(!qsf_stored_scales_ok(&t, &bad));
    }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(what_microsofts_code_packs_comes_back);
    RUN(weights_in_the_order_of_lookup_kernels_come_back);
    RUN(blocks_of_32_with_scales_within_and_beside_come_back);
    return test_end();
}
