/* Records of layers and rotary tables: how readers fill them, and that the engine computes by them
 * alone.
 * SPDX-License-Identifier: MIT */
#include "engine_host.h"
#include "gguf_build.h"
#include "model/model.h"
#include "model/source_formats.h"
#include "test.h"

enum { LAYERS = 3, EMBD = 32, HEAD = 16, VOCAB = 20, N = 40 };
#define CLOSE_F32 1e-5      /* without codes; sums have more terms, which are zero */

/* ---- models: Llama's architecture, some layers smaller than others ---- */

typedef struct sizes { uint32_t heads[LAYERS], kv[LAYERS], ff[LAYERS]; } sizes;
static const sizes narrow = { { 4, 2, 4 }, { 2, 1, 2 }, { 48, 80, 64 } };
static const sizes wide = { { 4, 4, 4 }, { 2, 2, 2 }, { 80, 80, 80 } };

static float value_at(const char *name, uint32_t row, uint32_t col)
{
    uint32_t h = 2166136261u;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
    h = (h ^ row * 2654435761u) * 16777619u;
    h = (h ^ col * 40503u) * 16777619u;
    h ^= h >> 15;
    return (float)(h * 2246822519u >> 8) / (float)(1 << 24) - 0.5f;
}

/* A matrix of which only `cols` and `rows` count: zeros fill the others. */
static void matrix(gguf_build *b, const char *name, uint32_t all_cols, uint32_t cols, uint32_t all_rows,
                   uint32_t rows)
{
    tensor(b, name, 0, all_cols, all_rows);
    uint8_t *to = b->data.p + b->data.len - (size_t)4 * all_cols * all_rows;
    for (uint32_t r = 0; r < all_rows; r++)
        for (uint32_t c = 0; c < all_cols; c++, to += 4)
            qsf_put32(to, qsf_f32_bits(r < rows && c < cols ? value_at(name, r, c) : 0));
}
static void norm(gguf_build *b, const char *name)
{
    tensor(b, name, 0, EMBD, 0);
    for (uint32_t i = 0; i < EMBD; i++)
        qsf_put32(b->data.p + b->data.len - 4 * (EMBD - i), qsf_f32_bits(1 + value_at(name, 0, i) / 4));
}
static void numbers(gguf_build *b, const char *key, const uint32_t n[LAYERS])
{
    kv_array(b, key, 4, LAYERS);
    for (int i = 0; i < LAYERS; i++) put_u32(&b->kv, n[i]);
}

static void layer(gguf_build *b, char digit, const sizes *all, const sizes *used)
{
    const int i = digit - '0';
    const uint32_t q = all->heads[i] * HEAD, kv = all->kv[i] * HEAD, ff = all->ff[i];
    const uint32_t used_q = used->heads[i] * HEAD, used_ff = used->ff[i];
    const struct { const char *rest; uint32_t all_cols, cols, all_rows, rows; } plan[] = {
        { "attn_q.weight", EMBD, EMBD, q, q },          { "attn_k.weight", EMBD, EMBD, kv, kv },
        { "attn_v.weight", EMBD, EMBD, kv, kv },        { "attn_output.weight", q, used_q, EMBD, EMBD },
        { "ffn_gate.weight", EMBD, EMBD, ff, used_ff }, { "ffn_up.weight", EMBD, EMBD, ff, used_ff },
        { "ffn_down.weight", ff, used_ff, EMBD, EMBD },
    };
    char name[64] = "blk.0.";
    name[4] = digit;
    strcpy(name + 6, "attn_norm.weight");
    norm(b, name);
    strcpy(name + 6, "ffn_norm.weight");
    norm(b, name);
    for (size_t k = 0; k < QSF_ARRAY_LEN(plan); k++) {
        strcpy(name + 6, plan[k].rest);
        matrix(b, name, plan[k].all_cols, plan[k].cols, plan[k].all_rows, plan[k].rows);
    }
}

