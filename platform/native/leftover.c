/* Recognises the names of files that a killed process may have left next to the file it was
 * writing.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#include <limits.h>
#include <string.h>

/* Skips ".PID-N"; false if text does not begin like this. */
static bool leftover_number(const char **text, long *pid)
{
    const char *p = *text;
    long n = 0;
    if (*p++ != '.' || *p < '1' || *p > '9') return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (n > (INT_MAX - 9) / 10) return false;
        n = n * 10 + (*p - '0');
    }
    if (*p++ != '-' || *p < '0' || *p > '9') return false;
    while (*p >= '0' && *p <= '9') p++;
    *text = p;
    *pid = n;
    return true;
}

native_leftover qsf_native_leftover_of(const char *base, const char *name, long *pid)
{
    static const char between[] = ".unmeasured";
    const size_t len = strlen(base);
    const char *rest = name + len;
    if (strncmp(name, base, len) || !leftover_number(&rest, pid)) return NATIVE_LEFT_NOTHING;
    if (!strncmp(rest, between, sizeof between - 1)) {
        rest += sizeof between - 1;
        if (!*rest) return NATIVE_LEFT_BETWEEN;
        if (!leftover_number(&rest, pid)) return NATIVE_LEFT_NOTHING;
    }
    return strcmp(rest, ".tmp") ? NATIVE_LEFT_NOTHING : NATIVE_LEFT_TEMPORARY;
}
