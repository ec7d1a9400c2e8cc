/* Calibrated encoders: the factor against its definition, codes against the types' plain meaning,
 * and errors that get smaller the more work goes in.
 * SPDX-License-Identifier: MIT */
#define OUT "encode_test"
#include "convert_fake.h"
#include "encode/encode.h"
#include "tensor/trellis.h"

enum { MOST = 320, ROWS = 40 };

static uint64_t seed = 11;
static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 11) + 0.5) / 9007199254740992.0;
}
static float gauss(void) { return (float)(sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform())); }

/* The mean of x x' of inputs that have much to do with their neighbours, and are of many sizes. */
static void correlated(uint32_t cols, float *h)
{
    for (uint32_t i = 0; i < cols; i++)
        for (uint32_t j = 0; j < cols; j++) {
            const double si = 1 + 2 * (i % 7 == 3), sj = 1 + 2 * (j % 7 == 3);
            const uint32_t apart = i > j ? i - j : j - i;
            h[(size_t)i * cols + j] = (float)(si * sj * (0.3 + 0.7 * pow(0.9, apart)));
        }
}

/* tr(E H E'), E the difference of two matrices. */
static double output_error(const float *a, const float *b, const float *h, uint32_t rows, uint32_t cols)
{
    double sum = 0;
    for (uint32_t r = 0; r < rows; r++, a += cols, b += cols)
        for (uint32_t i = 0; i < cols; i++) {
            double s = 0;
            for (uint32_t j = 0; j < cols; j++) s += h[(size_t)i * cols + j] * ((double)a[j] - b[j]);
            sum += ((double)a[i] - b[i]) * s;
        }
    return sum;
}

static uint32_t cpu_features(void)
{
    const qsf_platform *p = qsf_platform_native();
    return p->cpu_features ? p->cpu_features(p->user) : 0;
}

static qsf_convert_options options(void)
{
    qsf_convert_options o;
    qsf_convert_defaults(&o);
    o.n_threads = 2;
    return o;
}

static encode_factor *factor_of(const encode_inputs *in, qsf_error *err)
{
    const qsf_convert_options o = options();
    encode_factor *f = NULL;
    const qsf_status st = qsf_enc_factor_new(qsf_platform_native(), &o, in, &f, err);
    CHECK_EQ(st == QSF_OK, f != NULL);
    return f;
}

static double element(const encode_factor *f, uint32_t row, uint32_t col)
{
    const uint32_t p = col / ENCODE_STEP;
    if (row < col) return 0;
    return f->panels[encode_panel_at(f->cols, p) + (size_t)ENCODE_STEP * (row - p * ENCODE_STEP) +
                     col % ENCODE_STEP];
}

/* ---- the factor ---- */

/* Solves a[n][n] x = b by elimination; both are used up. */
static void solve(double *a, double *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = i + 1; r < n; r++) {
            const double by = a[(size_t)r * MOST + i] / a[(size_t)i * MOST + i];
            for (uint32_t c = i; c < n; c++) a[(size_t)r * MOST + c] -= by * a[(size_t)i * MOST + c];
            b[r] -= by * b[i];
        }
    for (uint32_t i = n; i-- > 0;) {
        for (uint32_t c = i + 1; c < n; c++) b[i] -= a[(size_t)i * MOST + c] * b[c];
        b[i] /= a[(size_t)i * MOST + i];
    }
}

