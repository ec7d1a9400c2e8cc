/* Models by address.  A file of a hub is the same as by its name; any other is cached as
 * QSF_CACHE/files/ADDRESS/VERSION/NAME, where ADDRESS and VERSION are the beginnings of SHA-256
 * sums: of the address, and of the ETag and length with which it came.  ADDRESS/latest has the
 * VERSION that stands for it without a connection, ADDRESS/url the address for people.
 * SPDX-License-Identifier: MIT */
#include "url.h"

#include "address.h"
#include "blob.h"
#include "sha256.h"
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { URL_KEY = 17, URL_MOST = 4096 };

/* ---- addresses of a hub ---- */

static int url_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* text[0..len) without its escapes; false: too long, or a zero byte. */
static bool url_plain(const char *text, size_t len, char *out, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%' && i + 2 < len && url_digit(text[i + 1]) >= 0 && url_digit(text[i + 2]) >= 0) {
            c = (char)(16 * url_digit(text[i + 1]) + url_digit(text[i + 2]));
            i += 2;
        }
        if (!c || n + 1 >= cap) return false;
        out[n++] = c;
    }
    out[n] = 0;
    return n > 0;
}

/* What follows the hub's address; NULL: it is another one. */
static const char *url_after(const char *url, const char *base)
{
    const size_t n = strlen(base);
    return !strncmp(url, base, n) && url[n] == '/' ? url + n + 1 : NULL;
}

bool hub_url_name(const char *url, const char *base, hub_name *out)
{
    static const char *const others[] = { "https://huggingface.co", "https://hf.co" };
    static const char *const kinds[] = { "resolve/", "blob/", "tree/" };
    qsf_error err;
    char name[256];
    const char *p = url_after(url, base);
    for (int i = 0; i < 2 && !p; i++) p = url_after(url, others[i]);
    const size_t owner = p ? strcspn(p, "/?#") : 0, repo = owner && p[owner] == '/'
        ? strcspn(p + owner + 1, "/?#") : 0, end = owner + 1 + repo;
    if (!repo || snprintf(name, sizeof name, "hf:%.*s", (int)end, p) >= (int)sizeof name) return false;
    if (hub_name_read(name, out, &err)) return false;
    p += end + (p[end] == '/');
    if (!*p || *p == '?' || *p == '#') return true;
    for (int i = 0; i < 3; i++) {
        const size_t n = strlen(kinds[i]);
        if (strncmp(p, kinds[i], n)) continue;
        const size_t revision = strcspn(p + n, "/?#"), slash = p[n + revision] == '/';
        const char *file = p + n + revision + slash;
        const size_t len = strcspn(file, "?#");
        return url_plain(p + n, revision, out->revision, sizeof out->revision)
            && hub_path_is_safe(out->revision)
            && (!len || (url_plain(file, len, out->file, sizeof out->file) && hub_path_is_safe(out->file)));
    }
    return false;
}

/* ---- other addresses ---- */

typedef struct url_file {
    const hub_options *o;
    const char *url;
    hub_http *http;
    size_t    name_at, name_len;                 /* of the last part of the path, in url */
    char      name[400], folder[HUB_PATH - 480], shown[300];
    char      version[URL_KEY];
} url_file;

static void url_key(const char *text, size_t len, char out[URL_KEY])
{
    char hex[SHA256_HEX];
    sha256 s;
    sha256_begin(&s);
    sha256_add(&s, text, len);
    sha256_end_hex(&s, hex);
    snprintf(out, URL_KEY, "%.16s", hex);
}

/* Without what may be a signature, if the path names the file. */
static size_t url_key_len(const char *url, const char *name)
{
    const size_t n = strlen(name);
    const bool named = (n > 5 && !strcmp(name + n - 5, ".gguf")) || (n > 4 && !strcmp(name + n - 4, ".qsf"));
    return strcspn(url, named ? "?#" : "#");
}

static qsf_status url_begin(url_file *f, qsf_error *err)
{
    const char *host = strstr(f->url, "://") + 3;
    const size_t end = strcspn(f->url, "?#");
    char other[HUB_PATH], key[URL_KEY];
    size_t at = end;
    while (at && f->url[at - 1] != '/') at--;
    hub_url_shown(f->url, f->shown, sizeof f->shown);
    if (strlen(f->url) >= URL_MOST || f->url + at <= host
        || !url_plain(f->url + at, end - at, f->name, sizeof f->name) || strchr(f->name, '/')
        || !hub_path_is_safe(f->name))
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: this is not the address of a file", f->shown);
    f->name_at = at;
    f->name_len = end - at;
    url_key(f->url, url_key_len(f->url, f->name), key);
    const int n = hub_cache_other(other) ? snprintf(f->folder, sizeof f->folder, "%s/%s", other, key) : -1;
    if (n < 0 || n >= (int)sizeof f->folder)
        return qsf_fail(err, QSF_E_IO, "the path of the cache is too long; QSF_CACHE names another one");
    return QSF_OK;
}

/* Headers are enough; servers of signed addresses refuse HEAD. */
static bool url_probe(void *user, const hub_answer *a, const void *bytes, size_t n)
{
    (void)user, (void)a, (void)bytes, (void)n;
    return false;
}

