/* Layers that are left out: by importance, and after an early exit.
 * SPDX-License-Identifier: MIT */
#include "model/compress.h"
#include "engine_bench.h"
#include "qsf_repair.h"

#define EXACT 0             /* the same kernels see the same rows */

enum { N = 45 };            /* tokens: one block of the KV cache and a part of another */

/* The directory entry of a layer; its importance is at byte 24. */
static void set_importance(mem_file *f, uint32_t layer, float importance)
{
    qsf_put32(f->bytes + qsf_le64(f->bytes + 56) + layer * QSF_ENTRY_BYTES + 24, qsf_f32_bits(importance));
    qsf_repair(f->bytes, f->len);
}

static uint64_t plan_item_bytes(const qsf_plan *p, const char *name)
{
    for (size_t i = 0; i < p->n_items; i++)
        if (!strcmp(p->items[i].name, name)) return p->items[i].bytes;
    return 0;
}

/* At 0.8 layer 4 is left out: it may be damaged.  Layers 0, 1, 6 and 7 have importance 0 and stay:
 * they may not. */
static void check_damaged_layers(bench *b, qsf_context_options co, const int32_t *ids, const float *right)
{
    co.quality = 0.8f;
    for (uint32_t i = 0; i < 8; i++) {
        const uint64_t at = b->m->source->extents[b->m->source->units[i].first_extent].at;
        float *again = bench_floats(b, N);
        bench_file(b)->bytes[at + 1000] ^= 1;
        if (bench_context(b, &co)) {
            CHECK_EQ(bench_feed(b, 0, ids, N, 8, again), i == 4 ? QSF_OK : QSF_E_CORRUPT);
            if (i == 4) CHECK_NEAR(bench_distance(right, again, N * b->n_vocab), 0, EXACT);
        }
        bench_file(b)->bytes[at + 1000] ^= 1;
        free(again);
    }
}

TEST(lower_quality_skips_unimportant_layers_without_reading_them)
{
    for (int streamed = 0; streamed < 3; streamed += TEST_EVERY) {
        bench b;
        int32_t ids[N];
        tiny_options o = tiny_defaults();
        qsf_context_options co = bench_options();
        qsf_plan plan = { .size = sizeof plan };
        uint64_t layers[3], positions[3], total = 0;
        o.hp.n_layers = 8;
        o.hp.n_embd = 128;
        o.hp.n_ff = 512;
        if (streamed == 2 && qsf_codec_check(QSF_COMPRESS_LZ4, "", NULL) == QSF_OK)
            o.compression = QSF_COMPRESS_LZ4;
        if (!bench_write(&b, &o)) return;
        for (uint32_t i = 0; i < 8; i++)
            set_importance(bench_file(&b), i, i == 3 ? 0.3f : i == 4 ? 0.1f : i < 2 || i > 5 ? 0 : 1);
        if (!bench_open(&b)) return;
        float *out[3];
        for (int i = 0; i < 3; i++) {
            co.quality = i == 0 ? 1 : i == 1 ? 0.8f : 0.5f;
            if (!bench_context(&b, &co)) return;
            qsf_context_get_plan(b.c, &plan);
            /* Neither their weights nor their keys and values are planned;
             * a layer's are an eighth of all. */
            if (!streamed) {
                layers[i] = plan_item_bytes(&plan, "layers that stay");
                const qsf_kv *kv = &b.c->on_cpu.kv;
                positions[i] = qsf_kv_bytes(&kv->layout, kv->n_layers, kv->n_blocks);
                CHECK(layers[i] * 8 == layers[0] * (8 - (uint64_t)i)
                      && positions[i] * 8 == positions[0] * (8 - (uint64_t)i));
                CHECK(plan.total + i * (layers[0] + positions[0]) / 8 == total || !i);
                if (!i) total = plan.total;
            }
            if (streamed && i == 0) {
                co.ram_budget = plan.total - 5 * 100000;
                if (!bench_context(&b, &co)) return;
                qsf_context_get_plan(b.c, &plan);
                CHECK(!plan.resident && plan.n_slots > 0);
            }
            out[i] = bench_floats(&b, N);
            bench_tokens(ids, N, b.n_vocab, 80);
            CHECK_EQ(bench_feed(&b, 0, ids, N, 8, out[i]), QSF_OK);
        }
        CHECK(bench_distance(out[0], out[1], N * b.n_vocab) > 0);
        CHECK(bench_distance(out[1], out[2], N * b.n_vocab) > 0);
        check_damaged_layers(&b, co, ids, out[1]);
        for (int i = 0; i < 3; i++) free(out[i]);
        bench_end(&b);
    }
}

/* Feeds tokens one by one; out[i] are the logits after the i-th.
 * Returns how many left early; marks them in left. */
static int feed_singly(bench *b, const int32_t *ids, int n, float *out, bool *left)
{
    int found = 0;
    for (int i = 0; i < n; i++) {
        qsf_stats before = { .size = sizeof before }, after = { .size = sizeof after };
        const float *logits;
        qsf_context_get_stats(b->c, &before);
        CHECK_EQ(qsf_feed(b->c, 0, &ids[i], 1, &logits), QSF_OK);
        qsf_context_get_stats(b->c, &after);
        memcpy(out + (size_t)i * b->n_vocab, logits, b->n_vocab * sizeof *logits);
        left[i] = after.layers_left > before.layers_left;
        found += left[i];
    }
    return found;
}

