/* Quantisers against the plain meaning of the types: errors, exact zeros, hostile rows.
 * SPDX-License-Identifier: MIT */
#include "tensor/quant.h"
#include "tensor/trellis.h"
#include "test.h"

static const uint32_t all_types[] = { QSF_T_2BIT_SYM, QSF_T_2BIT, QSF_T_3BIT, QSF_T_4BIT, QSF_T_TERNARY,
                                      QSF_T_2BIT_S, QSF_T_3BIT_S,
                                      QSF_T_4BIT_S, QSF_T_5BIT_S, QSF_T_6BIT_S, QSF_T_8BIT,
                                      QSF_T_TABLE4, QSF_T_TABLE3 };
enum { N_ALL = sizeof all_types / sizeof all_types[0], MOST = 1024 };

static uint64_t seed = 7;
static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 11) + 0.5) / 9007199254740992.0;
}
static float gauss(void) { return (float)(sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform())); }
static void fill_gauss(float *w, uint32_t n, float scale)
{
    for (uint32_t i = 0; i < n; i++) w[i] = scale * gauss();
}

/* Quantises w and reads it back through the types' plain meaning. */
static qsf_status there_and_back(uint32_t type, uint32_t block, const float *w, uint32_t cols,
                                 const float *importance, float *back, qsf_quant_error *e)
{
    static uint8_t data[8 * MOST];
    uint64_t bytes = 0;
    qsf_error err;
    if (qsf_tensor_bytes(type, 0, block, 1, cols, &bytes, &err)) return QSF_E_UNSUPPORTED;
    memset(data, 0xa5, sizeof data);
    const qsf_status st = qsf_quantize_row(type, block, w, cols, importance, data, e, &err);
    /* nothing beyond the row */
    for (size_t i = (size_t)bytes; i < sizeof data; i++) CHECK(data[i] == 0xa5);
    if (st) return st;
    const qsf_tensor t = { .kind = QSF_K_ATTN_Q, .type = (uint8_t)type, .block = (uint16_t)block, .rows = 1,
                           .cols = cols, .bytes = bytes, .data = data };
    qsf_dequant_rows(&t, 0, 1, back);
    return QSF_OK;
}

static double squared_error(const float *a, const float *b, uint32_t n)
{
    double e = 0;
    for (uint32_t i = 0; i < n; i++) e += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return e;
}

/* Relative squared errors of Gaussian weights, a little above what the search reaches (design.md
 * section 6, perf.md section 4). */
TEST(errors_on_gaussian_weights_stay_at_what_the_search_reaches)
{
    static const struct { uint32_t type, block; double most; } want[] = {
        { QSF_T_2BIT_SYM, 64, 0.125 }, { QSF_T_2BIT, 64, 0.115 }, { QSF_T_3BIT, 64, 0.037 },
        { QSF_T_3BIT_S, 64, 0.042 }, { QSF_T_4BIT, 64, 0.0098 }, { QSF_T_4BIT, 32, 0.0085 },
        { QSF_T_4BIT_S, 32, 0.0089 }, { QSF_T_4BIT_S, 64, 0.0105 }, { QSF_T_5BIT_S, 64, 0.0027 },
        { QSF_T_6BIT_S, 64, 0.0007 }, { QSF_T_8BIT, 64, 0.000035 }, { QSF_T_TERNARY, 64, 0.22 },
        { QSF_T_2BIT_S, 64, 0.16 },
        { QSF_T_TABLE4, 32, 0.0066 }, { QSF_T_TABLE4, 64, 0.0075 }, { QSF_T_TABLE4, 128, 0.0084 },
        { QSF_T_TABLE3, 32, 0.027 }, { QSF_T_TABLE3, 64, 0.031 },
    };
    for (size_t k = 0; k < sizeof want / sizeof want[0]; k++) {
        float w[MOST], back[MOST];
        double e = 0, s = 0;
        for (int round = 0; round < 20; round++) {
            fill_gauss(w, MOST, 0.02f);
            CHECK_EQ(there_and_back(want[k].type, want[k].block, w, MOST, NULL, back, NULL), QSF_OK);
            e += squared_error(w, back, MOST);
            for (int i = 0; i < MOST; i++) s += (double)w[i] * w[i];
        }
        CHECK(e / s < want[k].most);
        if (!(e / s < want[k].most))
            printf("      type %s block %u: %g, allowed %g\n", qsf_type_get(want[k].type)->name,
                   (unsigned)want[k].block, e / s, want[k].most);
    }
}

