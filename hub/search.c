/* One name at a hub: the list of a repository's files, and a file's way into the cache.
 * SPDX-License-Identifier: MIT */
#include "search.h"

#include "address.h"
#include "blob.h"
#include "store.h"
#include "text/json.h"
#include "url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_BYTES = 64 << 20, MOST_LISTED = 20000, MOST_PAGES = 1000 };

qsf_status hub_search_begin(hub_search *s, const hub_options *o, const char *text, bool *other,
                            qsf_error *err)
{
    *other = false;
    s->o = o;
    qsf_status st = hub_address(o, s->base, err);
    if (!st && hub_is_url(text)) *other = !hub_url_name(text, s->base, &s->name);
    else if (!st) st = hub_name_read(text, &s->name, err);
    const bool main = !strcmp(s->name.revision, "main");
    snprintf(s->where, sizeof s->where, "%s%s%s", s->name.repo, main ? "" : "@",
             main ? "" : s->name.revision);
    snprintf(s->page, sizeof s->page, "%.400s/%s", s->base, s->name.repo);
    return st;
}

qsf_status hub_search_connect(hub_search *s, qsf_error *err)
{
    s->has_token = hub_token(s->token, sizeof s->token);
    const hub_http_options http = { s->base, s->has_token ? s->token : NULL, s->o->stopped, s->o->user };
    return hub_http_new(&http, &s->http, err);
}

void hub_search_end(hub_search *s)
{
    hub_http_free(s->http);
    hub_files_free(&s->files);
    free(s->models);
}

void hub_search_note(const hub_search *s, const char *line)
{
    if (s->o->note) s->o->note(s->o->user, line);
}

qsf_status hub_search_memory(qsf_error *err)
{
    return qsf_fail(err, QSF_E_MEMORY, "out of memory for a hub's list");
}

/* ---- the hub's list ---- */

typedef struct list_text {
    char  *at;
    size_t n, cap;
    bool   full;            /* more came than LIST_BYTES */
} list_text;

static bool list_bytes(void *user, const hub_answer *a, const void *bytes, size_t n)
{
    list_text *t = user;
    (void)a;
    t->full = n > LIST_BYTES - t->n;
    if (t->full) return false;
    if (t->n + n + 1 > t->cap) {
        const size_t cap = 2 * (t->n + n + 1);
        char *at = realloc(t->at, cap);
        if (!at) return false;
        t->at = at;
        t->cap = cap;
    }
    memcpy(t->at + t->n, bytes, n);
    t->n += n;
    return true;
}

static qsf_status not_a_list(const hub_search *s, qsf_error *err)
{
    return qsf_fail(err, QSF_E_IO, "%s: no list of files came for %s; is that a hub's address?", s->base,
                    s->name.repo);
}

/* The files of one page; others than files, and paths that are not safe, are ignored. */
static qsf_status list_take(hub_search *s, const list_text *t, qsf_error *err)
{
    qsf_json json;
    if (qsf_json_read(qsf_platform_native(), t->at ? t->at : "", t->n, "list", &json, err)
        || json.nodes[0].type != QSF_JSON_LIST) {
        qsf_json_drop(&json);
        return not_a_list(s, err);
    }
    bool whole = true;
    const qsf_json_node *entry = qsf_json_first(&json.nodes[0]);
    for (uint32_t i = 0; i < json.nodes[0].n; i++, entry = qsf_json_next(entry)) {
        const qsf_json_node *type = qsf_json_member(entry, "type"), *path = qsf_json_member(entry, "path"),
            *lfs = qsf_json_member(entry, "lfs"), *size = lfs ? qsf_json_member(lfs, "size") : NULL;
        int64_t bytes = 0;
        if (!size) size = qsf_json_member(entry, "size");
        if (!type || !qsf_json_is_text(type, "file") || !path || path->type != QSF_JSON_TEXT) continue;
        if (strlen(path->text) != path->n || path->n >= sizeof s->name.file || !hub_path_is_safe(path->text))
            continue;
        if (!size || !qsf_json_whole(size, &bytes) || bytes < 0) bytes = 0;
        whole = whole && hub_files_add(&s->files, path->text, (uint64_t)bytes);
    }
    qsf_json_drop(&json);
    return whole ? QSF_OK : hub_search_memory(err);
}

/* One request for a page of the list. */
static qsf_status list_page(hub_search *s, const char *url, list_text *t, hub_answer *a, qsf_error *err)
{
    hub_tries tries = { 0 };
    for (;;) {
        bool again;
        t->n = 0;
        t->full = false;
        const qsf_status st = hub_http_get(s->http, url, 0, list_bytes, t, a, &again, err);
        if (!st && a->status == 200) return QSF_OK;
        if (t->full) return not_a_list(s, err);
        if (hub_again(s->o, s->http, &tries, st, a, again, s->where)) continue;
        return st ? st : hub_refusal(url, a, s->page, s->has_token, err);
    }
}

