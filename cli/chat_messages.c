/* The messages of a chat.
 * SPDX-License-Identifier: MIT */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

static bool chat_room(conversation *c, size_t n)
{
    if (n <= c->cap) return true;
    const size_t cap = n < 8 ? 16 : 2 * n;
    message *msgs = realloc(c->msgs, cap * sizeof *msgs);
    if (!msgs) return false;
    c->msgs = msgs;
    c->cap = cap;
    return true;
}

bool chat_add_message(conversation *c, message *m)
{
    const bool whole = message_whole(m) && chat_room(c, c->n + 1);
    if (whole) c->msgs[c->n++] = *m;
    else message_free(m);
    if (m->role && m->role[0] == 'a') c->declined = 0;
    *m = (message){ 0 };
    return whole;
}

bool chat_add(conversation *c, const char *role, const char *text, size_t len)
{
    message m;
    message_begin(&m, role, text, len);
    return chat_add_message(c, &m);
}

/* ---- results of tools ---- */

const tool_call *chat_call(const conversation *c)
{
    size_t i = c->n;
    while (i && c->msgs[i - 1].role[0] == 't') i--;
    const message *m = i ? &c->msgs[i - 1] : NULL;
    const size_t n_results = c->n - i;
    const bool asked = m && m->role[0] == 'a' && c->s->set->tools && c->declined != i;
    return asked && n_results < m->n_calls ? &m->calls[n_results] : NULL;
}

bool chat_add_result(conversation *c, const tool_call *call, const char *text, size_t len)
{
    message m;
    message_begin(&m, "tool", text, len);
    message_add_call(&m, call->id, strlen(call->id), call->name, strlen(call->name));
    return chat_add_message(c, &m);
}

/* ---- the end of it ---- */

void chat_drop_last(conversation *c) { message_free(&c->msgs[--c->n]); }

void chat_reset(conversation *c)
{
    while (c->n) chat_drop_last(c);
    c->declined = 0;
    qsf_seq_truncate(c->s->context, 0, 0);
    if (c->system) chat_add(c, "system", c->system, strlen(c->system));
}

void chat_free(conversation *c)
{
    while (c->n) chat_drop_last(c);
    free(c->msgs);
    free(c->system);
    free(c->file);
}

/* ---- tokens ---- */

bool chat_prompt(conversation *c)
{
    buffer all = { 0 };
    if (c->s->template_name) return session_chat(c->s, c->msgs, c->n);
    for (size_t i = 0; i < c->n; i++) {
        buffer_add(&all, buffer_text(&c->msgs[i].text), c->msgs[i].text.n);
        if (c->msgs[i].role[0] == 'u') buffer_put(&all, "\n");
    }
    if (all.failed) c->s->error = (qsf_error){ QSF_E_MEMORY, "out of memory for the conversation" };
    const bool set = !all.failed && session_text(c->s, buffer_text(&all), all.n);
    buffer_free(&all);
    return set;
}

/* ---- the system message ---- */

static bool has_system(const conversation *c) { return c->n && c->msgs[0].role[0] == 's'; }

static bool template_takes(conversation *c, const char *text)
{
    message msgs[2];
    if (!c->s->template_name) return true;
    message_begin(&msgs[0], "system", text, strlen(text));
    message_begin(&msgs[1], "user", "Hello", 5);
    const bool takes = session_chat(c->s, msgs, 2);
    if (!takes) report(&c->s->error);
    message_free(&msgs[0]);
    message_free(&msgs[1]);
    return takes;
}

bool chat_set_system(conversation *c, const char *text)
{
    const bool none = !*text;
    message first;
    if (!none && !template_takes(c, text)) return false;
    char *kept = none ? NULL : malloc(strlen(text) + 1);
    if (!message_begin(&first, "system", text, strlen(text)) || (!none && !kept) || !chat_room(c, c->n + 1)) {
        free(kept);
        message_free(&first);
        fputs("out of memory\n", stderr);
        return false;
    }
    if (kept) strcpy(kept, text);
    free(c->system);
    c->system = kept;
    const size_t old = has_system(c), new = !none;
    if (old) message_free(&c->msgs[0]);
    if (c->n > old) memmove(c->msgs + new, c->msgs + old, (c->n - old) * sizeof *c->msgs);
    c->n = c->n - old + new;
    c->declined = 0;
    if (none) message_free(&first);
    else c->msgs[0] = first;
    return true;
}

/* ---- the last question again ---- */

/* What of the conversation goes before another answer comes. */
static size_t answered_from(const conversation *c)
{
    size_t at = c->n;
    if (chat_call(c))                             /* results are missing: what calls is answered anew */
        while (at && c->msgs[at - 1].role[0] == 't') at--;
    return at && c->msgs[at - 1].role[0] == 'a' ? at - 1 : at;
}

bool chat_take(conversation *c, bool with_question, chat_taken *t)
{
    size_t at = with_question ? c->n : answered_from(c), asked = at;
    while (asked && c->msgs[asked - 1].role[0] != 'u') asked--;
    *t = (chat_taken){ 0 };
    if (!asked) return false;
    if (with_question) at = asked - 1;
    if (!(t->msgs = malloc((c->n - at + 1) * sizeof *t->msgs))) return false;
    t->n = c->n - at;
    t->at = c->n = at;
    memcpy(t->msgs, c->msgs + at, t->n * sizeof *t->msgs);
    return true;
}

void chat_put_back(conversation *c, chat_taken *t)
{
    while (c->n > t->at) chat_drop_last(c);
    memcpy(c->msgs + c->n, t->msgs, t->n * sizeof *t->msgs);
    c->n += t->n;
    free(t->msgs);
    *t = (chat_taken){ 0 };
}

void chat_let_go(chat_taken *t)
{
    for (size_t i = 0; i < t->n; i++) message_free(&t->msgs[i]);
    free(t->msgs);
    *t = (chat_taken){ 0 };
}
