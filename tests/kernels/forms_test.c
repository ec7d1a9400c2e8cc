/* The table of tile forms against the reference kernels: a tile is written by the table's facts
 * alone, and each code of each form must decode to what the table says.
 * SPDX-License-Identifier: MIT */
#include "forms.h"
#include "test.h"

enum { COLS = 256, MOST_BYTES = 16384 };

static uint32_t random_state = 1;
static uint32_t random_number(uint32_t n)
{
    random_state = random_state * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)random_state * n >> 32);
}

/* A row of activations that are 0 except in column k, where it is 1: a product with it is the
 * weights of column k. */
typedef struct one_hot {
    int8_t  q[COLS];
    float   d[COLS / 64], s[COLS / 32];
    int16_t h[COLS / 8];
    qsf_act x;
} one_hot;
static void one_hot_at(one_hot *a, uint32_t k)
{
    *a = (one_hot){ .d = { 1, 1, 1, 1 } };
    a->q[k] = 1;
    a->s[k / 32] = 1;
    a->h[k / 16 * 2 + (k % 4 >= 2)] = 1;
    a->x = (qsf_act){ .q = a->q, .d = a->d, .s = a->s, .h = a->h, .n = 1, .cols = COLS };
}

/* Writes some bits of a byte. */
static void put_bits(uint8_t *at, unsigned shift, unsigned bits, unsigned v)
{
    const unsigned mask = ((1u << bits) - 1) << shift;
    *at = (uint8_t)((*at & ~mask) | (v << shift & mask));
}

/* Writes a code at row r, column c, as kernels.h describes tiles. */
static void put_code(uint8_t *tile, qsf_form f, uint32_t r, uint32_t c, unsigned code)
{
    const unsigned bits = qsf_forms[f].bits;
    const uint32_t k = c % 32;
    uint8_t *g = tile + qsf_forms[f].head + (size_t)(c / 32) * qsf_forms[f].group + 4 * r + k % 4;
    if (bits == 8) {
        g[64 * (k / 4)] = (uint8_t)code;
    } else if (bits == 1) {
        put_bits(g, k / 4, 1, code);
    } else if (bits < 4) {
        put_bits(g + 64 * (k / 16), 2 * (k / 4 % 4), 2, code);
        if (bits == 3) put_bits(g + 128, k / 4, 1, code >> 2);
    } else {
        put_bits(g + 64 * (k / 8), 4 * (k / 4 % 2), 4, code);
        if (bits == 5) put_bits(g + 256, k / 4, 1, code >> 4);
        if (bits == 6) put_bits(g + 256 + 64 * (k / 16), 2 * (k / 4 % 4), 2, code >> 4);
    }
}

/* What is multiplied with the scale. */
static int code_value(qsf_form f, unsigned code)
{
    const int8_t *map = qsf_form_map(f);
    const int factor = map ? map[code] : qsf_forms[f].codes == QSF_CODES_INT8 ? (int8_t)code
        : qsf_forms[f].codes == QSF_CODES_BIT ? 2 * (int)code : (int)code;
    const int value = factor - qsf_forms[f].offset;
    return qsf_form_negated(f) ? -value : value;
}

static bool scales_of_blocks(qsf_form f)        /* a tile's row has one scale, which the head shows */
{
    const int scales = qsf_forms[f].scales;
    return scales != QSF_SCALES_SUPER && scales != QSF_SCALES_SUPER_MIN && scales != QSF_SCALES_UE4M3
        && scales != QSF_SCALES_CODEBOOK;
}

/* A head with scales that are finite and not 0. */
static void fill_head(uint8_t *head, qsf_form f)
{
    const int scales = qsf_forms[f].scales;
    for (uint32_t i = 0; i < qsf_forms[f].head; i++) head[i] = (uint8_t)random_number(256);
    for (uint32_t i = 0; i < 16; i++) {
        if (scales == QSF_SCALES_E8M0) head[i] = (uint8_t)(120 + random_number(16));
        if (scales == QSF_SCALES_TABLE)
            head[i] = (uint8_t)(random_number(2) << 7 | (12 * 8 + random_number(32)));
        if (scales == QSF_SCALES_F32) qsf_put16(head + 32 + 2 * i, (uint16_t)(0x3f80 + random_number(64)));
    }
    for (uint32_t i = 0; scales == QSF_SCALES_UE4M3 && i < 64; i++)
        head[i] = (uint8_t)(0x30 + random_number(24));
    const uint32_t halves = scales == QSF_SCALES_F16_ZERO || scales == QSF_SCALES_SUPER_MIN ? 32
        : scales == QSF_SCALES_F16 || scales == QSF_SCALES_SUPER ? 16 : 0;
    for (uint32_t i = 0; i < halves; i++)
        qsf_put16(head + 2 * i, (uint16_t)(0x3800 + random_number(0x800)));
}

