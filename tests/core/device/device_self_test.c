/* The self-test of devices: exact on every set of kernels, passed by a right device, and failed by
 * one with a defect.
 * SPDX-License-Identifier: MIT
 *
 * QSF_WEBGPU_LIB: a webgpu.h library, with whatever adapter it finds; without one only the CPU's
 * part runs. */
#include "device/self_test_own.h"
#include "forms.h"
#include "native.h"
#include "test.h"
#include "wgsl/decode_wgsl.h"

static const qsf_platform *platform;
static qsf_kernels kernels;
static qsf_error error;
static qsf_device *device;              /* NULL: none here */

/* ---- a device with a defect ---- */

/* Each text of a shader that has `find` is compiled with `put` instead, and `more` before it. */
static struct { const char *find, *put, *more; uint32_t n; } defect;
static qsf_status (*right_pipeline_new)(void *user, const qsf_device_shader *s, qsf_device_id *out,
                                        qsf_error *err);

static qsf_status wrong_pipeline_new(void *user, const qsf_device_shader *s, qsf_device_id *out,
                                     qsf_error *err)
{
    static char text[1 << 17];
    const char *at = defect.find ? strstr(s->wgsl, defect.find) : NULL;
    if (!at) return right_pipeline_new(user, s, out, err);
    qsf_device_shader own = *s;
    snprintf(text, sizeof text, "%s%.*s%s%s", defect.more ? defect.more : "", (int)(at - s->wgsl), s->wgsl,
             defect.put, at + strlen(defect.find));
    own.wgsl = text;
    defect.n++;
    return right_pipeline_new(user, &own, out, err);
}

/* ---- what is tested ---- */

typedef struct testing {
    qsf_device    d;
    qsf_pipelines pipelines;
    qsf_self_test *t;
} testing;

static void testing_begin(testing *x)
{
    x->d = *device;
    right_pipeline_new = device->pipeline_new;
    x->d.pipeline_new = wrong_pipeline_new;
    CHECK_EQ(qsf_pipelines_init(&x->pipelines, platform, &x->d, &error), QSF_OK);
    CHECK_EQ(qsf_self_test_new(platform, &x->pipelines, &kernels, &x->t, &error), QSF_OK);
}

static qsf_status testing_end(testing *x)
{
    const qsf_status st = qsf_self_test_run(x->t, true, &error);
    if (st) printf("      %.160s\n", error.text);
    CHECK_EQ(qsf_self_test_run(x->t, false, &error), st);       /* the answer stays */
    qsf_self_test_free(x->t);
    qsf_pipelines_done(&x->pipelines);
    return st;
}

static uint32_t block_of(int form)
{
    const uint32_t only = qsf_form_block((qsf_form)form);
    return only ? only : 64;
}

static qsf_wgsl_product product_of(int form, uint32_t rows)
{
    return (qsf_wgsl_product){ .form = (qsf_form)form, .block = block_of(form), .rows = rows, .slices = 8 };
}

static void add_product(testing *x, qsf_wgsl_product p)
{
    CHECK_EQ(qsf_self_test_product(x->t, &p, &error), QSF_OK);
}
static void add_rows(testing *x, qsf_wgsl_rows r) { CHECK_EQ(qsf_self_test_rows(x->t, &r, &error), QSF_OK); }

/* Products of 4 bits that make codes by themselves. */
static void add_fused(testing *x, qsf_wgsl_rows from, bool gated)
{
    qsf_wgsl_product p = product_of(QSF_F_4, 1);
    from.codes = from.flags = true;
    p.from = &from;
    p.cols = 512;
    p.gated = gated;
    p.function = gated ? QSF_WGSL_SILU : QSF_WGSL_UNCHANGED;
    p.bias = p.add = !gated;
    p.slices = gated ? 8 : 16;
    p.parts = 1;
    CHECK_EQ(qsf_self_test_fused(x->t, &p, &error), QSF_OK);
}

static void add_experts(testing *x, bool many)
{
    const qsf_wgsl_experts e = { .form = QSF_F_4, .block = 64, .slices = 16, .scales = true, .bias = !many };
    CHECK_EQ(qsf_self_test_experts(x->t, &e, many, &error), QSF_OK);
}

