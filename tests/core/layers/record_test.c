/* Records and totals: a tiny model's shapes determine how many products of which kernel a batch
 * has, and records must agree; a callback is called only if it was set.
 * SPDX-License-Identifier: MIT */
#include "engine_bench.h"
#include "memfile.h"

enum { ROWS = 5, STEPS = 3, MOST = 4096, LAYERS = 2, MATRICES = 7 };

/* ---- what was heard ---- */

typedef struct heard {
    qsf_record_type type;
    char     name[48], kernel[48], operation[32], quantization[16];
    int32_t  layer;
    uint32_t thread, n_rows, rows, cols, blocks, block_bytes;
    uint64_t begin, ns, bytes;
} heard;
static heard list[MOST];
static size_t n_heard;

static void copy(char *out, size_t cap, const char *text) { qsf_format(out, cap, "%s", text ? text : ""); }

static void hear(void *user, const qsf_record *r)
{
    CHECK(user == list);
    CHECK_EQ(r->size, sizeof *r);
    if (n_heard == MOST) return;
    heard *h = &list[n_heard++];
    *h = (heard){ .type = r->type, .layer = r->layer, .thread = r->thread, .n_rows = r->n_rows,
                  .rows = r->rows, .cols = r->cols, .blocks = r->blocks_per_row,
                  .block_bytes = r->bytes_per_block, .begin = r->begin_ns, .ns = r->ns, .bytes = r->bytes };
    copy(h->name, sizeof h->name, r->name);
    copy(h->kernel, sizeof h->kernel, r->kernel_id);
    copy(h->operation, sizeof h->operation, r->operation);
    copy(h->quantization, sizeof h->quantization, r->quantization_type);
}

static size_t count(qsf_record_type type)
{
    size_t n = 0;
    for (size_t i = 0; i < n_heard; i++) n += list[i].type == type;
    return n;
}

static const heard *product(const char *name)
{
    for (size_t i = 0; i < n_heard; i++)
        if (list[i].type == QSF_RECORD_PRODUCT && !strcmp(list[i].name, name)) return &list[i];
    return NULL;
}

static bool within(const heard *inner, const heard *outer)
{
    return inner->begin >= outer->begin && inner->begin + inner->ns <= outer->begin + outer->ns;
}

/* ---- a model that has computed a prompt and some tokens ---- */

static qsf_context_options asking(uint32_t threads)
{
    qsf_context_options o = bench_options();
    o.n_threads = threads;
    o.isa = "scalar";
    o.record = hear;
    o.record_user = list;
    n_heard = 0;
    return o;
}

static void compute(bench *b)
{
    static const int32_t ids[ROWS] = { 3, 1, 4, 1, 5 };
    const float *logits;
    CHECK_EQ(qsf_feed(b->c, 0, ids, ROWS, &logits), QSF_OK);
    for (int i = 0; i < STEPS; i++) CHECK_EQ(qsf_feed(b->c, 0, ids, 1, &logits), QSF_OK);
}

static bool kernel_of(const bench *b, const char *id, qsf_kernel_use *out)
{
    for (size_t i = 0; out->size = sizeof *out, !qsf_context_get_kernel(b->c, i, out); i++)
        if (!strcmp(out->id, id)) return true;
    return false;
}

/* 4 bits in the layers, 8 in the head, which is the embedding. */
TEST(totals_are_what_the_shapes_say)
{
    bench b;
    qsf_kernel_use use;
    const tiny_options o = tiny_defaults();
    qsf_context_options co = asking(1);
    co.record = NULL;
    if (!bench_write(&b, &o) || !bench_open(&b) || !bench_context(&b, &co)) return;
    compute(&b);
    const uint64_t embd = o.hp.n_embd, kv = (uint64_t)o.hp.n_kv_heads * o.hp.head_dim, ff = o.hp.n_ff;
    const uint64_t rows = LAYERS * (embd + 2 * kv + embd + 2 * ff + embd);
    CHECK(kernel_of(&b, "4bit_matmul_scalar", &use));
    CHECK_EQ(use.products, LAYERS * MATRICES);
    CHECK_EQ(use.rows, rows * ROWS);
    const uint64_t once = use.bytes;
    CHECK(kernel_of(&b, "4bit_matvec_scalar", &use));
    CHECK_EQ(use.products, LAYERS * MATRICES * STEPS);
    CHECK_EQ(use.rows, rows * STEPS);
    CHECK_EQ(use.bytes, once * STEPS);
    CHECK(kernel_of(&b, "8bit_matvec_scalar", &use));
    CHECK_EQ(use.products, 1 + STEPS);
    CHECK_EQ(use.rows, (uint64_t)(1 + STEPS) * o.hp.n_vocab);
    CHECK_EQ(use.bytes, (uint64_t)(1 + STEPS) * o.hp.n_vocab * (embd + 2));
    use.size = sizeof use;
    CHECK_EQ(qsf_context_get_kernel(b.c, 3, &use), QSF_E_NOT_FOUND);
    use.size = 0;
    CHECK_EQ(qsf_context_get_kernel(b.c, 0, &use), QSF_E_ARGUMENT);
    CHECK_EQ(n_heard, 0);
    qsf_context_reset_stats(b.c);
    CHECK(!kernel_of(&b, "4bit_matvec_scalar", &use));
    bench_end(&b);
}

