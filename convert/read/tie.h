/* A tied model as one whose head is a matrix of its own, and the other way round.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_TIE_H
#define QSF_CONVERT_TIE_H

#include "read/input.h"

/* Gives a tied model a head of its own, with the embedding's rows; others stay as they are. */
qsf_status qsf_input_untie(input *in, qsf_error *err);

/* Makes a model tied whose head and embedding are one matrix but for what a quantiser has lost of
 * either: both are the head's rows then, which files keep in more bits.  Models that are tied, or
 * whose matrices differ by more, stay as they are.  *apart: the squared difference by the head's
 * squares, 0 where nothing was compared. */
qsf_status qsf_input_tie(input *in, double *apart, qsf_error *err);

#endif
