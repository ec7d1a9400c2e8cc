/* An answer on the screen.
 * SPDX-License-Identifier: MIT
 *
 * Reasoning that is shown where there are no dim letters keeps the marks that the model wrote
 * around it. */
#include "answer_view.h"

#include "tty.h"
#include "width.h"

#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

/* Whether a terminal may show the byte at text[at] as it is. */
static bool shown_at(const char *text, size_t at, size_t n)
{
    const unsigned char c = (unsigned char)text[at];
    if (c == 0xc2 && at + 1 < n && (unsigned char)text[at + 1] < 0xa0) return false;
    return (c >= 0x20 && c != 0x7f) || c == '\n' || c == '\t';
}

/* A terminal obeys control characters: those of an answer are shown there as ^X, and obeyed by
 * nobody.  The others go out together: some consoles take the bytes of a character only so. */
static void print_shown(const char *text, size_t n)
{
    for (size_t i = 0, from; i < n; i++) {
        for (from = i; i < n && shown_at(text, i, n);) i++;
        fwrite(text + from, 1, i - from, stdout);
        if (i == n) return;
        if ((unsigned char)text[i] == 0xc2) fputs("\xef\xbf\xbd", stdout), i++;
        else if (text[i] != '\r') printf("^%c", text[i] ^ 0x40);
    }
}

/* Every piece is dim by itself: wherever the program ends, what follows is not. */
static void print_in(const char *code, const char *text, size_t n)
{
    fputs(colour(stdout, code), stdout);
    print_shown(text, n);
    fputs(colour(stdout, "\033[0m"), stdout);
}

/* ---- the line in reasoning's place ---- */

/* Where keys are read, the screen is written by the same hands. */
static void wait_put(const char *codes)
{
    if (tty_is_open()) tty_write(codes, strlen(codes));
    else fputs(codes, stderr);
}

static void wait_line(answer_view *v)
{
    char line[64], codes[96];
    size_t cols, rows;
    const uint64_t s = (clock_ns() - v->since_ns) / 1000000000;
    if (!v->waits || s == v->told_s || !terminal_moves(stderr)) return;
    v->told_s = s;
    tty_size(&cols, &rows);
    int n = snprintf(line, sizeof line, "thinking... %llu s", (unsigned long long)s);
    if ((size_t)n >= cols) n = snprintf(line, sizeof line, "%llu s", (unsigned long long)s);
    else if ((size_t)n + 17 < cols && tty_is_open())
        snprintf(line + n, sizeof line - (size_t)n, "  (Ctrl-T shows)");
    if ((size_t)n >= cols) return;
    snprintf(codes, sizeof codes, "\r%s%s%s\033[J", colour(stderr, "\033[2m"), line,
             colour(stderr, "\033[0m"));
    wait_put(codes);
}

static void wait_begin(answer_view *v)
{
    if (v->waits || !terminal_is(stderr)) return;
    v->waits = true;
    v->told_s = UINT64_MAX;
    if (!terminal_moves(stderr)) fputs("thinking...\n", stderr);
    wait_line(v);
}

static void wait_end(answer_view *v)
{
    if (v->waits && terminal_moves(stderr)) wait_put("\r\033[J");
    v->waits = false;
}

/* ---- parts ---- */

/* What goes to standard output; a terminal gets none of its control characters. */
static void view_put(answer_view *v, const char *text, size_t n)
{
    if (v->plain) fwrite(text, 1, n, stdout);
    else print_shown(text, n);
    if (n) v->last = text[n - 1];
}
static void view_puts(answer_view *v, const char *text) { view_put(v, text, strlen(text)); }

static bool blank_at(const char *text, size_t i) { return strchr(" \t\r\n\v\f", text[i]) && text[i]; }

/* Keeps it, without the blanks before it. */
static bool reasoning_keep(answer_view *v, const char *text, size_t n)
{
    for (; !v->len && n && blank_at(text, 0); text++) n--;
    if (v->len + n > v->cap) {
        const size_t cap = 2 * (v->len + n) + 256;
        char *more = realloc(v->reasoning, cap);
        if (!more) return false;
        v->reasoning = more;
        v->cap = cap;
    }
    if (n) memcpy(v->reasoning + v->len, text, n);
    v->len += n;
    return true;
}

