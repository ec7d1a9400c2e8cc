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

void front_chat(const serve_front *f, const serve_request *r, qsf_chat_options *o)
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
    front_chat(j->front, r, &o);
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

bool front_encode(const front_job *j, serve_tokens *out, serve_error *e)
{
    const serve_request *r = &j->job.request;
    qsf_chat_options o;
    qsf_error err = { .text = "the chat template failed" };
    size_t cap = r->messages.len / 2 + 1024;
    front_chat(j->front, r, &o);
    for (int i = 0; i < 2; i++) {
        free(out->ids);
        out->ids = malloc(cap * sizeof *out->ids);
        if (!out->ids) return conversation_refuse(QSF_E_MEMORY, &err, e);
        const qsf_status st = qsf_chat_encode_json(j->entry->model, r->messages.text, r->messages.len, &o,
                                                   out->ids, cap, &out->n, &err);
        if (!st) return true;
        if (st != QSF_E_ARGUMENT || out->n <= cap) return conversation_refuse(st, &err, e);
        cap = out->n;
    }
    return conversation_refuse(QSF_E_ARGUMENT, &err, e);
}
