/* One message of a conversation: its text, the model's reasoning before it, and tool calls.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_MESSAGE_H
#define QSF_CLI_MESSAGE_H

#include "buffer.h"
#include "qsf.h"

/* arguments: JSON. */
typedef struct tool_call { char *id, *name; buffer arguments; } tool_call;

typedef struct message {
    const char *role;             /* system, user, assistant or tool; not owned */
    buffer      text, reasoning;
    tool_call  *calls;            /* of an answer: what it calls; of a tool's message: the call it answers */
    size_t      n_calls;
    bool        failed;           /* out of memory: a part is missing */
} message;

/* Whether the message is complete.  Zero bytes, which would end a string, become U+FFFD. */
bool message_begin(message *m, const char *role, const char *text, size_t len);
void message_free(message *m);
bool message_whole(const message *m);
/* Adds an event of an answer to the message. */
void message_take(message *m, const qsf_answer_event *e);
bool message_add_call(message *m, const char *id, size_t id_len, const char *name, size_t len);
/* Adds the message as JSON, as the OpenAI interface has it. */
void message_json(const message *m, buffer *out);
/* An answer as one string: the reasoning between <think> and </think>, then the text, then each
 * call between <tool_call> and </tool_call>, a form that qsf_answer can read if the template does
 * not define one. */
void message_plain(const message *m, buffer *out);

#endif
