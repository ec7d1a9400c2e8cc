/* The automaton's tables, shared by its parts.
 * SPDX-License-Identifier: MIT
 *
 * A grammar is a graph of unique nodes, each a set of strings.  A matcher's state is a node too:
 * the set of strings that may follow.  A byte leads from a node to its derivative, the rests of
 * its strings that begin with the byte; pending parts (callers of rules, the rest of a sequence)
 * are the tail of a sequence.  So no stack is needed, equal states have equal numbers, and only
 * states that an input reaches are created.  Brzozowski 1964; Antimirov 1996; Owens, Reppy and
 * Turon 2009. */
#ifndef QSF_GRAMMAR_OWN_H
#define QSF_GRAMMAR_OWN_H

#include "grammar/grammar_nodes.h"

typedef enum gram_kind {
    GK_NONE, GK_EMPTY,      /* no string; the empty string */
    GK_LIT,                 /* bytes[a..a+b) */
    GK_SET,                 /* one byte of sets[a] */
    GK_SEQ,                 /* a, then b */
    GK_CHOICE, GK_AND,      /* one, all of lists[a..a+b), in order */
    GK_NEG,                 /* all byte strings except those of a */
    GK_REP,                 /* b to c times a */
    GK_RULE,                /* rules[a] */
    GK_FULL                 /* the strings of a without the empty one */
} gram_kind;

enum {                      /* nodes of every grammar; 0 is none */
    GRAM_NONE = 1, GRAM_EMPTY = 2, GRAM_ANY_BYTE = 3, GRAM_ALL = 4, GRAM_UTF8 = 5
};
enum {
    GF_NULLABLE = 1,        /* the empty string fits */
    GF_DEAD     = 2,        /* no string fits */
    GF_LIVE     = 4,        /* of GK_AND: known not to be dead */
    GF_RULES    = 8,        /* it contains a rule */
    GF_UTF8     = 16,       /* all its strings are UTF-8 */
    GF_SEEN     = 32,
    GF_RAW      = 64,       /* of its row: may lead to nodes that are dead */
    GF_PLAIN    = 128       /* known to take any plain characters: grammar_plain.c */
};
enum {
    GRAM_LEVELS      = 32,          /* nesting of "both" and "not", which is also the depth of recursion */
    GRAM_MAX_NODES   = 1 << 20,     /* of the grammar as built */
    GRAM_MAX_SEARCH  = 1 << 15,     /* nodes visited to find out whether one matches any string */
    GRAM_MAX_WAYS    = 1 << 13,
    GRAM_MAX_EFFORT  = 1 << 19,     /* of the nodes with many ways that are made for one question: */
    GRAM_FEW_WAYS    = 64, GRAM_WAY_EFFORT = 8,         /* atoms, and the ways among them, less */
    GRAM_BYTE_EFFORT = 256,         /* for each byte: long strings may take more */
    GRAM_DEEP        = 8            /* nested tails whose equal beginnings are merged */
};
#define GRAM_MAX_MEMORY ((uint64_t)96 << 20)
/* Tables beyond what was built are discarded when they are larger than this. */
#define GRAM_KEEP_MEMORY ((uint64_t)24 << 20)
enum {                      /* what is cached for masks, and the work to find it */
    GRAM_HEADS = 16, GRAM_MASKS = 24, GRAM_PLAIN_KEPT = 256, GRAM_PLAIN_WORK = 160
};

typedef struct gram_node {
    uint8_t  kind, flags, level;
    uint8_t  search;        /* the one that has met it */
    uint32_t a, b, c;
    uint32_t row;           /* of rows; 0: not made */
} gram_node;

typedef struct gram_mem { void *p; uint32_t n, cap; } gram_mem;
#define GRAM_U32(m) ((uint32_t *)(m).p)
#define GRAM_U64(m) ((uint64_t *)(m).p)
#define GRAM_PAIR(h, l) ((uint64_t)(h) << 32 | (l))

/* What is known of a part that many tokens stay inside. */
typedef struct gram_head {
    uint32_t key;           /* the part, and then a byte of what follows; 0: free */
    uint32_t used;
    gram_mem bits;          /* uint32_t: tokens that stay inside */
    gram_mem left;          /* uint64_t: nodes of the tree after it, with branches; characters */
    /* if characters are counted */
    bool     plain;         /* plain tokens stay inside: they are in no list */
    uint32_t most;          /* characters of a token in the list or, if plain, of a plain one */
    gram_mem inside;        /* uint64_t: tokens that stay inside; characters, also begun ones */
    gram_mem ends;          /* uint64_t: tokens that end right after it; characters */
} gram_head;
typedef struct gram_note { uint32_t node; char where[QSF_G_WHERE]; } gram_note;
typedef struct gram_kept { uint32_t key, used; gram_mem bits; } gram_kept;