/* Brings the screen to what is there of it, but for blanks at its end. */
static void reasoning_show(answer_view *v)
{
    size_t end = v->len;
    if (!v->shows) return;
    while (end > v->shown && blank_at(v->reasoning, end - 1)) end--;
    if (end == v->shown) return;
    if (!v->shown && v->marks) view_puts(v, answer_mark(&v->parts, false)), view_puts(v, "\n");
    print_in("\033[2m", v->reasoning + v->shown, end - v->shown);
    v->last = v->reasoning[end - 1];
    v->shown = end;
}

static void reasoning_add(answer_view *v, const char *text, size_t len)
{
    if (!v->reasons) {
        v->reasons = true;
        v->since_ns = clock_ns();
        v->len = v->shown = 0;
    }
    if (!v->shows) wait_begin(v);
    if (reasoning_keep(v, text, len)) reasoning_show(v);
}

static void reasoning_end(answer_view *v)
{
    wait_end(v);
    if (v->reasons && v->shown) {
        if (v->marks) view_puts(v, "\n"), view_puts(v, answer_mark(&v->parts, true));
        view_puts(v, "\n");
        v->gap = true;
    }
    v->reasons = false;
}

/* "tool call: get_weather {"city": "Paris"}", in a line of its own. */
static void call_show(answer_view *v, const char *text, size_t len)
{
    answer_call call;
    const bool known = answer_call_read(text, len, &call);
    const char *rest = known ? call.arguments : text;
    const size_t n = known ? call.n_arguments : len;
    bool breaks = true;                           /* line ends and what indents lines become a blank */
    if (v->last && v->last != '\n') view_puts(v, "\n");
    print_in("\033[36m", "tool call: ", 11);
    if (known) view_puts(v, call.name), view_puts(v, " ");
    for (size_t i = 0, from = 0; i <= n; i++) {
        const bool before = breaks;
        breaks = i < n && (rest[i] == '\n' || rest[i] == '\r' || (before && blank_at(rest, i)));
        if (!breaks && i < n) continue;
        view_put(v, rest + from, i - from);
        if (!before && i + 1 < n) view_puts(v, " ");
        from = i + 1;
    }
    view_puts(v, "\n");
}

static void view_part(void *user, answer_part part, const char *text, size_t len)
{
    answer_view *v = user;
    if (v->gap) view_puts(v, "\n");
    v->gap = false;
    switch (part) {
    case ANSWER_REASONING: reasoning_add(v, text, len); return;
    case ANSWER_REASONED: reasoning_end(v); return;
    case ANSWER_TEXT: view_put(v, text, len); return;
    case ANSWER_CALL:
        if (!v->plain) call_show(v, text, len);
        else view_puts(v, "<tool_call>"), view_put(v, text, len), view_puts(v, "</tool_call>");
        return;
    }
}

void answer_view_begin(answer_view *v, const run_session *s, const char *opened)
{
    *v = (answer_view){ .plain = !terminal_is(stdout), .shows = !s->hides };
    v->whole = !s->template_name || (v->plain && v->shows);
    v->marks = !*colour(stdout, "dim");
    answer_parts_begin(&v->parts, opened, view_part, v);
    if (opened && !v->whole) reasoning_add(v, "", 0);
}

void answer_view_add(answer_view *v, const char *text, size_t len)
{
    if (v->whole) view_put(v, text, len);
    else answer_parts_add(&v->parts, text, len);
}

void answer_view_tick(answer_view *v) { wait_line(v); }

void answer_view_turn(answer_view *v)
{
    if (!v->reasons || v->plain) return;
    v->shows = !v->shows;
    wait_end(v);
    if (v->shows) reasoning_show(v);
    else if (v->shown) view_puts(v, "\n");
    if (!v->shows) wait_begin(v);
}

bool answer_view_end(answer_view *v)
{
    const bool reasons = v->reasons;
    answer_parts_end(&v->parts);
    wait_end(v);
    free(v->reasoning);
    v->reasoning = NULL;
    return reasons;
}

bool answer_view_reasoning(const char *answer, size_t len)
{
    answer_view v = { .plain = !terminal_is(stdout), .shows = true, .marks = !*colour(stdout, "dim") };
    answer_parts_begin(&v.parts, NULL, view_part, &v);
    answer_parts_add(&v.parts, answer, answer_text_at(answer, len));
    answer_view_end(&v);
    if (v.shown && v.last != '\n') view_puts(&v, "\n");
    return output_flush() && v.shown > 0;
}
