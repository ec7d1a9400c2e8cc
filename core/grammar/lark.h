/* Lark: the grammar syntax of the Python package lark and of tools that accept it.
 * SPDX-License-Identifier: MIT
 *
 * The common subset: rules and terminals with strings, patterns, ranges, groups, [ ], |, * + ?
 * ~n..m, "text"i, %import common.NAME and %ignore.  Priorities, aliases, ? and ! do not affect the
 * language and are ignored.  Templates, %declare and other imports are refused with an error that
 * names them. */
#ifndef QSF_LARK_H
#define QSF_LARK_H

#include "grammar/grammar_nodes.h"

/* The rule "start" of a Lark grammar.  flags: 0, or QSF_REGEX_JSON.  On an error QSF_G_FAILED, and
 * qsf_grammar_finish reports it: QSF_E_CORRUPT with line and column, QSF_E_UNSUPPORTED for what is
 * refused. */
qsf_gnode qsf_lark_nodes(qsf_grammar_builder *b, const char *text, size_t len, uint32_t flags);
/* Whether a grammar is in Lark rather than GBNF: its first rule has ":", not "::=". */
bool      qsf_lark_is(const char *text, size_t len);

#endif
