/* The page that "/" answers with.
 * SPDX-License-Identifier: MIT
 *
 * A path is compared with those of the table and never becomes the name of a file. */
#include "page.h"

#include <stdio.h>
#include <string.h>

/* The page runs its own scripts and connects to this server alone; no other page can frame it.
 * Browsers revalidate their copy each time, so that scripts of two versions never mix. */
#define PAGE_HEADERS \
    "Content-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'none'; " \
    "frame-ancestors 'none'; object-src 'none'\r\n" \
    "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n" \
    "Cross-Origin-Resource-Policy: same-origin\r\nCache-Control: no-cache\r\n"

const page_file *page_find(const char *path)
{
    for (const page_file *file = page_files; file->path; file++)
        if (!strcmp(file->path, path)) return file;
    return NULL;
}

/* Whether a list of tags, If-None-Match, has this one: "a", W/"b", or * for any. */
static bool tags_have(const char *list, const char *etag)
{
    const size_t n = strlen(etag);
    while (*list) {
        list += strspn(list, ", \t");
        if (*list == '*') return true;
        if (!strncmp(list, "W/", 2)) list += 2;
        if (!strncmp(list, etag, n)) return true;
        list += strcspn(list, ",");
    }
    return false;
}

void page_reply(http_conn *c, const http_head *h, const page_file *file)
{
    char more[700];
    snprintf(more, sizeof more, PAGE_HEADERS "ETag: %s\r\n", file->etag);
    http_reply(c, tags_have(h->if_none_match, file->etag) ? 304 : 200, file->type, more,
               (const char *)file->bytes, file->len);
}
