/* What dense feed-forwards and shared experts have in common on a device.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_FEED_FORWARD_H
#define QSF_DEVICE_FEED_FORWARD_H

#include "device/device_parts.h"

/* A layer's activation in shaders. */
qsf_wgsl_function qsf_device_function(const qsf_layer *l);
/* What of a dense or shared feed-forward no shader computes; NULL: nothing. */
const char *qsf_device_feed_forward_refused(const qsf_layer *l, const qsf_weights *w);
/* Steps from the normed rows to the hidden ones, which the matrix `down` multiplies. */
void        qsf_device_list_hidden(qsf_device_maker *k, bool gated);

#endif
