/* Layers in order, without those that quality leaves out.
 * SPDX-License-Identifier: MIT */
#include "weights/layers.h"
#include "model/part.h"

enum { LAYERS_AHEAD = 2 };        /* in parallel: one is prepared while the other is being read */

bool qsf_layer_runs(const qsf_source *s, float quality, uint32_t layer)
{
    if (!qsf_part_has(s, layer)) return false;
    if (quality >= 1 || layer < 2 || layer + 2 >= s->hp.n_layers || s->layers[layer].kv_read) return true;
    return s->units[qsf_source_unit(s, qsf_id_layer(layer))].importance >= 1 - quality;
}

uint32_t qsf_layers_run(const qsf_source *s, float quality, uint32_t n)
{
    uint32_t run = 0;
    for (uint32_t i = 0; i < n; i++) run += qsf_layer_runs(s, quality, i);
    return run;
}

uint32_t qsf_layers_kept(const qsf_source *s, float quality, uint32_t n)
{
    uint32_t run = 0;
    if (s->hp.both_ways) return n == s->hp.n_layers;
    for (uint32_t i = 0; i < n; i++) run += qsf_layer_runs(s, quality, i) && qsf_layer_has_kv(&s->layers[i]);
    return run;
}

bool qsf_layers_known(const qsf_source *s)
{
    for (uint32_t i = 0; i < s->hp.n_layers; i++)
        if (s->units[qsf_source_unit(s, qsf_id_layer(i))].importance != 1) return true;
    return false;
}

bool qsf_layer_skipped(const qsf_fetch *f, uint32_t layer)
{
    return (f->left_out && f->left_out[layer]) || !qsf_layer_runs(f->source, f->quality, layer);
}

/* The slot of a unit that is there or on the way; NULL: none. */
static const qsf_slot *layer_slot(const qsf_fetch *f, uint32_t layer)
{
    const int32_t i = f->slot_of[qsf_source_unit(f->source, qsf_id_layer(layer))];
    return i < 0 ? NULL : &f->slots[i];
}

void qsf_layers_ahead(qsf_fetch *f, uint32_t layer)
{
    const uint32_t n = f->source->hp.n_layers;
    uint32_t reading = 0;
    qsf_fetch_collect(f, &f->units);
    for (uint32_t i = 1; i < n && reading < LAYERS_AHEAD; i++) {
        const uint32_t next = (layer + i) % n;
        if (qsf_layer_skipped(f, next) || qsf_layer_elsewhere(f, next)) continue;
        if (!layer_slot(f, next)) {
            qsf_want want = qsf_want_unit(f->source, qsf_id_layer(next));
            want.ahead = true;
            want.now = layer;
            (void)qsf_fetch_start(f, &f->units, &want, NULL);   /* a failure shows when the layer is needed */
        }
        if (!layer_slot(f, next)) return;
        reading += layer_slot(f, next)->state == QSF_SLOT_READING;
    }
}
