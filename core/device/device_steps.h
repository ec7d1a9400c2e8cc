/* Steps of a layer on a device: what its parts (device_parts.h) are made of.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_STEPS_H
#define QSF_DEVICE_STEPS_H

#include "device/device_layer.h"

/* What CODES are made of, and nothing else with them. */
typedef struct qsf_device_from {
    qsf_wgsl_rows         rows;
    qsf_wgsl_rows_numbers numbers;
    qsf_device_range      ranges[7];    /* A to gates */
    uint32_t              n_ranges;     /* 0: it cannot be part of a product */
    qsf_device_step      *step;
} qsf_device_from;

/* A layer whose list is being made.  Errors stay in st: what follows does nothing. */
typedef struct qsf_device_maker {
    qsf_device_buffers *b;
    qsf_device_layer   *l;
    const qsf_layer    *layer;
    const qsf_weights  *w;
    qsf_status          st;
    qsf_error          *err;
    uint32_t            number;         /* of the layer */
    uint64_t            vectors_at;     /* bytes of l->vectors that are in use */
    bool                compiles;       /* pipelines only: the weights are descriptions */
    const qsf_device_id *given;         /* the buffers of its matrices, if they are there already */
    qsf_device_for      of;             /* of the next steps */
    qsf_device_from     from;
    uint32_t            fused;          /* rows for which the next products make codes by themselves */
    uint32_t            gated;          /* rows for which GATE has function(gate) * up */
    bool                inside;         /* X has more than the layer's input: for flags */
    bool                apart;          /* the part's output goes to TMP; else it is added to X, */
    float               times;          /* times this */
    union { qsf_wgsl_product_numbers p; qsf_wgsl_rows_numbers r; qsf_wgsl_attend_numbers a;
            uint8_t own[QSF_DEVICE_NUMBERS]; } spare;
    qsf_device_step     none;           /* the step in hand without a list, or without room in it */
} qsf_device_maker;

/* What of a matrix no product computes; NULL: nothing. */
const char *qsf_device_matrix_refused(const qsf_matrix *m);
/* A whole buffer. */
qsf_device_range qsf_device_all_of(const qsf_device_buffers *b, qsf_device_name name);
/* Brings n floats to the layer's vectors; or two arrays, one after the other. */
qsf_device_range qsf_device_put_vector(qsf_device_maker *k, const float *x, size_t n);
qsf_device_range qsf_device_put_vectors(qsf_device_maker *k, const float *x, size_t n, const float *more,
                                        size_t n_more);
/* Brings bytes of a matrix of the layer to a buffer of their own, or to the layer's slot. */
qsf_device_range qsf_device_put_tiles(qsf_device_maker *k, const qsf_matrix *m, uint64_t from,
                                      uint64_t bytes);
/* The same with a whole matrix. */
qsf_device_range qsf_device_put_matrix(qsf_device_maker *k, const qsf_matrix *m);
/* How a matrix that is not tiles is stored. */
qsf_wgsl_storage qsf_device_storage(const qsf_matrix *m);
/* The place of a step's flag. */
static inline uint32_t qsf_device_flag(const qsf_device_maker *k) { return 2 * k->number + k->inside; }
/* Appends a step and returns its numbers, all zeros, for the caller to fill. */
void *qsf_device_step_new(qsf_device_maker *k, qsf_device_work work, const char *name, qsf_device_step **out);
/* Binds a step's numbers, as ranges[0], and the caller's ranges [1, n). */
void  qsf_device_step_group(qsf_device_maker *k, qsf_device_step *s, qsf_device_range *ranges, uint32_t n);
/* Rows of `cols` columns of a, and b if the source has two, to CODES, or to floats of `to`; with
 * QSF_WGSL_FROM_ITSELF `to` is a.  Rows of floats are ld apart. */
typedef struct qsf_device_rows {
    const char     *name;
    qsf_wgsl_rows   r;
    qsf_device_name a, b, to;
    uint32_t        cols, at, ld, b_at, to_ld;  /* at, b_at: the first columns of a and b */
    int             norm, bias;         /* kinds of vectors */
    float           gain;
    const float    *of_function;        /* [4], or NULL */
} qsf_device_rows;
void  qsf_device_add_rows(qsf_device_maker *k, const qsf_device_rows *x);
/* As what matrices of these kinds multiply: CODES, FLOATS or both. */
void  qsf_device_add_input(qsf_device_maker *k, qsf_device_rows x, const uint8_t *kinds, uint32_t n);
/* The same for a matrix that is not the layer's. */
void  qsf_device_add_input_of(qsf_device_maker *k, qsf_device_rows x, const qsf_matrix *m);
/* The rows are normed as the layer's norms are, with weights and bias of these kinds; bias 0:
 * none. */
