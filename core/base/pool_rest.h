/* Whether a pool's threads help, found by measuring with and without those that have been late.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_POOL_REST_H
#define QSF_POOL_REST_H

#include "base/host.h"

enum { QSF_REST_KINDS = 64 };

/* A kind of job, and the weight of one in the work of an interval:
 * about its time, whichever threads run it. */
typedef struct qsf_rest_kind {
    uintptr_t key;
    uint64_t weight;
    uint32_t seen;
} qsf_rest_kind;

typedef enum qsf_rest_state {
    QSF_REST_NONE,  /* all threads run; nothing is measured */
    QSF_REST_ALONE, /* those that were late rest, and the speed without them is measured */
    QSF_REST_TRIAL  /* they are back, and the speed with them is measured */
} qsf_rest_state;

typedef struct qsf_rest {
    qsf_rest_state state;
    uint64_t begin;     /* of the state; 0 before the first measurement */
    uint64_t length[3]; /* of each state, the last time; QSF_REST_NONE: so long late pieces do not count, 0 at
                           first */
    uint64_t late;      /* when a piece was late, the last time; 0: never */
    uint64_t at;        /* the end of the last job */
    double work, time;  /* since the state began */
    double alone_work, alone_time; /* of the last rests */
    qsf_rest_kind kinds[QSF_REST_KINDS];
} qsf_rest;

/* A piece was late.  Returns true if late threads should now rest. */
bool qsf_rest_late(qsf_rest *r, uint64_t now);
/* Whether qsf_rest_job wants to know of a job of this kind. */
bool qsf_rest_wants(const qsf_rest *r, uintptr_t key);
/* A job of a kind (any number that is the same for the same work) ran from begin to end.  Returns
 * true if the state has changed. */
bool qsf_rest_job(qsf_rest *r, uintptr_t key, uint64_t begin, uint64_t end);

#endif
