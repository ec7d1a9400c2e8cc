/* Layers for multi-token prediction in Hugging Face directories.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_MTP_H
#define QSF_CONVERT_HF_MTP_H

#include "read/hf_config.h"
#include "read/hf_rows.h"
#include "read/input.h"

/* Whether the model's description has such a layer now, and its place in the files. */
typedef enum hf_mtp {
    HF_MTP_NONE,
    HF_MTP_AFTER,               /* as the layer after the last one: DeepSeek V3, GLM 4.5 */
    HF_MTP_QWEN,                /* under "mtp.": Qwen 3 Next, Qwen 3.5 */
    HF_MTP_MIMO                 /* under "model.mtp_layers.", whose first matrix has its halves exchanged */
} hf_mtp;

/* Adds the first such layer to in->hp, if it is wanted (cfg->takes_mtp) and its embedding and head,
 * if it has them, are copies of the model's; otherwise in->leaves_mtp says that there is one.
 *
 * layer        what the names of tensors of the layer after the last one begin with
 * embd, head   the model's matrices */
qsf_status qsf_hf_mtp_take(const hf_weights *w, const hf_config *cfg, const char *layer,
                           const weights_tensor *embd, const weights_tensor *head, input *in, hf_mtp *out,
                           qsf_error *err);
/* The name of a role's tensor; false: as in other layers, which call it `name`. */
bool       qsf_hf_mtp_name(hf_mtp mtp, const qsf_role *role, const char *name, char *out, size_t cap);
/* Whether the tensor belongs to such a layer that was not taken. */
bool       qsf_hf_mtp_left(const hf_config *cfg, hf_mtp taken, const char *name);

#endif
