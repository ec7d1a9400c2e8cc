/* Which part is evicted: the least recently used one.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_EVICT_LRU_H
#define QSF_EVICT_LRU_H

#include "weights/fetch.h"

/* Takes an empty slot, else the least recently used part, and only then one that was read ahead and
 * not used yet.  Reading ahead never evicts what this batch has asked for. */
extern const qsf_evict qsf_evict_lru;

#endif
