/* Grammars: the allowed answers as an automaton over bytes, and the tokens that can come next.
 * SPDX-License-Identifier: MIT
 *
 * Once made, a qsf_grammar is read-only, except for tables that it fills during use; so only one
 * thread at a time may use it.  A matcher is a position in an answer; a grammar may have many. */
#ifndef QSF_GRAMMAR_H
#define QSF_GRAMMAR_H

#include "grammar/token_tree.h"

/* In a string that begins a turn's grammar: the answer begins here.  No text contains it. */
enum { QSF_TEXT_BEGIN = 2 };

typedef struct qsf_grammar qsf_grammar;

void       qsf_grammar_drop(qsf_grammar *g);                    /* takes NULL */
const qsf_platform *qsf_grammar_host(const qsf_grammar *g);     /* that it was made with */
uint64_t   qsf_grammar_memory(const qsf_grammar *g);            /* bytes, as in qsf.h */

typedef struct qsf_matcher qsf_matcher;
/* tree may be NULL: bytes only. */
qsf_status qsf_matcher_new(const qsf_platform *p, qsf_grammar *g, const qsf_token_tree *tree,
                           qsf_matcher **out, qsf_error *err);
void       qsf_matcher_free(qsf_matcher *m);                    /* takes NULL */
void       qsf_matcher_reset(qsf_matcher *m);                   /* back to the beginning */
/* Advances by bytes[0..n).  Returns how many of them fit; if that is less than n, the matcher does
 * not move. */
size_t     qsf_matcher_bytes(qsf_matcher *m, const char *bytes, size_t n);
/* The same with a token: false if it does not fit.  A token that ends an answer fits if the text is
 * complete, and changes nothing. */
bool       qsf_matcher_token(qsf_matcher *m, int32_t id);
/* Moves to the position of another matcher of the same grammar: to try tokens and come back. */
void       qsf_matcher_copy(qsf_matcher *m, const qsf_matcher *from);
/* Whether the text so far is complete. */
bool       qsf_matcher_whole(const qsf_matcher *m);
/* Whether nothing can follow. */
bool       qsf_matcher_over(const qsf_matcher *m);
/* Writes the bytes that must come next, at most cap, and returns their number. */
size_t     qsf_matcher_forced(const qsf_matcher *m, char *out, size_t cap);
/* Sets bit i of mask[ceil(n_vocab / 32)] if token i can come next; the bits of tokens that end an
 * answer are set if the text is complete.  QSF_E_CORRUPT: no token fits, a bug in libqsf. */
qsf_status qsf_matcher_mask(qsf_matcher *m, uint32_t *mask, qsf_error *err);

#endif
