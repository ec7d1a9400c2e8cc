/* What people read of a comparison.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_REPORT_H
#define QSF_PARITY_REPORT_H

#include <stdio.h>

#include "parity.h"

void parity_report(FILE *out, const parity_settings *set, const prompt_list *prompts, const parity_result *r);

#endif
