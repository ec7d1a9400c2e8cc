/* Tuning: the network in floats against the engine, its gradients against differences, paths with
 * fixed scales against a search of everything, and that a file gets nearer to its input.
 * SPDX-License-Identifier: MIT */
#define OUT "tune_test"
#include "convert_fake.h"
#include "engine/step.h"
#include "tune/backward.h"
#include "tune/forward.h"
#include "tune/progress.h"
#include "tune/tune.h"

enum { LEN = 12, SEQS = 3, ROWS = LEN * SEQS };

typedef struct scene {
    engine_host h;
    qsf_model *m;
    tune_net   net, teacher;
    tune_team  team;
    tune_run   run;
    int32_t    ids[ROWS];
    uint32_t   first[SEQS + 1];
    float     *hidden;          /* [ROWS][64] of the teacher */
    tune_batch b;
    bool       ok;
} scene;

static void scene_begin(scene *s, const tiny_options *model)
{
    qsf_error err = { 0 };
    qsf_model_options mo;
    memset(s, 0, sizeof *s);
    engine_host_init(&s->h);
    qsf_model_defaults(&mo);
    mo.platform = &s->h.m.p;
    s->ok = !tiny_write(&s->h.m.p, "m", model, &err) && !qsf_model_open("m", &mo, &s->m, &err) &&
            !qsf_tune_can(s->m->source, &err) && !qsf_tune_net_load(&s->net, s->m->source, &err) &&
            !qsf_tune_net_load(&s->teacher, s->m->source, &err) &&
            !qsf_tune_team_new(&s->team, &s->h.m.p, 2, QSF_MAX(qsf_tune_own(&s->net, LEN),
                                                               qsf_train_own(&s->net)), &err) &&
            !qsf_tune_run_new(&s->run, &s->net, &s->team, ROWS, LEN, true, &err);
    if (!s->ok) printf("    %s\n", err.text);
    fflush(stdout);
    CHECK(s->ok);
    for (uint32_t i = 0; i < ROWS; i++) s->ids[i] = (int32_t)(i * 37 % 251);
    for (uint32_t i = 0; i <= SEQS; i++) s->first[i] = i * LEN;
    s->b = (tune_batch){ s->ids, ROWS, SEQS, LEN, s->first };
    s->hidden = calloc((size_t)ROWS * model->hp.n_embd, sizeof *s->hidden);
}

static void scene_end(scene *s)
{
    qsf_tune_run_done(&s->run);
    qsf_tune_team_done(&s->team);
    qsf_tune_net_free(&s->teacher);
    qsf_tune_net_free(&s->net);
    qsf_model_close(s->m);
    free(s->hidden);
    CHECK_EQ(s->h.m.live, 0);
    engine_host_done(&s->h);
}

static tiny_options in_floats(void)
{
    tiny_options o = tiny_defaults();
    o.type = o.embd_type = o.head_type = QSF_T_F32;
    o.packing = 0;
    return o;
}

/* ---- the way forwards ---- */

/* Logits of the last row of each sequence, by the engine and here. */
static void check_forward(const tiny_options *o)
{
    scene s;
    scene_begin(&s, o);
    qsf_context_options co;
    qsf_context *c = NULL;
    qsf_error err = { 0 };
    qsf_context_defaults(&co);
    co.f32 = true;
    co.n_ctx = 64;
    co.n_threads = 1;
    CHECK_EQ(qsf_context_new(s.m, &co, &c, &err), QSF_OK);
    qsf_tune_forward(&s.run, &s.net, &s.b);
    const tune_tensor *head = qsf_tune_head(&s.net);
    const float *bias = tune_vector(&s.net, qsf_unit_final(s.net.s), QSF_K_OUTPUT_BIAS);
    for (uint32_t i = 0; c && i < SEQS; i++) {
        qsf_row rows[LEN];
        qsf_status st = qsf_seq_truncate(c, 0, 0);
        for (uint32_t j = 0; j < LEN; j++) rows[j] = (qsf_row){ 0, s.ids[i * LEN + j], j + 1 == LEN };
        if (!st) st = qsf_batch_begin(c, rows, LEN);
        for (bool waiting; !st && (st = qsf_step(c, &waiting)) == QSF_PENDING;)
            st = waiting ? qsf_wait(c) : QSF_OK;
        CHECK_EQ(st, QSF_OK);
        const float *logits = qsf_logits(c, 0), *x = s.run.hidden + (size_t)(i * LEN + LEN - 1) * head->cols;
        double worst = 0;
        for (uint32_t v = 0; v < head->rows; v++) {
            double sum = 0;
            for (uint32_t k = 0; k < head->cols; k++)
                sum += (double)head->w[(size_t)v * head->cols + k] * x[k];
            sum += bias ? bias[v] : 0;
            worst = QSF_MAX(worst, fabs(sum - logits[v]));
        }
        CHECK_NEAR(worst, 0, 2e-2);
    }
    qsf_context_free(c);
    scene_end(&s);
}

