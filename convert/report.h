/* What the converter tells: the table at the end, the same as JSON, and the contents of a model file.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_REPORT_H
#define QSF_CONVERT_REPORT_H

#include <stdio.h>

#include "convert.h"

double convert_bits(uint64_t bytes, uint64_t weights);      /* a weight */
void   report_table(FILE *out, const input *in, const convert_report *r);
void   report_json(FILE *out, const input *in, const convert_options *o, const char *from, const char *to, const convert_report *r);

/* Everything that a QSF or GGUF file says about itself. */
qsf_status inspect_info(FILE *out, const qsf_platform *p, const char *path, qsf_error *err);
/* Loads every unit and checks every checksum; says what was checked. */
qsf_status inspect_verify(FILE *out, const qsf_platform *p, const char *path, qsf_error *err);

#endif
