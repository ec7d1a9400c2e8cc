/* Weights without scales through the engine's matrix: the layouts' first tests, and activations
 * with one scale a row.
 * SPDX-License-Identifier: MIT */
#include "engine_bench.h"
#include "layers/act_row.h"
#include "layers/matrix.h"

enum { COLS = 256, MOST = 20 };

/* Every set that this machine has. */
static const char *const sets[] = { "scalar", "sse42", "avx2", "avxvnni", "avx512", "neon", "dotprod", "i8mm",
                                    "wasm", "wasm-relaxed", "wasm-dot" };

static uint32_t host_cpu(void)
{
    const qsf_platform *os = qsf_platform_native();
    return os->cpu_features(os->user);
}

static qsf_tensor rows_of(uint32_t type, uint32_t rows, const uint8_t *data)
{
    qsf_tensor t = { .type = (uint8_t)type, .block = 256, .rows = rows, .cols = COLS, .data = data };
    CHECK_EQ(qsf_tensor_bytes(type, 0, 256, rows, COLS, &t.bytes, NULL), QSF_OK);
    return t;
}

/* y[n][rows] = x[n][COLS] . w, as a layer of the engine multiplies. */
static void multiply(const qsf_kernels *k, const qsf_tensor *w, const float *x, size_t n, qsf_act_quant act,
                     float *y)
{
    static int8_t q[MOST * 1024];
    static float d[MOST * 16], s[MOST * 32];
    static int16_t h[MOST * 128];
    qsf_buffers b = { .act = { .q = q, .d = d, .s = s, .h = h }, .max_cols = COLS };
    qsf_context_options o;
    qsf_context_defaults(&o);
    o.act_quant = act;
    const qsf_cpu cpu = { .lora = NULL };
    const qsf_pass p = { .o = &o, .k = k, .b = &b, .cpu = &cpu };
    qsf_tensor tiles = *w;
    tiles.packing = 1;
    CHECK_EQ(qsf_tensor_bytes(w->type, 1, 256, w->rows, COLS, &tiles.bytes, NULL), QSF_OK);
    uint8_t *data = malloc((size_t)tiles.bytes);
    qsf_pack_tiles(w, data);
    tiles.data = data;
    qsf_matrix m = { .t = tiles, .form = qsf_form_of_type(w->type), .blocks = 1,
                     .scale = 1 };
    const qsf_matrix_in in = qsf_matrix_input(&p, x, COLS, COLS, 0, (uint32_t)n);
    CHECK(qsf_matrix_takes_codes(&p, &m));
    qsf_matrix_quantize(&p, &in, (qsf_range){ 0, n });
    qsf_matrix_multiply(&p, &m, NULL, &in, y, w->rows, (qsf_range){ 0, qsf_matrix_tiles(&m) }, 0);
    free(data);
}

/* The original specification's smoke test: 64 rows x 256, every byte 0xAA, so every code is 2 and
 * every weight 1; all inputs are 0.5, so every output is 128 within 0.01. */
TEST(bytes_of_0xaa_times_a_half_are_128)
{
    static const uint32_t types[] = { QSF_T_QK256, QSF_T_TERNARY2 };
    static uint8_t data[64 * 64];
    static float x[MOST * COLS], y[MOST * 64];
    memset(data, 0xaa, sizeof data);
    for (size_t i = 0; i < QSF_ARRAY_LEN(x); i++) x[i] = 0.5f;
    int n_sets = 0;
    for (size_t i = 0; i < QSF_ARRAY_LEN(sets); i++) {
        qsf_kernels k;
        if (qsf_kernels_init(&k, host_cpu(), sets[i], NULL)) continue;
        n_sets++;
        for (size_t t = 0; t < QSF_ARRAY_LEN(types); t++)
            for (size_t n = 1; n <= MOST; n += 19)
                for (int act = QSF_ACT_BLOCK; act <= QSF_ACT_ROW; act++) {
                    const qsf_tensor w = rows_of(types[t], 64, data);
                    multiply(&k, &w, x, n, (qsf_act_quant)act, y);
                    for (size_t r = 0; r < 64 * n; r++) CHECK_NEAR(y[r], 128.0, 0.01);
                }
    }
    CHECK(n_sets > 0);
}

/* Rows of one code each, and rows with all four codes in turn. */
TEST(rows_of_each_code_give_its_value)
{
    static const struct { uint32_t type; float value[4]; int codes; } all[] = {
        { QSF_T_QK256, { -2, -1, 1, 2 }, 4 }, { QSF_T_TERNARY2, { -1, 0, 1, 2 }, 4 },
        { QSF_T_TERNARY5, { -1, 0, 1 }, 3 },
    };
    static float x[COLS], y[16];
    for (int i = 0; i < COLS; i++) x[i] = (float)(i % 4) * 0.25f;
    qsf_kernels k;
    CHECK_EQ(qsf_kernels_init(&k, host_cpu(), NULL, NULL), QSF_OK);
    for (size_t t = 0; t < QSF_ARRAY_LEN(all); t++) {
        uint8_t data[5 * 64] = { 0 }, codes[COLS];
        const uint32_t each = qsf_block_bytes(all[t].type, 256);
        float want[5] = { 0 };
        for (int r = 0; r < 5; r++) {
            for (int i = 0; i < COLS; i++) {
                codes[i] = (uint8_t)((r < 4 ? r : i / 4) % all[t].codes);
                want[r] += all[t].value[codes[i]] * x[i];
            }
            qsf_block_put_codes(data + (size_t)r * each, all[t].type, 256, codes);
        }
        const qsf_tensor w = rows_of(all[t].type, 5, data);
        for (int act = QSF_ACT_BLOCK; act <= QSF_ACT_ROW; act++) {
            multiply(&k, &w, x, 1, (qsf_act_quant)act, y);
            for (int r = 0; r < 5; r++) CHECK_NEAR(y[r], want[r], 0.005 * 96 * 2);
        }
    }
}

