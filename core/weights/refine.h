/* Units of a progressive file that are used with the high bits of their codes: the low bits follow
 * into the same slots, between steps.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_REFINE_H
#define QSF_REFINE_H

#include "weights/fetch.h"

/* Whether all units have a slot for good: only then they may begin with their first pieces. */
bool       qsf_refine_possible(const qsf_fetch *f);
/* Continues reading second pieces and puts those that have arrived in place.  QSF_OK: all units are
 * whole; QSF_PENDING: not yet (with wait too, if a unit has not been used so far).  After an
 * error the same piece is read again the next time. */
qsf_status qsf_refine_step(qsf_fetch *f, bool wait, qsf_error *err);

#endif
