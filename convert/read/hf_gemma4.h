/* Reads config.json of Gemma 4's text models.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_GEMMA4_H
#define QSF_CONVERT_HF_GEMMA4_H

#include "read/hf_config.h"

#ifdef QSF_HAVE_YYJSON
/* hp has the windows and the sizes of windowed layers already.  arena: sizes of layers. */
qsf_status qsf_hf_gemma4(yyjson_val *root, hf_config *cfg, qsf_arena *arena, qsf_hparams *hp, qsf_error *err);
#endif

#endif
