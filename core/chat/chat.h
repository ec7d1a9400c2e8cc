/* Chat templates: renders a conversation with a Jinja template, and tracks which bytes come from
 * the template and which from messages.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CHAT_H
#define QSF_CHAT_H

#include "base/arena.h"
#include "chat/jinja.h"
#include "text/json.h"
#include "text/text_span.h"

/* ---- templates with a name (chat_templates.c) ---- */

const char *const *qsf_chat_names(void);             /* NULL-terminated */
/* The template with this name, and in *stop the text that ends an answer; NULL: unknown name. */
const char *qsf_chat_known(const char *name, const char **stop);

/* ---- conversations (chat.c) ---- */

/* What a conversation is rendered with.  NULL strings are undefined. */
typedef struct qsf_chat_ask {
    const qsf_platform *platform;
    const char *jinja;                  /* the template */
    const char *bos, *eos, *unk, *pad;  /* the texts of the model's tokens */
    /* The conversation: of JSON (a list), or n plain messages. */
    const qsf_json_node *json;
    const qsf_message   *messages;
    size_t               n;
    const qsf_json_node *tools, *documents, *kwargs;    /* lists, and an object */
    bool    generate;                   /* ends with the beginning of an answer */
    bool    goes_on;                    /* continues the last message; excludes generate */
    bool    as_given;                   /* messages are not adapted (chat_adapt.c) */
    bool    may_drop;                   /* dropping a message is not an error */
    int64_t now;                        /* for strftime_now; 0: the function is not defined */
} qsf_chat_ask;

/* A conversation as text.  The spans tile it. */
typedef struct qsf_chat_text {
    const char          *text;          /* terminated */
    size_t               len, n_spans;
    const qsf_text_span *spans;
    qsf_arena           *arena;         /* holds all of it */
} qsf_chat_text;

/* Renders the conversation.  On an error *out is empty.
 *
 * QSF_E_CANCELLED     the template refuses, with its own message
 * QSF_E_ARGUMENT      these are not messages, or the template fails on them or drops one
 * QSF_E_UNSUPPORTED, QSF_E_BUDGET, QSF_E_MEMORY       as in jinja.h
 * Errors from a template have its line and column. */
qsf_status qsf_chat_write(const qsf_chat_ask *ask, qsf_chat_text *out, qsf_error *err);
void       qsf_chat_text_drop(qsf_chat_text *t);     /* takes an empty one */

/* Finds the text that the template writes after an answer to end the turn; of ask only the
 * template, the tokens, kwargs and now are used.  *len: its length, 0 if it cannot be determined;
 * out[cap] is terminated. */
qsf_status qsf_chat_find_stop(const qsf_chat_ask *ask, char *out, size_t cap, size_t *len, qsf_error *err);

#endif
