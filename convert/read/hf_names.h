/* Which tensor of a Hugging Face model is what.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_NAMES_H
#define QSF_CONVERT_HF_NAMES_H

#include "read/hf_config.h"
#include "read/hf_rows.h"
#include "read/input.h"

/* Makes in->tensors and their places.  A missing tensor, a wrong shape or dtype, and a tensor that
 * has no place in the network are errors that name it; *ignored counts those that no output depends
 * on. */
qsf_status qsf_hf_map_tensors(const hf_weights *w, const hf_config *cfg, input *in, hf_place **places,
                              uint32_t *ignored, qsf_error *err);

/* Whether the files have this tensor, with any prefix. */
bool       qsf_hf_has(const hf_weights *w, const char *name);

#endif
