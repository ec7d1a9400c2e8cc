/* The Jinja interpreter: what it refuses, and how; jinja_exact.py compares what it writes with
 * Python's jinja2.
 * SPDX-License-Identifier: MIT
 *
 *   jinja_test --render FILE   for jinja_exact.py: templates, each with a zero byte behind it, to
 *                              "status text" in the same form */
#include "text/jinja.h"
#include "test.h"

static _Alignas(16) char memory[1 << 20];
static char out[1 << 16];
static qsf_error err;

static qsf_status jinja_status(const char *text, size_t n, size_t mem, size_t cap, uint32_t steps,
                               size_t *len)
{
    qsf_jinja *t;
    *len = 0;
    const qsf_status st = qsf_jinja_parse(memory, mem, text, n, &t, &err);
    return st ? st
              : qsf_jinja_render(t, NULL, 0, 1721995200, steps, out, cap, len, &err); /* 2024-07-26, 12:00 */
}

static const char *jinja_says(const char *text)
{
    size_t len;
    return jinja_status(text, strlen(text), sizeof memory, sizeof out, 1 << 20, &len) ? err.text : out;
}

TEST(jinja_writes)
{
    CHECK_STR(jinja_says("a{{ 1 + 2 * 3 }}b"), "a7b");
    CHECK_STR(jinja_says("{% for x in [1, 2] %}{{ loop.index }}:{{ x }} {% endfor %}"), "1:1 2:2 ");
    CHECK_STR(jinja_says("{{ strftime_now('%d %b %Y, %A %H:%M') }}"), "26 Jul 2024, Friday 12:00");
}

TEST(jinja_errors_say_line_and_column)
{
    CHECK_STR(jinja_says("a\n  {{ x.y }}"), "chat template, line 2, column 8: x is not defined");
    CHECK_STR(jinja_says("{% if x %}"), "chat template, line 1, column 11: the template ends without endif");
    CHECK_STR(jinja_says("\xc3\xa9{{ 1 + }}"),
              "chat template, line 1, column 9: an expression is missing here");
    CHECK_STR(jinja_says("{{ 'a }}"), "chat template, line 1, column 4: a string has no end");
    CHECK_STR(jinja_says("{% include 'a' %}"),
              "chat template, line 1, column 4: no tag is known here by the name include");
    CHECK_STR(jinja_says("{{ 1 | nothing }}"),
              "chat template, line 1, column 8: no filter is known here by the name nothing");
    CHECK_STR(jinja_says("{{ raise_exception('Only users!') }}"),
              "chat template, line 1, column 19: Only users!");
}

TEST(jinja_statuses_tell_whose_fault_it_is)
{
    static const struct { const char *text; qsf_status st;
    } cases[] = {
        { "{{ raise_exception('no') }}", QSF_E_CANCELLED },
        { "{{ x.y }}", QSF_E_ARGUMENT },
        { "{{ 1 + 'a' }}", QSF_E_ARGUMENT },
        { "{{ [][0].x }}", QSF_E_ARGUMENT },
        { "{{ 'a'.zfill(3) }}", QSF_E_UNSUPPORTED },
        { "{{ '%s' % 1 }}", QSF_E_UNSUPPORTED },
        { "{{ ('a'|safe).strip() }}", QSF_E_UNSUPPORTED },
        { "{{ 9223372036854775807 + 1 }}", QSF_E_UNSUPPORTED },
        { "{% for a in b recursive %}{% endfor %}", QSF_E_UNSUPPORTED },
        { "{% endif %}", QSF_E_UNSUPPORTED },
        { "{{ 1", QSF_E_ARGUMENT },
        { "{# ", QSF_E_ARGUMENT },
        { "{% raw %}", QSF_E_ARGUMENT },
        { "{{ (1] }}", QSF_E_ARGUMENT },
        { "{% break %}", QSF_E_ARGUMENT },
        { "{% set x.y = 1 %}", QSF_E_ARGUMENT },
        { "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", QSF_E_BUDGET },
        { "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}", QSF_E_BUDGET },
        { "{{ 'ab' * 100000 }}", QSF_E_BUDGET },
        { "{{ ('ab' * 30000) * 30000 }}", QSF_E_BUDGET },
        { "{{ x() }}", QSF_E_ARGUMENT },
        { "{{ 'a'(1) }}", QSF_E_ARGUMENT },
        { "{{ [1] < [none] }}", QSF_E_ARGUMENT },
        { "{{ 1 // 0 }}", QSF_E_ARGUMENT },
        { "{{ 'a'.split('') }}", QSF_E_ARGUMENT },
        { "{{ range(1000000) }}", QSF_E_ARGUMENT },
        { "{{ range(1, 5, 0) }}", QSF_E_ARGUMENT },
        { "{{ [1].append(2) }}", QSF_E_ARGUMENT },
        { "{{ {}.pop('a') }}", QSF_E_ARGUMENT },
        { "{{ 'a' | trim(1, 2) }}", QSF_E_ARGUMENT },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(cases); i++) {
        size_t len;
        const qsf_status st =
            jinja_status(cases[i].text, strlen(cases[i].text), sizeof memory, sizeof out, 1 << 20, &len);
        if (st != cases[i].st) printf("%s\n", cases[i].text);
        CHECK_EQ(st, cases[i].st);
    }
}

