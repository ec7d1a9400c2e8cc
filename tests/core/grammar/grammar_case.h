/* Grammars for the tests of more than one file.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_GRAMMAR_CASE_H
#define QSF_GRAMMAR_CASE_H

#include "grammar/gbnf.h"
#include "grammar/grammar_own.h"

/* The grammar of a GBNF source; NULL: *err says why. */
static inline qsf_grammar *gbnf(const char *text, qsf_error *err)
{
    qsf_grammar_builder *b;
    qsf_grammar *g = NULL;
    *err = (qsf_error){ 0 };
    if (!qsf_grammar_begin(qsf_platform_native(), &b, err))
        qsf_grammar_finish(b, qsf_gbnf_nodes(b, text, strlen(text), 0), &g, err);
    return g;
}

#endif
