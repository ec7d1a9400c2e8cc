/* The conversation: lines from the user, answers from the model, the KV cache kept between turns.
 * SPDX-License-Identifier: MIT */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

/* Computes the conversation's tokens, as far as sequence 0 does not hold them. */
static int chat_prompt(conversation *c, const int32_t *ids, size_t n)
{
    const int code = generate_prompt(c->s, ids, n, "with this message the conversation");
    const bool fits = qsf_turn_error(c->s->turn)->status != QSF_E_FULL;
    if (!fits && c->n > 2) fprintf(stderr, "/reset starts a new conversation\n");
    return code;
}

/* --tool-choice is for what the user asks: behind results the model chooses. */
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
    int32_t *ids = chat_tokens(c, &n);
    if (!ids) return report(&c->s->error);
    int code = chat_reader(c);
    if (!code) code = chat_prompt(c, ids, n);
    free(ids);
    if (!code) code = generate_answer(c->s, true, &a);
    if (!code && !chat_add_message(c, &a.said)) code = EXIT_NO_MEMORY;
    if (n && code != EXIT_FAILED && a.last != '\n') putchar('\n');
    if (!output_flush() && !code) code = EXIT_IO;
    if (a.full)
        fprintf(stderr, "the context is full: /reset starts a new conversation; %s\n", session_longer(c->s));
    answer_cut(c->s, &a);
    if (a.stopped || interrupted()) fprintf(stderr, "(stopped)\n");
    interrupt_clear();
    answer_free(&a);
    return code;
}

static bool chat_put(conversation *c, const char *text, size_t len)
{
    const tool_call *call = chat_call(c);
    return call ? chat_add_result(c, call, text, len) : chat_add(c, "user", text, len);
}

/* The message, or a tool's result, behind the files that wait for it. */
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

/* ---- lines ---- */

/* Reads another line, and joins it to *text with "\n" in place of its last `without` bytes. */
static line_result read_more(char **text, size_t *len, size_t without)
{
    char *more;
    size_t more_len;
    const line_result r = line_read("... ", "", &more, &more_len);
    if (r != LINE_TEXT) return r;
    char *joined = realloc(*text, *len + more_len + 2);
    if (joined) {
        *len -= without;
        joined[(*len)++] = '\n';
        memcpy(joined + *len, more, more_len + 1);
        *len += more_len;
        *text = joined;
    }
    free(more);
    return joined ? LINE_TEXT : LINE_END;
}

static const char quotes[] = "\"\"\"";
enum { QUOTES = sizeof quotes - 1 };

/* The text between """ and """.  Behind an end within the text stands more: then the quotes are
 * its own. */
static bool unquote(char *text, size_t *len)
{
    if (*len < 2 * QUOTES || strstr(text + QUOTES, quotes) != text + *len - QUOTES) return false;
    size_t from = QUOTES;
    *len -= QUOTES;
    if (text[from] == '\n') from++;
    if (*len > from && text[*len - 1] == '\n') --*len;
    memmove(text, text + from, *len -= from);
    text[*len] = 0;
    return true;
}

line_result chat_read(const char *prompt, const char *given, char **text, size_t *len, bool *block)
{
    *block = false;
    line_result r = line_read(prompt, given, text, len);
    if (r != LINE_TEXT) return r;
    const bool quoted = !strncmp(*text, quotes, QUOTES);
    for (;;) {
        if (quoted ? strstr(*text + QUOTES, quotes) != NULL : !*len || (*text)[*len - 1] != '\\') break;
        r = read_more(text, len, quoted ? 0 : 1);
        if (r == LINE_TEXT) continue;
        if (r == LINE_END) break;                 /* what there is of it is the message */
        free(*text);
        *text = NULL;
        return r;
    }
    *block = quoted && unquote(*text, len);
    line_keep(*text, *len);
    return LINE_TEXT;
}

/* "> ", or what is asked for where a tool was called. */
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

/* An empty line: a call gets no result. */
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
