/* The writer of shader text: values, bindings, and texts that are too long.
 * SPDX-License-Identifier: MIT */
#include "forms.h"
#include "test.h"
#include "wgsl/product_rows_wgsl.h"

enum { ROOM = 1 << 15, MARK = 0x5a };

static char room[ROOM + 1];

TEST(values_replace_their_names)
{
    qsf_wgsl_text t;
    qsf_error err;
    qsf_wgsl_begin(&t, room, ROOM);
    QSF_WGSL_PUT(&t, "a ${one} $ {b} ${two}${one}u", { "one", 4294967295u, NULL }, { "two", 0, "(x)" });
    CHECK_EQ(qsf_wgsl_end(&t, &err), QSF_OK);
    CHECK_STR(room, "a 4294967295 $ {b} (x)4294967295u");
}

TEST(bindings_are_numbered)
{
    qsf_wgsl_text t;
    qsf_error err;
    qsf_wgsl_begin(&t, room, ROOM);
    qsf_wgsl_bind(&t, QSF_WGSL_UNIFORM, "p", "Numbers");
    qsf_wgsl_bind(&t, QSF_WGSL_WRITE, "Y", "array<f32>");
    CHECK_EQ(qsf_wgsl_end(&t, &err), QSF_OK);
    CHECK_STR(room, "@group(0) @binding(0) var<uniform> p: Numbers;\n"
                    "@group(0) @binding(1) var<storage, read_write> Y: array<f32>;\n");
    CHECK_EQ(t.n_bindings, 2);
    CHECK_EQ(t.access[0], QSF_WGSL_UNIFORM);
    CHECK_EQ(t.access[1], QSF_WGSL_WRITE);
}

/* Of a form: the text's length, written to cap bytes. */
static size_t text_of(qsf_form form, size_t cap, qsf_status *st, qsf_error *err)
{
    const uint32_t block = qsf_forms[form].block ? qsf_forms[form].block : 64;
    const qsf_wgsl_product p = { .form = form, .block = block, .rows = 8, .slices = 4, .bias = true };
    qsf_wgsl_text t;
    memset(room, MARK, sizeof room);
    qsf_wgsl_begin(&t, room, cap);
    qsf_wgsl_product_rows(&t, &p);
    *st = qsf_wgsl_end(&t, err);
    return t.len;
}

TEST(a_text_that_does_not_fit_is_an_error)
{
    for (int f = 0; f < QSF_N_FORMS; f++) {
        qsf_error err;
        qsf_status st;
        char said[64];
        CHECK_EQ(qsf_wgsl_has_form((qsf_form)f), !qsf_form_iq((qsf_form)f));
        if (!qsf_wgsl_has_form((qsf_form)f)) continue;
        const size_t len = text_of((qsf_form)f, ROOM, &st, &err);
        CHECK_EQ(st, QSF_OK);
        CHECK_EQ(strlen(room), len);
        const size_t caps[] = { 0, len / 2, len };              /* its end needs a byte */
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(text_of((qsf_form)f, caps[i], &st, &err), len);
            CHECK_EQ(st, QSF_E_MEMORY);
            snprintf(said, sizeof said, "%zu bytes; there is room for %zu", len + 1, caps[i]);
            CHECK(strstr(err.text, said) != NULL);
            CHECK_EQ(room[caps[i]], MARK);
        }
        CHECK_EQ(text_of((qsf_form)f, len + 1, &st, &err), len);
        CHECK_EQ(st, QSF_OK);
        CHECK_EQ(room[len], 0);
        CHECK_EQ(room[len + 1], MARK);
    }
}

TEST(more_groups_than_a_dimension_has_go_to_y)
{
    static const uint32_t counts[] = { 1, 65535, 65536, 151936, 131071 };
    for (int i = 0; i < 5; i++) {
        uint32_t groups[3];
        qsf_wgsl_dispatch(counts[i], groups);
        CHECK(groups[0] <= 65535 && groups[1] <= 65535);
        CHECK(groups[0] * groups[1] >= counts[i] && groups[0] * (groups[1] - 1) < counts[i]);
        CHECK_EQ(groups[2], 1);
    }
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(values_replace_their_names);
    RUN(bindings_are_numbered);
    RUN(a_text_that_does_not_fit_is_an_error);
    RUN(more_groups_than_a_dimension_has_go_to_y);
    return test_end();
}
