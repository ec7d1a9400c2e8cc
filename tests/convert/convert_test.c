/* The converter: what is stored is what was reported, options do what they say, and whatever goes
 * wrong leaves the file that was there.
 * SPDX-License-Identifier: MIT */
#define OUT "convert_test"
#include "convert_fake.h"

/* ---- what is stored ---- */

/* Every preset, packing and block: the file's tensors are the input's, as near as the
 * report says. */
/* What was read comes back with the error that the report says, rows from the middle as well. */
static void check_stored(input *in, input *back, const convert_report *r)
{
    qsf_error err;
    for (uint32_t i = 0; i < in->n_tensors && i < back->n_tensors; i++) {
        static float w[FF * EMBD], v[FF * EMBD];
        const uint32_t rows = in->tensors[i].rows, cols = in->tensors[i].cols;
        double e = 0, s = 0;
        CHECK_EQ(back->tensors[i].kind, in->tensors[i].kind);
        CHECK_EQ(back->tensors[i].rows, rows);
        CHECK_EQ(back->tensors[i].cols, cols);
        CHECK_EQ(in->read(in, i, 0, rows, w, &err), QSF_OK);
        CHECK_EQ(back->read(back, i, 0, rows, v, &err), QSF_OK);
        for (uint32_t k = 0; k < rows * cols; k++) {
            s += (double)w[k] * w[k];
            e += ((double)w[k] - v[k]) * ((double)w[k] - v[k]);
        }
        CHECK_NEAR(e / s, qsf_conv_relative_error(&r->tensors[i].error), 1e-6);
        if (rows > 20) {                              /* rows from the middle are the same rows */
            static float part[3 * FF];
            CHECK_EQ(back->read(back, i, 15, 3, part, &err), QSF_OK);
            CHECK_EQ(memcmp(part, v + 15 * cols, 3 * cols * sizeof *part), 0);
        }
    }
}

TEST(stored_weights_have_the_reported_error)
{
    for (int preset = 0; preset < N_PRESETS; preset++)
        for (int packing = 0; packing < 4; packing++) {
            fake f = { 0 };
            input in;
            input *back = NULL;
            qsf_convert_options o;
            convert_report r;
            qsf_error err = { 0 };
            qsf_convert_defaults(&o);
            o.preset = (qsf_convert_preset)preset;
            o.packing = packing % 2;
            o.embd_clusters = packing / 2 * 3;
            o.equalize = QSF_CONVERT_OFF;
            o.compression = (qsf_convert_compression)((preset + packing) % 4);
            fake_open(&in, &f, "llama");
            qsf_status st = qsf_conv_run(&in, &o, out_path, &r, &err);
            if (st == QSF_E_UNSUPPORTED) {                    /* a library that this build lacks */
                in.close(&in);
                fake_open(&in, &f, "llama");
                o.compression = QSF_CONVERT_NONE;
                err.text[0] = 0;
                st = qsf_conv_run(&in, &o, out_path, &r, &err);
            }
            CHECK_EQ(st, QSF_OK);
            if (err.text[0]) printf("    %s\n", err.text);
            CHECK_EQ(qsf_input_open_source(in.platform, out_path, &back, &err), QSF_OK);
            if (!back) { printf("    %s\n", err.text); in.close(&in); return; }
            CHECK_EQ(back->n_tensors, in.n_tensors);
            CHECK_EQ(back->hp.tied, !o.embd_clusters);
            check_stored(&in, back, &r);
            back->close(back);
            in.close(&in);
        }
    remove(out_path);
}

