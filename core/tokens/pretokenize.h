/* Cutting text into words before BPE, as the regular expressions of each tokenizer family do, by
 * hand-written scanners: no backtracking beyond a character, time linear in the text.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PRETOKENIZE_H
#define QSF_PRETOKENIZE_H

#include "text/unicode.h"

typedef struct qsf_pretokenizer qsf_pretokenizer;

/* By GGUF's name (tokenizer.ggml.pre); NULL: unknown. */
const qsf_pretokenizer *qsf_pretokenizer_find(const char *name);
/* What else a family's BPE does differently. */
enum {
    QSF_PRE_WHOLE = 1,       /* a word that is a token is used directly, without merges */
    QSF_PRE_RAW = 2,         /* tokens are plain text, not GPT-2's byte letters; else <0xXX> */
    QSF_PRE_MARKS = 4,       /* spaces are U+2581 */
    QSF_PRE_LINES = 8,       /* QSF_PRE_WHOLE, but only for words of line ends */
    QSF_PRE_NO_SPACES = 16,  /* words of white space are dropped */
    QSF_PRE_BEGIN = 32,      /* input begins with the begin token unless the file decides */
    QSF_PRE_MASK = 64,       /* the special token <mask> takes the white space before it */
    QSF_PRE_MASK_CAPITALS = 128 /* so does [MASK] */
};
unsigned qsf_pretokenizer_rules(const qsf_pretokenizer *p);

/* Calls word(user, begin, end) for every word of c[0..n), in order and without gaps; ends at the
 * first status that is not QSF_OK. */
typedef qsf_status (*qsf_word_fn)(void *user, size_t begin, size_t end);
qsf_status qsf_pretokenize(const qsf_pretokenizer *p, const uint32_t *c, size_t n, qsf_word_fn word,
                           void *user);

#endif
