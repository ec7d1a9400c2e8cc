/* Layers apart: which bytes are read, what the plan counts, what is refused.
 * SPDX-License-Identifier: MIT */
#include "stream_models.h"

static qsf_status open_part(bench *b, uint32_t first, uint32_t end, qsf_model **m)
{
    qsf_model_options mo;
    qsf_model_defaults(&mo);
    mo.platform = &b->h.m.p;
    mo.first_layer = first;
    mo.end_layer = end;
    return qsf_model_open("m", &mo, m, &b->error);
}

/* Logits of the last of N tokens by two parts, each under a budget; 0: none. */
static bool by_parts(bench *b, const tiny_options *o, uint32_t at, uint64_t budget, const int32_t *ids,
                     float *logits, uint64_t *total)
{
    qsf_context_options co = bench_options();
    qsf_model *m[2] = { NULL, NULL };
    qsf_context *c[2] = { NULL, NULL };
    qsf_row rows[N];
    bool ok = true;
    float *x = calloc((size_t)N * o->hp.n_embd, sizeof *x);
    for (int i = 0; i < N; i++) rows[i] = (qsf_row){ 0, ids[i], i == N - 1 };
    co.n_batch = CHUNK;
    co.kv_type = QSF_KV_F32;        /* which no budget changes */
    co.ram_budget = budget;
    *total = 0;
    for (int i = 0; i < 2 && ok; i++) {
        qsf_plan plan = { .size = sizeof plan };
        ok = bench_ok(b, open_part(b, i ? at : 0, i ? 0 : at, &m[i]));
        ok = ok && bench_ok(b, qsf_context_new(m[i], &co, &c[i], &b->error));
        if (!ok) break;
        qsf_context_get_plan(c[i], &plan);
        CHECK(!budget || plan.total <= budget);
        if (!budget)
            CHECK_EQ(plan_bytes(&plan, "final norm") + plan_bytes(&plan, "final norm and head") > 0, i == 1);
        *total += plan_bytes(&plan, "layers that stay");
    }
    for (int at_row = 0; at_row < N && ok; at_row += CHUNK) {
        ok = bench_ok(b, qsf_compute(c[0], rows + at_row, CHUNK));
        for (uint32_t r = 0; r < CHUNK && ok; r++)
            memcpy(x + r * o->hp.n_embd, qsf_batch_states(c[0], r), o->hp.n_embd * sizeof *x);
        CHECK(!qsf_batch_states(c[0], CHUNK));
        CHECK(!qsf_logits(c[0], 0));
        ok = ok && bench_ok(b, qsf_compute_from(c[1], rows + at_row, CHUNK, x));
        CHECK(!qsf_batch_states(c[1], 0));
    }
    if (ok) memcpy(logits, qsf_logits(c[1], 0), b->n_vocab * sizeof *logits);
    for (int i = 0; i < 2; i++) {
        qsf_context_free(c[i]);
        qsf_model_close(m[i]);
    }
    free(x);
    return ok;
}

static void check_model(const tiny_options *o, uint64_t budget)
{
    bench b;
    const float *right;
    int32_t ids[N];
    uint64_t total, whole = 0;
    qsf_context_options co = bench_options();
    co.kv_type = QSF_KV_F32;
    if (!bench_write(&b, o) || !bench_open(&b) || !bench_context(&b, &co)) return;
    bench_tokens(ids, N, b.n_vocab, 5);
    float *logits = calloc(b.n_vocab, sizeof *logits);
    CHECK_EQ(qsf_feed(b.c, 0, ids, N, &right), QSF_OK);
    qsf_plan plan = { .size = sizeof plan };
    qsf_context_get_plan(b.c, &plan);
    whole = plan_bytes(&plan, "layers that stay");
    for (uint32_t at = 1; at < o->hp.n_layers; at++) {
        if (!by_parts(&b, o, at, budget, ids, logits, &total)) break;
        CHECK(!memcmp(logits, right, b.n_vocab * sizeof *logits));
        if (!budget) CHECK_EQ(total, whole);
    }
    free(logits);
    bench_end(&b);
}

TEST(two_parts_give_the_logits_of_the_whole)
{
    tiny_options o = layered();
    check_model(&o, 0);
    o.hp.tied = !o.hp.tied;
    check_model(&o, 0);
}

TEST(parts_keep_their_budgets_and_stream)
{
    for (int tied = 0; tied < 2; tied++) {
        bench b;
        qsf_model *m = NULL;
        uint64_t least = 0;
        const tiny_options o = wide(tied);
        qsf_context_options co = bench_options();
        co.n_batch = CHUNK;
        co.kv_type = QSF_KV_F32;
        if (!bench_write(&b, &o)) return;
        for (int i = 0; i < 2; i++) {
            qsf_plan plan = { .size = sizeof plan };
            CHECK_EQ(open_part(&b, i ? 1 : 0, i ? 0 : 1, &m), QSF_OK);
            CHECK_EQ(qsf_context_plan(m, &co, &plan, &b.error), QSF_OK);
            least = QSF_MAX(least, plan.least);
            qsf_model_close(m);
        }
        bench_end(&b);
        check_model(&o, least);
    }
}