TEST(trellises_have_the_reported_error)
{
    static const char *const types[] = { "trellis2", "trellis3", "trellis4", "trellis5" };
    for (size_t k = 0; k < QSF_ARRAY_LEN(types); k++) {
        fake f = { 0 };
        input in;
        input *back = NULL;
        qsf_convert_options o;
        convert_report r;
        qsf_error err = { 0 };
        qsf_convert_defaults(&o);
        o.equalize = QSF_CONVERT_OFF;
        add_rule(&o, "*", types[k], 0);
        o.outliers = QSF_CONVERT_ON;            /* a trellis keeps none */
        o.block = 32;                           /* and has one size of blocks */
        fake_open(&in, &f, "llama");
        CHECK_EQ(qsf_conv_run(&in, &o, out_path, &r, &err), QSF_OK);
        if (err.text[0]) printf("    %s\n", err.text);
        CHECK_EQ(qsf_input_open_source(in.platform, out_path, &back, &err), QSF_OK);
        CHECK_EQ(r.tensors[0].type, QSF_T_TRELLIS2 + k);
        CHECK_EQ(r.tensors[0].block, 64);
        CHECK_EQ(back->n_tensors, in.n_tensors);
        check_stored(&in, back, &r);
        back->close(back);
        in.close(&in);
        add_rule(&o, "*", types[k], 32);
        fake_open(&in, &f, "llama");
        CHECK_EQ(qsf_conv_run(&in, &o, out_path, &r, &err), QSF_E_UNSUPPORTED);
        CHECK(strstr(err.text, "has no blocks of 32") != NULL);
        in.close(&in);
    }
    remove(out_path);
}

TEST(tables_have_the_reported_error)
{
    for (uint32_t packing = 0; packing < 2; packing++)
        for (uint32_t k = 0; k < 4; k++) {
            fake f = { 0 };
            input in;
            input *back = NULL;
            qsf_convert_options o;
            convert_report r;
            qsf_error err = { 0 };
            qsf_convert_defaults(&o);
            o.equalize = QSF_CONVERT_OFF;
            o.outliers = k % 2 ? QSF_CONVERT_ON : QSF_CONVERT_OFF;
            o.packing = packing;
            add_rule(&o, "*", k / 2 ? "table3" : "table4", 32u << k);
            fake_open(&in, &f, "llama");
            CHECK_EQ(qsf_conv_run(&in, &o, out_path, &r, &err), QSF_OK);
            if (err.text[0]) printf("    %s\n", err.text);
            CHECK_EQ(qsf_input_open_source(in.platform, out_path, &back, &err), QSF_OK);
            CHECK_EQ(r.tensors[0].type, QSF_T_TABLE4 + k / 2);
            CHECK_EQ(r.tensors[0].block, 32u << k);
            check_stored(&in, back, &r);
            back->close(back);
            in.close(&in);
        }
    remove(out_path);
}

/* Every preset but f16: codes and scale of what is ternary already are the input's, to the bit. */
TEST(ternary_matrices_stay_as_they_are)
{
    for (int preset = 0; preset <= QSF_CONVERT_TERNARY5; preset++)
        for (uint32_t packing = 0; packing < 2; packing++) {
            fake f = { .ternary = true };
            input in, *back = NULL;
            qsf_convert_options o;
            convert_report r;
            qsf_error err = { 0 };
            const uint32_t type = preset == QSF_CONVERT_F16        ? QSF_T_F16
                                  : preset == QSF_CONVERT_TERNARY5 ? QSF_T_TERNARY5
                                                                   : QSF_T_TERNARY2;
            qsf_convert_defaults(&o);
            o.preset = (qsf_convert_preset)preset;
            o.packing = packing;
            o.outliers = o.equalize = QSF_CONVERT_ON;
            fake_open(&in, &f, "llama");
            CHECK_EQ(qsf_conv_run(&in, &o, out_path, &r, &err), QSF_OK);
            CHECK_EQ(qsf_input_open_source(in.platform, out_path, &back, &err), QSF_OK);
            for (uint32_t i = 0; back && i < in.n_tensors; i++) {
                static float w[FF * EMBD], v[FF * EMBD];
                const uint32_t rows = in.tensors[i].rows, n = rows * in.tensors[i].cols;
                if (rows == 1 || in.tensors[i].unit >= LAYERS) continue;
                CHECK_EQ(back->tensors[i].source_type, type);
                CHECK_EQ(r.tensors[i].n_outliers, 0);
                CHECK_EQ(in.read(&in, i, 0, rows, w, &err), QSF_OK);
                CHECK_EQ(back->read(back, i, 0, rows, v, &err), QSF_OK);
                if (type == QSF_T_F16) continue;
                CHECK(back->tensors[i].scale == TERNARY);
                CHECK_EQ(memcmp(w, v, n * sizeof *w), 0);
                CHECK_NEAR(r.tensors[i].error.err_sq, 0, 0);
            }
            if (back) back->close(back);
            in.close(&in);
        }
    remove(out_path);
}

