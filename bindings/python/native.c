/* What the Python package calls besides the flat layer and the converter.
 * SPDX-License-Identifier: MIT */
#include "qsf_python.h"

#include "hub.h"
#include "list.h"

#include <stdlib.h>

typedef struct qsf_python_host {
    qsf_python_event event;
    void            *user;
    bool             stop;
} qsf_python_host;

static void qsf_python_tell(qsf_python_host *h, int32_t kind, const char *text, const hub_progress *p)
{
    const hub_progress none = { .n_parts = 0 };
    if (!p) p = &none;
    if (h->event(h->user, kind, text, p->done, p->total, p->part, p->n_parts)) h->stop = true;
}

static void qsf_python_progress(void *user, const hub_progress *p)
{
    qsf_python_tell(user, p->what == HUB_BEGINS ? QSF_PYTHON_BEGINS : p->what == HUB_RUNS ? QSF_PYTHON_RUNS
                    : QSF_PYTHON_ENDS, p->name, p);
}

static void qsf_python_note(void *user, const char *line)
{
    qsf_python_tell(user, QSF_PYTHON_NOTE, line, NULL);
}

static bool qsf_python_stopped(void *user)
{
    qsf_python_host *h = user;
    if (!h->stop) qsf_python_tell(h, QSF_PYTHON_ASKS, "", NULL);
    return h->stop;
}

bool qsf_python_is_name(const char *text)
{
    return hub_is_name(text);
}

char *qsf_python_find(const char *name, const char *hub, bool offline, uint64_t memory,
                      qsf_python_event event, void *user, qsf_error *err)
{
    qsf_python_host h = { event, user, false };
    const hub_options o = { .address = hub, .offline = offline, .memory = memory,
                            .progress = qsf_python_progress, .note = qsf_python_note,
                            .stopped = qsf_python_stopped, .user = &h };
    char *path = NULL;
    return hub_find(&o, name, &path, err) ? NULL : path;
}

void qsf_python_free(char *text)
{
    free(text);
}

typedef struct qsf_python_list {
    void (*fn)(void *user, const char *name, const char *path, uint64_t bytes);
    void  *user;
} qsf_python_list;

static void qsf_python_entry(void *user, const hub_entry *e)
{
    const qsf_python_list *l = user;
    l->fn(l->user, e->name, e->path, e->bytes);
}

qsf_status qsf_python_cached(void (*fn)(void *user, const char *name, const char *path, uint64_t bytes),
                             void *user, qsf_error *err)
{
    qsf_python_list l = { fn, user };
    return hub_list(qsf_python_entry, &l, err);
}

bool qsf_python_raised(void *flag)
{
    return *(volatile unsigned char *)flag != 0;
}
