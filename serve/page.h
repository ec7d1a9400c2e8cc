/* The page that "/" answers with: its files are in the program.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_PAGE_H
#define QSF_SERVE_PAGE_H

#include "http.h"

/* A file of the page.  cmake/PageFiles.cmake writes the table, from demo/. */
typedef struct page_file {
    const char          *path, *type, *etag;     /* etag: with its quotes */
    const unsigned char *bytes;
    size_t               len;
} page_file;
extern const page_file page_files[];             /* the last one has no path */

/* The file at a path, or NULL. */
const page_file *page_find(const char *path);
void page_reply(http_conn *c, const http_head *h, const page_file *file);

#endif
