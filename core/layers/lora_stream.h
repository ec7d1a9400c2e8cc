/* Slots of adapters that do not stay in memory.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_LORA_STREAM_H
#define QSF_LORA_STREAM_H

#include "layers/lora.h"

/* The adapter's slot; NULL: it does not have a slot. */
qsf_lora_slot *qsf_lora_slot_of(const qsf_lora *l, const qsf_adapter *a);
/* Takes slots for those adapters of a set that need one. */
qsf_status qsf_lora_slots_take(qsf_lora *l, const qsf_lora_set *set, qsf_error *err);
/* Waits for reads of an adapter's file that are under way. */
void       qsf_lora_settle(const qsf_lora *l, const qsf_adapter *a);
/* Frees the slots of adapters that no sequence uses; all slots. */
void       qsf_lora_slots_sweep(qsf_lora *l);
void       qsf_lora_slots_done(qsf_lora *l);

#endif
