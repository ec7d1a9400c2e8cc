/* Drafts by a draft model: a second, small model with the same vocabulary predicts what the first
 * will write (speculative decoding, Leviathan et al. 2022, arXiv:2211.17192).
 * SPDX-License-Identifier: MIT
 *
 * Every sequence of the model has one of the draft model, with the same number.  After each batch
 * of the model its tokens are noted, and a prompt's are computed here soon after they were
 * computed there; the few that are left are computed with the next guess.  Guesses that were right
 * stay in the sequence.  A sequence that came from a file is noted when a guess names its tokens,
 * and is computed along with later batches, a part at a time. */
#include "model/part.h"
#include "turn/eagle.h"

#define DRAFT_SURE 0.3f         /* guesses below this probability are not made */

typedef struct draft_seq {
    struct qsf_draft_model *of;
    qsf_seq   seq;
    int32_t  *ids;              /* [n_ctx] known tokens; the draft model's sequence has the first ones */
    uint32_t  n;                /* of ids */
} draft_seq;

struct qsf_draft_model {
    const qsf_platform *platform;
    qsf_context *context, *small;
    bool         failed;
    qsf_error    error;
    uint32_t     n_seqs, n_ctx, n_vocab, most;      /* most: positions that the draft model can compute */
    uint32_t     rows, group;
    draft_seq   *seqs;          /* [n_seqs] */
    int32_t     *ids;           /* [n_seqs][n_ctx] */
};

/* ---- the draft model's sequence ---- */

static uint32_t draft_length(const draft_seq *s) { return qsf_seq_length(s->of->small, s->seq); }

/* Computed tokens from place n on are forgotten; a model with state may go further back. */
static void draft_cut(draft_seq *s, uint32_t n)
{
    if (draft_length(s) > n && qsf_seq_truncate(s->of->small, s->seq, n))
        (void)qsf_seq_truncate(s->of->small, s->seq, 0);
}

/* Known tokens that are not computed. */
static uint32_t draft_lag(const draft_seq *s)
{
    const uint32_t n = QSF_MIN(s->n, s->of->most), length = draft_length(s);
    return n > length ? n - length : 0;
}

/* Rows of the first n tokens that are not computed. */
static void draft_fill(const draft_seq *s, uint32_t n, qsf_row *rows)
{
    const uint32_t length = draft_length(s), n_vocab = s->of->n_vocab;
    for (uint32_t i = 0; i < n; i++) {
        const int32_t id = s->ids[length + i];
        rows[i] = (qsf_row){ s->seq, (uint32_t)id < n_vocab ? id : 0, false };     /* 0: one of the padding */
    }
}

/* If the draft model's memory is full, tokens wait until there is room. */
static bool draft_compute(qsf_draft_model *d, const qsf_row *rows, uint32_t n)
{
    const qsf_status st = qsf_compute(d->small, rows, n);
    if (!st || st == QSF_E_FULL) return !st;
    d->failed = true;
    qsf_guess_failed(d->small, st, &d->error);
    return false;
}

/* Computes batches of known tokens, of at least `most` rows in total if that many wait. */
static void draft_catch_up(draft_seq *s, uint32_t most)
{
    qsf_row rows[GUESS_ROWS];
    qsf_draft_model *d = s->of;
    for (uint32_t done = 0; done < most && draft_lag(s) >= d->rows; done += d->rows) {
        draft_fill(s, d->rows, rows);
        if (!draft_compute(d, rows, d->rows)) return;
    }
}

/* ---- what the model's context does ---- */

static void draft_take(draft_seq *s, uint32_t pos, int32_t token)
{
    if (pos >= s->of->n_ctx || pos > s->n) return;          /* tokens are missing: the next guess has them */
    if (pos < s->n && s->ids[pos] == token) return;
    s->ids[pos] = token;
    s->n = pos + 1;
    draft_cut(s, pos);
}

static void draft_seen(void *user, qsf_context *c)
{
    qsf_draft_model *d = user;
    const qsf_batch *b = &c->batch;
    for (uint32_t i = 0; i < b->n && !d->failed; i++) {
        const qsf_batch_row *row = &b->rows[i];
        if (row->seq >= d->n_seqs) continue;
        draft_seq *s = &d->seqs[row->seq];
        draft_take(s, row->pos, row->token);
        if (i + 1 == b->n || b->rows[i + 1].seq != row->seq) draft_catch_up(s, b->n);
    }
}

