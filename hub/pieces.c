/* One large file by several connections.
 * SPDX-License-Identifier: MIT
 *
 * The file is cut into pieces.  Each connection asks for the first piece that no other one has,
 * and keeps in memory what comes; this thread takes the bytes in the file's order.  So
 * PATH.incomplete always has the file's beginning and nothing else, however the program ends:
 * huggingface_hub may resume it, and a model that is used meanwhile gets its first layers first.
 * A window bounds the memory.
 *
 * The first connection begins alone, until a server has shown that it knows ranges.  A connection
 * that gets an error or nothing leaves its piece to the others, and ends.  If all have ended, the
 * caller continues with one, which waits and tries again as for any file. */
#include "pieces.h"

#include "store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES_CONNECTIONS = 4, PIECES_MOST = 16, PIECES_MORE = 2, PIECES_URL = 8192 };
static const uint64_t pieces_file_min = 16 << 20, piece_min = 1 << 20, piece_max = 8 << 20,
    piece_least = 256 << 10, pieces_look_ns = 100000000;

typedef struct piece {
    uint64_t at;
    size_t   len;
    atomic_size_t have;         /* bytes that came */
    bool     taken;             /* a connection asks for it; guarded by the lock */
    uint8_t *bytes;             /* room for the longest piece; NULL: not needed yet */
} piece;

struct pieces;
typedef struct connection {
    struct pieces *all;
    hub_http   *http;
    qsf_thread *thread;
    piece      *now;
    uint64_t    from;           /* of the request */
    bool        checked, wrong; /* the answer's headers */
    char        url[PIECES_URL];        /* of the last bytes; "": the hub is asked for one */
} connection;

typedef struct pieces {
    const hub_pieces_file *f;
    const hub_options *o;
    const hub_http *like;
    const qsf_platform *p;
    size_t      len;            /* of a piece */
    uint64_t    n, first;       /* pieces of the file; the one whose bytes are taken next */
    size_t      used;           /* of that one, bytes that were taken */
    piece       slots[PIECES_MOST + PIECES_MORE];    /* piece k is in slots[k % n_slots] */
    unsigned    n_slots;
    atomic_flag lock;           /* of first, and of the slots but their bytes */
    atomic_uint changes;        /* counted; what waiting threads look at */
    atomic_bool ends, ranges, one;
    atomic_uint n_alive;
    connection *connections[PIECES_MOST];
    unsigned    n_connections, n_started;
} pieces;

/* ---- sizes ---- */

static unsigned pieces_connections(const hub_options *o)
{
    const char *text = getenv("QSF_HUB_CONNECTIONS");
    const long own = text ? strtol(text, NULL, 10) : 0;
    const long n = o->connections ? (long)o->connections : own > 0 ? own : PIECES_CONNECTIONS;
    return (unsigned)(n < PIECES_MOST ? n : PIECES_MOST);
}

/* Bytes of a piece, of which the window has a few. */
static uint64_t piece_len(const hub_options *o, uint64_t size)
{
    const uint64_t most = o->memory / HUB_MEMORY_PART / (pieces_connections(o) + PIECES_MORE);
    uint64_t len = size / 32 < piece_min ? piece_min : size / 32 > piece_max ? piece_max : size / 32;
    if (o->memory && len > most) len = most;
    return len & ~(uint64_t)0xffff;
}

bool hub_pieces_wanted(const hub_options *o, int64_t size)
{
    return size >= (int64_t)pieces_file_min && pieces_connections(o) > 1
        && piece_len(o, (uint64_t)size) >= piece_least;
}

uint64_t hub_pieces_until(const hub_options *o, uint64_t size, uint64_t at)
{
    const uint64_t len = piece_len(o, size), end = (at / len + 1) * len;
    return end < size ? end : size;
}

/* ---- what the threads share ---- */

static void pieces_lock(pieces *a)
{
    while (atomic_flag_test_and_set(&a->lock)) {}
}

static void pieces_change(pieces *a)
{
    atomic_fetch_add(&a->changes, 1);
    a->p->wake32(a->p->user, (uint32_t *)&a->changes, UINT32_MAX);
}

static void pieces_wait(pieces *a, uint32_t seen)
{
    a->p->wait32(a->p->user, (uint32_t *)&a->changes, seen, pieces_look_ns);
}

static piece *piece_of(pieces *a, uint64_t k) { return &a->slots[k % a->n_slots]; }

/* The slot of piece k is that piece's from now on. */
static void piece_begin(pieces *a, uint64_t k)
{
    piece *x = piece_of(a, k);
    const uint64_t at = k * a->len;
    x->at = at > a->f->done ? at : a->f->done;
    x->len = (size_t)(hub_pieces_until(a->o, a->f->size, at) - x->at);
    x->taken = false;
    atomic_store(&x->have, 0);
}

static uint64_t pieces_window(const pieces *a)
{
    return a->n - a->first < a->n_slots ? a->n : a->first + a->n_slots;
}