static gguf_build model(const sizes *says, const sizes *all, const sizes *used)
{
    gguf_build b;
    gguf_build_init(&b, 3);
    kv_text(&b, "general.architecture", "llama");
    kv_u32(&b, "llama.context_length", 128);
    kv_u32(&b, "llama.embedding_length", EMBD);
    kv_u32(&b, "llama.block_count", LAYERS);
    numbers(&b, "llama.feed_forward_length", says->ff);
    numbers(&b, "llama.attention.head_count", says->heads);
    numbers(&b, "llama.attention.head_count_kv", says->kv);
    kv_u32(&b, "llama.attention.key_length", HEAD);
    kv_u32(&b, "llama.attention.value_length", HEAD);
    kv_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    matrix(&b, "token_embd.weight", EMBD, EMBD, VOCAB, VOCAB);
    for (char i = '0'; i < '0' + LAYERS; i++) layer(&b, i, all, used);
    norm(&b, "output_norm.weight");
    gguf_build_end(&b);
    return b;
}

/* ---- running them ---- */

static engine_host host;
static qsf_error error;

static qsf_status open_model(gguf_build b, qsf_model **m)
{
    qsf_model_options o;
    engine_host_init(&host);
    mem_put(&host.m, "m.gguf", b.out, b.len);
    gguf_build_free(&b);
    qsf_model_defaults(&o);
    o.platform = &host.m.p;
    return qsf_model_open("m.gguf", &o, m, &error);
}
static void close_model(qsf_model *m)
{
    qsf_model_close(m);
    CHECK_EQ(host.m.live, 0);
    engine_host_done(&host);
}

static qsf_context_options options(void)
{
    qsf_context_options o;
    qsf_context_defaults(&o);
    o.n_ctx = 64;
    o.n_threads = 1;
    o.f32 = true;
    return o;
}

/* The logits after N tokens. */
static void run(qsf_model *m, const qsf_context_options *o, float out[VOCAB])
{
    int32_t ids[N];
    const float *logits = NULL;
    qsf_context *c = NULL;
    for (int i = 0; i < N; i++) ids[i] = i * 7 % VOCAB;
    qsf_status st = qsf_context_new(m, o, &c, &error);
    if (!st) st = qsf_feed(c, 0, ids, N, &logits);
    CHECK_EQ(st, QSF_OK);
    if (!st) memcpy(out, logits, VOCAB * sizeof *out);
    qsf_context_free(c);
}

static double distance(const float *a, const float *b)
{
    double most = 0, d = 0;
    for (int i = 0; i < VOCAB; i++) {
        if (!isfinite(a[i]) || !isfinite(b[i])) return INFINITY;
        most = fmax(most, fabs((double)a[i]));
        d = fmax(d, fabs((double)a[i] - (double)b[i]));
    }
    return d / most;
}

/* ---- filling ---- */

TEST(a_window_pattern_ends_in_the_records)
{
    const qsf_hparams hp = { .n_layers = 12, .n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .n_ff = 100,
                             .window = 512, .window_pattern = 6, .norm = QSF_NORM_RMS, .norm_eps = 1e-6f,
                             .act = QSF_ACT_GELU, .gated = true, .rope = QSF_ROPE_HALVES, .rope_base = 1e6f,
                             .rope_base_local = 1e4f, .scaling = QSF_SCALING_LINEAR, .scaling_factor = 8 };
    for (uint32_t i = 0; i < hp.n_layers; i++) {
        const qsf_layer l = qsf_layer_of(&hp, i);
        const bool global = i == 5 || i == 11;
        CHECK_EQ(l.window, global ? 0 : 512);
        CHECK_EQ(l.rope, global ? 0 : 1);
        CHECK_EQ(l.feed_forward, QSF_FEED_FORWARD_GATED);
        CHECK_EQ(l.value_dim, 64);
        CHECK_NEAR(l.attn_scale, 0.125, 0);
    }
    qsf_rope_record ropes[QSF_HPARAMS_ROPES];
    CHECK_EQ(qsf_ropes_of(&hp, ropes), 2);
    CHECK_NEAR(ropes[0].base, 1e6, 0);
    CHECK_EQ(ropes[0].scaling, QSF_SCALING_LINEAR);
    CHECK_NEAR(ropes[1].base, 1e4, 0);
    CHECK_EQ(ropes[1].scaling, QSF_SCALING_NONE);
    CHECK_EQ(ropes[1].dim, 64);
}

