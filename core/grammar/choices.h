/* Grammars from lists: one of several texts.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CHOICES_H
#define QSF_CHOICES_H

#include "grammar/grammar_nodes.h"

/* Matches one of the lines of the source, or one of the strings of a JSON list, literally; empty
 * ones are ignored. */
qsf_gnode qsf_choices_nodes(qsf_grammar_builder *b, const char *text, size_t len);

#endif
