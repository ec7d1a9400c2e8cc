/* Memory for the numbers of adapters.
 * SPDX-License-Identifier: MIT */
#include "layers/lora_room.h"

void qsf_lora_room_init(qsf_lora_room *r, const qsf_platform *p, size_t n_rows, size_t n_expert_rows)
{
    *r = (qsf_lora_room){ .platform = p, .n_rows = n_rows, .n_expert_rows = n_expert_rows };
}

void qsf_lora_room_done(qsf_lora_room *r)
{
    if (r->h) qsf_dealloc(r->platform, r->h, r->cap * sizeof *r->h);
    if (r->experts_h) qsf_dealloc(r->platform, r->experts_h, r->cap_experts * sizeof *r->h);
    *r = (qsf_lora_room){ 0 };
}

/* The places that a set's adapters have in a row. */
static size_t set_width(const qsf_lora_set *set, bool experts)
{
    size_t n = 0;
    for (uint32_t i = 0; i < set->n; i++)
        n += experts ? set->use[i].adapter->experts_width : set->use[i].adapter->width;
    return n;
}

/* *h [n_rows][*ld], *cap floats, with places for all sequences' adapters, `set` among them. */
static qsf_status rows_grow(const qsf_lora *l, const qsf_lora_set *set, bool experts, size_t n_rows,
                            float **h, size_t *ld, size_t *cap, qsf_error *err)
{
    size_t width = set_width(set, experts);
    for (uint32_t s = 0; s < l->n_seqs; s++) width = QSF_MAX(width, set_width(&l->sets[s], experts));
    *ld = width;
    if (width * n_rows <= *cap) return QSF_OK;
    float *more = qsf_alloc_array(l->platform, (uint64_t)width * n_rows, sizeof *more, "adapters", err);
    if (!more) return QSF_E_MEMORY;
    qsf_dealloc(l->platform, *h, *cap * sizeof *more);
    *h = more;
    *cap = width * n_rows;
    return QSF_OK;
}

qsf_status qsf_lora_room_grow(qsf_lora_room *r, const qsf_lora *l, const qsf_lora_set *set, qsf_error *err)
{
    const qsf_status st = rows_grow(l, set, false, r->n_rows, &r->h, &r->ld, &r->cap, err);
    return st ? st : rows_grow(l, set, true, r->n_expert_rows, &r->experts_h, &r->ld_experts,
                               &r->cap_experts, err);
}
