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

/* The weights to be unpacked next, of some tile rows: at the end those after this call's, which
 * the thread's next call needs.  They are prefetched little by little while the rows of a band
 * are multiplied with the panel: unpacking would otherwise spend most of its time waiting for
 * memory. */
typedef struct qsf_panel_next { const uint8_t *w; size_t bytes, row_bytes, rows; } qsf_panel_next;

#if defined(__x86_64__)
/* What falls to T rows from r on, of n. */
QSF_TEMPLATE void qsf_panel_ask(const qsf_panel_next *next, size_t r, size_t T, size_t n)
{
    const size_t each = (size_t)qsf_round_up(qsf_ceil_div(next->bytes, n), 64);
    for (size_t i = 0; i < next->rows; i++)
        for (size_t at = r * each; at < (r + T) * each && at < next->bytes; at += 64)
            __builtin_prefetch(next->w + i * next->row_bytes + at, 0, 3);
}
#endif

/* The n rows of activations from `row` on against a panel of `cols` columns, which begin at column
 * `at`: as qsf_panel_matmul_avx512, with the same bits.  May use up the panel. */
typedef struct qsf_panel_form qsf_panel_form;
typedef void qsf_panel_band(const qsf_panel_form *f, float *y, size_t ldy, qsf_panel *p, const qsf_act *x,
                            size_t row, size_t n, size_t at, size_t cols, const qsf_panel_next *next);

/* How the columns of a form are scaled. */
struct qsf_panel_form {
    qsf_panel_unpack *unpack;
    int  sub;           /* columns that share a scale: 16, 32 or 64 */
    int  offset;
    bool zero;
    qsf_panel_band *band;       /* NULL: AVX-512's own */
};

/* y as k->matmul's. */
void qsf_panel_matmul_avx512(const qsf_panel_form *f, float *y, size_t ldy, const uint8_t *w,
                             size_t row_bytes, const qsf_act *x, size_t tiles, size_t blocks, uint32_t block);

/* What AVX-512 has for a form whose columns share scales by 32 or 64: its k->matmul, and how tiles
 * become a panel.  For the set that multiplies the same panels in another way. */
typedef struct qsf_panel_use {
    void (*matmul)(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                   uint32_t block);
    qsf_panel_unpack *unpack;
} qsf_panel_use;
#if defined(QSF_AMX)
#  define QSF_PANEL_USE(F, matmul, unpack) const qsf_panel_use qsf_panel_use_##F = { matmul, unpack };
#else
#  define QSF_PANEL_USE(F, matmul, unpack)
#endif
/* X(form) for each that has one.  Trellises: those of AVX-512 VBMI. */
#define QSF_EACH_PANEL_USE(X) QSF_EACH_FORM(X) QSF_EACH_GGML_FORM(X) X(TQ1) X(Q4K) X(Q5K) X(IQ4XS) \
    X(TR2) X(TR3) X(TR4) X(TR5)
#define QSF_DECLARE(F) extern const qsf_panel_use qsf_panel_use_##F;
QSF_EACH_PANEL_USE(QSF_DECLARE)
#undef QSF_DECLARE

#endif