qsf_status hub_search_list(hub_search *s, bool *away, qsf_error *err)
{
    list_text t = { 0 };
    hub_answer a = { 0 };
    char url[2048] = "";
    snprintf(url, sizeof url, "%s/api/models/%s/tree/", s->base, s->name.repo);
    bool fits = hub_url_put(url, sizeof url - 32, s->name.revision, false);
    strcat(url, "?recursive=true");
    qsf_status st = fits ? QSF_OK : qsf_fail(err, QSF_E_ARGUMENT, "%s: the name is too long", s->where);
    for (int pages = 0; !st && *url && pages < MOST_PAGES; pages++) {
        if ((st = list_page(s, url, &t, &a, err))) break;
        if ((st = list_take(s, &t, err))) break;
        /* the token is the hub's alone */
        const bool more = *a.next && hub_same_origin(a.next, s->base) && s->files.n < MOST_LISTED;
        snprintf(url, sizeof url, "%s", more ? a.next : "");
    }
    *away = st && (a.status == 0 || a.status == 429 || a.status >= 500) && st != QSF_E_CANCELLED
        && st != QSF_E_MEMORY;
    free(t.at);
    return st;
}


/* ---- one file ---- */

static qsf_status not_a_hub(const hub_search *s, const char *what, qsf_error *err)
{
    return qsf_fail(err, QSF_E_IO, "%s: the answer for %s has no %s; is that a hub's address?", s->base,
                    s->where, what);
}

/* What the hub says of a file: its commit, ETag and size. */
static qsf_status search_head(hub_search *s, const char *url, hub_answer *a, qsf_error *err)
{
    hub_tries tries = { 0 };
    for (;;) {
        bool again;
        const qsf_status st = hub_http_get(s->http, url, 0, NULL, NULL, a, &again, err);
        if (!st && (a->status == 200 || (a->status >= 300 && a->status < 400))) break;
        if (hub_again(s->o, s->http, &tries, st, a, again, s->where)) continue;
        return st ? st : hub_refusal(url, a, s->page, s->has_token, err);
    }
    if (!*a->linked_etag) memcpy(a->linked_etag, a->etag, sizeof a->etag);
    if (a->linked_size < 0 && a->status == 200) a->linked_size = a->length;
    if (!hub_is_commit(a->commit)) return not_a_hub(s, "X-Repo-Commit", err);
    if (!hub_is_etag(a->linked_etag)) return not_a_hub(s, "ETag", err);
    return QSF_OK;
}

qsf_status hub_search_get(hub_search *s, const char *path, unsigned part, unsigned n_parts, char commit[44],
                          qsf_error *err)
{
    char url[2048] = "", name[640], blob[HUB_PATH], lock[HUB_PATH], file[HUB_PATH];
    uint64_t size;
    hub_answer a;
    snprintf(url, sizeof url, "%s/%s/resolve/", s->base, s->name.repo);
    snprintf(name, sizeof name, "%s/%s", s->name.repo, path);
    bool fits = hub_url_put(url, sizeof url - 1, s->name.revision, false);
    strcat(url, "/");
    fits = fits && hub_url_put(url, sizeof url, path, true);
    if (!fits) return qsf_fail(err, QSF_E_ARGUMENT, "%s: the name is too long", name);
    qsf_status st = search_head(s, url, &a, err);
    if (st) return st;
    if (!hub_cache_blob(s->name.repo, a.linked_etag, blob)
        || !hub_cache_lock(s->name.repo, a.linked_etag, lock))
        return qsf_fail(err, QSF_E_IO, "the path of the cache is too long; HF_HOME names another one");
    const hub_blob b = { .url = url, .name = name, .path = blob, .lock = lock, .size = a.linked_size,
                         .sha256 = hub_is_sha256(a.linked_etag) ? a.linked_etag : "", .version = "",
                         .part = part, .n_parts = n_parts, .page = s->page, .has_token = s->has_token };
    /* a commit's files never change; on a system without links, the blob is the file itself */
    const bool there = hub_cache_snapshot(s->name.repo, a.commit, path, file) && store_size(file, &size)
        && (a.linked_size < 0 || size == (uint64_t)a.linked_size);
    if (!there && (st = hub_blob_get(s->o, s->http, &b, err))) return st;
    if (part == 1) memcpy(commit, a.commit, sizeof a.commit);
    return hub_cache_enter(s->name.repo, s->name.revision, a.commit, path, a.linked_etag, there, err);
}

qsf_status hub_search_path(const hub_search *s, const char *commit, const char *file, char **path,
                           qsf_error *err)
{
    if (!(*path = malloc(HUB_PATH))) return hub_search_memory(err);
    if (hub_cache_snapshot(s->name.repo, commit, file, *path)) return QSF_OK;
    free(*path);
    *path = NULL;
    return qsf_fail(err, QSF_E_IO, "the path of the cache is too long; HF_HOME names another one");
}
