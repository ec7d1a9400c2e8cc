/* Reads config.json of a mixture of experts.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_EXPERTS_H
#define QSF_CONVERT_HF_EXPERTS_H

#include "read/hf_config.h"

#ifdef QSF_HAVE_YYJSON
/* Does nothing if the type does not have experts.  hp already has the other sizes. */
qsf_status qsf_hf_experts(yyjson_val *root, const hf_type *d, const qsf_arch *a, qsf_hparams *hp,
                          qsf_error *err);
#endif

#endif
