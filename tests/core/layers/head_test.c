/* The approximate heads: what they compute is what the exact head computes, the rest is -INFINITY.
 * SPDX-License-Identifier: MIT */
#include "engine/step.h"
#include "engine_bench.h"
#include "make_tiny_clusters.h"
#include "qsf_repair.h"

enum { N = 12, LARGE = 5003 };

/* Two contexts on one model: the exact head and another. */
typedef struct pair {
    bench        b;
    qsf_context *exact;
    float       *want, *got;
} pair;

static bool pair_open(pair *p, const tiny_options *o, qsf_head_mode mode, uint32_t threads)
{
    qsf_context_options co = bench_options();
    memset(p, 0, sizeof *p);
    if (!bench_write(&p->b, o) || !bench_open(&p->b) || !bench_context(&p->b, &co)) return false;
    p->exact = p->b.c;
    p->b.c = NULL;
    p->want = bench_floats(&p->b, N);
    p->got = bench_floats(&p->b, N);
    co.head = mode;
    co.n_threads = threads;
    return bench_context(&p->b, &co);
}

/* The same tokens to both, in chunks that each ask for all their logits. */
static void pair_feed(pair *p, size_t chunk)
{
    int32_t ids[N];
    qsf_context *other = p->b.c;
    bench_tokens(ids, N, p->b.n_vocab, 3);
    CHECK_EQ(qsf_seq_truncate(other, 0, 0), QSF_OK);
    CHECK_EQ(qsf_seq_truncate(p->exact, 0, 0), QSF_OK);
    CHECK_EQ(bench_feed(&p->b, 0, ids, N, chunk, p->got), QSF_OK);
    p->b.c = p->exact;
    CHECK_EQ(bench_feed(&p->b, 0, ids, N, chunk, p->want), QSF_OK);
    p->b.c = other;
}

static void pair_close(pair *p)
{
    free(p->want);
    free(p->got);
    qsf_context_free(p->exact);
    bench_end(&p->b);
}

/* How many logits of row r are there; those must be right. */
static uint32_t pair_count(const pair *p, size_t r)
{
    const float *got = p->got + r * p->b.n_vocab, *want = p->want + r * p->b.n_vocab;
    uint32_t n = 0;
    float most = 0;
    for (uint32_t i = 0; i < p->b.n_vocab; i++) most = fmaxf(most, fabsf(want[i]));
    for (uint32_t i = 0; i < p->b.n_vocab; i++) {
        if (got[i] == -INFINITY) continue;
        n++;
        if (!(fabsf(got[i] - want[i]) <= 1e-5f * most)) CHECK_NEAR(got[i], want[i], 1e-5 * (double)most);
    }
    return n;
}

