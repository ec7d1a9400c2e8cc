/* The beginning of a model: of the cache's file, or by requests for its first bytes.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HUB_HEAD_H
#define QSF_HUB_HEAD_H

#include "search.h"

/* The memory that a file of the repository needs, as the caller's function says it (hub_options);
 * 0: not known.  commit: of the cache's snapshot, or "". */
uint64_t hub_head_memory(hub_search *s, const hub_file *file, const char *commit);

#endif
