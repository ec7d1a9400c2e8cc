/* A tied model as one whose head is a matrix of its own, and the other way round.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_TIE_H
#define QSF_CONVERT_TIE_H

#include "read/input.h"

/* Gives a tied model a head of its own, with the embedding's rows; other models are unchanged. */
qsf_status qsf_input_untie(input *in, qsf_error *err);

/* Ties a model whose head and embedding are one matrix except for quantisation errors: both then
 * use the head's rows, which files keep in more bits.  Models that are already tied, or whose
 * matrices differ by more, are unchanged.  *apart: the squared difference relative to the head's
 * squares, 0 if nothing was compared. */
qsf_status qsf_input_tie(input *in, double *apart, qsf_error *err);

#endif
