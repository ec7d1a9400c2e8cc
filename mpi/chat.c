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
    int32_t     *ids, *next;    /* [n_ctx]: that the ranks have; of all messages */
    size_t       n_ids;
    char        *line;          /* the line that was read, followed by further input */
    size_t       n_line, cap_line, taken;
    bool         over;          /* of standard input */
    const char  *stop;          /* that ends an answer, besides tokens; "" for none */
} chat;

typedef struct said { char *text; size_t len, cap, shown; } said;

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

/* Shows what can be no part of the stop text; whether that has come. */
static bool said_show(const chat *c, said *s, bool last)
{
    const size_t stop = strlen(c->stop);
    size_t until = s->len;
    bool ends = false;
    for (size_t at = s->shown; stop && at < s->len; at++) {
        const size_t n = s->len - at < stop ? s->len - at : stop;
        if (memcmp(s->text + at, c->stop, n) || (n < stop && last)) continue;
        until = at;
        ends = n == stop;
        break;
    }
    fwrite(s->text + s->shown, 1, until - s->shown, stdout);
    fflush(stdout);
    s->shown = until;
    return ends;
}

/* Whether the answer continues after this token. */
static bool said_token(const chat *c, said *s, qsf_utf8_tail *tail, int32_t id)
{
    const char *piece;
    const size_t n = qsf_token_piece(c->j->model, id, false, &piece);
    s->text = grown(s->text, &s->cap, s->len + 3 * (n + 4), 1);
    s->len += qsf_utf8_push(tail, piece, n, s->text + s->len);
    return !said_show(c, s, false);
}

/* Computes next[at..n); the logits of its last token. */
static const float *chat_prompt(chat *c, size_t at, size_t n, qsf_row *rows)
{
    const float *logits = NULL;
    for (size_t len; at < n; at += len) {
        len = n - at < c->j->n_batch ? n - at : c->j->n_batch;
        for (size_t i = 0; i < len; i++) rows[i] = (qsf_row){ 0, c->next[at + i], at + i + 1 == n };
        logits = job_rows(c->j, rows, len);
    }
    return logits;
}

/* The tokens of all messages; 0: rejected, with a message. */
static size_t chat_encode(chat *c)
{
    qsf_error err = { 0 };
    size_t n = 0;
    const size_t most = c->j->context.n_ctx;
    const qsf_status st = qsf_chat_encode(c->j->model, c->j->template_name, c->messages, c->n, true, c->next,
                                          most, &n, &err);
    if (st || !n) {
        if (n > most) fputs("the context is full: /reset starts a new conversation\n", stderr);
        else fprintf(stderr, "%s\n", *err.text ? err.text : "the messages have no tokens");
        return 0;
    }
    return n;
}

/* Says that answer; false: the messages are as before. */
static bool chat_answer(chat *c, qsf_row *rows)
{
    job *j = c->j;
    qsf_error err;
    said s = { 0 };
    qsf_utf8_tail tail = { 0 };
    qsf_sampler *sampler;
    size_t same = 0, n = chat_encode(c);
    if (!n) return false;
    if (qsf_sampler_new(j->model, &j->sampler, &sampler, &err)) link_fail("%s", err.text);
    while (same < c->n_ids && same + 1 < n && c->ids[same] == c->next[same]) same++;
    same = job_cut(j, (uint32_t)same);
    for (size_t i = 0; i < n; i++) qsf_sampler_accept(sampler, c->next[i]);
    const float *logits = chat_prompt(c, same, n, rows);
    memcpy(c->ids, c->next, n * sizeof *c->ids);
    c->n_ids = n;
    for (long long made = 0; made < j->max_tokens; made++) {
        const int32_t id = qsf_sampler_pick(sampler, logits);
        if (!j->ignore_eos && qsf_token_is_end(j->model, id)) break;
        qsf_sampler_accept(sampler, id);
        if (!said_token(c, &s, &tail, id) || made + 1 == j->max_tokens) break;
        if (c->n_ids == j->context.n_ctx) {
            fputs("the context is full: /reset starts a new conversation\n", stderr);
            break;
        }
        rows[0] = (qsf_row){ 0, c->ids[c->n_ids++] = id, true };
        logits = job_rows(j, rows, 1);
    }
    said_show(c, &s, true);
    putchar('\n');
    fflush(stdout);
    message_add(c, "assistant", s.text ? s.text : "", s.shown);
    qsf_sampler_free(sampler);
    free(s.text);
    return true;
}

void job_chat(job *j)
{
    chat c = { .j = j, .cap_line = 4096 };
    qsf_row *rows = calloc(j->n_batch, sizeof *rows);
    c.line = malloc(c.cap_line);
    c.ids = calloc(j->context.n_ctx, sizeof *c.ids);
    c.next = calloc(j->context.n_ctx, sizeof *c.next);
    if (!rows || !c.line || !c.ids || !c.next) link_fail("out of memory");
    c.stop = qsf_chat_stop(j->model, j->template_name);
    if (!c.stop) c.stop = "";
    chat_reset(&c);
    fputs("each line is a message; /reset starts a new conversation, /quit quits\n", stderr);
    for (char *line; (line = line_read(&c)) && strcmp(line, "/quit");) {
        const size_t before = c.n;
        if (!strcmp(line, "/reset")) {
            chat_reset(&c);
        } else if (*line == '/') {
            fprintf(stderr, "%s is not supported over ranks: only /reset and /quit are\n", line);
        } else if (*line) {
            message_add(&c, "user", line, strlen(line));
            if (!chat_answer(&c, rows)) messages_back(&c, before);
        }
    }
    messages_back(&c, 0);
    free(c.messages);
    free(c.line);
    free(c.ids);
    free(c.next);
    free(rows);
    job_end();
}
