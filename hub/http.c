/* Requests by libcurl.  Redirections are followed here and not by it, because a token is for the
 * hub alone, and what a hub says of a file comes with the redirection to another origin.
 * SPDX-License-Identifier: MIT */
#include "http.h"

#include "address.h"
#include "curl.h"
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REDIRECTIONS = 20, CONNECT_S = 30, SILENT_S = 30, URL_CAP = 8192, REFUSAL_BYTES = 1 << 20 };

struct hub_http {
    hub_http_options o;
    const curl_functions *f;
    void      *easy;
    char       why[CURL_ERROR_BYTES];
    char       url[URL_CAP], location[URL_CAP];      /* of this request, and of its redirection */
    uint64_t   from, end;       /* bytes of the next request; end 0: all that follow */
    hub_answer *answer;
    hub_sink   sink;
    void      *sink_user;
    bool       enough;          /* the sink has */
    char       words[200];      /* of a refusal's body */
    size_t     n_words, n_body; /* n_body: bytes of a body that no sink takes */
};

/* ---- addresses ---- */

/* The length of "https://host:port", in text; 0: it is not an address. */
static size_t origin_len(const char *url)
{
    const char *p = strstr(url, "://");
    return p ? (size_t)(p - url) + 3 + strcspn(p + 3, "/?#") : 0;
}

bool hub_same_origin(const char *a, const char *b)
{
    const size_t n = origin_len(a);
    return n && n == origin_len(b) && !strncmp(a, b, n);
}

void hub_url_shown(const char *url, char *out, size_t cap)
{
    const char *host = strstr(url, "://"), *at = host ? memchr(host + 3, '@', strcspn(host + 3, "/?#")) : NULL;
    const char *rest = at ? at + 1 : host ? host + 3 : url;
    const size_t scheme = host ? (size_t)(host - url) + 3 : 0, n = strcspn(rest, "?#");
    snprintf(out, cap, "%.*s%.*s%s", (int)scheme, url, (int)(n < 200 ? n : 200), rest,
             rest[n] == '?' ? "?..." : "");
}

static bool url_begins(const char *text, const char *scheme)
{
    size_t n = 0;
    while (scheme[n] && (text[n] | 32) == (scheme[n] | 32)) n++;
    return !scheme[n];
}

/* What a Location means at an address.  false: it is too long, or another scheme. */
static bool url_resolve(const char *base, const char *to, char out[URL_CAP])
{
    int n;
    if (strstr(to, "://") && strcspn(to, "/") < strcspn(to, "?#"))
        n = url_begins(to, "http://") || url_begins(to, "https://") ? snprintf(out, URL_CAP, "%s", to) : -1;
    else if (to[0] == '/' && to[1] == '/')
        n = snprintf(out, URL_CAP, "%.*s%s", (int)(strstr(base, "://") - base + 1), base, to);
    else if (to[0] == '/')
        n = snprintf(out, URL_CAP, "%.*s%s", (int)origin_len(base), base, to);
    else n = -1;
    return n > 0 && n < URL_CAP;
}

static size_t on_header(const char *bytes, size_t one, size_t n, void *user)
{
    hub_http *h = user;
    if (hub_answer_line(h->answer, h->location, sizeof h->location, bytes, n * one)) h->n_words = 0;
    return n * one;
}

static size_t on_bytes(const char *bytes, size_t one, size_t n, void *user)
{
    hub_http *h = user;
    const size_t len = n * one;
    if (h->answer->status == 200 || h->answer->status == 206) {
        if (h->sink && h->sink(h->sink_user, h->answer, bytes, len)) return len;
        h->enough = true;
        return 0;
    }
    h->n_body += len;
    if (h->n_body > REFUSAL_BYTES) return 0;
    const size_t room = sizeof h->words - 1 - h->n_words, take = len < room ? len : room;
    memcpy(h->words + h->n_words, bytes, take);
    h->words[h->n_words += take] = 0;
    return len;
}

static int on_progress(void *user, int64_t total, int64_t now, int64_t to_send, int64_t sent)
{
    const hub_http *h = user;
    (void)total, (void)now, (void)to_send, (void)sent;
    return h->o.stopped && h->o.stopped(h->o.user);
}

/* ---- requests ---- */

static long silent_seconds(void)
{
    const char *text = getenv("HF_HUB_DOWNLOAD_TIMEOUT");
    const long n = text ? strtol(text, NULL, 10) : 0;
    return n > 0 && n < 86400 ? n : SILENT_S;
}