struct qsf_grammar {
    const qsf_platform *platform;
    uint64_t    memory;
    qsf_status  status;             /* the first failure */
    qsf_error   err;

    gram_mem    nodes;              /* gram_node */
    gram_mem    lists, bytes, sets; /* uint32_t; bytes; uint32_t[8] */
    gram_mem    rules;              /* uint32_t bodies; 0: not defined */
    gram_mem    notes;              /* gram_note; none once the grammar is finished */
    uint32_t   *table, table_mask;  /* hash of a node -> its number; 0: empty */

    uint32_t    root;
    uint32_t    base_nodes, base_lists;             /* what was built: the rest can be made again */
    uint8_t     classes[256], sample[256];          /* of bytes that no node tells apart; one byte of each */
    uint8_t     class_size[256];                    /* bytes in it, 256 as 0 */
    uint32_t    n_classes;
    gram_mem    plain;              /* bytes of plain characters, by class: grammar_plain.c */
    uint32_t    plain_of[GRAM_PLAIN_KEPT];          /* answers of qsf_gram_plain, with the node */
    uint32_t    plain_work;                         /* nodes that it looked at for one mask */
    gram_mem    rows;               /* uint32_t[n_classes] derivatives */

    /* what functions work in, each above what it finds there */
    gram_mem    work, pairs, alts, memo, seen;
    uint32_t    n_seen, turn;
    uint32_t    ways, effort;       /* of qsf_gram_expand; since the last question */
    uint8_t     searches, deep;     /* under way: of qsf_gram_live, of qsf_gram_choice */

    qsf_matcher *matchers;          /* all, as a list */
    uint64_t    most_memory;        /* GRAM_MAX_MEMORY, or less */
    uint64_t    keep_memory;        /* GRAM_KEEP_MEMORY, or less */

    uint64_t    print;              /* of the tree that what follows is of */
    uint32_t    clock;
    gram_head   heads[GRAM_HEADS];
    gram_kept   masks[GRAM_MASKS];  /* whole masks of nodes */
    gram_mem    scratch, left;      /* of a head under construction */
};

struct qsf_grammar_builder { qsf_grammar g; };

static inline gram_node *gram_at(const qsf_grammar *g, uint32_t id) { return (gram_node *)g->nodes.p + id; }
static inline bool gram_is(const qsf_grammar *g, uint32_t id, int flag)
{
    return gram_at(g, id)->flags & flag;
}
static inline bool gram_has_byte(const qsf_grammar *g, uint32_t set, uint8_t byte)
{
    return GRAM_U32(g->sets)[8 * (size_t)set + byte / 32] >> byte % 32 & 1;
}

/* ---- grammar_nodes.c ---- */
qsf_status qsf_gram_fail(qsf_grammar *g, qsf_status st, const char *fmt, ...) QSF_PRINTF(3, 4);
/* Room for n more elements; NULL: out of memory, and the grammar has failed. */
void    *qsf_gram_push(qsf_grammar *g, gram_mem *m, size_t size, uint32_t n);
void     qsf_gram_release(qsf_grammar *g, gram_mem *m, size_t size);
void     qsf_gram_sort(uint64_t *v, size_t n);
/* These make a node or find it; 0: the grammar has failed. */
uint32_t qsf_gram_seq(qsf_grammar *g, uint32_t a, uint32_t b);
uint32_t qsf_gram_rep(qsf_grammar *g, uint32_t part, uint32_t least, uint32_t most);
uint32_t qsf_gram_lit(qsf_grammar *g, uint32_t at, uint32_t n);
uint32_t qsf_gram_bytes(qsf_grammar *g, const char *bytes, size_t n);
uint32_t qsf_gram_node_of(qsf_grammar *g, gram_kind kind, uint32_t a, uint32_t b, uint32_t c);  /* verbatim */
uint32_t qsf_gram_set(qsf_grammar *g, const uint32_t bits[8]);
uint32_t qsf_gram_one(qsf_grammar *g, gram_kind kind, uint32_t a); /* GK_NEG, GK_FULL */
/* Adds a node, or each member of a GK_CHOICE, to the list under construction at the end of alts. */
void     qsf_gram_alt(qsf_grammar *g, uint32_t id);
/* The union and intersection of alts[from..), which are removed. */
uint32_t qsf_gram_union(qsf_grammar *g, uint32_t from);
uint32_t qsf_gram_and(qsf_grammar *g, uint32_t from);
void     qsf_gram_flags(const qsf_grammar *g, gram_node *n);       /* from its parts' */
bool     qsf_gram_rehash(qsf_grammar *g, uint32_t least);
/* Part i of a node; 0: past the last one. */
uint32_t qsf_gram_part(const qsf_grammar *g, const gram_node *n, uint32_t i);

