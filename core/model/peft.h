/* Adapters as the Hugging Face library PEFT keeps them: a directory with adapter_config.json and
 * adapter_model.safetensors.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PEFT_H
#define QSF_PEFT_H

#include "model/gguf.h"
#include "model/peft_config.h"

/* What a directory contains besides its tensors. */
typedef struct qsf_peft {
    float  *scales;         /* [g->n_tensors] of the pair that a tensor belongs to */
    float   alpha;
    uint8_t rows;           /* how rows of queries and keys lie: a qsf_rope_kind; QSF_ROPE_NONE: unknown */
} qsf_peft;

/* Whether path is such a directory. */
bool       qsf_peft_is(const qsf_platform *p, const char *path);
/* Opens the weights as g->s, which is the caller's, also after an error, and g->tmp.  Then
 * g->tensors are the adapter's under their GGUF names, NAME.lora_a and NAME.lora_b.  Of the token
 * embedding lora_a is [rank][tokens], not as in GGUF files.
 *
 * QSF_E_CORRUPT       a file is damaged, or the two do not belong together
 * QSF_E_UNSUPPORTED   a member or a tensor that cannot be run, by its name */
qsf_status qsf_peft_open(const qsf_platform *p, const qsf_source *model, const char *dir, const peft_warn *w,
                         gguf *g, qsf_peft *out, qsf_error *err);

#endif
