/* Character sets for a tokenizer's steps.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_SETS_H
#define QSF_CONVERT_HF_SETS_H

#include "read/hf_steps.h"

#ifdef QSF_HAVE_YYJSON

/* A set of code points, one bit each. */
enum { POINTS_WORDS = 0x110000 / 32 };
typedef uint32_t points[POINTS_WORDS];

typedef bool points_is(uint32_t c);
void     points_add(uint32_t *p, uint32_t c);
void     points_add_if(uint32_t *p, points_is *is);
uint32_t steps_set_add(steps_build *s, const uint32_t *p);      /* returns its number */
uint32_t steps_set_of(steps_build *s, points_is *is);
/* Adds the Unicode property that an expression names ("Lu", "^N", "Han"); false: unknown. */
bool     points_property(uint32_t *p, const char *name);
points_is points_space, points_digit, points_word_onig, points_word_rust, points_no_word_rust, points_numeric,
    points_punct, points_mark, points_bert_mark, points_control, points_bert_space, points_chinese,
    points_nmt_gone, points_nmt_space, points_joins, points_joins_next;

#endif

#endif
