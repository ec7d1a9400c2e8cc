/* The modules that sentence-transformers puts around a network: the pooling of the tokens, and
 * dense layers after it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_SENTENCE_H
#define QSF_CONVERT_HF_SENTENCE_H

#include "read/hf_config.h"
#include "read/hf_weights.h"
#include "read/input.h"

#ifdef QSF_HAVE_YYJSON
/* Parses a file that was found; what names it in messages. */
typedef qsf_status hf_parse(input *in, yyjson_val *root, const char *what, hf_config *cfg, qsf_error *err);

/* A file of the directory that need not be there. */
qsf_status qsf_hf_optional(const char *dir, input *in, hf_config *cfg, const char *name, hf_parse *parse,
                           qsf_error *err);
/* Reads modules.json, the pooling's config.json, and dense layers, whose weights are added to w.  A
 * module that the engine does not support is QSF_E_UNSUPPORTED. */
qsf_status qsf_hf_sentence(const char *dir, input *in, hf_config *cfg, hf_weights *w, qsf_error *err);
#endif

#endif
