/* Cutting text into words before BPE, as the regular expressions of each tokenizer family do, by
 * hand-written scanners: no backtracking beyond a character, time linear in the text.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PRETOKENIZE_H
#define QSF_PRETOKENIZE_H

#include "text/unicode.h"

typedef struct qsf_pretokenizer qsf_pretokenizer;

/* By GGUF's name (tokenizer.ggml.pre); NULL: unknown. */
const qsf_pretokenizer *qsf_pretokenizer_find(const char *name);
/* Whole words that are tokens are taken as they are, whatever the merges say. */
bool qsf_pretokenizer_ignores_merges(const qsf_pretokenizer *p);

/* Calls word(user, begin, end) for every word of c[0..n), in order and without gaps; ends at the
 * first status that is not QSF_OK. */
typedef qsf_status (*qsf_word_fn)(void *user, size_t begin, size_t end);
qsf_status qsf_pretokenize(const qsf_pretokenizer *p, const uint32_t *c, size_t n, qsf_word_fn word,
                           void *user);

#endif
