/* The nodes of a grammar of any kind.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_GRAMMAR_NEW_H
#define QSF_GRAMMAR_NEW_H

#include "qsf.h"
#include "grammar/schema.h"

/* The nodes of text[0..len) as a part of a larger grammar.  how: the options for JSON. */
qsf_gnode qsf_grammar_nodes_of(qsf_grammar_builder *b, qsf_grammar_kind kind, const char *text, size_t len,
                               const qsf_schema_options *how);

#endif