/* The factor's corrections of the columns after a wrong one are those of least squares. */
TEST(feedback_of_each_column_is_the_least_squares_one)
{
    static float h[150 * 150], first[150], scale[150];
    static double a[MOST * MOST], b[MOST];
    for (int steps = 0; steps < 2; steps++) {
        const uint32_t cols = 150;
        qsf_error err;
        correlated(cols, h);
        double first_sq = 0, trace = 0;
        for (uint32_t i = 0; i < cols; i++) {
            first[i] = 40 * gauss();
            scale[i] = (float)(0.5 + uniform());
            first_sq += (double)first[i] / scale[i] * first[i] / scale[i];
            trace += (double)h[i * cols + i] / scale[i] / scale[i];
        }
        const encode_inputs in = { .cols = cols, .h = h, .first = first, .col_scale = scale, .identity = 0.2,
                                   .damping = 0.01, .steps = steps };
        encode_factor *f = factor_of(&in, &err);
        if (!f) return;
        CHECK_EQ(f->cols, 192);
        const double sink = fmin(1, 100 * trace / first_sq);
        CHECK(sink < 1);
        for (uint32_t at = 0; at < 192; at += 13) {
            /* all open columns after column `at`, without the padding */
            uint32_t n = 0, open[192];
            for (uint32_t i = at + 1; i < 192; i++)
                if (f->column[i] < cols) open[n++] = i;
            if (f->column[at] >= cols) continue;
            for (uint32_t i = 0; i <= n; i++)
                for (uint32_t j = 0; j < n; j++) {
                    const uint32_t p = f->column[i < n ? open[i] : at], q = f->column[open[j]];
                    const double v = ((double)h[p * cols + q] + sink * first[p] * first[q]) / scale[p] /
                                     scale[q] / (trace / cols) + (p == q ? 0.2 + 0.01 * 1.2 : 0);
                    if (i < n) a[(size_t)i * MOST + j] = v;
                    else b[j] = v;
                }
            solve(a, b, n);
            for (uint32_t i = 0; i < n; i++)
                CHECK_NEAR(-b[i], element(f, open[i], at) / element(f, at, at), 2e-4);
            CHECK_NEAR(f->weight[at] * element(f, at, at) * element(f, at, at), 1, 1e-5);
        }
        qsf_enc_factor_free(qsf_platform_native(), f);
    }
}

TEST(hessians_that_are_none_are_refused_and_poor_ones_are_not)
{
    static float h[100 * 100];
    const encode_inputs in = { .cols = 100, .h = h, .damping = 0.01 };
    qsf_error err;
    encode_factor *f;
    memset(h, 0, sizeof h);                                  /* an input that is always zero */
    if ((f = factor_of(&in, &err))) CHECK_NEAR(element(f, 3, 2), 0, 0);
    qsf_enc_factor_free(qsf_platform_native(), f);
    for (int i = 0; i < 100 * 100; i++) h[i] = i / 100 < 90 && i % 100 < 90;    /* rank 1, dead inputs */
    CHECK((f = factor_of(&in, &err)) != NULL);
    for (uint32_t i = 0; f && i < f->cols; i++) CHECK(f->weight[i] > 0 && f->weight[i] < 1e6f);
    qsf_enc_factor_free(qsf_platform_native(), f);
    h[205] = NAN;
    CHECK(!factor_of(&in, &err));
    CHECK(strstr(err.text, "finite") != NULL);
    for (int i = 0; i < 100 * 100; i++) h[i] = i / 100 == i % 100 ? 1 : 3;      /* no mean of x x' */
    CHECK(!factor_of(&in, &err));
    CHECK(strstr(err.text, "positive") != NULL);
    h[0] = -1;
    CHECK(!factor_of(&in, &err));
}

/* ---- one matrix ---- */

typedef struct matrix {
    input        in;
    input_tensor tensor;
    uint32_t     rows, cols;
    float        w[ROWS * MOST], back[ROWS * MOST], h[MOST * MOST];
    uint8_t      data[ROWS * MOST * 4];
    uint64_t     bytes;
    qsf_quant_error e;
    encode_loss  loss;
} matrix;

static qsf_status matrix_read(input *in, uint32_t i, uint32_t row, uint32_t n, float *out, qsf_error *err)
{
    const matrix *m = in->own;
    (void)i, (void)err;
    memcpy(out, m->w + (size_t)row * m->cols, (size_t)n * m->cols * sizeof *out);
    return QSF_OK;
}

static void matrix_init(matrix *m, uint32_t rows, uint32_t cols)
{
    memset(m, 0, sizeof *m);
    m->rows = rows;
    m->cols = cols;
    m->tensor = (input_tensor){ .rows = rows, .cols = cols, .name = "w" };
    m->in = (input){ .platform = qsf_platform_native(), .n_tensors = 1, .tensors = &m->tensor, .own = m,
                     .read = matrix_read };
    for (uint32_t i = 0; i < rows * cols; i++) m->w[i] = 0.04f * gauss() * (i / cols == 5 ? 0 : 1);
    correlated(cols, m->h);
}

