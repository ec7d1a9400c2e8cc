/* A text on its way through a tokenizer's steps.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_STEPS_TEXT_H
#define QSF_STEPS_TEXT_H

#include "text/pretokenize.h"
#include "text/steps_match.h"

/* first: its first character comes from where the whole text begins. */
typedef struct steps_piece { uint32_t begin, end; bool first; } steps_piece;

typedef struct steps_memory { void *mem; uint64_t size; } steps_memory;

/* Zeros to begin with, but for steps and platform of the matcher and what the vocabulary has. */
typedef struct steps_text {
    steps_matcher matcher;
    const uint8_t *charsmap;
    uint32_t     charsmap_len;
    const qsf_pretokenizer *pre;
    uint32_t    *c;             /* [n] the text now */
    size_t       n;
    steps_piece *pieces;        /* [n_pieces] what is left of it, in order */
    size_t       n_pieces;
    steps_memory points[2], list[2], spans, tmp;
    unsigned     points_at, list_at;
} steps_text;

void       steps_text_free(steps_text *t);
/* Begins with one piece.  text is UTF-8; what is none is U+FFFD. */
qsf_status steps_text_begin(steps_text *t, const char *text, size_t len, bool first);
/* The steps from `from` up to a STEP_TOKENS or the end. */
qsf_status steps_text_run(steps_text *t, uint32_t from);
/* Where the first step after a STEP_TOKENS is. */
uint32_t   steps_text_after_tokens(const qsf_steps *s);

#endif
