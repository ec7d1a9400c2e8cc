/* Guessing ahead: several tokens in one pass over the layers, where what was guessed is what is picked.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdlib.h>
#include <string.h>

bool draft_begin(draft *d, const run_session *s, const int32_t *ids, size_t n)
{
    *d = (draft){ .cap = n + 256 };
    if (!s->draft) return true;
    if (!(d->ids = malloc(d->cap * sizeof *ids))) return false;
    memcpy(d->ids, ids, n * sizeof *ids);
    d->n = n;
    return true;
}

/* Takes back the guesses that were not picked. */
static void draft_drop(draft *d, run_session *s)
{
    const size_t wrong = d->n_guess - d->right;
    if (wrong) (void)qsf_seq_truncate(s->context, 0, qsf_seq_length(s->context, 0) - (uint32_t)wrong);
    d->n_guess = d->right = 0;
}

static bool draft_note(draft *d, int32_t id)
{
    if (d->n == d->cap) {
        int32_t *more = realloc(d->ids, 2 * d->cap * sizeof *more);
        if (!more) return false;
        d->ids = more;
        d->cap *= 2;
    }
    d->ids[d->n++] = id;
    return true;
}

/* How many guesses may be made: not more than tokens are wanted, or positions are free. */
static size_t draft_room(const run_session *s, long long left)
{
    qsf_plan plan;
    qsf_context_get_plan(s->context, &plan);
    const uint32_t used = qsf_seq_length(s->context, 0) + 1, batch = qsf_context_batch(s->context) - 1;
    size_t room = s->draft < batch ? s->draft : batch;
    if (left >= 0 && (size_t)left < room) room = (size_t)left;
    if (used >= plan.n_ctx) return 0;
    return plan.n_ctx - used < room ? plan.n_ctx - used : room;
}

qsf_status draft_next(draft *d, run_session *s, int32_t id, long long left, const float **logits)
{
    qsf_row rows[1 + QSF_DRAFT_MOST];
    if (!s->draft) return qsf_feed(s->context, 0, &id, 1, logits);
    if (!draft_note(d, id)) return QSF_E_MEMORY;
    if (d->right < d->n_guess && d->guess[d->right] == id) {
        *logits = qsf_logits(s->context, ++d->right);
        s->n_right++;
        return QSF_OK;
    }
    draft_drop(d, s);
    const size_t room = draft_room(s, left);
    d->n_guess = s->drafter ? draft_model_guess(s->drafter, d->ids, d->n, d->guess, room) : qsf_draft_lookup(d->ids, d->n, d->guess, room);
    rows[0] = (qsf_row){ 0, id, true };
    for (size_t i = 0; i < d->n_guess; i++) rows[1 + i] = (qsf_row){ 0, d->guess[i], true };
    const qsf_status st = qsf_compute(s->context, rows, 1 + d->n_guess);
    if (st) {
        d->n_guess = 0;
        return st;
    }
    s->n_guessed += d->n_guess;
    *logits = qsf_logits(s->context, 0);
    return QSF_OK;
}

void draft_end(draft *d, run_session *s)
{
    draft_drop(d, s);
    free(d->ids);
    *d = (draft){ 0 };
}
