/* The rotary embedding of config.json.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_ROPE_H
#define QSF_CONVERT_HF_ROPE_H

#include "read/hf_config.h"

#ifdef QSF_HAVE_YYJSON
/* What a model type means where config.json is silent. */
typedef struct hf_rope_defaults {
    const char *type;
    hf_family   family;
    float       base;
} hf_rope_defaults;

/* hp has head_dim, n_ctx_train and window already.  arena: factors. */
qsf_status qsf_hf_rope(yyjson_val *root, const hf_rope_defaults *d, qsf_arena *arena, qsf_hparams *hp,
                       qsf_error *err);
#endif

#endif
