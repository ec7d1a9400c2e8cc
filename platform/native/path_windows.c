/* What a path refers to, on Windows: the same file as another path, or something that cannot be
 * read or written as a file.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(NATIVE_WINDOWS)
#include <stdlib.h>
#include <string.h>
#include <windows.h>

/* Identifies a file, or a directory, by its volume and file index.  It is opened without read
 * access, so that sharing modes of other processes do not interfere. */
static bool path_identity(const char *path, BY_HANDLE_FILE_INFORMATION *out)
{
    wchar_t *name = qsf_native_wide(path);
    const HANDLE h = name
        ? CreateFileW(name, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                                        FILE_FLAG_BACKUP_SEMANTICS, NULL) : INVALID_HANDLE_VALUE;
    free(name);
    if (h == INVALID_HANDLE_VALUE) return false;
    const bool known = GetFileInformationByHandle(h, out) != 0;
    CloseHandle(h);
    return known;
}

bool qsf_native_same(void *user, const char *a, const char *b)
{
    BY_HANDLE_FILE_INFORMATION x, y;
    (void)user;
    return path_identity(a, &x) && path_identity(b, &y) && x.dwVolumeSerialNumber == y.dwVolumeSerialNumber &&
           x.nFileIndexHigh == y.nFileIndexHigh && x.nFileIndexLow == y.nFileIndexLow;
}

static const char path_missing[] = "no such file or directory";

static const char *path_error_windows(DWORD e, bool writing)
{
    switch (e) {
    case ERROR_FILE_NOT_FOUND:    return path_missing;
    case ERROR_PATH_NOT_FOUND:    return writing ? "its directory does not exist" : path_missing;
    case ERROR_INVALID_NAME:      return "the name is not allowed";
    case ERROR_ACCESS_DENIED:     return "permission denied";
    case ERROR_SHARING_VIOLATION: return "another program has it open";
    case ERROR_WRITE_PROTECT:     return "the disk is write-protected";
    case ERROR_DISK_FULL:         return "the disk is full";
    case ERROR_TOO_MANY_OPEN_FILES: return "too many open files";
    default:                      return NULL;
    }
}

/* Repeats what the caller tried, without writing. */
static const char *path_try(const wchar_t *name, bool writing)
{
    const HANDLE h = CreateFileW(name, writing ? GENERIC_WRITE : GENERIC_READ,
                                 FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
    if (h == INVALID_HANDLE_VALUE) return path_error_windows(GetLastError(), writing);
    const bool file = GetFileType(h) == FILE_TYPE_DISK;
    CloseHandle(h);
    return file ? NULL : "is a pipe or a device, not a file";
}

const char *qsf_native_why(void *user, const char *path, bool writing)
{
    (void)user;
    if (!*path) return "the name is empty";
    wchar_t *name = qsf_native_wide(path);
    if (!name) return NULL;
    const DWORD there = GetFileAttributesW(name);
    const char *why = there != INVALID_FILE_ATTRIBUTES && there & FILE_ATTRIBUTE_DIRECTORY ? "is a directory"
        : path_try(name, writing);
    if (writing && why && there == INVALID_FILE_ATTRIBUTES && why == path_missing)
        why = "its directory may not be written to";        /* the file need not be there */
    free(name);
    return why;
}
#endif