/* With one weight of another size the matrix is quantised like any other; ternary5 is refused. */
TEST(what_is_not_ternary_is_refused_by_name)
{
    const qsf_convert_rule rule = { "blk.1.ffn_up", "ternary5", 0 };
    for (int with_rule = 0; with_rule < 2; with_rule++) {
        fake f = { .ternary = with_rule, .broken = "blk.1.ffn_up", .bad_row = 20 };
        input in;
        qsf_convert_options o;
        convert_report r;
        qsf_error err = { 0 };
        qsf_convert_defaults(&o);
        o.preset = with_rule ? QSF_CONVERT_4BIT : QSF_CONVERT_TERNARY5;
        o.rules = &rule;
        o.n_rules = (size_t)with_rule;
        fake_open(&in, &f, "llama");
        CHECK_EQ(qsf_conv_run(&in, &o, out_path, &r, &err), QSF_E_ARGUMENT);
        CHECK(strstr(err.text, with_rule ? "blk.1.ffn_up is not ternary" : "blk.0.attn_q is not ternary"));
        in.close(&in);
    }
}

TEST(threads_do_not_change_the_file)
{
    static uint8_t one[1 << 20], many[1 << 20];
    fake f = { 0 };
    qsf_convert_options o;
    convert_report r;
    qsf_convert_defaults(&o);
    o.preset = QSF_CONVERT_MIXED;
    o.n_threads = 1;
    CHECK_EQ(convert_fake(&f, &o, &r, NULL, NULL), QSF_OK);
    const size_t n = file_bytes(one, sizeof one);
    CHECK(n > 4096);
    o.n_threads = 5;
    CHECK_EQ(convert_fake(&f, &o, &r, NULL, NULL), QSF_OK);
    CHECK_EQ(file_bytes(many, sizeof many), n);
    CHECK_EQ(memcmp(one, many, n), 0);
    CHECK_EQ(r.file_bytes, n);
    remove(out_path);
}

TEST(rules_give_tensors_their_types)
{
    fake f = { 0 };
    qsf_convert_options o;
    convert_report r;
    convert_tensor t[32];
    qsf_convert_defaults(&o);
    add_rule(&o, "attn_?", "8bit", 0);
    add_rule(&o, "blk.1.*v", "f16", 0);
    add_rule(&o, "token*", "6bit_s", 32);
    CHECK_EQ(convert_fake(&f, &o, &r, t, NULL), QSF_OK);
    CHECK_EQ(t[0].type, QSF_T_6BIT_S);
    CHECK_EQ(t[0].block, 32);
    CHECK_EQ(t[2].type, QSF_T_8BIT);
    CHECK_EQ(t[4].type, QSF_T_8BIT);
    CHECK_EQ(t[13].type, QSF_T_F16);
    CHECK_EQ(t[1].type, QSF_T_F32);
    CHECK_EQ(t[19].type, QSF_T_F16);                          /* the final norm, as the format requires */
    add_rule(&o, "atn_q", "f16", 0);
    qsf_error err = { 0 };
    CHECK_EQ(convert_fake(&f, &o, &r, t, &err), QSF_E_ARGUMENT);
    CHECK(strstr(err.text, "atn_q") != NULL);
    remove(out_path);
}

