/* Threads that are woken for each layer of a few rows, and spin between, take processors from reading: where that is done by a processor too (from the
 * page cache, unpacking, checking), half of the threads can be twice as fast, and where it is done by a disk, half as fast.  Nothing tells beforehand,
 * so passes are timed: a turn with the number that has been best, one with half or twice as many, and then a pause, which grows as long as nothing changes.
 * SPDX-License-Identifier: MIT */
#include "thread_count.h"

enum { TURN = 4, PAUSE = 32, LONGEST_PAUSE = 512 };        /* passes */

qsf_thread_count qsf_thread_count_of(uint32_t most) { return (qsf_thread_count){ .most = most, .best = most, .pause = PAUSE }; }

uint32_t qsf_thread_count_next(const qsf_thread_count *t) { return t->other ? t->other : t->best; }

static uint32_t count_beside(const qsf_thread_count *t) { return t->up ? QSF_MIN(2 * t->best, t->most) : (t->best + 1) / 2; }

void qsf_thread_count_took(qsf_thread_count *t, uint64_t ns)
{
    if (t->most == 1) return;
    if (t->rest) {
        t->rest--;
        return;
    }
    t->ns += ns;
    t->longest = QSF_MAX(t->longest, ns);
    if (++t->passes < TURN) return;
    const uint64_t turn = t->ns - t->longest;              /* something else may have come between one of them */
    t->ns = t->longest = t->passes = 0;
    if (!t->other) {
        t->best_ns = turn;
        if (count_beside(t) == t->best) t->up = !t->up;
        t->other = count_beside(t);
        return;
    }
    const bool better = turn < t->best_ns - t->best_ns / 16;
    if (better) {
        t->best = t->other;
        t->best_ns = turn;
        t->pause = PAUSE;
        if ((t->other = count_beside(t)) != t->best) return;
    }
    t->up = !t->up;
    t->other = 0;
    t->rest = t->pause;
    if (!better) t->pause = QSF_MIN(2 * t->pause, LONGEST_PAUSE);
}
