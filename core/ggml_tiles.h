/* GGUF's 32-column types as tiles, in the place they were read to: nothing is lost and nothing grows.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_GGML_TILES_H
#define QSF_GGML_TILES_H

#include "types.h"

/* The QSF type (blocks of 32) that says the same as t's: Q4_0, Q4_1, Q5_0, Q8_0 in whole strips of 16 rows; -1: none. */
int    qsf_ggml_tile_type(const qsf_tensor *t);
/* Bytes of scratch for one strip of t. */
size_t qsf_ggml_strip_bytes(const qsf_tensor *t);
/* Permutes data, which holds t, into tiles; *t becomes what it then is. */
void   qsf_ggml_to_tiles(qsf_tensor *t, void *data, void *strip);

#endif
