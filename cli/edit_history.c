/* The line editor's history: earlier texts by the arrows, and by what is in them.
 * SPDX-License-Identifier: MIT */
#include "edit.h"

#include "edit_own.h"
#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

enum { EDIT_HISTORY = 1000 };

/* ---- what was entered ---- */

static bool history_add(editor *e, const char *text, size_t len)
{
    edit_bytes copy = { 0 };
    edit_bytes *more = realloc(e->history, (e->n_history + 1) * sizeof *more);
    if (!more) return false;
    e->history = more;
    if (!edit_put(&copy, text, len)) return false;
    more[e->n_history++] = copy;
    return true;
}

void edit_remember(editor *e, const char *text, size_t len)
{
    const edit_bytes *last = e->n_history ? &e->history[e->n_history - 1] : NULL;
    if (!len || (last && last->len == len && !memcmp(last->p, text, len))) return;
    if (history_add(e, text, len) && e->n_history > EDIT_HISTORY) {
        edit_drop(&e->history[0]);
        memmove(e->history, e->history + 1, --e->n_history * sizeof *e->history);
    }
    e->at_history = e->n_history;
}

void history_leave(editor *e)
{
    if (e->at_history < e->n_history) edit_drop(&e->history[--e->n_history]);
    e->at_history = e->n_history;
}

/* ---- one after another ---- */

/* Whether entry i is shown: it begins like the unfinished text, the history's last, and differs
 * from what is shown now. */
static bool history_fits(const editor *e, size_t i, size_t n_prefix)
{
    const edit_bytes *entry = &e->history[i], *begun = &e->history[e->n_history - 1];
    if (n_prefix == 0 || entry == begun) return true;
    return entry->len >= n_prefix && !memcmp(entry->p, begun->p, n_prefix) &&
           (entry->len != e->text.len || memcmp(entry->p, e->text.p, entry->len));
}

/* The next entry to show from i on; n_history: none. */
static size_t history_next(const editor *e, size_t i, int by, size_t n_prefix)
{
    for (i += (size_t)by; i < e->n_history; i += (size_t)by)      /* below 0 it wraps to the largest number */
        if (history_fits(e, i, n_prefix)) return i;
    return e->n_history;
}

void history_move(editor *e, int by)
{
    if (e->at_history == e->n_history) {
        if (by > 0 || !e->n_history || !history_add(e, e->text.p, e->text.len)) return;
        e->at_history = e->n_history - 1;
        e->n_prefix = e->at;
        /* no entry begins like this: all are shown */
        if (history_next(e, e->at_history, by, e->n_prefix) == e->n_history) e->n_prefix = 0;
    }
    const size_t next = history_next(e, e->at_history, by, e->n_prefix);
    if (next == e->n_history) return;
    edit_set(e, &e->history[e->at_history = next]);
    if (next + 1 == e->n_history) edit_drop(&e->history[--e->n_history]);
}

/* ---- by what is in them ---- */

static void search_prompt(editor *e, bool found)
{
    edit_bytes *p = &e->search.prompt;
    static const char yes[] = "search: ", no[] = "not found: ", end[] = " > ";
    p->len = 0;
    edit_put(p, found ? yes : no, found ? sizeof yes - 1 : sizeof no - 1);
    edit_put(p, e->search.query.p, e->search.query.len);
    if (edit_put(p, end, sizeof end)) e->prompt = p->p;
    else e->search.on = false;
}

/* Shows entry i or the next one in this direction that has the query in it. */
static void search_find(editor *e, size_t i, int by)
{
    const edit_bytes *q = &e->search.query;
    for (; q->len && i < e->n_history; i += (size_t)by) {
        const edit_bytes *entry = &e->history[i];
        for (size_t at = 0; at + q->len <= entry->len; at++) {
            if (memcmp(entry->p + at, q->p, q->len)) continue;
            e->search.found = i;
            edit_set(e, entry);
            e->at = at;
            search_prompt(e, true);
            return;
        }
    }
    search_prompt(e, !q->len);
}

void search_begin(editor *e)
{
    edit_search *s = &e->search;
    history_leave(e);
    s->query.len = s->before.len = 0;
    if (!edit_put(&s->before, e->text.p, e->text.len)) return;
    s->prompt_before = e->prompt;
    s->found = e->n_history;
    s->on = true;
    search_prompt(e, true);
}

static void search_end(editor *e)
{
    e->search.on = false;
    e->prompt = e->search.prompt_before;
}

/* The last character of the query goes. */
static void search_shorten(editor *e)
{
    edit_bytes *q = &e->search.query;
    while (q->len && ((unsigned char)q->p[q->len - 1] & 0xc0) == 0x80) q->len--;
    if (q->len) q->len--;
    if (q->len) search_find(e, e->n_history - 1, -1);
    else edit_set(e, &e->search.before), search_prompt(e, true);
}

bool search_key(editor *e, char byte)
{
    enum { G = 7, H = 8, R = 18, S = 19, DELETE = 127 };
    const unsigned char c = (unsigned char)byte;
    edit_search *s = &e->search;
    switch (c) {
    case R: search_find(e, s->found - 1, -1); return true;
    case S: search_find(e, s->found + 1, 1); return true;
    case H: case DELETE: search_shorten(e); return true;
    case G:
        edit_set(e, &s->before);
        search_end(e);
        return true;
    default: break;
    }
    if (c < 0x20) {
        search_end(e);
        return false;
    }
    /* a character's bytes are looked for together, as edit_key puts them in together */
    e->held[e->n_held++] = byte;
    if (e->n_held < qsf_utf8_length((uint8_t)e->held[0])) return true;
    if (edit_put(&s->query, e->held, e->n_held)) search_find(e, s->found < e->n_history ? s->found
                                                                : e->n_history - 1, -1);
    e->n_held = 0;
    return true;
}
