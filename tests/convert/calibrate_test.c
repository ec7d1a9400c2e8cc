/* What matrices are multiplied with: measured, kept in a file, read from it and from llama.cpp's.
 * SPDX-License-Identifier: MIT */
#define OUT "calibrate_test"
#include "calibrate/calibration.h"
#include "calibrate/hessian_file.h"
#include "calibrate/imatrix.h"
#include "calibrate/measure.h"
#include "convert_fake.h"

/* ---- a scene: the tiny model "m" and the options that calibrate it ---- */

typedef struct scene {
    engine_host h;
    input *in;
    qsf_convert_options o;
    uint64_t steps;             /* progress told of */
    bool ok;
} scene;

static void note_progress(void *user, const char *stage, const char *name, uint64_t done, uint64_t total)
{
    scene *s = user;
    (void)name;
    (void)done;
    (void)total;
    s->steps += !strcmp(stage, "calibrate");
}

static tiny_options scene_model(void)
{
    tiny_options o = tiny_defaults();
    o.type = QSF_T_F16;
    o.packing = 0;
    return o;
}

static void scene_begin(scene *s, const tiny_options *model)
{
    qsf_error err = { 0 };
    memset(s, 0, sizeof *s);
    engine_host_init(&s->h);
    s->ok = !tiny_write(&s->h.m.p, "m", model, &err) && !qsf_input_open_source(&s->h.m.p, "m", &s->in, &err);
    if (!s->ok) printf("    %s\n", err.text);
    CHECK(s->ok);
    qsf_convert_defaults(&s->o);
    s->o.platform = &s->h.m.p;
    s->o.n_threads = 1;
    s->o.calibrate = "self";
    s->o.calibration_file = "cal";
    s->o.calibrate_seqs = 6;
    s->o.calibrate_len = 24;
    s->o.user = s;
    s->o.progress = note_progress;
}

static void scene_end(scene *s)
{
    if (s->in) s->in->close(s->in);
    CHECK_EQ(s->h.m.live, 0);
    engine_host_done(&s->h);
}

static qsf_status scene_open(scene *s, convert_calibration **c, qsf_error *err)
{
    memset(err, 0, sizeof *err);
    s->steps = 0;
    return qsf_cal_open(s->in, "m", "out", &s->o, c, err);
}

/* Makes the file anew. */
static void scene_make(scene *s)
{
    convert_calibration *c;
    qsf_error err;
    mem_file *old = mem_find(&s->h.m, "cal");
    if (old) mem_drop(old);
    CHECK_EQ(scene_open(s, &c, &err), QSF_OK);
    if (err.text[0]) printf("    %s\n", err.text);
    qsf_cal_free(c);
    CHECK(mem_find(&s->h.m, "cal") != NULL);
}

/* ---- a sum as plain as can be ---- */

enum { PLAIN_COLS = 96, PLAIN_INPUTS = 9 };

typedef struct plain_sums {
    double   sum[PLAIN_INPUTS][PLAIN_COLS][PLAIN_COLS], first[PLAIN_INPUTS][PLAIN_COLS];
    uint64_t n[PLAIN_INPUTS], n_first[PLAIN_INPUTS];
    uint32_t cols[PLAIN_INPUTS];
} plain_sums;

static int plain_place(int32_t layer, uint32_t kind)
{
    const int of_layer = kind == QSF_K_ATTN_Q ? 0 : kind == QSF_K_ATTN_OUT ? 1 : kind == QSF_K_FFN_UP ? 2 : 3;
    return layer < 0 ? PLAIN_INPUTS - 1 : 4 * layer + of_layer;
}

static void plain_watch(void *user, const qsf_watched *w)
{
    plain_sums *k = user;
    const int at = plain_place(w->layer, w->kind);
    k->cols[at] = w->cols;
    for (uint32_t r = 0; r < w->n; r++) {
        const float *x = w->x + r * w->ld;
        for (uint32_t i = 0; w->rows[r].pos == 0 && i < w->cols; i++) k->first[at][i] += x[i];
        k->n_first[at] += w->rows[r].pos == 0;
        if (w->rows[r].pos < 2) continue;
        k->n[at]++;
        for (uint32_t i = 0; i < w->cols; i++)
            for (uint32_t j = 0; j < w->cols; j++) k->sum[at][i][j] += (double)x[i] * x[j];
    }
}

