/* Sessions: saved, loaded, and refused.
 * SPDX-License-Identifier: MIT */
#include "engine_bench.h"
#include "make_tiny_clusters.h"
#include "memfile.h"

enum { TOKENS = 45, KEPT = 35, MORE = 9 };

typedef struct saved { uint8_t *bytes; size_t len, cap, fail_at; } saved;

static qsf_status save_bytes(void *user, const void *bytes, size_t len)
{
    saved *s = user;
    if (s->fail_at && s->len + len >= s->fail_at) return QSF_E_IO;
    if (s->len + len > s->cap) s->bytes = realloc(s->bytes, s->cap = 2 * (s->len + len));
    memcpy(s->bytes + s->len, bytes, len);
    s->len += len;
    return QSF_OK;
}

static qsf_status load_bytes(bench *b, qsf_seq s, const void *bytes, size_t len, int32_t *ids,
                             size_t cap, size_t *n)
{
    memfile f;
    memfile_init(&f, bytes, len);
    return qsf_session_load(b->c, s, &f.file, ids, cap, n, &b->error);
}

static tiny_options session_model_options(void)
{
    tiny_options o = tiny_defaults();
    return o;
}

static qsf_context_options session_context(qsf_kv_type type)
{
    qsf_context_options co = bench_options();
    co.kv_type = type;
    co.n_seqs = 2;
    return co;
}

/* A context with sequence 0 of TOKENS tokens, and its bytes. */
static bool session_begin(bench *b, qsf_kv_type type, int32_t *ids, saved *s)
{
    const tiny_options o = session_model_options();
    const qsf_context_options co = session_context(type);
    if (!bench_write(b, &o) || !bench_open(b) || !bench_context(b, &co)) return false;
    bench_tokens(ids, TOKENS + MORE, b->n_vocab, 5);
    CHECK_EQ(bench_feed(b, 0, ids, TOKENS, 16, NULL), QSF_OK);
    *s = (saved){ 0 };
    CHECK_EQ(qsf_session_save(b->c, 0, ids, TOKENS, save_bytes, s, &b->error), QSF_OK);
    CHECK_EQ(s->len, qsf_session_bytes(b->c, 0));
    return true;
}

TEST(a_loaded_session_goes_on_with_the_same_logits)
{
    static const qsf_kv_type types[] = { QSF_KV_Q8, QSF_KV_F16, QSF_KV_F32, QSF_KV_Q4, QSF_KV_Q2, QSF_KV_Q8V4,
                                         QSF_KV_Q4V2 };
    for (size_t k = 0; k < QSF_ARRAY_LEN(types); k++) {
        bench b;
        saved s, again = { 0 };
        int32_t ids[TOKENS + MORE], got[TOKENS];
        size_t n;
        if (!session_begin(&b, types[k], ids, &s)) return;
        float *want = bench_floats(&b, MORE), *have = bench_floats(&b, MORE);
        CHECK_EQ(bench_feed(&b, 0, ids + TOKENS, MORE, 4, want), QSF_OK);

        /* Beside the other sequence, in its place, in a new context of another length. */
        for (int way = 0; way < 3; way++) {
            qsf_context_options co = session_context(types[k]);
            co.n_ctx = 96;
            if (way == 2 && !bench_context(&b, &co)) return;
            const qsf_seq seq = way == 0;
            CHECK_EQ(load_bytes(&b, seq, s.bytes, s.len, got, TOKENS, &n), QSF_OK);
            CHECK_EQ(n, TOKENS);
            CHECK(!memcmp(got, ids, sizeof got));
            CHECK_EQ(qsf_seq_length(b.c, seq), TOKENS);
            if (way == 1) {
                CHECK_EQ(qsf_session_save(b.c, seq, got, n, save_bytes, &again, &b.error), QSF_OK);
                CHECK(again.len == s.len && !memcmp(again.bytes, s.bytes, s.len));
            }
            CHECK_EQ(bench_feed(&b, seq, ids + TOKENS, MORE, 4, have), QSF_OK);
            CHECK(!memcmp(have, want, MORE * b.n_vocab * sizeof *want));
            if (way == 0) CHECK_EQ(qsf_seq_truncate(b.c, seq, 0), QSF_OK);
        }
        free(want);
        free(have);
        free(s.bytes);
        free(again.bytes);
        bench_end(&b);
    }
}

