/* Many texts' embeddings: how they share batches, and what the file does with a pooled text.
 * SPDX-License-Identifier: MIT */
#include "turn/embed.h"
#include "base/host.h"
#include "base/sized.h"
#include "engine/sequence.h"
#include "model/model.h"
#include "model/part.h"
#include "turn/hidden.h"
#include "qsf_schedule.h"

void qsf_embed_defaults_of(qsf_embed_options *o, size_t size)
{
    const qsf_embed_options all = { .size = sizeof all };
    qsf_sized_defaults(o, size, &all, sizeof all);
}

/* ---- what is asked for ---- */

qsf_pooling qsf_pooling_of(const qsf_hparams *hp, qsf_pooling asked)
{
    if (asked == QSF_POOL_NONE) asked = (qsf_pooling)hp->pooling;
    return asked == QSF_POOL_NONE ? QSF_POOL_MEAN : asked;
}

static uint32_t embed_width(const qsf_hparams *hp, qsf_pooling how)
{
    return how == QSF_POOL_RANK ? hp->n_classes : hp->n_embd;
}

uint32_t qsf_embed_width(const qsf_model *m, qsf_pooling pooling)
{
    return embed_width(&m->source->hp, qsf_pooling_of(&m->source->hp, pooling));
}

static qsf_status embed_no_classes(qsf_context *c)
{
    return qsf_fail(&c->error, QSF_E_UNSUPPORTED, "%s has no classifier (cls.output.weight): it cannot rank",
                    c->model->source->path);
}

static qsf_status embed_check(qsf_context *c, const int32_t *ids, const size_t *lens, size_t n,
                              qsf_pooling how)
{
    const uint32_t end = c->hp->both_ways ? c->o.n_batch : qsf_seq_end(c);
    size_t at = 0;
    if (how > QSF_POOL_TOKENS)
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "pooling %d is not a qsf_pooling", (int)how);
    if (how == QSF_POOL_RANK && !c->hp->n_classes) return embed_no_classes(c);
    for (size_t i = 0; i < n; at += lens[i++]) {
        if (!lens[i])
            return qsf_fail(&c->error, QSF_E_ARGUMENT, "text %llu has no tokens", (unsigned long long)i);
        if (lens[i] > end)
            return qsf_fail(&c->error, QSF_E_FULL, "text %llu has %llu tokens, the %s %u%s",
                            (unsigned long long)i, (unsigned long long)lens[i],
                            c->hp->both_ways ? "batch" : "context", (unsigned)end,
                            c->hp->both_ways ? ": an encoder needs the whole text in one batch" : "");
        for (size_t k = 0; k < lens[i]; k++)
            if (ids[at + k] < 0 || (uint32_t)ids[at + k] >= c->hp->n_vocab)
                return qsf_fail(&c->error, QSF_E_ARGUMENT, "token %d of text %llu; the vocabulary has %u",
                                (int)ids[at + k], (unsigned long long)i, (unsigned)c->hp->n_vocab);
    }
    return QSF_OK;
}

/* ---- after pooling ---- */

/* y = m x + b, row by row in floats: a few rows per input.  A matrix of one row is a vector. */
static void apply(const qsf_weights *w, uint32_t kind, uint32_t bias, uint32_t rows, uint32_t cols,
                  const float *x, float *row, float *y)
{
    for (uint32_t r = 0; r < rows; r++) {
        const float *m = w->v[kind] ? w->v[kind] : row;
        double sum = bias && w->v[bias] ? w->v[bias][r] : 0;
        if (m == row) qsf_dequant_rows(&w->m[kind].t, r, 1, row);
        for (uint32_t i = 0; i < cols; i++) sum += (double)m[i] * x[i];
        y[r] = (float)sum;
    }
}

static void softmax(float *x, uint32_t n)
{
    float top = x[0];
    double sum = 0;
    for (uint32_t i = 1; i < n; i++) top = QSF_MAX(top, x[i]);
    for (uint32_t i = 0; i < n; i++) sum += x[i] = expf(x[i] - top);
    for (uint32_t i = 0; i < n; i++) x[i] = (float)(x[i] / sum);
}

/* tanh, by what the core has of the C library. */
static float cls_tanh(float x)
{
    const double e = exp(-2 * fabs((double)x)), y = (1 - e) / (1 + e);
    return (float)(x < 0 ? -y : y);
}

