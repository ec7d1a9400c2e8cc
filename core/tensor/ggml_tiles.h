/* GGUF's quantised types as tiles, in the place they were read to: nothing is lost, and nothing
 * grows but to whole strips of 16 rows.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_GGML_TILES_H
#define QSF_GGML_TILES_H

#include "base/pool.h"
#include "tensor/types.h"

/* The type of t, a matrix of a GGUF type, as tiles: for Q4_0, Q4_1, Q5_0 and Q8_0 the equivalent
 * QSF type (blocks of 32); for the others their own type with packing 1 (kernels/kernels.h draws
 * the tiles); -1: t is not such a tensor. */
int    qsf_ggml_tile_type(const qsf_tensor *t);
/* Bytes of scratch for one strip of t. */
size_t qsf_ggml_strip_bytes(const qsf_tensor *t);
/* Bytes of t as tiles, which is more than t->bytes if its rows do not fill whole strips; t->bytes
 * if t is not such a tensor. */
uint64_t qsf_ggml_tiled_bytes(const qsf_tensor *t);
/* Permutes n tensors into tiles where they lie: t[i]->data is data[i], which has room for tiles.
 * Each t[i] becomes what it then is.  The pool's threads (NULL: the caller) share the work; strips
 * is scratch for the largest strip for each of them. */
void   qsf_ggml_to_tiles(qsf_tensor *const *t, uint8_t *const *data, uint32_t n, void *strips,
                         qsf_pool *pool);
/* The way back for one block: row r of a tile of one of GGUF's types to GGUF's bytes. */
void   qsf_ggml_from_tile(uint32_t type, const uint8_t *tile, uint32_t r, uint8_t *block);

#endif
