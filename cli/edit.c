/* The line editor's keys: they change the text; drawing is done elsewhere.
 * SPDX-License-Identifier: MIT */
#include "edit.h"

#include "edit_own.h"
#include "text/unicode.h"
#include "width.h"

#include <stdlib.h>
#include <string.h>

void edit_free(editor *e)
{
    for (size_t i = 0; i < e->n_history; i++) edit_drop(&e->history[i]);
    free(e->history);
    edit_drop(&e->text);
    edit_drop(&e->out);
    edit_drop(&e->frame);
    edit_drop(&e->next);
    edit_drop(&e->search.query);
    edit_drop(&e->search.prompt);
    edit_drop(&e->search.before);
    *e = (editor){ 0 };
}

/* ---- places in the text ---- */

static bool edit_is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }
static bool edit_is_word(char c)
{
    return (c >= '0' && c <= '9') || ((unsigned char)c | 32u) - 'a' < 26u || (unsigned char)c >= 0x80;
}

static size_t line_start(const editor *e, size_t at)
{
    while (at && e->text.p[at - 1] != '\n') at--;
    return at;
}
static size_t line_end(const editor *e, size_t at)
{
    while (at < e->text.len && e->text.p[at] != '\n') at++;
    return at;
}

static size_t char_after(const editor *e, size_t at)
{
    unsigned columns;
    return at < e->text.len ? at + width_cluster(e->text.p + at, e->text.len - at, &columns) : at;
}

/* What belongs to a character is only known from before it, so this goes through its line. */
static size_t char_before(const editor *e, size_t at)
{
    size_t p = line_start(e, at);
    if (p == at) return at ? at - 1 : 0;
    for (size_t next; (next = char_after(e, p)) < at; p = next) ;
    return p;
}

/* The cursor may have ended up inside a character, through what was deleted before it or inserted
 * after it. */
static void edit_align(editor *e)
{
    size_t p = line_start(e, e->at);
    while (p < e->at) p = char_after(e, p);
    e->at = p;
}

static size_t word_before(const editor *e, size_t at)
{
    while (at && !edit_is_word(e->text.p[at - 1])) at--;
    while (at && edit_is_word(e->text.p[at - 1])) at--;
    return at;
}
static size_t word_after(const editor *e, size_t at)
{
    while (at < e->text.len && !edit_is_word(e->text.p[at])) at++;
    while (at < e->text.len && edit_is_word(e->text.p[at])) at++;
    return at;
}
/* Ctrl-W's word is all between blanks. */
static size_t blank_before(const editor *e, size_t at)
{
    while (at && edit_is_space(e->text.p[at - 1])) at--;
    while (at && !edit_is_space(e->text.p[at - 1])) at--;
    return at;
}

/* ---- changes ---- */

static void edit_insert(editor *e, const char *bytes, size_t n)
{
    const size_t behind = e->text.len - e->at;
    if (!edit_put(&e->text, bytes, n)) return;
    memmove(e->text.p + e->at + n, e->text.p + e->at, behind);
    memcpy(e->text.p + e->at, bytes, n);
    e->at += n;
}

static void edit_cut(editor *e, size_t from, size_t to)
{
    if (from == to) return;
    memmove(e->text.p + from, e->text.p + to, e->text.len - to);
    e->text.len -= to - from;
    e->at = from;
}

/* ---- keys ---- */

void edit_begin(editor *e, const char *prompt, const char *text, size_t len)
{
    e->prompt = prompt;
    e->text.len = 0;
    e->at = edit_put(&e->text, text, len) ? len : 0;
    e->state = EDIT_KEYS;
    e->n_held = 0;
    e->search.on = false;
    history_leave(e);
    edit_forget(e);
}

static void edit_vertical(editor *e, int by)
{
    if (!edit_row_move(e, by)) history_move(e, by);
}

static edit_result edit_control(editor *e, unsigned char c)
{
    enum { A = 1, B, D = 4, E, F, H = 8, TAB, LF, K, L, CR, N, P = 16, R = 18, U = 21, W = 23, ESC = 27,
           DELETE = 127 };
    switch (c) {
    case CR: case LF: history_leave(e); return EDIT_DONE;
    case D:
        if (!e->text.len) return EDIT_END;
        edit_cut(e, e->at, char_after(e, e->at));
        break;
    case A: e->at = line_start(e, e->at); break;
    case E: e->at = line_end(e, e->at); break;
    case B: e->at = char_before(e, e->at); break;
    case F: e->at = char_after(e, e->at); break;
    case P: edit_vertical(e, -1); break;
    case N: edit_vertical(e, 1); break;
    case H: case DELETE: edit_cut(e, char_before(e, e->at), e->at); break;
    case K: edit_cut(e, e->at, line_end(e, e->at)); break;
    case U: edit_cut(e, line_start(e, e->at), e->at); break;
    case W: edit_cut(e, blank_before(e, e->at), e->at); break;
    case L: edit_clear(e); break;
    case R: search_begin(e); break;
    case TAB: edit_insert(e, "\t", 1); break;
    case ESC:
        e->state = EDIT_ESCAPE;
        e->n_held = 0;
        break;
    default: break;
    }
    return EDIT_MORE;
}

