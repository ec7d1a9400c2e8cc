/* The weight files of a Hugging Face directory: found, opened, indexed by name, read as rows of
 * floats.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_WEIGHTS_H
#define QSF_CONVERT_HF_WEIGHTS_H

#include "model/weights_file.h"

/* Where the values of one input tensor come from. */
typedef struct hf_place {
    const weights_tensor *t;
    /* rows lie in several tensors of so many rows each, one behind the other; NULL: in t */
    weights_tensor *const *each;
    uint32_t each_rows;
    uint64_t first;         /* values before the part, in the first stored row */
    /* transposed: values from one stored row to the next; 0: rows lie one after another */
    uint64_t stride;
    float    add;           /* Gemma stores its norms less 1 */
    bool     packed;        /* ternary codes: rows i, i + rows / 4, ... share a stored row's bytes */
    uint32_t rows;          /* of a packed tensor, unpacked */
    float    scale;         /* of ternary values; 0: the values are no codes */
    float    sharp;         /* of masters, by which they are multiplied before they are rounded; 0: none */
} hf_place;

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
void       qsf_hf_weights_close(const qsf_platform *p, hf_weights *w);

/* NULL: there is none. */
weights_tensor *qsf_hf_weights_find(const hf_weights *w, const char *name);

/* Finds sharp and scale of ternary masters [rows][cols]: by the mean magnitude, as they were
 * trained.  Leaves a matrix as it is that is ternary already. */
qsf_status qsf_hf_weights_masters(const qsf_platform *p, const hf_weights *w, hf_place *pl, uint32_t rows,
                                  uint32_t cols, qsf_error *err);
/* The one number that tensor t holds. */
qsf_status qsf_hf_weights_number(const qsf_platform *p, const hf_weights *w, const weights_tensor *t,
                                 float *value, qsf_error *err);

/* out[n][cols]: rows [row, row+n) of the tensor at pl.  Thread-safe. */
qsf_status qsf_hf_weights_rows(const qsf_platform *p, const hf_weights *w, const hf_place *pl, uint32_t cols,
                               uint32_t row, uint32_t n, float *out, qsf_error *err);

#endif
