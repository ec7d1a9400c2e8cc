/* Internals shared by the files of the model list.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_MODELS_OWN_H
#define QSF_SERVE_MODELS_OWN_H

#include "models.h"

#include <pthread.h>

enum { MODELS_TOLD = 256, MODELS_OF_HUB = 64, MODELS_CACHED = 256 };

struct model_list {
    const serve_settings *set;
    int             wake_fd;
    model_entry    *entries;                 /* command-line models, then those of folder and hub */
    unsigned        n, cap;
    uint64_t        looked_ns;               /* time of the folder's last scan */
    uint64_t        cached_ns;               /* of the last look into the hub's cache; 0: none */
    uint64_t        told[MODELS_TOLD];       /* hashes of the problems logged */
    unsigned        n_told;
    uint64_t        uses;
    /* the loader */
    pthread_t       thread;
    bool            started;
    pthread_mutex_t lock;                    /* guards the members below */
    pthread_cond_t  changed;
    model_entry    *task;                    /* NULL: idle */
    uint64_t        room;                    /* bytes for the model to load */
    serve_adapter  *adapter;                 /* load only this; NULL: the task is the model */
    uint32_t        n_adapters;              /* adapters ever loaded; the source of ids */
    bool            drop, done, ends;        /* drop: unload the model */
};

/* ---- models_list.c ---- */
/* Fills the other members from the model's names and path (not copied) and adds it to the list.
 * false: out of memory. */
bool models_add(model_list *l, const char *names, const char *path);
/* The model with exactly this name of n bytes; NULL: none. */
model_entry *models_named(model_list *l, const char *name, size_t n);
/* The model with this name, or with this adapter.  NULL: unknown; *e is set only if a model exists
 * but not its adapter. */
model_entry *models_known(model_list *l, const char *name, const char **adapter, serve_error *e);
/* The model of requests that name none. */
model_entry *models_default(model_list *l);
/* The file of a model of the hub, or NULL, in place of the one that it had. */
void models_file(model_entry *m, char *path);

/* ---- models_cache.c ---- */
/* The model of the hub that exactly this name was used for, hidden or not; NULL: none. */
model_entry *models_by_hub_name(model_list *l, const char *name);
/* Adds models of the hub's cache that are new there, and hides those that are gone. */
void models_look_in_cache(model_list *l);

/* ---- models_folder.c ---- */
/* Adds new models of the folder and logs files that are skipped.  false: *err says why the folder
 * cannot be read. */
bool models_scan(model_list *l, qsf_error *err);
/* The same, unless it was scanned a moment ago; logs errors. */
void models_rescan(model_list *l);

#endif
