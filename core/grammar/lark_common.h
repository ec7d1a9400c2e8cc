/* The terminals that a Lark grammar can import from "common".
 * SPDX-License-Identifier: MIT */
#ifndef QSF_LARK_COMMON_H
#define QSF_LARK_COMMON_H

#include "base/base.h"

/* The pattern of the terminal; NULL: common has no such name. */
const char *qsf_lark_common(const char *name, size_t len);

#endif
