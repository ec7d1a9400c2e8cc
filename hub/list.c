/* The cache's models.
 * SPDX-License-Identifier: MIT */
#include "list.h"

#include "address.h"
#include "cache.h"
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names in a folder ---- */

typedef struct name_list { char **items; size_t n, cap; bool failed; } name_list;

static bool names_take(void *user, const char *name)
{
    name_list *l = user;
    if (l->n == l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 16;
        char **items = realloc(l->items, cap * sizeof *items);
        if (!items) return l->failed = true, false;
        l->items = items;
        l->cap = cap;
    }
    if (!(l->items[l->n] = malloc(strlen(name) + 1))) return l->failed = true, false;
    strcpy(l->items[l->n++], name);
    return true;
}

static int names_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static name_list names_in(const char *folder)
{
    name_list l = { 0 };
    store_list(folder, names_take, &l);
    if (l.n) qsort(l.items, l.n, sizeof *l.items, names_compare);
    return l;
}

static void names_free(name_list *l)
{
    while (l->n) free(l->items[--l->n]);
    free(l->items);
}

static bool list_path(char out[HUB_PATH], const char *folder, const char *name)
{
    const int n = snprintf(out, HUB_PATH, "%s/%s", folder, name);
    return n > 0 && n < HUB_PATH;
}

/* ---- repositories ---- */

/* "OWNER/REPO" of "models--OWNER--REPO". */
static bool list_repo(const char *folder, char out[200])
{
    const char *owner = folder + 8, *gap = strncmp(folder, "models--", 8) ? NULL : strstr(owner, "--");
    if (!gap || gap == owner || !gap[2]) return false;
    const int n = snprintf(out, 200, "%.*s/%s", (int)(gap - owner), owner, gap + 2);
    return n > 0 && n < 200;
}

/* The branch or tag that is this commit; main before others.  false: no such. */
static bool list_ref(const char *folder, const char *under, const char *commit, char *out, size_t cap)
{
    char path[HUB_PATH], name[HUB_PATH], now[44];
    name_list l = names_in(folder);
    bool found = false;
    for (size_t i = 0; i < l.n && !(found && !strcmp(out, "main")); i++) {
        if (!list_path(path, folder, l.items[i])) continue;
        snprintf(name, sizeof name, "%s%s%s", under, *under ? "/" : "", l.items[i]);
        if (store_is_folder(path)) {
            if (!found && strlen(name) < 100) found = list_ref(path, name, commit, out, cap);
        } else if ((!found || !strcmp(name, "main")) && strlen(name) < cap
                   && store_read_text(path, now, sizeof now) && !strncmp(now, commit, 40)) {
            strcpy(out, name);
            found = true;
        }
    }
    names_free(&l);
    return found;
}

typedef struct list_walk {
    void (*fn)(void *user, const hub_entry *e);
    void  *user;
    bool   failed;
} list_walk;

static int list_by_path(const void *a, const void *b)
{
    return strcmp(((const hub_model *)a)->first->path, ((const hub_model *)b)->first->path);
}

static void list_snapshot(list_walk *w, const char *repo, const char *commit)
{
    char refs[HUB_PATH], folder[HUB_PATH], path[HUB_PATH], revision[200], name[900];
    hub_files files;
    hub_model *all = NULL;
    size_t n = 0;
    if (!hub_is_commit(commit) || !hub_cache_repo(repo, folder) || !list_path(refs, folder, "refs")) return;
    if (!list_ref(refs, "", commit, revision, sizeof revision))
        snprintf(revision, sizeof revision, "%s", commit);
    if (!hub_cache_files(repo, commit, &files) || !hub_models(&files, &all, &n)) w->failed = true;
    if (n) qsort(all, n, sizeof *all, list_by_path);
    const bool main = !strcmp(revision, "main");
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "hf:%s/%s%s%s", repo, all[i].first->path, main ? "" : "@",
                 main ? "" : revision);
        if (hub_cache_snapshot(repo, commit, all[i].first->path, path))
            w->fn(w->user, &(hub_entry){ name, path, all[i].bytes });
    }
    free(all);
    hub_files_free(&files);
}

