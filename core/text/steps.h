/* A tokenizer as a list of steps, as Hugging Face's tokenizer.json describes one: what becomes of
 * the text, where it is cut, which model makes tokens of the pieces, and how tokens become text.
 * docs/format.md has the bytes.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_STEPS_H
#define QSF_STEPS_H

#include "base/arena.h"

enum { STEPS_VERSION = 1, STEPS_SELF = 0x110000 };       /* in replacements: what was matched */

enum { STEPS_BPE = 1, STEPS_WORDPIECE, STEPS_WORDLEVEL, STEPS_UNIGRAM, STEPS_MODELS };
enum {
    STEPS_BYTE_FALLBACK = 1, STEPS_FUSE_UNK = 2, STEPS_IGNORE_MERGES = 4
};
/* of an added token */
enum { STEPS_LSTRIP = 1, STEPS_RSTRIP = 2, STEPS_SINGLE_WORD = 4, STEPS_NORMALIZED = 8,
       STEPS_APART = 16 };      /* no token of the model */

/* Instructions of an expression: [op, a, b]. */
enum {
    RE_MATCH = 0,
    RE_CHAR,            /* a: code point */
    RE_SET,             /* a: set */
    RE_JUMP,            /* a: place */
    RE_SPLIT,           /* a: tried first; b */
    RE_LOOK,            /* the instructions behind it, up to RE_MATCH, match here; a: 1 if they must not,
                         * 2 if what they match is taken for good; b: where it goes on */
    RE_BEHIND,          /* the character before is in set a; b: 1 if it must not be */
    RE_BEGIN, RE_END,   /* of the piece; a: 1 if of a line */
    RE_BOUND,           /* between a character of set a and another; b: 1 if not */
    RE_OPS
};
typedef struct steps_expression { uint32_t n; uint32_t *code; } steps_expression;
typedef struct steps_set { uint32_t n; uint32_t *ranges; } steps_set;      /* [n][2] first, last; sorted */
/* Code points that become others: key i has values[at[i]..at[i + 1]). */
typedef struct steps_table { uint32_t n; uint32_t *keys, *at, *values; } steps_table;
typedef struct steps_points { uint32_t n; uint32_t *c; } steps_points;

enum {
    STEP_REPLACE = 0,   /* expression a; text */
    STEP_SPLIT,         /* expression a; b: behaviour, | 8: what does not match counts as the match */
    STEP_MAP,           /* table a */
    STEP_NFD, STEP_NFC, STEP_LOWER,
    STEP_CHARSMAP,      /* the vocabulary's, as Hugging Face's library applies it; set a: what joins the
                         * character before; set b: what joins the one behind */
    STEP_PREFIX,        /* text before a piece that does not begin with it; a: 1 if at the text's begin
                         * only, 2 if also before one that does */
    STEP_LETTERS,       /* bytes become GPT-2's letters */
    STEP_TOKENS,        /* here the normalizer ends, and added tokens are looked for again */
    STEP_CUT,           /* words of the pre-tokenizer that the vocabulary names */
    STEP_OPS
};
enum { SPLIT_REMOVED = 0, SPLIT_ISOLATED, SPLIT_PREVIOUS, SPLIT_NEXT, SPLIT_CONTIGUOUS, SPLIT_INVERT = 8 };
typedef struct steps_step { uint32_t op, a, b; steps_points text; } steps_step;

enum {
    DECODE_LETTERS = 0, /* GPT-2's letters to bytes */
    DECODE_REPLACE,     /* from, to */
    DECODE_LEAD,        /* "from" at the beginning goes; where it is not there, "to" is put there */
    DECODE_OPS
};
typedef struct steps_bytes { uint32_t n; char *s; } steps_bytes;
typedef struct steps_decode { uint32_t op; steps_bytes from, to; } steps_decode;

typedef struct steps_added { uint32_t id, flags; } steps_added;

typedef struct qsf_steps {
    uint32_t model, flags, max_chars;   /* max_chars: of a word; WORDPIECE */
    int32_t  unk;                       /* -1: none */
    steps_bytes prefix, suffix;         /* of pieces that go on with a word; of a word's last character */
    uint32_t n_begin, n_end;            /* tokens around a text */
    uint32_t *begin, *end;
    uint32_t n_added, n_sets, n_expressions, n_tables, n_steps, n_decode;
    steps_added      *added;
    steps_set        *sets;             /* set 0: characters of words */
    steps_expression *expressions;
    steps_table      *tables;
    steps_step       *steps;
    steps_decode     *decode;
} qsf_steps;

/* Reads and checks bytes; n_tokens bounds ids.  QSF_E_CORRUPT where they do not add up. */
qsf_status qsf_steps_read(qsf_arena *a, const uint8_t *bytes, size_t len, uint32_t n_tokens, qsf_steps *out,
                          qsf_error *err);

bool qsf_steps_in_set(const steps_set *s, uint32_t c);

#endif
