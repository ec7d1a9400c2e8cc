/* Downloads a repository's folder, by several connections.
 * SPDX-License-Identifier: MIT
 *
 * The configuration comes first: its answer names the commit that all others are then asked of, so
 * that a folder never mixes two commits.  The texts follow, and at last the weights, whose names
 * the index has. */
#include "folder.h"

#include "address.h"
#include "search.h"
#include "store.h"
#include "text/json.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FOLDER_CONNECTIONS = 4, INDEX_BYTES = 64 << 20 };

/* What convert/read/hf.c reads besides the weights. */
static const char *const folder_texts[] = {
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "sentencepiece.bpe.model",
    "tokenizer_config.json", "added_tokens.json", "modules.json", "1_Pooling/config.json",
    "2_Dense/config.json", "3_Dense/config.json", "chat_template.jinja", "chat_template.json",
    "additional_chat_templates/tool_use.jinja", "additional_chat_templates/rag.jinja",
};
/* The weights, in the order in which the converter looks for them, and what lists their parts. */
static const char *const folder_weights[] = { "model.safetensors", "model.safetensors.index.json",
                                              "pytorch_model.bin", "pytorch_model.bin.index.json" };
static const char *const folder_modules[] = { "2_Dense", "3_Dense" };

typedef struct folder {
    hub_search  s;
    bool        cached;             /* nothing may be downloaded */
    char        commit[44];
    const hub_file **files;         /* [n] to get next; room for all of s.files */
    size_t      n;
    /* of the threads */
    atomic_size_t next;
    atomic_bool ends;               /* one has failed */
    atomic_flag tells;              /* held by who calls the caller's functions */
    atomic_ullong *done;            /* [n] bytes */
    uint64_t    total;
    char        title[240];
} folder;

/* ---- which files ---- */

static const hub_file *folder_has(const folder *f, const char *path)
{
    return hub_files_find(&f->s.files, path);
}

/* The weights or their index; NULL: no such file. */
static const hub_file *folder_first(const folder *f)
{
    const hub_file *found = NULL;
    for (size_t i = 0; i < 4 && !found; i++) found = folder_has(f, folder_weights[i]);
    return found;
}

static void folder_want(folder *f, const hub_file *file)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->files[i] == file) return;
    if (file) f->files[f->n++] = file;
}

static bool folder_is_index(const hub_file *file) { return strstr(file->path, ".index.json") != NULL; }

static void folder_want_texts(folder *f)
{
    const hub_file *first = folder_first(f);
    for (size_t i = 0; i < QSF_ARRAY_LEN(folder_texts); i++) folder_want(f, folder_has(f, folder_texts[i]));
    if (folder_is_index(first)) folder_want(f, first);
}

/* The files that the index names. */
static qsf_status folder_want_indexed(folder *f, const hub_file *index, qsf_error *err)
{
    char at[HUB_PATH];
    qsf_json json = { 0 };
    const uint64_t len = index->size;
    char *text = len < INDEX_BYTES ? malloc((size_t)len + 1) : NULL;
    const bool there = text && hub_cache_snapshot(f->s.name.repo, f->commit, index->path, at);
    FILE *file = there ? fopen(at, "rb") : NULL;
    const bool whole = file && fread(text, 1, (size_t)len, file) == len;
    if (file) fclose(file);
    qsf_status st = whole ? qsf_json_read(qsf_platform_native(), text, (size_t)len, index->path, &json, err)
        : qsf_fail(err, QSF_E_IO, "%s of %s cannot be read from the cache", index->path, f->s.where);
    const qsf_json_node *map = st ? NULL : qsf_json_member(json.nodes, "weight_map");
    if (!st && (!map || map->type != QSF_JSON_OBJECT))
        st = qsf_fail(err, QSF_E_CORRUPT, "%s of %s has no weight_map", index->path, f->s.where);
    const qsf_json_node *at_node = map ? qsf_json_first(map) : NULL;
    for (uint32_t i = 0; !st && i < map->n; i++, at_node = qsf_json_next(qsf_json_next(at_node))) {
        const qsf_json_node *value = qsf_json_next(at_node);
        const hub_file *part = value->type == QSF_JSON_TEXT ? folder_has(f, value->text) : NULL;
        if (!part)
            st = qsf_fail(err, QSF_E_NOT_FOUND, "%s of %s names %.100s, which is not there", index->path,
                          f->s.where, value->text ? value->text : "a part");
        else folder_want(f, part);
    }
    qsf_json_drop(&json);
    free(text);
    return st;
}

