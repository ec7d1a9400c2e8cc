/* How parts of the comparison fail.
 * SPDX-License-Identifier: MIT */
#include "engine.h"

#include <stdarg.h>
#include <stdio.h>

qsf_status parity_fail(qsf_error *err, qsf_status st, const char *format, ...)
{
    va_list args;
    if (!err) return st;
    va_start(args, format);
    err->status = st;
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return st;
}