TEST(one_base_is_one_rotary_table)
{
    qsf_hparams hp = { .n_layers = 2, .n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .n_ff = 100, .window = 8,
                       .rope = QSF_ROPE_PAIRS, .rope_base = 1e4f, .rope_dim = 32 };
    qsf_rope_record ropes[QSF_HPARAMS_ROPES];
    CHECK_EQ(qsf_ropes_of(&hp, ropes), 1);
    CHECK_EQ(ropes[0].dim, 32);
    CHECK_EQ(qsf_layer_of(&hp, 1).rope, 0);
    CHECK_EQ(qsf_layer_of(&hp, 1).window, 8);
    hp.rope = QSF_ROPE_NONE;
    CHECK_EQ(qsf_ropes_of(&hp, ropes), 0);
    CHECK_EQ(qsf_layer_of(&hp, 1).rope, QSF_NO_ROPE);
}

/* ---- sizes layer by layer ---- */

TEST(gguf_layers_of_different_sizes_are_run)
{
    static const qsf_kv_type types[] = { QSF_KV_F32, QSF_KV_Q8 };
    for (size_t i = 0; i < QSF_ARRAY_LEN(types); i++) {
        qsf_context_options o = options();
        float a[VOCAB], b[VOCAB];
        qsf_model *m = NULL;
        o.f32 = types[i] == QSF_KV_F32;
        o.kv_type = types[i];
        CHECK_EQ(open_model(model(&narrow, &narrow, &narrow), &m), QSF_OK);
        if (!m) return;
        CHECK_EQ(m->source->layers[1].n_heads, 2);
        CHECK_EQ(m->source->layers[1].n_kv_heads, 1);
        CHECK_EQ(m->source->layers[2].n_ff, 64);
        CHECK_EQ(m->source->most.n_ff, 80);
        CHECK_EQ(m->source->most.kv, 32);
        run(m, &o, a);
        close_model(m);
        CHECK_EQ(open_model(model(&wide, &wide, &narrow), &m), QSF_OK);
        run(m, &o, b);
        close_model(m);
        CHECK_NEAR(distance(a, b), 0, o.f32 ? CLOSE_F32 : 0.02);
    }
}

TEST(a_shape_is_that_of_its_own_layer)
{
    qsf_model *m = NULL;
    CHECK_EQ(open_model(model(&narrow, &wide, &wide), &m), QSF_E_CORRUPT);
    CHECK(strstr(error.text, "\"blk.0.ffn_gate.weight\" is 80 x 32, expected 48 x 32"));
    close_model(m);
    CHECK_EQ(open_model(model(&narrow, &narrow, &narrow), &m), QSF_OK);
    CHECK_EQ(qsf_source_check_shapes(m->source, &error), QSF_OK);
    m->source->layers[1].n_ff++;
    CHECK_EQ(qsf_source_check_shapes(m->source, &error), QSF_E_CORRUPT);
    CHECK(strstr(error.text, "ffn_gate of layer 1 has 80 x 32 values, its description requires 81 x 32"));
    close_model(m);
}

TEST(gguf_refuses_sizes_that_no_layer_can_have)
{
    sizes none = narrow, odd = narrow;
    qsf_model *m = NULL;
    none.ff[2] = 0;
    CHECK_EQ(open_model(model(&none, &narrow, &narrow), &m), QSF_E_UNSUPPORTED);
    CHECK(strstr(error.text, "layer 2 has 4 heads, 2 key and value heads and a feed-forward length of 0"));
    close_model(m);
    odd.heads[1] = 3;
    odd.kv[1] = 2;
    CHECK_EQ(open_model(model(&odd, &narrow, &narrow), &m), QSF_E_UNSUPPORTED);
    CHECK(strstr(error.text, "layer 1 has 3 heads, 2 key"));
    close_model(m);
}

TEST(the_engine_refuses_records_that_it_cannot_run_by_name)
{
    const qsf_context_options o = options();
    qsf_context *c = NULL;
    qsf_model *m = NULL;
    CHECK_EQ(open_model(model(&wide, &wide, &wide), &m), QSF_OK);
    if (!m) return;
    m->source->layers[1].value_dim = 8;
    CHECK_EQ(qsf_context_new(m, &o, &c, &error), QSF_E_UNSUPPORTED);
    CHECK(strstr(error.text, "layer 1 has keys of 16 but values of 8"));
    m->source->layers[1].head_dim = 8;
    CHECK_EQ(qsf_context_new(m, &o, &c, &error), QSF_E_UNSUPPORTED);
    CHECK(strstr(error.text, "layer 1 has heads of 8, others of 16"));
    close_model(m);
}