/* The same text, one sequence after the other, with the logits of all rows. */
static void plain_run(scene *s, plain_sums *k)
{
    qsf_model_options mo;
    qsf_context_options co;
    qsf_model *m = NULL;
    qsf_context *c = NULL;
    cal_text t;
    qsf_error err = { 0 };
    qsf_model_defaults(&mo);
    qsf_context_defaults(&co);
    mo.platform = &s->h.m.p;
    co.f32 = true;
    co.n_seqs = 1;
    co.n_ctx = 64;
    co.n_threads = 1;
    CHECK_EQ(qsf_model_open("m", &mo, &m, &err), QSF_OK);
    CHECK_EQ(qsf_cal_text(&t, m, &s->o, &err), QSF_OK);
    CHECK_EQ(qsf_context_new(m, &co, &c, &err), QSF_OK);
    if (c) c->watch = (qsf_watch){ plain_watch, k };
    for (uint32_t i = 0; c && i < t.n_seqs; i++) {
        const float *logits;
        CHECK_EQ(t.lens[i], s->o.calibrate_len);
        CHECK_EQ(t.ids[i * t.len], qsf_token_bos(m));
        CHECK_EQ(qsf_seq_truncate(c, 0, 0), QSF_OK);
        qsf_hidden_ask(c, true);
        CHECK_EQ(qsf_feed(c, 0, t.ids + (size_t)i * t.len, t.lens[i], &logits), QSF_OK);
    }
    qsf_context_free(c);
    qsf_cal_text_free(&t);
    qsf_model_close(m);
}

static void check_input(convert_calibration *c, const plain_sums *k, uint32_t unit, uint32_t kind, int at)
{
    static float h[PLAIN_COLS * PLAIN_COLS], first[PLAIN_COLS];
    const uint32_t cols = k->cols[at];
    uint64_t tokens = 0;
    bool diagonal = true;
    qsf_error err = { 0 };
    double top = 0, worst = 0;
    CHECK_EQ(qsf_cal_hessian(c, unit, kind, cols, h, first, &tokens, &diagonal, &err), QSF_OK);
    if (err.text[0]) printf("    %s\n", err.text);
    CHECK_EQ(tokens, k->n[at]);
    CHECK(!diagonal);
    for (uint32_t i = 0; i < cols; i++) {
        CHECK_NEAR(first[i], k->first[at][i] / (double)k->n_first[at], 1e-5);
        for (uint32_t j = 0; j < cols; j++) {
            const double want = k->sum[at][i][j] / (double)k->n[at];
            top = QSF_MAX(top, fabs(want));
            worst = QSF_MAX(worst, fabs(want - h[i * cols + j]));
        }
    }
    CHECK_NEAR(worst / top, 0, 1e-5);
    CHECK_EQ(qsf_cal_hessian(c, unit, kind, cols + 1, h, first, &tokens, &diagonal, &err), QSF_E_ARGUMENT);
}

TEST(hessians_are_mean_products_of_what_matrices_are_multiplied_with)
{
    static const uint32_t kinds[] = { QSF_K_ATTN_Q, QSF_K_ATTN_K, QSF_K_ATTN_V, QSF_K_ATTN_OUT,
                                      QSF_K_FFN_GATE, QSF_K_FFN_UP, QSF_K_FFN_DOWN };
    static plain_sums k;
    static float h[PLAIN_COLS * PLAIN_COLS], first[PLAIN_COLS];
    for (int tied = 0; tied < 2; tied++) {
        scene s;
        convert_calibration *c = NULL;
        qsf_error err;
        uint64_t tokens;
        bool diagonal;
        tiny_options model = scene_model();
        model.hp.tied = tied;
        memset(&k, 0, sizeof k);
        scene_begin(&s, &model);
        s.o.calibration_file = NULL;
        CHECK_EQ(s.ok && qsf_cal_runs(&s.h.m.p, &s.o), 1);
        s.o.calibration_file = "cal";
        if (s.ok && !scene_open(&s, &c, &err)) {
            plain_run(&s, &k);
            for (uint32_t l = 0; l < 2; l++)
                for (size_t i = 0; i < QSF_ARRAY_LEN(kinds); i++)
                    check_input(c, &k, l, kinds[i], plain_place((int32_t)l, qsf_gram_kind(kinds[i])));
            if (tied) check_input(c, &k, 2, QSF_K_TOKEN_EMBD, PLAIN_INPUTS - 1);
            else check_input(c, &k, 3, QSF_K_OUTPUT, PLAIN_INPUTS - 1);
            if (!tied)
                CHECK_EQ(qsf_cal_hessian(c, 2, QSF_K_TOKEN_EMBD, 64, h, first, &tokens, &diagonal, &err),
                         QSF_E_NOT_FOUND);
            CHECK_EQ(qsf_cal_hessian(c, 0, QSF_K_ATTN_NORM, 64, h, first, &tokens, &diagonal, &err),
                     QSF_E_NOT_FOUND);
        }
        CHECK(c != NULL);
        qsf_cal_free(c);
        scene_end(&s);
    }
}

