/* The server as a whole: it opens the models, listens, and runs until a signal ends it.
 * SPDX-License-Identifier: MIT */
#include "ranks.h"
#include "system.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/util.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What lives as long as the loop. */
typedef struct server {
    serve_front   front;
    evutil_socket_t wake[2];
    struct event *events[5];
    unsigned      n_events;
    int           port;
    struct event *drain_timer, *look_timer, *ping, *ranks;
    bool          late;                      /* the drain time is over: answers are being ended */
} server;

static bool server_fail(qsf_error *err, qsf_status st, const char *what, const char *why)
{
    err->status = st;
    snprintf(err->text, sizeof err->text, "%.200s: %.190s", what, why);
    return false;
}

/* ---- events ---- */

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    char bytes[64];
    (void)what;
    while (recv(fd, bytes, sizeof bytes, 0) > 0) {}
    front_events(arg);
}

static void on_ranks(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    ranks_look(arg);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    front_waiting(arg);
}

static void on_ping(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    front_ping(arg);
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    server *s = arg;
    (void)fd, (void)what;
    if ((s->late || !s->front.n_jobs) && !http_busy(s->front.http)) event_base_loopbreak(s->front.base);
}

/* Ends running answers with an error and gives clients some time to read it. */
static void on_drained(evutil_socket_t fd, short what, void *arg)
{
    server *s = arg;
    const struct timeval some = { .tv_sec = 2 };
    (void)fd, (void)what;
    if (s->late) {
        event_base_loopbreak(s->front.base);
        return;
    }
    s->late = true;
    front_drained(&s->front);
    event_add(s->drain_timer, &some);
}

/* Ends after the last answer; at once on a second signal.  A rank without clients runs until rank 0
 * ends it. */
static void on_term(evutil_socket_t fd, short what, void *arg)
{
    server *s = arg;
    (void)fd, (void)what;
    const struct timeval most = { .tv_sec = (long)s->front.set->drain_s }, look = { .tv_usec = 20000 };
    if (ranks_follow(&s->front)) return;
    if (s->front.drains) {
        event_base_loopbreak(s->front.base);
        return;
    }
    s->front.drains = true;
    if (!s->front.set->quiet) fprintf(stderr, "shutting down: %u answers are in progress\n", s->front.n_jobs);
    http_server_drain(s->front.http);
    event_add(s->drain_timer, &most);
    event_add(s->look_timer, &look);
}

#ifdef SIGHUP
static void on_hup(evutil_socket_t fd, short what, void *arg)
{
    qsf_error err;
    serve_front *f = &((server *)arg)->front;
    (void)fd, (void)what;
    if (f->access && !access_read_keys(f->access, &err))
        fprintf(stderr, "%s; the old keys remain valid\n", err.text);
}
#endif

static bool server_event(server *s, evutil_socket_t fd, short what, event_callback_fn fn, void *arg)
{
    struct event *e = event_new(s->front.base, fd, what, fn, arg);
    if (!e || event_add(e, NULL)) return false;
    s->events[s->n_events++] = e;
    return true;
}

/* Checks for silent streams ten times per interval. */
static bool server_pings(server *s)
{
    const double often = s->front.set->ping_s / 10;
    const struct timeval every = { .tv_sec = (long)often, .tv_usec = (long)((often - (long)often) * 1e6) };
    if (often <= 0) return true;
    s->ping = event_new(s->front.base, -1, EV_PERSIST, on_ping, &s->front);
    return s->ping && !event_add(s->ping, &every);
}

static bool server_events(server *s)
{
    return server_event(s, s->wake[0], EV_READ | EV_PERSIST, on_wake, &s->front)
        && server_event(s, SIGTERM, EV_SIGNAL | EV_PERSIST, on_term, s)
        && server_event(s, SIGINT, EV_SIGNAL | EV_PERSIST, on_term, s)
#ifdef SIGHUP
        && server_event(s, SIGHUP, EV_SIGNAL | EV_PERSIST, on_hup, s)
#endif
        && (s->drain_timer = event_new(s->front.base, -1, 0, on_drained, s))
        && (s->front.tick = event_new(s->front.base, -1, 0, on_tick, &s->front))
        && (s->look_timer = event_new(s->front.base, -1, EV_PERSIST, on_look, s))
        && server_pings(s);
}

/* Messages of ranks have no descriptor to wait for: they are polled every millisecond. */
static bool server_ranks(server *s)
{
    const struct timeval often = { .tv_usec = 1000 };
    if (!s->front.set->link) return true;
    s->ranks = event_new(s->front.base, -1, EV_PERSIST, on_ranks, &s->front);
    return s->ranks && !event_add(s->ranks, &often) && (s->front.ranks = ranks_new(&s->front));
}

/* ---- begin and end ---- */

/* Sockets from systemd: LISTEN_FDS of them, from 3 on, where LISTEN_PID is this process. */
static int sockets_given(void)
{
    const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
    return pid && n && atol(pid) == (long)getpid() ? atoi(n) : 0;
}

/* "127.0.0.1:8080", "[::1]:8080", or a socket's path. */
static void server_address(const server *s, char *out, size_t cap)
{
    const char *host = s->front.set->host;
    if (http_is_path(host)) snprintf(out, cap, "%s", host);
    else snprintf(out, cap, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, s->port);
}

/* Runs before models are loaded, which may take minutes. */
static bool server_bind(server *s, qsf_error *err)
{
    char address[300], why[200];
    serve_front *f = &s->front;
    s->port = f->set->port;
    if (sockets_given()) return true;
    const char *error = http_bind(f->http, f->set->host, &s->port);
    if (!error) return true;
    server_address(s, address, sizeof address);
    snprintf(why, sizeof why, "%s%s", error, http_is_path(f->set->host) ? ""
             : "; --port N chooses another port, 0 any free one");
    return server_fail(err, QSF_E_IO, address, why);
}

