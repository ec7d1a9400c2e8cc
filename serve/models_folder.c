/* The models of a folder: its files, and subfolders that contain one.
 * SPDX-License-Identifier: MIT */
#include "front.h"

#include "models_own.h"
#include "system.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const uint64_t folder_again_ns = 200000000;      /* minimum time between two scans */

typedef struct folder_names { char **items; unsigned n, cap; bool failed; } folder_names;

/* ---- reading a folder ---- */

static void folder_seen(void *user, const char *name)
{
    folder_names *f = user;
    if (*name == '.' || f->failed) return;              /* hidden, or the folder itself */
    if (f->n == f->cap) {
        char **more = realloc(f->items, (2 * f->cap + 16) * sizeof *more);
        f->failed = !more;
        if (!more) return;
        f->items = more;
        f->cap = 2 * f->cap + 16;
    }
    f->items[f->n] = malloc(strlen(name) + 1);
    f->failed = !f->items[f->n];
    if (!f->failed) strcpy(f->items[f->n++], name);
}

static int names_in_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void folder_free(folder_names *f)
{
    for (unsigned i = 0; i < f->n; i++) free(f->items[i]);
    free(f->items);
}

/* Reads the names in a folder, sorted.  false: see errno. */
static bool folder_read(const char *path, folder_names *f)
{
    *f = (folder_names){ 0 };
    const bool read = system_folder(path, folder_seen, f);
    if (read && f->failed) errno = ENOMEM;
    if (read && !f->failed && f->n) qsort(f->items, f->n, sizeof *f->items, names_in_order);
    return read && !f->failed;
}

static char *folder_path(const char *dir, const char *name)
{
    const size_t n = strlen(dir);
    char *path = malloc(n + strlen(name) + 2);
    if (path) sprintf(path, "%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", name);
    return path;
}

static bool is_folder(const char *path)
{
    struct stat s;
    return !stat(path, &s) && (s.st_mode & S_IFMT) == S_IFDIR;
}

/* ---- which files are models ---- */

/* The length of a model file's name without its extension; 0: not a model, or an image encoder. */
static size_t stem_length(const char *name)
{
    const char *end = strrchr(name, '.');
    if (!end || end == name || (strcmp(end, ".gguf") && strcmp(end, ".qsf"))) return 0;
    return strstr(name, "mmproj") ? 0 : (size_t)(end - name);
}

/* For "NAME-00002-of-00003" (n bytes): returns the part's number, sets *len to the length of NAME.
 * 0: not a part. */
static unsigned part_of(const char *name, size_t n, size_t *len)
{
    static const char form[] = "-00000-of-00000";
    const size_t tail = sizeof form - 1;
    if (n <= tail) return 0;
    const char *at = name + n - tail;
    for (size_t i = 0; i < tail; i++)
        if (form[i] == '0' ? at[i] < '0' || at[i] > '9' : at[i] != form[i]) return 0;
    *len = n - tail;
    return (unsigned)atoi(at + 1);
}

/* Whether the file starts a model: the other parts are read with the first one. */
static bool begins_model(const char *name, size_t *stem, size_t *len)
{
    *len = *stem = stem_length(name);
    const unsigned part = *stem ? part_of(name, *stem, len) : 0;
    return *stem && part < 2;
}

/* ---- adding a model ---- */

typedef struct folder_scan { model_list *list; bool failed; } folder_scan;

/* Logs a problem once, however often the folder is scanned. */
static void scan_tell(const folder_scan *s, const char *path, const char *why)
{
    model_list *l = s->list;
    uint64_t sum = 14695981039346656037u;               /* FNV-1a */
    for (int i = 0; i < 2; i++)
        for (const char *p = i ? why : path; *p; p++) sum = (sum ^ (uint8_t)*p) * 1099511628211u;
    for (unsigned i = 0; i < l->n_told; i++)
        if (l->told[i] == sum) return;
    if (l->n_told == MODELS_TOLD) return;
    l->told[l->n_told++] = sum;
    fprintf(stderr, "%s is skipped: %s\n", path, why);
}

/* Whether the file can be opened; logs why not. */
static bool scan_readable(const folder_scan *s, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) scan_tell(s, path, strerror(errno));
    else fclose(file);
    return file != NULL;
}

static model_entry *scan_known(const folder_scan *s, const char *path)
{
    for (unsigned i = 0; i < s->list->n; i++)
        if (!strcmp(s->list->entries[i].path, path)) return &s->list->entries[i];
    return NULL;
}

/* Adds a model under the first n bytes of `name`; a model in parts also under the stem of its first
 * file. */
