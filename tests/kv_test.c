/* The KV cache's tables: growing, cutting, sharing, copying on write, running out.
 * SPDX-License-Identifier: MIT */
#include "kv.h"
#include "test.h"

enum { LAYERS = 2, HEADS = 3, DIM = 16, BLOCKS = 6, SEQS = 3 };

static qsf_kernels kernels;
static qsf_kv kv;

static void begin(qsf_kv_type type)
{
    qsf_kv_layout l;
    qsf_kernels_scalar(&kernels);
    qsf_kv_layout_init(&l, type, LAYERS, HEADS, DIM);
    CHECK_EQ(qsf_kv_init(&kv, qsf_platform_native(), &l, BLOCKS, SEQS, NULL), QSF_OK);
}

/* A value that tells layer, sequence's pattern, position and head apart. */
static float pattern(uint32_t layer, uint32_t tag, uint32_t pos, uint32_t head, uint32_t d)
{
    return (float)(layer * 1000 + tag * 100 + pos) / 64 + (float)(head * 10 + d) / 16;
}

static void store(uint32_t s, uint32_t pos, uint32_t tag)
{
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t h = 0; h < HEADS; h++) {
            float k[DIM], v[DIM];
            for (uint32_t d = 0; d < DIM; d++) v[d] = -(k[d] = pattern(l, tag, pos, h, d));
            qsf_kv_store(&kv, &kernels, l, s, pos, h, k, v);
        }
}

static void check_stored(uint32_t s, uint32_t pos, uint32_t tag)
{
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t h = 0; h < HEADS; h++) {
            const uint8_t *r = qsf_kv_record(&kv, l, kv.seqs[s].blocks[pos / QSF_KV_BLOCK], h);
            const float *k = (const float *)(const void *)r + pos % QSF_KV_BLOCK * DIM;
            const float *v = (const float *)(const void *)(r + kv.layout.v_at) + pos % QSF_KV_BLOCK * DIM;
            for (uint32_t d = 0; d < DIM; d++) {
                CHECK_NEAR(k[d], pattern(l, tag, pos, h, d), 0);
                CHECK_NEAR(v[d], -pattern(l, tag, pos, h, d), 0);
            }
        }
}

TEST(kv_stores_what_it_is_given)
{
    begin(QSF_KV_F32);
    CHECK_EQ(qsf_kv_grow(&kv, 0, 40), QSF_OK);
    for (uint32_t p = 0; p < 40; p++) store(0, p, 1);
    for (uint32_t p = 0; p < 40; p++) check_stored(0, p, 1);
    qsf_kv_done(&kv);
}

TEST(kv_types_differ_in_size_and_precision)
{
    const float k[DIM] = { 0, 1, -1, 0.5f, 3, -2.5f, 0.125f, 2 }, v[DIM] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    uint64_t bytes[3];
    static const qsf_kv_type types[] = { QSF_KV_Q8, QSF_KV_F16, QSF_KV_F32 };
    for (int i = 0; i < 3; i++) {
        begin(types[i]);
        bytes[i] = kv.data_bytes;
        CHECK_EQ(qsf_kv_grow(&kv, 0, 1), QSF_OK);
        qsf_kv_store(&kv, &kernels, 1, 0, 0, 2, k, v);
        const uint8_t *r = qsf_kv_record(&kv, 1, kv.seqs[0].blocks[0], 2);
        for (int d = 0; d < DIM; d++) {
            if (types[i] == QSF_KV_F16) CHECK_NEAR(qsf_f16_to_f32(((const uint16_t *)(const void *)r)[d]), k[d], 0);
            if (types[i] == QSF_KV_Q8) CHECK_NEAR(((const int8_t *)r)[qsf_kv_k_at(0, (size_t)d, 16)] * *(const float *)(const void *)(r + kv.layout.kd_at), k[d], 3.0 / 127 / 2 + 1e-6);
        }
        qsf_kv_done(&kv);
    }
    CHECK(bytes[0] < bytes[1] && bytes[1] < bytes[2]);
}

