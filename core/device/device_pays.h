/* For which batches layers pass through a device, if a trial decides.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_PAYS_H
#define QSF_DEVICE_PAYS_H

#include "engine/context.h"

/* Measures the first of these layers on both sides, for one row and for as many as a batch has at
 * most, and the way of its weights to the device, which passes while the layer before is computed.
 * *pays: batches of some size are faster there; it is noted from which on.  For hosts that may
 * block, and new contexts.
 *
 * QSF_E_IO      the device failed
 * other codes   of the file */
qsf_status qsf_device_stream_trial(qsf_context *c, bool *pays);

#endif
