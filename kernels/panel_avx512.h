/* Prompts with AVX-512 VNNI: tiles are brought to bytes once and then meet many rows of
 * activations.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PANEL_AVX512_H
#define QSF_PANEL_AVX512_H

#include "sets.h"

enum {
    QSF_PANEL_SUBS = 32,        /* stretches of columns that share a scale */
    QSF_PANEL_COLS = 1024,
    QSF_PANEL_ROWS = 48         /* the fewest rows of activations that a panel pays for */
};

/* A tile row's next up to QSF_PANEL_COLS columns: value = scale * (code - offset) + zero. */
typedef struct qsf_panel {
    _Alignas(64) uint8_t code[QSF_PANEL_COLS / 4][64];       /* byte 4 * r + b: row r, column 4 * i + b */
    float   scale[QSF_PANEL_SUBS][16];
    float   zero[QSF_PANEL_SUBS][16];
    bool    first;      /* given: whether the columns are the row's first */
} qsf_panel;

/* Unpacks `blocks` blocks; columns up to the next multiple of 64 get scales of zero. */
typedef void qsf_panel_unpack(qsf_panel *p, const uint8_t *w, size_t blocks, uint32_t block);

/* How the columns of a form are scaled. */
typedef struct qsf_panel_form {
    qsf_panel_unpack *unpack;
    int  sub;           /* columns that share a scale: 16, 32 or 64 */
    int  offset;
    bool zero;
} qsf_panel_form;

/* y as k->matmul's. */
void qsf_panel_matmul_avx512(const qsf_panel_form *f, float *y, size_t ldy, const uint8_t *w,
                             size_t row_bytes, const qsf_act *x, size_t tiles, size_t blocks, uint32_t block);

#endif
