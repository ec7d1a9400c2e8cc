/* The embedding on a device: rows of tokens, whose numbers are all that the host sends.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_EMBEDDING_H
#define QSF_DEVICE_EMBEDDING_H

#include "device/device_head.h"
#include "layers/embedding.h"

typedef struct qsf_device_embedding {
    bool here;                          /* the device computes it */
    uint32_t piece;                     /* of a matrix that is read in pieces, the next one */
    qsf_tensor tile;                    /* what is being read */
    qsf_device_layer steps;             /* a dispatch for each part of the matrix, then the norm */
} qsf_device_embedding;

/* Whether a device can compute it, and the bytes of its own that it needs there: the matrix, unless
 * the head has it. */
bool       qsf_device_embedding_possible(const qsf_source *s, const qsf_embedding *e,
                                         const qsf_context_options *o);
uint64_t   qsf_device_embedding_bytes(const qsf_source *s);

/* Begins to compile its pipelines. */
qsf_status qsf_device_embedding_begin(qsf_device_embedding *e, qsf_device_buffers *b, qsf_error *err);
/* A batch begins, whose tokens the device embeds: rows of a matrix that is read in pieces are not
 * fetched, but its next piece is, if the matrix is not there. */
void       qsf_device_embedding_want(qsf_device_embedding *e, const qsf_device_head *h, qsf_embedding *x);
/* Brings it to the device.  unit: its weights, if they are in memory.  QSF_PENDING: the next piece
 * is wanted.  A matrix that is also the head's is there once. */
qsf_status qsf_device_embedding_bring(qsf_device_embedding *e, qsf_device_buffers *b,
                                      const qsf_device_head *h, qsf_embedding *x, const qsf_weights *unit,
                                      qsf_error *err);
/* The matrix there, in the parts that the head has; NULL: it is not the head's, or not there. */
const qsf_device_id *qsf_device_embedding_tied(const qsf_device_embedding *e, const qsf_source *s);
void       qsf_device_embedding_done(qsf_device_embedding *e, const qsf_device_buffers *b);

#endif
