/* Reads config.json of latent attention.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_LATENT_H
#define QSF_CONVERT_HF_LATENT_H

#include "read/hf_config.h"

#ifdef QSF_HAVE_YYJSON
/* Before the rotary embedding is read, which is that of a head's turning columns; then the rest. */
qsf_status qsf_hf_latent_turning(yyjson_val *root, qsf_hparams *hp, qsf_error *err);
qsf_status qsf_hf_latent(yyjson_val *root, qsf_hparams *hp, qsf_error *err);
#endif

#endif