TEST(a_damaged_session_changes_nothing)
{
    bench b;
    saved s;
    int32_t ids[TOKENS + MORE], got[TOKENS];
    size_t n;
    if (!session_begin(&b, QSF_KV_Q8, ids, &s)) return;
    CHECK_EQ(qsf_seq_truncate(b.c, 0, KEPT), QSF_OK);
    float *want = bench_floats(&b, MORE), *have = bench_floats(&b, MORE);
    CHECK_EQ(bench_feed(&b, 0, ids + TOKENS, MORE, 4, want), QSF_OK);
    CHECK_EQ(qsf_seq_truncate(b.c, 0, KEPT), QSF_OK);
    const size_t free_blocks = b.c->tables.n_free;
    for (size_t i = 0; i < s.len; i += i < 600 || i + 8 > s.len ? 1 : 7 * TEST_EVERY) {
        s.bytes[i] ^= (uint8_t)(1 << i % 8);
        const qsf_status st = load_bytes(&b, 0, s.bytes, s.len, got, TOKENS, &n);
        CHECK(st == QSF_E_CORRUPT && n == 0 && b.error.text[0] != 0);
        s.bytes[i] ^= (uint8_t)(1 << i % 8);
    }
    for (size_t len = 0; len < s.len; len += len < 600 ? 1 : 997)
        CHECK_EQ(load_bytes(&b, 0, s.bytes, len, got, TOKENS, &n), QSF_E_CORRUPT);
    s.bytes = realloc(s.bytes, s.len + 1);
    s.bytes[s.len] = 0;
    CHECK_EQ(load_bytes(&b, 0, s.bytes, s.len + 1, got, TOKENS, &n), QSF_E_CORRUPT);
    CHECK_EQ(load_bytes(&b, 0, s.bytes, s.len, got, TOKENS - 1, &n), QSF_E_ARGUMENT);
    CHECK_EQ(n, TOKENS);
    CHECK_EQ(load_bytes(&b, 2, s.bytes, s.len, got, TOKENS, &n), QSF_E_ARGUMENT);
    memfile f;
    s.bytes[s.len - 1] ^= 1;
    memfile_init(&f, s.bytes, s.len);
    CHECK_EQ(qsf_session_load(b.c, 0, &f.file, got, TOKENS, &n, &b.error), QSF_E_CORRUPT);
    s.bytes[s.len - 1] ^= 1;
    for (uint64_t fail = f.reads; fail; fail--) {              /* each of the first pass */
        memfile_init(&f, s.bytes, s.len);
        f.fail_at = fail;
        CHECK_EQ(qsf_session_load(b.c, 0, &f.file, got, TOKENS, &n, &b.error), QSF_E_IO);
    }
    CHECK_EQ(qsf_seq_length(b.c, 0), KEPT);
    CHECK_EQ(b.c->tables.n_free, free_blocks);
    CHECK_EQ(bench_feed(&b, 0, ids + TOKENS, MORE, 4, have), QSF_OK);
    CHECK(!memcmp(have, want, MORE * b.n_vocab * sizeof *want));
    free(want);
    free(have);
    free(s.bytes);
    bench_end(&b);
}

/* A reader that changes its mind: the second pass fails or gives other bytes. */
static qsf_status fickle_read(void *user, uint64_t at, void *dst, size_t len)
{
    memfile *m = user;
    if (at == 0 && len > 0 && ++m->closed == 2) m->fail_at = 1;     /* closed counts passes here */
    memcpy(dst, m->bytes + at, len);
    if (m->closed == 2 && at > 2000) {
        if (m->reads) return QSF_E_IO;
        *(uint8_t *)dst ^= 1;
    }
    return QSF_OK;
}

TEST(a_second_reading_that_differs_leaves_the_sequence_empty)
{
    bench b;
    saved s;
    int32_t ids[TOKENS + MORE], got[TOKENS];
    size_t n;
    if (!session_begin(&b, QSF_KV_Q8, ids, &s)) return;
    const uint32_t free_blocks = b.c->tables.n_free;
    for (int fails = 0; fails < 2; fails++) {
        memfile f;
        memfile_init(&f, s.bytes, s.len);
        f.file.read = fickle_read;
        f.reads = (uint64_t)fails;
        CHECK_EQ(qsf_session_load(b.c, 0, &f.file, got, TOKENS, &n, &b.error), QSF_E_IO);
        CHECK_EQ(n, 0);
        CHECK_EQ(qsf_seq_length(b.c, 0), 0);
    }
    CHECK(b.c->tables.n_free > free_blocks);
    CHECK_EQ(load_bytes(&b, 0, s.bytes, s.len, got, TOKENS, &n), QSF_OK);
    free(s.bytes);
    bench_end(&b);
}

