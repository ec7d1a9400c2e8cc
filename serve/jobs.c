/* From a request to a job, and from its events to the client.
 * SPDX-License-Identifier: MIT */
#include "formats.h"
#include "ranks.h"

#include <event2/event.h>
#include <event2/util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- jobs ---- */

/* FNV-1a over the name and the client's key, so that no client meets another's session. */
static uint64_t session_number(const char *name, unsigned key)
{
    uint64_t h = 0xcbf29ce484222325u ^ key;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h ? h : 1;
}

/* What a request's fields ask for that this model, or this server, cannot do. */
static bool job_check(const front_job *j, serve_error *e)
{
    const serve_facts *facts = serve_engine_facts(j->entry->engine);
    const serve_request *r = &j->job.request;
    if (r->beam_width > (int64_t)facts->slots || (r->beam_width > 1 && r->n > r->beam_width))
        return serve_refuse(e, 400, "invalid_value", "beam_width",
                            "\"beam_width\" is %lld; the range is \"n\" (%lld) to %u",
                            (long long)r->beam_width, (long long)r->n, facts->slots);
    if (r->beam_width > 1 && r->n_stops)
        return serve_refuse(e, 400, "unsupported_parameter", "stop",
                            "\"stop\" cannot be combined with \"beam_width\"");
    for (size_t i = 0; i < r->n_biases; i++)
        if ((uint32_t)r->biases[i].token >= j->entry->info.n_vocab)
            return serve_refuse(e, 400, "invalid_value", "logit_bias", "token %d; the vocabulary has %u",
                                (int)r->biases[i].token, (unsigned)j->entry->info.n_vocab);
    for (unsigned i = 0; i < j->job.n_prompts; i++) {
        if (!j->job.prompts[i].n)
            return serve_refuse(e, 400, "invalid_value", front_prompt_field(r),
                                "an input is empty, and the model has no begin-of-text token");
        if (j->job.prompts[i].n + !facts->whole > facts->n_seq)
            return serve_refuse(e, 400, "context_length_exceeded", front_prompt_field(r),
                                /* clients look for these words */
                                "this model's maximum context length is %u tokens, the prompt has %zu",
                                (unsigned)facts->n_seq, j->job.prompts[i].n);
    }
    return true;
}

static bool job_fill(front_job *j, serve_error *e)
{
    serve_front *f = j->front;
    serve_request *r = &j->job.request;
    const qsf_model_info *info = &j->entry->info;
    if (info->encoder && !(r->api & API_EMBEDDED))
        return serve_refuse(e, 400, "unsupported_model", "model", "%.100s is an encoder: it embeds texts "
                            "(/v1/embeddings) and ranks documents (/v1/rerank), but cannot generate",
                            j->entry->name);
    if (f->set->engine.behind && r->api & API_EMBEDDED)
        return serve_refuse(e, 400, "unsupported_model", "model", "%.100s is split by layers over several "
                            "ranks: embedding and ranking are not supported", j->entry->name);
    j->job.ranks = r->api == API_RERANK && info->n_classes && info->n_classes <= info->n_embd;
    if (!j->job.prompts && !front_tokens(j, &j->job.prompts, &j->job.n_prompts, e)) return false;
    if (!lora_choose(j, e) || !job_check(j, e)) return false;
    j->job.n_branches = r->api & API_EMBEDDED ? 1 : j->job.n_prompts * serve_request_each(r);
    if (r->api & API_EMBEDDED && !embeddings_begin(j, e)) return false;
    j->job.session = r->session ? session_number(r->session, j->job.key) : 0;
    j->choices = calloc(j->job.n_branches, sizeof *j->choices);
    if (!j->choices || !serve_job_prepare(&j->job))
        return serve_refuse(e, 503, NULL, NULL, "out of memory for the request");
    return !grammar_wanted(r) || (j->grammar = grammar_ask(j->entry->grammars, r, e));
}

/* Seconds until a place in the queue may be free. */
static unsigned retry_after(const front_job *j)
{
    serve_metrics *m = &j->entry->metrics;
    uint64_t n = 0;
    for (int i = 0; i <= HISTOGRAM_BUCKETS; i++) n += metric_get(&m->request_time.count[i]);
    const double mean = n ? (double)metric_get(&m->request_time.sum_ns) / 1e9 / (double)n : 1;
    const double wait = mean * (double)metric_get(&m->waiting) / j->front->set->engine.slots / 2;
    return wait < 1 ? 1 : wait > 600 ? 600 : (unsigned)wait;
}

