/* One file's download.
 * SPDX-License-Identifier: MIT
 *
 * What comes is appended to PATH.incomplete, and its sum is computed on the way; an interrupted
 * download is read again for its sum, then resumed.  Only a file with the right length and sum
 * gets its name, so that whatever has the name is whole.  Every try asks the hub anew: the address
 * that it redirects to expires. */
#include "blob.h"

#include "pieces.h"
#include "store.h"
#include "sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 5, FEW = 3, LONGEST_S = 60 };

/* ---- again, or not ---- */

static void blob_note(const hub_options *o, const char *line)
{
    if (o->note) o->note(o->user, line);
}

bool hub_again(const hub_options *o, hub_http *h, hub_tries *t, qsf_status st, const hub_answer *a,
               bool again, const char *name)
{
    char line[256];
    const bool busy = !st && (a->status == 429 || a->status >= 500);
    const bool expired = !st && a->away && (a->status == 401 || a->status == 403 || a->status == 410);
    const int most = st && !a->status ? FEW : MANY;
    double seconds = 0.1;
    for (int i = 0; i < t->n; i++) seconds *= 3;
    if (busy && a->retry_after >= 0) seconds = a->retry_after;
    if (!(st ? again : busy || expired) || seconds > LONGEST_S || ++t->n >= most) return false;
    if (seconds >= 1) {
        snprintf(line, sizeof line, "%s: %s; trying again in %.0f s", name,
                 st ? "the connection ended" : "the server asks to wait", seconds);
        blob_note(o, line);
    }
    return hub_http_wait(h, seconds);
}

static const char *refusal_advice(const hub_answer *a, const char *page, bool has_token, char *out,
                                  size_t cap)
{
    const bool gated = !strcmp(a->code, "GatedRepo") || strstr(a->reason, "restricted");
    *out = 0;
    if (a->status == 429 || a->status >= 500)
        snprintf(out, cap, "%s", a->retry_after > LONGEST_S ? "" : "; try again later");
    else if (!*page)
        snprintf(out, cap, a->status == 404 || a->status == 410 ? "; is the address right?"
                 : a->status == 401 ? "; it requires a login" : "");
    else if (a->status == 404)
        snprintf(out, cap, "; is the name right? %s has what there is", page);
    else if (a->status == 403 || (a->status == 401 && gated))
        snprintf(out, cap, "; it may be gated: accept its conditions at %s, and %s", page, has_token
                 ? "check what the token allows" : "give a token of that account (HF_TOKEN)");
    else if (a->status == 401)
        snprintf(out, cap, "; is the name right? %s", has_token ? "HF_TOKEN's account may not read it"
                 : "if it is private or gated, give a token (HF_TOKEN)");
    return out;
}

qsf_status hub_refusal(const char *url, const hub_answer *a, const char *page, bool has_token, qsf_error *err)
{
    char place[160], advice[260], wait[64] = "";
    hub_url_shown(url, place, sizeof place);
    if (a->retry_after > LONGEST_S)
        snprintf(wait, sizeof wait, ", and asks to wait %.0f s; try again then", a->retry_after);
    /* without a token, the hub answers 401 for a repository that is not there */
    const bool missing = a->status == 404 || a->status == 410 || !strcmp(a->code, "RepoNotFound");
    const qsf_status st = missing ? QSF_E_NOT_FOUND : QSF_E_IO;
    return qsf_fail(err, st, "%s: the server answered %d%s%.100s%s%s%s", place, a->status,
                    *a->reason ? ": \"" : "", a->reason, *a->reason ? "\"" : "", wait,
                    refusal_advice(a, page, has_token, advice, sizeof advice));
}

/* ---- the file ---- */

typedef struct download {
    const hub_options *o;
    const hub_blob *b;
    hub_http  *h;
    store_file *file;
    sha256     sum;
    uint64_t   done;            /* bytes in the file and in the sum */
    int64_t    size;            /* -1: not known */
    uint64_t   skip;            /* of the answer: bytes before `done` that come again */
    bool       checked;         /* the answer's headers */
    hub_tries *tries;
    const char *incomplete;     /* the file's path */
    char       why[STORE_WHY];
    qsf_error  error;           /* of the sink; status QSF_OK: none */
} download;

static void blob_tell(const download *d, int what)
{
    const hub_progress p = { d->b->name, d->done, d->size > 0 ? (uint64_t)d->size : 0, d->b->part,
                             d->b->n_parts, d->b->sha256, what, d->incomplete };
    if (d->o->progress) d->o->progress(d->o->user, &p);
}

static bool blob_unwritten(download *d)
{
    char left[64] = "";
    if (d->size > 0)
        snprintf(left, sizeof left, ", and %.1f MB are missing", (double)((uint64_t)d->size - d->done) / 1e6);
    qsf_fail(&d->error, QSF_E_IO, "%s: cannot be written: %s%s; free some space (qsf rm removes models), or "
             "name another folder for the cache (HF_HOME)", d->b->path, d->why, left);
    return false;
}

