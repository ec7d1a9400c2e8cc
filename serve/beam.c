/* Beam search: the answers with the highest total probability, in sequences that fork.
 * SPDX-License-Identifier: MIT
 *
 * A beam has `width` paths.  Each step looks at the best continuations of all of them, keeps the
 * best `width`, and gives every live path a sequence: the first child of a path continues in its
 * parent's sequence, further children share its blocks.  A path that has ended is kept with its
 * score, the sum of its tokens' log probabilities divided by length^length_penalty; the search ends
 * when no live path can score better than the ended ones. */
#include "scheduler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct beam_path {
    double   sum;
    int32_t  seq;
    int32_t *ids;                          /* [most] */
    uint32_t n;
    qsf_turn_end end;
} beam_path;

typedef struct beam_next { double sum; uint32_t parent; int32_t token; } beam_next;

struct serve_beam {
    uint32_t   width, most, n_vocab;
    double     penalty;
    bool       ignore_end;
    beam_path *paths;                      /* [3 * width], of these: */
    beam_path *live, *made, *done;         /* [width] each; made: the next live ones */
    uint32_t   n_live, n_done;
    beam_next *next;                       /* [2 * width], best first */
    uint32_t   n_next;
    int32_t   *ids;                        /* of all paths */
};

serve_beam *beam_new(const serve_branch *b, uint32_t n_vocab, uint32_t most)
{
    const uint32_t width = (uint32_t)b->job->request.beam_width;
    serve_beam *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    *m = (serve_beam){ .width = width, .most = most ? most : 1, .n_vocab = n_vocab,
                       .penalty = b->job->request.length_penalty, .ignore_end = b->job->request.ignore_end };
    m->live = m->paths = calloc(3 * (size_t)width, sizeof *m->paths);
    m->next = calloc(2 * (size_t)width, sizeof *m->next);
    m->ids = calloc(3 * (size_t)width * m->most, sizeof *m->ids);
    if (!m->paths || !m->next || !m->ids) return beam_free(m), NULL;
    m->made = m->live + width;
    m->done = m->made + width;
    for (uint32_t i = 0; i < 3 * width; i++)
        m->live[i] = (beam_path){ .seq = -1, .ids = m->ids + (size_t)i * m->most };
    m->n_live = 1;
    m->live[0].seq = b->seq;
    return m;
}

void beam_free(serve_beam *m)
{
    if (!m) return;
    free(m->paths);
    free(m->next);
    free(m->ids);
    free(m);
}

uint32_t beam_rows(const serve_beam *m, qsf_row *rows)
{
    for (uint32_t i = 0; rows && i < m->n_live; i++)
        rows[i] = (qsf_row){ m->live[i].seq, m->live[i].ids[m->live[i].n - 1], true };
    return m->n_live;
}

uint32_t beam_blocks(seq_pool *p, const serve_beam *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_live; i++) n += qsf_schedule_blocks(p->schedule, m->live[i].seq, 1);
    return n;
}

void beam_release(serve_beam *m, seq_pool *p)
{
    for (uint32_t i = 0; i < m->n_live; i++) seq_give_back(p, (uint32_t)m->live[i].seq);
    m->n_live = 0;
}

/* ---- one step ---- */

static double path_score(const serve_beam *m, double sum, uint32_t n)
{
    return sum / pow(n ? n : 1, m->penalty);
}

static void next_add(serve_beam *m, beam_next c)
{
    uint32_t at = m->n_next < 2 * m->width ? m->n_next++ : m->n_next - 1;
    for (; at > 0 && m->next[at - 1].sum < c.sum; at--) m->next[at] = m->next[at - 1];
    m->next[at] = c;
}

/* Adds the best continuations of a path to those of the others. */
static void beam_look(serve_beam *m, uint32_t parent, const float *logits)
{
    float top = -INFINITY;
    double sum = 0;
    for (uint32_t i = 0; i < m->n_vocab; i++) top = logits[i] > top ? logits[i] : top;
    for (uint32_t i = 0; i < m->n_vocab; i++) sum += (double)expf(logits[i] - top);
    const double base = m->live[parent].sum - (double)top - log(sum);
    for (uint32_t i = 0; i < m->n_vocab; i++) {
        const double s = base + (double)logits[i];
        if (m->n_next == 2 * m->width && !(s > m->next[m->n_next - 1].sum)) continue;
        next_add(m, (beam_next){ s, parent, (int32_t)i });
    }
}

