/* Reads from config.json the layers whose mixer is not attention.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_MIXERS_H
#define QSF_CONVERT_HF_MIXERS_H

#include "read/hf_config.h"

#ifdef QSF_HAVE_YYJSON
/* Of an architecture that has some.  arena: the list of mixers. */
qsf_status qsf_hf_mixers(yyjson_val *root, const hf_config *cfg, qsf_arena *arena, qsf_hparams *hp,
                         qsf_error *err);
#endif

#endif
