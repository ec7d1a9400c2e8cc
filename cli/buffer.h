/* Text that grows.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_BUFFER_H
#define QSF_CLI_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/* The first failure to get memory stays in `failed`, and everything added after it is lost. */
typedef struct buffer {
    char  *at;                    /* terminated; NULL: nothing was added */
    size_t n, cap;
    bool   failed;
} buffer;

void buffer_add(buffer *b, const char *bytes, size_t n);
void buffer_put(buffer *b, const char *text);
/* As a JSON string, with quotes. */
void buffer_json(buffer *b, const char *bytes, size_t n);
const char *buffer_text(const buffer *b);         /* "" if empty */
void buffer_free(buffer *b);

#endif