/* Asks for the file's version; *away: no answer came, so that the cache may do. */
static qsf_status url_version(url_file *f, hub_answer *a, bool *away, qsf_error *err)
{
    hub_tries tries = { 0 };
    char text[300];
    for (;;) {
        bool again;
        qsf_status st = hub_http_get(f->http, f->url, 0, url_probe, NULL, a, &again, err);
        const bool stopped = f->o->stopped && f->o->stopped(f->o->user);
        if (st == QSF_E_CANCELLED && a->status == 200 && !stopped) st = QSF_OK;
        if (!st && a->status == 200) break;
        *away = !stopped && (!a->status || a->status == 429 || a->status >= 500);
        if (hub_again(f->o, f->http, &tries, st, a, again, f->shown)) continue;
        return st ? st : hub_refusal(f->url, a, "", false, err);
    }
    if (a->linked_size < 0) a->linked_size = a->length;
    const int n = snprintf(text, sizeof text, "%s|%lld", *a->linked_etag ? a->linked_etag
                           : hub_answer_version(a), (long long)a->linked_size);
    if (!*a->linked_etag) memcpy(a->linked_etag, a->etag, sizeof a->etag);
    url_key(text, (size_t)n, f->version);
    return QSF_OK;
}

/* One file; of a part, the address and the name are those of the first one with another number. */
static qsf_status url_get(url_file *f, const hub_blob *more, const hub_model *m, unsigned part,
                          qsf_error *err)
{
    char url[URL_MOST + 1300] = "", name[400], path[HUB_PATH], lock[HUB_PATH];
    hub_model_part(m, part, name, sizeof name);
    snprintf(url, sizeof url, "%.*s", (int)f->name_at, f->url);
    hub_url_put(url, sizeof url, name, false);
    const size_t n = strlen(url);
    snprintf(url + n, sizeof url - n, "%s", f->url + f->name_at + f->name_len);
    snprintf(path, sizeof path, "%s/%s/%s", f->folder, f->version, name);
    snprintf(lock, sizeof lock, "%s/%s.%u.lock", f->folder, f->version, part);
    hub_blob b = *more;
    b.url = part ? url : f->url;
    b.name = name;
    b.path = path;
    b.lock = lock;
    b.part = part + 1;
    b.n_parts = m->n_parts;
    b.page = "";
    if (part) {
        b.size = -1;
        b.sha256 = b.version = "";
    }
    return hub_blob_get(f->o, f->http, &b, err);
}

/* How many parts its name promises. */
static unsigned url_parts(const char *name)
{
    unsigned at, of;
    const size_t n = strlen(name);
    const bool part = n > 20 && sscanf(name + n - 20, "-%5u-of-%5u.gguf", &at, &of) == 2;
    return part && at == 1 && of > 0 ? of : 1;
}

static qsf_status url_path(const url_file *f, char **path, qsf_error *err)
{
    if (!(*path = malloc(HUB_PATH))) return qsf_fail(err, QSF_E_MEMORY, "out of memory for a path");
    snprintf(*path, HUB_PATH, "%s/%s/%s", f->folder, f->version, f->name);
    return QSF_OK;
}

static qsf_status url_download(url_file *f, char **path, bool *away, qsf_error *err)
{
    hub_answer a;
    char at[HUB_PATH], why[STORE_WHY];
    const hub_file first = { f->name, 0 };
    const hub_model m = { .first = &first, .n_parts = url_parts(f->name) };
    qsf_status st = url_version(f, &a, away, err);
    const hub_blob b = { .size = st ? -1 : a.linked_size, .sha256 = !st && hub_is_sha256(a.linked_etag)
                         ? a.linked_etag : "", .version = st ? "" : hub_answer_version(&a) };
    for (unsigned i = 0; !st && i < m.n_parts; i++) st = url_get(f, &b, &m, i, err);
    if (st) return st;
    snprintf(at, sizeof at, "%s/url", f->folder);
    f->shown[strcspn(f->shown, "?")] = 0;
    bool whole = store_write_text(at, f->shown, why);
    snprintf(at, sizeof at, "%s/latest", f->folder);
    whole = whole && store_write_text(at, f->version, why);
    return whole ? url_path(f, path, err) : qsf_fail(err, QSF_E_IO, "%s: cannot be written: %s", at, why);
}

static bool url_cached(url_file *f)
{
    char at[HUB_PATH];
    uint64_t size;
    snprintf(at, sizeof at, "%s/latest", f->folder);
    if (!store_read_text(at, f->version, sizeof f->version)) return false;
    snprintf(at, sizeof at, "%s/%s/%s", f->folder, f->version, f->name);
    return strlen(f->version) == URL_KEY - 1 && !strpbrk(f->version, "/.") && store_size(at, &size);
}

qsf_status hub_url_find(const hub_options *o, const char *url, char **path, qsf_error *err)
{
    url_file f = { .o = o, .url = url };
    const hub_http_options http = { url, NULL, o->stopped, o->user };
    const bool offline = o->offline || hub_env_offline();
    bool away = offline;
    char line[500];
    qsf_status st = url_begin(&f, err);
    if (st) return st;
    if (offline)
        st = qsf_fail(err, QSF_E_NOT_FOUND, "%s is not in the cache, and may not be downloaded (--offline or "
                      "HF_HUB_OFFLINE)", f.shown);
    else if ((st = hub_http_new(&http, &f.http, err))) away = true;
    else st = url_download(&f, path, &away, err);
    if (st && away && url_cached(&f)) {
        snprintf(line, sizeof line, "%s; the cached model is used", err->text);
        if (!offline && o->note) o->note(o->user, line);
        st = url_path(&f, path, err);
    }
    hub_http_free(f.http);
    return st;
}