static void list_repository(list_walk *w, const char *repo)
{
    char folder[HUB_PATH], snapshots[HUB_PATH];
    if (!hub_cache_repo(repo, folder) || !list_path(snapshots, folder, "snapshots")) return;
    name_list commits = names_in(snapshots);
    w->failed = w->failed || commits.failed;
    for (size_t i = 0; i < commits.n; i++) list_snapshot(w, repo, commits.items[i]);
    names_free(&commits);
}

/* ---- files of other addresses: FOLDER/ADDRESS/VERSION/NAME (url.c) ---- */

static void list_address(list_walk *w, const char *folder)
{
    char path[HUB_PATH], version[20], url[400];
    hub_files files = { 0 };
    hub_model *all = NULL;
    size_t n = 0;
    uint64_t size;
    if (!list_path(path, folder, "url") || !store_read_text(path, url, sizeof url)) return;
    if (!list_path(path, folder, "latest") || !store_read_text(path, version, sizeof version)) return;
    if (strpbrk(version, "/.") || !list_path(path, folder, version)) return;
    name_list l = names_in(path);
    for (size_t i = 0; i < l.n; i++) {
        char file[HUB_PATH];
        if (list_path(file, path, l.items[i]) && store_size(file, &size))
            w->failed = !hub_files_add(&files, l.items[i], size) || w->failed;
    }
    w->failed = !hub_models(&files, &all, &n) || w->failed;
    char first[HUB_PATH];
    if (n && list_path(first, path, all[0].first->path))
        w->fn(w->user, &(hub_entry){ url, first, all[0].bytes });
    free(all);
    hub_files_free(&files);
    names_free(&l);
}

qsf_status hub_list(void (*fn)(void *user, const hub_entry *e), void *user, qsf_error *err)
{
    list_walk w = { fn, user, false };
    char folder[HUB_PATH], path[HUB_PATH], repo[200];
    if (hub_cache_folder(folder)) {
        name_list l = names_in(folder);
        for (size_t i = 0; i < l.n; i++) if (list_repo(l.items[i], repo)) list_repository(&w, repo);
        w.failed = w.failed || l.failed;
        names_free(&l);
    }
    if (hub_cache_other(folder)) {
        name_list l = names_in(folder);
        for (size_t i = 0; i < l.n; i++) if (list_path(path, folder, l.items[i])) list_address(&w, path);
        names_free(&l);
    }
    return w.failed ? qsf_fail(err, QSF_E_MEMORY, "out of memory for the cache's list") : QSF_OK;
}

/* ---- removing ---- */

static qsf_status not_removed(const char *path, qsf_error *err)
{
    return qsf_fail(err, QSF_E_IO, "%s: not all of it can be removed; it may be another user's or in use, or "
                    "its disk may be read-only", path);
}

/* A folder and all in it; links are not followed. */
static void remove_tree(const char *path, int depth)
{
    char inside[HUB_PATH];
    if (store_remove(path) || depth > 16 || !store_is_folder(path)) return;
    name_list l = names_in(path);
    for (size_t i = 0; i < l.n; i++) if (list_path(inside, path, l.items[i])) remove_tree(inside, depth + 1);
    names_free(&l);
    (void)store_remove(path);
}

static uint64_t list_bytes_in(const char *folder)
{
    char path[HUB_PATH];
    uint64_t sum = 0, size;
    name_list l = names_in(folder);
    for (size_t i = 0; i < l.n; i++)
        if (list_path(path, folder, l.items[i]) && store_size(path, &size)) sum += size;
    names_free(&l);
    return sum;
}

/* Whether another process downloads a file of the repository. */
static bool list_busy(const char *repo)
{
    char path[HUB_PATH], why[STORE_WHY];
    bool busy = false;
    if (!hub_cache_lock(repo, "", path)) return false;
    *strrchr(path, '/') = 0;
    name_list l = names_in(path);
    for (size_t i = 0; i < l.n && !busy; i++) {
        char lock[HUB_PATH];
        store_lock *held;
        if (!list_path(lock, path, l.items[i])) continue;
        busy = store_lock_try(lock, &held, why) == STORE_BUSY;
        store_unlock(held);
    }
    names_free(&l);
    return busy;
}

