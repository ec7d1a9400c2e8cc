/* Shared libraries that are loaded while the program runs.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(NATIVE_WINDOWS)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

void *qsf_native_library(const char *name, char *why, size_t cap)
{
    wchar_t *wide = qsf_native_wide(name);
    /* a library that is named by its path may need others of its folder */
    const bool is_path = strpbrk(name, "/\\:") != NULL;
    HMODULE l = NULL;
    if (wide) {
        for (wchar_t *p = wide; *p; p++) if (*p == L'/') *p = L'\\';
        l = LoadLibraryExW(wide, NULL, is_path ? LOAD_WITH_ALTERED_SEARCH_PATH : 0);
    }
    if (!l) snprintf(why, cap, "Windows' error %lu", (unsigned long)GetLastError());
    free(wide);
    return (void *)l;
}

native_fn qsf_native_symbol(void *library, const char *name)
{
    return (native_fn)(void (*)(void))GetProcAddress((HMODULE)library, name);
}
#endif