TEST(operations_add_up_to_the_statistics)
{
    bench b;
    qsf_stats st = { .size = sizeof st };
    qsf_operation_use use = { .size = sizeof use };
    uint64_t ns = 0, times = 0, matmul = 0;
    const tiny_options o = tiny_defaults();
    const qsf_context_options co = asking(1);
    if (!bench_write(&b, &o) || !bench_open(&b) || !bench_context(&b, &co)) return;
    compute(&b);
    qsf_context_get_stats(b.c, &st);
    for (size_t i = 0; use.size = sizeof use, !qsf_context_get_operation(b.c, i, &use); i++) {
        const bool products = !strcmp(use.name, "qkv") || !strcmp(use.name, "attention output")
                              || !strcmp(use.name, "feed-forward up")
                              || !strcmp(use.name, "feed-forward down");
        ns += use.ns;
        times += use.times;
        if (products) matmul += use.ns;
        if (products) CHECK_EQ(use.times, LAYERS * (1 + STEPS));
    }
    CHECK_EQ(times, count(QSF_RECORD_OPERATION));
    CHECK_EQ(matmul, st.ns_matmul);
    CHECK(ns <= st.ns_prompt + st.ns_generated);
    bench_end(&b);
}

TEST(each_product_has_a_record)
{
    bench b;
    tiny_options o = tiny_defaults();
    o.hp.tied = false;
    const qsf_context_options co = asking(1);
    if (!bench_write(&b, &o) || !bench_open(&b) || !bench_context(&b, &co)) return;
    compute(&b);
    CHECK_EQ(count(QSF_RECORD_PRODUCT), (LAYERS * MATRICES + 1) * (1 + STEPS));
    CHECK_EQ(count(QSF_RECORD_BATCH), 1 + STEPS);
    CHECK_EQ(count(QSF_RECORD_STEP), (LAYERS + 2) * (1 + STEPS));
    CHECK_EQ(count(QSF_RECORD_READ), LAYERS + 2);
    CHECK_EQ(count(QSF_RECORD_PREPARE), LAYERS + 2);
    CHECK_EQ(count(QSF_RECORD_THREAD), 0);
    const heard *q = product("blk.0.attn_q"), *k = product("blk.1.attn_k"), *head = product("output");
    CHECK(q && k && head && product("blk.1.attn_output") && product("blk.0.ffn_gate") &&
          product("blk.0.ffn_up") && product("blk.1.ffn_down") && product("blk.0.attn_v"));
    if (!q || !k || !head) return;
    CHECK_STR(q->kernel, "4bit_matmul_scalar");
    CHECK_STR(q->operation, "matrix-matrix multiply");
    CHECK_STR(q->quantization, "4bit");
    CHECK_EQ(q->rows, 64);
    CHECK_EQ(q->cols, 64);
    CHECK_EQ(q->blocks, 1);
    CHECK_EQ(q->block_bytes, 36);
    CHECK_EQ(q->n_rows, ROWS);
    CHECK_EQ(q->bytes, 64 * 36);
    CHECK_EQ(k->rows, 32);
    CHECK_EQ(k->layer, 1);
    CHECK_STR(head->kernel, "8bit_matvec_scalar");
    CHECK_STR(head->operation, "matrix-vector multiply");
    CHECK_EQ(head->rows, o.hp.n_vocab);
    CHECK_EQ(head->layer, -1);
    bench_end(&b);
}

/* The k-th record of a type from `at` on. */
static const heard *next_of(qsf_record_type type, size_t at)
{
    while (at < n_heard && list[at].type != type) at++;
    return at < n_heard ? &list[at] : NULL;
}

/* Operations lie in steps, steps in batches, one after the other; products' times are their
 * operation's. */
