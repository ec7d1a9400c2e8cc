/* An embedding in clusters: the engine computes with centroid and residual together, and damaged
 * tables are refused.
 * SPDX-License-Identifier: MIT */
#include "model/compress.h"
#include "engine_bench.h"
#include "make_tiny_clusters.h"
#include "qsf_repair.h"

enum { N = 12, CLUSTERS = 20, LARGE = 5003 };

static const char WINDOW[] = "window on the embedding", DESCRIPTION[] = "description and vocabulary";

static tiny_options untied(void)
{
    tiny_options o = tiny_defaults();
    o.hp.tied = false;
    o.embd_type = QSF_T_2BIT;
    return o;
}

/* The file's embedding: centroid plus residual. */
static float *whole_rows(bench *b)
{
    const qsf_source *s = b->m->source;
    const qsf_embd_clusters *k = s->embd_clusters;
    const uint32_t unit = qsf_unit_embd(s), cols = s->hp.n_embd;
    qsf_tensor t = s->tensors[s->units[unit].first_tensor];
    float *out = malloc((size_t)t.rows * cols * sizeof *out), *mean = malloc(cols * sizeof *mean);
    void *data = NULL;
    bench_ok(b, qsf_source_load(s, unit, 0, &data, &b->error));
    t.data = data;
    for (uint32_t r = 0; data && r < t.rows; r++) {
        qsf_dequant_rows(&t, r, 1, out + (size_t)r * cols);
        qsf_dequant_rows(&k->centroids, k->of[r], 1, mean);
        for (uint32_t j = 0; j < cols; j++) out[(size_t)r * cols + j] += mean[j];
    }
    qsf_dealloc(s->platform, data, t.bytes);
    free(mean);
    return out;
}

static float *logits_of(bench *b, size_t chunk)
{
    int32_t ids[N];
    float *out = bench_floats(b, N);
    bench_tokens(ids, N, b->n_vocab, 3);
    bench_ok(b, bench_feed(b, 0, ids, N, chunk, out));
    return out;
}

static uint64_t item(bench *b, const char *name)
{
    qsf_plan plan = { .size = sizeof plan };
    qsf_context_get_plan(b->c, &plan);
    for (size_t i = 0; i < plan.n_items; i++)
        if (!strcmp(plan.items[i].name, name)) return plan.items[i].bytes;
    return 0;
}

/* Every type of residuals, with everything else that is applied to rows: the same logits, bit for
 * bit, as of a plain embedding of the sums. */
TEST(logits_are_those_of_the_sums)
{
    static const uint8_t types[] = { QSF_T_2BIT, QSF_T_2BIT_SYM, QSF_T_3BIT_S, QSF_T_4BIT, QSF_T_8BIT,
                                     QSF_T_TERNARY, QSF_T_F16, QSF_T_F32 };
    for (size_t i = 0; i < QSF_ARRAY_LEN(types); i++) {
        bench a, b;
        qsf_embd_clusters k;
        tiny_options o = untied();
        o.embd_type = types[i];
        o.packing = i % 2;
        o.hp.embd_scale = i % 3 ? 1 : 8;
        if (i == 6 && qsf_codec_check(QSF_COMPRESS_LZ4, "", NULL) == QSF_OK) o.compression = QSF_COMPRESS_LZ4;
        if (!tiny_embd_clusters_make(&k, CLUSTERS, o.hp.n_vocab, o.hp.n_embd)) return;
        o.embd_clusters = &k;
        if (!bench_begin(&a, &o)) return;
        float *rows = whole_rows(&a);
        o.embd_clusters = NULL;
        o.embd = rows;
        if (!bench_begin(&b, &o)) return;
        float *got = logits_of(&a, 5), *want = logits_of(&b, 5);
        CHECK(!memcmp(got, want, N * a.n_vocab * sizeof *got));
        free(got);
        free(want);
        free(rows);
        bench_end(&a);
        bench_end(&b);
        tiny_embd_clusters_free(&k);
    }
}

