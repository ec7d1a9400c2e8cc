/* The Windows console.  If it is both the keyboard and the screen, lines are edited here: its key
 * records become the bytes that a terminal sends, and the few escape sequences that the editor
 * writes become calls.  Otherwise the console edits a line itself and returns it whole, in UTF-16,
 * since reading it as UTF-8 loses characters that are not ASCII.
 * SPDX-License-Identifier: MIT */
#include "run.h"
#include "tty.h"

#if defined(_WIN32)

#include <stdlib.h>
#include <windows.h>

enum { CTRL_D = 4, CTRL_Z = 26, ESC = 27 };

static HANDLE tty_in, tty_out;
static DWORD  tty_before;
static WORD   tty_attributes;
static volatile bool tty_keys_on;

/* ---- keys ---- */

/* Bytes of keys that tty_read has not returned yet. */
static struct { char bytes[8192]; size_t at, n; } tty_held;
static wchar_t tty_half;                /* the first of two that are one character */
/* Lines that arrive faster than a person types are pasted. */
static bool tty_pasting;

static void hold(const char *bytes, size_t n)
{
    if (n > sizeof tty_held.bytes - tty_held.n) return;
    memcpy(tty_held.bytes + tty_held.n, bytes, n);
    tty_held.n += n;
}

static void hold_character(wchar_t c, bool alt)
{
    char utf8[8];
    wchar_t wide[2] = { c, 0 };
    int n = 1;
    if (c >= 0xd800 && c < 0xdc00) {
        tty_half = c;
        return;
    }
    if (c >= 0xdc00 && c < 0xe000) wide[0] = tty_half, wide[1] = c, n = 2;
    const int len = WideCharToMultiByte(CP_UTF8, 0, wide, n, utf8, sizeof utf8, NULL, NULL);
    if (alt) hold("\033", 1);
    hold(utf8, (size_t)len);
}

/* Keys that are not characters. */
static void hold_key(WORD key, bool word)
{
    static const struct { WORD key; char last; } keys[] = {
        { VK_UP, 'A' }, { VK_DOWN, 'B' }, { VK_RIGHT, 'C' }, { VK_LEFT, 'D' }, { VK_HOME, 'H' },
        { VK_END, 'F' },
    };
    char s[8];
    if (key == VK_DELETE) hold("\033[3~", 4);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (keys[i].key == key)
            hold(s, (size_t)snprintf(s, sizeof s, "\033[%s%c", word ? "1;5" : "", keys[i].last));
}

static bool record_is_text(const INPUT_RECORD *r)
{
    const KEY_EVENT_RECORD *k = &r->Event.KeyEvent;
    const wchar_t c = k->uChar.UnicodeChar;
    return r->EventType == KEY_EVENT && k->bKeyDown && (c >= 0x20 || c == '\r');
}

/* Whether more text is waiting; after much of it, also what arrives within a moment. */
static bool text_waits(bool much)
{
    INPUT_RECORD r[64];
    for (int tries = much ? 2 : 1; tries > 0; tries--) {
        DWORD n = 0;
        PeekConsoleInputW(tty_in, r, 64, &n);
        for (DWORD i = 0; i < n; i++)
            if (record_is_text(&r[i])) return true;
        if (tries > 1) Sleep(20);
    }
    return false;
}

static void take_key(const KEY_EVENT_RECORD *k)
{
    const DWORD state = k->dwControlKeyState;
    const bool ctrl = (state & (LEFT_CTRL_PRESSED | RIGHT_CTRL_PRESSED)) != 0;
    /* AltGr is both: what it makes is a letter */
    const bool alt = !ctrl && (state & (LEFT_ALT_PRESSED | RIGHT_ALT_PRESSED)) != 0;
    const wchar_t c = k->uChar.UnicodeChar;
    /* a character by its number comes when Alt is let go */
    if (!k->bKeyDown && !(k->wVirtualKeyCode == VK_MENU && c)) return;
    for (int i = 0; i < k->wRepeatCount && i < 64; i++) {
        if (c == '\r' && !alt && !ctrl && !tty_pasting && text_waits(tty_held.n > 8)) {
            tty_pasting = true;
            hold("\033[200~", 6);
        }
        if (!c && !tty_pasting) hold_key(k->wVirtualKeyCode, ctrl || alt);
        else if (c == '\n' && k->wVirtualKeyCode == VK_RETURN) hold("\033\r", 2);         /* with Ctrl */
        else if (c == CTRL_Z) hold_character(CTRL_D, false);
        else if (c) hold_character(c, alt && k->bKeyDown);
    }
}