static uint32_t best_of(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* ---- the screen ---- */

TEST(a_screen_before_256_rows_changes_nothing)
{
    static const uint8_t types[] = { QSF_T_8BIT, QSF_T_F16, QSF_T_6BIT_S, QSF_T_F32 };
    for (unsigned kind = 0; kind < 8; kind++) {
        pair p;
        tiny_options o = tiny_defaults();
        o.vocab = QSF_VOCAB_NONE;
        o.hp.n_vocab = 251;
        o.hp.tied = kind & 1;
        o.biases = kind & 2;
        o.hp.final_softcap = kind & 4 ? 3.0f : 0;
        o.embd_type = o.head_type = types[kind / 2];
        if (!pair_open(&p, &o, QSF_HEAD_SCREEN, 1 + kind % 3)) return;
        for (size_t chunk = 1; chunk <= 4; chunk *= 4) {
            pair_feed(&p, chunk);
            for (size_t r = 0; r < N; r++) CHECK_EQ(pair_count(&p, r), o.hp.n_vocab);
        }
        pair_close(&p);
    }
}

TEST(a_screen_finds_the_best_row)
{
    for (int kind = 0; kind < 2; kind++) {
        pair p;
        tiny_options o = tiny_defaults();
        o.vocab = QSF_VOCAB_NONE;
        o.hp.n_vocab = LARGE;
        o.hp.tied = kind;
        o.scales = kind ? 0.125f : 0;
        o.embd_type = o.head_type = kind ? QSF_T_8BIT : QSF_T_5BIT_S;
        if (!pair_open(&p, &o, QSF_HEAD_SCREEN, 2)) return;
        pair_feed(&p, 1 + (size_t)kind * 7);
        for (size_t r = 0; r < N; r++) {
            const uint32_t n = pair_count(&p, r);
            CHECK(n >= QSF_HEAD_BEST && n <= QSF_HEAD_BEST * QSF_TILE_ROWS);
            CHECK_EQ(best_of(p.got + r * LARGE, LARGE), best_of(p.want + r * LARGE, LARGE));
        }
        pair_close(&p);
    }
}

/* ---- clusters ---- */

static bool clustered_open(pair *p, tiny_options *o, tiny_clusters *t, float radius, uint32_t threads)
{
    o->vocab = QSF_VOCAB_NONE;
    if (!tiny_clusters_make(t, o->hp.n_vocab, o->hp.n_embd, radius)) return false;
    o->clusters = &t->k;
    return pair_open(p, o, QSF_HEAD_CLUSTERS, threads);
}

/* Every form's rows are moved, twice the head is used in its new order:
 * for logits, and for the tied embedding. */
TEST(clusters_that_promise_all_change_nothing)
{
    static const uint8_t types[] = { QSF_T_2BIT, QSF_T_3BIT, QSF_T_4BIT, QSF_T_TERNARY, QSF_T_8BIT,
                                     QSF_T_3BIT_S, QSF_T_4BIT_S, QSF_T_5BIT_S, QSF_T_6BIT_S, QSF_T_2BIT_S,
                                     QSF_T_TRELLIS3, QSF_T_TABLE4, QSF_T_TABLE3 };
    for (unsigned kind = 0; kind < 2 * QSF_ARRAY_LEN(types); kind += TEST_EVERY > 1 ? 7 : 1) {
        pair p;
        tiny_clusters t;
        tiny_options o = tiny_defaults();
        o.hp.n_vocab = 700 + kind;
        o.hp.n_embd = 96;
        o.hp.tied = kind & 1;
        o.hp.final_softcap = kind % 3 ? 0 : 3.0f;
        o.packing = kind % 5 != 0;
        o.block = (uint16_t)(32 << kind % 4);
        o.embd_type = o.head_type = types[kind / 2];
        if (!clustered_open(&p, &o, &t, 1e6f, 1 + kind % 3)) return;
        for (size_t chunk = 1; chunk <= 4; chunk *= 4) {
            pair_feed(&p, chunk);
            for (size_t r = 0; r < N; r++) CHECK_EQ(pair_count(&p, r), o.hp.n_vocab);
        }
        pair_close(&p);
        tiny_clusters_free(&t);
    }
}

TEST(clusters_without_a_margin_leave_rows_out)
{
    pair p;
    tiny_clusters t;
    tiny_options o = tiny_defaults();
    uint32_t all = 0;
    o.hp.n_vocab = LARGE;
    if (!clustered_open(&p, &o, &t, 0, 2)) return;
    pair_feed(&p, 1);
    for (size_t r = 0; r < N; r++) {
        const uint32_t n = pair_count(&p, r);
        CHECK(n > 0 && n <= LARGE);
        all += n;
    }
    CHECK(all < N * LARGE);
    pair_close(&p);
    tiny_clusters_free(&t);
}

/* ---- both ---- */

TEST(batches_in_which_many_ask_are_exact)
{
    for (int mode = QSF_HEAD_SCREEN; mode <= QSF_HEAD_CLUSTERS; mode++) {
        pair p;
        tiny_clusters t;
        tiny_options o = tiny_defaults();
        o.hp.n_vocab = LARGE;
        if (!clustered_open(&p, &o, &t, 0, 1)) return;
        qsf_context_options co = bench_options();
        co.head = (qsf_head_mode)mode;
        if (!bench_context(&p.b, &co)) return;
        for (int round = 0; round < 2; round++) {           /* before and after the head was sorted */
            pair_feed(&p, N);
            for (size_t r = 0; r < N; r++) CHECK_EQ(pair_count(&p, r), LARGE);
            pair_feed(&p, 1);
        }
        pair_close(&p);
        tiny_clusters_free(&t);
    }
}

TEST(approximate_heads_stay_within_the_plan)
{
    for (int mode = QSF_HEAD_SCREEN; mode <= QSF_HEAD_CLUSTERS; mode++) {
        pair p;
        tiny_clusters t;
        tiny_options o = tiny_defaults();
        qsf_plan plan = { .size = sizeof plan };
        int32_t ids[N];
        uint64_t others = 0;
        o.hp.n_vocab = LARGE;
        if (!clustered_open(&p, &o, &t, 0, 1)) return;
        qsf_context_free(p.exact);
        p.exact = NULL;
        qsf_context_free(p.b.c);
        p.b.c = NULL;
        p.b.h.m.peak_bytes = p.b.h.m.live_bytes;
        qsf_context_options co = bench_options();
        co.head = (qsf_head_mode)mode;
        if (!bench_context(&p.b, &co)) return;
        qsf_context_get_plan(p.b.c, &plan);
        for (size_t i = 0; i < plan.n_items; i++)
            if (!strcmp(plan.items[i].name, "thread stacks") || !strcmp(plan.items[i].name, "sampler")
                || !strcmp(plan.items[i].name, "program"))
                others += plan.items[i].bytes;
        const uint64_t allocs = p.b.h.n_allocs;
        bench_tokens(ids, N, LARGE, 1);
        CHECK_EQ(bench_feed(&p.b, 0, ids, N, 2, p.got), QSF_OK);
        CHECK_EQ(p.b.h.n_allocs, allocs);
        CHECK(p.b.h.m.peak_bytes <= plan.total - others);
        co.ram_budget = plan.total / 4;
        CHECK_EQ(bench_try(&p.b, &co), QSF_E_BUDGET);
        pair_close(&p);
        tiny_clusters_free(&t);
    }
}

static void check_refused(const tiny_options *o, qsf_context_options co, qsf_status want)
{
    bench b;
    if (!bench_write(&b, o) || !bench_open(&b)) return;
    CHECK_EQ(bench_try(&b, &co), want);
    CHECK(b.error.text[0]);
    bench_end(&b);
}

TEST(heads_that_are_not_for_it_are_refused)
{
    tiny_options o = tiny_defaults();
    tiny_clusters t;
    qsf_context_options screen = bench_options(), clusters = bench_options(), bad = bench_options();
    screen.head = QSF_HEAD_SCREEN;
    clusters.head = QSF_HEAD_CLUSTERS;
    bad.head = (qsf_head_mode)3;
    check_refused(&o, bad, QSF_E_ARGUMENT);
    check_refused(&o, clusters, QSF_E_UNSUPPORTED);         /* no table */
    o.embd_type = QSF_T_4BIT_S;
    check_refused(&o, screen, QSF_E_UNSUPPORTED);           /* nothing to gain */
    if (!tiny_clusters_make(&t, o.hp.n_vocab, o.hp.n_embd, 1)) return;
    o.clusters = &t.k;
    o.embd_type = QSF_T_F16;
    check_refused(&o, clusters, QSF_E_UNSUPPORTED);         /* no tiles */
    o.embd_type = QSF_T_8BIT;
    o.biases = true;
    check_refused(&o, clusters, QSF_E_UNSUPPORTED);
    screen.f32 = true;
    check_refused(&o, screen, QSF_E_ARGUMENT);
    tiny_clusters_free(&t);
}

/* ---- damaged tables ---- */

typedef void damage(tiny_clusters *t);
static void same_row_twice(tiny_clusters *t) { t->k.order[5] = t->k.order[6]; }
static void row_out_of_range(tiny_clusters *t) { t->k.order[7] = 288; }
static void too_few_rows(tiny_clusters *t) { t->first[TINY_CLUSTERS]--; }
static void too_many_rows(tiny_clusters *t) { t->first[3] += 1000; }
static void radius_not_a_number(tiny_clusters *t) { t->radius[3] = NAN; }
static void radius_below_zero(tiny_clusters *t) { t->radius[4] = -1; }
static void radius_infinite(tiny_clusters *t) { t->radius[4] = INFINITY; }
static void scale_zero(tiny_clusters *t) { t->k.scale[1] = 0; }
static void centroids_cut(tiny_clusters *t) { t->k.centroids.bytes -= 16; }
static void fewer_clusters(tiny_clusters *t) { t->k.n--; }

TEST(damaged_clusters_are_refused)
{
    static damage *const all[] = { same_row_twice, row_out_of_range, too_few_rows, too_many_rows,
                                   radius_not_a_number, radius_below_zero,
                                   radius_infinite, scale_zero, centroids_cut, fewer_clusters };
    for (size_t i = 0; i < QSF_ARRAY_LEN(all); i++) {
        bench b;
        tiny_clusters t;
        tiny_options o = tiny_defaults();
        qsf_model_options mo;
        if (!tiny_clusters_make(&t, o.hp.n_vocab, o.hp.n_embd, 1)) return;
        o.clusters = &t.k;
        all[i](&t);
        if (!bench_write(&b, &o)) return;
        qsf_model_defaults(&mo);
        mo.platform = &b.h.m.p;
        CHECK_EQ(qsf_model_open("m", &mo, &b.m, &b.error), QSF_E_CORRUPT);
        CHECK(strstr(b.error.text, "head") != NULL);
        bench_end(&b);
        tiny_clusters_free(&t);
    }
}

TEST(clusters_without_one_of_their_keys_are_refused)
{
    static const char *const keys[] = { "head.order", "head.scale", "head.radius", "head.centroids" };
    for (size_t i = 0; i < QSF_ARRAY_LEN(keys); i++) {
        bench b;
        tiny_clusters t;
        tiny_options o = tiny_defaults();
        qsf_model_options mo;
        if (!tiny_clusters_make(&t, o.hp.n_vocab, o.hp.n_embd, 1)) return;
        o.clusters = &t.k;
        if (!bench_write(&b, &o)) return;
        mem_file *f = bench_file(&b);
        uint8_t *data = repair_find(f->bytes + qsf_le64(f->bytes + 100), qsf_le32(f->bytes + 108),
                                    keys[i], 1, NULL);
        CHECK(data != NULL);
        if (data) data[-1] = '?';                           /* the key's last letter */
        qsf_repair(f->bytes, f->len);
        qsf_model_defaults(&mo);
        mo.platform = &b.h.m.p;
        CHECK_EQ(qsf_model_open("m", &mo, &b.m, &b.error), QSF_E_CORRUPT);
        bench_end(&b);
        tiny_clusters_free(&t);
    }
}

/* ---- what was left out ---- */

TEST(rows_that_were_left_out_can_be_asked_for)
{
    for (unsigned kind = 0; kind < 8; kind++) {
        const bool clusters = kind & 1;
        pair p;
        tiny_clusters t;
        tiny_options o = tiny_defaults();
        uint64_t seed = kind;
        uint32_t mask[LARGE / 32 + 1], missing = 0;
        o.hp.n_vocab = LARGE;
        o.hp.tied = kind & 2;
        o.hp.final_softcap = kind & 4 ? 3.0f : 0;
        o.biases = !clusters;
        if (clusters ? !clustered_open(&p, &o, &t, 0, 2)
                     : (o.vocab = QSF_VOCAB_NONE, !pair_open(&p, &o, QSF_HEAD_SCREEN, 2))) return;
        pair_feed(&p, 2);
        for (uint32_t i = 0; i < QSF_ARRAY_LEN(mask); i++)
            mask[i] = kind & 2 ? 1u << (uint32_t)(tiny_uniform(&seed) * 32) : UINT32_MAX;
        for (size_t i = 0; i < 2; i++) {
            const float *want = p.want + (N - 2 + i) * LARGE, *got = qsf_logits(p.b.c, i);
            float most = 0;
            for (uint32_t id = 0; id < LARGE; id++) most = fmaxf(most, fabsf(want[id]));
            for (uint32_t id = 0; id < LARGE; id++) missing += got[id] == -INFINITY;
            CHECK_EQ(qsf_logits_of(p.b.c, i, mask), QSF_OK);
            for (uint32_t id = 0; id < LARGE; id++) {
                if (mask[id / 32] >> id % 32 & 1) CHECK(got[id] > -INFINITY);
                if (got[id] > -INFINITY) CHECK_NEAR(got[id], want[id], 1e-5 * (double)most);
            }
        }
        CHECK(missing > 100);
        CHECK_EQ(qsf_logits_of(p.exact, 0, mask), QSF_OK);      /* nothing is missing there */
        pair_close(&p);
        if (clusters) tiny_clusters_free(&t);
    }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(a_screen_before_256_rows_changes_nothing);
    RUN(a_screen_finds_the_best_row);
    RUN(clusters_that_promise_all_change_nothing);
    RUN(clusters_without_a_margin_leave_rows_out);
    RUN(batches_in_which_many_ask_are_exact);
    RUN(approximate_heads_stay_within_the_plan);
    RUN(heads_that_are_not_for_it_are_refused);
    RUN(damaged_clusters_are_refused);
    RUN(clusters_without_one_of_their_keys_are_refused);
    RUN(rows_that_were_left_out_can_be_asked_for);
    return test_end();
}
