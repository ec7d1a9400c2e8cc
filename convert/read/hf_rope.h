/* The rotary embedding of config.json.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_ROPE_H
#define QSF_CONVERT_HF_ROPE_H

#include "read/hf_config.h"

#ifdef QSF_HAVE_YYJSON
/* hp has head_dim, n_ctx_train and window already.  arena: factors. */
qsf_status qsf_hf_rope(yyjson_val *root, const hf_type *d, const qsf_arch *a, qsf_arena *arena,
                       qsf_hparams *hp, qsf_error *err);
#endif

#endif
