/* Shared libraries by LoadLibrary.
 * SPDX-License-Identifier: MIT */
#define WIN32_LEAN_AND_MEAN
#include "library.h"

#include <stdio.h>
#include <string.h>
#include <windows.h>

bool library_possible(void) { return true; }

static HMODULE library_load(const char *path)
{
    wchar_t wide[2048];
    const bool is_path = strpbrk(path, "/\\:") != NULL;
    if (!MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, 2048)) return NULL;
    for (wchar_t *p = wide; *p; p++) if (*p == L'/') *p = L'\\';
    /* its dependencies may be in its directory, if the path is absolute */
    return LoadLibraryExW(wide, NULL, is_path ? LOAD_WITH_ALTERED_SEARCH_PATH : 0);
}

library *library_open(const char *path, char *why, size_t cap)
{
    HMODULE l = library_load(path);
    if (!l) snprintf(why, cap, "Windows' error %lu", (unsigned long)GetLastError());
    return (library *)l;
}

void library_preload(const char *path) { (void)library_load(path); }

library_fn library_find(library *l, const char *name)
{
    static const char *const more[] = { "ggml.dll", "ggml-base.dll", "libggml.dll", "libggml-base.dll" };
    FARPROC fn = GetProcAddress((HMODULE)l, name);
    for (int i = 0; i < 4 && !fn; i++) {            /* GetProcAddress does not look into what was brought */
        HMODULE other = GetModuleHandleA(more[i]);
        if (other) fn = GetProcAddress(other, name);
    }
    return (library_fn)(void (*)(void))fn;
}

void library_file(library_fn fn, char *out, size_t cap)
{
    HMODULE module = NULL;
    wchar_t wide[2048];
    LPCWSTR at = NULL;
    memcpy(&at, &fn, sizeof at);
    *out = 0;
    if (GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS
                           | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, at, &module)
        && GetModuleFileNameW(module, wide, 2048))
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, out, (int)cap, NULL, NULL);
}

bool library_name(const char *name, int i, char *out, size_t cap)
{
    if (i == 0) snprintf(out, cap, "%s.dll", name);
    else if (i == 1) snprintf(out, cap, "lib%s.dll", name);
    return i < 2;
}
