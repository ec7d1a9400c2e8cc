/* Adapters, as clients see them: which answers have which, and what is loaded and dropped.
 * SPDX-License-Identifier: MIT */
#include "front.h"
#include "ranks.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- of a job ---- */

static bool lora_full(const char *param, serve_error *e)
{
    return serve_refuse(e, 400, "invalid_value", param, "more than %d adapters at once", (int)LORA_MOST);
}

/* By the request's own list. */
static bool lora_listed(front_job *j, serve_error *e)
{
    const serve_request *r = &j->job.request;
    for (size_t i = 0; i < r->n_scales; i++) {
        serve_adapter *a = lora_list_numbered(&j->entry->adapters, r->scales[i].id);
        if (!a)
            return serve_refuse(e, 400, "invalid_value", "lora", "%.100s has no adapter with id %llu; "
                                "/lora-adapters lists them", j->entry->name,
                                (unsigned long long)r->scales[i].id);
        if (!lora_add(&j->job.lora, a, r->scales[i].scale)) return lora_full("lora", e);
    }
    return true;
}

bool lora_choose(front_job *j, serve_error *e)
{
    const lora_list *l = &j->entry->adapters;
    if (j->adapter && j->job.request.n_scales)
        return serve_refuse(e, 400, "invalid_value", "lora",
                            "\"lora\" cannot be combined with a model that names an adapter");
    if (j->adapter) {
        serve_adapter *a = lora_list_named(l, j->adapter);      /* it may be gone since */
        return a ? lora_add(&j->job.lora, a, a->scale) : models_no_adapter(j->entry, j->adapter, e) != NULL;
    }
    if (j->job.request.n_scales) return lora_listed(j, e);
    for (unsigned i = 0; i < l->n; i++) {
        serve_adapter *a = lora_list_numbered(l, l->items[i]->id);
        if (a && !lora_add(&j->job.lora, a, a->everybody)) return lora_full(NULL, e);
    }
    return true;
}

/* ---- loading and dropping ---- */

static bool lora_may(const front_job *j, serve_error *e)
{
    return j->front->set->lora_dir
        || serve_refuse(e, 403, "adapters_fixed", NULL, "this server does not load or unload adapters: start "
                        "it with --lora-dir DIR, the folder to load them from");
}

/* Whether the plan of a model with a budget has room for this many bytes, some of which are counted
 * already. */
static bool lora_fits(const front_job *j, uint64_t bytes, uint64_t counted, serve_error *e)
{
    model_entry *m = j->entry;
    const uint64_t used = metric_get(&m->metrics.adapter_bytes) - counted;
    return !j->front->set->engine.context.ram_budget || used + bytes <= m->adapter_room
        || serve_refuse(e, 503, "adapter_no_room", NULL, "the adapters of %.100s take %.1f MB and this one "
                        "%.1f MB, but %.1f MB are reserved: raise --adapter-memory", m->name,
                        (double)used / 1e6, (double)bytes / 1e6, (double)m->adapter_room / 1e6);
}

static bool lora_exists(const front_job *j, const char *name, serve_error *e)
{
    return serve_refuse(e, 400, "adapter_exists", "lora_name", "%.100s already has an adapter \"%s\"",
                        j->entry->name, name);
}

/* If several ranks have it, its id is set from the beginning; rank 0 takes a new one. */
static void lora_make(front_job *j, const char *path)
{
    const serve_request *r = &j->job.request;
    serve_adapter *a = adapter_new(r->lora_name, path, (float)r->lora_scale, &j->entry->metrics);
    if (a && ranks_lead(j->front)) {
        j->at.adapter = models_adapter_number(j->front->models);
        a->gone_at = j->front->set->link->drop;
    }
    if (a) a->id = j->at.adapter;
    j->loading = a;
}

bool lora_begin(front_job *j, serve_error *e)
{
    const serve_request *r = &j->job.request;
    char path[4096];
    struct stat file;
    if (!lora_may(j, e)) return false;
    if (j->adapter)
        return serve_refuse(e, 400, "invalid_value", "model",
                            "\"model\" must name a model without an adapter");
    if (lora_list_named(&j->entry->adapters, r->lora_name))
        return lora_exists(j, r->lora_name, e);
    if (j->entry->adapters.n == LORA_LIST)
        return serve_refuse(e, 400, "invalid_value", NULL, "%.100s already has %d adapters, the maximum",
                            j->entry->name, LORA_LIST);
    if ((size_t)snprintf(path, sizeof path, "%s/%s", j->front->set->lora_dir, r->lora_path) >= sizeof path)
        return serve_refuse(e, 400, "invalid_value", "lora_path", "the path is too long");
    if (stat(path, &file))
        return serve_refuse(e, 404, "not_found", "lora_path", "%.200s is not in the adapter folder",
                            r->lora_path);
    if (!lora_fits(j, S_ISREG(file.st_mode) ? (uint64_t)file.st_size : 0, 0, e)) return false;
    if (!j->loading) lora_make(j, path);
    return j->loading || serve_refuse(e, 503, NULL, NULL, "out of memory for the request");
}

