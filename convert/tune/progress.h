/* Saves the progress of tuning in a file, so that it can resume after an interruption.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TUNE_PROGRESS_H
#define QSF_TUNE_PROGRESS_H

#include "tune/train.h"

/* key: of the network, the text and the options.  The file is replaced whole or not at all. */
qsf_status qsf_progress_write(const train *k, const char *path, uint32_t key, uint32_t step, double before,
                              qsf_error *err);
/* *step and k are unchanged if the file does not exist, has another key or is damaged; the next
 * write then replaces it.  The values must still be computed from the shadow weights. */
qsf_status qsf_progress_read(train *k, const char *path, uint32_t key, uint32_t *step, double *before,
                             qsf_error *err);

#endif