/* ---- rotary tables ---- */

TEST(layers_turn_by_any_number_of_rotary_tables)
{
    const qsf_context_options o = options();
    float one[VOCAB], two[VOCAB], three[VOCAB], none[VOCAB];
    qsf_model *m = NULL;
    CHECK_EQ(open_model(model(&wide, &wide, &wide), &m), QSF_OK);
    if (!m) return;
    qsf_source *s = m->source;
    CHECK_EQ(s->n_ropes, 1);
    run(m, &o, one);

    qsf_rope_record ropes[3] = { s->ropes[0], s->ropes[0], s->ropes[0] };
    ropes[1].base = 50;
    ropes[1].dim = 8;
    s->ropes = ropes;
    s->n_ropes = 2;
    s->layers[1].rope = 1;
    run(m, &o, two);
    CHECK(distance(one, two) > 0.001);

    s->n_ropes = 3;
    s->layers[2].rope = 2;
    run(m, &o, three);
    CHECK_NEAR(distance(two, three), 0, 0);

    s->layers[1].rope = QSF_NO_ROPE;
    run(m, &o, none);
    CHECK(distance(two, none) > 0.001);
    close_model(m);
}

/* ---- sessions ---- */

typedef struct kept_session { uint8_t bytes[1 << 17]; size_t len; } kept_session;
static kept_session kept;

static qsf_status keep(void *user, const void *p, size_t n)
{
    kept_session *k = user;
    if (n > sizeof k->bytes - k->len) return QSF_E_IO;
    memcpy(k->bytes + k->len, p, n);
    k->len += n;
    return QSF_OK;
}
static qsf_status read_kept(void *user, uint64_t at, void *dst, size_t n)
{
    memcpy(dst, ((kept_session *)user)->bytes + at, n);
    return QSF_OK;
}

TEST(a_session_has_the_heads_of_each_layer)
{
    qsf_context_options o = options();
    int32_t ids[N], back[N], next = 3;
    const float *logits = NULL;
    float first[VOCAB];
    size_t n = 0;
    qsf_context *c = NULL;
    qsf_model *m = NULL;
    o.f32 = false;
    for (int i = 0; i < N; i++) ids[i] = i * 7 % VOCAB;
    CHECK_EQ(open_model(model(&narrow, &narrow, &narrow), &m), QSF_OK);
    if (!m) return;
    kept.len = 0;
    CHECK_EQ(qsf_context_new(m, &o, &c, &error), QSF_OK);
    CHECK_EQ(qsf_feed(c, 0, ids, N, NULL), QSF_OK);
    CHECK_EQ(qsf_session_save(c, 0, ids, N, keep, &kept, &error), QSF_OK);
    CHECK_EQ(qsf_feed(c, 0, &next, 1, &logits), QSF_OK);
    memcpy(first, logits, sizeof first);
    const qsf_custom_file file = {
        .size = sizeof file, .user = &kept, .read = read_kept, .length = kept.len,
    };
    CHECK_EQ(qsf_session_load(c, 0, &file, back, N, &n, &error), QSF_OK);
    CHECK_EQ(n, N);
    CHECK_EQ(qsf_feed(c, 0, &next, 1, &logits), QSF_OK);
    CHECK_NEAR(distance(first, logits), 0, 0);
    qsf_context_free(c);
    close_model(m);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(a_window_pattern_ends_in_the_records);
    RUN(one_base_is_one_rotary_table);
    RUN(gguf_layers_of_different_sizes_are_run);
    RUN(a_shape_is_that_of_its_own_layer);
    RUN(gguf_refuses_sizes_that_no_layer_can_have);
    RUN(the_engine_refuses_records_that_it_cannot_run_by_name);
    RUN(layers_turn_by_any_number_of_rotary_tables);
    RUN(a_session_has_the_heads_of_each_layer);
    return test_end();
}
