/* Experts that are read when the router has chosen them: results as with all in memory, and which
 * bytes are read.
 * SPDX-License-Identifier: MIT */
#include "experts_bench.h"
#include "gguf_build.h"
#include "memfile.h"

enum { LAYERS = 3, EMBD = 64, EXPERTS = 16, USED = 3, FF = 40, SHARED = 32, VOCAB = 10 };
/* An expert's bytes in the file: gate and up in Q8_0, down in f16. */
enum { WIDE_BYTES = FF * (EMBD / 32 * 34), NARROW_BYTES = EMBD * FF * 2,
       EXPERT_BYTES = 2 * WIDE_BYTES + NARROW_BYTES, ADAPTER_BYTES = 600000 };

static const int32_t ids[TOKENS] = { 1, 2, 3, 4, 7, 9, 6, 2, 8, 1, 3, 5 };

static mem_file *bench_file(bench *b) { return mem_find(&b->h.m, "m"); }

/* ---- a model ---- */

static uint32_t dice = 1;
static uint32_t roll(void) { return dice = dice * 1664525u + 1013904223u, dice >> 8; }
static float chance(void) { return (float)(roll() % 2001) / 1000 - 1; }

/* A tensor of random numbers; n: experts, 0: it has no dimension of them. */
static void random_tensor(gguf_build *b, const char *name, uint32_t type, uint32_t cols, uint32_t rows,
                          uint32_t n)
{
    while (b->data.len % b->align) put_bytes(&b->data, "", 1);
    put_text(&b->infos, name);
    put_u32(&b->infos, n ? 3 : rows ? 2 : 1);
    put_u64(&b->infos, cols);
    if (rows) put_u64(&b->infos, rows);
    if (n) put_u64(&b->infos, n);
    put_u32(&b->infos, type);
    put_u64(&b->infos, b->data.len);
    b->n_tensors++;
    const uint32_t count = cols * QSF_MAX(rows, 1) * QSF_MAX(n, 1);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t half[2], code = (uint8_t)roll();
        qsf_put16(half, qsf_f32_to_f16(type == 8 ? 0.002f : 0.2f * chance()));
        if (type == 1 || (type == 8 && i % 32 == 0)) put_bytes(&b->data, half, 2);
        if (type == 8) put_bytes(&b->data, &code, 1);
        if (type == 0) put_u32(&b->data, qsf_f32_bits(rows ? 0.3f * chance() : 1 + 0.1f * chance()));
    }
}

static void layer_tensor(gguf_build *b, int layer, const char *rest, uint32_t type, uint32_t cols,
                         uint32_t rows, uint32_t n)
{
    char name[96] = "blk.0.";
    name[4] = (char)('0' + layer);
    random_tensor(b, strcat(name, rest), type, cols, rows, n);
}

static void model_keys(gguf_build *b)
{
    static const struct { const char *key; uint32_t value; } keys[] = {
        { "qwen2moe.context_length", 64 }, { "qwen2moe.embedding_length", EMBD },
        { "qwen2moe.block_count", LAYERS }, { "qwen2moe.feed_forward_length", FF },
        { "qwen2moe.attention.head_count", 2 }, { "qwen2moe.attention.head_count_kv", 1 },
        { "qwen2moe.expert_count", EXPERTS }, { "qwen2moe.expert_used_count", USED },
        { "qwen2moe.expert_feed_forward_length", FF },
        { "qwen2moe.expert_shared_feed_forward_length", SHARED },
    };
    kv_text(b, "general.architecture", "qwen2moe");
    for (size_t i = 0; i < QSF_ARRAY_LEN(keys); i++) kv_u32(b, keys[i].key, keys[i].value);
    kv_f32(b, "qwen2moe.attention.layer_norm_rms_epsilon", 1e-5f);
    tiny_vocab(b);
}

