/* Units, the parts of a file that are read, checked and dropped together, and their addresses.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_UNIT_H
#define QSF_UNIT_H

#include "base/base.h"

/* PLANES is never in a file: a progressive file's units that lie in two pieces (planes.h). */
enum { QSF_COMPRESS_NONE = 0, QSF_COMPRESS_LZ4 = 1, QSF_COMPRESS_LZ4HC = 2, QSF_COMPRESS_ZSTD = 3,
       QSF_COMPRESS_PLANES = 4 };
enum { QSF_MAX_UNIT_TENSORS = 48 };

/* One read: file's bytes [at, at+len) to place `to` of the unit's stored bytes. */
typedef struct qsf_extent { uint32_t file; uint64_t at, len, to; } qsf_extent;

typedef struct qsf_unit {
    uint64_t stored, raw;         /* bytes as read; after decompression (equal without) */
    uint8_t  compression;
    bool     has_crc;
    uint32_t crc;                 /* of the stored bytes */
    float    importance;          /* of a layer, 1 if unknown */
    uint32_t first_extent, n_extents;
    uint32_t first_tensor, n_tensors;
    uint32_t n_expert_tensors;    /* the last of them are of experts that can be read alone; 0: none can */
    uint32_t shared_crc;          /* with expert_crcs: of what is before their data */
    const uint32_t *expert_crcs;  /* [experts] of an expert's rows in these tensors; NULL: not stored */
    uint64_t payload;             /* QSF: of the stored bytes, those before the zeros at the end */
    uint64_t rest;                /* of the stored bytes, the last ones are the low bits; 0: in one piece */
    uint32_t rest_crc;            /* of these; crc is then of the others */
} qsf_unit;

/* ---- addresses ---- */

/* A unit's address: what it is, and which of them. */
typedef enum qsf_unit_kind { QSF_UNIT_LAYER, QSF_UNIT_EMBEDDING, QSF_UNIT_FINAL } qsf_unit_kind;
typedef struct qsf_unit_id { qsf_unit_kind kind; uint32_t number; } qsf_unit_id;

static inline qsf_unit_id qsf_id_layer(uint32_t i) { return (qsf_unit_id){ QSF_UNIT_LAYER, i }; }
static inline qsf_unit_id qsf_id_embd(void) { return (qsf_unit_id){ QSF_UNIT_EMBEDDING, 0 }; }
static inline qsf_unit_id qsf_id_final(void) { return (qsf_unit_id){ QSF_UNIT_FINAL, 0 }; }

/* The one place that knows the order of a source's table of units: the layers, the embedding, the
 * final section (the last norm, and the head if it is not the embedding). */
static inline uint32_t qsf_units_of(uint32_t n_layers) { return n_layers + 2; }
static inline uint32_t qsf_unit_number(uint32_t n_layers, qsf_unit_id id)
{
    return id.kind == QSF_UNIT_LAYER ? id.number : n_layers + (id.kind == QSF_UNIT_FINAL);
}
static inline qsf_unit_id qsf_unit_id_at(uint32_t n_layers, uint32_t number)
{
    return number < n_layers ? qsf_id_layer(number) : number == n_layers ? qsf_id_embd() : qsf_id_final();
}

/* ---- of a source ---- */
struct qsf_source;

/* "layer 3", "embedding", "final section"; buf may hold it. */
const char *qsf_unit_name(const struct qsf_source *s, uint32_t unit, char buf[32]);
/* A layer without the experts that can be read alone; unchanged if it has no such experts. */
qsf_unit    qsf_unit_shared(const struct qsf_source *s, uint32_t unit);
/* The index of the unit's tensor of that kind; -1: not found. */
int         qsf_unit_find(const struct qsf_source *s, uint32_t unit, uint32_t kind);

#endif
