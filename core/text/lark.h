/* Lark, the grammars of the Python package of that name and of tools that take its syntax.
 * SPDX-License-Identifier: MIT
 *
 * The common subset: rules and terminals with texts, patterns, ranges, groups, [ ], |, * + ? ~n..m,
 * "text"i, %import common.NAME and %ignore.  Priorities, aliases, ? and ! say nothing of the texts
 * of a grammar.  Templates, %declare and other imports are refused by name. */
#ifndef QSF_LARK_H
#define QSF_LARK_H

#include "text/grammar_nodes.h"

/* The rule "start" of a grammar in Lark.  flags: 0, or QSF_REGEX_JSON.  On an error QSF_G_FAILED, and
 * qsf_grammar_finish says why: QSF_E_CORRUPT with line and column, QSF_E_UNSUPPORTED for what is
 * refused. */
qsf_gnode qsf_lark_nodes(qsf_grammar_builder *b, const char *text, size_t len, uint32_t flags);
/* Whether a grammar is in Lark rather than in GBNF: its first rule has ":" and not "::=". */
bool      qsf_lark_is(const char *text, size_t len);

#endif