static float head_scale(const uint8_t *head, qsf_form f, uint32_t r)
{
    switch (qsf_forms[f].scales) {
    case QSF_SCALES_NONE: return 1;
    case QSF_SCALES_E8M0: return ldexpf(1, head[r] - 128);
    case QSF_SCALES_F32:
        return qsf_f32_from_bits(qsf_le16(head + 2 * r) | (uint32_t)qsf_le16(head + 32 + 2 * r) << 16);
    case QSF_SCALES_TABLE: return qsf_table_scale(head[r]);
    default: return qsf_f16_to_f32(qsf_le16(head + 2 * r));
    }
}

typedef struct decoder { qsf_kernels k; uint8_t *tile; uint32_t block; } decoder;

/* The weight at row r, column c with each code there. */
static void decode_codes(const decoder *d, qsf_form f, uint32_t r, uint32_t c, float *y)
{
    one_hot a;
    one_hot_at(&a, c);
    for (unsigned code = 0; code < 1u << qsf_forms[f].bits; code++) {
        float row[16];
        put_code(d->tile, f, r, c, code);
        d->k.matvec[f](row, d->tile, &a.x, 1, 1, d->block);
        y[code] = row[r];
    }
}

static bool codes_are_written(qsf_form f)       /* the others do not stand for values one by one */
{
    const int codes = qsf_forms[f].codes;
    return codes != QSF_CODES_DIGIT && codes != QSF_CODES_TRELLIS && codes != QSF_CODES_CODEBOOK;
}

static void decoder_begin(decoder *d, qsf_form f)
{
    d->block = qsf_forms[f].block ? qsf_forms[f].block : 64;
    for (size_t i = 0; i < MOST_BYTES; i++) d->tile[i] = (uint8_t)random_number(256);
    fill_head(d->tile, f);
}

TEST(codes_offsets_tables_and_zeros_are_what_kernels_decode)
{
    static uint8_t tile[MOST_BYTES];
    decoder d = { .tile = tile };
    qsf_kernels_scalar(&d.k);
    for (int form = 0; form < QSF_N_FORMS; form++) {
        const qsf_form f = (qsf_form)form;
        const unsigned codes = 1u << qsf_forms[f].bits;
        if (!codes_are_written(f)) continue;
        for (int round = 0; round < 20; round++) {
            float y[256];
            decoder_begin(&d, f);
            const uint32_t r = random_number(16), c = random_number(d.block);
            decode_codes(&d, f, r, c, y);
            const int low = code_value(f, 0), high = code_value(f, codes - 1);
            float scale = (y[codes - 1] - y[0]) / (float)(high - low), zero = y[0] - scale * (float)low;
            if (scales_of_blocks(f)) {
                CHECK_NEAR(scale, head_scale(tile, f, r), 1e-5 * fabs(head_scale(tile, f, r)));
                scale = head_scale(tile, f, r);
                zero = qsf_form_has_zero(f) ? qsf_f16_to_f32(qsf_le16(tile + 32 + 2 * r)) : 0;
            } else if (!qsf_form_has_min(f)) {
                zero = 0;
            }
            const double room = 1e-5 * (fabs((double)scale) * 256 + fabs((double)zero));
            for (unsigned code = 0; code < codes; code++)
                CHECK_NEAR(y[code], scale * (float)code_value(f, code) + zero, room);
            if (test_failed) {
                printf("      form %s, row %u, column %u\n", qsf_form_name(f), (unsigned)r, (unsigned)c);
                return;
            }
        }
    }
}

/* Columns that share a scale by the table have the same weight with the same code; and the next
 * ones have another in some row. */
