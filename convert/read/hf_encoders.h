/* Reads config.json of encoders.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_ENCODERS_H
#define QSF_CONVERT_HF_ENCODERS_H

#include "read/hf_config.h"

#ifdef QSF_HAVE_YYJSON
/* Sizes, norms and activation of a type with HF_KEYS_NOMIC, by either of their names. */
qsf_status qsf_hf_nomic(yyjson_val *root, const hf_type *d, qsf_hparams *hp, qsf_error *err);
/* What all encoders have besides their sizes: token types, windows, classes. */
qsf_status qsf_hf_encoder(yyjson_val *root, const hf_config *cfg, qsf_hparams *hp, qsf_error *err);
#endif

#endif
