/* Regular expressions as grammars: compiles a pattern to nodes.
 * SPDX-License-Identifier: MIT
 *
 * Patterns have what ECMA-262, Python and Rust have in common: characters, ".", classes with \d, \w
 * and \s (ASCII, except \s), \p{L} and the other categories, groups, alternatives, *, +, ?, {m,n}
 * and their lazy forms, ^ and $.  What a finite automaton cannot express, or no table covers, is
 * refused by name: lookaround, backreferences, word boundaries, flags, scripts. */
#ifndef QSF_TEXT_REGEX_H
#define QSF_TEXT_REGEX_H

#include "grammar/grammar_nodes.h"

enum {
    QSF_REGEX_SEARCH = 1,       /* the pattern may begin and end anywhere, as in JSON Schema */
    QSF_REGEX_JSON = 2          /* between the quotes of a JSON text: see qsf_g_json_class */
};

/* Nodes for pattern[0..len), UTF-8.  If it is refused, the builder fails with QSF_E_ARGUMENT and
 * a message that begins with what ("--regex"). */
qsf_gnode qsf_regex_nodes(const qsf_platform *p, qsf_grammar_builder *b, const char *pattern, size_t len,
                          uint32_t flags, const char *what);

/* One character of sorted ranges as written in a JSON string: itself, or an escape if JSON requires
 * one (quote, backslash, control characters), and "/" in both forms. */
qsf_gnode qsf_g_json_class(qsf_grammar_builder *b, const uint32_t (*ranges)[2], size_t n);

#endif