TEST(records_nest)
{
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        bench b;
        const tiny_options o = tiny_defaults();
        const qsf_context_options co = asking(threads);
        uint64_t last = 0, of_products = 0;
        if (!bench_write(&b, &o) || !bench_open(&b) || !bench_context(&b, &co)) return;
        compute(&b);
        for (size_t i = 0; i < n_heard; i++) {
            const heard *h = &list[i], *step = next_of(QSF_RECORD_STEP, i);
            const heard *op = next_of(QSF_RECORD_OPERATION, i);
            if (h->type == QSF_RECORD_PRODUCT) {
                CHECK(op && h->begin >= op->begin && h->ns <= op->ns);
                of_products += h->ns;
            } else if (h->type == QSF_RECORD_THREAD) {
                CHECK(op && within(h, op) && !strcmp(h->name, op->name));
                CHECK(h->thread > 0 && h->thread < threads);
            } else if (h->type == QSF_RECORD_OPERATION) {
                CHECK(step && within(h, step));
                CHECK(h->begin >= last);
                CHECK(of_products <= h->ns);
                last = h->begin + h->ns;
                of_products = 0;
            } else if (h->type == QSF_RECORD_STEP) {
                const heard *batch = next_of(QSF_RECORD_BATCH, i);
                CHECK(batch && within(h, batch));
                CHECK(h->n_rows == ROWS || h->n_rows == 1);
            }
        }
        bench_end(&b);
    }
}

/* The same logits with and without, and no memory but the threads' places. */
TEST(recording_changes_nothing)
{
    bench with, without;
    const float *mine, *other;
    static const int32_t ids[] = { 7, 6, 5 };
    const tiny_options o = tiny_defaults();
    const qsf_context_options co = asking(2);
    qsf_context_options plain = co;
    plain.record = NULL;
    if (!bench_write(&with, &o) || !bench_open(&with) || !bench_context(&with, &co)) return;
    if (!bench_write(&without, &o) || !bench_open(&without) || !bench_context(&without, &plain)) return;
    CHECK_EQ(qsf_feed(with.c, 0, ids, 3, &mine), QSF_OK);
    const uint64_t live = with.h.m.live;
    CHECK_EQ(qsf_feed(without.c, 0, ids, 3, &other), QSF_OK);
    CHECK(!memcmp(mine, other, o.hp.n_vocab * sizeof *mine));
    CHECK_EQ(qsf_feed(with.c, 0, ids, 3, &mine), QSF_OK);
    CHECK_EQ(with.h.m.live, live);
    CHECK_EQ(with.c->plan.total - without.c->plan.total, 2 * sizeof(qsf_thread_span));
    bench_end(&with);
    bench_end(&without);
}

TEST(kernels_are_named_by_the_set_they_come_from)
{
    char id[QSF_KERNEL_ID];
    qsf_kernels k;
    qsf_error error;
    const qsf_platform *p = qsf_platform_native();
    const uint32_t cpu = p->cpu_features ? p->cpu_features(p->user) : 0;
    CHECK_EQ(qsf_kernels_init(&k, cpu, "scalar", &error), QSF_OK);
    qsf_product_kernel_id(&k, QSF_F_QK256, false, id);
    CHECK_STR(id, "i2s_qk256_gemv_row");
    qsf_product_kernel_id(&k, QSF_F_QK256, true, id);
    CHECK_STR(id, "i2s_qk256_gemm");
    qsf_product_kernel_id(&k, QSF_KERNEL_UNPACKED, true, id);
    CHECK_STR(id, "unpacked_matmul_scalar");
    for (uint32_t i = 0; i < QSF_N_KERNELS; i++) {
        qsf_product_kernel_id(&k, i, true, id);
        CHECK(i == QSF_F_QK256 || strstr(id, "_matmul_scalar"));
        CHECK(!strstr(id, "unnamed"));
        for (uint32_t j = 0; j < i; j++) {
            char before[QSF_KERNEL_ID];
            qsf_product_kernel_id(&k, j, true, before);
            CHECK(strcmp(id, before) != 0);
        }
    }
    CHECK_EQ(qsf_kernels_init(&k, cpu, NULL, &error), QSF_OK);
    qsf_product_kernel_id(&k, QSF_F_8, false, id);
    CHECK(!strncmp(id, "8bit_matvec_", 12));
    const char *set = id + 12;
    qsf_kernels own;
    CHECK_EQ(qsf_kernels_init(&own, cpu, set, &error), QSF_OK);
    CHECK(own.matvec[QSF_F_8] == k.matvec[QSF_F_8]);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(totals_are_what_the_shapes_say);
    RUN(operations_add_up_to_the_statistics);
    RUN(each_product_has_a_record);
    RUN(records_nest);
    RUN(recording_changes_nothing);
    RUN(kernels_are_named_by_the_set_they_come_from);
    return test_end();
}
