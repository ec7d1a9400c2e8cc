/* Calls of tools on the command line: --tools gives each as a line of JSON.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdlib.h>

typedef struct call_line {
    char  *text;                /* what is there of the line */
    size_t len, cap;
    bool   failed;
} call_line;

struct run_calls { qsf_answer *answer; call_line line; char last; };

static void line_add(call_line *l, const char *bytes, size_t n)
{
    if (l->failed || l->len + n + 1 > l->cap) {
        const size_t cap = 2 * (l->len + n) + 256;
        char *text = l->failed ? NULL : realloc(l->text, cap);
        if (!text) {
            l->failed = true;
            return;
        }
        l->text = text;
        l->cap = cap;
    }
    memcpy(l->text + l->len, bytes, n);
    l->len += n;
}
static void line_put(call_line *l, const char *text) { line_add(l, text, strlen(text)); }

/* A name or an id in quotes. */
static void line_quoted(call_line *l, const char *p, size_t n)
{
    line_put(l, "\"");
    for (size_t i = 0; i < n; i++) {
        char code[8];
        const unsigned char c = (unsigned char)p[i];
        if (c == '"' || c == '\\') snprintf(code, sizeof code, "\\%c", c);
        else snprintf(code, sizeof code, c < 32 ? "\\u%04x" : "%c", c);
        line_put(l, code);
    }
    line_put(l, "\"");
}

int calls_open(run_session *s)
{
    qsf_answer_options o;
    qsf_turn_options turn;
    qsf_answer_defaults(&o);
    qsf_turn_defaults(&turn);
    o.chat = &s->chat.options;
    o.tool_choice = s->set->tool_choice;
    o.id_seed = clock_ns();
    if (!s->set->tools) return EXIT_OK;
    if (!(s->calls = calloc(1, sizeof *s->calls))) return EXIT_NO_MEMORY;
    if (qsf_answer_new(s->model, &o, &s->calls->answer, &s->error)) return report(&s->error);
    return qsf_answer_turn(s->calls->answer, &turn, &s->error) ? report(&s->error) : EXIT_OK;
}

void calls_close(run_session *s)
{
    if (!s->calls) return;
    qsf_answer_free(s->calls->answer);
    free(s->calls->line.text);
    free(s->calls);
    s->calls = NULL;
}

qsf_status calls_turn(run_session *s, qsf_turn_options *o)
{
    return qsf_answer_turn(s->calls->answer, o, &s->error);
}

static void calls_line_begin(run_session *s)
{
    if (s->calls->last && s->calls->last != '\n') putchar('\n');
    s->calls->last = '\n';
}

/* The arguments' line ends are between values: in texts they are escapes. */
static void calls_arguments(call_line *l, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) line_add(l, p[i] == '\n' || p[i] == '\r' ? " " : p + i, 1);
}

static int calls_event(run_session *s, const qsf_answer_event *e)
{
    call_line *l = &s->calls->line;
    switch (e->type) {
    case QSF_ANSWER_TEXT:
        fwrite(e->text, 1, e->len, stdout);
        s->calls->last = e->text[e->len - 1];
        break;
    case QSF_ANSWER_REASONING: fwrite(e->text, 1, e->len, stderr); break;
    case QSF_ANSWER_CALL:
        l->len = 0;
        line_put(l, "{\"id\":");
        line_quoted(l, e->id, e->id_len);
        line_put(l, ",\"name\":");
        line_quoted(l, e->text, e->len);
        line_put(l, ",\"arguments\":");
        break;
    case QSF_ANSWER_ARGUMENTS: calls_arguments(l, e->text, e->len); break;
    case QSF_ANSWER_CALL_END:
        calls_line_begin(s);
        line_put(l, "}\n");
        if (l->failed) return EXIT_NO_MEMORY;
        fwrite(l->text, 1, l->len, stdout);
        break;
    case QSF_ANSWER_CALL_DROPPED: l->len = 0; break;
    }
    return EXIT_OK;
}

int calls_add(run_session *s, const qsf_turn_piece *p, bool print)
{
    qsf_answer_event e = { .size = sizeof e };
    int code = EXIT_OK;
    if (qsf_answer_push(s->calls->answer, p->text, p->len, p->end != QSF_TURN_GOES_ON, &s->error))
        return report(&s->error);
    while (!code && !qsf_answer_next(s->calls->answer, &e))
        if (print) code = calls_event(s, &e);
    if (print && p->end) calls_line_begin(s);
    return code ? code : output_flush() ? EXIT_OK : EXIT_IO;
}
