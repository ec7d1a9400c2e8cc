/* Handles the engine's events of a job and writes them to the client.
 * SPDX-License-Identifier: MIT */
#include "formats.h"
#include "ranks.h"

/* Sends the front's output buffer. */
static void job_write(front_job *j)
{
    const serve_text *out = &j->front->out;
    if (!out->len) return;
    http_stream(j->conn, out->bytes, out->len);
    j->told_ns = serve_now();
}

/* Fills in the log record of a finished job. */
static void job_note(const front_job *j)
{
    http_note *n = http_note_of(j->conn);
    const uint64_t arrived = j->job.arrived_ns;
    for (unsigned i = 0; i < j->job.n_prompts; i++) n->n_prompt += (uint32_t)j->job.prompts[i].n;
    for (unsigned i = 0; j->choices && i < j->job.n_branches; i++) {
        const front_choice *ch = &j->choices[i];
        const uint64_t first = ch->first_ns ? ch->first_ns - arrived : 0;
        if (i % serve_request_each(&j->job.request) == 0) n->n_kept += ch->n_kept;
        n->n_tokens += ch->n_tokens;
        if (first && (!n->first_ns || first < n->first_ns)) n->first_ns = first;
    }
    n->counted = true;
}

static void job_over(front_job *j)
{
    serve_front *f = j->front;
    http_conn *c = j->conn;
    const bool stream = j->job.request.stream;
    text_clear(&f->out);
    if (c) job_note(j);
    if (c && j->error.status && !stream) {
        front_refuse(f, c, &j->error, front_errors(j), j->cors);
    } else if (c) {
        if (stream) format_end(j, &f->out);
        else format_whole(j, &f->out);
        if (stream && j->error.status) front_note(c, &j->error);
        if (f->out.failed) http_break(c);
        else if (!stream) http_reply(c, 200, "application/json", j->cors, f->out.bytes, f->out.len);
        else {
            http_stream(c, f->out.bytes, f->out.len);
            http_stream_end(c);
        }
    }
    if (j->job.request.api == API_RESPONSES && !j->error.status) format_responses_keep(j);
    front_job_drop(j);
}

/* Adds text to an answer. */
static void job_piece(front_job *j, const serve_event *ev, const char *text)
{
    serve_front *f = j->front;
    front_choice *ch = &j->choices[ev->branch];
    const bool stream = j->job.request.stream;
    if (ev->token >= 0) {
        ch->last_ns = j->job.arrived_ns + ev->ns;
        if (!ch->first_ns) ch->first_ns = ch->last_ns;
        ch->n_tokens = ev->n_tokens;
    }
    if (!j->conn) return;
    text_clear(&f->out);
    ch->n_kept = ev->n_kept;
    front_job_first(j);
    if (j->job.request.tokens && ev->token >= 0)
        text_format(&ch->tokens, ch->tokens.len ? ",%d" : "%d", (int)ev->token);
    if (j->job.request.logprobs >= 0 && ev->token >= 0) format_logprob(j, ch, ev);
    if (ch->talk) {
        answers_go_on(j, ev, text, &f->out);
    } else if (!stream) {
        text_add(&ch->text, text, ev->len);
    } else if (ev->len) {
        format_text(j, ev->branch, text, ev->len, &f->out);
    }
    if (!stream) return;
    format_rest(j, ev->branch, &f->out);
    job_write(j);
}

