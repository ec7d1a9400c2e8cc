/* Drafts by a layer for multi-token prediction: the model's hidden state at a position and the next
 * token predict the token after that; the layer's own hidden state and that token the next one.
 * SPDX-License-Identifier: MIT
 *
 * Row p of the layer's sequence is made of the hidden state at position p of the model's and of
 * token p + 1.  Hidden states wait in a store until the next token is known: in a prompt that is
 * the next row's, and at its end the one that was picked.  Positions of the layer's sequence count
 * from the first hidden state that it got. */
#include "engine/context.h"
#include "model/part.h"
#include "turn/draft_gain.h"

#if !defined(QSF_NO_MTP)

/* Hidden states that wait, at most.  Below this probability a guess is more often wrong than a row
 * of the model is worth. */
enum { MTP_STORE = 64 };
#define MTP_SURE 0.3f

typedef struct mtp_seq {
    struct qsf_mtp *of;
    qsf_seq   seq;
    uint32_t  base, fed;        /* rows of the layer's sequence, and the model's position of the first */
    uint32_t  first, n;         /* stored rows, at positions first to first + n - 1; base + fed == first */
    float    *store;            /* [store_rows][n_embd] */
    int32_t   tokens[MTP_STORE];
    int32_t  *paired;           /* [n_ctx] the tokens of the rows of the layer's sequence */
    int32_t   guess[QSF_DRAFT_MOST];
    size_t    n_guess, at;      /* the last guess, and the place of its first token */
} mtp_seq;

struct qsf_mtp {
    const qsf_platform *platform;
    qsf_context   *context, *layer;
    qsf_draft_gain gain;
    bool           fixed, failed;
    qsf_error      error;
    uint32_t       n_seqs, n_ctx, n_embd, n_vocab, store_rows;
    mtp_seq       *seqs;        /* [n_seqs] */
    float         *floats;      /* [n_seqs][store_rows][n_embd], then [n_embd] the last hidden state */
    int32_t       *paired;      /* [n_seqs][n_ctx] */
};

/* ---- the layer's sequence ---- */

static void mtp_cut(mtp_seq *s, uint32_t rows)
{
    s->fed = rows;
    if (qsf_seq_length(s->of->layer, s->seq) == rows) return;
    if (!qsf_seq_truncate(s->of->layer, s->seq, rows)) return;
    (void)qsf_seq_truncate(s->of->layer, s->seq, 0);
    s->base = s->first;
    s->fed = 0;
}

static void mtp_restart(mtp_seq *s, uint32_t pos)
{
    s->base = s->first = pos;
    s->n = 0;
    mtp_cut(s, 0);
}

/* Forgets the rows from position pos on. */
static void mtp_back(mtp_seq *s, uint32_t pos)
{
    if (pos < s->base) {
        mtp_restart(s, pos);
    } else if (pos < s->first) {
        s->n = 0;
        s->first = pos;
        mtp_cut(s, pos - s->base);
    } else {
        s->n = QSF_MIN(s->n, pos - s->first);
    }
}

/* Feeds the stored rows; next: the token after the last one. */
static qsf_status mtp_feed(mtp_seq *s, int32_t next, bool logits)
{
    qsf_mtp *d = s->of;
    qsf_row rows[MTP_STORE];
    if (!s->n) return QSF_OK;
    if (s->fed + s->n > d->n_ctx) {     /* a window of the model moves on without end */
        s->base = s->first;
        mtp_cut(s, 0);
    }
    for (uint32_t i = 0; i < s->n; i++) {
        rows[i] = (qsf_row){ s->seq, i + 1 < s->n ? s->tokens[i + 1] : next, logits && i + 1 == s->n };
        s->paired[s->fed + i] = rows[i].token;
    }
    const uint32_t n = s->n;
    const qsf_status st = qsf_compute_from(d->layer, rows, n, s->store);
    s->n = 0;
    s->first += n;
    if (st) {
        mtp_restart(s, s->first);
        if (st == QSF_E_FULL) return st;
        d->failed = true;
        d->error = (qsf_error){ .status = st };
        qsf_format(d->error.text, sizeof d->error.text, "%s", qsf_last_error(d->layer));
        return st;
    }
    s->fed += n;
    return QSF_OK;
}

