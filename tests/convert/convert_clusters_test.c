/* The converter's clusters, of the head's rows and of the embedding's.
 * SPDX-License-Identifier: MIT */
#define OUT "convert_clusters_test"
#include "convert_fake.h"

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
    const char *tiny = OUT "_tiny.qsf";
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
        /* which checks that every row is there */
        CHECK_EQ(qsf_source_open(qsf_platform_native(), out_path, NULL, false, &s, &err), QSF_OK);
        CHECK(s && s->clusters && s->embd_clusters && s->embd_clusters->n == 10);
        if (s && s->clusters) {
            CHECK_EQ(s->clusters->n, 20);
            CHECK_EQ(s->clusters->first[20], 700);
            for (uint32_t i = 0; i < 20; i++)
                CHECK(s->clusters->radius[i] > 0 || s->clusters->first[i + 1] - s->clusters->first[i] < 2);
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

/* Lossless residuals give the rows back, also from a file that has clusters already, and to a file
 * without clusters. */
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
    const char *again = OUT "_again.qsf";
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

/* Two bits of residual lose less than two bits of the rows: here, where rows lie near three
 * points, far less. */
static float near_points(const input *in, uint32_t i, uint32_t row, uint32_t col)
{
    const float point = i ? 0 : (float)((row % 3 * 7 + col * 5) % 11) - 5;
    return point + fake_weight(in, i, row, col);
}

static qsf_status near_read(input *in, uint32_t i, uint32_t row, uint32_t n, float *out, qsf_error *err)
{
    (void)err;
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t c = 0; c < in->tensors[i].cols; c++)
            out[(size_t)r * in->tensors[i].cols + c] = near_points(in, i, row + r, c);
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
    const char *tiny = OUT "_tiny.qsf";
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
    const char *tiny = OUT "_tiny.qsf";
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

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(clusters_of_the_head_are_whole_and_do_not_depend_on_threads);
    RUN(an_embedding_in_clusters_is_whole_when_it_is_converted_again);
    RUN(clusters_of_the_embedding_find_its_points);
    RUN(a_target_size_counts_what_clusters_take);
    RUN(clusters_that_cannot_be_made_are_refused);
    return test_end();
}
