/* PyTorch checkpoints: a zip archive with a pickled state dict and one entry for each storage.
 * SPDX-License-Identifier: MIT
 *
 * The pickle is run by a machine of our own that can only build tensors: the few globals that a
 * state dict needs are members of an enum, nothing can be called, any other global is an error by
 * name. */
#ifndef QSF_CONVERT_PICKLE_H
#define QSF_CONVERT_PICKLE_H

#include "model/weights_file.h"

/* Finds and checks all tensors of f; index goes into their `file`.  QSF_E_CORRUPT: damaged, or its
 * sizes are wrong; QSF_E_UNSUPPORTED: the format before PyTorch 1.6, compressed entries, a global
 * or an opcode that state dicts do not use. */
qsf_status qsf_pickle_read(const qsf_platform *p, const weights_file *f, uint32_t index, qsf_arena *arena,
                           weights_list *out, qsf_error *err);

#endif
