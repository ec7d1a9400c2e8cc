/* Which slot is evicted when layers are used cyclically, in order.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_EVICT_CYCLIC_H
#define QSF_EVICT_CYCLIC_H

#include "weights/fetch.h"

/* Evicts the layer whose turn is furthest away.  Units that stay have a pinned slot each. */
extern const qsf_evict qsf_evict_cyclic;

#endif
