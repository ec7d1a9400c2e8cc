/* QSF files that are damaged, and faults while they are written and read.
 * SPDX-License-Identifier: MIT */
#include "make_tiny_clusters.h"
#include "qsf_case.h"

/* ---- damage ---- */

static void check_every_bit_matters(const tiny_options *o)
{
    mem_host h;
    long passed = 0, crashed_text = 0;
    mem_host_init(&h);
    mem_file *f = written(&h, o);
    f->bytes = realloc(f->bytes, (size_t)f->len);        /* a sanitizer sees reads past the end */
    f->cap = f->len;
    CHECK_EQ(verdict(&h), QSF_OK);
    for (uint64_t i = 0; i < f->len; i++)
        for (int bit = (int)(i % TEST_EVERY); bit < 8; bit += TEST_EVERY) {
            f->bytes[i] ^= (uint8_t)(1 << bit);
            if (verdict(&h) == QSF_OK && passed++ < 3)
                printf("      bit %d of byte %llu made no difference\n", bit, (unsigned long long)i);
            crashed_text += error.text[0] == 0;
            f->bytes[i] ^= (uint8_t)(1 << bit);
        }
    CHECK_EQ(passed, 0);
    CHECK_EQ(crashed_text, 0);
    CHECK_EQ(h.live, 0);
    mem_host_done(&h);
}

TEST(every_flipped_bit_is_an_error)
{
    const tiny_options o = least();
    check_every_bit_matters(&o);
}

TEST(every_flipped_bit_of_a_compressed_file_is_an_error)
{
    tiny_options o = least();
    o.hp.n_ff = 64;
    o.compression = have_codec(QSF_COMPRESS_LZ4) ? QSF_COMPRESS_LZ4 : QSF_COMPRESS_ZSTD;
    if (!have_codec(o.compression)) return;      /* nothing to read: such a build refuses the file by name */
    check_every_bit_matters(&o);
}

TEST(every_truncation_and_appended_bytes_are_errors)
{
    mem_host h;
    const tiny_options o = least();
    mem_host_init(&h);
    mem_file *f = written(&h, &o);
    const uint64_t len = f->len;
    uint8_t *whole = malloc((size_t)len + 4096);
    memset(whole, 0, (size_t)len + 4096);
    memcpy(whole, f->bytes, (size_t)len);
    for (uint64_t n = 0; n < len; n++) {
        mem_put(&h, "m", whole, n);
        if (verdict(&h) == QSF_OK) test_fail(__FILE__, __LINE__, "a cut file was read");
    }
    const uint64_t more[] = { 1, 2, 64, 4096 };
    for (size_t i = 0; i < QSF_ARRAY_LEN(more); i++) {
        mem_put(&h, "m", whole, len + more[i]);
        CHECK_EQ(verdict(&h), QSF_E_CORRUPT);
    }
    mem_put(&h, "m", whole, len);
    CHECK_EQ(verdict(&h), QSF_OK);
    free(whole);
    mem_host_done(&h);
}

/* Changes one thing and makes every checksum right: only the reader's own checks are left. */
static qsf_status judged(mem_host *h, const uint8_t *whole, uint64_t len, uint64_t at,
                         const void *bytes, size_t n)
{
    mem_file *f = mem_put(h, "m", whole, len);
    memcpy(f->bytes + at, bytes, n);
    qsf_repair(f->bytes, f->len);
    error.text[0] = 0;
    return verdict(h);
}

