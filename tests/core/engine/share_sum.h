/* Shares of a model in one program: a thread for each, and the sums that they meet for.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SHARE_SUM_H
#define QSF_SHARE_SUM_H

#include "qsf.h"
#include "base/platform.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SHARES_MOST = 4 };

typedef struct share_group share_group;
typedef struct share_member {
    share_group *group;
    uint32_t     i;
    float       *sum;
    size_t       cap;
    qsf_status (*run)(void *arg, uint32_t i);
    void        *arg;
    qsf_status   st;
} share_member;

struct share_group {
    uint32_t      n;
    share_member  members[SHARES_MOST];
    const float  *x[SHARES_MOST];
    size_t        n_x[SHARES_MOST];
    atomic_uint   arrived, round;
    atomic_bool   failed;                   /* a member has left: no member waits */
    uint32_t      n_sums;                   /* member 0's count, */
    uint32_t      fail_at;                  /* which fails there; 0: never */
};

static inline void shares_begin(share_group *g, uint32_t n)
{
    memset(g, 0, sizeof *g);
    g->n = n;
    for (uint32_t i = 0; i < n; i++) g->members[i] = (share_member){ .group = g, .i = i };
}

static inline void shares_end(share_group *g)
{
    for (uint32_t i = 0; i < g->n; i++) free(g->members[i].sum);
}

/* Waits for the others; false: one has failed. */
static inline bool shares_meet(share_group *g)
{
    const qsf_platform *p = qsf_platform_native();
    const uint32_t round = atomic_load(&g->round);
    if (atomic_fetch_add(&g->arrived, 1) + 1 == g->n) {
        atomic_store(&g->arrived, 0);
        atomic_fetch_add(&g->round, 1);
        p->wake32(p->user, (uint32_t *)(void *)&g->round, g->n);
    }
    while (atomic_load(&g->round) == round && !atomic_load(&g->failed))
        p->wait32(p->user, (uint32_t *)(void *)&g->round, round, 1000000);
    return !atomic_load(&g->failed);
}

/* A qsf_reduce_fn of a share_member. */
static inline qsf_status shares_add(void *user, float *x, size_t n)
{
    share_member *me = user;
    share_group *g = me->group;
    if (!me->i && g->fail_at && ++g->n_sums == g->fail_at) {
        atomic_store(&g->failed, true);
        return QSF_E_IO;
    }
    if (me->cap < n) {
        free(me->sum);
        me->cap = n;
        me->sum = malloc(n * sizeof *me->sum);
    }
    g->x[me->i] = x;
    g->n_x[me->i] = n;
    if (!shares_meet(g)) return QSF_E_IO;
    for (uint32_t r = 0; r < g->n; r++) {
        if (g->n_x[r] != n) return QSF_E_ARGUMENT;
        for (size_t k = 0; k < n; k++) me->sum[k] = r ? me->sum[k] + g->x[r][k] : g->x[r][k];
    }
    if (!shares_meet(g)) return QSF_E_IO;
    memcpy(x, me->sum, n * sizeof *x);
    return QSF_OK;
}

static inline void shares_thread(void *arg)
{
    share_member *me = arg;
    me->st = me->run(me->arg, me->i);
    if (me->st) atomic_store(&me->group->failed, true);
}

/* run(arg, i) for all shares at the same time; the first error. */
static inline qsf_status shares_run(share_group *g, qsf_status (*run)(void *arg, uint32_t i), void *arg)
{
    const qsf_platform *p = qsf_platform_native();
    qsf_thread *threads[SHARES_MOST] = { NULL };
    qsf_status st = QSF_OK;
    atomic_store(&g->failed, false);
    atomic_store(&g->arrived, 0);
    for (uint32_t i = 0; i < g->n; i++) {
        g->members[i].run = run;
        g->members[i].arg = arg;
        if (!i) continue;
        if (p->thread_start(p->user, shares_thread, &g->members[i], &threads[i])) abort();
    }
    shares_thread(&g->members[0]);
    for (uint32_t i = 0; i < g->n; i++) {
        if (i) p->thread_join(p->user, threads[i]);
        if (!st) st = g->members[i].st;
    }
    return st;
}

#endif