/* Encodes and reads back by the type's plain meaning. */
static qsf_status matrix_encode(matrix *m, uint32_t type, uint32_t block, uint8_t packing,
                                const encode_factor *f, const encode_lanes *lanes, qsf_error *err)
{
    const qsf_platform *p = m->in.platform;
    convert_tensor c = { .type = type, .block = block, .packing = packing };
    const encode_rows k = { .in = &m->in, .c = &c, .f = f, .lanes = lanes };
    convert_band *b;
    encode_band *own = NULL;
    qsf_status st = qsf_tensor_bytes(type, packing, block, m->rows, m->cols, &m->bytes, err);
    memset(m->data, 0, sizeof m->data);
    memset(&m->e, 0, sizeof m->e);
    memset(&m->loss, 0, sizeof m->loss);
    CHECK(m->bytes <= sizeof m->data);
    if (!st) st = qsf_conv_bands_new(p, 1, m->cols, &b, err);
    if (st) return st;
    st = qsf_enc_bands_new(p, 1, m->cols, &own, err);
    if (!st) st = qsf_enc_rows(&k, 0, m->rows, b, own, m->data, &m->e, &m->loss, err);
    qsf_conv_bands_free(p, 1, b);
    qsf_enc_bands_free(p, 1, own);
    const qsf_tensor t = { .type = (uint8_t)type, .packing = packing, .block = (uint16_t)block,
                           .rows = m->rows, .cols = m->cols, .bytes = m->bytes, .data = m->data };
    if (!st) qsf_dequant_rows(&t, 0, m->rows, m->back);
    return st;
}

static const struct { uint32_t type, block; } forms[] = {
    { QSF_T_2BIT, 64 }, { QSF_T_2BIT_SYM, 32 }, { QSF_T_3BIT, 64 }, { QSF_T_3BIT_S, 128 },
    { QSF_T_4BIT, 32 }, { QSF_T_4BIT_S, 32 }, { QSF_T_4BIT_S, 256 }, { QSF_T_5BIT_S, 64 },
    { QSF_T_6BIT_S, 128 }, { QSF_T_8BIT, 64 }, { QSF_T_TERNARY, 256 }, { QSF_T_2BIT_S, 32 },
    { QSF_T_TRELLIS2, 64 }, { QSF_T_TRELLIS3, 64 }, { QSF_T_TRELLIS4, 64 }, { QSF_T_TRELLIS5, 64 },
    { QSF_T_TABLE4, 32 }, { QSF_T_TABLE4, 128 }, { QSF_T_TABLE3, 64 },
};

static const encode_lanes *const *all_lanes(size_t *n)
{
    static const encode_lanes *sets[3];
    const uint32_t cpu = cpu_features();
    *n = 0;
    sets[(*n)++] = &qsf_enc_lanes_base;
    (void)cpu;
#if defined(__x86_64__)
    if (cpu & QSF_CPU_AVX2) sets[(*n)++] = &qsf_enc_lanes_avx2;
    if (cpu & QSF_CPU_AVX512) sets[(*n)++] = &qsf_enc_lanes_avx512;
#endif
    return sets;
}

