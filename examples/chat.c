/* A chat: reads questions from standard input, a line each, and writes the model's answers.
 * SPDX-License-Identifier: MIT
 *
 *   cc -o chat chat.c $(pkg-config --cflags --libs qsf)
 *   ./chat model.gguf
 *
 * Each turn encodes the whole conversation, finds how many tokens the sequence has already, and computes the
 * rest only. */
#include <qsf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MESSAGES = 64, MOST_TOKENS = 8192, MOST_ANSWER = 200 };

typedef struct chat {
    qsf_model   *model;
    qsf_context *context;
    qsf_sampler *sampler;
    const char  *template_name;      /* NULL: the model's own */
    qsf_message  messages[MOST_MESSAGES];
    size_t       n_messages;
    int32_t      ids[MOST_TOKENS];   /* tokens of the sequence */
    size_t       n_ids;
} chat;

static bool add_message(chat *c, const char *role, const char *content, size_t len)
{
    char *copy = c->n_messages < MOST_MESSAGES ? malloc(len + 1) : NULL;
    if (!copy) return false;
    memcpy(copy, content, len);
    copy[len] = 0;
    c->messages[c->n_messages++] = (qsf_message){ role, copy };
    return true;
}

/* Computes the conversation up to the beginning of the answer; *logits are of its last token. */
static qsf_status feed_conversation(chat *c, const float **logits, qsf_error *err)
{
    static int32_t ids[MOST_TOKENS];
    size_t n, same = 0;
    qsf_status st = qsf_chat_encode(c->model, c->template_name, c->messages, c->n_messages, true, ids,
                                    MOST_TOKENS, &n, err);
    if (st) return st;
    while (same < c->n_ids && same + 1 < n && c->ids[same] == ids[same]) same++;
    if ((st = qsf_seq_truncate(c->context, 0, (uint32_t)same)) ||
        (st = qsf_feed(c->context, 0, ids + same, n - same, logits)))
        snprintf(err->text, sizeof err->text, "%s", qsf_last_error(c->context));
    if (!st) memcpy(c->ids, ids, n * sizeof *ids);
    c->n_ids = st ? qsf_seq_length(c->context, 0) : n;
    return st;
}

/* Writes an answer and keeps it as a message. */
static bool answer(chat *c)
{
    const float *logits;
    qsf_error err = { QSF_OK, "" };
    qsf_utf8_tail tail = { { 0 }, 0 };
    char text[16 * MOST_ANSWER], whole[3 * (256 + 4)];
    size_t len = 0;
    const char *piece, *stop = qsf_chat_stop(c->model, c->template_name);
    if (feed_conversation(c, &logits, &err)) return fprintf(stderr, "%s\n", err.text), false;
    for (int i = 0; i < MOST_ANSWER && c->n_ids < MOST_TOKENS; i++) {
        const int32_t token = qsf_sampler_pick(c->sampler, logits);
        if (qsf_token_is_end(c->model, token)) break;
        qsf_sampler_accept(c->sampler, token);
        const size_t bytes = qsf_token_piece(c->model, token, false, &piece);
        const size_t n = qsf_utf8_push(&tail, piece, bytes < 256 ? bytes : 256, whole);
        if (len + n >= sizeof text) break;
        memcpy(text + len, whole, n);
        text[len += n] = 0;
        if (stop && strstr(text, stop)) break;     /* a program for people would hold the stop text back */
        fwrite(whole, 1, n, stdout);
        fflush(stdout);
        if (qsf_feed(c->context, 0, &token, 1, &logits)) break;      /* the context is full */
        c->ids[c->n_ids++] = token;
    }
    putchar('\n');
    return add_message(c, "assistant", text, len);
}

int main(int argc, char **argv)
{
    static chat c;
    char line[4096];
    bool ok = true;
    qsf_error err = { QSF_OK, "" };
    if (argc != 2) return fprintf(stderr, "usage: %s MODEL\n", argv[0]), 2;
    if (qsf_model_open(argv[1], NULL, &c.model, &err) || qsf_context_new(c.model, NULL, &c.context, &err) ||
        qsf_sampler_new(c.model, NULL, &c.sampler, &err)) {
        fprintf(stderr, "%s\n", err.text);
        ok = false;
    } else if (!qsf_chat_template(c.model)) {
        c.template_name = "plain";
    }
    while (ok && fgets(line, sizeof line, stdin)) {
        ok = add_message(&c, "user", line, strcspn(line, "\n")) && answer(&c);
    }
    for (size_t i = 0; i < c.n_messages; i++) free((char *)(uintptr_t)c.messages[i].content);
    qsf_sampler_free(c.sampler);
    qsf_context_free(c.context);
    qsf_model_close(c.model);
    return ok ? 0 : 1;
}
