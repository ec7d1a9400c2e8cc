/* The converter from an input made here to a file read back: what is stored, what is reported, what happens on errors.
 * SPDX-License-Identifier: MIT */
#include "convert.h"
#include "engine_host.h"
#include "fault_platform.h"
#include "importance.h"
#include "make_tiny_clusters.h"
#include "plan/forms.h"
#include "plan/loss.h"
#include "read/source_input.h"
#include "test.h"

enum { EMBD = 64, FF = 96, VOCAB = 48, LAYERS = 2, KV = 32, N_PRESETS = QSF_CONVERT_MIXED + 1 };

typedef struct fake { const char *broken; uint32_t bad_row; uint64_t salt; bool spikes; } fake;

/* One weight, from its place alone. */
static float fake_weight(const input *in, uint32_t i, uint32_t row, uint32_t col)
{
    const fake *f = in->own;
    uint64_t h = (uint64_t)i * 1000003 + (uint64_t)row * 10007 + col + f->salt;
    double sum = 0;
    for (int k = 0; k < 4; k++) {
        h = (h ^ h >> 31) * 0x9e3779b97f4a7c15u;
        sum += (double)(h >> 40) / 16777216.0 - 0.5;
    }
    if (f->spikes) return (float)((in->tensors[i].rows == 1) + 0.05 * sum * (h % 251 == 0 ? 40 : 1));
    return (float)(in->tensors[i].rows == 1 ? 1 + 0.1 * sum : 0.05 * sum * (1 + 3 * (col % 17 == 0)));
}

static qsf_status fake_read(input *in, uint32_t i, uint32_t row, uint32_t n, float *out, qsf_error *err)
{
    const fake *f = in->own;
    (void)err;
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t c = 0; c < in->tensors[i].cols; c++) out[(size_t)r * in->tensors[i].cols + c] = fake_weight(in, i, row + r, c);
    if (f->broken && !strcmp(f->broken, in->tensors[i].name) && f->bad_row >= row && f->bad_row < row + n)
        out[(size_t)(f->bad_row - row) * in->tensors[i].cols + 3] = NAN;
    return QSF_OK;
}

static void fake_add(input *in, uint32_t unit, uint32_t kind, const char *name, uint32_t rows, uint32_t cols)
{
    in->tensors[in->n_tensors++] = (input_tensor){ unit, kind, rows, cols, name, 4ull * rows * cols, QSF_T_F32 };
}

static void fake_close(input *in) { qsf_arena_free(in->arena); }

