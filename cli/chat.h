/* The conversation of a chat, and what is done with it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_CHAT_H
#define QSF_CLI_CHAT_H

#include "run.h"

typedef struct conversation {
    run_session *s;
    char        *system;          /* the system message that /reset begins with; NULL: none */
    message     *msgs;
    size_t       n, cap;
    size_t       declined;        /* messages up to the answer whose calls get no results; 0: none */
    char        *file;            /* /load-file's texts, for the next message */
    size_t       n_file;
} conversation;

/* ---- chat_messages.c ---- */
/* False: out of memory. */
bool     chat_add(conversation *c, const char *role, const char *text, size_t len);
/* The message becomes the conversation's, or is freed. */
bool     chat_add_message(conversation *c, message *m);
/* The call whose result comes next, NULL: none is awaited; and a result. */
const tool_call *chat_call(const conversation *c);
bool     chat_add_result(conversation *c, const tool_call *call, const char *text, size_t len);
void     chat_drop_last(conversation *c);
void     chat_reset(conversation *c);
void     chat_free(conversation *c);
/* Makes the messages the prompt of the next answer: rendered with the template, or joined without
 * one.  false: reported in s->error. */
bool     chat_prompt(conversation *c);
/* Sets the system message, "": none, for the conversation and those that follow.  False if the
 * template does not accept one, which is reported; then nothing has changed. */
bool     chat_set_system(conversation *c, const char *text);

/* The conversation's end, out of it. */
typedef struct chat_taken { message *msgs; size_t n, at; } chat_taken;
/* Takes out the last question and everything after it; or only what answers the last message that
 * is not the model's, if anything does.  False: no question was asked yet, or out of memory. */
bool     chat_take(conversation *c, bool with_question, chat_taken *t);
/* Drops what came since, and puts them back; or lets them go. */
void     chat_put_back(conversation *c, chat_taken *t);
void     chat_let_go(chat_taken *t);

/* ---- chat_file.c ---- */
/* The name that was typed: ~ at its beginning, quotes around it, and backslashes before blanks
 * mean what they do in a shell, unless there is a file of exactly this name.  The caller frees;
 * NULL: out of memory. */
char    *chat_path(const char *typed);
void     chat_save(const conversation *c, const char *path);
void     chat_load(conversation *c, const char *path);
/* Reads a file for the next message. */
void     chat_load_file(conversation *c, const char *path);

/* ---- chat_answer.c ---- */
/* Answers the conversation's last message.  An exit code; errors are reported. */
int      chat_answer(conversation *c);
int      chat_turn(conversation *c, const char *text, size_t len);

/* ---- chat_read.c ---- */
/* A message of one or more lines, which begins with the text given. */
line_result chat_read(const char *prompt, const char *given, char **text, size_t *len, bool *block);

/* ---- chat_commands.c ---- */
/* True if the line was a command; *code is its result. */
bool     chat_command(conversation *c, char *line, bool *leave, int *code);

#endif
