/* Units in two pieces, for progressive files: the high bits of the codes, and what is left.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PLANES_H
#define QSF_PLANES_H

#include "tensor/types.h"

/* A unit's raw bytes and the tensors in them, by place; only tiles of some types are split. */
typedef struct qsf_planes {
    const qsf_tensor *tensors;
    const uint64_t   *places;
    uint32_t          n;
    uint64_t          raw;
} qsf_planes;

/* Bytes of the second piece: 0 if nothing of the unit is split.  The first has the others. */
uint64_t qsf_planes_rest(const qsf_planes *p);
/* raw[p->raw] to both pieces. */
void     qsf_planes_split(const qsf_planes *p, const uint8_t *raw, uint8_t *first, uint8_t *rest);
/* And back.  rest NULL: codes get low bits from the middle of what they may be. */
void     qsf_planes_join(const qsf_planes *p, const uint8_t *first, const uint8_t *rest, uint8_t *raw);
/* Of raw bytes that have been joined without it: puts the low bits where they belong. */
void     qsf_planes_refine(const qsf_planes *p, const uint8_t *rest, uint8_t *raw);

#endif