/* A row of the model was computed. */
static void mtp_take(mtp_seq *s, const qsf_batch_row *row, const float *state)
{
    qsf_mtp *d = s->of;
    const uint32_t pos = row->pos;
    /* rows are missing: a loaded session, a shared prefix */
    if (pos > s->first + s->n) mtp_restart(s, pos);
    mtp_back(s, pos);
    /* The last row was made with another token, and its hidden state is gone: leave it out. */
    if (!s->n && s->fed && s->paired[s->fed - 1] != row->token) {
        s->base++;
        mtp_cut(s, s->fed - 1);
    }
    if (s->n == d->store_rows && mtp_feed(s, row->token, false) && d->failed) return;
    memcpy(s->store + (size_t)s->n * d->n_embd, state, d->n_embd * sizeof *state);
    s->tokens[s->n++] = row->token;
}

static void mtp_seen(void *user, qsf_context *c)
{
    qsf_mtp *d = user;
    const uint32_t n = c->now.n_hidden, first = c->batch.n - QSF_MIN(n, c->batch.n);
    if (n == c->batch.n_asked) qsf_draft_gain_pass(&d->gain, n, qsf_now(c->platform) - c->now.begun_ns);
    for (uint32_t i = 0; i < n && !d->failed; i++) {
        const qsf_batch_row *row = &c->batch.rows[first + i];
        mtp_take(&d->seqs[row->seq], row, qsf_hidden(c, i));
    }
}

/* ---- guesses ---- */

/* The most likely token; -1: the layer is not sure. */
static int32_t mtp_pick(const qsf_mtp *d, const float *logits)
{
    uint32_t best = 0;
    float sum = 0;
    for (uint32_t i = 1; i < d->n_vocab; i++)
        if (logits[i] > logits[best]) best = i;
    for (uint32_t i = 0; i < d->n_vocab && !d->fixed; i++) sum += expf(logits[i] - logits[best]);
    return d->fixed || sum * MTP_SURE <= 1 ? (int32_t)best : -1;
}

/* Up to cap guesses; the layer has just computed the last row of n, with logits. */
static size_t mtp_continue(mtp_seq *s, uint32_t n, int32_t *out, size_t cap)
{
    qsf_mtp *d = s->of;
    float *state = d->floats + (size_t)d->n_seqs * d->store_rows * d->n_embd;
    size_t found = 0;
    for (;;) {
        const float *logits = qsf_logits(d->layer, 0), *hidden = qsf_hidden(d->layer, n - 1);
        const int32_t id = logits && hidden ? mtp_pick(d, logits) : -1;
        if (id < 0) break;
        out[found++] = id;
        if (found == cap) break;
        memcpy(state, hidden, d->n_embd * sizeof *state);
        const qsf_row row = { s->seq, id, true };
        if (qsf_compute_from(d->layer, &row, n = 1, state)) break;
    }
    mtp_cut(s, s->fed);                 /* rows of guesses were made without the model's hidden states */
    return found;
}

static void mtp_judge(mtp_seq *s, const int32_t *ids, size_t n)
{
    size_t right = 0;
    const size_t known = n > s->at ? QSF_MIN(n - s->at, s->n_guess) : 0;
    while (right < known && ids[s->at + right] == s->guess[right]) right++;
    qsf_draft_gain_judge(&s->of->gain, known, right);
    s->n_guess = 0;
}

size_t qsf_mtp_guess(void *user, const int32_t *ids, size_t n, int32_t *out, size_t cap)
{
    mtp_seq *s = user;
    qsf_mtp *d = s->of;
    cap = QSF_MIN(cap, (size_t)QSF_DRAFT_MOST);
    if (d->failed || n < 2 || n > UINT32_MAX) return 0;
    mtp_judge(s, ids, n);
    if (!d->fixed) cap = qsf_draft_gain_choose(&d->gain, cap);
    mtp_back(s, (uint32_t)n - 1);
    if (!cap || !s->n || s->first + s->n != n - 1) return 0;
    const uint64_t begin = qsf_now(d->platform);
    const uint32_t rows = s->n;
    if (mtp_feed(s, ids[n - 1], true)) return 0;
    const size_t found = mtp_continue(s, rows, out, cap);
    qsf_draft_gain_made(&d->gain, QSF_MAX(found, 1u), qsf_now(d->platform) - begin);
    memcpy(s->guess, out, found * sizeof *out);
    s->n_guess = found;
    s->at = n;
    return found;
}

/* ---- life ---- */

