/* What matrices are multiplied with, for quantisers that choose codes by it: measured by running
 * the model, or read from a file.  See calibration.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_CALIBRATION_H
#define QSF_CONVERT_CALIBRATION_H

#include "qsf_convert.h"
#include "read/input.h"

typedef struct convert_calibration convert_calibration;

/* Whether the options ask for a calibration that is still to be made: then the model is run. */
bool qsf_cal_runs(const qsf_platform *p, const qsf_convert_options *o);

/* Makes it or reads it, as the options say; NULL in *out where none was asked for.  in stays the
 * caller's, at least as long as *out.  model: the file with the same weights that can be run, NULL
 * where qsf_cal_runs is false.  beside: a file that is kept for a while lies beside this one.
 *
 * QSF_E_ARGUMENT    the file is of another model, or of another text or other options
 * QSF_E_NOT_FOUND   there is no such file, and nothing says what to make it of
 * and the errors of opening, running and writing. */
qsf_status qsf_cal_open(input *in, const char *model, const char *beside, const qsf_convert_options *o,
                        convert_calibration **out, qsf_error *err);
void       qsf_cal_free(convert_calibration *c);        /* takes NULL */

/* A number that changes with the model and with what it was calibrated by; 0: nothing says it, for
 * the calibration is an importance matrix. */
uint32_t qsf_cal_key(const convert_calibration *c);

/* The statistics of tensor (unit, kind), which has cols columns; kind + (1 + e) * CAL_EXPERT: those
 * of expert e's inputs, or of all rows if too few were routed to it.
 *
 * h         [cols][cols]: mean of x x' over positions from 2 on, both triangles
 * first     [cols]: x at position 0, the mean of the texts' first tokens where these differ
 * tokens    rows that the mean is of
 * diagonal  true: only the diagonal is known (of an importance matrix), the rest of h and first are
 *           zeros
 *
 * x is what the matrix is multiplied with, behind the norm and its gain.  Kind TOKEN_EMBD with a
 * tied head means the head.  QSF_E_NOT_FOUND without a message: nothing is known of this tensor.
 * One call at a time. */
qsf_status qsf_cal_hessian(convert_calibration *c, uint32_t unit, uint32_t kind, uint32_t cols, float *h,
                           float *first, uint64_t *tokens, bool *diagonal, qsf_error *err);

/* The same as the square roots of the diagonal, for input's sizes; user: the calibration.  *known
 * false: nothing is known of this matrix. */
qsf_status qsf_cal_sizes(void *user, uint32_t unit, uint32_t kind, uint32_t cols, float *size, bool *known,
                         qsf_error *err);

#endif
