/* Steps of a layer on a device: what its parts (device_parts.h) are made of.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_STEPS_H
#define QSF_DEVICE_STEPS_H

#include "device/device_layer.h"

/* A layer whose list is being made.  Errors stay in st: what follows does nothing. */
typedef struct qsf_device_maker {
    qsf_device_buffers *b;
    qsf_device_layer   *l;
    const qsf_layer    *layer;
    const qsf_weights  *w;
    uint64_t            vectors_at;     /* bytes of l->vectors that are in use */
    bool                compiles;       /* pipelines only: the weights are descriptions */
    bool                apart;          /* the part's output goes to TMP; else it is added to X */
    union { qsf_wgsl_product_numbers p; qsf_wgsl_rows_numbers r; qsf_wgsl_attend_numbers a; } spare;
    qsf_status          st;
    qsf_error          *err;
} qsf_device_maker;

/* What of a matrix no product computes; NULL: nothing. */
const char *qsf_device_matrix_refused(const qsf_matrix *m);
/* A whole buffer. */
qsf_device_range qsf_device_all_of(const qsf_device_buffers *b, qsf_device_name name);
/* Makes room for a layer's vectors, and for `more` bytes. */
qsf_status qsf_device_vectors_new(qsf_device_maker *k, uint64_t more);
/* Brings n floats, followed by n of `more` if it is not NULL, to the layer's vectors. */
qsf_device_range qsf_device_put_vector(qsf_device_maker *k, const float *x, const float *more, size_t n);
/* Appends a step and returns its numbers, all zeros, for the caller to fill. */
void *qsf_device_step_new(qsf_device_maker *k, qsf_device_work work, const char *name, qsf_device_step **out);
/* Binds a step's numbers, as ranges[0], and the caller's ranges [1, n). */
void  qsf_device_step_group(qsf_device_maker *k, qsf_device_step *s, qsf_device_range *ranges, uint32_t n);
/* Rows of a, and b if the source has two, to CODES or floats; norm, bias: kinds of vectors. */
void  qsf_device_step_rows(qsf_device_maker *k, const qsf_wgsl_rows *r, const char *name, qsf_device_name a,
                           qsf_device_name b, uint32_t cols, uint32_t a_ld, int norm, int bias);
/* in: the norm of X to CODES; else the norm of TMP is added to X. */
void  qsf_device_step_norm(qsf_device_maker *k, const char *name, bool in, int norm, int bias);
/* Where a product goes: to rows of a buffer that are ld floats apart, from column `at` on. */
typedef struct qsf_device_to { qsf_device_name buffer; uint32_t ld, at; bool add; } qsf_device_to;
/* CODES times a matrix. */
void  qsf_device_step_matrix(qsf_device_maker *k, const char *name, const qsf_matrix *m, const float *bias,
                             const qsf_device_to *to);
/* The same with a matrix of the layer, from column 0 on; bias: the kind of its bias. */
void  qsf_device_step_product(qsf_device_maker *k, const char *name, int kind, int bias, qsf_device_name to,
                              uint32_t ld, bool add);
/* The last product of a part: its output. */
void  qsf_device_step_out(qsf_device_maker *k, const char *name, int kind, int bias);
/* The pipeline of a product's variant (QSF_DEVICE_VARIANTS). */
qsf_status qsf_device_product_pipeline(qsf_device_buffers *b, qsf_device_step *s, uint32_t variant,
                                       qsf_error *err);

#endif
