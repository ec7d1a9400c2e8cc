/* Who gives way among parts: the one that was used longest ago.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_EVICT_LRU_H
#define QSF_EVICT_LRU_H

#include "weights/fetch.h"

/* An empty slot, else the part that was used longest ago, and only then one that was read ahead and
 * not used yet: what this batch has asked for gives way to nothing that is read ahead. */
extern const qsf_evict qsf_evict_lru;

#endif