TEST(parts_refuse_what_they_cannot_do)
{
    bench b;
    qsf_model *m = NULL;
    qsf_context *c = NULL;
    qsf_turn *turn = NULL;
    int32_t ids[N];
    float *x = NULL;
    const tiny_options o = layered();
    qsf_context_options co = bench_options();
    if (!bench_write(&b, &o)) return;
    CHECK_EQ(open_part(&b, 6, 0, &m), QSF_E_ARGUMENT);
    CHECK_EQ(open_part(&b, 3, 3, &m), QSF_E_ARGUMENT);
    CHECK_EQ(open_part(&b, 0, 7, &m), QSF_E_ARGUMENT);
    CHECK(!m);
    CHECK_EQ(open_part(&b, 2, 4, &m), QSF_OK);
    co.early_exit = 0.95f;
    CHECK_EQ(qsf_context_new(m, &co, &c, &b.error), QSF_E_UNSUPPORTED);
    CHECK(strstr(b.error.text, "layers 2 to 3") != NULL);
    co.early_exit = 0;
    CHECK_EQ(qsf_context_new(m, &co, &c, &b.error), QSF_OK);
    bench_tokens(ids, N, b.n_vocab, 5);
    x = calloc((size_t)N * o.hp.n_embd, sizeof *x);
    CHECK_EQ(qsf_feed(c, 0, ids, N, NULL), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_embed(c, 0, ids, N, QSF_POOL_MEAN, x), QSF_E_UNSUPPORTED);
    CHECK_EQ(qsf_turn_new(c, 0, &turn, &b.error), QSF_E_UNSUPPORTED);
    CHECK_EQ(qsf_seq_length(c, 0), 0);
    const qsf_row row = { 0, -1, false };       /* its token is not used */
    x[1] = 1;
    CHECK_EQ(qsf_compute_from(c, &row, 1, x), QSF_OK);
    CHECK_EQ(qsf_seq_length(c, 0), 1);
    CHECK_EQ(qsf_batch_begin_from(c, &row, 1, x), QSF_OK);
    CHECK(!qsf_batch_states(c, 0));
    CHECK_EQ(qsf_seq_truncate(c, 0, 0), QSF_OK);
    CHECK(!qsf_batch_states(c, 0));
    qsf_context_free(c);
    qsf_model_close(m);
    CHECK_EQ(open_part(&b, 0, 4, &m), QSF_OK);
    CHECK_EQ(qsf_context_new(m, &co, &c, &b.error), QSF_OK);
    CHECK_EQ(qsf_compute_from(c, &row, 1, x), QSF_E_ARGUMENT);
    qsf_context_free(c);
    qsf_model_close(m);
    free(x);
    bench_end(&b);
}

/* ---- a first part that is followed by others ---- */

typedef struct second_part {
    qsf_context *c;
    float      *x;
    uint32_t    n_embd, n_vocab;
    qsf_status  fails;
} second_part;

static qsf_status second_compute(void *user, const qsf_row *rows, size_t n, const float *states,
                                 size_t ld_states, float *logits, size_t ld_logits)
{
    second_part *p = user;
    size_t asked = 0;
    if (p->fails) return p->fails;
    for (size_t i = 0; i < n; i++)
        memcpy(p->x + i * p->n_embd, states + i * ld_states, p->n_embd * sizeof *states);
    const qsf_status st = qsf_compute_from(p->c, rows, n, p->x);
    for (size_t i = 0; !st && i < n; i++) {
        if (!rows[i].logits) continue;
        memcpy(logits + asked * ld_logits, qsf_logits(p->c, asked), p->n_vocab * sizeof *logits);
        asked++;
    }
    return st;
}

static void second_back(void *user, qsf_seq s, uint32_t n)
{
    CHECK_EQ(qsf_seq_truncate(((second_part *)user)->c, s, n), QSF_OK);
}

static void second_share(void *user, qsf_seq dst, qsf_seq src, uint32_t n)
{
    CHECK_EQ(qsf_seq_share(((second_part *)user)->c, dst, src, n), QSF_OK);
}

/* Feeds a sequence of both contexts: their logits are the same, and the second part goes along. */
static void feed_both(bench *b, qsf_context *c, const second_part *p, qsf_seq s, const int32_t *ids, size_t n)
{
    const float *right, *logits;
    CHECK_EQ(qsf_feed(b->c, s, ids, n, &right), QSF_OK);
    CHECK_EQ(qsf_feed(c, s, ids, n, &logits), QSF_OK);
    CHECK(logits && !memcmp(logits, right, b->n_vocab * sizeof *logits));
    CHECK_EQ(qsf_seq_length(c, s), qsf_seq_length(b->c, s));
    CHECK_EQ(qsf_seq_length(p->c, s), qsf_seq_length(b->c, s));
}

