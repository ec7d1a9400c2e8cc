/* Chat templates: which known one a model's Jinja text is, and the text it makes of messages.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CHAT_H
#define QSF_CHAT_H

#include "base/base.h"
#include "base/platform.h"

typedef enum qsf_chat {
    QSF_CHAT_UNKNOWN = 0, QSF_CHAT_CHATML, QSF_CHAT_LLAMA2, QSF_CHAT_LLAMA3, QSF_CHAT_MISTRAL, QSF_CHAT_PHI3,
    QSF_CHAT_GEMMA,
    QSF_CHAT_ZEPHYR, QSF_CHAT_COMMAND_R, QSF_CHAT_DEEPSEEK, QSF_CHAT_PLAIN, QSF_N_CHATS
} qsf_chat;

/* Which kind a template is: the one whose text is the same for every conversation of a fixed set
 * (chat_probe.c); a template that cannot be run, or writes anything else, is QSF_CHAT_UNKNOWN, as
 * is NULL.  bos, eos: the texts of the model's tokens, which the template may write; NULL: there is
 * no such token (bos), the usual one of the kind (eos).  Fails only with QSF_E_MEMORY. */
qsf_status  qsf_chat_detect(const qsf_platform *p, const char *jinja, const char *bos, const char *eos,
                            qsf_chat *out, qsf_error *err);
qsf_chat    qsf_chat_by_name(const char *name);
const char *qsf_chat_name(qsf_chat c);
const char *const *qsf_chat_names(void);             /* NULL-terminated, without "unknown" */
const char *qsf_chat_stop_text(qsf_chat c);          /* NULL: none */
const char *qsf_chat_eos_text(qsf_chat c);           /* what ends a text where the model does not say */
/* jinja: the model's own text, for variants within one kind (default system message, trimming); may
 * be NULL.  eos: the text of the model's end-of-text token, NULL: the usual one of this kind.
 * Otherwise as qsf_chat_render in qsf.h. */
qsf_status  qsf_chat_write(qsf_chat c, const char *jinja, const char *eos, const qsf_message *msgs, size_t n,
                           bool generate, char *out, size_t cap, size_t *len, qsf_error *err);

/* A stretch of the text.  The template's own is to be tokenized with QSF_TOK_PARSE_SPECIAL; a
 * message's content without it, so that "<|im_end|>" in what somebody typed ends nothing. */
typedef struct qsf_chat_span { size_t at, len; bool is_template; } qsf_chat_span;

/* The same, and where the text comes from.
 * At most span_cap spans are written, *n_spans is how many there are: 4 * n + 2 always suffice (an
 * answer may be reasoning and text). */
qsf_status  qsf_chat_write_spans(qsf_chat c, const char *jinja, const char *eos, const qsf_message *msgs,
                                 size_t n, bool generate, char *out, size_t cap, size_t *len,
                                 qsf_chat_span *spans, size_t span_cap, size_t *n_spans, qsf_error *err);

#endif
