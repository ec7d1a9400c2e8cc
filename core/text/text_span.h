/* The spans of a rendered conversation.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TEXT_SPAN_H
#define QSF_TEXT_SPAN_H

#include "base/base.h"

/* A span of the text.  The template's own is tokenized with QSF_TOK_PARSE_SPECIAL; the text of
 * messages without it, so that "<|im_end|>" in a user's input ends nothing. */
typedef struct qsf_text_span { size_t at, len; bool is_template; } qsf_text_span;

#endif