static void draft_went_back(void *user, uint32_t seq, uint32_t n)
{
    qsf_draft_model *d = user;
    if (seq >= d->n_seqs) return;
    draft_seq *s = &d->seqs[seq];
    s->n = QSF_MIN(s->n, n);
    draft_cut(s, n);
}

static void draft_shared(void *user, uint32_t dst, uint32_t src, uint32_t n)
{
    qsf_draft_model *d = user;
    draft_went_back(d, dst, dst == src ? n : 0);
    if (dst == src || dst >= d->n_seqs || src >= d->n_seqs) return;
    draft_seq *to = &d->seqs[dst], *from = &d->seqs[src];
    n = QSF_MIN(n, from->n);
    (void)qsf_seq_share(d->small, to->seq, from->seq, QSF_MIN(n, draft_length(from)));
    memcpy(to->ids, from->ids, n * sizeof *to->ids);
    to->n = n;
}

/* ---- guesses ---- */

/* Guesses of sequences whose last tokens were just computed, with logits. */
static void draft_continue(qsf_draft_model *d, qsf_guess *const *list, size_t n)
{
    qsf_guess *live[GUESS_GROUP];
    qsf_row rows[GUESS_GROUP];
    memcpy(live, list, n * sizeof *list);
    while (n) {
        size_t kept = 0;
        for (size_t i = 0; i < n; i++) {
            qsf_guess *g = live[i];
            const float *logits = qsf_logits(d->small, i);
            const int32_t id = logits ? qsf_guess_pick(logits, d->n_vocab, DRAFT_SURE) : -1;
            if (id < 0 || (uint32_t)id >= d->context->hp->n_vocab) continue;
            g->out[g->found++] = id;
            if (g->found == g->cap) continue;
            rows[kept] = (qsf_row){ ((draft_seq *)g->user)->seq, id, true };
            live[kept++] = g;
        }
        n = kept;
        if (n && !draft_compute(d, rows, (uint32_t)n)) return;
        for (size_t i = 0; i < n; i++) {
            draft_seq *s = live[i]->user;
            s->ids[s->n++] = rows[i].token;
        }
    }
}

/* Guesses of several sequences, whose waiting tokens fit in a batch. */
static void draft_together(void *model, qsf_guess *const *list, size_t n)
{
    qsf_draft_model *d = model;
    qsf_row rows[GUESS_ROWS];
    uint32_t n_rows = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t lag = draft_lag(list[i]->user);
        draft_fill(list[i]->user, lag, rows + n_rows);
        n_rows += lag;
        rows[n_rows - 1].logits = true;
    }
    if (d->failed || !draft_compute(d, rows, n_rows)) return;
    for (size_t i = 0; i < n; i++)              /* guesses follow, which may be wrong */
        (void)qsf_seq_checkpoint(d->small, ((draft_seq *)list[i]->user)->seq);
    draft_continue(d, list, n);
}

/* Notes the tokens; whether few enough of them wait. */
static bool draft_ready(qsf_guess *g, size_t *rows)
{
    draft_seq *s = g->user;
    const qsf_draft_model *d = s->of;
    g->found = 0;
    if (d->failed || !g->n || g->n >= d->most) return false;
    g->cap = QSF_MIN(QSF_MIN(g->cap, (size_t)QSF_DRAFT_MOST), d->most - g->n);
    uint32_t same = 0;
    const uint32_t n = (uint32_t)g->n, both = QSF_MIN(n, s->n);
    while (same < both && s->ids[same] == g->ids[same]) same++;
    draft_cut(s, QSF_MIN(same, n - 1));
    memcpy(s->ids + same, g->ids + same, (n - same) * sizeof *s->ids);
    s->n = n;
    *rows = draft_lag(s);
    return g->cap && *rows <= d->rows;
}

void qsf_draft_model_guess_many(qsf_guess *list, size_t n)
{
    qsf_draft_model *d = n ? ((draft_seq *)list[0].user)->of : NULL;
    if (!d) return;
    const qsf_guess_maker m = { d, d->group, d->rows, draft_ready, draft_together };
    qsf_guess_groups(&m, list, n);
}

