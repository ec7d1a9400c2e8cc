/* The commands of a chat.
 * SPDX-License-Identifier: MIT */
#include "answer_view.h"
#include "chat.h"

#include <stdlib.h>
#include <string.h>

typedef struct chat_row {
    const char *name, *argument, *help;           /* argument: in the help; "" for no argument */
    bool        lines;                            /* the argument may be several */
    bool        needed;
    int       (*run)(conversation *c, const char *argument);      /* an exit code */
} chat_row;

/* ---- the last message again ---- */

/* What was taken is let go where there is an answer in its place. */
static int take_over(conversation *c, chat_taken *t, int code)
{
    if (code) chat_put_back(c, t);
    else chat_let_go(t);
    return code;
}

static int run_regen(conversation *c, const char *argument)
{
    chat_taken t;
    (void)argument;
    if (!chat_take(c, false, &t)) return fputs("no message to answer yet\n", stderr), EXIT_OK;
    if (c->s->set->common.sampler.temperature <= 0)
        fputs("(with --temp 0 the answer stays the same)\n", stderr);
    return take_over(c, &t, chat_answer(c));
}

/* Asks again with the text; the files that wait are for another message. */
static int ask_instead(conversation *c, chat_taken *t, const char *text, size_t len)
{
    int code = EXIT_NO_MEMORY;
    if (chat_add(c, "user", text, len)) code = chat_answer(c);
    return take_over(c, t, code);
}

static int run_edit(conversation *c, const char *argument)
{
    chat_taken t;
    char *text;
    size_t len;
    bool block;
    if (!chat_take(c, true, &t)) return fputs("no message to edit yet\n", stderr), EXIT_OK;
    if (*argument) return ask_instead(c, &t, argument, strlen(argument));
    if (!line_edits()) {
        fputs("lines cannot be edited here: /edit TEXT replaces the message\n", stderr);
        return chat_put_back(c, &t), EXIT_OK;
    }
    const line_result r = chat_read("edit> ", buffer_text(&t.msgs[0].text), &text, &len, &block);
    int code = r == LINE_FAILED ? EXIT_IO : EXIT_OK;
    if (r == LINE_INTERRUPT) interrupt_clear();
    if (r != LINE_TEXT || !len) {
        fputs("(the message is unchanged)\n", stderr);
        chat_put_back(c, &t);
    } else {
        code = ask_instead(c, &t, text, len);
    }
    if (r == LINE_TEXT) free(text);
    return code;
}

/* ---- the conversation ---- */

static int run_reset(conversation *c, const char *argument)
{
    (void)argument;
    c->n_file = 0;
    chat_reset(c);
    return EXIT_OK;
}

static int run_system(conversation *c, const char *argument)
{
    const message *first = c->n && c->msgs[0].role[0] == 's' ? &c->msgs[0] : NULL;
    if (!*argument && first) fprintf(stderr, "%s\n", buffer_text(&first->text));
    else if (!*argument) fputs("no system message\n", stderr);
    else if (chat_set_system(c, strcmp(argument, "-") ? argument : ""))
        fprintf(stderr, "(the system message is %s)\n", strcmp(argument, "-") ? "set" : "gone");
    return EXIT_OK;
}

static int run_reasoning(conversation *c, const char *argument)
{
    run_session *s = c->s;
    const bool show = !strcmp(argument, "show"), hide = !strcmp(argument, "hide");
    if (*argument && !show && !hide) return fputs("/reasoning show, or /reasoning hide\n", stderr), EXIT_OK;
    const bool hid = s->hides;
    s->hides = *argument ? hide : !hid;
    fprintf(stderr, "(reasoning is %s from now on)\n", s->hides ? "hidden" : "shown");
    const message *last = c->n ? &c->msgs[c->n - 1] : NULL;
    if (hid && !s->hides && last && last->role[0] == 'a') answer_view_reasoning(last);
    return EXIT_OK;
}

/* ---- files ---- */

static int with_path(conversation *c, const char *typed, void (*run)(conversation *, const char *))
{
    char *path = chat_path(typed);
    if (path) run(c, path);
    free(path);
    return path ? EXIT_OK : EXIT_NO_MEMORY;
}

