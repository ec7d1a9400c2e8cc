/* Arrays that live and die together.  One list says what they are; counting, allocating and freeing
 * read it, so that what is planned is what is taken.
 * SPDX-License-Identifier: MIT
 *
 *   qsf_piece list[2];
 *   list[0] = QSF_PIECE(x->rows, n_rows, "batch");
 *   list[1] = QSF_PIECE(x->groups, n_rows, "batch"); */
#ifndef QSF_PIECES_H
#define QSF_PIECES_H

#include "base/host.h"

typedef struct qsf_piece {
    void       *at;           /* the pointer that points to the array, of whatever type */
    uint64_t    n, size;      /* elements, and bytes of one */
    const char *what;         /* for the message when memory runs out */
} qsf_piece;
#define QSF_PIECE(pointer, n, what) ((qsf_piece){ &(pointer), (n), sizeof *(pointer), (what) })

/* What all of them take. */
uint64_t   qsf_pieces_bytes(const qsf_piece *list, size_t n);
/* Zeroed memory for each; the pointer to one without elements is NULL.  On an error some have
 * theirs, and the others' pointers are as they were. */
qsf_status qsf_pieces_alloc(const qsf_platform *p, const qsf_piece *list, size_t n, qsf_error *err);
void       qsf_pieces_free(const qsf_platform *p, const qsf_piece *list, size_t n);  /* or a partial one */

#endif
