/* The server's needs on Windows.
 * SPDX-License-Identifier: MIT */
#include "system.h"

#if defined(_WIN32)
#include <winsock2.h>
#include <windows.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>

bool system_begin(void)
{
    WSADATA data;
    return !WSAStartup(MAKEWORD(2, 2), &data);
}

unsigned system_files(unsigned connections, unsigned others)
{
    (void)others;
    return connections;
}

void system_behind(void) { (void)SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_BELOW_NORMAL); }

bool system_wake(int fd) { return send((SOCKET)fd, "", 1, 0) == 1; }

int system_file_unnamed(const char *dir)
{
    char place[MAX_PATH + 1], path[MAX_PATH + 1];
    errno = ENOENT;
    if (!dir && !GetTempPathA(sizeof place, place)) return -1;
    if (!GetTempFileNameA(dir ? dir : place, "qsf", 0, path)) return -1;
    return _open(path, _O_RDWR | _O_BINARY | _O_TEMPORARY);
}

/* One thread reads and writes such a file. */
long long system_read_at(int fd, void *to, size_t len, uint64_t at)
{
    return _lseeki64(fd, (long long)at, SEEK_SET) < 0 ? -1 : _read(fd, to, (unsigned)len);
}

long long system_write_at(int fd, const void *from, size_t len, uint64_t at)
{
    return _lseeki64(fd, (long long)at, SEEK_SET) < 0 ? -1 : _write(fd, from, (unsigned)len);
}

void system_close(int fd) { (void)_close(fd); }

bool system_flush(FILE *f) { return !fflush(f) && !_commit(_fileno(f)); }

bool system_replace(const char *path, const char *other)
{
    return MoveFileExA(path, other, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) != 0;
}

bool system_folder(const char *path, void (*seen)(void *user, const char *name), void *user)
{
    char pattern[MAX_PATH + 1];
    WIN32_FIND_DATAA found;
    errno = ENAMETOOLONG;
    if ((size_t)snprintf(pattern, sizeof pattern, "%s\\*", path) >= sizeof pattern) return false;
    const HANDLE h = FindFirstFileA(pattern, &found);
    errno = ENOENT;
    if (h == INVALID_HANDLE_VALUE) return false;
    do seen(user, found.cFileName);
    while (FindNextFileA(h, &found));
    FindClose(h);
    return true;
}
#endif
