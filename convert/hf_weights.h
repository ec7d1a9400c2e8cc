/* The weight files of a Hugging Face directory: found, opened, indexed by name, read as rows of floats.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_WEIGHTS_H
#define QSF_CONVERT_HF_WEIGHTS_H

#include "hf.h"

/* model.safetensors, its index with shards, pytorch_model.bin, its index: the first that is there.  *format names the kind.
 * On an error the files opened so far are in w, for hf_weights_close. */
qsf_status hf_weights_open(const qsf_platform *p, const char *dir, qsf_arena *arena, hf_weights *w, const char **format, qsf_error *err);
void       hf_weights_close(const qsf_platform *p, hf_weights *w);

/* out[n][cols]: rows [row, row+n) of the tensor at pl.  Thread-safe. */
qsf_status hf_weights_rows(const qsf_platform *p, const hf_weights *w, const hf_place *pl, uint32_t cols, uint32_t row,
                           uint32_t n, float *out, qsf_error *err);

#endif
