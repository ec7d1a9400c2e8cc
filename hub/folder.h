/* Whole repositories as Hugging Face has them: for the converter.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HUB_FOLDER_H
#define QSF_HUB_FOLDER_H

#include "hub.h"

/* As hub_find, but a repository with a configuration and weights for PyTorch is downloaded as a
 * folder, if the name is that of a repository alone: the files that the converter reads, several at
 * a time.  Progress is that of all together.  o's functions may be called from other threads, one
 * at a time. */
qsf_status hub_find_folder(const hub_options *o, const char *name, char **path, qsf_error *err);

#endif
