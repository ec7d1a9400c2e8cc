/* A chat over ranks: rank 0 reads messages, one per line, and prints the answers as they arrive.
 * SPDX-License-Identifier: MIT
 *
 * All messages are tokenized again for each answer.  If the tokens begin like those that the
 * ranks have keys and values for, all ranks truncate to the common prefix, and only the rest is
 * computed. */
#include "job.h"
#include "link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MS = 200 };

typedef struct chat {
    job         *j;
    qsf_message *messages;      /* their texts are the chat's own */
    size_t       n, cap;
    qsf_conversation *talk;
    qsf_turn    *turn;          /* of sequence 0, whose rows all ranks compute */
    qsf_row     *rows;          /* [n_batch] */
    char        *line;          /* the line that was read, followed by further input */
    size_t       n_line, cap_line, taken;
    bool         over;          /* of standard input */
} chat;

typedef struct said { char *text; size_t len, cap; } said;

static void *grown(void *p, size_t *cap, size_t n, size_t size)
{
    if (n <= *cap) return p;
    *cap = 2 * n + 64;
    if (!(p = realloc(p, *cap * size))) link_fail("out of memory");
    return p;
}

/* ---- messages ---- */

static void message_add(chat *c, const char *role, const char *text, size_t len)
{
    char *own = malloc(len + 1);
    if (!own) link_fail("out of memory");
    memcpy(own, text, len);
    own[len] = 0;
    c->messages = grown(c->messages, &c->cap, c->n + 1, sizeof *c->messages);
    c->messages[c->n++] = (qsf_message){ role, own };
}

static void messages_back(chat *c, size_t n)
{
    while (c->n > n) free((char *)(size_t)c->messages[--c->n].content);
}

static void chat_reset(chat *c)
{
    messages_back(c, 0);
    if (c->j->system) message_add(c, "system", c->j->system, strlen(c->j->system));
}

/* The next line, without its end, terminated; NULL: there are no more. */
static char *line_read(chat *c)
{
    memmove(c->line, c->line + c->taken, c->n_line -= c->taken);
    for (size_t from = c->taken = 0;;) {
        char *end = c->n_line > from ? memchr(c->line + from, '\n', c->n_line - from) : NULL;
        if (!end && c->over && c->n_line) end = c->line + c->n_line++;        /* there is room for a zero */
        if (end) {
            c->taken = (size_t)(end - c->line) + 1;
            *end = 0;
            if (end > c->line && end[-1] == '\r') end[-1] = 0;
            return c->line;
        }
        if (c->over) return NULL;
        from = c->n_line;
        link_alive();
        struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
        if (poll(&in, 1, LOOK_MS) < 1) continue;
        c->line = grown(c->line, &c->cap_line, c->n_line + 4096, 1);
        const ssize_t n = read(STDIN_FILENO, c->line + c->n_line, 4095);
        if (n < 0 && errno != EINTR) link_fail("standard input cannot be read");
        c->over = !n;
        if (n > 0) c->n_line += (size_t)n;
    }
}

/* ---- an answer ---- */

static const char full[] = "the context is full: /reset starts a new conversation\n";

/* The prompt of all messages; false: rejected, with a message. */
static bool chat_prompt(chat *c)
{
    size_t n;
    const qsf_error *err = qsf_conversation_error(c->talk);
    const qsf_status st = qsf_conversation_messages(c->talk, c->messages, c->n);
    (void)qsf_conversation_tokens(c->talk, &n);
    if (!st && n && n <= c->j->context.n_ctx) return true;
    if (n) fputs(full, stderr);
    else fprintf(stderr, "%s\n", st ? err->text : "the messages have no tokens");
    return false;
}

/* Begins the answer.  What the prompt has in common with the sequence stays, on all ranks. */
static void chat_begin(chat *c, qsf_sampler *sampler)
{
    qsf_turn_options o;
    size_t n, have, same = 0;
    const int32_t *next = qsf_conversation_tokens(c->talk, &n), *ids = qsf_turn_tokens(c->turn, &have);
    while (same < have && same + 1 < n && ids[same] == next[same]) same++;
    same = job_cut(c->j, (uint32_t)same);
    if (qsf_turn_hold(c->turn, next, same)) link_fail("%s", qsf_turn_error(c->turn)->text);
    qsf_turn_defaults(&o);
    o.max_tokens = c->j->max_tokens;
    o.ignore_end = c->j->ignore_eos;
    if (qsf_conversation_begin(c->talk, c->turn, sampler, &o))
        link_fail("%s", qsf_conversation_error(c->talk)->text);
}

/* Computes the rows that the answer needs next, on all ranks. */
static void chat_compute(chat *c)
{
    const size_t n = qsf_turn_rows(c->turn, c->rows, c->j->n_batch);
    if (qsf_seq_room(c->j->c, 0)) {
        qsf_turn_computed_elsewhere(c->turn, job_rows(c->j, c->rows, n));
    } else {
        fputs(full, stderr);
        qsf_turn_cancel(c->turn);
    }
}

static void said_piece(said *s, const qsf_turn_piece *p)
{
    fwrite(p->text, 1, p->len, stdout);
    fflush(stdout);
    s->text = grown(s->text, &s->cap, s->len + p->len + 1, 1);
    memcpy(s->text + s->len, p->text, p->len);
    s->len += p->len;
}

/* Answers the last message; false: it was rejected. */
static bool chat_answer(chat *c)
{
    qsf_error err;
    said s = { 0 };
    qsf_sampler *sampler;
    qsf_turn_piece p = { .size = sizeof p };
    if (!chat_prompt(c)) return false;
    if (qsf_sampler_new(c->j->model, &c->j->sampler, &sampler, &err)) link_fail("%s", err.text);
    chat_begin(c, sampler);
    while (!p.end) {
        if (qsf_conversation_next(c->talk, &p)) chat_compute(c);
        else said_piece(&s, &p);
    }
    putchar('\n');
    fflush(stdout);
    if (p.end == QSF_TURN_FAILED) link_fail("%s", qsf_conversation_error(c->talk)->text);
    message_add(c, "assistant", s.text, s.len);
    qsf_sampler_free(sampler);
    free(s.text);
    return true;
}

static void chat_open(chat *c)
{
    qsf_error err;
    qsf_chat_options o;
    qsf_chat_defaults(&o);
    o.chat_template = c->j->template_name;
    if (qsf_conversation_new(c->j->model, &o, &c->talk, &err) || qsf_turn_new(c->j->c, 0, &c->turn, &err))
        link_fail("%s", err.text);
    c->rows = calloc(c->j->n_batch, sizeof *c->rows);
    c->line = malloc(c->cap_line);
    if (!c->rows || !c->line) link_fail("out of memory");
    chat_reset(c);
}

void job_chat(job *j)
{
    chat c = { .j = j, .cap_line = 4096 };
    chat_open(&c);
    fputs("each line is a message; /reset starts a new conversation, /quit quits\n", stderr);
    for (char *line; (line = line_read(&c)) && strcmp(line, "/quit");) {
        const size_t before = c.n;
        if (!strcmp(line, "/reset")) {
            chat_reset(&c);
        } else if (*line == '/') {
            fprintf(stderr, "%s is not supported over ranks: only /reset and /quit are\n", line);
        } else if (*line) {
            message_add(&c, "user", line, strlen(line));
            if (!chat_answer(&c)) messages_back(&c, before);
        }
    }
    messages_back(&c, 0);
    free(c.messages);
    free(c.line);
    free(c.rows);
    qsf_conversation_free(c.talk);
    qsf_turn_free(c.turn);
    job_end();
}
