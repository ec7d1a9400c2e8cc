/* What the reactor exports to its host in addition to qsf.h and qsf_flat.h: memory for the host's
 * arguments, and a chat in calls that take and return texts.
 * SPDX-License-Identifier: MIT
 *
 * The C library's own malloc is not safe for every size: an implementation that adds a header
 * before it checks the limit returns 32 bytes to a host that asks for 2^32 - 1.  An object cannot
 * be larger than PTRDIFF_MAX. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "qsf_flat.h"

#define REACTOR_EXPORT(name) __attribute__((export_name(name)))

REACTOR_EXPORT("malloc") void *reactor_malloc(size_t size)
{
    return size > PTRDIFF_MAX ? NULL : malloc(size ? size : 1);
}
REACTOR_EXPORT("free") void reactor_free(void *p) { free(p); }

/* A text that grows with what is copied into it. */
typedef struct reactor_string { char *text; size_t cap; } reactor_string;

static reactor_string reactor_last, reactor_said;      /* the last result; the last error */
static int32_t reactor_kind;                            /* of the last piece */

/* "": no such text, or no memory for it. */
static const char *reactor_read(reactor_string *to, uint32_t handle, int32_t text, uint32_t i)
{
    for (;;) {
        const int32_t n = qsf_flat_text(handle, text, i, to->text, to->cap);
        if (n < 0) return "";
        if ((size_t)n < to->cap) return to->text;
        char *larger = realloc(to->text, (size_t)n + 1);
        if (!larger) return "";
        *to = (reactor_string){ larger, (size_t)n + 1 };
    }
}
static uint32_t reactor_fail(uint32_t handle)
{
    if (!*reactor_read(&reactor_said, handle, QSF_TEXT_ERROR, 0)) {
        char *text = realloc(reactor_said.text, 32);
        if (text) reactor_said = (reactor_string){ memcpy(text, "an invalid handle", 18), 32 };
    }
    return 0;
}

/* Text i of a handle by its name in docs/flat.md; "": it is not set.  The next call of this
 * function or of qsf_wasi_piece overwrites it. */
REACTOR_EXPORT("qsf_wasi_text") const char *reactor_text(uint32_t handle, const char *name, uint32_t i)
{
    return reactor_read(&reactor_last, handle, qsf_flat_find(name, true), i);
}
/* Number i of a handle by its name; 0 if the handle does not have it. */
REACTOR_EXPORT("qsf_wasi_number") double reactor_number(uint32_t handle, const char *name, uint32_t i)
{
    return qsf_flat_number(handle, qsf_flat_find(name, false), i);
}
/* Why the last qsf_wasi_open or qsf_wasi_ask returned 0, or qsf_wasi_piece an empty text; "": the
 * answer has ended. */
REACTOR_EXPORT("qsf_wasi_error") const char *reactor_error(void)
{
    return reactor_said.text ? reactor_said.text : "";
}

/* A conversation with the model in a file.  options: of contexts, NULL: none.  0: see
 * qsf_wasi_error.  qsf_flat_free frees the conversation, and the model with the last one. */
REACTOR_EXPORT("qsf_wasi_open") uint32_t reactor_open(const char *path, const char *options)
{
    const uint32_t model = qsf_flat_model_new(NULL, NULL);
    uint32_t context = 0, out = 0, wrong = model;
    if (reactor_said.text) *reactor_said.text = 0;
    if (model && qsf_flat_model_open(model, path, NULL) == QSF_OK) {
        wrong = context = qsf_flat_context_new(model);
        if (context && qsf_flat_context_open(context, options) == QSF_OK)
            wrong = out = qsf_flat_conversation_new(context, NULL);
    }
    if (!out || qsf_flat_status(out) != QSF_OK) {
        reactor_fail(wrong);
        qsf_flat_free(out);
        out = 0;
    }
    qsf_flat_free(context);
    qsf_flat_free(model);
    return out;
}

/* Begins an answer to all messages so far, a list in JSON.  options: of answers, NULL: none.
 * Returns the answer, for qsf_wasi_piece; qsf_flat_free frees it.  0: see qsf_wasi_error. */
REACTOR_EXPORT("qsf_wasi_ask") uint32_t reactor_ask(uint32_t conversation, const char *messages,
                                                    const char *options)
{
    if (reactor_said.text) *reactor_said.text = 0;
    if (qsf_flat_conversation_json(conversation, messages, strlen(messages)) != QSF_OK)
        return reactor_fail(conversation);
    const uint32_t answer = qsf_flat_answer_new(conversation, options);
    if (!answer) return reactor_fail(conversation);
    if (qsf_flat_status(answer) != QSF_OK || qsf_flat_answer_begin(answer) != QSF_OK) {
        reactor_fail(answer);
        qsf_flat_free(answer);
        return 0;
    }
    return answer;
}

/* Computes until the answer has more text, and returns that.  "": the answer has ended, or failed:
 * see qsf_wasi_error. */
REACTOR_EXPORT("qsf_wasi_piece") const char *reactor_piece(uint32_t answer)
{
    for (;;) {
        const int32_t kind = qsf_flat_answer_event(answer);
        if (kind > 0) {
            const char *text = reactor_read(&reactor_last, answer, QSF_TEXT_EVENT, 0);
            reactor_kind = kind;
            if (*text) return text;
            continue;
        }
        if (qsf_flat_number(answer, QSF_NUMBER_END, 0) != 0) return "";
        int32_t st = qsf_flat_answer_next(answer);
        if (st == QSF_PENDING) st = qsf_flat_answer_step(answer) & ~QSF_FLAT_WAITING;
        if (st != QSF_OK && st != QSF_PENDING) {
            reactor_fail(answer);
            return "";
        }
    }
}
/* What the last piece belongs to: a qsf_answer_event_type, such as text or reasoning. */
REACTOR_EXPORT("qsf_wasi_kind") int32_t reactor_piece_kind(void) { return reactor_kind; }
