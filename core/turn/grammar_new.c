/* The public grammar functions: each compiles a grammar from a source in one format.
 * SPDX-License-Identifier: MIT */
#include "base/sized.h"
#include "model/model.h"
#include "grammar/choices.h"
#include "grammar/gbnf.h"
#include "grammar/lark.h"
#include "grammar/regex.h"
#include "grammar/schema_loosen.h"
#include "turn/grammar_new.h"

enum { GRAMMAR_MAX_TEXT = 16 << 20 };

void qsf_grammar_defaults_of(qsf_grammar_options *o, size_t size)
{
    const qsf_grammar_options ours = { .size = sizeof ours, .json_blanks = 32 };
    qsf_sized_defaults(o, size, &ours, sizeof ours);
}

static void grammar_unsaid(void *user, const char *why) { (void)user, (void)why; }

qsf_gnode qsf_grammar_nodes_of(qsf_grammar_builder *b, qsf_grammar_kind kind, const char *text, size_t len,
                               const qsf_schema_options *how)
{
    const qsf_platform *p = qsf_grammar_platform(b);
    qsf_json json;
    qsf_error err;
    switch (kind) {
    case QSF_GRAMMAR_GBNF:
        if (!qsf_lark_is(text, len)) return qsf_gbnf_nodes(b, text, len, 0);
        /* fall through */
    case QSF_GRAMMAR_LARK: return qsf_lark_nodes(b, text, len, 0);
    case QSF_GRAMMAR_REGEX: return qsf_regex_nodes(p, b, text, len, 0, "regular expression");
    case QSF_GRAMMAR_JSON: return qsf_json_nodes(p, b, how);
    case QSF_GRAMMAR_CHOICES: return qsf_choices_nodes(b, text, len);
    case QSF_GRAMMAR_JSON_SCHEMA: break;
    default: return qsf_g_fail(b, QSF_E_ARGUMENT, "unknown kind of grammar %d", (int)kind);
    }
    qsf_status st = qsf_json_read(p, text, len, "schema", &json, &err);
    if (!st && how->loose) st = qsf_schema_loosen(p, json.nodes, how, qsf_grammar_most(b), grammar_unsaid,
                                                  NULL, &err);
    if (st) {
        qsf_json_drop(&json);
        return qsf_g_fail(b, st, "%s", err.text);
    }
    const qsf_gnode root = qsf_schema_nodes(p, b, json.nodes, how);
    qsf_json_drop(&json);
    return root;
}

qsf_status qsf_grammar_new(const qsf_model *m, qsf_grammar_kind kind, const char *text, size_t len,
                           const qsf_grammar_options *opts, qsf_grammar **out, qsf_error *err)
{
    qsf_grammar_options o;
    qsf_grammar_builder *b;
    *out = NULL;
    qsf_grammar_defaults(&o);
    qsf_status st = QSF_TAKE(&o, opts, qsf_grammar_options, err);
    if (!st && len > GRAMMAR_MAX_TEXT)
        st = qsf_fail(err, QSF_E_BUDGET, "a grammar's text can have at most %u MB; this one has %llu bytes",
                      GRAMMAR_MAX_TEXT >> 20, (unsigned long long)len);
    if (st || (st = qsf_grammar_begin(m->platform, &b, err)) != 0) return st;
    qsf_grammar_limit(b, o.most_memory);
    const qsf_schema_options how = { .size = sizeof how, .blanks = o.json_blanks, .loose = o.json_loose };
    return qsf_grammar_finish(b, qsf_grammar_nodes_of(b, kind, text, len, &how), out, err);
}

void qsf_grammar_free(qsf_grammar *g) { qsf_grammar_drop(g); }

qsf_status qsf_grammar_prepare(qsf_model *m, qsf_error *err)
{
    const qsf_token_tree *tree;
    return qsf_model_token_tree(m, &tree, err);
}

bool qsf_grammar_accepts(qsf_grammar *g, const char *text, size_t len, size_t *fits)
{
    qsf_matcher *m;
    size_t n = 0;
    bool whole = false;
    if (!qsf_matcher_new(qsf_grammar_host(g), g, NULL, &m, NULL)) {
        n = qsf_matcher_bytes(m, text, len);
        whole = n == len && qsf_matcher_whole(m);
        qsf_matcher_free(m);
    }
    if (fits) *fits = n;
    return whole;
}
