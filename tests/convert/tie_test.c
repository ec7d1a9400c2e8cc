/* A head and an embedding that are equal except for rounding become one matrix; others stay two.
 * SPDX-License-Identifier: MIT */
#define OUT "tie_test"
#include "convert_fake.h"
#include "read/tie.h"

/* How far the embedding is from the head: a share of the head's weights, in all rows or in one. */
typedef struct apart { float share; uint32_t row; bool new_row; } apart;

static apart scene_apart;
static float scene_unused;      /* a factor of row 5 in both; its own signs in the embedding */

/* Row `row` of the head, and of the embedding. */
static float scene_weight(const input *in, bool head, uint32_t row, uint32_t col)
{
    const float w = fake_weight(in, 0, row, col), noise = fake_weight(in, 9, row, col);
    if (row == 5 && scene_unused != 0) return scene_unused * (head ? w : noise);
    if (head) return w;
    if (scene_apart.new_row && row == scene_apart.row) return noise;
    return w + scene_apart.share * noise;
}

static qsf_status scene_read(input *in, uint32_t i, uint32_t row, uint32_t n, float *out, qsf_error *err)
{
    const input_tensor *t = &in->tensors[i];
    if (t->kind != QSF_K_TOKEN_EMBD && t->kind != QSF_K_OUTPUT) return fake_read(in, i, row, n, out, err);
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t c = 0; c < t->cols; c++)
            out[(size_t)r * t->cols + c] = scene_weight(in, t->kind == QSF_K_OUTPUT, row + r, c);
    return QSF_OK;
}

static bool scene_reads(input *in, const char *path) { return in->own && !strcmp(path, "weights"); }

/* A model with a head of its own. */
static void scene_open(input *in, fake *f)
{
    fake_open(in, f, "llama");
    in->hp.tied = false;
    in->read = scene_read;
    in->reads = scene_reads;
    fake_add(in, LAYERS + 1, QSF_K_OUTPUT, "output", VOCAB, EMBD);
}

static bool scene_ties(float share, double *by)
{
    fake f = { .salt = 3 };
    input in;
    qsf_error err = { 0 };
    scene_apart.share = share;
    scene_open(&in, &f);
    const uint32_t n = in.n_tensors;
    CHECK_EQ(qsf_input_tie(&in, by, &err), QSF_OK);
    CHECK_EQ(in.n_tensors, in.hp.tied ? n - 1 : n);
    const bool tied = in.hp.tied;
    in.close(&in);
    return tied;
}

TEST(near_copies_are_one_matrix)
{
    double by;
    scene_apart = (apart){ 0 };
    scene_unused = 0;
    CHECK(scene_ties(0, &by));
    CHECK(by == 0);
    CHECK(scene_ties(0.05f, &by));              /* 0.0025 in squares */
    CHECK(by > 0.001 && by < 0.005);
    CHECK(!scene_ties(0.15f, &by));
    CHECK(by > 0.01 && by < 0.05);
    CHECK(!scene_ties(1, &by));
}

TEST(one_new_token_keeps_them_apart)
{
    double by;
    scene_unused = 0;
    scene_apart = (apart){ .row = 7, .new_row = true };
    CHECK(!scene_ties(0.02f, &by));
    scene_apart = (apart){ 0 };
    scene_unused = 0.01f;                       /* but not one that says nothing */
    CHECK(scene_ties(0.02f, &by));
    scene_unused = 1;
    CHECK(!scene_ties(0.02f, &by));
}

/* The embedding has the head's rows, all else its own. */
TEST(reads_the_head)
{
    fake f = { .salt = 4 };
    input in, before;
    float a[FF * 2], b[FF * 2];
    double by;
    scene_unused = 0;
    scene_apart = (apart){ .share = 0.03f };
    scene_open(&before, &f);
    scene_open(&in, &f);
    const uint32_t head = in.n_tensors - 1;
    CHECK_EQ(qsf_input_tie(&in, &by, NULL), QSF_OK);
    CHECK(in.hp.tied && !in.untied && in.reads(&in, "weights") && !in.reads(&in, "other"));
    CHECK_EQ(in.tensors[0].kind, QSF_K_TOKEN_EMBD);
    CHECK_EQ(in.tensors[0].stored_bytes, 2 * before.tensors[0].stored_bytes);
    for (uint32_t i = 0; i < in.n_tensors; i++) {
        const uint32_t n = QSF_MIN(2, in.tensors[i].rows);
        CHECK_EQ(in.read(&in, i, 0, n, a, NULL), QSF_OK);
        CHECK_EQ(before.read(&before, i ? i : head, 0, n, b, NULL), QSF_OK);
        CHECK(!memcmp(a, b, (size_t)n * in.tensors[i].cols * sizeof *a));
    }
    /* and back: a head of its own again, which is the same */
    CHECK_EQ(qsf_input_untie(&in, NULL), QSF_OK);
    CHECK(!in.hp.tied && in.untied && in.n_tensors == head + 1 && in.reads(&in, "weights"));
    CHECK_EQ(in.tensors[head].kind, QSF_K_OUTPUT);
    CHECK_EQ(in.read(&in, head, 0, 2, a, NULL), QSF_OK);
    CHECK_EQ(before.read(&before, head, 0, 2, b, NULL), QSF_OK);
    CHECK(!memcmp(a, b, sizeof a));
    in.close(&in);
    before.close(&before);
}

/* A file without the second matrix, which opens as a tied model. */
TEST(writes_it_once)
{
    fake f = { .salt = 5 };
    input in;
    qsf_convert_options o;
    convert_report r;
    input *back = NULL;
    double by;
    uint64_t bytes[2];
    scene_unused = 0;
    scene_apart = (apart){ .share = 0.01f };
    qsf_convert_defaults(&o);
    o.preset = QSF_CONVERT_8BIT;
    for (int shared = 0; shared < 2; shared++) {
        scene_open(&in, &f);
        if (shared) CHECK_EQ(qsf_input_tie(&in, &by, NULL), QSF_OK);
        CHECK_EQ(qsf_conv_run(&in, &o, out_path, &r, NULL), QSF_OK);
        bytes[shared] = r.file_bytes;
        in.close(&in);
    }
    CHECK(bytes[0] >= bytes[1] + VOCAB * EMBD);
    CHECK_EQ(qsf_input_open(qsf_platform_native(), out_path, &back, NULL), QSF_OK);
    if (back) {
        CHECK(back->hp.tied);
        for (uint32_t i = 0; i < back->n_tensors; i++) CHECK(back->tensors[i].kind != QSF_K_OUTPUT);
        back->close(back);
    }
    remove(out_path);
}

int main(void)
{
    RUN(near_copies_are_one_matrix);
    RUN(one_new_token_keeps_them_apart);
    RUN(reads_the_head);
    RUN(writes_it_once);
    return test_end();
}
