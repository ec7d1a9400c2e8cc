/* Units in two pieces: the high bits of the codes of all tiles, which are enough to answer with, and
 * the low bits, which lie at the end of a progressive file.
 * SPDX-License-Identifier: MIT
 *
 * A tile is a head of scales and groups of 64-byte vectors (docs/format.md).  Two vectors a, b of a
 * plane of 4 or 8 bits become a vector of their fields' upper halves, for the first piece, and one
 * of the lower halves, for the second.  All else is in the first piece, in its order. */
#include "model/planes.h"

typedef struct planes_type {
    uint32_t head, split, whole;    /* bytes of a tile's head; vectors of a group that are split, and behind */
    uint32_t shift;                 /* half the bits of a field */
    uint8_t  high;                  /* the upper half of each field in a byte */
    uint8_t  middle;                /* a byte of lower halves from the middle: in turn a step below, above */
} planes_type;

enum { PLANES_VECTOR = 64, PLANES_ROWS = 16 };

/* NULL: tensors of it are not split. */
static const planes_type *planes_type_of(const qsf_tensor *t)
{
    static const planes_type four = { 32, 4, 0, 2, 0xcc, 0x69 }, four_zero = { 64, 4, 0, 2, 0xcc, 0x69 },
                             five = { 32, 4, 1, 2, 0xcc, 0x69 }, six = { 32, 4, 2, 2, 0xcc, 0x69 },
                             eight = { 32, 8, 0, 4, 0xf0, 0x87 };
    if (t->packing != 1) return NULL;
    switch (t->type) {
    case QSF_T_4BIT: return &four_zero;
    case QSF_T_4BIT_S: return &four;
    case QSF_T_5BIT_S: return &five;
    case QSF_T_6BIT_S: return &six;
    case QSF_T_8BIT: return &eight;
    default: return NULL;
    }
}

static uint64_t planes_groups(const qsf_tensor *t) { return t->block / 32; }
static uint64_t planes_tiles(const qsf_tensor *t)
{
    return qsf_ceil_div(t->rows, PLANES_ROWS) * qsf_ceil_div(t->cols, t->block);
}

uint64_t qsf_planes_rest(const qsf_planes *p)
{
    uint64_t rest = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const planes_type *type = planes_type_of(&p->tensors[i]);
        if (type)
            rest += planes_tiles(&p->tensors[i]) * planes_groups(&p->tensors[i]) * type->split / 2
                    * PLANES_VECTOR;
    }
    return rest;
}

/* ---- vectors ---- */

static void vectors_split(const planes_type *k, const uint8_t *a, uint8_t *high, uint8_t *low)
{
    const uint8_t *b = a + PLANES_VECTOR, m = k->high, n = (uint8_t)~k->high;
    for (uint32_t i = 0; i < PLANES_VECTOR; i++) {
        high[i] = (uint8_t)((a[i] & m) >> k->shift | (b[i] & m));
        low[i] = (uint8_t)((a[i] & n) | (b[i] & n) << k->shift);
    }
}

static void vectors_join(const planes_type *k, const uint8_t *high, const uint8_t *low, uint8_t *a)
{
    uint8_t *b = a + PLANES_VECTOR;
    const uint8_t m = k->high, n = (uint8_t)~k->high;
    for (uint32_t i = 0; i < PLANES_VECTOR; i++) {
        const uint8_t h = high[i], l = low[i];
        a[i] = (uint8_t)((h << k->shift & m) | (l & n));
        b[i] = (uint8_t)((h & m) | (l >> k->shift & n));
    }
}

static void vectors_refine(const planes_type *k, const uint8_t *low, uint8_t *a)
{
    uint8_t *b = a + PLANES_VECTOR;
    const uint8_t m = k->high, n = (uint8_t)~k->high;
    for (uint32_t i = 0; i < PLANES_VECTOR; i++) {
        a[i] = (uint8_t)((a[i] & m) | (low[i] & n));
        b[i] = (uint8_t)((b[i] & m) | (low[i] >> k->shift & n));
    }
}

/* ---- units ---- */

typedef enum planes_way { PLANES_SPLIT, PLANES_JOIN, PLANES_REFINE } planes_way;

/* Where a walk through a unit stands.  in is the raw side when splitting, out otherwise. */
typedef struct planes_walk {
    planes_way     way;
    const uint8_t *raw_in, *first_in, *rest_in;
    uint8_t       *raw, *first, *rest;
    const uint8_t *middle;          /* a vector, in the place of rest_in where that is NULL */
} planes_walk;

/* The next n bytes of both the unit and its first piece. */
static void walk_copy(planes_walk *w, uint64_t n)
{
    if (w->way == PLANES_SPLIT) {
        memcpy(w->first, w->raw_in, (size_t)n);
        w->raw_in += n;
        w->first += n;
    } else {
        if (w->way == PLANES_JOIN) {
            memcpy(w->raw, w->first_in, (size_t)n);
            w->first_in += n;
        }
        w->raw += n;
    }
}

static void walk_pair(planes_walk *w, const planes_type *type)
{
    if (w->way == PLANES_SPLIT) {
        vectors_split(type, w->raw_in, w->first, w->rest);
        w->raw_in += 2 * PLANES_VECTOR;
        w->first += PLANES_VECTOR;
        w->rest += PLANES_VECTOR;
        return;
    }
    if (w->way == PLANES_REFINE) {
        vectors_refine(type, w->rest_in, w->raw);
    } else {
        vectors_join(type, w->first_in, w->rest_in ? w->rest_in : w->middle, w->raw);
        w->first_in += PLANES_VECTOR;
    }
    w->raw += 2 * PLANES_VECTOR;
    if (w->rest_in) w->rest_in += PLANES_VECTOR;
}

static void walk_tiles(planes_walk *w, const planes_type *type, const qsf_tensor *t)
{
    uint8_t middle[PLANES_VECTOR];
    const uint64_t tiles = planes_tiles(t), groups = planes_groups(t);
    memset(middle, type->middle, sizeof middle);
    w->middle = middle;
    for (uint64_t i = 0; i < tiles; i++) {
        walk_copy(w, type->head);
        for (uint64_t g = 0; g < groups; g++) {
            for (uint32_t v = 0; v < type->split; v += 2) walk_pair(w, type);
            walk_copy(w, (uint64_t)type->whole * PLANES_VECTOR);
        }
    }
    w->middle = NULL;
}

static void walk_unit(planes_walk *w, const qsf_planes *p)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const qsf_tensor *t = &p->tensors[i];
        const planes_type *type = planes_type_of(t);
        if (!type) continue;
        walk_copy(w, p->places[i] - at);
        walk_tiles(w, type, t);
        at = p->places[i] + t->bytes;
    }
    walk_copy(w, p->raw - at);
}

void qsf_planes_split(const qsf_planes *p, const uint8_t *raw, uint8_t *first, uint8_t *rest)
{
    planes_walk w = { .way = PLANES_SPLIT, .raw_in = raw, .first = first, .rest = rest };
    walk_unit(&w, p);
}

void qsf_planes_join(const qsf_planes *p, const uint8_t *first, const uint8_t *rest, uint8_t *raw)
{
    planes_walk w = { .way = PLANES_JOIN, .first_in = first, .rest_in = rest, .raw = raw };
    walk_unit(&w, p);
}

void qsf_planes_refine(const qsf_planes *p, const uint8_t *rest, uint8_t *raw)
{
    planes_walk w = { .way = PLANES_REFINE, .rest_in = rest, .raw = raw };
    walk_unit(&w, p);
}
