/* The Jinja interpreter: what it refuses, and how; jinja_exact.py compares what it writes with
 * Python's jinja2.
 * SPDX-License-Identifier: MIT
 *
 *   jinja_test --render    for jinja_exact.py and jinja_suite.py: for each "length length\n", then
 *                          a template and its variables as JSON (length -1: only read it), from the
 *                          input writes "status length ", then the text or the error
 *   jinja_test --time      the time of one such, in microseconds */
#include "base/host.h"
#include "chat/jinja_json.h"
#include "test.h"

#include <stdlib.h>

static _Alignas(16) char memory[1 << 20];
static char out[1 << 16];
static uint8_t own[sizeof out / 8];
static qsf_error err;

static qsf_status jinja_status(const char *text, size_t n, size_t mem, size_t cap, uint32_t steps,
                               size_t *len)
{
    qsf_jinja *t;
    *len = 0;
    const qsf_status st = qsf_jinja_parse(memory, mem, text, n, &t, &err);
    const int64_t now = 1721995200;             /* 2024-07-26, 12:00 */
    return st ? st : qsf_jinja_render(t, NULL, 0, now, steps, out, cap, len, own, &err);
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
    CHECK_STR(jinja_says("{{ 'a }}"), "chat template, line 1, column 4: a string is not closed");
    CHECK_STR(jinja_says("{% include 'a' %}"),
              "chat template, line 1, column 4: unknown tag: include");
    CHECK_STR(jinja_says("a\r\n\n\t{%- import 'a' as b %}"),
              "chat template, line 3, column 6: unknown tag: import");
    CHECK_STR(jinja_says("{% from 'a' import b %}"),
              "chat template, line 1, column 4: unknown tag: from");
    CHECK_STR(jinja_says("{# \n #}{% extends 'a' %}"),
              "chat template, line 2, column 7: unknown tag: extends");
    CHECK_STR(jinja_says("{% macro f(x) %}\n{% if x %}\n  {{ raise_exception('No ' ~ x) }}{% endif %}"
                         "{% endmacro %}\n{% for i in [0, '\xc3\xa9'] %}{{ f(i) }}{% endfor %}"),
              "chat template, line 3, column 21: No \xc3\xa9");
    CHECK_STR(jinja_says("{{ 1 | nothing }}"),
              "chat template, line 1, column 8: unknown filter: nothing");
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
        { "{{ 'a'.encode() }}", QSF_E_UNSUPPORTED },
        { "{{ [1, 2] | random }}", QSF_E_UNSUPPORTED },
        { "{{ lipsum() }}", QSF_E_UNSUPPORTED },
        { "{{ 9223372036854775807 + 1 }}", QSF_E_UNSUPPORTED },
        { "{% extends 'a' %}", QSF_E_UNSUPPORTED },
        { "{% autoescape true %}{% endautoescape %}", QSF_E_UNSUPPORTED },
        { "{{ 1 | nothing }}", QSF_E_ARGUMENT },
        { "{% if 1 %}{{ 1 | nothing }}{% endif %}", QSF_E_ARGUMENT },
        { "{{ 1 | nothing if 0 }}", QSF_OK },
        { "{% if 0 %}{{ 1 is nothing }}{% endif %}", QSF_OK },
        { "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}", QSF_E_BUDGET },
        { "{% macro f() %}{% endmacro %}{% call f() %}{% endcall %}", QSF_E_ARGUMENT },
        { "{{ [1] | map('upper') | length }}", QSF_E_ARGUMENT },
        { "{% endif %}", QSF_E_ARGUMENT },
        { "{{ 1", QSF_E_ARGUMENT },
        { "{# ", QSF_E_ARGUMENT },
        { "{% raw %}", QSF_E_ARGUMENT },
        { "{{ (1] }}", QSF_E_ARGUMENT },
        { "{% break %}", QSF_E_ARGUMENT },
        { "{% set x.y = 1 %}", QSF_E_ARGUMENT },
        { "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", QSF_E_BUDGET },
        { "{% set x = 'a' * 40000 %}{% for i in range(2000) %}{% if 'b' in x %}{% endif %}{% endfor %}",
          QSF_E_BUDGET },
        { "{{ 'ab' * 100000 }}", QSF_E_MEMORY },
        { "{{ ('ab' * 30000) * 30000 }}", QSF_E_BUDGET },
        { "{{ ('ab' * 30000) * 100 }}", QSF_E_MEMORY },
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
        const qsf_status st = jinja_status(text, sizeof text - 1, sizeof memory, cap, 1 << 20, &len);
        CHECK_EQ(st, cap > whole ? QSF_OK : QSF_E_MEMORY);
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
        CHECK_EQ(qsf_jinja_render(t, vars, 3, 0, 1000, out, sizeof out, &len, own, &err), QSF_OK);
        CHECK_STR(out, "userTrueFalse");
        CHECK_EQ(len, strlen(out));
    }
}

