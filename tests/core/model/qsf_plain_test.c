/* Plain QSF files: those of the original format specification, without any later addition.
 * SPDX-License-Identifier: MIT */
#include "qsf_case.h"

/* ---- plain files ---- */

typedef struct plain_file { uint8_t b[65536]; uint64_t len; } plain_file;

static void plain_bytes(plain_file *f, const void *p, uint64_t n)
{
    memcpy(f->b + f->len, p, (size_t)n);
    f->len += n;
}

/* A tensor of a plain file: header, rows of blocks of 64. */
static void plain_tensor(plain_file *f, uint32_t kind, uint8_t type, uint32_t rows, uint32_t cols,
                         bool header, bool by_default, uint64_t *seed)
{
    qsf_tensor t;
    uint8_t h[16];
    if (tiny_tensor(&t, kind, type, 64, 0, rows, cols, rows == 1, 0.2f, seed, &error))
        test_fail(__FILE__, __LINE__, error.text);
    qsf_tensor_header_put(h, &t);
    if (by_default) h[12] = 0xff;
    if (header) plain_bytes(f, h, 16);
    plain_bytes(f, t.data, t.bytes);
    free((void *)(uintptr_t)t.data);
}

/* One layer of width 64; bytes are written by hand, as by somebody who has read only the original
 * specification. */
static void plain_make(plain_file *f, bool gpt2, bool tied)
{
    static const uint32_t kinds[] = { 7, 0, 1, 2, 3, 8, 4, 5, 6 };
    uint64_t seed = 3;
    memset(f, 0, sizeof *f);
    f->len = 128 + 32;
    const uint64_t embd = f->len;
    uint8_t *e = f->b + embd;
    qsf_put32(e, QSF_T_4BIT);
    qsf_put32(e + 4, 10 * 36);
    qsf_put32(e + 8, 10);
    qsf_put32(e + 12, 64);
    f->len += 16;
    plain_tensor(f, 0, QSF_T_4BIT, 10, 64, false, false, &seed);
    if (gpt2) plain_tensor(f, QSF_K_POS_EMBD, QSF_T_F16, 32, 64, true, false, &seed);
    f->len += 5;                                        /* the document asks for no alignment and no order */
    const uint64_t layer = f->len;
    uint32_t n = 0;
    for (size_t i = 0; i < QSF_ARRAY_LEN(kinds); i++) {
        if (gpt2 && kinds[i] == 4) continue;
        const bool norm = kinds[i] >= 7;
        plain_tensor(f, kinds[i], norm ? QSF_T_F16 : i % 2 ? QSF_T_TERNARY : QSF_T_2BIT, norm ? 1 : 64, 64,
                     true, !norm && !(i % 2), &seed);
        n++;
    }
    const uint64_t final = f->len, layer_bytes = final - layer;
    plain_tensor(f, 0, QSF_T_F16, 1, 64, false, false, &seed);
    if (gpt2) plain_tensor(f, 0, QSF_T_F16, 1, 64, false, false, &seed);
    f->b[f->len++] = tied ? 0xff : QSF_T_4BIT;
    if (!tied) plain_tensor(f, 0, QSF_T_4BIT, 10, 64, false, false, &seed);

    uint8_t *x = f->b + 128;
    qsf_put64(x, layer);
    qsf_put32(x + 8, (uint32_t)layer_bytes);
    qsf_put32(x + 12, (uint32_t)layer_bytes);
    x[16] = QSF_T_2BIT;
    qsf_put16(x + 18, (uint16_t)n);
    qsf_put32(x + 20, qsf_crc32(0, f->b + layer, (size_t)layer_bytes));
    qsf_put32(x + 24, qsf_f32_bits(0.5f));
    const uint32_t words[] = { 1, 128, gpt2 ? 0 : 1, 1, 64, 4, 0, 10, 32, 64, 16 };
    memcpy(f->b, "QSF1", 4);
    for (size_t i = 0; i < QSF_ARRAY_LEN(words); i++) qsf_put32(f->b + 4 + 4 * i, words[i]);
    f->b[48] = 5;
    f->b[49] = gpt2 ? 0 : 1;
    f->b[50] = gpt2 ? 0 : 1;
    f->b[51] = gpt2 ? 0 : 1;
    qsf_put32(f->b + 52, qsf_f32_bits(10000));
    qsf_put64(f->b + 56, 128);
    qsf_put64(f->b + 64, embd);
    qsf_put64(f->b + 72, final);
    qsf_put32(f->b + 80, 1);
    qsf_put32(f->b + 84, 2);
    qsf_put32(f->b + 88, UINT32_MAX);
    qsf_put32(f->b + 92, (uint32_t)f->len);
    qsf_put32(f->b + 96, qsf_crc32(0, f->b, 96));
}

