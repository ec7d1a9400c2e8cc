/* The engine on small random models: batches, sequences, streaming, formats, damage.
 * SPDX-License-Identifier: MIT */
#include "engine_variants.h"

#define CLOSE_F32 1e-5      /* without 8-bit activations */

static bool have_codec(uint32_t c) { return qsf_codec_check(c, "", NULL) == QSF_OK; }

/* ---- batches ---- */

/* All ways to cut N tokens give the logits of one batch. */
static void check_cuts(bench *b, const qsf_context_options *o, double bound, const char *what)
{
    static const size_t cuts[] = { 1, 3, 8, 32 };
    int32_t ids[N];
    float *whole = bench_floats(b, N), *cut = bench_floats(b, N);
    bench_tokens(ids, N, b->n_vocab, 7);
    if (!bench_context(b, o)) return;
    CHECK_EQ(bench_feed(b, 0, ids, N, N, whole), QSF_OK);
    for (size_t i = 0; i < QSF_ARRAY_LEN(cuts); i++) {
        CHECK_EQ(qsf_seq_truncate(b->c, 0, 0), QSF_OK);
        CHECK_EQ(bench_feed(b, 0, ids, N, cuts[i], cut), QSF_OK);
        const double d = bench_distance(whole, cut, N * b->n_vocab);
        CHECK_NEAR(d, 0, bound);
        if (!(d <= bound)) printf("      %s, batches of %d\n", what, (int)cuts[i]);
        CHECK_EQ(qsf_seq_length(b->c, 0), N);
    }
    free(whole);
    free(cut);
}

TEST(a_prompt_in_any_batches_gives_the_same_logits)
{
    static const uint8_t types[] = { QSF_T_4BIT, QSF_T_8BIT, QSF_T_2BIT, QSF_T_TERNARY, QSF_T_5BIT_S,
                                     QSF_T_F16 };
    for (size_t i = 0; i < QSF_ARRAY_LEN(types); i += TEST_EVERY) {
        bench b;
        tiny_options o = tiny_defaults();
        qsf_context_options co = bench_options();
        o.type = types[i];
        o.block = (uint16_t)(32 << i % 4);
        if (!bench_write(&b, &o) || !bench_open(&b)) return;
        for (int kv = QSF_KV_F16; kv <= QSF_KV_Q4V2; kv++) {
            co.kv_type = (qsf_kv_type)kv;
            if (kv > QSF_KV_F32 && i) continue;          /* one type of weights is enough for them */
            check_cuts(&b, &co, CLOSE, qsf_type_get(types[i])->name);
        }
        co.f32 = true;
        check_cuts(&b, &co, CLOSE_F32, qsf_type_get(types[i])->name);
        bench_end(&b);
    }
}

TEST(every_architecture_gives_the_same_logits_in_any_batches_and_threads)
{
    for (int i = 0; i < 5; i++) {
        bench b;
        const char *name;
        const tiny_options o = variant(i, &name);
        qsf_context_options co = bench_options();
        if (!bench_write(&b, &o) || !bench_open(&b)) return;
        co.n_threads = 3;
        check_cuts(&b, &co, CLOSE, name);
        co.f32 = true;
        check_cuts(&b, &co, CLOSE_F32, name);
        bench_end(&b);
    }
}

TEST(threads_do_not_change_a_bit)
{
    static const uint32_t threads[] = { 2, 3, 7 };
    bench b;
    int32_t ids[N];
    const tiny_options o = tiny_defaults();
    qsf_context_options co = bench_options();
    if (!bench_begin(&b, &o)) return;
    float *one = bench_floats(&b, N), *more = bench_floats(&b, N);
    bench_tokens(ids, N, b.n_vocab, 8);
    CHECK_EQ(bench_feed(&b, 0, ids, N, 20, one), QSF_OK);
    for (size_t i = 0; i < QSF_ARRAY_LEN(threads); i++) {
        co.n_threads = threads[i];
        if (!bench_context(&b, &co)) return;
        CHECK_EQ(bench_feed(&b, 0, ids, N, 20, more), QSF_OK);
        CHECK_NEAR(bench_distance(one, more, N * b.n_vocab), 0, EXACT);
    }
    free(one);
    free(more);
    bench_end(&b);
}