/* Of every type, and columns and rows that fill no block and no tile. */
TEST(what_is_stored_has_the_reported_error_in_every_set)
{
    static matrix m;
    static const uint32_t sizes[][2] = { { 40, 192 }, { 21, 150 }, { 16, 64 }, { 3, 32 } };
    size_t n_sets;
    const encode_lanes *const *sets = all_lanes(&n_sets);
    for (size_t s = 0; s < QSF_ARRAY_LEN(sizes); s++)
        for (size_t k = 0; k < QSF_ARRAY_LEN(forms); k++)
            for (uint8_t packing = 0; packing < 2; packing++) {
                const bool steps = qsf_enc_steps(forms[k].type);
                qsf_error err = { 0 };
                uint32_t crc = 0;
                encode_loss loss = { 0 };
                if (steps && !packing) continue;
                matrix_init(&m, sizes[s][0], sizes[s][1]);
                const encode_inputs in = { .cols = m.cols, .h = m.h, .damping = 0.01, .steps = steps };
                encode_factor *f = factor_of(&in, &err);
                for (size_t v = 0; f && v < n_sets; v++) {
                    double e = 0, sq = 0;
                    CHECK_EQ(matrix_encode(&m, forms[k].type, forms[k].block, packing, f, sets[v], &err),
                             QSF_OK);
                    for (uint32_t i = 0; i < m.rows * m.cols; i++) {
                        sq += (double)m.w[i] * m.w[i];
                        e += ((double)m.w[i] - m.back[i]) * ((double)m.w[i] - m.back[i]);
                        /* a row of zeros stays one */
                        if (i / m.cols == 5 && forms[k].type != QSF_T_2BIT_SYM) CHECK(m.back[i] == 0);
                    }
                    CHECK_NEAR(e / sq, m.e.err_sq / m.e.sum_sq, 1e-9);
                    CHECK_NEAR(sq, m.e.sum_sq, 1e-9);
                    if (v) CHECK_EQ(qsf_crc32(0, m.data, m.bytes), crc);
                    if (v) CHECK(loss.error == m.loss.error && loss.energy == m.loss.energy);
                    crc = qsf_crc32(0, m.data, m.bytes);
                    loss = m.loss;
                }
                /* the errors' cost is what it is by definition, the damping included */
                const double mean = f ? 1 : 0;
                double trace = 0, damp = 0;
                for (uint32_t i = 0; i < m.cols; i++) trace += m.h[(size_t)i * m.cols + i] / m.cols;
                for (uint32_t i = 0; i < m.rows * m.cols; i++)
                    damp += 0.01 * ((double)m.w[i] - m.back[i]) * ((double)m.w[i] - m.back[i]);
                const double want = output_error(m.w, m.back, m.h, m.rows, m.cols) / trace + damp;
                CHECK_NEAR(loss.error / want, mean, 2e-3);
                qsf_enc_factor_free(qsf_platform_native(), f);
            }
}

/* With errors that have nothing to do with one another, each weight takes the nearest value. */
TEST(without_correlation_weights_take_the_nearest_value_of_their_block)
{
    static matrix m;
    static float h[MOST];
    for (size_t k = 0; k < QSF_ARRAY_LEN(forms); k++) {
        if (qsf_enc_steps(forms[k].type)) continue;
        qsf_error err;
        matrix_init(&m, 20, 192);
        for (uint32_t i = 0; i < 192; i++) h[i] = 1;
        const encode_inputs in = { .cols = 192, .diagonal = true, .h = h };
        encode_factor *f = factor_of(&in, &err);
        CHECK_EQ(matrix_encode(&m, forms[k].type, forms[k].block, 0, f, &qsf_enc_lanes_base, &err), QSF_OK);
        /* each value of a block that is there is one that the others could have taken */
        for (uint32_t i = 0; i < m.rows * m.cols; i++) {
            const uint32_t row = i / m.cols, at = i % m.cols / forms[k].block * forms[k].block;
            const float *block = m.back + (size_t)row * m.cols;
            for (uint32_t j = at; j < QSF_MIN(at + forms[k].block, m.cols); j++)
                CHECK(fabs((double)m.w[i] - m.back[i]) <= fabs((double)m.w[i] - block[j]) + 1e-7);
        }
        qsf_enc_factor_free(qsf_platform_native(), f);
    }
}

/* The best path of 12 weights by trying all of them: the search finds it. */
TEST(the_trellis_finds_the_best_path)
{
    static matrix m;
    enum { N = 10 };
    qsf_error err;
    matrix_init(&m, 16, 64);
    for (uint32_t r = 0; r < 16; r++)
        for (uint32_t t = 0; t < 64; t++)                    /* the rest is far from open */
            m.w[r * 64 + qsf_trellis_column(t)] = t < N ? 0.1f * gauss() : t == 40 ? 0.3f : 0;
    encode_factor *f = NULL;
    CHECK_EQ(qsf_enc_factor_none(qsf_platform_native(), 64, true, &f, &err), QSF_OK);
    CHECK_EQ(matrix_encode(&m, QSF_T_TRELLIS2, 64, 1, f, &qsf_enc_lanes_base, &err), QSF_OK);
    for (uint32_t r = 0; r < 16; r++) {
        const float scale = qsf_trellis_scale(m.data[r]);
        double best = 1e9, found = 0;
        for (uint32_t t = 0; t < N; t++) {
            const double d = (double)m.w[r * 64 + qsf_trellis_column(t)] -
                             m.back[r * 64 + qsf_trellis_column(t)];
            found += d * d;
        }
        for (uint32_t u = 0; u < 1u << N; u++) {
            double sum = 0;
            for (uint32_t t = 0; t < N; t++) {
                const uint32_t now = u >> t & 1, b1 = t > 0 ? u >> (t - 1) & 1 : 0,
                               b2 = t > 1 ? u >> (t - 2) & 1 : 0, b3 = t > 2 ? u >> (t - 3) & 1 : 0;
                const uint32_t index = 2 * (now ^ b1 ^ b3) + b2;
                const double w = m.w[r * 64 + qsf_trellis_column(t)],
                             a = w - (double)scale * qsf_trellis_levels[0][index],
                             b = w - (double)scale * qsf_trellis_levels[0][index + 4];
                sum += fmin(a * a, b * b);
            }
            best = fmin(best, sum);
        }
        /* what follows may bind it at its end */
        CHECK(found <= best * 1.25 + 1e-12 && found >= best - 1e-6);
    }
    qsf_enc_factor_free(qsf_platform_native(), f);
}

