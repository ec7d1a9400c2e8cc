/* The messages of a chat.
 * SPDX-License-Identifier: MIT */
#include "answer_parts.h"
#include "chat.h"

#include <stdlib.h>
#include <string.h>

/* A message ends at a zero byte.  Where a model gives one in an answer, the character for what is
 * none takes its place. */
static char *text_copy(const char *text, size_t len)
{
    static const char instead[] = "\xef\xbf\xbd";
    size_t n = 0, zeros = 0;
    for (size_t i = 0; i < len; i++) zeros += !text[i];
    char *copy = malloc(len + zeros * (sizeof instead - 2) + 1);
    for (size_t i = 0; copy && i < len; i++) {
        if (text[i]) {
            copy[n++] = text[i];
            continue;
        }
        memcpy(copy + n, instead, sizeof instead - 1);
        n += sizeof instead - 1;
    }
    if (copy) copy[n] = 0;
    return copy;
}

static bool chat_room(conversation *c, size_t n)
{
    if (n <= c->cap) return true;
    const size_t cap = n < 8 ? 16 : 2 * n;
    qsf_message *msgs = realloc(c->msgs, cap * sizeof *msgs);
    if (!msgs) return false;
    c->msgs = msgs;
    c->cap = cap;
    return true;
}

bool chat_add(conversation *c, const char *role, const char *text, size_t len)
{
    char *copy = chat_room(c, c->n + 1) ? text_copy(text, len) : NULL;
    if (!copy) return false;
    c->msgs[c->n++] = (qsf_message){ role, copy };
    return true;
}

static void message_free(qsf_message m) { free((char *)(size_t)m.content); }

void chat_drop_last(conversation *c) { message_free(c->msgs[--c->n]); }

void chat_reset(conversation *c)
{
    while (c->n) chat_drop_last(c);
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

/* Templates get the answers of before without their reasoning, as models are trained. */
static int32_t *tokens_by_template(run_session *s, const qsf_message *msgs, size_t n, size_t *n_ids)
{
    qsf_message *shown = malloc((n + 1) * sizeof *shown);
    int32_t *ids = NULL;
    if (!shown) {
        s->error = (qsf_error){ QSF_E_MEMORY, "out of memory for the conversation" };
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        const char *text = msgs[i].content;
        if (msgs[i].role[0] == 'a') text += answer_text_at(text, strlen(text));
        shown[i] = (qsf_message){ msgs[i].role, text };
    }
    ids = session_chat(s, shown, n, n_ids);
    free(shown);
    return ids;
}

int32_t *chat_tokens(conversation *c, size_t *n)
{
    size_t len = 0, cap = 1;
    if (c->s->template_name) return tokens_by_template(c->s, c->msgs, c->n, n);
    for (size_t i = 0; i < c->n; i++) cap += strlen(c->msgs[i].content) + 1;
    char *text = malloc(cap);
    for (size_t i = 0; text && i < c->n; i++) {
        const size_t part = strlen(c->msgs[i].content);
        memcpy(text + len, c->msgs[i].content, part);
        len += part;
        if (c->msgs[i].role[0] == 'u') text[len++] = '\n';
    }
    if (!text) return NULL;
    int32_t *ids = session_encode(c->s, text, len, QSF_TOK_ADD_SPECIAL | QSF_TOK_PARSE_SPECIAL, n);
    free(text);
    return ids;
}

/* ---- the system message ---- */

static bool has_system(const conversation *c) { return c->n && c->msgs[0].role[0] == 's'; }

static bool template_takes(conversation *c, const char *text)
{
    size_t n;
    const qsf_message msgs[] = { { "system", text }, { "user", "Hello" } };
    if (!c->s->template_name) return true;
    int32_t *ids = tokens_by_template(c->s, msgs, 2, &n);
    if (!ids) report(&c->s->error);
    free(ids);
    return ids != NULL;
}

bool chat_set_system(conversation *c, const char *text)
{
    const bool none = !*text;
    if (!none && !template_takes(c, text)) return false;
    char *kept = none ? NULL : text_copy(text, strlen(text));
    char *first = none ? NULL : text_copy(text, strlen(text));
    if (!none && (!kept || !first || !chat_room(c, c->n + 1))) {
        free(kept);
        free(first);
        fputs("out of memory\n", stderr);
        return false;
    }
    free(c->system);
    c->system = kept;
    const size_t old = has_system(c), new = !none;
    if (old) message_free(c->msgs[0]);
    if (c->n > old) memmove(c->msgs + new, c->msgs + old, (c->n - old) * sizeof *c->msgs);
    if (first) c->msgs[0] = (qsf_message){ "system", first };
    c->n = c->n - old + new;
    return true;
}

/* ---- the last question again ---- */

bool chat_take(conversation *c, bool with_question, chat_taken *t)
{
    const bool answered = c->n && c->msgs[c->n - 1].role[0] == 'a';
    *t = (chat_taken){ 0 };
    if (c->n < (answered ? 2u : 1u) || c->msgs[c->n - 1 - answered].role[0] != 'u') return false;
    t->n = (size_t)answered + with_question;
    t->at = c->n -= t->n;
    for (size_t i = 0; i < t->n; i++) t->msgs[i] = c->msgs[c->n + i];
    return true;
}

void chat_put_back(conversation *c, chat_taken *t)
{
    while (c->n > t->at) chat_drop_last(c);
    for (size_t i = 0; i < t->n; i++) c->msgs[c->n++] = t->msgs[i];
    *t = (chat_taken){ 0 };
}

void chat_let_go(chat_taken *t)
{
    for (size_t i = 0; i < t->n; i++) message_free(t->msgs[i]);
    *t = (chat_taken){ 0 };
}
