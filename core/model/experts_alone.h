/* Experts of a file that can be read alone: which bytes of a matrix are one's, and in QSF files
 * their checksums.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_EXPERTS_ALONE_H
#define QSF_EXPERTS_ALONE_H

#include "model/qsf_ext.h"

/* Expert e's rows of a matrix that has the rows of n_experts in order.  In tiles they are
 * whole ones: the first may begin with rows of the expert before, and `rows` counts these, too.
 * *at: where they begin in the matrix. */
qsf_tensor qsf_expert_rows(const qsf_tensor *t, uint32_t n_experts, uint32_t e, uint64_t *at);

/* ---- writing ---- */

/* The checksums of layers in the order in which their tensors are written. */
typedef struct qsf_experts_out {
    uint32_t  n_experts;        /* of a layer; 0: none, and nothing is noted */
    uint32_t *crcs;             /* [layers][1 + n_experts] */
    uint32_t  n_layers;         /* that have experts and are whole */
    bool      open;             /* the layer that is being written has begun to have them */
    bool      lost;             /* some cannot be read alone, so that the file says nothing */
} qsf_experts_out;

/* A layer's next tensor, in front of whose data is what has the checksum `before`. */
void qsf_experts_note(qsf_experts_out *o, const qsf_tensor *t, uint32_t before);
void qsf_experts_note_end(qsf_experts_out *o);          /* the layer's last tensor was noted */
void qsf_ext_put_experts(qsf_ext_out *x, const qsf_experts_out *o, uint32_t n_layers);

/* ---- reading ---- */

/* If the file has the checksums, layers' experts can be read alone.  Layers and shapes have been
 * checked. */
qsf_status qsf_ext_get_experts(const qsf_ext *x, qsf_source *s, qsf_error *err);

#endif