size_t qsf_draft_model_guess(void *user, const int32_t *ids, size_t n, int32_t *out, size_t cap)
{
    qsf_guess one = { .user = user, .ids = ids, .n = n, .out = out, .cap = cap };
    qsf_draft_model_guess_many(&one, 1);
    return one.found;
}

/* ---- life ---- */

qsf_status qsf_draft_model_check(const qsf_model *m, const qsf_model *small, qsf_error *err)
{
    const uint32_t a = m->source->hp.n_vocab, b = small->source->hp.n_vocab, both = QSF_MIN(a, b);
    if (small->source->hp.eagle) return qsf_eagle_check(m, small, err);
    if (QSF_MAX(a, b) - both > GUESS_PADDED)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: its vocabulary has %u tokens, the model's has %u; a draft "
                        "model needs the same vocabulary", small->source->path, (unsigned)b, (unsigned)a);
    return qsf_guess_same_words(m, small, both, "a draft model", err);
}

uint64_t qsf_draft_model_bytes(const qsf_context_options *o)
{
    return sizeof(qsf_draft_model) + o->n_seqs * (sizeof(draft_seq) + (uint64_t)o->n_ctx * sizeof(int32_t));
}

qsf_status qsf_draft_model_new(qsf_context *c, qsf_context *small, qsf_draft_model **out, qsf_error *err)
{
    *out = NULL;
    const qsf_status st = qsf_draft_model_check(c->model, small->model, err);
    if (st) return st;
    if (small->hp->eagle)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s is an EAGLE 3 head, not a draft model: qsf_mtp_new takes it",
                        small->model->source->path);
    if (!qsf_part_whole(c->model->source))
        return qsf_part_refuse(c->model->source, "a draft model", err);
    qsf_draft_model *d = qsf_alloc(c->platform, sizeof *d, "drafts", err);
    if (!d) return QSF_E_MEMORY;
    const uint32_t trained = small->hp->n_ctx_train;
    *d = (qsf_draft_model){ .platform = c->platform, .small = small,
                            .n_seqs = QSF_MIN(c->o.n_seqs, small->o.n_seqs),
                            .n_ctx = small->o.n_ctx, .n_vocab = small->hp->n_vocab, .most = small->o.n_ctx,
                            .rows = qsf_guess_rows(&small->o), .group = qsf_guess_group(&small->o) };
    if (trained) d->most = QSF_MIN(d->most, trained);
    if (!(d->seqs = qsf_alloc_array(d->platform, d->n_seqs, sizeof *d->seqs, "sequences", err)) ||
        !(d->ids = qsf_alloc_array(d->platform, (uint64_t)d->n_seqs * d->n_ctx, sizeof *d->ids, "tokens",
                                   err))) {
        qsf_draft_model_free(d);
        return QSF_E_MEMORY;
    }
    for (uint32_t i = 0; i < d->n_seqs; i++)
        d->seqs[i] = (draft_seq){ .of = d, .seq = (qsf_seq)i, .ids = d->ids + (size_t)i * d->n_ctx };
    d->context = c;
    c->follower = (qsf_follower){ .user = d, .seen = draft_seen, .back = draft_went_back,
                                  .copy = draft_shared };
    *out = d;
    return QSF_OK;
}

void qsf_draft_model_free(qsf_draft_model *d)
{
    if (!d) return;
    const qsf_platform *p = d->platform;
    if (d->context) d->context->follower = (qsf_follower){ 0 };
    if (d->ids) qsf_dealloc(p, d->ids, (uint64_t)d->n_seqs * d->n_ctx * sizeof *d->ids);
    if (d->seqs) qsf_dealloc(p, d->seqs, d->n_seqs * sizeof *d->seqs);
    qsf_dealloc(p, d, sizeof *d);
}

void *qsf_draft_model_user(qsf_draft_model *d, qsf_seq s)
{
    return s >= 0 && (uint32_t)s < d->n_seqs ? &d->seqs[s] : NULL;
}

const char *qsf_draft_model_error(const qsf_draft_model *d) { return d->failed ? d->error.text : ""; }

#undef DRAFT_SURE
