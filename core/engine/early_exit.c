/* Early exit: a token whose hidden state has settled skips to the last two layers.
 * SPDX-License-Identifier: MIT
 *
 * From the middle of the stack on, every EXIT_EVERY layers, the hidden state is compared with that
 * at the previous check: if their cosine similarity reaches the threshold, the following layers are
 * assumed to change nothing (hidden-state saturation; CALM, Schuster et al. 2022,
 * arXiv:2207.07061).  The other measures of that paper need the head at each check, or a trained
 * classifier.  The last two layers, which turn the state into what the head expects, are never
 * skipped: without them the head's output for a state from the middle is useless.
 *
 * Later tokens need the keys and values of the skipped layers.  CALM computes them from the state
 * at the exit, for which it needs the layers' weights immediately.  Here the row waits: when a
 * later batch reaches the layer at which the row left, the row joins that batch, and its remaining
 * layers are computed together with the new token's, from weights that are read once for both.  So
 * keys and values finally are exactly those of a run without early exit; only the logits of tokens
 * that left early differ.  (Until then, the last two layers have the keys and values of the state
 * at the exit.)  At most QSF_EXIT_MOST rows wait; the token after that goes through all layers and
 * takes them along.
 *
 * Rows wait in the order of their positions, and earlier rows wait at the same layer or a later
 * one: a row that leaves takes all rows that joined it to the layer at which it leaves.  So the
 * rows that have joined a batch by layer L are the last few of the waiting ones. */
#include "engine/early_exit.h"

enum { EXIT_LAST = 2 };         /* layers that no token skips */
enum { EXIT_EVERY = 2 };        /* layers from one check to the next */

void qsf_exit_begin(qsf_early_exit *e)
{
    e->joined = 0;
    e->checked = e->gone = false;
}

static float *waiting_x(const qsf_early_exit *e, uint32_t i) { return e->x + (size_t)i * e->hp->n_embd; }

void qsf_exit_join(qsf_early_exit *e, qsf_batch *batch, qsf_executor *x, uint32_t layer)
{
    const uint32_t apart = e->n_waiting - e->joined;
    uint32_t n = 0;
    if (e->gone) return;
    while (n < apart && e->layer[apart - 1 - n] <= layer) n++;
    if (!n) return;
    x->does->rows_back(x, n);
    memmove(batch->rows + n, batch->rows, batch->n * sizeof *batch->rows);
    batch->n += n;
    e->joined += n;
    for (uint32_t r = 0; r < n; r++) {
        batch->rows[r] = e->rows[apart - n + r];
        x->does->rows_in(x, r, waiting_x(e, apart - n + r), NULL);
    }
    qsf_batch_group(batch);
}

double qsf_cosine(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

/* x: the last row. */
static bool exit_settled(qsf_early_exit *e, const float *x)
{
    const uint32_t n_embd = e->hp->n_embd;
    const bool settled = e->checked && qsf_cosine(x, e->last, n_embd) >= e->threshold;
    memcpy(e->last, x, n_embd * sizeof *x);
    e->checked = true;
    return settled;
}

/* All rows of the batch wait at layer `next`; the last one, which is the batch's own, also
 * continues alone. */
static void exit_leave(qsf_early_exit *e, qsf_batch *batch, qsf_executor *x, const qsf_rows *states,
                       uint32_t next)
{
    const uint32_t last = batch->n - 1;
    e->n_waiting -= e->joined;
    e->joined = 0;
    e->gone = true;
    for (uint32_t r = 0; r < batch->n; r++, e->n_waiting++) {
        const uint32_t i = e->n_waiting;
        assert(i < QSF_EXIT_MOST);
        e->rows[i] = batch->rows[r];
        e->rows[i].logits = -1;
        e->layer[i] = next;
        memcpy(waiting_x(e, i), states->x + r * states->ld, e->hp->n_embd * sizeof(float));
    }
    if (!last) return;
    batch->rows[0] = batch->rows[last];
    batch->n = 1;
    x->does->rows_in(x, 0, waiting_x(e, e->n_waiting - 1), NULL);
    qsf_batch_group(batch);
}

qsf_status qsf_exit_next(qsf_early_exit *e, qsf_batch *batch, qsf_executor *x, uint32_t n_new, uint32_t layer,
                         uint32_t *next, qsf_error *err)
{
    qsf_rows states;
    const qsf_hparams *hp = e->hp;
    const uint32_t n_layers = hp->n_layers, begin = n_layers / 2;
    /* Rows that wait would need their tokens' rows for layers, or the first layer's values. */
    if (hp->n_embd_layer || hp->mix_first) return QSF_OK;
    if (!(e->threshold > 0) || n_new != 1 || batch->n_asked != 1 || e->gone ||
        e->n_waiting == QSF_EXIT_MOST) return QSF_OK;
    if (*next + EXIT_LAST >= n_layers || layer < begin || (layer - begin) % EXIT_EVERY) return QSF_OK;
    const qsf_status st = x->does->rows_out(x, QSF_ROWS_STATES, &states, err);
    if (st || !exit_settled(e, states.x + (batch->n - 1) * states.ld)) return st;
    exit_leave(e, batch, x, &states, *next);
    *next = n_layers - EXIT_LAST;       /* neither of them is skipped for quality's sake */
    return QSF_OK;
}

void qsf_exit_end(qsf_early_exit *e)
{
    e->n_waiting -= e->joined;
    e->joined = 0;
}

void qsf_exit_drop(qsf_early_exit *e) { e->joined = 0; }

void qsf_exit_truncate(qsf_early_exit *e, uint32_t s, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < e->n_waiting; i++) {
        if (e->rows[i].seq == s && e->rows[i].pos >= n) continue;
        if (kept != i) {
            e->rows[kept] = e->rows[i];
            e->layer[kept] = e->layer[i];
            memcpy(waiting_x(e, kept), waiting_x(e, i), e->hp->n_embd * sizeof(float));
        }
        kept++;
    }
    e->n_waiting = kept;
}

qsf_status qsf_exit_check(const qsf_early_exit *e, uint32_t s, uint32_t n, qsf_error *err)
{
    for (uint32_t i = 0; i < e->n_waiting; i++)
        if (e->rows[i].seq == s && e->rows[i].pos < n)
            return qsf_fail(err, QSF_E_ARGUMENT, "sequence %u is complete only up to position %u, because "
                            "later tokens exited early; truncate it there, or compute another %d tokens",
                            (unsigned)s, (unsigned)e->rows[i].pos,
                            (int)QSF_EXIT_MOST + 1);
    return QSF_OK;
}