/* Whether a snapshot has a link to this blob. */
static bool list_linked(const char *repo, const char *blob)
{
    char folder[HUB_PATH], snapshots[HUB_PATH], path[HUB_PATH], target[HUB_PATH];
    bool found = false;
    if (!hub_cache_repo(repo, folder) || !list_path(snapshots, folder, "snapshots")) return true;
    name_list commits = names_in(snapshots);
    for (size_t i = 0; i < commits.n && !found; i++) {
        hub_files files;
        found = !hub_cache_files(repo, commits.items[i], &files);
        for (size_t k = 0; k < files.n && !found; k++)
            found = hub_cache_snapshot(repo, commits.items[i], files.items[k].path, path)
                && store_link_target(path, target, sizeof target) && strstr(target, blob);
        hub_files_free(&files);
    }
    names_free(&commits);
    return found;
}

/* A file of a snapshot, then its blob unless another snapshot has it, and folders that are empty
 * now. */
static qsf_status remove_file(const char *repo, const char *commit, const char *file, uint64_t *freed,
                              qsf_error *err)
{
    char path[HUB_PATH], blob[HUB_PATH], target[HUB_PATH];
    uint64_t size = 0;
    if (!hub_cache_snapshot(repo, commit, file, path) || !store_size(path, &size)) return QSF_OK;
    const bool link = store_link_target(path, target, sizeof target);
    const char *etag = link && strrchr(target, '/') ? strrchr(target, '/') + 1 : NULL;
    if (!store_remove(path)) return not_removed(path, err);
    for (char *slash; (slash = strrchr(path, '/')) && (*slash = 0, strstr(path, commit)); )
        if (!store_remove(path)) break;
    const bool blob_too = link && etag && hub_is_etag(etag) && !list_linked(repo, etag)
        && hub_cache_blob(repo, etag, blob);
    if (blob_too && !store_remove(blob)) return not_removed(blob, err);
    if (blob_too || !link) *freed += size;
    return QSF_OK;
}

/* Of one snapshot: the models that the name stands for. */
static qsf_status remove_of(const hub_name *name, const char *commit, uint64_t *freed, bool *found,
                            qsf_error *err)
{
    qsf_status st = QSF_OK;
    hub_files files;
    hub_model *all = NULL;
    size_t n = 0;
    char part[400];
    const bool whole = hub_cache_files(name->repo, commit, &files) && hub_models(&files, &all, &n);
    for (size_t i = 0; whole && !st && i < n; i++) {
        const bool meant = *name->file ? !strcmp(name->file, all[i].first->path)
            : !*name->label || hub_models_labelled(&all[i], 1, name->label);
        for (unsigned k = 0; meant && !st && k < all[i].n_parts; k++) {
            hub_model_part(&all[i], k, part, sizeof part);
            st = remove_file(name->repo, commit, part, freed, err);
            *found = true;
        }
    }
    if (whole && *name->file && !*found && hub_files_find(&files, name->file)) {
        st = remove_file(name->repo, commit, name->file, freed, err);
        *found = true;
    }
    free(all);
    hub_files_free(&files);
    return whole ? st : qsf_fail(err, QSF_E_MEMORY, "out of memory for the cache's list");
}

/* References to commits that have no snapshot any more. */
static void remove_refs(const char *repo, const char *folder, int depth)
{
    char path[HUB_PATH], commit[44], snapshot[HUB_PATH];
    name_list l = names_in(folder);
    for (size_t i = 0; i < l.n; i++) {
        if (!list_path(path, folder, l.items[i])) continue;
        if (store_is_folder(path) && depth < 8) remove_refs(repo, path, depth + 1);
        else if (store_read_text(path, commit, 41) && hub_is_commit(commit)
                 && hub_cache_snapshot(repo, commit, "", snapshot) && !store_is_folder(snapshot))
            (void)store_remove(path);
    }
    names_free(&l);
}

/* What refers to nothing after files were removed. */
static void remove_rest(const char *repo, const char *folder)
{
    char path[HUB_PATH];
    if (!list_path(path, folder, "snapshots")) return;
    if (store_remove(path) || !store_is_folder(path)) remove_tree(folder, 0);
    else if (list_path(path, folder, "refs")) remove_refs(repo, path, 0);
}

