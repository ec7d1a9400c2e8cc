/* An input with adapters (LoRA) in its weights.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_MERGE_H
#define QSF_CONVERT_MERGE_H

#include "read/input.h"

#include "qsf_convert.h"

/* From now on in's matrices are read as W + scale B A, for each of the n adapters.  If an adapter
 * changes an embedding or a head that are tied, in is untied first.  The engine cannot run the
 * result: in does not have a model_path.  warn: called with a line for each thing left out, or
 * NULL.
 *
 * Returns the errors of qsf_adapter_load; then in is unchanged, or partly merged and can only be
 * closed. */
qsf_status qsf_input_merge(input *in, const qsf_convert_adapter *list, size_t n,
                           void (*warn)(void *user, const char *line), void *user, qsf_error *err);

#endif
