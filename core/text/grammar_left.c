/* Rules that begin with themselves: a derivative would never end.
 * SPDX-License-Identifier: MIT */
#include "text/grammar_own.h"

void gram_unleft(qsf_grammar *g)
{
    (void)g;
}
