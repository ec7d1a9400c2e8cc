/* Files for reading on Windows: overlapped reads, which the system performs in the background.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(NATIVE_WINDOWS)
#include <stdlib.h>
#include <windows.h>

/* shorter reads go through the cache wherever the file is */
#define WINDOWS_DIRECT_LEAST ((size_t)256 << 10)
#define WINDOWS_CHUNK ((size_t)1 << 30)    /* ReadFile counts in 32 bits */

/* One read.  Its parts follow each other, because a count has 32 bits;
 * each ends by its own event. */
typedef struct windows_request {
    qsf_read   base;
    OVERLAPPED overlapped;
    struct windows_request *older, *next;  /* every request of the file, and the free ones */
    qsf_file  *file;
    HANDLE     handle;                     /* one of the file's two */
    uint64_t   at;
    uint8_t   *dst;
    size_t     len;                        /* still missing */
    bool       running;
} windows_request;

struct qsf_file {
    /* direct: past the system's cache; INVALID_HANDLE_VALUE where it is not used */
    HANDLE   handle, direct;
    uint64_t length;
    CRITICAL_SECTION lock;                 /* over the two lists and direct */
    windows_request *newest, *unused;
};

static qsf_status windows_status_of(DWORD e)
{
    switch (e) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME: return QSF_E_NOT_FOUND;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY: return QSF_E_MEMORY;
    default: return QSF_E_IO;
    }
}

qsf_status qsf_native_open(void *user, const char *path, qsf_file **out)
{
    (void)user;
    *out = NULL;
    qsf_status st;
    LARGE_INTEGER length;
    wchar_t *name = qsf_native_wide(path);
    qsf_file *f = calloc(1, sizeof *f);
    if (!name || !f) {
        st = name ? QSF_E_MEMORY : QSF_E_NOT_FOUND;
        goto fail;
    }
    f->handle = CreateFileW(name, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                            FILE_FLAG_OVERLAPPED, NULL);
    if (f->handle == INVALID_HANDLE_VALUE) {
        st = windows_status_of(GetLastError());
        goto fail;
    }
    if (GetFileType(f->handle) != FILE_TYPE_DISK || !GetFileSizeEx(f->handle, &length)) {
        CloseHandle(f->handle);
        st = QSF_E_IO;
        goto fail;
    }
    f->length = (uint64_t)length.QuadPart;
    f->direct = INVALID_HANDLE_VALUE;
    InitializeCriticalSection(&f->lock);
    free(name);
    *out = f;
    return QSF_OK;
fail:
    free(name);
    free(f);
    return st;
}

void qsf_native_close(void *user, qsf_file *f)
{
    (void)user;
    if (!f) return;
    while (f->newest) {
        windows_request *r = f->newest;
        DWORD n;
        f->newest = r->older;
        if (r->running) {
            CancelIoEx(r->handle, &r->overlapped);
            /* dst is the caller's again only now */
            GetOverlappedResult(r->handle, &r->overlapped, &n, TRUE);
        }
        CloseHandle(r->overlapped.hEvent);
        free(r);
    }
    DeleteCriticalSection(&f->lock);
    if (f->direct != INVALID_HANDLE_VALUE) CloseHandle(f->direct);
    CloseHandle(f->handle);
    free(f);
}

qsf_status qsf_native_length(void *user, qsf_file *f, uint64_t *out)
{
    (void)user;
    *out = f->length;
    return QSF_OK;
}

static windows_request *windows_new_request(qsf_file *f)
{
    EnterCriticalSection(&f->lock);
    windows_request *r = f->unused;
    if (r) {
        f->unused = r->next;
    } else if ((r = calloc(1, sizeof *r))) {
        r->overlapped.hEvent = CreateEventW(NULL, TRUE, FALSE, NULL);
        if (r->overlapped.hEvent) {
            r->file = f;
            r->older = f->newest;
            f->newest = r;
        } else {
            free(r);
            r = NULL;
        }
    }
    LeaveCriticalSection(&f->lock);
    return r;
}

