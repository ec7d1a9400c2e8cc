/* Shared by the files of chat templates: one template applied to one conversation.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CHAT_OWN_H
#define QSF_CHAT_OWN_H

#include "chat/chat.h"
#include "chat/jinja_json.h"

#define CHAT_WHAT "a conversation"          /* what memory is for, in messages */

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
void       qsf_chat_engine_init(chat_engine *e, const qsf_platform *p, const char *jinja, uint64_t payload);
qsf_status qsf_chat_engine_render(chat_engine *e, const qsf_jinja_var *vars, size_t n, int64_t now,
                                  qsf_error *err);
void       qsf_chat_engine_drop(chat_engine *e);
bool       qsf_chat_engine_wrote(const chat_engine *e, const char *text, size_t len);

typedef struct chat_document { qsf_json json; struct chat_document *next; } chat_document;

typedef struct chat_run {
    const qsf_chat_ask *ask;
    qsf_arena     *arena;               /* values that are made here */
    chat_document *documents;           /* JSON that was read here */
    chat_engine    engine;
    qsf_jinja_var *vars;                /* the first is "messages", the second "add_generation_prompt" */
    size_t         n_vars;
    uint8_t        in_parts;            /* bits of roles whose texts the template wants in parts */
    uint8_t        blind, developer, tool;      /* found by chat_shape.c; 0: unknown, 1: no, 2: yes */
    bool           given_up;            /* too slow or cannot be run: stop probing */
    uint64_t       steps;               /* of all renderings so far */
    uint32_t       lost;                /* the first message that the template dropped, or UINT32_MAX */
    qsf_status     st;                  /* of making values: the first error, kept in *err */
    qsf_error     *err;
} chat_run;

/* The text of these messages to run->engine. */
qsf_status qsf_chat_run_render(chat_run *run, const qsf_jinja_value *messages, bool generate, qsf_error *err);
/* Whether the template accepts these messages; the output stays in the engine. */
bool       qsf_chat_takes(chat_run *run, const qsf_jinja_value *m, size_t n);

/* ---- values ---- */

/* n values, zeroed; NULL: run->st is set. */
qsf_jinja_value *qsf_chat_values(chat_run *run, size_t n);
/* The dictionary with this key's value, in the place that it has. */
qsf_jinja_value qsf_chat_with(chat_run *run, const qsf_jinja_value *dict, const char *key, qsf_jinja_value v);
/* Concatenates two strings, with `between` between them if neither is empty. */
qsf_jinja_value qsf_chat_joined(chat_run *run, const qsf_jinja_value *a, const char *between,
                                const qsf_jinja_value *b);
/* The value of a JSON node; its document outlives the run. */
qsf_jinja_value qsf_chat_json(chat_run *run, const qsf_json_node *node);
bool qsf_chat_is(const qsf_jinja_value *v, const char *text);   /* takes NULL */

/* Whose contents a template may take in forms of their own; others are taken as the user's. */
enum { ADAPT_USER, ADAPT_SYSTEM, ADAPT_ASSISTANT, ADAPT_TOOL, ADAPT_ROLES };
extern const char *const qsf_chat_role_names[ADAPT_ROLES];
int qsf_chat_role_of(const qsf_jinja_value *m);

qsf_jinja_value qsf_chat_own_text(const char *text);
qsf_jinja_value qsf_chat_one_pair(chat_run *run, const char *key, qsf_jinja_value v);
qsf_jinja_value qsf_chat_message_of(chat_run *run, const char *role, qsf_jinja_value content);
/* [{"type": "text", "text": text}] */
qsf_jinja_value qsf_chat_parts_of(chat_run *run, qsf_jinja_value text);
qsf_jinja_value qsf_chat_list_of(chat_run *run, const qsf_jinja_value *items, size_t n); /* a copy */
bool qsf_chat_is_blank(const qsf_jinja_value *text);
/* The list of a message's calls, or NULL. */
const qsf_jinja_value *qsf_chat_calls_of(const qsf_jinja_value *m);
/* Joins the texts of a message's parts, a line each. */
void qsf_chat_join_parts(chat_run *run, qsf_jinja_value *m);
/* Joins two contents, with an empty line between them: to a string, or to a list of parts. */
qsf_jinja_value qsf_chat_merged(chat_run *run, const qsf_jinja_value *a, const qsf_jinja_value *b);
/* The messages with strings as lists of parts, for the roles that need it. */
qsf_jinja_value qsf_chat_in_parts(chat_run *run, const qsf_jinja_value *messages);

/* ---- forms of contents and arguments (chat_adapt.c) ---- */

/* Brings messages to the forms that the template takes, as far as small conversations show which,
 * and to a shape in which it writes all of them. */
void qsf_chat_adapt(chat_run *run, qsf_jinja_value *messages);
/* If the template does not write the tools, adds text that does (chat_tools.c); true: added. */
bool qsf_chat_adapt_tools(chat_run *run, qsf_jinja_value *messages);
/* The message with its calls, or a tool's result, as text (chat_tools.c). */
qsf_jinja_value qsf_chat_without_calls(chat_run *run, const qsf_jinja_value *m);

/* ---- shapes of conversations (chat_shape.c) ---- */

/* Whether the template writes the whole content of all messages, with roles that it knows;
 * otherwise sets run->lost. */
bool qsf_chat_fits(chat_run *run, const qsf_jinja_value *messages);
/* Applies as few remedies as make the messages fit; false: none do, nothing changed. */
bool qsf_chat_fit(chat_run *run, qsf_jinja_value *messages);

/* ---- remedies (chat_remedy.c), in the order in which they are applied ---- */

typedef enum chat_remedy {
    CHAT_ROLES,             /* "developer" becomes "system"; role names of other APIs become OpenAI's */
    CHAT_ONE_PART,          /* several text parts become one, joined by line ends */
    CHAT_EMPTY,             /* missing content or an empty list becomes an empty string */
    CHAT_BLANK,             /* an empty answer without calls becomes a space */
    CHAT_IDS,               /* call ids become nine letters and digits */
    CHAT_TEXT_APART,        /* text next to calls becomes a message before them */
    CHAT_TEXT_LATER,        /* ... or moves to the answer after them */
    CHAT_CALLS_APART,       /* each of several calls becomes a message, followed by its result */
    CHAT_NO_CALLS,          /* calls and results become text */
    CHAT_RESULT,            /* a result without a call becomes the user's text */
    CHAT_UNKNOWN,           /* a message of an unknown role becomes the user's, after the role's name */
    CHAT_SYSTEM_ONE,        /* several leading system messages become one */
    CHAT_SYSTEM_LATER,      /* a later system message moves to the next question */
    CHAT_ROWS,              /* consecutive messages of one role become one */
    CHAT_BEGIN,             /* adds an empty question before an answer that comes first */
    CHAT_AFTER_RESULT,      /* adds a blank answer between a tool's result and a question */
    CHAT_END,               /* adds an empty question after an answer that comes last */
    CHAT_SYSTEM_FIRST,      /* the system message moves to the first question */
    CHAT_REMEDIES
} chat_remedy;

/* Applies one remedy to the messages; false: it changes nothing. */
bool qsf_chat_remedy_apply(chat_run *run, chat_remedy which, qsf_jinja_value *messages);

#endif
