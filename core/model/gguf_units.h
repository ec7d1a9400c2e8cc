/* Where a GGUF file has the weights of each kind: found by tensor names (gguf_read.c) and grouped
 * in units (gguf_units.c).
 * SPDX-License-Identifier: MIT */
#ifndef QSF_GGUF_UNITS_H
#define QSF_GGUF_UNITS_H

#include "model/gguf.h"
#include "model/roles.h"

enum { GGUF_PIECES = 3 };

/* From each of n groups of rows, `stride` bytes apart, consecutive pieces of bytes[i] bytes. */
typedef struct gguf_pieces { uint32_t n; uint64_t stride, bytes[GGUF_PIECES]; } gguf_pieces;

/* Where the weights of one kind are: a whole tensor of the file or some rows of one. */
typedef struct gguf_place {
    const gguf_tensor *t;
    uint64_t at;
    uint32_t rows, cols;
    uint64_t bytes;
    const gguf_pieces *pieces;  /* that the rows lie in; NULL: they are in one */
} gguf_place;

typedef struct gguf_layout {
    const gguf *g;
    gguf_place (*units)[QSF_N_KINDS];       /* [n_units] */
    gguf_place (*scales)[QSF_N_KINDS];      /* [n_units] one f32 that multiplies the matrix of a kind */
} gguf_layout;

/* Fills the source's units, extents, tensors and places. */
qsf_status qsf_gguf_fill_units(const gguf_layout *l, qsf_error *err);

#endif
