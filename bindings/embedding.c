/* Embeddings and scores of the flat interface, step by step.
 * SPDX-License-Identifier: MIT */
#include "own.h"

static void embedding_clear(flat_embedding *e)
{
    qsf_flat_dealloc(e->memory, e->bytes);
    e->memory = NULL;
    e->n_values = 0;
}
static void embedding_done(flat_object *o) { embedding_clear((flat_embedding *)o); }

/* The pooling of a word; -1: unknown word. */
static int32_t pooling_of(const char *word)
{
    static const struct { const char *word; qsf_pooling pooling; } all[] = {
#define X(constant, word) { word, constant },
        QSF_FLAT_POOLINGS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(word, all[i].word)) return (int32_t)all[i].pooling;
    return -1;
}

static void embedding_cancel(flat_object *o)
{
    flat_embedding *e = (flat_embedding *)o;
    flat_context *c = qsf_flat_up(&e->o, FLAT_CONTEXT);
    qsf_embed_end(e->run);
    e->run = NULL;
    if (c->owner == &e->o) qsf_flat_batch_over(c);
}

uint32_t qsf_flat_embedding_new(uint32_t parent, const char *options)
{
    uint32_t handle;
    flat_asked asked;
    flat_object *o = qsf_flat_at(parent, FLAT_CONTEXT | FLAT_CONVERSATION);
    const flat_context *c = qsf_flat_up(o, FLAT_CONTEXT);
    flat_conversation *v = qsf_flat_up(o, FLAT_CONVERSATION);
    if (!c || !c->context || (v && !v->turn)) return 0;
    flat_embedding *e = qsf_flat_make(&handle, FLAT_EMBEDDING, sizeof *e, o, embedding_done);
    if (!e) return 0;
    e->in = v;
    e->o.cancel = embedding_cancel;
    qsf_embed_defaults(&e->options);
    if (qsf_flat_options(&e->o, options, &asked, NULL, NULL)) return handle;
    const int32_t pooling = asked.pooling ? pooling_of(asked.pooling) : 0;
    e->valid = pooling >= 0;
    if (e->valid) e->options.pooling = (qsf_pooling)pooling;
    else qsf_flat_fail(&e->o, QSF_E_ARGUMENT, "pooling: auto, mean, cls, last, rank or none");
    e->options.plain = asked.plain;
    e->score = asked.score;
    return handle;
}

/* Memory for copies of ids and lens, and for the results. */
static qsf_status embedding_room(flat_embedding *e, const int32_t *ids, const size_t *lens, size_t n)
{
    const flat_model *m = qsf_flat_up(&e->o, FLAT_MODEL);
    size_t tokens = 0;
    for (size_t i = 0; i < n; i++) tokens += lens[i];
    const size_t rows = !e->score && e->options.pooling == QSF_POOL_TOKENS ? tokens : n;
    const size_t width = e->score ? 1 : qsf_embed_width(m->model, e->options.pooling);
    embedding_clear(e);
    e->bytes = n * sizeof *lens + tokens * sizeof *ids + rows * width * sizeof(float);
    e->memory = qsf_flat_alloc(&e->o, e->bytes);
    if (!e->memory) return QSF_E_MEMORY;
    if (n) memcpy(e->memory, lens, n * sizeof *lens);
    if (tokens) memcpy(e->memory + n * sizeof *lens, ids, tokens * sizeof *ids);
    e->values = (float *)(void *)(e->memory + n * sizeof *lens + tokens * sizeof *ids);
    e->n_values = rows * width;
    return QSF_OK;
}

int32_t qsf_flat_embedding_begin(uint32_t embedding, const int32_t *ids, const size_t *lens, size_t n)
{
    flat_embedding *e = qsf_flat_at(embedding, FLAT_EMBEDDING);
    if (!e || !e->valid) return QSF_E_ARGUMENT;
    flat_context *c = qsf_flat_up(&e->o, FLAT_CONTEXT);
    embedding_cancel(&e->o);
    qsf_status st = e->in ? qsf_flat_may_step(&e->o, e->in) : QSF_OK;
    if (!st) st = qsf_flat_claim(&e->o, e->in);
    if (!st && e->in) st = qsf_flat_seated(&e->o, e->in);
    if (!st) st = embedding_room(e, ids, lens, n);
    if (st) return (int32_t)st;
    for (uint32_t s = 0; s < c->n_seqs; s++) {
        if (!c->seqs[s] || (e->in && c->seqs[s] != e->in)) continue;
        qsf_flat_turn_cancel(c->seqs[s]);
        (void)qsf_turn_hold(c->seqs[s]->turn, NULL, 0);
    }
    const size_t *lengths = (const size_t *)(const void *)e->memory;
    const int32_t *tokens = (const int32_t *)(const void *)(e->memory + n * sizeof *lengths);
    if (e->in) st = qsf_embed_in(c->context, e->in->seq, tokens, lengths, n, &e->options, e->score, e->values,
                                 &e->run);
    else if (e->score) st = qsf_rerank_begin(c->context, tokens, lengths, n, e->values, &e->run);
    else st = qsf_embed_begin(c->context, tokens, lengths, n, &e->options, e->values, &e->run);
    if (!st) c->owner = &e->o;
    return (int32_t)qsf_flat_said(&e->o, st);
}

int32_t qsf_flat_embedding_step(uint32_t embedding)
{
    flat_embedding *e = qsf_flat_at(embedding, FLAT_EMBEDDING);
    bool waiting = false;
    if (!e) return QSF_E_ARGUMENT;
    if (!e->run) return (int32_t)qsf_flat_fail(&e->o, QSF_E_ARGUMENT, "no texts were begun");
    flat_context *c = qsf_flat_up(&e->o, FLAT_CONTEXT);
    qsf_status st = qsf_flat_drafts_load(c, &waiting);
    if (st) return (int32_t)st + (waiting ? QSF_FLAT_WAITING : 0);
    (void)qsf_refine(c->context, false);
    st = qsf_embed_step(e->run, &waiting);
    if (st != QSF_PENDING && c->owner == &e->o) qsf_flat_batch_over(c);
    return (int32_t)qsf_flat_said(&e->o, st) + (waiting ? QSF_FLAT_WAITING : 0);
}

int32_t qsf_flat_embedding_values(uint32_t embedding, float *dst, size_t cap)
{
    const flat_embedding *e = qsf_flat_at(embedding, FLAT_EMBEDDING);
    if (!e) return -(int32_t)QSF_E_ARGUMENT;
    if (e->n_values && cap) memcpy(dst, e->values, (e->n_values < cap ? e->n_values : cap) * sizeof *dst);
    return (int32_t)e->n_values;
}
