/* Types under a size: see budget.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_BUDGET_H
#define QSF_CONVERT_BUDGET_H

#include "plan/plan.h"

/* Changes the types of all matrices that are not fixed so that the file fits o->target_bytes or, if
 * that is 0, as the preset `mixed` or `auto` requires. */
qsf_status qsf_conv_budget(input *in, const qsf_convert_options *o, convert_report *r, qsf_error *err);

/* Loss (mean divergence of the next token's distribution) for each unit of relative squared error
 * in a matrix of the kind: what all layers' together have, shared among them. */
double     qsf_conv_budget_sensitivity(const input *in, uint32_t kind);
/* A tensor's sensitivity for estimating the loss: larger networks are less sensitive. */
double     qsf_conv_loss_sensitivity(const input *in, const input_tensor *t);
/* At least the bytes of the file other than its tensors' data: header, index, tensor headers,
 * extension section and alignment. */
uint64_t   qsf_conv_budget_around(const input *in, const qsf_convert_options *o);

#endif
