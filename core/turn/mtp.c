/* Drafts by a layer for multi-token prediction: the model's hidden state at a position and the next
 * token predict the token after that; the layer's own hidden state and that token the next one.  An
 * EAGLE 3 head does the same, in place of the hidden state with features (turn/eagle.c).
 * SPDX-License-Identifier: MIT
 *
 * Row p of the layer's sequence is made of the hidden state at position p of the model's and of
 * token p + 1.  Hidden states wait in a store until the next token is known: in a prompt that is
 * the next row's, and at its end the one that was picked.  Positions of the layer's sequence count
 * from the first hidden state that it got. */
#include "model/part.h"
#include "turn/eagle.h"

#define MTP_SURE 0.3f           /* guesses below this probability are not made */

typedef struct mtp_seq {
    struct qsf_mtp *of;
    qsf_seq   seq;
    uint32_t  base, fed;        /* rows of the layer's sequence, and the model's position of the first */
    uint32_t  first, n;         /* stored rows, at positions first to first + n - 1; base + fed == first */
    float    *store;            /* [store_rows][n_state] */
    int32_t   tokens[GUESS_ROWS];
    int32_t  *paired;           /* [n_ctx] the tokens of the rows of the layer's sequence */
} mtp_seq;

struct qsf_mtp {
    const qsf_platform *platform;
    qsf_context   *context, *layer;
    bool           fixed, failed;
    qsf_error      error;
    uint32_t       n_seqs, n_ctx, n_embd, n_vocab;
    uint32_t       n_state;     /* of the model's hidden state: n_embd, or the features of a head */
    bool           is_head;     /* an EAGLE 3 head: */
    qsf_eagle      head;
    uint32_t       n_batch;     /* rows of the model's batches */
    uint32_t       store_rows, group;   /* group: sequences whose guesses are computed together */
    mtp_seq       *seqs;        /* [n_seqs] */
    float         *floats;      /* [n_seqs][store_rows][n_state], then these two, then those of a head: */
    float         *states;      /* [group][n_embd] hidden states of the layer */
    float         *joint;       /* [store_rows][n_state] those of several sequences; NULL: group is 1 */
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

/* Fills rows with those of the stored hidden states; next: the token after the last one. */
static uint32_t mtp_rows(mtp_seq *s, int32_t next, bool logits, qsf_row *rows)
{
    if (s->fed + s->n > s->of->n_ctx) {     /* a window of the model moves on without end */
        s->base = s->first;
        mtp_cut(s, 0);
    }
    for (uint32_t i = 0; i < s->n; i++) {
        rows[i] = (qsf_row){ s->seq, i + 1 < s->n ? s->tokens[i + 1] : next, logits && i + 1 == s->n };
        s->paired[s->fed + i] = rows[i].token;
    }
    return s->n;
}

/* They were computed, or the layer's context has failed. */
static void mtp_rows_done(mtp_seq *s, qsf_status st)
{
    qsf_mtp *d = s->of;
    const uint32_t n = s->n;
    s->n = 0;
    s->first += n;
    if (!st) s->fed += n;
    else mtp_restart(s, s->first);
    if (!st || st == QSF_E_FULL || d->failed) return;
    d->failed = true;
    qsf_guess_failed(d->layer, st, &d->error);
}

/* own: the states are those of the layer, not the model's. */
static qsf_status mtp_compute(qsf_mtp *d, const qsf_row *rows, size_t n, const float *states, bool own)
{
    return d->is_head ? qsf_eagle_compute(&d->head, rows, n, states, own)
        : qsf_compute_from(d->layer, rows, n, states);
}

/* Feeds the stored rows without guesses. */
static void mtp_feed(mtp_seq *s, int32_t next)
{
    qsf_row rows[GUESS_ROWS];
    const uint32_t n = mtp_rows(s, next, false, rows);
    if (n) mtp_rows_done(s, mtp_compute(s->of, rows, n, s->store, false));
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
    if (s->n == d->store_rows) mtp_feed(s, row->token);
    if (d->failed) return;
    memcpy(s->store + (size_t)s->n * d->n_state, state, d->n_state * sizeof *state);
    s->tokens[s->n++] = row->token;
}

/* ---- what the model's context does ---- */

static void mtp_seen(void *user, qsf_context *c)
{
    qsf_mtp *d = user;
    const uint32_t n = d->is_head ? c->batch.n : c->now.n_hidden, first = c->batch.n - QSF_MIN(n, c->batch.n);
    for (uint32_t i = 0; i < n && !d->failed; i++) {
        const qsf_batch_row *row = &c->batch.rows[first + i];
        const float *state = d->is_head ? d->head.tapped + (size_t)i * d->n_state : qsf_hidden(c, i);
        if (row->seq < d->n_seqs) mtp_take(&d->seqs[row->seq], row, state);
    }
}

static void mtp_went_back(void *user, uint32_t seq, uint32_t n)
{
    qsf_mtp *d = user;
    if (seq < d->n_seqs) mtp_back(&d->seqs[seq], n);
}

/* Rows whose token is among the first n positions are shared, too, and hidden states that wait. */
static void mtp_shared(void *user, uint32_t dst, uint32_t src, uint32_t n)
{
    qsf_mtp *d = user;
    mtp_went_back(d, dst, dst == src ? n : 0);
    if (dst == src || dst >= d->n_seqs) return;
    mtp_seq *to = &d->seqs[dst], *from = src < d->n_seqs ? &d->seqs[src] : to;
    const uint32_t rows = n > from->base ? QSF_MIN(from->fed, n - from->base) : 0;
    if (from == to || !rows || qsf_seq_share(d->layer, to->seq, from->seq, rows)) {
        mtp_restart(to, n);
        return;
    }
    to->base = from->base;
    to->fed = qsf_seq_length(d->layer, to->seq);
    to->first = to->base + to->fed;
    memcpy(to->paired, from->paired, to->fed * sizeof *to->paired);
    if (to->first != from->first) return;
    to->n = QSF_MIN(from->n, n - from->first);
    memcpy(to->tokens, from->tokens, to->n * sizeof *to->tokens);
    memcpy(to->store, from->store, (size_t)to->n * d->n_state * sizeof *to->store);
}

/* ---- guesses ---- */

/* Guesses of sequences whose last rows the layer has just computed, with logits; last: the places
 * of these rows. */
static void mtp_continue(qsf_mtp *d, qsf_guess *const *list, uint32_t *last, size_t n)
{
    qsf_guess *live[GUESS_GROUP];
    qsf_row rows[GUESS_GROUP];
    memcpy(live, list, n * sizeof *list);
    while (n) {
        size_t kept = 0;
        for (size_t i = 0; i < n; i++) {
            qsf_guess *g = live[i];
            const float *logits = qsf_logits(d->layer, i), *hidden = qsf_hidden(d->layer, last[i]);
            int32_t id = logits && hidden
                ? qsf_guess_pick(logits, d->n_vocab, d->fixed ? 0 : MTP_SURE) : -1;
            if (id >= 0 && d->is_head) id = qsf_eagle_token(&d->head, id);
            if (id < 0 || (uint32_t)id >= d->context->hp->n_vocab) continue;
            g->out[g->found++] = id;
            if (g->found == g->cap) continue;
            memcpy(d->states + kept * d->n_embd, hidden, d->n_embd * sizeof *hidden);
            rows[kept] = (qsf_row){ ((mtp_seq *)g->user)->seq, id, true };
            last[kept] = (uint32_t)kept;
            live[kept++] = g;
        }
        n = kept;
        if (n && mtp_compute(d, rows, n, d->states, true)) break;
    }
}

/* Guesses of several sequences, whose stored rows fit in a batch of the layer. */
static void mtp_together(void *mtp, qsf_guess *const *list, size_t n)
{
    qsf_mtp *d = mtp;
    qsf_row rows[GUESS_ROWS];
    uint32_t last[GUESS_GROUP], n_rows = 0;
    for (size_t i = 0; i < n; i++) {
        mtp_seq *s = list[i]->user;
        float *to = n > 1 ? d->joint + (size_t)n_rows * d->n_state : NULL;
        if (n > 1) memcpy(to, s->store, (size_t)s->n * d->n_state * sizeof *to);
        n_rows += mtp_rows(s, list[i]->ids[list[i]->n - 1], true, rows + n_rows);
        last[i] = n_rows - 1;
    }
    const float *states = n > 1 ? d->joint : ((mtp_seq *)list[0]->user)->store;
    const qsf_status st = d->failed ? d->error.status : mtp_compute(d, rows, n_rows, states, false);
    for (size_t i = 0; i < n; i++) mtp_rows_done(list[i]->user, st);
    if (st) return;
    mtp_continue(d, list, last, n);
    for (size_t i = 0; i < n; i++) {        /* rows of guesses were made without the model's hidden states */
        mtp_seq *s = list[i]->user;
        mtp_cut(s, s->fed);
    }
}

/* Whether there are hidden states up to the last token. */
static bool mtp_ready(qsf_guess *g, size_t *rows)
{
    mtp_seq *s = g->user;
    g->found = 0;
    g->cap = QSF_MIN(g->cap, (size_t)QSF_DRAFT_MOST);
    if (s->of->failed || !g->cap || g->n < 2 || g->n > UINT32_MAX) return false;
    mtp_back(s, (uint32_t)g->n - 1);
    *rows = s->n;
    return s->n && s->first + s->n == g->n - 1;
}

void qsf_mtp_guess_many(qsf_guess *list, size_t n)
{
    qsf_mtp *d = n ? ((mtp_seq *)list[0].user)->of : NULL;
    if (!d) return;
    const qsf_guess_maker m = { d, d->group, d->store_rows, mtp_ready, mtp_together };
    qsf_guess_groups(&m, list, n);
}

size_t qsf_mtp_guess(void *user, const int32_t *ids, size_t n, int32_t *out, size_t cap)
{
    qsf_guess one = { .user = user, .ids = ids, .n = n, .out = out, .cap = cap };
    qsf_mtp_guess_many(&one, 1);
    return one.found;
}

/* ---- life ---- */

static qsf_status mtp_check(const qsf_context *c, const qsf_context *layer, qsf_error *err)
{
    const qsf_hparams *a = c->hp, *b = layer->hp;
    const qsf_status st = b->eagle ? qsf_eagle_check(c->model, layer->model, err) : QSF_OK;
    if (st) return st;
    if (!b->eagle && (!b->mtp || !qsf_part_ends(layer->model->source)))
        return qsf_fail(err, QSF_E_ARGUMENT, "%s was not opened with its layer for multi-token prediction "
                        "(mtp of qsf_model_options)", layer->model->source->path);
    if (!qsf_part_whole(c->model->source))
        return qsf_part_refuse(c->model->source, b->eagle ? "an EAGLE 3 head"
                               : "a layer for multi-token prediction", err);
    if (b->eagle) return qsf_eagle_check_context(c, err);
    if (a->n_embd != b->n_embd || a->n_vocab != b->n_vocab || a->n_layers + 1 != b->n_layers ||
        strcmp(a->arch, b->arch))
        return qsf_fail(err, QSF_E_ARGUMENT, "%s has %u layers of %s with %u columns, the layer for multi-"
                        "token prediction is from %s: open the same file twice", c->model->source->path,
                        (unsigned)a->n_layers, a->arch, (unsigned)a->n_embd, layer->model->source->path);
    return QSF_OK;
}

/* Rows of the stores, sequences whose guesses are computed together, and floats of all. */
static void mtp_sizes(qsf_mtp *d, const qsf_hparams *layer, const qsf_context_options *o, uint32_t n_seqs)
{
    d->is_head = layer->eagle;
    d->n_embd = layer->n_embd;
    d->n_vocab = layer->n_vocab;
    d->n_state = layer->eagle ? layer->n_features : layer->n_embd;
    d->n_seqs = QSF_MIN(n_seqs, o->n_seqs);
    d->n_ctx = o->n_ctx;
    d->store_rows = qsf_guess_rows(o);
    d->group = qsf_guess_group(o);
}

static uint64_t mtp_floats(const qsf_mtp *d, const qsf_hparams *layer)
{
    const uint64_t stores = (uint64_t)d->n_seqs + (d->group > 1);
    const uint64_t head = d->is_head ? qsf_eagle_floats(layer, d->n_batch, d->store_rows) : 0;
    return stores * d->store_rows * d->n_state + (uint64_t)d->group * d->n_embd + head;
}

uint64_t qsf_mtp_bytes(const qsf_model *layer, const qsf_context_options *o)
{
    qsf_mtp d = { .n_batch = 0 };
    mtp_sizes(&d, &layer->source->hp, o, o->n_seqs);
    return sizeof d + mtp_floats(&d, &layer->source->hp) * sizeof(float) +
        d.n_seqs * (sizeof *d.seqs + (uint64_t)d.n_ctx * sizeof(int32_t));
}

uint64_t qsf_mtp_row_bytes(const qsf_model *layer)
{
    return (uint64_t)layer->source->hp.n_features * sizeof(float);
}

static qsf_status mtp_memory(qsf_mtp *d, qsf_error *err)
{
    const qsf_platform *p = d->platform;
    const uint64_t store = (uint64_t)d->store_rows * d->n_state, n = mtp_floats(d, d->layer->hp);
    if (!(d->seqs = qsf_alloc_array(p, d->n_seqs, sizeof *d->seqs, "sequences", err)) ||
        !(d->floats = qsf_alloc_array(p, n, sizeof(float), "hidden states", err)) ||
        !(d->paired = qsf_alloc_array(p, (uint64_t)d->n_seqs * d->n_ctx, sizeof(int32_t), "tokens", err)))
        return QSF_E_MEMORY;
    d->states = d->floats + d->n_seqs * store;
    float *const rest = d->states + (size_t)d->group * d->n_embd;
    d->joint = d->group > 1 ? rest : NULL;
    if (d->is_head) qsf_eagle_init(&d->head, d->context, d->layer, rest + (d->joint ? store : 0));
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
                    .n_batch = qsf_rows_most(&c->o) };
    mtp_sizes(d, layer->hp, &layer->o, c->o.n_seqs);
    if ((st = mtp_memory(d, err))) {
        d->context = NULL;
        qsf_mtp_free(d);
        return st;
    }
    qsf_hidden_ask(layer, true);
    c->follower = (qsf_follower){ .user = d, .hidden = !d->is_head, .tapped = d->head.tapped,
                                  .taps = layer->model->source->taps, .seen = mtp_seen,
                                  .back = mtp_went_back, .copy = mtp_shared };
    *out = d;
    return QSF_OK;
}

void qsf_mtp_free(qsf_mtp *d)
{
    if (!d) return;
    const qsf_platform *p = d->platform;
    if (d->context) d->context->follower = (qsf_follower){ 0 };
    if (d->paired) qsf_dealloc(p, d->paired, (uint64_t)d->n_seqs * d->n_ctx * sizeof(int32_t));
    if (d->floats) qsf_dealloc(p, d->floats, mtp_floats(d, d->layer->hp) * sizeof(float));
    if (d->seqs) qsf_dealloc(p, d->seqs, d->n_seqs * sizeof *d->seqs);
    qsf_dealloc(p, d, sizeof *d);
}

void *qsf_mtp_user(qsf_mtp *d, qsf_seq s)
{
    return s >= 0 && (uint32_t)s < d->n_seqs ? &d->seqs[s] : NULL;
}

const char *qsf_mtp_error(const qsf_mtp *d) { return d->failed ? d->error.text : ""; }

#undef MTP_SURE
