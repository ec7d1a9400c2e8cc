/* The head on a device: the final norm, and logits of the rows that asked.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_HEAD_H
#define QSF_DEVICE_HEAD_H

#include "device/device_layer.h"
#include "layers/head_stream.h"

typedef struct qsf_device_head {
    bool     here;                      /* the device computes it */
    uint32_t first, n;                  /* rows that its numbers are for */
    qsf_device_layer steps;             /* the norm, then a product for each part of the matrix */
} qsf_device_head;

/* Rows of a part of the matrix, as the device can bind it; the part from row `at` on.  data: the
 * matrix is not only described. */
uint32_t   qsf_device_matrix_rows(const qsf_device_buffers *b, const qsf_matrix *m);
qsf_matrix qsf_device_matrix_part(const qsf_matrix *m, uint32_t at, uint32_t rows, bool data);

/* Decides whether the device computes the head (h->here), makes room for logits, [n_logits][ld],
 * and begins to compile its pipelines. */
qsf_status qsf_device_head_begin(qsf_device_head *h, qsf_device_buffers *b, const qsf_head_stream *s,
                                 uint32_t ld, qsf_error *err);
/* Appends the dispatches for n consecutive rows of X: logits of row `first` are row 0.  The model's
 * scale and soft cap of logits are left to the caller.  tied: the matrix, if it is there. */
qsf_status qsf_device_head_list(qsf_device_head *h, qsf_device_buffers *b, const qsf_head_stream *s,
                                const qsf_head_units *units, const qsf_device_id *tied, uint32_t first,
                                uint32_t n, qsf_device_dispatch *list, size_t *len, qsf_error *err);
/* Applies these to a row that has come. */
void       qsf_device_head_finish(const qsf_kernels *k, const qsf_hparams *hp, float *logits);
void       qsf_device_head_done(qsf_device_head *h, const qsf_device_buffers *b);

#endif