/* Adds an ended path to the best ones; if they are full, the worst one is dropped. */
static void beam_done(serve_beam *m, const beam_path *path, double sum, qsf_turn_end end)
{
    uint32_t at = m->n_done;
    const double score = path_score(m, sum, path->n);
    if (m->n_done == m->width) {
        double least = INFINITY;
        for (uint32_t i = 0; i < m->width; i++) {
            const double s = path_score(m, m->done[i].sum, m->done[i].n);
            if (s < least) at = i;
            least = fmin(least, s);
        }
        if (least >= score) return;
    } else {
        m->n_done++;
    }
    beam_path *d = &m->done[at];
    memcpy(d->ids, path->ids, path->n * sizeof *path->ids);
    d->n = path->n;
    d->sum = sum;
    d->end = end;
}

/* Whether the best live path can still score better than the worst ended one. */
static bool beam_hopes(const serve_beam *m)
{
    if (m->n_done < m->width) return true;
    double least = INFINITY;
    for (uint32_t i = 0; i < m->n_done; i++)
        least = fmin(least, path_score(m, m->done[i].sum, m->done[i].n));
    return path_score(m, m->live[0].sum, m->penalty > 0 ? m->most : m->live[0].n) > least;
}

/* Makes made[i] from a continuation: in the sequence of its parent, or in a copy of it.  false: no
 * room for the copy. */
static bool beam_fork(serve_beam *m, seq_pool *p, uint32_t i, const beam_next *c, bool *taken)
{
    beam_path *to = &m->made[i];
    const beam_path *from = &m->live[c->parent];
    memcpy(to->ids, from->ids, from->n * sizeof *from->ids);
    to->ids[from->n] = c->token;
    to->n = from->n + 1;
    to->sum = c->sum;
    to->seq = from->seq;
    if (!*taken) return *taken = true;
    if ((to->seq = seq_take(p, -1)) < 0) return false;
    if (!seq_adapt(p, to->seq, &p->loras[from->seq])
        && !qsf_seq_share(p->context, to->seq, from->seq, qsf_seq_length(p->context, from->seq))) return true;
    seq_give_back(p, (uint32_t)to->seq);
    return false;
}

bool beam_step(serve_beam *m, seq_pool *p, const qsf_model *model, size_t first)
{
    enum { WIDEST = 16 };
    bool wanted[WIDEST] = { false }, taken[WIDEST] = { false };
    uint32_t n = 0, n_chosen = 0;
    m->n_next = 0;
    for (uint32_t i = 0; i < m->n_live; i++) beam_look(m, i, qsf_logits(p->context, first + i));
    for (uint32_t i = 0; i < m->n_next && n_chosen < m->width; i++) {
        const beam_next c = m->next[i];
        if (m->ignore_end || !qsf_token_is_end(model, c.token)) {
            wanted[c.parent] = true;
            m->next[n_chosen++] = c;
        } else if (i < m->width) {
            beam_done(m, &m->live[c.parent], c.sum, QSF_TURN_END_TOKEN);
        }
    }
    for (uint32_t i = 0; i < m->n_live; i++)
        if (!wanted[i]) seq_give_back(p, (uint32_t)m->live[i].seq);
    for (uint32_t i = 0; i < n_chosen; i++)
        n += beam_fork(m, p, n, &m->next[i], &taken[m->next[i].parent]);
    beam_path *old = m->live;
    m->live = m->made;
    m->made = old;
    m->n_live = n;
    return n && m->live[0].n < m->most && beam_hopes(m);
}

/* ---- the answers ---- */

static int path_order(const void *a, const void *b)
{
    const beam_path *x = a, *y = b;
    return x->sum < y->sum ? 1 : x->sum > y->sum ? -1 : 0;
}

/* Paths that have not ended are ended now; the sums become scores, best first. */
void beam_finish(serve_beam *m, qsf_turn_end end)
{
    for (uint32_t i = 0; i < m->n_live; i++) beam_done(m, &m->live[i], m->live[i].sum, end);
    for (uint32_t i = 0; i < m->n_done; i++) m->done[i].sum = path_score(m, m->done[i].sum, m->done[i].n);
    qsort(m->done, m->n_done, sizeof *m->done, path_order);
}

bool beam_answer(const serve_beam *m, uint32_t i, const int32_t **ids, uint32_t *n, double *score,
                 qsf_turn_end *end)
{
    if (i >= m->n_done) return false;
    *ids = m->done[i].ids;
    *n = m->done[i].n;
    *score = m->done[i].sum;
    *end = m->done[i].end;
    return true;
}
