/* Which requests are allowed: keys, names of this server, pages of other sites.
 * SPDX-License-Identifier: MIT
 *
 * A page of another site can make a browser send requests to a server on this machine, by a name of
 * its own that resolves here (DNS rebinding) or directly.  So the Host header must be an address,
 * localhost or an allowed name, and an Origin must be this server's own or allowed. */
#include "front.h"

#include <event2/util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KEYS = 4096, KEY_BYTES = 512, FILE_BYTES = 1 << 20 };

/* The options' keys, then the file's. */
typedef struct key_list {
    char  *file;                             /* its text, each key terminated */
    const char **keys;                       /* [MOST_KEYS] */
    size_t n;
} key_list;

struct access_rules {
    const serve_settings *set;
    key_list list;
    bool   wanted;                           /* keys are wanted */
};

/* ---- keys ---- */

static void key_list_free(key_list *l)
{
    free(l->file);
    free(l->keys);
}

static bool key_add(key_list *l, const char *key, const char *from, qsf_error *err)
{
    if (!*key) {
        err->status = QSF_E_ARGUMENT;
        snprintf(err->text, sizeof err->text, "%s: the key is empty; without the option no key is needed",
                 from);
        return false;
    }
    if (l->n == MOST_KEYS || strlen(key) > KEY_BYTES) {
        err->status = QSF_E_ARGUMENT;
        snprintf(err->text, sizeof err->text, "%s: at most %d keys of at most %d bytes are supported",
                                              from, MOST_KEYS,
                 KEY_BYTES);
        return false;
    }
    l->keys[l->n++] = key;
    return true;
}

static bool keys_of_file(key_list *l, const char *path, qsf_error *err)
{
    for (char *line = l->file; *line;) {
        char *end = line + strcspn(line, "\r\n"), *next = end + strspn(end, "\r\n");
        *end = 0;
        line += strspn(line, " \t");
        for (char *last = end; last > line && strchr(" \t", last[-1]);) *--last = 0;
        if (*line && *line != '#' && !key_add(l, line, path, err)) return false;
        line = next;
    }
    return true;
}

static bool key_file_read(key_list *l, const char *path, qsf_error *err)
{
    FILE *file = fopen(path, "rb");
    const size_t n = file ? fread(l->file, 1, FILE_BYTES + 1, file) : 0;
    const bool reads = file && !ferror(file) && n <= FILE_BYTES;
    if (file) fclose(file);
    if (reads) return keys_of_file(l, path, err);
    err->status = QSF_E_IO;
    snprintf(err->text, sizeof err->text, "%s: the file of keys cannot be read%s", path,
             n > FILE_BYTES ? "; it is larger than a megabyte" : "");
    return false;
}

bool access_read_keys(struct access_rules *a, qsf_error *err)
{
    key_list l = { .file = calloc(1, FILE_BYTES + 2), .keys = calloc(MOST_KEYS, sizeof *l.keys) };
    bool ok = l.file && l.keys;
    *err = (qsf_error){ .status = QSF_E_MEMORY, .text = "out of memory" };
    for (size_t i = 0; ok && i < a->set->keys.n; i++)
        ok = key_add(&l, a->set->keys.items[i], "--api-key", err);
    if (ok && a->set->key_file) ok = key_file_read(&l, a->set->key_file, err);
    if (!ok) {
        key_list_free(&l);
        return false;
    }
    key_list_free(&a->list);
    a->list = l;
    return true;
}

struct access_rules *access_new(const serve_settings *set, qsf_error *err)
{
    struct access_rules *a = calloc(1, sizeof *a);
    *err = (qsf_error){ .status = QSF_E_MEMORY, .text = "out of memory" };
    if (!a) return NULL;
    a->set = set;
    a->wanted = set->keys.n || set->key_file;
    if (access_read_keys(a, err)) return a;
    access_free(a);
    return NULL;
}

void access_free(struct access_rules *a)
{
    if (!a) return;
    key_list_free(&a->list);
    free(a);
}

/* Takes the same time for a wrong key as for the right one: all bytes of all keys are compared, and
 * no branch depends on any of them. */
static bool key_same(const char *key, const char *given, size_t len)
{
    const size_t n = strlen(key);
    unsigned char differ = n != len;
    for (size_t i = 0; i < KEY_BYTES; i++)
        differ |= (unsigned char)((i < n ? key[i] : 0) ^ (i < len ? given[i] : 0));
    return !differ;
}

static bool key_known(const struct access_rules *a, const http_head *h, unsigned *key)
{
    const char *given = h->api_key;
    if (!evutil_ascii_strncasecmp(h->authorization, "Bearer ", 7)) {
        given = h->authorization + 7;
        given += strspn(given, " ");
    }
    const size_t len = strlen(given);
    bool found = false;
    for (size_t i = 0; i < a->list.n; i++) {
        const bool same = key_same(a->list.keys[i], given, len);
        if (same) *key = 1 + (unsigned)i;
        found |= same;
    }
    return found && len;
}

