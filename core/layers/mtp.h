/* A layer for multi-token prediction: what it does besides a layer's mixer and feed-forward.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_LAYERS_MTP_H
#define QSF_LAYERS_MTP_H

#include "layers/program.h"

/* Before its mixer: x becomes eh_proj . [norm(x), norm(hidden state)].  The second half of the
 * joined rows has the hidden states already. */
void qsf_mtp_list_begin(qsf_program *g);
/* The same of an EAGLE 3 head: what its attention reads becomes [norm(x), norm(state)], and x the
 * state.  The second half of the joined rows has the states already, or features become states. */
void qsf_eagle_list_begin(qsf_program *g);
/* After its feed-forward: the norm before its head. */
void qsf_mtp_list_end(qsf_program *g);

#endif
