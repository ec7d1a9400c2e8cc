/* A regular expression that cannot be read, and where.
 * SPDX-License-Identifier: MIT */
#include "grammar/regex_own.h"

void qsf_regex_fail(regex *r, size_t at, const char *why)
{
    if (!r->failed)
        qsf_g_fail(r->b, QSF_E_ARGUMENT, "%s: %s at character %llu of \"%.*s\"", r->what, why,
                   (unsigned long long)at + 1, (int)QSF_MIN(r->len, 80u), r->src);
    r->failed = true;
    r->at = r->len;
}
