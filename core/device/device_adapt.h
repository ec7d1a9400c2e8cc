/* The adapters of a context's sequences on its device.
 * SPDX-License-Identifier: MIT
 *
 * An adapter goes there when a sequence gets it, and is removed before the first batch in which no
 * sequence has it.  What the device cannot compute of it is the CPU's, with all layers. */
#ifndef QSF_DEVICE_ADAPT_H
#define QSF_DEVICE_ADAPT_H

#include "device/device_executor.h"

/* adapters_put of the executor's table. */
qsf_status qsf_device_adapters_put(qsf_executor *x, const qsf_lora_set *set, qsf_error *err);
/* The adapters that sequences have already: the context has just moved to the device. */
qsf_status qsf_device_adapters_begin(device_executor *e, qsf_error *err);
/* The batch's rows are there: sets how much each of them uses which adapter (e->batch). */
qsf_status qsf_device_adapters_batch(device_executor *e, qsf_error *err);
/* A layer is about to be listed: brings what the batch's adapters change of it. */
qsf_status qsf_device_adapters_layer(device_executor *e, const qsf_device_layer *l, qsf_error *err);
/* Bytes that adapters take. */
uint64_t   qsf_device_adapters_bytes(const device_executor *e);
/* Whether an adapter of the batch's rows changes the head, which is then the CPU's. */
bool       qsf_device_adapters_head(const device_executor *e);

#endif
