/* Early exit: a token whose hidden state has settled goes to the last two layers at once.
 * SPDX-License-Identifier: MIT
 *
 * From the middle of the stack on, every QSF_EXIT_EVERY layers, the hidden state is compared with that of the check before: where their cosine is the
 * threshold or more, the layers that follow are taken to change nothing (hidden-state saturation; CALM, Schuster et al. 2022, arXiv:2207.07061).  Other
 * measures there need the head at each check, or a trained classifier.  The last two layers, which turn the state into what the head expects, are not left out:
 * without them the head makes nothing of a state from the middle.
 *
 * Tokens that follow need the keys and values of the layers that were left.  CALM makes them from the state at the exit, for which it needs the layers' weights
 * at once.  Here the row waits: when a later batch comes to the layer where it left, it joins that batch as one more row, and the rest of its layers is computed
 * beside the new token's from weights that are read once for both.  So keys and values come to be exactly what they are without early exit; only the
 * logits of tokens that left are not.  (In the last two layers they are those of the state at the exit until then.)  At most QSF_EXIT_MOST rows wait; the
 * token after that goes through all layers and takes them along.
 *
 * Rows wait in the order of their positions, and those in front wait at later layers or the same: who leaves takes all that joined it to where it
 * leaves.  So a batch at layer L has been joined by the last few of them. */
#include "engine/context.h"

enum { EXIT_LAST = 2 };         /* layers that no token leaves out */

static float *exit_x(const qsf_context *c, uint32_t i) { return c->b.exit_x + i * c->b.ld_embd; }

/* Before layer `layer` is computed: rows that wait for it, or for one that was left out, come in front of the batch's own. */
void qsf_exit_join(qsf_context *c, uint32_t layer)
{
    qsf_exit *e = &c->left;
    uint32_t n = 0;
    if (e->left) return;
    while (n < e->n - e->joined && e->layer[e->n - e->joined - 1 - n] <= layer) n++;
    if (!n) return;
    const uint32_t from = e->n - e->joined - n;
    memmove(c->rows + n, c->rows, c->n_rows * sizeof *c->rows);
    memmove(c->b.x + n * c->b.ld_embd, c->b.x, c->n_rows * c->b.ld_embd * sizeof(float));
    for (int i = 0; i < 2; i++) {
        const size_t half = c->rope[i].half;
        memmove(c->b.cos[i] + n * half, c->b.cos[i], c->n_rows * half * sizeof(float));
        memmove(c->b.sin[i] + n * half, c->b.sin[i], c->n_rows * half * sizeof(float));
    }
    c->n_rows += n;
    e->joined += n;
    for (uint32_t r = 0; r < n; r++) {
        c->rows[r] = e->rows[from + r];
        memcpy(c->b.x + r * c->b.ld_embd, exit_x(c, from + r), c->b.ld_embd * sizeof(float));
        qsf_forward_angles(c, r);
    }
    qsf_batch_group(c);
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

static bool exit_settled(qsf_context *c)
{
    qsf_exit *e = &c->left;
    const float *x = c->b.x + (c->n_rows - 1) * c->b.ld_embd;
    const bool settled = e->checked && qsf_cosine(x, c->b.exit_last, c->hp->n_embd) >= c->o.early_exit;
    memcpy(c->b.exit_last, x, c->hp->n_embd * sizeof *x);
    e->checked = true;
    return settled;
}

/* All rows of the batch wait at layer `next`; the last one, which is the batch's own, also goes on alone. */
static void exit_leave(qsf_context *c, uint32_t next)
{
    qsf_exit *e = &c->left;
    const uint32_t last = c->n_rows - 1;
    e->n -= e->joined;
    e->joined = 0;
    e->left = true;
    for (uint32_t r = 0; r < c->n_rows; r++, e->n++) {
        assert(e->n < QSF_EXIT_MOST);
        e->rows[e->n] = c->rows[r];
        e->rows[e->n].logits = -1;
        e->layer[e->n] = next;
        memcpy(exit_x(c, e->n), c->b.x + r * c->b.ld_embd, c->b.ld_embd * sizeof(float));
    }
    if (!last) return;
    c->rows[0] = c->rows[last];
    memcpy(c->b.x, c->b.x + last * c->b.ld_embd, c->b.ld_embd * sizeof(float));
    c->n_rows = 1;
    qsf_forward_angles(c, 0);
    qsf_batch_group(c);
}

/* The layer after `layer`, which was computed; next: the one that would follow. */
uint32_t qsf_exit_next(qsf_context *c, uint32_t layer, uint32_t next)
{
    const uint32_t n_layers = c->hp->n_layers, begin = n_layers / 2;
    if (!(c->o.early_exit > 0) || c->n_new != 1 || c->n_asked != 1 || c->left.left || c->left.n == QSF_EXIT_MOST) return next;
    if (next + EXIT_LAST >= n_layers || layer < begin || (layer - begin) % QSF_EXIT_EVERY || !exit_settled(c)) return next;
    for (uint32_t i = next; i + EXIT_LAST < n_layers; i++)
        c->stats.layers_left += !qsf_layer_skipped(&c->fetch, i);
    exit_leave(c, next);
    return n_layers - EXIT_LAST;        /* neither of them is skipped for quality's sake */
}

void qsf_exit_begin(qsf_context *c)
{
    c->left.joined = 0;
    c->left.checked = c->left.left = false;
}

/* The batch is done, and so are the rows that joined it, unless it has left. */
void qsf_exit_end(qsf_context *c)
{
    c->left.n -= c->left.joined;
    c->left.joined = 0;
}

/* Positions of sequence s from n on are gone. */
void qsf_exit_truncate(qsf_context *c, uint32_t s, uint32_t n)
{
    qsf_exit *e = &c->left;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < e->n; i++) {
        if (e->rows[i].seq == s && e->rows[i].pos >= n) continue;
        if (kept != i) {
            e->rows[kept] = e->rows[i];
            e->layer[kept] = e->layer[i];
            memcpy(exit_x(c, kept), exit_x(c, i), c->b.ld_embd * sizeof(float));
        }
        kept++;
    }
    e->n = kept;
}

qsf_status qsf_exit_check(const qsf_context *c, uint32_t s, uint32_t n, qsf_error *err)
{
    for (uint32_t i = 0; i < c->left.n; i++)
        if (c->left.rows[i].seq == s && c->left.rows[i].pos < n)
            return qsf_fail(err, QSF_E_ARGUMENT, "sequence %u is computed to the end only up to position %u: early exit has left the others; cut it there, or compute another %d tokens",
                            (unsigned)s, (unsigned)c->left.rows[i].pos, (int)QSF_EXIT_MOST + 1);
    return QSF_OK;
}
