/* Replies and refusals, in the form of the path's API.
 * SPDX-License-Identifier: MIT */
#include "routes.h"

#include <string.h>

void front_refuse(serve_front *f, http_conn *c, const serve_error *e, error_form form, const char *more)
{
    text_clear(&f->out);
    format_error(&f->out, e, form);
    front_note(c, e);
    http_reply(c, e->status, "application/json", more, f->out.bytes, f->out.len);
}

void front_refusal(void *front, serve_text *body, int status, const char *why)
{
    serve_error e = { 0 };
    (void)front;
    serve_refuse(&e, status, NULL, NULL, "%s", why);
    format_error(body, &e, ERRORS_OPENAI);
}

error_form route_errors(const char *path)
{
    return !strncmp(path, "/v1/messages", 12) ? ERRORS_ANTHROPIC
           : !strncmp(path, "/api/", 5) ? ERRORS_OLLAMA : ERRORS_OPENAI;
}

void route_reply(const route_call *call)
{
    serve_text *out = &call->f->out;
    if (out->failed) http_break(call->c);
    else http_reply(call->c, 200, "application/json", call->cors, out->bytes, out->len);
}

void route_refuse(const route_call *call, const serve_error *e)
{
    front_refuse(call->f, call->c, e, route_errors(call->r->head.path), call->cors);
}