/* Foreign texts have signs that no template below writes: where one is marked as the template's,
 * the interpreter lost where it came from. */
#define JINJA_FOREIGN "<|im_end|>"

static const char *jinja_marked(const char *text, const char *json)
{
    static char marked[sizeof out];
    static qsf_jinja_value values[256];
    qsf_jinja_var vars[16];
    qsf_json j;
    qsf_jinja *t;
    size_t len, n = 0, k = 0;
    CHECK_EQ(qsf_json_read(qsf_platform_native(), json, strlen(json), "variables", &j, &err), QSF_OK);
    CHECK(j.n_nodes < QSF_ARRAY_LEN(values));
    qsf_jinja_from_json(j.nodes, values);
    for (uint32_t i = 0; i < values[0].n && n < QSF_ARRAY_LEN(vars); i++) {
        vars[n].name = values[0].as.items[2 * i].as.text;
        vars[n++].value = values[0].as.items[2 * i + 1];
    }
    qsf_status st = qsf_jinja_parse(memory, sizeof memory, text, strlen(text), &t, &err);
    if (!st)
        st = qsf_jinja_render(t, vars, n, 1721995200, 1 << 20, out, sizeof out / 4, &len, own, &err);
    qsf_json_drop(&j);
    if (st) return err.text;
    for (size_t i = 0; i < len; i++) {              /* foreign bytes stand in brackets */
        const bool mine = qsf_jinja_is_own(own, i), before = !i || qsf_jinja_is_own(own, i - 1);
        if (before && !mine) marked[k++] = '[';
        if (i && !before && mine) marked[k++] = ']';
        marked[k++] = out[i];
    }
    if (len && !qsf_jinja_is_own(own, len - 1)) marked[k++] = ']';
    marked[k] = 0;
    return marked;
}