/* ---- the same bits ---- */

static uint8_t *file_copy(scene *s, uint64_t *len)
{
    const mem_file *f = mem_find(&s->h.m, "cal");
    uint8_t *copy = f ? malloc((size_t)f->len) : NULL;
    *len = copy ? f->len : 0;
    if (copy) memcpy(copy, f->bytes, (size_t)f->len);
    return copy;
}

static bool file_is(scene *s, const uint8_t *bytes, uint64_t len)
{
    const mem_file *f = mem_find(&s->h.m, "cal");
    return f && f->len == len && !memcmp(f->bytes, bytes, (size_t)len);
}

TEST(neither_threads_nor_passes_change_a_bit)
{
    scene s;
    uint64_t len, one_pass, most = 0;
    tiny_options model = scene_model();
    model.hp.n_layers = 3;
    model.hp.n_ff = 1100;
    scene_begin(&s, &model);
    if (s.ok) {
        scene_make(&s);
        one_pass = s.steps;
        uint8_t *bytes = file_copy(&s, &len);
        s.o.n_threads = 2;
        scene_make(&s);
        CHECK(file_is(&s, bytes, len));
        /* from what is too little to what is enough */
        for (uint64_t ram = 4000000; ram < 40000000; ram += 1000000 * TEST_EVERY) {
            convert_calibration *c;
            qsf_error err;
            s.o.ram_bytes = ram;
            mem_drop(mem_find(&s.h.m, "cal"));
            const qsf_status st = scene_open(&s, &c, &err);
            if (st) {
                CHECK_EQ(st, QSF_E_BUDGET);
                CHECK(mem_find(&s.h.m, "cal") == NULL);
                mem_put(&s.h.m, "cal", bytes, len);
                continue;
            }
            qsf_cal_free(c);
            CHECK(file_is(&s, bytes, len));
            CHECK(s.steps >= one_pass);
            most = QSF_MAX(most, s.steps);
            if (s.steps == one_pass) break;
        }
        CHECK(most > one_pass);
        CHECK_EQ(s.steps, one_pass);
        free(bytes);
    }
    scene_end(&s);
}

/* ---- the file ---- */

TEST(a_file_is_read_again_and_another_models_is_refused)
{
    scene s, other;
    convert_calibration *c;
    qsf_error err;
    tiny_options model = scene_model();
    scene_begin(&s, &model);
    model.seed = 2;
    scene_begin(&other, &model);
    if (s.ok && other.ok) {
        uint64_t len;
        scene_make(&s);
        CHECK(s.steps > 0);
        uint8_t *bytes = file_copy(&s, &len);
        CHECK_EQ(qsf_cal_runs(&s.h.m.p, &s.o), 0);
        CHECK_EQ(scene_open(&s, &c, &err), QSF_OK);
        CHECK_EQ(s.steps, 0);
        qsf_cal_free(c);
        s.o.calibrate_seed = 7;
        CHECK_EQ(scene_open(&s, &c, &err), QSF_E_ARGUMENT);
        CHECK(strstr(err.text, "a different text or options") != NULL);
        s.o.calibrate = NULL;
        CHECK_EQ(scene_open(&s, &c, &err), QSF_OK);
        qsf_cal_free(c);
        s.o.calibration_file = "none";
        CHECK_EQ(scene_open(&s, &c, &err), QSF_E_NOT_FOUND);
        mem_put(&other.h.m, "cal", bytes, len);
        CHECK_EQ(scene_open(&other, &c, &err), QSF_E_ARGUMENT);
        CHECK(strstr(err.text, "another model") != NULL);
        free(bytes);
    }
    scene_end(&s);
    scene_end(&other);
}

