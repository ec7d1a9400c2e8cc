/* A turn of the conversation: the message is added, the model answers, and the KV cache keeps both.
 * SPDX-License-Identifier: MIT */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

/* Computes the conversation's tokens, as far as sequence 0 does not hold them. */
static int chat_compute(conversation *c)
{
    const int code = generate_prompt(c->s, "with this message the conversation");
    const bool fits = qsf_turn_error(c->s->turn)->status != QSF_E_FULL;
    if (!fits && c->n > 2) fprintf(stderr, "/reset starts a new conversation\n");
    return code;
}

/* --tool-choice is for what the user asks: after results the model chooses. */
static int chat_reader(conversation *c)
{
    const char *choice = c->s->set->tool_choice;
    const bool result = c->n && c->msgs[c->n - 1].role[0] == 't';
    return answers_open(c->s, result && choice && strcmp(choice, "none") ? "auto" : NULL);
}

int chat_answer(conversation *c)
{
    answer a = { 0 };
    size_t n;
    interrupt_clear();
    if (c->s->set->arrival) model_names_quiet(false);
    if (!chat_prompt(c)) return report(&c->s->error);
    (void)qsf_conversation_tokens(c->s->talk, &n);
    int code = chat_reader(c);
    if (!code) code = chat_compute(c);
    if (!code) code = generate_answer(c->s, true, &a);
    if (!code && !chat_add_message(c, &a.said)) code = EXIT_NO_MEMORY;
    if (n && code != EXIT_FAILED && a.last != '\n') putchar('\n');
    if (!output_flush() && !code) code = EXIT_IO;
    if (a.full)
        fprintf(stderr, "the context is full: /reset starts a new conversation; %s\n", session_longer(c->s));
    answer_cut(c->s, &a);
    /* Ctrl-C while weights are missing stops their download, and ends the chat */
    const hub_arrival *arrival = c->s->set->arrival;
    const bool ends = interrupted() && !a.n_ids && arrival && !hub_arrival_whole(arrival);
    if (!ends && (a.stopped || interrupted())) fprintf(stderr, "(stopped)\n");
    if (ends) code = EXIT_IO;
    else interrupt_clear();
    answer_free(&a);
    return code;
}

static bool chat_put(conversation *c, const char *text, size_t len)
{
    const tool_call *call = chat_call(c);
    return call ? chat_add_result(c, call, text, len) : chat_add(c, "user", text, len);
}

/* The message, or a tool's result, after the files that wait for it. */
static bool chat_ask(conversation *c, const char *text, size_t len)
{
    buffer joined = { 0 };
    if (!c->n_file) return chat_put(c, text, len);
    buffer_add(&joined, c->file, c->n_file);
    buffer_add(&joined, text, len);
    const bool added = !joined.failed && chat_put(c, joined.at, joined.n);
    buffer_free(&joined);
    return added;
}

int chat_turn(conversation *c, const char *text, size_t len)
{
    if (!session_is_message(c->s, text, len)) return report(&c->s->error);
    if (!chat_ask(c, text, len)) return EXIT_NO_MEMORY;
    const int code = chat_call(c) ? EXIT_OK : chat_answer(c);       /* another result comes first */
    if (code) chat_drop_last(c);
    else c->n_file = 0;
    return code;
}
