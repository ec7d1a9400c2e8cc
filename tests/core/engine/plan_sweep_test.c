/* A larger budget never gives less of anything: plans for models of many shapes, with budgets from
 * the smallest that works to more than everything takes.
 * SPDX-License-Identifier: MIT
 *
 * A plan needs a model's metadata only, so the files have no weights: a virtual file as long as the
 * model, with zeros after the metadata. */
#include "gguf_build.h"
#include "qsf.h"
#include "test.h"

static double uniform(uint64_t *state)          /* splitmix64, [0, 1) */
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* ---- metadata ---- */

typedef struct shape {
    const char *name, *arch;
    uint32_t layers, embd, ff, heads, kv_heads, head, vocab, ctx, window, experts, ff_expert;
    bool tied;
} shape;

/* Shapes of common models, and some unusual ones. */
static const shape shapes[] = {
    { "SmolLM2 135M", "llama", 30, 576, 1536, 9, 3, 64, 49152, 8192, 0, 0, 0, true },
    { "Qwen2.5 0.5B", "qwen2", 24, 896, 4864, 14, 2, 64, 151936, 32768, 0, 0, 0, true },
    { "Gemma 3 270M", "gemma3", 18, 640, 2048, 4, 1, 256, 262144, 32768, 512, 0, 0, true },
    { "Llama 3.1 8B", "llama", 32, 4096, 14336, 32, 8, 128, 128256, 131072, 0, 0, 0, false },
    { "Qwen3 30B-A3B", "qwen3moe", 48, 2048, 768, 32, 4, 128, 151936, 40960, 0, 128, 768, false },
    { "GPT-2", "gpt2", 12, 768, 3072, 12, 12, 64, 50272, 1024, 0, 0, 0, true },
    { "narrow", "llama", 3, 64, 96, 4, 2, 16, 50016, 8192, 0, 0, 0, false },
    { "one layer", "llama", 1, 2048, 8192, 16, 16, 128, 320, 4096, 0, 0, 0, true },
};

typedef struct sweep_file { gguf_build b; uint64_t at, len; qsf_custom_file file; } sweep_file;

static qsf_status sweep_read(void *user, uint64_t at, void *dst, size_t len)
{
    const sweep_file *f = user;
    const uint64_t have = at < f->b.len ? QSF_MIN(len, f->b.len - at) : 0;
    if (have) memcpy(dst, f->b.out + at, (size_t)have);
    memset((uint8_t *)dst + have, 0, (size_t)(len - have));
    return QSF_OK;
}

/* Matrices are Q4_0, 18 bytes for 32 weights; vectors are floats. */
static void sweep_tensor(sweep_file *f, const char *name, uint64_t cols, uint64_t rows, uint64_t n)
{
    gguf_build *b = &f->b;
    put_text(&b->infos, name);
    put_u32(&b->infos, n ? 3 : rows ? 2 : 1);
    put_u64(&b->infos, cols);
    if (rows) put_u64(&b->infos, rows);
    if (n) put_u64(&b->infos, n);
    put_u32(&b->infos, rows ? 2 : 0);
    put_u64(&b->infos, f->at);
    f->at = qsf_round_up(f->at + (rows ? cols / 32 * 18 * rows * (n ? n : 1) : cols * 4), 32);
    b->n_tensors++;
}

