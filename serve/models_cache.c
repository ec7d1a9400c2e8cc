/* The models of the hub's cache in the list, before a request has named them.
 * SPDX-License-Identifier: MIT */
#include "front.h"

#include "models_own.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const uint64_t cache_again_ns = 200000000;       /* minimum time between two looks */

model_entry *models_by_hub_name(model_list *l, const char *name)
{
    for (unsigned i = 0; i < l->n; i++) {
        model_entry *m = &l->entries[i];
        if (m->named && !strcmp(m->named, name)) return m;
    }
    return NULL;
}

/* Whether another model that lists show has this file. */
static bool cache_shown(const model_list *l, const model_entry *except, const char *path)
{
    for (unsigned i = 0; i < l->n; i++) {
        const model_entry *m = &l->entries[i];
        if (m != except && !models_hidden(m) && !strcmp(m->path, path)) return true;
    }
    return false;
}

static char *cache_text(const char *text)
{
    char *copy = malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

static model_entry *cache_add(model_list *l, const char *name)
{
    unsigned n = 0;
    for (unsigned i = 0; i < l->n; i++) n += l->entries[i].listed;
    if (n == MODELS_CACHED || l->n == l->cap || strlen(name) >= SERVE_NAME || strchr(name, ',')
        || !l->set->hub->named(name)) return NULL;
    model_entry *m = &l->entries[l->n];
    m->named = cache_text(name);
    m->listed = m->missing = true;
    if (m->named && models_add(l, m->named, m->named)) return m;
    free(m->named);
    m->named = NULL;
    m->listed = m->missing = false;
    return NULL;
}

static void cache_take(void *user, const char *name, const char *path)
{
    model_list *l = user;
    model_entry *m = models_by_hub_name(l, name);
    if (!m && !cache_shown(l, NULL, path)) m = cache_add(l, name);
    if (!m || m->fetched || m->download || m->state != MODEL_OFF) return;
    char *copy = cache_text(path);
    if (copy) models_file(m, copy);
    m->err = (qsf_error){ 0 };
}

void models_look_in_cache(model_list *l)
{
    struct stat file;
    if (l->cached_ns && serve_now() - l->cached_ns < cache_again_ns) return;
    for (unsigned i = 0; i < l->n; i++) {
        model_entry *m = &l->entries[i];
        const bool rests = m->fetched && m->state == MODEL_OFF && !m->download;
        if (rests && stat(m->path, &file)) models_file(m, NULL);
    }
    l->set->hub->list(l->set->hub->user, cache_take, l);
    for (unsigned i = 0; i < l->n; i++) {
        model_entry *m = &l->entries[i];
        if (m->listed && m->fetched && m->state == MODEL_OFF) m->missing = cache_shown(l, m, m->path);
    }
    l->cached_ns = serve_now();
}
