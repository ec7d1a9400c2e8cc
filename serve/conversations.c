/* What a chat's template makes of a request.
 * SPDX-License-Identifier: MIT */
#include "front.h"

#include <stdlib.h>
#include <string.h>

const char *front_template(const serve_front *f, const model_entry *m)
{
    if (f->set->template_name) return f->set->template_name;
    if (m->state != MODEL_READY) return "";
    if (m->info.chat_template) return m->info.chat_template;
    return qsf_chat_template(m->model) ? qsf_chat_template(m->model) : "plain";
}

/* The options that a conversation is written with. */
static void chat_options(const serve_front *f, const serve_request *r, qsf_chat_options *o)
{
    qsf_chat_defaults(o);
    o->chat_template = f->set->template_name;
    o->tools = r->tools;
    o->kwargs = r->kwargs;
    o->continue_final_message = r->continue_final;
    o->add_generation_prompt = r->generate && !r->continue_final;
}

static bool conversation_refuse(qsf_status st, const qsf_error *err, serve_error *e)
{
    if (st == QSF_E_MEMORY) return serve_refuse(e, 503, NULL, NULL, "out of memory for the request");
    return serve_refuse(e, 400, "invalid_value", "messages", "%s", err->text);
}

char *front_render(const front_job *j, size_t *len, serve_error *e)
{
    const serve_request *r = &j->job.request;
    qsf_chat_options o;
    qsf_error err = { .text = "the chat template failed" };
    size_t cap = r->messages.len + 4096;
    chat_options(j->front, r, &o);
    for (int i = 0; i < 2; i++) {
        char *text = malloc(cap);
        if (!text) return conversation_refuse(QSF_E_MEMORY, &err, e), NULL;
        const qsf_status st = qsf_chat_render_json(j->entry->model, r->messages.text, r->messages.len, &o,
                                                   text, cap, len, &err);
        if (!st) return text;
        free(text);
        if (st != QSF_E_ARGUMENT || *len < cap) return conversation_refuse(st, &err, e), NULL;
        cap = *len + 1;
    }
    return conversation_refuse(QSF_E_ARGUMENT, &err, e), NULL;
}

qsf_conversation *front_conversation(const front_job *j, serve_error *e)
{
    qsf_chat_options o;
    qsf_conversation *c;
    qsf_error err;
    chat_options(j->front, &j->job.request, &o);
    const qsf_status st = qsf_conversation_new(j->entry->model, &o, &c, &err);
    if (st) conversation_refuse(st, &err, e);
    return c;
}

bool front_encode(front_job *j, serve_error *e)
{
    const serve_words *messages = &j->job.request.messages;
    if (!j->talk && !(j->talk = front_conversation(j, e))) return false;
    const qsf_status st = qsf_conversation_json(j->talk, messages->text, messages->len);
    return !st || conversation_refuse(st, qsf_conversation_error(j->talk), e);
}
