/* Adapters (LoRA) on a device: their matrices there, and dispatches after products.
 * SPDX-License-Identifier: MIT
 *
 * A layer's matrices that read the same rows have pairs whose A lie one after another, as on the
 * CPU (core/layers/lora.h): one product makes the h of all of them, for all rows of the batch; one
 * more dispatch adds B h to the rows that use the adapter (wgsl/adapter_wgsl.h).  So an adapter
 * costs two dispatches a product, and a batch as many of them as it has different adapters. */
#ifndef QSF_DEVICE_LORA_H
#define QSF_DEVICE_LORA_H

#include "device/device_steps.h"
#include "layers/lora.h"

/* A dispatch. */
typedef struct qsf_device_lora_work {
    uint32_t        after;              /* the number of the layer's step that it follows */
    qsf_device_step s;                  /* its numbers have its own place in the adapter's */
} qsf_device_lora_work;

/* Of a layer. */
typedef struct qsf_device_lora_layer {
    bool          made;
    uint32_t      first, n;             /* of the adapter's works */
    qsf_device_id weights;              /* A of all pairs, then B, then the scales of experts */
} qsf_device_lora_layer;

typedef struct qsf_device_lora {
    uint64_t      hash;                 /* qsf_adapter's: those with the same compute the same */
    const qsf_adapter *a;               /* while a sequence has it */
    bool          used;                 /* by a row of the batch */
    uint64_t      bytes;                /* on the device */
    qsf_device_id h, uses, numbers;     /* [rows or slots][h_ld] floats; [rows] floats; [most] */
    uint32_t      h_ld, h_rows;
    float        *host_uses;            /* [rows] what is there */
    uint8_t      *host_numbers;         /* [most][QSF_DEVICE_NUMBERS] */
    bool          changed;              /* they have to be written */
    uint32_t      n, most;              /* works */
    uint32_t      rows;                 /* of the batch that the numbers are for */
    qsf_device_lora_work  *works;
    qsf_device_lora_layer *layers;      /* [n_layers] */
} qsf_device_lora;

typedef struct qsf_device_loras {
    uint32_t          n, cap;
    qsf_device_lora **list;
} qsf_device_loras;

/* What of an adapter's pairs for layers [first, end) the device cannot compute, in words; NULL:
 * nothing. */
const char *qsf_device_lora_refused(const qsf_device_buffers *b, const qsf_adapter *a, uint32_t first,
                                    uint32_t end);
/* Bytes that it takes there, for layers [first, end). */
uint64_t    qsf_device_lora_bytes(const qsf_device_buffers *b, const qsf_adapter *a, uint32_t first,
                                  uint32_t end);
/* Makes room for an adapter that is not there yet, and begins to compile its pipelines. */
qsf_status  qsf_device_lora_new(qsf_device_buffers *b, qsf_device_loras *l, const qsf_adapter *a,
                                uint32_t first, uint32_t end, qsf_error *err);
/* The adapter with this hash; NULL: it is not there. */
qsf_device_lora *qsf_device_lora_find(const qsf_device_loras *l, uint64_t hash);
/* Brings its matrices of a layer, which has been made, to the device.  mem: the unit's pairs. */
qsf_status  qsf_device_lora_make(qsf_device_buffers *b, qsf_device_lora *x, const qsf_device_layer *l,
                                 const uint8_t *mem, qsf_error *err);
/* Sets what depends on the batch in the numbers of all that are used. */
qsf_status  qsf_device_loras_numbers(const qsf_device_buffers *b, const qsf_device_loras *l, uint32_t n,
                                     qsf_error *err);
/* Appends what follows a step of layer l to the list. */
qsf_status  qsf_device_loras_list(qsf_device_buffers *b, const qsf_device_batch *batch,
                                  const qsf_device_layer *l, uint32_t step, qsf_device_dispatch *list,
                                  size_t *len, qsf_error *err);
/* Waits until its buffers are there: qsf_device_buffer_there. */
qsf_status  qsf_device_lora_there(const qsf_device_buffers *b, const qsf_device_lora *x, qsf_error *err);
/* Removes one; or all. */
void        qsf_device_lora_drop(qsf_device_buffers *b, qsf_device_loras *l, uint32_t i);
void        qsf_device_loras_done(qsf_device_buffers *b, qsf_device_loras *l);  /* takes one of zeros */

#endif
