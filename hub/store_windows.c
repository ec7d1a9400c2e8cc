/* The cache's file system on Windows.  Links need a right there that few users have; without it the
 * file itself is in the snapshot, as huggingface_hub does it.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#include "store.h"

#if defined(NATIVE_WINDOWS)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

enum { WIDE = 2048 };
struct store_lock { HANDLE h; };
struct store_file { HANDLE h; };

static bool store_failed(char why[STORE_WHY])
{
    const DWORD e = GetLastError();
    if (e == ERROR_DISK_FULL || e == ERROR_HANDLE_DISK_FULL) snprintf(why, STORE_WHY, "the disk is full");
    else if (e == ERROR_ACCESS_DENIED) snprintf(why, STORE_WHY, "access is denied");
    else snprintf(why, STORE_WHY, "Windows' error %lu", (unsigned long)e);
    return false;
}

/* The path in Windows' form; a name that it refuses stays one. */
static const wchar_t *store_wide(const char *path, wchar_t out[WIDE])
{
    if (!MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, out, WIDE)) wcscpy(out, L"?");
    for (wchar_t *p = out; *p; p++) if (*p == L'/') *p = L'\\';
    return out;
}

static DWORD store_kind(const char *path)
{
    wchar_t wide[WIDE];
    return GetFileAttributesW(store_wide(path, wide));
}

bool store_is_folder(const char *path)
{
    const DWORD a = store_kind(path);
    return a != INVALID_FILE_ATTRIBUTES && (a & FILE_ATTRIBUTE_DIRECTORY);
}

bool store_make(const char *path, char why[STORE_WHY])
{
    char part[WIDE];
    wchar_t wide[WIDE];
    snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1; ; p++) {
        if (*p && *p != '/') continue;
        const char was = *p;
        *p = 0;
        if (p[-1] != ':' && !store_is_folder(part) && !CreateDirectoryW(store_wide(part, wide), NULL)
            && GetLastError() != ERROR_ALREADY_EXISTS)
            return store_failed(why);
        if (!was) return store_is_folder(path) || store_failed(why);
        *p = was;
    }
}

bool store_size(const char *path, uint64_t *out)
{
    wchar_t wide[WIDE];
    LARGE_INTEGER size;
    if (store_is_folder(path)) return false;
    const DWORD shared = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    HANDLE h = CreateFileW(store_wide(path, wide), FILE_READ_ATTRIBUTES, shared, NULL, OPEN_EXISTING, 0,
                           NULL);
    if (h == INVALID_HANDLE_VALUE) return false;
    const bool found = GetFileSizeEx(h, &size);
    CloseHandle(h);
    *out = (uint64_t)size.QuadPart;
    return found;
}

bool store_link(const char *path, const char *target, const char *blob, char why[STORE_WHY])
{
    enum { WITHOUT_ADMINISTRATOR = 2 };         /* in developer mode */
    wchar_t from[WIDE], to[WIDE], whole[WIDE];
    store_wide(path, from);
    store_wide(target, to);
    uint64_t size;
    DeleteFileW(from);
    if (CreateSymbolicLinkW(from, to, WITHOUT_ADMINISTRATOR) && store_size(path, &size)) return true;
    DeleteFileW(from);
    return MoveFileExW(store_wide(blob, whole), from, MOVEFILE_REPLACE_EXISTING) || store_failed(why);
}

bool store_rename(const char *from, const char *to, char why[STORE_WHY])
{
    wchar_t a[WIDE], b[WIDE];
    return MoveFileExW(store_wide(from, a), store_wide(to, b), MOVEFILE_REPLACE_EXISTING)
        || store_failed(why);
}

bool store_remove(const char *path)
{
    wchar_t wide[WIDE];
    return DeleteFileW(store_wide(path, wide)) || RemoveDirectoryW(wide);
}

/* The name that a link has within Windows is not the one that it was made with. */
bool store_link_target(const char *path, char *out, size_t cap)
{
    (void)path, (void)out, (void)cap;
    return false;
}

void store_list(const char *folder, bool (*fn)(void *user, const char *name), void *user)
{
    char pattern[WIDE], name[1024];
    wchar_t wide[WIDE];
    WIN32_FIND_DATAW found;
    snprintf(pattern, sizeof pattern, "%s/%c", folder, '*');
    HANDLE h = FindFirstFileW(store_wide(pattern, wide), &found);
    if (h == INVALID_HANDLE_VALUE) return;
    do {
        if (!WideCharToMultiByte(CP_UTF8, 0, found.cFileName, -1, name, sizeof name, NULL, NULL)) continue;
        if (strcmp(name, ".") && strcmp(name, "..") && !fn(user, name)) break;
    } while (FindNextFileW(h, &found));
    FindClose(h);
}

uint64_t store_free(const char *folder)
{
    wchar_t wide[WIDE];
    ULARGE_INTEGER n;
    return GetDiskFreeSpaceExW(store_wide(folder, wide), &n, NULL, NULL) ? n.QuadPart : UINT64_MAX;
}

uint64_t store_machine_memory(void)
{
    MEMORYSTATUSEX m = { .dwLength = sizeof m };
    return GlobalMemoryStatusEx(&m) ? m.ullTotalPhys : UINT64_MAX;
}