/* Each effort lowers the output error, by a minimum number of dB. */
TEST(more_effort_lowers_the_error_of_outputs)
{
    static matrix m;
    static float diagonal[MOST];
    for (size_t k = 0; k < QSF_ARRAY_LEN(forms); k++) {
        const bool steps = qsf_enc_steps(forms[k].type);
        double error[3];
        qsf_error err;
        matrix_init(&m, 40, 256);
        for (uint32_t i = 0; i < m.cols; i++) diagonal[i] = m.h[(size_t)i * m.cols + i];
        const float zero[256 * ROWS] = { 0 };
        const double energy = output_error(m.w, zero, m.h, m.rows, m.cols);
        for (int effort = 0; effort < 3; effort++) {
            encode_factor *f = NULL;
            const encode_inputs in = { .cols = m.cols, .diagonal = effort == 1, .damping = 0.01,
                                       .h = effort == 1 ? diagonal : m.h, .steps = steps };
            if (effort) f = factor_of(&in, &err);
            else CHECK_EQ(qsf_enc_factor_none(m.in.platform, m.cols, steps, &f, &err), QSF_OK);
            const encode_lanes *lanes = qsf_enc_lanes(cpu_features());
            CHECK_EQ(matrix_encode(&m, forms[k].type, forms[k].block, 1, f, lanes, &err), QSF_OK);
            error[effort] = -10 * log10(output_error(m.w, m.back, m.h, m.rows, m.cols) / energy);
            qsf_enc_factor_free(qsf_platform_native(), f);
        }
        printf("    %-9s:%-3u %.2f, %.2f, %.2f dB\n", qsf_type_get(forms[k].type)->name,
               (unsigned)forms[k].block, error[0], error[1], error[2]);
        CHECK(error[1] > error[0] - 0.3);
        CHECK(error[2] > error[0] + 5);
    }
}

/* The sink's column counts a million times as much as others: it comes near a level without
 * spoiling the rest. */
TEST(a_column_that_counts_most_is_met_and_others_stay)
{
    static matrix m;
    static float first[192];
    static const double least[] = { 36, 43, 44, 52 };
    qsf_error err;
    memset(first, 0, sizeof first);
    first[100] = 4000;
    first[170] = 300;
    first[20] = -90;
    for (uint32_t k = 0; k < 4; k++) {
        matrix_init(&m, 40, 192);
        encode_inputs in = { .cols = m.cols, .h = m.h, .damping = 0.01, .steps = true };
        double weights[2], outputs[2];
        for (int sink = 0; sink < 2; sink++) {
            in.first = sink ? first : NULL;
            encode_factor *f = factor_of(&in, &err);
            const encode_lanes *lanes = qsf_enc_lanes(cpu_features());
            CHECK_EQ(matrix_encode(&m, QSF_T_TRELLIS2 + k, 64, 1, f, lanes, &err), QSF_OK);
            weights[sink] = -10 * log10(m.e.err_sq / m.e.sum_sq);
            outputs[sink] = -10 * log10(m.loss.error / m.loss.energy);
            qsf_enc_factor_free(m.in.platform, f);
        }
        printf("    %u bits: weights %.2f, %.2f dB, outputs %.2f, %.2f dB\n", (unsigned)k + 2, weights[0],
               weights[1], outputs[0], outputs[1]);
        CHECK(outputs[1] > least[k]);
        CHECK(weights[1] > weights[0] - 2);
    }
}

