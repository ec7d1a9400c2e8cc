/* Adapters: rows of one batch have those of their sequences; what changes with them starts anew;
 * damaged files are refused.
 * SPDX-License-Identifier: MIT */
#include "lora_build.h"
#include "engine_variants.h"
#include "memfile.h"

#include <stdatomic.h>

enum { TOKENS = 20 };

static qsf_status adapter_open(bench *b, const void *bytes, size_t len, qsf_adapter **out)
{
    memfile m;
    memfile_init(&m, bytes, len);
    const qsf_status st = qsf_adapter_load(b->m, NULL, &m.file, out, &b->error);
    CHECK_EQ(m.closed, 1);
    return st;
}
static qsf_adapter *adapter_made(bench *b, uint64_t seed)
{
    qsf_adapter *a = NULL;
    gguf_build g = adapter_of(seed);
    bench_ok(b, adapter_open(b, g.out, g.len, &a));
    gguf_build_free(&g);
    return a;
}

/* ---- rows ---- */

TEST(rows_of_one_batch_have_the_adapters_of_their_sequences)
{
    enum { SEQS = 4 };
    bench b;
    int32_t ids[TOKENS];
    float *alone[SEQS], *mixed[SEQS];
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    qsf_adapter *x = adapter_made(&b, 1), *y = adapter_made(&b, 2);
    const qsf_adapter_use uses[SEQS][2] = { { { x, 0 } }, { { x, 1 } }, { { y, -0.5f } },
                                            { { x, 1 }, { y, 2 } } };
    bench_tokens(ids, TOKENS, b.n_vocab, 7);
    for (int s = 0; s < SEQS; s++) {
        alone[s] = bench_floats(&b, TOKENS);
        mixed[s] = bench_floats(&b, TOKENS);
        CHECK_EQ(qsf_seq_set_adapters(b.c, s, uses[s], s == 3 ? 2 : 1), QSF_OK);
        CHECK_EQ(bench_feed(&b, s, ids, TOKENS, 16, alone[s]), QSF_OK);
        CHECK_EQ(qsf_seq_truncate(b.c, s, 0), QSF_OK);
        if (s) CHECK(bench_distance(alone[0], alone[s], TOKENS * b.n_vocab) > 10 * CLOSE);
    }
    CHECK(bench_distance(alone[1], alone[3], TOKENS * b.n_vocab) > 10 * CLOSE);
    for (int at = 0; at < TOKENS; at += 2) {        /* 0 0 1 1 2 2 3 3, then one of each */
        qsf_row rows[2 * SEQS];
        for (int i = 0; i < 2 * SEQS; i++) rows[i] = (qsf_row){ i / 2, ids[at + i % 2], true };
        CHECK_EQ(qsf_compute(b.c, rows, 2 * SEQS), QSF_OK);
        for (int i = 0; i < 2 * SEQS; i++)
            memcpy(mixed[i / 2] + (size_t)(at + i % 2) * b.n_vocab, qsf_logits(b.c, (size_t)i),
                   b.n_vocab * sizeof(float));
    }
    for (int s = 0; s < SEQS; s++) {
        CHECK_NEAR(bench_distance(alone[s], mixed[s], TOKENS * b.n_vocab), 0, CLOSE);
        free(alone[s]);
        free(mixed[s]);
    }
    qsf_adapter_free(x);
    qsf_adapter_free(y);
    bench_end(&b);
}

TEST(a_sequence_without_adapters_is_bit_for_bit_as_before)
{
    bench b;
    int32_t ids[TOKENS];
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    float *before = bench_floats(&b, TOKENS), *beside = bench_floats(&b, TOKENS);
    bench_tokens(ids, TOKENS, b.n_vocab, 7);
    CHECK_EQ(bench_feed(&b, 0, ids, TOKENS, 16, before), QSF_OK);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
    qsf_adapter *x = adapter_made(&b, 1);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 1, &(qsf_adapter_use){ x, 1 }, 1), QSF_OK);
    qsf_adapter_free(x);        /* sequence 1 has it still */
    CHECK_EQ(bench_feed(&b, 1, ids, TOKENS, 16, NULL), QSF_OK);
    CHECK_EQ(bench_feed(&b, 0, ids, TOKENS, 16, beside), QSF_OK);
    CHECK(!memcmp(before, beside, TOKENS * b.n_vocab * sizeof *before));
    CHECK(atomic_load(&b.m->adapter_bytes) > 0);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 1, NULL, 0), QSF_OK);
    CHECK_EQ(atomic_load(&b.m->adapter_bytes), 0);
    CHECK_EQ(bench_feed(&b, 1, ids, TOKENS, 16, beside), QSF_OK);
    CHECK(!memcmp(before, beside, TOKENS * b.n_vocab * sizeof *before));
    free(before);
    free(beside);
    bench_end(&b);
}

