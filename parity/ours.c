/* Batches of one sequence, with logits after every token.
 * SPDX-License-Identifier: MIT */
#include "ours.h"

#include <string.h>

static qsf_status ours_begin(void *self, size_t i, const int32_t *ids, size_t n, size_t room, qsf_error *err)
{
    qsf_context *c = self;
    (void)i, (void)ids;
    const qsf_status st = qsf_seq_truncate(c, 0, 0);
    if (st) return parity_fail(err, st, "%s", qsf_last_error(c));
    if (qsf_seq_room(c, 0) >= n + room) return QSF_OK;
    return parity_fail(err, QSF_E_FULL, "a prompt of %zu tokens and %zu more do not fit the %u positions "
                       "that the "
                       "memory has room for", n, room, (unsigned)qsf_seq_room(c, 0));
}

static qsf_status ours_rows(void *self, const int32_t *ids, size_t n, float *out, qsf_error *err)
{
    qsf_context *c = self;
    qsf_model_info info = { .size = sizeof info };
    qsf_row rows[PARITY_ROWS];
    qsf_model_get_info(qsf_context_model(c), &info);
    const uint32_t most = qsf_context_batch(c) < PARITY_ROWS ? qsf_context_batch(c) : PARITY_ROWS;
    for (size_t at = 0; at < n; at += most) {
        const size_t k = n - at < most ? n - at : most;
        for (size_t i = 0; i < k; i++) rows[i] = (qsf_row){ .token = ids[at + i], .logits = true };
        const qsf_status st = qsf_compute(c, rows, k);
        if (st) return parity_fail(err, st, "%s", qsf_last_error(c));
        for (size_t i = 0; i < k; i++)
            memcpy(out + (at + i) * info.n_vocab, qsf_logits(c, i), info.n_vocab * sizeof *out);
    }
    return QSF_OK;
}

parity_engine parity_ours_engine(qsf_context *c)
{
    qsf_model_info info = { .size = sizeof info };
    qsf_model_get_info(qsf_context_model(c), &info);
    return (parity_engine){ .self = c, .n_vocab = info.n_vocab, .name = "libqsf", .begin = ours_begin,
                            .rows = ours_rows };
}

void parity_ours_options(qsf_context_options *o, size_t positions)
{
    o->n_ctx = (uint32_t)positions;
    o->n_seqs = 1;
    o->n_logits = PARITY_ROWS;
}
