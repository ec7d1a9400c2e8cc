/* Reads a line from the user: with editing on a terminal, plain otherwise.
 * SPDX-License-Identifier: MIT */
#include "edit.h"
#include "history.h"
#include "run.h"
#include "tty.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- plain ---- */

static size_t line_pos;       /* bytes of standard input that were read */

static bool line_room(char **text, size_t *cap, size_t len, size_t more)
{
    if (*text && len + more < *cap) return true;
    char *larger = realloc(*text, *cap = 2 * (len + more) + 256);
    if (larger) *text = larger;
    return larger != NULL;
}

/* Reads up to the end of the line, whatever its length. */
static line_result line_plain(const char *prompt, char **text, size_t *len)
{
    size_t cap = 0, n = 0;
    const size_t begin = line_pos;
    bool whole = false;
    *text = NULL;
    if (terminal_is(stdin)) {
        fputs(prompt, stderr);
        fflush(stderr);
    }
    while (!whole) {
        if (!line_room(text, &cap, n, 768)) break;
        if (tty_has_lines()) {
            size_t part;
            if (!tty_line(*text + n, cap - n, &part)) break;
            n += part;
            whole = n && (*text)[n - 1] == '\n';
            n -= whole;
            continue;
        }
        const int c = getchar();
        if (c == EOF) break;
        line_pos++;
        whole = c == '\n';
        if (!whole) (*text)[n++] = (char)c;
    }
    const bool failed = !tty_has_lines() && ferror(stdin) && errno != EINTR;
    const int error = errno;
    clearerr(stdin);
    *len = n;
    if (!whole && terminal_is(stdin)) fputc('\n', stderr);         /* moves off the prompt's line */
    if (interrupted()) return LINE_INTERRUPT;
    if (failed) {
        fprintf(stderr, "cannot read standard input: %s\n", strerror(error));
        return LINE_FAILED;
    }
    if (!*text || (!whole && !n)) return LINE_END;
    if (n && (*text)[n - 1] == '\r') n--;
    const char *zero = memchr(*text, 0, n);
    if (zero) {
        fprintf(stderr, "standard input: byte %zu is zero; a message is text without zero bytes\n",
            begin + (size_t)(zero - *text));
        return LINE_FAILED;
    }
    (*text)[*len = n] = 0;
    return LINE_TEXT;
}

/* ---- edited ---- */

static editor line_editor;
/* Keys that arrived together and are not handled yet: those after an Enter wait for the next
 * line. */
static struct { char bytes[4096]; size_t at, n; } line_ahead;

static void line_show(void)
{
    edit_draw(&line_editor);
    tty_write(line_editor.out.p, line_editor.out.len);
    line_editor.out.len = 0;
}

static void line_fit(void)
{
    size_t cols, rows;
    tty_size(&cols, &rows);
    edit_resize(&line_editor, cols, rows);
}

/* Takes keys until they end the line; the screen is brought to the text when no more
 * are there at once. */
static line_result line_keys(void)
{
    enum { ESCAPE_MS = 100 };
    editor *e = &line_editor;
    for (bool shown = false;;) {
        while (line_ahead.at < line_ahead.n) {
            const edit_result r = edit_key(e, line_ahead.bytes[line_ahead.at++]);
            if (r != EDIT_MORE) return r == EDIT_DONE ? LINE_TEXT : LINE_END;
            shown = false;
        }
        line_ahead.at = 0;
        const int wait = !shown ? 0 : edit_waits(e) ? ESCAPE_MS : -1;
        switch (tty_read(line_ahead.bytes, sizeof line_ahead.bytes, &line_ahead.n, wait)) {
        case TTY_BYTES: break;
        case TTY_PAUSE:
            if (shown) edit_settle(e);
            line_show();
            shown = true;
            break;
        case TTY_INTERRUPT: return LINE_INTERRUPT;
        case TTY_REDRAW: edit_forget(e); /* fall through */
        case TTY_RESIZE:
            line_fit();
            shown = false;
            break;
        case TTY_END: return LINE_END;
        }
    }
}

static line_result line_edited(const char *prompt, const char *given, char **text, size_t *len)
{
    editor *e = &line_editor;
    *text = NULL;
    e->prompt_on = colour(stderr, "\033[1m");
    e->prompt_off = colour(stderr, "\033[0m");
    fflush(stdout);
    edit_begin(e, prompt, given, strlen(given));
    line_fit();
    const line_result r = line_keys();
    edit_finish(e);
    tty_write(e->out.p, e->out.len);
    e->out.len = 0;
    if (r == LINE_INTERRUPT) *len = e->text.len;
    if (r != LINE_TEXT) return r;
    if (!(*text = malloc(e->text.len + 1))) return LINE_END;
    if (e->text.len) memcpy(*text, e->text.p, e->text.len);
    (*text)[*len = e->text.len] = 0;
    return LINE_TEXT;
}

static void line_known(void *user, const char *text, size_t len) { edit_remember(user, text, len); }

void line_begin(const char *history)
{
    if (tty_open()) history_open(history, line_known, &line_editor);
}

bool line_edits(void) { return tty_is_open(); }

void line_keep(const char *text, size_t len)
{
    if (!tty_is_open() || !len || *text == ' ' || *text == '\t') return;
    edit_remember(&line_editor, text, len);
    history_keep(text, len);
}

bool line_key(char key)
{
    size_t n;
    if (!tty_is_open()) return false;
    line_ahead.n -= line_ahead.at;
    memmove(line_ahead.bytes, line_ahead.bytes + line_ahead.at, line_ahead.n);
    line_ahead.at = 0;
    char *to = line_ahead.bytes + line_ahead.n;
    const size_t room = sizeof line_ahead.bytes - line_ahead.n;
    if (!room || tty_read(to, room, &n, 0) != TTY_BYTES) return false;
    char *found = memchr(to, key, n);
    if (found) memmove(found, found + 1, (size_t)(to + n - found) - 1);
    line_ahead.n += n - (found != NULL);
    return found != NULL;
}

line_result line_read(const char *prompt, const char *given, char **text, size_t *len)
{
    *len = 0;
    const line_result r = tty_open() ? line_edited(prompt, given, text, len) : line_plain(prompt, text, len);
    if (r == LINE_TEXT) return r;
    free(*text);
    *text = NULL;
    return r;
}

void line_done(void)
{
    tty_close();
    history_close();
    edit_free(&line_editor);
}
