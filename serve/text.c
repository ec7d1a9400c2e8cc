/* Text that grows, with JSON strings in it.
 * SPDX-License-Identifier: MIT */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_free(serve_text *t)
{
    free(t->bytes);
    *t = (serve_text){ 0 };
}

void text_clear(serve_text *t)
{
    t->len = 0;
    t->failed = false;
    if (t->bytes) t->bytes[0] = 0;
}

/* Room for n more bytes and the terminating zero. */
static bool text_room(serve_text *t, size_t n)
{
    if (t->failed || n >= (size_t)1 << 40) return t->failed = true, false;
    if (t->len + n < t->cap) return true;
    size_t cap = t->cap ? 2 * t->cap : 256;
    while (cap <= t->len + n) cap *= 2;
    char *bytes = realloc(t->bytes, cap);
    if (!bytes) return t->failed = true, false;
    t->bytes = bytes;
    t->cap = cap;
    return true;
}

void text_add(serve_text *t, const char *bytes, size_t len)
{
    if (!text_room(t, len)) return;
    if (len) memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
    t->bytes[t->len] = 0;
}

void text_str(serve_text *t, const char *str) { text_add(t, str, strlen(str)); }

void text_format(serve_text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || !text_room(t, (size_t)n)) {
        t->failed = true;
        return;
    }
    va_start(args, format);
    vsnprintf(t->bytes + t->len, (size_t)n + 1, format, args);
    va_end(args);
    t->len += (size_t)n;
}

/* The length of the character that begins at s[0..len); 0: not a valid one. */
static size_t text_character(const unsigned char *s, size_t len)
{
    static const unsigned least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t n = 0;
    if (s[0] < 0x80) n = 1;
    else if (s[0] >= 0xc2 && s[0] < 0xe0) n = 2;
    else if (s[0] >= 0xe0 && s[0] < 0xf0) n = 3;
    else if (s[0] >= 0xf0 && s[0] < 0xf5) n = 4;
    if (n <= 1) return n;
    if (n > len) return 0;
    unsigned c = s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (s[i] & 0x3fu);
    }
    return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

bool text_is_utf8(const char *bytes, size_t len)
{
    for (size_t i = 0, n; i < len; i += n)
        if (!(n = text_character((const unsigned char *)bytes + i, len - i))) return false;
    return true;
}

/* U+0085, U+2028 and U+2029 end lines for some clients that read streams line by line. */
static bool ends_lines(const char *at, size_t n)
{
    return (n == 2 && !memcmp(at, "\xc2\x85", 2))
        || (n == 3 && (!memcmp(at, "\xe2\x80\xa8", 3) || !memcmp(at, "\xe2\x80\xa9", 3)));
}

void text_json(serve_text *t, const char *bytes, size_t len)
{
    static const char names[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    text_str(t, "\"");
    for (size_t i = 0; i < len && !t->failed;) {
        size_t plain = i;
        while (plain < len && bytes[plain] >= 0x20 && bytes[plain] < 0x7f && bytes[plain] != '"'
               && bytes[plain] != '\\') plain++;
        text_add(t, bytes + i, plain - i);
        if ((i = plain) == len) break;
        const unsigned char c = (unsigned char)bytes[i];
        const char *name = c ? strchr(names, c) : NULL;
        const size_t n = text_character((const unsigned char *)bytes + i, len - i);
        if (name) text_format(t, "\\%c", letters[name - names]);
        else if (c < 0x20 || c == 0x7f) text_format(t, "\\u%04x", c);
        else if (ends_lines(bytes + i, n)) text_str(t, n == 2 ? "\\u0085" : bytes[i + 2] == '\xa8' ? "\\u2028"
                                                                                                 : "\\u2029");
        else if (n) text_add(t, bytes + i, n);
        else text_str(t, "\xef\xbf\xbd");
        i += n ? n : 1;
    }
    text_str(t, "\"");
}

void text_json_str(serve_text *t, const char *str) { text_json(t, str, strlen(str)); }

void text_time(serve_text *t, long long seconds, long microseconds)
{
    /* Days to a date, counting years from March so that the leap day comes last. */
    const long long days = seconds / 86400 + 719468, era = days / 146097, of_day = seconds % 86400;
    const long long day = days - era * 146097;
    const long long year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    const long long rest = day - (365 * year + year / 4 - year / 100), month = (5 * rest + 2) / 153;
    const long long m = month < 10 ? month + 3 : month - 9;
    text_format(t, "%04lld-%02lld-%02lldT%02lld:%02lld:%02lld.%06ldZ", year + era * 400 + (m <= 2), m,
                rest - (153 * month + 2) / 5 + 1, of_day / 3600, of_day / 60 % 60, of_day % 60, microseconds);
}