void store_slashes(char *path)
{
    for (char *p = path; *p; p++) if (*p == '\\') *p = '/';
}

bool store_write_text(const char *path, const char *text, char why[STORE_WHY])
{
    char beside[WIDE];
    wchar_t wide[WIDE];
    DWORD n = 0;
    snprintf(beside, sizeof beside, "%s.%lu.tmp", path, (unsigned long)GetCurrentProcessId());
    HANDLE h = CreateFileW(store_wide(beside, wide), GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
    bool whole = h != INVALID_HANDLE_VALUE && WriteFile(h, text, (DWORD)strlen(text), &n, NULL)
        && n == strlen(text);
    if (!whole) store_failed(why);
    if (h != INVALID_HANDLE_VALUE) CloseHandle(h);
    if (whole) whole = store_rename(beside, path, why);
    if (!whole) DeleteFileW(wide);
    return whole;
}

bool store_read_text(const char *path, char *out, size_t cap)
{
    wchar_t wide[WIDE];
    DWORD n = 0;
    HANDLE h = CreateFileW(store_wide(path, wide), GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL,
                           OPEN_EXISTING, 0, NULL);
    const bool found = h != INVALID_HANDLE_VALUE && ReadFile(h, out, (DWORD)cap - 1, &n, NULL);
    if (h != INVALID_HANDLE_VALUE) CloseHandle(h);
    out[found ? n : 0] = 0;
    return found;
}

/* Windows has no such signal. */
void store_pipe_hold(bool *held) { *held = false; }
void store_pipe_release(bool held) { (void)held; }

/* ---- locks ---- */

store_held store_lock_try(const char *path, store_lock **out, char why[STORE_WHY])
{
    wchar_t wide[WIDE];
    OVERLAPPED first = { 0 };           /* the first byte, which huggingface_hub locks, too */
    *out = NULL;
    HANDLE h = CreateFileW(store_wide(path, wide), GENERIC_READ | GENERIC_WRITE,
                           FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_ALWAYS, 0, NULL);
    if (h == INVALID_HANDLE_VALUE) return store_failed(why), STORE_FAILED;
    store_lock *l = malloc(sizeof *l);
    if (l && LockFileEx(h, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &first)) {
        l->h = h;
        *out = l;
        return STORE_LOCKED;
    }
    const DWORD e = GetLastError();
    store_failed(why);
    CloseHandle(h);
    free(l);
    return l && (e == ERROR_LOCK_VIOLATION || e == ERROR_IO_PENDING) ? STORE_BUSY : STORE_FAILED;
}

void store_unlock(store_lock *l)
{
    if (!l) return;
    CloseHandle(l->h);
    free(l);
}

/* ---- a file that grows ---- */

store_file *store_open(const char *path, uint64_t *len, char why[STORE_WHY])
{
    wchar_t wide[WIDE];
    LARGE_INTEGER size;
    store_file *f = malloc(sizeof *f);
    HANDLE h = f ? CreateFileW(store_wide(path, wide), GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ, NULL,
                               OPEN_ALWAYS, 0, NULL) : INVALID_HANDLE_VALUE;
    if (h == INVALID_HANDLE_VALUE || !GetFileSizeEx(h, &size)) {
        store_failed(why);
        if (h != INVALID_HANDLE_VALUE) CloseHandle(h);
        free(f);
        return NULL;
    }
    f->h = h;
    *len = (uint64_t)size.QuadPart;
    return f;
}

static OVERLAPPED store_at(uint64_t at)
{
    return (OVERLAPPED){ .Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32) };
}

/* A file that shares its deletion can be renamed while it is open. */
store_file *store_open_again(const char *path)
{
    wchar_t wide[WIDE];
    store_file *f = malloc(sizeof *f);
    const DWORD shared = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    if (f) f->h = CreateFileW(store_wide(path, wide), GENERIC_READ, shared, NULL, OPEN_EXISTING, 0, NULL);
    if (f && f->h != INVALID_HANDLE_VALUE) return f;
    free(f);
    return NULL;
}

size_t store_read(store_file *f, uint64_t at, void *out, size_t n)
{
    OVERLAPPED o = store_at(at);
    DWORD got = 0;
    return ReadFile(f->h, out, (DWORD)n, &got, &o) ? got : 0;
}

bool store_cut(store_file *f, uint64_t len, char why[STORE_WHY])
{
    const LARGE_INTEGER end = { .QuadPart = (LONGLONG)len };
    return (SetFilePointerEx(f->h, end, NULL, FILE_BEGIN) && SetEndOfFile(f->h)) || store_failed(why);
}

bool store_write(store_file *f, uint64_t at, const void *bytes, size_t n, char why[STORE_WHY])
{
    OVERLAPPED o = store_at(at);
    DWORD put = 0;
    return (WriteFile(f->h, bytes, (DWORD)n, &put, &o) && put == n) || store_failed(why);
}

bool store_close(store_file *f, bool sync, char why[STORE_WHY])
{
    bool whole = !sync || FlushFileBuffers(f->h) || store_failed(why);
    if (!CloseHandle(f->h) && whole) whole = store_failed(why);
    free(f);
    return whole;
}
#endif