/* ---- names ---- */

/* IP addresses in full notation: no DNS record can point them elsewhere. */
static bool is_address(const char *host, size_t len)
{
    char text[64];
    unsigned char bytes[16];
    const bool six = len > 2 && host[0] == '[' && host[len - 1] == ']';
    if (len >= sizeof text) return false;
    memcpy(text, host + six, len - 2 * six);
    text[len - 2 * six] = 0;
    return evutil_inet_pton(six ? AF_INET6 : AF_INET, text, bytes) == 1;
}

static bool host_same(const char *host, size_t len, const char *name)
{
    return strlen(name) == len && !evutil_ascii_strncasecmp(host, name, len);
}

static bool host_allowed(const serve_settings *set, const char *host)
{
    const char *end = *host == '[' ? strchr(host, ']') : NULL;
    const size_t len = end ? (size_t)(end + 1 - host) : strcspn(host, ":");
    const char *port = host + len + (host[len] == ':');
    if (host[len] && (host[len] != ':' || strspn(port, "0123456789") != strlen(port))) return false;
    if (!*host || is_address(host, len) || host_same(host, len, "localhost")) return true;
    if (host_same(host, len, set->host)) return true;
    for (size_t i = 0; i < set->allowed_hosts.n; i++)
        if (host_same(host, len, set->allowed_hosts.items[i])) return true;
    return false;
}

/* Whether an origin matches the pattern, in which '*' stands for any characters. */
static bool origin_like(const char *form, const char *origin)
{
    const char *star = NULL, *back = NULL;
    while (*origin) {
        if (*form == '*') {
            star = form++;
            back = origin;
        } else if (*form == *origin) {
            form++;
            origin++;
        } else if (star) {                  /* let the last star match one more character */
            form = star + 1;
            origin = ++back;
        } else {
            return false;
        }
    }
    return !form[strspn(form, "*")];
}

static bool origin_listed(const serve_settings *set, const char *origin)
{
    for (size_t i = 0; i < set->origins.n; i++)
        if (origin_like(set->origins.items[i], origin)) return true;
    return false;
}

static bool origin_allowed(const serve_settings *set, const http_head *h)
{
    const char *host = h->origin + (!strncmp(h->origin, "http://", 7) ? 7 : 8);
    const bool page = !strncmp(h->origin, "http://", 7) || !strncmp(h->origin, "https://", 8);
    return !*h->origin || (page && *h->host && !strcmp(host, h->host)) || origin_listed(set, h->origin);
}

bool access_allowed(const struct access_rules *a, const http_head *h, bool open, unsigned *key,
                    serve_error *e)
{
    *key = 0;
    if (!host_allowed(a->set, h->host))
        return serve_refuse(e, 403, "host_not_allowed", NULL, "\"%.100s\" is not a name of this server "
                            "(--allow-host adds it)", h->host);
    if (!origin_allowed(a->set, h))
        return serve_refuse(e, 403, "origin_not_allowed", NULL, "pages of %.100s may not use this server "
                            "(--cors allows them)", h->origin);
    /* Browsers send a preflight request without the key. */
    const bool preflight = !strcmp(h->method, "OPTIONS") && *h->origin;
    if (open || !a->wanted || preflight || key_known(a, h, key)) return true;
    return serve_refuse(e, 401, "invalid_api_key", NULL, "missing or unknown API key (Authorization: Bearer "
                        "KEY)");
}

/* Allows every header that a preflight asks for: the server ignores headers it does not know.  They
 * are echoed only if they consist of names, commas and spaces. */
static const char *cors_headers(const http_head *h)
{
    static const char some[] = "authorization, content-type, x-api-key, anthropic-version, "
                               "anthropic-beta, anthropic-dangerous-direct-browser-access";
    const size_t n = strlen(h->asks_headers);
    const size_t fine = strspn(h->asks_headers, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                "0123456789-_, ");
    return n && n == fine && n < ACCESS_HEADERS ? h->asks_headers : some;
}

const char *access_cors(const struct access_rules *a, const http_head *h, char *out, size_t cap)
{
    *out = 0;
    if (!*h->origin || !origin_listed(a->set, h->origin)) return out;
    int n = snprintf(out, cap, "Access-Control-Allow-Origin: %.200s\r\nVary: Origin\r\n"
                     "Access-Control-Expose-Headers: x-qsf-ignored, retry-after\r\n", h->origin);
    if (strcmp(h->method, "OPTIONS")) return out;
    snprintf(out + n, cap - (size_t)n, "Access-Control-Allow-Headers: %s\r\n"
             "Access-Control-Allow-Methods: GET, HEAD, POST, DELETE, OPTIONS\r\n"
             "Access-Control-Max-Age: 7200\r\n%s", cors_headers(h),
             h->asks_private ? "Access-Control-Allow-Private-Network: true\r\n" : "");
    return out;
}
