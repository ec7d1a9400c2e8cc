/* Shares of layers, two and four in one process: logits, which bytes are read, what the plan
 * counts, what is refused.
 * SPDX-License-Identifier: MIT */
#include "share_sum.h"
#include "stream_models.h"

/* Shares of a model, a context each. */
typedef struct shares {
    share_group  group;
    qsf_model   *m[SHARES_MOST];
    qsf_context *c[SHARES_MOST];
    const qsf_row *rows;            /* of the batch under way */
    size_t       n_rows;
} shares;

/* Heads of 64 columns, so that types of blocks can be cut. */
static tiny_options cut_model(void)
{
    tiny_options o = tiny_defaults();
    o.hp.n_layers = 3;
    o.hp.n_embd = 128;
    o.hp.n_heads = 8;
    o.hp.n_kv_heads = 4;
    o.hp.head_dim = 64;
    o.hp.n_ff = 480;                /* whose last block is half a one */
    o.type = QSF_T_F32;
    o.biases = true;
    return o;
}

static qsf_status open_share(bench *b, uint32_t i, uint32_t n, const uint32_t *sizes, qsf_model **m)
{
    qsf_model_options mo;
    qsf_model_defaults(&mo);
    mo.platform = &b->h.m.p;
    mo.share = i;
    mo.n_shares = n;
    mo.share_sizes = sizes;
    return qsf_model_open("m", &mo, m, &b->error);
}

static qsf_context_options float_options(void)
{
    qsf_context_options o = bench_options();
    o.n_batch = CHUNK;
    o.kv_type = QSF_KV_F32;
    o.f32 = true;
    return o;
}

static bool shares_open(shares *x, bench *b, uint32_t n, const uint32_t *sizes, const qsf_context_options *o)
{
    memset(x, 0, sizeof *x);
    shares_begin(&x->group, n);
    for (uint32_t i = 0; i < n; i++)
        if (!bench_ok(b, open_share(b, i, n, sizes, &x->m[i])) ||
            !bench_ok(b, qsf_context_new(x->m[i], o, &x->c[i], &b->error)) ||
            !bench_ok(b, qsf_context_set_reduce(x->c[i], shares_add, &x->group.members[i]))) return false;
    return true;
}

static void shares_close(shares *x)
{
    for (uint32_t i = 0; i < SHARES_MOST; i++) {
        qsf_context_free(x->c[i]);
        qsf_model_close(x->m[i]);
    }
    shares_end(&x->group);
}

static qsf_status compute_share(void *arg, uint32_t i)
{
    shares *x = arg;
    return qsf_compute(x->c[i], x->rows, x->n_rows);
}

static qsf_status shares_compute(shares *x, const qsf_row *rows, size_t n)
{
    x->rows = rows;
    x->n_rows = n;
    return shares_run(&x->group, compute_share, x);
}

/* N tokens by shares, whose last logits are those of the whole. */
static void check_logits(shares *x, const int32_t *ids, const float *right, uint32_t n_vocab)
{
    float most = 0, apart = 0;
    qsf_row rows[N];
    for (int i = 0; i < N; i++) rows[i] = (qsf_row){ 0, ids[i], i == N - 1 };
    for (int at = 0; at < N; at += CHUNK)
        CHECK_EQ(shares_compute(x, rows + at, CHUNK), QSF_OK);
    const float *logits = qsf_logits(x->c[0], 0);
    CHECK(logits != NULL);
    for (uint32_t i = 0; logits && i < n_vocab; i++) {
        most = fmaxf(most, fabsf(right[i]));
        apart = fmaxf(apart, fabsf(right[i] - logits[i]));
    }
    CHECK(most > 0 && apart <= 1e-4f * most);
    for (uint32_t i = 1; i < x->group.n; i++) {
        CHECK(!qsf_logits(x->c[i], 0));
        CHECK(qsf_batch_states(x->c[i], 0) != NULL);
    }
}

/* As the whole, by n shares; budget: the least one of each. */
static void check_shares(const tiny_options *o, uint32_t n, const uint32_t *sizes, bool budget)
{
    bench b;
    shares x;
    const float *right;
    int32_t ids[N];
    qsf_context_options co = float_options();
    if (!bench_write(&b, o) || !bench_open(&b) || !bench_context(&b, &co)) return;
    bench_tokens(ids, N, b.n_vocab, 5);
    CHECK_EQ(qsf_feed(b.c, 0, ids, N, &right), QSF_OK);
    if (budget) {
        qsf_plan plan = { .size = sizeof plan };
        CHECK_EQ(open_share(&b, 0, n, sizes, &x.m[0]), QSF_OK);
        CHECK_EQ(qsf_context_plan(x.m[0], &co, &plan, &b.error), QSF_OK);
        co.ram_budget = plan.least;
        qsf_model_close(x.m[0]);
    }
    if (shares_open(&x, &b, n, sizes, &co)) {
        qsf_plan plan = { .size = sizeof plan };
        qsf_context_get_plan(x.c[0], &plan);
        CHECK_EQ(plan.n_slots > 0, budget);
        check_logits(&x, ids, right, b.n_vocab);
    }
    shares_close(&x);
    bench_end(&b);
}

