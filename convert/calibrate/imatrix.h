/* Importance matrices of llama.cpp: see imatrix.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_IMATRIX_H
#define QSF_CONVERT_IMATRIX_H

#include "base/arena.h"

typedef struct cal_imatrix cal_imatrix;

/* Reads and checks a file of either form.  On an error *out is NULL. */
qsf_status qsf_imatrix_open(const qsf_platform *p, const char *path, cal_imatrix **out, qsf_error *err);
void       qsf_imatrix_close(cal_imatrix *m);           /* takes NULL */
/* mean[cols]: the mean squares of the inputs of the matrix of this kind (as for qsf_cal_hessian);
 * layer: -1 for the head; n_experts: the number in the model's layers.  *tokens: the number of
 * rows, if the file has it.  QSF_E_NOT_FOUND: the file has no entry for this matrix. */
qsf_status qsf_imatrix_read(const cal_imatrix *m, int32_t layer, uint32_t kind, uint32_t n_experts,
                            uint32_t cols, float *mean, uint64_t *tokens, qsf_error *err);

#endif