/* A key after an ESC that does not begin a sequence: Alt with that key. */
static void edit_alt(editor *e, char c)
{
    switch (c) {
    case 'b': e->at = word_before(e, e->at); break;
    case 'f': e->at = word_after(e, e->at); break;
    case 'd': edit_cut(e, e->at, word_after(e, e->at)); break;
    case '\b': case 127: edit_cut(e, word_before(e, e->at), e->at); break;
    case '\r': case '\n': edit_insert(e, "\n", 1); break;
    default: break;
    }
}

/* "ESC [ held" is whole; last is its end. */
static void edit_sequence(editor *e, char last)
{
    const char *semicolon = memchr(e->held, ';', e->n_held);
    /* With Alt or Ctrl. */
    const bool word = semicolon && e->held + e->n_held > semicolon + 1 && strchr("3579", semicolon[1]);
    int number = 0;
    for (size_t i = 0; i < e->n_held && e->held[i] >= '0' && e->held[i] <= '9' && number < 1000; i++)
        number = 10 * number + e->held[i] - '0';
    if (last == '~') {
        switch (number) {
        case 1: case 7: last = 'H'; break;
        case 4: case 8: last = 'F'; break;
        case 3: edit_cut(e, e->at, char_after(e, e->at)); return;
        case 200:
            e->state = EDIT_PASTE;
            e->n_held = 0;
            e->after_cr = false;
            return;
        default: return;
        }
    }
    switch (last) {
    case 'A': edit_vertical(e, -1); break;
    case 'B': edit_vertical(e, 1); break;
    case 'C': e->at = word ? word_after(e, e->at) : char_after(e, e->at); break;
    case 'D': e->at = word ? word_before(e, e->at) : char_before(e, e->at); break;
    case 'H': e->at = line_start(e, e->at); break;
    case 'F': e->at = line_end(e, e->at); break;
    default: break;
    }
}

/* Pasted text is inserted unchanged, except line ends, and zeros, which text does not have. */
static void edit_paste(editor *e, char byte)
{
    static const char end[] = "\033[201~";
    if (byte == end[e->n_held]) {
        e->held[e->n_held++] = byte;
        if (e->n_held < sizeof end - 1) return;
        e->n_held = 0;
        e->state = EDIT_KEYS;
        edit_align(e);
        return;
    }
    if (e->n_held) {                    /* it was text; only its first byte can begin the end again */
        edit_insert(e, e->held, e->n_held);
        e->n_held = 0;
        e->after_cr = false;
        edit_paste(e, byte);
        return;
    }
    if (byte == '\r') edit_insert(e, "\n", 1);
    else if (byte && !(byte == '\n' && e->after_cr)) edit_insert(e, &byte, 1);
    e->after_cr = byte == '\r';
}

/* A character's bytes are put in together, so that none is drawn half. */
static void edit_type(editor *e, char byte)
{
    e->held[e->n_held++] = byte;
    if (e->n_held < qsf_utf8_length((uint8_t)e->held[0])) return;
    edit_insert(e, e->held, e->n_held);
    e->n_held = 0;
    edit_align(e);
}

edit_result edit_key(editor *e, char byte)
{
    const unsigned char c = (unsigned char)byte;
    if (e->state == EDIT_KEYS && e->search.on && search_key(e, byte)) return EDIT_MORE;
    switch (e->state) {
    case EDIT_PASTE:
        edit_paste(e, byte);
        return EDIT_MORE;
    case EDIT_ESCAPE:
        if (c == '[' || c == 'O') e->state = c == '[' ? EDIT_SEQUENCE : EDIT_FUNCTION;
        else if (c != 27) {
            e->state = EDIT_KEYS;
            edit_alt(e, byte);
        }
        return EDIT_MORE;
    case EDIT_FUNCTION:                 /* a letter, or a letter after a digit */
        if (c >= '0' && c <= '9') return EDIT_MORE;
        e->state = EDIT_KEYS;
        edit_sequence(e, byte);
        return EDIT_MORE;
    case EDIT_SEQUENCE:
        /* "ESC [ [ A" is a key of the Linux console */
        if ((c >= 0x20 && c < 0x40) || (c == '[' && e->n_held == 0)) {
            if (e->n_held < sizeof e->held) e->held[e->n_held++] = byte;
            return EDIT_MORE;
        }
        e->state = EDIT_KEYS;
        if (e->n_held < sizeof e->held && !(e->n_held && e->held[0] == '[')) edit_sequence(e, byte);
        if (e->state == EDIT_KEYS) e->n_held = 0;
        return EDIT_MORE;
    case EDIT_KEYS: break;
    }
    if (e->n_held && (c & 0xc0) != 0x80) {      /* an unfinished character: its bytes are what they are */
        edit_insert(e, e->held, e->n_held);
        e->n_held = 0;
    }
    if (c < 0x20 || c == 127) return edit_control(e, c);
    edit_type(e, byte);
    return EDIT_MORE;
}

void edit_settle(editor *e)
{
    if (e->state == EDIT_ESCAPE) e->state = EDIT_KEYS;
}
