/* How many threads compute a few rows while layers stream, found by trying.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_THREAD_COUNT_H
#define QSF_THREAD_COUNT_H

#include "base/host.h"

typedef struct qsf_thread_count {
    uint32_t most;            /* the number of threads */
    uint32_t best, other;     /* how many run; how many are being tried instead, 0: none */
    uint32_t rest, pause;     /* passes until the next trial; between two of them */
    bool     up;              /* the trial is with more threads */
    uint32_t sides;           /* more and fewer threads: how many of the two are left to try, with this one */
    uint32_t passes;          /* of the turn under way; their time in all, the shortest and the longest */
    uint64_t ns, shortest, longest;
    uint64_t best_ns;         /* of a pass with the best */
} qsf_thread_count;

qsf_thread_count qsf_thread_count_of(uint32_t most);      /* begins with half of them */
/* Threads for the next pass, and how long it took. */
uint32_t qsf_thread_count_next(const qsf_thread_count *t);
void     qsf_thread_count_took(qsf_thread_count *t, uint64_t ns);

#endif