TEST(the_way_forwards_gives_the_engines_logits)
{
    tiny_options o = in_floats();
    check_forward(&o);
    o.biases = true;
    o.hp.rope = QSF_ROPE_PAIRS;
    o.hp.tied = false;
    check_forward(&o);
    o = in_floats();
    o.qk_norms = o.post_norms = true;
    o.hp.act = QSF_ACT_GELU;
    o.hp.window = 5;
    o.hp.embd_scale = 8;
    check_forward(&o);
}

/* ---- gradients ---- */

typedef struct gradients { const tune_net *n; float **of; } gradients;

static void keep_gradient(void *user, const tune_tensor *t, const float *g, const float *x, size_t rows)
{
    gradients *k = user;
    float **to = &k->of[t - k->n->tensors];
    CHECK(!*to);                /* each one's once */
    *to = malloc((size_t)t->rows * t->cols * sizeof **to);
    memcpy(*to, g, (size_t)t->rows * t->cols * sizeof **to);
    (void)x;
    (void)rows;
}

static double divergence_at(scene *s)
{
    qsf_tune_forward(&s->run, &s->net, &s->b);
    return qsf_tune_divergence(&s->run, &s->net, &s->teacher, s->hidden, &s->b, NULL);
}

/* Along the gradient itself, where the difference is largest: |g| a unit of length. */
static void check_tensor(scene *s, uint32_t i, const float *g)
{
    tune_tensor *t = &s->net.tensors[i];
    const size_t n = (size_t)t->rows * t->cols;
    double size = 0;
    for (size_t j = 0; j < n; j++) size += (double)g[j] * g[j];
    size = sqrt(size);
    CHECK(size > 0);
    float *was = malloc(n * sizeof *was);
    memcpy(was, t->w, n * sizeof *was);
    const double h = 4e-3;
    double at[2];
    for (int side = 0; side < 2; side++) {
        for (size_t j = 0; j < n; j++) t->w[j] = was[j] + (float)((side ? h : -h) * g[j] / size);
        at[side] = divergence_at(s);
    }
    memcpy(t->w, was, n * sizeof *was);
    free(was);
    const double by = (at[1] - at[0]) / (2 * h);
    if (fabs(by - size) > 0.03 * size + 1e-6)
        printf("    tensor of unit %u, kind %u\n", (unsigned)t->unit, (unsigned)t->kind);
    CHECK_NEAR(by, size, 0.03 * size + 1e-6);
}

