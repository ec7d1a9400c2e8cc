/* The options of a context by name.
 * SPDX-License-Identifier: MIT */
#include "qsf.h"
#include "test.h"

#include <math.h>

static qsf_status set(qsf_context_options *o, const char *name, const char *value)
{
    qsf_error err;
    const qsf_status st = qsf_context_set(o, name, value, &err);
    if (st) CHECK(strstr(err.text, name) != NULL);
    if (st && strcmp(name, "no-such-option")) CHECK(strstr(err.text, value) != NULL);
    return st;
}

TEST(defaults_are_those_of_the_list)
{
    qsf_context_options o;
    qsf_context_defaults(&o);
    CHECK_EQ(o.size, sizeof o);
    CHECK_EQ(o.n_batch, 256);
    CHECK_EQ(o.n_seqs, 4);
    CHECK_EQ(o.kv_type, QSF_KV_Q8);
    CHECK_EQ(o.kv_sinks, 4);
    CHECK(o.quality == 1);
    CHECK(!o.f32 && !o.check_every && !o.kv_may_drop && !o.isa && !o.n_ctx && !o.ram_budget
          && o.early_exit == 0 && o.act_quant == QSF_ACT_BLOCK && o.kernel_route == QSF_ROUTE_AUTO);
}

TEST(every_option_is_set_by_its_name)
{
    qsf_context_options o;
    qsf_context_defaults(&o);
    CHECK_EQ(set(&o, "ram-budget", "200"), QSF_OK);
    CHECK_EQ(o.ram_budget, 200000000);
    CHECK_EQ(set(&o, "kv-window", "256"), QSF_OK);
    CHECK_EQ(o.kv_window, 256);
    CHECK_EQ(set(&o, "kv-window", "1e3"), QSF_OK);
    CHECK_EQ(o.kv_window, 1000);
    CHECK_EQ(set(&o, "kv-type", "q4v2"), QSF_OK);
    CHECK_EQ(o.kv_type, QSF_KV_Q4V2);
    CHECK_EQ(set(&o, "head-topk", "clusters"), QSF_OK);
    CHECK_EQ(o.head, QSF_HEAD_CLUSTERS);
    CHECK_EQ(set(&o, "early-exit", "0.95"), QSF_OK);
    CHECK(fabsf(o.early_exit - 0.95f) < 1e-7f);
    CHECK_EQ(set(&o, "act-quant", "row"), QSF_OK);
    CHECK_EQ(o.act_quant, QSF_ACT_ROW);
    CHECK_EQ(set(&o, "kernel-route", "lut"), QSF_OK);
    CHECK_EQ(o.kernel_route, QSF_ROUTE_LUT);
    CHECK_EQ(set(&o, "quality", "5e-1"), QSF_OK);
    CHECK(o.quality == 0.5f);
    CHECK_EQ(set(&o, "f32", "yes"), QSF_OK);
    CHECK(o.f32);
    CHECK_EQ(set(&o, "f32", "off"), QSF_OK);
    CHECK(!o.f32);
    CHECK_EQ(set(&o, "isa", "scalar"), QSF_OK);
    CHECK_STR(o.isa, "scalar");
}

TEST(what_is_not_possible_is_refused_by_name)
{
    static const char *const wrong[][2] = {
        { "kv-window", "" }, { "kv-window", "-1" }, { "kv-window", "5.5" }, { "kv-window", "16777217" },
        { "kv-window", "5 " }, { "kv-window", "nan" }, { "kv-window", "1e" }, { "kv-window", "1e999" },
        { "batch-size", "0" }, { "quality", "1.01" }, { "quality", "." }, { "kv-type", "q" },
        { "kv-type", "q8|f32" }, { "f32", "maybe" }, { "threads", "257" }, { "no-such-option", "1" },
        { "kv-window", "0x10" }, { "head-topk", "" },
    };
    qsf_context_options o, before;
    qsf_context_defaults(&o);
    before = o;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_EQ(set(&o, wrong[i][0], wrong[i][1]), QSF_E_ARGUMENT);
    CHECK(o.kv_window == before.kv_window && o.kv_type == before.kv_type && o.n_batch == before.n_batch);
}

TEST(what_is_set_is_what_is_got)
{
    static const char *const pairs[][2] = {
        { "kv-window", "256" }, { "kv-type", "q8v4" }, { "f32", "true" }, { "quality", "0.5" },
        { "early-exit", "0.25" }, { "act-quant", "row" }, { "isa", "scalar" }, { "ram-budget", "1500.5" },
        { "head-topk", "clusters" }, { "check-every", "false" },
    };
    qsf_context_options o, again;
    qsf_error err;
    char text[64];
    qsf_context_defaults(&o);
    CHECK_EQ(qsf_context_get(&o, "isa", text, sizeof text, &err), QSF_OK);
    CHECK_STR(text, "");
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        CHECK_EQ(set(&o, pairs[i][0], pairs[i][1]), QSF_OK);
        CHECK_EQ(qsf_context_get(&o, pairs[i][0], text, sizeof text, &err), QSF_OK);
        CHECK_STR(text, pairs[i][1]);
    }
    qsf_context_defaults(&again);
    for (size_t i = 0; qsf_context_option(i); i++) {
        const char *name = qsf_context_option(i)->name;
        CHECK_EQ(qsf_context_get(&o, name, text, sizeof text, &err), QSF_OK);
        if (strcmp(name, "isa")) CHECK_EQ(set(&again, name, text), QSF_OK);
    }
    again.isa = o.isa;
    CHECK(!memcmp(&o, &again, sizeof o));
    CHECK_EQ(qsf_context_get(&o, "no-such-option", text, sizeof text, &err), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_context_get(&o, "kv-type", text, 4, &err), QSF_E_ARGUMENT);
    CHECK_STR(text, "");
    CHECK_EQ(qsf_context_get(&o, "kv-type", text, 5, &err), QSF_OK);
    o.size = offsetof(qsf_context_options, act_quant);
    CHECK_EQ(qsf_context_get(&o, "act-quant", text, sizeof text, &err), QSF_E_ARGUMENT);
}

TEST(the_list_says_what_set_takes)
{
    size_t n = 0;
    for (const qsf_option *p; (p = qsf_context_option(n)); n++) {
        qsf_context_options o;
        char text[64];
        qsf_context_defaults(&o);
        CHECK(p->name && p->help && p->unit && p->value >= p->least && p->value <= p->most);
        CHECK_EQ(p->choices != NULL, p->kind == QSF_OPTION_CHOICE);
        if (p->kind == QSF_OPTION_WHOLE || p->kind == QSF_OPTION_NUMBER) {
            snprintf(text, sizeof text, "%.17g", p->most);
            CHECK_EQ(set(&o, p->name, text), QSF_OK);
            snprintf(text, sizeof text, "%.17g", p->most + 1);
            CHECK_EQ(set(&o, p->name, text), QSF_E_ARGUMENT);
        }
        for (size_t j = 0; j < n; j++) CHECK(strcmp(p->name, qsf_context_option(j)->name));
    }
    CHECK(n >= 17);
    CHECK(!qsf_context_option(n + 1));
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(defaults_are_those_of_the_list);
    RUN(every_option_is_set_by_its_name);
    RUN(what_is_not_possible_is_refused_by_name);
    RUN(what_is_set_is_what_is_got);
    RUN(the_list_says_what_set_takes);
    return test_end();
}
