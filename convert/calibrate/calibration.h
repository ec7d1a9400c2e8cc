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

/* Makes it or reads it, as the options ask; *out is NULL if they ask for no calibration.  in still
 * belongs to the caller and must outlive *out.  model: a file with the same weights that can be
 * run, NULL if qsf_cal_runs is false.  beside: the temporary file is placed next to this one.
 *
 * QSF_E_ARGUMENT    the file is for another model, another text or other options
 * QSF_E_NOT_FOUND   the file does not exist, and no text is given to make it from
 * and the errors of opening, running and writing. */
qsf_status qsf_cal_open(input *in, const char *model, const char *beside, const qsf_convert_options *o,
                        convert_calibration **out, qsf_error *err);
void       qsf_cal_free(convert_calibration *c);        /* takes NULL */

/* A number that identifies the model and the calibration data; 0: unknown, because the calibration
 * is an importance matrix. */
uint32_t qsf_cal_key(const convert_calibration *c);

/* The statistics of tensor (unit, kind), which has cols columns; kind + (1 + e) * CAL_EXPERT: those
 * of expert e's inputs, or of all rows if too few were routed to it.
 *
 * h         [cols][cols]: mean of x x' over positions from 2 on, both triangles
 * first     [cols]: x at position 0, averaged if the texts begin with different tokens
 * tokens    number of rows in the mean
 * diagonal  true: only the diagonal is known (of an importance matrix), the rest of h and first are
 *           zeros
 *
 * x is the matrix's input, after the norm and its gain.  Kind TOKEN_EMBD with a tied head means
 * the head.  QSF_E_NOT_FOUND without a message: nothing is known about this tensor.  Not
 * thread-safe. */
qsf_status qsf_cal_hessian(convert_calibration *c, uint32_t unit, uint32_t kind, uint32_t cols, float *h,
                           float *first, uint64_t *tokens, bool *diagonal, qsf_error *err);

/* The same, as the square roots of the diagonal, for input's sizes; user: the calibration.  *known
 * false: nothing is known about this matrix. */
qsf_status qsf_cal_sizes(void *user, uint32_t unit, uint32_t kind, uint32_t cols, float *size, bool *known,
                         qsf_error *err);

#endif
