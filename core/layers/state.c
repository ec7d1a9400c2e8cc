/* Slots of state: their bytes.
 * SPDX-License-Identifier: MIT */
#include "layers/state.h"
#include "weights/layers.h"

enum { STATE_ALIGN = 64 };      /* of a layer's part */

size_t qsf_state_place(const qsf_source *s, float quality, uint32_t n)
{
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t bytes = s->layers[i].state_bytes;
        if (bytes && qsf_layer_runs(s, quality, i)) at += (size_t)qsf_round_up(bytes, STATE_ALIGN);
    }
    return at;
}

uint64_t qsf_state_memory(size_t bytes, uint32_t n_seqs)
{
    return (uint64_t)n_seqs * QSF_STATE_SLOTS * bytes;
}

qsf_status qsf_state_init(qsf_state *st, const qsf_platform *p, size_t bytes, const qsf_state_seq *seqs,
                          uint32_t n_seqs, qsf_error *err)
{
    *st = (qsf_state){ .platform = p, .bytes = bytes, .seqs = seqs, .n_seqs = n_seqs };
    if (!bytes) return QSF_OK;
    st->data = qsf_alloc(p, qsf_state_memory(bytes, n_seqs), "state", err);
    return st->data ? QSF_OK : QSF_E_MEMORY;
}

void qsf_state_done(qsf_state *st)
{
    if (!st->bytes) return;
    qsf_dealloc(st->platform, st->data, qsf_state_memory(st->bytes, st->n_seqs));
    *st = (qsf_state){ 0 };
}

void qsf_state_copy(const qsf_state *st, uint32_t to, uint32_t from)
{
    if (from == QSF_STATE_ZERO) memset(qsf_state_slot(st, to), 0, st->bytes);
    else memcpy(qsf_state_slot(st, to), qsf_state_slot(st, from), st->bytes);
}

const uint8_t *qsf_state_before(const qsf_state *st, uint32_t s, uint32_t pos)
{
    const qsf_state_seq *q = &st->seqs[s];
    return qsf_state_slot(st, qsf_state_number(s, q->pos[q->from] == pos ? q->from : q->to));
}

uint8_t *qsf_state_after(const qsf_state *st, uint32_t s)
{
    return qsf_state_slot(st, qsf_state_number(s, st->seqs[s].to));
}
