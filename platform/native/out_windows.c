/* Files for writing on Windows: a temporary name beside the last one, flushed, then moved over it.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(NATIVE_WINDOWS)
#include <stdlib.h>
#include <wchar.h>
#include <windows.h>

struct qsf_out {
    HANDLE   handle;
    wchar_t *path, *temporary;
};

static void out_free_windows(qsf_out *o)
{
    if (o->handle != INVALID_HANDLE_VALUE) CloseHandle(o->handle);
    free(o->path);
    free(o->temporary);
    free(o);
}

static qsf_status out_open_windows(qsf_out *o)
{
    const size_t room = wcslen(o->path) + 48;
    const DWORD there = GetFileAttributesW(o->path);
    if (there != INVALID_FILE_ATTRIBUTES && there & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_DEVICE)) return QSF_E_IO;
    if (!(o->temporary = malloc(room * sizeof *o->temporary))) return QSF_E_MEMORY;
    for (unsigned i = 0; i < 100; i++) {
        swprintf(o->temporary, room, L"%ls.%lu-%u.tmp", o->path, (unsigned long)GetCurrentProcessId(), i);
        o->handle = CreateFileW(o->temporary, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
        if (o->handle != INVALID_HANDLE_VALUE) return QSF_OK;
        const DWORD e = GetLastError();
        if (e == ERROR_PATH_NOT_FOUND) return QSF_E_NOT_FOUND;
        if (e != ERROR_FILE_EXISTS && e != ERROR_ALREADY_EXISTS) return QSF_E_IO;
    }
    return QSF_E_IO;
}

qsf_status native_create(void *user, const char *path, qsf_out **out)
{
    (void)user;
    *out = NULL;
    qsf_out *o = calloc(1, sizeof *o);
    if (!o) return QSF_E_MEMORY;
    o->handle = INVALID_HANDLE_VALUE;
    o->path = native_wide(path);
    const qsf_status st = o->path ? out_open_windows(o) : QSF_E_NOT_FOUND;
    if (st) {
        out_free_windows(o);
        return st;
    }
    *out = o;
    return QSF_OK;
}

qsf_status native_write(void *user, qsf_out *o, uint64_t at, const void *src, size_t len)
{
    (void)user;
    const uint8_t *p = src;
    const size_t most = (size_t)1 << 30;         /* WriteFile counts in 32 bits */
    while (len) {
        OVERLAPPED place = { .Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32) };
        DWORD n = 0;
        if (!WriteFile(o->handle, p, (DWORD)(len < most ? len : most), &n, &place) || n == 0) return QSF_E_IO;
        p += n;
        at += n;
        len -= n;
    }
    return QSF_OK;
}

qsf_status native_commit(void *user, qsf_out *o)
{
    const bool flushed = FlushFileBuffers(o->handle) != 0;
    const bool closed = CloseHandle(o->handle) != 0;
    o->handle = INVALID_HANDLE_VALUE;
    if (!flushed || !closed || !MoveFileExW(o->temporary, o->path, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)) {
        native_abort(user, o);
        return QSF_E_IO;
    }
    out_free_windows(o);
    return QSF_OK;
}

void native_abort(void *user, qsf_out *o)
{
    (void)user;
    if (!o) return;
    if (o->handle != INVALID_HANDLE_VALUE) CloseHandle(o->handle);       /* an open file cannot be deleted */
    o->handle = INVALID_HANDLE_VALUE;
    DeleteFileW(o->temporary);
    out_free_windows(o);
}
#endif
