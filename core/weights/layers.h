/* Which layers run, and which are read before their turn.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_LAYERS_H
#define QSF_LAYERS_H

#include "weights/fetch.h"

/* Whether a layer runs at that quality: it is one of the first or last two, or matters enough; and
 * how many of the first n do. */
bool     qsf_layer_runs(const qsf_source *s, float quality, uint32_t layer);
uint32_t qsf_layers_run(const qsf_source *s, float quality, uint32_t n);
/* Places that the first n layers have in the KV cache: one each that runs and has keys and values.
 * All layers of an encoder share one, for nothing of a layer is looked at again. */
uint32_t qsf_layers_kept(const qsf_source *s, float quality, uint32_t n);
bool     qsf_layers_known(const qsf_source *s);         /* whether the file tells layers' importance */
/* Whether a layer is left out: it is in left_out, or does not run at the fetch's quality. */
bool     qsf_layer_skipped(const qsf_fetch *f, uint32_t layer);
/* Whether its weights need not be read. */
static inline bool qsf_layer_elsewhere(const qsf_fetch *f, uint32_t layer)
{
    return f->elsewhere && f->elsewhere[layer];
}
/* Starts reading the layers that will be missing first after `layer`, which is being computed: two
 * if slots are free for them. */
void     qsf_layers_ahead(qsf_fetch *f, uint32_t layer);

#endif
