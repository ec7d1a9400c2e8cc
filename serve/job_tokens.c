/* From a request's inputs to tokens.
 * SPDX-License-Identifier: MIT */
#include "formats.h"

#include <stdlib.h>
#include <string.h>

const char *front_prompt_field(const serve_request *r)
{
    return r->api == API_EMBEDDINGS ? "input" : r->api == API_RERANK ? "documents"
           : r->n_prompts ? "prompt" : "messages";
}

void front_tokens_free(serve_tokens *t, unsigned n)
{
    for (unsigned i = 0; t && i < n; i++) free(t[i].ids);
    free(t);
}

static bool tokens_room(serve_tokens *t, size_t n, serve_error *e)
{
    free(t->ids);
    t->ids = malloc((n ? n : 1) * sizeof *t->ids);
    return t->ids || serve_refuse(e, 503, NULL, NULL, "out of memory for the request");
}

static bool tokens_of_text(const model_entry *m, const serve_prompt *p, int flags, serve_tokens *out,
                           serve_error *e)
{
    qsf_error err = { 0 };
    size_t n = p->len + 8;
    for (int i = 0; i < 2; i++) {
        if (!tokens_room(out, n, e)) return false;
        const qsf_status st = qsf_tokens_encode(m->model, p->text, p->len, flags, out->ids, n, &out->n, &err);
        if (!st) return true;
        if (st != QSF_E_ARGUMENT || out->n <= n) break;
        n = out->n;
    }
    return serve_refuse(e, 500, NULL, NULL, "%s", err.text);
}

/* Tokenizes as much of an input as a sequence holds, with its end token. */
static bool tokens_cut(const model_entry *m, const serve_prompt *p, int flags, serve_tokens *out,
                       serve_error *e)
{
    enum { LONG = 128 };                    /* bytes: no tokenizer averages more per token */
    const serve_facts *facts = serve_engine_facts(m->engine);
    const size_t most = facts->n_seq - !facts->whole;
    int32_t ends[8];
    size_t n = 0;
    serve_prompt some = *p;
    if (some.len / LONG > most) {
        some.len = most * LONG;
        while (some.len && ((unsigned char)some.text[some.len] & 0xc0) == 0x80) some.len--;
    }
    if (!tokens_of_text(m, &some, flags, out, e)) return false;
    if (out->n <= most) return true;
    if (qsf_tokens_encode(m->model, "", 0, flags, ends, 8, &n, NULL)) n = 0;
    if (n && ends[n - 1] == out->ids[out->n - 1] && ends[n - 1] != qsf_token_bos(m->model))
        out->ids[most - 1] = ends[n - 1];
    out->n = most;
    return true;
}

static bool tokens_copy(const int32_t *ids, size_t n, serve_tokens *out, serve_error *e)
{
    if (!tokens_room(out, n, e)) return false;
    if (n) memcpy(out->ids, ids, n * sizeof *ids);
    out->n = n;
    return true;
}

static bool tokens_of_ids(const model_entry *m, const serve_prompt *p, const char *field, serve_tokens *out,
                          serve_error *e)
{
    for (size_t i = 0; i < p->n_ids; i++)
        if ((uint32_t)p->ids[i] >= m->info.n_vocab)
            return serve_refuse(e, 400, "invalid_value", field, "token %d; the vocabulary has %u",
                                (int)p->ids[i], (unsigned)m->info.n_vocab);
    return tokens_copy(p->ids, p->n_ids, out, e);
}

static size_t visible_bytes(const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) n += (unsigned char)text[i] > ' ';
    return n;
}

/* An input whose tokens cannot fit a sequence is refused without tokenizing it, which would take up
 * to two seconds for each megabyte and stall streams.  Spaces do not count: some vocabularies drop
 * them. */
