/* An opened model: its file, its tokenizer, its chat template.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MODEL_H
#define QSF_MODEL_H

#include "base/arena.h"
#include "text/chat.h"
#include "model/source.h"
#include "text/tokenizer.h"

struct qsf_model {
    const qsf_platform *platform;
    qsf_source    *source;
    qsf_tokenizer *tokenizer;     /* NULL: the file has no vocabulary */
    char           stop[64];      /* what ends an answer under the model's own template; "": not known */
    int32_t        chat_end;      /* the control token that stop is; -1: it is none */
    qsf_io         io;
    qsf_log_fn     log;
    void          *log_user;
};

/* Whether a caller's file (NULL: none) has a size that its struct can have. */
qsf_status qsf_custom_check(const qsf_custom_file *f, qsf_error *err);

/* Finds what ends an answer under the model's own template (chat.c of this folder). */
void qsf_model_chat(qsf_model *m);

void qsf_log(const qsf_model *m, qsf_log_level level, const char *fmt, ...) QSF_PRINTF(3, 4);

#endif
