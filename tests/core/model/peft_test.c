/* Adapters in PEFT's form: what their two files say, damaged files, failing hosts.
 * SPDX-License-Identifier: MIT */
#include "engine_bench.h"
#include "peft_build.h"
#include "qsf_convert.h"

#include <stdatomic.h>

#define Q0 "base_model.model.model.layers.0.self_attn.q_proj"
#define UP "base_model.model.model.layers.1.mlp.up_proj"
#define CONFIG(more) "{\"peft_type\":\"LORA\",\"r\":3,\"lora_alpha\":6,\"use_rslora\":false," \
                     "\"target_modules\":[\"q_proj\",\"up_proj\"]," more "\"bias\":\"none\"}"

static qsf_status peft_load(bench *b, qsf_adapter **out)
{
    return qsf_adapter_load(b->m, "a", NULL, out, &b->error);
}

static void peft_two(peft_build *f)
{
    peft_begin(f);
    peft_tensor(f, Q0 ".lora_A.weight", 3, 64);
    peft_tensor(f, Q0 ".lora_B.weight", 64, 3);
    peft_tensor(f, UP ".lora_A.weight", 3, 64);
    peft_tensor(f, UP ".lora_B.weight", 96, 3);
}

static peft_build *peft_of(bench *b, const char *config)
{
    peft_build *f = malloc(sizeof *f);
    peft_two(f);
    peft_end(f, &b->h.m, config);
    return f;
}

TEST(a_directory_says_rank_and_alpha_of_each_matrix)
{
    static const struct { const char *config; float q, up; } cases[] = {
        { CONFIG(""), 6 / 3.0f, 6 / 3.0f },
        { CONFIG("\"use_rslora\":true,"), 3.4641016f, 3.4641016f },         /* the last one counts */
        { CONFIG("\"alpha_pattern\":{\"up_proj\":12},"), 2, 4 },
        { CONFIG("\"alpha_pattern\":{\"layers.1.mlp.up_proj\":9,\"up_proj\":12},"), 2, 3 },
        { CONFIG("\"alpha_pattern\":{\"^model\\\\.layers\\\\.[01].*q_proj\":3,\"p_proj\":1},"), 1, 2 },
        { CONFIG("\"rank_pattern\":{\"(q|up)_proj\":3},\"layers_to_transform\":[0,1],"), 2, 2 },
        { CONFIG("\"target_modules\":\"model.*_proj\",\"init_lora_weights\":\"gaussian\","), 2, 2 },
    };
    bench b;
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    for (size_t i = 0; i < QSF_ARRAY_LEN(cases); i++) {
        qsf_adapter *a;
        qsf_adapter_info info = { .size = sizeof info };
        free(peft_of(&b, cases[i].config));
        if (!bench_ok(&b, peft_load(&b, &a))) continue;
        CHECK_EQ(qsf_adapter_get_info(a, &info), QSF_OK);
        CHECK_EQ(info.rank, 3);
        CHECK_EQ(info.n_matrices, 2);
        CHECK(!strcmp(info.name, "a"));
        /* the numbers of A and B are larger by powers of two, and the scale is smaller by them */
        const qsf_lora_pair *q = qsf_adapter_find(a, 0, QSF_K_ATTN_Q);
        const qsf_lora_pair *up = qsf_adapter_find(a, 1, QSF_K_FFN_UP);
        CHECK(q && up);
        if (q && up) {
            int e;
            CHECK_NEAR(frexpf(q->scale, &e), frexpf(cases[i].q, &e), 1e-6);
            CHECK_NEAR(frexpf(up->scale, &e), frexpf(cases[i].up, &e), 1e-6);
        }
        qsf_adapter_free(a);
    }
    bench_end(&b);
}

