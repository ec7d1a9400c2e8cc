/* A model that is used while it is downloaded.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HUB_ARRIVE_H
#define QSF_HUB_ARRIVE_H

#include "hub.h"

typedef struct hub_arrival hub_arrival;

/* Does what hub_find does, on a thread of its own, and returns when the model's file can be opened:
 * it is there, or its first bytes are.  o's functions are called by that thread.  Split models
 * are whole before this returns.
 *
 * *out is NULL on an error, which is one of hub_find's. */
qsf_status hub_arrive(const hub_options *o, const char *name, hub_arrival **out, qsf_error *err);
/* What to open, and with which platform: a read waits until its bytes are there. */
const char *hub_arrival_path(const hub_arrival *a);
const qsf_platform *hub_arrival_platform(const hub_arrival *a);
/* Whether the whole file is here. */
bool hub_arrival_whole(const hub_arrival *a);
/* Waits for the file's last byte and its sum, after all that has been opened is closed.  stop: the
 * download ends instead; what came is kept.  Errors are those of hub_find; takes NULL. */
qsf_status hub_arrival_end(hub_arrival *a, bool stop, qsf_error *err);

#endif
