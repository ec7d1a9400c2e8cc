/* Ollama's /api/pull and /api/delete: downloads of a hub's models, which clients can watch, and
 * their removal.
 * SPDX-License-Identifier: MIT */
#include "routes.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A client that waits for a download or a removal.  Several may wait for the same one. */
struct front_pull {
    front_pull  *next;
    http_conn   *conn;
    model_entry *entry;
    bool         removes, begun;             /* begun: the removal */
    bool         stream;
    char         cors[ACCESS_LINES];
    download_state told;                     /* what the stream has said last */
};

/* ---- what a stream says ---- */

static void pull_says(serve_text *out, const char *status)
{
    text_format(out, "{\"status\":\"%s\"}\n", status);
}

static void pull_says_bytes(serve_text *out, const download_state *s)
{
    if (*s->sha256)
        text_format(out, "{\"status\":\"pulling %.12s\",\"digest\":\"sha256:%s\"", s->sha256, s->sha256);
    else text_str(out, "{\"status\":\"pulling model\"");
    text_format(out, ",\"total\":%llu,\"completed\":%llu}\n", (unsigned long long)s->total,
                (unsigned long long)s->done);
}

/* Adds what is new; of the file before this one, that it is whole. */
static void pull_says_state(front_pull *p, const download_state *now, serve_text *out)
{
    download_state *told = &p->told;
    const bool other = strcmp(told->sha256, now->sha256) != 0;
    if (!now->total || (!other && told->total == now->total && told->done == now->done)) return;
    if (other && told->total && told->done < told->total) {
        told->done = told->total;
        pull_says_bytes(out, told);
    }
    *told = *now;
    pull_says_bytes(out, now);
}

static void pull_write(serve_front *f, front_pull *p)
{
    if (f->out.len) http_stream(p->conn, f->out.bytes, f->out.len);
}

/* ---- its end ---- */

static void pull_drop(serve_front *f, front_pull *p)
{
    front_pull **at = &f->pulls;
    while (*at != p) at = &(*at)->next;
    *at = p->next;
    free(p);
}

static void pull_refuse(serve_front *f, front_pull *p, const serve_error *e)
{
    http_conn *c = p->conn;
    http_set_job(c, NULL);
    if (p->stream) {
        text_clear(&f->out);
        format_error(&f->out, e, ERRORS_OLLAMA);
        text_str(&f->out, "\n");
        front_note(c, e);
        http_stream(c, f->out.bytes, f->out.len);
        http_stream_end(c);
    } else front_refuse(f, c, e, ERRORS_OLLAMA, p->cors);
    pull_drop(f, p);
}

static void pull_succeed(serve_front *f, front_pull *p)
{
    static const char success[] = "{\"status\":\"success\"}";
    http_conn *c = p->conn;
    http_set_job(c, NULL);
    if (p->stream) {
        text_clear(&f->out);
        pull_says_state(p, &p->entry->came, &f->out);
        if (p->told.total) pull_says(&f->out, "verifying sha256 digest");
        pull_says(&f->out, "writing manifest");
        pull_says(&f->out, "success");
        pull_write(f, p);
        http_stream_end(c);
    } else if (p->removes) http_reply(c, 200, "application/json", p->cors, "", 0);
    else http_reply(c, 200, "application/json", p->cors, success, sizeof success - 1);
    pull_drop(f, p);
}

static void pull_end(serve_front *f, front_pull *p)
{
    const qsf_error *got = &p->entry->got;
    serve_error e = { 0 };
    if (!got->status) {
        pull_succeed(f, p);
        return;
    }
    const bool missing = got->status == QSF_E_NOT_FOUND;
    const char *code = missing ? "model_not_found" : p->removes ? "delete_failed" : "pull_failed";
    serve_refuse(&e, missing ? 404 : 500, code, "model", "%s", got->text);
    pull_refuse(f, p, &e);
}

/* ---- on the way ---- */

static void busy_refuse(const model_entry *m, serve_error *e)
{
    serve_refuse(e, 409, "model_in_use", "model", "\"%.100s\" is in use; try again when its answers and "
                 "downloads have ended", m->name);
}

/* A removal begins when the model is unloaded. */
static void removal_look(serve_front *f, front_pull *p)
{
    serve_error e = { 0 };
    if (p->begun) {
        if (!p->entry->download) pull_end(f, p);
        return;
    }
    if (models_busy(f->models, p->entry)) busy_refuse(p->entry, &e);
    else if (models_let_go(f->models, p->entry))
        p->begun = models_fetch(f->models, p->entry, DOWNLOAD_REMOVE, &e);
    if (e.status) pull_refuse(f, p, &e);
}

