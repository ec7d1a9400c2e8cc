/* The history's file on Windows: opened so that no other program can meanwhile.
 * SPDX-License-Identifier: MIT */
#include "history.h"

#if defined(_WIN32)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

struct history_file { HANDLE file; };

static bool wide_path(const char *path, wchar_t *wide, int cap)
{
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, cap) > 0;
}

history_file *history_file_open(const char *path, const char **why)
{
    enum { MOST = 1024 };
    wchar_t wide[MOST];
    history_file *f = malloc(sizeof *f);
    *why = "out of memory";
    if (!f) return NULL;
    *why = "this is not a file name";
    for (int i = 0; wide_path(path, wide, MOST) && i < 100; i++) {
        f->file = CreateFileW(wide, GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL,
                              NULL);
        if (f->file != INVALID_HANDLE_VALUE) return f;
        const DWORD error = GetLastError();
        *why = error == ERROR_ACCESS_DENIED ? "permission denied"
            : error == ERROR_PATH_NOT_FOUND ? "no such folder" : "cannot be opened";
        if (error != ERROR_SHARING_VIOLATION) break;
        *why = "another program has it open";
        Sleep(10);
    }
    free(f);
    return NULL;
}

void history_file_close(history_file *f)
{
    CloseHandle(f->file);
    free(f);
}

char *history_file_read(history_file *f, size_t *len)
{
    LARGE_INTEGER size = { .QuadPart = 0 };
    DWORD got = 0;
    if (GetFileType(f->file) == FILE_TYPE_DISK && !GetFileSizeEx(f->file, &size)) return NULL;
    if (size.QuadPart > HISTORY_FILE) return NULL;
    char *text = malloc((size_t)size.QuadPart + 1);
    if (text && size.QuadPart) ReadFile(f->file, text, (DWORD)size.QuadPart, &got, NULL);
    if (text) text[got] = 0;
    *len = got;
    return text;
}

bool history_file_add(history_file *f, const char *bytes, size_t len)
{
    DWORD done;
    SetFilePointer(f->file, 0, NULL, FILE_END);
    return WriteFile(f->file, bytes, (DWORD)len, &done, NULL) && done == len;
}

bool history_file_replace(history_file *f, const char *bytes, size_t len)
{
    DWORD done;
    SetFilePointer(f->file, 0, NULL, FILE_BEGIN);
    return WriteFile(f->file, bytes, (DWORD)len, &done, NULL) && done == len && SetEndOfFile(f->file);
}

void history_file_place(char *path, size_t cap)
{
    wchar_t wide[512];
    const DWORD n = GetEnvironmentVariableW(L"LOCALAPPDATA", wide, 480);
    path[0] = 0;
    if (n == 0 || n >= 480) return;
    wcscpy(wide + n, L"\\qsf");
    CreateDirectoryW(wide, NULL);
    wcscpy(wide + n, L"\\qsf\\history");
    if (WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, (int)cap, NULL, NULL) <= 0) path[0] = 0;
}
#endif
