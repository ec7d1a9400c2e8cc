/* Fuzz target: any text as a pattern, as it stands and as JSON Schema reads it.  It is refused, or
 * it becomes a grammar, whose forced bytes fit it.
 * SPDX-License-Identifier: MIT */
#include "grammar/regex.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_pattern(const char *text, size_t n, uint32_t flags)
{
    const qsf_platform *p = qsf_platform_native();
    qsf_grammar_builder *b;
    qsf_grammar *g = NULL;
    qsf_matcher *m = NULL;
    qsf_error err = { 0 };
    char forced[256];
    if (qsf_grammar_begin(p, &b, &err)) return;
    const qsf_status st = qsf_grammar_finish(b, qsf_regex_nodes(p, b, text, n, flags, "fuzz"), &g, &err);
    if (st && st != QSF_E_ARGUMENT && st != QSF_E_BUDGET && st != QSF_E_MEMORY) abort();
    if (!st == !g || (st && !err.text[0])) abort();
    if (g && !qsf_matcher_new(p, g, NULL, &m, &err)) {
        const size_t len = qsf_matcher_forced(m, forced, sizeof forced);
        if (qsf_matcher_bytes(m, forced, len) != len) abort();
        qsf_matcher_reset(m);
        qsf_matcher_bytes(m, text, QSF_MIN(n, 64));
    }
    qsf_matcher_free(m);
    qsf_grammar_drop(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size ? size : 1);
    if (size > 300) size = 300;         /* longer ones only take longer */
    if (size) memcpy(text, data, size);
    fuzz_pattern(text, size, 0);
    fuzz_pattern(text, size, QSF_REGEX_SEARCH | QSF_REGEX_JSON);
    free(text);
    return 0;
}
