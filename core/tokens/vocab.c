/* A vocabulary's chat templates, of which it may have several by name, and its normaliser.
 * SPDX-License-Identifier: MIT */
#include "tokens/vocab.h"

static bool vocab_name_ok(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const char c = name[i], small = (char)(c | 32);
        if (!(small >= 'a' && small <= 'z') && !(c >= '0' && c <= '9') && c != '_' && c != '-') return false;
    }
    return len && len < QSF_VOCAB_TEMPLATE_NAME;
}

qsf_status qsf_vocab_template(qsf_vocab *v, qsf_arena *a, const char *name, size_t name_len, const char *text,
                              size_t len, qsf_error *err)
{
    char **to = &v->chat_template;
    if (name_len != 7 || memcmp(name, "default", 7)) {
        qsf_vocab_chat *more = &v->more[v->n_more];
        if (!vocab_name_ok(name, name_len) || v->n_more == QSF_VOCAB_TEMPLATES) return QSF_OK;
        memcpy(more->name, name, name_len);
        more->name[name_len] = 0;
        if (qsf_vocab_chat_named(v, more->name)) return QSF_OK;
        to = &more->text;
    }
    if (!(*to = qsf_arena_text(a, text, len, err))) return QSF_E_MEMORY;
    v->n_more += to != &v->chat_template;
    return QSF_OK;
}

const char *qsf_vocab_chat_named(const qsf_vocab *v, const char *name)
{
    for (uint32_t i = 0; i < v->n_more; i++)
        if (!strcmp(name, v->more[i].name)) return v->more[i].text;
    return NULL;
}

qsf_status qsf_vocab_charsmap(qsf_vocab *v, qsf_arena *a, const void *bytes, uint64_t len, const char *path,
                              qsf_error *err)
{
    if (!len) return QSF_OK;
    if (len < 4 || len > UINT32_MAX || qsf_le32(bytes) > len - 4)
        return qsf_fail(err, QSF_E_CORRUPT, "%s: the normaliser's trie does not fit its %llu bytes", path,
                        (unsigned long long)len);
    if (!(v->charsmap = qsf_arena_alloc(a, len, "normaliser", err))) return QSF_E_MEMORY;
    memcpy(v->charsmap, bytes, (size_t)len);
    v->charsmap_len = (uint32_t)len;
    return QSF_OK;
}
