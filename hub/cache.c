/* The cache's place and contents.
 * SPDX-License-Identifier: MIT */
#include "cache.h"

#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the environment ---- */

static bool path_join(char *out, size_t cap, const char *a, const char *b, const char *c)
{
    const int n = snprintf(out, cap, "%s%s%s", a, b, c);
    return n > 0 && (size_t)n < cap;
}

static const char *cache_variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static const char *home_folder(void)
{
    const char *found = cache_variable("HOME");
    return found ? found : cache_variable("USERPROFILE");
}

/* The value of the variable that text begins with, as $NAME or ${NAME}; *len: bytes of that.  NULL:
 * it begins with none, or with one that is not set. */
static const char *path_variable(const char *text, size_t *len)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    char name[128];
    if (*text != '$') return NULL;
    const size_t brace = text[1] == '{', n = strspn(text + 1 + brace, letters);
    if (!n || n >= sizeof name || (brace && text[2 + n] != '}')) return NULL;
    snprintf(name, sizeof name, "%.*s", (int)n, text + 1 + brace);
    *len = 1 + n + 2 * brace;
    return getenv(name);
}

/* A path of the environment, as huggingface_hub reads it: ~ is the user's folder, and variables are
 * replaced. */
static bool path_put(char out[HUB_PATH], const char *path, const char *rest)
{
    const bool tilde = path[0] == '~' && (path[1] == '/' || !path[1]);
    if (tilde && !home_folder()) return false;
    size_t n = (size_t)snprintf(out, HUB_PATH, "%s", tilde ? home_folder() : "");
    for (const char *p = path + tilde; *p; ) {
        char one[2] = { *p };
        size_t len = 1;
        const char *value = path_variable(p, &len);
        if (n >= HUB_PATH) return false;
        n += (size_t)snprintf(out + n, HUB_PATH - n, "%s", value ? value : one);
        p += value ? len : 1;
    }
    if (n >= HUB_PATH || n + strlen(rest) >= HUB_PATH) return false;
    strcpy(out + n, rest);
    store_slashes(out);
    return true;
}

static bool hf_home(char out[HUB_PATH], const char *rest)
{
    const char *own = cache_variable("HF_HOME"), *xdg = cache_variable("XDG_CACHE_HOME");
    char more[64];
    if (own) return path_put(out, own, rest);
    snprintf(more, sizeof more, "/huggingface%s", rest);
    if (xdg) return path_put(out, xdg, more);
    snprintf(more, sizeof more, "/.cache/huggingface%s", rest);
    return home_folder() && path_put(out, home_folder(), more);
}

bool hub_cache_folder(char out[HUB_PATH])
{
    const char *own = cache_variable("HF_HUB_CACHE");
    if (!own) own = cache_variable("HUGGINGFACE_HUB_CACHE");
    return own ? path_put(out, own, "") : hf_home(out, "/hub");
}

bool hub_cache_other(char out[HUB_PATH])
{
    const char *own = cache_variable("QSF_CACHE"), *xdg = cache_variable("XDG_CACHE_HOME");
    if (!xdg) xdg = cache_variable("LOCALAPPDATA");
    if (own) return path_put(out, own, "/files");
    if (xdg) return path_put(out, xdg, "/qsf/files");
    return home_folder() && path_put(out, home_folder(), "/.cache/qsf/files");
}

static bool token_valid(const char *text)
{
    for (const char *p = text; *p; p++)
        if (*p < 0x21 || *p > 0x7e) return false;
    return *text != 0;
}

bool hub_token(char *out, size_t cap)
{
    const char *own = cache_variable("HF_TOKEN"), *file = cache_variable("HF_TOKEN_PATH");
    char path[HUB_PATH];
    if (!own) own = cache_variable("HUGGING_FACE_HUB_TOKEN");
    if (own) snprintf(out, cap, "%s", own);
    else if (!(file ? path_put(path, file, "") : hf_home(path, "/token")) || !store_read_text(path, out, cap))
        return false;
    const size_t blank = strspn(out, " \t\r\n");
    memmove(out, out + blank, strlen(out + blank) + 1);
    out[strcspn(out, "\r\n")] = 0;
    for (size_t n = strlen(out); n && (out[n - 1] == ' ' || out[n - 1] == '\t'); ) out[--n] = 0;
    return token_valid(out);
}

bool hub_env_offline(void)
{
    static const char *const yes[] = { "1", "ON", "YES", "TRUE" };
    const char *value = cache_variable("HF_HUB_OFFLINE");
    char upper[8] = "";
    if (!value) value = cache_variable("TRANSFORMERS_OFFLINE");
    for (size_t i = 0; value && value[i] && i < sizeof upper - 1; i++)
        upper[i] = value[i] >= 'a' && value[i] <= 'z' ? (char)(value[i] - 32) : value[i];
    for (int i = 0; i < 4; i++) if (!strcmp(upper, yes[i])) return true;
    return false;
}

/* ---- paths ---- */

static bool hex_and(const char *text, size_t min, size_t max, const char *more)
{
    size_t n = 0;
    for (; text[n]; n++) {
        const char c = text[n];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (*more && strchr(more, c)))) return false;
    }
    return n >= min && n <= max;
}

bool hub_is_commit(const char *text) { return hex_and(text, 40, 40, ""); }
bool hub_is_sha256(const char *text) { return hex_and(text, 64, 64, ""); }
bool hub_is_etag(const char *text)
{
    return *text != '.' && hex_and(text, 1, 128, "ghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.");
}

