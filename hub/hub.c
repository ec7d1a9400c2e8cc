/* From a name to a file's path: the hub's list, the choice among its models, the download; and the
 * cache alone, if the hub cannot or must not be asked.
 * SPDX-License-Identifier: MIT */
#include "hub.h"

#include "address.h"
#include "head.h"
#include "search.h"
#include "store.h"
#include "url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool hub_is_name(const char *text) { return hub_name_begins(text) || hub_is_url(text); }

/* ---- the choice ---- */

/* "Q8_0 (270 MB), Q4_K_M (105 MB)", as far as there is room; paths instead of labels if by_file. */
static void models_listed(const hub_search *s, bool by_file, char *out, size_t cap)
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
static qsf_status search_file(hub_search *s, hub_model *out, qsf_error *err)
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

/* Whether a model fits in memory: by its description if that is in doubt, else by its size, with an
 * eighth of the memory for the context and the program. */
static bool choose_fits(hub_search *s, const hub_model *m, uint64_t memory)
{
    char commit[44] = "";
    uint64_t need = 0;
    if (m->bytes > memory) return false;
    if (s->o->memory_of && m->n_parts == 1 && m->bytes > memory / 4) {
        if (!hub_cache_commit(s->name.repo, s->name.revision, commit)) *commit = 0;
        need = hub_head_memory(s, m->first, commit);
    }
    return need ? need <= memory : m->bytes <= memory / 8 * 7;
}

/* The first of s->models[0..n) that fits, else the last. */
static const hub_model *choose_fitting(hub_search *s, size_t n)
{
    const uint64_t memory = s->o->memory ? s->o->memory : store_machine_memory();
    size_t i = 0;
    while (i + 1 < n && !choose_fits(s, &s->models[i], memory)) i++;
    return &s->models[i];
}

/* The model that the name is for, among s->files. */
static qsf_status search_choose(hub_search *s, hub_model *out, qsf_error *err)
{
    char listed[240];
    if (!hub_models(&s->files, &s->models, &s->n_models)) return hub_search_memory(err);
    if (*s->name.file) return search_file(s, out, err);
    if (!s->n_models)
        return qsf_fail(err, QSF_E_NOT_FOUND, "%s/%s has no GGUF or QSF file (of %zu in all); look for a "
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
    *out = *choose_fitting(s, hub_models_order(s->models, s->n_models));
    return QSF_OK;
}

/* ---- what there is ---- */

/* Tells of each of the files' models; chosen: the one that the name stands for. */
static qsf_status search_show(hub_search *s, qsf_error *err)
{
    hub_model chosen, *all;
    size_t n;
    char commit[44], path[HUB_PATH];
    uint64_t size;
    const qsf_status st = search_choose(s, &chosen, err);
    if (st) return st;
    if (!hub_models(&s->files, &all, &n)) return hub_search_memory(err);
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

static qsf_status search_download(hub_search *s, char **path, bool *away, qsf_error *err)
{
    hub_model model;
    char commit[44] = "", part[400];
    qsf_status st = hub_search_list(s, away, err);
    if (st) return st;
    if (s->show) return search_show(s, err);
    if ((st = search_choose(s, &model, err))) return st;
    for (unsigned i = 0; !st && i < model.n_parts; i++) {
        hub_model_part(&model, i, part, sizeof part);
        st = hub_search_get(s, part, i + 1, model.n_parts, commit, err);
    }
    return st ? st : hub_search_path(s, commit, model.first->path, path, err);
}

/* ---- the cache alone ---- */

static qsf_status search_cache(hub_search *s, char **path, qsf_error *err)
{
    char commit[44];
    hub_model model;
    const bool found = hub_cache_commit(s->name.repo, s->name.revision, commit);
    if (found && !hub_cache_files(s->name.repo, commit, &s->files)) return hub_search_memory(err);
    if (found && s->show) return search_show(s, err);
    if (!found || search_choose(s, &model, err))
        return qsf_fail(err, QSF_E_NOT_FOUND, "%s%s%s%s%s is not in the cache, and the hub is not asked "
                        "(--offline or HF_HUB_OFFLINE); qsf list shows what is there", s->where,
                        *s->name.label ? ":" : "", s->name.label, *s->name.file ? "/" : "", s->name.file);
    return hub_search_path(s, commit, model.first->path, path, err);
}

/* A stored model needs no connection to the hub. */
static qsf_status search_cache_instead(hub_search *s, char **path, qsf_error *err)
{
    qsf_error other, online = *err;
    char line[500];
    hub_files_free(&s->files);
    free(s->models);
    s->models = NULL;
    if (search_cache(s, path, &other)) return *err = online, online.status;
    snprintf(line, sizeof line, "%s; the cached model is used", online.text);
    hub_search_note(s, line);
    return QSF_OK;
}

/* ---- the whole way ---- */

/* A commit never changes: a file of it that is there need not be asked for. */
static bool is_fixed(hub_search *s, char **path)
{
    char at[HUB_PATH];
    uint64_t size;
    qsf_error err;
    return hub_is_commit(s->name.revision) && *s->name.file && !strstr(s->name.file, "-of-")
        && hub_cache_snapshot(s->name.repo, s->name.revision, s->name.file, at) && store_size(at, &size)
        && !hub_search_path(s, s->name.revision, s->name.file, path, &err);
}

static qsf_status search_run(hub_search *s, char **path, qsf_error *err)
{
    bool away = false;
    qsf_status st;
    if (!s->show && is_fixed(s, path)) return QSF_OK;
    if (s->o->offline || hub_env_offline()) return search_cache(s, path, err);
    if ((st = hub_search_connect(s, err))) away = true;
    else st = search_download(s, path, &away, err);
    return st && away ? search_cache_instead(s, path, err) : st;
}

static qsf_status search_any(hub_search *s, const hub_options *o, const char *name, char **path,
                             qsf_error *err)
{
    bool other;
    const qsf_status st = hub_search_begin(s, o, name, &other, err);
    if (st) return st;
    if (other && s->show)
        return qsf_fail(err, QSF_E_ARGUMENT, "%.200s is not an address of a hub's repository", name);
    return other ? hub_url_find(o, name, path, err) : search_run(s, path, err);
}

qsf_status hub_find(const hub_options *o, const char *name, char **path, qsf_error *err)
{
    hub_search *s = calloc(1, sizeof *s);
    *path = NULL;
    if (!s) return hub_search_memory(err);
    const qsf_status st = search_any(s, o, name, path, err);
    hub_search_end(s);
    free(s);
    return st;
}

qsf_status hub_show(const hub_options *o, const char *name, void (*fn)(void *user, const hub_shown *m),
                    void *user, qsf_error *err)
{
    hub_search *s = calloc(1, sizeof *s);
    if (!s) return hub_search_memory(err);
    s->show = fn;
    s->show_user = user;
    const qsf_status st = search_any(s, o, name, NULL, err);
    hub_search_end(s);
    free(s);
    return st;
}