static void attention_of(testing *x, bool codes, bool norm, bool prompt)
{
    qsf_kv_layout l;
    const qsf_wgsl_attend a = { .codes = codes, .room = 32, .share = 2, .softcap = codes,
                                .norm = norm, .rope = true, .pairs = codes, .rotated_first = codes };
    qsf_kv_layout_init(&l, codes ? QSF_KV_Q8 : QSF_KV_F16, 1, 2, 32);
    CHECK_EQ(prompt ? qsf_self_test_prompt(x->t, &a, &l, &error)
                    : qsf_self_test_attention(x->t, &a, &l, &error), QSF_OK);
}
static void add_attention(testing *x, bool codes, bool norm) { attention_of(x, codes, norm, false); }

/* ---- on the CPU ---- */

/* Every set adds in another order; sums that are exact are the same in all of them. */
TEST(sums_are_exact_in_every_set_of_kernels)
{
    enum { ROWS = 3, COLS = 1024, TILES = 2 };
    static const char *const sets[] = { "scalar", "sse42", "avx2", "avxvnni", "avx512", "avx512vbmi", "neon",
                                        "dotprod", "i8mm" };
    static uint8_t w[TILES * (COLS / 32) * 16 * 64];
    static int8_t q[ROWS * 1280];
    static float d[ROWS * 20], s[ROWS * 40], y[2][ROWS * TILES * 16];
    static int16_t h[ROWS * 160];
    const uint32_t cpu = platform->cpu_features ? platform->cpu_features(platform->user) : 0;
    CHECK_EQ(qsf_act_cols(COLS), 1280);
    for (int form = 0; form < QSF_N_FORMS; form++) {
        if (!qsf_wgsl_has_form((qsf_form)form)) continue;
        self_random r = { 99 + (uint32_t)form };
        const uint32_t block = block_of(form), blocks = COLS / block, most = qsf_forms[form].sub ? 31 : 127;
        const size_t tile = qsf_tile_bytes((qsf_form)form, block);
        qsf_act x = { .q = q, .d = d, .s = s, .h = h, .n = ROWS, .cols = 1280 };
        memset(s, 0, sizeof s), memset(h, 0, sizeof h), memset(q, 0, sizeof q);
        for (size_t i = 0; i < TILES * blocks; i++) qsf_self_tile(w + i * tile, (qsf_form)form, block, &r);
        for (uint32_t i = 0; i < ROWS * 1280; i++) {
            if (i % 1280 >= COLS) continue;
            q[i] = (int8_t)((int)(self_next(&r) % (2 * most + 1)) - (int)most);
            s[i / 32] += q[i];
            h[i / 16 * 2 + i / 2 % 2] = (int16_t)(h[i / 16 * 2 + i / 2 % 2] + q[i]);
            d[i / 64] = i / 64 % 2 ? 0.5f : 1;
        }
        uint32_t nonzero = 0;
        for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
            qsf_kernels set;
            if (qsf_kernels_init(&set, cpu, sets[k], &error)) continue;
            set.matmul[form](y[k > 0], TILES * 16, w, &x, TILES, blocks, block);
            if (!k) for (size_t i = 0; i < ROWS * TILES * 16; i++) nonzero += y[0][i] != 0;
            if (k && memcmp(y[0], y[1], sizeof y[0])) {
                CHECK(!"the same bits");
                printf("      form %d of %s\n", form, sets[k]);
            }
        }
        CHECK(nonzero * 10 >= ROWS * TILES * 16 * 9);
        if (nonzero * 10 < ROWS * TILES * 16 * 9) printf("      form %d: %u\n", form, nonzero);
    }
}

/* ---- on the device ---- */

#define NEEDS_DEVICE if (!device) LEFT_OUT("a library of WebGPU (QSF_WEBGPU_LIB)")

/* One of each decoder; the others differ in their constants.  All with QSF_TEST_LONG. */
TEST(a_right_device_passes)
{
    NEEDS_DEVICE;
    static const int some[] = { QSF_F_4, QSF_F_Q6K, QSF_F_Q4K, QSF_F_MX4, QSF_F_TR3, QSF_F_TB4, QSF_F_8,
                                QSF_F_2Z, QSF_F_NV4, QSF_F_TERNARY };
    const bool all = getenv("QSF_TEST_LONG") != NULL;
    testing x;
    testing_begin(&x);
    for (int i = 0; i < (all ? QSF_N_FORMS : (int)(sizeof some / sizeof *some)); i++) {
        const int form = all ? i : some[i];
        if (!qsf_wgsl_has_form((qsf_form)form)) continue;
        add_product(&x, product_of(form, form == QSF_F_4 ? 2 : 1));
        if (form == QSF_F_4 || all) add_product(&x, product_of(form, 0));
    }
    qsf_wgsl_product both = product_of(QSF_F_4, 1);
    both.bias = both.add = true;
    add_product(&x, both);
    const uint32_t n = x.t->n;
    add_product(&x, both);
    CHECK_EQ(x.t->n, n);                /* one case for a shader */
    add_rows(&x, (qsf_wgsl_rows){ .norm = QSF_WGSL_RMS_NORM, .codes = true });
    add_rows(&x, (qsf_wgsl_rows){ .norm = QSF_WGSL_LAYER_NORM, .bias = true, .floats = true, .add = true });
    add_rows(&x, (qsf_wgsl_rows){ .source = QSF_WGSL_FROM_TWO, .function = QSF_WGSL_SILU, .codes = true });
    add_rows(&x, (qsf_wgsl_rows){ .function = QSF_WGSL_GELU, .codes = true });
    add_attention(&x, false, true);
    add_attention(&x, true, false);
    CHECK_EQ(testing_end(&x), QSF_OK);
}

