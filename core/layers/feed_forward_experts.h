/* A feed-forward of experts: a router chooses some of them for each row.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_FEED_FORWARD_EXPERTS_H
#define QSF_FEED_FORWARD_EXPERTS_H

#include "layers/program.h"

/* At the beginning of a layer: if its router chooses by the layer's input, its logits. */
void qsf_feed_forward_experts_list_early(const qsf_layer *l, qsf_program *g);
/* From the normed rows to its output: xn -> tmp. */
void qsf_feed_forward_experts_list(const qsf_layer *l, qsf_program *g);

/* The walk through the chosen experts (p->cpu->walk) goes in waves of as many slots as fit, or as
 * many experts as have been read.  Begins a wave; ends it: whether others follow. */
void qsf_wave_begin(const qsf_pass *p);
bool qsf_wave_end(const qsf_pass *p);
/* Slots of the wave; tiles of `rows` rows that its experts can touch in their parts of a matrix. */
size_t qsf_wave_slots(const qsf_pass *p);
size_t qsf_wave_tiles(const qsf_pass *p, size_t rows);

#endif
