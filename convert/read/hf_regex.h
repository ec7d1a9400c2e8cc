/* Compiles the regular expressions of a tokenizer.json.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_REGEX_H
#define QSF_CONVERT_HF_REGEX_H

#include "read/hf_sets.h"

#ifdef QSF_HAVE_YYJSON

/* Each returns the compiled expression's number; unsupported syntax is an error that names it. */
uint32_t qsf_steps_regex(steps_build *s, const char *pattern);
uint32_t qsf_steps_literal(steps_build *s, const char *text);
uint32_t qsf_steps_class(steps_build *s, points_is *is, bool runs);      /* one character, or runs of them */

#endif

#endif