TEST(shares_give_the_logits_of_the_whole)
{
    tiny_options o = cut_model();
    check_shares(&o, 2, NULL, false);
    check_shares(&o, 3, NULL, false);       /* two groups of heads, one, and one */
    check_shares(&o, 4, NULL, false);
    check_shares(&o, 2, (const uint32_t[]){ 3, 1 }, false);
    check_shares(&o, 3, (const uint32_t[]){ 1, 5, 2 }, false);
    o.hp.tied = false;
    o.hp.gated = false;
    o.qk_norms = true;
    check_shares(&o, 2, NULL, false);
}

TEST(shares_cut_types_of_blocks_in_rows_and_tiles)
{
    static const uint8_t types[] = { QSF_T_4BIT, QSF_T_8BIT, QSF_T_3BIT_S, QSF_T_TABLE4, QSF_T_F16 };
    tiny_options o = cut_model();
    for (size_t i = 0; i < QSF_ARRAY_LEN(types); i += TEST_EVERY)
        for (uint8_t packing = 0; packing < 2; packing++) {
            o.type = types[i];
            o.packing = packing;
            o.block = i == 2 ? 128 : 64;
            check_shares(&o, 2, NULL, false);
            check_shares(&o, i == 2 ? 3 : 4, NULL, false);
        }
    o.scales = 0.37f;                       /* of whole matrices, which all shares have */
    check_shares(&o, 2, NULL, false);
}

TEST(shares_cut_groups_where_there_are_more_of_them)
{
    tiny_options o = cut_model();
    o.hp.n_kv_heads = 1;
    check_shares(&o, 2, NULL, false);
    check_shares(&o, 4, (const uint32_t[]){ 1, 1, 1, 5 }, false);
    o.hp.n_kv_heads = 2;
    check_shares(&o, 3, NULL, false);       /* both heads of keys, of which one twice */
    check_shares(&o, 4, NULL, false);
}

TEST(shares_stream_inside_their_budgets)
{
    tiny_options o = cut_model();
    o.hp.n_layers = 6;
    o.hp.n_ff = 1920;
    check_shares(&o, 2, NULL, true);
    o.type = QSF_T_4BIT;
    o.packing = 0;                          /* pieces of every row */
    o.hp.n_ff = 3840;
    check_shares(&o, 2, NULL, true);
}

/* What is read and planned of layers is half of it, for the whole and for shares. */
TEST(shares_read_and_plan_their_part)
{
    bench b;
    shares x;
    qsf_plan plan = { .size = sizeof plan };
    qsf_context_options co = float_options();
    const tiny_options o = cut_model();
    uint64_t kv = 0, layers = 0;
    if (!bench_write(&b, &o) || !bench_open(&b) || !bench_context(&b, &co)) return;
    qsf_context_get_plan(b.c, &plan);
    const uint64_t whole = plan_bytes(&plan, "layers that stay"), whole_kv = plan_bytes(&plan, "KV cache");
    if (shares_open(&x, &b, 2, NULL, &co)) {
        qsf_row row = { 0, 5, true };
        CHECK_EQ(shares_compute(&x, &row, 1), QSF_OK);
        for (int i = 0; i < 2; i++) {
            qsf_stats stats = { .size = sizeof stats };
            qsf_context_get_plan(x.c[i], &plan);
            qsf_context_get_stats(x.c[i], &stats);
            layers += plan_bytes(&plan, "layers that stay");
            kv += plan_bytes(&plan, "KV cache");
            CHECK(plan_bytes(&plan, "layers that stay") < whole * 55 / 100);
            CHECK(stats.bytes_read > 0 && stats.bytes_read < bench_file(&b)->len * 6 / 10);
        }
        CHECK(layers >= whole * 95 / 100);
        CHECK(whole_kv > 0 && kv >= whole_kv * 9 / 10 && kv <= whole_kv * 11 / 10);
    }
    shares_close(&x);
    bench_end(&b);
}

/* Opening is refused, and the message says this. */
static void check_refused(const tiny_options *o, uint32_t n, const char *text)
{
    bench b;
    qsf_model *m = NULL;
    if (!bench_write(&b, o)) return;
    CHECK_EQ(open_share(&b, 0, n, NULL, &m), QSF_E_UNSUPPORTED);
    CHECK(!m && strstr(b.error.text, text) != NULL);
    bench_end(&b);
}

