/* A model's tokens, as the public header has them, and its log.
 * SPDX-License-Identifier: MIT */
#include "model/model.h"

qsf_status qsf_tokens_encode(const qsf_model *m, const char *text, size_t len, int flags, int32_t *ids,
                             size_t cap, size_t *n, qsf_error *err)
{
    *n = 0;
    if (!m->tokenizer)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s has no vocabulary: give token ids", m->source->path);
    return qsf_tokenizer_encode(m->tokenizer, text, len, flags, ids, cap, n, err);
}

size_t qsf_token_piece(const qsf_model *m, int32_t id, bool special, const char **bytes)
{
    *bytes = "";
    return m->tokenizer ? qsf_tokenizer_piece(m->tokenizer, id, special, bytes) : 0;
}

size_t qsf_token_shown(const qsf_model *m, int32_t id, const char *among, const char **bytes)
{
    const char *plain;
    const size_t n = qsf_token_piece(m, id, true, bytes);
    if (!among || !n || qsf_token_piece(m, id, false, &plain)) return n;
    for (size_t left = strlen(among); left >= n; left--, among++)
        if (!memcmp(among, *bytes, n)) return n;
    return 0;
}

bool    qsf_token_is_end(const qsf_model *m, int32_t id)
{
    return m->tokenizer && (qsf_tokenizer_is_end(m->tokenizer, id) || (id >= 0 && id == m->chat_end));
}
int32_t qsf_token_bos(const qsf_model *m) { return m->source->vocab.bos; }
int32_t qsf_token_eos(const qsf_model *m) { return m->source->vocab.eos; }

/* ---- log ---- */

void qsf_log(const qsf_model *m, qsf_log_level level, const char *fmt, ...)
{
    (void)fmt;
    if (!m->log) return;
    char line[512];
    va_list args;
    va_start(args, fmt);
    qsf_vformat(line, sizeof line, fmt, args);
    va_end(args);
    qsf_visible(line);
    m->log(m->log_user, level, line);
}
