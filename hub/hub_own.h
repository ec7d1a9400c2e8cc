/* What finding, listing and downloading by URL share.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HUB_OWN_H
#define QSF_HUB_OWN_H

#include "cache.h"
#include "hub.h"

bool       hub_is_url(const char *text);
/* The hub's address without a slash at its end.  QSF_E_ARGUMENT: it is none */
qsf_status hub_address(const hub_options *o, char out[HUB_PATH], qsf_error *err);

#endif
