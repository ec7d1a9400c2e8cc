/* Tests strings against grammars, for tests/bench/schema_bench.py: a line of JSON in, a line out.
 * SPDX-License-Identifier: MIT
 *
 *     schema_accept [MODEL.gguf]
 *
 * {"schema": {...} | "regex": "..." | "gbnf": "..." | "lark": "...", "blanks": 0, "texts": ["...",
 * ...]} gives
 *     ok US 0110...      processor time of compiling; a 1 for each string that matches
 *     error MESSAGE
 *
 * With a model's vocabulary the strings are fed token by token, each checked against a mask; the
 * line then ends in the microseconds of each mask. */
#define _POSIX_C_SOURCE 200809L     /* getline */
#include "model/model.h"
#include "grammar/gbnf.h"
#include "grammar/lark.h"
#include "grammar/regex.h"
#include "grammar/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1e6 * (double)t.tv_sec + (double)t.tv_nsec / 1e3;
}

static qsf_status make(const qsf_json_node *ask, qsf_grammar **g, qsf_error *err)
{
    const qsf_platform *p = qsf_platform_native();
    const qsf_json_node *schema = qsf_json_member(ask, "schema"), *regex = qsf_json_member(ask, "regex"),
        *gbnf = qsf_json_member(ask, "gbnf"), *lark = qsf_json_member(ask, "lark"),
        *blanks = qsf_json_member(ask, "blanks");
    qsf_grammar_builder *b;
    int64_t n = -1;
    if (blanks) qsf_json_whole(blanks, &n);
    const qsf_schema_options o = { .size = sizeof o, .blanks = n < 0 ? QSF_G_NO_MOST : (uint32_t)n };
    const qsf_status st = qsf_grammar_begin(p, &b, err);
    if (st) return st;
    const qsf_gnode root = lark ? qsf_lark_nodes(b, lark->text, lark->n, 0)
                         : gbnf ? qsf_gbnf_nodes(b, gbnf->text, gbnf->n, 0)
                         : regex ? qsf_regex_nodes(p, b, regex->text, regex->n, 0, "regex")
                         : schema ? qsf_schema_nodes(p, b, schema, &o) : qsf_json_nodes(p, b, &o);
    return qsf_grammar_finish(b, root, g, err);
}

typedef struct vocabulary {
    qsf_model            *model;
    const qsf_token_tree *tree;
    uint32_t             *mask;
    int32_t              *ids;
    size_t                cap;
} vocabulary;

/* Token by token; appends the times of the masks to `times`. */
static bool by_tokens(const vocabulary *v, qsf_matcher *m, const qsf_json_node *text, char *times, size_t cap,
                      qsf_error *err)
{
    const qsf_tokenizer *t = v->model->tokenizer;
    size_t n = 0;
    if (qsf_tokenizer_encode(t, text->text, text->n, 0, v->ids, v->cap, &n, err) || n > v->cap) return false;
    for (size_t i = 0; i < n; i++) {
        const char *bytes;
        const size_t len = qsf_tokenizer_piece(t, v->ids[i], false, &bytes), used = strlen(times);
        const double start = now_us();
        const qsf_status st = qsf_matcher_mask(m, v->mask, err);
        snprintf(times + used, cap - used, " %.2f", now_us() - start);
        if (st) {
            fprintf(stderr, "mask: %s\n", err->text);
            return false;
        }
        const bool fits = v->mask[v->ids[i] / 32] >> v->ids[i] % 32 & 1;
        if ((qsf_matcher_bytes(m, bytes, len) == len) != fits)
            fprintf(stderr, "the mask and the matcher differ\n");
        if (!fits) return false;
    }
    return qsf_matcher_whole(m);
}

static void answer(const qsf_json_node *ask, const vocabulary *v)
{
    static char times[1 << 20];
    const qsf_platform *p = qsf_platform_native();
    const qsf_json_node *texts = qsf_json_member(ask, "texts"), *t = texts ? texts + 1 : NULL;
    qsf_grammar *g = NULL;
    qsf_matcher *m = NULL;
    qsf_error err = { 0 };
    const double start = now_us();
    qsf_status st = make(ask, &g, &err);
    const double made = now_us() - start;
    times[0] = 0;
    if (!st) st = qsf_matcher_new(p, g, v->tree, &m, &err);
    if (st) {
        printf("error %s\n", err.text);
    } else {
        printf("ok %.0f ", made);
        for (uint32_t i = 0; texts && i < texts->n; i++, t = qsf_json_next(t)) {
            qsf_matcher_reset(m);
            const bool fits = v->tree ? by_tokens(v, m, t, times, sizeof times, &err)
                                      : qsf_matcher_bytes(m, t->text, t->n) == t->n && qsf_matcher_whole(m);
            putchar(fits ? '1' : '0');
        }
        printf("%s\n", times);
    }
    qsf_matcher_free(m);
    qsf_grammar_drop(g);
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    vocabulary v = { .cap = 1 << 16 };
    qsf_error err = { 0 };
    if (argc > 1) {
        qsf_model_options o;
        qsf_model_defaults(&o);
        o.vocab_only = true;
        if (qsf_model_open(argv[1], &o, &v.model, &err) || qsf_model_token_tree(v.model, &v.tree, &err)) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        v.mask = calloc(v.model->source->hp.n_vocab / 32 + 1, sizeof *v.mask);
        v.ids = calloc(v.cap, sizeof *v.ids);
    }
    while ((n = getline(&line, &cap, stdin)) > 0) {
        qsf_json j;
        if (qsf_json_read(qsf_platform_native(), line, (size_t)n, "line", &j, &err))
            printf("error %s\n", err.text);
        else answer(j.nodes, &v);
        qsf_json_drop(&j);
        fflush(stdout);
    }
    free(line);
    free(v.mask);
    free(v.ids);
    qsf_model_close(v.model);
    return 0;
}
