/* The KV cache's tables: growing, cutting, sharing, copying on write, running out.
 * SPDX-License-Identifier: MIT */
#include "engine/kv_tables.h"
#include "layers/kv_codes.h"
#include "test.h"

enum { LAYERS = 2, HEADS = 3, DIM = 16, BLOCKS = 6, SEQS = 3 };

static qsf_kernels kernels;
static qsf_kv kv;
static qsf_kv_tables tables;

static void copy(void *user, uint32_t to, uint32_t from) { qsf_kv_copy(user, to, from); }

static void begin(qsf_kv_type type)
{
    qsf_kv_layout l;
    qsf_kernels_scalar(&kernels);
    qsf_kv_layout_init(&l, type, LAYERS, HEADS, DIM);
    CHECK_EQ(qsf_kv_init(&kv, qsf_platform_native(), &l, LAYERS, BLOCKS, NULL), QSF_OK);
    CHECK_EQ(qsf_kv_tables_init(&tables, qsf_platform_native(), BLOCKS, SEQS, NULL), QSF_OK);
    tables.copy = copy;
    tables.user = &kv;
}

static void end(void)
{
    qsf_kv_tables_done(&tables);
    qsf_kv_done(&kv);
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
            qsf_kv_store(&kv, &kernels, l, &tables.seqs[s], pos, h, k, v);
        }
}

static void check_stored(uint32_t s, uint32_t pos, uint32_t tag)
{
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t h = 0; h < HEADS; h++) {
            const uint8_t *r = qsf_kv_record(&kv, l, tables.seqs[s].blocks[pos / QSF_KV_BLOCK], h);
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
    CHECK_EQ(qsf_kv_grow(&tables, 0, 40), QSF_OK);
    for (uint32_t p = 0; p < 40; p++) store(0, p, 1);
    for (uint32_t p = 0; p < 40; p++) check_stored(0, p, 1);
    end();
}

static qsf_kv_codes decoded_scales;

/* What stands for position pos's element d of head 2, layer 1, in a cache of codes. */
static void decoded(uint32_t pos, int d, float *k, float *v)
{
    static uint8_t scratch[2 * QSF_KV_BLOCK * (DIM + sizeof(float))];
    const uint8_t *r = qsf_kv_record(&kv, 1, tables.seqs[0].blocks[pos / QSF_KV_BLOCK], 2);
    const size_t i = pos % QSF_KV_BLOCK;
    const qsf_kv_codes c = qsf_kv_unpack(&kv.layout, &kernels, r, scratch);
    CHECK_EQ(sizeof scratch, qsf_kv_scratch(DIM));
    decoded_scales = c;
    *k = (float)c.k[qsf_kv_k_at(i, (size_t)d, DIM)] * c.kd[i];
    *v = (float)c.v[qsf_kv_v_at(i, (size_t)d)] * c.vd[i];
}

TEST(kv_types_differ_in_size_and_precision)
{
    static const struct { qsf_kv_type type; double k_error, v_error; } types[] = {       /* of the largest */
        { QSF_KV_Q2, 0.35, 0.35 }, { QSF_KV_Q4V2, 0.08, 0.35 }, { QSF_KV_Q4, 0.08, 0.08 },
        { QSF_KV_Q8V4, 0.004, 0.08 }, { QSF_KV_Q8, 0.004, 0.004 }, { QSF_KV_F16, 0, 0 },
        { QSF_KV_F32, 0, 0 },
    };
    uint64_t bytes = 0;
    for (size_t t = 0; t < QSF_ARRAY_LEN(types); t++) {
        begin(types[t].type);
        CHECK(qsf_kv_bytes(&kv.layout, LAYERS, BLOCKS) > bytes);
        bytes = qsf_kv_bytes(&kv.layout, LAYERS, BLOCKS);
        CHECK_EQ(qsf_kv_grow(&tables, 0, 40), QSF_OK);
        /* Neighbours share bytes and must not change each other:
         * stored once more in another order. */
        for (uint32_t n = 0; n < 80; n++) {
            const uint32_t pos = n < 40 ? n : n * 7 % 40;
            float k[DIM], v[DIM];
            for (uint32_t d = 0; d < DIM; d++) {
                k[d] = (float)(1 + pos % 5) * (float)((d * 5 + pos * 3) % 17) / 16 - 0.5f;
                v[d] = (float)((d * 7 + pos) % 19) / 16 - 0.5f;
            }
            qsf_kv_store(&kv, &kernels, 1, &tables.seqs[0], pos, 2, k, v);
        }
        for (uint32_t pos = 0; kv.layout.k_bits && pos < 40; pos++)
            for (int d = 0; d < DIM; d++) {
                float k, v;
                const double scale = 1 + pos % 5;
                decoded(pos, d, &k, &v);
                CHECK_NEAR(k, scale * (((uint32_t)d * 5 + pos * 3) % 17) / 16 - 0.5,
                           scale * types[t].k_error);
                CHECK_NEAR(v, (((uint32_t)d * 7 + pos) % 19) / 16.0 - 0.5, types[t].v_error);
            }
        end();
    }
}

