/* Sequences of a context: what their functions check.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SEQUENCE_H
#define QSF_SEQUENCE_H

#include "engine/context.h"

/* QSF_E_ARGUMENT, in c->error: there is no such sequence. */
qsf_status qsf_seq_check(qsf_context *c, qsf_seq s);
/* Positions that a sequence can have. */
uint32_t   qsf_seq_end(const qsf_context *c);

#endif
