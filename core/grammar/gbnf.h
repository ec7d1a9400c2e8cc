/* GBNF, the grammars of llama.cpp.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_GBNF_H
#define QSF_GBNF_H

#include "grammar/grammar_nodes.h"

/* The rule "root" of a GBNF grammar.  flags: 0, or QSF_REGEX_JSON.  On an error QSF_G_FAILED, and
 * qsf_grammar_finish reports it: QSF_E_CORRUPT with line and column, QSF_E_UNSUPPORTED for
 * <token>. */
qsf_gnode qsf_gbnf_nodes(qsf_grammar_builder *b, const char *text, size_t len, uint32_t flags);

#endif
