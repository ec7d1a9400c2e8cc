/* A batch's numbers on their way to the device.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_BATCH_H
#define QSF_DEVICE_BATCH_H

#include "device/device_executor.h"

/* The numbers of all layers that are there, for this batch. */
qsf_status qsf_device_batch_numbers(device_executor *e, qsf_error *err);
/* The angles of the batch's first n rows, which the context's tables have. */
qsf_status qsf_device_angles_write(device_executor *e, uint32_t n, qsf_error *err);

#endif
