/* The cache, with the layout of the package huggingface_hub: what it has downloaded is found here,
 * and the other way round.
 * SPDX-License-Identifier: MIT
 *
 *   FOLDER/models--OWNER--REPO/blobs/ETAG             the bytes; a large file's ETAG is its SHA-256
 *                              blobs/ETAG.incomplete  what has come of it
 *                              snapshots/COMMIT/PATH  a link to ../../blobs/ETAG
 *                              refs/REVISION          the commit that main, a branch or a tag is
 *   FOLDER/.locks/models--OWNER--REPO/ETAG.lock       held while the blob is downloaded
 *
 * https://huggingface.co/docs/huggingface_hub/guides/manage-cache */
#ifndef QSF_HUB_CACHE_H
#define QSF_HUB_CACHE_H

#include "name.h"

enum { HUB_PATH = 1536 };

/* The folder: HF_HUB_CACHE, else hub/ in HF_HOME, XDG_CACHE_HOME/huggingface or
 * ~/.cache/huggingface. */
bool hub_cache_folder(char out[HUB_PATH]);
/* That of files from other addresses: QSF_CACHE/files, as the npm package has QSF_CACHE/urls. */
bool hub_cache_other(char out[HUB_PATH]);
/* The token: HF_TOKEN, else the file HF_TOKEN_PATH or HF_HOME/token; false: no token. */
bool hub_token(char *out, size_t cap);
/* HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is 1, ON, YES or TRUE. */
bool hub_env_offline(void);

/* Paths in the cache; false: too long. */
bool hub_cache_repo(const char *repo, char out[HUB_PATH]);
bool hub_cache_blob(const char *repo, const char *etag, char out[HUB_PATH]);
bool hub_cache_snapshot(const char *repo, const char *commit, const char *path, char out[HUB_PATH]);
bool hub_cache_lock(const char *repo, const char *etag, char out[HUB_PATH]);
/* Whether what a server sent can be such a part of a path. */
bool hub_is_commit(const char *text);           /* 40 hexadecimal digits */
bool hub_is_etag(const char *text);             /* letters, digits, '-', '_', '.' */
bool hub_is_sha256(const char *text);

/* The commit that a revision was when it was downloaded last; false: it was not. */
bool hub_cache_commit(const char *repo, const char *revision, char out[44]);
/* The whole files of a snapshot, with their sizes.  false: out of memory. */
bool hub_cache_files(const char *repo, const char *commit, hub_files *out);
/* Enters a blob as a file of a snapshot, in place of what is there, and the revision.  there: the
 * file is in the snapshot already. */
qsf_status hub_cache_enter(const char *repo, const char *revision, const char *commit, const char *path,
                           const char *etag, bool there, qsf_error *err);

#endif