static void lora_say(const front_job *j, const serve_adapter *a, serve_text *out)
{
    text_format(out, "{\"success\":true,\"id\":%u,\"name\":", (unsigned)a->id);
    text_json_str(out, a->name);
    text_str(out, ",\"model\":");
    text_json_str(out, j->entry->name);
    text_str(out, "}");
}

bool lora_loaded(front_job *j, serve_text *out, serve_error *e)
{
    serve_adapter *a = j->loading;
    if (a->err.status)
        return serve_refuse(e, a->err.status == QSF_E_MEMORY ? 503 : 400, "adapter_load_failed", "lora_path",
                            "%s", *a->err.text ? a->err.text : qsf_status_text(a->err.status));
    if (lora_list_named(&j->entry->adapters, a->name)) return lora_exists(j, a->name, e);
    if (ranks_follow(j->front) && a->sum != j->at.sum)
        return serve_refuse(e, 400, "adapter_load_failed", "lora_path", "%.200s is not the same on rank %d "
                            "as on rank 0", j->job.request.lora_path, j->front->set->link->rank);
    if (!lora_fits(j, a->info.bytes, a->info.bytes, e)) return false;
    if (!j->front->ranks) a->id = models_adapter_number(j->front->models);
    if (!models_add_adapter(j->entry, a))
        return serve_refuse(e, 400, "invalid_value", NULL, "there are too many adapters");
    lora_say(j, a, out);
    j->loading = NULL;
    return true;
}

bool lora_unload(front_job *j, serve_text *out, serve_error *e)
{
    const char *name = j->job.request.lora_name;
    serve_adapter *a = lora_list_named(&j->entry->adapters, name);
    if (!lora_may(j, e)) return false;
    if (!a) return models_no_adapter(j->entry, name, e) != NULL;
    lora_say(j, a, out);
    if (ranks_lead(j->front)) ranks_lora_drop(j->front, a->id);
    models_drop_adapter(j->front->models, j->entry, a);
    return true;
}

void lora_drop(serve_front *f, uint32_t id)
{
    for (unsigned i = 0; i < models_count(f->models); i++) {
        model_entry *m = models_at(f->models, i);
        serve_adapter *a = lora_list_numbered(&m->adapters, id);
        if (a) models_drop_adapter(f->models, m, a);
    }
}

/* ---- the list, and the default scales ---- */

void lora_write(serve_front *f, serve_text *out)
{
    const char *comma = "";
    text_str(out, "[");
    for (unsigned i = 0; i < models_count(f->models); i++) {
        const model_entry *m = models_at(f->models, i);
        for (unsigned k = 0; k < m->adapters.n; k++) {
            const serve_adapter *a = m->adapters.items[k];
            if (!lora_list_numbered(&m->adapters, a->id)) continue;
            text_format(out, "%s{\"id\":%u,\"path\":", comma, (unsigned)a->id);
            text_json_str(out, a->path);
            text_format(out, ",\"scale\":%.9g,\"name\":", (double)a->everybody);
            text_json_str(out, a->name);
            text_format(out, ",\"own_scale\":%.9g,\"model\":", (double)a->scale);
            text_json_str(out, m->name);
            text_str(out, "}");
            comma = ",";
        }
    }
    text_str(out, "]");
}

static float scale_of(const serve_scale *scales, size_t n, uint32_t id)
{
    for (size_t i = 0; i < n; i++) if (scales[i].id == id) return scales[i].scale;
    return 0;
}

/* Whether all ids are there, and no model gets too many. */
static bool scales_check(serve_front *f, const serve_scale *scales, size_t n, serve_error *e)
{
    size_t found = 0;
    for (unsigned i = 0; i < models_count(f->models); i++) {
        unsigned used = 0;
        for (size_t k = 0; k < n; k++) {
            if (!lora_list_numbered(&models_at(f->models, i)->adapters, scales[k].id)) continue;
            found++;
            used += scales[k].scale != 0;
        }
        if (used > LORA_MOST) return lora_full(NULL, e);
    }
    return found == n || serve_refuse(e, 400, "invalid_value", "id", "unknown adapter id; GET /lora-adapters "
                                      "lists the ids");
}

void lora_scales_set(serve_front *f, const serve_scale *scales, size_t n)
{
    for (unsigned i = 0; i < models_count(f->models); i++) {
        const lora_list *l = &models_at(f->models, i)->adapters;
        for (unsigned k = 0; k < l->n; k++) l->items[k]->everybody = scale_of(scales, n, l->items[k]->id);
    }
}

bool lora_scales(serve_front *f, const http_request *r, serve_error *e)
{
    serve_scale scales[SERVE_SCALES];
    size_t n;
    if (!serve_scales_read(r->body, r->n_body, scales, &n, e) || !scales_check(f, scales, n, e)) return false;
    lora_scales_set(f, scales, n);
    if (ranks_lead(f)) ranks_scales(f, scales, n);
    return true;
}
