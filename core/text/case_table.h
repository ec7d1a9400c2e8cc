/* Upper and lower case of characters beyond ASCII, in runs.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CASE_TABLE_H
#define QSF_CASE_TABLE_H

#include "base/base.h"

/* n characters from first on, step apart; by: the distance to the other case. */
typedef struct qsf_case_run { uint32_t first; uint16_t n, step; int32_t by; } qsf_case_run;

enum { QSF_N_CASE_LOWER = 180, QSF_N_CASE_UPPER = 33, QSF_N_CASE_SPECIAL = 26 };
extern const qsf_case_run qsf_case_lower[QSF_N_CASE_LOWER];        /* and back, except entries of the next */
extern const qsf_case_run qsf_case_upper[QSF_N_CASE_UPPER];        /* what the reverse lookup cannot tell */
extern const qsf_case_run qsf_case_special[QSF_N_CASE_SPECIAL];    /* those that map to several characters */
#endif