/* ---- layers apart ---- */

/* The layers after a first one, with adapters by number. */
typedef struct rest_of {
    qsf_model   *m;
    qsf_context *c;
    qsf_adapter *adapters[3];
    uint32_t     n_vocab;
    qsf_status   fails;
} rest_of;

static qsf_status rest_compute(void *user, const qsf_row *rows, size_t n, const float *states,
                               size_t ld_states, float *logits, size_t ld_logits)
{
    const rest_of *r = user;
    CHECK_EQ(n, 1);
    (void)ld_states, (void)ld_logits;
    const qsf_status st = qsf_compute_from(r->c, rows, 1, states);
    if (!st) memcpy(logits, qsf_logits(r->c, 0), r->n_vocab * sizeof *logits);
    return st;
}
static void rest_back(void *user, qsf_seq s, uint32_t n)
{
    CHECK_EQ(qsf_seq_truncate(((rest_of *)user)->c, s, n), QSF_OK);
}
static void rest_share(void *user, qsf_seq dst, qsf_seq src, uint32_t n)
{
    CHECK_EQ(qsf_seq_share(((rest_of *)user)->c, dst, src, n), QSF_OK);
}
static qsf_status rest_adapt(void *user, qsf_seq s, const qsf_adapter_use *uses, size_t n)
{
    const rest_of *r = user;
    qsf_adapter_use own[8];
    for (size_t i = 0; i < n; i++) {
        qsf_adapter_info info = { .size = sizeof info };
        CHECK_EQ(qsf_adapter_get_info(uses[i].adapter, &info), QSF_OK);
        own[i] = (qsf_adapter_use){ r->adapters[info.number], uses[i].scale };
    }
    return r->fails ? r->fails : qsf_seq_set_adapters(r->c, s, own, n);
}

/* A range of layers, with both adapters of it. */
static bool rest_open(bench *b, uint32_t first, uint32_t end, rest_of *r)
{
    qsf_model_options mo;
    const qsf_context_options co = bench_options();
    qsf_model_defaults(&mo);
    mo.platform = &b->h.m.p;
    mo.first_layer = first;
    mo.end_layer = end;
    r->n_vocab = b->n_vocab;
    bool ok = bench_ok(b, qsf_model_open("m", &mo, &r->m, &b->error));
    for (uint32_t i = 1; i < 3 && ok; i++) {
        gguf_build g = adapter_of(i);
        memfile m;
        memfile_init(&m, g.out, g.len);
        const qsf_adapter_options ao = { .size = sizeof ao, .file = &m.file, .number = i };
        ok = bench_ok(b, qsf_adapter_open(r->m, NULL, &ao, &r->adapters[i], &b->error));
        gguf_build_free(&g);
    }
    return ok && bench_ok(b, qsf_context_new(r->m, &co, &r->c, &b->error));
}

static void rest_close(rest_of *r)
{
    qsf_context_free(r->c);
    for (int i = 1; i < 3; i++) qsf_adapter_free(r->adapters[i]);
    qsf_model_close(r->m);
}