static gguf_build model_build(void)
{
    gguf_build b;
    gguf_build_init(&b, 3);
    dice = 1;
    model_keys(&b);
    random_tensor(&b, "token_embd.weight", 0, EMBD, VOCAB, 0);
    random_tensor(&b, "output_norm.weight", 0, EMBD, 0, 0);
    random_tensor(&b, "output.weight", 0, EMBD, VOCAB, 0);
    for (int i = 0; i < LAYERS; i++) {
        layer_tensor(&b, i, "attn_norm.weight", 0, EMBD, 0, 0);
        layer_tensor(&b, i, "attn_q.weight", 8, EMBD, EMBD, 0);
        layer_tensor(&b, i, "attn_k.weight", 8, EMBD, EMBD / 2, 0);
        layer_tensor(&b, i, "attn_v.weight", 8, EMBD, EMBD / 2, 0);
        layer_tensor(&b, i, "attn_q.bias", 0, EMBD, 0, 0);
        layer_tensor(&b, i, "attn_k.bias", 0, EMBD / 2, 0, 0);
        layer_tensor(&b, i, "attn_v.bias", 0, EMBD / 2, 0, 0);
        layer_tensor(&b, i, "attn_output.weight", 8, EMBD, EMBD, 0);
        layer_tensor(&b, i, "ffn_norm.weight", 0, EMBD, 0, 0);
        layer_tensor(&b, i, "ffn_gate_inp.weight", 0, EMBD, EXPERTS, 0);
        layer_tensor(&b, i, "ffn_down_exps.weight", 1, FF, EMBD, EXPERTS);
        layer_tensor(&b, i, "ffn_gate_exps.weight", 8, EMBD, FF, EXPERTS);
        layer_tensor(&b, i, "ffn_up_exps.weight", 8, EMBD, FF, EXPERTS);
        layer_tensor(&b, i, "ffn_gate_inp_shexp.weight", 0, EMBD, 0, 0);
        layer_tensor(&b, i, "ffn_gate_shexp.weight", 8, EMBD, SHARED, 0);
        layer_tensor(&b, i, "ffn_up_shexp.weight", 8, EMBD, SHARED, 0);
        layer_tensor(&b, i, "ffn_down_shexp.weight", 8, SHARED, EMBD, 0);
    }
    gguf_build_end(&b);
    return b;
}

static bool model_open(bench *b, bool waits)
{
    gguf_build g = model_build();
    bench_begin(b, ids, VOCAB, waits);
    mem_put(&b->h.m, "m", g.out, g.len);
    gguf_build_free(&g);
    return bench_ok(b, bench_model(b));
}

enum { LOGITS = (TOKENS - PROMPT + 1) * VOCAB };
static float right[LOGITS], got[LOGITS];

static bool right_answers(void)
{
    bench b;
    const qsf_context_options o = bench_options(1, 0);
    if (!model_open(&b, true) || !bench_context(&b, &o)) return false;
    const bool ok = bench_ok(&b, answer(&b, right));
    bench_close(&b);
    return ok;
}

/* ---- tests ---- */

TEST(experts_that_are_read_alone_change_no_number)
{
    uint32_t same = 0;
    for (uint32_t run = 0; run < 8; run++) {
        bench b;
        const uint32_t threads = 1 + run % 2, polls = run / 2 % 2 * 3;
        if (!model_open(&b, run < 4)) return;
        const uint64_t least = bench_least(&b, threads);
        for (uint32_t more = 0; more < 30; more += 13) {      /* places for experts, about */
            qsf_plan plan = { .size = sizeof plan };
            const qsf_context_options o = bench_options(threads, least + more * EXPERT_BYTES);
            if (!bench_context(&b, &o)) break;
            b.h.polls = polls;
            qsf_context_get_plan(b.c, &plan);
            CHECK(!plan.resident && plan.n_experts >= 4 && plan.n_experts < LAYERS * EXPERTS);
            for (int again = 0; again < 2; again++) {
                memset(got, 0, sizeof got);
                CHECK_EQ(answer(&b, got), QSF_OK);
                if (plan.kv_type == o.kv_type) CHECK(!memcmp(got, right, sizeof got));
            }
            same += plan.kv_type == o.kv_type;
            b.h.polls = 0;
        }
        bench_close(&b);
    }
    CHECK(same >= 8);
}

/* How often each expert's three places were read; false: a read among the experts was not exactly
 * one expert. */
