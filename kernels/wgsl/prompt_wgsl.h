/* Attention of a prompt: many rows of a sequence read a block of its positions together.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WGSL_PROMPT_H
#define QSF_WGSL_PROMPT_H

#include "attend_wgsl.h"

enum { QSF_WGSL_PROMPT_ROWS = 32 };     /* of a group, at most */

/* Bindings 1 to 6: Queries, KV, Rows, Table, Groups; written: Y (floats, [n][q_ld], the heads of a
 * row from q_at on); with head_sinks binding 7, those of the heads.  Groups: vec2<u32> for each
 * group of rows that follow each other in the batch and in their sequence: the first, and how many.
 * Workgroups: groups, heads. */
void qsf_wgsl_prompt(qsf_wgsl_text *t, const qsf_wgsl_attend *a);

/* Whether records have a shape that it can read. */
static inline bool qsf_wgsl_has_prompt(const qsf_wgsl_attend *a)
{
    return !a->wide && a->room % (a->codes ? 16 : 4) == 0;
}

#endif
