/* Grammars: what an answer may be, as an automaton over bytes; and which tokens can come next.
 * SPDX-License-Identifier: MIT
 *
 * A qsf_grammar is read only once it is made, but for tables that it fills as it is used: one user
 * at a time.  A matcher is a place in an answer under a grammar. */
#ifndef QSF_GRAMMAR_H
#define QSF_GRAMMAR_H

#include "base/host.h"
#include "text/tokenizer.h"

typedef struct qsf_grammar qsf_grammar;

/* The tokens of a vocabulary as a tree of bytes; control tokens are not in it.  One for each model,
 * made when the first grammar is. */
typedef struct qsf_token_tree qsf_token_tree;
qsf_status qsf_token_tree_new(const qsf_platform *p, const qsf_tokenizer *t, uint32_t n_vocab,
                              qsf_token_tree **out, qsf_error *err);
void       qsf_token_tree_free(qsf_token_tree *t);              /* takes NULL */
uint64_t   qsf_token_tree_memory(const qsf_token_tree *t);

void       qsf_grammar_drop(qsf_grammar *g);                    /* takes NULL */

typedef struct qsf_matcher qsf_matcher;
/* tree may be NULL: bytes only. */
qsf_status qsf_matcher_new(const qsf_platform *p, qsf_grammar *g, const qsf_token_tree *tree,
                           qsf_matcher **out, qsf_error *err);
void       qsf_matcher_free(qsf_matcher *m);                    /* takes NULL */
void       qsf_matcher_reset(qsf_matcher *m);                   /* back to the beginning */
/* Goes on by bytes[0..n).  Returns how many of them fit; where that is less than n, the matcher
 * stays where it was. */
size_t     qsf_matcher_bytes(qsf_matcher *m, const char *bytes, size_t n);
/* Whether the text so far is whole. */
bool       qsf_matcher_whole(const qsf_matcher *m);
/* Whether nothing can follow. */
bool       qsf_matcher_over(const qsf_matcher *m);
/* Writes the bytes that must come next, at most cap; returns how many that are. */
size_t     qsf_matcher_forced(const qsf_matcher *m, char *out, size_t cap);
/* Sets bit i of mask[ceil(n_vocab / 32)] where token i can come next; the bits of tokens that end
 * an answer are set where the text is whole.  Where no token fits, which is an error of ours:
 * QSF_E_CORRUPT. */
qsf_status qsf_matcher_mask(qsf_matcher *m, uint32_t *mask, qsf_error *err);

#endif