TEST(lies_with_right_checksums_are_found)
{
    mem_host h;
    tiny_options o = tiny_defaults();
    o.hp.tied = false;
    mem_host_init(&h);
    mem_file *f = written(&h, &o);
    const uint64_t len = f->len;
    uint8_t *w = malloc((size_t)len);
    memcpy(w, f->bytes, (size_t)len);
    qsf_source *s = opened(&h);
    const uint64_t embd = s->extents[s->units[qsf_unit_embd(s)].first_extent].at,
        layer1 = s->extents[s->units[1].first_extent].at,
        final = s->extents[s->units[qsf_unit_final(s)].first_extent].at;
    const uint64_t flag = final + 2 * o.hp.n_embd,
        head1 = layer1 + s->places[s->units[1].first_tensor + 1] - 16;
    qsf_source_close(s);
    uint32_t n = 0;
    const uint8_t *ext = w + qsf_le64(w + 100);
    const uint64_t dir = (uint64_t)(repair_find(w + qsf_le64(w + 100), qsf_le32(w + 108), "tensors", 28, &n)
                                    - w);
    CHECK_EQ(n % 28, 0);
    CHECK(!memcmp(ext, "QSFX", 4));
    const struct { uint64_t at; uint32_t v; size_t n; const char *what; } lies[] = {
        { 4, 2, 4, "version" }, { 16, 0, 4, "no layers" }, { 16, 3, 4, "one layer more" },
        { 16, UINT32_MAX, 4, "layers" }, { 20, 63, 4, "width" }, { 24, 0, 4, "no heads" },
        { 28, 3, 4, "heads that do not share" }, { 32, 287, 4, "vocabulary" },
        { 44, 15, 4, "head size" }, { 49, 4, 1, "activation" }, { 50, 2, 1, "norm" },
        { 51, 2, 1, "ALiBi" }, { 56, 64, 4, "index place" }, { 64, 1, 4, "embedding place" },
        { 72, 4096, 4, "final place" }, { 100, 0, 4, "extension place" },
        { 108, 8, 4, "extension size" }, { 120, 1, 1, "reserved" }, { 128 + 8, 100, 4, "layer size" },
        { 128 + 12, 99, 4, "raw size" }, { 128 + 17, 4, 1, "compression" },
        { 128 + 24, 0x7fc00000, 4, "importance" }, { 160, 4096, 4, "layer place" },
        { embd + 48, QSF_T_4BIT, 4, "embedding type" }, { embd + 52, 1, 4, "embedding size" },
        { embd + 56, 287, 4, "embedding rows" }, { head1, QSF_K_ATTN_K, 4, "tensor kind" },
        { head1 + 4, 65, 4, "tensor rows" }, { head1 + 12, QSF_T_4BIT_S, 1, "tensor type" },
        { head1 + 13, 0, 1, "tensor packing" }, { head1 + 14, 5, 1, "tensor block" },
        { head1 + 15, 1, 1, "tensor byte 15" }, { flag, QSF_TIED, 1, "flag byte" },
        { dir, 0, 4, "directory order" }, { dir + 4, QSF_K_OUTPUT, 4, "directory kind" },
        { dir + 8, 0, 4, "no rows" }, { dir + 12, UINT32_MAX, 4, "columns" },
        { dir + 16, UINT32_MAX, 4, "place" }, { dir + 24, 99, 1, "type" },
        { dir + 25, 2, 1, "packing" }, { dir + 26, 48, 2, "block" },
        { dir + 28 + 4, QSF_K_ATTN_NORM_BIAS, 4, "kind of the first norm" },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(lies); i++) {
        uint8_t v[4];
        qsf_put32(v, lies[i].v);
        const qsf_status st = judged(&h, w, len, lies[i].at, v, lies[i].n);
        if (st != QSF_E_CORRUPT && st != QSF_E_UNSUPPORTED) {
            test_fail(__FILE__, __LINE__, lies[i].what);
            printf("      status %d\n", (int)st);
        }
        CHECK_EQ(h.live, 0);
    }
    CHECK_EQ(judged(&h, w, len, 0, "QSF1", 4), QSF_OK);      /* the repair itself does no harm */
    free(w);
    mem_host_done(&h);
}

TEST(a_scale_must_be_one_number_behind_its_matrix)
{
    mem_host h;
    tiny_options o = tiny_defaults();
    o.scales = 0.5f;
    mem_host_init(&h);
    mem_file *f = written(&h, &o);
    const uint64_t len = f->len;
    uint8_t *w = malloc((size_t)len);
    memcpy(w, f->bytes, (size_t)len);
    qsf_source *s = opened(&h);
    const uint32_t i = s->units[1].first_tensor +
        (uint32_t)qsf_unit_find(s, 1, QSF_K_SCALE + QSF_K_ATTN_V);
    const uint64_t at = s->extents[s->units[1].first_extent].at + s->places[i];
    qsf_source_close(s);
    uint32_t n = 0;
    uint8_t *dir = repair_find(w + qsf_le64(w + 100), qsf_le32(w + 108), "tensors", 28, &n);
    uint32_t line = 0;
    for (; qsf_le32(dir + 28 * line) != 1; line++) {}
    for (; qsf_le32(dir + 28 * line + 4) != QSF_K_SCALE + QSF_K_ATTN_V; line++) {}
    /* the same lie in the tensor's header and in the directory: kind, rows, cols; type */
    const struct { uint32_t place, v; const char *says; } lies[] = {
        { 0, QSF_K_SCALE + QSF_K_ATTN_Q_BIAS, "kind 521" },
        { 0, QSF_K_SCALE + QSF_K_FFN_GATE, "not follow a matrix" },
        { 4, 2, "2 x 1" }, { 8, 3, "1 x 3" }, { 12, QSF_T_F16, "type 16" },
    };
    for (size_t k = 0; k < QSF_ARRAY_LEN(lies); k++) {
        const uint32_t in_line = lies[k].place == 12 ? 24 : lies[k].place + 4;
        uint8_t v[4];
        qsf_put32(v, lies[k].v);
        f = mem_put(&h, "m", w, len);
        memcpy(f->bytes + at - 16 + lies[k].place, v, lies[k].place == 12 ? 1 : 4);
        memcpy(f->bytes + (dir - w) + 28 * line + in_line, v, lies[k].place == 12 ? 1 : 4);
        qsf_repair(f->bytes, f->len);
        CHECK(verdict(&h) != QSF_OK);
        if (!strstr(error.text, lies[k].says)) test_fail(__FILE__, __LINE__, error.text);
    }
    const uint8_t nan[4] = { 0, 0, 0xc0, 0x7f };
    CHECK_EQ(judged(&h, w, len, at, nan, 4), QSF_E_CORRUPT);
    CHECK(strstr(error.text, "attn_v.scale") != NULL);
    free(w);
    mem_host_done(&h);
}