/* Of an answer: what it says of the file fits what is known. */
static bool check_answer(download *d, const hub_answer *a)
{
    int64_t size = a->status == 206 ? a->total : a->length;
    d->checked = true;
    if (!hub_answer_is(a, d->b->version))
        return qsf_fail(&d->error, QSF_E_IO, "%s: the server's file has changed since the download began; "
                        "try again, which downloads the new one", d->b->name), false;
    if (size < 0 && a->linked_size >= 0) size = a->linked_size;
    if (d->size >= 0 && size >= 0 && size != d->size)
        return qsf_fail(&d->error, QSF_E_CORRUPT, "%s: %lld bytes are offered, and the hub has %lld; try "
                        "again, or another mirror", d->b->name, (long long)size, (long long)d->size), false;
    if (d->size < 0) d->size = size;
    if (a->status == 206 && a->first >= 0 && (uint64_t)a->first != d->done)
        return qsf_fail(&d->error, QSF_E_IO, "%s: the server answered with byte %lld, asked for %llu",
                        d->b->name, (long long)a->first, (unsigned long long)d->done), false;
    /* a server without ranges sends the file from its beginning */
    d->skip = a->status == 206 ? 0 : d->done;
    return true;
}

/* Adds the bytes that follow. */
static bool add_bytes(void *user, const void *bytes, size_t n)
{
    download *d = user;
    if (!store_write(d->file, d->done, bytes, n, d->why)) return blob_unwritten(d);
    sha256_add(&d->sum, bytes, n);
    d->done += n;
    d->tries->n = 0;
    blob_tell(d, HUB_RUNS);
    return true;
}

static bool take_bytes(void *user, const hub_answer *a, const void *bytes, size_t n)
{
    download *d = user;
    if (!d->checked && !check_answer(d, a)) return false;
    const size_t skip = d->skip < n ? (size_t)d->skip : n;
    d->skip -= skip;
    bytes = (const char *)bytes + skip;
    n -= skip;
    if (d->size >= 0 && n > (uint64_t)d->size - d->done)
        return qsf_fail(&d->error, QSF_E_CORRUPT, "%s: more came than its %lld bytes", d->b->name,
                        (long long)d->size), false;
    return !n || add_bytes(d, bytes, n);
}

/* Adds what an earlier run has left to the sum. */
static bool take_rest(download *d, uint64_t len)
{
    enum { PIECE = 1 << 18 };
    char *piece = len ? malloc(PIECE) : NULL;
    if (!len || (d->size >= 0 && len > (uint64_t)d->size) || !piece) len = 0;
    while (d->done < len) {
        const size_t n = len - d->done < PIECE ? (size_t)(len - d->done) : PIECE;
        if (d->o->stopped && d->o->stopped(d->o->user)) break;
        if (store_read(d->file, d->done, piece, n) != n) break;
        sha256_add(&d->sum, piece, n);
        d->done += n;
    }
    free(piece);
    return store_cut(d->file, d->done, d->why);
}

static qsf_status check_sum(download *d, const char *incomplete, qsf_error *err)
{
    char sum[SHA256_HEX];
    sha256_end_hex(&d->sum, sum);
    if (!*d->b->sha256 || !strcmp(sum, d->b->sha256)) return QSF_OK;
    store_remove(incomplete);
    return qsf_fail(err, QSF_E_CORRUPT, "%s: the SHA-256 of what came is %.64s, the hub has %.64s; nothing "
                    "was kept: try again, or another mirror", d->b->name, sum, d->b->sha256);
}

/* By several connections, as far as they get.  *several: they may be tried again. */
static qsf_status blob_pieces(download *d, bool *several, qsf_error *err)
{
    const hub_pieces_file f = { d->b, (uint64_t)d->size, d->done, add_bytes, d };
    const hub_pieces_end end = hub_pieces_get(d->o, d->h, &f);
    if (end == HUB_PIECES_STOPPED) return qsf_fail(err, QSF_E_CANCELLED, "interrupted");
    if (end == HUB_PIECES_REFUSED) return *err = d->error, err->status;
    *several = end != HUB_PIECES_ONE;
    return QSF_OK;
}

/* The error of a connection, with what it left. */
static qsf_status blob_lost(const download *d, qsf_status st, qsf_error *err)
{
    const qsf_error why = *err;
    if (st != QSF_E_IO || !d->done) return st;
    return qsf_fail(err, st, "%.300s; %.1f MB are kept, and the next try resumes there", why.text,
                    (double)d->done / 1e6);
}