TEST(what_peft_has_and_the_engine_has_not_is_refused_by_name)
{
    static const struct { const char *more; qsf_status st; const char *words; } cases[] = {
        { "\"use_dora\":true,", QSF_E_UNSUPPORTED, "use_dora" },
        { "\"modules_to_save\":[\"lm_head\"],", QSF_E_UNSUPPORTED, "modules_to_save" },
        { "\"bias\":\"all\",\"x\":", QSF_E_CORRUPT, "line" },
        { "\"init_lora_weights\":\"olora\",", QSF_E_UNSUPPORTED, "olora" },
        { "\"r\":4,", QSF_E_CORRUPT, "rank 3" },
        { "\"r\":0,", QSF_E_CORRUPT, "\"r\"" },
        { "\"lora_alpha\":1e99,", QSF_E_CORRUPT, "lora_alpha" },
        { "\"target_modules\":[\"proj\"],", QSF_E_CORRUPT, "q_proj" },
        { "\"target_modules\":\"[\",", QSF_E_UNSUPPORTED, "target_modules" },
        { "\"exclude_modules\":\".*up.*\",", QSF_E_CORRUPT, "exclude_modules" },
        { "\"layers_to_transform\":1,", QSF_E_CORRUPT, "layers.0" },
        { "\"rank_pattern\":{\"a\":\"b\"},", QSF_E_CORRUPT, "rank_pattern" },
    };
    bench b;
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    for (size_t i = 0; i < QSF_ARRAY_LEN(cases); i++) {
        char config[512];
        qsf_adapter *a;
        snprintf(config, sizeof config, CONFIG("%s"), cases[i].more);
        free(peft_of(&b, config));
        CHECK_EQ(peft_load(&b, &a), cases[i].st);
        CHECK(a == NULL);
        if (!strstr(b.error.text, cases[i].words)) test_fail(__FILE__, __LINE__, b.error.text);
    }
    bench_end(&b);
}

TEST(tensors_that_do_not_fit_are_refused)
{
    static const struct { const char *name; uint32_t rows, cols; qsf_status st; const char *words; }
    cases[] = {
        { Q0 ".lora_A.other.weight", 3, 64, QSF_E_CORRUPT, "twice" },
        { Q0 ".lora_magnitude_vector", 64, 1, QSF_E_UNSUPPORTED, "lora_magnitude_vector" },
        { "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight", 3, 64, QSF_E_CORRUPT, "partner" },
        { "base_model.model.model.layers.9.mlp.up_proj.lora_A.weight", 3, 64, QSF_E_CORRUPT, "partner" },
        { "base_model.model.model.embed_tokens.weight", 3, 4, QSF_E_UNSUPPORTED, "embed_tokens" },
        { "base_model.model.score.lora_A.weight", 3, 64, QSF_E_UNSUPPORTED, "score" },
    };
    bench b;
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    for (size_t i = 0; i < QSF_ARRAY_LEN(cases); i++) {
        peft_build *f = malloc(sizeof *f);
        qsf_adapter *a;
        peft_two(f);
        peft_tensor(f, cases[i].name, cases[i].rows, cases[i].cols);
        peft_end(f, &b.h.m, CONFIG(""));
        CHECK_EQ(peft_load(&b, &a), cases[i].st);
        CHECK(a == NULL);
        if (!strstr(b.error.text, cases[i].words)) test_fail(__FILE__, __LINE__, b.error.text);
        free(f);
    }
    bench_end(&b);
}

/* ---- damage ---- */

/* Whatever the files are: refused with words, or an adapter that computes. */
static bool peft_try(bench *b)
{
    const int32_t ids[] = { 5, 6 };
    qsf_adapter *a;
    b->error.text[0] = 0;
    const qsf_status st = peft_load(b, &a);
    if (st) {
        CHECK(!a && b->error.text[0]);
        return false;
    }
    CHECK_EQ(qsf_seq_set_adapters(b->c, 0, &(qsf_adapter_use){ a, 1 }, 1), QSF_OK);
    qsf_adapter_free(a);
    const qsf_status ran = qsf_feed(b->c, 0, ids, 2, NULL);
    CHECK(!ran || ran == QSF_E_CORRUPT);
    CHECK_EQ(qsf_seq_set_adapters(b->c, 0, NULL, 0), QSF_OK);
    return true;
}

