/* What the files of the list of models share.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_MODELS_OWN_H
#define QSF_SERVE_MODELS_OWN_H

#include "models.h"

#include <pthread.h>

enum { MODELS_TOLD = 256 };

struct model_list {
    const serve_settings *set;
    int             wake_fd;
    model_entry    *entries;                 /* those of the command line, then those of the folder */
    unsigned        n, cap;
    uint64_t        looked_ns;               /* when the folder was read last */
    uint64_t        told[MODELS_TOLD];       /* hashes of what was logged about it */
    unsigned        n_told;
    uint64_t        uses;
    /* the loader */
    pthread_t       thread;
    bool            started;
    pthread_mutex_t lock;                    /* of what follows */
    pthread_cond_t  changed;
    model_entry    *task;                    /* NULL: it is idle */
    uint64_t        room;                    /* bytes for the model to load */
    serve_adapter  *adapter;                 /* to be read alone; NULL: the task is the model */
    uint32_t        n_adapters;              /* that there ever were: their ids */
    bool            drop, done, ends;        /* drop: the model goes */
};

/* Fills what follows from the model's names and path, which stay the caller's; then it is one of
 * the list's.  false: there is no memory. */
bool models_add(model_list *l, const char *names, const char *path);

/* ---- models_find.c ---- */
/* The model that has exactly these n bytes among its names; NULL: none. */
model_entry *models_named(model_list *l, const char *name, size_t n);

/* ---- models_folder.c ---- */
/* Adds what is new in the folder; what is left out is logged.  false: *err says why the folder
 * cannot be read. */
bool models_scan(model_list *l, qsf_error *err);
/* The same, unless that was just done; an error is logged. */
void models_rescan(model_list *l);

#endif