static void sweep_layer(sweep_file *f, const shape *s, uint32_t i)
{
    char name[64];
    const bool gpt2 = !strcmp(s->arch, "gpt2");
    const uint32_t q = s->heads * s->head, kv = s->kv_heads * s->head, e = s->embd;
#define PUT(rest, cols, rows, n) \
    (snprintf(name, sizeof name, "blk.%u.%s", (unsigned)i, rest), sweep_tensor(f, name, cols, rows, n))
    PUT("attn_norm.weight", e, 0, 0);
    PUT("ffn_norm.weight", e, 0, 0);
    if (gpt2) {
        PUT("attn_norm.bias", e, 0, 0);
        PUT("ffn_norm.bias", e, 0, 0);
    }
    PUT("attn_q.weight", e, q, 0);
    PUT("attn_k.weight", e, kv, 0);
    PUT("attn_v.weight", e, kv, 0);
    PUT("attn_output.weight", q, e, 0);
    if (!strcmp(s->arch, "qwen2") || gpt2) {
        PUT("attn_q.bias", q, 0, 0);
        PUT("attn_k.bias", kv, 0, 0);
        PUT("attn_v.bias", kv, 0, 0);
    }
    if (gpt2) {
        PUT("attn_output.bias", e, 0, 0);
        PUT("ffn_up.bias", s->ff, 0, 0);
        PUT("ffn_down.bias", e, 0, 0);
    }
    if (!strcmp(s->arch, "gemma3") || s->experts) {
        PUT("attn_q_norm.weight", s->head, 0, 0);
        PUT("attn_k_norm.weight", s->head, 0, 0);
    }
    if (!strcmp(s->arch, "gemma3")) {
        PUT("post_attention_norm.weight", e, 0, 0);
        PUT("post_ffw_norm.weight", e, 0, 0);
    }
    if (s->experts) {
        PUT("ffn_gate_inp.weight", e, s->experts, 0);
        PUT("ffn_gate_exps.weight", e, s->ff_expert, s->experts);
        PUT("ffn_up_exps.weight", e, s->ff_expert, s->experts);
        PUT("ffn_down_exps.weight", s->ff_expert, e, s->experts);
        return;
    }
    if (!gpt2) PUT("ffn_gate.weight", e, s->ff, 0);
    PUT("ffn_up.weight", e, s->ff, 0);
    PUT("ffn_down.weight", s->ff, e, 0);
#undef PUT
}

static void sweep_keys(gguf_build *b, const shape *s)
{
    const bool gpt2 = !strcmp(s->arch, "gpt2");
    kv_text(b, "general.architecture", s->arch);
    kv_u32(b, tiny_key(s->arch, ".context_length"), s->ctx);
    kv_u32(b, tiny_key(s->arch, ".embedding_length"), s->embd);
    kv_u32(b, tiny_key(s->arch, ".block_count"), s->layers);
    kv_u32(b, tiny_key(s->arch, ".feed_forward_length"), s->ff);
    kv_u32(b, tiny_key(s->arch, ".attention.head_count"), s->heads);
    kv_u32(b, tiny_key(s->arch, ".attention.head_count_kv"), s->kv_heads);
    kv_u32(b, tiny_key(s->arch, ".attention.key_length"), s->head);
    kv_u32(b, tiny_key(s->arch, ".attention.value_length"), s->head);
    kv_u32(b, tiny_key(s->arch, ".vocab_size"), s->vocab);
    kv_f32(b, tiny_key(s->arch, gpt2 ? ".attention.layer_norm_epsilon" : ".attention.layer_norm_rms_epsilon"),
           1e-5f);
    if (s->window) kv_u32(b, tiny_key(s->arch, ".attention.sliding_window"), s->window);
    if (s->experts) {
        kv_u32(b, tiny_key(s->arch, ".expert_count"), s->experts);
        kv_u32(b, tiny_key(s->arch, ".expert_used_count"), 8);
        kv_u32(b, tiny_key(s->arch, ".expert_feed_forward_length"), s->ff_expert);
    }
    kv_text(b, "tokenizer.ggml.model", "no_vocab");
}

static qsf_model *sweep_open(sweep_file *f, const shape *s)
{
    qsf_model_options mo;
    qsf_model *m = NULL;
    qsf_error err = { 0 };
    const bool gpt2 = !strcmp(s->arch, "gpt2");
    *f = (sweep_file){ 0 };
    gguf_build_init(&f->b, 3);
    sweep_keys(&f->b, s);
    sweep_tensor(f, "token_embd.weight", s->embd, s->vocab, 0);
    if (gpt2) sweep_tensor(f, "position_embd.weight", s->embd, s->ctx, 0);
    for (uint32_t i = 0; i < s->layers; i++) sweep_layer(f, s, i);
    sweep_tensor(f, "output_norm.weight", s->embd, 0, 0);
    if (gpt2) sweep_tensor(f, "output_norm.bias", s->embd, 0, 0);
    if (!s->tied) sweep_tensor(f, "output.weight", s->embd, s->vocab, 0);
    gguf_build_end(&f->b);
    f->file = (qsf_custom_file){ .size = sizeof f->file, .user = f, .length = f->b.data_at + f->at,
                                 .read = sweep_read };
    qsf_model_defaults(&mo);
    mo.file = &f->file;
    if (qsf_model_open(s->name, &mo, &m, &err)) test_fail(__FILE__, __LINE__, err.text);
    return m;
}

/* ---- comparing plans ---- */

