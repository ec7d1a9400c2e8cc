/* Properties of characters that no table of classes has: scripts and emoji, as ranges.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PROPERTY_TABLE_H
#define QSF_PROPERTY_TABLE_H

#include "base/base.h"

/* A property: its name, and len bytes of qsf_property_ranges from at on.  Each range is two numbers:
 * the code points before it since the last one, and those in it.  Seven bits in a byte, the low ones
 * first; a byte of 128 or more has another one behind it. */
typedef struct qsf_property { char name[24]; uint16_t at, len; } qsf_property;

enum { QSF_N_PROPERTIES = 15 };
extern const qsf_property qsf_properties[QSF_N_PROPERTIES];
extern const uint8_t qsf_property_ranges[];

#endif