TEST(the_last_row_alone_has_the_logits_it_has_among_all)
{
    bench b;
    int32_t ids[N];
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    float *all = bench_floats(&b, N);
    const float *last;
    bench_tokens(ids, N, b.n_vocab, 9);
    CHECK_EQ(bench_feed(&b, 0, ids, N, N, all), QSF_OK);
    CHECK_EQ(qsf_feed(b.c, 1, ids, N, &last), QSF_OK);
    CHECK_NEAR(bench_distance(all + (N - 1) * b.n_vocab, last, b.n_vocab), 0, CLOSE);
    /* A batch that asks for nothing ends well and has nothing. */
    CHECK_EQ(qsf_feed(b.c, 2, ids, N, NULL), QSF_OK);
    CHECK(qsf_logits(b.c, 0) == NULL);
    free(all);
    bench_end(&b);
}

TEST(logits_are_there_for_rows_that_asked_and_no_others)
{
    bench b;
    const tiny_options o = tiny_defaults();
    qsf_row rows[6] = { { 0, 5, false }, { 0, 6, true }, { 1, 7, false }, { 0, 8, true }, { 2, 5, true },
                        { 1, 9, false } };
    int32_t ids[3] = { 5, 6, 8 };
    if (!bench_begin(&b, &o)) return;
    float *alone = bench_floats(&b, 3);
    CHECK_EQ(bench_feed(&b, 0, ids, 3, 3, alone), QSF_OK);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
    CHECK_EQ(qsf_batch_begin(b.c, rows, 6), QSF_OK);
    CHECK(qsf_logits(b.c, 0) == NULL);
    CHECK_EQ(qsf_compute(b.c, rows, 6), QSF_OK);
    CHECK_NEAR(bench_distance(alone + b.n_vocab, qsf_logits(b.c, 0), b.n_vocab), 0, CLOSE);
    CHECK_NEAR(bench_distance(alone + 2 * b.n_vocab, qsf_logits(b.c, 1), b.n_vocab), 0, CLOSE);
    CHECK_NEAR(bench_distance(alone, qsf_logits(b.c, 2), b.n_vocab), 0, CLOSE);
    CHECK(qsf_logits(b.c, 3) == NULL);
    CHECK(qsf_logits(b.c, SIZE_MAX) == NULL);
    free(alone);
    bench_end(&b);
}

TEST(wrong_batches_are_refused_and_change_nothing)
{
    bench b;
    const tiny_options o = tiny_defaults();
    qsf_context_options co = bench_options();
    qsf_row rows[65] = { { 0, 1, true } };
    bool waiting;
    if (!bench_write(&b, &o) || !bench_open(&b)) return;
    co.n_logits = 2;
    if (!bench_context(&b, &co)) return;
    CHECK_EQ(qsf_compute(b.c, rows, 1), QSF_OK);
    for (int i = 1; i < 65; i++) rows[i] = rows[0];
    CHECK_EQ(qsf_batch_begin(b.c, rows, 0), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_batch_begin(b.c, rows, 65), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_batch_begin(b.c, rows, 3), QSF_E_ARGUMENT);
    CHECK(strstr(qsf_last_error(b.c), "n_logits") != NULL);
    CHECK_EQ(qsf_batch_begin(b.c, &(qsf_row){ 0, -1, true }, 1), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_batch_begin(b.c, &(qsf_row){ 0, (int32_t)b.n_vocab, true }, 1), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_batch_begin(b.c, &(qsf_row){ -1, 1, true }, 1), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_batch_begin(b.c, &(qsf_row){ 4, 1, true }, 1), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_step(b.c, &waiting), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_step(b.c, NULL), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_wait(b.c), QSF_OK);
    CHECK_EQ(qsf_feed(b.c, 0, NULL, 0, NULL), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_feed(b.c, 9, &(int32_t){ 1 }, 1, NULL), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 2), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_truncate(b.c, -1, 0), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_truncate(b.c, 4, 0), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_share(b.c, 1, 0, 2), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_share(b.c, 4, 0, 1), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_share(b.c, 1, -1, 1), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_length(b.c, 0), 1);
    CHECK_EQ(qsf_seq_length(b.c, 1), 0);
    CHECK_EQ(qsf_seq_length(b.c, -1), 0);
    CHECK_EQ(qsf_seq_length(b.c, 4), 0);
    CHECK_EQ(qsf_compute(b.c, rows, 2), QSF_OK);
    CHECK_STR(qsf_last_error(b.c), "");
    bench_end(&b);
}