TEST(shares_refuse_models_and_files_that_cannot_be_cut)
{
    tiny_options o = cut_model();
    check_refused(&o, 9, "layer 0 cannot be cut into 9 shares");
    o.type = QSF_T_4BIT;
    o.hp.head_dim = 16;
    check_refused(&o, 4, "multiples of 64 columns");
    o = cut_model();
    o.type = QSF_T_TRELLIS3;
    check_refused(&o, 2, "depends on those before");
    o = cut_model();
    o.outliers = true;
    o.type = QSF_T_4BIT;
    check_refused(&o, 2, "outliers belong to whole rows");
    o = cut_model();
    o.hp.alibi = 8;
    check_refused(&o, 2, "has ALiBi");
    o = cut_model();
    o.type = QSF_T_8BIT;
    o.progressive = true;
    check_refused(&o, 2, "is progressive");
#if defined(QSF_HAVE_LZ4)
    o.progressive = false;
    o.compression = QSF_COMPRESS_LZ4;
    check_refused(&o, 2, "is compressed");
#endif
}

TEST(shares_refuse_what_they_cannot_do)
{
    bench b;
    shares x;
    qsf_turn *turn = NULL;
    qsf_model *m = NULL;
    qsf_context *c = NULL;
    float *out = NULL;
    const int32_t id = 5;
    const qsf_row row = { 0, 5, true };
    const tiny_options o = cut_model();
    qsf_context_options co = float_options();
    if (!bench_write(&b, &o) || !bench_open(&b) || !bench_context(&b, &co)) return;
    CHECK_EQ(qsf_context_set_reduce(b.c, shares_add, NULL), QSF_E_ARGUMENT);
    CHECK_EQ(open_share(&b, 2, 2, NULL, &m), QSF_E_ARGUMENT);
    CHECK_EQ(open_share(&b, 1, 0, NULL, &m), QSF_E_ARGUMENT);
    CHECK_EQ(open_share(&b, 0, 257, NULL, &m), QSF_E_ARGUMENT);
    CHECK_EQ(open_share(&b, 0, 2, (const uint32_t[]){ 1, 0 }, &m), QSF_E_ARGUMENT);
    qsf_model_options mo;
    qsf_model_defaults(&mo);
    mo.platform = &b.h.m.p;
    mo.n_shares = 2;
    mo.first_layer = 1;
    CHECK_EQ(qsf_model_open("m", &mo, &m, &b.error), QSF_E_UNSUPPORTED);
    CHECK(!m);
    CHECK(shares_open(&x, &b, 2, NULL, &co));
    out = calloc(o.hp.n_embd, sizeof *out);
    CHECK_EQ(qsf_turn_new(x.c[0], 0, &turn, &b.error), QSF_E_UNSUPPORTED);
    CHECK(strstr(b.error.text, "share 0 of 2") != NULL);
    CHECK_EQ(qsf_embed(x.c[0], 0, &id, 1, QSF_POOL_MEAN, out), QSF_E_UNSUPPORTED);
    free(out);
    co.act_quant = QSF_ACT_ROW;
    CHECK_EQ(qsf_context_new(x.m[1], &co, &c, &b.error), QSF_E_UNSUPPORTED);
    co = float_options();
    co.early_exit = 0.9f;
    CHECK_EQ(qsf_context_new(x.m[0], &co, &c, &b.error), QSF_E_UNSUPPORTED);
    CHECK_EQ(qsf_context_set_reduce(x.c[0], NULL, NULL), QSF_OK);
    CHECK_EQ(qsf_compute(x.c[0], &row, 1), QSF_E_ARGUMENT);
    CHECK(strstr(qsf_last_error(x.c[0]), "qsf_context_set_reduce") != NULL);
    shares_close(&x);
    bench_end(&b);
}

/* A sum that fails, in the middle of a batch, takes the batch back in all shares. */
TEST(shares_survive_a_sum_that_fails)
{
    bench b;
    shares x;
    const tiny_options o = cut_model();
    const qsf_row row = { 0, 5, true };
    const qsf_context_options co = float_options();
    if (!bench_write(&b, &o)) return;
    if (shares_open(&x, &b, 2, NULL, &co)) {
        x.group.fail_at = 4;                /* of six */
        CHECK_EQ(shares_compute(&x, &row, 1), QSF_E_IO);
        CHECK(strstr(qsf_last_error(x.c[0]), "layer 1: the results of its shares could not be") != NULL);
        for (int i = 0; i < 2; i++) CHECK_EQ(qsf_seq_length(x.c[i], 0), 0);
        x.group.fail_at = 0;
        CHECK_EQ(shares_compute(&x, &row, 1), QSF_OK);
        for (int i = 0; i < 2; i++) CHECK_EQ(qsf_seq_length(x.c[i], 0), 1);
    }
    shares_close(&x);
    bench_end(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(shares_give_the_logits_of_the_whole);
    RUN(shares_cut_types_of_blocks_in_rows_and_tiles);
    RUN(shares_cut_groups_where_there_are_more_of_them);
    RUN(shares_stream_inside_their_budgets);
    RUN(shares_read_and_plan_their_part);
    RUN(shares_refuse_models_and_files_that_cannot_be_cut);
    RUN(shares_refuse_what_they_cannot_do);
    RUN(shares_survive_a_sum_that_fails);
    return test_end();
}
