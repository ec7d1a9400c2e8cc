/* Text that grows, with JSON strings in it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_TEXT_H
#define QSF_SERVE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* "printf" means the format of Microsoft's C library there */
#if defined(__MINGW32__) && !defined(__clang__)
#  define SERVE_PRINTF(fmt, args) __attribute__((format(gnu_printf, fmt, args)))
#elif defined(__GNUC__)
#  define SERVE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#  define SERVE_PRINTF(fmt, args)
#endif

/* Begins with all zeros.  Where memory is out, failed is set and nothing more is added: the caller
 * looks once, at the end. */
typedef struct serve_text {
    char  *bytes;             /* terminated, if not NULL */
    size_t len, cap;
    bool   failed;
} serve_text;

void text_free(serve_text *t);
void text_clear(serve_text *t);                                  /* empty; the memory stays */
void text_add(serve_text *t, const char *bytes, size_t len);
void text_str(serve_text *t, const char *str);
void text_format(serve_text *t, const char *format, ...) SERVE_PRINTF(2, 3);
/* Adds a JSON string, escaping line separators too.  Invalid UTF-8 becomes U+FFFD. */
void text_json(serve_text *t, const char *bytes, size_t len);
void text_json_str(serve_text *t, const char *str);
/* Adds a UTC time (seconds since 1970, microseconds) in RFC 3339 format. */
void text_time(serve_text *t, long long seconds, long microseconds);
bool text_is_utf8(const char *bytes, size_t len);

#endif
