/* How layers' 2-bit weights without scales are multiplied by one row of activations: by products or
 * look-ups (kernels/lut.h).
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ROUTE_H
#define QSF_ROUTE_H

#include "kernels.h"
#include "model/model.h"

/* Sets o->kernel_route to QSF_ROUTE_MAD or QSF_ROUTE_LUT.  With AUTO, if the model has such
 * matrices, both are timed with their shapes, and the result is logged. */
qsf_status qsf_route_choose(const qsf_model *m, const qsf_kernels *k, qsf_context_options *o, qsf_error *err);

#endif
