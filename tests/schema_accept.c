/* Tries texts against grammars, for tests/schema_bench.py: a line of JSON in, a line out.
 * SPDX-License-Identifier: MIT
 *
 * {"schema": {...} | "regex": "..." | "json": true, "blanks": 0, "texts": ["...", ...]}
 *   -> ok COMPILE_US MEMORY 0110...      a 1 for each text that fits from its beginning to its end
 *   -> error MESSAGE */
#include "text/regex.h"
#include "text/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + (double)t.tv_nsec / 1e3;
}

static qsf_status make(const qsf_json_node *ask, qsf_grammar **g, qsf_error *err)
{
    const qsf_platform *p = qsf_platform_native();
    const qsf_json_node *schema = qsf_json_member(ask, "schema"), *regex = qsf_json_member(ask, "regex"),
        *blanks = qsf_json_member(ask, "blanks");
    qsf_grammar_builder *b;
    int64_t n = -1;
    if (blanks) qsf_json_whole(blanks, &n);
    const qsf_schema_options o = { .size = sizeof o, .blanks = n < 0 ? QSF_G_NO_MOST : (uint32_t)n };
    const qsf_status st = qsf_grammar_begin(p, &b, err);
    if (st) return st;
    const qsf_gnode root = regex ? qsf_regex_nodes(p, b, regex->text, regex->n, 0, "regex")
                         : schema ? qsf_schema_nodes(p, b, schema, &o) : qsf_json_nodes(p, b, &o);
    return qsf_grammar_finish(b, root, g, err);
}

static void answer(const qsf_json_node *ask)
{
    const qsf_platform *p = qsf_platform_native();
    const qsf_json_node *texts = qsf_json_member(ask, "texts"), *t = texts ? texts + 1 : NULL;
    qsf_grammar *g = NULL;
    qsf_matcher *m = NULL;
    qsf_error err = { 0 };
    const double start = now_us();
    qsf_status st = make(ask, &g, &err);
    const double made = now_us() - start;
    if (!st) st = qsf_matcher_new(p, g, NULL, &m, &err);
    if (st) {
        printf("error %s\n", err.text);
    } else {
        printf("ok %.0f ", made);
        for (uint32_t i = 0; texts && i < texts->n; i++, t = qsf_json_next(t)) {
            qsf_matcher_reset(m);
            putchar(qsf_matcher_bytes(m, t->text, t->n) == t->n && qsf_matcher_whole(m) ? '1' : '0');
        }
        putchar('\n');
    }
    qsf_matcher_free(m);
    qsf_grammar_drop(g);
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    while ((n = getline(&line, &cap, stdin)) > 0) {
        qsf_json j;
        qsf_error err = { 0 };
        if (qsf_json_read(qsf_platform_native(), line, (size_t)n, "line", &j, &err)) printf("error %s\n", err.text);
        else answer(j.nodes);
        qsf_json_drop(&j);
        fflush(stdout);
    }
    free(line);
    return 0;
}
