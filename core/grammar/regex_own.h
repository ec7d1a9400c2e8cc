/* What the files of the reader of patterns share.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_REGEX_OWN_H
#define QSF_REGEX_OWN_H

#include "grammar/regex.h"

enum { RX_DEPTH = 64, RX_RANGES = 2048, RX_LENGTH = 1000000, RX_CLASSES = 3, RX_PARTS = 12,
       RX_LOOKS = 500 };       /* most assertions in a pattern */

/* Flags of a group, as bits in the order of rx_flags' letters. */
enum { RX_CASELESS = 1, RX_DOT_ALL = 2, RX_LINES = 4 };

typedef enum rx_kind {
    RX_LEAF, RX_SEQUENCE, RX_CHOICE, RX_REPEAT,
    /* assertions, which match the empty string */
    RX_AHEAD, RX_BEHIND, RX_EDGE, RX_NO_EDGE, RX_BEGIN, RX_END, RX_LINE_BEGIN, RX_LINE_END
} rx_kind;

typedef struct rx_node {
    uint8_t   kind;
    bool      negated, nullable;
    bool      single;       /* a leaf that matches one character */
    bool      looks;        /* contains an assertion */
    bool      behind;       /* contains one that looks back */
    uint32_t  last, prev;   /* its last child; the child before this one; 0: none */
    uint32_t  least, most;
    uint32_t  size, at;     /* number of nodes in it; where it ends in the pattern */
    qsf_gnode leaf;
} rx_node;

typedef struct rx_frame {
    uint8_t  kind, flags;   /* RX_CHOICE, RX_AHEAD, RX_BEHIND */
    bool     negated;
    uint32_t choice, sequence;      /* the last alternative; the last node of the current one */
} rx_frame;

typedef struct regex {
    const qsf_platform  *platform;
    qsf_grammar_builder *b;
    const char *src, *what;
    size_t      len, at;
    uint32_t    flags;
    bool        failed;
    uint8_t     group_flags;
    char        literal[64];
    uint32_t    n_literal, n_literal_chars, n_ranges, depth;
    rx_frame    frames[RX_DEPTH];
    uint32_t    ranges[RX_RANGES][2];
    rx_node    *nodes;
    uint32_t    n_nodes, cap_nodes;
    /* ---- regex_nodes.c ---- */
    qsf_gnode   empty, none, any_char, any, word;
    qsf_gnode   all;                    /* any bytes: what a lookahead allows after itself */
    qsf_gnode   classes[RX_CLASSES];    /* the classes that conditions on the preceding character test */
    uint32_t    n_classes, n_looks;
} regex;

/* ---- regex_fail.c ---- */
void qsf_regex_fail(regex *r, size_t at, const char *why);

/* ---- regex_nodes.c ---- */
qsf_gnode qsf_regex_nodes_of(regex *r, uint32_t root);

/* ---- regex_class.c ---- */
enum { REGEX_WORDS = 4 };
extern const uint32_t qsf_regex_words[REGEX_WORDS][2];  /* \w */
void qsf_regex_range(regex *r, uint32_t from, uint32_t to);
/* The same, with all case variants of these characters if case is ignored; whether there are
 * any. */
bool qsf_regex_cased(regex *r, uint32_t from, uint32_t to);
/* Sorted ranges, or all that is in none of them. */
void qsf_regex_set(regex *r, const uint32_t (*set)[2], size_t n, bool negated);
/* Sorts and joins ranges[from..); negates them if asked. */
void qsf_regex_tidy(regex *r, uint32_t from, bool negated);
/* Reads what follows \\p, and adds its ranges. */
void qsf_regex_property(regex *r, bool negated);
qsf_gnode qsf_regex_class(regex *r);            /* the node of all ranges, which are used up */

#endif
