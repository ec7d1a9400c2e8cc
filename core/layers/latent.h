/* Multi-head latent attention: the steps before and after the attention itself.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_LATENT_H
#define QSF_LATENT_H

#include "layers/program.h"

/* The queries, and the one key and value of all heads, of the normed rows. */
void qsf_latent_list_in(const qsf_layer *l, qsf_program *g);
/* All heads' values of the sums, to where queries were. */
void qsf_latent_list_out(const qsf_layer *l, qsf_program *g);

#endif