TEST(reported_error_is_the_error_of_the_stored_bytes)
{
    for (size_t k = 0; k < N_ALL; k++)
        for (uint32_t block = 32; block <= 256; block *= 2) {
            float w[300], back[300];
            qsf_quant_error e = { 0 };
            double dot = 0, deq = 0, sum = 0;
            fill_gauss(w, 300, 3.0f);
            CHECK_EQ(there_and_back(all_types[k], block, w, 300, NULL, back, &e), QSF_OK);
            for (int i = 0; i < 300; i++) {
                sum += (double)w[i] * w[i];
                dot += (double)w[i] * back[i];
                deq += (double)back[i] * back[i];
            }
            CHECK_NEAR(e.err_sq, squared_error(w, back, 300), 1e-6 * sum);
            CHECK_NEAR(e.sum_sq, sum, 1e-9 * sum);
            CHECK_NEAR(e.dot, dot, 1e-6 * sum);
            CHECK_NEAR(e.deq_sq, deq, 1e-6 * sum);
        }
}

/* Where scale and zero are stored (but at 2 bits), some code means exactly 0,
 * and a weight of 0 gets it. */
TEST(zero_stays_zero)
{
    static const uint32_t types[] = { QSF_T_3BIT, QSF_T_4BIT, QSF_T_3BIT_S, QSF_T_4BIT_S, QSF_T_5BIT_S,
                                      QSF_T_6BIT_S, QSF_T_8BIT, QSF_T_TERNARY };
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
        for (int round = 0; round < 200; round++) {
            float w[64], back[64];
            const float shift = (float)(4 * uniform() - 2);
            fill_gauss(w, 64, expf((float)(24 * uniform() - 16)));
            for (int i = 0; i < 64; i++) w[i] *= 1 + shift * (w[i] > 0);
            for (int i = 0; i < 64; i += 5) w[i] = 0;
            CHECK_EQ(there_and_back(types[k], 64, w, 64, NULL, back, NULL), QSF_OK);
            for (int i = 0; i < 64; i += 5) CHECK_EQ(back[i] == 0.0f, 1);
        }
}

TEST(rows_of_one_value_keep_it)
{
    static const float values[] = { 0, 1, -1, 0.3f, -0.7f, 1e-4f, 3e4f, -3e4f, 65504, -65504 };
    for (size_t k = 0; k < N_ALL; k++)
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            float w[96], back[96];
            for (int i = 0; i < 96; i++) w[i] = values[v];
            const bool byte = qsf_type_scale_bytes(all_types[k]) == 1;
            if (fabsf(values[v]) > qsf_quant_most(all_types[k]) || (byte && values[v] == 1e-4f)) continue;
            CHECK_EQ(there_and_back(all_types[k], 32, w, 96, NULL, back, NULL), QSF_OK);
            /* a scale of a byte has eight steps an octave, which few levels fill up */
            const double share = byte ? 0.03 : 0.01;
            for (int i = 0; i < 96; i++) CHECK_NEAR(back[i], values[v], share * fabs(values[v]));
        }
}

/* Relative squared errors of normally distributed weights, a little above what the search reaches;
 * and tiles hold what it made. */
TEST(trellises_reach_what_their_bits_promise)
{
    static const double most[4] = { 0.085, 0.021, 0.0054, 0.0018 };
    static float w[MOST], back[MOST];
    for (unsigned k = 2; k <= 5; k++) {
        const uint32_t cols = MOST - 37, blocks = MOST / 64;
        static uint8_t scale[MOST / 64], codes[MOST], tiles[MOST / 64 * (16 + 128 * 5)],
            again[MOST + MOST / 64];
        fill_gauss(w, cols, 0.02f);
        memset(tiles, 0, sizeof tiles);
        qsf_trellis_quantize_row(k, w, cols, NULL, scale, codes);
        qsf_trellis_put_row(tiles, k, blocks, 11, scale, codes);
        qsf_trellis_get_row(tiles, k, blocks, 11, again, again + blocks);
        CHECK(!memcmp(again, scale, blocks) && !memcmp(again + blocks, codes, sizeof codes));
        const qsf_tensor t = { .type = (uint8_t)(QSF_T_TRELLIS2 + k - 2), .packing = 1, .block = 64,
                               .rows = 16, .cols = cols, .data = tiles };
        qsf_dequant_rows(&t, 11, 1, back);
        double energy = 0;
        for (uint32_t i = 0; i < cols; i++) energy += (double)w[i] * w[i];
        const double e = squared_error(w, back, cols) / energy;
        if (!(e < most[k - 2])) printf("      %u bits: %g\n", k, e);
        CHECK(e < most[k - 2]);
    }
}

