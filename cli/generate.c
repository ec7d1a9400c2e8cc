/* The answer: a turn's pieces, gathered and streamed.
 * SPDX-License-Identifier: MIT */
#include "answer_view.h"
#include "run.h"

#include <stdlib.h>
#include <string.h>

static bool answer_room(answer *a, size_t more)
{
    if (a->len + more >= a->cap) {
        const size_t cap = 2 * (a->len + more) + 256;
        char *text = realloc(a->text, cap);
        if (!text) return false;
        a->text = text;
        a->cap = cap;
    }
    if (a->n_ids == a->cap_ids) {
        const size_t cap = 2 * a->cap_ids + 256;
        int32_t *ids = realloc(a->ids, cap * sizeof *ids);
        if (!ids) return false;
        a->ids = ids;
        a->cap_ids = cap;
    }
    return true;
}

void answer_free(answer *a)
{
    free(a->text);
    free(a->ids);
    *a = (answer){ 0 };
}

/* A piece becomes part of the answer, and is shown.  An exit code: EXIT_IO where nobody can see
 * it any more. */
static int answer_add(answer *a, const qsf_turn_piece *p, answer_view *view)
{
    const qsf_error no_memory = { QSF_E_MEMORY, "out of memory for the answer" };
    if (!answer_room(a, p->len)) return report(&no_memory);
    if (p->token >= 0) a->ids[a->n_ids++] = p->token;
    memcpy(a->text + a->len, p->text, p->len);
    a->len += p->len;
    a->text[a->len] = 0;
    if (!view || !p->len) return EXIT_OK;
    answer_view_add(view, p->text, p->len);
    return output_flush() ? EXIT_OK : EXIT_IO;
}

/* The mark that the prompt has opened the reasoning with, by its last tokens. */
static const char *answer_mark_of_prompt(run_session *s)
{
    enum { LAST = 32 };
    char end[512];
    size_t n, len = 0;
    const int32_t *ids = qsf_turn_tokens(s->turn, &n);
    if (!s->template_name) return NULL;
    for (size_t i = n > LAST ? n - LAST : 0; i < n; i++) {
        const char *piece;
        const size_t part = qsf_token_piece(s->model, ids[i], true, &piece);
        if (part > sizeof end - len) len = 0;
        if (part > sizeof end - len) continue;
        memcpy(end + len, piece, part);
        len += part;
    }
    return answer_opened(end, len);
}

int generate_answer(run_session *s, bool print, answer *a)
{
    int code = EXIT_OK;
    answer_view view;
    qsf_turn_piece p = { .size = sizeof p };
    a->opened = answer_mark_of_prompt(s);
    const bool view_on = print && !s->calls;
    if (view_on) answer_view_begin(&view, s, a->opened);
    while (!code && !p.end) {
        const bool given = qsf_turn_next(s->turn, &p) != QSF_PENDING;
        if (!given) qsf_turn_step(s->turn, NULL);         /* the last piece says what failed */
        else if (p.end != QSF_TURN_FAILED) code = answer_add(a, &p, view_on ? &view : NULL);
        if (given && !code && s->calls) code = calls_add(s, &p, print);
        if (given && p.n_logprobs) print_logprobs(s, &p);
        if (view_on && view.reasons && line_key(LINE_REASONING)) answer_view_turn(&view);
        if (view_on) answer_view_tick(&view);
        if (p.end || !interrupted()) continue;
        a->stopped = true;
        qsf_turn_cancel(s->turn);
    }
    qsf_turn_cancel(s->turn);
    a->full = p.end == QSF_TURN_FULL;
    if (view_on) {
        const bool reasons = answer_view_end(&view);
        a->last = view.last;
        a->cut = reasons && p.end == QSF_TURN_MOST;
    }
    return p.end == QSF_TURN_FAILED ? report(qsf_turn_error(s->turn)) : code;
}

