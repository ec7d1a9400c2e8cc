/* An input on its way through a tokenizer's steps.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_STEPS_TEXT_H
#define QSF_STEPS_TEXT_H

#include "tokens/pretokenize.h"
#include "tokens/steps_match.h"

/* first: it begins at the start of the input. */
typedef struct steps_piece { uint32_t begin, end; bool first; } steps_piece;

typedef struct steps_memory { void *mem; uint64_t size; } steps_memory;

/* Initially zero, except the matcher's steps and platform and the vocabulary's members. */
typedef struct steps_text {
    steps_matcher matcher;
    const uint8_t *charsmap;
    uint32_t     charsmap_len;
    const qsf_pretokenizer *pre;
    uint32_t    *c;             /* [n] the current text */
    size_t       n;
    steps_piece *pieces;        /* [n_pieces] its current pieces, in order */
    size_t       n_pieces;
    steps_memory points[2], list[2], spans, tmp;
    unsigned     points_at, list_at;
} steps_text;

void       qsf_steps_text_free(steps_text *t);
/* Starts with one piece.  text is UTF-8; invalid bytes become U+FFFD. */
qsf_status qsf_steps_text_begin(steps_text *t, const char *text, size_t len, bool first);
/* Runs the steps from `from` up to a STEP_TOKENS or the end. */
qsf_status qsf_steps_text_run(steps_text *t, uint32_t from);
/* The index of the first step after STEP_TOKENS. */
uint32_t   qsf_steps_text_after_tokens(const qsf_steps *s);

#endif
