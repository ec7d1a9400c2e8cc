/* Threads that download and remove models of a hub.
 * SPDX-License-Identifier: MIT */
#include "downloads.h"

#include "system.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct model_download {
    const serve_hub *hub;
    const char     *name;
    download_kind   kind;
    int             wake_fd;
    pthread_t       thread;
    pthread_mutex_t lock;                    /* guards state */
    download_state  state;
    atomic_bool     stopped;
    char           *path;                    /* the thread's, until state.over; so is err */
    qsf_error       err;
};

static bool download_stopped(void *user) { return atomic_load(&((model_download *)user)->stopped); }

static void download_came(void *user, const char *sha256, uint64_t done, uint64_t total)
{
    model_download *d = user;
    pthread_mutex_lock(&d->lock);
    snprintf(d->state.sha256, sizeof d->state.sha256, "%s", sha256);
    d->state.done = done;
    d->state.total = total;
    pthread_mutex_unlock(&d->lock);
}

static void *download_main(void *arg)
{
    model_download *d = arg;
    const serve_hub *hub = d->hub;
    const serve_hub_watch watch = { download_stopped, download_came, d };
    system_behind();
    if (d->kind == DOWNLOAD_REMOVE) d->err.status = hub->remove(hub->user, d->name, &d->err);
    else d->err.status = hub->find(hub->user, d->name, &watch, &d->path, &d->err);
    pthread_mutex_lock(&d->lock);
    d->state.over = true;
    pthread_mutex_unlock(&d->lock);
    (void)system_wake(d->wake_fd);                       /* full: a byte is there already */
    return NULL;
}

model_download *download_new(const serve_hub *hub, download_kind kind, const char *name, int wake_fd)
{
    model_download *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    d->hub = hub;
    d->kind = kind;
    d->name = name;
    d->wake_fd = wake_fd;
    pthread_mutex_init(&d->lock, NULL);
    if (!pthread_create(&d->thread, NULL, download_main, d)) return d;
    pthread_mutex_destroy(&d->lock);
    free(d);
    return NULL;
}

void download_look(model_download *d, download_state *out)
{
    pthread_mutex_lock(&d->lock);
    *out = d->state;
    pthread_mutex_unlock(&d->lock);
}

void download_stop(model_download *d) { atomic_store(&d->stopped, true); }

qsf_status download_free(model_download *d, char **path, qsf_error *err)
{
    pthread_join(d->thread, NULL);
    *path = d->path;
    *err = d->err;
    pthread_mutex_destroy(&d->lock);
    free(d);
    return err->status;
}