enum { VALUES = 8 };
static const char *const value_names[VALUES] = { "context", "positions that stay", "bits of keys and values",
                                                 "batch", "layer buffers", "windows", "embedding and head",
                                                 "layers that stay" };

/* In the order of docs/memory.md.  The first five never fall, whatever else does. */
typedef struct worth { uint64_t v[VALUES], experts, kept; } worth;

static uint64_t item(const qsf_plan *p, const char *name)
{
    for (size_t i = 0; i < p->n_items; i++)
        if (!strcmp(p->items[i].name, name)) return p->items[i].bytes;
    return 0;
}

static uint64_t bits_of(qsf_kv_type type)
{
    static const qsf_kv_type best[] = { QSF_KV_F32, QSF_KV_F16, QSF_KV_Q8, QSF_KV_Q8V4, QSF_KV_Q4,
                                        QSF_KV_Q4V2, QSF_KV_Q2 };
    size_t i = 0;
    while (i < QSF_ARRAY_LEN(best) && best[i] != type) i++;
    return QSF_ARRAY_LEN(best) - i;
}

static worth worth_of(const qsf_plan *p)
{
    const uint64_t window = item(p, "windows on embedding and head") + item(p, "window on the embedding") +
                            item(p, "windows on the head");
    const uint64_t ends = item(p, "embedding") + item(p, "final norm and head");
    const uint64_t layers = item(p, "layers that stay"), experts = item(p, "experts");
    return (worth){ { p->n_ctx, p->kv_heavy ? p->kv_window + p->kv_heavy : p->n_ctx, bits_of(p->kv_type),
                      p->n_batch, p->n_slots,
                      window + item(p, "embedding rows kept"), ends, layers },
                    experts, ends + layers + experts };
}

/* Whether `more`, the plan of a larger budget, is no worse.  A step that costs only speed may make
 * room for one that changes the answers, in the documented order; but a value may only fall if an
 * earlier one rises. */
static bool no_worse(const worth *less, const worth *more, const char **what)
{
    bool better = false;
    for (int i = 0; i < 5; i++) {
        if (i == 4 && (!more->v[i] || !less->v[i])) continue;          /* 0: all layers stay in memory */
        *what = value_names[i];
        if (more->v[i] < less->v[i]) return false;
        better |= more->v[i] > less->v[i];
    }
    /* what stays in memory needs no window */
    if (!better && more->v[6] > less->v[6]) {
        *what = "weights in memory";
        return more->kept >= less->kept;
    }
    for (int i = 5; i < VALUES && !better; i++) {
        *what = value_names[i];
        if (more->v[i] < less->v[i]) return false;
        better |= more->v[i] > less->v[i];
    }
    *what = "experts";
    return better || more->experts >= less->experts;
}

/* ---- sweeps ---- */

typedef struct wish { uint32_t n_ctx, n_seqs; qsf_kv_type kv; bool may_drop; uint32_t n_batch; } wish;
static const wish wishes[] = {
    { 0, 1, QSF_KV_Q8, false, 0 },
    { 0, 8, QSF_KV_F16, false, 512 },
    { 4096, 1, QSF_KV_Q8, true, 0 },
    { 1000, 1, QSF_KV_F16, true, 0 },
    { 16384, 3, QSF_KV_Q8, false, 0 },
};

static qsf_context_options options_of(const wish *w, const shape *s)
{
    qsf_context_options co;
    qsf_context_defaults(&co);
    co.n_threads = 2;
    co.n_ctx = !strcmp(s->arch, "gpt2") ? QSF_MIN(w->n_ctx, s->ctx) : w->n_ctx;
    co.n_seqs = w->n_seqs;
    co.kv_type = w->kv;
    co.kv_may_drop = w->may_drop;
    if (w->n_batch) co.n_batch = w->n_batch;
    return co;
}

