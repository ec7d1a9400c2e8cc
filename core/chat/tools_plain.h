/* The grammar of calls that a model writes without the form's marks.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TEXT_TOOLS_PLAIN_H
#define QSF_TEXT_TOOLS_PLAIN_H

#include "grammar/grammar_nodes.h"
#include "chat/tools.h"

/* The key of a call's arguments. */
const char *qsf_tools_plain_key(const qsf_tool_form *f);
/* Adds the texts that begin such an answer to out->texts; each is the grammar's own beginning. */
void qsf_tools_plain_begins(const qsf_tool_grammar_ask *ask, qsf_tool_grammar *out);
/* The answer: calls, and any text after them that does not begin as another one. */
qsf_gnode qsf_tools_plain_answer(qsf_grammar_builder *b, qsf_gnode call, qsf_gnode any, bool several);

#endif
