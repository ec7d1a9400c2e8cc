/* Tiles of weights in shader text: functions that give codes and scales, the same for products of
 * one row and of many.
 * SPDX-License-Identifier: MIT
 *
 * A tile's bytes are bound unchanged, as a file or the CPU's memory has them: W: array<u32>.  A
 * lane of a code vector is one word: four columns of one of 16 rows.  32 columns of a row are a
 * group; a shader takes half a group at once, four words.  The text declares
 *
 *   const TILE         words of a tile
 *   const GROUPS       groups of a tile
 *   fn prepare(lid)    once by each invocation, in uniform control flow
 *   fn codes(tile, b, r, g, h) -> vec4<u32>
 *                      columns 32 g + 16 h to + 15 of row r: factors as int8, four in a word.  tile
 *                      is the tile's first word, b its number in its row of tiles
 *   fn scales(tile, r, k) -> vec2<f32>
 *                      of sub-block k (0 without sub-blocks): value = x * (factor - OFFSET) + y
 *   const OFFSET: i32
 *   fn terms(c, s, x, sums) -> f32
 *                      what 32 columns add to a sum, before it is scaled as the activations are:
 *                      c[2] codes and x[2] activations of each half, s scales of the group's
 *                      sub-blocks, sums those of the activations of each half */
#ifndef QSF_WGSL_DECODE_H
#define QSF_WGSL_DECODE_H

#include "kernels.h"
#include "text_wgsl.h"

/* Whether there is text for a form: for all but GGUF's codebooks. */
bool qsf_wgsl_has_form(qsf_form f);
/* block: columns of a tile; threads: of a workgroup.  The caller has declared W. */
void qsf_wgsl_decode(qsf_wgsl_text *t, qsf_form f, uint32_t block, uint32_t threads);
/* Scales of a group: 2 if 16 columns share one, else 1. */
uint32_t qsf_wgsl_group_scales(qsf_form f);

#endif