/* Takes the available records.  True if the window's size has changed. */
static bool take_records(void)
{
    bool resized = false;
    INPUT_RECORD r;
    DWORD n;
    while (tty_held.n + 1024 < sizeof tty_held.bytes) {
        if (!GetNumberOfConsoleInputEvents(tty_in, &n) || !n) {
            if (!tty_pasting || text_waits(true)) break;
            tty_pasting = false;
            hold("\033[201~", 6);
            break;
        }
        if (!ReadConsoleInputW(tty_in, &r, 1, &n) || !n) break;
        if (r.EventType == KEY_EVENT) take_key(&r.Event.KeyEvent);
        resized |= r.EventType == WINDOW_BUFFER_SIZE_EVENT;
    }
    return resized;
}

/* Ctrl-C comes to a thread of its own: this one looks for it now and then. */
tty_event tty_read(char *buf, size_t cap, size_t *n, int wait_ms)
{
    enum { LOOK_MS = 50 };
    bool resized = false;
    *n = 0;
    if (interrupted()) return TTY_INTERRUPT;
    for (int waited = 0; tty_held.at == tty_held.n; waited += LOOK_MS) {
        const int left = wait_ms < 0 ? LOOK_MS : wait_ms - waited < LOOK_MS ? wait_ms - waited : LOOK_MS;
        tty_held.at = tty_held.n = 0;
        const DWORD got = WaitForSingleObject(tty_in, left > 0 ? (DWORD)left : 0);
        if (got == WAIT_FAILED) return TTY_END;
        if (got == WAIT_OBJECT_0) resized = take_records();
        if (interrupted()) return TTY_INTERRUPT;
        if (resized) return TTY_RESIZE;
        if (wait_ms >= 0 && waited + LOOK_MS >= wait_ms && tty_held.n == 0) return TTY_PAUSE;
    }
    *n = tty_held.n - tty_held.at < cap ? tty_held.n - tty_held.at : cap;
    memcpy(buf, tty_held.bytes + tty_held.at, *n);
    tty_held.at += *n;
    return TTY_BYTES;
}

/* ---- the screen ---- */

static void screen_text(const char *utf8, size_t n)
{
    wchar_t wide[256];
    while (n) {
        size_t part = n < 256 ? n : 256;          /* whole characters */
        while (part < n && part > 1 && ((unsigned char)utf8[part] & 0xc0) == 0x80) part--;
        const int len = MultiByteToWideChar(CP_UTF8, 0, utf8, (int)part, wide, 256);
        DWORD done;
        if (len <= 0 || !WriteConsoleW(tty_out, wide, (DWORD)len, &done, NULL)) return;
        utf8 += part;
        n -= part;
    }
}

static void screen_clear(const CONSOLE_SCREEN_BUFFER_INFO *s, COORD from)
{
    DWORD done;
    const DWORD n = (DWORD)(s->srWindow.Bottom - from.Y + 1) * (DWORD)s->dwSize.X - (DWORD)from.X;
    FillConsoleOutputCharacterW(tty_out, L' ', n, from, &done);
    FillConsoleOutputAttribute(tty_out, tty_attributes, n, from, &done);
}

/* 0: as they were; 1: bold; 2: dim. */
static void screen_letters(int number)
{
    const WORD letters = FOREGROUND_RED | FOREGROUND_GREEN | FOREGROUND_BLUE;
    const WORD plain = number == 2 ? tty_attributes & (WORD)~letters : tty_attributes;
    SetConsoleTextAttribute(tty_out, number ? plain | FOREGROUND_INTENSITY : plain);
}

