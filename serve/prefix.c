/* A radix tree over the tokens of sequences.
 * SPDX-License-Identifier: MIT
 *
 * A path from the root begins with a key and continues with tokens.  A node stands for the range
 * [begin, end) of it; any sequence that passes through it lends it the tokens (`lender`).  Each
 * node except the root ends a sequence or has two children, so 2 n nodes are enough for n
 * sequences. */
#include "prefix.h"

#include <stdlib.h>

enum { NONE = -1, ROOT = 0 };

typedef struct prefix_node {
    uint32_t begin, end;
    int32_t  parent, child, sibling;        /* child: the first */
    int32_t  lender;
    int32_t  ends;                          /* the first sequence that ends here */
} prefix_node;

typedef struct prefix_seq {
    const int32_t *ids;
    uint64_t key;
    int32_t node, next;                     /* where it ends; the next that ends there, too */
} prefix_seq;

/* What a sequence's path has at a position. */
static uint64_t seq_at(const prefix_seq *q, uint32_t at) { return at ? (uint32_t)q->ids[at - 1] : q->key; }

struct prefix_tree {
    prefix_node *nodes;
    int32_t     *unused;
    uint32_t     n_unused, n_seqs;
    prefix_seq  *seqs;
};

prefix_tree *prefix_new(uint32_t n_seqs)
{
    const size_t n = 2 * (size_t)n_seqs + 2;
    prefix_tree *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    t->n_seqs = n_seqs;
    t->nodes = calloc(n, sizeof *t->nodes);
    t->unused = calloc(n, sizeof *t->unused);
    t->seqs = calloc(n_seqs, sizeof *t->seqs);
    if (!t->nodes || !t->unused || !t->seqs) return prefix_free(t), NULL;
    for (size_t i = n; i-- > 1;) t->unused[t->n_unused++] = (int32_t)i;
    for (uint32_t s = 0; s < n_seqs; s++) t->seqs[s].node = NONE;
    t->nodes[ROOT] = (prefix_node){ .parent = NONE, .child = NONE, .sibling = NONE, .lender = NONE,
                                    .ends = NONE };
    return t;
}

void prefix_free(prefix_tree *t)
{
    if (!t) return;
    free(t->nodes);
    free(t->unused);
    free(t->seqs);
    free(t);
}

bool prefix_has(const prefix_tree *t, uint32_t s) { return t->seqs[s].node != NONE; }

static const prefix_seq *node_seq(const prefix_tree *t, const prefix_node *n) { return &t->seqs[n->lender]; }

/* The child that begins with a token, or a key. */
static int32_t node_child(const prefix_tree *t, int32_t node, uint32_t at, uint64_t token)
{
    int32_t c = t->nodes[node].child;
    while (c != NONE && seq_at(node_seq(t, &t->nodes[c]), at) != token) c = t->nodes[c].sibling;
    return c;
}

/* Walks along a path of length n; *node: the last node of which something is the same.  Returns how
 * much is. */
static uint32_t prefix_walk(const prefix_tree *t, const prefix_seq *q, uint32_t n, int32_t *node)
{
    uint32_t at = 0;
    *node = ROOT;
    while (at < n && at == t->nodes[*node].end) {
        const int32_t c = node_child(t, *node, at, seq_at(q, at));
        if (c == NONE) break;
        const prefix_node *p = &t->nodes[*node = c];
        const prefix_seq *own = node_seq(t, p);
        while (at < n && at < p->end && seq_at(own, at) == seq_at(q, at)) at++;
    }
    return at;
}

uint32_t prefix_longest(const prefix_tree *t, uint64_t key, const int32_t *ids, uint32_t n, uint32_t *s)
{
    int32_t node;
    const prefix_seq q = { .ids = ids, .key = key };
    const uint32_t at = prefix_walk(t, &q, n + 1, &node);
    if (at < 2) return 0;                   /* nothing, or the key alone */
    *s = (uint32_t)t->nodes[node].lender;
    return at - 1;
}

/* ---- links ---- */

