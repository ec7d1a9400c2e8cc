/* UTF-8 names as Windows wants them.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(NATIVE_WINDOWS)
#include <stdlib.h>
#include <windows.h>

unsigned short *qsf_native_wide(const char *utf8)
{
    const int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, utf8, -1, NULL, 0);
    if (n <= 0) return NULL;
    wchar_t *w = malloc((size_t)n * sizeof *w);
    if (w && MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, utf8, -1, w, n) != n) {
        free(w);
        w = NULL;
    }
    return w;
}
#endif