static bool text_may_fit(const model_entry *m, const char *text, size_t len, const char *param,
                         serve_error *e)
{
    enum { QUICK = 1 << 16 };
    const uint32_t n_seq = serve_engine_facts(m->engine)->n_seq;
    size_t longest = 1;
    if (len <= QUICK) return true;
    for (uint32_t id = 0; id < m->info.n_vocab; id++) {
        const char *piece;
        const size_t n = qsf_token_piece(m->model, (int32_t)id, true, &piece);
        const size_t bytes = visible_bytes(piece, n);
        if (bytes > longest) longest = bytes;
    }
    const size_t least = visible_bytes(text, len) / longest;
    return least < n_seq || serve_refuse(e, 400, "context_length_exceeded", param,
                                         /* clients look for these words */
                                         "this model's maximum context length is %u tokens, the prompt has "
                                         "more than %zu", (unsigned)n_seq, least);
}

/* The same of a conversation, as its template writes it. */
static bool chat_may_fit(const front_job *j, serve_error *e)
{
    const serve_request *r = &j->job.request;
    size_t len;
    if (r->messages.len + (r->tools ? strlen(r->tools) : 0) < 1 << 16) return true;
    char *text = front_render(j, &len, e);
    const bool fits = text && text_may_fit(j->entry, text, len, "messages", e);
    free(text);
    return fits;
}

static bool tokens_of_chat(front_job *j, serve_tokens *out, serve_error *e)
{
    size_t n;
    if (!chat_may_fit(j, e) || !front_encode(j, e)) return false;
    const int32_t *ids = qsf_conversation_tokens(j->talk, &n);
    return tokens_copy(ids, n, out, e);
}

/* A query and a document, as the model's classifier was trained on them. */
static bool tokens_of_pair(const model_entry *m, const serve_prompt *query, const serve_prompt *document,
                           serve_tokens *out, serve_error *e)
{
    qsf_error err = { 0 };
    size_t n = query->len + document->len + 1024;
    if (!text_may_fit(m, query->text, query->len, "query", e)
        || !text_may_fit(m, document->text, document->len, "documents", e)) return false;
    for (int i = 0; i < 2; i++) {
        if (!tokens_room(out, n, e)) return false;
        const qsf_status st = qsf_rerank_encode(m->model, query->text, query->len, document->text,
                                                document->len, out->ids, n, &out->n, &err);
        if (!st) return true;
        if (st != QSF_E_ARGUMENT || out->n <= n) break;
        n = out->n;
    }
    return serve_refuse(e, 500, NULL, NULL, "%s", err.text);
}

bool front_tokens(front_job *j, serve_tokens **out, unsigned *n, serve_error *e)
{
    const serve_request *r = &j->job.request;
    const size_t left_out = j->job.ranks ? r->n_queries : 0;      /* they are parts of pairs */
    const unsigned n_prompts = r->n_prompts ? (unsigned)(r->n_prompts - left_out) : 1;
    serve_tokens *t = calloc(n_prompts, sizeof *t);
    bool ok = t || serve_refuse(e, 503, NULL, NULL, "out of memory for the request");
    int flags = QSF_TOK_ADD_SPECIAL | QSF_TOK_PARSE_SPECIAL;
    if (r->api == API_TOKENIZE)
        flags = (r->add_special ? QSF_TOK_ADD_SPECIAL : 0) | (r->parse_special ? QSF_TOK_PARSE_SPECIAL : 0);
    for (unsigned i = 0; ok && i < n_prompts; i++) {
        const serve_prompt *p = r->n_prompts ? &r->prompts[i] : NULL;
        if (j->job.ranks) ok = tokens_of_pair(j->entry, &r->prompts[r->n_queries > 1 ? i : 0],
                                              p + r->n_queries, &t[i], e);
        else if (p && r->truncate && !p->ids) ok = tokens_cut(j->entry, p, flags, &t[i], e);
        else if (p && !p->ids && r->api != API_TOKENIZE
            && !text_may_fit(j->entry, p->text, p->len, front_prompt_field(r), e)) ok = false;
        else if (!p) ok = tokens_of_chat(j, &t[i], e);
        else if (r->suffix.len || r->infill) ok = infill_tokens(j->entry->model, r, p, &t[i], e);
        else if (p->ids) ok = tokens_of_ids(j->entry, p, front_prompt_field(r), &t[i], e);
        else ok = tokens_of_text(j->entry, p, flags, &t[i], e);
    }
    if (!ok) front_tokens_free(t, n_prompts);
    *out = ok ? t : NULL;
    *n = n_prompts;
    return ok;
}
