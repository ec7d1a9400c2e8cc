/* The list of models: entries are added, and found by name.
 * SPDX-License-Identifier: MIT */
#include "front.h"

#include "models_own.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned models_count(const model_list *l) { return l->n; }
bool models_hidden(const model_entry *m) { return m->missing && m->state == MODEL_OFF; }
model_entry *models_at(model_list *l, unsigned i) { return &l->entries[i]; }

serve_adapter *models_no_adapter(const model_entry *m, const char *name, serve_error *e)
{
    char names[300];
    size_t n = 0;
    const lora_list *a = &m->adapters;
    for (unsigned i = 0; i < a->n && n < sizeof names; i++)
        if (lora_list_named(a, a->items[i]->name))
            n += (size_t)snprintf(names + n, sizeof names - n, "%s\"%s\"", n ? ", " : "", a->items[i]->name);
    serve_refuse(e, 404, "model_not_found", "model", "%.60s has no adapter \"%.60s\"; available: %s",
                                                     m->name, name,
                 n ? names : "none");
    return NULL;
}

static bool same_letters(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tolower((unsigned char)a[i]) != tolower((unsigned char)b[i])) return false;
    return true;
}

/* Whether name[0..n) is one of the model's names; exact: case-sensitive. */
static bool model_called(const model_entry *m, const char *name, size_t n, bool exact)
{
    for (const char *at = m->names; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strcspn(at, ",") == n && (exact ? !memcmp(at, name, n) : same_letters(at, name, n))) return true;
    return false;
}

static model_entry *models_called(model_list *l, const char *name, size_t n, bool exact)
{
    for (unsigned i = 0; i < l->n; i++)
        if (!models_hidden(&l->entries[i]) && model_called(&l->entries[i], name, n, exact))
            return &l->entries[i];
    return NULL;
}

/* Finds a name as other programs write it: after a directory or provider, with a file extension or
 * Ollama's tag, in any case. */
static model_entry *models_like(model_list *l, const char *name)
{
    static const char *const ends[] = { ".gguf", ".qsf", ":latest" };
    const char *slash = strrchr(name, '/');
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t len = strlen(ends[i]);
        if (n > len && same_letters(name + n - len, ends[i], len)) n -= len;
    }
    model_entry *m = models_called(l, name, n, false);
    return m || !slash ? m : models_called(l, slash + 1, n - (size_t)(slash + 1 - name), false);
}

model_entry *models_named(model_list *l, const char *name, size_t n)
{
    return models_called(l, name, n, true);
}

model_entry *models_default(model_list *l)
{
    const char *name = l->set->default_model;
    model_entry *m = name ? models_called(l, name, strlen(name), true) : NULL;
    for (unsigned i = 0; i < l->n && !m; i++)
        if (!models_hidden(&l->entries[i]) && !l->entries[i].listed) m = &l->entries[i];
    return m ? m : &l->entries[0];
}

model_entry *models_known(model_list *l, const char *name, const char **adapter, serve_error *e)
{
    const model_entry *owner = NULL;
    const char *wanted = NULL;
    model_entry *m = models_called(l, name, strlen(name), true);
    if (m) return m;
    for (unsigned i = 0; i < l->n; i++) {               /* model names may contain colons, too */
        m = &l->entries[i];
        size_t len = strlen(m->name);
        if (models_hidden(m) || strncmp(m->name, name, len)) continue;
        len += !strncmp(name + len, ".gguf", 5) ? 5 : !strncmp(name + len, ".qsf", 4) ? 4 : 0;
        if (name[len] != ':') continue;
        *adapter = name + len + 1;
        if (lora_list_named(&m->adapters, *adapter)) return m;
        if (!m->adapters.n && !l->set->lora_dir) continue;
        owner = m;
        wanted = *adapter;
    }
    *adapter = NULL;
    if (!owner) return models_like(l, name);
    models_no_adapter(owner, wanted, e);
    return NULL;
}

/* ---- adding ---- */

/* FILE.NAME, with %XX for characters that a path may not have. */
static char *model_cache_file(const char *file, const char *name)
{
    char *path = malloc(strlen(file) + 3 * strlen(name) + 2), *to = path;
    if (!path) return NULL;
    to += sprintf(to, "%s.", file);
    for (; *name; name++)
        to += sprintf(to, isalnum((unsigned char)*name) || strchr("._-", *name) ? "%c" : "%%%02x",
                      (unsigned char)*name);
    return path;
}

bool models_add(model_list *l, const char *names, const char *path)
{
    const char *file = l->set->engine.cache_file;
    model_entry *m = &l->entries[l->n];
    m->names = names;
    snprintf(m->name, sizeof m->name, "%.*s", (int)strcspn(names, ","), names);
    m->path = path;
    m->options = l->set->engine;
    if (file && l->cap > 1) {
        m->options.cache_file = m->cache_file = model_cache_file(file, m->name);
        if (!m->cache_file) return false;
    }
    l->n++;
    return true;
}

void models_file(model_entry *m, char *path)
{
    free(m->fetched);
    m->fetched = path;
    m->path = path ? path : m->named;
    m->missing = !path;
}