TEST(damaged_files_are_refused)
{
    static float h[PLAIN_COLS * PLAIN_COLS], first[PLAIN_COLS];
    scene s;
    qsf_error err;
    const tiny_options model = scene_model();
    scene_begin(&s, &model);
    if (s.ok) {
        uint64_t len;
        scene_make(&s);
        uint8_t *bytes = file_copy(&s, &len);
        /* every byte of header and table; then some of the values; then every length */
        for (uint64_t at = 0; at < len; at += at < 64 + 9 * 32 ? 1 : 1511) {
            cal_file f;
            bytes[at] ^= 1;
            mem_put(&s.h.m, "cal", bytes, len);
            bytes[at] ^= 1;
            qsf_status st = qsf_hessian_open(&s.h.m.p, "cal", &f, &err);
            for (uint32_t i = 0; !st && i < f.n; i++)
                st = qsf_hessian_read(&f, &f.records[i], h, first, &err);
            CHECK(st == QSF_E_CORRUPT || st == QSF_E_UNSUPPORTED);
            qsf_hessian_close(&f);
        }
        for (uint64_t n = 0; n < len; n += n < 400 ? 1 : 1511) {
            cal_file f;
            mem_put(&s.h.m, "cal", bytes, n);
            CHECK_EQ(qsf_hessian_open(&s.h.m.p, "cal", &f, &err), QSF_E_CORRUPT);
        }
        free(bytes);
    }
    scene_end(&s);
}

TEST(faults_leave_nothing_behind)
{
    scene s;
    convert_calibration *c;
    qsf_error err;
    const tiny_options model = scene_model();
    scene_begin(&s, &model);
    if (s.ok) {
        s.o.cancelled = is_cancelled;
        CHECK_EQ(scene_open(&s, &c, &err), QSF_E_CANCELLED);
        CHECK(mem_find(&s.h.m, "cal") == NULL);
        s.o.cancelled = NULL;
        s.h.m.calls = 0;
        scene_make(&s);
        const long calls = s.h.m.calls, live = s.h.m.live;
        const int files = mem_count(&s.h.m) - 1;
        for (long n = 1; n <= calls; n += TEST_EVERY) {
            mem_file *old = mem_find(&s.h.m, "cal");
            if (old) mem_drop(old);
            s.h.m.calls = 0;
            s.h.m.fail_at = n;
            const qsf_status st = scene_open(&s, &c, &err);
            s.h.m.fail_at = 0;
            CHECK_EQ(mem_count(&s.h.m), files + (mem_find(&s.h.m, "cal") != NULL));
            if (!st) qsf_cal_free(c);
            else CHECK(err.text[0] != 0);
            CHECK_EQ(s.h.m.live, live);
        }
    }
    scene_end(&s);
}

/* ---- texts ---- */

TEST(a_text_of_the_users_is_cut_into_pieces)
{
    scene s;
    convert_calibration *c;
    qsf_error err;
    char text[3000];
    const tiny_options model = scene_model();
    scene_begin(&s, &model);
    if (s.ok) {
        for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i % 23);
        mem_put(&s.h.m, "text", text, sizeof text);
        mem_put(&s.h.m, "short", text, 40);
        s.o.calibrate = "text";
        scene_make(&s);
        CHECK_EQ(scene_open(&s, &c, &err), QSF_OK);
        qsf_cal_free(c);
        text[5]++;
        mem_put(&s.h.m, "text", text, sizeof text);
        CHECK_EQ(scene_open(&s, &c, &err), QSF_E_ARGUMENT);
        s.o.calibration_file = "another";
        s.o.calibrate = "short";
        CHECK_EQ(scene_open(&s, &c, &err), QSF_E_ARGUMENT);
        CHECK(strstr(err.text, "too few") != NULL);
        s.o.calibrate = "none";
        CHECK_EQ(scene_open(&s, &c, &err), QSF_E_NOT_FOUND);
    }
    scene_end(&s);
}

/* ---- importance matrices: tests/fuzz/make_imatrix.py made them ---- */