qsf_status hub_http_new(const hub_http_options *o, hub_http **out, qsf_error *err)
{
    const curl_functions *f;
    const qsf_status st = hub_curl(&f, err);
    *out = NULL;
    if (st) return st;
    hub_http *h = calloc(1, sizeof *h);
    if (!h || !(h->easy = f->easy_init())) {
        free(h);
        return qsf_fail(err, QSF_E_MEMORY, "out of memory for downloads");
    }
    h->o = *o;
    h->f = f;
    f->easy_setopt(h->easy, CURL_NOSIGNAL, 1L);
    f->easy_setopt(h->easy, CURL_FOLLOWLOCATION, 0L);
    f->easy_setopt(h->easy, CURL_PROTOCOLS, (long)CURL_HTTP_AND_HTTPS);
    f->easy_setopt(h->easy, CURL_CONNECTTIMEOUT, (long)CONNECT_S);
    f->easy_setopt(h->easy, CURL_LOW_SPEED_LIMIT, 1L);
    f->easy_setopt(h->easy, CURL_LOW_SPEED_TIME, silent_seconds());
    f->easy_setopt(h->easy, CURL_BUFFERSIZE, 256L * 1024);
    f->easy_setopt(h->easy, CURL_ERRORBUFFER, h->why);
    f->easy_setopt(h->easy, CURL_HEADERFUNCTION, on_header);
    f->easy_setopt(h->easy, CURL_HEADERDATA, (void *)h);
    f->easy_setopt(h->easy, CURL_WRITEFUNCTION, on_bytes);
    f->easy_setopt(h->easy, CURL_WRITEDATA, (void *)h);
    f->easy_setopt(h->easy, CURL_NOPROGRESS, 0L);
    f->easy_setopt(h->easy, CURL_XFERINFOFUNCTION, on_progress);
    f->easy_setopt(h->easy, CURL_XFERINFODATA, (void *)h);
    *out = h;
    return QSF_OK;
}

qsf_status hub_http_like(const hub_http *h, bool (*stopped)(void *user), void *user, hub_http **out,
                         qsf_error *err)
{
    const hub_http_options o = { h->o.base, h->o.token, stopped, user };
    return hub_http_new(&o, out, err);
}

const char *hub_http_at(const hub_http *h) { return h->url; }

void hub_http_free(hub_http *h)
{
    if (!h) return;
    h->f->easy_cleanup(h->easy);
    free(h);
}

static bool headers_add(const hub_http *h, curl_slist_abi **list, const char *text)
{
    curl_slist_abi *more = h->f->slist_append(*list, text);
    if (more) *list = more;
    return more != NULL;
}

/* The headers of the next request; NULL: out of memory. */
static curl_slist_abi *headers_of(const hub_http *h)
{
    curl_slist_abi *list = NULL;
    char line[4200], agent[64];
    snprintf(agent, sizeof agent, "User-Agent: qsf/%s", qsf_version());
    bool whole = headers_add(h, &list, "Accept-Encoding: identity") && headers_add(h, &list, agent);
    if (whole && (h->from || h->end)) {
        char last[24] = "";
        if (h->end) snprintf(last, sizeof last, "%llu", (unsigned long long)h->end - 1);
        snprintf(line, sizeof line, "Range: bytes=%llu-%s", (unsigned long long)h->from, last);
        whole = headers_add(h, &list, line);
    }
    if (whole && h->o.token && hub_same_origin(h->url, h->o.base)) {
        snprintf(line, sizeof line, "Authorization: Bearer %s", h->o.token);
        whole = headers_add(h, &list, line);
    }
    if (whole) return list;
    if (list) h->f->slist_free_all(list);
    return NULL;
}

/* What libcurl's code means.  Its own words may have the address, with a key in it. */
static qsf_status http_fault(const hub_http *h, int code, bool *again, qsf_error *err)
{
    char place[256];
    const char *why = code == CURL_NO_HOST ? "no server has this name; is there a network?"
        : code == CURL_NO_CONNECTION ? "no connection: nothing listens there, or there is no network"
        : code == CURL_TIMEOUT && !h->answer->status ? "no answer"
        : code == CURL_TIMEOUT ? "no byte came for too long (HF_HUB_DOWNLOAD_TIMEOUT, in seconds)"
        : code == CURL_CERTIFICATE ? "its certificate is not one that this machine trusts"
        : code == CURL_CA_FILE ? "this machine has no certificates to trust: install ca-certificates"
        : code == CURL_NO_PROTOCOL ? "what came is not HTTP, or this libcurl does not have the protocol"
        : code == CURL_PARTIAL ? "the connection ended early"
        : code == CURL_NOTHING ? "the server closed the connection without an answer"
        : h->f->easy_strerror(code);
    hub_url_shown(h->url, place, sizeof place);
    *again = code != CURL_CERTIFICATE && code != CURL_CA_FILE && code != CURL_NO_PROTOCOL;
    return qsf_fail(err, QSF_E_IO, "%s: %s", place, why);
}