/* "ESC [ number last", of those that the editor writes. */
static void screen_sequence(int number, char last)
{
    CONSOLE_SCREEN_BUFFER_INFO s;
    if (!GetConsoleScreenBufferInfo(tty_out, &s)) return;
    COORD at = s.dwCursorPosition;
    const SHORT by = (SHORT)(number ? number : 1);
    const COORD home = { 0, s.srWindow.Top };
    switch (last) {
    case 'A': at.Y = (SHORT)(at.Y - by < 0 ? 0 : at.Y - by); break;
    case 'B': at.Y = (SHORT)(at.Y + by < s.dwSize.Y ? at.Y + by : s.dwSize.Y - 1); break;
    case 'C': at.X = (SHORT)(at.X + by < s.dwSize.X ? at.X + by : s.dwSize.X - 1); break;
    case 'H': at = home; break;
    case 'J': screen_clear(&s, number ? home : at); return;
    case 'm': screen_letters(number); return;
    default: return;
    }
    SetConsoleCursorPosition(tty_out, at);
}

void tty_write(const char *bytes, size_t n)
{
    const char *end = bytes + n;
    while (bytes < end) {
        const char *escape = memchr(bytes, ESC, (size_t)(end - bytes));
        screen_text(bytes, (size_t)((escape ? escape : end) - bytes));
        if (!escape) return;
        int number = 0;
        for (bytes = escape + 2; bytes < end && *bytes >= '0' && *bytes <= '9'; bytes++)
            number = 10 * number + *bytes - '0';
        if (bytes < end) screen_sequence(number, *bytes++);
    }
}

void tty_size(size_t *cols, size_t *rows)
{
    CONSOLE_SCREEN_BUFFER_INFO s;
    *cols = 80;
    *rows = 24;
    if (!GetConsoleScreenBufferInfo(tty_out ? tty_out : GetStdHandle(STD_ERROR_HANDLE), &s)) return;
    *cols = (size_t)s.dwSize.X;
    *rows = (size_t)(s.srWindow.Bottom - s.srWindow.Top + 1);
}

/* ---- the console ---- */

bool tty_open(void)
{
    static bool at_exit;
    CONSOLE_SCREEN_BUFFER_INFO s;
    const char *term = getenv("TERM");
    if (tty_keys_on) return true;
    if (term && !strcmp(term, "dumb")) return false;
    tty_in = GetStdHandle(STD_INPUT_HANDLE);
    tty_out = GetStdHandle(STD_ERROR_HANDLE);
    if (!GetConsoleScreenBufferInfo(tty_out, &s)) tty_out = GetStdHandle(STD_OUTPUT_HANDLE);
    if (!GetConsoleMode(tty_in, &tty_before) || !GetConsoleScreenBufferInfo(tty_out, &s)) return false;
    if (!at_exit && atexit(tty_restore)) return false;
    at_exit = true;
    tty_attributes = s.wAttributes;
    const DWORD lines = ENABLE_LINE_INPUT | ENABLE_ECHO_INPUT | 0x0200 /* sequences of bytes as input */;
    const DWORD keys = (tty_before & ~lines) | ENABLE_PROCESSED_INPUT | ENABLE_WINDOW_INPUT;
    if (!SetConsoleMode(tty_in, keys)) return false;
    tty_keys_on = true;
    return true;
}

void tty_restore(void)
{
    if (!tty_keys_on) return;
    tty_keys_on = false;
    SetConsoleMode(tty_in, tty_before);
}

void tty_close(void) { tty_restore(); }
bool tty_is_open(void) { return tty_keys_on; }

/* ---- whole lines ---- */

bool tty_has_lines(void)
{
    DWORD mode;
    return GetConsoleMode(GetStdHandle(STD_INPUT_HANDLE), &mode) != 0;
}

bool tty_line(char *buf, size_t cap, size_t *n)
{
    /* the first half of a surrogate pair, if a piece ended inside it */
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
