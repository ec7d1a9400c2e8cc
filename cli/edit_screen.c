/* The line editor's screen.
 * SPDX-License-Identifier: MIT
 *
 * The desired screen is written as a frame: prompt and text broken into rows, with "\n" between
 * them.  The frame is compared with the one on the screen, and redrawn from the first difference
 * on.  Rows leave the last column of the screen free, so that the terminal does not wrap them
 * itself and the cursor has room after the last character.  If there are more rows than the screen
 * has, the frame is a window around the cursor. */
#include "edit.h"

#include "edit_own.h"
#include "text/unicode.h"
#include "width.h"

#include <stdio.h>
#include <string.h>

/* ---- from text to rows ---- */

/* How a character is shown: bytes and columns. */
typedef struct edit_shape {
    const char *bytes;
    size_t      n, columns;
    char        own[16];
} edit_shape;

/* What no terminal has a picture of, or may obey. */
static bool shape_none(uint32_t c)
{
    return (c >= 0x80 && c < 0xa0) || c == 0x2028 || c == 0x2029 || (c >= 0xd800 && c < 0xe000) ||
           c == QSF_REPLACEMENT || c > 0x10ffff;
}

/* The shape of one character of the n bytes at text, by width_cluster, in this column. */
static void shape_of(const editor *e, const char *text, size_t n, size_t columns, size_t col, edit_shape *s)
{
    size_t used;
    const uint32_t c = qsf_utf8_decode(text, n, &used);
    *s = (edit_shape){ .bytes = text, .n = n, .columns = columns };
    if (c == '\t') {
        s->n = s->columns = 8 - col % 8 < e->cols ? 8 - col % 8 : 1;
        s->bytes = memset(s->own, ' ', s->n);
    } else if (c < 0x20 || c == 0x7f) {
        s->own[0] = '^';
        s->own[1] = (char)(c ^ 0x40);
        s->bytes = s->own;
        s->n = s->columns = 2;
    } else if (shape_none(c)) {
        s->bytes = "\xef\xbf\xbd";
        s->n = 3;
        s->columns = 1;
    }
}

/* Writes rows [e->top, top + rows) where out is not NULL. */
static void put_in_row(const editor *e, edit_bytes *out, size_t row, const char *bytes, size_t n)
{
    if (out && row >= e->top && row < e->top + e->rows) edit_put(out, bytes, n);
}
static void begin_row(const editor *e, edit_bytes *out, edit_place *p)
{
    *p = (edit_place){ p->row + 1, 0 };
    if (p->row > e->top) put_in_row(e, out, p->row, "\n", 1);
}

/* Walks through the text.  Calls each (unless NULL) with the position of every character, and with
 * the position after the last. */
typedef bool edit_each(void *user, size_t at, edit_place p);
static void edit_walk(const editor *e, edit_bytes *out, edit_each *each, void *user)
{
    edit_place p = { 0, 0 };
    const char *text = e->text.p;
    for (size_t at = 0, len = strlen(e->prompt), n; at < len; at += n) {
        unsigned columns;
        edit_shape s;
        n = width_cluster(e->prompt + at, len - at, &columns);
        shape_of(e, e->prompt + at, n, columns, p.col, &s);
        if (p.col + s.columns > e->cols) begin_row(e, out, &p);
        put_in_row(e, out, p.row, s.bytes, s.n);
        p.col += s.columns;
    }
    for (size_t at = 0, n; at < e->text.len; at += n) {
        unsigned columns;
        edit_shape s;
        n = width_cluster(text + at, e->text.len - at, &columns);
        if (text[at] == '\n') {
            if (each && !each(user, at, p)) return;
            begin_row(e, out, &p);
            continue;
        }
        shape_of(e, text + at, n, columns, p.col, &s);
        if (p.col && p.col + s.columns > e->cols) {
            begin_row(e, out, &p);
            shape_of(e, text + at, n, columns, p.col, &s);
        }
        if (each && !each(user, at, p)) return;
        put_in_row(e, out, p.row, s.bytes, s.n);
        p.col += s.columns;
    }
    if (each) each(user, e->text.len, p);
}

typedef struct edit_seek { const editor *e; edit_place cursor, last; } edit_seek;
static bool seek_cursor(void *user, size_t at, edit_place p)
{
    edit_seek *s = user;
    if (at <= s->e->at) s->cursor = p;
    s->last = p;
    return true;
}

/* The character nearest to a place, at it or before it. */
typedef struct edit_near { edit_place wanted; size_t at; bool found; } edit_near;
static bool seek_place(void *user, size_t at, edit_place p)
{
    edit_near *n = user;
    if (p.row > n->wanted.row) return false;
    if (p.row < n->wanted.row || (n->found && p.col > n->wanted.col)) return true;
    n->at = at;
    n->found = true;
    return true;
}

bool edit_row_move(editor *e, int by)
{
    edit_seek s = { .e = e };
    edit_walk(e, NULL, seek_cursor, &s);
    if (by < 0 ? s.cursor.row == 0 : s.cursor.row == s.last.row) return false;
    edit_near n = { .wanted = { by < 0 ? s.cursor.row - 1 : s.cursor.row + 1, s.cursor.col } };
    edit_walk(e, NULL, seek_place, &n);
    if (n.found) e->at = n.at;
    return n.found;
}

/* ---- from frame to frame ---- */

