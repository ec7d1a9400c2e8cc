/* Builds a tokenizer's steps (core/tokens/steps.h).
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_STEPS_H
#define QSF_CONVERT_HF_STEPS_H

#include "read/hf_tokenizer.h"
#include "tokens/steps.h"

#ifdef QSF_HAVE_YYJSON

/* A growing list of numbers. */
typedef struct steps_list { uint32_t *v; size_t n, cap; } steps_list;

/* After the first failure, which is kept in st, every call is a no-op. */
typedef struct steps_build {
    vocab_build *b;
    qsf_error   *err;
    qsf_status   st;
    uint32_t     model, flags, max_chars;
    int32_t      unk;
    const char  *prefix, *suffix;
    uint32_t     n_begin, n_end, n_added, n_sets, n_expressions, n_tables, n_steps, n_decode;
    steps_list   begin, end, added, sets, expressions, tables, steps, decode;
    bool         letters;               /* bytes have been mapped to letters */
} steps_build;

/* hf_steps_write.c: appends a number or a string, sets an error that names what is not supported,
 * and frees the lists. */
void qsf_steps_put(steps_build *s, steps_list *l, uint32_t v);
void qsf_steps_put_text(steps_build *s, steps_list *l, const char *text);
void qsf_steps_refuse(steps_build *s, const char *what, const char *name);
void qsf_steps_done(steps_build *s);

/* hf_steps_text.c: normalizer and pre-tokenizer. */
void qsf_steps_normalizer(steps_build *s, yyjson_val *v);
void qsf_steps_pretokenizer(steps_build *s, yyjson_val *v);
/* Adds a step that does not correspond to anything in the file. */
void qsf_steps_add_step(steps_build *s, uint32_t op, uint32_t a, uint32_t b, const char *text);

#endif

#endif