TEST(wrong_options_are_refused)
{
    bench b;
    const tiny_options o = tiny_defaults();
    if (!bench_write(&b, &o) || !bench_open(&b)) return;
    const qsf_context_options good = bench_options();
    qsf_context_options bad[9];
    for (int i = 0; i < 9; i++) bad[i] = good;
    bad[0].n_threads = 257;
    bad[1].n_batch = 0;
    bad[2].n_batch = 1 << 20;
    bad[3].n_seqs = 0;
    bad[4].n_ctx = UINT32_MAX;
    bad[5].kv_type = (qsf_kv_type)7;
    bad[6].quality = 1.5f;
    bad[7].quality = NAN;
    bad[8].isa = "no such set";
    for (int i = 0; i < 9; i++) {
        const qsf_status st = bench_try(&b, &bad[i]);
        CHECK_EQ(st, i == 8 ? QSF_E_UNSUPPORTED : QSF_E_ARGUMENT);
        CHECK(b.c == NULL && b.error.text[0] != 0);
    }
    CHECK_EQ(bench_try(&b, &good), QSF_OK);
    CHECK_EQ(bench_try(&b, NULL), QSF_OK);
    bench_end(&b);
}

TEST(packing_and_compression_do_not_change_a_bit)
{
    for (int tied = 0; tied < 2; tied++) {
        tiny_options o = tiny_defaults();
        const qsf_context_options co = bench_options();
        o.hp.tied = tied;
        o.outliers = true;
        float *plain = logits_of(&o, &co);
        for (uint8_t c = QSF_COMPRESS_NONE; c <= QSF_COMPRESS_ZSTD; c++)
            for (uint8_t packing = 0; packing < 2; packing++) {
                if (!have_codec(c)) continue;
                o.packing = packing;
                o.compression = c;
                float *other = logits_of(&o, &co);
                if (plain && other) CHECK_NEAR(bench_distance(plain, other, N * o.hp.n_vocab), 0, EXACT);
                free(other);
            }
        free(plain);
    }
}

/* Also with key biases, as long as a key, and with a head size that is not a power of two. */
TEST(kv_types_and_float_arithmetic_are_close)
{
    static const struct { qsf_kv_type type; double bound; } types[] = {
        { QSF_KV_F32, 0.1 }, { QSF_KV_F16, 0.1 }, { QSF_KV_Q8, 0.1 }, { QSF_KV_Q8V4, 0.25 },
        { QSF_KV_Q4, 0.35 }, { QSF_KV_Q4V2, 0.8 }, { QSF_KV_Q2, 1.1 },
    };
    for (int shape = 0; shape < 3; shape++) {
        tiny_options o = tiny_defaults();
        qsf_context_options co = bench_options();
        double last = 0;
        o.biases = shape == 1;
        if (shape == 2) o.hp.head_dim = 24;
        co.f32 = true;
        float *exact = logits_of(&o, &co);
        co.f32 = false;
        for (size_t i = 0; i < QSF_ARRAY_LEN(types); i++) {
            co.kv_type = types[i].type;
            float *other = logits_of(&o, &co);
            const double d = exact && other ? bench_rms(exact, other, N * o.hp.n_vocab) : 9;
            CHECK_NEAR(d, 0, types[i].bound);
            if (getenv("QSF_TEST_PRINT")) printf("shape %d type %d: %g\n", shape, (int)types[i].type, d);
            last = d;
            free(other);
        }
        CHECK(last > 0);
        free(exact);
    }
}

/* Scales stored apart multiply what the matrices without them give: rows of the embedding, all
 * products along with outliers and biases, and the head, separate or tied, of floats or codes. */
TEST(scales_of_matrices_multiply_them)
{
    static const uint8_t types[] = { QSF_T_F32, QSF_T_4BIT_S, QSF_T_F16 };
    for (unsigned kind = 0; kind < 2 * QSF_ARRAY_LEN(types); kind++) {
        tiny_options o = tiny_defaults();
        qsf_context_options co = bench_options();
        o.type = o.embd_type = o.head_type = types[kind / 2];
        o.hp.tied = kind & 1;
        o.biases = o.outliers = true;
        o.packing = kind == 3;
        float *inside = logits_of(&o, &co);
        o.scales = 0.25f;
        float *apart = logits_of(&o, &co);
        co.f32 = true;
        float *floats = logits_of(&o, &co);
        if (inside && apart && floats) {
            CHECK_NEAR(bench_distance(inside, apart, N * o.hp.n_vocab), 0, CLOSE_F32);
            CHECK_NEAR(bench_distance(inside, floats, N * o.hp.n_vocab), 0, 0.1);
        }
        free(inside);
        free(apart);
        free(floats);
    }
}

/* A file whose down projections are floats with separate outliers equals one with the outliers
 * added in. */