TEST(kv_full_changes_nothing)
{
    begin(QSF_KV_F32);
    CHECK_EQ(qsf_kv_grow(&kv, 0, 4 * QSF_KV_BLOCK), QSF_OK);
    CHECK_EQ(kv.n_free, BLOCKS - 4);
    CHECK_EQ(qsf_kv_grow(&kv, 1, 2 * QSF_KV_BLOCK + 1), QSF_E_FULL);
    CHECK_EQ(kv.n_free, BLOCKS - 4);
    CHECK_EQ(kv.seqs[1].length, 0);
    CHECK_EQ(qsf_kv_grow(&kv, 1, 2 * QSF_KV_BLOCK), QSF_OK);
    CHECK_EQ(qsf_kv_grow(&kv, 2, 1), QSF_E_FULL);
    CHECK_EQ(qsf_kv_grow(&kv, 0, UINT32_MAX), QSF_E_FULL);
    qsf_kv_done(&kv);
}

TEST(kv_truncate_gives_blocks_back)
{
    begin(QSF_KV_F32);
    CHECK_EQ(qsf_kv_grow(&kv, 0, 100), QSF_OK);
    qsf_kv_truncate(&kv, 0, 64);
    CHECK_EQ(kv.n_free, BLOCKS - 2);
    qsf_kv_truncate(&kv, 0, 33);
    CHECK_EQ(kv.n_free, BLOCKS - 2);
    qsf_kv_truncate(&kv, 0, 0);
    CHECK_EQ(kv.n_free, BLOCKS);
    qsf_kv_done(&kv);
}

TEST(kv_shared_prefix_is_copied_when_written)
{
    begin(QSF_KV_F32);
    CHECK_EQ(qsf_kv_grow(&kv, 0, 40), QSF_OK);
    for (uint32_t p = 0; p < 40; p++) store(0, p, 1);
    qsf_kv_share(&kv, 1, 0, 36);
    CHECK_EQ(kv.n_free, BLOCKS - 2);
    CHECK_EQ(kv.seqs[1].length, 36);
    CHECK_EQ(qsf_kv_grow(&kv, 1, 1), QSF_OK);                 /* writes into the shared second block: a copy */
    CHECK_EQ(kv.n_free, BLOCKS - 3);
    CHECK(kv.seqs[1].blocks[1] != kv.seqs[0].blocks[1]);
    CHECK_EQ(kv.seqs[1].blocks[0], kv.seqs[0].blocks[0]);
    store(1, 36, 2);
    check_stored(1, 36, 2);
    for (uint32_t p = 0; p < 40; p++) check_stored(0, p, 1);
    for (uint32_t p = 0; p < 36; p++) check_stored(1, p, 1);
    qsf_kv_truncate(&kv, 0, 0);
    for (uint32_t p = 0; p < 36; p++) check_stored(1, p, 1);  /* the other owner keeps it */
    qsf_kv_truncate(&kv, 1, 0);
    CHECK_EQ(kv.n_free, BLOCKS);
    qsf_kv_done(&kv);
}

TEST(kv_share_with_itself_cuts)
{
    begin(QSF_KV_F32);
    CHECK_EQ(qsf_kv_grow(&kv, 2, 70), QSF_OK);
    qsf_kv_share(&kv, 2, 2, 10);
    CHECK_EQ(kv.seqs[2].length, 10);
    CHECK_EQ(kv.n_free, BLOCKS - 1);
    qsf_kv_done(&kv);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(kv_stores_what_it_is_given);
    RUN(kv_types_differ_in_size_and_precision);
    RUN(kv_full_changes_nothing);
    RUN(kv_truncate_gives_blocks_back);
    RUN(kv_shared_prefix_is_copied_when_written);
    RUN(kv_share_with_itself_cuts);
    return test_end();
}
