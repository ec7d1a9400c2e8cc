/* Which way layers' 2-bit weights without scales meet one row of activations: by products, or
 * looked up (kernels/lut.h).
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ROUTE_H
#define QSF_ROUTE_H

#include "kernels.h"
#include "model/model.h"

/* Makes o->kernel_route QSF_ROUTE_MAD or QSF_ROUTE_LUT.  Where AUTO is asked for and the model has
 * such matrices, both are timed with their shapes, and the log hears what came out. */
qsf_status qsf_route_choose(const qsf_model *m, const qsf_kernels *k, qsf_context_options *o, qsf_error *err);

#endif
