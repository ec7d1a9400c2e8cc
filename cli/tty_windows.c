/* The Windows console: it edits a line itself and hands it over whole, in UTF-16, since reading it
 * as UTF-8 loses what is not ASCII.
 * SPDX-License-Identifier: MIT */
#include "tty.h"

#if defined(_WIN32)

#include <string.h>
#include <windows.h>

bool tty_open(void) { return false; }
void tty_close(void) { }
bool tty_is_open(void) { return false; }
void tty_restore(void) { }
tty_event tty_read(char *buf, size_t cap, size_t *n, int wait_ms)
{
    (void)buf, (void)cap, (void)n, (void)wait_ms;
    return TTY_END;
}
void tty_write(const char *bytes, size_t n) { (void)bytes, (void)n; }
void tty_size(size_t *cols, size_t *rows) { *cols = 80, *rows = 24; }

bool tty_has_lines(void)
{
    DWORD mode;
    return GetConsoleMode(GetStdHandle(STD_INPUT_HANDLE), &mode) != 0;
}

bool tty_line(char *buf, size_t cap, size_t *n)
{
    enum { CTRL_Z = 26 };
    /* the first of two that are one character, where a piece ended between them */
    static wchar_t half;
    wchar_t wide[256];
    DWORD got = 0, before = half ? 1 : 0;
    const DWORD most = (DWORD)((cap / 3 < 256 ? cap / 3 : 256) - 1);
    wide[0] = half;
    half = 0;
    SetLastError(ERROR_SUCCESS);
    if (!ReadConsoleW(GetStdHandle(STD_INPUT_HANDLE), wide + before, most, &got, NULL) || got == 0) {
        /* Ctrl-C, whose handler has its own thread */
        if (GetLastError() == ERROR_OPERATION_ABORTED) Sleep(100);
        return false;
    }
    if (before == 0 && wide[0] == CTRL_Z) return false;
    DWORD len = before + got;
    if (wide[len - 1] >= 0xd800 && wide[len - 1] < 0xdc00) half = wide[--len];
    DWORD kept = 0;
    for (DWORD i = 0; i < len; i++)
        if (wide[i] != L'\r') wide[kept++] = wide[i];
    *n = kept ? (size_t)WideCharToMultiByte(CP_UTF8, 0, wide, (int)kept, buf, (int)cap, NULL, NULL) : 0;
    return true;
}
#endif
