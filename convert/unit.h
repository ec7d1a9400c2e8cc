/* One unit of a model file, read whole and checked.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_UNIT_H
#define QSF_CONVERT_UNIT_H

#include "model/source.h"

/* The unit's uncompressed, checked bytes; the caller frees *mem with qsf_dealloc(s->platform, mem,
 * raw of the unit). */
qsf_status qsf_conv_unit_load(const qsf_source *s, uint32_t unit, uint8_t **mem, qsf_error *err);

#endif
