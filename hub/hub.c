/* From a name to a file's path: the hub's list, the choice among its models, the download; and the
 * cache alone, if the hub cannot or must not be asked.
 * SPDX-License-Identifier: MIT */
#include "hub.h"

#include "address.h"
#include "blob.h"
#include "store.h"
#include "text/json.h"
#include "url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_BYTES = 64 << 20, MOST_LISTED = 20000, MOST_PAGES = 1000 };

bool hub_is_name(const char *text) { return hub_name_begins(text) || hub_is_url(text); }

/* ---- a search ---- */

/* What is known of one name. */
typedef struct search {
    const hub_options *o;
    hub_name   name;
    hub_http  *http;
    hub_files  files;           /* of the repository, or of the cache's snapshot */
    hub_model *models;
    size_t     n_models;
    bool       has_token;
    void     (*show)(void *user, const hub_shown *m);    /* of hub_show; NULL: of hub_find */
    void      *show_user;
    char       token[512], base[HUB_PATH], where[420], page[HUB_PATH];
} search;

static void search_free(search *s)
{
    hub_http_free(s->http);
    hub_files_free(&s->files);
    free(s->models);
}

static void search_note(const search *s, const char *line)
{
    if (s->o->note) s->o->note(s->o->user, line);
}

static qsf_status no_memory(qsf_error *err)
{
    return qsf_fail(err, QSF_E_MEMORY, "out of memory for a hub's list");
}

/* ---- the hub's list ---- */

typedef struct list_text { char *at; size_t n, cap; } list_text;

static bool list_bytes(void *user, const hub_answer *a, const void *bytes, size_t n)
{
    list_text *t = user;
    (void)a;
    if (n > LIST_BYTES - t->n) return false;
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

static qsf_status not_a_list(const search *s, qsf_error *err)
{
    return qsf_fail(err, QSF_E_IO, "%s: no list of files came for %s; is that a hub's address?", s->base,
                    s->name.repo);
}

/* The files of one page; others than files, and paths that are not safe, are ignored. */
static qsf_status list_take(search *s, const list_text *t, qsf_error *err)
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
    return whole ? QSF_OK : no_memory(err);
}

/* One request for a page of the list. */
static qsf_status list_page(search *s, const char *url, list_text *t, hub_answer *a, qsf_error *err)
{
    hub_tries tries = { 0 };
    for (;;) {
        bool again;
        t->n = 0;
        const qsf_status st = hub_http_get(s->http, url, 0, list_bytes, t, a, &again, err);
        if (!st && a->status == 200) return QSF_OK;
        if (hub_again(s->o, s->http, &tries, st, a, again, s->where)) continue;
        return st ? st : hub_refusal(url, a, s->page, s->has_token, err);
    }
}

/* away: the hub cannot answer now, so that the cache may do. */
static qsf_status list_files(search *s, bool *away, qsf_error *err)
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

/* ---- the choice ---- */

/* "Q8_0 (270 MB), Q4_K_M (105 MB)", as far as there is room; paths instead of labels if by_file. */
static void models_listed(const search *s, bool by_file, char *out, size_t cap)
{
    size_t n = 0;
    *out = 0;
    for (size_t i = 0; i < s->n_models; i++) {
        const hub_model *m = &s->models[i];
        char one[480];
        const int len = snprintf(one, sizeof one, "%s%s (%llu MB)", i ? ", " : "",
                                 *m->label && !by_file ? m->label : m->first->path,
                                 (unsigned long long)((m->bytes + 999999) / 1000000));
        if (n + (size_t)len + 6 > cap) {
            snprintf(out + n, cap - n, ", ...");
            return;
        }
        memcpy(out + n, one, (size_t)len + 1);
        n += (size_t)len;
    }
}

/* The named file, which need not be a model. */
static qsf_status search_file(search *s, hub_model *out, qsf_error *err)
{
    char listed[200];
    const hub_file *file = hub_files_find(&s->files, s->name.file);
    if (file && hub_model_of(&s->files, file, out)) return QSF_OK;
    if (file) {
        *out = (hub_model){ .first = file, .n_parts = 1, .bytes = file->size };
        return QSF_OK;
    }
    models_listed(s, true, listed, sizeof listed);
    return qsf_fail(err, QSF_E_NOT_FOUND, "%s/%.120s has no file %.60s; it has %s", s->base, s->where,
                    s->name.file, *listed ? listed : "no GGUF or QSF file");
}

