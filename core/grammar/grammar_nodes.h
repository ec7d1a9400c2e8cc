/* Grammars under construction: the readers of GBNF, regular expressions and JSON Schema build them
 * node by node, and the automaton is made from them.
 * SPDX-License-Identifier: MIT
 *
 * A node is a set of strings.  Nothing is skipped between nodes and nothing is greedy: a sequence
 * has all strings that can be split into strings of its parts.  After a failure (a limit, memory)
 * every function returns QSF_G_FAILED, and accepts it as an argument: only qsf_grammar_finish needs
 * to be checked. */
#ifndef QSF_GRAMMAR_NODES_H
#define QSF_GRAMMAR_NODES_H

#include "grammar/grammar.h"

typedef uint32_t qsf_gnode;
enum { QSF_G_FAILED = 0, QSF_G_WHERE = 240 };     /* QSF_G_WHERE: bytes of a note, with its end */
#define QSF_G_NO_MOST UINT32_MAX

typedef struct qsf_grammar_builder qsf_grammar_builder;

qsf_status qsf_grammar_begin(const qsf_platform *p, qsf_grammar_builder **out, qsf_error *err);
/* The most bytes that the grammar may take, now and in use; 0: the general limit. */
void       qsf_grammar_limit(qsf_grammar_builder *b, uint64_t bytes);
/* Makes the grammar of root and frees the builder, also on an error.
 *
 * QSF_E_ARGUMENT   a rule has no definition; root has no text at all
 * QSF_E_BUDGET     more nodes, or a larger automaton, than a grammar may have: the message names
 *                  the limit
 * QSF_E_MEMORY */
qsf_status qsf_grammar_finish(qsf_grammar_builder *b, qsf_gnode root, qsf_grammar **out, qsf_error *err);
uint64_t   qsf_grammar_most(const qsf_grammar_builder *b);     /* the current memory limit */
const qsf_platform *qsf_grammar_platform(const qsf_grammar_builder *b);
/* The first failure stays; st is what qsf_grammar_finish returns.  Returns QSF_G_FAILED. */
qsf_gnode  qsf_g_fail(qsf_grammar_builder *b, qsf_status st, const char *fmt, ...) QSF_PRINTF(3, 4);
/* The same for a grammar's text[0..len), adding the line and column of byte `at`. */
qsf_gnode  qsf_g_fail_at(qsf_grammar_builder *b, qsf_status st, const char *text, size_t len, size_t at,
                         const char *why);
bool       qsf_g_failed(const qsf_grammar_builder *b);
/* Prepends `where` to the failure's message. */
void       qsf_g_locate(qsf_grammar_builder *b, const char *where);
/* Room for such a `where`, in case qsf_grammar_finish fails because of x, which qsf_g_both made;
 * NULL: x does not need one or already has one, or 64 are in use. */
char      *qsf_g_note(qsf_grammar_builder *b, qsf_gnode x);

qsf_gnode qsf_g_all(qsf_grammar_builder *b);      /* any bytes, valid UTF-8 or not */
qsf_gnode qsf_g_bytes(qsf_grammar_builder *b, const char *bytes, size_t n);     /* n 0: the empty text */
/* One character of ranges[i][0] to ranges[i][1], code points, as UTF-8; negated: one of no range.
 * Surrogates are in neither. */
qsf_gnode qsf_g_class(qsf_grammar_builder *b, const uint32_t (*ranges)[2], size_t n, bool negated);
qsf_gnode qsf_g_sequence(qsf_grammar_builder *b, const qsf_gnode *parts, size_t n);
qsf_gnode qsf_g_choice(qsf_grammar_builder *b, const qsf_gnode *parts, size_t n);   /* n 0: no text fits */
/* least to most texts of part in a row; most QSF_G_NO_MOST: no limit. */
qsf_gnode qsf_g_repeat(qsf_grammar_builder *b, qsf_gnode part, uint32_t least, uint32_t most);
/* both: strings that match x and y.  not: all UTF-8 strings that do not match x, which must have no
 * rules.  In x and y of `both`, rules may occur only at the end, like states of a finite automaton:
 * the intersection is searched. */
qsf_gnode qsf_g_both(qsf_grammar_builder *b, qsf_gnode x, qsf_gnode y);
qsf_gnode qsf_g_not(qsf_grammar_builder *b, qsf_gnode x);
bool      qsf_g_has_rules(const qsf_grammar_builder *b, qsf_gnode x);
/* A rule, which makes recursion possible: the node matches the strings of its definition, which may
 * come later and may refer to the rule itself. */
qsf_gnode qsf_g_rule(qsf_grammar_builder *b);
void      qsf_g_define(qsf_grammar_builder *b, qsf_gnode rule, qsf_gnode body);

#endif
