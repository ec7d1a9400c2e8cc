/* What mixers with state share: their matrices, and a convolution over positions.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MIXER_H
#define QSF_MIXER_H

#include "engine/matrix.h"

/* Before: mix = xn . in; behind it gate, beta and alpha, where the mixer has them, each from a
 * whole tile on. */
void qsf_mixer_in(qsf_pass_job *job);
/* The piece of that for n matrices of any kinds, those that the layer has. */
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

/* x[c] = the convolution's value at row r for these channels, where x holds the row's inputs; the
 * state's first part, [mix_conv - 1][mix_channels], becomes that behind the row.  A channel's rows
 * come in the order of the batch. */
void qsf_mixer_convolve(const qsf_pass *p, size_t r, float *x, qsf_range channels);

/* The same for channels of all rows of x[rows][ld_mix], and SiLU of it. */
void qsf_mixer_convolve_rows(const qsf_pass *p, float *x, qsf_range channels);

#endif