/* The scores of a pooled text.  work: room for three vectors more. */
static void classify(qsf_context *c, const qsf_weights *w, const float *x, float *work, float *out)
{
    const qsf_hparams *hp = c->hp;
    const uint32_t n = hp->n_embd;
    float *row = work, *y = work + n;
    if (w->v[QSF_K_CLS] || w->m[QSF_K_CLS].t.data) {
        apply(w, QSF_K_CLS, QSF_K_CLS_BIAS, n, n, x, row, y);
        if (hp->flow == QSF_FLOW_SUMS) for (uint32_t i = 0; i < n; i++) y[i] = cls_tanh(y[i]);
        else c->k.gelu_inplace(y, n);
        if (w->v[QSF_K_CLS_NORM]) c->k.layer_norm(y, y, w->v[QSF_K_CLS_NORM], NULL, n, hp->norm_eps);
        x = y;
    }
    apply(w, QSF_K_CLS_OUT, QSF_K_CLS_OUT_BIAS, hp->n_classes, n, x, row, out);
    if (!hp->both_ways) softmax(out, hp->n_classes);
}

static void densify(const qsf_context *c, const qsf_weights *w, float *x, float *work)
{
    const uint32_t n = c->hp->n_embd, wide = c->hp->n_between;
    float *row = work, *y = work + QSF_MAX(n, wide);
    apply(w, QSF_K_DENSE_2, 0, wide, n, x, row, y);
    apply(w, QSF_K_DENSE_3, 0, n, wide, y, row, x);
}

/* Room for a pooled vector, and after it for what the layers after the pooling compute. */
static qsf_status embed_spare(qsf_context *c, qsf_rows *spare)
{
    qsf_executor *x = c->executor;
    return x->does->rows_out(x, QSF_ROWS_SPARE, spare, &c->error);
}

/* Turns a finished pooled vector into the requested output.  x: the pooled vector, which is out
 * itself except for scores. */
static qsf_status embed_finish(qsf_context *c, const qsf_embed_options *o, qsf_pooling how, float *x,
                               float *out)
{
    const qsf_hparams *hp = c->hp;
    const size_t n = hp->n_embd;
    if (how == QSF_POOL_RANK || hp->n_between) {
        const qsf_weights *w;
        qsf_rows spare;
        qsf_status st = qsf_head_stream_norm(&c->head_stream, true, &w, &c->error);
        if (st || (st = embed_spare(c, &spare))) return st;
        float *work = spare.x + n;
        if ((size_t)spare.n * spare.ld < 4 * n + 2 * (size_t)hp->n_between)
            return qsf_fail(&c->error, QSF_E_ARGUMENT, "batches of %u rows are too small for the layers "
                            "after the pooling", (unsigned)c->o.n_batch);
        if (how == QSF_POOL_RANK) classify(c, w, x, work, out);
        else densify(c, w, x, work);
    }
    if (how != QSF_POOL_RANK && !o->plain) qsf_hidden_unit(out, n);
    return QSF_OK;
}

qsf_status qsf_hidden_embed(qsf_context *c, size_t first, size_t rows, size_t at, size_t n,
                            const qsf_embed_options *opts, float *out)
{
    qsf_embed_options o;
    qsf_embed_defaults(&o);
    const qsf_status st = QSF_TAKE(&o, opts, qsf_embed_options, &c->error);
    if (st) return st;
    const qsf_pooling how = qsf_pooling_of(c->hp, o.pooling);
    if (how >= QSF_POOL_TOKENS)
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "pooling %d does not give one vector per text", (int)how);
    if (how == QSF_POOL_RANK && !c->hp->n_classes) return embed_no_classes(c);
    if (!qsf_hidden_sum(c, first, rows, at, n, qsf_pooling_rows(c->hp, how), out))
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "the batch has no such hidden states");
    if (at + rows < n) return QSF_OK;
    float *x = out;
    if (how == QSF_POOL_RANK) {
        qsf_rows spare;
        const qsf_status none = embed_spare(c, &spare);
        if (none) return none;
        x = memcpy(spare.x, out, c->hp->n_embd * sizeof *x);
    }
    return embed_finish(c, &o, how, x, out);
}

/* ---- batches ---- */

enum { SCORE_CLASSES = 64 };

