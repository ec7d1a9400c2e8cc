/* The executor's failures and its end.
 * SPDX-License-Identifier: MIT
 *
 * A device that fails is given up: its layers are the CPU's from then on, and what it knew is
 * computed again (replay.h).  So an error of the device becomes one of the context only if that is
 * not possible. */
#ifndef QSF_DEVICE_LIFE_H
#define QSF_DEVICE_LIFE_H

#include "device/device_executor.h"

/* No caller waits for the read any more. */
void       qsf_device_forget(device_executor *e);
/* The commands that were made for the next batch (device_ready.h) are not used. */
void       qsf_device_ready_drop(device_executor *e);
/* All but the CPU's executor. */
void       qsf_device_executor_free(device_executor *e);
/* Bytes that a caller has filled go where they belong, and to the CPU's cache: their tokens are not
 * known. */
qsf_status qsf_device_flush(device_executor *e, qsf_error *err);
/* Whether its shaders compute what the CPU computes, once they are compiled.  QSF_PENDING, on a
 * host that must not block: not known yet. */
qsf_status qsf_device_tested(device_executor *e, qsf_error *err);
/* Whether the device did what it was told so far: a buffer that found no memory, and a command that
 * was refused, are known only after a read. */
qsf_status qsf_device_verdict(device_executor *e, qsf_error *err);
/* The device has failed, as *err says: everything is the CPU's from now on.  A batch that is under
 * way begins again. */
qsf_status qsf_device_fall(device_executor *e, qsf_error *err);

#endif