/* A text of n pieces. */
static const char *jinja_nested(const char *open, const char *middle, const char *close, int n)
{
    static char text[1 << 16];
    size_t len = 0;
    for (int i = 0; i < n; i++) len += (size_t)snprintf(text + len, sizeof text - len, "%s", open);
    len += (size_t)snprintf(text + len, sizeof text - len, "%s", middle);
    for (int i = 0; i < n; i++) len += (size_t)snprintf(text + len, sizeof text - len, "%s", close);
    return text;
}

TEST(jinja_depth_has_an_end)
{
    static const struct { const char *open, *middle, *close;
    } deep[] = {
        { "{% if 1 %}", "x", "{% endif %}" },          { "{{ ", "(", "" },
        { "{% for a in [1] %}", "x", "{% endfor %}" }, { "{% filter trim %}", "x", "{% endfilter %}" },
        { "{% set a %}", "", "{% endset %}" },         { "{% macro a() %}", "", "{% endmacro %}" },
        { "{% with a = 1 %}", "", "{% endwith %}" },
    };
    static const char *const inside[][3] = {
        { "(", "1", ")" },           { "[", "1", "]" },    { "-", "1", "" },   { "not ", "1", "" },
        { "1 if 0 else ", "1", "" }, { "{1: ", "1", "}" }, { "a[", "1", "]" }, { "a(", "1", ")" },
        { "a|join(", "1", ")" },     { "1 + (", "1", ")" }
    };
    char text[1 << 16];
    for (size_t i = 0; i < QSF_ARRAY_LEN(deep); i++)
        CHECK(strstr(jinja_says(jinja_nested(deep[i].open, deep[i].middle, deep[i].close, 1000)), "line") !=
              NULL);
    for (size_t i = 0; i < QSF_ARRAY_LEN(inside); i++) {
        snprintf(text, sizeof text, "{{ %s }}", jinja_nested(inside[i][0], inside[i][1], inside[i][2], 2000));
        CHECK(strstr(jinja_says(text), "too deep") || strstr(jinja_says(text), "brackets are open"));
    }
    CHECK_STR(jinja_says(jinja_nested("{% if 1 %}", "x", "{% endif %}", 20)), "x");
    /* Values in each other, made by a loop that no limit of the parser sees. */
    CHECK(strstr(jinja_says("{% set n = namespace(a=[]) %}{% for i in range(200) %}{% set n.a = [n.a] %}{% "
                            "endfor %}{{ n.a }}"),
                 "too deep") != NULL);
    CHECK(strstr(jinja_says("{% set n = namespace(a=[]) %}{% for i in range(200) %}{% set n.a = [n.a] %}{% "
                            "endfor %}{{ n.a == [n.a] }}"),
                 "too deep") != NULL);
    CHECK(strstr(jinja_says("{% set n = namespace(a=[]) %}{% for i in range(200) %}{% set n.a = [n.a] %}{% "
                            "endfor %}{{ n.a | tojson }}"),
                 "too deep") != NULL);
}