/* Checks that the cache file can be written when the server exits. */
static bool server_cache_file(const server *s, qsf_error *err)
{
    char beside[4096];
    const char *path = s->front.set->engine.cache_file;
    if (!path) return true;
    if ((size_t)snprintf(beside, sizeof beside, "%s.new", path) >= sizeof beside)
        return server_fail(err, QSF_E_ARGUMENT, "--cache-file", "the path is too long");
    FILE *file = fopen(beside, "wb");
    if (!file) {
        char why[200];
        snprintf(why, sizeof why, "--cache-file cannot be written: %s", strerror(errno));
        return server_fail(err, QSF_E_IO, path, why);
    }
    fclose(file);
    remove(beside);
    return true;
}

static bool server_listen(server *s, qsf_error *err)
{
    char address[300];
    serve_front *f = &s->front;
    const char *why = NULL;
    const int given = sockets_given();
    server_address(s, address, sizeof address);
    for (int i = 0; i < given && !why; i++) why = http_listen(f->http, 3 + i);
    if (!given) why = http_listen(f->http, -1);
    if (why) return server_fail(err, QSF_E_IO, given ? "the socket that was passed" : address, why);
    const bool loaded = f->set->n_models != 0;           /* otherwise only the folder's models */
    const char *name = loaded ? models_at(f->models, 0)->name : f->set->models_dir;
    if (!given)
        fprintf(stderr, "%s is served at %s%s\n", name, http_is_path(f->set->host) ? "" : "http://", address);
    for (unsigned i = loaded; i < models_count(f->models) && !f->set->quiet; i++)
        fprintf(stderr, "%s will be loaded on its first request\n", models_at(f->models, i)->name);
    fflush(stderr);
    return true;
}

static const size_t MB = 1 << 20;

static bool server_begin(server *s, qsf_error *err)
{
    enum { OTHERS = 56, OF_MODEL = 8, OF_FOLDER = 64 };     /* open files; folder models open at once */
    serve_front *f = &s->front;
    const size_t body = f->set->most_body;
    const unsigned models = f->set->n_models + (f->set->models_dir ? OF_FOLDER : 0);
    const http_limits limits = { .head = 32768, .body = body, .bodies = body > MB << 6 ? 4 * body : MB << 8,
                                 .lag = 4 * MB, .all_lag = 256 * MB,
                                 .connections = system_files(f->set->connections,
                                                             OTHERS + OF_MODEL * models),
                                 .head_s = 30, .body_s = 300, .idle_s = 75, .write_s = 60 };
    const http_handlers handlers = { .user = f, .admitted = front_admitted, .request = front_request,
                                     .gone = front_gone, .refusal = front_refusal, .ended = front_log };
    f->started = (long long)time(NULL);
    if (!system_begin() || evutil_socketpair(AF_UNIX, SOCK_STREAM, 0, s->wake))
        return server_fail(err, QSF_E_IO, "socketpair", "it failed");
    evutil_make_socket_nonblocking(s->wake[0]);
    evutil_make_socket_nonblocking(s->wake[1]);
    const bool front = !ranks_follow(f);
    if (!(f->responses = calloc(1, sizeof *f->responses)))
        return server_fail(err, QSF_E_MEMORY, "responses", "out of memory");
    if (front && (!(f->access = access_new(f->set, err)) || !server_cache_file(s, err))) return false;
    if (!(f->base = event_base_new()) || (front && !(f->http = http_server_new(f->base, &limits, &handlers))))
        return server_fail(err, QSF_E_MEMORY, "libevent", "it could not be started");
    if (front && !server_bind(s, err)) return false;
    if (!(f->models = models_new(f->set, (int)s->wake[1], err))) return false;
    if (!server_events(s) || !server_ranks(s))
        return server_fail(err, QSF_E_MEMORY, "libevent", "it could not be started");
    if (f->set->link && f->set->link->meet) f->set->link->meet();
    return !front || server_listen(s, err);
}

static void server_end(server *s)
{
    serve_front *f = &s->front;
    models_stop(f->models);
    while (f->jobs) {
        if (f->jobs->conn) http_set_job(f->jobs->conn, NULL);
        front_job_free(f->jobs);
    }
    ranks_free(f->ranks);
    http_server_free(f->http);
    for (unsigned i = 0; i < s->n_events; i++) event_free(s->events[i]);
    if (s->drain_timer) event_free(s->drain_timer);
    if (s->look_timer) event_free(s->look_timer);
    if (s->ping) event_free(s->ping);
    if (s->ranks) event_free(s->ranks);
    if (f->tick) event_free(f->tick);
    if (f->base) event_base_free(f->base);
    for (int i = 0; i < 2; i++) if (s->wake[i] > 0) evutil_closesocket(s->wake[i]);
    access_free(f->access);
    text_free(&f->out);
    if (f->responses) kept_responses_clear(f->responses);
    free(f->responses);
    models_free(f->models);
}

qsf_status serve_run(const serve_settings *set, qsf_error *err)
{
    static server s;                        /* its histograms are too large for the stack */
    *err = (qsf_error){ 0 };
    memset(&s, 0, sizeof s);
    s.front.set = set;
    const bool begun = server_begin(&s, err);
    if (begun) event_base_dispatch(s.front.base);
    server_end(&s);
    return begun ? QSF_OK : err->status ? err->status : QSF_E_MEMORY;
}
