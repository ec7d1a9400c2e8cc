/* Layers whose weights do not stay on the device: they pass through slots there, batch by batch, or
 * the CPU computes them.
 * SPDX-License-Identifier: MIT
 *
 * Two slots take turns: while the device computes a layer from one of them, the next layer's
 * weights are on their way to the other.  A slot is written again only after the device has
 * finished with it, so that no more than two layers are ever under way.
 *
 * Batches of at least `least` rows are computed there, others by the CPU.  Both sides have keys and
 * values of these layers; each block notes which side has written it last, and a batch begins by
 * copying the blocks that its sequences need from the other side. */
#ifndef QSF_DEVICE_STREAM_H
#define QSF_DEVICE_STREAM_H

#include "device/device_layer.h"

enum { QSF_DEVICE_LAYER_SLOTS = 2 };

typedef struct qsf_device_slot {
    qsf_device_id buffer;
    qsf_device_id fence;        /* a read that ends after the last submit that uses the slot; 0: none */
    uint32_t      word;         /* which it reads */
    uint32_t      layer;        /* whose weights it has; UINT32_MAX: none */
} qsf_device_slot;

/* Which side's keys and values of a block are current. */
typedef enum qsf_device_side { QSF_SIDE_BOTH, QSF_SIDE_CPU, QSF_SIDE_DEVICE } qsf_device_side;

typedef struct qsf_device_stream {
    uint32_t        end;        /* these layers end here, where those that stay begin */
    uint32_t        least;      /* rows of a batch that the device computes; UINT32_MAX: none */
    bool            runs;       /* the batch under way is one; */
    bool            synced;     /* its keys and values are on the right side, or no layer passes through */
    qsf_device_slot slots[QSF_DEVICE_LAYER_SLOTS];
    uint8_t        *side;       /* [blocks of the cache] qsf_device_side; NULL: no layer passes through */
    qsf_device_id  *reads;      /* [layers] of a block, on their way to the CPU; 0: none */
    uint32_t        n_blocks, n_layers;     /* of side and reads */
    double          upload;     /* bytes a second to a slot, measured; 0: not measured */
} qsf_device_stream;

typedef struct device_executor device_executor;

/* Rows of a batch from which on layers pass through, as the options say; UINT32_MAX: a trial
 * decides. */
uint32_t   qsf_device_stream_asked(const qsf_context *c);
/* The same in words, for layers [first, end); "": no layers. */
void       qsf_device_stream_say(char *out, size_t len, uint32_t first, uint32_t end, uint32_t least);
/* Makes slots of `bytes` for the executor's first layers up to x->end. */
qsf_status qsf_device_stream_init(device_executor *e, uint64_t bytes, qsf_error *err);
void       qsf_device_stream_done(device_executor *e);
/* Waits until the slots are there: qsf_device_buffer_there. */
qsf_status qsf_device_stream_there(const device_executor *e, qsf_error *err);
/* A batch begins. */
void       qsf_device_stream_begin(device_executor *e);
/* A batch has ended, or was dropped: reads under way are forgotten. */
void       qsf_device_stream_end(device_executor *e);
/* Brings the keys and values that the batch sees to the side that computes it.  QSF_PENDING: on a
 * host that must not block. */
qsf_status qsf_device_stream_sync(device_executor *e, qsf_error *err);
/* Brings a layer's weights to its slot, unless they are there.  QSF_PENDING: the slot is in use. */
qsf_status qsf_device_stream_bring(device_executor *e, uint32_t number, const qsf_weights *w,
                                   qsf_error *err);
/* Waits until the device has finished with a layer's slot; QSF_PENDING as of a read. */
qsf_status qsf_device_stream_free(device_executor *e, uint32_t number, qsf_error *err);
/* After the submit that uses a layer's slot. */
qsf_status qsf_device_stream_used(device_executor *e, uint32_t number, qsf_error *err);

#endif
