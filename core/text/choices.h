/* Grammars from lists: one of several texts.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CHOICES_H
#define QSF_CHOICES_H

#include "text/grammar_nodes.h"

/* One of the lines of a text, or of the texts of a JSON list, as they are; empty ones do not
 * count. */
qsf_gnode qsf_choices_nodes(qsf_grammar_builder *b, const char *text, size_t len);

#endif
