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

/* Rows of a part of the matrix, as the device can bind it; the part from row `at` on. */
uint32_t   qsf_device_matrix_rows(const qsf_device_buffers *b, const qsf_matrix *m);
qsf_matrix qsf_device_matrix_part(const qsf_matrix *m, uint32_t at, uint32_t rows);
/* Whether pieces of a file's matrix, read one by one, have the form of the whole one, m. */
bool       qsf_device_pieces_fit(const qsf_source *s, const qsf_matrix_place *p, const qsf_matrix *m);
/* Writes a piece, from row `row` of m on, to the buffers of m's parts. */
qsf_status qsf_device_matrix_fill(const qsf_device_buffers *b, const qsf_device_id *to, const qsf_matrix *m,
                                  uint32_t row, const qsf_matrix *piece, qsf_error *err);

/* Whether a device can compute the head, whose rows of logits are ld floats apart. */
bool       qsf_device_head_possible(const qsf_source *s, const qsf_context_options *o,
                                    const qsf_device_info *info, const qsf_head_stream *head, uint32_t ld);
/* Decides whether the device computes the head (h->here), makes room for logits, [n_logits][ld],
 * and begins to compile its pipelines. */
qsf_status qsf_device_head_begin(qsf_device_head *h, qsf_device_buffers *b, const qsf_head_stream *s,
                                 uint32_t ld, qsf_error *err);
/* Brings part `number` of it, which was fetched; it is there (h->steps.ready) after the last one.
 * tied: the matrix, if that is there already. */
qsf_status qsf_device_head_bring(qsf_device_head *h, qsf_device_buffers *b, const qsf_head_stream *s,
                                 const qsf_head_units *units, uint32_t number, const qsf_device_id *tied,
                                 qsf_error *err);
/* Appends the dispatches for n consecutive rows of X: logits of row `first` are row 0.  The model's
 * scale and soft cap of logits are left to the caller. */
qsf_status qsf_device_head_list(qsf_device_head *h, qsf_device_buffers *b, uint32_t first, uint32_t n,
                                qsf_device_dispatch *list, size_t *len, qsf_error *err);
/* Applies these to a row that has come. */
void       qsf_device_head_finish(const qsf_kernels *k, const qsf_hparams *hp, float *logits);
void       qsf_device_head_done(qsf_device_head *h, const qsf_device_buffers *b);

#endif
