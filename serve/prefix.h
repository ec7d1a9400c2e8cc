/* A radix tree over the tokens of sequences: which of them begins like a prompt, and how far.
 * SPDX-License-Identifier: MIT
 *
 * A sequence has a key, and only those with the same one begin alike: it stands for what else their
 * keys and values depend on.
 *
 * Its memory is taken once.  The tokens stay where they are: a sequence's list must not move or
 * change while the tree has it. */
#ifndef QSF_SERVE_PREFIX_H
#define QSF_SERVE_PREFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct prefix_tree prefix_tree;

prefix_tree *prefix_new(uint32_t n_seqs);                /* NULL: out of memory */
void prefix_free(prefix_tree *t);                        /* takes NULL */
/* Adds sequence s with its key and tokens; it must not be in the tree. */
void prefix_add(prefix_tree *t, uint32_t s, uint64_t key, const int32_t *ids, uint32_t n);
void prefix_remove(prefix_tree *t, uint32_t s);          /* does nothing if it is not in the tree */
bool prefix_has(const prefix_tree *t, uint32_t s);
/* How many of ids[0..n) are the beginning of some sequence, which is *s. */
uint32_t prefix_longest(const prefix_tree *t, uint64_t key, const int32_t *ids, uint32_t n, uint32_t *s);
/* A sequence whose tokens are those of s, or a prefix of them; -1: no such sequence. */
int32_t prefix_within(const prefix_tree *t, uint32_t s, int32_t after);

#endif