static void check_gradients(const tiny_options *o)
{
    scene s;
    scene_begin(&s, o);
    uint64_t seed = 5;
    qsf_tune_forward(&s.run, &s.teacher, &s.b);
    memcpy(s.hidden, s.run.hidden, (size_t)ROWS * o->hp.n_embd * sizeof *s.hidden);
    for (uint32_t i = 0; i < s.net.n; i++) {            /* away from the teacher */
        tune_tensor *t = &s.net.tensors[i];
        for (size_t j = 0; j < (size_t)t->rows * t->cols; j++)
            t->w[j] += (t->rows > 1 ? 0.03f : 0.2f) * tiny_normal(&seed);
    }
    gradients k = { &s.net, calloc(s.net.n, sizeof *k.of) };
    const tune_sink sink = { &k, keep_gradient };
    qsf_tune_forward(&s.run, &s.net, &s.b);
    const double kl = qsf_tune_divergence(&s.run, &s.net, &s.teacher, s.hidden, &s.b, &sink);
    CHECK(kl > 0.01);
    for (uint32_t i = 0; i < s.net.n; i++) {
        if (s.net.tensors[i].kind == QSF_K_OUTPUT_BIAS) continue;       /* it stays */
        CHECK(k.of[i] != NULL);
        /* apart from the rotation, a bias of keys shifts all scores of a query alike */
        if (k.of[i]) check_tensor(&s, i, k.of[i]);
        free(k.of[i]);
    }
    free(k.of);
    scene_end(&s);
}

TEST(gradients_are_what_differences_say)
{
    tiny_options o = in_floats();
    check_gradients(&o);
    o.biases = true;
    o.hp.rope = QSF_ROPE_PAIRS;
    o.hp.tied = false;
    check_gradients(&o);
    o = in_floats();
    o.qk_norms = o.post_norms = true;
    o.hp.act = QSF_ACT_GELU;
    o.hp.window = 5;
    check_gradients(&o);
}

/* ---- paths ---- */

/* The values of codes, and the least error that any codes have: by the plain search. */
TEST(a_path_is_the_best_of_its_scales_in_every_set)
{
    const tune_lanes *sets[] = { &qsf_tune_lanes_base,
                                 qsf_tune_lanes(qsf_platform_native()->cpu_features(NULL)) };
    for (unsigned bits = 2; bits <= 5; bits++)
        for (size_t set = 0; set < QSF_ARRAY_LEN(sets); set++) {
            enum { COLS = 64 };
            static float w[COLS * TUNE_ROWS], was[COLS * TUNE_ROWS];
            static int32_t ways[COLS * TUNE_ROWS];
            static uint8_t codes[COLS * TUNE_ROWS];
            float weight[COLS], scale[TUNE_ROWS];
            uint8_t byte[TUNE_ROWS];
            uint64_t seed = bits;
            tune_levels q = { .bits = bits, .n = 1u << (bits - 1) };
            for (uint32_t c = 0; c < 4; c++)
                for (uint32_t m = 0; m < q.n; m++) {
                    q.level[c][m] = qsf_trellis_levels[bits - 2][4 * m + c];
                    if (m + 1 < q.n)
                        q.above[c][m] = (q.level[c][m] + qsf_trellis_levels[bits - 2][4 * m + 4 + c]) / 2;
                }
            for (int c = 0; c < COLS; c++) weight[c] = 1;
            for (int i = 0; i < COLS * TUNE_ROWS; i++) was[i] = w[i] = tiny_normal(&seed);
            for (int r = 0; r < TUNE_ROWS; r++) {       /* the plain search's own scales */
                float row[COLS];
                uint8_t own[COLS];
                for (uint32_t t = 0; t < COLS; t++) row[qsf_trellis_column(t)] = was[t * TUNE_ROWS + r];
                qsf_trellis_quantize_row(bits, row, COLS, NULL, &byte[r], own);
                scale[r] = qsf_trellis_scale(byte[r]);
            }
            tune_path p = { &q, COLS, weight, scale, w, codes, ways };
            sets[set]->path(&p);
            for (int r = 0; r < TUNE_ROWS; r++) {
                float row[COLS], plain[COLS], mine[COLS];
                uint8_t own[COLS], here[COLS], least;
                uint32_t last = 0;
                double by_plain = 0, by_mine = 0;
                for (uint32_t t = 0; t < COLS; t++) {
                    row[qsf_trellis_column(t)] = was[t * TUNE_ROWS + r];
                    here[qsf_trellis_column(t)] = codes[t * TUNE_ROWS + r];
                }
                qsf_trellis_quantize_row(bits, row, COLS, NULL, &least, own);
                qsf_trellis_values(bits, least, own, &last, plain);
                last = 0;
                qsf_trellis_values(bits, byte[r], here, &last, mine);
                for (uint32_t t = 0; t < COLS; t++) {
                    const uint32_t c = qsf_trellis_column(t);
                    CHECK_NEAR(mine[c], w[t * TUNE_ROWS + r], 1e-6);
                    by_plain += (double)(row[c] - plain[c]) * (row[c] - plain[c]);
                    by_mine += (double)(row[c] - mine[c]) * (row[c] - mine[c]);
                }
                CHECK_NEAR(by_mine, by_plain, 1e-4 * by_plain);
            }
        }
}

