/* The answer: a turn's pieces, gathered and streamed.
 * SPDX-License-Identifier: MIT */
#include "answer_view.h"
#include "run.h"
#include "tty.h"

#include <stdlib.h>
#include <string.h>

/* ---- the reader ---- */

/* If calls are not read one by one they stay text: in a pipe, without --tools. */
static const char *reader_choice(const run_session *s, const char *asked)
{
    if (s->set->tools) return asked ? asked : s->set->tool_choice ? s->set->tool_choice : "auto";
    return terminal_is(stdout) ? "auto" : "none";
}

int answers_open(run_session *s, const char *choice)
{
    qsf_answer_options o;
    choice = reader_choice(s, choice);
    if (!s->template_name) return EXIT_OK;
    if (qsf_conversation_answer(s->talk) && !strcmp(choice, s->split_choice)) return EXIT_OK;
    qsf_answer_defaults(&o);
    o.tool_choice = s->split_choice = choice;
    o.id_seed = clock_ns();
    const qsf_status st = qsf_conversation_split(s->talk, &o);
    if (!st) return EXIT_OK;
    report(qsf_conversation_error(s->talk));
    return st == QSF_E_CORRUPT ? EXIT_USAGE : exit_code(st);
}

bool answer_of_plain(run_session *s, const char *text, size_t len, message *out)
{
    qsf_answer_options o;
    qsf_chat_options chat;
    qsf_answer *reader = NULL;
    qsf_answer_event e = { .size = sizeof e };
    qsf_answer_defaults(&o);
    qsf_chat_defaults(&chat);
    chat.chat_template = "chatml";
    o.chat = &chat;
    o.id_seed = clock_ns();
    const bool read = !qsf_answer_new(s->model, &o, &reader, &s->error)
        && !qsf_answer_push(reader, text, len, true, &s->error);
    while (read && !qsf_answer_next(reader, &e)) message_take(out, &e);
    if (!read) report(&s->error);
    qsf_answer_free(reader);
    return read && message_whole(out);
}

/* ---- the answer ---- */

static bool answer_room(answer *a)
{
    if (a->n_ids < a->cap_ids) return true;
    const size_t cap = 2 * a->cap_ids + 256;
    int32_t *ids = realloc(a->ids, cap * sizeof *ids);
    if (!ids) return false;
    a->ids = ids;
    a->cap_ids = cap;
    return true;
}

void answer_free(answer *a)
{
    message_free(&a->said);
    free(a->ids);
    *a = (answer){ 0 };
}

/* A piece becomes part of the answer, and is shown.  An exit code: EXIT_IO if it can no longer
 * be seen. */
static int answer_add(run_session *s, answer *a, const qsf_turn_piece *p, answer_view *view)
{
    const qsf_error no_memory = { QSF_E_MEMORY, "out of memory for the answer" };
    qsf_answer_event e = { .size = sizeof e };
    if (!answer_room(a)) return report(&no_memory);
    if (p->token >= 0) a->ids[a->n_ids++] = p->token;
    if (p->len && s->set->arrival) model_names_quiet(true);
    if (view && p->len) answer_view_bytes(view, p->text, p->len);
    while (!qsf_conversation_event(s->talk, &e)) {
        message_take(&a->said, &e);
        if (view) answer_view_event(view, &e, &a->said);
    }
    if (!message_whole(&a->said)) return report(&no_memory);
    return !view || !p->len || output_flush() ? EXIT_OK : EXIT_IO;
}

/* Counts a token delivered at `now`, and the full time since the previous one (0: none): computing,
 * sampling, the grammar, printing. */
static uint64_t answer_count(run_session *s, uint64_t last, uint64_t now)
{
    s->n_answered++;
    s->n_intervals += last != 0;
    s->ns_intervals += last ? now - last : 0;
    return now;
}

