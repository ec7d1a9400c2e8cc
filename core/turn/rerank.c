/* How well documents answer a query: the pair as the model was trained on it, and its score.
 * SPDX-License-Identifier: MIT */
#include "engine/sequence.h"
#include "model/model.h"
#include "turn/embed.h"

/* ---- the pair ---- */

/* The form that Qwen3-Reranker was trained on; other models that write texts take it, too. */
static const char rerank_plain[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
    "Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n"
    "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
    "<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

static const char *rerank_meta(const qsf_model *m, const char *key)
{
    for (uint32_t i = 0; i < m->source->n_meta; i++)
        if (!strcmp(m->source->meta[i].key, key)) return m->source->meta[i].value;
    return NULL;
}

/* The file's template for a pair of query and document, next to its chat templates. */
static const char *rerank_own(const qsf_model *m)
{
    const char *named = qsf_vocab_chat_named(&m->source->vocab, "rerank");
    return named ? named : rerank_meta(m, "tokenizer.chat_template.rerank");
}

/* The ids so far; n also counts those that do not fit. */
typedef struct rerank_sink { const qsf_model *m; int32_t *ids; size_t cap, n; qsf_error *err; } rerank_sink;

static qsf_status rerank_put(rerank_sink *s, const char *text, size_t len, int flags, bool behind)
{
    size_t n = 0;
    int32_t *to = s->n < s->cap ? s->ids + s->n : NULL;
    const size_t room = to ? s->cap - s->n : 0;
    const qsf_status st = qsf_tokens_encode(s->m, text, len, flags, to, room, &n, s->err);
    if (st && (st != QSF_E_ARGUMENT || n <= room)) return st;
    /* The second text of a pair has no beginning of its own. */
    if (behind && n && room && to[0] == qsf_token_bos(s->m)) {
        memmove(to, to + 1, (QSF_MIN(n, room) - 1) * sizeof *to);
        n--;
    }
    s->n += n;
    return QSF_OK;
}

static void rerank_token(rerank_sink *s, int32_t id)
{
    if (s->n < s->cap) s->ids[s->n] = id;
    s->n++;
}

/* A template's text with its places filled, tiled by spans; NULL for both: it is only measured. */
typedef struct rerank_text { char *text; qsf_text_span *spans; size_t len, n_spans; } rerank_text;

static void rerank_add(rerank_text *t, const char *text, size_t len, bool own)
{
    if (!len) return;
    if (t->text) {
        memcpy(t->text + t->len, text, len);
        t->spans[t->n_spans] = (qsf_text_span){ t->len, len, own };
    }
    t->len += len;
    t->n_spans++;
}

static void rerank_fill(rerank_text *t, const char *text, const char *query, size_t query_len,
                        const char *document, size_t document_len)
{
    for (const char *next;; text = next) {
        const char *q = strstr(text, "{query}"), *d = strstr(text, "{document}");
        next = !q ? d : !d ? q : q < d ? q : d;
        rerank_add(t, text, next ? (size_t)(next - text) : strlen(text), true);
        if (!next) return;
        if (next == q) rerank_add(t, query, query_len, false);
        else rerank_add(t, document, document_len, false);
        next += next == q ? strlen("{query}") : strlen("{document}");
    }
}

/* Control tokens are recognised in the template's own text, not in the query and the document.  The
 * tokenizer gets one string: a space of the template may be part of a document's first token. */
static qsf_status rerank_template(rerank_sink *s, const char *text, const char *query, size_t query_len,
                                  const char *document, size_t document_len)
{
    const qsf_platform *p = s->m->platform;
    rerank_text t = { 0 };
    if (!s->m->tokenizer) return rerank_put(s, text, 0, 0, false);      /* reports the missing tokenizer */
    rerank_fill(&t, text, query, query_len, document, document_len);
    const uint64_t bytes = t.n_spans * (uint64_t)sizeof *t.spans + t.len + 1;        /* all may be empty */
    char *mem = qsf_alloc(p, bytes, "a pair of texts", s->err);
    if (!mem) return QSF_E_MEMORY;
    const size_t n_spans = t.n_spans, len = t.len;
    t = (rerank_text){ .spans = (qsf_text_span *)(void *)mem, .text = mem + n_spans * sizeof *t.spans };
    rerank_fill(&t, text, query, query_len, document, document_len);
    const qsf_status st = qsf_tokenizer_encode_chat(s->m->tokenizer, t.text, len, t.spans, n_spans, false,
                                                    s->ids, s->cap, &s->n, s->err);
    qsf_dealloc(p, mem, bytes);
    return st == QSF_E_ARGUMENT && s->n > s->cap ? QSF_OK : st;         /* the caller reports it */
}

qsf_status qsf_rerank_encode(const qsf_model *m, const char *query, size_t query_len, const char *document,
                             size_t document_len, int32_t *ids, size_t cap, size_t *n, qsf_error *err)
{
    rerank_sink s = { .m = m, .ids = ids, .cap = cap, .err = err };
    const char *own = rerank_own(m);
    const char *sep = rerank_meta(m, "tokenizer.ggml.add_sep_token");
    const char *eos = rerank_meta(m, "tokenizer.ggml.add_eos_token");
    qsf_status st;
    *n = 0;
    if (own || !m->source->hp.both_ways) {
        st = rerank_template(&s, own ? own : rerank_plain, query, query_len, document, document_len);
    } else {
        st = rerank_put(&s, query, query_len, QSF_TOK_ADD_SPECIAL, false);
        /* RoBERTa's have two between the texts. */
        if (sep && eos && !strcmp(sep, "true") && !strcmp(eos, "true") && qsf_token_eos(m) >= 0)
            rerank_token(&s, qsf_token_eos(m));
        if (!st) st = rerank_put(&s, document, document_len, QSF_TOK_ADD_SPECIAL, true);
    }
    if (st) return st;
    *n = s.n;
    return s.n <= cap ? QSF_OK
        : qsf_fail(err, QSF_E_ARGUMENT, "the pair takes %llu tokens, there is room for %llu",
                   (unsigned long long)s.n, (unsigned long long)cap);
}

/* ---- the score ---- */

qsf_status qsf_rerank(qsf_context *c, const int32_t *ids, const size_t *lens, size_t n, float *scores)
{
    qsf_embed_run r;
    const qsf_status st = qsf_embed_run_begin(c, &r, ids, lens, n, NULL, true, scores);
    return st ? st : qsf_embed_run_all(c, &r);
}