TEST(a_right_device_passes_what_is_fused_and_grouped)
{
    NEEDS_DEVICE;
    testing x;
    testing_begin(&x);
    const uint32_t before = x.t->n;
    add_fused(&x, (qsf_wgsl_rows){ .norm = QSF_WGSL_RMS_NORM }, false);
    add_fused(&x, (qsf_wgsl_rows){ .norm = QSF_WGSL_RMS_NORM }, true);
    add_fused(&x, (qsf_wgsl_rows){ .source = QSF_WGSL_FROM_ATTENTION }, false);
    add_fused(&x, (qsf_wgsl_rows){ .source = QSF_WGSL_FROM_TWO, .function = QSF_WGSL_GELU }, false);
    add_experts(&x, false);
    add_experts(&x, true);
    attention_of(&x, false, true, true);
    attention_of(&x, true, false, true);
    CHECK_EQ(x.t->n, before + 8);
    CHECK_EQ(testing_end(&x), QSF_OK);
}

/* It returns QSF_PENDING until all has come, and never waits. */
TEST(it_can_be_polled)
{
    NEEDS_DEVICE;
    testing x;
    qsf_status st;
    testing_begin(&x);
    add_rows(&x, (qsf_wgsl_rows){ .norm = QSF_WGSL_RMS_NORM, .codes = true });
    for (uint64_t i = 0; (st = qsf_self_test_run(x.t, false, &error)) == QSF_PENDING && i < 100000000;) i++;
    CHECK_EQ(st, QSF_OK);
    CHECK_EQ(testing_end(&x), QSF_OK);
}

static void defect_is_found(const char *find, const char *put, const char *more, const char *says,
                            void (*add)(testing *))
{
    testing x;
    defect.find = find, defect.put = put, defect.more = more, defect.n = 0;
    testing_begin(&x);
    add(&x);
    CHECK_EQ(testing_end(&x), QSF_E_CORRUPT);
    CHECK(defect.n > 0);
    if (!strstr(error.text, says) || !strstr(error.text, device->info->name)) CHECK_STR(error.text, says);
    defect.find = NULL;
}

static void add_4bit(testing *x) { add_product(x, product_of(QSF_F_4, 1)); }
static void add_q6k(testing *x) { add_product(x, product_of(QSF_F_Q6K, 1)); }
static void add_tiles(testing *x) { add_product(x, product_of(QSF_F_4, 0)); }
static void add_norm(testing *x) { add_rows(x, (qsf_wgsl_rows){ .norm = QSF_WGSL_RMS_NORM, .codes = true }); }
static void add_silu(testing *x)
{
    add_rows(x, (qsf_wgsl_rows){ .source = QSF_WGSL_FROM_TWO, .function = QSF_WGSL_SILU, .codes = true });
}
static void add_f16(testing *x) { add_attention(x, false, true); }
static void add_q8(testing *x) { add_attention(x, true, false); }
static void add_nothing(testing *x) { (void)x; }
static void add_norm_fused(testing *x) { add_fused(x, (qsf_wgsl_rows){ .norm = QSF_WGSL_RMS_NORM }, false); }
static void add_gated(testing *x) { add_fused(x, (qsf_wgsl_rows){ .norm = QSF_WGSL_RMS_NORM }, true); }
static void add_join_fused(testing *x)
{
    add_fused(x, (qsf_wgsl_rows){ .source = QSF_WGSL_FROM_ATTENTION }, false);
}
static void add_slots(testing *x) { add_experts(x, false); }
static void add_sorted(testing *x) { add_experts(x, true); }
static void add_prompt(testing *x) { attention_of(x, false, true, true); }
static void add_prompt_q8(testing *x) { attention_of(x, true, false, true); }

