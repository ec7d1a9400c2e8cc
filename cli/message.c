/* One message of a conversation.
 * SPDX-License-Identifier: MIT */
#include "message.h"

#include <stdlib.h>
#include <string.h>

/* ---- made, and freed ---- */

static void text_take(buffer *b, const char *text, size_t len)
{
    for (size_t at = 0; at < len; at++) {
        const char *zero = memchr(text + at, 0, len - at);
        const size_t end = zero ? (size_t)(zero - text) : len;
        buffer_add(b, text + at, end - at);
        if (zero) buffer_put(b, "\xef\xbf\xbd");
        at = end;
    }
}

bool message_begin(message *m, const char *role, const char *text, size_t len)
{
    *m = (message){ .role = role };
    text_take(&m->text, text, len);
    return message_whole(m);
}

static void calls_free(message *m, size_t from)
{
    while (m->n_calls > from) {
        tool_call *c = &m->calls[--m->n_calls];
        free(c->id);
        free(c->name);
        buffer_free(&c->arguments);
    }
}

void message_free(message *m)
{
    calls_free(m, 0);
    free(m->calls);
    buffer_free(&m->text);
    buffer_free(&m->reasoning);
    *m = (message){ 0 };
}

bool message_whole(const message *m)
{
    bool whole = !m->failed && !m->text.failed && !m->reasoning.failed;
    for (size_t i = 0; i < m->n_calls; i++) whole = whole && !m->calls[i].arguments.failed;
    return whole;
}

static char *word_copy(const char *text, size_t len)
{
    char *copy = malloc(len + 1);
    if (!copy) return NULL;
    if (len) memcpy(copy, text, len);
    copy[len] = 0;
    return copy;
}

bool message_add_call(message *m, const char *id, size_t id_len, const char *name, size_t len)
{
    tool_call c = { word_copy(id, id_len), word_copy(name, len), { 0 } };
    tool_call *calls = realloc(m->calls, (m->n_calls + 1) * sizeof *calls);
    if (calls) m->calls = calls;
    if (calls && c.id && c.name) {
        calls[m->n_calls++] = c;
        return true;
    }
    free(c.id);
    free(c.name);
    m->failed = true;
    return false;
}

void message_take(message *m, const qsf_answer_event *e)
{
    tool_call *last = m->n_calls ? &m->calls[m->n_calls - 1] : NULL;
    switch (e->type) {
    case QSF_ANSWER_TEXT: text_take(&m->text, e->text, e->len); return;
    case QSF_ANSWER_REASONING: text_take(&m->reasoning, e->text, e->len); return;
    case QSF_ANSWER_CALL: message_add_call(m, e->id, e->id_len, e->text, e->len); return;
    case QSF_ANSWER_ARGUMENTS: if (last) buffer_add(&last->arguments, e->text, e->len); return;
    case QSF_ANSWER_CALL_CUT:                       /* it cannot be answered: it is text */
        text_take(&m->text, e->text, e->len);
        /* fall through */
    case QSF_ANSWER_CALL_DROPPED: if (last) calls_free(m, m->n_calls - 1); return;
    case QSF_ANSWER_CALL_END: return;
    }
}

/* ---- as text ---- */

static void json_member_put(buffer *out, const char *key, const char *text, size_t len)
{
    buffer_put(out, key);
    buffer_json(out, text, len);
}

static const char *call_arguments(const tool_call *c) { return c->arguments.n ? c->arguments.at : "{}"; }

void message_json(const message *m, buffer *out)
{
    const bool of_tool = !strcmp(m->role, "tool");
    json_member_put(out, "{\"role\": ", m->role, strlen(m->role));
    json_member_put(out, ", \"content\": ", buffer_text(&m->text), m->text.n);
    if (m->reasoning.n) json_member_put(out, ", \"reasoning_content\": ", m->reasoning.at, m->reasoning.n);
    for (size_t i = 0; i < m->n_calls; i++) {
        const tool_call *c = &m->calls[i];
        const char *arguments = call_arguments(c);
        if (!of_tool) buffer_put(out, i ? ", {" : ", \"tool_calls\": [{");
        json_member_put(out, of_tool ? ", \"tool_call_id\": " : "\"id\": ", c->id, strlen(c->id));
        if (!of_tool) buffer_put(out, ", \"type\": \"function\", \"function\": {");
        json_member_put(out, of_tool ? ", \"name\": " : "\"name\": ", c->name, strlen(c->name));
        if (of_tool) continue;
        json_member_put(out, ", \"arguments\": ", arguments, strlen(arguments));
        buffer_put(out, i + 1 < m->n_calls ? "}}" : "}}]");
    }
    buffer_put(out, "}");
}

void message_plain(const message *m, buffer *out)
{
    if (m->reasoning.n) {
        buffer_put(out, "<think>\n");
        buffer_add(out, m->reasoning.at, m->reasoning.n);
        buffer_put(out, "\n</think>\n\n");
    }
    buffer_add(out, buffer_text(&m->text), m->text.n);
    for (size_t i = 0; strcmp(m->role, "tool") && i < m->n_calls; i++) {
        const tool_call *c = &m->calls[i];
        if (out->n) buffer_put(out, "\n");
        json_member_put(out, "<tool_call>\n{\"name\": ", c->name, strlen(c->name));
        buffer_put(out, ", \"arguments\": ");
        buffer_put(out, call_arguments(c));
        buffer_put(out, "}\n</tool_call>");
    }
}