static qsf_status score_take(qsf_context *c, const qsf_embed_run *r, float *x, size_t row, float *out)
{
    float all[SCORE_CLASSES];
    if (r->how == QSF_POOL_RANK) {
        const qsf_status st = embed_finish(c, &r->o, r->how, x, all);
        *out = st ? 0 : all[0];
        return st;
    }
    const float *logits = qsf_logits(c, row);
    *out = (float)(1 / (1 + exp((double)logits[r->no] - logits[r->yes])));
    return QSF_OK;
}

/* row: of the logits, if words are scored. */
static qsf_status embed_take(qsf_context *c, const embed_part *p, const qsf_embed_run *r, size_t row)
{
    const size_t n_embd = c->hp->n_embd;
    const bool done = p->at + p->rows == p->n;
    float *out = r->out;
    if (r->how == QSF_POOL_TOKENS) {
        for (size_t k = 0; k < p->rows; k++) {
            float *y = out + (p->at + k) * n_embd;
            memcpy(y, qsf_hidden(c, p->first + k), n_embd * sizeof *y);
            const qsf_status st = embed_finish(c, &r->o, r->how, y, y);
            if (st) return st;
        }
        return QSF_OK;
    }
    float *x = out;
    if (r->how == QSF_POOL_RANK) {
        qsf_rows spare;
        const qsf_status st = embed_spare(c, &spare);
        if (st) return st;
        x = spare.x;
    }
    if (r->how) (void)qsf_hidden_sum(c, p->first, p->rows, p->at, p->n, qsf_pooling_rows(c->hp, r->how), x);
    if (!done) return QSF_OK;
    return r->score ? score_take(c, r, x, row, out) : embed_finish(c, &r->o, r->how, x, out);
}

/* Fills a batch with whole texts from `text` on, or with the next part of a long one. */
static size_t embed_gather(const qsf_context *c, qsf_embed_run *r)
{
    qsf_row *rows = c->embed_rows;
    const int32_t *ids = r->ids;
    const size_t most = c->o.n_batch;
    size_t used = 0, blocks = 0, seqs = QSF_MIN(r->n_seqs, EMBED_PARTS);
    if (!r->how) seqs = QSF_MIN(seqs, c->o.n_logits);
    r->n_parts = 0;
    for (size_t i = r->from.text; i < r->n && r->n_parts < seqs; ids += r->lens[i++]) {
        embed_part p = { .text = i, .first = used, .n = r->lens[i], .at = r->n_parts ? 0 : r->from.at };
        const size_t left = p.n - p.at, takes = qsf_ceil_div(p.n, QSF_KV_BLOCK);
        if (r->n_parts && (left > most - used || blocks + takes > c->tables.n_blocks)) break;
        p.rows = QSF_MIN(left, most - used);
        for (size_t k = 0; k < p.rows; k++)
            rows[used + k] = (qsf_row){ (qsf_seq)(r->first_seq + r->n_parts), ids[p.at + k],
                                        !r->how && p.at + k + 1 == p.n };
        used += p.rows;
        blocks += takes;
        r->parts[r->n_parts++] = p;
        if (p.at + p.rows < p.n) break;
    }
    return used;
}

static qsf_status embed_batch(qsf_context *c, qsf_embed_run *r)
{
    if (r->from.text == r->n) return QSF_OK;
    const qsf_status st = qsf_batch_begin(c, c->embed_rows, embed_gather(c, r));
    return st ? st : QSF_PENDING;
}

/* The batch is computed: takes what it has, and begins the next one. */
static qsf_status embed_next(qsf_context *c, qsf_embed_run *r)
{
    const size_t width = r->score ? 1 : embed_width(c->hp, r->how);
    for (size_t i = 0; i < r->n_parts; i++) {
        const embed_part *p = &r->parts[i];
        const qsf_status st = embed_take(c, p, r, i);
        if (st) return st;
        if (p->at + p->rows < p->n) continue;
        r->out += width * (r->how == QSF_POOL_TOKENS ? p->n : 1);
        r->ids += p->n;
        qsf_seq_back(c, r->first_seq + (uint32_t)i, 0);
    }
    r->from = r->parts[r->n_parts - 1];
    r->from.at += r->from.rows;
    if (r->from.at == r->from.n) r->from = (embed_part){ .text = r->from.text + 1 };
    return embed_batch(c, r);
}

