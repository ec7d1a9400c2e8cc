/* GGUF files with matrices of type I2_S, TL1 and TL2: each layout runs as the floats that it stands
 * for, and what fits none, or lacks its scales, is refused with the numbers.
 * SPDX-License-Identifier: MIT */
#include "engine_bench.h"

#define tiny_vocab gguf_tiny_vocab      /* make_tiny_qsf.h has one, too */
#include "gguf_build.h"
#undef tiny_vocab

enum { EMBD = 64, FF = 96, HEADS = 2, KV = 32, VOCAB = 40, N = 12 };
enum { GGML_F32 = 0, GGML_F16 = 1, GGML_BF16 = 30, GGML_I2_S = 36, GGML_TL1 = 38, GGML_TL2 = 39 };

/* How matrices are written; extra: bytes after each of them. */
typedef struct style {
    qsf_i2s_layout layout;              /* QSF_I2S_AUTO: floats */
    uint32_t scales_type;               /* of scales in a separate tensor */
    const char *scales_name;            /* "%s": the matrix without ".weight"; NULL: none */
    uint32_t extra;
    uint32_t ggml_type;                 /* 0: I2_S */
    float    bad;                       /* not 0: the last scale of the file's last matrix */
} style;

static float value_of(qsf_i2s_layout l, unsigned code)
{
    static const float two[4] = { -2, -1, 0, 1 }, qk256[4] = { -2, -1, 1, 2 };
    return l == QSF_I2S_QK256 ? qk256[code] : l >= QSF_I2S_MICROSOFT ? (float)code - 1 : two[code];
}

static void begin_tensor(gguf_build *b, const char *name, uint32_t type, uint32_t cols, uint32_t rows)
{
    while (b->data.len % b->align) put_bytes(&b->data, "", 1);
    put_text(&b->infos, name);
    put_u32(&b->infos, rows ? 2 : 1);
    put_u64(&b->infos, cols);
    if (rows) put_u64(&b->infos, rows);
    put_u32(&b->infos, type);
    put_u64(&b->infos, b->data.len);
    b->n_tensors++;
}

static void put_scale_as(gguf_build *b, uint32_t type, float x)
{
    uint8_t two[2];
    if (type == GGML_F32) {
        put_u32(&b->data, qsf_f32_bits(x));
        return;
    }
    qsf_put16(two, type == GGML_F16 ? qsf_f32_to_f16(x) : (uint16_t)(qsf_f32_bits(x) >> 16));
    put_bytes(&b->data, two, 2);
}

/* The bytes of a matrix of these codes. */
static void pack(uint8_t *to, qsf_i2s_layout l, const uint8_t *codes, uint32_t rows, uint32_t cols)
{
    for (uint32_t i = 0; i < rows * cols; i++) {
        const uint32_t r = i / cols, c = i % cols, lane = l == QSF_I2S_MICROSOFT_ARM ? 16 : 32;
        uint32_t at = i / 4, shift = 2 * (i % 4);
        if (l == QSF_I2S_QK256) at = r * ((cols + 255) / 256) * 64 + c / 4;
        if (l == QSF_I2S_BITNET32) at = i / 32 * 10 + i % 32 / 4;
        if (l == QSF_I2S_MICROSOFT || l == QSF_I2S_MICROSOFT_ARM) {
            at = i / (4 * lane) * lane + i % lane;
            shift = 6 - 2 * (i % (4 * lane) / lane);
        }
        if (l == QSF_I2S_MICROSOFT_ROWS4) {
            at = r / 4 * cols + c;
            shift = 6 - 2 * (r % 4);
        }
        to[at] |= (uint8_t)(codes[i] << shift);
    }
}

/* Of both signs: values of -2 to 1 would move all outputs one way, and 8-bit activations with
 * them. */
static float block_scale(uint32_t i) { return 0.0625f * (float)(1 + i % 3) * (i % 2 ? -1 : 1); }