static void fake_open_on(const qsf_platform *p, input *in, fake *f, const char *arch)
{
    static const struct { uint32_t kind, rows, cols; const char *names[LAYERS]; } layer[] = {
        { QSF_K_ATTN_NORM, 1, EMBD, { "blk.0.attn_norm", "blk.1.attn_norm" } },
        { QSF_K_ATTN_Q, EMBD, EMBD, { "blk.0.attn_q", "blk.1.attn_q" } },
        { QSF_K_ATTN_K, KV, EMBD, { "blk.0.attn_k", "blk.1.attn_k" } },
        { QSF_K_ATTN_V, KV, EMBD, { "blk.0.attn_v", "blk.1.attn_v" } },
        { QSF_K_ATTN_OUT, EMBD, EMBD, { "blk.0.attn_output", "blk.1.attn_output" } },
        { QSF_K_FFN_NORM, 1, EMBD, { "blk.0.ffn_norm", "blk.1.ffn_norm" } },
        { QSF_K_FFN_GATE, FF, EMBD, { "blk.0.ffn_gate", "blk.1.ffn_gate" } },
        { QSF_K_FFN_UP, FF, EMBD, { "blk.0.ffn_up", "blk.1.ffn_up" } },
        { QSF_K_FFN_DOWN, EMBD, FF, { "blk.0.ffn_down", "blk.1.ffn_down" } },
    };
    memset(in, 0, sizeof *in);
    in->platform = p;
    in->read = fake_read;
    in->close = fake_close;
    in->own = f;
    in->arena = NULL;
    if (qsf_arena_new(in->platform, &in->arena, NULL)) return;
    in->hp = (qsf_hparams){ .n_layers = LAYERS, .n_embd = EMBD, .n_heads = 2, .n_kv_heads = 1, .head_dim = 32, .n_ff = FF, .n_vocab = VOCAB,
                            .n_ctx_train = 128, .norm = QSF_NORM_RMS, .act = QSF_ACT_SILU, .rope = QSF_ROPE_PAIRS, .gated = true, .tied = true,
                            .norm_eps = 1e-5f, .embd_scale = 1, .rope_base = 10000 };
    snprintf(in->hp.arch, sizeof in->hp.arch, "%s", arch);
    in->vocab.bos = in->vocab.eos = in->vocab.eot = in->vocab.unk = in->vocab.pad = -1;
    in->tensors = qsf_arena_array(in->arena, 32, sizeof *in->tensors, "tensors", NULL);
    if (!in->tensors) return;
    fake_add(in, LAYERS, QSF_K_TOKEN_EMBD, "token_embd", VOCAB, EMBD);
    for (uint32_t l = 0; l < LAYERS; l++)
        for (size_t k = 0; k < QSF_ARRAY_LEN(layer); k++) fake_add(in, l, layer[k].kind, layer[k].names[l], layer[k].rows, layer[k].cols);
    fake_add(in, LAYERS + 1, QSF_K_OUTPUT_NORM, "output_norm", 1, EMBD);
}

static void fake_open(input *in, fake *f, const char *arch) { fake_open_on(qsf_platform_native(), in, f, arch); }

static qsf_convert_rule rules[8];

static void add_rule(qsf_convert_options *o, const char *pattern, const char *type, uint32_t block)
{
    o->rules = rules;
    rules[o->n_rules++] = (qsf_convert_rule){ pattern, type, block };
}

static const char *out_path = "convert_test.qsf";

static qsf_status convert_fake(fake *f, const qsf_convert_options *o, convert_report *r, convert_tensor *tensors, qsf_error *err)
{
    input in;
    fake_open(&in, f, "llama");
    const qsf_status st = qsf_conv_run(&in, o, out_path, r, err);
    if (st == QSF_OK && tensors) memcpy(tensors, r->tensors, in.n_tensors * sizeof *tensors);
    in.close(&in);
    return st;
}

static size_t file_bytes(uint8_t *to, size_t cap)
{
    FILE *f = fopen(out_path, "rb");
    if (!f) return 0;
    const size_t n = fread(to, 1, cap, f);
    fclose(f);
    return n;
}

/* ---- what is stored ---- */

/* Every preset, packing and block: the file's tensors are the input's, as near as the report says. */
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
            for (uint32_t i = 0; i < in.n_tensors && i < back->n_tensors; i++) {
                static float w[FF * EMBD], v[FF * EMBD];
                const uint32_t rows = in.tensors[i].rows, cols = in.tensors[i].cols;
                double e = 0, s = 0;
                CHECK_EQ(back->tensors[i].kind, in.tensors[i].kind);
                CHECK_EQ(back->tensors[i].rows, rows);
                CHECK_EQ(back->tensors[i].cols, cols);
                CHECK_EQ(in.read(&in, i, 0, rows, w, &err), QSF_OK);
                CHECK_EQ(back->read(back, i, 0, rows, v, &err), QSF_OK);
                for (uint32_t k = 0; k < rows * cols; k++) {
                    s += (double)w[k] * w[k];
                    e += ((double)w[k] - v[k]) * ((double)w[k] - v[k]);
                }
                CHECK_NEAR(e / s, qsf_conv_relative_error(&r.tensors[i].error), 1e-6);
                if (rows > 20) {                              /* rows from the middle are the same rows */
                    static float part[3 * FF];
                    CHECK_EQ(back->read(back, i, 15, 3, part, &err), QSF_OK);
                    CHECK_EQ(memcmp(part, v + 15 * cols, 3 * cols * sizeof *part), 0);
                }
            }
            back->close(back);
            in.close(&in);
        }
    remove(out_path);
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

