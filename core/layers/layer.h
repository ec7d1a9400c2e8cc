/* A layer of the network.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_LAYER_H
#define QSF_LAYER_H

#include "layers/program.h"

/* Whether layers of these records can be computed; the first that cannot is named. */
qsf_status qsf_layers_check(const qsf_source *s, qsf_error *err);
/* Lists all rows of a layer; g has just begun. */
void       qsf_layer_list(const qsf_layer *l, qsf_program *g);
/* The rows x of the batch, on by one layer. */
void       qsf_layer_compute(const qsf_pass *p);

#endif