/* The model that the name is for, among s->files. */
static qsf_status search_choose(search *s, hub_model *out, qsf_error *err)
{
    char listed[240];
    if (!hub_models(&s->files, &s->models, &s->n_models)) return no_memory(err);
    if (*s->name.file) return search_file(s, out, err);
    if (!s->n_models)
        return qsf_fail(err, QSF_E_NOT_FOUND, "%s/%s has no GGUF or QSF file among its %zu; look for a "
                        "repository with such files, often named ...-GGUF, or convert it (qsf-convert)",
                        s->base, s->where, s->files.n);
    if (*s->name.label) {
        const hub_model *found = hub_models_labelled(s->models, s->n_models, s->name.label);
        models_listed(s, false, listed, sizeof listed);
        if (!found)
            return qsf_fail(err, QSF_E_NOT_FOUND, "%s/%s has no model in %s; it has %s", s->base,
                            s->where, s->name.label, listed);
        *out = *found;
        return QSF_OK;
    }
    const size_t n = hub_models_order(s->models, s->n_models);
    const uint64_t memory = s->o->memory ? s->o->memory : store_machine_memory();
    size_t i = 0;
    /* an eighth of it for the context and the program */
    while (i + 1 < n && s->models[i].bytes > memory / 8 * 7) i++;
    *out = s->models[i];
    return QSF_OK;
}

/* ---- what there is ---- */

/* Tells of each of the files' models; chosen: the one that the name stands for. */
static qsf_status search_show(search *s, qsf_error *err)
{
    hub_model chosen, *all;
    size_t n;
    char commit[44], path[HUB_PATH];
    uint64_t size;
    const qsf_status st = search_choose(s, &chosen, err);
    if (st) return st;
    if (!hub_models(&s->files, &all, &n)) return no_memory(err);
    const bool has = hub_cache_commit(s->name.repo, s->name.revision, commit);
    for (size_t i = 0; i < n; i++) {
        const hub_model *m = &all[i];
        const bool cached = has && hub_cache_snapshot(s->name.repo, commit, m->first->path, path)
            && store_size(path, &size);
        s->show(s->show_user, &(hub_shown){ m->first->path, m->label, m->bytes, m->n_parts,
                                            m->first == chosen.first, cached ? path : NULL });
    }
    free(all);
    return QSF_OK;
}

/* ---- the download ---- */

static qsf_status not_a_hub(const search *s, const char *what, qsf_error *err)
{
    return qsf_fail(err, QSF_E_IO, "%s: the answer for %s has no %s; is that a hub's address?", s->base,
                    s->where, what);
}

/* What the hub says of a file: its commit, ETag and size. */
static qsf_status search_head(search *s, const char *url, hub_answer *a, qsf_error *err)
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

/* One file into the cache; commit: of its snapshot. */
static qsf_status get_file(search *s, const char *path, unsigned part, unsigned n_parts, char commit[44],
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
                         .sha256 = hub_is_sha256(a.linked_etag) ? a.linked_etag : "", .part = part,
                         .n_parts = n_parts, .page = s->page, .has_token = s->has_token };
    /* a commit's files never change; on a system without links, the blob is the file itself */
    const bool there = hub_cache_snapshot(s->name.repo, a.commit, path, file) && store_size(file, &size)
        && (a.linked_size < 0 || size == (uint64_t)a.linked_size);
    if (!there && (st = hub_blob_get(s->o, s->http, &b, err))) return st;
    if (part == 1) memcpy(commit, a.commit, sizeof a.commit);
    return hub_cache_enter(s->name.repo, s->name.revision, a.commit, path, a.linked_etag, err);
}

static qsf_status path_out(const search *s, const char *commit, const char *file, char **path, qsf_error *err)
{
    if (!(*path = malloc(HUB_PATH))) return no_memory(err);
    if (hub_cache_snapshot(s->name.repo, commit, file, *path)) return QSF_OK;
    free(*path);
    *path = NULL;
    return qsf_fail(err, QSF_E_IO, "the path of the cache is too long; HF_HOME names another one");
}