TEST(jinja_runs_in_any_memory_or_says_so)
{
    static const char text[] =
        "{% set n = namespace(a='') %}{% for i in range(20) %}{% set n.a = n.a ~ i ~ ', ' %}{% endfor %}{{ "
        "n.a.split(', ')|join('-') }}{{ [1, {'a': 2}] | tojson }}";
    size_t len, worked = 0;
    for (size_t mem = 0; mem < 64 << 10; mem += mem < 4096 ? 16 : 512) {
        const qsf_status st = jinja_status(text, sizeof text - 1, mem, sizeof out, 1 << 20, &len);
        CHECK(st == QSF_OK || st == QSF_E_MEMORY || st == QSF_E_BUDGET);
        worked += st == QSF_OK;
    }
    CHECK(worked > 10);
    CHECK_EQ(jinja_status(text, sizeof text - 1, sizeof memory, sizeof out, 1 << 20, &len), QSF_OK);
    const size_t whole = len;
    for (size_t cap = 0; cap <= whole + 1; cap++) {
        out[cap] = 'x';
        CHECK_EQ(jinja_status(text, sizeof text - 1, sizeof memory, cap, 1 << 20, &len), cap > whole ? QSF_OK
                                                                                         : cap
                                                                                             ? QSF_E_BUDGET
                                                                                             : QSF_E_MEMORY);
        CHECK_EQ(out[cap], 'x');
    }
    for (uint32_t steps = 0; steps < 500; steps += 7)
        CHECK(jinja_status(text, sizeof text - 1, sizeof memory, sizeof out, steps, &len) <= QSF_E_BUDGET);
}

TEST(jinja_takes_variables_and_renders_again)
{
    const qsf_jinja_value pair[] = { qsf_jinja_text("role"), qsf_jinja_text("user") },
                          list[] = { qsf_jinja_dict(pair, 1) };
    const qsf_jinja_var vars[] = { { "messages", qsf_jinja_list(list, 1) },
                                   { "add", qsf_jinja_bool(true) },
                                   { "unused", qsf_jinja_int(3) } };
    static const char text[] =
        "{% for m in messages %}{{ m.role }}{% endfor %}{{ add }}{{ strftime_now is defined }}";
    qsf_jinja *t;
    size_t len;
    CHECK_EQ(qsf_jinja_parse(memory, sizeof memory, text, sizeof text - 1, &t, &err), QSF_OK);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(qsf_jinja_render(t, vars, 3, 0, 1000, out, sizeof out, &len, &err), QSF_OK);
        CHECK_STR(out, "userTrueFalse");
        CHECK_EQ(len, strlen(out));
    }
}

static int print_all(const char *path)
{
    static char text[8 << 20];
    FILE *f = fopen(path, "rb");
    if (!f) return 1;
    const size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    for (size_t at = 0; at < n; at += strlen(text + at) + 1) {
        size_t len;
        const qsf_status st =
            jinja_status(text + at, strlen(text + at), sizeof memory, sizeof out, 1 << 20, &len);
        printf("%s ", qsf_status_name(st));
        fwrite(st ? err.text : out, 1, st ? strlen(err.text) : len, stdout);
        putchar(0);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--render")) return print_all(argv[2]);
    test_begin(argc, argv);
    RUN(jinja_writes);
    RUN(jinja_errors_say_line_and_column);
    RUN(jinja_statuses_tell_whose_fault_it_is);
    RUN(jinja_depth_has_an_end);
    RUN(jinja_runs_in_any_memory_or_says_so);
    RUN(jinja_takes_variables_and_renders_again);
    return test_end();
}
