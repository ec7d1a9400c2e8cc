/* Units in two pieces: the high bits of the codes of all tiles of 8 bits, enough to answer, and the
 * low bits, which lie at the end of a progressive file.
 * SPDX-License-Identifier: MIT
 *
 * A tile is a head of scales and 64-byte vectors of codes (docs/format.md).  Two vectors become one
 * of their codes' upper four bits, for the first piece, and one of the lower four, for the second.
 * All else is in the first piece, in its order. */
#include "model/planes.h"

enum { PLANES_VECTOR = 64, PLANES_ROWS = 16, PLANES_HEAD = 2 * PLANES_ROWS };

static bool tensor_splits(const qsf_tensor *t) { return t->packing == 1 && t->type == QSF_T_8BIT; }

/* Of a tile: a vector of codes has 4 columns. */
static uint64_t tile_pairs(const qsf_tensor *t) { return t->block / 8; }
static uint64_t tensor_tiles(const qsf_tensor *t)
{
    return qsf_ceil_div(t->rows, PLANES_ROWS) * qsf_ceil_div(t->cols, t->block);
}

uint64_t qsf_planes_rest(const qsf_planes *p)
{
    uint64_t rest = 0;
    for (uint32_t i = 0; i < p->n; i++)
        if (tensor_splits(&p->tensors[i]))
            rest += tensor_tiles(&p->tensors[i]) * tile_pairs(&p->tensors[i]) * PLANES_VECTOR;
    return rest;
}

/* ---- two consecutive vectors ---- */

static void pair_split(const uint8_t *a, uint8_t *high, uint8_t *low)
{
    const uint8_t *b = a + PLANES_VECTOR;
    for (uint32_t i = 0; i < PLANES_VECTOR; i++) {
        high[i] = (uint8_t)(a[i] >> 4 | (b[i] & 0xf0));
        low[i] = (uint8_t)((a[i] & 0x0f) | b[i] << 4);
    }
}

static void pair_join(const uint8_t *high, const uint8_t *low, uint8_t *a)
{
    uint8_t *b = a + PLANES_VECTOR;
    for (uint32_t i = 0; i < PLANES_VECTOR; i++) {
        a[i] = (uint8_t)(high[i] << 4 | (low[i] & 0x0f));
        b[i] = (uint8_t)((high[i] & 0xf0) | low[i] >> 4);
    }
}

/* Until the lower halves are read, they are set to the middle, alternately half a step below and
 * above it.  Codes next to zero, 0 to 15 and -16 to -1, are set nearer to it, to 3 and -4: columns
 * with very large activations have very small weights, and an error of half a step in each of these
 * does the most damage (docs/quantisers.md has the figures). */
static uint8_t byte_guess(uint32_t high, uint8_t middle)
{
    return (uint8_t)(high << 4 | (high == 0 ? 3 : high == 15 ? 12 : middle));
}

static void pair_guess(const uint8_t *high, uint8_t *a)
{
    for (uint32_t i = 0; i < PLANES_VECTOR; i++) {
        a[i] = byte_guess(high[i] & 15, 7);
        a[PLANES_VECTOR + i] = byte_guess(high[i] >> 4, 8);
    }
}

static void pair_refine(const uint8_t *low, uint8_t *a)
{
    uint8_t *b = a + PLANES_VECTOR;
    for (uint32_t i = 0; i < PLANES_VECTOR; i++) {
        a[i] = (uint8_t)((a[i] & 0xf0) | (low[i] & 0x0f));
        b[i] = (uint8_t)((b[i] & 0xf0) | low[i] >> 4);
    }
}

/* ---- units ---- */

typedef enum planes_way { PLANES_SPLIT, PLANES_JOIN, PLANES_REFINE } planes_way;

/* Where a walk through a unit stands: splitting reads raw_in and writes first and rest, the other
 * ways read these and write raw. */
typedef struct planes_walk {
    planes_way     way;
    const uint8_t *raw_in, *first_in, *rest_in;
    uint8_t       *raw, *first, *rest;
} planes_walk;

/* The next n bytes of both the unit and its first piece. */
static void walk_copy(planes_walk *w, uint64_t n)
{
    if (w->way == PLANES_SPLIT) {
        memcpy(w->first, w->raw_in, (size_t)n);
        w->raw_in += n;
        w->first += n;
        return;
    }
    if (w->way == PLANES_JOIN) {
        memcpy(w->raw, w->first_in, (size_t)n);
        w->first_in += n;
    }
    w->raw += n;
}

static void walk_pair(planes_walk *w)
{
    if (w->way == PLANES_SPLIT) {
        pair_split(w->raw_in, w->first, w->rest);
        w->raw_in += 2 * PLANES_VECTOR;
        w->first += PLANES_VECTOR;
        w->rest += PLANES_VECTOR;
        return;
    }
    if (w->way == PLANES_REFINE) {
        pair_refine(w->rest_in, w->raw);
    } else {
        if (w->rest_in) pair_join(w->first_in, w->rest_in, w->raw);
        else pair_guess(w->first_in, w->raw);
        w->first_in += PLANES_VECTOR;
    }
    w->raw += 2 * PLANES_VECTOR;
    if (w->rest_in) w->rest_in += PLANES_VECTOR;
}

static void walk_unit(planes_walk *w, const qsf_planes *p)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const qsf_tensor *t = &p->tensors[i];
        if (!tensor_splits(t)) continue;
        walk_copy(w, p->places[i] - at);
        for (uint64_t tile = tensor_tiles(t); tile-- > 0;) {
            walk_copy(w, PLANES_HEAD);
            for (uint64_t pair = tile_pairs(t); pair-- > 0;) walk_pair(w);
        }
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