static void job_choice_over(front_job *j, const serve_event *ev, const char *text)
{
    serve_front *f = j->front;
    front_choice *ch = &j->choices[ev->branch];
    ch->over = true;
    ch->end = (qsf_turn_end)ev->end;
    ch->late = ev->late;
    ch->n_prompt = ev->n_prompt;
    ch->n_kept = ev->n_kept;
    ch->n_drafted = ev->n_drafted;
    ch->n_accepted = ev->n_accepted;
    ch->n_tokens = ev->n_tokens;
    ch->score = ev->score;
    j->n_over++;
    if (ch->end == QSF_TURN_FAILED) {
        /* The request's fault: its grammar grew too large, or this model cannot apply its
         * adapters. */
        const bool theirs = (j->grammar && ev->status == QSF_E_BUDGET)
            || (j->job.lora.n && ev->status == QSF_E_UNSUPPORTED);
        serve_refuse(&j->error, theirs ? 400 : 500, !theirs ? NULL : j->grammar ? "invalid_schema"
                     : "unsupported_parameter", NULL, "%.*s",
                     ev->len ? (int)ev->len : 17, ev->len ? text : "the engine failed");
    }
    if (ch->late) serve_refuse(&j->error, 503, "timeout", NULL, "the request timed out");
    if (!j->conn) return;
    text_clear(&f->out);
    if (!j->error.status) front_job_first(j);
    if (ch->talk) answers_go_on(j, ev, "", &f->out);
    if (!j->job.request.stream) return;
    format_choice_end(j, ev->branch, &f->out);
    job_write(j);
}

/* A prompt's computation starts or advances. */
static void job_progress(front_job *j, const serve_event *ev)
{
    front_choice *ch = &j->choices[ev->branch];
    ch->last_ns = j->job.arrived_ns + ev->ns;
    if (!ch->begun_ns) ch->begun_ns = ch->last_ns;
    ch->n_prompt = ev->n_prompt;
    ch->n_kept = ev->n_kept;
    if (!j->conn || !j->job.request.stream || !j->job.request.progress) return;
    text_clear(&j->front->out);
    format_progress(j, ev->branch, ev->n_tokens, &j->front->out);
    job_write(j);
}

void front_event(front_job *j, const serve_event *ev, const char *text)
{
    if (ev->kind == EVENT_END && ev->end == QSF_TURN_FAILED) {
        grammar_forget(j->entry->grammars, j->grammar);
        if (serve_engine_spoilt(j->entry->engine)) models_spoilt(j->entry);
    }
    if (j->front->ranks) ranks_event(j, ev, text);
    if (ranks_follow(j->front)) {
        if (ev->kind == EVENT_DONE) front_job_drop(j);
        return;
    }
    switch (ev->kind) {
    case EVENT_PIECE:
        job_piece(j, ev, text);
        break;
    case EVENT_PROMPT:
        if (j->conn) format_prompt_logprob(j, &j->choices[ev->branch], ev);
        break;
    case EVENT_PROGRESS:
        job_progress(j, ev);
        break;
    case EVENT_END:
        job_choice_over(j, ev, text);
        break;
    default:
        job_over(j);
    }
}

/* ---- keep-alives ---- */

void front_ping(serve_front *f)
{
    const uint64_t now = serve_now(), silent = (uint64_t)(f->set->ping_s * 1e9);
    for (front_job *j = f->jobs; j; j = j->next) {
        if (!j->conn || !j->told_ns || now - j->told_ns < silent || http_backlog(j->conn)) continue;
        if (j->form && j->form->lines) continue;
        text_clear(&f->out);
        text_str(&f->out, j->job.request.api == API_MESSAGES ? "event: ping\ndata: {\"type\":\"ping\"}\n\n"
                                                             : ": ping\n\n");
        job_write(j);
    }
}

/* ---- end of the drain time ---- */

void front_drained(serve_front *f)
{
    for (front_job *j = f->jobs, *next; j; j = next) {
        http_conn *c = j->conn;
        next = j->next;
        if (!c) continue;
        http_set_job(c, NULL);
        job_note(j);
        serve_refuse(&j->error, 503, "draining", NULL, "the server is shutting down before this answer is "
                                                       "finished");
        if (j->told_ns) {
            text_clear(&f->out);
            format_end(j, &f->out);
            front_note(c, &j->error);
            http_stream(c, f->out.bytes, f->out.len);
            http_stream_end(c);
        } else {
            front_refuse(f, c, &j->error, front_errors(j), "Retry-After: 5\r\n");
        }
        front_gone(f, j);
    }
}