static qsf_status mtp_check(const qsf_context *c, const qsf_context *layer, qsf_error *err)
{
    const qsf_hparams *a = c->hp, *b = layer->hp;
    if (!b->mtp || !qsf_part_ends(layer->model->source))
        return qsf_fail(err, QSF_E_ARGUMENT, "%s was not opened with its layer for multi-token prediction "
                        "(mtp of qsf_model_options)", layer->model->source->path);
    if (!qsf_part_whole(c->model->source))
        return qsf_part_refuse(c->model->source, "a layer for multi-token prediction", err);
    if (a->n_embd != b->n_embd || a->n_vocab != b->n_vocab || a->n_layers + 1 != b->n_layers ||
        strcmp(a->arch, b->arch))
        return qsf_fail(err, QSF_E_ARGUMENT, "%s has %u layers of %s with %u columns, the layer for multi-"
                        "token prediction is from %s: open the same file twice", c->model->source->path,
                        (unsigned)a->n_layers, a->arch, (unsigned)a->n_embd, layer->model->source->path);
    if (layer->o.n_seqs >= c->o.n_seqs) return QSF_OK;
    return qsf_fail(err, QSF_E_ARGUMENT, "the context has %u sequences, that of the layer for multi-token "
                    "prediction only %u", (unsigned)c->o.n_seqs, (unsigned)layer->o.n_seqs);
}

static qsf_status mtp_memory(qsf_mtp *d, qsf_error *err)
{
    const qsf_platform *p = d->platform;
    const uint64_t store = (uint64_t)d->store_rows * d->n_embd;
    if (!(d->seqs = qsf_alloc_array(p, d->n_seqs, sizeof *d->seqs, "sequences", err)) ||
        !(d->floats = qsf_alloc_array(p, d->n_seqs * store + d->n_embd, sizeof(float), "hidden states",
                                      err)) ||
        !(d->paired = qsf_alloc_array(p, (uint64_t)d->n_seqs * d->n_ctx, sizeof(int32_t), "tokens", err)))
        return QSF_E_MEMORY;
    for (uint32_t i = 0; i < d->n_seqs; i++)
        d->seqs[i] = (mtp_seq){ .of = d, .seq = (qsf_seq)i, .store = d->floats + i * store,
                                .paired = d->paired + (size_t)i * d->n_ctx };
    return QSF_OK;
}

qsf_status qsf_mtp_new(qsf_context *c, qsf_context *layer, bool fixed, qsf_mtp **out, qsf_error *err)
{
    *out = NULL;
    qsf_status st = mtp_check(c, layer, err);
    if (st) return st;
    qsf_mtp *d = qsf_alloc(c->platform, sizeof *d, "drafts", err);
    if (!d) return QSF_E_MEMORY;
    *d = (qsf_mtp){ .platform = c->platform, .context = c, .layer = layer, .fixed = fixed,
                    .n_seqs = c->o.n_seqs, .n_ctx = layer->o.n_ctx, .n_embd = c->hp->n_embd,
                    .n_vocab = c->hp->n_vocab, .store_rows = QSF_MIN(layer->o.n_batch, (uint32_t)MTP_STORE) };
    qsf_draft_gain_begin(&d->gain);
    if ((st = mtp_memory(d, err))) {
        d->context = NULL;
        qsf_mtp_free(d);
        return st;
    }
    qsf_hidden_ask(c, true);
    qsf_hidden_ask(layer, true);
    c->seen = mtp_seen;
    c->seen_user = d;
    *out = d;
    return QSF_OK;
}

void qsf_mtp_free(qsf_mtp *d)
{
    if (!d) return;
    const qsf_platform *p = d->platform;
    if (d->context) {
        d->context->seen = NULL;
        qsf_hidden_ask(d->context, false);
    }
    if (d->paired) qsf_dealloc(p, d->paired, (uint64_t)d->n_seqs * d->n_ctx * sizeof(int32_t));
    if (d->floats)
        qsf_dealloc(p, d->floats, ((uint64_t)d->n_seqs * d->store_rows + 1) * d->n_embd * sizeof(float));
    if (d->seqs) qsf_dealloc(p, d->seqs, d->n_seqs * sizeof *d->seqs);
    qsf_dealloc(p, d, sizeof *d);
}

void *qsf_mtp_user(qsf_mtp *d, qsf_seq s)
{
    return s >= 0 && (uint32_t)s < d->n_seqs ? &d->seqs[s] : NULL;
}

const char *qsf_mtp_error(const qsf_mtp *d) { return d->failed ? d->error.text : ""; }

#undef MTP_SURE
#endif