/* Heavy tails at 2 bits: keeping the largest weights apart takes error away, and the file gives
 * them back. */
TEST(outliers_are_kept_where_they_pay)
{
    double error[3];
    for (int when = QSF_CONVERT_AUTO; when <= QSF_CONVERT_ON; when++) {
        fake f = { .spikes = true };
        input in;
        input *back = NULL;
        qsf_convert_options o;
        convert_report r;
        qsf_error err = { 0 };
        uint64_t n = 0;
        double e = 0, s = 0;
        qsf_convert_defaults(&o);
        o.preset = QSF_CONVERT_2BIT;
        o.outliers = (qsf_convert_switch)when;
        o.equalize = QSF_CONVERT_OFF;
        fake_open(&in, &f, "llama");
        CHECK_EQ(qsf_conv_run(&in, &o, out_path, &r, &err), QSF_OK);
        CHECK_EQ(qsf_input_open_source(in.platform, out_path, &back, &err), QSF_OK);
        if (!back) { printf("    %s\n", err.text); in.close(&in); return; }
        CHECK_EQ(back->n_tensors, in.n_tensors);
        for (uint32_t i = 0; i < in.n_tensors; i++) {
            static float w[FF * EMBD], v[FF * EMBD];
            double te = 0, ts = 0;
            if (in.tensors[i].unit >= LAYERS || !qsf_input_is_matrix(&in.tensors[i])) continue;
            CHECK_EQ(in.read(&in, i, 0, in.tensors[i].rows, w, &err), QSF_OK);
            CHECK_EQ(back->read(back, i, 0, in.tensors[i].rows, v, &err), QSF_OK);
            for (uint32_t k = 0; k < in.tensors[i].rows * in.tensors[i].cols; k++) {
                ts += (double)w[k] * w[k];
                te += ((double)w[k] - v[k]) * ((double)w[k] - v[k]);
            }
            CHECK_NEAR(te / ts, qsf_conv_relative_error(&r.tensors[i].error), 1e-6);
            n += r.tensors[i].n_outliers;
            e += te;
            s += ts;
        }
        CHECK((n > 0) == (when != QSF_CONVERT_OFF));
        error[when] = e / s;
        back->close(back);
        in.close(&in);
    }
    CHECK(error[QSF_CONVERT_AUTO] < error[QSF_CONVERT_OFF]);
    CHECK(error[QSF_CONVERT_ON] < 0.7 * error[QSF_CONVERT_OFF]);
    remove(out_path);
}

TEST(sizes_are_kept_and_low_cosines_raised)
{
    fake f = { 0 };
    qsf_convert_options o;
    convert_report r;
    convert_tensor t[32];
    qsf_error err = { 0 };
    qsf_convert_defaults(&o);
    for (uint64_t target = 70000; target <= 130000; target += 10000) {
        o.target_bytes = target;
        CHECK_EQ(convert_fake(&f, &o, &r, t, &err), QSF_OK);
        CHECK(r.file_bytes <= target);
    }
    o.target_bytes = 20000;
    CHECK_EQ(convert_fake(&f, &o, &r, t, &err), QSF_E_ARGUMENT);
    CHECK(strstr(err.text, "smallest") != NULL);
    o.target_bytes = 0;
    o.preset = QSF_CONVERT_MIXED;
    add_rule(&o, "attn_q", "2bit", 0);
    CHECK_EQ(convert_fake(&f, &o, &r, t, &err), QSF_OK);
    CHECK_EQ(t[2].type, QSF_T_2BIT);                          /* the user's word stands */
    for (uint32_t i = 3; i < 10; i++) CHECK(qsf_conv_cosine(&t[i].error) >= 0.99);
    remove(out_path);
}

/* Scaled channels leave the products of neighbours what they were: norm gains and columns, rows of
 * v and columns of the output. */
