/* The safetensors container: 8 bytes of length, a JSON header, then the tensors' bytes.
 * https://github.com/huggingface/safetensors (section "Format").
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SAFETENSORS_H
#define QSF_SAFETENSORS_H

#include "model/weights_file.h"

/* Reads and checks f's header: its length (at most 100 MB, inside the file), no name twice, every
 * range inside the data, as long as shape and dtype say, none overlapping another.  index goes into
 * the tensors' `file`. QSF_E_CORRUPT with the tensor's name; QSF_E_UNSUPPORTED in a build without
 * the converter. */
qsf_status qsf_safetensors_read(const qsf_platform *p, const weights_file *f, uint32_t index,
                                qsf_arena *arena, weights_list *out, qsf_error *err);

#endif