/* "models--OWNER--REPO" */
static void repo_folder(const char *repo, char out[256])
{
    const char *slash = strchr(repo, '/');
    snprintf(out, 256, "models--%.*s--%s", (int)(slash - repo), repo, slash + 1);
}

bool hub_cache_repo(const char *repo, char out[HUB_PATH])
{
    char folder[HUB_PATH], name[256];
    repo_folder(repo, name);
    return hub_cache_folder(folder) && path_join(out, HUB_PATH, folder, "/", name);
}

static bool repo_path(const char *repo, const char *kind, const char *name, char out[HUB_PATH])
{
    char folder[HUB_PATH];
    return hub_cache_repo(repo, folder) && path_join(out, HUB_PATH, folder, kind, name);
}

bool hub_cache_blob(const char *repo, const char *etag, char out[HUB_PATH])
{
    return repo_path(repo, "/blobs/", etag, out);
}

bool hub_cache_snapshot(const char *repo, const char *commit, const char *path, char out[HUB_PATH])
{
    char folder[HUB_PATH];
    return repo_path(repo, "/snapshots/", commit, folder)
        && path_join(out, HUB_PATH, folder, *path ? "/" : "", path);
}

bool hub_cache_lock(const char *repo, const char *etag, char out[HUB_PATH])
{
    char folder[HUB_PATH], name[256];
    repo_folder(repo, name);
    if (!hub_cache_folder(folder)) return false;
    const int n = snprintf(out, HUB_PATH, "%s/.locks/%s/%s.lock", folder, name, etag);
    return n > 0 && n < HUB_PATH;
}

/* ---- what is there ---- */

bool hub_cache_commit(const char *repo, const char *revision, char out[44])
{
    char path[HUB_PATH];
    if (repo_path(repo, "/refs/", revision, path) && store_read_text(path, out, 44)) {
        out[strcspn(out, "\r\n ")] = 0;
        if (hub_is_commit(out)) return true;
    }
    if (!hub_is_commit(revision)) return false;
    snprintf(out, 44, "%s", revision);
    return hub_cache_snapshot(repo, revision, "", path) && store_is_folder(path);
}

enum { MOST_FILES = 20000, MOST_DEPTH = 16 };
typedef struct cache_walk {
    hub_files *files;
    char       path[HUB_PATH];
    size_t     root;            /* bytes of path before the repository's own paths */
    int        depth;
    bool       failed;
} cache_walk;

static bool walk_name(void *user, const char *name)
{
    cache_walk *w = user;
    const size_t len = strlen(w->path);
    char to[8];
    uint64_t size;
    if (!path_join(w->path + len, HUB_PATH - len, "/", name, "")) {
        w->path[len] = 0;
        return true;
    }
    if (store_size(w->path, &size)) {
        w->failed = w->files->n >= MOST_FILES || !hub_files_add(w->files, w->path + w->root, size);
    } else if (w->depth < MOST_DEPTH && store_is_folder(w->path)
               && !store_link_target(w->path, to, sizeof to)) {
        /* a linked folder is not the repository's: removing it would remove the user's files */
        w->depth++;
        store_list(w->path, walk_name, w);
        w->depth--;
    }
    w->path[len] = 0;
    return !w->failed;
}

bool hub_cache_files(const char *repo, const char *commit, hub_files *out)
{
    cache_walk w = { .files = out };
    *out = (hub_files){ 0 };
    if (!hub_cache_snapshot(repo, commit, "", w.path)) return true;
    w.root = strlen(w.path) + 1;
    store_list(w.path, walk_name, &w);
    return !w.failed;
}

/* ---- entering ---- */

static qsf_status cache_unwritten(const char *path, const char *why, qsf_error *err)
{
    return qsf_fail(err, QSF_E_IO, "%s: cannot be written: %s; HF_HOME names another folder for the cache",
                    path, why);
}

/* Makes the folder that a file's path lies in. */
static bool make_above(const char *path, char why[STORE_WHY])
{
    char folder[HUB_PATH];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    return store_make(folder, why);
}

qsf_status hub_cache_enter(const char *repo, const char *revision, const char *commit, const char *path,
                           const char *etag, bool there, qsf_error *err)
{
    char link[HUB_PATH], ref[HUB_PATH], blob[HUB_PATH], target[HUB_PATH] = "../../", why[STORE_WHY], was[44];
    if (!hub_cache_snapshot(repo, commit, path, link) || !repo_path(repo, "/refs/", revision, ref)
        || !hub_cache_blob(repo, etag, blob))
        return qsf_fail(err, QSF_E_IO, "%s: the path in the cache is too long", path);
    for (const char *p = path; (p = strchr(p, '/')); p++) {
        if (strlen(target) + 4 >= sizeof target) return cache_unwritten(link, "too many folders", err);
        strcat(target, "../");
    }
    const size_t n = strlen(target);
    snprintf(target + n, sizeof target - n, "blobs/%s", etag);
    if (!there && (!make_above(link, why) || !store_link(link, target, blob, why)))
        return cache_unwritten(link, why, err);
    if (!strcmp(revision, commit) || (hub_cache_commit(repo, revision, was) && !strcmp(was, commit)))
        return QSF_OK;
    if (!make_above(ref, why) || !store_write_text(ref, commit, why)) return cache_unwritten(ref, why, err);
    return QSF_OK;
}
