/* Text that grows.
 * SPDX-License-Identifier: MIT */
#include "buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buffer_add(buffer *b, const char *bytes, size_t n)
{
    if (b->failed) return;
    if (b->n + n + 1 > b->cap) {
        const size_t cap = 2 * (b->n + n) + 256;
        char *at = realloc(b->at, cap);
        if (!at) {
            b->failed = true;
            return;
        }
        b->at = at;
        b->cap = cap;
    }
    if (n) memcpy(b->at + b->n, bytes, n);
    b->at[b->n += n] = 0;
}

void buffer_put(buffer *b, const char *text) { buffer_add(b, text, strlen(text)); }

void buffer_json(buffer *b, const char *bytes, size_t n)
{
    buffer_put(b, "\"");
    for (size_t i = 0; i < n; i++) {
        char code[8];
        const unsigned char c = (unsigned char)bytes[i];
        if (c != '"' && c != '\\' && c >= 32) {
            buffer_add(b, bytes + i, 1);
            continue;
        }
        snprintf(code, sizeof code, c < 32 ? "\\u%04x" : "\\%c", c);
        buffer_put(b, code);
    }
    buffer_put(b, "\"");
}

const char *buffer_text(const buffer *b) { return b->at ? b->at : ""; }

void buffer_free(buffer *b)
{
    free(b->at);
    *b = (buffer){ 0 };
}