/* Random damage under right checksums, many times: no crash, no leak,
 * and the corpus of the fuzz target replayed. */
TEST(random_damage_with_right_checksums_is_survived)
{
    mem_host h;
    uint64_t seed = 7;
    mem_host_init(&h);
    for (int variant = 0; variant < 5; variant++) {
        qsf_embd_clusters k = { 0 };
        tiny_options o = variant & 1 ? tiny_defaults() : least();
        if (variant == 4 && tiny_embd_clusters_make(&k, 3, o.hp.n_vocab, o.hp.n_embd)) {
            o.hp.tied = false;
            o.embd_clusters = &k;
        }
        if (variant & 2)
            o.compression = have_codec(QSF_COMPRESS_ZSTD) ? QSF_COMPRESS_ZSTD : QSF_COMPRESS_NONE;
        o.outliers = true;
        o.scales = variant & 1 ? 3 : 0;
        const mem_file *f = written(&h, &o);
        uint8_t *b = malloc((size_t)f->len);
        for (int round = 0; round < 1500 / TEST_EVERY; round++) {
            memcpy(b, f->bytes, (size_t)f->len);
            const int hits = 1 + (int)(tiny_uniform(&seed) * 4);
            for (int k = 0; k < hits; k++) {
                const double where = tiny_uniform(&seed);
                const uint64_t area = where < 0.3 ? 128 : where < 0.7 ? QSF_MIN(4096, f->len) : f->len;
                b[(uint64_t)(tiny_uniform(&seed) * (double)area)] = (uint8_t)(tiny_uniform(&seed) * 256);
            }
            LLVMFuzzerTestOneInput(b, (size_t)f->len);
        }
        free(b);
        tiny_embd_clusters_free(&k);
    }
    mem_host_done(&h);
}

/* ---- faults ---- */

TEST(a_fault_at_any_call_while_writing_leaves_nothing)
{
    for (uint8_t c = 0; c <= QSF_COMPRESS_ZSTD; c++) {
        if (!have_codec(c)) continue;
        tiny_options o = least();
        o.compression = c;
        for (long n = 1;; n++) {
            mem_host h;
            mem_host_init(&h);
            h.fail_at = n;
            const qsf_status st = tiny_write(&h.p, "m", &o, &error);
            CHECK_EQ(h.live, 0);
            CHECK_EQ(mem_count(&h), st ? 0 : 1);
            const bool reached = h.calls >= n;
            CHECK(!reached || st == QSF_E_MEMORY || st == QSF_E_IO);
            mem_host_done(&h);
            if (!reached) break;
        }
    }
}

TEST(a_fault_while_writing_keeps_the_old_file)
{
    mem_host h;
    tiny_options o = least();
    mem_host_init(&h);
    written(&h, &o);
    o.seed = 2;
    for (long n = 1;; n++) {
        h.calls = 0;
        h.fail_at = n;
        const qsf_status st = tiny_write(&h.p, "m", &o, &error);
        h.fail_at = 0;
        if (!st) break;
        CHECK_EQ(mem_count(&h), 1);
        CHECK_EQ(verdict(&h), QSF_OK);
    }
    mem_host_done(&h);
}

TEST(a_fault_at_any_call_while_reading_leaks_nothing)
{
    for (uint8_t c = 0; c <= QSF_COMPRESS_ZSTD; c++) {
        if (!have_codec(c)) continue;
        mem_host h;
        tiny_options o = tiny_defaults();
        o.compression = c;
        mem_host_init(&h);
        written(&h, &o);
        for (long n = 1;; n++) {
            h.calls = 0;
            h.fail_at = n;
            const qsf_status st = verdict(&h);
            const bool reached = h.calls >= n;
            CHECK_EQ(h.live, 0);
            if (!reached) break;
            CHECK(st == QSF_E_MEMORY || st == QSF_E_IO);
        }
        mem_host_done(&h);
    }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(every_flipped_bit_is_an_error);
    RUN(every_flipped_bit_of_a_compressed_file_is_an_error);
    RUN(every_truncation_and_appended_bytes_are_errors);
    RUN(lies_with_right_checksums_are_found);
    RUN(a_scale_must_be_one_number_behind_its_matrix);
    RUN(random_damage_with_right_checksums_is_survived);
    RUN(a_fault_at_any_call_while_writing_leaves_nothing);
    RUN(a_fault_while_writing_keeps_the_old_file);
    RUN(a_fault_at_any_call_while_reading_leaks_nothing);
    return test_end();
}