static int32_t *node_link(prefix_tree *t, int32_t node)
{
    int32_t *at = &t->nodes[t->nodes[node].parent].child;
    while (*at != node) at = &t->nodes[*at].sibling;
    return at;
}

static int32_t node_add(prefix_tree *t, int32_t parent, prefix_node n)
{
    const int32_t node = t->unused[--t->n_unused];
    n.parent = parent;
    n.sibling = t->nodes[parent].child;
    t->nodes[parent].child = node;
    t->nodes[node] = n;
    return node;
}

/* Parts a node at a position; the new node is the part before it. */
static int32_t node_part(prefix_tree *t, int32_t node, uint32_t at)
{
    const int32_t head = t->unused[--t->n_unused];
    int32_t *link = node_link(t, node);
    prefix_node *n = &t->nodes[node];
    t->nodes[head] = (prefix_node){ .begin = n->begin, .end = at, .parent = n->parent, .child = node,
                                    .sibling = n->sibling, .lender = n->lender, .ends = NONE };
    *link = head;
    n->begin = at;
    n->parent = head;
    n->sibling = NONE;
    return head;
}

void prefix_add(prefix_tree *t, uint32_t s, uint64_t key, const int32_t *ids, uint32_t n)
{
    int32_t node;
    t->seqs[s].ids = ids;
    t->seqs[s].key = key;
    const uint32_t at = prefix_walk(t, &t->seqs[s], n + 1, &node);
    if (at < t->nodes[node].end) node = node_part(t, node, at);
    if (at < n + 1)
        node = node_add(t, node, (prefix_node){ .begin = at, .end = n + 1, .child = NONE,
                                                .lender = (int32_t)s, .ends = NONE });
    t->seqs[s].node = node;
    t->seqs[s].next = t->nodes[node].ends;
    t->nodes[node].ends = (int32_t)s;
}

/* Takes a node away that nothing ends at: wholly, or by joining it with its only child. */
static void node_tidy(prefix_tree *t, int32_t node)
{
    prefix_node *n = &t->nodes[node];
    if (node == ROOT || n->ends != NONE) return;
    const int32_t child = n->child, parent = n->parent;
    if (child == NONE) {
        *node_link(t, node) = n->sibling;
        t->unused[t->n_unused++] = node;
        node_tidy(t, parent);               /* once: the parent has no child then, or another one */
    } else if (t->nodes[child].sibling == NONE) {
        *node_link(t, node) = child;
        t->nodes[child].parent = parent;
        t->nodes[child].sibling = n->sibling;
        t->nodes[child].begin = n->begin;
        t->unused[t->n_unused++] = node;
    }
}

void prefix_remove(prefix_tree *t, uint32_t s)
{
    const int32_t node = t->seqs[s].node;
    if (node == NONE) return;
    int32_t *at = &t->nodes[node].ends;
    while (*at != (int32_t)s) at = &t->seqs[*at].next;
    *at = t->seqs[s].next;
    t->seqs[s].node = NONE;
    /* Another sequence lends what s has lent: one that ends here, or continues from here. */
    int32_t lender = NONE;
    for (int32_t n = node; n != ROOT; n = t->nodes[n].parent) {
        prefix_node *p = &t->nodes[n];
        if (p->ends != NONE) lender = p->ends;
        for (int32_t c = p->child; c != NONE && lender == NONE; c = t->nodes[c].sibling)
            if (t->nodes[c].lender != (int32_t)s) lender = t->nodes[c].lender;
        if (p->lender == (int32_t)s && lender != NONE) p->lender = lender;
    }
    node_tidy(t, node);
}

int32_t prefix_within(const prefix_tree *t, uint32_t s, int32_t after)
{
    int32_t node = after == NONE ? t->seqs[s].node : t->seqs[after].node;
    int32_t at = after == NONE ? t->nodes[node].ends : t->seqs[after].next;
    for (;;) {
        if (at == (int32_t)s) at = t->seqs[at].next;
        if (at != NONE) return at;
        if (node == ROOT || node == NONE) return NONE;
        node = t->nodes[node].parent;
        at = t->nodes[node].ends;
    }
}
