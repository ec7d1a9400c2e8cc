/* Work in equal pieces on the platform's threads.
 * SPDX-License-Identifier: MIT */
#include "plan/team.h"

#include "plan/caller.h"

#include <stdatomic.h>

typedef struct convert_team {
    const qsf_convert_options *o;
    convert_job                fn;
    void                      *user;
    uint32_t                   n;
    atomic_uint                next;
    atomic_bool                stop;
} convert_team;

typedef struct convert_member {
    convert_team *team;
    uint32_t      thread, failed_at;
    qsf_status    st;
    qsf_error     err;
    qsf_thread   *handle;
} convert_member;

static void convert_work(void *arg)
{
    convert_member *m = arg;
    convert_team *t = m->team;
    for (;;) {
        const uint32_t i = atomic_fetch_add(&t->next, 1);
        if (i >= t->n || atomic_load(&t->stop)) return;
        if (qsf_conv_cancelled(t->o)) m->st = qsf_fail(&m->err, QSF_E_CANCELLED, "interrupted");
        else m->st = t->fn(t->user, i, m->thread, &m->err);
        if (m->st) {
            m->failed_at = i;
            atomic_store(&t->stop, true);
            return;
        }
    }
}

uint32_t qsf_conv_threads(const qsf_platform *p, const qsf_convert_options *o)
{
    if (!p->thread_start) return 1;
    const uint32_t n = o->n_threads ? o->n_threads : p->cpu_count ? p->cpu_count(p->user) : 1;
    return QSF_MAX(1, QSF_MIN(n, QSF_CONVERT_MAX_THREADS));
}

qsf_status qsf_conv_parallel(const qsf_platform *p, const qsf_convert_options *o, uint32_t n_threads,
                             uint32_t n, convert_job fn, void *user, qsf_error *err)
{
    convert_team team = { .fn = fn, .user = user, .n = n, .o = o };
    n_threads = QSF_MAX(1, QSF_MIN(n_threads, n));
    convert_member *m = qsf_alloc_array(p, n_threads, sizeof *m, "threads", err);
    if (!m) return QSF_E_MEMORY;
    uint32_t started = 1;
    for (; started < n_threads; started++) {
        m[started] = (convert_member){ .team = &team, .thread = started };
        /* fewer do the work as well */
        if (p->thread_start(p->user, convert_work, &m[started], &m[started].handle)) break;
    }
    m[0].team = &team;
    convert_work(&m[0]);
    const convert_member *first = NULL;
    for (uint32_t i = 0; i < started; i++) {
        if (i) p->thread_join(p->user, m[i].handle);
        if (m[i].st && (!first || m[i].failed_at < first->failed_at)) first = &m[i];
    }
    const qsf_status st = first ? first->st : QSF_OK;
    if (first && err) *err = first->err;
    qsf_dealloc(p, m, (uint64_t)n_threads * sizeof *m);
    return st;
}
