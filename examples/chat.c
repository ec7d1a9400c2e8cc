/* A chat: reads questions from standard input, a line each, and writes the model's answers.
 * SPDX-License-Identifier: MIT
 *
 *   cc -o chat chat.c $(pkg-config --cflags --libs qsf)
 *   ./chat model.gguf
 *
 * Each turn gets the tokens of the whole conversation and computes those that the sequence
 * does not have. */
#include <qsf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MESSAGES = 64, MOST_ANSWER = 200 };

typedef struct chat {
    qsf_model   *model;
    qsf_context *context;
    qsf_sampler *sampler;
    qsf_turn    *turn;
    qsf_conversation *talk;
    qsf_message  messages[MOST_MESSAGES];
    size_t       n_messages;
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

/* Begins a turn with the whole conversation: what the sequence holds of it is not
 * computed again. */
static bool begin(chat *c)
{
    qsf_turn_options o;
    qsf_turn_defaults(&o);
    o.max_tokens = MOST_ANSWER;
    if (!qsf_conversation_messages(c->talk, c->messages, c->n_messages) &&
        !qsf_conversation_begin(c->talk, c->turn, c->sampler, &o)) return true;
    return fprintf(stderr, "%s\n", qsf_conversation_error(c->talk)->text), false;
}

/* Writes an answer and keeps it as a message. */
static bool answer(chat *c)
{
    qsf_turn_piece piece = { .size = sizeof piece };
    char text[64 * MOST_ANSWER];
    size_t len = 0;
    if (!begin(c)) return false;
    while (!piece.end) {
        if (qsf_conversation_next(c->talk, &piece) == QSF_PENDING) {
            qsf_turn_step(c->turn, NULL);
            continue;
        }
        fwrite(piece.text, 1, piece.len, stdout);
        fflush(stdout);
        if (len + piece.len >= sizeof text) qsf_turn_cancel(c->turn);
        else memcpy(text + len, piece.text, piece.len), len += piece.len;
    }
    putchar('\n');
    if (piece.end == QSF_TURN_FAILED) return fprintf(stderr, "%s\n", qsf_turn_error(c->turn)->text), false;
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
        qsf_sampler_new(c.model, NULL, &c.sampler, &err) || qsf_turn_new(c.context, 0, &c.turn, &err) ||
        qsf_conversation_new(c.model, NULL, &c.talk, &err)) {
        fprintf(stderr, "%s\n", err.text);
        ok = false;
    }
    while (ok && fgets(line, sizeof line, stdin)) {
        ok = add_message(&c, "user", line, strcspn(line, "\n")) && answer(&c);
    }
    for (size_t i = 0; i < c.n_messages; i++) free((char *)(uintptr_t)c.messages[i].content);
    qsf_conversation_free(c.talk);
    qsf_turn_free(c.turn);
    qsf_sampler_free(c.sampler);
    qsf_context_free(c.context);
    qsf_model_close(c.model);
    return ok ? 0 : 1;
}
