/* What mixers with state share: their matrices, a convolution over positions, sums of heads.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MIXER_H
#define QSF_MIXER_H

#include "layers/matrix.h"

/* First: mix = xn . in, followed by gate, beta and alpha if the mixer has them, each beginning at a
 * whole tile. */
void qsf_mixer_in(qsf_pass_job *job);
/* The same as a piece of a job, for those of n kinds of matrices that the layer has. */
void qsf_mixer_fill(const qsf_pass_job *job, const uint8_t *kinds, size_t n, uint32_t thread, uint32_t piece);
/* Afterwards: tmp = att . out, of the layer's mix_inner columns. */
void qsf_mixer_out(qsf_pass_job *job);
/* Of row r of the batch: the layer's part of the state before it, and of what it leaves.  Both may
 * be the same bytes. */
const float *qsf_mixer_before(const qsf_pass *p, size_t r);
float       *qsf_mixer_after(const qsf_pass *p, size_t r);

/* The columns of a matrix's rows with all tiles. */
static inline size_t qsf_mixer_columns(const qsf_pass *p, uint32_t kind)
{
    return qsf_matrix_tiles(&p->w->m[kind]) * QSF_TILE_ROWS;
}
static inline float qsf_softplus(float x) { return x > 20 ? x : (float)log(1 + exp(x)); }

/* Mixers take up to this many rows of the batch before they continue with the next part of their
 * state: it is then read and written once for all of them, and the rows' data is still in the CPU's
 * cache. */
enum { QSF_MIXER_ROWS = 16 };
/* Jobs over columns have items of a tile's width, whose edges do not depend on threads. */
static inline size_t qsf_mixer_items(size_t columns) { return qsf_ceil_div(columns, QSF_TILE_ROWS); }
qsf_range qsf_mixer_mine(const qsf_pass_job *job, uint32_t piece, size_t columns);
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
/* att = what all rows read from the sums, which follow the state's first part.  Heads, or parts of
 * them, are the job's items. */
void qsf_mixer_scan(qsf_pass_job *job, void (*piece)(void *job, uint32_t thread, uint32_t piece));
void qsf_mixer_scan_piece(const qsf_pass_job *job, uint32_t piece,
                          qsf_mixer_head (*head)(const qsf_pass *p, size_t head));

#endif