static void sweep(const qsf_model *m, const shape *s, const wish *w, uint64_t *seed)
{
    enum { STEPS = 120 };
    qsf_plan p = { .size = sizeof p };
    qsf_error err = { 0 };
    qsf_context_options co = options_of(w, s);
    worth last = { 0 };
    const char *what;
    if (qsf_context_plan(m, &co, &p, &err)) {
        test_fail(__FILE__, __LINE__, err.text);
        return;
    }
    const uint64_t all = p.total, least = p.least;
    CHECK(least > 0 && least < all);
    for (int i = 0; i <= STEPS && !test_failed; i++) {
        /* sample small budgets more densely, where steps are close together */
        const double place = i && i < STEPS ? i + uniform(seed) : i;
        co.ram_budget = least + (uint64_t)(pow(place / STEPS, 2) * (double)(all - least));
        if (i == STEPS) co.ram_budget = all;
        const qsf_status st = qsf_context_plan(m, &co, &p, &err);
        CHECK_EQ(st, QSF_OK);
        if (st) return;
        CHECK(p.total <= co.ram_budget && p.least == least);
        const worth now = worth_of(&p);
        if (i && !no_worse(&last, &now, &what)) {
            test_fail(__FILE__, __LINE__, "a larger budget is no worse");
            printf("      %s, context %u: %s with %llu bytes\n", s->name, (unsigned)w->n_ctx, what,
                   (unsigned long long)co.ram_budget);
            for (int v = 0; v < VALUES; v++)
                printf("      %s %llu -> %llu\n", value_names[v], (unsigned long long)last.v[v],
                       (unsigned long long)now.v[v]);
        }
        last = now;
    }
    CHECK_EQ(p.n_slots, 0);
    CHECK(p.resident && p.n_reductions == 0);
}

TEST(a_larger_budget_never_gives_less)
{
    uint64_t seed = 1;
    for (size_t i = 0; i < QSF_ARRAY_LEN(shapes); i++) {
        sweep_file f;
        qsf_model *m = sweep_open(&f, &shapes[i]);
        for (size_t w = 0; m && w < QSF_ARRAY_LEN(wishes); w += TEST_EVERY)
            sweep(m, &shapes[i], &wishes[w], &seed);
        qsf_model_close(m);
        gguf_build_free(&f.b);
    }
}

static uint32_t among(uint64_t *seed, uint32_t least, uint32_t most)
{
    return least + (uint32_t)(uniform(seed) * (most - least + 1));
}

TEST(a_larger_budget_never_gives_less_to_models_of_random_shape)
{
    uint64_t seed = 2;
    for (int i = 0; i < 12; i++) {
        const bool experts = i % 4 == 3;
        shape s = { .name = "random", .arch = experts ? "qwen3moe" : i % 4 == 2 ? "gemma3" : "llama",
                    .layers = among(&seed, 1, 40), .head = 16 * among(&seed, 1, 8), .ctx = 8192,
                    .kv_heads = among(&seed, 1, 4), .vocab = 32 * among(&seed, 1, 5000),
                    .tied = uniform(&seed) < 0.5 };
        s.heads = s.kv_heads * among(&seed, 1, 6);
        s.embd = 32 * among(&seed, 2, 100);
        s.ff = 32 * among(&seed, 2, 300);
        if (s.heads * s.head % 32) s.heads *= 2;
        if (i % 4 == 2) s.window = 1024;
        if (experts) {
            s.experts = 8 * among(&seed, 1, 8);
            s.ff_expert = 32 * among(&seed, 1, 40);
        }
        sweep_file f;
        qsf_model *m = sweep_open(&f, &s);
        if (m) sweep(m, &s, &wishes[i % QSF_ARRAY_LEN(wishes)], &seed);
        qsf_model_close(m);
        gguf_build_free(&f.b);
    }
}

/* Pairs of budgets whose larger one once gave the shorter context. */
TEST(a_budget_that_holds_the_layers_in_turn_keeps_the_context)
{
    static const struct { size_t shape; uint64_t budget; uint32_t n_ctx; } cases[] = {
        { 0, 40, 1024 }, { 0, 50, 2048 }, { 0, 55, 2048 },
        { 1, 150, 4096 }, { 1, 180, 4096 }, { 1, 195, 4096 },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(cases); i++) {
        sweep_file f;
        qsf_plan p = { .size = sizeof p };
        qsf_error err = { 0 };
        qsf_model *m = sweep_open(&f, &shapes[cases[i].shape]);
        qsf_context_options co = options_of(&wishes[0], &shapes[cases[i].shape]);
        co.ram_budget = cases[i].budget * 1000000;
        CHECK_EQ(m ? qsf_context_plan(m, &co, &p, &err) : QSF_E_MEMORY, QSF_OK);
        CHECK(p.n_ctx >= cases[i].n_ctx);
        qsf_model_close(m);
        gguf_build_free(&f.b);
    }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(a_larger_budget_never_gives_less);
    RUN(a_larger_budget_never_gives_less_to_models_of_random_shape);
    RUN(a_budget_that_holds_the_layers_in_turn_keeps_the_context);
    return test_end();
}
