/* The head by way of a screen, a copy of it in few bits.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HEAD_SCREEN_H
#define QSF_HEAD_SCREEN_H

#include "layers/head_logits.h"

enum {
    QSF_HEAD_ROWS = 8,        /* batches in which more rows ask for logits are computed exactly */
    QSF_HEAD_BEST = 256       /* rows that a screen lets through */
};

typedef struct qsf_head_screen {
    const qsf_platform *mem;  /* whose memory it takes */
    qsf_matrix small;         /* the head in fewer bits */
    uint8_t   *bytes;         /* small's memory */
    uint32_t  *tiles;         /* [QSF_HEAD_ROWS][QSF_HEAD_BEST] tiles of the head that are computed exactly */
    uint32_t   n_tiles[QSF_HEAD_ROWS];
} qsf_head_screen;

qsf_status qsf_screen_bytes(const qsf_source *s, uint64_t *bytes, qsf_error *err);
qsf_status qsf_screen_init(qsf_head_screen *h, const qsf_source *s, const qsf_platform *mem, qsf_error *err);
void       qsf_screen_done(qsf_head_screen *h);      /* accepts a partly built one */
/* Makes the screen from the head, which is in memory.  begin: when the time that this accounts for
 * began; returns the time now. */
uint64_t   qsf_screen_make(qsf_head_screen *h, const qsf_pass *p, const qsf_matrix *head, uint64_t begin);
/* Logits of the rows that asked, at most QSF_HEAD_ROWS, which are normed and have codes. */
void       qsf_screen_run(qsf_head_screen *h, const qsf_pass *p, const qsf_head_part *head, uint64_t begin);

#endif
