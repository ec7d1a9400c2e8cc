/* Products of all rows of a batch: what most rows of a program do.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PRODUCT_H
#define QSF_PRODUCT_H

#include "layers/matrix.h"
#include "layers/program.h"

/* The rows of a view, as matrices take them. */
qsf_matrix_in qsf_view_in(const qsf_pass *p, const qsf_view *v);
/* The function of a product's row: its matrices times `in`, plus biases, to the buffers named. */
void qsf_product_row(const qsf_pass *p, const qsf_task *t);

#endif
