/* Arrays by list.
 * SPDX-License-Identifier: MIT */
#include "base/pieces.h"

uint64_t qsf_pieces_bytes(const qsf_piece *list, size_t n)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += list[i].n * list[i].size;
    return bytes;
}

qsf_status qsf_pieces_alloc(const qsf_platform *p, const qsf_piece *list, size_t n, qsf_error *err)
{
    for (size_t i = 0; i < n; i++) {
        void *mem = NULL;
        if (list[i].n && !(mem = qsf_alloc_array(p, list[i].n, list[i].size, list[i].what, err)))
            return QSF_E_MEMORY;
        memcpy(list[i].at, &mem, sizeof mem);       /* all pointers to objects look alike */
    }
    return QSF_OK;
}

void qsf_pieces_free(const qsf_platform *p, const qsf_piece *list, size_t n)
{
    while (n-- > 0) {
        void *mem;
        memcpy(&mem, list[n].at, sizeof mem);
        qsf_dealloc(p, mem, list[n].n * list[n].size);
    }
}
