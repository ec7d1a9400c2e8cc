/* Chat templates: which known one a model's Jinja text is, and the text it makes of messages.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CHAT_H
#define QSF_CHAT_H

#include "base.h"

typedef enum qsf_chat {
    QSF_CHAT_UNKNOWN = 0, QSF_CHAT_CHATML, QSF_CHAT_LLAMA2, QSF_CHAT_LLAMA3, QSF_CHAT_MISTRAL, QSF_CHAT_PHI3, QSF_CHAT_GEMMA,
    QSF_CHAT_ZEPHYR, QSF_CHAT_COMMAND_R, QSF_CHAT_DEEPSEEK, QSF_CHAT_PLAIN, QSF_N_CHATS
} qsf_chat;

qsf_chat    qsf_chat_detect(const char *jinja);      /* NULL or unknown: QSF_CHAT_UNKNOWN */
qsf_chat    qsf_chat_by_name(const char *name);
const char *qsf_chat_name(qsf_chat c);
const char *const *qsf_chat_names(void);             /* NULL-terminated, without "unknown" */
const char *qsf_chat_stop_text(qsf_chat c);          /* NULL: none */
/* jinja: the model's own text, for variants within one kind (default system message, trimming); may be NULL.
 * Otherwise as qsf_chat_render in qsf.h. */
qsf_status  qsf_chat_write(qsf_chat c, const char *jinja, const qsf_message *msgs, size_t n, bool generate,
                           char *out, size_t cap, size_t *len, qsf_error *err);

/* A stretch of the text.  The template's own is to be tokenized with QSF_TOK_PARSE_SPECIAL; a message's content without it, so
 * that "<|im_end|>" in what somebody typed ends nothing. */
typedef struct qsf_chat_span { size_t at, len; bool is_template; } qsf_chat_span;

/* The same, and where the text comes from.  eos: the text of the model's end-of-text token, NULL: the usual one of this kind.
 * At most span_cap spans are written, *n_spans is how many there are: 4 * n + 2 always suffice (an answer may be reasoning and text). */
qsf_status  qsf_chat_write_spans(qsf_chat c, const char *jinja, const char *eos, const qsf_message *msgs, size_t n, bool generate,
                                 char *out, size_t cap, size_t *len, qsf_chat_span *spans, size_t span_cap, size_t *n_spans, qsf_error *err);

/* Whether Jinja source has this expression, written without white space and line ends (also "\n" in strings) and with single quotes;
 * the source may have them, and double quotes.  chat_write.c reads the variants with it.  jinja may be NULL. */
bool qsf_chat_has(const char *jinja, const char *expression);

#endif
