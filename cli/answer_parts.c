/* The parts of an answer by the marks that most models write.
 * SPDX-License-Identifier: MIT
 *
 * Reasoning stands at the beginning, behind a mark that the model writes or that its prompt ends
 * with. Marks may come in pieces: what may be the beginning of one is held back. */
#include "answer_parts.h"

#include "base/platform.h"
#include "text/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const reasoning_marks[][2] = {
    { "<think>", "</think>" }, { "[THINK]", "[/THINK]" }, { "<seed:think>", "</seed:think>" },
    { "<thinking>", "</thinking>" }, { "<|START_THINKING|>", "<|END_THINKING|>" },
};
enum { N_REASONING_MARKS = sizeof reasoning_marks / sizeof reasoning_marks[0] };
static const char call_begins[] = "<tool_call>", call_ends[] = "</tool_call>";

static bool is_blank_byte(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* How many of the last bytes are the beginning of the mark, and not all of it. */
static size_t parts_mark_begun(const char *text, size_t len, const char *mark)
{
    size_t n = strlen(mark) - 1;
    for (n = n < len ? n : len; n && memcmp(text + len - n, mark, n);) n--;
    return n;
}

static const char *parts_mark(const char *text, size_t len, const char *mark)
{
    const size_t n = strlen(mark);
    for (; len >= n; text++, len--)
        if (!memcmp(text, mark, n)) return text;
    return NULL;
}

const char *answer_opened(const char *prompt, size_t len)
{
    while (len && is_blank_byte(prompt[len - 1])) len--;
    for (int i = 0; i < (int)N_REASONING_MARKS; i++) {
        const size_t n = strlen(reasoning_marks[i][0]);
        if (n <= len && !memcmp(prompt + len - n, reasoning_marks[i][0], n)) return reasoning_marks[i][0];
    }
    return NULL;
}

void answer_parts_begin(answer_parts *p, const char *opened, answer_each *each, void *user)
{
    *p = (answer_parts){ .each = each, .user = user };
    for (int i = 0; opened && i < (int)N_REASONING_MARKS; i++)
        if (!strcmp(opened, reasoning_marks[i][0])) p->form = i, p->state = PARTS_REASONING;
}

static void parts_give(answer_parts *p, answer_part part, const char *text, size_t n)
{
    if (n) p->each(p->user, part, text, n);
}

static bool parts_call_put(answer_parts *p, const char *text, size_t n)
{
    if (p->n_call + n > p->cap_call) {
        const size_t cap = 2 * (p->n_call + n) + 256;
        char *call = realloc(p->call, cap);
        if (!call) return false;
        p->call = call;
        p->cap_call = cap;
    }
    memcpy(p->call + p->n_call, text, n);
    p->n_call += n;
    return true;
}

/* Blanks and a mark, or what may become them.  Returns how many bytes are done with; the text
 * begins there where nothing may come of it. */
static size_t parts_start(answer_parts *p, const char *text, size_t len)
{
    enum { MOST_BLANKS = 40 };
    size_t at = 0;
    bool may = false;
    while (at < len && is_blank_byte(text[at])) at++;
    for (int i = 0; i < (int)N_REASONING_MARKS; i++) {
        const char *mark = reasoning_marks[i][0];
        const size_t n = strlen(mark), have = len - at < n ? len - at : n;
        if (at > MOST_BLANKS || memcmp(text + at, mark, have)) continue;
        may = true;
        if (have < n) continue;
        p->form = i;
        p->state = PARTS_REASONING;
        return at + n;
    }
    if (!may) p->state = PARTS_TEXT;
    return 0;
}

/* Up to the mark, or what may become it; the mark leads to the next state. */
static size_t parts_until(answer_parts *p, const char *text, size_t len, const char *mark, parts_state next)
{
    const char *at = parts_mark(text, len, mark);
    const size_t n = at ? (size_t)(at - text) : len - parts_mark_begun(text, len, mark);
    if (p->state == PARTS_TEXT) parts_give(p, ANSWER_TEXT, text, n);
    else if (p->state == PARTS_REASONING) parts_give(p, ANSWER_REASONING, text, n);
    else if (!parts_call_put(p, text, n)) p->n_call = 0;            /* no memory: the call is not shown */
    if (!at) return n;
    if (p->state == PARTS_REASONING) p->each(p->user, ANSWER_REASONED, "", 0);
    if (p->state == PARTS_CALL) parts_give(p, ANSWER_CALL, p->call, p->n_call);
    p->n_call = 0;
    p->state = next;
    return n + strlen(mark);
}

/* One step over the text: bytes done with; the same state and 0: more are needed. */
static size_t parts_step(answer_parts *p, const char *text, size_t len)
{
    size_t at = 0;
    switch (p->state) {
    case PARTS_START:     return parts_start(p, text, len);
    case PARTS_REASONING: return parts_until(p, text, len, reasoning_marks[p->form][1], PARTS_REASONED);
    case PARTS_TEXT:      return parts_until(p, text, len, call_begins, PARTS_CALL);
    case PARTS_CALL:      return parts_until(p, text, len, call_ends, PARTS_TEXT);
    case PARTS_REASONED:
        while (at < len && is_blank_byte(text[at])) at++;
        if (at < len) p->state = PARTS_TEXT;
        return at;
    }
    return len;
}

void answer_parts_add(answer_parts *p, const char *text, size_t len)
{
    while (len || p->n_held) {
        /* what was held back goes first, with as much of the new as belongs to it */
        char joined[2 * sizeof p->held];
        const size_t held = p->n_held;
        const size_t more = len < sizeof joined - held ? len : sizeof joined - held;
        const char *from = text;
        size_t n = len;
        if (held) {
            memcpy(joined, p->held, held);
            memcpy(joined + held, text, more);
            from = joined;
            n = held + more;
        }
        const parts_state before = p->state;
        const size_t done = parts_step(p, from, n);
        const size_t of_held = done < held ? done : held;
        memmove(p->held, p->held + of_held, held - of_held);
        p->n_held = held - of_held;
        text += done - of_held;
        len -= done - of_held;
        if (done || p->state != before) continue;
        /* nothing could be done: it waits for more, which is less than a mark, or blanks before
         * one */
        if (p->n_held + len > sizeof p->held) {
            p->state = PARTS_TEXT;
            continue;
        }
        memcpy(p->held + p->n_held, text, len);
        p->n_held += len;
        return;
    }
}

void answer_parts_end(answer_parts *p)
{
    if (p->state == PARTS_CALL) {
        if (parts_call_put(p, p->held, p->n_held)) parts_give(p, ANSWER_CALL, p->call, p->n_call);
    } else if (p->state == PARTS_REASONING) {
        parts_give(p, ANSWER_REASONING, p->held, p->n_held);
    } else {
        parts_give(p, ANSWER_TEXT, p->held, p->n_held);
    }
    free(p->call);
    p->call = NULL;
    p->n_held = p->n_call = p->cap_call = 0;
}

const char *answer_mark(const answer_parts *p, bool end) { return reasoning_marks[p->form][end]; }

/* ---- whole answers ---- */

size_t answer_text_at(const char *answer, size_t len)
{
    answer_parts p = { 0 };
    const size_t at = parts_start(&p, answer, len);
    if (p.state != PARTS_REASONING) return 0;
    const char *end = parts_mark(answer + at, len - at, reasoning_marks[p.form][1]);
    size_t text = end ? (size_t)(end - answer) + strlen(reasoning_marks[p.form][1]) : len;
    while (text < len && is_blank_byte(answer[text])) text++;
    return text;
}

/* Bytes of the value that this valid JSON begins with, an object or a list. */
static size_t value_length(const char *text, size_t len)
{
    size_t depth = 0, at = 0;
    for (bool quoted = false; at < len; at++) {
        const char c = text[at];
        if (quoted && c == '\\') at++;
        else if (c == '"') quoted = !quoted;
        else if (quoted) continue;
        else if (c == '{' || c == '[') depth++;
        else if ((c == '}' || c == ']') && --depth == 0) return at + 1;
    }
    return len;
}

bool answer_call_read(const char *call, size_t len, answer_call *out)
{
    qsf_error ignored;
    qsf_json json;
    *out = (answer_call){ .arguments = "{}", .n_arguments = 2 };
    while (len && is_blank_byte(call[len - 1])) len--;
    if (qsf_json_read(qsf_platform_native(), call, len, "call", &json, &ignored)) return false;
    const qsf_json_node *name = qsf_json_member(json.nodes, "name");
    const qsf_json_node *arguments = qsf_json_member(json.nodes, "arguments");
    if (!arguments) arguments = qsf_json_member(json.nodes, "parameters");
    const bool known = name && name->type == QSF_JSON_TEXT;
    if (known) snprintf(out->name, sizeof out->name, "%s", name->text);
    if (known && arguments && (arguments->type == QSF_JSON_OBJECT || arguments->type == QSF_JSON_LIST)) {
        out->arguments = call + arguments->at;
        out->n_arguments = value_length(out->arguments, len - arguments->at);
    }
    qsf_json_drop(&json);
    return known;
}
