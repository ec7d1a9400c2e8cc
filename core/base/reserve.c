/* One piece of memory for all that a context keeps.
 * SPDX-License-Identifier: MIT */
#include "base/reserve.h"

static uint64_t reserve_align(uint64_t size)
{
    return size >= QSF_RESERVE_LARGE ? QSF_RESERVE_PAGE : QSF_RESERVE_LINE;
}

uint64_t qsf_reserve_room(uint64_t size)
{
    return size > UINT64_MAX / 2 ? size : qsf_round_up(size, reserve_align(size));
}

static void *reserve_take(void *user, size_t size)
{
    qsf_reserve *r = user;
    r->asked += size;
    if (QSF_RESERVE_APART) return r->platform->mem_alloc(r->platform->user, size);
    const uint64_t room = qsf_reserve_room(size);
    if (room > r->high - r->low) return NULL;
    if (reserve_align(size) == QSF_RESERVE_PAGE) {
        r->low += room;
        return r->mem + (r->low - room);
    }
    r->high -= room;
    return r->mem + r->high;
}

static void reserve_give(void *user, void *p, size_t size)
{
    const qsf_reserve *r = user;
    if (QSF_RESERVE_APART) r->platform->mem_free(r->platform->user, p, size);
}

qsf_status qsf_reserve_init(qsf_reserve *r, const qsf_platform *p, uint64_t cap, qsf_error *err)
{
    *r = (qsf_reserve){ .table = { .size = sizeof r->table, .user = r, .mem_alloc = reserve_take,
                                   .mem_free = reserve_give }, .platform = p, .cap = cap };
    r->high = cap / QSF_RESERVE_LINE * QSF_RESERVE_LINE;
    if (QSF_RESERVE_APART) return QSF_OK;
    r->mem = qsf_alloc(p, cap, "the context, as one piece", err);
    return r->mem ? QSF_OK : QSF_E_MEMORY;
}

void qsf_reserve_done(qsf_reserve *r)
{
    if (r->mem) qsf_dealloc(r->platform, r->mem, r->cap);
    *r = (qsf_reserve){ 0 };
}