TEST(outliers_are_added_to_their_matrix)
{
    bench b;
    int32_t ids[N];
    tiny_options o = tiny_defaults();
    const qsf_context_options co = bench_options();
    o.type = QSF_T_F32;
    o.outliers = true;
    if (!bench_begin(&b, &o)) return;
    float *beside = bench_floats(&b, N), *inside = bench_floats(&b, N), *without = bench_floats(&b, N);
    bench_tokens(ids, N, b.n_vocab, 90);
    CHECK_EQ(bench_feed(&b, 0, ids, N, 15, beside), QSF_OK);
    const qsf_source *s = b.m->source;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t u = 0; u < s->hp.n_layers; u++) {
            const uint32_t first = s->units[u].first_tensor;
            const uint32_t out = first + (uint32_t)qsf_unit_find(s, u, QSF_K_OUTLIERS + QSF_K_FFN_DOWN);
            const uint32_t down = first + (uint32_t)qsf_unit_find(s, u, QSF_K_FFN_DOWN);
            uint8_t *unit = bench_file(&b)->bytes + s->extents[s->units[u].first_extent].at,
                *sparse = unit + s->places[out];
            const qsf_tensor *t = &s->tensors[out];
            uint8_t *cols = sparse + 4 * (t->rows + 1), *deltas = cols + 4 * (uint64_t)t->cols;
            for (uint32_t r = 0; pass == 0 && r < t->rows; r++)
                for (uint32_t i = qsf_le32(sparse + 4 * r); i < qsf_le32(sparse + 4 * r + 4); i++) {
                    uint8_t *w = unit + s->places[down] +
                        4 * ((uint64_t)r * s->tensors[down].cols + qsf_le32(cols + 4 * i));
                    qsf_put32(w, qsf_f32_bits(qsf_lef32(w) + qsf_f16_to_f32(qsf_le16(deltas + 2 * i))));
                }
            if (pass == 0) memset(deltas, 0, 2 * (size_t)t->cols);
            else memset(unit + s->places[down], 0, (size_t)s->tensors[down].bytes);
        }
        qsf_repair(bench_file(&b)->bytes, bench_file(&b)->len);
        qsf_context_free(b.c);
        qsf_model_close(b.m);
        b.c = NULL;
        b.m = NULL;
        if (!bench_open(&b) || !bench_context(&b, &co)) return;
        s = b.m->source;
        CHECK_EQ(bench_feed(&b, 0, ids, N, 15, pass ? without : inside), QSF_OK);
    }
    CHECK_NEAR(bench_distance(beside, inside, N * b.n_vocab), 0, CLOSE);
    CHECK(bench_distance(beside, without, N * b.n_vocab) > 0.1);
    free(beside);
    free(inside);
    free(without);
    bench_end(&b);
}

/* ---- damage ---- */

/* The file at once, whatever is read of it by another thread. */
static void bench_file_becomes(bench *b, uint64_t len, uint64_t at, uint8_t flip)
{
    mem_file *f = bench_file(b);
    engine_lock(&b->h);
    f->len = len;
    f->bytes[at] ^= flip;
    engine_unlock(&b->h);
}

/* The engine meets damage in unit u with this context: an error, an unharmed state, and the right
 * logits once the file is whole again. */
static void check_damage(bench *b, const float *right, const int32_t *ids, uint32_t u, bool shrink)
{
    const qsf_source *s = b->m->source;
    const uint64_t at = s->extents[s->units[u].first_extent].at, len = bench_file(b)->len,
        hit = at + s->units[u].stored / 2;
    float *again = bench_floats(b, N);
    bench_file_becomes(b, shrink ? hit : len, hit, shrink ? 0 : 0x10);
    const qsf_status st = bench_feed(b, 0, ids, N, 15, again);
    CHECK_EQ(st, shrink ? QSF_E_IO : QSF_E_CORRUPT);
    CHECK(strstr(qsf_last_error(b->c), "m") != NULL && strlen(qsf_last_error(b->c)) > 10);
    CHECK_EQ(qsf_seq_length(b->c, 0), 0);
    CHECK_EQ(qsf_step(b->c, NULL), QSF_E_ARGUMENT);
    CHECK(qsf_logits(b->c, 0) == NULL);
    CHECK(bench_feed(b, 0, ids, N, 15, again) == st);       /* the error stays as long as the damage does */
    bench_file_becomes(b, len, hit, shrink ? 0 : 0x10);
    CHECK_EQ(bench_feed(b, 0, ids, N, 15, again), QSF_OK);
    CHECK_NEAR(bench_distance(right, again, N * b->n_vocab), 0, EXACT);
    free(again);
}

