/* Products of experts: matrices that have the rows of all experts in order, times slots.
 * SPDX-License-Identifier: MIT
 *
 * choice_wgsl.h says what a slot is.  An expert's rows may begin within a tile; its results do not
 * have the rows before.  A matrix that is too large for a binding is bound in parts, each with the
 * tiles of a range of experts, and each part has a dispatch. */
#ifndef QSF_WGSL_EXPERTS_H
#define QSF_WGSL_EXPERTS_H

#include "choice_wgsl.h"
#include "product_wgsl.h"

typedef struct qsf_wgsl_experts {
    qsf_form form;
    uint32_t block;         /* columns of a tile */
    uint32_t slices;        /* of K in a workgroup: a power of two; for few slots */
    bool     scales;        /* each expert's sums are multiplied by its own number */
    bool     bias;          /* then added: as the matrix, the rows of all experts */
} qsf_wgsl_experts;

/* Binding 0.  Then W (tiles of experts first to end), X (codes), Y (floats), Slots, List, with
 * scales and bias their floats.  Both shaders have the same bindings, so that they can share a bind
 * group; that for few slots does not read List, the other one not Slots. */
typedef struct qsf_wgsl_experts_numbers {
    uint32_t rows, blocks;          /* of an expert; tiles of a tile row */
    uint32_t first, end;            /* experts of this part, */
    uint32_t tile;                  /* and its first tile row in the whole matrix */
    uint32_t x_ld, y_ld;            /* vec4s and floats from one row to the next */
    uint32_t used, slots;           /* of a row: slots that have an expert; entries in Slots */
    uint32_t x_used;                /* slots that share a row of X: `used`, or 1 if each has its own; */
    uint32_t y_slots;               /* rows of Y that a row of the batch has: used or slots */
    uint32_t groups;                /* of List (qsf_wgsl_expert_groups) */
} qsf_wgsl_experts_numbers;

/* The most tile rows, of 16 rows each, that an expert touches. */
static inline uint32_t qsf_wgsl_expert_tiles(uint32_t rows)
{
    return (rows % 16 ? rows + 30 : rows) / 16;
}

/* A workgroup has a slot and a tile row.  Workgroups: x: qsf_wgsl_expert_tiles; z: slots. */
void qsf_wgsl_experts_slots(qsf_wgsl_text *t, const qsf_wgsl_experts *e);
/* Many: a workgroup has a group of List and 64 rows.  Workgroups: x: a fourth of the tiles, rounded
 * up; z: groups. */
void qsf_wgsl_experts_tiles(qsf_wgsl_text *t, const qsf_wgsl_experts *e);

#endif