static void save_to(conversation *c, const char *path) { chat_save(c, path); }
static int  run_save(conversation *c, const char *typed) { return with_path(c, typed, save_to); }
static int  run_load(conversation *c, const char *typed) { return with_path(c, typed, chat_load); }

static int run_load_file(conversation *c, const char *typed)
{
    if (strcmp(typed, "-")) return with_path(c, typed, chat_load_file);
    fprintf(stderr, "(%zu bytes of files discarded)\n", c->n_file);
    c->n_file = 0;
    return EXIT_OK;
}

/* ---- the rest ---- */

static int run_stats(conversation *c, const char *argument)
{
    (void)argument;
    print_memory(c->s);
    print_times(c->s);
    return EXIT_OK;
}

static int run_help(conversation *c, const char *argument);

/* A row without help is another name of the one before it; one without a function ends the chat. */
static const chat_row chat_table[] = {
    { "/regen",     "",            "answer the last message again", false, false, run_regen },
    { "/edit",      " [TEXT]",     "change the last message and answer it again", true, false, run_edit },
    { "/system",    " [TEXT]",     "show the system message, or set it; - for none", true, false,
      run_system },
    { "/load-file", " PATH",       "add a file's text to your next message; - discards it", false, true,
      run_load_file },
    { "/reasoning", " [show|hide]", "what the model thinks before it answers; also Ctrl-T", false,
      false, run_reasoning },
    { "/reset",     "",            "start a new conversation", false, false, run_reset },
    { "/clear",     "",            NULL, false, false, run_reset },
    { "/save",      " FILE",       "save the conversation", false, true, run_save },
    { "/load",      " FILE",       "resume a saved one", false, true, run_load },
    { "/stats",     "",            "memory, speed and times", false, false, run_stats },
    { "/help",      "",            "this list", false, false, run_help },
    { "/exit",      "",            "leave (also Ctrl-D)", false, false, NULL },
    { "/quit",      "",            NULL, false, false, NULL },
    { "/bye",       "",            NULL, false, false, NULL },
};
enum { N_CHAT_TABLE = sizeof chat_table / sizeof chat_table[0] };

static int run_help(conversation *c, const char *argument)
{
    (void)c, (void)argument;
    for (int i = 0; i < N_CHAT_TABLE; i++) {
        const chat_row *n = &chat_table[i];
        if (!n->help) continue;
        fprintf(stderr, "  %s%-*s%s\n", n->name, 24 - (int)strlen(n->name), n->argument, n->help);
    }
    fputs("Ctrl-C stops an answer or clears the line; pressed again it quits.\nA \\ at the end of a line, or "
          "Alt-Enter, continues the message on the next line.\n\"\"\" starts and ends a message of several "
          "lines.  Pasted text is one message.\n", stderr);
    if (line_edits())
        fputs("Up and down recall earlier lines that start like this one; Ctrl-R searches them.\nA line that "
              "starts with a space is not stored.\n", stderr);
    return EXIT_OK;
}

bool chat_command(conversation *c, char *line, bool *leave, int *code)
{
    if (line[0] != '/') return false;
    const size_t len = strcspn(line, " \n");
    const chat_row *n = chat_table, *end = chat_table + N_CHAT_TABLE;
    while (n < end && (strlen(n->name) != len || memcmp(line, n->name, len))) n++;
    /* several lines: a message, not a command */
    if (strchr(line, '\n') && (n == end || !n->lines)) return false;
    char *argument = line + len + strspn(line + len, " \n");
    for (size_t i = strlen(argument); i && argument[i - 1] == ' ';) argument[--i] = 0;
    if (n == end)
        fprintf(stderr, "unknown command %.*s; /help lists them, and \"\"\"/...\"\"\" is a message\n",
                (int)len, line);
    else if (n->needed && !*argument)
        fprintf(stderr, "which file? %s%s\n", n->name, n->argument);
    else if (*argument && !*n->argument)
        fprintf(stderr, "%s takes no argument\n", n->name);
    else if (!n->run) *leave = true;
    else *code = n->run(c, argument);
    return true;
}
