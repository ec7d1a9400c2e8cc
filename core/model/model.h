/* An opened model: its file, its tokenizer, its chat template.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MODEL_H
#define QSF_MODEL_H

#include "base/arena.h"
#include "chat/chat.h"
#include "model/source.h"
#include "grammar/grammar.h"
#include "tokens/tokenizer.h"

#include <stdatomic.h>

struct qsf_model {
    const qsf_platform *platform;
    qsf_source    *source;
    qsf_tokenizer *tokenizer;     /* NULL: the file has no vocabulary */
    _Atomic(qsf_token_tree *) token_tree;       /* NULL until it is needed */
    char           stop[64];      /* what ends an answer under the model's own template; "": not known */
    int32_t        chat_end;      /* the control token equal to stop; -1: stop is not one */
    atomic_size_t  adapter_bytes; /* of those that are loaded */
    qsf_io         io;
    qsf_log_fn     log;
    void          *log_user;
};

/* Whether a caller's file (NULL: none) has a size that its struct can have. */
qsf_status qsf_custom_check(const qsf_custom_file *f, qsf_error *err);

/* Finds what ends an answer under the model's own template (model_chat.c).  A template that does
 * not run is none; only QSF_E_MEMORY is an error. */
qsf_status qsf_model_chat(qsf_model *m, qsf_error *err);
/* How calls are written under opts' template; m may be NULL if opts has its text. */
struct qsf_tool_form;
qsf_status qsf_model_tool_form(const qsf_model *m, const qsf_chat_options *opts, struct qsf_tool_form *out,
                               qsf_error *err);
/* As qsf_chat_encode_json, for plain messages. */
qsf_status qsf_chat_encode_plain(const qsf_model *m, const qsf_message *msgs, size_t n,
                                 const qsf_chat_options *opts, int32_t *ids, size_t cap, size_t *n_ids,
                                 qsf_error *err);

/* As qsf_token_piece with special, but a control token has its text only if that is a part of
 * `among`; NULL: always. */
size_t qsf_token_shown(const qsf_model *m, int32_t id, const char *among, const char **bytes);

/* The vocabulary as a tree, made at its first use; contexts on several threads may ask.
 * QSF_E_UNSUPPORTED: the model has no vocabulary. */
qsf_status qsf_model_token_tree(qsf_model *m, const qsf_token_tree **out, qsf_error *err);

void qsf_log(const qsf_model *m, qsf_log_level level, const char *fmt, ...) QSF_PRINTF(3, 4);

#endif
