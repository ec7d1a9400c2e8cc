/* A tokenizer as a list of steps, like Hugging Face's tokenizer.json: how the input is normalized
 * and split, which model makes tokens of the pieces, and how tokens become text.  docs/format.md
 * describes the bytes.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_STEPS_H
#define QSF_STEPS_H

#include "base/arena.h"

enum { STEPS_VERSION = 1, STEPS_SELF = 0x110000 };       /* SELF, in a replacement: the matched text */

enum { STEPS_BPE = 1, STEPS_WORDPIECE, STEPS_WORDLEVEL, STEPS_UNIGRAM, STEPS_MODELS };
enum {
    STEPS_BYTE_FALLBACK = 1, STEPS_FUSE_UNK = 2, STEPS_IGNORE_MERGES = 4
};
/* Flags of an added token. */
enum { STEPS_LSTRIP = 1, STEPS_RSTRIP = 2, STEPS_SINGLE_WORD = 4, STEPS_NORMALIZED = 8,
       STEPS_APART = 16 };      /* not in the model's vocabulary */

/* Instructions of an expression: [op, a, b]. */
enum {
    RE_MATCH = 0,
    RE_CHAR,            /* a: code point */
    RE_SET,             /* a: set */
    RE_JUMP,            /* a: target */
    RE_SPLIT,           /* continue at a, or else at b */
    RE_LOOK,            /* a look-around: the instructions up to its RE_MATCH match here.  a: 1 if they must
                         * not, 2 if atomic (the match is consumed); b: where to continue */
    RE_BEHIND,          /* the preceding character is in set a; b: 1 if it must not be */
    RE_BEGIN, RE_END,   /* start, end of the piece; a: 1: or of a line */
    RE_BOUND,           /* between a character in set a and one outside it; b: 1 if negated */
    RE_OPS
};
typedef struct steps_expression { uint32_t n; uint32_t *code; } steps_expression;
typedef struct steps_set { uint32_t n; uint32_t *ranges; } steps_set;      /* [n][2] first, last; sorted */
/* A mapping of code points: key i maps to values[at[i]..at[i + 1]). */
typedef struct steps_table { uint32_t n; uint32_t *keys, *at, *values; } steps_table;
typedef struct steps_points { uint32_t n; uint32_t *c; } steps_points;

enum {
    STEP_REPLACE = 0,   /* expression a; the text to put there */
    STEP_SPLIT,         /* expression a; b: behaviour, | 8: matches and gaps are swapped */
    STEP_MAP,           /* by table a */
    STEP_NFD, STEP_NFC, STEP_LOWER,
    STEP_CHARSMAP,      /* the vocabulary's charsmap, as Hugging Face's library applies it; set a: characters
                         * that join the one before; set b: ... the one after */
    STEP_PREFIX,        /* puts the text before each piece that does not begin with it; a: 1: only at the
                         * start of the input, 2: always */
    STEP_LETTERS,       /* maps bytes to GPT-2's letters */
    STEP_TOKENS,        /* end of the normalizer: added tokens are matched again here */
    STEP_CUT,           /* splits with the pre-tokenizer that the vocabulary names */
    STEP_OPS
};
enum { SPLIT_REMOVED = 0, SPLIT_ISOLATED, SPLIT_PREVIOUS, SPLIT_NEXT, SPLIT_CONTIGUOUS, SPLIT_INVERT = 8 };
typedef struct steps_step { uint32_t op, a, b; steps_points text; } steps_step;

enum {
    DECODE_LETTERS = 0, /* maps GPT-2's letters to bytes */
    DECODE_REPLACE,     /* replaces "from" by "to" */
    DECODE_LEAD,        /* removes a leading "from"; without one, puts "to" in front */
    DECODE_OPS
};
typedef struct steps_bytes { uint32_t n; char *s; } steps_bytes;
typedef struct steps_decode { uint32_t op; steps_bytes from, to; } steps_decode;

typedef struct steps_added { uint32_t id, flags; } steps_added;

typedef struct qsf_steps {
    uint32_t model, flags, max_chars;   /* max_chars: longest word of WORDPIECE */
    int32_t  unk;                       /* -1: none */
    steps_bytes prefix, suffix;         /* of pieces that continue a word; of a word's last character */
    uint32_t n_begin, n_end;            /* special tokens around the input */
    uint32_t *begin, *end;
    uint32_t n_added, n_sets, n_expressions, n_tables, n_steps, n_decode;
    steps_added      *added;
    steps_set        *sets;             /* set 0: word characters */
    steps_expression *expressions;
    steps_table      *tables;
    steps_step       *steps;
    steps_decode     *decode;
} qsf_steps;

/* Reads and checks bytes; ids must be below n_tokens.  QSF_E_CORRUPT if they are inconsistent. */
qsf_status qsf_steps_read(qsf_arena *a, const uint8_t *bytes, size_t len, uint32_t n_tokens, qsf_steps *out,
                          qsf_error *err);

bool qsf_steps_in_set(const steps_set *s, uint32_t c);

#endif
