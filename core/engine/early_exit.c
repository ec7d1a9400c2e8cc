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

void qsf_exit_init(qsf_early_exit *e, float threshold, const qsf_buffers *b)
{
    *e = (qsf_early_exit){ .threshold = threshold, .x = b->exit_x, .last = b->exit_last, .ld = b->ld_embd };
}

void qsf_exit_begin(qsf_early_exit *e)
{
    e->joined = 0;
    e->checked = e->gone = false;
}

static float *waiting_x(const qsf_early_exit *e, uint32_t i) { return e->x + i * e->ld; }

/* Moves the batch's rows back, to make room for n in front of them. */
static void make_room(qsf_batch *batch, const qsf_pass *p, uint32_t n)
{
    const qsf_buffers *b = p->b;
    memmove(batch->rows + n, batch->rows, batch->n * sizeof *batch->rows);
    memmove(b->x + n * b->ld_embd, b->x, batch->n * b->ld_embd * sizeof(float));
    for (uint32_t i = 0; i < p->cpu->n_ropes; i++) {
        const qsf_rope *t = &p->cpu->ropes[i];
        memmove(t->cos + (size_t)n * t->half, t->cos, (size_t)batch->n * t->half * sizeof(float));
        memmove(t->sin + (size_t)n * t->half, t->sin, (size_t)batch->n * t->half * sizeof(float));
    }
    batch->n += n;
}

void qsf_exit_join(qsf_early_exit *e, qsf_batch *batch, const qsf_pass *p, uint32_t layer)
{
    const uint32_t apart = e->n_waiting - e->joined;
    uint32_t n = 0;
    if (e->gone) return;
    while (n < apart && e->layer[apart - 1 - n] <= layer) n++;
    if (!n) return;
    make_room(batch, p, n);
    e->joined += n;
    for (uint32_t r = 0; r < n; r++) {
        batch->rows[r] = e->rows[apart - n + r];
        memcpy(p->b->x + r * e->ld, waiting_x(e, apart - n + r), e->ld * sizeof(float));
        qsf_pass_angles(p, r);
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

static bool exit_settled(qsf_early_exit *e, const qsf_pass *p)
{
    const float *x = p->b->x + (p->batch->n - 1) * e->ld;
    const bool settled = e->checked && qsf_cosine(x, e->last, p->hp->n_embd) >= e->threshold;
    memcpy(e->last, x, p->hp->n_embd * sizeof *x);
    e->checked = true;
    return settled;
}

/* All rows of the batch wait at layer `next`; the last one, which is the batch's own, also
 * continues alone. */
static void exit_leave(qsf_early_exit *e, qsf_batch *batch, const qsf_pass *p, uint32_t next)
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
        memcpy(waiting_x(e, i), p->b->x + r * e->ld, e->ld * sizeof(float));
    }
    if (!last) return;
    batch->rows[0] = batch->rows[last];
    memcpy(p->b->x, p->b->x + last * e->ld, e->ld * sizeof(float));
    batch->n = 1;
    qsf_pass_angles(p, 0);
    qsf_batch_group(batch);
}

uint32_t qsf_exit_next(qsf_early_exit *e, qsf_batch *batch, const qsf_pass *p, uint32_t n_new, uint32_t layer,
                       uint32_t next)
{
    const uint32_t n_layers = p->hp->n_layers, begin = n_layers / 2;
    /* Rows that wait would need their tokens' rows for layers, or the first layer's values. */
    if (p->hp->n_embd_layer || p->hp->mix_first) return next;
    if (!(e->threshold > 0) || n_new != 1 || batch->n_asked != 1 || e->gone ||
        e->n_waiting == QSF_EXIT_MOST) return next;
    if (next + EXIT_LAST >= n_layers || layer < begin || (layer - begin) % EXIT_EVERY ||
        !exit_settled(e, p)) return next;
    exit_leave(e, batch, p, next);
    return n_layers - EXIT_LAST;        /* neither of them is skipped for quality's sake */
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
            memcpy(waiting_x(e, kept), waiting_x(e, i), e->ld * sizeof(float));
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