TEST(sub_blocks_are_as_wide_as_the_table_says)
{
    static uint8_t tile[MOST_BYTES];
    decoder d = { .tile = tile };
    qsf_kernels_scalar(&d.k);
    for (int form = 0; form < QSF_N_FORMS; form++) {
        const qsf_form f = (qsf_form)form;
        const unsigned code = (1u << qsf_forms[f].bits) - 1;
        if (!codes_are_written(f)) continue;
        decoder_begin(&d, f);
        const uint32_t sub = qsf_forms[f].sub ? qsf_forms[f].sub : d.block;
        float y[COLS][16];
        for (uint32_t c = 0; c < d.block; c++) {
            one_hot a;
            one_hot_at(&a, c);
            for (uint32_t r = 0; r < 16; r++) put_code(tile, f, r, c, code);
            d.k.matvec[f](y[c], tile, &a.x, 1, 1, d.block);
        }
        for (uint32_t c = 0; c < d.block; c++) {
            const bool same = memcmp(y[c], y[c / sub * sub], sizeof y[c]) == 0;
            CHECK(same);
            if (c && c % sub == 0) CHECK(memcmp(y[c], y[c - 1], sizeof y[c]) != 0);
        }
        if (test_failed) {
            printf("      form %s\n", qsf_form_name(f));
            return;
        }
    }
}

TEST(digits_are_minus_one_zero_one)
{
    static const qsf_form forms[] = { QSF_F_T5, QSF_F_TQ1 };
    static uint8_t tile[MOST_BYTES];
    decoder d = { .tile = tile };
    qsf_kernels_scalar(&d.k);
    for (size_t i = 0; i < 2; i++) {
        const qsf_form f = forms[i];
        int seen[3] = { 0 };
        CHECK_EQ(qsf_forms[f].codes, QSF_CODES_DIGIT);
        decoder_begin(&d, f);
        for (uint32_t c = 0; c < d.block; c++) {
            one_hot a;
            float y[16];
            one_hot_at(&a, c);
            d.k.matvec[f](y, tile, &a.x, 1, 1, d.block);
            for (uint32_t r = 0; r < 16; r++) {
                const float value = y[r] / head_scale(tile, f, r) + (float)qsf_forms[f].offset;
                const int digit = (int)lroundf(value);
                CHECK_NEAR(value, digit, 1e-5);
                CHECK(digit >= 0 && digit < 3);
                if (digit >= 0 && digit < 3) seen[digit]++;
            }
        }
        CHECK(seen[0] && seen[1] && seen[2]);
    }
}

TEST(tiles_have_the_bytes_of_sixteen_blocks_of_their_type)
{
    for (uint32_t type = 0; type < QSF_T_GGML_END; type++) {
        const int form = qsf_form_of_type(type);
        if (form < 0) continue;
        int n = 0;
        for (uint32_t block = 32; block <= 256; block *= 2) {
            const uint32_t one = qsf_block_bytes(type, block);
            if (one) CHECK_EQ(qsf_tile_bytes((qsf_form)form, block), QSF_TILE_ROWS * (size_t)one);
            if (one && qsf_forms[form].block) CHECK_EQ(block, qsf_forms[form].block);
            n += one != 0;
        }
        CHECK(n > 0);
    }
}

/* Products in 16 bits rely on the bits of a factor. */
TEST(factors_fit_their_bits)
{
    for (int form = 0; form < QSF_N_FORMS; form++) {
        const qsf_form f = (qsf_form)form;
        const int8_t *map = qsf_form_map(f);
        const int n = codes_are_written(f) ? 1 << qsf_forms[f].bits : 0;
        int most = 0;
        if (qsf_form_signed(f)) continue;
        for (int code = 0; code < n; code++) {
            const int factor = map ? map[code] : qsf_forms[f].codes == QSF_CODES_BIT ? 2 * code : code;
            CHECK(factor >= 0);
            if (factor > most) most = factor;
        }
        CHECK(most < 1 << qsf_forms[f].width);
        if (n) CHECK(most >= 1 << (qsf_forms[f].width - 1));
    }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(codes_offsets_tables_and_zeros_are_what_kernels_decode);
    RUN(sub_blocks_are_as_wide_as_the_table_says);
    RUN(digits_are_minus_one_zero_one);
    RUN(tiles_have_the_bytes_of_sixteen_blocks_of_their_type);
    RUN(factors_fit_their_bits);
    return test_end();
}