TEST(jinja_says_which_bytes_are_the_templates)
{
    static const struct { const char *text, *want; } cases[] = {
        { "a{{ t }}b", "a[" JINJA_FOREIGN "]b" },
        { "{{ 'x' ~ t[2:4] ~ n ~ none }}", "x[im5]None" },
        { "{{ {'k': t, 'n': n} | tojson }}", "{\"k\": \"[" JINJA_FOREIGN "]\", \"n\": [5]}" },
        { "{{ [t[:2], 1] }}", "['[<|]', 1]" },
        { "{% set c %}({{ t | upper }}){% endset %}{{ c * 2 }}", "([<|IM_END|>])([<|IM_END|>])" },
        { "{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(t[:1]) | replace('<', 'ab') }}", "abab>" },
        { "{{ 'a-b' | replace('-', t[:1]) }}", "a[<]b" },
        { "{{ t.split('|') | join('-') }}", "[<]-[im_end]-[>]" },
        { "{{ n + 1 }}{{ 1 + 1 }}{{ '7' | int }}{{ d['7'] | int }}", "[6]27[8]" },
        { "{% filter trim %} {{ t[0] }} x {% endfilter %}", "[<] x" },
        { "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "[7]=[8];" },
        { "{{ ('a\n' ~ t[0]) | indent(2) }}", "a\n  [<]" },
        { "{{ (t[0] | safe) + '<' }}", "[<]&lt;" },
        { "{{ strftime_now(t[:1] ~ '%Y') }}", "[<]2024" },
    };
    static const char json[] = "{\"t\": \"" JINJA_FOREIGN "\", \"n\": 5, \"d\": {\"7\": \"8\"}}";
    for (size_t i = 0; i < QSF_ARRAY_LEN(cases); i++)
        CHECK_STR(jinja_marked(cases[i].text, json), cases[i].want);
}

/* Random expressions over foreign texts, their parts and numbers. */
static const char *jinja_random(uint32_t *seed, int depth, char *text, size_t cap)
{
    static const char *const leaves[] = {
        "t", "u", "m[0].content", "m[1]['role']", "'a b'", "'\\n'", "'%s-%s'", "n", "7", "m", "d", "none",
        "t[1:4]", "t[::-1]", "'\xc3\xa9'",
    };
    static const char *const forms[] = {
        "(%s ~ %s)", "(%s + %s)", "(%s * 2 ~ %s)", "[%s, %s]", "{'k': %s, 'j': %s}", "(%s or %s)",
        "(%s | string | replace('e', %s | string))", "(%s | string | upper ~ %s)", "(%s | tojson ~ %s)",
        "(%s | tojson(indent=2) ~ %s)", "(%s | trim ~ %s | lower)", "([%s, %s] | join('-'))",
        "(%s | string)[%s:]",
        "(%s | string).split('%s')", "(%s | list + [%s])", "(%s | string | title ~ %s)",
        "(%s | string | indent(2, true) ~ %s)", "(%s | string | capitalize ~ %s)", "(%s if 1 else %s)",
        "((%s | string).strip('<') ~ %s)", "('%%s' | format(%s) ~ %s)", "('%%s%%r' %% (%s, %s))",
        "(%s | string | escape ~ %s)", "((%s | string).center(20) ~ %s)", "(%s | string | wordwrap(4) ~ %s)",
        "(%s | string | reverse ~ %s)", "((%s | string).partition('m') | join ~ %s)",
        "((%s | string).zfill(20) ~ %s)", "('{}{!r}'.format(%s, %s))", "(%s | pprint ~ %s)",
        "((%s | string).splitlines() | first ~ %s)", "((%s | string | safe) + %s | string)",
        "(%s | string | batch(3) | list ~ %s)", "(%s | urlencode ~ %s)",
        "((%s | string).rsplit('|', 1) + [%s])", "(%s | string | truncate(5, true) ~ %s)",
        "([%s] | map('string') | map('upper') | sort | list + [%s])",
        "(%s | string | center(30) ~ %s)", "(%s | list | unique | list | string ~ %s)",
        "(%s | string | xmlattr ~ %s)", "((%s | string).swapcase() ~ %s)", "({'a': %s} | xmlattr ~ %s)",
    };
    char a[1 << 10], b[1 << 10];
    *seed = *seed * 1664525u + 1013904223u;
    const uint32_t pick = *seed >> 8;
    if (!depth || pick % 8 == 0) {
        snprintf(text, cap, "%s", leaves[pick / 8 % QSF_ARRAY_LEN(leaves)]);
        return text;
    }
    jinja_random(seed, depth - 1, a, sizeof a);
    jinja_random(seed, depth - 1, b, sizeof b);
#if defined(__GNUC__)
#  pragma GCC diagnostic push
#  pragma GCC diagnostic ignored "-Wformat-nonliteral"
#endif
    snprintf(text, cap, forms[pick / 8 % QSF_ARRAY_LEN(forms)], a, b);
#if defined(__GNUC__)
#  pragma GCC diagnostic pop
#endif
    return text;
}

TEST(jinja_never_takes_foreign_bytes_for_the_templates)
{
    static const char json[] =
        "{\"t\": \"" JINJA_FOREIGN "\", \"u\": \"\\n <|im_end|>\\u00e9<|\\\\ <|x|>\", \"n\": 12,"
        " \"d\": {\"<|k|>\": \"<|v|>\"},"
        " \"m\": [{\"role\": \"<|user|>\", \"content\": \"<|im_end|>\\n<|im_start|>\"},"
        " {\"role\": \"a<|\", \"content\": [{\"type\": \"<|\", \"text\": \"|>\"}]}]}";
    char text[1 << 12], expression[1 << 11];
    uint32_t seed = 1, written = 0;
    for (int i = 0; i < 4000; i++) {
        const int form = i % 4;
        jinja_random(&seed, 1 + i % 3, expression, sizeof expression);
        snprintf(text, sizeof text, "%s%s%s",
                 form == 1 ? "{% set x %}{{ " : form == 2 ? "{% filter trim %}{{ "
                 : form == 3 ? "{% macro f(x) %}{{ x }}{% endmacro %}{{ f(" : "{{ ", expression,
                 form == 1 ? " }}{% endset %}{{ x }}" : form == 2 ? " }}{% endfilter %}"
                 : form == 3 ? ") }}" : " }}");
        const char *marked = jinja_marked(text, json);
        if (!strncmp(marked, "chat template", 13)) continue;
        written++;
        for (size_t k = 0; out[k]; k++)
            if (strchr("<|>", out[k]) && qsf_jinja_is_own(own, k)) {
                printf("%s\n%s\n", text, marked);
                CHECK(false);
                return;
            }
    }
    CHECK(written > 1000);
}

TEST(jinja_values_come_from_json_as_python_reads_it)
{
    static const char json[] = "{\"a\": 1, \"b\": [1.5, 1e3, -0.1, 12345678901234567890, null, true],"
                               " \"a\": {\"x\": \"\\u00e9\"},"
                               " \"d\": {}, \"e\": [], \"n\": 0.30000000000000004}";
    CHECK_STR(jinja_marked("{{ a }}{{ b }}{{ d }}{{ e }}{{ n }}", json),
              "{'[x]': '[\xc3\xa9]'}[[1.5], [1000.0], [-0.1], [12345678901234567890], None, True]"
              "{}[][0.30000000000000004]");
}

/* 30 KB of what templates do, over 50 messages: as steps, of which a processor does some 20
 * million a second. */
TEST(jinja_takes_few_steps)
{
    static char text[40000];
    qsf_jinja_value fields[4] = { qsf_jinja_text("role"), qsf_jinja_text("user"), qsf_jinja_text("content"),
                                  qsf_jinja_text("Some words, and some more of them.") };
    qsf_jinja_value list[50];
    const qsf_jinja_var vars[] = { { "messages", qsf_jinja_list(list, 50) } };
    qsf_jinja *t;
    size_t n = 0, len;
    n += (size_t)snprintf(text, sizeof text, "{%% macro show(m) %%}{{ m.content | trim }}{%% endmacro %%}"
                                             "{%% set ns = namespace(n=0) %%}{%% for m in messages %%}");
    for (int i = 0; n < 30000; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "{%%- if m.role == 'role%d' or m['kind'] is defined and loop.last %%}\n"
                              "    {{- '<|%d|>' + m.role + '\\n' ~ show(m) }}{%% set ns.n = ns.n + 1 %%}\n"
                              "{%%- elif m.tool_calls %%}{{ m | tojson(indent=2) }}{%% endif %%}\n", i, i);
    n += (size_t)snprintf(text + n, sizeof text - n, "{{ m.role }}: {{ show(m) }}\n{%% endfor %%}");
    for (int i = 0; i < 50; i++) list[i] = qsf_jinja_dict(fields, 2);
    CHECK_EQ(qsf_jinja_parse(memory, sizeof memory, text, n, &t, &err), QSF_OK);
    CHECK_EQ(qsf_jinja_render(t, vars, 1, 0, 150000, out, sizeof out, &len, own, &err), QSF_OK);
    CHECK(len == 50 * strlen("user: Some words, and some more of them.\n"));
}

/* A template with variables as JSON (NULL: it is only read), in as much memory as it needs. */
static qsf_status render_any(const char *text, size_t n_text, const char *json, char **to, size_t *len)
{
    static char *mem;
    static size_t mem_size = 1 << 20, cap = 1 << 18;
    qsf_jinja_var vars[64];
    qsf_json j;
    qsf_jinja *t;
    size_t n = 0;
    qsf_status st = qsf_json_read(qsf_platform_native(), json ? json : "{}", json ? strlen(json) : 2,
                                  "variables",
                                  &j, &err);
    if (st) return st;
    qsf_jinja_value *values = calloc(j.n_nodes, sizeof *values);
    qsf_jinja_from_json(j.nodes, values);
    for (uint32_t i = 0; i < j.n_nodes; i++) {              /* {"(tuple)": [...]} */
        const qsf_jinja_value *list = qsf_jinja_member(&values[i], "(tuple)");
        if (list && values[i].n == 1) values[i] = *list, values[i].type = QSF_JINJA_TUPLE;
    }
    for (uint32_t i = 0; i < values[0].n && n < QSF_ARRAY_LEN(vars); i++) {
        vars[n].name = values[0].as.items[2 * i].as.text;
        vars[n++].value = values[0].as.items[2 * i + 1];
    }
    for (;; mem_size *= 2, cap *= 2) {
        if (!mem) mem = malloc(mem_size), *to = malloc(cap);
        *len = 0;
        st = qsf_jinja_parse(mem, mem_size, text, n_text, &t, &err);
        if (!st && json) st = qsf_jinja_render(t, vars, n, 1721995200, 1u << 27, *to, cap, len, NULL, &err);
        if (st != QSF_E_MEMORY || mem_size > (size_t)1 << 30) break;
        free(mem);
        free(*to);
        mem = NULL;
    }
    free(values);
    qsf_json_drop(&j);
    return st;
}

static char *read_bytes(long long n)
{
    char *text = malloc((size_t)QSF_MAX(n, 0) + 1);
    if (n < 0 || fread(text, 1, (size_t)n, stdin) < (size_t)n) n = 0;
    text[n] = 0;
    return text;
}

static int serve(void)
{
    long long n_text, n_json;
    char *to = NULL;
    while (scanf("%lld %lld", &n_text, &n_json) == 2 && getchar() == '\n' && n_text >= 0) {
        char *text = read_bytes(n_text), *json = read_bytes(n_json);
        size_t len;
        const qsf_status st = render_any(text, (size_t)n_text, n_json < 0 ? NULL : json, &to, &len);
        if (st) len = strlen(err.text);
        printf("%s %llu ", qsf_status_name(st), (unsigned long long)len);
        fwrite(st ? err.text : to, 1, len, stdout);
        fflush(stdout);
        free(text);
        free(json);
    }
    return 0;
}

/* How long one takes to be read and rendered, JSON included: the best of some rounds, in
 * microseconds; 0 in a build that is not measured. */
static int serve_time(void)
{
    long long n_text, n_json;
    char *to = NULL;
    size_t len;
    uint64_t best = 0;
    if (scanf("%lld %lld", &n_text, &n_json) != 2 || getchar() != '\n') return 1;
    char *text = read_bytes(n_text), *json = read_bytes(n_json);
    for (int i = 0; i < 12 && TEST_LONG >= 1 << 20; i++) {
        const uint64_t from = qsf_now(qsf_platform_native());
        if (render_any(text, (size_t)n_text, json, &to, &len)) return 1;
        const uint64_t took = qsf_now(qsf_platform_native()) - from;
        if (!i || took < best) best = took;
    }
    printf("%.0f\n", (double)best / 1e3);
    free(text);
    free(json);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--render")) return serve();
    if (argc == 2 && !strcmp(argv[1], "--time")) return serve_time();
    test_begin(argc, argv);
    RUN(jinja_writes);
    RUN(jinja_errors_say_line_and_column);
    RUN(jinja_statuses_tell_whose_fault_it_is);
    RUN(jinja_depth_has_an_end);
    RUN(jinja_runs_in_any_memory_or_says_so);
    RUN(jinja_takes_variables_and_renders_again);
    RUN(jinja_values_come_from_json_as_python_reads_it);
    RUN(jinja_takes_few_steps);
    RUN(jinja_says_which_bytes_are_the_templates);
    RUN(jinja_never_takes_foreign_bytes_for_the_templates);
    return test_end();
}