static qsf_status request_once(hub_http *h, bool *again, qsf_error *err)
{
    curl_slist_abi *headers = headers_of(h);
    if (!headers) return qsf_fail(err, QSF_E_MEMORY, "out of memory for a request");
    *h->location = 0;
    h->answer->status = 0;
    h->n_body = 0;
    h->f->easy_setopt(h->easy, CURL_URL, h->url);
    h->f->easy_setopt(h->easy, CURL_HTTPHEADER, headers);
    if (h->sink) h->f->easy_setopt(h->easy, CURL_HTTPGET, 1L);
    h->f->easy_setopt(h->easy, CURL_NOBODY, h->sink ? 0L : 1L);
    bool held;
    store_pipe_hold(&held);
    const int code = h->f->easy_perform(h->easy);
    store_pipe_release(held);
    h->f->easy_setopt(h->easy, CURL_HTTPHEADER, NULL);
    h->f->slist_free_all(headers);
    if (code == CURL_OK || h->n_body > REFUSAL_BYTES) return QSF_OK;     /* its status says enough */
    if (code == CURL_ABORTED || h->enough) return qsf_fail(err, QSF_E_CANCELLED, "interrupted");
    return http_fault(h, code, again, err);
}

static bool redirects(int status) { return status >= 301 && status <= 308 && status != 304 && status != 305; }

/* The server's own words for a refusal, if they are a line of text. */
static void reason_take(hub_http *h)
{
    hub_answer *a = h->answer;
    if (a->status < 400) return;
    if (!*a->reason && h->n_words && h->words[0] != '<' && h->words[0] != '{' && !strchr(h->words, '\n'))
        snprintf(a->reason, sizeof a->reason, "%s", h->words);
    for (char *p = a->reason; *p; p++) if ((unsigned char)*p < 32) *p = ' ';
    char *secret = h->o.token ? strstr(a->reason, h->o.token) : NULL;
    if (secret) snprintf(secret, 4, "***");
}

qsf_status hub_http_get(hub_http *h, const char *url, uint64_t from, hub_sink sink, void *user, hub_answer *a,
                        bool *again, qsf_error *err)
{
    return hub_http_get_part(h, url, from, 0, sink, user, a, again, err);
}

qsf_status hub_http_get_part(hub_http *h, const char *url, uint64_t from, uint64_t end, hub_sink sink,
                             void *user, hub_answer *a, bool *again, qsf_error *err)
{
    char place[256];
    hub_answer_begin(a);
    *again = false;
    h->from = from;
    h->end = end;
    h->answer = a;
    h->sink = sink;
    h->sink_user = user;
    h->enough = false;
    h->n_words = 0;
    hub_url_shown(url, place, sizeof place);
    if (snprintf(h->url, URL_CAP, "%s", url) >= URL_CAP)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: the address is too long", place);
    for (int n = 0; ; n++) {
        char next[URL_CAP];
        const qsf_status st = request_once(h, again, err);
        if (st) return st;
        if (!redirects(a->status) || !*h->location) break;
        if (n == MOST_REDIRECTIONS)
            return qsf_fail(err, QSF_E_IO, "%s: redirected %d times", place, MOST_REDIRECTIONS);
        if (!url_resolve(h->url, h->location, next))
            return qsf_fail(err, QSF_E_IO, "%s: redirected to an address that is not http or https", place);
        if (!hub_redirects_safely(h->o.base, h->url, next)) {
            hub_url_shown(next, place, sizeof place);
            return qsf_fail(err, QSF_E_IO, "%.200s: redirected from https to this http address: others "
                            "could change the file on its way; try again, or another mirror", place);
        }
        if (!hub_same_origin(h->url, next)) a->away = true;
        if (a->away && !sink) break;
        memcpy(h->url, next, sizeof next);
    }
    reason_take(h);
    return QSF_OK;
}

bool hub_http_wait(hub_http *h, double seconds)
{
    const qsf_platform *p = qsf_platform_native();
    const uint64_t begin = p->now_ns(p->user), ns = (uint64_t)(seconds * 1e9);
    uint32_t never = 0;
    for (uint64_t past = 0; past < ns; past = p->now_ns(p->user) - begin) {
        if (h->o.stopped && h->o.stopped(h->o.user)) return false;
        p->wait32(p->user, &never, 0, ns - past < 100000000 ? ns - past : 100000000);
    }
    return true;
}