static void scan_add(folder_scan *s, const char *path, const char *name, size_t n, size_t stem)
{
    model_list *l = s->list;
    char why[2 * SERVE_NAME + 80];
    const size_t room = n + stem + 2;
    model_entry *m = scan_known(s, path), *same = models_named(l, name, n);
    if (!scan_readable(s, path)) return;
    if (m && (!m->found || !same || same == m)) {
        m->seen = true;
        m->missing = false;
        return;
    }
    if (n >= SERVE_NAME || memchr(name, ',', n)) {
        scan_tell(s, path, "its name is too long, or has a comma; --model NAME=FILE gives it another");
        return;
    }
    if (same) {
        snprintf(why, sizeof why, "%s already has the name \"%.*s\"; --model NAME=FILE gives it another",
                 same->found ? "another file" : "a model given on the command line", (int)n, name);
        scan_tell(s, path, why);
        return;
    }
    if (l->n == l->cap) {
        scan_tell(s, path, "the folder has too many models");
        return;
    }
    char *found = malloc(room + strlen(path) + 1);
    if (!found) {
        s->failed = true;
        return;
    }
    snprintf(found, room, stem > n ? "%.*s,%.*s" : "%.*s", (int)n, name, (int)stem, name);
    strcpy(found + room, path);
    m = &l->entries[l->n];
    m->found = found;
    m->seen = true;
    s->failed = !models_add(l, found, found + room);
    if (s->failed) free(found);
    if (s->failed) m->found = NULL;
    else if (!l->set->quiet && l->looked_ns) fprintf(stderr, "%s is new in the folder\n", m->name);
}

/* Adds the model of a subfolder under the subfolder's name. */
static void scan_inner(folder_scan *s, const char *path, const char *name)
{
    folder_names inside;
    const char *model = NULL;
    size_t stem, len;
    unsigned n = 0;
    if (!folder_read(path, &inside)) {
        scan_tell(s, path, strerror(errno));
        folder_free(&inside);
        return;
    }
    for (unsigned i = 0; i < inside.n; i++) {
        if (!begins_model(inside.items[i], &stem, &len)) continue;
        model = inside.items[i];
        n++;
    }
    char *file = n == 1 ? folder_path(path, model) : NULL;
    if (file) scan_add(s, file, name, strlen(name), 0);
    if (n > 1) scan_tell(s, path, "it has several models; --model NAME=FILE serves one of them");
    s->failed |= n == 1 && !file;
    free(file);
    folder_free(&inside);
}

/* Checks that a later part has its first one. */
static void scan_part(const folder_scan *s, const char *path, const char *name, size_t stem)
{
    size_t len;
    struct stat file;
    if (part_of(name, stem, &len) < 2) return;
    char *first = malloc(strlen(path) + 1);
    if (!first) return;
    strcpy(first, path);
    memcpy(first + strlen(path) - strlen(name) + len, "-00001", 6);
    if (stat(first, &file)) scan_tell(s, path, "the model's first part is missing");
    free(first);
}

bool models_scan(model_list *l, qsf_error *err)
{
    folder_names files;
    folder_scan s = { .list = l };
    const char *dir = l->set->models_dir;
    size_t stem, len;
    const bool read = folder_read(dir, &files);
    if (!read) {
        *err = (qsf_error){ .status = QSF_E_IO };
        snprintf(err->text, sizeof err->text, "%.300s: cannot read the model folder: %s", dir,
                 strerror(errno));
    }
    for (unsigned i = 0; i < l->n; i++) l->entries[i].seen = false;
    for (unsigned i = 0; i < files.n && read && !s.failed; i++) {
        const char *name = files.items[i];
        char *path = folder_path(dir, name);
        s.failed = !path;
        if (!path) break;
        if (is_folder(path)) scan_inner(&s, path, name);
        else if (begins_model(name, &stem, &len)) scan_add(&s, path, name, len, stem);
        else if (stem) scan_part(&s, path, name, stem);
        free(path);
    }
    folder_free(&files);
    l->looked_ns = serve_now();
    for (unsigned i = l->set->n_models; i < l->n && read && !s.failed; i++)
        if (!l->entries[i].named) l->entries[i].missing = !l->entries[i].seen;
    if (s.failed) *err = (qsf_error){ .status = QSF_E_MEMORY, .text = "out of memory" };
    if (read && !s.failed && !l->n) {
        *err = (qsf_error){ .status = QSF_E_NOT_FOUND };
        snprintf(err->text, sizeof err->text, "%.300s: this folder has no models: no .gguf or .qsf "
                 "file, and no folder with one", dir);
    }
    return !err->status;
}

void models_rescan(model_list *l)
{
    qsf_error err = { 0 };
    if (serve_now() - l->looked_ns < folder_again_ns) return;
    if (!models_scan(l, &err)) fprintf(stderr, "%s\n", err.text);
}

void models_refresh(model_list *l)
{
    if (l->set->models_dir) models_rescan(l);
    if (l->set->hub) models_look_in_cache(l);
}
