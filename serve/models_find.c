/* Finds the model that a request names; an unknown name may be new in the folder.
 * SPDX-License-Identifier: MIT */
#include "front.h"

#include "models_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The entry of a model of the hub, hidden until its file is there. */
static model_entry *models_of_hub(model_list *l, const char *name, serve_error *e)
{
    const size_t len = strlen(name) + 1;
    model_entry *m = models_by_hub_name(l, name);
    if (m) return m;
    unsigned n = 0;
    for (unsigned i = 0; i < l->n; i++) n += l->entries[i].named && !l->entries[i].listed;
    const bool full = n == MODELS_OF_HUB || l->n == l->cap;
    if (full || len > SERVE_NAME || strchr(name, ',')) {
        serve_refuse(e, 400, "model_not_found", "model", len > SERVE_NAME || !full
                     ? "\"%.80s\": the name is too long, or has a comma"
                     : "\"%.80s\": this server has had too many models; restart it", name);
        return NULL;
    }
    m = &l->entries[l->n];
    if ((m->named = malloc(len))) memcpy(m->named, name, len);
    m->missing = true;
    if (m->named && models_add(l, m->named, m->named)) return m;
    free(m->named);
    m->named = NULL;
    serve_refuse(e, 500, "out_of_memory", NULL, "out of memory");
    return NULL;
}

model_entry *models_find(model_list *l, const char *name, bool any, const char **adapter, serve_error *e)
{
    char names[300];
    size_t n = 0;
    *adapter = NULL;
    if (!name || !*name) return models_default(l);
    model_entry *m = models_known(l, name, adapter, e);
    const bool look = m ? m->found && m->state == MODEL_OFF : !e->status;
    if (look && l->set->models_dir) {
        models_rescan(l);
        m = models_known(l, name, adapter, e);
    }
    if (m || e->status) return m;
    if (l->set->hub && l->set->hub->named(name)) return models_of_hub(l, name, e);
    m = models_default(l);
    /* If the model has adapters, "OTHER:ADAPTER" does not mean the model without one. */
    if (any && (l->cap == 1 || l->set->default_model) && !(m->adapters.n && strchr(name, ':'))) return m;
    for (unsigned i = 0; i < l->n && n < sizeof names; i++)
        if (!models_hidden(&l->entries[i]))
            n += (size_t)snprintf(names + n, sizeof names - n, "%s\"%s\"", n ? ", " : "",
                                  l->entries[i].name);
    serve_refuse(e, 404, "model_not_found", "model", "unknown model \"%.80s\"; available: %s", name,
                 n ? names : "none");
    return NULL;
}