/* Adds the names of ignored fields to the header lines of a job's answer, after those of CORS. */
static void job_headers(front_job *j)
{
    const char *ignored = j->job.request.ignored;
    if (!*ignored || !j->conn) return;
    snprintf(j->cors + j->n_cors, sizeof j->cors - j->n_cors, "x-qsf-ignored: %s\r\n", ignored);
    http_note *note = http_note_of(j->conn);
    snprintf(note->ignored, sizeof note->ignored, "%s", ignored);
}

/* Sets a job's id.  It is unguessable, because stored responses are accessed by it. */
static void job_name(front_job *j, const char *prefix)
{
    uint32_t secret[2] = { 0, 0 };
    evutil_secure_rng_get_bytes(secret, sizeof secret);
    snprintf(j->id, sizeof j->id, "%s%08llx%08x%08x", prefix, (unsigned long long)j->number & 0xffffffffu,
             (unsigned)secret[0], (unsigned)secret[1]);
}

/* A job that was read is the server's from here on. */
static void job_enter(front_job *j, const char *cors)
{
    serve_front *f = j->front;
    static const char *const names[] = { "cmpl-", "chatcmpl-", "resp_", "msg_", "gen-", "", "", "", "embd-",
                                         "rank-" };
    const serve_request *r = &j->job.request;
    const double seconds = r->timeout > 0 ? r->timeout : f->set->timeout_s;
    unsigned kind = 0;
    while (1 << kind < (int)r->api) kind++;
    job_name(j, kind < sizeof names / sizeof *names ? names[kind] : "");
    snprintf(j->cors, sizeof j->cors, "%s", cors);
    j->n_cors = strlen(j->cors);
    job_headers(j);
    j->created = (long long)time(NULL);
    j->job.arrived_ns = serve_now();
    j->job.deadline_ns = seconds > 0 ? j->job.arrived_ns + (uint64_t)(seconds * 1e9) : 0;
    front_job_list(j);
    http_set_job(j->conn, j);
}

/* Ends a job with an error.  retry: seconds for the Retry-After header; 0: no header. */
static void job_refuse(front_job *j, const serve_error *e, unsigned retry)
{
    char more[ANSWER_LINES + 64];
    if (retry) snprintf(more, sizeof more, "Retry-After: %u\r\n%s", retry, j->cors);
    else snprintf(more, sizeof more, "%s", j->cors);
    if (j->conn) {
        http_set_job(j->conn, NULL);
        front_refuse(j->front, j->conn, e, front_errors(j), more);
    }
    if (ranks_follow(j->front)) ranks_refuse(j, e);
    front_job_drop(j);
}

static void job_stream(front_job *j)
{
    serve_front *f = j->front;
    char more[ANSWER_LINES + 64];
    snprintf(more, sizeof more, "Cache-Control: no-cache\r\n%s", j->cors);
    http_stream_begin(j->conn, j->form && j->form->stream_type ? j->form->stream_type : "text/event-stream",
                      more);
    text_clear(&f->out);
    if (j->job.request.api != API_MESSAGES) front_job_first(j);
    http_stream(j->conn, f->out.bytes, f->out.len);
    j->told_ns = serve_now();
}

/* Whether the answer is still wanted: by a client, or by rank 0 for one of its clients. */
static bool job_wanted(front_job *j)
{
    return ranks_follow(j->front) ? !atomic_load(&j->job.cancelled) : j->conn != NULL;
}

static bool job_submit(front_job *j)
{
    j->job.front = j;
    return ranks_lead(j->front) ? ranks_submit(j) : serve_engine_submit(j->entry->engine, &j->job);
}

/* Hands a job to an engine, unless its grammar is not compiled yet. */
static void job_go(front_job *j)
{
    serve_metrics *m = &j->entry->metrics;
    serve_error e = { 0 };
    j->waits = j->grammar && !grammar_ready(j->grammar, &e);
    if (j->waits) return;
    if (!job_wanted(j)) {
        front_job_drop(j);
        return;
    }
    if (!e.status && answers_begin(j, &e)) {
        job_headers(j);                 /* with what the tools' grammar does not enforce */
        if (job_submit(j)) {
            metric_add(&m->requests_total, !j->at.rank);       /* else it is counted there */
            metric_add(&m->adapter_requests_total, !j->at.rank && j->job.lora.n > 0);
            if (j->conn && j->job.request.stream) job_stream(j);
            return;
        }
        metric_add(&m->refused_total, 1);
        serve_refuse(&e, 429, "queue_full", NULL, "%u requests are already queued; try again later",
                     j->front->set->engine.queue);
    }
    job_refuse(j, &e, e.status == 429 ? retry_after(j) : 0);
}

