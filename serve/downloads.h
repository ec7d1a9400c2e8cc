/* A download of a hub's model, or its removal from the cache, on a thread of its own: neither HTTP
 * nor the loader waits for the network.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_DOWNLOADS_H
#define QSF_SERVE_DOWNLOADS_H

#include "serve.h"

typedef struct model_download model_download;

typedef enum download_kind { DOWNLOAD_GET, DOWNLOAD_REMOVE } download_kind;

/* How far it is. */
typedef struct download_state {
    char     sha256[65];            /* of the file that comes; "": not known yet */
    uint64_t done, total;           /* bytes of that file; total 0: not known yet */
    bool     over;
} download_state;

/* Begins.  hub and name stay the caller's; wake_fd gets a byte at the end.  NULL: no memory, or no
 * thread. */
model_download *download_new(const serve_hub *hub, download_kind kind, const char *name, int wake_fd);
void       download_look(model_download *d, download_state *out);
/* It ends soon.  What came of the file stays for the next time. */
void       download_stop(model_download *d);
/* Waits for the end.  *path: of the file, which the caller frees; NULL: *err says why, or it was a
 * removal. */
qsf_status download_free(model_download *d, char **path, qsf_error *err);

#endif
