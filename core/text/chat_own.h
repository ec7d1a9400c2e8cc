/* What chat.c and chat_adapt.c share: a template at work on a conversation.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CHAT_OWN_H
#define QSF_CHAT_OWN_H

#include "text/chat.h"
#include "text/jinja_json.h"

/* A template that is read, with memory that grows as it needs more, and the last text that it
 * wrote. */
typedef struct chat_engine {
    const qsf_platform *platform;
    const char *jinja;
    qsf_jinja  *t;
    void       *mem;
    uint64_t    mem_size, cap, most;    /* most: bytes that it may grow to */
    uint32_t    steps;
    char       *out;                    /* [cap] the last text */
    uint8_t    *own;                    /* [(cap + 7) / 8] which of its bytes are the template's */
    size_t      len;
} chat_engine;

/* payload: about how many bytes the variables have */
void       chat_engine_init(chat_engine *e, const qsf_platform *p, const char *jinja, uint64_t payload);
qsf_status chat_engine_render(chat_engine *e, const qsf_jinja_var *vars, size_t n, int64_t now,
                              qsf_error *err);
void       chat_engine_drop(chat_engine *e);
bool       chat_engine_wrote(const chat_engine *e, const char *text, size_t len);

typedef struct chat_document { qsf_json json; struct chat_document *next; } chat_document;

typedef struct chat_run {
    const qsf_chat_ask *ask;
    qsf_arena     *arena;               /* values that are made here */
    chat_document *documents;           /* JSON that was read here */
    chat_engine    engine;
    qsf_jinja_var *vars;                /* the first is "messages", the second "add_generation_prompt" */
    size_t         n_vars;
    uint8_t        in_parts;            /* bits of roles whose texts the template wants in parts */
    qsf_status     st;                  /* of making values: the first error, kept in *err */
    qsf_error     *err;
} chat_run;

/* The text of these messages to run->engine. */
qsf_status chat_run_render(chat_run *run, const qsf_jinja_value *messages, bool generate, qsf_error *err);

/* ---- values ---- */

/* n values, zeroed; NULL: run->st is set. */
qsf_jinja_value *chat_values(chat_run *run, size_t n);
/* The dictionary with this key's value, in the place that it has. */
qsf_jinja_value chat_with(chat_run *run, const qsf_jinja_value *dict, const char *key, qsf_jinja_value v);
/* Texts behind each other, with something between them where both are not empty. */
qsf_jinja_value chat_joined(chat_run *run, const qsf_jinja_value *a, const char *between,
                            const qsf_jinja_value *b);
/* The value of a JSON node; its document outlives the run. */
qsf_jinja_value chat_json(chat_run *run, const qsf_json_node *node);
bool chat_is(const qsf_jinja_value *v, const char *text);       /* takes NULL */

/* ---- adapting (chat_adapt.c) ---- */

/* Brings messages to the forms that the template takes, as far as small conversations show
 * which. */
void chat_adapt(chat_run *run, qsf_jinja_value *messages);
/* Says what the tools are where the template does not (chat_tools.c); true: there is a system
 * message. */
bool chat_adapt_tools(chat_run *run, qsf_jinja_value *messages);
/* The next thing to try where the template has refused *messages; false: there is nothing more. */
bool chat_adapt_more(chat_run *run, int *step, qsf_jinja_value *messages);
/* The messages with texts as parts, from whom the template wants them so. */
qsf_jinja_value chat_in_parts(chat_run *run, const qsf_jinja_value *messages);
/* Joins the texts of a message's parts, a line each. */
void chat_join_parts(chat_run *run, qsf_jinja_value *m);
/* One content before the other, with an empty line between them: a text, or parts. */
qsf_jinja_value chat_merged(chat_run *run, const qsf_jinja_value *a, const qsf_jinja_value *b);

#endif
