/* Files for writing on Windows: written to a temporary file in the same directory, flushed, then
 * moved over the old file.
 * SPDX-License-Identifier: MIT
 *
 * A killed process's temporary file is removed when the next file of that name is written; one that
 * is still being written cannot be deleted. */
#include "native.h"

#if defined(NATIVE_WINDOWS)
#include <stdio.h>
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

static bool out_process_ended_windows(long pid)
{
    const HANDLE h = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, (DWORD)pid);
    DWORD code = STILL_ACTIVE;
    if (!h) return GetLastError() == ERROR_INVALID_PARAMETER;
    const bool ended = GetExitCodeProcess(h, &code) && code != STILL_ACTIVE;
    CloseHandle(h);
    return ended;
}

/* UTF-16 as UTF-8, for names; the caller frees. */
static char *out_narrow(const wchar_t *wide)
{
    const int room = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    char *utf8 = room > 0 ? malloc((size_t)room) : NULL;
    if (utf8) WideCharToMultiByte(CP_UTF8, 0, wide, -1, utf8, room, NULL, NULL);
    return utf8;
}

static void out_clear_one(const wchar_t *folder, size_t folder_len, const char *base, const wchar_t *name)
{
    long pid;
    char *utf8 = out_narrow(name);
    const native_leftover kind = utf8 ? qsf_native_leftover_of(base, utf8, &pid) : NATIVE_LEFT_NOTHING;
    free(utf8);
    if (kind == NATIVE_LEFT_NOTHING) return;
    if (kind == NATIVE_LEFT_BETWEEN && !out_process_ended_windows(pid)) return;
    const size_t room = folder_len + wcslen(name) + 1;
    wchar_t *path = malloc(room * sizeof *path);
    if (!path) return;
    swprintf(path, room, L"%.*ls%ls", (int)folder_len, folder, name);
    DeleteFileW(path);
    free(path);
}

/* Removes "NAME.PID-N.tmp" files of processes that are gone, and their intermediate files
 * (native.h). */
static void out_clear_windows(const wchar_t *path)
{
    size_t folder = wcslen(path);
    while (folder && !wcschr(L"/\\:", path[folder - 1])) folder--;
    const size_t room = wcslen(path) + 3;
    wchar_t *pattern = malloc(room * sizeof *pattern);
    char *base = out_narrow(path + folder);
    WIN32_FIND_DATAW found;
    HANDLE h = INVALID_HANDLE_VALUE;
    if (pattern && base) {
        swprintf(pattern, room, L"%ls.*", path);
        h = FindFirstFileW(pattern, &found);
    }
    if (h != INVALID_HANDLE_VALUE) {
        do out_clear_one(path, folder, base, found.cFileName);
        while (FindNextFileW(h, &found));
        FindClose(h);
    }
    free(pattern);
    free(base);
}

static qsf_status out_open_windows(qsf_out *o)
{
    const size_t room = wcslen(o->path) + 48;
    const DWORD there = GetFileAttributesW(o->path);
    if (!*o->path) return QSF_E_NOT_FOUND;
    if (there != INVALID_FILE_ATTRIBUTES && there & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_DEVICE))
        return QSF_E_IO;
    out_clear_windows(o->path);
    if (!(o->temporary = malloc(room * sizeof *o->temporary))) return QSF_E_MEMORY;
    for (unsigned i = 0; i < 100; i++) {
        swprintf(o->temporary, room, L"%ls.%lu-%u.tmp", o->path, (unsigned long)GetCurrentProcessId(), i);
        o->handle = CreateFileW(o->temporary, GENERIC_WRITE, 0, NULL, CREATE_NEW,
                                FILE_ATTRIBUTE_NORMAL, NULL);
        if (o->handle != INVALID_HANDLE_VALUE) return QSF_OK;
        const DWORD e = GetLastError();
        if (e == ERROR_PATH_NOT_FOUND) return QSF_E_NOT_FOUND;
        if (e != ERROR_FILE_EXISTS && e != ERROR_ALREADY_EXISTS) return QSF_E_IO;
    }
    return QSF_E_IO;
}

qsf_status qsf_native_create(void *user, const char *path, qsf_out **out)
{
    (void)user;
    *out = NULL;
    qsf_out *o = calloc(1, sizeof *o);
    if (!o) return QSF_E_MEMORY;
    o->handle = INVALID_HANDLE_VALUE;
    o->path = qsf_native_wide(path);
    const qsf_status st = o->path ? out_open_windows(o) : QSF_E_NOT_FOUND;
    if (st) {
        out_free_windows(o);
        return st;
    }
    *out = o;
    return QSF_OK;
}

qsf_status qsf_native_write(void *user, qsf_out *o, uint64_t at, const void *src, size_t len)
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

qsf_status qsf_native_commit(void *user, qsf_out *o)
{
    const bool flushed = FlushFileBuffers(o->handle) != 0;
    const bool closed = CloseHandle(o->handle) != 0;
    o->handle = INVALID_HANDLE_VALUE;
    if (!flushed || !closed || !MoveFileExW(o->temporary, o->path,
                                            MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)) {
        qsf_native_abort(user, o);
        return QSF_E_IO;
    }
    out_free_windows(o);
    return QSF_OK;
}

void qsf_native_abort(void *user, qsf_out *o)
{
    (void)user;
    if (!o) return;
    if (o->handle != INVALID_HANDLE_VALUE) CloseHandle(o->handle);       /* an open file cannot be deleted */
    o->handle = INVALID_HANDLE_VALUE;
    DeleteFileW(o->temporary);
    out_free_windows(o);
}

/* ---- a file for a while ---- */

static HANDLE out_create_new(const char *path)
{
    wchar_t *wide = qsf_native_wide(path);
    if (!wide) return INVALID_HANDLE_VALUE;
    const HANDLE h = CreateFileW(wide, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
    const DWORD e = GetLastError();
    free(wide);
    SetLastError(e);
    return h;
}

qsf_status qsf_native_between(void *user, const char *path, char *name, size_t cap)
{
    (void)user;
    for (unsigned i = 0; i < 100; i++) {
        const int n = snprintf(name, cap, "%s.%lu-%u.unmeasured", path,
                               (unsigned long)GetCurrentProcessId(), i);
        if (n < 0 || (size_t)n >= cap) return QSF_E_ARGUMENT;
        const HANDLE h = out_create_new(name);
        if (h != INVALID_HANDLE_VALUE) return CloseHandle(h) ? QSF_OK : QSF_E_IO;
        const DWORD e = GetLastError();
        if (e != ERROR_FILE_EXISTS && e != ERROR_ALREADY_EXISTS)
            return e == ERROR_PATH_NOT_FOUND ? QSF_E_NOT_FOUND : QSF_E_IO;
    }
    return QSF_E_IO;
}

void qsf_native_remove(void *user, const char *path)
{
    (void)user;
    wchar_t *wide = qsf_native_wide(path);
    if (wide) DeleteFileW(wide);
    free(wide);
}
#endif