static qsf_status folder_want_weights(folder *f, qsf_error *err)
{
    char path[64];
    const hub_file *first = folder_first(f), *module;
    for (size_t i = 0; i < QSF_ARRAY_LEN(folder_modules); i++) {
        snprintf(path, sizeof path, "%s/model.safetensors", folder_modules[i]);
        if (!(module = folder_has(f, path))) {
            snprintf(path, sizeof path, "%s/pytorch_model.bin", folder_modules[i]);
            module = folder_has(f, path);
        }
        folder_want(f, module);
    }
    if (folder_is_index(first)) return folder_want_indexed(f, first, err);
    folder_want(f, first);
    return QSF_OK;
}

/* ---- several connections ---- */

typedef struct folder_worker {
    folder     *f;
    hub_options o;
    hub_search  s;
    size_t      at;                 /* the file under way */
    qsf_status  st;
    qsf_error   err;
    qsf_thread *thread;
} folder_worker;

/* All threads' progress as one; a thread that finds another one telling need not. */
static void folder_tell(folder *f, int what)
{
    uint64_t sum = 0;
    const hub_options *o = f->s.o;
    if (!o->progress || atomic_flag_test_and_set(&f->tells)) return;
    for (size_t i = 0; i < f->n; i++) sum += atomic_load(&f->done[i]);
    o->progress(o->user, &(hub_progress){ f->title, sum, f->total, 1, 1, "", what, "" });
    atomic_flag_clear(&f->tells);
}

static void folder_progress(void *user, const hub_progress *p)
{
    folder_worker *w = user;
    atomic_store(&w->f->done[w->at], p->done);
    folder_tell(w->f, HUB_RUNS);
}

static void folder_note(void *user, const char *line)
{
    const hub_options *o = ((folder_worker *)user)->f->s.o;
    if (o->note) o->note(o->user, line);
}

static bool folder_stopped(void *user)
{
    const folder *f = ((folder_worker *)user)->f;
    return atomic_load(&f->ends) || (f->s.o->stopped && f->s.o->stopped(f->s.o->user));
}

static void folder_work(void *arg)
{
    folder_worker *w = arg;
    folder *f = w->f;
    char commit[44];
    if ((w->st = hub_search_connect(&w->s, &w->err))) {
        atomic_store(&f->ends, true);
        return;
    }
    while (!atomic_load(&f->ends) && (w->at = atomic_fetch_add(&f->next, 1)) < f->n) {
        const hub_file *file = f->files[w->at];
        if ((w->st = hub_search_get(&w->s, file->path, 1, 1, commit, &w->err))) {
            atomic_store(&f->ends, true);
            return;
        }
        atomic_store(&f->done[w->at], file->size);
    }
}

static folder_worker *folder_worker_new(folder *f)
{
    folder_worker *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->f = f;
    w->o = *f->s.o;
    w->o.progress = folder_progress;
    w->o.note = folder_note;
    w->o.stopped = folder_stopped;
    w->o.user = w;
    w->o.connections = f->n < FOLDER_CONNECTIONS ? FOLDER_CONNECTIONS / (unsigned)f->n : 1;
    w->s = f->s;
    w->s.o = &w->o;
    w->s.http = NULL;
    w->s.files = (hub_files){ 0 };
    snprintf(w->s.name.revision, sizeof w->s.name.revision, "%s", f->commit);
    return w;
}

/* The error that was first in this order: one that is not merely a consequence of another's. */
static qsf_status folder_worker_end(folder_worker *w, qsf_status st, qsf_error *err)
{
    const qsf_platform *p = qsf_platform_native();
    if (!w) return st;
    if (w->thread) p->thread_join(p->user, w->thread);
    if (w->st && (!st || st == QSF_E_CANCELLED)) {
        *err = w->err;
        st = w->st;
    }
    hub_search_end(&w->s);
    free(w);
    return st;
}

static int folder_largest(const void *a, const void *b)
{
    const hub_file *x = *(const hub_file *const *)a, *y = *(const hub_file *const *)b;
    return x->size != y->size ? (x->size < y->size ? 1 : -1) : strcmp(x->path, y->path);
}

/* Leaves those in f->files that the snapshot lacks.  A commit's files never change. */
static void folder_missing(folder *f)
{
    size_t n = 0;
    char path[HUB_PATH];
    uint64_t size;
    f->total = 0;
    for (size_t i = 0; i < f->n; i++) {
        const hub_file *file = f->files[i];
        if (hub_cache_snapshot(f->s.name.repo, f->commit, file->path, path) && store_size(path, &size)
            && size == file->size) continue;
        f->files[n++] = file;
        f->total += file->size;
    }
    f->n = n;
    if (n) qsort(f->files, n, sizeof *f->files, folder_largest);
}

