/* What is asked of a tokenizer and a template alone: /tokenize, /detokenize, /apply-template,
 * /v1/messages/count_tokens.
 * SPDX-License-Identifier: MIT */
#include "front.h"

#include <stdlib.h>

static void write_tokens(const serve_tokens *t, serve_text *out)
{
    text_str(out, "{\"tokens\":[");
    for (size_t i = 0; i < t->n; i++) text_format(out, i ? ",%d" : "%d", (int)t->ids[i]);
    text_str(out, "]}");
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
    if (j->job.request.api == API_TEMPLATE) return write_rendered(j, out, e);
    if (!front_tokens(j, &t, &n, e)) return false;
    if (j->job.request.counts)
        text_format(out, "{%s\"input_tokens\":%zu}", j->job.request.api == API_MESSAGES ? ""
                    : "\"object\":\"response.input_tokens\",", t->n);
    else if (j->job.request.api == API_TOKENIZE) write_tokens(t, out);
    else write_content(j->entry->model, t, out);
    front_tokens_free(t, n);
    return true;
}