static void matrix(gguf_build *b, const style *s, qsf_i2s_layout as, const char *name, uint32_t cols,
                   uint32_t rows, uint64_t *seed)
{
    uint8_t codes[FF * FF], packed[FF * FF] = { 0 };
    char base[64];
    const uint32_t n = rows * cols;
    const bool blocks = as == QSF_I2S_SPLIT32 || as == QSF_I2S_BITNET32, microsoft = as >= QSF_I2S_MICROSOFT;
    const uint32_t bytes = as == QSF_I2S_QK256 ? rows * ((cols + 255) / 256) * 64
        : as == QSF_I2S_BITNET32 ? n / 32 * 10 : n / 4;
    for (uint32_t i = 0; i < n; i++) codes[i] = (uint8_t)(tiny_uniform(seed) * (microsoft ? 3 : 4));
    if (s->layout == QSF_I2S_AUTO) {
        begin_tensor(b, name, GGML_F32, cols, rows);
        for (uint32_t i = 0; i < n; i++)
            put_u32(&b->data, qsf_f32_bits(value_of(as, codes[i]) * (blocks ? block_scale(i / 32) : 0.125f)));
        return;
    }
    begin_tensor(b, name, s->ggml_type ? s->ggml_type : GGML_I2_S, cols, rows);
    pack(packed, as, codes, rows, cols);
    for (uint32_t i = 0; as == QSF_I2S_BITNET32 && i < n / 32; i++)
        qsf_put16(packed + 10 * i + 8, qsf_f32_to_f16(s->bad != 0 ? s->bad : block_scale(i)));
    put_bytes(&b->data, packed, bytes);
    if (microsoft) {
        put_u32(&b->data, qsf_f32_bits(s->bad != 0 ? s->bad : 0.125f));
        for (int i = 0; i < 28; i++) put_bytes(&b->data, "", 1);
    }
    for (uint32_t i = 0; i < s->extra; i++) put_bytes(&b->data, "x", 1);
    if (!s->scales_name) return;
    strcpy(base, name);
    base[strlen(base) - strlen(".weight")] = 0;
    char scales[96];
    qsf_format(scales, sizeof scales, s->scales_name, base);
    begin_tensor(b, scales, s->scales_type, blocks ? n / 32 : 1, 0);
    for (uint32_t i = 0; i < (blocks ? n / 32 : 1); i++)
        put_scale_as(b, s->scales_type, s->bad != 0 ? s->bad : blocks ? block_scale(i) : 0.125f);
}

static void floats(gguf_build *b, const char *name, uint32_t cols, uint32_t rows, float mean, uint64_t *seed)
{
    begin_tensor(b, name, GGML_F32, cols, rows);
    for (uint32_t i = 0; i < cols * (rows ? rows : 1); i++)
        put_u32(&b->data, qsf_f32_bits(mean + 0.3f * tiny_normal(seed)));
}