/* Whether the model can answer yes or no, and with which tokens. */
static bool score_words(const qsf_tokenizer *t, int32_t *yes, int32_t *no)
{
    *yes = t ? qsf_tokenizer_find(t, "yes", 3) : -1;
    *no = t ? qsf_tokenizer_find(t, "no", 2) : -1;
    return *yes >= 0 && *no >= 0;
}

/* How a score is computed: by a classifier, or from the model's answer. */
static qsf_status score_how(qsf_context *c, qsf_embed_run *r)
{
    const char *path = c->model->source->path;
    r->how = QSF_POOL_RANK;
    if (c->hp->n_classes > SCORE_CLASSES)
        return qsf_fail(&c->error, QSF_E_UNSUPPORTED, "%s has %u classes: it is not a reranker", path,
                        (unsigned)c->hp->n_classes);
    if (c->hp->n_classes || c->hp->both_ways) return QSF_OK;
    r->how = QSF_POOL_NONE;
    return score_words(c->model->tokenizer, &r->yes, &r->no) ? QSF_OK
        : qsf_fail(&c->error, QSF_E_UNSUPPORTED, "%s has neither a classifier nor tokens \"yes\" and "
                   "\"no\": it cannot rank", path);
}

static void embed_empty(qsf_context *c, const qsf_embed_run *r)
{
    for (uint32_t s = 0; s < r->n_seqs; s++) qsf_seq_back(c, r->first_seq + s, 0);
}

/* s: the sequence; -1: all. */
static qsf_status embed_run_in(qsf_context *c, qsf_embed_run *r, qsf_seq s, const int32_t *ids,
                               const size_t *lens, size_t n, const qsf_embed_options *opts, bool score,
                               float *out)
{
    qsf_status st = QSF_OK;
    c->error = (qsf_error){ 0 };
    *r = (qsf_embed_run){ .ids = ids, .lens = lens, .n = n, .out = out, .score = score, .asked = c->hidden,
                          .n_seqs = c->o.n_seqs };
    if (s >= 0) r->first_seq = (uint32_t)s, r->n_seqs = 1;
    qsf_embed_defaults(&r->o);
    if (score) st = score_how(c, r);
    else if (!(st = QSF_TAKE(&r->o, opts, qsf_embed_options, &c->error)))
        r->how = qsf_pooling_of(c->hp, r->o.pooling);
    if (st) return st;
    qsf_batch_drop(c);
    if ((st = qsf_part_refuse(c->model->source, "an embedding", &c->error))) return st;
    if ((st = embed_check(c, ids, lens, n, r->how))) return st;
    embed_empty(c, r);
    c->hidden = r->how != QSF_POOL_NONE;
    st = embed_batch(c, r);
    if (st != QSF_PENDING) qsf_embed_run_end(c, r);
    return st == QSF_PENDING ? QSF_OK : st;
}

qsf_status qsf_embed_run_begin(qsf_context *c, qsf_embed_run *r, const int32_t *ids, const size_t *lens,
                               size_t n, const qsf_embed_options *opts, bool score, float *out)
{
    return embed_run_in(c, r, -1, ids, lens, n, opts, score, out);
}

void qsf_embed_run_end(qsf_context *c, const qsf_embed_run *r)
{
    qsf_batch_drop(c);
    c->hidden = r->asked;
    embed_empty(c, r);
}

qsf_status qsf_embed_run_step(qsf_context *c, qsf_embed_run *r, bool *waiting)
{
    *waiting = false;
    if (r->from.text == r->n) return QSF_OK;
    qsf_status st = qsf_step(c, waiting);
    if (!st) st = embed_next(c, r);
    if (st != QSF_PENDING) qsf_embed_run_end(c, r);
    return st;
}

qsf_status qsf_embed_run_all(qsf_context *c, qsf_embed_run *r)
{
    bool waiting;
    qsf_status st = QSF_OK;
    while (!st && (st = qsf_embed_run_step(c, r, &waiting)) == QSF_PENDING)
        st = waiting ? qsf_wait(c) : QSF_OK;
    if (st) qsf_embed_run_end(c, r);
    return st;
}

qsf_status qsf_embed_texts(qsf_context *c, const int32_t *ids, const size_t *lens, size_t n,
                           const qsf_embed_options *opts, float *out)
{
    qsf_embed_run r;
    const qsf_status st = qsf_embed_run_begin(c, &r, ids, lens, n, opts, false, out);
    return st ? st : qsf_embed_run_all(c, &r);
}