/* Numbers that are none, infinite, zero or too small must leave scales that are usable,
 * for all types of codes. */
TEST(kv_codes_of_odd_numbers_are_finite)
{
    static const qsf_kv_type types[] = { QSF_KV_Q2, QSF_KV_Q4V2, QSF_KV_Q4, QSF_KV_Q8V4, QSF_KV_Q8 };
    const float odd[] = { 0, 1e-40f, -1e-30f, NAN, INFINITY, -INFINITY, FLT_MAX, 1 };
    for (size_t t = 0; t < QSF_ARRAY_LEN(types); t++) {
        begin(types[t]);
        CHECK_EQ(qsf_kv_grow(&tables, 0, 32), QSF_OK);
        for (uint32_t pos = 0; pos < 32; pos++) {
            float x[DIM], k, v;
            for (uint32_t d = 0; d < DIM; d++) x[d] = pos < 8 ? odd[pos] : odd[(pos * 3 + d * pos) % 8];
            qsf_kv_store(&kv, &kernels, 1, &tables.seqs[0], pos, 2, x, x);
            decoded(pos, 0, &k, &v);
            CHECK(decoded_scales.kd[pos] >= 0 && isfinite(decoded_scales.kd[pos])
                  && decoded_scales.vd[pos] >= 0 && isfinite(decoded_scales.vd[pos]));
        }
        end();
    }
}

TEST(kv_full_changes_nothing)
{
    begin(QSF_KV_F32);
    CHECK_EQ(qsf_kv_grow(&tables, 0, 4 * QSF_KV_BLOCK), QSF_OK);
    CHECK_EQ(tables.n_free, BLOCKS - 4);
    CHECK_EQ(qsf_kv_grow(&tables, 1, 2 * QSF_KV_BLOCK + 1), QSF_E_FULL);
    CHECK_EQ(tables.n_free, BLOCKS - 4);
    CHECK_EQ(tables.seqs[1].length, 0);
    CHECK_EQ(qsf_kv_grow(&tables, 1, 2 * QSF_KV_BLOCK), QSF_OK);
    CHECK_EQ(qsf_kv_grow(&tables, 2, 1), QSF_E_FULL);
    CHECK_EQ(qsf_kv_grow(&tables, 0, UINT32_MAX), QSF_E_FULL);
    end();
}

TEST(kv_truncate_gives_blocks_back)
{
    begin(QSF_KV_F32);
    CHECK_EQ(qsf_kv_grow(&tables, 0, 100), QSF_OK);
    qsf_kv_truncate(&tables, 0, 64);
    CHECK_EQ(tables.n_free, BLOCKS - 2);
    qsf_kv_truncate(&tables, 0, 33);
    CHECK_EQ(tables.n_free, BLOCKS - 2);
    qsf_kv_truncate(&tables, 0, 0);
    CHECK_EQ(tables.n_free, BLOCKS);
    end();
}

TEST(kv_shared_prefix_is_copied_when_written)
{
    begin(QSF_KV_F32);
    CHECK_EQ(qsf_kv_grow(&tables, 0, 40), QSF_OK);
    for (uint32_t p = 0; p < 40; p++) store(0, p, 1);
    qsf_kv_share(&tables, 1, 0, 36);
    CHECK_EQ(tables.n_free, BLOCKS - 2);
    CHECK_EQ(tables.seqs[1].length, 36);
    /* writes into the shared second block: a copy */
    CHECK_EQ(qsf_kv_grow(&tables, 1, 1), QSF_OK);
    CHECK_EQ(tables.n_free, BLOCKS - 3);
    CHECK(tables.seqs[1].blocks[1] != tables.seqs[0].blocks[1]);
    CHECK_EQ(tables.seqs[1].blocks[0], tables.seqs[0].blocks[0]);
    store(1, 36, 2);
    check_stored(1, 36, 2);
    for (uint32_t p = 0; p < 40; p++) check_stored(0, p, 1);
    for (uint32_t p = 0; p < 36; p++) check_stored(1, p, 1);
    qsf_kv_truncate(&tables, 0, 0);
    for (uint32_t p = 0; p < 36; p++) check_stored(1, p, 1);  /* the other owner keeps it */
    qsf_kv_truncate(&tables, 1, 0);
    CHECK_EQ(tables.n_free, BLOCKS);
    end();
}

TEST(kv_share_with_itself_cuts)
{
    begin(QSF_KV_F32);
    CHECK_EQ(qsf_kv_grow(&tables, 2, 70), QSF_OK);
    qsf_kv_share(&tables, 2, 2, 10);
    CHECK_EQ(tables.seqs[2].length, 10);
    CHECK_EQ(tables.n_free, BLOCKS - 1);
    end();
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(kv_stores_what_it_is_given);
    RUN(kv_types_differ_in_size_and_precision);
    RUN(kv_codes_of_odd_numbers_are_finite);
    RUN(kv_full_changes_nothing);
    RUN(kv_truncate_gives_blocks_back);
    RUN(kv_shared_prefix_is_copied_when_written);
    RUN(kv_share_with_itself_cuts);
    return test_end();
}
