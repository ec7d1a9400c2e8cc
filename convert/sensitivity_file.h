/* Measured sensitivities, stored next to the calibration file: see sensitivity_file.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_SENSITIVITY_FILE_H
#define QSF_CONVERT_SENSITIVITY_FILE_H

#include "read/input.h"

/* kl[in->n_tensors], rounded to floats, for the tensors in asked.  *found false: the file does not
 * exist, belongs to something else, or lacks one of them.  QSF_E_CORRUPT: it is damaged. */
qsf_status qsf_sens_file_read(const input *in, const char *path, uint32_t key, const bool *asked, double *kl,
                              bool *found, qsf_error *err);
/* Writes them, whole or not at all, in the place of what is there. */
qsf_status qsf_sens_file_write(const input *in, const char *path, uint32_t key, const bool *asked,
                               const double *kl, qsf_error *err);

#endif