/* The prompt is too long. */
static int report_length(run_session *s, size_t n, const char *what)
{
    qsf_plan plan = { .size = sizeof plan };
    qsf_error e = { .status = QSF_E_FULL };
    qsf_context_get_plan(s->context, &plan);
    snprintf(e.text, sizeof e.text, "%s has %zu tokens, the context %u positions; %s", what, n,
             (unsigned)plan.n_ctx, session_longer(s));
    return report(&e);
}

static qsf_status prompt_begin(run_session *s, const int32_t *ids, size_t n)
{
    qsf_turn_options o = s->set->turn;
    qsf_status st;
    o.grammar = s->grammar;
    o.max_tokens = s->set->max_tokens;
    o.stops = s->stops;
    o.n_stops = s->n_stops;
    o.ignore_end = o.special = s->set->ignore_eos;
    o.draft = s->draft;
    o.guess = s->drafter ? draft_model_guess : NULL;
    o.guess_user = s->drafter;
    if (s->calls && (st = calls_turn(s, &o))) return st;
    return qsf_turn_begin(s->turn, ids, n, s->sampler, &o);
}

int generate_prompt(run_session *s, const int32_t *ids, size_t n, const char *what)
{
    qsf_turn_state state = { .size = sizeof state };
    if (n == 0) {
        qsf_error e = { .status = QSF_E_ARGUMENT };
        snprintf(e.text, sizeof e.text, "%s is empty and the model has no token that begins a text", what);
        return report(&e);
    }
    const qsf_status st = prompt_begin(s, ids, n);
    qsf_turn_get_state(s->turn, &state);
    if (s->set->verbose && s->keeps)
        fprintf(stderr, "%zu tokens, %zu of them kept from before\n", n, state.n_kept);
    if (st) return st == QSF_E_FULL ? report_length(s, n, what) : report(qsf_turn_error(s->turn));
    for (size_t told = state.n_done; state.n_done < n && !state.end;) {
        qsf_turn_step(s->turn, NULL);
        qsf_turn_get_state(s->turn, &state);
        if (interrupted()) {
            qsf_turn_cancel(s->turn);
            return EXIT_INTERRUPTED;
        }
        if (told == state.n_done || state.n_done == n) continue;
        told = state.n_done;
        if (s->set->verbose && terminal_is(stderr)) fprintf(stderr, "\rprompt %zu of %zu tokens", told, n);
    }
    return state.end ? report(qsf_turn_error(s->turn)) : EXIT_OK;
}

void answer_cut(const run_session *s, const answer *a)
{
    if (!a->cut) return;
    fprintf(stderr, "(still thinking after %lld tokens: -n N allows more, -1 any number)\n",
            s->set->max_tokens);
}

static void print_json_ids(const int32_t *ids, size_t n)
{
    printf("{\"ids\":[");
    for (size_t i = 0; i < n; i++) printf("%s%d", i ? "," : "", (int)ids[i]);
    printf("]}\n");
}

int run_once(run_session *s, const char *prompt, size_t len)
{
    answer a = { 0 };
    size_t n;
    int32_t *ids = session_prompt(s, prompt, len, &n);
    if (!ids) return report(&s->error);
    s->keeps = s->set->session != NULL;
    int code = session_resume(s);
    if (!code) code = calls_open(s);
    if (!code) code = generate_prompt(s, ids, n, "the prompt");
    if (!code && s->set->max_tokens != 0) code = generate_answer(s, !s->set->json, &a);
    if (s->set->json) print_json_ids(a.ids, a.n_ids);
    else if (!s->calls && a.last && a.last != '\n') putchar('\n');
    if (a.full) fprintf(stderr, "the context is full; %s\n", session_longer(s));
    answer_cut(s, &a);
    if (!code) code = session_keep(s);
    if (!code && a.stopped) code = EXIT_INTERRUPTED;
    calls_close(s);
    answer_free(&a);
    free(ids);
    return code;
}