TEST(early_exit_changes_no_key_and_no_value)
{
    enum { PROMPT = 9, TOKENS = 40 };
    for (int round = 0; round < 6; round += TEST_EVERY) {
        static const float at[] = { 0.001f, 0.3f, 0.6f, 0.75f, 0.85f, 0.95f };
        bench b;
        int32_t ids[PROMPT + TOKENS];
        bool left[TOKENS], none[TOKENS];
        int exits = 0;
        tiny_options o = tiny_defaults();
        qsf_context_options co = bench_options();
        qsf_plan plan = { .size = sizeof plan };
        o.hp.n_layers = 12;
        o.hp.n_embd = 128;
        /* 9: all that a token leaves out where it leaves at the first chance */
        o.idle = 1 + (round & 1 ? 7 : 9);
        if (!bench_write(&b, &o) || !bench_open(&b) || !bench_context(&b, &co)) return;
        float *out[2] = { bench_floats(&b, TOKENS), bench_floats(&b, TOKENS) };
        bench_tokens(ids, PROMPT + TOKENS, b.n_vocab, 91);
        for (int i = 0; i < 2; i++) {
            co.n_threads = 1 + (uint32_t)(round & 1);
            co.early_exit = i ? at[round] : 0;
            if (!bench_context(&b, &co)) return;
            if (i && round > 2) {
                qsf_context_get_plan(b.c, &plan);
                co.ram_budget = plan.total - 300000;
                if (!bench_context(&b, &co)) return;
            }
            CHECK_EQ(qsf_feed(b.c, 0, ids, PROMPT, NULL), QSF_OK);
            exits = feed_singly(&b, ids + PROMPT, TOKENS, out[i], i ? left : none);
            if (!i) CHECK_EQ(exits, 0);
        }
        /* seven leave, the eighth takes them along */
        if (round == 0) CHECK_EQ(exits, TOKENS - TOKENS / 8);
        CHECK(exits < TOKENS);
        for (int i = 0; i < TOKENS; i++) {
            const double distance = bench_distance(out[0] + (size_t)i * b.n_vocab,
                                                   out[1] + (size_t)i * b.n_vocab, b.n_vocab);
            if (!left[i]) CHECK_NEAR(distance, 0, EXACT);
            else CHECK(distance > 0);
            if (left[i] && round == 0) CHECK(distance < 0.1);
        }
        for (int i = 0; i < 2; i++) free(out[i]);
        bench_end(&b);
    }
}

/* With rows on the way: many rows at once, a batch that is cancelled, positions that are cut off,
 * other sequences. */
TEST(rows_that_left_early_are_taken_along_by_any_batch)
{
    bench b;
    int32_t ids[40];
    bool left[16];
    qsf_error err;
    bool waiting;
    tiny_options o = tiny_defaults();
    qsf_context_options co = bench_options();
    o.hp.n_layers = 12;
    if (!bench_write(&b, &o) || !bench_open(&b)) return;
    bench_tokens(ids, 40, b.n_vocab, 92);
    co.n_batch = 8;
    co.n_logits = 8;
    if (!bench_context(&b, &co)) return;
    float *want = bench_floats(&b, 40), *got = bench_floats(&b, 40);
    CHECK_EQ(bench_feed(&b, 0, ids, 40, 8, want), QSF_OK);
    co.early_exit = 0.001f;
    if (!bench_context(&b, &co)) return;
    CHECK_EQ(qsf_feed(b.c, 0, ids, 8, NULL), QSF_OK);
    CHECK_EQ(feed_singly(&b, ids + 8, 7, got, left), 7);
    CHECK_EQ(qsf_seq_share(b.c, 1, 0, 9), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_session_save(b.c, 0, ids, 15, NULL, NULL, &err), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_share(b.c, 1, 0, 8), QSF_OK);
    const qsf_row other = { 0, ids[15], true };
    CHECK_EQ(qsf_batch_begin(b.c, &other, 1), QSF_OK);
    for (int i = 0; i < 13; i++) CHECK_EQ(qsf_step(b.c, &waiting), QSF_PENDING);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 11), QSF_OK);                         /* drops it, and four that wait */
    CHECK_EQ(bench_feed(&b, 0, ids + 11, 29, 8, got), QSF_OK);
    CHECK_NEAR(bench_distance(got, want + (size_t)11 * b.n_vocab, 29 * b.n_vocab), 0, EXACT);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 8), QSF_OK);
    CHECK_EQ(feed_singly(&b, ids + 8, 3, got, left), 3);
    /* another sequence takes them along, too */
    CHECK_EQ(bench_feed(&b, 1, ids + 8, 20, 8, got), QSF_OK);
    CHECK_NEAR(bench_distance(got, want + (size_t)8 * b.n_vocab, 20 * b.n_vocab), 0, EXACT);
    CHECK_EQ(qsf_seq_share(b.c, 1, 0, 11), QSF_OK);
    CHECK_EQ(bench_feed(&b, 1, ids + 11, 20, 8, got), QSF_OK);
    CHECK_NEAR(bench_distance(got, want + (size_t)11 * b.n_vocab, 20 * b.n_vocab), 0, EXACT);
    co.early_exit = 1.5f;
    CHECK_EQ(bench_try(&b, &co), QSF_E_ARGUMENT);
    free(want);
    free(got);
    bench_end(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(early_exit_changes_no_key_and_no_value);
    RUN(rows_that_left_early_are_taken_along_by_any_batch);
    RUN(lower_quality_skips_unimportant_layers_without_reading_them);
    return test_end();
}
