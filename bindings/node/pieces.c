/* Batches of answers one after another within one call, with their pieces: JavaScript runs, and its
 * caches and those of the weights are exchanged, once for several tokens; and it runs only for as
 * long as sending them takes, if nothing else waits for it.
 * SPDX-License-Identifier: MIT */
#include "node.h"
#include "base/host.h"

#include <stdatomic.h>
#include <stdlib.h>

#define NODE_PIECES_NS 40000000u        /* a piece waits for those after it at most as long */
#define NODE_BATCH_NS 20000000u         /* if a batch takes longer, JavaScript runs after each */

/* What the list has of a piece, before its events, and of an event, before its text and its id. */
typedef struct piece_head { uint32_t which; int32_t token, end; uint32_t n_events; } piece_head;
typedef struct event_head { int32_t type; uint32_t call, len, id_len; } event_head;

/* ---- the list ---- */

static bool list_add(node_list *l, const void *bytes, size_t len)
{
    if (len > l->cap - l->len) {
        const size_t cap = QSF_MAX(4096, 2 * (l->len + len));
        uint8_t *more = realloc(l->bytes, cap);
        if (!more) return false;
        l->bytes = more;
        l->cap = cap;
    }
    if (len) memcpy(l->bytes + l->len, bytes, len);
    l->len += len;
    return true;
}

static const uint8_t *list_take(node_list *l, void *out, size_t len)
{
    const uint8_t *from = l->bytes + l->at;
    if (out) memcpy(out, from, len);
    l->at += len;
    return from;
}

/* ---- filling it ---- */

static bool add_event(node_list *l, const flat_answer *a, int32_t type)
{
    const qsf_answer_event *ev = &a->event;
    const event_head head = { type, ev->call, (uint32_t)ev->len, (uint32_t)ev->id_len };
    return list_add(l, &head, sizeof head) && list_add(l, ev->text, ev->len)
        && list_add(l, ev->id, ev->id_len);
}

/* The pieces of an answer after a batch; false: out of memory.  *stop: it has ended or failed, or
 * has parts of a tool call, which JavaScript completes before the next batch. */
static bool add_pieces(node_list *l, uint32_t which, uint32_t handle, bool *stop)
{
    const flat_answer *a = qsf_flat_at(handle, FLAT_ANSWER);
    for (int32_t st; (st = qsf_flat_answer_next(handle)) != QSF_PENDING;) {
        const size_t at = l->len;
        piece_head head = { which, a->piece.token, st ? -st : (int32_t)a->piece.end, 0 };
        if (!list_add(l, &head, sizeof head)) return false;
        for (int32_t type; !st && (type = qsf_flat_answer_event(handle)) != 0; head.n_events++) {
            *stop |= type != QSF_ANSWER_TEXT && type != QSF_ANSWER_REASONING;
            if (!add_event(l, a, type)) return false;
        }
        memcpy(l->bytes + at, &head, sizeof head);
        if (!head.end) continue;
        *stop = true;
        break;
    }
    return true;
}

/* Whether messages wait for JavaScript. */
static bool pieces_awaited(const node_engine *e)
{
    const _Atomic int32_t *two = e->watched;
    return two && atomic_load(&two[0]) != atomic_load(&two[1]);
}

/* JavaScript takes what there is; whether batches may follow. */
static bool pieces_give(node_engine *e)
{
    double more = 0;
    e->gives = true;
    const bool done = node_js(e, NODE_PIECES, NULL, NULL, 0, &more);
    e->gives = false;
    return done && more == 1;
}

static int32_t one_batch(const node_value *v) { return qsf_flat_step(v[0].u, v[1].p, v[2].n); }

/* A batch after the first one is finished in any case: it is only begun if that takes little
 * time.  The list of answers is JavaScript's, which may have changed it meanwhile. */
int32_t node_pieces(node_engine *e, const node_value *v)
{
    const uint32_t *answers = v[1].p;
    const flat_context *c = qsf_flat_context_at(v[0].u);
    uint64_t begin = qsf_now(qsf_platform_native());
    for (uint32_t done = 1; ; done++) {
        int32_t st;
        bool stop = false;
        for (size_t i = 0; i < v[2].n; i++) if (!node_has(e, answers[i])) return QSF_E_ARGUMENT;
        do st = node_steps(e, v, one_batch);
        while (st == QSF_PENDING && done > 1);
        if (st) return st;
        for (size_t i = 0; i < v[2].n; i++)
            if (!add_pieces(&e->pieces, (uint32_t)i, answers[i], &stop)) return QSF_E_MEMORY;
        const uint64_t now = qsf_now(qsf_platform_native()), took = now - c->began_ns;
        if (stop || done >= v[3].u || took > NODE_BATCH_NS || pieces_awaited(e)) return QSF_OK;
        if (now - begin + took <= NODE_PIECES_NS) continue;
        if (!pieces_give(e)) return QSF_OK;
        begin = now;
    }
}

/* ---- its elements for JavaScript ---- */

typedef struct js_list { napi_env env; napi_value array; uint32_t n; bool failed; } js_list;

static void put_number(js_list *js, double number)
{
    napi_value value;
    js->failed |= napi_create_double(js->env, number, &value)
        || napi_set_element(js->env, js->array, js->n++, value);
}
static void put_text(js_list *js, const uint8_t *text, size_t len)
{
    napi_value value;
    js->failed |= napi_create_string_utf8(js->env, (const char *)text, len, &value)
        || napi_set_element(js->env, js->array, js->n++, value);
}

napi_value node_pieces_taken(node_engine *e)
{
    node_list *l = &e->pieces;
    js_list js = { .env = e->env };
    js.failed = napi_create_array(js.env, &js.array);
    for (l->at = 0; l->at < l->len && !js.failed;) {
        piece_head piece;
        list_take(l, &piece, sizeof piece);
        put_number(&js, piece.which);
        put_number(&js, piece.token);
        put_number(&js, piece.end);
        put_number(&js, piece.n_events);
        for (uint32_t i = 0; i < piece.n_events && !js.failed; i++) {
            event_head event;
            list_take(l, &event, sizeof event);
            put_number(&js, event.type);
            put_text(&js, list_take(l, NULL, event.len), event.len);
            put_number(&js, event.call);
            put_text(&js, list_take(l, NULL, event.id_len), event.id_len);
        }
    }
    l->len = 0;
    return js.failed ? NULL : js.array;
}