static void check_rest(bench *b, qsf_context *c, const qsf_adapter_use *whole, const qsf_adapter_use *first,
                       size_t n)
{
    int32_t ids[TOKENS];
    bench_tokens(ids, TOKENS, b->n_vocab, 7);
    CHECK_EQ(qsf_seq_set_adapters(b->c, 1, whole, n), QSF_OK);
    CHECK_EQ(qsf_seq_set_adapters(c, 1, first, n), QSF_OK);
    CHECK_EQ(qsf_seq_length(c, 1), 0);
    for (int i = 0; i < TOKENS; i++) {
        const qsf_row row = { 1, ids[i], true };
        CHECK_EQ(qsf_compute(b->c, &row, 1), QSF_OK);
        CHECK_EQ(qsf_compute(c, &row, 1), QSF_OK);
        CHECK(!memcmp(qsf_logits(b->c, 0), qsf_logits(c, 0), b->n_vocab * sizeof(float)));
    }
}

TEST(the_rest_of_a_model_has_the_adapters_of_its_sequences)
{
    bench b;
    const tiny_options o = tiny_defaults();
    rest_of first = { 0 }, rest = { 0 };
    qsf_behind behind = { .size = sizeof behind, .user = &rest, .compute = rest_compute, .back = rest_back,
                          .share = rest_share };
    if (!bench_begin(&b, &o) || !rest_open(&b, 0, 1, &first) || !rest_open(&b, 1, 0, &rest)) return;
    qsf_adapter *x = adapter_made(&b, 1), *y = adapter_made(&b, 2);
    const qsf_adapter_use whole[] = { { y, 0.5f }, { x, 1 } };
    const qsf_adapter_use use[] = { { first.adapters[2], 0.5f }, { first.adapters[1], 1 } };
    CHECK_EQ(qsf_context_set_behind(first.c, &behind), QSF_OK);
    CHECK_EQ(qsf_seq_set_adapters(first.c, 1, use, 1), QSF_E_UNSUPPORTED);      /* the rest is not told */
    qsf_context_free(first.c);
    const qsf_context_options co = bench_options();
    CHECK_EQ(qsf_context_new(first.m, &co, &first.c, &b.error), QSF_OK);
    behind.adapters = rest_adapt;
    CHECK_EQ(qsf_context_set_behind(first.c, &behind), QSF_OK);
    for (size_t n = 0; n < 3; n++) check_rest(&b, first.c, whole, use, n);
    rest.fails = QSF_E_BUDGET;
    CHECK_EQ(qsf_seq_set_adapters(first.c, 1, use, 1), QSF_E_BUDGET);
    CHECK(strstr(qsf_last_error(first.c), "cannot have these adapters") != NULL);
    rest.fails = QSF_OK;
    check_rest(&b, first.c, whole, use, 0);
    rest_close(&first);
    rest_close(&rest);
    qsf_adapter_free(x);
    qsf_adapter_free(y);
    bench_end(&b);
}

/* ---- how adapters are held ---- */

/* Logits of TOKENS tokens, the last ones one by one, with the adapter of these bytes, opened so.
 * *read: what was brought of it. */
static float *held_logits(bench *b, memfile *m, bool exact, bool streamed, uint64_t *read)
{
    qsf_stats stats = { .size = sizeof stats };
    qsf_adapter *a = NULL;
    int32_t ids[TOKENS];
    const qsf_adapter_options o = { .size = sizeof o, .file = &m->file, .exact = exact,
                                    .streamed = streamed };
    float *out = bench_floats(b, TOKENS);
    m->closed = 0;
    bench_tokens(ids, TOKENS, b->n_vocab, 7);
    if (!bench_ok(b, qsf_adapter_open(b->m, NULL, &o, &a, &b->error))) return out;
    CHECK_EQ(m->closed, !streamed);
    qsf_context_reset_stats(b->c);
    CHECK_EQ(qsf_seq_set_adapters(b->c, 0, &(qsf_adapter_use){ a, 1 }, 1), QSF_OK);
    CHECK_EQ(bench_feed(b, 0, ids, TOKENS - 4, 16, out), QSF_OK);
    CHECK_EQ(bench_feed(b, 0, ids + TOKENS - 4, 4, 1, out + (size_t)(TOKENS - 4) * b->n_vocab), QSF_OK);
    CHECK_EQ(qsf_context_get_stats(b->c, &stats), QSF_OK);
    if (read) *read = stats.adapter_bytes;
    CHECK_EQ(qsf_seq_set_adapters(b->c, 0, NULL, 0), QSF_OK);
    qsf_adapter_free(a);
    CHECK_EQ(m->closed, 1);
    return out;
}