/* A learned position is added to the sum. */
TEST(learned_positions_are_added_to_the_sums)
{
    bench a, b;
    qsf_embd_clusters k;
    tiny_options o = untied();
    o.hp.learned_pos = true;
    o.hp.rope = QSF_ROPE_NONE;
    if (!tiny_embd_clusters_make(&k, CLUSTERS, o.hp.n_vocab, o.hp.n_embd)) return;
    o.embd_clusters = &k;
    if (!bench_begin(&a, &o)) return;
    o.embd = whole_rows(&a);
    o.embd_clusters = NULL;
    if (!bench_begin(&b, &o)) return;
    float *got = logits_of(&a, N), *want = logits_of(&b, N);
    CHECK(!memcmp(got, want, N * a.n_vocab * sizeof *got));
    free(got);
    free(want);
    free((void *)(uintptr_t)o.embd);
    bench_end(&a);
    bench_end(&b);
    tiny_embd_clusters_free(&k);
}

/* Through a window, with rows that are kept; and the centroids are part of what the plan counts. */
TEST(a_window_on_residuals_gives_the_resident_logits)
{
    bench b, plain;
    qsf_embd_clusters k;
    qsf_plan plan = { .size = sizeof plan };
    tiny_options o = untied();
    qsf_context_options co = bench_options();
    co.n_batch = co.n_logits = 8;
    o.vocab = QSF_VOCAB_NONE;
    o.hp.n_vocab = LARGE;
    o.embd_type = QSF_T_8BIT;
    if (!bench_write(&plain, &o) || !bench_open(&plain) || !bench_context(&plain, &co)) return;
    if (!tiny_embd_clusters_make(&k, 2048, LARGE, o.hp.n_embd)) return;
    o.embd_clusters = &k;
    if (!bench_write(&b, &o) || !bench_open(&b) || !bench_context(&b, &co)) return;
    /* 135 KB; rows' clusters may fit into what was there */
    CHECK(item(&b, DESCRIPTION) >= item(&plain, DESCRIPTION) + k.centroids.bytes);
    float *want = logits_of(&b, 8);
    qsf_context_get_plan(b.c, &plan);
    co.ram_budget = plan.total - 1000;
    qsf_context_free(b.c);
    b.c = NULL;
    b.h.m.peak_bytes = b.h.m.live_bytes;
    if (!bench_context(&b, &co)) return;
    CHECK(item(&b, WINDOW) > 0);
    const uint64_t allocs = b.h.n_allocs;
    for (int round = 0; round < 2; round++) {       /* the second time, rows are there */
        CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
        float *got = logits_of(&b, 8);
        CHECK(!memcmp(got, want, N * (size_t)LARGE * sizeof *got));
        free(got);
    }
    CHECK_EQ(b.h.n_allocs, allocs);
    qsf_context_get_plan(b.c, &plan);
    CHECK(plan.total <= co.ram_budget && b.h.m.peak_bytes <= plan.total);
    free(want);
    bench_end(&b);
    bench_end(&plain);
    tiny_embd_clusters_free(&k);
}

/* ---- damaged tables ---- */

typedef void damage(qsf_embd_clusters *k);
static void cluster_beyond(qsf_embd_clusters *k) { k->of[5] = CLUSTERS; }
static void centroids_cut(qsf_embd_clusters *k) { k->centroids.bytes -= 2; }
static void no_centroids(qsf_embd_clusters *k) { k->centroids.bytes = 0; }
static void a_centroid_less(qsf_embd_clusters *k) { k->centroids.bytes -= k->centroids.bytes / CLUSTERS; }
static void scale_not_a_number(qsf_embd_clusters *k) { ((uint8_t *)(uintptr_t)k->centroids.data)[1] = 0x7e; }
static void scale_infinite(qsf_embd_clusters *k)
{
    qsf_put16((uint8_t *)(uintptr_t)k->centroids.data + k->centroids.bytes / CLUSTERS, 0xfc00);
}

static qsf_status open_status(bench *b)
{
    qsf_model_options mo;
    qsf_model_defaults(&mo);
    mo.platform = &b->h.m.p;
    b->error.text[0] = 0;
    return qsf_model_open("m", &mo, &b->m, &b->error);
}

