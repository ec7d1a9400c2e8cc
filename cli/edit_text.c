/* The line editor's text: bytes that grow; what finds no memory is not there.
 * SPDX-License-Identifier: MIT */
#include "edit_own.h"

#include <stdlib.h>
#include <string.h>

bool edit_put(edit_bytes *b, const char *bytes, size_t n)
{
    if (n > b->cap - b->len) {
        const size_t cap = 2 * (b->len + n) + 64;
        char *p = realloc(b->p, cap);
        if (!p) return false;
        b->p = p;
        b->cap = cap;
    }
    if (n) memcpy(b->p + b->len, bytes, n);
    b->len += n;
    return true;
}

void edit_drop(edit_bytes *b)
{
    free(b->p);
    *b = (edit_bytes){ 0 };
}

void edit_set(editor *e, const edit_bytes *text)
{
    e->text.len = 0;
    edit_put(&e->text, text->p, text->len);
    e->at = e->text.len;
}