/* The first piece that is missing and that no connection asks for; NULL: none. */
static piece *piece_next(pieces *a)
{
    piece *found = NULL;
    pieces_lock(a);
    for (uint64_t k = a->first; k < pieces_window(a) && !found; k++) {
        piece *x = piece_of(a, k);
        if (!x->taken && atomic_load(&x->have) < x->len) found = x;
    }
    if (found) found->taken = true;
    atomic_flag_clear(&a->lock);
    return found;
}

static void piece_leave(pieces *a, piece *x)
{
    pieces_lock(a);
    x->taken = false;
    atomic_flag_clear(&a->lock);
    pieces_change(a);
}

/* ---- a connection, on a thread of its own ---- */

static bool connection_stopped(void *user) { return atomic_load(&((connection *)user)->all->ends); }

static bool connection_take(void *user, const hub_answer *answer, const void *bytes, size_t n)
{
    connection *c = user;
    pieces *a = c->all;
    piece *x = c->now;
    const size_t have = atomic_load(&x->have);
    if (!c->checked) {
        c->checked = true;
        c->wrong = answer->status != 206 || answer->first != (int64_t)c->from
            || answer->total != (int64_t)a->f->size || !hub_answer_is(answer, a->f->blob->version);
        if (c->wrong && !atomic_load(&a->ranges)) atomic_store(&a->one, true);
    }
    if (c->wrong) return false;
    atomic_store(&a->ranges, true);
    const size_t take = n < x->len - have ? n : x->len - have;
    memcpy(x->bytes + have, bytes, take);
    atomic_store(&x->have, have + take);
    pieces_change(a);
    return take == n;
}

/* Whether the piece is whole.  The hub is asked for its place once, and again when the address
 * that it redirected to has expired. */
static bool connection_fetch(connection *c)
{
    piece *x = c->now;
    const hub_blob *b = c->all->f->blob;
    if (!x->bytes && !(x->bytes = malloc(c->all->len))) return false;
    for (;;) {
        hub_answer answer;
        qsf_error err;
        bool again;
        const size_t before = atomic_load(&x->have);
        const bool known = *c->url;
        if (before == x->len) return true;
        if (atomic_load(&c->all->ends)) return false;
        c->from = x->at + before;
        c->checked = c->wrong = false;
        (void)hub_http_get_part(c->http, known ? c->url : b->url, c->from, x->at + x->len, connection_take, c,
                                &answer, &again, &err);
        const bool came = atomic_load(&x->have) > before;
        if (!came && !known) return false;
        snprintf(c->url, sizeof c->url, "%s", came ? hub_http_at(c->http) : "");
    }
}

static void connection_main(void *arg)
{
    connection *c = arg;
    pieces *a = c->all;
    bool works = true;
    while (works && !atomic_load(&a->ends)) {
        const uint32_t seen = atomic_load(&a->changes);
        if (!(c->now = piece_next(a))) {
            pieces_wait(a, seen);
            continue;
        }
        works = connection_fetch(c);
        piece_leave(a, c->now);
    }
    atomic_fetch_sub(&a->n_alive, 1);
    pieces_change(a);
}

static bool connection_start(pieces *a)
{
    qsf_error err;
    connection *c = calloc(1, sizeof *c);
    if (!c) return false;
    c->all = a;
    atomic_fetch_add(&a->n_alive, 1);
    if (!hub_http_like(a->like, connection_stopped, c, &c->http, &err)
        && !a->p->thread_start(a->p->user, connection_main, c, &c->thread)) {
        a->connections[a->n_started++] = c;
        return true;
    }
    atomic_fetch_sub(&a->n_alive, 1);
    hub_http_free(c->http);
    free(c);
    return false;
}

/* ---- what came out of order ---- */

typedef struct kept_piece { uint64_t at, len; } kept_piece;      /* before its bytes */

static void pieces_path(const hub_blob *b, char out[HUB_PATH + 16])
{
    snprintf(out, HUB_PATH + 16, "%s.ahead", b->path);
}

void hub_pieces_forget(const hub_blob *b)
{
    char path[HUB_PATH + 16];
    uint64_t size;
    pieces_path(b, path);
    if (store_size(path, &size)) store_remove(path);
}

static void pieces_keep(pieces *a)
{
    char path[HUB_PATH + 16], why[STORE_WHY];
    uint64_t at = 0, had;
    store_file *file = NULL;
    bool whole = true;
    pieces_path(a->f->blob, path);
    for (uint64_t k = a->first + 1; whole && k < pieces_window(a); k++) {
        const piece *x = piece_of(a, k);
        const kept_piece head = { x->at, atomic_load(&x->have) };
        if (!head.len) continue;
        if (!file && !(file = store_open(path, &had, why))) return;
        whole = store_write(file, at, &head, sizeof head, why)
            && store_write(file, at + sizeof head, x->bytes, (size_t)head.len, why);
        at += sizeof head + head.len;
    }
    if (file) whole = store_cut(file, at, why) && store_close(file, false, why) && whole;
    if (!whole) store_remove(path);
}