static qsf_status windows_end(windows_request *r, qsf_status st)
{
    qsf_file *f = r->file;
    r->running = false;
    EnterCriticalSection(&f->lock);
    r->next = f->unused;
    f->unused = r;
    LeaveCriticalSection(&f->lock);
    return st;
}

/* Begins the next part; QSF_PENDING if it is running now. */
static qsf_status windows_send(windows_request *r)
{
    const HANDLE event = r->overlapped.hEvent;
    r->overlapped = (OVERLAPPED){ .hEvent = event };
    r->overlapped.Offset = (DWORD)r->at;
    r->overlapped.OffsetHigh = (DWORD)(r->at >> 32);
    r->running = ReadFile(r->handle, r->dst, (DWORD)(r->len < WINDOWS_CHUNK ? r->len : WINDOWS_CHUNK), NULL,
                          &r->overlapped)
              || GetLastError() == ERROR_IO_PENDING;
    return r->running ? QSF_PENDING : QSF_E_IO;
}

/* Takes parts that have come, or waits for them, until all is there. */
static qsf_status windows_collect(windows_request *r, bool wait)
{
    qsf_status st = QSF_PENDING;
    while (r->len && st == QSF_PENDING) {
        DWORD n = 0;
        if (!r->running && (st = windows_send(r)) != QSF_PENDING) break;
        if (!GetOverlappedResult(r->handle, &r->overlapped, &n, wait)) {
            if (GetLastError() == ERROR_IO_INCOMPLETE) return QSF_PENDING;
            st = QSF_E_IO;                 /* the file ends inside the read, or the disk failed */
            break;
        }
        r->running = false;
        if (n == 0) st = QSF_E_IO;
        r->at += n;
        r->dst += n;
        r->len -= n;
    }
    return windows_end(r, r->len ? st : QSF_OK);
}

qsf_status qsf_native_read_start(void *user, qsf_file *f, uint64_t at, void *dst, size_t len, qsf_read **out)
{
    (void)user;
    *out = NULL;
    if (at > INT64_MAX || len > INT64_MAX - at) return QSF_E_IO;
    windows_request *r = windows_new_request(f);
    if (!r) return QSF_E_MEMORY;
    const bool aligned = at % NATIVE_DIRECT_ALIGN == 0 && len % NATIVE_DIRECT_ALIGN == 0
        && (uintptr_t)dst % NATIVE_DIRECT_ALIGN == 0;
    EnterCriticalSection(&f->lock);
    r->handle = aligned && len >= WINDOWS_DIRECT_LEAST && f->direct != INVALID_HANDLE_VALUE ? f->direct
        : f->handle;
    LeaveCriticalSection(&f->lock);
    r->at = at;
    r->dst = dst;
    r->len = len;
    if (len && windows_send(r) != QSF_PENDING) return windows_end(r, QSF_E_IO);
    *out = &r->base;
    return QSF_OK;
}

qsf_status qsf_native_read_poll(void *user, qsf_read *r)
{
    (void)user;
    return windows_collect((windows_request *)r, false);
}

qsf_status qsf_native_read_wait(void *user, qsf_read *r)
{
    (void)user;
    return windows_collect((windows_request *)r, true);
}

/* Aligned reads go past the cache; through it the system makes most reads wait for their end,
 * overlapped or not. */
qsf_status qsf_native_read_by(void *user, qsf_file *f, qsf_io io, bool streams, const char **how)
{
    MEMORYSTATUSEX memory = { .dwLength = sizeof memory };
    (void)user;
    *how = NULL;
    if (io != QSF_IO_AUTO) return QSF_E_UNSUPPORTED;
    EnterCriticalSection(&f->lock);
    if (streams && f->direct == INVALID_HANDLE_VALUE && GlobalMemoryStatusEx(&memory)
        && f->length > memory.ullAvailPhys / 2)
        f->direct = ReOpenFile(f->handle, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE,
                               FILE_FLAG_OVERLAPPED | FILE_FLAG_NO_BUFFERING);
    *how = f->direct == INVALID_HANDLE_VALUE ? "overlapped" : "overlapped, direct";
    LeaveCriticalSection(&f->lock);
    return QSF_OK;
}

#undef WINDOWS_CHUNK
#undef WINDOWS_DIRECT_LEAST
#endif