/* x as codes of a row, by the formula: the nearest integer of x * (127 / max), ties to even. */
static void check_row(const float *x, size_t cols, float largest)
{
    static int8_t q[1280];
    static float d[20], s[40];
    static int16_t h[160];
    qsf_act a = { .q = q, .d = d, .s = s, .h = h, .n = 1, .cols = qsf_act_cols((uint32_t)cols) };
    memset(q, 0x55, sizeof q);
    qsf_quantize_act_row(&a, 0, x, cols);
    const float times = (float)(127 / (double)largest);
    for (size_t i = 0; i < a.cols; i++) {
        const float v = i >= cols || isnan(x[i]) ? 0
            : x[i] > FLT_MAX ? FLT_MAX : x[i] < -FLT_MAX ? -FLT_MAX : x[i];
        CHECK_EQ(q[i], (int)rint((double)(float)(v * times)));
    }
    for (size_t i = 0; i < a.cols / 64; i++) CHECK_NEAR(d[i], largest / 127, 1e-6 * largest);
    for (size_t i = 0; i < a.cols / 32; i++) {
        int sum = 0, halves = 0;
        for (size_t j = 32 * i; j < 32 * i + 32; j++) sum += q[j];
        for (size_t j = 4 * i; j < 4 * i + 4; j++) halves += h[j];
        CHECK_EQ((int)s[i], sum);
        CHECK_EQ(halves, sum);
        CHECK_EQ(h[4 * i], q[32 * i] + q[32 * i + 1] + q[32 * i + 4] + q[32 * i + 5] + q[32 * i + 8]
                           + q[32 * i + 9] + q[32 * i + 12] + q[32 * i + 13]);
    }
}

TEST(activations_of_a_row_share_one_scale)
{
    float x[900];
    uint64_t seed = 5;
    float largest = 0;
    for (int i = 0; i < 900; i++) {
        x[i] = tiny_normal(&seed) * (i < 450 ? 1 : 20.0f);
        largest = fmaxf(largest, fabsf(x[i]));
    }
    check_row(x, 900, largest);
    x[3] = 2 * largest, x[4] = largest, x[5] = -largest / 127;      /* ties: 63.5, -0.5 */
    check_row(x, 899, 2 * largest);
    x[7] = NAN, x[8] = -INFINITY;
    check_row(x, 256, FLT_MAX);
    memset(x, 0, sizeof x);
    check_row(x, 257, 1e-5f);
    x[0] = 1e-7f;
    check_row(x, 31, 1e-5f);
}

/* The smaller the group that shares a scale, the nearer to floats: with one large channel, as
 * hidden states of language models have them, a row's other codes become coarse, of blocks only
 * 63. */
TEST(blocks_are_nearer_to_floats_than_rows)
{
    static uint8_t data[64 * 64];
    float x[COLS], y[64], w[COLS];
    double error[2] = { 0 }, size = 0;
    uint64_t seed = 3;
    qsf_kernels k;
    CHECK_EQ(qsf_kernels_init(&k, host_cpu(), NULL, NULL), QSF_OK);
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(tiny_uniform(&seed) * 256) & 0x55;
    const qsf_tensor t = rows_of(QSF_T_TERNARY2, 64, data);
    for (int i = 0; i < COLS; i++) x[i] = tiny_normal(&seed) * (i == 70 ? 30.0f : 1);
    for (int act = QSF_ACT_BLOCK; act <= QSF_ACT_ROW; act++) {
        multiply(&k, &t, x, 1, (qsf_act_quant)act, y);
        for (uint32_t r = 0; r < 64; r++) {
            double want = 0;
            qsf_dequant_rows(&t, r, 1, w);
            for (int i = 0; i < COLS; i++) want += (double)w[i] * x[i];
            error[act] += (y[r] - want) * (y[r] - want);
            if (!act) size += want * want;
        }
    }
    const double block = sqrt(error[0] / size), row = sqrt(error[1] / size);
    printf("    from floats: blocks %.5f, rows %.5f\n", block, row);
    CHECK(block > 0 && block < 0.7 * row && row < 0.1);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(bytes_of_0xaa_times_a_half_are_128);
    RUN(rows_of_each_code_give_its_value);
    RUN(activations_of_a_row_share_one_scale);
    RUN(blocks_are_nearer_to_floats_than_rows);
    return test_end();
}
