/* A tokenizer's steps (core/text/steps.h) in the making.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_STEPS_H
#define QSF_CONVERT_HF_STEPS_H

#include "read/hf_tokenizer.h"
#include "text/steps.h"

#ifdef QSF_HAVE_YYJSON

/* Numbers, which grow. */
typedef struct steps_list { uint32_t *v; size_t n, cap; } steps_list;

/* A set of code points, a bit each. */
enum { POINTS_WORDS = 0x110000 / 32 };
typedef uint32_t points[POINTS_WORDS];

/* After the first failure, which st keeps, nothing happens any more. */
typedef struct steps_build {
    vocab_build *b;
    qsf_error   *err;
    qsf_status   st;
    uint32_t     model, flags, max_chars;
    int32_t      unk;
    const char  *prefix, *suffix;
    uint32_t     n_begin, n_end, n_added, n_sets, n_expressions, n_tables, n_steps, n_decode;
    steps_list   begin, end, added, sets, expressions, tables, steps, decode;
    bool         letters;               /* bytes have become letters */
} steps_build;

void steps_put(steps_build *s, steps_list *l, uint32_t v);
void steps_put_text(steps_build *s, steps_list *l, const char *text);
void steps_refuse(steps_build *s, const char *what, const char *name);
void steps_done(steps_build *s);

/* hf_sets.c */
typedef bool points_is(uint32_t c);
void     points_add(uint32_t *p, uint32_t c);
void     points_add_if(uint32_t *p, points_is *is);
uint32_t steps_set_add(steps_build *s, const uint32_t *p);      /* its number */
uint32_t steps_set_of(steps_build *s, points_is *is);
/* Unicode's property by its name in an expression ("Lu", "^N", "Han"); false: not known here. */
bool     points_property(uint32_t *p, const char *name);
points_is points_space, points_digit, points_word_onig, points_word_rust, points_no_word_rust, points_numeric,
    points_punct, points_mark, points_bert_mark, points_control, points_bert_space, points_chinese,
    points_nmt_gone, points_nmt_space, points_joins, points_joins_next;

/* hf_regex.c: the number of the compiled expression; an unsupported construct is refused by name. */
uint32_t steps_regex(steps_build *s, const char *pattern);
uint32_t steps_literal(steps_build *s, const char *text);
uint32_t steps_class(steps_build *s, points_is *is, bool runs);      /* one character, or runs of them */

/* hf_steps_text.c: normalizer and pre-tokenizer. */
void steps_normalizer(steps_build *s, yyjson_val *v);
void steps_pretokenizer(steps_build *s, yyjson_val *v);
/* Steps of no value of the file. */
void steps_add_step(steps_build *s, uint32_t op, uint32_t a, uint32_t b, const char *text);

/* hf_set_table.c, by tools/make_hf_sets.py: general categories by runs; sets as first and last;
 * characters that become others. */
extern const char qsf_hf_categories[];
extern const uint32_t qsf_hf_n_runs, qsf_hf_run_from[];
extern const uint8_t qsf_hf_run_category[];
extern const uint32_t qsf_hf_n_word, qsf_hf_word[], qsf_hf_n_rust_word, qsf_hf_rust_word[], qsf_hf_n_numeric,
    qsf_hf_numeric[], qsf_hf_n_punct, qsf_hf_punct[], qsf_hf_n_control, qsf_hf_control[], qsf_hf_n_accents,
    qsf_hf_accents[], qsf_hf_n_bert_accents, qsf_hf_bert_accents[];
extern const uint32_t qsf_hf_n_compat, qsf_hf_compat_keys[], qsf_hf_compat_values[], qsf_hf_n_lower,
    qsf_hf_lower_keys[], qsf_hf_lower_values[];
extern const uint16_t qsf_hf_compat_at[], qsf_hf_lower_at[];
#endif

#endif