static bool count_reads(const qsf_source *s, uint32_t count[LAYERS][EXPERTS][3], uint64_t *bytes,
                        uint64_t *all)
{
    memset(count, 0, sizeof(uint32_t) * LAYERS * EXPERTS * 3);
    *bytes = *all = 0;
    for (uint32_t r = 0; r < n_seen; r++) {
        *all += seen[r].len;
        for (uint32_t l = 0; l < LAYERS; l++) {
            const qsf_unit *u = &s->units[l];
            for (uint32_t k = 0; k < 3; k++) {
                const uint32_t t = u->first_tensor + u->n_tensors - 3 + k;
                const uint64_t each = s->tensors[t].bytes / EXPERTS;
                for (uint32_t x = u->first_extent; x < u->first_extent + u->n_extents; x++) {
                    const qsf_extent *e = &s->extents[x];
                    if (s->places[t] < e->to || s->places[t] >= e->to + e->len) continue;
                    const uint64_t from = e->at + (s->places[t] - e->to);
                    if (seen[r].at < from || seen[r].at >= from + EXPERTS * each) continue;
                    if (seen[r].len != each || (seen[r].at - from) % each) return false;
                    count[l][(seen[r].at - from) / each][k]++;
                    *bytes += each;
                }
            }
        }
    }
    return true;
}

TEST(a_batch_reads_each_expert_once_and_a_token_what_is_missing)
{
    bench b;
    const float *logits;
    static uint32_t count[LAYERS][EXPERTS][3];
    uint64_t bytes, all;
    if (!model_open(&b, true)) return;
    const qsf_context_options o = bench_options(1, bench_least(&b, 1) + 60000);
    if (!bench_context(&b, &o)) return;
    const qsf_source *s = b.m->source;
    for (int at = 0; at < TOKENS; at += at ? 1 : PROMPT) {
        qsf_stats st = { .size = sizeof st };
        n_seen = 0;
        qsf_context_reset_stats(b.c);
        CHECK_EQ(feed(&b, ids + at, at ? 1 : PROMPT, &logits), QSF_OK);
        qsf_context_get_stats(b.c, &st);
        CHECK(count_reads(s, count, &bytes, &all));
        CHECK_EQ(st.bytes_read, all);
        CHECK_EQ(st.experts_bytes, bytes);
        CHECK_EQ(st.experts_bytes, st.experts_read * EXPERT_BYTES);
        CHECK_EQ(st.experts_used, st.experts_found + st.experts_read);
        if (at) CHECK_EQ(st.experts_used, LAYERS * USED);
        else CHECK(st.experts_used > LAYERS * USED && st.experts_found == 0);
        for (uint32_t l = 0; l < LAYERS; l++)
            for (uint32_t e = 0; e < EXPERTS; e++)
                for (uint32_t k = 0; k < 3; k++)
                    CHECK(count[l][e][k] <= 1 && count[l][e][k] == count[l][e][0]);
    }
    bench_close(&b);
}

TEST(experts_that_were_used_lately_are_found)
{
    bench b;
    const float *logits;
    qsf_stats st = { .size = sizeof st };
    if (!model_open(&b, true)) return;
    const qsf_context_options o = bench_options(1, bench_least(&b, 1) + 3 * USED * 2 * EXPERT_BYTES);
    if (!bench_context(&b, &o)) return;
    for (int i = 0; i < 20; i++) {          /* one token at one place: always the same experts */
        if (i == 10) qsf_context_reset_stats(b.c);
        CHECK_EQ(qsf_seq_truncate(b.c, 0, 0), QSF_OK);
        CHECK_EQ(feed(&b, ids, 1, &logits), QSF_OK);
    }
    qsf_context_get_stats(b.c, &st);
    CHECK_EQ(st.experts_used, 10 * LAYERS * USED);
    CHECK_EQ(st.experts_found, st.experts_used);
    CHECK_EQ(st.experts_bytes, 0);
    bench_close(&b);
}