/* Downloads f->files. */
static qsf_status folder_get(folder *f, qsf_error *err)
{
    const qsf_platform *p = qsf_platform_native();
    folder_worker *workers[FOLDER_CONNECTIONS] = { NULL };
    qsf_status st = QSF_OK;
    folder_missing(f);
    if (!f->n) return QSF_OK;
    if (!(f->done = calloc(f->n, sizeof *f->done))) return hub_search_memory(err);
    atomic_store(&f->next, 0);
    snprintf(f->title, sizeof f->title, "%.200s, %zu file%s", f->s.where, f->n, f->n == 1 ? "" : "s");
    folder_tell(f, HUB_BEGINS);
    for (size_t i = 0; i < FOLDER_CONNECTIONS && i < f->n; i++) {
        folder_worker *w = workers[i] = folder_worker_new(f);
        if (i && w && p->thread_start(p->user, folder_work, w, &w->thread)) w->thread = NULL;
    }
    if (workers[0]) folder_work(workers[0]);
    else st = hub_search_memory(err);
    for (size_t i = 0; i < FOLDER_CONNECTIONS; i++) st = folder_worker_end(workers[i], st, err);
    folder_tell(f, HUB_ENDS);
    free(f->done);
    f->done = NULL;
    f->n = 0;
    return st;
}

/* ---- the whole way ---- */

static qsf_status folder_all(folder *f, char **path, qsf_error *err)
{
    qsf_status st = QSF_OK;
    if (!(f->files = malloc((f->s.files.n + 1) * sizeof *f->files))) return hub_search_memory(err);
    hub_options silent = *f->s.o;
    const hub_options *o = f->s.o;
    silent.progress = NULL;
    f->s.o = &silent;
    if (!f->cached) st = hub_search_get(&f->s, "config.json", 1, 1, f->commit, err);
    f->s.o = o;
    folder_want_texts(f);
    if (!st && !f->cached) st = folder_get(f, err);
    f->n = 0;
    if (!st) st = folder_want_weights(f, err);
    if (!st && !f->cached) st = folder_get(f, err);
    return st ? st : hub_search_path(&f->s, f->commit, "", path, err);
}

static bool folder_is_one(const folder *f)
{
    return !*f->s.name.file && !*f->s.name.label && folder_has(f, "config.json") && folder_first(f);
}

/* The snapshot in the cache, if it is a whole folder. */
static bool folder_cached(folder *f, char **path, qsf_error *err)
{
    f->cached = true;
    hub_files_free(&f->s.files);
    return hub_cache_commit(f->s.name.repo, f->s.name.revision, f->commit)
        && hub_cache_files(f->s.name.repo, f->commit, &f->s.files) && folder_is_one(f)
        && !folder_all(f, path, err);
}

/* *found: it is a folder, or an error has come; else hub_find has to look. */
static qsf_status folder_search(folder *f, const hub_options *o, const char *name, bool *found, char **path,
                                qsf_error *err)
{
    bool other, away = false;
    *found = false;
    qsf_status st = hub_search_begin(&f->s, o, name, &other, err);
    if (st || other || *f->s.name.file || *f->s.name.label) return st;
    if (o->offline || hub_env_offline()) return *found = folder_cached(f, path, err), QSF_OK;
    if ((st = hub_search_connect(&f->s, err))) away = true;
    else st = hub_search_list(&f->s, &away, err);
    if (!st && !folder_is_one(f)) return QSF_OK;
    *found = true;
    if (!st) return folder_all(f, path, err);
    qsf_error own;
    if (!away || !folder_cached(f, path, &own)) return *found = !away, st;
    char line[500];
    snprintf(line, sizeof line, "%s; the cached files are used", err->text);
    hub_search_note(&f->s, line);
    return QSF_OK;
}

qsf_status hub_find_folder(const hub_options *o, const char *name, char **path, qsf_error *err)
{
    bool found;
    folder *f = calloc(1, sizeof *f);
    *path = NULL;
    if (!f) return hub_search_memory(err);
    atomic_flag_clear(&f->tells);
    const qsf_status st = folder_search(f, o, name, &found, path, err);
    hub_search_end(&f->s);
    free(f->files);
    free(f);
    return found ? st : hub_find(o, name, path, err);
}
