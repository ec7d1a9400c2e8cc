/* Log probabilities of an answer's tokens.
 * SPDX-License-Identifier: MIT */
#include "formats.h"

#include <math.h>

/* A token's text, also of one that is a part of a character: then its bytes in hexadecimal. */
static void write_token(const front_job *j, int32_t token, bool name_bytes, serve_text *out)
{
    const char *piece;
    const size_t n = qsf_token_piece(j->entry->model, token, true, &piece);
    if (!name_bytes || text_is_utf8(piece, n)) {
        text_json(out, piece, n);
        return;
    }
    text_str(out, "\"bytes:");
    for (size_t i = 0; i < n; i++) text_format(out, "\\\\x%02x", (unsigned char)piece[i]);
    text_str(out, "\"");
}

/* JSON has no infinity. */
static double number_of(float logprob) { return isfinite(logprob) ? (double)logprob : -9999.0; }

/* "token":...,"logprob":...,"bytes":[...] */
static void write_chat_token(const front_job *j, int32_t token, float logprob, serve_text *out)
{
    const char *piece;
    const size_t n = qsf_token_piece(j->entry->model, token, true, &piece);
    if (j->form) text_format(out, "\"id\":%d,", (int)token);      /* llama-server's format */
    text_str(out, "\"token\":");
    text_json(out, piece, n);
    text_format(out, ",\"logprob\":%.6f,\"bytes\":[", number_of(logprob));
    for (size_t i = 0; i < n; i++) text_format(out, i ? ",%u" : "%u", (unsigned char)piece[i]);
    text_str(out, "]");
}

/* What a grammar forced was not asked of the model: under the grammar it is certain. */
static float own_logprob(const serve_event *e)
{
    return e->n_logprobs ? serve_event_logprobs(e)[0].logprob : 0;
}

static void add_chat(const front_job *j, front_choice *ch, const serve_event *e)
{
    serve_text *out = &ch->logprobs[0];
    text_str(out, out->len ? ",{" : "{");
    write_chat_token(j, e->token, own_logprob(e), out);
    text_str(out, ",\"top_logprobs\":[");
    for (uint32_t i = 1; i < e->n_logprobs; i++) {
        const qsf_logprob *p = &serve_event_logprobs(e)[i];
        text_str(out, i > 1 ? ",{" : "{");
        write_chat_token(j, p->token, p->logprob, out);
        text_str(out, "}");
    }
    text_str(out, "]}");
}

/* Lists: tokens, token_logprobs, top_logprobs, text_offset. */
static void add_completion(const front_job *j, front_choice *ch, const serve_event *e)
{
    const char *comma = ch->logprobs[0].len ? "," : "", *piece;
    serve_text *top = &ch->logprobs[2];
    for (int i = 0; i < 4; i++) text_str(&ch->logprobs[i], comma);
    write_token(j, e->token, false, &ch->logprobs[0]);
    const bool none = e->kind == EVENT_PROMPT && !e->n_logprobs;       /* nothing is before it */
    if (none) text_str(&ch->logprobs[1], "null");
    else text_format(&ch->logprobs[1], "%.6f", number_of(own_logprob(e)));
    text_str(top, none ? "null" : "{");
    for (uint32_t i = 1; i < e->n_logprobs && i <= j->job.request.logprobs; i++) {
        const qsf_logprob *p = &serve_event_logprobs(e)[i];
        if (i > 1) text_str(top, ",");
        write_token(j, p->token, true, top);
        text_format(top, ":%.6f", number_of(p->logprob));
    }
    text_str(top, none ? "" : "}");
    text_format(&ch->logprobs[3], "%u", (unsigned)ch->n_characters);
    const size_t n = qsf_token_piece(j->entry->model, e->token, false, &piece);
    for (size_t i = 0; i < n; i++) ch->n_characters += ((unsigned char)piece[i] & 0xc0) != 0x80;
}

void format_logprob(const front_job *j, front_choice *ch, const serve_event *e)
{
    if (j->form || j->job.request.api & (API_CHAT | API_RESPONSES)) add_chat(j, ch, e);
    else add_completion(j, ch, e);
}

/* "id":{"logprob":...,"rank":...,"decoded_token":...} */
static void add_prompt_token(const front_job *j, const qsf_logprob *p, uint32_t rank, serve_text *out)
{
    const char *piece;
    const size_t n = qsf_token_piece(j->entry->model, p->token, true, &piece);
    text_format(out, "\"%d\":{\"logprob\":%.6f,\"rank\":%u,\"decoded_token\":", (int)p->token,
                number_of(p->logprob), (unsigned)rank);
    text_json(out, piece, n);
    text_str(out, "}");
}

void format_prompt_logprob(const front_job *j, front_choice *ch, const serve_event *e)
{
    const serve_request *r = &j->job.request;
    const qsf_logprob *p = serve_event_logprobs(e);
    serve_text *out = &ch->prompt_logprobs;
    if (r->echo && r->logprobs >= 0) format_logprob(j, ch, e);
    if (r->prompt_logprobs < 0) return;
    text_str(out, out->len ? "," : "");
    if (!e->n_logprobs) {                       /* nothing is before it */
        text_str(out, "null");
        return;
    }
    text_str(out, "{");
    add_prompt_token(j, p, e->n_tokens, out);
    for (uint32_t i = 1; i < e->n_logprobs && i <= r->prompt_logprobs; i++) {
        if (p[i].token == p->token) continue;
        text_str(out, ",");
        add_prompt_token(j, &p[i], i, out);
    }
    text_str(out, "}");
}

void format_prompt_logprobs(const front_job *j, const front_choice *ch, serve_text *out)
{
    if (j->job.request.prompt_logprobs < 0) return;
    text_format(out, ",\"prompt_logprobs\":[%s]", format_bytes(&ch->prompt_logprobs));
    out->failed |= ch->prompt_logprobs.failed;
}

void format_logprobs(const front_job *j, const front_choice *ch, serve_text *out)
{
    static const char *const names[] = { "{\"tokens\":[", "],\"token_logprobs\":[", "],\"top_logprobs\":[",
                                         "],\"text_offset\":[" };
    text_str(out, "\"logprobs\":");
    if (j->job.request.logprobs < 0 || (j->job.request.stream && !ch->logprobs[0].len)) {
        text_str(out, "null");
    } else if (j->job.request.api == API_CHAT) {
        text_format(out, "{\"content\":[%s],\"refusal\":null}", format_bytes(&ch->logprobs[0]));
    } else {
        for (int i = 0; i < 4; i++) {
            text_str(out, names[i]);
            text_str(out, format_bytes(&ch->logprobs[i]));
        }
        text_str(out, "]}");
    }
    for (int i = 0; i < 4; i++) out->failed |= ch->logprobs[i].failed;
}

void format_logprobs_clear(front_choice *ch)
{
    for (int i = 0; i < 4; i++) text_clear(&ch->logprobs[i]);
}
