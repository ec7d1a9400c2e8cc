/* The reads of a slot: pieces of its unit, some of them in parallel.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SLOT_READ_H
#define QSF_SLOT_READ_H

#include "weights/fetch.h"

/* "layer 3", "layer 3, expert 5" */
const char *qsf_slot_name(const qsf_fetch *f, const qsf_slot *slot, char buf[48]);
/* What a slot reads of its unit's extent i: `to` is the place in the slot; len 0: nothing. */
qsf_extent qsf_slot_extent(const qsf_fetch *f, const qsf_slot *slot, uint32_t i);
uint32_t   qsf_slot_extents(const qsf_fetch *f, const qsf_slot *slot);
/* Starts the first reads of a slot, as many as there may be at once. */
qsf_status qsf_slot_start_reads(const qsf_fetch *f, qsf_slot *slot, qsf_error *err);
/* Ends the reads that are over, and starts the others; wait: all. */
qsf_status qsf_slot_reads(const qsf_fetch *f, qsf_slot *slot, bool wait, qsf_error *err);
/* Ends all running reads and ignores their results. */
void       qsf_slot_stop(const qsf_fetch *f, qsf_slot *slot);

#endif
