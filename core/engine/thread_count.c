/* Threads that are woken for each layer of a few rows, and spin in between, take processor time
 * from reading.  If reading also needs a processor (from the page cache, unpacking, checking),
 * half of the threads can be twice as fast; if a disk does it, half as fast.  This cannot be
 * predicted, so passes are timed: some with the best number so far, some with half or twice that
 * number, and then a pause, which grows as long as the best number stays the same.
 * SPDX-License-Identifier: MIT */
#include "engine/thread_count.h"

enum { TURN = 4, SOON = 2, PAUSE = 64, LONGEST_PAUSE = 1024 };      /* passes */

qsf_thread_count qsf_thread_count_of(uint32_t most)
{
    return (qsf_thread_count){ .most = most, .best = (most + 1) / 2, .up = true, .pause = PAUSE,
                               .shortest = UINT64_MAX };
}

uint32_t qsf_thread_count_next(const qsf_thread_count *t) { return t->other ? t->other : t->best; }

static uint32_t count_beside(const qsf_thread_count *t)
{
    return t->up ? QSF_MIN(2 * t->best, t->most) : (t->best + 1) / 2;
}

/* Begins a trial in the direction of `up`, or in the other one if that is not possible; `sides`
 * directions remain, including this one.  If none remains, begins a pause. */
static void count_try(qsf_thread_count *t, uint32_t sides)
{
    t->sides = sides;
    if (sides && count_beside(t) == t->best) {
        t->sides--;
        t->up = !t->up;
    }
    t->other = t->sides ? count_beside(t) : 0;
    if (t->other) return;
    t->rest = t->pause;
    t->pause = QSF_MIN(2 * t->pause, LONGEST_PAUSE);
}

void qsf_thread_count_took(qsf_thread_count *t, uint64_t ns)
{
    if (t->most == 1) return;
    if (t->rest) {
        t->rest--;
        return;
    }
    t->ns += ns;
    t->longest = QSF_MAX(t->longest, ns);
    t->shortest = QSF_MIN(t->shortest, ns);
    t->passes++;
    const bool worse = t->other && t->passes == SOON && t->shortest > t->best_ns + t->best_ns / 4;
    if (t->passes < TURN && !worse) return;
    /* something else may have come between one of them */
    const uint64_t mean = (t->ns - t->longest) / (TURN - 1);
    t->ns = t->longest = t->passes = 0;
    t->shortest = UINT64_MAX;
    if (!t->other) {
        t->best_ns = mean;
        count_try(t, 2);
    } else if (worse || mean >= t->best_ns - t->best_ns / 16) {
        t->up = !t->up;
        count_try(t, t->sides - 1);
    } else {
        t->best = t->other;
        t->best_ns = mean;
        t->pause = PAUSE;
        count_try(t, 1);
    }
}
