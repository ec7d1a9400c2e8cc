/* Directories of rerankers that answer yes or no.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_RERANK_H
#define QSF_CONVERT_HF_RERANK_H

#include "read/hf_config.h"
#include "read/hf_rows.h"
#include "read/input.h"

#ifdef QSF_HAVE_YYJSON
/* Whether a name is that of such a model. */
bool       qsf_hf_rerank_name(const char *name);
/* Sets cfg->rerank if the directory's name or its README.md identifies a reranker, and the members
 * of hp that follow. */
qsf_status qsf_hf_rerank_find(const char *dir, input *in, hf_config *cfg, qsf_error *err);
/* Adds the classifier, which is the head's rows of "yes" and "no". */
qsf_status qsf_hf_rerank(const hf_weights *w, const hf_config *cfg, input *in, hf_place *places,
                         qsf_error *err);
#endif

#endif
