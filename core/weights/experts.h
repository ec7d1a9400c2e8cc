/* Experts that are read one by one, when the router has chosen them.
 * SPDX-License-Identifier: MIT
 *
 * A layer's unit is then read without them (qsf_unit_shared).  An expert is a range of rows of each
 * of the layer's three merged matrices; the three ranges lie in a slot one after another: GGUF's in
 * tiles of their own, QSF's in the tiles of the file.  Slots keep the experts that are expected to
 * be used again soonest. */
#ifndef QSF_EXPERTS_H
#define QSF_EXPERTS_H

#include "weights/fetch.h"

enum { QSF_LEAST_EXPERTS = 4 };     /* slots: one is computed while others are read */

typedef struct qsf_experts {
    qsf_fetch *fetch;           /* NULL: experts are read with their layers */
    qsf_shelf  shelf;
    bool       own_tiles;       /* each begins with a tile: the file's rows become tiles when it is read */
    float     *use;             /* [layers][per_layer] how often a row has taken it of late, 0 to 1 */
    uint64_t   n_used;          /* experts that batches took, once each layer and batch */
    uint64_t   n_found;         /* of these, in memory or on the way when they were chosen */
} qsf_experts;

/* A batch's walk through the experts of its layer, one wave of them after another. */
typedef struct qsf_expert_walk {
    const uint32_t *list;       /* [n] the chosen ones, ascending */
    const uint32_t *first;      /* [n + 1] slots of the batch's rows that each of them has */
    uint32_t n;                 /* 0: no walk is under way */
    uint32_t begin, end;        /* of the wave */
    uint32_t rows;              /* of the batch */
    uint32_t most;              /* slots of rows in a wave */
} qsf_expert_walk;

/* Whether the file has experts and each of them can be read alone. */
bool       qsf_experts_possible(const qsf_source *s);
uint32_t   qsf_experts_all(const qsf_source *s);         /* how many, of all layers */
uint64_t   qsf_experts_slot(const qsf_source *s);        /* bytes of a slot: what the largest one takes */
uint64_t   qsf_experts_bytes(const qsf_source *s);       /* of tables, besides the fetch's */
/* x must not move. */
qsf_status qsf_experts_init(qsf_experts *x, qsf_fetch *f, const qsf_fetch_plan *plan, qsf_error *err);
void       qsf_experts_done(qsf_experts *x);             /* before the fetch's; accepts a partly built one */

/* The walk of `layer` begins: counts it, and starts to read. */
void       qsf_experts_begin(qsf_experts *x, uint32_t layer, const qsf_expert_walk *walk);
/* Starts to read the missing experts from walk->begin on, as far as slots are free. */
void       qsf_experts_ahead(qsf_experts *x, uint32_t layer, const qsf_expert_walk *walk);
/* Sets the end of the next wave: as many as are here.  QSF_PENDING: the first is on the way.  wait:
 * does not return QSF_PENDING. */
qsf_status qsf_experts_get(qsf_experts *x, uint32_t layer, qsf_expert_walk *walk, bool wait, qsf_error *err);
/* The wave has been computed. */
void       qsf_experts_leave(qsf_experts *x, uint32_t layer, const qsf_expert_walk *walk);
/* Points m, which has the form of a matrix of one expert, to the data of expert e of the wave.
 * Unless own_tiles is set, its rows begin within the first tile, as in the file. */
void       qsf_expert_place(const qsf_experts *x, uint32_t layer, uint32_t e, qsf_matrix *m);

#endif