static void frame_move(editor *e, edit_place to)
{
    char s[32];
    if (to.row != e->cursor.row) {
        const bool up = to.row < e->cursor.row;
        const size_t rows = up ? e->cursor.row - to.row : to.row - e->cursor.row;
        edit_put(&e->out, s, (size_t)snprintf(s, sizeof s, "\033[%zu%c", rows, up ? 'A' : 'B'));
    }
    if (to.col != e->cursor.col) {
        edit_put(&e->out, "\r", 1);
        if (to.col) edit_put(&e->out, s, (size_t)snprintf(s, sizeof s, "\033[%zuC", to.col));
    }
    e->cursor = to;
}

/* The last place at or before common where a character of the frame begins,
 * in the row that begins at row. */
static size_t frame_boundary(const edit_bytes *frame, size_t row, size_t common)
{
    size_t at = row;
    for (unsigned columns; at < common;) {
        const size_t next = at + width_cluster(frame->p + at, frame->len - at, &columns);
        if (next > common) break;
        at = next;
    }
    return at;
}

/* The screen position of the frame's byte `to`. */
static edit_place frame_place(const edit_bytes *frame, size_t to)
{
    edit_place p = { 0, 0 };
    for (size_t at = 0, n; at < to; at += n) {
        unsigned columns;
        n = width_cluster(frame->p + at, frame->len - at, &columns);
        if (frame->p[at] == '\n') p = (edit_place){ p.row + 1, 0 };
        else p.col += columns;
    }
    return p;
}

static void frame_write(editor *e, size_t from)
{
    const edit_bytes *f = &e->next;
    const size_t prompt = strlen(e->prompt);
    if (from == 0 && e->top == 0 && f->len >= prompt) {
        edit_put(&e->out, e->prompt_on, strlen(e->prompt_on));
        edit_put(&e->out, f->p, prompt);
        edit_put(&e->out, e->prompt_off, strlen(e->prompt_off));
        from = prompt;
    }
    for (size_t at = from; at < f->len; at++) {
        if (f->p[at] == '\n') edit_put(&e->out, "\r", 1);
        edit_put(&e->out, f->p + at, 1);
    }
}

static void frame_change(editor *e)
{
    const edit_bytes *old = &e->frame, *new = &e->next;
    const size_t prompt = e->top == 0 ? strlen(e->prompt) : 0;
    size_t common = 0, row = 0;
    while (common < old->len && common < new->len && old->p[common] == new->p[common])
        if (old->p[common++] == '\n') row = common;
    if (common < old->len || common < new->len) {
        /* A mark that comes or goes changes the character before it. */
        const size_t a = frame_boundary(old, row, common), b = frame_boundary(new, row, common);
        size_t from = a < b ? a : b;
        if (from < prompt && new->len) from = 0;
        frame_move(e, frame_place(new, from));
        if (from < old->len) edit_put(&e->out, "\033[J", 3);
        frame_write(e, from);
        e->cursor = frame_place(new, new->len);
    }
    const edit_bytes spare = e->frame;
    e->frame = e->next;
    e->next = spare;
}

void edit_draw(editor *e)
{
    edit_seek s = { .e = e };
    edit_walk(e, NULL, seek_cursor, &s);
    const size_t total = s.last.row + 1;
    if (total <= e->rows) e->top = 0;
    else if (s.cursor.row < e->top) e->top = s.cursor.row;
    else if (s.cursor.row >= e->top + e->rows) e->top = s.cursor.row - e->rows + 1;
    else if (e->top + e->rows > total) e->top = total - e->rows;
    e->next.len = 0;
    edit_walk(e, &e->next, NULL, NULL);
    frame_change(e);
    frame_move(e, (edit_place){ s.cursor.row - e->top, s.cursor.col });
}

void edit_finish(editor *e)
{
    const size_t rows = e->rows;
    e->at = e->text.len;
    /* what the window did not show goes by, and can be scrolled back to */
    e->rows = SIZE_MAX / 2;
    e->top = 0;
    edit_draw(e);
    e->rows = rows;
    edit_put(&e->out, "\r\n", 2);
    edit_forget(e);
}

void edit_forget(editor *e)
{
    e->frame.len = 0;
    e->cursor = (edit_place){ 0, 0 };
    e->top = 0;
}

void edit_clear(editor *e)
{
    static const char clear[] = "\033[H\033[2J";
    edit_put(&e->out, clear, sizeof clear - 1);
    edit_forget(e);
}

/* Terminals break rows that have become too long, and the cursor goes down with them. */
void edit_resize(editor *e, size_t cols, size_t rows)
{
    const size_t width = cols > 1 ? cols : 1;
    edit_place p = { 0, 0 };
    size_t row = 0, col = 0, above = 0;
    for (size_t at = 0, n; at < e->frame.len && row < e->cursor.row; at += n) {
        unsigned columns;
        n = width_cluster(e->frame.p + at, e->frame.len - at, &columns);
        if (e->frame.p[at] != '\n') {
            col += columns;
            continue;
        }
        above += col ? (col - 1) / width + 1 : 1;
        row++;
        col = 0;
    }
    e->cursor = (edit_place){ above + e->cursor.col / width, e->cursor.col % width };
    if (e->frame.len) {
        if (e->cursor.row >= rows) e->cursor.row = rows ? rows - 1 : 0;
        frame_move(e, p);
        edit_put(&e->out, "\r\033[J", 4);
    }
    e->cols = cols > 3 ? cols - 1 : 2;
    e->rows = rows > 1 ? rows : 1;
    edit_forget(e);
}
