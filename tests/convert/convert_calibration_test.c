/* Calibration: which layers matter, measured on a text file.
 * SPDX-License-Identifier: MIT */
#define OUT "convert_calibration_test"
#include "convert_fake.h"

/* ---- calibration ---- */

static void put_text(const qsf_platform *p, const char *path, size_t len)
{
    static char text[4000];
    qsf_out *out;
    uint64_t seed = 7;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = tiny_uniform(&seed) < 0.2 ? ' ' : (char)('a' + (int)(tiny_uniform(&seed) * 20));
    CHECK_EQ(p->create(p->user, path, &out), QSF_OK);
    CHECK_EQ(p->write(p->user, out, 0, text, len), QSF_OK);
    CHECK_EQ(p->commit(p->user, out), QSF_OK);
}

/* Eight layers, the fourth of which hardly does anything; where they are compressed, with an
 * embedding in clusters. */
static bool calibration_begin(engine_host *h, uint8_t compression)
{
    qsf_error err;
    qsf_embd_clusters k;
    tiny_options o = tiny_defaults();
    if (!tiny_embd_clusters_make(&k, 20, o.hp.n_vocab, o.hp.n_embd)) return false;
    if (compression) {
        o.hp.tied = false;
        o.embd_clusters = &k;
    }
    o.hp.n_layers = 8;
    o.idle = 1 + 3;
    o.outliers = true;
    o.compression = compression;
    engine_host_init(h);
    put_text(&h->m.p, "text", 1500);
    put_text(&h->m.p, "short", 40);
    const qsf_status st = tiny_write(&h->m.p, "m", &o, &err);
    tiny_embd_clusters_free(&k);
    CHECK(st == QSF_OK || st == QSF_E_UNSUPPORTED);
    return st == QSF_OK;
}

static void calibration_end(engine_host *h)
{
    CHECK_EQ(h->m.live, 0);
    engine_host_done(h);
}

TEST(calibration_finds_the_idle_layer_and_leaves_the_weights)
{
    for (uint8_t compression = 0; compression < 2; compression++) {
        engine_host h;
        qsf_error err = { 0 };
        qsf_source *s[2] = { NULL };
        uint64_t bytes;
        unsigned places = 0;
        qsf_convert_options o;
        qsf_convert_defaults(&o);
        o.n_threads = 1;
        if (calibration_begin(&h, compression)) {
            const qsf_platform *p = &h.m.p;
            CHECK_EQ(qsf_conv_calibrate(p, "m", "text", "out", &o, &bytes, &err), QSF_OK);
            if (err.text[0]) printf("    %s\n", err.text);
            CHECK_EQ(qsf_source_open(p, "m", NULL, false, &s[0], &err), QSF_OK);
            CHECK_EQ(qsf_source_open(p, "out", NULL, false, &s[1], &err), QSF_OK);
            for (uint32_t i = 0; s[1] && i < 10; i++) {
                const float importance = s[1]->units[i].importance;
                CHECK_EQ(s[0]->units[i].crc, s[1]->units[i].crc);
                CHECK_EQ(s[0]->units[i].compression, s[1]->units[i].compression);
                if (i < 2 || i > 5) CHECK_NEAR(importance, 1, 0);
                else places |= 1u << (int)(importance * 4);
            }
            CHECK_EQ(places, 15);
            CHECK_EQ(s[1] && s[1]->embd_clusters, compression);
            if (s[1] && s[1]->embd_clusters)
                CHECK(!memcmp(s[0]->embd_clusters->of, s[1]->embd_clusters->of,
                              288 * sizeof *s[0]->embd_clusters->of) &&
                      !memcmp(s[0]->embd_clusters->centroids.data, s[1]->embd_clusters->centroids.data,
                              (size_t)s[0]->embd_clusters->centroids.bytes));
            if (s[1]) CHECK_NEAR(s[1]->units[3].importance, 0.125, 0);
            /* again, from the new file, on threads: the same file */
            o.n_threads = 3;
            CHECK_EQ(qsf_conv_calibrate(p, "out", "text", "again", &o, &bytes, &err), QSF_OK);
            const mem_file *a = mem_find(&h.m, "out"), *b = mem_find(&h.m, "again");
            CHECK(a && b && a->len == b->len && a->len == bytes &&
                  !memcmp(a->bytes, b->bytes, (size_t)a->len));
        }
        qsf_source_close(s[0]);
        qsf_source_close(s[1]);
        calibration_end(&h);
    }
}

TEST(calibration_that_fails_leaves_the_old_file)
{
    engine_host h;
    uint64_t bytes;
    qsf_error err = { 0 };
    qsf_convert_options o;
    qsf_convert_defaults(&o);
    o.n_threads = 1;
    if (calibration_begin(&h, 0)) {
        const qsf_platform *p = &h.m.p;
        put_text(p, "out", 20);
        CHECK_EQ(qsf_conv_calibrate(p, "m", "short", "out", &o, &bytes, &err), QSF_E_ARGUMENT);
        CHECK(strstr(err.text, "too few") != NULL);
        CHECK_EQ(qsf_conv_calibrate(p, "m", "none", "out", &o, &bytes, &err), QSF_E_NOT_FOUND);
        o.ram_bytes = 1000;
        CHECK_EQ(qsf_conv_calibrate(p, "m", "text", "out", &o, &bytes, &err), QSF_E_BUDGET);
        o.ram_bytes = 0;
        o.cancelled = is_cancelled;
        CHECK_EQ(qsf_conv_calibrate(p, "m", "text", "out", &o, &bytes, &err), QSF_E_CANCELLED);
        o.cancelled = NULL;
        h.m.calls = 0;
        CHECK_EQ(qsf_conv_calibrate(p, "m", "text", "whole", &o, &bytes, &err), QSF_OK);
        const long calls = h.m.calls, live = h.m.live;
        int survived = 0;
        for (long n = 1; n <= calls; n += 1 + calls * TEST_EVERY / 12) {
            h.m.calls = 0;
            h.m.fail_at = n;
            err = (qsf_error){ 0 };
            const qsf_status st = qsf_conv_calibrate(p, "m", "text", "out", &o, &bytes, &err);
            h.m.fail_at = 0;
            CHECK_EQ(h.m.live, live);
            CHECK(!st || err.text[0]);
            if (st == QSF_OK) survived++,
                put_text(p, "out", 20);       /* what was read ahead is read again */
            CHECK_EQ(mem_find(&h.m, "out")->len, 20);
        }
        CHECK(survived <= 2);
        static const struct { const char *text, *to; } lost[] = { { "text", "m" }, { "text", "text" } };
        for (size_t i = 0; i < 2; i++) {
            const uint64_t len = mem_find(&h.m, lost[i].to)->len;
            CHECK_EQ(qsf_conv_calibrate(p, "m", lost[i].text, lost[i].to, &o, &bytes, &err), QSF_E_ARGUMENT);
            CHECK(strstr(err.text, "which would be overwritten") != NULL);
            CHECK_EQ(mem_find(&h.m, lost[i].to)->len, len);
        }
    }
    calibration_end(&h);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(calibration_finds_the_idle_layer_and_leaves_the_weights);
    if (!TEST_THREADS_ONLY) RUN(calibration_that_fails_leaves_the_old_file);
    return test_end();
}
