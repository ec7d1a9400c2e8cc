/* What the files of the reader of patterns share.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_REGEX_OWN_H
#define QSF_REGEX_OWN_H

#include "text/regex.h"

enum { RX_BEGIN = 1, RX_END = 2, RX_DEPTH = 64, RX_STACK = 512, RX_RANGES = 2048, RX_LENGTH = 1000000 };

typedef struct rx_value {
    qsf_gnode v[4];         /* 0: no text */
    uint8_t   empty;        /* bit i: v[i] has the empty text */
} rx_value;

typedef struct rx_frame {
    uint32_t alts, parts;   /* stack[alts..parts) alternatives, stack[parts..n) the sequence of now */
    uint8_t  alt_main, main;        /* which of the four sets these lists are */
    uint8_t  alt_empty, empty;      /* of all four, as in rx_value */
    bool     alt_any, dead;         /* alt_main is set; the sequence's list has no text */
    qsf_gnode alt[4], seq[4];       /* the other sets */
} rx_frame;

typedef struct regex {
    const qsf_platform  *platform;
    qsf_grammar_builder *b;
    const char *src, *what;
    size_t      len, at;
    uint32_t    flags;
    bool        failed;
    qsf_gnode   none;       /* the empty text */
    char        literal[64];
    uint32_t    n_literal, n_stack, n_ranges, depth;
    rx_frame    frames[RX_DEPTH];
    qsf_gnode   stack[RX_STACK];
    uint32_t    ranges[RX_RANGES][2];
} regex;

/* ---- regex.c ---- */
void regex_fail(regex *r, size_t at, const char *why);

/* ---- regex_class.c ---- */
void regex_range(regex *r, uint32_t from, uint32_t to);
/* Sorted ranges, or all that is in none of them. */
void regex_set(regex *r, const uint32_t (*set)[2], size_t n, bool negated);
/* Sorts and joins ranges[from..); negates them where asked. */
void regex_tidy(regex *r, uint32_t from, bool negated);
/* What stands behind \\p: adds its ranges. */
void regex_property(regex *r, bool negated);
qsf_gnode regex_class(regex *r);                /* the node of all ranges, which are used up */

#endif
