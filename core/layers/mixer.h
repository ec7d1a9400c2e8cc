/* What mixers with state share: their matrices, a convolution over positions, sums of heads.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MIXER_H
#define QSF_MIXER_H

#include "layers/matrix.h"
#include "layers/program.h"

/* First: mix = xn . in, followed by gate, beta and alpha if the mixer has them, each beginning at a
 * whole tile. */
void qsf_mixer_list_in(qsf_program *g);
/* Afterwards: tmp = att . out, of the layer's mix_inner columns. */
void qsf_mixer_list_out(const qsf_layer *l, qsf_program *g);
/* In between: a row over the columns of `to`, one over the parts of heads, one over the batch's
 * rows, which may write to two places. */
void qsf_mixer_list_columns(qsf_program *g, uint8_t work, qsf_view to, qsf_row_fn *fn);
void qsf_mixer_list_scan(const qsf_layer *l, qsf_program *g, qsf_row_fn *fn);
void qsf_mixer_list_rows(qsf_program *g, uint8_t work, qsf_view to, qsf_view also, qsf_row_fn *fn);
/* Columns of mix; of att, the first mix_inner ones: what most mixers compute. */
static inline qsf_view qsf_mixer_view(uint32_t cols, uint32_t first)
{
    return (qsf_view){ .buffer = QSF_BUF_MIX, .cols = cols, .first = first };
}
static inline qsf_view qsf_mixer_result(const qsf_layer *l)
{
    return (qsf_view){ .buffer = QSF_BUF_ATT, .cols = l->mix_inner };
}

/* Of row r of the batch: the layer's part of the state before it, and of what it leaves.  Both may
 * be the same bytes. */
const float *qsf_mixer_before(const qsf_pass *p, size_t r);
float       *qsf_mixer_after(const qsf_pass *p, size_t r);

static inline float qsf_softplus(float x) { return x > 20 ? x : (float)log(1 + exp(x)); }

/* Mixers take up to this many rows of the batch before they continue with the next part of their
 * state: it is then read and written once for all of them, and the rows' data is still in the CPU's
 * cache. */
enum { QSF_MIXER_ROWS = 16 };
/* The columns of a piece of QSF_OVER_COLUMNS, whose edges do not depend on threads. */
qsf_range qsf_mixer_mine(const qsf_task *t);
/* How many rows from r on are consecutive rows of one sequence, at most QSF_MIXER_ROWS. */
size_t qsf_mixer_run(const qsf_pass *p, size_t r);

/* Convolves these channels of all rows of x[rows][ld] in place, and updates the state's first part,
 * [mix_conv - 1][mix_channels], to that after them.  silu: applies SiLU to the result. */
void qsf_mixer_convolve(const qsf_pass *p, float *x, size_t ld, qsf_range channels, bool silu);

/* A head of a mixer whose state is a matrix (kernels.h, qsf_scan): its columns of the batch's row 0
 * in mix (rows are ld_mix apart), and the function that computes a row's keep and gain. */
typedef struct qsf_mixer_head {
    const float *k, *q, *v;
    float        skip;
    bool         correct;
    void       (*gates)(const qsf_pass *p, size_t r, size_t head, float *keep, float *gain);
} qsf_mixer_head;
/* att = what all rows read from the sums, which follow the state's first part, for a piece of
 * QSF_OVER_SCAN. */
void   qsf_mixer_scan(const qsf_pass *p, const qsf_task *t,
                      qsf_mixer_head (*head)(const qsf_pass *p, size_t head));
/* The parts that a head has in QSF_OVER_SCAN. */
size_t qsf_mixer_scan_parts(const qsf_layer *l);

#endif
