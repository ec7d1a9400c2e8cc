/* Fuzz target: any JSON as a schema, with blanks and without.  It is refused with a message, or it
 * becomes a grammar; what the compact one takes, the other takes as well.
 * SPDX-License-Identifier: MIT */
#include "grammar/schema.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static qsf_matcher *fuzz_make(const qsf_json_node *v, uint32_t blanks, qsf_grammar **g)
{
    const qsf_platform *p = qsf_platform_native();
    const qsf_schema_options o = { .size = sizeof o, .blanks = blanks };
    qsf_grammar_builder *b;
    qsf_matcher *m = NULL;
    qsf_error err = { 0 };
    *g = NULL;
    if (qsf_grammar_begin(p, &b, &err)) return NULL;
    const qsf_status st = qsf_grammar_finish(b, qsf_schema_nodes(p, b, v, &o), g, &err);
    if (st && st != QSF_E_ARGUMENT && st != QSF_E_BUDGET && st != QSF_E_MEMORY) abort();
    if (!st == !*g || (st && !err.text[0])) abort();
    if (*g) qsf_matcher_new(p, *g, NULL, &m, &err);
    return m;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const texts[] = {
        "1", "\"a\"", "[]", "{}", "null", "[1,\"a\"]", "{\"a\":1,\"b\":[]}"
    };
    qsf_json j;
    qsf_error err;
    qsf_grammar *g, *h;
    char forced[512];
    char *text = malloc(size ? size : 1);
    if (size > 4096) size = 4096;
    if (size) memcpy(text, data, size);
    if (!qsf_json_read(qsf_platform_native(), text, size, "fuzz", &j, &err)) {
        qsf_matcher *m = fuzz_make(j.nodes, 0, &g), *w = fuzz_make(j.nodes, 2, &h);
        qsf_json_drop(&j);
        if (m && w) {
            const size_t n = qsf_matcher_forced(m, forced, sizeof forced);
            if (qsf_matcher_bytes(m, forced, n) != n || qsf_matcher_bytes(w, forced, n) != n) abort();
            for (size_t i = 0; i < QSF_ARRAY_LEN(texts); i++) {
                const size_t len = strlen(texts[i]);
                qsf_matcher_reset(m);
                qsf_matcher_reset(w);
                if (qsf_matcher_bytes(m, texts[i], len) == len && qsf_matcher_whole(m)
                    && (qsf_matcher_bytes(w, texts[i], len) != len || !qsf_matcher_whole(w))) abort();
            }
        }
        qsf_matcher_free(m);
        qsf_matcher_free(w);
        qsf_grammar_drop(g);
        qsf_grammar_drop(h);
    }
    free(text);
    return 0;
}
