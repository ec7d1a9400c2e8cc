/* One piece of memory, asked for once and given out from its beginning on: what a context keeps for
 * its whole life.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_RESERVE_H
#define QSF_RESERVE_H

#include "base/host.h"

/* Pieces that are asked for one by one instead: the address sanitizer sees an overrun only
 * between such, and in a module's memory, which never shrinks, they fill the holes that
 * opening the file has left. */
#if defined(__wasm__)
#  define QSF_RESERVE_APART 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define QSF_RESERVE_APART 1
#  endif
#elif defined(__SANITIZE_ADDRESS__)
#  define QSF_RESERVE_APART 1
#endif
#ifndef QSF_RESERVE_APART
#  define QSF_RESERVE_APART 0
#endif

/* alignment, of pieces from LARGE bytes on PAGE */
enum { QSF_RESERVE_LINE = 64, QSF_RESERVE_PAGE = 4096, QSF_RESERVE_LARGE = 64 * 1024 };

typedef struct qsf_reserve {
    qsf_platform table;             /* its memory functions give out the reserve; the others are NULL */
    const qsf_platform *platform;
    uint8_t     *mem;
    /* what is free: large pieces are taken from below, small ones from above, so that none leaves a
     * gap */
    uint64_t     low, high;
    uint64_t     cap;
    uint64_t     asked;             /* what the pieces have without rounding */
} qsf_reserve;

/* What size bytes take of a reserve: whole cache lines, whole pages if it is much, which reads
 * past the page cache need. */
uint64_t   qsf_reserve_room(uint64_t size);
/* Code that takes a platform for its memory gets &r->table; allocations beyond cap fail.  Memory is
 * not reused before qsf_reserve_done.  r must not move. */
qsf_status qsf_reserve_init(qsf_reserve *r, const qsf_platform *p, uint64_t cap, qsf_error *err);
void       qsf_reserve_done(qsf_reserve *r);        /* takes one that was never begun, all zeros */

#endif