/* ---- waiting for a model ---- */

enum { JOB_RETRY_S = 2, JOB_LOOK_US = 50000 };

/* Ends a job that was not for the engine. */
static void job_reply(front_job *j, bool (*write)(front_job *j, serve_text *out, serve_error *e))
{
    serve_front *f = j->front;
    http_conn *c = j->conn;
    serve_error e = { 0 };
    text_clear(&f->out);
    if (!write(j, &f->out, &e)) {
        job_refuse(j, &e, 0);
        return;
    }
    if (ranks_follow(f)) ranks_event(j, &(serve_event){ .kind = EVENT_DONE, .job = &j->job }, "");
    if (c) http_set_job(c, NULL);
    if (c && f->out.failed) http_break(c);
    else if (c) http_reply(c, 200, "application/json", j->cors, f->out.bytes, f->out.len);
    front_job_drop(j);
}

static void job_wait(front_job *j)
{
    const model_entry *m = j->entry;
    const serve_engine_options *o = &j->front->set->engine;
    serve_error e = { 0 };
    if (j->job.deadline_ns && j->job.deadline_ns <= serve_now())
        serve_refuse(&e, 503, "timeout", NULL, "the request timed out; %.100s %s", m->name,
                     m->download ? "is still being downloaded"
                     : m->state == MODEL_LOADING ? "is still being loaded"
                                                : "is waiting for another model to be unloaded");
    else if (j->hold == HOLD_NONE && m->n_waiting >= o->queue + o->slots)
        serve_refuse(&e, 429, "queue_full", NULL, "%u requests are already waiting for %.100s; try again "
                                                  "later",
                     m->n_waiting, m->name);
    if (e.status) job_refuse(j, &e, JOB_RETRY_S);
    else if (j->hold == HOLD_NONE) front_job_hold(j, HOLD_WAITS);
}

/* An adapter is read when the loader has nothing else to do. */
static void job_lora(front_job *j)
{
    serve_error e = { 0 };
    if (!lora_begin(j, &e)) job_refuse(j, &e, 0);
    else if (models_read(j->front->models, j->entry, j->loading)) front_job_hold(j, HOLD_USES);
    else job_wait(j);
}

/* Ends the loading of an adapter by all ranks: either all have it, or none. */
static bool lora_everywhere(front_job *j, serve_text *out, serve_error *e)
{
    *e = j->error;
    if (!e->status && lora_loaded(j, out, e)) return true;
    ranks_lora_drop(j->front, j->at.adapter);
    return false;
}

void front_lora_told(front_job *j) { job_reply(j, lora_everywhere); }

/* Checks whether the processes with the layers after this one's have answered. */
static void job_lora_asks(front_job *j)
{
    const serve_link *link = j->front->set->link;
    qsf_error err;
    if (!j->at.everywhere || !link->load || !link->loaded(j->at.adapter, &err)) return;
    const bool room = err.status == QSF_E_BUDGET;
    if (err.status)
        serve_refuse(&j->error, room || err.status == QSF_E_MEMORY ? 503 : 400,
                     room ? "adapter_no_room" : "adapter_load_failed", "lora_path", "%s", err.text);
    front_lora_told(j);
}

/* The loader has read a job's adapter, or could not. */
static void job_lora_read(front_job *j)
{
    if (!ranks_lead(j->front) || j->loading->err.status) job_reply(j, lora_loaded);
    else if (ranks_lora(j)) front_lora_told(j);
}

/* Begins a job, if its model is there. */
static void job_begin(front_job *j)
{
    const unsigned texts = API_TOKENIZE | API_DETOKENIZE | API_TEMPLATE;
    serve_error e = { 0 };
    if (j->job.request.api == API_LORA_UNLOAD) {
        job_reply(j, lora_unload);
        return;
    }
    switch (models_ask(j->front->models, j->entry, &e)) {
    case MODEL_WAIT:
        job_wait(j);
        break;
    case MODEL_FAIL:
        job_refuse(j, &e, e.status == 503 ? JOB_RETRY_S : 0);
        break;
    case MODEL_GO:
        if (j->job.request.api == API_LORA_LOAD) {
            job_lora(j);
            break;
        }
        front_job_hold(j, HOLD_USES);
        j->ready_ns = serve_now();
        if (j->body.asks & REWRITE_LOAD) job_reply(j, j->form->reply);
        else if (j->job.request.api & texts || j->job.request.counts) job_reply(j, front_text);
        else if (job_fill(j, &e)) job_go(j);
        else job_refuse(j, &e, e.status == 429);
    }
}