/* ---- step by step ---- */

/* s: as of embed_run_in. */
static qsf_status embedding_begin(qsf_context *c, qsf_seq s, const int32_t *ids, const size_t *lens, size_t n,
                                  const qsf_embed_options *opts, bool score, float *out,
                                  qsf_embed_run **e)
{
    const qsf_platform *p = c->model->platform;
    *e = NULL;
    qsf_embed_run *r = qsf_alloc(p, sizeof *r, "an embedding", &c->error);
    if (!r) return QSF_E_MEMORY;
    const qsf_status st = embed_run_in(c, r, s, ids, lens, n, opts, score, out);
    r->context = c;
    if (st) qsf_dealloc(p, r, sizeof *r);
    else *e = r;
    return st;
}

qsf_status qsf_embed_begin(qsf_context *c, const int32_t *ids, const size_t *lens, size_t n,
                           const qsf_embed_options *opts, float *out, qsf_embed_run **e)
{
    return embedding_begin(c, -1, ids, lens, n, opts, false, out, e);
}

qsf_status qsf_rerank_begin(qsf_context *c, const int32_t *ids, const size_t *lens, size_t n, float *scores,
                            qsf_embed_run **e)
{
    return embedding_begin(c, -1, ids, lens, n, NULL, true, scores, e);
}

qsf_status qsf_embed_in(qsf_context *c, qsf_seq s, const int32_t *ids, const size_t *lens, size_t n,
                        const qsf_embed_options *opts, bool score, float *out, qsf_embed_run **e)
{
    *e = NULL;
    const qsf_status st = qsf_seq_check(c, s);
    return st ? st : embedding_begin(c, s, ids, lens, n, opts, score, out, e);
}

qsf_status qsf_embed_step(qsf_embed_run *e, bool *waiting)
{
    bool waits = false;
    if (!e->ended) {
        e->status = qsf_embed_run_step(e->context, e, &waits);
        e->ended = e->status != QSF_PENDING;
    }
    if (waiting) *waiting = waits;
    return e->status;
}

void qsf_embed_end(qsf_embed_run *e)
{
    if (!e) return;
    if (!e->ended) qsf_embed_run_end(e->context, e);
    qsf_dealloc(e->context->model->platform, e, sizeof *e);
}

/* ---- one text, in a sequence ---- */

/* In batches, as qsf_feed does it. */
static qsf_status embed_batches(qsf_context *c, qsf_seq s, const int32_t *ids, size_t n, qsf_pooling how,
                                float *out)
{
    qsf_row rows[256];
    const size_t most = QSF_MIN(c->o.n_batch, QSF_ARRAY_LEN(rows));
    if (c->hp->both_ways) {
        const qsf_pooling one = how == QSF_POOL_NONE || how == QSF_POOL_TOKENS ? QSF_POOL_MEAN : how;
        const qsf_embed_options o = { .size = sizeof o, .pooling = qsf_pooling_rows(c->hp, one) };
        return qsf_embed_texts(c, ids, &n, 1, &o, out);
    }
    for (size_t at = 0, len; at < n; at += len) {
        len = QSF_MIN(most, n - at);
        for (size_t i = 0; i < len; i++) rows[i] = (qsf_row){ s, ids[at + i], false };
        const qsf_status st = qsf_compute(c, rows, len);
        if (st) return st;
        (void)qsf_hidden_pool(c, 0, len, at, n, how, out);
    }
    return QSF_OK;
}

qsf_status qsf_embed(qsf_context *c, qsf_seq s, const int32_t *ids, size_t n, qsf_pooling how, float *out)
{
    const bool asked = c->hidden;
    if (n == 0) return qsf_fail(&c->error, QSF_E_ARGUMENT, "no tokens were given");
    qsf_status st = qsf_seq_check(c, s);
    if (!st) st = qsf_part_refuse(c->model->source, "an embedding", &c->error);
    if (st) return st;
    qsf_batch_drop(c);
    const uint32_t room = qsf_seq_room(c, s);
    if (n > room)
        return qsf_fail(&c->error, QSF_E_FULL, "%llu tokens do not fit: the sequence has room for %u more",
                        (unsigned long long)n, (unsigned)room);
    c->hidden = true;
    st = embed_batches(c, s, ids, n, how, out);
    c->hidden = asked;
    return st;
}