static qsf_status convert_tiny(const char *path, const qsf_convert_options *o, qsf_error *err)
{
    input *in;
    convert_report r;
    qsf_status st = qsf_input_open(qsf_platform_native(), path, &in, err);
    if (st) return st;
    st = qsf_conv_run(in, o, out_path, &r, err);
    in->close(in);
    return st;
}

TEST(clusters_of_the_head_are_whole_and_do_not_depend_on_threads)
{
    static uint8_t one[1 << 20], many[1 << 20];
    const char *tiny = "convert_test_tiny.qsf";
    for (int tied = 0; tied < 2; tied++) {
        tiny_options to = tiny_defaults();
        qsf_convert_options o;
        qsf_source *s;
        qsf_error err = { 0 };
        to.hp.tied = tied;
        to.hp.n_vocab = 700;
        CHECK_EQ(tiny_write(qsf_platform_native(), tiny, &to, &err), QSF_OK);
        qsf_convert_defaults(&o);
        o.outliers = QSF_CONVERT_OFF;
        o.head_clusters = 20;
        o.embd_clusters = 10;
        o.n_threads = 1;
        CHECK_EQ(convert_tiny(tiny, &o, &err), QSF_OK);
        const size_t n = file_bytes(one, sizeof one);
        o.n_threads = 3;
        CHECK_EQ(convert_tiny(tiny, &o, &err), QSF_OK);
        CHECK_EQ(file_bytes(many, sizeof many), n);
        CHECK_EQ(memcmp(one, many, n), 0);
        CHECK_EQ(qsf_source_open(qsf_platform_native(), out_path, NULL, false, &s, &err), QSF_OK);     /* which checks that every row is there */
        CHECK(s && s->clusters && s->embd_clusters && s->embd_clusters->n == 10);
        if (s && s->clusters) {
            CHECK_EQ(s->clusters->n, 20);
            CHECK_EQ(s->clusters->first[20], 700);
            for (uint32_t i = 0; i < 20; i++) CHECK(s->clusters->radius[i] > 0 || s->clusters->first[i + 1] - s->clusters->first[i] < 2);
        }
        qsf_source_close(s);
    }
    remove(tiny);
    remove(out_path);
}

/* The embedding of the file that was written. */
static void read_embd(float *to, input_tensor *t, bool *tied)
{
    qsf_error err;
    input *back;
    CHECK_EQ(qsf_input_open_source(qsf_platform_native(), out_path, &back, &err), QSF_OK);
    if (!back) return;
    *t = back->tensors[0];
    *tied = back->hp.tied;
    CHECK_EQ(back->read(back, 0, 0, VOCAB, to, &err), QSF_OK);
    back->close(back);
}

/* Residuals that lose nothing give the rows back, also from a file that has them already, and to one that has none any more. */
TEST(an_embedding_in_clusters_is_whole_when_it_is_converted_again)
{
    static float want[VOCAB * EMBD], have[VOCAB * EMBD];
    fake f = { 0 };
    qsf_convert_options o;
    convert_report r;
    input_tensor t = { 0 };
    input in;
    bool tied = true;
    qsf_error err = { 0 };
    const char *again = "convert_test_again.qsf";
    fake_open(&in, &f, "llama");
    CHECK_EQ(in.read(&in, 0, 0, VOCAB, want, &err), QSF_OK);
    in.close(&in);
    qsf_convert_defaults(&o);
    add_rule(&o, "token_embd", "f32", 0);
    for (int round = 0; round < 3; round++) {
        o.embd_clusters = round < 2 ? 3 - (uint32_t)round : 0;
        if (!round) CHECK_EQ(convert_fake(&f, &o, &r, NULL, &err), QSF_OK);
        else CHECK_EQ(convert_tiny(again, &o, &err), QSF_OK);
        read_embd(have, &t, &tied);
        for (int i = 0; i < VOCAB * EMBD; i++) CHECK_NEAR(have[i], want[i], 1e-6);
        CHECK(!tied);
        CHECK_EQ(t.source_type, QSF_T_F32);
        remove(again);
        CHECK_EQ(rename(out_path, again), 0);
    }
    remove(again);
}

