/* The layers after this context's own, which are computed elsewhere.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_BEHIND_H
#define QSF_BEHIND_H

#include "base/base.h"

struct qsf_context;
typedef struct qsf_behind_use {
    qsf_behind use;
    qsf_row   *rows;            /* [n_batch], of the batch; NULL: all layers are here */
} qsf_behind_use;

/* Gets the batch's logits from the hidden states after the last layer here. */
qsf_status qsf_behind_compute(struct qsf_context *c);
/* Sets a sequence's adapters there as well. */
qsf_status qsf_behind_adapt(struct qsf_context *c, qsf_seq s, const qsf_adapter_use *uses, size_t n);
bool       qsf_behind_there(const struct qsf_context *c);
void       qsf_behind_done(struct qsf_context *c);

#endif
