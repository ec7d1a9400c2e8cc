/* What a conversion did, as a table for people and as JSON for programs.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_CONVERT_REPORT_H
#define QSF_CLI_CONVERT_REPORT_H

#include <stdio.h>

#include "qsf_convert.h"

void report_table(FILE *out, const qsf_convert_result *r, const qsf_convert_options *o);
/* from, to: the files' names; o: as asked. */
void report_json(FILE *out, const qsf_convert_result *r, const qsf_convert_options *o, const char *from,
                 const char *to);

/* Writes a line with the conversion's estimated loss; "" if nothing is lost.  Returns whether the
 * loss is large. */
bool report_loss(const qsf_convert_result *r, char *out, size_t cap);

#endif