TEST(damage_found_while_running_is_an_error_and_the_context_lives_on)
{
    for (int variant = 0; variant < 4; variant++) {
        bench b;
        int32_t ids[N];
        tiny_options o = tiny_defaults();
        qsf_context_options co = bench_options();
        qsf_plan plan = { .size = sizeof plan };
        o.hp.tied = variant % 2 == 0;
        o.hp.n_layers = 4;
        if (variant >= 2 && have_codec(QSF_COMPRESS_LZ4)) o.compression = QSF_COMPRESS_LZ4;
        if (!bench_begin(&b, &o)) return;
        qsf_context_get_plan(b.c, &plan);
        if (variant == 1 || variant == 3) co.ram_budget = plan.total - 40000;
        float *right = bench_floats(&b, N);
        bench_tokens(ids, N, b.n_vocab, 100);
        CHECK_EQ(bench_feed(&b, 0, ids, N, 15, right), QSF_OK);
        for (uint32_t u = 0; u < b.m->source->n_units; u++)
            for (int shrink = 0; shrink < 2; shrink++) {
                if (!bench_context(&b, &co)) return;
                check_damage(&b, right, ids, u, shrink);
            }
        free(right);
        bench_end(&b);
    }
}

/* Scales that are not finite, in a file whose checksums are right: the error names where they show,
 * and nothing is lost. */
TEST(numbers_that_are_none_are_an_error_that_names_the_layer)
{
    static const uint16_t bad[] = { 0x7e00, 0x7c00, 0xfc00 };       /* NaN and the infinities as halves */
    bench b;
    int32_t ids[N];
    tiny_options o = tiny_defaults();
    o.hp.n_layers = 4;
    o.hp.tied = false;
    if (!bench_begin(&b, &o)) return;
    float *right = bench_floats(&b, N), *again = bench_floats(&b, N);
    bench_tokens(ids, N, b.n_vocab, 100);
    CHECK_EQ(bench_feed(&b, 0, ids, N, 15, right), QSF_OK);
    for (uint32_t layer = 0; layer <= o.hp.n_layers; layer++)
        for (size_t i = 0; i < QSF_ARRAY_LEN(bad); i++) {
            const qsf_weights *w;
            char where[32];
            const bool head = layer == o.hp.n_layers;
            const qsf_unit_id id = head ? qsf_id_final() : qsf_id_layer(layer);
            CHECK_EQ(qsf_fetch_unit(&b.c->fetch, id, false, &w, NULL), QSF_OK);
            const qsf_matrix *m = &w->m[head ? QSF_K_OUTPUT : QSF_K_FFN_DOWN];
            uint8_t *scale = qsf_fetch_writable(&b.c->fetch, m->t.data);      /* of a tile's first row */
            const uint16_t old = qsf_le16(scale);
            qsf_put16(scale, bad[i]);
            CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
            CHECK_EQ(bench_feed(&b, 0, ids, N, 15, again), QSF_E_CORRUPT);
            snprintf(where, sizeof where, head ? "output head" : "layer %u ", (unsigned)layer);
            CHECK(strstr(qsf_last_error(b.c), where) && strstr(qsf_last_error(b.c), "not finite"));
            qsf_put16(scale, old);
            CHECK_EQ(bench_feed(&b, 0, ids, N, 15, again), QSF_OK);
            CHECK(!memcmp(right, again, (size_t)N * b.n_vocab * sizeof *right));
        }
    free(right);
    free(again);
    bench_end(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(a_prompt_in_any_batches_gives_the_same_logits);
    RUN(every_architecture_gives_the_same_logits_in_any_batches_and_threads);
    RUN(threads_do_not_change_a_bit);
    RUN(the_last_row_alone_has_the_logits_it_has_among_all);
    RUN(logits_are_there_for_rows_that_asked_and_no_others);
    RUN(wrong_batches_are_refused_and_change_nothing);
    RUN(wrong_options_are_refused);
    RUN(packing_and_compression_do_not_change_a_bit);
    RUN(kv_types_and_float_arithmetic_are_close);
    RUN(scales_of_matrices_multiply_them);
    RUN(outliers_are_added_to_their_matrix);
    RUN(damage_found_while_running_is_an_error_and_the_context_lives_on);
    RUN(numbers_that_are_none_are_an_error_that_names_the_layer);
    return test_end();
}
