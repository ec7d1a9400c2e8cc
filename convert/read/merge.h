/* An input with adapters (LoRA) in its weights.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_MERGE_H
#define QSF_CONVERT_MERGE_H

#include "read/input.h"

#include "qsf_convert.h"

/* From now on in's matrices are read as W + scale B A, for each of the n adapters.  Where one
 * changes an embedding or a head that are one matrix, in is untied first.  The engine cannot run
 * what is read then: in has no model_path.  warn: a line for each thing that is left out, or NULL.
 *
 * The errors of qsf_adapter_load; then in is as before, or is read in part with adapters and is
 * only to be closed. */
qsf_status qsf_input_merge(input *in, const qsf_convert_adapter *list, size_t n,
                           void (*warn)(void *user, const char *line), void *user, qsf_error *err);

#endif
