/* What each tensor becomes: the named presets, the user's own rules, and a budget.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_CHOOSE_H
#define QSF_CONVERT_CHOOSE_H

#include "plan/plan.h"

/* Chooses type and block of every tensor: r->tensors is filled in (the arena's).  r->embd_clusters
 * is set before. The types of o's rules are known ones. */
qsf_status qsf_conv_plan(input *in, const qsf_convert_options *o, convert_report *r, qsf_error *err);

#endif