TEST(a_read_of_an_expert_may_fail)
{
    bench b;
    uint32_t failed = 0, named = 0;
    if (!model_open(&b, true)) return;
    /* more than the least, with which keys and values have fewer bits */
    const qsf_context_options o = bench_options(1, bench_least(&b, 1) + 13 * EXPERT_BYTES);
    for (long n = 1; n < 400; n++) {
        if (!bench_context(&b, &o)) break;
        b.h.m.calls = 0;
        b.h.m.fail_at = n;
        const qsf_status st = answer(&b, got);
        const bool over = b.h.m.calls < n;
        b.h.m.fail_at = 0;
        failed += st != QSF_OK;
        named += st && strstr(b.error.text, ", expert ");
        if (st) CHECK_EQ(st, QSF_E_IO);
        else CHECK(!memcmp(got, right, sizeof got));
        CHECK_EQ(answer(&b, got), QSF_OK);
        CHECK(!memcmp(got, right, sizeof got));
        if (over) break;
    }
    CHECK(failed > 20 && named > 20);
    bench_close(&b);
}

TEST(a_file_that_became_shorter_is_an_error)
{
    bench b;
    if (!model_open(&b, true)) return;
    const qsf_context_options o = bench_options(1, bench_least(&b, 1) + 100000);
    if (!bench_context(&b, &o)) return;
    CHECK_EQ(answer(&b, got), QSF_OK);
    const uint64_t len = bench_file(&b)->len;
    bench_file(&b)->len = len / 2;
    CHECK_EQ(answer(&b, got), QSF_E_IO);
    CHECK(strstr(b.error.text, ", expert ") != NULL);
    bench_file(&b)->len = len;
    CHECK_EQ(answer(&b, got), QSF_OK);
    CHECK(!memcmp(got, right, sizeof got));
    bench_close(&b);
}

TEST(with_room_for_all_experts_stay_with_their_layers)
{
    bench b;
    qsf_plan plan = { .size = sizeof plan };
    if (!model_open(&b, true)) return;
    const qsf_context_options o = bench_options(1, 200000000);
    CHECK_EQ(qsf_context_plan(b.m, &o, &plan, &b.error), QSF_OK);
    CHECK(plan.resident && plan.n_experts == 0);
    bench_close(&b);
}

/* ---- adapters ---- */

static gguf_build adapter_build(uint32_t seed)
{
    static const struct { const char *name; uint32_t cols, rows, n; } of[] = {
        { "ffn_gate_exps", EMBD, FF, EXPERTS }, { "ffn_up_exps", EMBD, FF, EXPERTS },
        { "ffn_down_exps", FF, EMBD, EXPERTS }, { "ffn_gate_inp", EMBD, EXPERTS, 0 },
        { "ffn_up_shexp", EMBD, SHARED, 0 }, { "ffn_down_shexp", SHARED, EMBD, 0 },
    };
    gguf_build b;
    gguf_build_init(&b, 3);
    dice = seed;
    kv_text(&b, "general.architecture", "qwen2moe");
    kv_text(&b, "general.type", "adapter");
    kv_text(&b, "adapter.type", "lora");
    for (int i = 0; i < LAYERS; i++)
        for (size_t k = 0; k < QSF_ARRAY_LEN(of); k++) {
            char name[64];
            qsf_format(name, sizeof name, "%s.weight.lora_a", of[k].name);
            layer_tensor(&b, i, name, 1, of[k].cols, 5, of[k].n);
            name[strlen(name) - 1] = 'b';
            layer_tensor(&b, i, name, 1, 5, of[k].rows, of[k].n);
        }
    gguf_build_end(&b);
    return b;
}

static qsf_adapter *adapter_open(bench *b, memfile *m, bool streamed)
{
    const qsf_adapter_options ao = { .size = sizeof ao, .file = &m->file, .streamed = streamed };
    qsf_adapter *a = NULL;
    bench_ok(b, qsf_adapter_open(b->m, NULL, &ao, &a, &b->error));
    return a;
}

/* Answers with the adapter; the context is made anew, and the adapter let go. */
static bool adapted(bench *b, qsf_context_options o, qsf_adapter *a, float *logits)
{
    o.adapter_bytes = ADAPTER_BYTES;
    const bool ok = a && bench_context(b, &o) &&
        !qsf_seq_set_adapters(b->c, 0, &(qsf_adapter_use){ a, 1 }, 1) && bench_ok(b, answer(b, logits));
    qsf_adapter_free(a);
    return ok;
}