TEST(defects_are_found)
{
    NEEDS_DEVICE;
    static const char flush[] =
        "fn flushed(v: vec2<f32>) -> vec2<f32> {\n"
        "  return select(v, vec2<f32>(), abs(v) < vec2<f32>(6.103515625e-5));\n"
        "}\n";
    defect_is_found("    var s = 0u;\n", "", "var<private> s: u32;\n", "variables in a loop", add_nothing);
    defect_is_found("let v = unpack2x16float(W[at + (r >> 1u)]);",
                    "let v = flushed(unpack2x16float(W[at + (r >> 1u)]));", flush, "4bit_s", add_4bit);
    defect_is_found("let v = unpack2x16float(W[at + (r >> 1u)]);",
                    "let v = flushed(unpack2x16float(W[at + (r >> 1u)]));", flush, "q6_k", add_q6k);
    defect_is_found("dot4I8Packed(c.w, x.w)", "dot4I8Packed(c.w & 0x7fffffffu, x.w ^ 1u)", NULL, "rows",
                    add_4bit);
    defect_is_found("(s << 16u) >> 16u", "s & 0xffff", NULL, "tiles", add_tiles);
    defect_is_found("some += shares[lid + 16u * k]", "some += shares[lid + 8u * k]", NULL, "norms", add_norm);
    defect_is_found("exp(min(-x, 80.0))", "exp(min(-x * 1.01, 80.0))", NULL, "feed-forward", add_silu);
    defect_is_found("if (at > pos) { return false; }", "if (at > pos + 1u) { return false; }", NULL,
                    "attention (f16)", add_f16);
    defect_is_found("x[at] = v.x * angle.x - v.y * angle.y", "x[at] = v.x * angle.x + v.y * angle.y", NULL,
                    "attention (f16)", add_f16);
    defect_is_found("atomicAnd(&KV[at], ~(0xffu << shift))", "atomicAnd(&KV[at], ~(0xfu << shift))", NULL,
                    "attention (8 bits)", add_q8);
    defect_is_found("@compute", "@wrong", NULL, "does not compile", add_nothing);
}

TEST(defects_of_what_is_fused_and_grouped_are_found)
{
    NEEDS_DEVICE;
    defect_is_found("some += shares[lid + 16u * k]", "some += shares[lid + 8u * k]", NULL, "that make codes",
                    add_norm_fused);
    defect_is_found("sum / all", "sum", NULL, "that make codes", add_join_fused);
    defect_is_found("gate_function(sum) * up", "gate_function(up) * sum", NULL, "(gated)", add_gated);
    defect_is_found("let skew = expert * p.rows % 16u;", "let skew = 0u;", NULL,
                    "experts of 4bit_s weights (slots)", add_slots);
    defect_is_found("let expert = List[4u * group.z];", "let expert = List[4u * group.z] / 2u;", NULL,
                    "experts of 4bit_s weights (tiles)", add_sorted);
    defect_is_found("if (at > pos) { return false; }", "if (at > pos + 1u) { return false; }", NULL,
                    "attention of prompts (f16)", add_prompt);
    defect_is_found("let e2 = s[first + 4u * i + 2u];", "let e2 = s[first + 4u * i + 1u];", NULL,
                    "attention of prompts (8 bits)", add_prompt_q8);
}

TEST(a_lost_device_is_not_a_wrong_one)
{
    NEEDS_DEVICE;
    testing x;
    CHECK(!defect.find);
    testing_begin(&x);
    add_norm(&x);
    device->lose(device->user);
    CHECK_EQ(testing_end(&x), QSF_E_IO);
}

int main(int argc, char **argv)
{
    qsf_devices *found = NULL;
    test_begin(argc, argv);
    platform = qsf_platform_native();
    qsf_kernels_init(&kernels, platform->cpu_features ? platform->cpu_features(platform->user) : 0, NULL,
                     &error);
    if (getenv("QSF_WEBGPU_LIB") && !qsf_devices_open(NULL, NULL, &found, &error) && found->n)
        found->open(found, 0, &device, &error);
    else printf("no GPU: %s\n", error.text);
    RUN(sums_are_exact_in_every_set_of_kernels);
    RUN(a_right_device_passes);
    RUN(a_right_device_passes_what_is_fused_and_grouped);
    RUN(it_can_be_polled);
    RUN(defects_of_what_is_fused_and_grouped_are_found);
    RUN(defects_are_found);
    RUN(a_lost_device_is_not_a_wrong_one);
    if (device) device->close(device->user);
    qsf_devices_close(found);
    return test_end();
}
