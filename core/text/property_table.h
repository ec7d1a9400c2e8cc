/* Character properties that the table of classes does not have: scripts and emoji, as ranges.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PROPERTY_TABLE_H
#define QSF_PROPERTY_TABLE_H

#include "base/base.h"

/* A property: its name, and len bytes of qsf_property_ranges from `at` on.  Each range is two
 * numbers: the gap since the range before, and its length.  A number is stored as LEB128: seven
 * bits a byte, low bits first, the high bit set if another byte follows. */
typedef struct qsf_property { char name[24]; uint16_t at, len; } qsf_property;

enum { QSF_N_PROPERTIES = 15 };
extern const qsf_property qsf_properties[QSF_N_PROPERTIES];
extern const uint8_t qsf_property_ranges[];

#endif