/* Columns of importance 0 cost nothing, so the others come out better. */
TEST(trellises_heed_importance)
{
    float w[192], importance[192], back[192], plain[192];
    double with = 0, without = 0;
    for (unsigned k = 2; k <= 5; k++) {
        uint8_t scale[3], codes[192];
        uint32_t last = 0;
        fill_gauss(w, 192, 1);
        for (int i = 0; i < 192; i++) importance[i] = i % 3 == 0 ? 1 : 1e-3f;
        qsf_trellis_quantize_row(k, w, 192, NULL, scale, codes);
        for (int b = 0; b < 3; b++) qsf_trellis_values(k, scale[b], codes + 64 * b, &last, plain + 64 * b);
        qsf_trellis_quantize_row(k, w, 192, importance, scale, codes);
        last = 0;
        for (int b = 0; b < 3; b++) qsf_trellis_values(k, scale[b], codes + 64 * b, &last, back + 64 * b);
        for (int i = 0; i < 192; i += 3) {
            with += ((double)w[i] - back[i]) * (w[i] - back[i]);
            without += ((double)w[i] - plain[i]) * (w[i] - plain[i]);
        }
    }
    CHECK(with < 0.7 * without);
}

TEST(tiny_weights_never_become_larger_errors)
{
    for (size_t k = 0; k < N_ALL; k++)
        for (float scale = 1e-2f; scale > 1e-44f; scale *= 0.1f) {
            float w[64], back[64];
            double energy = 0;
            fill_gauss(w, 64, scale);
            for (int i = 0; i < 64; i++) energy += (double)w[i] * w[i];
            CHECK_EQ(there_and_back(all_types[k], 64, w, 64, NULL, back, NULL), QSF_OK);
            for (int i = 0; i < 64; i++) CHECK(isfinite(back[i]));
            if (all_types[k] != QSF_T_2BIT_SYM) CHECK(squared_error(w, back, 64) <= 1.0001 * energy);
        }
}

TEST(rows_of_any_length)
{
    static const uint32_t lengths[] = { 1, 2, 31, 32, 33, 63, 64, 65, 127, 129, 255, 257, 576 };
    for (size_t k = 0; k < N_ALL; k++)
        for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++)
            for (uint32_t block = 32; block <= 256; block *= 2) {
                float w[MOST], back[MOST];
                double energy = 0;
                fill_gauss(w, lengths[n], 1);
                for (uint32_t i = 0; i < lengths[n]; i++) energy += (double)w[i] * w[i];
                CHECK_EQ(there_and_back(all_types[k], block, w, lengths[n], NULL, back, NULL), QSF_OK);
                CHECK(squared_error(w, back, lengths[n]) < 0.5 * energy + 1e-9);
            }
}

TEST(hostile_values_are_errors_that_name_the_column)
{
    static const struct { float value; const char *says; } bad[] = {
        { NAN, "column 17 is not a number" }, { INFINITY, "column 17 is infinite" },
        { -INFINITY, "column 17 is infinite" }, { 1e30f, "column 17 is too large" },
    };
    for (size_t k = 0; k < N_ALL; k++)
        for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++) {
            float w[64] = { 0 };
            uint8_t out[256];
            qsf_error err = { 0 };
            w[17] = bad[b].value;
            CHECK_EQ(qsf_quantize_row(all_types[k], 64, w, 64, NULL, out, NULL, &err), QSF_E_CORRUPT);
            CHECK(strstr(err.text, bad[b].says) != NULL);
        }
}

TEST(unknown_forms_are_refused)
{
    float w[64] = { 0 };
    uint8_t out[512];
    qsf_error err = { 0 };
    CHECK_EQ(qsf_quantize_row(QSF_T_4BIT, 48, w, 64, NULL, out, NULL, &err), QSF_E_UNSUPPORTED);
    CHECK_EQ(qsf_quantize_row(QSF_T_4BIT, 0, w, 64, NULL, out, NULL, &err), QSF_E_UNSUPPORTED);
    CHECK_EQ(qsf_quantize_row(QSF_T_MIXED, 64, w, 64, NULL, out, NULL, &err), QSF_E_UNSUPPORTED);
    CHECK_EQ(qsf_quantize_row(QSF_T_Q4_0, 32, w, 64, NULL, out, NULL, &err), QSF_E_UNSUPPORTED);
}

TEST(important_columns_come_out_better)
{
    double with = 0, without = 0;
    for (int round = 0; round < 50; round++) {
        float w[256], back[256], importance[256];
        fill_gauss(w, 256, 1);
        for (int i = 0; i < 256; i++) importance[i] = i % 8 ? 1.0f : 100.0f;
        CHECK_EQ(there_and_back(QSF_T_3BIT_S, 64, w, 256, NULL, back, NULL), QSF_OK);
        for (int i = 0; i < 256; i += 8) without += ((double)w[i] - back[i]) * ((double)w[i] - back[i]);
        CHECK_EQ(there_and_back(QSF_T_3BIT_S, 64, w, 256, importance, back, NULL), QSF_OK);
        for (int i = 0; i < 256; i += 8) with += ((double)w[i] - back[i]) * ((double)w[i] - back[i]);
    }
    CHECK(with < 0.7 * without);
}

