/* Fuzz target: any text as a grammar, in GBNF or, if it looks like it, in Lark.  If it is valid,
 * tokens allowed by its masks are taken: the matcher must accept them, and they must never lead to
 * a dead end.
 * SPDX-License-Identifier: MIT */
#include "small_vocab.h"
#include "grammar/gbnf.h"
#include "grammar/lark.h"
#include "grammar/regex.h"

#include <stdlib.h>

/* Of the ways through one grammar: some allow much at each token. */
enum { FUZZ_GBNF_SECONDS = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A way through the grammar that the seed chooses. */
static void fuzz_way(qsf_matcher *m, const qsf_tokenizer *t, uint32_t seed, uint64_t end)
{
    uint32_t mask[BPE_TOKENS / 32 + 1];
    qsf_error err;
    char forced[16];
    for (int i = 0; i < 48 && !qsf_matcher_over(m) && qsf_now(qsf_platform_native()) < end; i++) {
        const size_t n = qsf_matcher_forced(m, forced, sizeof forced);
        const qsf_status st = qsf_matcher_mask(m, mask, &err);
        if (st == QSF_E_BUDGET || st == QSF_E_MEMORY) return;
        if (st) abort();
        seed = seed * 1664525 + 1013904223;
        uint32_t id = (seed >> 8) % BPE_TOKENS, tried = 0;
        while (tried++ < BPE_TOKENS
               && (!(mask[id / 32] >> id % 32 & 1) || qsf_tokenizer_is_end(t, (int32_t)id)))
            id = (id + 1) % BPE_TOKENS;
        if (tried > BPE_TOKENS) {               /* only the end can come */
            if (!qsf_matcher_whole(m) || n) abort();
            return;
        }
        const char *bytes;
        const size_t len = qsf_tokenizer_piece(t, (int32_t)id, false, &bytes);
        if (n && memcmp(bytes, forced, QSF_MIN(n, len))) abort();
        if (!qsf_matcher_token(m, (int32_t)id) && qsf_matcher_mask(m, mask, &err) != QSF_E_BUDGET) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static small_vocab s;
    const qsf_platform *p = qsf_platform_native();
    qsf_grammar_builder *b;
    qsf_grammar *g = NULL;
    qsf_tokenizer *t = NULL;
    qsf_token_tree *tree = NULL;
    qsf_matcher *m = NULL;
    char *text = malloc(size ? size : 1);
    if (size) memcpy(text, data, size);
    small_bpe(&s, "gpt-2");
    if (qsf_tokenizer_new(p, &s.v, &t, NULL) || qsf_token_tree_new(p, t, BPE_TOKENS, &tree, NULL)) abort();
    if (qsf_grammar_begin(p, &b, NULL)) abort();
    const uint32_t flags = size % 2 ? QSF_REGEX_JSON : 0;
    const qsf_gnode root = qsf_lark_is(text, size) ? qsf_lark_nodes(b, text, size, flags)
                                                   : qsf_gbnf_nodes(b, text, size, flags);
    const qsf_status st = qsf_grammar_finish(b, root, &g, NULL);
    if (st && st != QSF_E_ARGUMENT && st != QSF_E_CORRUPT && st != QSF_E_UNSUPPORTED && st != QSF_E_BUDGET
        && st != QSF_E_MEMORY)
        abort();
    const uint64_t end = qsf_now(p) + FUZZ_GBNF_SECONDS * (uint64_t)1000000000;
    if (!st && !qsf_matcher_new(p, g, tree, &m, NULL))
        for (uint32_t seed = 1; seed <= 3; seed++) {
            qsf_matcher_reset(m);
            fuzz_way(m, t, seed * 77 + (uint32_t)size, end);
        }
    qsf_matcher_free(m);
    qsf_grammar_drop(g);
    qsf_token_tree_free(tree);
    qsf_tokenizer_free(t);
    free(text);
    return 0;
}