/* The header with another value at a place, and a checksum that agrees. */
static qsf_status load_with(bench *b, const saved *s, size_t at, uint32_t value)
{
    int32_t got[TOKENS];
    size_t n;
    uint8_t *bytes = malloc(s->len);
    memcpy(bytes, s->bytes, s->len);
    qsf_put32(bytes + at, value);
    if (at < 60) qsf_put32(bytes + 60, qsf_crc32(0, bytes, 60));
    qsf_put32(bytes + s->len - 4, qsf_crc32(0, bytes, s->len - 4));
    const qsf_status st = load_bytes(b, 0, bytes, s->len, got, TOKENS, &n);
    free(bytes);
    return st;
}

/* What an embedding in clusters means is in no unit's checksum:
 * a session knows the model by its tables, too. */
TEST(a_session_of_other_centroids_is_refused)
{
    saved s = { 0 };
    int32_t ids[TOKENS], got[TOKENS];
    for (int change = 0; change < 3; change++) {
        bench b;
        qsf_embd_clusters k;
        size_t n;
        tiny_options o = session_model_options();
        const qsf_context_options co = session_context(QSF_KV_Q8);
        o.hp.tied = false;
        if (!tiny_embd_clusters_make(&k, 20, o.hp.n_vocab, o.hp.n_embd)) return;
        o.embd_clusters = &k;
        if (change == 1) k.of[3] = (uint16_t)((k.of[3] + 1) % 20);
        if (change == 2) ((uint8_t *)(uintptr_t)k.centroids.data)[5] ^= 1;
        if (!bench_write(&b, &o) || !bench_open(&b) || !bench_context(&b, &co)) return;
        bench_tokens(ids, TOKENS, b.n_vocab, 5);
        if (!change) {
            CHECK_EQ(bench_feed(&b, 0, ids, TOKENS, 16, NULL), QSF_OK);
            CHECK_EQ(qsf_session_save(b.c, 0, ids, TOKENS, save_bytes, &s, &b.error), QSF_OK);
        }
        CHECK_EQ(load_bytes(&b, 0, s.bytes, s.len, got, TOKENS, &n), change ? QSF_E_ARGUMENT : QSF_OK);
        bench_end(&b);
        tiny_embd_clusters_free(&k);
    }
    free(s.bytes);
}

TEST(a_foreign_session_is_refused)
{
    bench b;
    saved s;
    int32_t ids[TOKENS + MORE], got[TOKENS];
    size_t n;
    if (!session_begin(&b, QSF_KV_Q8, ids, &s)) return;
    const uint32_t tokens_at = 64, scale_at = (uint32_t)(64 + 4 * TOKENS + b.c->executor->kv.kd_at);
    CHECK_EQ(load_with(&b, &s, 56, 0), QSF_OK);                              /* unchanged */
    for (uint32_t version = 0; version < 5; version++) {
        CHECK_EQ(load_with(&b, &s, 4, version), version == 3 ? QSF_OK : QSF_E_UNSUPPORTED);
        if (version == 3) continue;
        const bool earlier = version == 1 || version == 2;
        CHECK(strstr(b.error.text, earlier ? "start a new session" : "reads version 3") != NULL);
    }
    CHECK_EQ(load_with(&b, &s, 16, 1), QSF_E_ARGUMENT);                      /* model */
    CHECK_EQ(load_with(&b, &s, 24, 1), QSF_E_ARGUMENT);                      /* keys */
    CHECK_EQ(load_with(&b, &s, 44, 0), QSF_E_ARGUMENT);                      /* KV type */
    for (size_t at = 28; at < 60; at += 4)
        if (at != 44) CHECK_EQ(load_with(&b, &s, at, 0xffffffff), QSF_E_CORRUPT);
    CHECK_EQ(load_with(&b, &s, tokens_at, b.n_vocab), QSF_E_CORRUPT);
    CHECK_EQ(load_with(&b, &s, tokens_at, b.n_vocab - 1), QSF_OK);
    CHECK_EQ(load_with(&b, &s, scale_at, 0x7fc00000), QSF_E_CORRUPT);        /* a scale that is NaN */
    CHECK_EQ(load_with(&b, &s, scale_at, 0xbf800000), QSF_E_CORRUPT);

    /* Another KV type, a context too short, one that another sequence has filled. */
    qsf_context_options co = session_context(QSF_KV_Q4);
    if (!bench_context(&b, &co)) return;
    CHECK_EQ(bench_feed(&b, 0, ids, 9, 16, NULL), QSF_OK);
    CHECK_EQ(load_bytes(&b, 0, s.bytes, s.len, got, TOKENS, &n), QSF_E_ARGUMENT);
    CHECK(strstr(b.error.text, "has type q8, the context's has q4") != NULL && qsf_seq_length(b.c, 0) == 9);
    co = session_context(QSF_KV_Q8);
    co.n_ctx = 40;
    if (!bench_context(&b, &co)) return;
    CHECK_EQ(load_bytes(&b, 0, s.bytes, s.len, got, TOKENS, &n), QSF_E_FULL);
    co.n_ctx = 64;
    if (!bench_context(&b, &co)) return;
    CHECK_EQ(bench_feed(&b, 1, ids, TOKENS, 16, NULL), QSF_OK);
    CHECK_EQ(load_bytes(&b, 0, s.bytes, s.len, got, TOKENS, &n), QSF_E_FULL);
    CHECK_EQ(load_bytes(&b, 1, s.bytes, s.len, got, TOKENS, &n), QSF_OK);

    /* The same shape, other weights. */
    tiny_options o = session_model_options();
    o.seed++;
    qsf_context_free(b.c);
    b.c = NULL;
    bench other;
    co = session_context(QSF_KV_Q8);
    if (!bench_write(&other, &o) || !bench_open(&other) || !bench_context(&other, &co)) return;
    CHECK_EQ(load_bytes(&other, 0, s.bytes, s.len, got, TOKENS, &n), QSF_E_ARGUMENT);
    CHECK(strstr(other.error.text, "another model") != NULL);
    bench_end(&other);
    free(s.bytes);
    bench_end(&b);
}