TEST(adapters_of_experts_are_the_same_where_experts_are_read_alone)
{
    static float with[LOGITS];
    uint32_t same = 0;
    bench b;
    memfile m;
    gguf_build g = adapter_build(3);
    if (!model_open(&b, true)) return;
    memfile_init(&m, g.out, g.len);
    CHECK(adapted(&b, bench_options(1, 0), adapter_open(&b, &m, false), with));
    CHECK(memcmp(with, right, sizeof with) != 0);
    for (uint32_t run = 0; run < 8; run++) {
        qsf_plan plan = { .size = sizeof plan };
        const uint32_t threads = 1 + run % 2;
        const uint64_t more = (run & 4 ? 30 : 20) * EXPERT_BYTES + ADAPTER_BYTES;
        qsf_context_free(b.c);          /* which has an adapter, whose file is m */
        b.c = NULL;
        memfile_init(&m, g.out, g.len);
        const qsf_context_options o = bench_options(threads, bench_least(&b, threads) + more);
        CHECK(adapted(&b, o, adapter_open(&b, &m, run & 2), got));
        qsf_context_get_plan(b.c, &plan);
        CHECK(!plan.resident && plan.n_experts >= 4 && plan.n_experts < LAYERS * EXPERTS);
        if (plan.kv_type == QSF_KV_F16) CHECK(!memcmp(got, with, sizeof got));
        same += plan.kv_type == QSF_KV_F16;
    }
    CHECK(same >= 4);
    bench_close(&b);
    gguf_build_free(&g);
}

/* Rows of two sequences in turns, one with an adapter and one without, then each alone. */
TEST(slots_of_one_expert_have_the_adapters_of_their_rows)
{
    bench b;
    memfile m;
    gguf_build g = adapter_build(3);
    qsf_context_options o = bench_options(2, 0);
    float alone[2][VOCAB], near = 0, far = 0;
    o.n_seqs = 2;
    if (!model_open(&b, true) || !bench_context(&b, &o)) return;
    memfile_init(&m, g.out, g.len);
    qsf_adapter *a = adapter_open(&b, &m, false);
    CHECK_EQ(qsf_seq_set_adapters(b.c, 1, &(qsf_adapter_use){ a, 1 }, 1), QSF_OK);
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < 4; i++) CHECK_EQ(qsf_compute(b.c, &(qsf_row){ s, ids[i], i == 3 }, 1), QSF_OK);
        memcpy(alone[s], qsf_logits(b.c, 0), sizeof alone[s]);
        CHECK_EQ(qsf_seq_truncate(b.c, s, 0), QSF_OK);
    }
    qsf_row rows[8];
    for (int i = 0; i < 8; i++) rows[i] = (qsf_row){ i % 2, ids[i / 2], i >= 6 };
    CHECK_EQ(qsf_compute(b.c, rows, 8), QSF_OK);
    for (int i = 0; i < 2 * VOCAB; i++) {
        const float x = alone[i / VOCAB][i % VOCAB];
        const float y = qsf_logits(b.c, (size_t)(i / VOCAB))[i % VOCAB];
        near = QSF_MAX(near, fabsf(x - y));
        far = QSF_MAX(far, fabsf(x - alone[1 - i / VOCAB][i % VOCAB]));
    }
    CHECK_NEAR(near, 0, 1e-4f * far);
    CHECK(far > 0.1f);
    qsf_adapter_free(a);
    bench_close(&b);
    gguf_build_free(&g);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    if (!right_answers()) return 1;
    RUN(experts_that_are_read_alone_change_no_number);
    RUN(a_batch_reads_each_expert_once_and_a_token_what_is_missing);
    RUN(experts_that_were_used_lately_are_found);
    RUN(a_read_of_an_expert_may_fail);
    RUN(a_file_that_became_shorter_is_an_error);
    RUN(with_room_for_all_experts_stay_with_their_layers);
    RUN(adapters_of_experts_are_the_same_where_experts_are_read_alone);
    RUN(slots_of_one_expert_have_the_adapters_of_their_rows);
    return test_end();
}