static qsf_status blob_run(download *d, qsf_error *err)
{
    hub_answer a;
    bool again, several = hub_pieces_wanted(d->o, d->size), now = several && d->done < (uint64_t)d->size;
    for (;;) {
        qsf_status st = now ? blob_pieces(d, &several, err) : QSF_OK;
        if (st) return st;
        if (d->size >= 0 && d->done == (uint64_t)d->size) return QSF_OK;
        d->checked = now = false;
        const uint64_t until = several ? hub_pieces_until(d->o, (uint64_t)d->size, d->done) : 0;
        st = hub_http_get_part(d->h, d->b->url, d->done, until, take_bytes, d, &a, &again, err);
        if (d->error.status) {
            *err = d->error;
            return err->status;
        }
        if (!st && (a.status == 200 || a.status == 206)) {
            if (!d->checked && !check_answer(d, &a)) return *err = d->error, err->status;
            if (d->size < 0 || d->done == (uint64_t)d->size) return QSF_OK;
            if ((now = until && d->done == until)) continue;
            st = qsf_fail(err, QSF_E_IO, "%s: the connection ended at %llu of %lld bytes", d->b->name,
                          (unsigned long long)d->done, (long long)d->size);
            again = true;
        }
        if (a.status == 416 && d->done) {            /* the file is shorter than what is here */
            d->done = 0;
            sha256_begin(&d->sum);
            if (!store_cut(d->file, 0, d->why)) return blob_unwritten(d), *err = d->error, err->status;
            continue;
        }
        if (hub_again(d->o, d->h, d->tries, st, &a, again, d->b->name)) continue;
        return st ? blob_lost(d, st, err) : hub_refusal(d->b->url, &a, d->b->page, d->b->has_token, err);
    }
}

/* The lock is held, and the file is not there. */
static qsf_status blob_fetch(const hub_options *o, hub_http *h, const hub_blob *b, qsf_error *err)
{
    char incomplete[HUB_PATH + 16], folder[HUB_PATH];
    uint64_t len;
    hub_tries tries = { 0 };
    download d = { .o = o, .b = b, .h = h, .size = b->size, .tries = &tries,
                   .incomplete = incomplete };
    snprintf(incomplete, sizeof incomplete, "%s.incomplete", b->path);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(b->path, '/') - b->path), b->path);
    sha256_begin(&d.sum);
    if (!store_make(folder, d.why) || !(d.file = store_open(incomplete, &len, d.why))
        || !take_rest(&d, len)) {
        blob_unwritten(&d);
        if (d.file) store_close(d.file, false, d.why);
        return *err = d.error, err->status;
    }
    qsf_status st = QSF_OK;
    if (b->size >= 0 && store_free(folder) < (uint64_t)b->size - d.done) {
        snprintf(d.why, sizeof d.why, "%.1f MB are free", (double)store_free(folder) / 1e6);
        blob_unwritten(&d);
        *err = d.error;
        st = err->status;
    }
    blob_tell(&d, HUB_BEGINS);
    if (!st) st = blob_run(&d, err);
    blob_tell(&d, HUB_ENDS);
    if (!store_close(d.file, !st, d.why) && !st)
        st = (blob_unwritten(&d), *err = d.error, err->status);
    if (!st) hub_pieces_forget(b);
    if (!st) st = check_sum(&d, incomplete, err);
    if (!st && !store_rename(incomplete, b->path, d.why))
        st = (blob_unwritten(&d), *err = d.error, err->status);
    return st;
}

static bool blob_there(const hub_blob *b)
{
    uint64_t size;
    return store_size(b->path, &size) && (b->size < 0 || size == (uint64_t)b->size);
}

qsf_status hub_blob_get(const hub_options *o, hub_http *h, const hub_blob *b, qsf_error *err)
{
    char folder[HUB_PATH], why[STORE_WHY] = "", line[400];
    store_lock *lock = NULL;
    store_held held;
    bool waits = false;
    if (blob_there(b)) return QSF_OK;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(b->lock, '/') - b->lock), b->lock);
    if (!store_make(folder, why))
        return qsf_fail(err, QSF_E_IO, "%s: cannot be made: %s; HF_HOME names another folder for the cache",
                        folder, why);
    while ((held = store_lock_try(b->lock, &lock, why)) == STORE_BUSY) {
        if (!waits) {
            snprintf(line, sizeof line, "%s: another process is downloading it; waiting for that", b->name);
            blob_note(o, line);
        }
        waits = true;
        if (!hub_http_wait(h, 0.1)) return qsf_fail(err, QSF_E_CANCELLED, "interrupted");
    }
    if (held == STORE_FAILED)
        return qsf_fail(err, QSF_E_IO, "%s: cannot be locked: %s; HF_HOME names another folder for the cache",
                        b->lock, why);
    const qsf_status st = blob_there(b) ? QSF_OK : blob_fetch(o, h, b, err);
    store_unlock(lock);
    return st;
}