/* ---- grammar.c ---- */
const uint32_t *qsf_gram_row_make(qsf_grammar *g, uint32_t id);
/* The derivatives of a node, by class of byte: GRAM_NONE if the byte cannot come.  Valid until the
 * next row is made.  NULL: the grammar has failed. */
static inline const uint32_t *gram_row(qsf_grammar *g, uint32_t id)
{
    const gram_node *n = gram_at(g, id);
    return n->row && !(n->flags & GF_RAW) ? GRAM_U32(g->rows) + n->row : qsf_gram_row_make(g, id);
}
/* Appends what a node can begin with to pairs, as (atom, what follows it).  Atoms are GK_LIT of
 * one byte or more, GK_SET, GK_AND and GK_NEG; with heads, also nodes of any kind that may be a
 * head. */
void     qsf_gram_expand(qsf_grammar *g, uint32_t id, bool heads);
/* The node of alts[from..), which are removed.  Tails of equal heads are merged, so that
 * alternatives with a common beginning are one node until they differ. */
uint32_t qsf_gram_choice(qsf_grammar *g, uint32_t from);
/* Whether a GK_AND matches any string. */
bool     qsf_gram_live(qsf_grammar *g, uint32_t id);
/* qsf_gram_new: whether this is its first call with this pair since qsf_gram_forget. */
void     qsf_gram_forget(qsf_grammar *g);
bool     qsf_gram_new(qsf_grammar *g, uint64_t pair);

/* ---- grammar_settle.c ---- */
/* Appends all nodes that are reachable from the root to pairs, parts before their parents. */
void     qsf_gram_order(qsf_grammar *g);
/* Propagates GF_NULLABLE and GF_DEAD through rules, for the nodes in pairs. */
void     qsf_gram_settle(qsf_grammar *g);

/* ---- grammar_left.c ---- */
/* Removes left recursion: rules that begin with themselves. */
void     qsf_gram_unleft(qsf_grammar *g);

/* ---- grammar_match.c ---- */
/* Between two queries: discards what can be made again, if it is large. */
void     qsf_gram_tidy(qsf_grammar *g);
struct qsf_matcher {
    qsf_grammar          *grammar;
    const qsf_token_tree *tree;
    uint32_t              at;       /* the node of what may follow */
    qsf_matcher          *next;     /* of the grammar's */
    void                 *stack;    /* of a walk */
    uint64_t              walked;   /* nodes of the tree, for the last mask */
};

/* ---- grammar_mask.c ---- */
enum { GRAM_FRAME = 16 };           /* bytes of a place in the stack */
void     qsf_gram_forget_masks(qsf_grammar *g);

/* ---- grammar_plain.c ---- */
enum { GRAM_PLAIN_STEP = 3 };       /* bytes of an element of g->plain */
/* The number of characters up to which plain tokens certainly fit after a node: at most TOKEN_FEW,
 * or TOKEN_ANY. */
uint32_t qsf_gram_plain(qsf_grammar *g, uint32_t id);
/* Whether any plain character leads from a node to itself. */
bool     qsf_gram_plain_stays(qsf_grammar *g, uint32_t id);

/* ---- token_tree.c ---- */
/* A node of the tree: a byte; the nodes of its children follow it in the list. */
typedef struct token_node {
    uint32_t skip_byte;             /* nodes of the whole branch << 8 | the byte */
    uint32_t token;                 /* 1 + the token that ends here, 0: none; TOKEN_CHARS << 26 */
} token_node;
#define TOKEN_ID(token) ((token) & 0x3ffffffu)
/* Most characters of the tokens of the branch, up to TOKEN_ANY; 0: not all of them are plain. */
#define TOKEN_CHARS(token) ((token) >> 26)
#define TOKEN_MARK(id, chars) ((id) | (uint32_t)(chars) << 26)
enum { TOKEN_FEW = 16, TOKEN_ANY = 63 };
/* Whether a branch's tokens are plain ones of at most `chars` characters. */
static inline bool token_within(uint32_t token, uint32_t chars) { return TOKEN_CHARS(token) - 1 < chars; }
struct qsf_token_tree {
    const qsf_platform  *platform;
    const qsf_tokenizer *tokenizer;
    token_node *nodes;
    uint32_t    n_nodes, cap, depth, n_vocab, n_ends;
    uint64_t    print;              /* of its nodes: equal trees have equal ones */
    int32_t    *ends;               /* [n_ends] tokens that end an answer */
    /* Plain tokens: characters that JSON writes unescaped; the last one may be incomplete. */
    uint8_t    *chars;              /* [n_vocab] how many; 0: not plain */
    uint32_t   *plain;              /* [TOKEN_FEW + 1][ceil(n_vocab / 32)] all; those of at most 1, 2 ... */
    uint32_t   *longer;             /* [n_longer] of more than TOKEN_FEW characters */
    uint32_t    n_longer, most_chars;
};
#endif