TEST(codes_are_near_the_numbers_that_they_stand_for)
{
    bench b;
    memfile m;
    const tiny_options o = tiny_defaults();
    qsf_context_options co = bench_options();
    gguf_build g = adapter_of(1);
    memfile_init(&m, g.out, g.len);
    if (!bench_begin(&b, &o)) return;
    const size_t n = TOKENS * (size_t)b.n_vocab;
    float *codes = held_logits(&b, &m, false, false, NULL), *exact = held_logits(&b, &m, true, false, NULL);
    const double apart = bench_distance(exact, codes, n);
    CHECK(apart > 0);
    co.f32 = true;
    CHECK(bench_context(&b, &co));
    float *floats = held_logits(&b, &m, true, false, NULL);
    const double rounding = bench_distance(floats, exact, n);     /* of activations alone */
    CHECK_NEAR(apart, 0, 1.5 * rounding);
    qsf_adapter *x = adapter_made(&b, 1);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, &(qsf_adapter_use){ x, 1 }, 1), QSF_E_UNSUPPORTED);
    CHECK(strstr(qsf_last_error(b.c), "exact") != NULL);
    qsf_adapter_free(x);
    free(codes);
    free(exact);
    free(floats);
    gguf_build_free(&g);
    bench_end(&b);
}

/* A context whose budget has no room for all layers. */
static bool small_context(bench *b)
{
    qsf_context_options co = bench_options();
    qsf_plan plan = { .size = sizeof plan };
    co.adapter_bytes = 1000000;
    co.ram_budget = 100000000;
    do {
        if (!bench_ok(b, qsf_context_plan(b->m, &co, &plan, &b->error))) return false;
        co.ram_budget = plan.total - 1024;
    } while (plan.resident);
    CHECK(plan.n_batch >= 16);
    co.ram_budget = plan.total;
    return bench_context(b, &co);
}

TEST(streamed_adapters_are_bit_for_bit_those_in_memory)
{
    bench b;
    memfile m;
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    for (int i = 0; i < 3; i++) {
        gguf_build g = adapter_with(1, i < 2);          /* embedding and head, too */
        memfile_init(&m, g.out, g.len);
        qsf_context_options co = bench_options();
        const bool f32 = i == 1;
        uint64_t read = 1;
        co.f32 = f32;
        CHECK(i == 2 ? small_context(&b) : bench_context(&b, &co));
        float *stays = held_logits(&b, &m, f32, false, &read);
        CHECK_EQ(read, 0);
        float *comes = held_logits(&b, &m, f32, true, &read);
        CHECK(!memcmp(stays, comes, TOKENS * b.n_vocab * sizeof *stays));
        /* six batches of two layers and the head: at least a byte for each number of theirs */
        const uint64_t layer = RANK * (4 * EMBD + 2 * KV_COLS + 2 * EMBD + 3 * (EMBD + FF));
        CHECK(read > 5 * 2 * layer && read < 6 * 10 * (2 * layer + 2 * RANK * (EMBD + 288)));
        free(stays);
        free(comes);
        gguf_build_free(&g);
    }
    bench_end(&b);
}