static qsf_status search_download(search *s, char **path, bool *away, qsf_error *err)
{
    hub_model model;
    char commit[44] = "", part[400];
    qsf_status st = list_files(s, away, err);
    if (st) return st;
    if (s->show) return search_show(s, err);
    if ((st = search_choose(s, &model, err))) return st;
    for (unsigned i = 0; !st && i < model.n_parts; i++) {
        hub_model_part(&model, i, part, sizeof part);
        st = get_file(s, part, i + 1, model.n_parts, commit, err);
    }
    return st ? st : path_out(s, commit, model.first->path, path, err);
}

/* ---- the cache alone ---- */

static qsf_status search_cache(search *s, char **path, qsf_error *err)
{
    char commit[44];
    hub_model model;
    const bool found = hub_cache_commit(s->name.repo, s->name.revision, commit);
    if (found && !hub_cache_files(s->name.repo, commit, &s->files)) return no_memory(err);
    if (found && s->show) return search_show(s, err);
    if (!found || search_choose(s, &model, err))
        return qsf_fail(err, QSF_E_NOT_FOUND, "%s%s%s%s%s is not in the cache, and the hub is not asked "
                        "(--offline or HF_HUB_OFFLINE); qsf list shows what is there", s->where,
                        *s->name.label ? ":" : "", s->name.label, *s->name.file ? "/" : "", s->name.file);
    return path_out(s, commit, model.first->path, path, err);
}

/* A stored model needs no connection to the hub. */
static qsf_status search_cache_instead(search *s, char **path, qsf_error *err)
{
    qsf_error other, online = *err;
    char line[500];
    hub_files_free(&s->files);
    free(s->models);
    s->models = NULL;
    if (search_cache(s, path, &other)) return *err = online, online.status;
    snprintf(line, sizeof line, "%s; the cached model is used", online.text);
    search_note(s, line);
    return QSF_OK;
}

/* ---- the whole way ---- */

/* A commit never changes: a file of it that is there need not be asked for. */
static bool is_fixed(search *s, char **path)
{
    char at[HUB_PATH];
    uint64_t size;
    qsf_error err;
    return hub_is_commit(s->name.revision) && *s->name.file && !strstr(s->name.file, "-of-")
        && hub_cache_snapshot(s->name.repo, s->name.revision, s->name.file, at) && store_size(at, &size)
        && !path_out(s, s->name.revision, s->name.file, path, &err);
}

static qsf_status search_run(search *s, char **path, qsf_error *err)
{
    bool away = false;
    qsf_status st;
    snprintf(s->where, sizeof s->where, "%s%s%s", s->name.repo, strcmp(s->name.revision, "main") ? "@" : "",
             strcmp(s->name.revision, "main") ? s->name.revision : "");
    snprintf(s->page, sizeof s->page, "%.400s/%s", s->base, s->name.repo);
    if (!s->show && is_fixed(s, path)) return QSF_OK;
    if (s->o->offline || hub_env_offline()) return search_cache(s, path, err);
    s->has_token = hub_token(s->token, sizeof s->token);
    const hub_http_options http = { s->base, s->has_token ? s->token : NULL, s->o->stopped, s->o->user };
    if ((st = hub_http_new(&http, &s->http, err))) away = true;
    else st = search_download(s, path, &away, err);
    return st && away ? search_cache_instead(s, path, err) : st;
}

static qsf_status search_any(search *s, const hub_options *o, const char *name, char **path, qsf_error *err)
{
    s->o = o;
    qsf_status st = hub_address(o, s->base, err);
    const bool other = !st && hub_is_url(name) && !hub_url_name(name, s->base, &s->name);
    if (other && s->show)
        return qsf_fail(err, QSF_E_ARGUMENT, "%.200s is not an address of a hub's repository", name);
    if (other) return hub_url_find(o, name, path, err);
    if (!st && !hub_is_url(name)) st = hub_name_read(name, &s->name, err);
    return st ? st : search_run(s, path, err);
}

qsf_status hub_find(const hub_options *o, const char *name, char **path, qsf_error *err)
{
    search *s = calloc(1, sizeof *s);
    *path = NULL;
    if (!s) return no_memory(err);
    const qsf_status st = search_any(s, o, name, path, err);
    search_free(s);
    free(s);
    return st;
}

qsf_status hub_show(const hub_options *o, const char *name, void (*fn)(void *user, const hub_shown *m),
                    void *user, qsf_error *err)
{
    search *s = calloc(1, sizeof *s);
    if (!s) return no_memory(err);
    s->show = fn;
    s->show_user = user;
    const qsf_status st = search_any(s, o, name, NULL, err);
    search_free(s);
    free(s);
    return st;
}