TEST(equalising_keeps_the_function)
{
    fake f = { 0 };
    input in;
    qsf_convert_options o;
    convert_report r;
    qsf_convert_defaults(&o);
    o.preset = QSF_CONVERT_F16;
    o.equalize = QSF_CONVERT_ON;
    fake_open(&in, &f, "llama");
    CHECK_EQ(qsf_conv_run(&in, &o, out_path, &r, NULL), QSF_OK);
    CHECK(r.equalized);
    const convert_tensor *t = r.tensors + 1;                  /* layer 0 in the order of fake_open */
    for (int j = 0; j < EMBD; j++) {
        CHECK_NEAR(t[0].col_scale[j] * t[1].col_scale[j], 1, 1e-6);
        CHECK(t[1].col_scale == t[2].col_scale && t[2].col_scale == t[3].col_scale);
        CHECK_NEAR(t[5].col_scale[j] * t[6].col_scale[j], 1, 1e-6);
        /* two query heads share the key head */
        CHECK_NEAR(t[3].row_scale[j % KV] * t[4].col_scale[j], 1, 1e-6);
    }
    for (int j = 0; j < FF; j++) CHECK_NEAR(t[7].row_scale[j] * t[8].col_scale[j], 1, 1e-6);
    CHECK(!t[6].row_scale && !t[1].row_scale && !t[8].row_scale);
    in.close(&in);
    remove(out_path);
}

static double odd_channel;
static uint32_t odd_layer;

/* Inputs of attention are as large as their gains, except channel 7 of one layer; those of layer
 * 0's attention output and down matrix are all equal, except channel 7. */
static qsf_status measured_sizes(void *user, uint32_t unit, uint32_t kind, uint32_t cols, float *size,
                                 bool *known, qsf_error *err)
{
    static float gain[EMBD];
    input *in = user;
    const bool normed = kind == QSF_K_ATTN_Q;
    const bool odd = unit == (normed ? odd_layer : 0);
    *known = normed || (unit == 0 && (kind == QSF_K_ATTN_OUT || kind == QSF_K_FFN_DOWN));
    if (!*known) return QSF_OK;
    CHECK_EQ(cols, kind == QSF_K_FFN_DOWN ? FF : EMBD);
    const qsf_status st = in->read(in, 1 + 9 * unit, 0, 1, gain, err);
    for (uint32_t j = 0; j < cols; j++)
        size[j] = (normed ? gain[j] : 1) * (odd && j == 7 ? (float)odd_channel : 1);
    size[9] = 0;                                              /* nothing is known of it */
    return st;
}

static void check_levelled(const convert_tensor *t, const float *gain, double *scale)
{
    for (int j = 0; j < EMBD; j++) {
        CHECK_NEAR(t[0].col_scale[j] * t[1].col_scale[j], 1, 1e-6);
        CHECK(t[1].col_scale == t[2].col_scale && t[2].col_scale == t[3].col_scale);
        CHECK_NEAR(t[3].row_scale[j % KV] * t[4].col_scale[j], 1, 1e-6);
        if (j != 7) CHECK_NEAR(t[1].col_scale[j] / gain[j], 1, 0.1);
    }
    for (int j = 0; j < FF; j++) CHECK_NEAR(t[7].row_scale[j] * t[8].col_scale[j], 1, 1e-6);
    scale[0] = t[1].col_scale[7] / gain[7];
    scale[1] = t[4].col_scale[7] / t[4].col_scale[8];
    scale[2] = t[8].col_scale[7] / t[8].col_scale[8];
    CHECK_EQ(t[1].col_scale[9], gain[9]);
    CHECK_EQ(t[8].col_scale[9], 1);
    CHECK(!t[6].row_scale && !t[1].row_scale && !t[8].row_scale);
}

/* With error feedback gains go into the matrices whole; a channel that is far larger than the
 * others is made smaller, the more so the more bits its column has: in all layers of a model where
 * the hidden state of one has such a channel. */
