/* Calls to the caller during the work: progress, warnings, and whether to continue.
 * SPDX-License-Identifier: MIT */
#include "plan/caller.h"

#include <stdarg.h>
#include <stdio.h>

bool qsf_conv_cancelled(const qsf_convert_options *o) { return o->cancelled && o->cancelled(o->user); }

void qsf_conv_progress(const qsf_convert_options *o, const char *stage, const char *name, uint64_t done,
                       uint64_t total)
{
    if (o->progress) o->progress(o->user, stage, name, done, total);
}

void qsf_conv_warn(const qsf_convert_options *o, const char *fmt, ...)
{
    char line[400];
    va_list args;
    if (!o->log) return;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    o->log(o->user, QSF_LOG_WARN, line);
}