/* ---- a file ---- */

/* What is made of "m" in two bits gets nearer to it. */
TEST(a_tuned_file_is_nearer_to_its_input)
{
    scene s;
    tiny_options o = in_floats();
    scene_begin(&s, &o);
    qsf_error err = { 0 };
    tiny_options coarse = o;
    coarse.type = coarse.embd_type = QSF_T_TRELLIS2;
    scene c;
    scene_begin(&c, &coarse);
    train k;
    CHECK_EQ(qsf_train_new(&k, &c.net, true, &err), QSF_OK);
    for (uint32_t u = 0; u < c.net.s->n_units; u++)
        for (uint32_t j = 0; j < c.net.s->units[u].n_tensors; j++) {
            const uint32_t i = c.net.s->units[u].first_tensor + j;
            void *data;
            CHECK_EQ(qsf_source_load(c.net.s, u, j, &data, &err), QSF_OK);
            qsf_train_scales(&k, i, data);
            qsf_dealloc(c.net.platform, data, c.net.s->tensors[i].bytes);
        }
    k.r = &c.run;
    qsf_tune_forward(&s.run, &s.net, &s.b);
    memcpy(c.hidden, s.run.hidden, (size_t)ROWS * o.hp.n_embd * sizeof *c.hidden);
    const tune_sink sink = { &k, qsf_train_take };
    double first = 0, last = 0;
    for (int step = 0; step < 60; step++) {
        k.rate = 0.03f;
        k.vector_rate = 0.002f;
        qsf_tune_forward(&c.run, &c.net, &c.b);
        last = qsf_tune_divergence(&c.run, &c.net, &s.net, c.hidden, &c.b, &sink);
        if (!step) first = last;
    }
    printf("    divergence %.4f, then %.4f\n", first, last);
    CHECK(last < 0.6 * first);
    /* the tiles say what the network has */
    for (uint32_t i = 0; i < c.net.n; i++) {
        qsf_tensor t = c.net.s->tensors[i];
        if (!k.t[i].scale) continue;
        uint8_t *tiles = calloc(1, (size_t)t.bytes);
        float *w = malloc((size_t)t.rows * t.cols * sizeof *w);
        qsf_train_values(&k, i, tiles);
        t.data = tiles;
        qsf_dequant_rows(&t, 0, t.rows, w);
        CHECK(!memcmp(w, c.net.tensors[i].w, (size_t)t.rows * t.cols * sizeof *w));
        free(w);
        free(tiles);
    }
    qsf_train_done(&k);
    scene_end(&c);
    scene_end(&s);
}

TEST(other_networks_are_refused_by_name)
{
    tiny_options o = in_floats();
    scene s;
    qsf_error err = { 0 };
    scene_begin(&s, &o);
    s.m->source->hp.final_softcap = 30;
    CHECK_EQ(qsf_tune_can(s.m->source, &err), QSF_E_UNSUPPORTED);
    CHECK(strstr(err.text, "soft caps") != NULL);
    s.m->source->hp.final_softcap = 0;
    s.m->source->layers[1].feed_forward = QSF_FEED_FORWARD_PLAIN;
    CHECK_EQ(qsf_tune_can(s.m->source, &err), QSF_E_UNSUPPORTED);
    scene_end(&s);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(the_way_forwards_gives_the_engines_logits);
    RUN(gradients_are_what_differences_say);
    RUN(a_path_is_the_best_of_its_scales_in_every_set);
    RUN(a_tuned_file_is_nearer_to_its_input);
    RUN(other_networks_are_refused_by_name);
    return test_end();
}
