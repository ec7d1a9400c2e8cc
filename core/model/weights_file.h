/* Tensors in the weight files of a Hugging Face directory: safetensors and, for the converter,
 * PyTorch's.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WEIGHTS_FILE_H
#define QSF_WEIGHTS_FILE_H

#include "base/arena.h"
#include "tensor/types.h"

enum { WEIGHTS_MAX_DIMS = 4, WEIGHTS_NO_TYPE = 0xff };

/* An open weight file.  Paths and files belong to the code that opened them. */
typedef struct weights_file {
    const char *path;       /* for messages */
    qsf_file   *file;
    uint64_t    length;
} weights_file;

typedef struct weights_tensor {
    const char *name;
    const char *dtype;      /* the file's name for it: "BF16", "HalfStorage" */
    /* QSF_T_F16, QSF_T_BF16, QSF_T_F32; WEIGHTS_NO_TYPE: another one, refused when it is needed */
    uint8_t     type;
    bool        transposed; /* two dimensions, and the first one is the dense one */
    bool        used;
    uint32_t    n_dims;
    /* slowest first; a tensor of more dimensions is refused when it is needed */
    uint64_t    shape[WEIGHTS_MAX_DIMS];
    uint32_t    file;       /* index among the opened ones */
    uint64_t    at, bytes;  /* in that file */
} weights_tensor;

/* A file's tensors, in the arena. */
typedef struct weights_list {
    uint32_t        n;
    weights_tensor *tensors;
} weights_list;

#endif
