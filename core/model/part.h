/* The part of a model that runs here: all of it, a range of its layers, or a share of each; the
 * rest runs elsewhere.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PART_H
#define QSF_PART_H

#include "model/source.h"

/* Whether tokens come in and become rows here; whether logits come out. */
static inline bool qsf_part_begins(const qsf_source *s) { return !s->n_before; }
static inline bool qsf_part_ends(const qsf_source *s) { return !s->n_after && !s->share; }
static inline bool qsf_part_shared(const qsf_source *s) { return s->n_shares > 1; }
static inline bool qsf_part_whole(const qsf_source *s)
{
    return qsf_part_begins(s) && qsf_part_ends(s) && !qsf_part_shared(s);
}
/* The end of its layers. */
static inline uint32_t qsf_part_end(const qsf_source *s) { return s->hp.n_layers - s->n_after; }
static inline bool qsf_part_has(const qsf_source *s, uint32_t layer)
{
    return layer >= s->n_before && layer < qsf_part_end(s);
}
/* Whether it needs the embedding's unit, which may be the head, too. */
static inline bool qsf_part_embeds(const qsf_source *s)
{
    if (s->hp.eagle) return s->hp.n_words != 0;
    return qsf_part_begins(s) || s->hp.mtp || (qsf_part_ends(s) && s->hp.tied);
}
/* The same of any unit. */
bool qsf_part_needs(const qsf_source *s, uint32_t unit);

/* Makes it layers [first, end) of an open file; end 0: to the last one.
 *
 * QSF_E_ARGUMENT      the model does not have these layers
 * QSF_E_UNSUPPORTED   layers need more than a row of hidden states from those before them */
qsf_status qsf_part_set(qsf_source *s, uint32_t first, uint32_t end, qsf_error *err);
/* Refuses a part, for what needs the whole model. */
qsf_status qsf_part_refuse(const qsf_source *s, const char *what, qsf_error *err);

#endif