static void check_behind(bench *b, qsf_context *c, second_part *p)
{
    int32_t ids[N];
    qsf_turn *turn = NULL;
    const qsf_behind behind = { .size = sizeof behind, .user = p, .compute = second_compute,
                                .back = second_back, .share = second_share };
    const qsf_behind half = { .size = sizeof half, .user = p, .compute = second_compute };
    bench_tokens(ids, N, b->n_vocab, 5);
    /* Without the rest of the layers only the caller can get logits for it. */
    qsf_row rows[N];
    qsf_sampler *sampler = NULL;
    qsf_turn_piece piece = { .size = sizeof piece };
    CHECK_EQ(qsf_turn_new(c, 0, &turn, &b->error), QSF_OK);
    CHECK_EQ(qsf_sampler_new(b->m, NULL, &sampler, &b->error), QSF_OK);
    CHECK_EQ(qsf_turn_begin(turn, ids, 3, sampler, NULL), QSF_OK);
    CHECK_EQ(qsf_turn_step(turn, NULL), QSF_E_UNSUPPORTED);
    CHECK_EQ(qsf_turn_next(turn, &piece), QSF_OK);
    CHECK(piece.end == QSF_TURN_FAILED && strstr(qsf_turn_error(turn)->text, "a turn needs all"));
    CHECK_EQ(qsf_turn_begin(turn, ids, 3, sampler, NULL), QSF_OK);
    CHECK_EQ(qsf_turn_rows(turn, rows, N), 3);
    CHECK_EQ(qsf_compute(c, rows, 3), QSF_OK);
    CHECK_EQ(qsf_turn_computed(turn, 0), 1);
    CHECK_EQ(qsf_turn_next(turn, &piece), QSF_OK);
    CHECK(piece.end == QSF_TURN_FAILED && qsf_turn_error(turn)->status == QSF_E_UNSUPPORTED);
    qsf_turn_free(turn);
    qsf_sampler_free(sampler);
    CHECK_EQ(qsf_seq_truncate(c, 0, 0), QSF_OK);
    CHECK_EQ(qsf_context_set_behind(c, &half), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_context_set_behind(p->c, &behind), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_context_set_behind(b->c, &behind), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_context_set_behind(c, &behind), QSF_OK);
    CHECK_EQ(qsf_context_set_behind(c, &behind), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_turn_new(c, 0, &turn, &b->error), QSF_OK);
    qsf_turn_free(turn);
    feed_both(b, c, p, 0, ids, N);
    for (int i = 0; i < 2; i++) {
        qsf_context *of = i ? c : b->c;
        CHECK_EQ(qsf_seq_share(of, 1, 0, N - 3), QSF_OK);
        CHECK_EQ(qsf_seq_truncate(of, 0, 2), QSF_OK);
    }
    feed_both(b, c, p, 1, ids, 4);
    feed_both(b, c, p, 0, ids + 3, 3);
    p->fails = QSF_E_IO;
    const uint32_t before = qsf_seq_length(c, 0);
    CHECK_EQ(qsf_feed(c, 0, ids, 2, NULL), QSF_E_IO);
    CHECK_EQ(qsf_seq_length(c, 0), before);
    CHECK_EQ(qsf_seq_length(p->c, 0), before);
    p->fails = QSF_OK;
    feed_both(b, c, p, 0, ids, 2);
}

TEST(a_part_with_others_behind_it_is_as_the_whole)
{
    bench b;
    const tiny_options o = layered();
    qsf_context_options co = bench_options();
    qsf_model *m[2] = { NULL, NULL };
    qsf_context *c[2] = { NULL, NULL };
    co.kv_type = QSF_KV_F32;
    co.n_seqs = 2;
    co.n_batch = CHUNK;
    if (!bench_write(&b, &o) || !bench_open(&b) || !bench_context(&b, &co)) return;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(open_part(&b, i ? 1 : 0, i ? 0 : 1, &m[i]), QSF_OK);
        CHECK_EQ(qsf_context_new(m[i], &co, &c[i], &b.error), QSF_OK);
    }
    second_part p = { .c = c[1], .n_embd = o.hp.n_embd, .n_vocab = b.n_vocab,
                      .x = calloc((size_t)CHUNK * o.hp.n_embd, sizeof *p.x) };
    check_behind(&b, c[0], &p);
    for (int i = 0; i < 2; i++) {
        qsf_context_free(c[i]);
        qsf_model_close(m[i]);
    }
    free(p.x);
    bench_end(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(two_parts_give_the_logits_of_the_whole);
    RUN(parts_keep_their_budgets_and_stream);
    RUN(parts_refuse_what_they_cannot_do);
    RUN(a_part_with_others_behind_it_is_as_the_whole);
    return test_end();
}