TEST(plain_files_are_read)
{
    for (int gpt2 = 0; gpt2 < 2; gpt2++)
        for (int tied = 0; tied < 2; tied++) {
            mem_host h;
            plain_file f;
            size_t n;
            plain_make(&f, gpt2, tied);
            mem_host_init(&h);
            mem_put(&h, "m", f.b, f.len);
            qsf_source *s = opened(&h);
            if (!s) return;
            CHECK_STR(s->hp.arch, gpt2 ? "gpt2" : "llama");
            CHECK_EQ(s->hp.tied, tied);
            CHECK_EQ(s->hp.gated, !gpt2);
            CHECK_EQ(s->hp.learned_pos, gpt2);
            CHECK_EQ(s->hp.rope, gpt2 ? QSF_ROPE_NONE : QSF_ROPE_HALVES);
            CHECK_EQ(s->hp.n_kv_heads, 4);
            CHECK_NEAR(s->hp.norm_eps, 1e-5, 1e-12);
            CHECK_EQ(s->vocab.kind, QSF_VOCAB_NONE);
            CHECK_EQ(s->vocab.bos, 1);
            CHECK_EQ(s->vocab.eos, 2);
            CHECK_EQ(s->vocab.pad, -1);
            CHECK_NEAR(s->units[0].importance, 0.5, 0);
            /* type byte 0xFF: the layer's */
            CHECK_EQ(s->tensors[s->units[0].first_tensor + 2].type, QSF_T_2BIT);
            float *v = values_of(s, &n);
            CHECK_EQ(n, s->n_params);
            free(v);
            qsf_source_close(s);
            CHECK_EQ(verdict(&h), QSF_OK);
            for (uint64_t len = 0; len < f.len; len++) {
                mem_put(&h, "m", f.b, len);
                CHECK(verdict(&h) != QSF_OK);
            }
            CHECK_EQ(h.live, 0);
            mem_host_done(&h);
        }
}

TEST(a_compressed_layer_without_a_directory_is_read)
{
    mem_host h;
    static plain_file f;
    plain_make(&f, false, true);
    const uint32_t codec = have_codec(QSF_COMPRESS_ZSTD) ? QSF_COMPRESS_ZSTD : QSF_COMPRESS_LZ4;
    if (!have_codec(codec)) return;      /* nothing to read: such a build refuses the file by name */
    uint8_t *x = f.b + 128, packed[65536];
    void *state = malloc(qsf_pack_state(codec));
    const uint64_t at = qsf_le64(x);
    const size_t n = qsf_pack(codec, state, f.b + at, qsf_le32(x + 8), packed, sizeof packed);
    free(state);
    CHECK(n > 0 && n < qsf_le32(x + 8));
    memcpy(f.b + at, packed, n);
    qsf_put32(x + 8, (uint32_t)n);
    x[17] = (uint8_t)codec;
    qsf_repair(f.b, f.len);
    mem_host_init(&h);
    mem_put(&h, "m", f.b, f.len);
    CHECK_EQ(verdict(&h), QSF_OK);
    f.b[at + 3] ^= 1;
    mem_put(&h, "m", f.b, f.len);
    CHECK_EQ(verdict(&h), QSF_E_CORRUPT);
    qsf_repair(f.b, f.len);
    mem_put(&h, "m", f.b, f.len);
    (void)verdict(&h);
    CHECK_EQ(h.live, 0);
    mem_host_done(&h);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(plain_files_are_read);
    RUN(a_compressed_layer_without_a_directory_is_read);
    return test_end();
}
