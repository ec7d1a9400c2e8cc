/* The weight files of a Hugging Face directory: found, opened, indexed by name.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_WEIGHTS_H
#define QSF_CONVERT_HF_WEIGHTS_H

#include "model/weights_file.h"

/* All weight files with an index by name. */
typedef struct hf_weights {
    uint32_t         n_files;
    weights_file    *files;
    uint32_t         n;
    weights_tensor **by_name;       /* sorted */
} hf_weights;

/* model.safetensors, its index with shards, pytorch_model.bin, its index: the first that is there.
 *  *format names the kind. On an error the files opened so far are in w, for hf_weights_close. */
qsf_status qsf_hf_weights_open(const qsf_platform *p, const char *dir, qsf_arena *arena, hf_weights *w,
                               const char **format, qsf_error *err);
/* The weights of a module in a folder of the directory, whose tensors get the name `as` and a slash
 * in front of their own. */
qsf_status qsf_hf_weights_add(const qsf_platform *p, const char *dir, const char *folder, const char *as,
                              qsf_arena *arena, hf_weights *w, qsf_error *err);
/* Whether it names a file or folder of the directory itself. */
bool       qsf_hf_plain_name(const char *name);
void       qsf_hf_weights_close(const qsf_platform *p, hf_weights *w);

/* NULL if not found. */
weights_tensor *qsf_hf_weights_find(const hf_weights *w, const char *name);

#endif
