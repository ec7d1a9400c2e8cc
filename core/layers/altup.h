/* Four streams of a row instead of one (AltUp), and a short way around attention (Laurel), of
 * Gemma 3n.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ALTUP_H
#define QSF_ALTUP_H

#include "layers/program.h"

/* Before the layer's parts: x becomes what the layer's own coefficients predict of all streams; the
 * first layer makes these. */
void qsf_altup_list_begin(const qsf_layer *l, qsf_program *g);
/* After attention: LAuReL's path around it, from the normed rows. */
void qsf_laurel_list(const qsf_layer *l, qsf_program *g);
/* x of row r, to which attention was added, takes that. */
void qsf_laurel_add(const qsf_pass *p, size_t r);
/* After the layer's parts: corrects all streams by the resulting x; xn = x, scaled. */
void qsf_altup_list_correct(qsf_program *g);
/* All streams but the first. */
qsf_view qsf_altup_view(const qsf_program *g);
/* t is added to these streams of row r. */
void qsf_altup_add(const qsf_pass *p, size_t r, const float *t);
/* After the last layer: x becomes the mean of all streams. */
void qsf_altup_list_end(qsf_program *g);

#endif