static void peft_damage(bench *b, const char *path, size_t every_bit)
{
    const mem_file *f = mem_find(&b->h.m, path);
    const size_t len = (size_t)f->len;
    uint8_t *bytes = malloc(len);
    memcpy(bytes, f->bytes, len);
    for (size_t n = 0; n < len; n += n < every_bit ? 1 : 97) {
        mem_put(&b->h.m, path, bytes, n);
        CHECK(!peft_try(b));
    }
    for (size_t at = 0; at < len; at += at < every_bit ? 1 : 193)
        for (int bit = 0; bit < 8; bit++) {
            bytes[at] ^= (uint8_t)(1 << bit);
            mem_put(&b->h.m, path, bytes, len);
            (void)peft_try(b);
            bytes[at] ^= (uint8_t)(1 << bit);
        }
    mem_put(&b->h.m, path, bytes, len);
    free(bytes);
    CHECK(peft_try(b));
}

TEST(damaged_directories_are_refused_or_read_but_never_worse)
{
    bench b;
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    peft_build *f = peft_of(&b, CONFIG("\"alpha_pattern\":{\"[a-q]_proj\":2},"));
    peft_damage(&b, PEFT_CONFIG_AT, SIZE_MAX);
    peft_damage(&b, PEFT_WEIGHTS_AT, 8 + f->len);
    free(f);
    CHECK_EQ(atomic_load(&b.m->adapter_bytes), 0);
    bench_end(&b);
}

TEST(every_call_of_the_host_may_fail)
{
    bench b;
    const tiny_options o = tiny_defaults();
    if (!bench_begin(&b, &o)) return;
    free(peft_of(&b, CONFIG("\"alpha_pattern\":{\"up_proj\":2},")));
    for (int always = 0; always < 2; always++)
        for (long n = 1; n < 100000; n++) {
            qsf_adapter *a;
            const long live = b.h.m.live;
            b.h.m.calls = 0;
            b.h.m.fail_on = always != 0;
            b.h.m.fail_at = n;
            const qsf_status st = peft_load(&b, &a);
            b.h.m.fail_at = 0;
            if (st) CHECK(!a && b.h.m.live == live);
            qsf_adapter_free(a);
            CHECK_EQ(b.h.m.live, live);
            if (!st && b.h.m.calls < n) break;
        }
    bench_end(&b);
}

TEST(merging_leaves_nothing_behind_when_the_host_fails)
{
    bench b;
    const tiny_options o = tiny_defaults();
    qsf_convert_options co;
    const qsf_convert_adapter adapters[] = { { "a", 0.5f }, { "a", 2 } };
    if (!bench_begin(&b, &o)) return;
    free(peft_of(&b, CONFIG("\"alpha_pattern\":{\"up_proj\":2},")));
    qsf_convert_defaults(&co);
    co.platform = &b.h.m.p;
    co.preset = QSF_CONVERT_8BIT;
    co.n_threads = 1;
    co.adapters = adapters;
    co.n_adapters = QSF_ARRAY_LEN(adapters);
    for (long n = 1; n < 1000000; n += 1 + n / 40) {
        const long live = b.h.m.live;
        b.h.m.calls = 0;
        b.h.m.fail_on = true;
        b.h.m.fail_at = n;
        b.error = (qsf_error){ 0 };
        const qsf_status st = qsf_convert_run("m", "out", &co, NULL, &b.error);
        b.h.m.fail_at = 0;
        CHECK_EQ(b.h.m.live, live);
        if (st) CHECK(!mem_find(&b.h.m, "out") && b.error.text[0]);
        if (!st && b.h.m.calls < n) break;
    }
    CHECK(mem_find(&b.h.m, "out") != NULL);
    co.adapters = &(qsf_convert_adapter){ "a", NAN };
    co.n_adapters = 1;
    CHECK_EQ(qsf_convert_run("m", "out", &co, NULL, &b.error), QSF_E_ARGUMENT);
    co.adapters = &(qsf_convert_adapter){ NULL, 1 };
    CHECK_EQ(qsf_convert_run("m", "out", &co, NULL, &b.error), QSF_E_ARGUMENT);
    bench_end(&b);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(a_directory_says_rank_and_alpha_of_each_matrix);
    RUN(what_peft_has_and_the_engine_has_not_is_refused_by_name);
    RUN(tensors_that_do_not_fit_are_refused);
    RUN(damaged_directories_are_refused_or_read_but_never_worse);
    RUN(every_call_of_the_host_may_fail);
    RUN(merging_leaves_nothing_behind_when_the_host_fails);
    return test_end();
}
