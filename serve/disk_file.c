/* An unlinked file, and its thread.
 * SPDX-License-Identifier: MIT */
#include "disk_file.h"
#include "clock.h"
#include "system.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct work_list { disk_work *first, **end; } work_list;

struct disk_file {
    int             fd;
    void          (*wake)(void *user);
    void           *user;
    pthread_t       thread;
    bool            started, ends;
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    work_list       todo, done;
    atomic_bool     any_done;
};

static void work_add(work_list *l, disk_work *w)
{
    w->next = NULL;
    *l->end = w;
    l->end = &w->next;
}

static disk_work *work_take(work_list *l)
{
    disk_work *w = l->first;
    if (w && !(l->first = w->next)) l->end = &l->first;
    return w;
}

static const char *work_do(int fd, const disk_work *w)
{
    for (uint64_t n = 0; n < w->bytes;) {
        const size_t len = w->bytes - n < 1u << 22 ? (size_t)(w->bytes - n) : 1u << 22;
        const uint64_t at = w->at + n;
        char *const part = w->buffer + n;
        const long long got = w->writes ? system_write_at(fd, part, len, at)
                                        : system_read_at(fd, part, len, at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno == ENOSPC || errno == EFBIG ? "the disk is full" : "it cannot be used";
        if (got == 0) return "it is cut short";
        n += (uint64_t)got;
    }
    return NULL;
}

static void *disk_main(void *arg)
{
    disk_file *f = arg;
    pthread_mutex_lock(&f->lock);
    for (;;) {
        disk_work *w = NULL;
        while (!f->ends && !(w = work_take(&f->todo))) pthread_cond_wait(&f->changed, &f->lock);
        if (f->ends) break;
        pthread_mutex_unlock(&f->lock);
        const uint64_t begin = serve_now();
        w->error = work_do(f->fd, w);
        w->took_ns = serve_now() - begin;
        pthread_mutex_lock(&f->lock);
        work_add(&f->done, w);
        atomic_store(&f->any_done, true);
        pthread_mutex_unlock(&f->lock);
        f->wake(f->user);
        pthread_mutex_lock(&f->lock);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

void disk_file_do(disk_file *f, disk_work *w, bool writes)
{
    w->writes = writes;
    pthread_mutex_lock(&f->lock);
    work_add(&f->todo, w);
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

disk_work *disk_file_done(disk_file *f)
{
    if (!atomic_load(&f->any_done)) return NULL;
    pthread_mutex_lock(&f->lock);
    disk_work *w = work_take(&f->done);
    atomic_store(&f->any_done, f->done.first != NULL);
    pthread_mutex_unlock(&f->lock);
    return w;
}

disk_file *disk_file_new(const char *dir, void (*wake)(void *user), void *user, qsf_error *err)
{
    disk_file *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    *f = (disk_file){ .wake = wake, .user = user };
    f->todo.end = &f->todo.first;
    f->done.end = &f->done.first;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    f->fd = system_file_unnamed(dir);
    if (f->fd >= 0) f->started = !pthread_create(&f->thread, NULL, disk_main, f);
    else {
        err->status = QSF_E_IO;
        snprintf(err->text, sizeof err->text, "--cache-disk-dir %.200s: no file can be made there: %.60s",
                 dir ? dir : "(not given)", strerror(errno));
    }
    if (f->started) return f;
    disk_file_free(f);
    return NULL;
}

void disk_file_free(disk_file *f)
{
    if (!f) return;
    pthread_mutex_lock(&f->lock);
    f->ends = true;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
    if (f->started) pthread_join(f->thread, NULL);
    if (f->fd >= 0) system_close(f->fd);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
}