/* Only whole pieces of this window are of use, and parts of them from their beginning. */
static bool piece_resume(pieces *a, store_file *file, uint64_t at, kept_piece *head)
{
    if (store_read(file, at, head, sizeof *head) != sizeof *head) return false;
    const uint64_t k = head->at / a->len;
    if (head->len > a->len) return false;
    if (k <= a->first || k >= pieces_window(a)) return true;
    piece *x = piece_of(a, k);
    if (head->at != x->at || head->len > x->len || x->bytes || !(x->bytes = malloc(a->len))) return false;
    if (store_read(file, at + sizeof *head, x->bytes, (size_t)head->len) != head->len) return false;
    atomic_store(&x->have, (size_t)head->len);
    return true;
}

static void pieces_resume(pieces *a)
{
    char path[HUB_PATH + 16], why[STORE_WHY];
    uint64_t size, at = 0;
    kept_piece head;
    pieces_path(a->f->blob, path);
    if (!store_size(path, &size)) return;
    store_file *file = store_open(path, &size, why);
    while (file && at < size && piece_resume(a, file, at, &head)) at += sizeof head + head.len;
    if (file) store_close(file, false, why);
    store_remove(path);
}

/* ---- in the file's order ---- */

static void pieces_advance(pieces *a)
{
    pieces_lock(a);
    if (a->n - a->first > a->n_slots) piece_begin(a, a->first + a->n_slots);
    a->first++;
    a->used = 0;
    atomic_flag_clear(&a->lock);
    pieces_change(a);
}

/* Whether the slot may be another piece's: this one is whole, and its connection has left it. */
static bool piece_over(pieces *a, const piece *x, size_t have)
{
    pieces_lock(a);
    const bool over = have == x->len && !x->taken;
    atomic_flag_clear(&a->lock);
    return over;
}

/* Takes what follows.  *none: nothing does, for now. */
static bool pieces_take(pieces *a, bool *none)
{
    *none = a->first == a->n;
    if (*none) return true;
    piece *x = piece_of(a, a->first);
    const size_t have = atomic_load(&x->have), used = a->used;
    const bool over = piece_over(a, x, have);
    *none = have == used && !over;
    if (have > used && !a->f->take(a->f->user, x->bytes + used, have - used)) return false;
    a->used = have;
    if (over) pieces_advance(a);
    return true;
}

static hub_pieces_end pieces_run(pieces *a)
{
    for (;;) {
        bool none;
        const uint32_t seen = atomic_load(&a->changes);
        const bool alive = atomic_load(&a->n_alive) > 0;
        if (!pieces_take(a, &none)) return HUB_PIECES_REFUSED;
        if (a->first == a->n) return HUB_PIECES_WHOLE;
        if (a->o->stopped && a->o->stopped(a->o->user)) return HUB_PIECES_STOPPED;
        if (!none) continue;
        if (atomic_load(&a->one)) return HUB_PIECES_ONE;
        if (!alive) return HUB_PIECES_LEFT;
        if (atomic_load(&a->ranges) && a->n_started < a->n_connections) {
            while (a->n_started < a->n_connections && connection_start(a)) {}
            a->n_connections = a->n_started;         /* others cannot be started */
        }
        pieces_wait(a, seen);
    }
}

static void pieces_end(pieces *a)
{
    atomic_store(&a->ends, true);
    pieces_change(a);
    for (unsigned i = 0; i < a->n_started; i++) {
        a->p->thread_join(a->p->user, a->connections[i]->thread);
        hub_http_free(a->connections[i]->http);
        free(a->connections[i]);
    }
}

hub_pieces_end hub_pieces_get(const hub_options *o, const hub_http *http, const hub_pieces_file *f)
{
    const qsf_platform *p = qsf_platform_native();
    pieces *a = p->thread_start ? calloc(1, sizeof *a) : NULL;
    if (!a) return HUB_PIECES_ONE;
    *a = (pieces){ .f = f, .o = o, .like = http, .p = p, .len = (size_t)piece_len(o, f->size) };
    atomic_flag_clear(&a->lock);
    a->n = (f->size + a->len - 1) / a->len;
    a->first = f->done / a->len;
    a->n_connections = pieces_connections(o);
    a->n_slots = a->n_connections + PIECES_MORE;
    for (uint64_t k = a->first; k < pieces_window(a); k++) piece_begin(a, k);
    pieces_resume(a);
    hub_pieces_end end = connection_start(a) ? pieces_run(a) : HUB_PIECES_ONE;
    pieces_end(a);
    for (bool none = false; !none && end != HUB_PIECES_WHOLE && end != HUB_PIECES_REFUSED; )
        if (!pieces_take(a, &none)) end = HUB_PIECES_REFUSED;
    if (a->first == a->n) end = HUB_PIECES_WHOLE;
    else pieces_keep(a);
    for (unsigned i = 0; i < a->n_slots; i++) free(a->slots[i].bytes);
    free(a);
    return end;
}