static void keys(gguf_build *b)
{
    gguf_build_init(b, 3);
    kv_text(b, "general.architecture", "llama");
    kv_u32(b, "llama.context_length", 64);
    kv_u32(b, "llama.embedding_length", EMBD);
    kv_u32(b, "llama.block_count", 2);
    kv_u32(b, "llama.feed_forward_length", FF);
    kv_u32(b, "llama.attention.head_count", HEADS);
    kv_u32(b, "llama.attention.head_count_kv", 1);
    kv_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

/* A whole model; as: what the codes stand for. */
static gguf_build model(const style *s, qsf_i2s_layout as)
{
    static const struct { const char *rest; uint32_t cols, rows; } parts[] = {
        { "attn_norm", EMBD, 0 }, { "attn_q", EMBD, EMBD }, { "attn_k", EMBD, KV }, { "attn_v", EMBD, KV },
        { "attn_output", EMBD, EMBD }, { "ffn_norm", EMBD, 0 }, { "ffn_gate", EMBD, FF },
        { "ffn_up", EMBD, FF }, { "ffn_down", FF, EMBD },
    };
    gguf_build b;
    uint64_t seed = 5;
    char name[64];
    keys(&b);
    floats(&b, "token_embd.weight", EMBD, VOCAB, 0, &seed);
    for (int layer = 0; layer < 2; layer++)
        for (size_t i = 0; i < QSF_ARRAY_LEN(parts); i++) {
            qsf_format(name, sizeof name, "blk.%d.%s.weight", layer, parts[i].rest);
            if (!parts[i].rows) floats(&b, name, parts[i].cols, 0, 1, &seed);
            else matrix(&b, s, as, name, parts[i].cols, parts[i].rows, &seed);
        }
    floats(&b, "output_norm.weight", EMBD, 0, 1, &seed);
    gguf_build_end(&b);
    return b;
}

static bool opened(bench *b, const gguf_build *g, qsf_i2s_layout asked)
{
    qsf_model_options mo;
    memset(b, 0, sizeof *b);
    engine_host_init(&b->h);
    b->n_vocab = VOCAB;
    mem_put(&b->h.m, "m", g->out, g->len);
    qsf_model_defaults(&mo);
    mo.platform = &b->h.m.p;
    mo.i2s_layout = asked;
    return !qsf_model_open("m", &mo, &b->m, &b->error);
}

/* Logits of N tokens; NULL: it was refused.  threads and budget: as the context's options. */
static float *logits(const gguf_build *g, qsf_i2s_layout asked, bool f32, bool whole)
{
    bench b;
    int32_t ids[N];
    float *out = NULL;
    qsf_context_options co = bench_options();
    co.f32 = f32;
    co.n_threads = whole ? 1 : 3;
    if (!opened(&b, g, asked)) test_fail(__FILE__, __LINE__, b.error.text);
    else if (bench_context(&b, &co)) {
        out = bench_floats(&b, N);
        bench_tokens(ids, N, VOCAB, 9);
        if (!bench_ok(&b, bench_feed(&b, 0, ids, N, whole ? N : 1, out))) out[0] = NAN;
    }
    bench_end(&b);
    return out;
}

static void check_runs(const style *s, qsf_i2s_layout as, qsf_i2s_layout asked)
{
    const style plain = { .layout = QSF_I2S_AUTO };
    gguf_build want = model(&plain, as), have = model(s, as);
    float *w = logits(&want, QSF_I2S_AUTO, true, true);
    for (int f32 = 0; f32 < 2; f32++)
        for (int whole = 0; whole < 2; whole++) {
            float *h = logits(&have, asked, f32, whole);
            const double d = w && h ? bench_distance(w, h, N * VOCAB) : INFINITY;
            CHECK_NEAR(d, 0, f32 ? 1e-5 : 0.1);
            if (!(d <= (f32 ? 1e-5 : 0.1))) printf("      layout %d, asked for %d\n", (int)as, (int)asked);
            free(h);
        }
    free(w);
    gguf_build_free(&want);
    gguf_build_free(&have);
}

TEST(every_layout_runs_as_the_floats_it_stands_for)
{
    static const style styles[] = {
        { .layout = QSF_I2S_QK256, .scales_name = "%s.scale" },
        { .layout = QSF_I2S_BITNET32 },
        { .layout = QSF_I2S_MICROSOFT },
        { .layout = QSF_I2S_SPLIT32, .scales_name = "%s.scale" },
        { .layout = QSF_I2S_SPLIT32, .scales_name = "%s.weight.scales", .scales_type = GGML_F16 },
        { .layout = QSF_I2S_SPLIT32, .scales_name = "%s.q_scales", .scales_type = GGML_BF16 },
        { .layout = QSF_I2S_BITNET32, .extra = 100 },           /* within the tolerance */
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(styles); i++) {
        check_runs(&styles[i], styles[i].layout, QSF_I2S_AUTO);
        check_runs(&styles[i], styles[i].layout, styles[i].layout);
    }
    const style arm = { .layout = QSF_I2S_MICROSOFT_ARM }, rows4 = { .layout = QSF_I2S_MICROSOFT_ROWS4 };
    check_runs(&arm, QSF_I2S_MICROSOFT_ARM, QSF_I2S_MICROSOFT_ARM);
    check_runs(&rows4, QSF_I2S_MICROSOFT_ROWS4, QSF_I2S_MICROSOFT_ROWS4);
}

/* The file is refused, while it is opened or when its weights are read, and the message has
 * `says`. */
static void check_refused(const style *s, qsf_i2s_layout asked, const char *says)
{
    bench b;
    gguf_build g = model(s, s->layout);
    const qsf_context_options co = bench_options();
    const int32_t ids[1] = { 1 };
    const bool open = opened(&b, &g, asked);
    if (open && bench_context(&b, &co)) {
        const qsf_status st = bench_feed(&b, 0, ids, 1, 1, NULL);
        CHECK_EQ(st, QSF_E_CORRUPT);
        qsf_format(b.error.text, sizeof b.error.text, "%s", qsf_last_error(b.c));
    }
    if (!strstr(b.error.text, says)) CHECK_STR(b.error.text, says);
    bench_end(&b);
    gguf_build_free(&g);
}

TEST(what_fits_no_layout_is_refused_with_the_numbers)
{
    const style long_ones = { .layout = QSF_I2S_MICROSOFT, .extra = 8192 };
    check_refused(&long_ones, QSF_I2S_AUTO, "64 x 64, has 9248 bytes, as no layout has: qk256 takes 4096, "
                                            "split32 1024");
    const style microsoft = { .layout = QSF_I2S_MICROSOFT };
    check_refused(&microsoft, QSF_I2S_BITNET32, "which is not the layout that was asked for");
    check_refused(&microsoft, QSF_I2S_SPLIT32, "no separate tensor of scales");
    const style lonely = { .layout = QSF_I2S_SPLIT32 };
    check_refused(&lonely, QSF_I2S_AUTO, "as no layout has");
    const style twice = { .layout = QSF_I2S_MICROSOFT, .scales_name = "%s.scale" };
    check_refused(&twice, QSF_I2S_AUTO, "another one");
    const style half = { .layout = QSF_I2S_QK256, .scales_name = "%s.scale", .scales_type = GGML_F16 };
    check_refused(&half, QSF_I2S_AUTO, "a scale of type 1, not f32");
    const style tl1 = { .layout = QSF_I2S_MICROSOFT, .ggml_type = GGML_TL1 };
    check_refused(&tl1, QSF_I2S_AUTO, "stored for the kernels TL1 of its shape, 64 x 64");
    const style nan = { .layout = QSF_I2S_MICROSOFT, .bad = NAN };
    check_refused(&nan, QSF_I2S_AUTO, "attn_q.scale is nan");
    const style nan_block = { .layout = QSF_I2S_BITNET32, .bad = NAN };
    check_refused(&nan_block, QSF_I2S_AUTO, "a scale of attn_q is nan");
    const style huge = { .layout = QSF_I2S_SPLIT32, .scales_name = "%s.scale", .bad = 1e30f };
    check_refused(&huge, QSF_I2S_AUTO, "a scale of attn_q is 1e+30");
}

/* Whether a kernel of this name has done something. */
static bool kernel_was_used(const bench *b, const char *name)
{
    qsf_kernel_use use = { .size = sizeof use };
    for (size_t i = 0; !qsf_context_get_kernel(b->c, i, &use); i++)
        if (strstr(use.id, name)) return true;
    return false;
}

/* Logits of one route, where a kernel of that name has to work; least: layers stream. */
static float *route_logits(bench *b, qsf_kernel_route route, size_t chunk, uint64_t budget, const char *name)
{
    int32_t ids[N];
    qsf_context_options co = bench_options();
    co.kernel_route = route;
    co.n_batch = co.n_logits = 8;
    co.ram_budget = budget;
    co.kv_type = QSF_KV_Q4V2;           /* the least, which a budget would choose */
    bench_tokens(ids, N, b->n_vocab, 9);
    float *out = bench_floats(b, N);
    if (bench_context(b, &co)) CHECK_EQ(bench_feed(b, 0, ids, N, chunk, out), QSF_OK);
    CHECK_EQ(kernel_was_used(b, "_lut_"), name != NULL);
    if (name) CHECK(kernel_was_used(b, name));
    qsf_plan plan = { .size = sizeof plan };
    qsf_context_get_plan(b->c, &plan);
    CHECK_EQ(plan.resident, budget == 0);
    return out;
}

/* The least budget that there is a context with. */
static uint64_t least_budget(bench *b)
{
    qsf_context_options co = bench_options();
    qsf_plan plan = { .size = sizeof plan };
    co.n_batch = co.n_logits = 8;
    co.kv_type = QSF_KV_Q4V2;
    if (bench_context(b, &co)) qsf_context_get_plan(b->c, &plan);
    co.ram_budget = plan.total;
    while (qsf_context_plan(b->m, &co, &plan, &b->error) == QSF_OK && co.ram_budget > 4096)
        co.ram_budget -= 4096;
    return co.ram_budget + 4096;
}

static void check_routes(bench *b, const char *name)
{
    const uint64_t budgets[2] = { 0, least_budget(b) };
    for (int i = 0; i < 2; i++)
        for (size_t chunk = 1; chunk <= 8; chunk += 7) {
            float *mad = route_logits(b, QSF_ROUTE_MAD, chunk, budgets[i], NULL),
                  *lut = route_logits(b, QSF_ROUTE_LUT, chunk, budgets[i], chunk == 1 ? name : NULL);
            CHECK(!memcmp(mad, lut, N * b->n_vocab * sizeof *mad));
            free(mad);
            free(lut);
        }
}

/* One row at a time, and several, from memory and streamed. */
TEST(look_ups_answer_as_products_do)
{
    static const style styles[] = { { .layout = QSF_I2S_QK256, .scales_name = "%s.scale" },
                                    { .layout = QSF_I2S_MICROSOFT } };
    for (size_t i = 0; i < QSF_ARRAY_LEN(styles); i++) {
        bench b;
        gguf_build g = model(&styles[i], styles[i].layout);
        if (opened(&b, &g, QSF_I2S_AUTO))
            check_routes(&b, i ? "ternary2_lut_matvec" : "i2s_qk256_lut_matvec");
        bench_end(&b);
        gguf_build_free(&g);
    }
    for (uint8_t packing = 0; packing < 2; packing++) {         /* QSF: in place, and on its way to tiles */
        bench b;
        tiny_options o = tiny_defaults();
        o.type = QSF_T_TERNARY2;
        o.block = 256;
        o.packing = packing;
        if (bench_write(&b, &o) && bench_open(&b)) check_routes(&b, "ternary2_lut_matvec");
        bench_end(&b);
    }
}

static void keep_log(void *user, qsf_log_level level, const char *text)
{
    char *kept = user;
    (void)level;
    if (strstr(text, "kernel-route")) qsf_format(kept, 256, "%s", text);
}

/* A clock that stands still. */
static uint64_t no_time(void *user)
{
    (void)user;
    return 0;
}

/* What a context says of the route; clock: NULL for the system's. */
static void route_log(const bench *b, qsf_kernel_route route, uint64_t (*clock)(void *), char log[256])
{
    qsf_platform p = b->h.m.p;
    qsf_model_options mo;
    qsf_context_options co = bench_options();
    qsf_model *m = NULL;
    qsf_context *c = NULL;
    qsf_error err;
    qsf_model_defaults(&mo);
    if (clock) p.now_ns = clock;
    mo.platform = &p;
    mo.log = keep_log;
    mo.log_user = log;
    co.kernel_route = route;
    log[0] = 0;
    CHECK_EQ(qsf_model_open("m", &mo, &m, &err), QSF_OK);
    if (m) CHECK_EQ(qsf_context_new(m, &co, &c, &err), QSF_OK);
    qsf_context_free(c);
    qsf_model_close(m);
}

TEST(the_route_is_measured_and_told)
{
    bench b;
    char log[256];
    double mad = 0, lut = 0;
    tiny_options o = tiny_defaults();
    o.type = QSF_T_TERNARY2;
    o.block = 256;
    if (!bench_write(&b, &o)) return;
    route_log(&b, QSF_ROUTE_AUTO, NULL, log);
    const char *at = strstr(log, "products ");
    /* An emulated processor that others share may show 0.0. */
    CHECK(at && sscanf(at, "products %lf, look-ups %lf", &mad, &lut) == 2 && mad >= 0 && lut >= 0);
    CHECK(strstr(log, lut > 1.1 * mad + 0.1 ? "kernel-route lut" : lut < 1.1 * mad - 0.1 ? "kernel-route mad"
                 : "kernel-route") != NULL);
    route_log(&b, QSF_ROUTE_AUTO, no_time, log);
    CHECK_STR(log, "2-bit weights: kernel-route mad");
    route_log(&b, QSF_ROUTE_LUT, NULL, log);
    CHECK_STR(log, "2-bit weights: kernel-route lut");
    bench_end(&b);
}

/* In the least memory that a context takes, layers are made anew for each token. */
TEST(layers_stream_in_any_layout)
{
    static const qsf_i2s_layout layouts[] = { QSF_I2S_QK256, QSF_I2S_SPLIT32, QSF_I2S_BITNET32,
                                              QSF_I2S_MICROSOFT };
    for (size_t i = 0; i < QSF_ARRAY_LEN(layouts); i++) {
        const style s = { .layout = layouts[i],
                          .scales_name = layouts[i] == QSF_I2S_SPLIT32 ? "%s.scale" : NULL };
        bench b;
        gguf_build g = model(&s, layouts[i]);
        qsf_context_options co = bench_options();
        qsf_plan plan = { .size = sizeof plan };
        int32_t ids[N];
        co.n_batch = co.n_logits = 8;
        CHECK(opened(&b, &g, QSF_I2S_AUTO));
        bench_tokens(ids, N, VOCAB, 9);
        float *all = bench_floats(&b, N), *least = bench_floats(&b, N);
        if (bench_context(&b, &co)) qsf_context_get_plan(b.c, &plan);
        CHECK(plan.resident);
        co.ram_budget = plan.total;
        while (qsf_context_plan(b.m, &co, &plan, &b.error) == QSF_OK && co.ram_budget > 4096)
            co.ram_budget -= 4096;
        co.ram_budget += 4096;
        if (bench_context(&b, &co)) CHECK_EQ(bench_feed(&b, 0, ids, N, 1, least), QSF_OK);
        qsf_context_get_plan(b.c, &plan);
        CHECK(!plan.resident);
        co.ram_budget = 0;
        co.kv_type = plan.kv_type;              /* which was reduced, too */
        if (bench_context(&b, &co)) CHECK_EQ(bench_feed(&b, 0, ids, N, 1, all), QSF_OK);
        CHECK_NEAR(bench_distance(all, least, N * VOCAB), 0, 0);
        free(all);
        free(least);
        bench_end(&b);
        gguf_build_free(&g);
    }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(every_layout_runs_as_the_floats_it_stands_for);
    RUN(look_ups_answer_as_products_do);
    RUN(the_route_is_measured_and_told);
    RUN(layers_stream_in_any_layout);
    RUN(what_fits_no_layout_is_refused_with_the_numbers);
    return test_end();
}