/* The candidates must lie close enough: a scan of a thousand steps finds little more. */
TEST(search_is_near_an_exhaustive_one)
{
    double found = 0, best = 0;
    for (int round = 0; round < 200; round++) {
        float w[64], back[64];
        double least = 1e30;
        fill_gauss(w, 64, 1);
        CHECK_EQ(there_and_back(QSF_T_4BIT_S, 64, w, 64, NULL, back, NULL), QSF_OK);
        double mean = 0, e = 0;
        for (int i = 0; i < 64; i++) mean += (double)w[i] * w[i] / 64;
        for (int i = 0; i < 64; i++)
            e += sqrt(mean + (double)w[i] * w[i]) * ((double)w[i] - back[i]) * ((double)w[i] - back[i]);
        for (int s = -1000; s <= 1000; s++) {
            const double step = (0.15 + 0.0005 * abs(s)) * (s < 0 ? -1 : 1);
            double sum = 0;
            for (int i = 0; i < 64; i++) {
                double q = rint(w[i] / step);
                q = q < -8 ? -8 : q > 7 ? 7 : q;
                sum += sqrt(mean + (double)w[i] * w[i]) * (w[i] - step * q) * (w[i] - step * q);
            }
            if (sum < least) least = sum;
        }
        found += e;
        best += least;
    }
    CHECK(found < 1.03 * best);
    if (!(found < 1.03 * best)) printf("      %g times the least error\n", found / best);
}

/* Types without scales keep what is a level already, and take the nearest level of the rest. */
TEST(levels_without_a_scale_are_kept)
{
    static const struct { uint32_t type; int n; float level[4]; } all[] = {
        { QSF_T_TERNARY2, 3, { -1, 0, 1 } }, { QSF_T_TERNARY5, 3, { -1, 0, 1 } },
        { QSF_T_QK256, 4, { -2, -1, 1, 2 } },
    };
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        for (uint32_t cols = 250; cols <= 1000; cols += 250) {
            float w[MOST], noisy[MOST], back[MOST];
            qsf_quant_error e = { 0 };
            for (uint32_t i = 0; i < cols; i++) {
                w[i] = all[k].level[(int)(uniform() * all[k].n)];
                noisy[i] = w[i] + 0.45f * (float)(2 * uniform() - 1);
            }
            CHECK_EQ(there_and_back(all[k].type, 256, w, cols, NULL, back, &e), QSF_OK);
            CHECK_EQ(memcmp(w, back, cols * sizeof *w), 0);
            CHECK_NEAR(e.err_sq, 0, 0);
            CHECK_EQ(there_and_back(all[k].type, 256, noisy, cols, NULL, back, NULL), QSF_OK);
            CHECK_EQ(memcmp(w, back, cols * sizeof *w), 0);
            CHECK_EQ(qsf_quantize_row(all[k].type, 64, w, 64, NULL, back, NULL, NULL), QSF_E_UNSUPPORTED);
        }
}

TEST(floats_are_rounded_to_nearest_even)
{
    static const float w[] = { 1.0f, 1.00048828125f, 1.0009765625f, -0.1f, 65504, 1e-8f, 0 };
    float back[7];
    CHECK_EQ(there_and_back(QSF_T_F32, 1, w, 7, NULL, back, NULL), QSF_OK);
    CHECK_EQ(memcmp(w, back, sizeof w), 0);
    CHECK_EQ(there_and_back(QSF_T_F16, 1, w, 7, NULL, back, NULL), QSF_OK);
    CHECK_NEAR(back[1], 1.0, 0);
    CHECK_NEAR(back[3], -0.1, 0.0001);
    CHECK_EQ(there_and_back(QSF_T_BF16, 1, w, 7, NULL, back, NULL), QSF_OK);
    CHECK_NEAR(back[3], -0.1, 0.0005);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(errors_on_gaussian_weights_stay_at_what_the_search_reaches);
    RUN(reported_error_is_the_error_of_the_stored_bytes);
    RUN(zero_stays_zero);
    RUN(rows_of_one_value_keep_it);
    RUN(trellises_reach_what_their_bits_promise);
    RUN(trellises_heed_importance);
    RUN(tiny_weights_never_become_larger_errors);
    RUN(rows_of_any_length);
    RUN(hostile_values_are_errors_that_name_the_column);
    RUN(unknown_forms_are_refused);
    RUN(important_columns_come_out_better);
    RUN(search_is_near_an_exhaustive_one);
    RUN(levels_without_a_scale_are_kept);
    RUN(floats_are_rounded_to_nearest_even);
    return test_end();
}
