/* Requests that need the tokenizer or a template alone: /tokenize, /detokenize, /apply-template,
 * /v1/messages/count_tokens.
 * SPDX-License-Identifier: MIT */
#include "front.h"

#include <stdlib.h>

/* A token's text, or its bytes if it is part of a character. */
static void write_piece(const qsf_model *m, int32_t id, serve_text *out)
{
    const char *piece;
    const size_t n = qsf_token_piece(m, id, true, &piece);
    if (text_is_utf8(piece, n)) {
        text_json(out, piece, n);
        return;
    }
    text_str(out, "[");
    for (size_t i = 0; i < n; i++) text_format(out, i ? ",%u" : "%u", (unsigned char)piece[i]);
    text_str(out, "]");
}

/* Token ids; with their texts in llama-server's format; or vLLM's format. */
static void write_tokens(const front_job *j, const serve_tokens *t, serve_text *out)
{
    const qsf_model *m = j->entry->model;
    const bool counts = j->body.asks & REWRITE_COUNT, pieces = j->body.asks & REWRITE_PIECES;
    text_str(out, "{");
    if (counts)
        text_format(out, "\"count\":%zu,\"max_model_len\":%u,", t->n,
                    (unsigned)serve_engine_facts(j->entry->engine)->n_seq);
    text_str(out, "\"tokens\":[");
    for (size_t i = 0; i < t->n; i++) {
        if (i) text_str(out, ",");
        if (!pieces || counts) {
            text_format(out, "%d", (int)t->ids[i]);
            continue;
        }
        text_format(out, "{\"id\":%d,\"piece\":", (int)t->ids[i]);
        write_piece(m, t->ids[i], out);
        text_str(out, "}");
    }
    text_str(out, "]");
    if (counts) text_str(out, pieces ? ",\"token_strs\":[" : ",\"token_strs\":null");
    for (size_t i = 0; counts && pieces && i < t->n; i++) {
        const char *piece;
        const size_t n = qsf_token_piece(m, t->ids[i], true, &piece);
        if (i) text_str(out, ",");
        text_json(out, piece, n);
    }
    text_str(out, counts && pieces ? "]}" : "}");
}

static void write_content(const qsf_model *m, const serve_tokens *t, serve_text *out)
{
    serve_text text = { 0 };
    const char *piece;
    for (size_t i = 0; i < t->n; i++) {
        const size_t len = qsf_token_piece(m, t->ids[i], true, &piece);
        text_add(&text, piece, len);
    }
    text_str(out, "{\"content\":");
    text_json(out, text.bytes ? text.bytes : "", text.len);
    text_str(out, ",\"prompt\":");            /* vLLM's name for it */
    text_json(out, text.bytes ? text.bytes : "", text.len);
    text_str(out, "}");
    out->failed |= text.failed;
    text_free(&text);
}

static bool write_rendered(const front_job *j, serve_text *out, serve_error *e)
{
    size_t len;
    char *text = front_render(j, &len, e);
    if (!text) return false;
    text_str(out, "{\"prompt\":");
    text_json(out, text, len);
    text_str(out, "}");
    free(text);
    return true;
}

bool front_text(front_job *j, serve_text *out, serve_error *e)
{
    serve_tokens *t;
    unsigned n;
    if (j->job.request.api == API_TEMPLATE && !j->body.asks) return write_rendered(j, out, e);
    if (!front_tokens(j, &t, &n, e)) return false;
    if (j->job.request.counts)
        text_format(out, "{%s\"input_tokens\":%zu}", j->job.request.api == API_MESSAGES ? ""
                    : "\"object\":\"response.input_tokens\",", t->n);
    else if (j->job.request.api != API_DETOKENIZE) write_tokens(j, t, out);
    else write_content(j->entry->model, t, out);
    front_tokens_free(t, n);
    return true;
}