TEST(a_sequence_that_a_window_has_cut_is_not_saved)
{
    bench b;
    saved s = { 0 };
    int32_t ids[200];
    const tiny_options o = session_model_options();
    qsf_context_options co = session_context(QSF_KV_Q4);
    co.kv_window = 40;
    if (!bench_write(&b, &o) || !bench_open(&b) || !bench_context(&b, &co)) return;
    bench_tokens(ids, 200, b.n_vocab, 3);
    CHECK_EQ(bench_feed(&b, 0, ids, 200, 16, NULL), QSF_OK);
    CHECK_EQ(qsf_session_save(b.c, 0, ids, 200, save_bytes, &s, &b.error), QSF_E_UNSUPPORTED);
    CHECK(strstr(b.error.text, "window") != NULL && s.len == 0);
    free(s.bytes);
    bench_end(&b);
}

TEST(saving_asks_for_the_right_tokens_and_says_what_failed)
{
    bench b;
    saved s, cut = { 0 };
    int32_t ids[TOKENS + MORE], got[TOKENS];
    size_t n;
    if (!session_begin(&b, QSF_KV_Q8, ids, &s)) return;
    CHECK_EQ(qsf_session_save(b.c, 0, ids, TOKENS - 1, save_bytes, &cut, &b.error), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_session_save(b.c, -1, ids, TOKENS, save_bytes, &cut, &b.error), QSF_E_ARGUMENT);
    CHECK_EQ(cut.len, 0);
    for (size_t at = 1; at <= s.len; at += 499) {
        cut = (saved){ .fail_at = at };
        CHECK_EQ(qsf_session_save(b.c, 0, ids, TOKENS, save_bytes, &cut, &b.error), QSF_E_IO);
        free(cut.bytes);
    }
    /* An empty sequence, and one with a batch under way, which is not saved. */
    cut = (saved){ 0 };
    CHECK_EQ(qsf_session_save(b.c, 1, NULL, 0, save_bytes, &cut, &b.error), QSF_OK);
    CHECK_EQ(load_bytes(&b, 1, cut.bytes, cut.len, got, TOKENS, &n), QSF_OK);
    CHECK_EQ(n, 0);
    cut.len = 0;
    const qsf_row row = { 0, ids[TOKENS], true };
    CHECK_EQ(qsf_batch_begin(b.c, &row, 1), QSF_OK);
    CHECK_EQ(qsf_session_save(b.c, 0, ids, TOKENS, save_bytes, &cut, &b.error), QSF_OK);
    CHECK(cut.len == s.len && !memcmp(cut.bytes + 64, s.bytes + 64, 4 * TOKENS));
    CHECK_EQ(load_bytes(&b, 0, s.bytes, s.len, got, TOKENS, &n), QSF_OK);
    CHECK_EQ(qsf_seq_length(b.c, 0), TOKENS);
    free(cut.bytes);
    free(s.bytes);
    bench_end(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(a_loaded_session_goes_on_with_the_same_logits);
    RUN(a_damaged_session_changes_nothing);
    RUN(a_second_reading_that_differs_leaves_the_sequence_empty);
    RUN(a_foreign_session_is_refused);
    RUN(a_session_of_other_centroids_is_refused);
    RUN(a_sequence_that_a_window_has_cut_is_not_saved);
    RUN(saving_asks_for_the_right_tokens_and_says_what_failed);
    return test_end();
}