/* The next unit's bytes travel while one is computed: a layer's step begins no read of its own. */
TEST(a_streamed_adapter_is_read_ahead)
{
    enum { UNITS = 3 };         /* two layers and the head */
    bench b;
    memfile m;
    qsf_adapter *a = NULL;
    const tiny_options o = tiny_defaults();
    gguf_build g = adapter_of(1);
    memfile_init(&m, g.out, g.len);
    const qsf_adapter_options ao = { .size = sizeof ao, .file = &m.file, .streamed = true };
    if (!bench_begin(&b, &o) || !bench_ok(&b, qsf_adapter_open(b.m, NULL, &ao, &a, &b.error))) return;
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, &(qsf_adapter_use){ a, 1 }, 1), QSF_OK);
    CHECK_EQ(bench_feed(&b, 0, (const int32_t[]){ 5, 6 }, 2, 2, NULL), QSF_OK);     /* no logits, no head */
    CHECK_EQ(qsf_compute(b.c, &(qsf_row){ 0, 7, true }, 1), QSF_OK);
    for (int token = 0; token < 3; token++) {
        const qsf_row row = { 0, 8 + token, true };
        const uint64_t before = m.reads;
        qsf_status st = qsf_batch_begin(b.c, &row, 1);
        for (uint32_t done = 0; !st || st == QSF_PENDING;) {
            const uint64_t at = m.reads;
            if ((st = qsf_step(b.c, NULL)) == QSF_OK) break;
            if (qsf_batch_layer(b.c) == done) continue;         /* the embedding's step */
            CHECK_EQ(m.reads - at, 1);                          /* one read, of what comes next */
            done = qsf_batch_layer(b.c);
        }
        CHECK_EQ(st, QSF_OK);
        CHECK_EQ(m.reads - before, UNITS);
    }
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, NULL, 0), QSF_OK);
    qsf_adapter_free(a);
    CHECK_EQ(m.closed, 1);
    gguf_build_free(&g);
    bench_end(&b);
}

TEST(a_streamed_adapter_that_cannot_be_read_is_an_error)
{
    bench b;
    memfile m;
    qsf_adapter *a = NULL;
    qsf_adapter_info whole = { .size = sizeof whole }, part = whole;
    const tiny_options o = tiny_defaults();
    gguf_build g = adapter_of(1);
    memfile_init(&m, g.out, g.len);
    if (!bench_begin(&b, &o)) return;
    qsf_adapter *x = adapter_made(&b, 1);
    const qsf_adapter_options ao = { .size = sizeof ao, .file = &m.file, .streamed = true };
    CHECK(bench_ok(&b, qsf_adapter_open(b.m, NULL, &ao, &a, &b.error)));
    CHECK_EQ(qsf_adapter_get_info(x, &whole), QSF_OK);
    CHECK_EQ(qsf_adapter_get_info(a, &part), QSF_OK);
    CHECK_EQ(part.n_matrices, whole.n_matrices);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, &(qsf_adapter_use){ a, 1 }, 1), QSF_OK);
    const qsf_row row = { 0, 5, true };
    m.fail_at = m.reads + 5;            /* in the first layer */
    CHECK_EQ(qsf_compute(b.c, &row, 1), QSF_E_IO);
    m.fail_at = m.reads + 15;           /* ahead, of the second one, which is read when it runs then */
    CHECK_EQ(qsf_compute(b.c, &row, 1), QSF_OK);
    CHECK(m.reads > m.fail_at + 14);
    m.fail_at = 0;
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, NULL, 0), QSF_OK);
    CHECK_EQ(m.closed, 0);
    qsf_adapter_free(a);
    CHECK_EQ(m.closed, 1);
    qsf_adapter_free(x);
    gguf_build_free(&g);
    bench_end(&b);
}

/* ---- keys and values ---- */

typedef struct saved { uint8_t *bytes; size_t len; } saved;

static qsf_status save_bytes(void *user, const void *bytes, size_t len)
{
    saved *s = user;
    s->bytes = realloc(s->bytes, s->len + len);
    memcpy(s->bytes + s->len, bytes, len);
    s->len += len;
    return QSF_OK;
}