int generate_answer(run_session *s, bool print, answer *a)
{
    int code = EXIT_OK;
    uint64_t last = 0;
    answer_view view;
    qsf_turn_piece p = { .size = sizeof p };
    a->said.role = "assistant";
    if (print) answer_view_begin(&view, s);
    while (!code && !p.end) {
        const qsf_status st = qsf_conversation_next(s->talk, &p);
        const bool given = st == QSF_OK;
        if (st == QSF_PENDING) qsf_turn_step(s->turn, NULL);      /* the last piece reports the failure */
        else if (st) code = report(qsf_conversation_error(s->talk));
        else if (p.end != QSF_TURN_FAILED) code = answer_add(s, a, &p, print ? &view : NULL);
        if (given && p.n_logprobs) print_logprobs(s, &p);
        if (given && p.token >= 0) last = answer_count(s, last, clock_ns());
        if (print && view.reasons && line_key(LINE_REASONING)) answer_view_turn(&view);
        if (print) answer_view_tick(&view);
        if (p.end || !interrupted()) continue;
        a->stopped = true;
        qsf_turn_cancel(s->turn);
    }
    qsf_turn_cancel(s->turn);
    a->full = p.end == QSF_TURN_FULL;
    if (print) {
        answer_view_end(&view);
        a->cut = view.reasons && p.end == QSF_TURN_MOST;
        a->last = view.last;
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

static qsf_status prompt_begin(run_session *s)
{
    qsf_turn_options o = s->set->turn;
    o.grammar = s->grammar;
    o.max_tokens = s->set->common.max_tokens;
    o.stops = s->set->stop.items;
    o.n_stops = s->set->stop.n;
    o.reasoning_budget = s->set->common.reasoning_budget;
    o.ignore_end = o.special = s->set->ignore_eos;
    o.draft = s->draft;
    o.draft_fixed = s->set->common.draft > 0;
    draft_model_options(s->drafter, &o);
    return qsf_conversation_begin(s->talk, s->turn, s->sampler, &o);
}

/* ---- prompt progress ---- */

/* Shows progress on a terminal once half a second has passed.  Counts layers too, because the first
 * batch also loads the weights. */
typedef struct prompt_progress {
    bool     on, shown;
    uint64_t begun_ns, told_ns;
    size_t   n, first;
    uint32_t n_layers, n_batch;
} prompt_progress;

static void prompt_progress_begin(prompt_progress *p, run_session *s, size_t n_done, size_t n)
{
    enum { WIDEST_LINE = 48 };              /* of a line wider than the terminal, rows would stay */
    qsf_model_info info = { .size = sizeof info };
    size_t cols, rows;
    qsf_model_get_info(s->model, &info);
    /* a download has that line */
    const bool arrives = s->set->arrival && !hub_arrival_whole(s->set->arrival);
    tty_size(&cols, &rows);
    *p = (prompt_progress){ .on = terminal_moves(stderr) && !arrives && cols > WIDEST_LINE,
                            .begun_ns = clock_ns(), .first = n_done, .n = n, .n_layers = info.n_layers,
                            .n_batch = s->set->common.context.n_batch };
}

static void prompt_progress_step(prompt_progress *p, const qsf_context *c, size_t n_done)
{
    enum { LINE_EVERY_NS = 100000000, QUIET_NS = 500000000 };
    const uint64_t now = p->on ? clock_ns() : 0;
    if (!p->on || now - p->begun_ns < QUIET_NS || now - p->told_ns < LINE_EVERY_NS) return;
    const size_t left = p->n - n_done, rows = left < p->n_batch ? left : p->n_batch;
    const uint32_t layer = qsf_batch_layer(c);
    const double of_batch = layer < p->n_layers ? (double)layer / p->n_layers * (double)rows : 0;
    const double part = ((double)(n_done - p->first) + of_batch) / (double)(p->n - p->first);
    const size_t about = p->first + (size_t)(part * (double)(p->n - p->first));
    fprintf(stderr, "\r\033[Jprompt: %zu of %zu tokens, %d%%", about, p->n, (int)(100 * part));
    fflush(stderr);
    p->told_ns = now;
    p->shown = true;
}

static void prompt_progress_end(prompt_progress *p)
{
    if (p->shown) fputs("\r\033[J", stderr);
    if (p->shown) fflush(stderr);
}

int generate_prompt(run_session *s, const char *what)
{
    size_t n;
    qsf_turn_state state = { .size = sizeof state };
    (void)qsf_conversation_tokens(s->talk, &n);
    if (n == 0) {
        qsf_error e = { .status = QSF_E_ARGUMENT };
        snprintf(e.text, sizeof e.text, "%s is empty and the model has no begin-of-text token", what);
        return report(&e);
    }
    const qsf_status st = prompt_begin(s);
    qsf_turn_get_state(s->turn, &state);
    if (s->set->verbose && s->keeps)
        fprintf(stderr, "%zu tokens, %zu of them cached\n", n, state.n_kept);
    if (st) return st == QSF_E_FULL ? report_length(s, n, what) : report(qsf_conversation_error(s->talk));
    const size_t kept = state.n_kept;
    prompt_progress progress;
    prompt_progress_begin(&progress, s, state.n_done, n);
    while (state.n_done < n && !state.end && !interrupted()) {
        qsf_turn_step(s->turn, NULL);
        qsf_turn_get_state(s->turn, &state);
        prompt_progress_step(&progress, s->context, state.n_done);
    }
    prompt_progress_end(&progress);
    if (state.n_done < n && !state.end) {
        qsf_turn_cancel(s->turn);
        return EXIT_INTERRUPTED;
    }
    if (state.end) return report(qsf_turn_error(s->turn));
    prompt_cache_keep(s, n, kept);
    return EXIT_OK;
}

void answer_cut(const run_session *s, const answer *a)
{
    if (!a->cut) return;
    fprintf(stderr, "(still thinking after %lld tokens: -n N allows more, -1 any number)\n",
            s->set->common.max_tokens);
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
    if (!session_prompt(s, prompt, len)) return report(&s->error);
    s->keeps = s->set->session || s->set->prompt_cache;
    int code = session_resume(s);
    if (!code) code = prompt_cache_resume(s);
    if (!code) code = answers_open(s, NULL);
    if (!code) code = generate_prompt(s, "the prompt");
    if (!code && s->set->common.max_tokens != 0) code = generate_answer(s, !s->set->json, &a);
    if (s->set->json) print_json_ids(a.ids, a.n_ids);
    else if (a.last && a.last != '\n') putchar('\n');
    if (a.full) fprintf(stderr, "the context is full; %s\n", session_longer(s));
    answer_cut(s, &a);
    if (!code) code = session_keep(s);
    if (!code && a.stopped) code = EXIT_INTERRUPTED;
    answer_free(&a);
    return code;
}