void  qsf_device_set_norm(const qsf_device_maker *k, qsf_device_rows *x, int norm, int bias);
/* The rows of a buffer become their norm. */
void  qsf_device_add_norm(qsf_device_maker *k, const char *name, qsf_device_name to, uint32_t cols,
                          uint32_t ld, int norm, int bias);

enum {
    QSF_DEVICE_FUSED = 1,               /* rows, at most; with two a plain product is faster */
    QSF_DEVICE_FUSED_COLUMNS = 2048     /* wider rows are faster if they are made once */
};
/* After rows to CODES of at most `widest` columns: batches of few rows leave that step out, and the
 * products that follow make codes by themselves.  Only if nothing else reads these CODES.  Sets
 * k->fused to the rows of such batches, at most; 0: none. */
void  qsf_device_fuse(qsf_device_maker *k, uint32_t widest);

/* Whether a number of its own multiplies a matrix. */
bool  qsf_device_scaled(const qsf_source *s, uint32_t unit, uint32_t kind);
/* The output of a product: rows of a buffer, ld floats apart, from column `at` on.  scaled:
 * the matrix's own number, and `times`, multiply it. */
typedef struct qsf_device_to {
    qsf_device_name buffer;
    uint32_t        ld, at;
    bool            add, scaled;
    float           times;
} qsf_device_to;
/* Products of the same rows with matrices whose results lie side by side; gated: for batches of at
 * most k->fused rows function(first) * second instead. */
typedef struct qsf_device_products {
    const char       *name;
    const qsf_matrix *m[3];
    const float      *bias[3];          /* NULL: none */
    uint32_t          n;
    qsf_device_to     to;
    bool              gated;
    qsf_wgsl_function function;
} qsf_device_products;
void  qsf_device_step_products(qsf_device_maker *k, const qsf_device_products *p);
/* Appends a matrix of the layer; bias: the kind of its bias. */
void  qsf_device_set_matrix(const qsf_device_maker *k, qsf_device_products *p, int kind, int bias);
/* Whether one dispatch can multiply by these matrices of the layer. */
bool  qsf_device_joined(const qsf_device_maker *k, const uint8_t *kinds, uint32_t n);
/* CODES, or FLOATS, times a matrix. */
void  qsf_device_step_matrix(qsf_device_maker *k, const char *name, const qsf_matrix *m, const float *bias,
                             const qsf_device_to *to);
/* The same with a matrix of the layer, from column 0 on; bias: the kind of its bias. */
void  qsf_device_step_product(qsf_device_maker *k, const char *name, int kind, int bias, qsf_device_name to,
                              uint32_t ld, bool add);
/* The same without bias, and times a number. */
void  qsf_device_step_scaled(qsf_device_maker *k, const char *name, int kind, qsf_device_name to, uint32_t ld,
                             float times);
/* The last product of a part: its output. */
void  qsf_device_step_out(qsf_device_maker *k, const char *name, int kind, int bias);
/* Adapters may add to the products of the step that was appended last.  The caller fills in the
 * rest; NULL: nothing is to be filled in. */
qsf_device_site *qsf_device_site_new(qsf_device_maker *k);
/* How K is cut: few and long rows need more slices to occupy a GPU. */
void  qsf_device_product_slices(qsf_wgsl_product *p, uint32_t tiles, uint32_t cols, bool fused);
/* Writes bytes to a buffer, piece by piece. */
qsf_status qsf_device_upload(const qsf_device_buffers *b, qsf_device_id to, uint64_t at, const void *from,
                             uint64_t bytes, qsf_error *err);
/* The same for a matrix, whose data is there. */
qsf_status qsf_device_upload_matrix(const qsf_device_buffers *b, qsf_device_id to, uint64_t at,
                                    const qsf_matrix *m, qsf_error *err);
/* The dispatch of a step for a batch; variant: of products. */
qsf_status qsf_device_step_dispatch(qsf_device_buffers *b, qsf_device_step *s, const qsf_device_batch *batch,
                                    uint32_t variant, qsf_device_dispatch *out, qsf_error *err);
/* The pipeline of a product's variant (QSF_DEVICE_VARIANTS). */
qsf_status qsf_device_product_pipeline(qsf_device_buffers *b, qsf_device_step *s, uint32_t variant,
                                       qsf_error *err);

#endif
