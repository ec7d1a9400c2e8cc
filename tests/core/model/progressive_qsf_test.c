/* Progressive files: the weights of the plain file, in two pieces; damage in either.
 * SPDX-License-Identifier: MIT */
#include "qsf_case.h"
#include "qsf_repair.h"

static tiny_options pieces(void)
{
    tiny_options o = tiny_defaults();
    o.type = QSF_T_8BIT;
    o.progressive = true;
    return o;
}

TEST(weights_are_those_of_the_plain_file)
{
    for (int kind = 0; kind < 4; kind++) {
        mem_host h;
        size_t n[2];
        float *values[2];
        tiny_options o = pieces();
        mem_host_init(&h);
        o.outliers = kind == 1;
        o.hp.tied = kind != 2;
        if (kind == 3) o.type = QSF_T_4BIT;     /* only the embedding is split */
        for (int i = 0; i < 2; i++) {
            o.progressive = i;
            (void)written(&h, &o);
            qsf_source *s = opened(&h);
            CHECK_EQ(s->units[0].rest > 0, i && kind != 3);
            CHECK_EQ(s->units[qsf_unit_embd(s)].rest > 0, i);
            values[i] = values_of(s, &n[i]);
            qsf_source_close(s);
        }
        CHECK_EQ(n[0], n[1]);
        CHECK(!memcmp(values[0], values[1], n[0] * sizeof(float)));
        free(values[0]);
        free(values[1]);
        CHECK_EQ(verdict(&h), QSF_OK);
        mem_host_done(&h);
    }
}

static tiny_options least_pieces(void)
{
    tiny_options o = least();
    o.type = o.embd_type = QSF_T_8BIT;
    o.block = 32;
    o.progressive = true;
    return o;
}

TEST(a_flipped_bit_in_any_byte_is_an_error)
{
    mem_host h;
    long passed = 0;
    const tiny_options o = least_pieces();
    mem_host_init(&h);
    mem_file *f = written(&h, &o);
    CHECK_EQ(verdict(&h), QSF_OK);
    for (uint64_t i = 0; i < f->len; i++) {
        const uint8_t bit = (uint8_t)(1 << i % 8);
        f->bytes[i] ^= bit;
        if (verdict(&h) == QSF_OK && passed++ < 3) printf("      byte %llu\n", (unsigned long long)i);
        f->bytes[i] ^= bit;
    }
    CHECK_EQ(passed, 0);
    CHECK_EQ(h.live, 0);
    mem_host_done(&h);
}

TEST(a_cut_file_is_an_error)
{
    mem_host h;
    const tiny_options o = least_pieces();
    mem_host_init(&h);
    mem_file *f = written(&h, &o);
    const uint64_t len = f->len;
    uint8_t *whole = malloc((size_t)len);
    memcpy(whole, f->bytes, (size_t)len);
    for (uint64_t n = 0; n < len; n += 3) {
        mem_put(&h, "m", whole, n);
        if (verdict(&h) == QSF_OK) test_fail(__FILE__, __LINE__, "a cut file was read");
    }
    free(whole);
    mem_host_done(&h);
}

/* Every number of the list of second pieces, with right checksums. */
TEST(lies_about_the_pieces_are_found)
{
    mem_host h;
    const tiny_options o = pieces();
    const uint64_t wrong[] = { 0, 1, 63, 64, 4096, UINT32_MAX, UINT64_MAX, UINT64_MAX - 63, 1ull << 63 };
    mem_host_init(&h);
    mem_file *f = written(&h, &o);
    uint8_t *ext = f->bytes + qsf_le64(f->bytes + 100);
    const uint64_t ext_len = qsf_le32(f->bytes + 108);
    uint8_t *line = repair_find(ext, ext_len, "rest", 8, NULL);
    uint8_t *at = repair_find(ext, ext_len, "rest.at", 8, NULL);
    CHECK(line && at);
    for (size_t k = 0; line && at && k < 10; k++)
        for (size_t i = 0; i < QSF_ARRAY_LEN(wrong); i++) {
            uint8_t *p = k < 9 ? line + 8 * k : at;
            const uint64_t right = qsf_le64(p);
            qsf_put64(p, wrong[i]);
            qsf_repair(f->bytes, f->len);
            if (right != wrong[i]) CHECK(verdict(&h) != QSF_OK);
            qsf_put64(p, right);
            qsf_repair(f->bytes, f->len);
            CHECK_EQ(h.live, 0);
        }
    mem_host_done(&h);
}

TEST(a_progressive_file_is_not_compressed)
{
    mem_host h;
    tiny_options o = pieces();
    o.compression = QSF_COMPRESS_LZ4;
    mem_host_init(&h);
    CHECK_EQ(tiny_write(&h.p, "m", &o, &error), QSF_E_ARGUMENT);
    CHECK_EQ(h.live, 0);
    mem_host_done(&h);
}

int main(void)
{
    RUN(weights_are_those_of_the_plain_file);
    RUN(a_flipped_bit_in_any_byte_is_an_error);
    RUN(a_cut_file_is_an_error);
    RUN(lies_about_the_pieces_are_found);
    RUN(a_progressive_file_is_not_compressed);
    return test_end();
}
