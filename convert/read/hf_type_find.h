/* Which type a config.json means, and what this type calls a tensor.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_TYPE_FIND_H
#define QSF_CONVERT_HF_TYPE_FIND_H

#include "read/hf_types.h"

/* By model_type, or by class name if model_type is NULL.  NULL: unknown. */
const hf_type *qsf_hf_type_find(const char *type, const char *class_name);

/* Where a role's values are stored.  name NULL: files of this type do not have them.  part NULL:
 * they are a whole tensor; else they are outputs [first, first + its own) of `all`. */
typedef struct hf_named {
    const char *name, *part;
    uint16_t    how;                    /* hf_how */
    uint64_t    first, all;
} hf_named;
/* layer: as for qsf_dim_size. */
hf_named qsf_hf_type_name(const hf_type *t, const qsf_hparams *hp, const qsf_layer *layer,
                          const qsf_role *role);

#endif