static uint8_t *corpus_file(const char *name, size_t *len)
{
    char path[256];
    static uint8_t bytes[1 << 16];
    snprintf(path, sizeof path, "tests/fuzz/corpus/calibration/%s", name);
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    *len = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    if (f) fclose(f);
    return bytes;
}

static void check_diagonal(convert_calibration *c, uint32_t unit, uint32_t kind, uint32_t cols, float base,
                           uint64_t rows)
{
    static float h[PLAIN_COLS * PLAIN_COLS], first[PLAIN_COLS];
    uint64_t tokens = 0;
    bool diagonal = false;
    qsf_error err = { 0 };
    CHECK_EQ(qsf_cal_hessian(c, unit, kind, cols, h, first, &tokens, &diagonal, &err), QSF_OK);
    if (err.text[0]) printf("    %s\n", err.text);
    CHECK(diagonal);
    CHECK_EQ(tokens, rows);
    for (uint32_t i = 0; i < cols; i++) {
        const float want = kind == QSF_K_TOKEN_EMBD ? 9 + (float)(i % 4) : base + (float)(i % 16 + 1) / 16;
        CHECK_NEAR(h[i * cols + i], want, 1e-5);
        CHECK_NEAR(h[i * cols + (i + 1) % cols], 0, 0);
        CHECK_NEAR(first[i], 0, 0);
    }
}

TEST(importance_matrices_of_both_forms_are_diagonals)
{
    static const char *const names[] = { "imatrix-dat", "imatrix-gguf" };
    static const uint64_t rows[] = { 3, 1536 };
    for (int form = 0; form < 2; form++) {
        scene s;
        convert_calibration *c;
        qsf_error err;
        size_t len;
        const tiny_options model = scene_model();
        scene_begin(&s, &model);
        const uint8_t *bytes = corpus_file(names[form], &len);
        mem_put(&s.h.m, "cal", bytes, len);
        CHECK_EQ(s.ok ? scene_open(&s, &c, &err) : QSF_E_IO, QSF_E_ARGUMENT);      /* it is not measured */
        s.o.calibrate = NULL;
        const qsf_status read = s.ok ? scene_open(&s, &c, &err) : QSF_E_IO;
        CHECK_EQ(read, QSF_OK);
        if (!read) {
            for (uint32_t l = 0; l < 2; l++) {
                const float at = (float)l;
                check_diagonal(c, l, QSF_K_ATTN_Q, 64, at, rows[form]);
                check_diagonal(c, l, QSF_K_ATTN_K, 64, at + 1, rows[form]);
                check_diagonal(c, l, QSF_K_ATTN_V, 64, at, rows[form]);         /* as q */
                check_diagonal(c, l, QSF_K_ATTN_OUT, 64, at + 2, rows[form]);
                check_diagonal(c, l, QSF_K_FFN_GATE, 64, at + 3, rows[form]);   /* as up */
                check_diagonal(c, l, QSF_K_FFN_DOWN, 96, at + 4, rows[form]);
            }
            check_diagonal(c, 2, QSF_K_TOKEN_EMBD, 64, 0, rows[form]);          /* as output */
            qsf_cal_free(c);
        } else {
            printf("    %s\n", err.text);
        }
        /* a truncated file is an error, or whole if it is cut after all entries */
        for (size_t n = 0; s.ok && n < len; n += 1 + n / 7) {
            cal_imatrix *m;
            mem_put(&s.h.m, "cal", bytes, n);
            const qsf_status st = qsf_imatrix_open(&s.h.m.p, "cal", &m, &err);
            CHECK(st == QSF_E_CORRUPT || (st == QSF_OK && form == 0 && n + 32 > len));
            if (!st) qsf_imatrix_close(m);
        }
        scene_end(&s);
    }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(hessians_are_mean_products_of_what_matrices_are_multiplied_with);
    RUN(neither_threads_nor_passes_change_a_bit);
    if (!TEST_THREADS_ONLY) {
        RUN(a_file_is_read_again_and_another_models_is_refused);
        RUN(damaged_files_are_refused);
        RUN(faults_leave_nothing_behind);
        RUN(a_text_of_the_users_is_cut_into_pieces);
        RUN(importance_matrices_of_both_forms_are_diagonals);
    }
    return test_end();
}
