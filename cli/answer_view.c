/* An answer on the screen.
 * SPDX-License-Identifier: MIT
 *
 * Without dim text on the terminal, visible reasoning is printed between <think> and </think>,
 * whatever markers the model itself uses. */
#include "answer_view.h"

#include "tty.h"
#include "width.h"

#include <string.h>

/* ---- text ---- */

/* Whether a terminal may show the byte at text[at] unchanged. */
static bool shown_at(const char *text, size_t at, size_t n)
{
    const unsigned char c = (unsigned char)text[at];
    if (c == 0xc2 && at + 1 < n && (unsigned char)text[at + 1] < 0xa0) return false;
    return (c >= 0x20 && c != 0x7f) || c == '\n' || c == '\t';
}

/* A terminal obeys control characters: those of an answer are shown there as ^X and not obeyed.
 * The others are written together: some consoles need all bytes of a character in one write. */
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

/* Every piece is dimmed separately: wherever the program ends, the output after it is not dim. */
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

/* ---- standard output ---- */

/* Writes to standard output; if that is a terminal, without the answer's control characters. */
static void view_put(answer_view *v, const char *text, size_t n)
{
    if (v->plain) fwrite(text, 1, n, stdout);
    else print_shown(text, n);
    if (n) v->last = text[n - 1];
}
static void view_puts(answer_view *v, const char *text) { view_put(v, text, strlen(text)); }

static bool blank_at(const char *text, size_t i) { return strchr(" \t\r\n\v\f", text[i]) && text[i]; }

/* ---- reasoning ---- */

static void mark_put(answer_view *v, const char *mark)
{
    if (v->marks) view_puts(v, mark);
}

/* Prints what is not on the screen yet, except blanks at the end. */
static void reasoning_show(answer_view *v, const buffer *b)
{
    size_t end = b->n;
    if (!v->shows) return;
    while (end > v->shown && blank_at(b->at, end - 1)) end--;
    if (end == v->shown) return;
    if (v->shown == v->from) mark_put(v, "<think>\n");
    print_in("\033[2m", b->at + v->shown, end - v->shown);
    v->last = b->at[end - 1];
    v->shown = end;
}

static void reasoning_add(answer_view *v, const message *said, size_t len)
{
    if (!v->reasons) {
        v->reasons = true;
        v->since_ns = clock_ns();
        v->from = v->shown = said->reasoning.n - len;
        v->reasoning = &said->reasoning;
    }
    if (!v->shows) wait_begin(v);
    else if (v->plain) fwrite(said->reasoning.at + said->reasoning.n - len, 1, len, stderr);
    else reasoning_show(v, &said->reasoning);
}

/* A row stays empty between it and what follows. */
static void reasoning_end(answer_view *v)
{
    if (!v->reasons) return;
    wait_end(v);
    if (v->plain && v->shows) fputs("\n", stderr);
    if (v->shown > v->from) mark_put(v, "\n</think>"), view_puts(v, "\n\n");
    v->reasons = false;
}

/* ---- calls ---- */

/* Puts text on one line: line ends, and the indentation after them, become a blank. */
static void put_in_line(answer_view *v, const char *text, size_t n)
{
    bool breaks = true;
    for (size_t i = 0, from = 0; i <= n; i++) {
        const bool before = breaks;
        breaks = i < n && (text[i] == '\n' || text[i] == '\r' || (before && blank_at(text, i)));
        if (!breaks && i < n) continue;
        view_put(v, text + from, i - from);
        if (!before && i + 1 < n) view_puts(v, " ");
        from = i + 1;
    }
}

/* A terminal gets "tool call: get_weather {"city": "Paris"}", a pipe an object in JSON. */
static void call_show(answer_view *v, const tool_call *c)
{
    buffer line = { 0 };
    if (v->last && v->last != '\n') view_puts(v, "\n");
    if (v->plain) {
        buffer_put(&line, "{\"id\":");
        buffer_json(&line, c->id, strlen(c->id));
        buffer_put(&line, ",\"name\":");
        buffer_json(&line, c->name, strlen(c->name));
        buffer_put(&line, ",\"arguments\":");
    } else {
        print_in("\033[36m", "tool call: ", 11);
        buffer_put(&line, c->name);
        buffer_put(&line, " ");
    }
    for (size_t i = 0; i < c->arguments.n; i++)
        buffer_add(&line, v->plain && strchr("\r\n", c->arguments.at[i]) ? " " : c->arguments.at + i, 1);
    if (v->plain) buffer_put(&line, "}"), view_put(v, line.at, line.n);
    else put_in_line(v, line.at, line.n);
    view_puts(v, "\n");
    buffer_free(&line);
}

/* ---- all of it ---- */

void answer_view_begin(answer_view *v, const run_session *s)
{
    *v = (answer_view){ .plain = !terminal_is(stdout), .shows = !s->hides };
    v->whole = !qsf_conversation_answer(s->talk) || (v->plain && v->shows && !s->set->tools);
    v->marks = !*colour(stdout, "dim");
}

void answer_view_bytes(answer_view *v, const char *text, size_t len)
{
    if (v->whole) view_put(v, text, len);
}

void answer_view_event(answer_view *v, const qsf_answer_event *e, const message *said)
{
    if (v->whole) return;
    switch (e->type) {
    case QSF_ANSWER_REASONING: reasoning_add(v, said, e->len); return;
    case QSF_ANSWER_TEXT:
    case QSF_ANSWER_CALL_CUT:
        reasoning_end(v);
        view_put(v, e->text, e->len);
        return;
    case QSF_ANSWER_CALL_END:
        reasoning_end(v);
        if (said->n_calls) call_show(v, &said->calls[said->n_calls - 1]);
        return;
    case QSF_ANSWER_CALL:
    case QSF_ANSWER_ARGUMENTS:
    case QSF_ANSWER_CALL_DROPPED: return;
    }
}

void answer_view_tick(answer_view *v) { wait_line(v); }

void answer_view_turn(answer_view *v)
{
    if (!v->reasons || v->plain) return;
    v->shows = !v->shows;
    wait_end(v);
    if (v->shows) reasoning_show(v, v->reasoning);
    else if (v->shown > v->from) view_puts(v, "\n");
    if (!v->shows) wait_begin(v);
}

void answer_view_end(answer_view *v)
{
    wait_end(v);
    if (v->plain && v->reasons && v->shows) fputs("\n", stderr);
}

bool answer_view_reasoning(const message *said)
{
    answer_view v = { .plain = !terminal_is(stdout), .shows = true, .marks = !*colour(stdout, "dim") };
    reasoning_show(&v, &said->reasoning);
    if (v.shown) mark_put(&v, "\n</think>"), view_puts(&v, "\n");
    return output_flush() && v.shown > 0;
}
