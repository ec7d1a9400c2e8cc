/* Buffers by name.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_BUFFER_NAMES_H
#define QSF_BUFFER_NAMES_H

#include "layers/buffers.h"

/* Buffers of floats, by name.  Those from SLOT_X on have a row for each slot. */
typedef enum qsf_buffer_name {
    QSF_BUF_NONE, QSF_BUF_X, QSF_BUF_XN, QSF_BUF_TMP, QSF_BUF_Q, QSF_BUF_K, QSF_BUF_V, QSF_BUF_ATT,
    QSF_BUF_GATE, QSF_BUF_UP, QSF_BUF_X0, QSF_BUF_TABLE, QSF_BUF_ALT, QSF_BUF_PREDICTED, QSF_BUF_LAUREL,
    QSF_BUF_JOINED, QSF_BUF_FEATURES,
    QSF_BUF_FIRST, QSF_BUF_MIX, QSF_BUF_ROUTE, QSF_BUF_EXPERTS, QSF_BUF_SLOT_X, QSF_BUF_SLOT_GATE,
    QSF_BUF_SLOT_UP,
    QSF_N_BUFFERS
} qsf_buffer_name;

/* The offsets in qsf_buffers of a buffer's address and of the distance of its rows. */
typedef struct qsf_buffer_place {
    uint16_t at, ld;
    bool     tight;             /* its rows follow one another without padding */
} qsf_buffer_place;
extern const qsf_buffer_place qsf_buffer_places[QSF_N_BUFFERS];

/* A buffer's rows: the first one, and how far they are apart. */
float *qsf_buffer_of(const qsf_buffers *b, uint8_t name, size_t *ld);

#endif
