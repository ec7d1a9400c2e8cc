/* When other programs compete for the processors, a thread that shares one with them may cost more
 * time than it saves: the caller waits for pieces in which it was preempted, and when it wakes it
 * may displace the caller.  This cannot be predicted.  So when pieces are late repeatedly, their
 * thread rests for some time, then joins again, and stays if throughput rises.  Otherwise it rests
 * again, five times as long, so that trials cost little.
 * SPDX-License-Identifier: MIT */
#include "base/pool_rest.h"

/* Nanoseconds.  Systems schedule programs in time slices of 3 or 4 ms, and a thread that has rested
 * may get the first ones: measuring less than several slices says little. */
enum {
    REST_AGAIN = 50000000,       /* a late piece counts if another was late within this time before it */
    REST_FIRST = 40000000,
    REST_MOST = 1000000000,
    REST_TRIAL_SOON = 5000000,   /* from then on a trial ends if it is lost by far, */
    REST_TRIAL_LEAST = 10000000, /* from then on if it is clearly lost */
    REST_TRIAL = 60000000,
    REST_GOOD_FIRST = 250000000,
    /* for this long after a trial that was won, late pieces do not start another */
    REST_GOOD_MOST = 2000000000,
    REST_MEMORY = 200000000,     /* of the speed without: earlier measurements count for at most this time */
    REST_GAP = 5000000           /* between two jobs: they do not belong together */
};
enum { WEIGHT_SEEN = 8 }; /* the shortest time of this many jobs is the weight of their kind */
#define REST_WORTH 1.05        /* times as fast as without */
#define REST_LOST 0.9
#define REST_LOST_BY_FAR 0.6

static qsf_rest_kind *rest_kind(const qsf_rest *r, uintptr_t key)
{
    return (qsf_rest_kind *)&r->kinds[(key ^ key >> 7 ^ key >> 15) % QSF_REST_KINDS];
}

static void rest_enter(qsf_rest *r, qsf_rest_state state, uint64_t now, uint64_t length)
{
    r->state = state;
    r->begin = now;
    r->length[state] = length;
    r->at = 0;
    r->work = r->time = 0;
}

static void rest_alone(qsf_rest *r, uint64_t now)
{
    const uint64_t last = r->length[QSF_REST_ALONE];
    rest_enter(r, QSF_REST_ALONE, now, last ? QSF_MIN(5 * last, REST_MOST) : REST_FIRST);
}

bool qsf_rest_late(qsf_rest *r, uint64_t now)
{
    if (r->state == QSF_REST_ALONE) return true; /* of those that still run, some are late too */
    if (r->state == QSF_REST_TRIAL || now - r->begin < r->length[QSF_REST_NONE]) return false;
    const bool again = r->late && now - r->late < REST_AGAIN;
    r->late = now;
    if (!again) return false; /* whatever it was, it may be over */
    if (now - r->begin > REST_GOOD_MOST)
        r->alone_time = r->length[QSF_REST_NONE] = 0; /* long ago: what was learned is forgotten */
    r->length[QSF_REST_ALONE] = 0;
    rest_alone(r, now);
    return true;
}

bool qsf_rest_wants(const qsf_rest *r, uintptr_t key)
{
    const qsf_rest_kind *k = rest_kind(r, key);
    return r->state != QSF_REST_NONE || k->key != key || k->seen < WEIGHT_SEEN;
}

bool qsf_rest_job(qsf_rest *r, uintptr_t key, uint64_t begin, uint64_t end)
{
    qsf_rest_kind *k = rest_kind(r, key);
    if (k->key != key) *k = (qsf_rest_kind){ .key = key, .weight = UINT64_MAX };
    if (k->seen < WEIGHT_SEEN) {
        k->seen++;
        k->weight = QSF_MIN(k->weight, QSF_MAX(end - begin, 1));
    }
    if (r->state == QSF_REST_NONE) return false;
    if (r->at && begin - r->at < REST_GAP) r->time += (double)(begin - r->at);
    r->time += (double)(end - begin);
    r->work += (double)k->weight;
    r->at = end;
    const uint64_t so_far = end - r->begin;
    if (r->state == QSF_REST_ALONE) {
        if (so_far < r->length[QSF_REST_ALONE]) return false;
        const double keep = r->alone_time > REST_MEMORY ? REST_MEMORY / r->alone_time : 1;
        r->alone_work = keep * r->alone_work + r->work;
        r->alone_time = keep * r->alone_time + r->time;
        rest_enter(r, QSF_REST_TRIAL, end, REST_TRIAL);
        return true;
    }
    const double as_alone = r->alone_work / r->alone_time * r->time;
    const double lost = so_far < REST_TRIAL_SOON ? 0 : so_far < REST_TRIAL_LEAST ? REST_LOST_BY_FAR
        : REST_LOST;
    if (so_far < REST_TRIAL && r->work >= lost * as_alone) return false;
    if (r->work < REST_WORTH * as_alone)
        rest_alone(r, end);
    else
        rest_enter(r, QSF_REST_NONE, end,
                   r->length[QSF_REST_NONE] ? QSF_MIN(2 * r->length[QSF_REST_NONE], REST_GOOD_MOST)
                   : REST_GOOD_FIRST);
    return true;
}

#undef REST_WORTH
#undef REST_LOST
#undef REST_LOST_BY_FAR