/* Two bits of residual lose less than two bits of the rows: here, where rows lie near three points, far less. */
static float near_points(const input *in, uint32_t i, uint32_t row, uint32_t col)
{
    const float point = i ? 0 : (float)((row % 3 * 7 + col * 5) % 11) - 5;
    return point + fake_weight(in, i, row, col);
}

static qsf_status near_read(input *in, uint32_t i, uint32_t row, uint32_t n, float *out, qsf_error *err)
{
    (void)err;
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t c = 0; c < in->tensors[i].cols; c++) out[(size_t)r * in->tensors[i].cols + c] = near_points(in, i, row + r, c);
    return QSF_OK;
}

TEST(clusters_of_the_embedding_find_its_points)
{
    fake f = { 0 };
    qsf_convert_options o;
    double error[2];
    qsf_convert_defaults(&o);
    add_rule(&o, "token_embd", "2bit", 64);
    for (int k = 0; k < 2; k++) {
        input in;
        convert_report r;
        qsf_error err = { 0 };
        fake_open(&in, &f, "llama");
        in.read = near_read;
        o.embd_clusters = k ? 3 : 0;
        CHECK_EQ(qsf_conv_run(&in, &o, out_path, &r, &err), QSF_OK);
        error[k] = qsf_conv_relative_error(&r.tensors[0].error);
        in.close(&in);
    }
    CHECK(error[0] > 0.01 && error[1] < 1e-3);
    remove(out_path);
}

TEST(a_target_size_counts_what_clusters_take)
{
    static uint8_t file[1 << 20];
    const char *tiny = "convert_test_tiny.qsf";
    tiny_options to = tiny_defaults();
    qsf_convert_options o;
    qsf_error err = { 0 };
    to.vocab = QSF_VOCAB_NONE;
    to.embd_type = QSF_T_F16;
    to.hp.n_vocab = 8192;
    CHECK_EQ(tiny_write(qsf_platform_native(), tiny, &to, &err), QSF_OK);
    qsf_convert_defaults(&o);
    o.embd_clusters = 512;              /* 50 KB, more than a size has to spare */
    o.target_bytes = 700000;
    CHECK_EQ(convert_tiny(tiny, &o, &err), QSF_OK);
    const size_t n = file_bytes(file, sizeof file);
    CHECK(n > 600000 && n <= o.target_bytes);
    remove(tiny);
    remove(out_path);
}

TEST(clusters_that_cannot_be_made_are_refused)
{
    const char *tiny = "convert_test_tiny.qsf";
    fake f = { 0 };
    qsf_convert_options o;
    convert_report r;
    qsf_error err = { 0 };
    const tiny_options to = tiny_defaults();
    qsf_convert_defaults(&o);
    o.head_clusters = 3;
    CHECK_EQ(convert_fake(&f, &o, &r, NULL, &err), QSF_E_UNSUPPORTED);      /* nothing that runs */
    CHECK(strstr(err.text, "first") != NULL);
    CHECK_EQ(tiny_write(qsf_platform_native(), tiny, &to, &err), QSF_OK);
    o.head_clusters = 288 / 16 + 1;
    CHECK_EQ(convert_tiny(tiny, &o, &err), QSF_E_ARGUMENT);
    o.head_clusters = 3;
    o.preset = QSF_CONVERT_F16;
    CHECK_EQ(convert_tiny(tiny, &o, &err), QSF_E_UNSUPPORTED);
    o.embd_clusters = 288 / 16 + 1;
    CHECK_EQ(convert_tiny(tiny, &o, &err), QSF_E_ARGUMENT);
    o.embd_clusters = 0;
    o.preset = QSF_CONVERT_8BIT;
    o.ram_bytes = 20000;
    CHECK_EQ(convert_tiny(tiny, &o, &err), QSF_E_BUDGET);
    remove(tiny);
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
    CHECK_EQ(t[19].type, QSF_T_F16);                          /* the final norm: the format says so */
    add_rule(&o, "atn_q", "f16", 0);
    qsf_error err = { 0 };
    CHECK_EQ(convert_fake(&f, &o, &r, t, &err), QSF_E_ARGUMENT);
    CHECK(strstr(err.text, "atn_q") != NULL);
    remove(out_path);
}

