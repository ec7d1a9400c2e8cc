/* Places and small parts of a QSF file that its reader and its writer share; docs/format.md has the
 * whole.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_QSF_FILE_H
#define QSF_QSF_FILE_H

#include "base/pool.h"
#include "model/source.h"

enum {
    QSF_HEADER_BYTES  = 128,
    QSF_VERSION_EMBD_CLUSTERS = 2,  /* the header's version if the embedding is clustered; else 1 */
    QSF_VERSION_LAYERS = 3,         /* if the description has keys that version 2 did not know */
    QSF_VERSION_PLANES = 4,         /* if units lie in two pieces */
    QSF_VERSION_MTP = 5,            /* if the last layer is for multi-token prediction */
    QSF_ENTRY_BYTES   = 32,         /* of the layer index */
    QSF_EMBD_HEAD     = 16,         /* embedding header */
    QSF_TENSOR_HEAD   = 16,
    QSF_UNIT_ALIGN    = 4096,       /* units begin at multiples of this */
    QSF_DATA_ALIGN    = 64,         /* in a unit, tensors' data do; so their headers end there */
    /* zeros before the embedding header, part of its unit */
    QSF_EMBD_FRONT    = QSF_DATA_ALIGN - QSF_EMBD_HEAD,
    QSF_CRC_CHUNK     = 1 << 16,
    QSF_TIED          = 0xff,       /* the final section's flag byte */
    QSF_LAYER_DEFAULT = 0xff,       /* a tensor header's type byte */
    QSF_MAX_LAYERS    = 4096
};

/* ---- tensor headers ---- */
void qsf_tensor_header_put(uint8_t out[QSF_TENSOR_HEAD], const qsf_tensor *t);
/* layer_type: the meaning of type byte 0xFF.  Fills t->bytes too. */
qsf_status qsf_tensor_header_get(const uint8_t h[QSF_TENSOR_HEAD], uint8_t layer_type, qsf_tensor *t,
                                 qsf_error *err);
/* The block size of a type if byte 14 of the header is log2_block. */
uint32_t   qsf_header_block(uint32_t type, uint8_t log2_block);
/* Whether readers step over tensors of this kind: padding, and what a later version may add. */
static inline bool qsf_kind_skipped(uint32_t kind)
{
    const uint32_t outliers_end = QSF_K_OUTLIERS + (uint32_t)QSF_N_KINDS;
    return kind >= QSF_K_SCALE + (uint32_t)QSF_N_KINDS || (kind >= outliers_end && kind < QSF_K_SCALE);
}

/* ---- opening ---- */
/* Takes t at raw place `place` as the unit's next tensor, after checking both against the unit and
 * its other tensors.  s->tensors and s->places have room for it. */
qsf_status  qsf_unit_add(qsf_source *s, uint32_t unit, const qsf_tensor *t, uint64_t place, qsf_error *err);
/* Makes the units and their tensors of a file that has no extension section
 * (core/model/qsf_plain.c). */
qsf_status  qsf_plain_units(qsf_source *s, const uint8_t *index, uint64_t embd_at, uint64_t final_at,
                            qsf_error *err);

/* Of a unit in two pieces: whether they are as long as its tensors ask for. */
qsf_status  qsf_unit_check_pieces(const qsf_source *s, uint32_t unit, qsf_error *err);

/* With QSF_CHECK_CRC, what qsf_unit_check_timed does with the CRC, by all threads of the pool. */
qsf_status  qsf_unit_check_sum(const qsf_source *s, uint32_t unit, const void *stored, unsigned check,
                               qsf_pool *pool, qsf_unit_times *t, qsf_error *err);

/* Puts the second piece of a unit, whose CRC it checks, into raw bytes made of the first. */
qsf_status qsf_unit_refine(const qsf_source *s, uint32_t unit, const void *rest, void *raw, qsf_error *err);

/* ---- decompressing ---- */
/* The memory for it; one caller at a time has it, another meanwhile gets memory of its own. */
qsf_status qsf_unpack_new(qsf_source *s, qsf_error *err);
qsf_status qsf_unit_unpack(const qsf_source *s, uint32_t unit, const void *stored, void *raw, qsf_error *err);

#endif
