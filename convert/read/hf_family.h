/* Reads members of config.json that only some architectures have.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_FAMILY_H
#define QSF_CONVERT_HF_FAMILY_H

#include "read/hf_config.h"

#ifdef QSF_HAVE_YYJSON
/* Scales, layers that do not rotate, further biases.  hp has windows and rotation already. */
qsf_status qsf_hf_family(yyjson_val *root, hf_config *cfg, qsf_hparams *hp, qsf_error *err);
#endif

#endif
