/* A layer on a device: its weights, keys and values there, and the list of its dispatches.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_LAYER_H
#define QSF_DEVICE_LAYER_H

#include "device/device_buffers.h"
#include "weights/weights.h"

#include "wgsl/experts_wgsl.h"

/* What of the layer a device cannot compute, in words; NULL: it can compute all of it. */
const char *qsf_device_layer_refused(const qsf_source *s, uint32_t layer, const qsf_context_options *o);

typedef enum qsf_device_work {
    QSF_DEVICE_ROWS, QSF_DEVICE_PRODUCT, QSF_DEVICE_FLOAT_PRODUCT, QSF_DEVICE_PLACES, QSF_DEVICE_CHUNKS,
    QSF_DEVICE_PROMPT,
    QSF_DEVICE_OWN                      /* what its `own` computes */
} qsf_device_work;

typedef struct qsf_device_step qsf_device_step;

/* Steps that only one part has. */
typedef struct qsf_device_own {
    /* Sets what depends on the batch's n rows in the step's numbers; NULL: nothing does. */
    void (*batch)(const qsf_device_step *s, void *numbers, uint32_t n);
    /* *out: pipeline and workgroups; 0 of them: there is nothing to do. */
    qsf_status (*dispatch)(qsf_device_buffers *b, qsf_device_step *s, uint32_t n, qsf_device_dispatch *out,
                           qsf_error *err);
} qsf_device_own;

/* The batches that a step is for. */
typedef struct qsf_device_for {
    uint32_t least, most;               /* rows; most 0: no limit */
    enum { QSF_DEVICE_ALL, QSF_DEVICE_IN_CHUNKS, QSF_DEVICE_IN_GROUPS } attention;
} qsf_device_for;

/* The variant for n rows; up to 128 of them are multiplied eight at a time. */
static inline uint32_t qsf_device_variant(uint32_t n)
{
    return n <= 1 ? 0 : n <= 2 ? 1 : n <= 4 ? 2 : n <= 128 ? 3 : 4;
}
/* Rows of a batch that a workgroup of a product's variant takes. */
static inline uint32_t qsf_device_variant_rows(uint32_t variant) { return variant < 4 ? 1u << variant : 8; }

/* A dispatch, without what depends on the batch. */
struct qsf_device_step {
    uint8_t  work;                      /* qsf_device_work */
    bool     joins;                     /* of rows: chunks of attention */
    qsf_device_for of;
    uint32_t wide;                      /* workgroups: x of rows and places, tile rows of products, z of
                                         * chunks, heads */
    qsf_device_id group;
    qsf_device_id pipeline[QSF_DEVICE_VARIANTS];        /* 0: not made yet; only products have several */
    qsf_wgsl_product product;
    bool     fused;                     /* the product makes codes by itself, of `from` */
    qsf_wgsl_rows from;
    qsf_wgsl_floats floats;             /* of a matrix of floats */
    const qsf_device_own *own;          /* NULL: it has what any step has */
    uint32_t slots;                     /* of a row, if the step has a row for each slot; else 0 */
    uint32_t n_experts;                 /* of the layer, for products of experts; */
    qsf_wgsl_experts experts;           /* their shaders */
    const char *name;
};

enum { QSF_DEVICE_WEIGHTS = 32, QSF_DEVICE_SITES = 16 };

/* A product to which adapters may add, after a step: matrices of the layer that multiply the same
 * rows. */
typedef struct qsf_device_site {
    uint32_t        after;              /* the number of the step */
    uint32_t        n;
    uint8_t         kinds[3];           /* of the matrices */
    bool            experts, hidden;    /* rows are slots; which read SLOT_CODES, not CODES */
    qsf_device_name to;                 /* y */
    uint32_t        ld, at[3];          /* floats from a row to the next; each matrix's first column */
    float           times;
} qsf_device_site;

/* Weights in a layer's slot: a matrix, or bytes of one. */
typedef struct qsf_device_part_of { uint32_t kind; uint64_t from, bytes, at; } qsf_device_part_of;

typedef struct qsf_device_layer {
    bool          ready;
    uint32_t      number;
    uint32_t      n_steps;
    uint32_t      n_sites;
    uint32_t      numbers_at;           /* of the first step's in the buffer of numbers, in places */
    qsf_device_id kv;                   /* [blocks][n_kv_heads] records; 0: not its own */
    qsf_device_id reads;                /* the keys and values that it sees: its own or another's */
    qsf_device_id vectors;              /* norms and biases, each at a multiple of the device's alignment */
    uint64_t      vectors_bytes;
    uint32_t      n_weights;
    qsf_device_id slot;                 /* 0: it has weights of its own; else they pass through this buffer */
    uint64_t      slot_at;              /* bytes of it that are in use */
    uint32_t      n_parts;
    qsf_device_id weights[QSF_DEVICE_WEIGHTS];
    qsf_device_part_of parts[QSF_DEVICE_WEIGHTS];
    qsf_device_site sites[QSF_DEVICE_SITES];
    qsf_device_step steps[QSF_DEVICE_STEPS];
} qsf_device_layer;

/* Whether its weights pass through a slot. */
static inline bool qsf_device_layer_passes(const qsf_device_layer *l)
{
    return l->slot != 0;
}

/* Begins to compile the pipelines of a layer, whose weights may not be there yet. */
qsf_status qsf_device_layer_compile(qsf_device_buffers *b, qsf_device_layer *l, uint32_t number,
                                    qsf_error *err);
/* Makes keys and values, which are zeros, for layers [first, end), of which l is the first. */
qsf_status qsf_device_layers_begin(qsf_device_buffers *b, qsf_device_layer *l, uint32_t first, uint32_t end,
                                   qsf_error *err);
/* Brings a layer's weights to the device and makes its list. */
qsf_status qsf_device_layer_make(qsf_device_buffers *b, qsf_device_layer *l, uint32_t number,
                                 const qsf_weights *w, qsf_error *err);
/* Brings the weights of a layer that was made to its slot again. */
qsf_status qsf_device_layer_again(const qsf_device_buffers *b, const qsf_device_layer *l,
                                  const qsf_weights *w, qsf_error *err);
/* Waits until its buffers are there: qsf_device_buffer_there. */
qsf_status qsf_device_layer_there(const qsf_device_buffers *b, const qsf_device_layer *l, qsf_error *err);
void       qsf_device_layer_done(const qsf_device_buffers *b, qsf_device_layer *l);
/* Sets what depends on the batch in the layer's numbers (b->host_numbers). */
void       qsf_device_layer_batch(const qsf_device_buffers *b, const qsf_device_layer *l,
                                  const qsf_device_batch *batch);
/* Appends the layer's dispatches for a batch to list, which has room for QSF_DEVICE_STEPS. */
qsf_status qsf_device_layer_list(qsf_device_buffers *b, qsf_device_layer *l, const qsf_device_batch *batch,
                                 qsf_device_dispatch *list, size_t *len, qsf_error *err);

#endif