/* Heavy tails at 2 bits: keeping the largest weights apart takes error away, and the file gives them back. */
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

/* Scaled channels leave the products of neighbours what they were: norm gains and columns, rows of v and columns of the output. */
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
        CHECK_NEAR(t[3].row_scale[j % KV] * t[4].col_scale[j], 1, 1e-6);      /* two query heads share the key head */
    }
    for (int j = 0; j < FF; j++) CHECK_NEAR(t[7].row_scale[j] * t[8].col_scale[j], 1, 1e-6);
    CHECK(!t[6].row_scale && !t[1].row_scale && !t[8].row_scale);
    in.close(&in);
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
    CHECK(strstr(err.text, "blk.1.ffn_up") && strstr(err.text, "row 37") && strstr(err.text, "column 3 is not a number"));
    if (!strstr(err.text, "row 37")) printf("    %s\n", err.text);
    f.broken = "token_embd";
    o.embd_clusters = 3;
    CHECK_EQ(convert_fake(&f, &o, &r, NULL, &err), QSF_E_CORRUPT);
    CHECK(strstr(err.text, "token_embd") && strstr(err.text, "row 37") && strstr(err.text, "column 3 is not a number"));
    check_old_file();
}

static bool is_cancelled(void *user)
{
    (void)user;
    return true;
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

/* Every call of the platform fails once (later ones are sampled): an error, the old file, nothing leaked. */
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
        fault_init_over(&fp, qsf_platform_native());
        fp.fail_at = n;
        qsf_convert_defaults(&o);
        o.preset = QSF_CONVERT_MIXED;
        o.outliers = QSF_CONVERT_ON;
        o.embd_clusters = 2;
        o.n_threads = 1;
        put_old_file();
        fake_open_on(&fp.table, &in, &f, "llama");
        const qsf_status made = in.tensors ? qsf_conv_run(&in, &o, out_path, &r, NULL) : QSF_E_MEMORY;
        in.close(&in);
        done = fp.calls < n;
        CHECK_EQ(made == QSF_OK, done);
        CHECK_EQ(fp.bytes, 0);
        CHECK_EQ(fp.outs, 0);
        if (!done) check_old_file();
        if (!done) continue;
        const uint64_t before = fp.calls;
        for (uint64_t m = 1; m < 100000; m += 1 + m / 20) {             /* the same for reading the new file */
            fp.calls = 0;
            fp.fail_at = m;
            const qsf_status st = qsf_input_open_source(&fp.table, out_path, &back, NULL);
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

/* ---- calibration ---- */

static void put_text(const qsf_platform *p, const char *path, size_t len)
{
    static char text[4000];
    qsf_out *out;
    uint64_t seed = 7;
    for (size_t i = 0; i < sizeof text; i++) text[i] = tiny_uniform(&seed) < 0.2 ? ' ' : (char)('a' + (int)(tiny_uniform(&seed) * 20));
    CHECK_EQ(p->create(p->user, path, &out), QSF_OK);
    CHECK_EQ(p->write(p->user, out, 0, text, len), QSF_OK);
    CHECK_EQ(p->commit(p->user, out), QSF_OK);
}

/* Eight layers, the fourth of which hardly does anything; where they are compressed, with an embedding in clusters. */
static bool calibration_begin(engine_host *h, uint8_t compression)
{
    qsf_error err;
    qsf_embd_clusters k;
    tiny_options o = tiny_defaults();
    if (!tiny_embd_clusters_make(&k, 20, o.hp.n_vocab, o.hp.n_embd)) return false;
    if (compression) {
        o.hp.tied = false;
        o.embd_clusters = &k;
    }
    o.hp.n_layers = 8;
    o.idle = 1 + 3;
    o.outliers = true;
    o.compression = compression;
    engine_host_init(h);
    put_text(&h->m.p, "text", 1500);
    put_text(&h->m.p, "short", 40);
    const qsf_status st = tiny_write(&h->m.p, "m", &o, &err);
    tiny_embd_clusters_free(&k);
    CHECK(st == QSF_OK || st == QSF_E_UNSUPPORTED);
    return st == QSF_OK;
}

static void calibration_end(engine_host *h)
{
    CHECK_EQ(h->m.live, 0);
    engine_host_done(h);
}

TEST(calibration_finds_the_idle_layer_and_leaves_the_weights)
{
    for (uint8_t compression = 0; compression < 2; compression++) {
        engine_host h;
        qsf_error err = { 0 };
        qsf_source *s[2] = { NULL };
        uint64_t bytes;
        unsigned places = 0;
        qsf_convert_options o;
        qsf_convert_defaults(&o);
        o.n_threads = 1;
        if (calibration_begin(&h, compression)) {
            const qsf_platform *p = &h.m.p;
            CHECK_EQ(qsf_conv_calibrate(p, "m", "text", "out", &o, &bytes, &err), QSF_OK);
            if (err.text[0]) printf("    %s\n", err.text);
            CHECK_EQ(qsf_source_open(p, "m", NULL, false, &s[0], &err), QSF_OK);
            CHECK_EQ(qsf_source_open(p, "out", NULL, false, &s[1], &err), QSF_OK);
            for (uint32_t i = 0; s[1] && i < 10; i++) {
                const float importance = s[1]->units[i].importance;
                CHECK_EQ(s[0]->units[i].crc, s[1]->units[i].crc);
                CHECK_EQ(s[0]->units[i].compression, s[1]->units[i].compression);
                if (i < 2 || i > 5) CHECK_NEAR(importance, 1, 0);
                else places |= 1u << (int)(importance * 4);
            }
            CHECK_EQ(places, 15);
            CHECK_EQ(s[1] && s[1]->embd_clusters, compression);
            if (s[1] && s[1]->embd_clusters)
                CHECK(!memcmp(s[0]->embd_clusters->of, s[1]->embd_clusters->of, 288 * sizeof *s[0]->embd_clusters->of) &&
                      !memcmp(s[0]->embd_clusters->centroids.data, s[1]->embd_clusters->centroids.data, (size_t)s[0]->embd_clusters->centroids.bytes));
            if (s[1]) CHECK_NEAR(s[1]->units[3].importance, 0.125, 0);
            o.n_threads = 3;                                    /* again, from the new file, on threads: the same file */
            CHECK_EQ(qsf_conv_calibrate(p, "out", "text", "again", &o, &bytes, &err), QSF_OK);
            const mem_file *a = mem_find(&h.m, "out"), *b = mem_find(&h.m, "again");
            CHECK(a && b && a->len == b->len && a->len == bytes && !memcmp(a->bytes, b->bytes, (size_t)a->len));
        }
        qsf_source_close(s[0]);
        qsf_source_close(s[1]);
        calibration_end(&h);
    }
}

TEST(calibration_that_fails_leaves_the_old_file)
{
    engine_host h;
    uint64_t bytes;
    qsf_error err = { 0 };
    qsf_convert_options o;
    qsf_convert_defaults(&o);
    o.n_threads = 1;
    if (calibration_begin(&h, 0)) {
        const qsf_platform *p = &h.m.p;
        put_text(p, "out", 20);
        CHECK_EQ(qsf_conv_calibrate(p, "m", "short", "out", &o, &bytes, &err), QSF_E_ARGUMENT);
        CHECK(strstr(err.text, "too few") != NULL);
        CHECK_EQ(qsf_conv_calibrate(p, "m", "none", "out", &o, &bytes, &err), QSF_E_NOT_FOUND);
        o.ram_bytes = 1000;
        CHECK_EQ(qsf_conv_calibrate(p, "m", "text", "out", &o, &bytes, &err), QSF_E_BUDGET);
        o.ram_bytes = 0;
        o.cancelled = is_cancelled;
        CHECK_EQ(qsf_conv_calibrate(p, "m", "text", "out", &o, &bytes, &err), QSF_E_CANCELLED);
        o.cancelled = NULL;
        h.m.calls = 0;
        CHECK_EQ(qsf_conv_calibrate(p, "m", "text", "whole", &o, &bytes, &err), QSF_OK);
        const long calls = h.m.calls, live = h.m.live;
        int survived = 0;
        for (long n = 1; n <= calls; n += 1 + calls * TEST_EVERY / 12) {
            h.m.calls = 0;
            h.m.fail_at = n;
            const qsf_status st = qsf_conv_calibrate(p, "m", "text", "out", &o, &bytes, &err);
            h.m.fail_at = 0;
            CHECK_EQ(h.m.live, live);
            if (st == QSF_OK) survived++,
                put_text(p, "out", 20);       /* what was read ahead is read again */
            CHECK_EQ(mem_find(&h.m, "out")->len, 20);
        }
        CHECK(survived <= 2);
        static const struct { const char *text, *to; } lost[] = { { "text", "m" }, { "text", "text" } };
        for (size_t i = 0; i < 2; i++) {
            const uint64_t len = mem_find(&h.m, lost[i].to)->len;
            CHECK_EQ(qsf_conv_calibrate(p, "m", lost[i].text, lost[i].to, &o, &bytes, &err), QSF_E_ARGUMENT);
            CHECK(strstr(err.text, "which would be lost") != NULL);
            CHECK_EQ(mem_find(&h.m, lost[i].to)->len, len);
        }
    }
    calibration_end(&h);
}

TEST(names_are_found)
{
    qsf_convert_preset p;
    uint32_t type;
    for (int i = 0; i < N_PRESETS; i++) {
        CHECK(qsf_convert_preset_find(qsf_convert_preset_name((qsf_convert_preset)i), &p));
        CHECK_EQ(p, i);
    }
    CHECK(!qsf_convert_preset_find("5bit", &p));
    CHECK(!strcmp(qsf_convert_preset_name((qsf_convert_preset)N_PRESETS), "?"));
    CHECK(qsf_conv_type_find("5bit_s", &type) && type == QSF_T_5BIT_S);
    CHECK(!qsf_conv_type_find("mixed", &type));
    CHECK(!qsf_conv_type_find("q4_0", &type));
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(stored_weights_have_the_reported_error);
    RUN(threads_do_not_change_the_file);
    RUN(clusters_of_the_head_are_whole_and_do_not_depend_on_threads);
    RUN(an_embedding_in_clusters_is_whole_when_it_is_converted_again);
    RUN(clusters_of_the_embedding_find_its_points);
    RUN(a_target_size_counts_what_clusters_take);
    RUN(clusters_that_cannot_be_made_are_refused);
    RUN(rules_give_tensors_their_types);
    RUN(outliers_are_kept_where_they_pay);
    RUN(sizes_are_kept_and_low_cosines_raised);
    RUN(equalising_keeps_the_function);
    RUN(a_bad_weight_is_named_and_the_old_file_stays);
    RUN(cancelling_leaves_the_old_file);
    RUN(too_little_memory_is_said_before_work);
    if (!TEST_THREADS_ONLY) RUN(failing_calls_leave_nothing_behind);
    RUN(calibration_finds_the_idle_layer_and_leaves_the_weights);
    RUN(calibration_that_fails_leaves_the_old_file);
    RUN(names_are_found);
    return test_end();
}