TEST(keys_and_values_stay_with_the_adapters_that_made_them)
{
    bench b;
    saved s = { 0 };
    memfile m;
    int32_t ids[TOKENS];
    size_t n;
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    qsf_adapter *x = adapter_made(&b, 1);
    bench_tokens(ids, TOKENS, b.n_vocab, 7);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, &(qsf_adapter_use){ x, 1 }, 1), QSF_OK);
    CHECK_EQ(bench_feed(&b, 0, ids, TOKENS, 16, NULL), QSF_OK);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, &(qsf_adapter_use){ x, 1 }, 1), QSF_OK);
    CHECK_EQ(qsf_seq_length(b.c, 0), TOKENS);
    CHECK_EQ(qsf_session_save(b.c, 0, ids, TOKENS, save_bytes, &s, &b.error), QSF_OK);
    CHECK_EQ(qsf_seq_share(b.c, 1, 0, TOKENS), QSF_E_ARGUMENT);
    memfile_init(&m, s.bytes, s.len);
    CHECK_EQ(qsf_session_load(b.c, 1, &m.file, ids, TOKENS, &n, &b.error), QSF_E_ARGUMENT);
    CHECK(strstr(b.error.text, "other adapters") != NULL);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 1, &(qsf_adapter_use){ x, 0.5f }, 1), QSF_OK);
    CHECK_EQ(qsf_seq_share(b.c, 1, 0, TOKENS), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_session_load(b.c, 1, &m.file, ids, TOKENS, &n, &b.error), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 1, &(qsf_adapter_use){ x, 1 }, 1), QSF_OK);
    CHECK_EQ(qsf_seq_share(b.c, 1, 0, TOKENS), QSF_OK);
    CHECK_EQ(qsf_session_load(b.c, 1, &m.file, ids, TOKENS, &n, &b.error), QSF_OK);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, &(qsf_adapter_use){ x, 2 }, 1), QSF_OK);
    CHECK_EQ(qsf_seq_length(b.c, 0), 0);
    free(s.bytes);
    qsf_adapter_free(x);
    bench_end(&b);
}

/* ---- memory and limits ---- */

TEST(a_budget_counts_adapters)
{
    bench b;
    const tiny_options o = tiny_defaults();
    qsf_context_options co = bench_options();
    qsf_adapter_info info = { .size = sizeof info };
    qsf_plan plan = { .size = sizeof plan }, with = { .size = sizeof with };
    if (!bench_begin(&b, &o)) return;
    qsf_adapter *x = adapter_made(&b, 1);
    CHECK_EQ(qsf_adapter_get_info(x, &info), QSF_OK);
    CHECK_EQ(info.rank, RANK);
    CHECK_EQ(info.n_matrices, 16);
    co.ram_budget = 100000000;
    CHECK(bench_context(&b, &co));
    CHECK_EQ(qsf_context_get_plan(b.c, &plan), QSF_OK);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, &(qsf_adapter_use){ x, 1 }, 1), QSF_E_BUDGET);
    co.adapter_bytes = info.bytes;
    CHECK(bench_context(&b, &co));
    CHECK_EQ(qsf_context_get_plan(b.c, &with), QSF_OK);
    CHECK_EQ(with.total, plan.total + info.bytes);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, &(qsf_adapter_use){ x, 1 }, 1), QSF_OK);
    const qsf_adapter_use many[9] = { { x, 1 }, { x, 1 }, { x, 1 }, { x, 1 }, { x, 1 }, { x, 1 }, { x, 1 },
                                      { x, 1 }, { x, 1 } };
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, many, 9), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 0, &(qsf_adapter_use){ x, NAN }, 1), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 99, many, 1), QSF_E_ARGUMENT);
    qsf_adapter_free(x);
    bench_end(&b);
}

/* ---- files ---- */

static void adapter_refused(bench *b, gguf_build *g, qsf_status want, const char *words)
{
    qsf_adapter *a;
    adapter_end(g, 3);
    CHECK_EQ(adapter_open(b, g->out, g->len, &a), want);
    CHECK(a == NULL);
    if (!strstr(b->error.text, words)) test_fail(__FILE__, __LINE__, b->error.text);
    gguf_build_free(g);
}