TEST(damaged_clusters_are_refused)
{
    static damage *const all[] = { cluster_beyond, centroids_cut, no_centroids, a_centroid_less,
                                   scale_not_a_number, scale_infinite };
    for (size_t i = 0; i < QSF_ARRAY_LEN(all); i++) {
        bench b;
        qsf_embd_clusters k;
        tiny_options o = untied();
        if (!tiny_embd_clusters_make(&k, CLUSTERS, o.hp.n_vocab, o.hp.n_embd)) return;
        k.of[7] = CLUSTERS - 1;
        o.embd_clusters = &k;
        all[i](&k);
        if (!bench_write(&b, &o)) return;
        CHECK_EQ(open_status(&b), QSF_E_CORRUPT);
        CHECK(strstr(b.error.text, "embd.c") || strstr(b.error.text, "embedding's clusters"));
        bench_end(&b);
        tiny_embd_clusters_free(&k);
    }
}

/* Writes a file in clusters, lets what change it, makes the checksums right; then it must be
 * refused with these words. */
static void check_lie(bool clusters, void what(uint8_t *file, uint8_t *ext, uint64_t ext_len),
                      const char *words)
{
    bench b;
    qsf_embd_clusters k;
    tiny_options o = untied();
    if (!tiny_embd_clusters_make(&k, CLUSTERS, o.hp.n_vocab, o.hp.n_embd)) return;
    if (clusters) o.embd_clusters = &k;
    if (!bench_write(&b, &o)) return;
    uint8_t *file = bench_file(&b)->bytes;
    what(file, file + qsf_le64(file + 100), qsf_le32(file + 108));
    qsf_repair(file, bench_file(&b)->len);
    CHECK_EQ(open_status(&b), QSF_E_CORRUPT);
    CHECK(strstr(b.error.text, words) != NULL);
    bench_end(&b);
    tiny_embd_clusters_free(&k);
}

static void rename_key(uint8_t *ext, uint64_t ext_len, const char *key)
{
    repair_find(ext, ext_len, key, 1, NULL)[-1] = '?';
}
static void without_rows(uint8_t *file, uint8_t *ext, uint64_t ext_len)
{
    (void)file;
    rename_key(ext, ext_len, "embd.cluster");
}
static void without_centroids(uint8_t *file, uint8_t *ext, uint64_t ext_len)
{
    (void)file;
    rename_key(ext, ext_len, "embd.centroids");
}
static void version(uint8_t *file, uint8_t *ext, uint64_t ext_len)
{
    (void)ext;
    (void)ext_len;
    qsf_put32(file + 4, 3 - qsf_le32(file + 4));
}
static void without_head(uint8_t *file, uint8_t *ext, uint64_t ext_len)
{
    uint32_t n = 0;
    uint8_t *lines = repair_find(ext, ext_len, "tensors", 1, &n);
    (void)file;
    for (uint32_t at = 0; at < n; at += 28)
        /* a kind that readers step over */
        if (qsf_le32(lines + at + 4) == QSF_K_OUTPUT) qsf_put32(lines + at + 4, 0x1000);
}

TEST(what_older_readers_would_misread_is_refused)
{
    check_lie(true, version, "version 1");
    check_lie(false, version, "version 2");
    check_lie(true, without_rows, "version 2");
    check_lie(true, without_centroids, "embedding's clusters");
    check_lie(true, without_head, "cannot be the head");
}

TEST(a_tied_embedding_is_not_written_in_clusters)
{
    bench b = { 0 };
    qsf_embd_clusters k;
    tiny_options o = untied();
    if (!tiny_embd_clusters_make(&k, CLUSTERS, o.hp.n_vocab, o.hp.n_embd)) return;
    o.hp.tied = true;
    o.embd_clusters = &k;
    engine_host_init(&b.h);
    CHECK_EQ(tiny_write(&b.h.m.p, "m", &o, &b.error), QSF_E_ARGUMENT);
    CHECK(strstr(b.error.text, "head") != NULL);
    bench_end(&b);
    tiny_embd_clusters_free(&k);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(logits_are_those_of_the_sums);
    RUN(learned_positions_are_added_to_the_sums);
    RUN(a_window_on_residuals_gives_the_resident_logits);
    RUN(damaged_clusters_are_refused);
    RUN(what_older_readers_would_misread_is_refused);
    RUN(a_tied_embedding_is_not_written_in_clusters);
    return test_end();
}
