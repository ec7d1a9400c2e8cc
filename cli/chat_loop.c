/* The conversation: a line from the user after the other, each a command or a message.
 * SPDX-License-Identifier: MIT */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

/* "> ", or the prompt for a tool's result after a call. */
static const char *chat_asks_for(const conversation *c, char *out, size_t cap)
{
    const tool_call *call = chat_call(c);
    if (!terminal_is(stdin)) return "";
    if (!call) return "> ";
    snprintf(out, cap, "result of %.60s> ", call->name);
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < 32 || *p == 127) *p = '?';
    return out;
}

/* An empty line: the call is not given a result. */
static void chat_empty(conversation *c)
{
    if (!chat_call(c)) return;
    for (c->declined = c->n; c->msgs[c->declined - 1].role[0] == 't';) c->declined--;
    fputs("(no result: your next message goes to the model)\n", stderr);
}

/* Lines, until one of them, or their end, ends the chat.  *stopped: it was Ctrl-C. */
static int chat_lines(conversation *c, int code, bool *stopped)
{
    bool leave = false, asked = false;            /* asked: Ctrl-C was pressed at an empty line */
    while (!leave && (code == EXIT_OK || code == EXIT_FAILED || code == EXIT_INTERRUPTED)) {
        char *line;
        size_t len;
        bool block;
        char prompt[96];
        if (c->s->set->arrival) model_names_quiet(true);
        const line_result r = chat_read(chat_asks_for(c, prompt, sizeof prompt), "", &line, &len, &block);
        if (r == LINE_END) break;
        if (r == LINE_FAILED) return EXIT_IO;
        if (r == LINE_INTERRUPT) {
            interrupt_clear();
            *stopped = !terminal_is(stdin) || (!len && asked);
            if (*stopped) break;
            asked = !len;
            if (asked) fprintf(stderr, "(Ctrl-C again or Ctrl-D quits)\n");
            continue;
        }
        asked = false;
        code = EXIT_OK;
        if (!len && !c->n_file && !(block && chat_call(c))) chat_empty(c);
        else if (block || !chat_command(c, line, &leave, &code)) code = chat_turn(c, line, len);
        free(line);
    }
    return code;
}

int run_chat(run_session *s, const char *first, size_t len)
{
    conversation c = { .s = s };
    bool stopped = false;
    if (s->set->system && *s->set->system) {
        c.system = malloc(strlen(s->set->system) + 1);
        if (!c.system) return EXIT_NO_MEMORY;
        strcpy(c.system, s->set->system);
    }
    if (terminal_is(stdin)) line_begin(s->set->history);
    chat_reset(&c);
    s->keeps = true;
    int code = session_resume(s);
    if (!code) code = prompt_cache_resume(s);
    if (!code) {
        if (terminal_is(stdin)) fprintf(stderr, "/help lists the commands; Ctrl-D quits.\n");
        if (first && len) code = chat_turn(&c, first, len);
        code = chat_lines(&c, code, &stopped);
        if (code == EXIT_INTERRUPTED) code = EXIT_OK;
        if (code == EXIT_OK) code = session_keep(s);
    }
    chat_free(&c);
    line_done();
    return code == EXIT_OK && stopped ? EXIT_INTERRUPTED : code;
}