TEST(a_large_channel_is_made_smaller)
{
    static const struct { double factor; uint32_t layer; qsf_convert_preset preset; } cases[] = {
        { 1, 0, QSF_CONVERT_2BIT }, { 100, 0, QSF_CONVERT_2BIT }, { 100, 0, QSF_CONVERT_8BIT },
        { 100, 1, QSF_CONVERT_8BIT } };
    double scale[4][3];
    for (int k = 0; k < 4; k++) {
        fake f = { 0 };
        input in;
        qsf_convert_options o;
        convert_report r;
        float gain[EMBD];
        odd_channel = cases[k].factor;
        odd_layer = cases[k].layer;
        qsf_convert_defaults(&o);
        o.effort = 2;
        o.preset = cases[k].preset;
        fake_open(&in, &f, "llama");
        in.sizes = measured_sizes;
        in.sizes_user = &in;
        CHECK_EQ(qsf_conv_run(&in, &o, out_path, &r, NULL), QSF_OK);
        CHECK_EQ(in.read(&in, 1, 0, 1, gain, NULL), QSF_OK);
        const convert_tensor *t = r.tensors + 1;
        for (int j = 0; !k && j < EMBD; j++) CHECK_EQ(t[1].col_scale[j], gain[j]);
        if (k) check_levelled(t, gain, scale[k]);
        else CHECK(!t[4].col_scale && !t[8].col_scale);
        in.close(&in);
    }
    for (int i = 0; i < 3; i++) {
        CHECK(scale[1][i] >= 1 && scale[2][i] >= 4 * scale[1][i]);
        CHECK(scale[2][i] >= 10 && scale[2][i] <= 100);
        if (i) CHECK_EQ(scale[3][i], scale[2][i]);
        else CHECK_NEAR(scale[3][i], 1, 0.1);
    }
    remove(out_path);
}

/* ---- what goes wrong ---- */

static void put_old_file(void)
{
    FILE *f = fopen(out_path, "wb");
    CHECK(f != NULL);
    if (!f) return;
    fputs("old", f);
    fclose(f);
}

static void check_old_file(void)
{
    uint8_t b[16];
    CHECK_EQ(file_bytes(b, sizeof b), 3);
    CHECK_EQ(memcmp(b, "old", 3), 0);
    remove(out_path);
}

TEST(a_bad_weight_is_named_and_the_old_file_stays)
{
    fake f = { .broken = "blk.1.ffn_up", .bad_row = 37 };
    qsf_convert_options o;
    convert_report r;
    qsf_error err = { 0 };
    qsf_convert_defaults(&o);
    put_old_file();
    CHECK_EQ(convert_fake(&f, &o, &r, NULL, &err), QSF_E_CORRUPT);
    CHECK(strstr(err.text, "blk.1.ffn_up") && strstr(err.text, "row 37") &&
          strstr(err.text, "column 3 is not a number"));
    if (!strstr(err.text, "row 37")) printf("    %s\n", err.text);
    f.broken = "token_embd";
    o.embd_clusters = 3;
    CHECK_EQ(convert_fake(&f, &o, &r, NULL, &err), QSF_E_CORRUPT);
    CHECK(strstr(err.text, "token_embd") && strstr(err.text, "row 37") &&
          strstr(err.text, "column 3 is not a number"));
    check_old_file();
}

TEST(cancelling_leaves_the_old_file)
{
    fake f = { 0 };
    qsf_convert_options o;
    convert_report r;
    qsf_convert_defaults(&o);
    o.cancelled = is_cancelled;
    put_old_file();
    CHECK_EQ(convert_fake(&f, &o, &r, NULL, NULL), QSF_E_CANCELLED);
    check_old_file();
}

TEST(too_little_memory_is_said_before_work)
{
    fake f = { 0 };
    qsf_convert_options o;
    convert_report r;
    qsf_error err = { 0 };
    qsf_convert_defaults(&o);
    o.ram_bytes = 1000;
    put_old_file();
    CHECK_EQ(convert_fake(&f, &o, &r, NULL, &err), QSF_E_BUDGET);
    CHECK(strstr(err.text, "--ram") != NULL);
    check_old_file();
}

