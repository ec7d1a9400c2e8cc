/* Four streams of a row instead of one (AltUp), and a short way around attention (Laurel), of
 * Gemma 3n.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ALTUP_H
#define QSF_ALTUP_H

#include "layers/pass.h"

/* Before the layer's parts: x becomes what the layer's own coefficients predict of all streams; the
 * first layer makes these. */
void qsf_altup_begin(qsf_pass_job *job);
/* After attention: LAuReL's path around it, from the normed rows. */
void qsf_laurel_run(qsf_pass_job *job);
/* x of row r, to which attention was added, takes that. */
void qsf_laurel_add(const qsf_pass *p, size_t r);
/* After the layer's parts: corrects all streams by the resulting x; xn = x, scaled. */
void qsf_altup_correct(qsf_pass_job *job);
/* t is added to all streams of row r but the first. */
void qsf_altup_add(const qsf_pass *p, size_t r, const float *t);
/* After the last layer: x becomes the mean of all streams. */
void qsf_altup_end(qsf_pass_job *job);

#endif
