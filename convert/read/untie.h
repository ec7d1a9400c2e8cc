/* A tied model as one whose head is a matrix of its own.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_UNTIE_H
#define QSF_CONVERT_UNTIE_H

#include "read/input.h"

/* Gives a tied model a head of its own, with the embedding's rows; others stay as they are. */
qsf_status qsf_input_untie(input *in, qsf_error *err);

#endif
