/* Reads the beginning of a model.  Descriptions are read from their start to their end, so more is
 * asked for each time: few requests, and at most twice the bytes that were needed.
 * SPDX-License-Identifier: MIT */
#include "head.h"

#include "address.h"
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_FIRST = 1 << 20, HEAD_MOST = 64 << 20 };

struct hub_head {
    hub_search *s;
    uint64_t    size;
    char        url[2048];
    FILE       *file;               /* of the cache; NULL: it is asked for */
    char       *bytes;              /* [n] that came */
    size_t      n, wanted;
};

uint64_t hub_head_size(const hub_head *h) { return h->size; }

static bool head_take(void *user, const hub_answer *a, const void *bytes, size_t n)
{
    hub_head *h = user;
    (void)a;
    const size_t take = n < h->wanted - h->n ? n : h->wanted - h->n;
    memcpy(h->bytes + h->n, bytes, take);
    h->n += take;
    return h->n < h->wanted;
}

/* Has the first n bytes come. */
static bool head_fetch(hub_head *h, size_t n)
{
    hub_answer a;
    bool again;
    qsf_error err;
    if (n <= h->n) return true;
    if (n > HEAD_MOST) return false;
    h->wanted = HEAD_FIRST;
    while (h->wanted < n) h->wanted *= 2;
    if (h->wanted > h->size) h->wanted = (size_t)h->size;
    char *bytes = realloc(h->bytes, h->wanted);
    if (!bytes) return false;
    h->bytes = bytes;
    const size_t before = h->n;
    const qsf_status st = hub_http_get(h->s->http, h->url, before, head_take, h, &a, &again, &err);
    /* a server without ranges sends what is here again */
    const bool next = a.status == 206 ? a.first == (int64_t)before : a.status == 200 && !before;
    return (!st || st == QSF_E_CANCELLED) && next && h->n == h->wanted;
}

qsf_status hub_head_read(hub_head *h, uint64_t at, void *dst, size_t len)
{
    if (at > h->size || len > h->size - at) return QSF_E_IO;
    if (h->file)
        return !fseek(h->file, (long)at, SEEK_SET) && fread(dst, 1, len, h->file) == len ? QSF_OK : QSF_E_IO;
    if (at + len > HEAD_MOST || !head_fetch(h, (size_t)(at + len))) return QSF_E_IO;
    memcpy(dst, h->bytes + at, len);
    return QSF_OK;
}

uint64_t hub_head_memory(hub_search *s, const hub_file *file, const char *commit)
{
    char path[HUB_PATH];
    hub_head h = { .s = s, .size = file->size };
    uint64_t size, need = 0;
    if (*commit && hub_cache_snapshot(s->name.repo, commit, file->path, path) && store_size(path, &size)
        && size == file->size) h.file = fopen(path, "rb");
    snprintf(h.url, sizeof h.url, "%s/%s/resolve/", s->base, s->name.repo);
    bool fits = hub_url_put(h.url, sizeof h.url - 1, s->name.revision, false);
    strcat(h.url, "/");
    fits = fits && hub_url_put(h.url, sizeof h.url, file->path, true);
    if (h.file || (s->http && fits)) need = s->o->memory_of(&h);
    if (h.file) fclose(h.file);
    free(h.bytes);
    return need;
}