static void pull_look(serve_front *f, front_pull *p)
{
    download_state now;
    if (!p->entry->download) {
        pull_end(f, p);
        return;
    }
    download_look(p->entry->download, &now);
    text_clear(&f->out);
    pull_says_state(p, &now, &f->out);
    if (p->stream) pull_write(f, p);
}

void pulls_look(serve_front *f)
{
    serve_error e = { 0 };
    for (front_pull *p = f->pulls, *next; p; p = next) {
        next = p->next;
        if (f->drains) {
            serve_refuse(&e, 503, "draining", NULL, "the server is shutting down; what came is kept");
            pull_refuse(f, p, &e);
        } else if (p->removes) removal_look(f, p);
        else pull_look(f, p);
    }
    if (f->pulls) models_go_on(f->models);
}

bool pulls_gone(serve_front *f, void *job)
{
    front_pull *gone = f->pulls;
    while (gone && (void *)gone != job) gone = gone->next;
    if (!gone) return false;
    const model_entry *m = gone->entry;
    bool wanted = m->kept || gone->removes;
    for (const front_pull *p = f->pulls; p; p = p->next) wanted |= p != gone && p->entry == m;
    if (!wanted && m->download) download_stop(m->download);
    pull_drop(f, gone);
    return true;
}

/* ---- requests ---- */

static void pull_begin(const route_call *call, model_entry *m, bool removes, bool stream)
{
    const struct timeval at_once = { 0 };
    serve_front *f = call->f;
    serve_error e = { 0 };
    front_pull *p = calloc(1, sizeof *p);
    if (!p) serve_refuse(&e, 503, NULL, NULL, "out of memory for the request");
    else if (!removes && !m->download) (void)models_fetch(f->models, m, DOWNLOAD_GET, &e);
    if (!removes && m->download && m->removes) busy_refuse(m, &e);
    if (e.status) {
        free(p);
        route_refuse(call, &e);
        return;
    }
    *p = (front_pull){ .next = f->pulls, .conn = call->c, .entry = m, .removes = removes, .stream = stream };
    snprintf(p->cors, sizeof p->cors, "%s", call->cors);
    snprintf(http_note_of(call->c)->model, sizeof http_note_of(call->c)->model, "%s", m->name);
    f->pulls = p;
    http_set_job(call->c, p);
    if (stream) {
        http_stream_begin(call->c, "application/x-ndjson", call->cors);
        text_clear(&f->out);
        pull_says(&f->out, "pulling manifest");
        pull_write(f, p);
    }
    event_add(f->tick, &at_once);
}

/* A model of the command line or of the folder needs no download. */
void route_pull(const route_call *call)
{
    serve_error e = { 0 };
    char name[SERVE_NAME] = "";
    unsigned asks = 0;
    model_entry *m = route_model(call, name, sizeof name, &asks, &e);
    if (m && m->named && !call->f->drains) {
        pull_begin(call, m, false, !(asks & REWRITE_WHOLE));
        return;
    }
    if (m && m->named) serve_refuse(&e, 503, "draining", NULL, "the server is shutting down");
    else if (!m && *name && !call->f->set->hub) {
        e = (serve_error){ 0 };
        serve_refuse(&e, 404, "model_not_found", "model", "\"%.100s\" is not served here, and this server "
                     "does not download models: start qsf-serve with the model's file, or with "
                     "--models-by-name", name);
    }
    text_clear(&call->f->out);
    pull_says(&call->f->out, "success");
    if (e.status) route_refuse(call, &e);
    else route_reply(call);
}

void route_delete(const route_call *call)
{
    serve_error e = { 0 };
    char name[SERVE_NAME] = "";
    unsigned asks;
    if (!call->f->set->hub) {
        route_ollama_none(call);
        return;
    }
    model_entry *m = route_model(call, name, sizeof name, &asks, &e);
    if (m && !m->named)
        serve_refuse(&e, 403, "model_not_deletable", "model", "\"%.100s\" was given to qsf-serve as a file: "
                     "delete that; only models that clients have named are deleted here", m->name);
    else if (m && models_busy(call->f->models, m)) busy_refuse(m, &e);
    if (e.status) route_refuse(call, &e);
    else pull_begin(call, m, true, false);
}