TEST(weights_that_are_no_numbers_are_refused)
{
    static matrix m;
    qsf_error err;
    encode_factor *f = NULL;
    matrix_init(&m, 20, 64);
    CHECK_EQ(qsf_enc_factor_none(m.in.platform, m.cols, true, &f, &err), QSF_OK);
    m.w[17 * 64 + 9] = INFINITY;
    CHECK_EQ(matrix_encode(&m, QSF_T_TRELLIS3, 64, 1, f, &qsf_enc_lanes_base, &err), QSF_E_CORRUPT);
    CHECK_STR(err.text, "tensor w, row 17: column 9 is infinite");
    qsf_enc_factor_free(m.in.platform, f);
}

/* ---- whole files ---- */

typedef struct hessians { uint64_t tokens; bool diagonal; uint32_t asked; } hessians;

static qsf_status hessians_read(void *user, uint32_t unit, uint32_t kind, uint32_t cols, float *h,
                                float *first, uint64_t *tokens, bool *diagonal, qsf_error *err)
{
    hessians *k = user;
    (void)unit, (void)kind, (void)err;
    k->asked++;
    correlated(cols, h);
    for (uint32_t i = 0; i < cols; i++) first[i] = 5 * (i % 11 == 2);
    *tokens = k->tokens;
    *diagonal = k->diagonal;
    return QSF_OK;
}

static qsf_status convert_with(const qsf_convert_options *o, hessians *k, convert_report *r,
                               convert_tensor *tensors, qsf_error *err)
{
    const encode_hessians h = { k, hessians_read };
    fake f = { 0 };
    input in;
    fake_open(&in, &f, "llama");
    const qsf_status st = qsf_conv_run_with(&in, o, &h, out_path, r, err);
    if (st == QSF_OK && tensors) memcpy(tensors, r->tensors, in.n_tensors * sizeof *tensors);
    in.close(&in);
    return st;
}

TEST(files_are_the_same_with_any_number_of_threads)
{
    static uint8_t one[1 << 18], other[1 << 18];
    for (int trellis = 0; trellis < 2; trellis++) {
        size_t n = 0;
        for (uint32_t threads = 1; threads <= 4; threads++) {
            hessians k = { 100, false, 0 };
            qsf_convert_options o = options();
            convert_report r;
            qsf_error err;
            o.n_rules = 0;
            o.n_threads = threads;
            if (trellis) add_rule(&o, "*", "trellis3", 0);
            CHECK_EQ(convert_with(&o, &k, &r, NULL, &err), QSF_OK);
            CHECK_EQ(k.asked, 1 + 4 * LAYERS);              /* once for each input */
            const size_t len = file_bytes(threads == 1 ? one : other, sizeof one);
            if (threads == 1) n = len;
            CHECK(len > 1000 && len == n && (threads == 1 || !memcmp(one, other, n)));
        }
    }
}

/* Gains go into the matrices, and the network stays the same. */
TEST(norms_are_folded_into_what_reads_them)
{
    hessians k = { 100, false, 0 };
    fake f = { 0 };
    input in, *back = NULL;
    qsf_convert_options o = options();
    convert_report r;
    qsf_error err;
    o.preset = QSF_CONVERT_F16;
    CHECK_EQ(convert_with(&o, &k, &r, NULL, &err), QSF_OK);
    CHECK_EQ(qsf_input_open_source(qsf_platform_native(), out_path, &back, &err), QSF_OK);
    fake_open(&in, &f, "llama");
    for (uint32_t i = 0; back && i < in.n_tensors; i++) {
        static float w[FF * EMBD], v[FF * EMBD], was[EMBD], is[EMBD];
        const uint32_t kind = in.tensors[i].kind, n = in.tensors[i].rows * in.tensors[i].cols;
        CHECK_EQ(in.read(&in, i, 0, in.tensors[i].rows, w, &err), QSF_OK);
        CHECK_EQ(back->read(back, i, 0, in.tensors[i].rows, v, &err), QSF_OK);
        if (kind == QSF_K_ATTN_NORM || kind == QSF_K_FFN_NORM) {
            memcpy(was, w, sizeof was);
            memcpy(is, v, sizeof is);
            for (uint32_t j = 0; j < EMBD; j++) CHECK_NEAR(fabs(is[j]), 1, 1e-6);
        }
        const bool reads = kind <= QSF_K_ATTN_V || kind == QSF_K_FFN_GATE || kind == QSF_K_FFN_UP;
        for (uint32_t j = 0; reads && j < n; j++)
            CHECK_NEAR(w[j] * was[j % EMBD], v[j] * is[j % EMBD], 1e-3 * fabs(w[j]) + 1e-6);
    }
    in.close(&in);
    if (back) back->close(back);
}

