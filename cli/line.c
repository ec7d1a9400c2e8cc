/* A line from the user: edited with libedit where it was found and a terminal is there, plain otherwise.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdlib.h>
#include <string.h>

/* Reads up to the end of the line, whatever its length. */
static char *line_plain(const char *prompt)
{
    size_t cap = 256, n = 0;
    char *text = malloc(cap);
    if (terminal_is(stdin)) {
        fputs(prompt, stderr);
        fflush(stderr);
    }
    for (int c; text && (c = getchar()) != '\n';) {
        if (c == EOF) {
            if (n && !interrupted()) break;
            free(text);
            return NULL;
        }
        if (n + 2 > cap) {
            char *more = realloc(text, cap *= 2);
            if (!more) free(text);
            text = more;
            if (!text) return NULL;
        }
        text[n++] = (char)c;
    }
    if (text) text[n] = 0;
    return text;
}

#ifdef QSF_HAVE_LIBEDIT

#include <histedit.h>

static EditLine *line_editor;
static History *line_history;
static const char *line_prompt_text = "";

static char *line_prompt(EditLine *e)
{
    (void)e;
    return (char *)(size_t)line_prompt_text;
}

char *line_read(const char *prompt)
{
    if (!terminal_is(stdin)) return line_plain(prompt);
    if (!line_editor) {
        HistEvent event;
        line_editor = el_init("qsf-run", stdin, stderr, stderr);
        line_history = history_init();
        if (!line_editor || !line_history) return line_plain(prompt);
        history(line_history, &event, H_SETSIZE, 1000);
        el_set(line_editor, EL_PROMPT, line_prompt);
        el_set(line_editor, EL_EDITOR, "emacs");
        el_set(line_editor, EL_SIGNAL, 0);
        el_set(line_editor, EL_HIST, history, line_history);
    }
    int n = 0;
    HistEvent event;
    line_prompt_text = prompt;
    const char *text = el_gets(line_editor, &n);
    if (!text || n <= 0) return NULL;
    if (n > 1) history(line_history, &event, H_ENTER, text);
    if (text[n - 1] == '\n') n--;
    char *copy = malloc((size_t)n + 1);
    if (!copy) return NULL;
    memcpy(copy, text, (size_t)n);
    copy[n] = 0;
    return copy;
}

void line_done(void)
{
    if (line_history) history_end(line_history);
    if (line_editor) el_end(line_editor);
    line_history = NULL;
    line_editor = NULL;
}

#else

char *line_read(const char *prompt) { return line_plain(prompt); }
void  line_done(void) { }

#endif