TEST(what_is_no_adapter_of_the_model_is_refused_by_name)
{
    bench b;
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    gguf_build g = adapter_begin("qwen2");
    adapter_refused(&b, &g, QSF_E_UNSUPPORTED, "qwen2");
    gguf_build_init(&g, 3);
    kv_text(&g, "general.architecture", "llama");
    adapter_refused(&b, &g, QSF_E_UNSUPPORTED, "is not an adapter");
    g = adapter_begin("llama");
    adapter_refused(&b, &g, QSF_E_CORRUPT, "no weights");
    g = adapter_begin("llama");
    kv_array(&g, "adapter.alora.invocation_tokens", 4, 1);
    put_u32(&g.kv, 5);
    adapter_refused(&b, &g, QSF_E_UNSUPPORTED, "activated");
    g = adapter_begin("llama");
    tensor(&g, "blk.0.attn_q.weight.lora_a", 0, EMBD, RANK);
    adapter_refused(&b, &g, QSF_E_CORRUPT, "partner");
    g = adapter_begin("llama");
    tensor(&g, "blk.0.attn_q.weight.lora_a", 0, EMBD, RANK);
    tensor(&g, "blk.0.attn_q.weight.lora_b", 0, RANK, EMBD + 1);
    adapter_refused(&b, &g, QSF_E_CORRUPT, "another model's");
    g = adapter_begin("llama");
    tensor(&g, "blk.0.attn_q.weight.lora_a", 0, EMBD, RANK);
    tensor(&g, "blk.0.attn_q.weight.lora_b", 0, RANK + 1, EMBD);
    adapter_refused(&b, &g, QSF_E_CORRUPT, "another model's");
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = { "blk.2.attn_q.weight", "blk.0.ffn_gate_inp.weight",
                                             "rope_freqs" };
        char name[64];
        g = adapter_begin("llama");
        qsf_format(name, sizeof name, "%s.lora_a", names[i]);
        tensor(&g, name, 0, EMBD, RANK);
        name[strlen(name) - 1] = 'b';
        tensor(&g, name, 0, RANK, EMBD);
        adapter_refused(&b, &g, QSF_E_UNSUPPORTED, names[i]);
    }
    g = adapter_begin("llama");
    tensor(&g, "blk.0.attn_q.weight", 0, EMBD, EMBD);
    adapter_refused(&b, &g, QSF_E_UNSUPPORTED, "neither");
    g = adapter_begin("llama");
    tensor3(&g, "blk.0.ffn_up.weight.lora_a", EMBD, RANK, 2);
    tensor3(&g, "blk.0.ffn_up.weight.lora_b", RANK, FF, 2);
    adapter_refused(&b, &g, QSF_E_CORRUPT, "2 pairs");
    g = adapter_begin("llama");
    adapter_pair(&g, 0, 0);
    tensor(&g, "blk.0.attn_qkv.weight.lora_a", 0, EMBD, RANK + 1);
    tensor(&g, "blk.0.attn_qkv.weight.lora_b", 0, RANK + 1, EMBD + 2 * KV_COLS);
    adapter_refused(&b, &g, QSF_E_CORRUPT, "twice");
    bench_end(&b);
}

TEST(a_damaged_adapter_is_refused_or_read_but_never_worse)
{
    bench b;
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    gguf_build g = adapter_begin("llama");
    adapter_pair(&g, 1, 1);
    adapter_end(&g, 4);
    for (size_t len = 0; len < g.len; len++) {
        qsf_adapter *a;
        uint8_t *cut = malloc(len ? len : 1);
        memcpy(cut, g.out, len);
        CHECK(adapter_open(&b, cut, len, &a) != QSF_OK && !a);
        free(cut);
    }
    for (size_t at = 0; at < g.data_at; at++)
        for (int bit = 0; bit < 8; bit++) {
            qsf_adapter *a;
            g.out[at] ^= (uint8_t)(1 << bit);
            (void)adapter_open(&b, g.out, g.len, &a);
            qsf_adapter_free(a);
            g.out[at] ^= (uint8_t)(1 << bit);
        }
    gguf_build_free(&g);
    CHECK_EQ(atomic_load(&b.m->adapter_bytes), 0);
    bench_end(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(rows_of_one_batch_have_the_adapters_of_their_sequences);
    RUN(a_sequence_without_adapters_is_bit_for_bit_as_before);
    RUN(the_rest_of_a_model_has_the_adapters_of_its_sequences);
    RUN(codes_are_near_the_numbers_that_they_stand_for);
    RUN(streamed_adapters_are_bit_for_bit_those_in_memory);
    RUN(a_streamed_adapter_is_read_ahead);
    RUN(a_streamed_adapter_that_cannot_be_read_is_an_error);
    RUN(keys_and_values_stay_with_the_adapters_that_made_them);
    RUN(a_budget_counts_adapters);
    RUN(what_is_no_adapter_of_the_model_is_refused_by_name);
    RUN(a_damaged_adapter_is_refused_or_read_but_never_worse);
    return test_end();
}
