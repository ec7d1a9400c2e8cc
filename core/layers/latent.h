/* Multi-head latent attention: the steps before and after the attention itself.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_LATENT_H
#define QSF_LATENT_H

#include "layers/pass.h"

/* The queries, and the one key and value of all heads, of the normed rows. */
void qsf_latent_in(qsf_pass_job *job);
/* All heads' values of the sums, to where queries were. */
void qsf_latent_out(qsf_pass_job *job);

#endif
