/* One large file by several connections.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HUB_PIECES_H
#define QSF_HUB_PIECES_H

#include "blob.h"

typedef struct hub_pieces_file {
    const hub_blob *blob;
    uint64_t size, done;                             /* bytes of the file, and those that are here */
    /* Takes the bytes that follow; false: it cannot, and knows why. */
    bool   (*take)(void *user, const void *bytes, size_t n);
    void    *user;
} hub_pieces_file;

typedef enum hub_pieces_end {
    HUB_PIECES_WHOLE,           /* take had all bytes */
    HUB_PIECES_LEFT,            /* all connections have failed; one may continue with the next piece */
    HUB_PIECES_ONE,             /* this server or this machine can do it with one connection only */
    HUB_PIECES_REFUSED,         /* take did not want more */
    HUB_PIECES_STOPPED          /* the caller of the download stopped it */
} hub_pieces_end;

/* Whether a file of this size is worth several connections, and they may be used. */
bool hub_pieces_wanted(const hub_options *o, int64_t size);
/* The end of the piece that a byte is in. */
uint64_t hub_pieces_until(const hub_options *o, uint64_t size, uint64_t at);
/* Downloads what is missing; take and o's functions are called by this thread.  http: the
 * connection whose hub and token the others have, too; it is not used.  What has come out of order
 * at an end is kept next to the file, and the next call begins with it. */
hub_pieces_end hub_pieces_get(const hub_options *o, const hub_http *http, const hub_pieces_file *f);
/* Removes what is kept so. */
void hub_pieces_forget(const hub_blob *b);

#endif