void front_waiting(serve_front *f)
{
    const struct timeval soon = { .tv_usec = JOB_LOOK_US };
    front_job *j = f->n_waiting ? f->jobs : NULL;
    while (j && j->next) j = j->next;                   /* the first that came */
    for (front_job *next; j; j = next) {
        next = j->before;
        if (j->hold == HOLD_WAITS) job_begin(j);
    }
    models_go_on(f->models);
    pulls_look(f);
    if (f->n_waiting || f->pulls) event_add(f->tick, &soon);
}

/* Reads a job's request.  false: *e says why not. */
static bool job_read(front_job *j, serve_api api, serve_error *e)
{
    serve_front *f = j->front;
    const http_request *r = j->asked;
    size_t len;
    if (j->form && !j->form->rewrite(r->body, r->n_body, &j->body, e)) return false;
    const char *body = front_body(j, &len);
    serve_defaults d = f->set->defaults;
    d.kept = f->responses;
    d.key = j->job.key;
    if (j->form) api = j->body.api;
    if (!serve_request_read(&j->job.request, api, body, len, &d, e)
        || !(j->entry = models_find(f->models, j->job.request.model, !(api & API_LORAS), &j->adapter, e)))
        return false;
    if (j->body.asks & REWRITE_TOKENS) j->job.request.tokens = true;
    snprintf(j->model, sizeof j->model, "%s%s%s", j->entry->name, j->adapter ? ":" : "",
             j->adapter ? j->adapter : "");
    http_note *note = http_note_of(j->conn);
    snprintf(note->model, sizeof note->model, "%s", j->model);
    return true;
}

void front_answer(serve_front *f, http_conn *c, const http_request *r, serve_api api, const front_form *form,
                  unsigned key, const char *cors)
{
    const struct timeval at_once = { 0 };
    serve_error e = { 0 };
    front_job *j = calloc(1, sizeof *j);
    if (!j) {
        serve_refuse(&e, 503, NULL, NULL, "out of memory for the request");
    } else {
        j->front = f;
        j->number = ++f->numbers;
        j->job.key = key;
        j->form = form;
        j->conn = c;
        j->asked = r;
        if (job_read(j, api, &e)) {
            job_enter(j, cors);
            job_begin(j);
            if (f->n_waiting) event_add(f->tick, &at_once);     /* not here: others may be under way */
            return;
        }
        front_job_free(j);
    }
    front_refuse(f, c, &e, form ? form->errors : api & (API_MESSAGES | API_COUNT) ? ERRORS_ANTHROPIC
                                                                                  : ERRORS_OPENAI, cors);
}

void front_job_take(front_job *j)
{
    const struct timeval at_once = { 0 };
    serve_front *f = j->front;
    front_job_list(j);
    job_begin(j);
    if (f->n_waiting) event_add(f->tick, &at_once);
}

/* ---- events ---- */

static void model_events(model_entry *m)
{
    const serve_event *ev;
    const char *text;
    while ((ev = serve_engine_event(m->engine, &text))) front_event(ev->job->front, ev, text);
}

void front_events(serve_front *f)
{
    bool grammars = false;
    for (unsigned i = 0; i < models_count(f->models); i++) {
        model_entry *m = models_at(f->models, i);
        if (m->state != MODEL_READY) continue;
        model_events(m);
        grammars |= grammar_store_look(m->grammars);
    }
    for (front_job *j = grammars ? f->jobs : NULL, *next; j; j = next) {
        next = j->next;
        if (j->waits) job_go(j);
    }
    const serve_adapter *a = models_look(f->models);
    for (front_job *j = a ? f->jobs : NULL, *next; j; j = next) {
        next = j->next;
        if (j->loading == a) job_lora_read(j);
    }
    for (front_job *j = ranks_lead(f) ? f->jobs : NULL, *next; j; j = next) {
        next = j->next;
        job_lora_asks(j);
    }
    front_waiting(f);
}
