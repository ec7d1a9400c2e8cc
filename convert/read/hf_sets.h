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
void     qsf_points_add(uint32_t *p, uint32_t c);
void     qsf_points_add_if(uint32_t *p, points_is *is);
uint32_t qsf_steps_set_add(steps_build *s, const uint32_t *p);      /* returns its number */
uint32_t qsf_steps_set_of(steps_build *s, points_is *is);
/* Adds the Unicode property that an expression names ("Lu", "^N", "Han"); false: unknown. */
bool     qsf_points_property(uint32_t *p, const char *name);
points_is qsf_points_space, qsf_points_digit, qsf_points_word_onig, qsf_points_word_rust,
    qsf_points_no_word_rust, qsf_points_numeric, qsf_points_punct, qsf_points_mark, qsf_points_bert_mark,
    qsf_points_control, qsf_points_bert_space, qsf_points_chinese, qsf_points_nmt_removed,
    qsf_points_nmt_space, qsf_points_joins, qsf_points_joins_next;

#endif

#endif
