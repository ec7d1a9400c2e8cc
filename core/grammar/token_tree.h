/* The tokens of a vocabulary as a tree, for masks.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TOKEN_TREE_H
#define QSF_TOKEN_TREE_H

#include "base/host.h"
#include "tokens/tokenizer.h"

/* The tokens of a vocabulary as a tree of bytes.  A control token's are 0xff, which is in no text,
 * and its own text: it comes only if a grammar names it so (tools_grammar.c).  One for each
 * model, made when the first grammar is. */
typedef struct qsf_token_tree qsf_token_tree;
qsf_status qsf_token_tree_new(const qsf_platform *p, const qsf_tokenizer *t, uint32_t n_vocab,
                              qsf_token_tree **out, qsf_error *err);
void       qsf_token_tree_free(qsf_token_tree *t);              /* takes NULL */

#endif