/* Every call of the platform fails once (later ones are sampled): an error, the old file,
 * nothing leaked. */
TEST(failing_calls_leave_nothing_behind)
{
    fault_platform fp;
    uint64_t n = 1;
    for (bool done = false; !done && n < 1000000; n += 1 + n * TEST_EVERY / 40) {
        fake f = { .spikes = true };
        input in;
        input *back = NULL;
        qsf_convert_options o;
        convert_report r;
        qsf_error err = { 0 };
        fault_init_over(&fp, qsf_platform_native());
        fp.fail_at = n;
        qsf_convert_defaults(&o);
        o.preset = QSF_CONVERT_MIXED;
        o.outliers = QSF_CONVERT_ON;
        o.embd_clusters = 2;
        o.n_threads = 1;
        put_old_file();
        fake_open_on(&fp.table, &in, &f, "llama");
        const qsf_status made = in.tensors ? qsf_conv_run(&in, &o, out_path, &r, &err) : QSF_E_MEMORY;
        CHECK(!made || !in.tensors || err.text[0]);
        in.close(&in);
        done = fp.calls < n;
        CHECK_EQ(made == QSF_OK, done);
        CHECK_EQ(fp.bytes, 0);
        CHECK_EQ(fp.outs, 0);
        if (!done) check_old_file();
        if (!done) continue;
        const uint64_t before = fp.calls;
        /* the same for reading the new file */
        for (uint64_t m = 1; m < 100000; m += 1 + m / 20) {
            fp.calls = 0;
            fp.fail_at = m;
            err = (qsf_error){ 0 };
            const qsf_status st = qsf_input_open_source(&fp.table, out_path, &back, &err);
            CHECK(!st || err.text[0]);
            CHECK_EQ(st == QSF_OK, fp.calls < m);
            if (back) back->close(back);
            CHECK_EQ(fp.bytes, 0);
            CHECK_EQ(fp.files, 0);
            if (st == QSF_OK) break;
        }
        CHECK(before > 100);
    }
    remove(out_path);
}

TEST(names_are_found)
{
    qsf_convert_preset p;
    uint32_t type;
    for (int i = 0; i <= QSF_CONVERT_BY_LOSS; i++) {
        CHECK(qsf_convert_preset_find(qsf_convert_preset_name((qsf_convert_preset)i), &p));
        CHECK_EQ(p, i);
    }
    CHECK(!qsf_convert_preset_find("5bit", &p));
    CHECK(!strcmp(qsf_convert_preset_name((qsf_convert_preset)(QSF_CONVERT_BY_LOSS + 1)), "?"));
    CHECK(qsf_conv_type_find("5bit_s", &type) && type == QSF_T_5BIT_S);
    CHECK(!qsf_conv_type_find("mixed", &type));
    CHECK(!qsf_conv_type_find("q4_0", &type));
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(stored_weights_have_the_reported_error);
    RUN(ternary_matrices_stay_as_they_are);
    RUN(what_is_not_ternary_is_refused_by_name);
    RUN(threads_do_not_change_the_file);
    RUN(rules_give_tensors_their_types);
    RUN(trellises_have_the_reported_error);
    RUN(tables_have_the_reported_error);
    RUN(outliers_are_kept_where_they_pay);
    RUN(sizes_are_kept_and_low_cosines_raised);
    RUN(equalising_keeps_the_function);
    RUN(a_large_channel_is_made_smaller);
    RUN(a_bad_weight_is_named_and_the_old_file_stays);
    RUN(cancelling_leaves_the_old_file);
    RUN(too_little_memory_is_said_before_work);
    if (!TEST_THREADS_ONLY) RUN(failing_calls_leave_nothing_behind);
    RUN(names_are_found);
    return test_end();
}
