/* Where tuning is, in a file, so that what was interrupted goes on from there.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TUNE_PROGRESS_H
#define QSF_TUNE_PROGRESS_H

#include "tune/train.h"

/* key: of the network, the text and the options.  The file is replaced whole or not at all. */
qsf_status qsf_progress_write(const train *k, const char *path, uint32_t key, uint32_t step, double before,
                              qsf_error *err);
/* *step stays where there is no such file, or one of another key, or a damaged one, which the next
 * write replaces: k is then as it was.  Values are still to be made of the shadows. */
qsf_status qsf_progress_read(train *k, const char *path, uint32_t key, uint32_t *step, double *before,
                             qsf_error *err);

#endif
