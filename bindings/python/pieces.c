/* Batches of answers, and the pieces that come of them, in few calls: between two calls the pool's
 * threads wait for Python.
 * SPDX-License-Identifier: MIT */
#include "qsf_python.h"
#include "base/host.h"

#include <stdlib.h>
#include <string.h>

enum {
    PAUSE_NS = 20000000         /* a host looks for an interrupt at least this often */
};

/* ---- bytes ---- */

static bool pieces_room(qsf_python_bytes *b, size_t more)
{
    if (more <= b->cap - b->len) return true;
    const size_t cap = 2 * b->cap + more + 256;
    char *at = realloc(b->at, cap);
    if (!at) return false;
    b->at = at;
    b->cap = cap;
    return true;
}

static bool pieces_append(qsf_python_bytes *b, const void *bytes, size_t len)
{
    if (!pieces_room(b, len)) return false;
    memcpy(b->at + b->len, bytes, len);
    b->len += len;
    return true;
}

/* Appends the text of an answer's event. */
static bool pieces_text(qsf_python_bytes *b, uint32_t answer)
{
    for (;;) {
        const size_t room = b->cap - b->len;
        const int32_t n = qsf_flat_text(answer, QSF_TEXT_EVENT, 0, room ? b->at + b->len : NULL, room);
        if (n <= 0) return true;
        if ((size_t)n < room) {
            b->len += (size_t)n;
            return true;
        }
        if (!pieces_room(b, (size_t)n + 1)) return false;
    }
}

/* ---- pieces ---- */

static bool pieces_logprobs(qsf_python_pieces *p, qsf_python_piece *piece)
{
    int32_t tokens[QSF_LOGPROBS_MOST + 1];
    float values[QSF_LOGPROBS_MOST + 1];
    const int32_t n = qsf_flat_answer_logprobs(piece->answer, tokens, values, QSF_LOGPROBS_MOST + 1);
    for (int32_t i = 0; i < n; i++) {
        const qsf_python_logprob one = { tokens[i], values[i] };
        if (!pieces_append(&p->logprobs, &one, sizeof one)) return false;
        piece->n_logprobs++;
    }
    return true;
}

/* Its events; false: out of memory. */
static bool pieces_events(qsf_python_pieces *p, qsf_python_piece *piece)
{
    const size_t text = p->text.len, reasoning = p->reasoning.len;
    bool fits = true;
    for (int32_t event; fits && (event = qsf_flat_answer_event(piece->answer)) != 0;) {
        if (event == QSF_ANSWER_CALL_END) piece->n_calls++;
        else if (event == QSF_ANSWER_TEXT) fits = pieces_text(&p->text, piece->answer);
        else if (event == QSF_ANSWER_REASONING) fits = pieces_text(&p->reasoning, piece->answer);
    }
    piece->n_text = (uint32_t)(p->text.len - text);
    piece->n_reasoning = (uint32_t)(p->reasoning.len - reasoning);
    return fits;
}

/* The last piece, if one with only text and a token may be added to it. */
static qsf_python_piece *pieces_last(const qsf_python_pieces *p, const qsf_python_answer *a,
                                     const qsf_python_piece *next)
{
    if (!(a->flags & QSF_PYTHON_WHOLE) || !p->pieces.len || next->end || next->n_calls || next->n_logprobs)
        return NULL;
    qsf_python_piece *last = (qsf_python_piece *)(void *)(p->pieces.at + p->pieces.len) - 1;
    return last->answer != a->handle || last->status || last->end || last->n_calls || last->n_logprobs
        ? NULL : last;
}

/* What has come of the last batch for an answer; whether the host must see it before the next. */
static bool pieces_take(qsf_python_pieces *p, const qsf_python_answer *a)
{
    for (;;) {
        const int32_t st = qsf_flat_answer_next(a->handle);
        if (st == QSF_PENDING) return false;
        qsf_python_piece next = { .answer = a->handle, .status = st };
        if (!st) {
            next.end = (int32_t)qsf_flat_number(a->handle, QSF_NUMBER_END, 0);
            next.token = (int32_t)qsf_flat_number(a->handle, QSF_NUMBER_TOKEN, 0);
            next.n_tokens = !next.end;
            if (!pieces_events(p, &next)
                || (!next.end && a->flags & QSF_PYTHON_LOGPROBS && !pieces_logprobs(p, &next)))
                next.status = QSF_E_MEMORY;
        }
        qsf_python_piece *last = next.status ? NULL : pieces_last(p, a, &next);
        if (last) {
            last->n_tokens += next.n_tokens;
            last->n_text += next.n_text;
            last->n_reasoning += next.n_reasoning;
            last->token = next.token;
        } else if (!pieces_append(&p->pieces, &next, sizeof next)) {
            p->status = QSF_E_MEMORY;
            return true;
        }
        if (next.status || next.end) return true;
        if (next.n_calls) p->stop = 1;
    }
}

/* ---- batches ---- */

static qsf_status pieces_batch(uint32_t context, const uint32_t *handles, size_t n, bool may_pause)
{
    const uint64_t begin = qsf_now(qsf_platform_native());
    for (;;) {
        const int32_t result = qsf_flat_step(context, handles, n);
        qsf_status st = (qsf_status)(result & (QSF_FLAT_WAITING - 1));
        if (result & QSF_FLAT_WAITING) {
            const int32_t waited = qsf_flat_wait(context);
            if (waited) st = (qsf_status)waited;
        }
        if (st != QSF_PENDING) return st;
        if (may_pause && qsf_now(qsf_platform_native()) - begin > PAUSE_NS) return st;
    }
}

int32_t qsf_python_run(qsf_python_pieces *p, uint32_t context, const qsf_python_answer *answers, size_t n,
                       uint32_t more_us)
{
    const uint64_t begin = qsf_now(qsf_platform_native());
    uint32_t handles[QSF_PYTHON_ANSWERS];
    if (n > QSF_PYTHON_ANSWERS) return QSF_E_ARGUMENT;
    if (p->status || p->pieces.len) return p->status;
    p->text.len = p->reasoning.len = p->logprobs.len = 0;
    for (size_t i = 0; i < n; i++) handles[i] = answers[i].handle;
    p->stop = 0;
    for (bool first = true; !p->stop; first = false) {
        const qsf_status st = pieces_batch(context, handles, n, first);
        if (st == QSF_PENDING) return (int32_t)st;
        if (st && (first || st != QSF_E_FULL)) p->status = (int32_t)st;
        if (st) break;
        for (size_t i = 0; i < n; i++) if (pieces_take(p, &answers[i])) p->stop = 1;
        if (*(volatile uint8_t *)&p->hurry || !p->pieces.len
            || qsf_now(qsf_platform_native()) - begin >= (uint64_t)more_us * 1000) break;
    }
    return p->status;
}

void qsf_python_pieces_free(qsf_python_pieces *p)
{
    qsf_python_bytes *all[] = { &p->pieces, &p->text, &p->reasoning, &p->logprobs };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]->at);
        *all[i] = (qsf_python_bytes){ .at = NULL };
    }
}