TEST(efforts_are_what_they_are_called)
{
    static uint8_t none[1 << 18], some[1 << 18];
    static convert_tensor tensors[32];
    hessians k = { 100, false, 0 };
    fake f = { 0 };
    qsf_convert_options o = options();
    convert_report r;
    qsf_error err;
    CHECK_EQ(convert_fake(&f, &o, &r, NULL, &err), QSF_OK);
    const size_t n = file_bytes(none, sizeof none);
    o.effort = 0;
    CHECK_EQ(convert_with(&o, &k, &r, NULL, &err), QSF_OK);
    CHECK_EQ(k.asked, 0);
    CHECK(file_bytes(some, sizeof some) == n && !memcmp(none, some, n));
    for (int effort = 1; effort <= 3; effort++) {
        o.effort = effort;
        CHECK_EQ(convert_with(&o, &k, &r, tensors, &err), QSF_OK);
        CHECK(file_bytes(some, sizeof some) == n && memcmp(none, some, n));
        CHECK((tensors[2].output_energy > 0) == (effort > 1));
    }
    k.diagonal = true;                                       /* no more is known than effort 1 uses */
    CHECK_EQ(convert_with(&o, &k, &r, tensors, &err), QSF_OK);
    CHECK_EQ(tensors[2].output_energy > 0, 0);
    k.tokens = 0;                                            /* nothing is known of any matrix */
    o.equalize = QSF_CONVERT_OFF;
    o.outliers = QSF_CONVERT_OFF;
    CHECK_EQ(convert_with(&o, &k, &r, tensors, &err), QSF_OK);
    file_bytes(some, sizeof some);
    o.effort = 0;
    CHECK_EQ(convert_fake(&f, &o, &r, NULL, &err), QSF_OK);
    CHECK_EQ(file_bytes(none, sizeof none), n);
    CHECK(!memcmp(none, some, n));
}

/* Every call of a calibrated conversion fails once. */
TEST(a_calibrated_conversion_that_fails_leaves_nothing_behind)
{
    hessians k = { 100, false, 0 };
    const encode_hessians h = { &k, hessians_read };
    bool done = false;
    for (uint64_t n = 1; n < 100000 && !done; n += 1 + n / (TEST_EVERY > 1 ? 4 : 40)) {
        fault_platform fp;
        fake f = { 0 };
        input in;
        qsf_convert_options o = options();
        qsf_error err = { 0 };
        convert_report r;
        fault_init_over(&fp, qsf_platform_native());
        fp.fail_at = n;
        o.n_threads = 1;
        add_rule(&o, "ffn_*", "trellis2", 0);
        fake_open_on(&fp.table, &in, &f, "llama");
        const qsf_status st =
            in.tensors ? qsf_conv_run_with(&in, &o, &h, out_path, &r, &err) : QSF_E_MEMORY;
        in.close(&in);
        done = fp.calls < n;
        if (st && done) printf("    %s\n", err.text);
        CHECK_EQ(st == QSF_OK, done);
        CHECK(!st || !in.tensors || err.text[0]);
        CHECK_EQ(fp.bytes, 0);
        CHECK_EQ(fp.outs, 0);
    }
    CHECK(done);
    remove(out_path);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(feedback_of_each_column_is_the_least_squares_one);
    RUN(hessians_that_are_none_are_refused_and_poor_ones_are_not);
    RUN(what_is_stored_has_the_reported_error_in_every_set);
    RUN(without_correlation_weights_take_the_nearest_value_of_their_block);
    RUN(the_trellis_finds_the_best_path);
    RUN(more_effort_lowers_the_error_of_outputs);
    RUN(a_column_that_counts_most_is_met_and_others_stay);
    RUN(weights_that_are_no_numbers_are_refused);
    RUN(files_are_the_same_with_any_number_of_threads);
    RUN(norms_are_folded_into_what_reads_them);
    RUN(efforts_are_what_they_are_called);
    if (!TEST_THREADS_ONLY) RUN(a_calibrated_conversion_that_fails_leaves_nothing_behind);
    return test_end();
}