static qsf_status remove_named(const hub_name *name, bool all, uint64_t *freed, qsf_error *err)
{
    char folder[HUB_PATH], path[HUB_PATH], commit[44];
    bool found = false;
    qsf_status st = QSF_OK;
    if (!hub_cache_repo(name->repo, folder) || !store_is_folder(folder)) return QSF_OK;
    if (list_busy(name->repo))
        return qsf_fail(err, QSF_E_IO, "%s is being downloaded by another process; end that first",
                        name->repo);
    if (all && !*name->file && !*name->label) {
        if (list_path(path, folder, "blobs")) *freed += list_bytes_in(path);
        remove_tree(folder, 0);
        return store_is_folder(folder) ? not_removed(folder, err) : QSF_OK;
    }
    if (!all && hub_cache_commit(name->repo, name->revision, commit))
        st = remove_of(name, commit, freed, &found, err);
    name_list commits = { 0 };
    if (all && list_path(path, folder, "snapshots")) commits = names_in(path);
    for (size_t i = 0; !st && i < commits.n; i++) st = remove_of(name, commits.items[i], freed, &found, err);
    names_free(&commits);
    if (found) remove_rest(name->repo, folder);
    return st ? st : found ? QSF_OK : QSF_E_NOT_FOUND;
}

/* A file of another address, by its URL as hub_list has it. */
static qsf_status remove_address(const char *url, uint64_t *freed, qsf_error *err)
{
    char other[HUB_PATH], folder[HUB_PATH], path[HUB_PATH], own[400];
    qsf_status st = QSF_E_NOT_FOUND;
    if (!hub_cache_other(other)) return st;
    name_list l = names_in(other);
    for (size_t i = 0; i < l.n; i++) {
        if (!list_path(folder, other, l.items[i]) || !list_path(path, folder, "url")) continue;
        if (!store_read_text(path, own, sizeof own) || strcmp(own, url)) continue;
        name_list versions = names_in(folder);
        for (size_t k = 0; k < versions.n; k++)
            if (list_path(path, folder, versions.items[k])) *freed += list_bytes_in(path);
        names_free(&versions);
        remove_tree(folder, 0);
        st = store_is_folder(folder) ? not_removed(folder, err) : QSF_OK;
    }
    names_free(&l);
    return st;
}

qsf_status hub_remove(const char *text, uint64_t *freed, qsf_error *err)
{
    hub_name name;
    char folder[HUB_PATH];
    qsf_status st;
    *freed = 0;
    err->text[0] = 0;
    if (hub_is_url(text)) st = remove_address(text, freed, err);
    else {
        if ((st = hub_name_read(text, &name, err))) return st;
        const bool there = hub_cache_repo(name.repo, folder) && store_is_folder(folder);
        st = there ? remove_named(&name, !strchr(text, '@'), freed, err) : QSF_E_NOT_FOUND;
    }
    if (st == QSF_E_NOT_FOUND)
        return qsf_fail(err, st, "nothing of %s is cached; qsf list shows what is", text);
    return st;
}

qsf_status hub_remove_chosen(const hub_options *o, const char *text, uint64_t *freed, qsf_error *err)
{
    hub_options cache = *o;
    hub_name name;
    char folder[HUB_PATH], whole[HUB_PATH], *path;
    cache.offline = true;
    *freed = 0;
    qsf_status st = hub_name_read(text, &name, err);
    if (st) return st;
    if ((st = hub_find(&cache, text, &path, err)) == QSF_E_NOT_FOUND)
        return qsf_fail(err, st, "nothing of %s is cached", text);
    if (st) return st;
    const bool known = hub_cache_repo(name.repo, folder);       /* FOLDER/snapshots/COMMIT/FILE */
    const char *file = known ? path + strlen(folder) + sizeof "/snapshots/" + 40 : "";
    const bool main = !strchr(text, '@');
    snprintf(whole, sizeof whole, "hf:%s/%s%s%s", name.repo, file, main ? "" : "@",
             main ? "" : name.revision);
    free(path);
    return hub_remove(whole, freed, err);
}
