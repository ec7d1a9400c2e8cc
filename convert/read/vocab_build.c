/* A vocabulary in the making: tokens by id, found by their text, and handed to a qsf_vocab in the
 * end.
 * SPDX-License-Identifier: MIT */
#include "read/vocab_build.h"

qsf_status qsf_vocab_build_new(vocab_build *b, const qsf_platform *p, qsf_arena *arena, uint32_t n,
                               qsf_vocab *out, qsf_error *err)
{
    memset(b, 0, sizeof *b);
    b->platform = p;
    b->arena = arena;
    b->out = out;
    b->n = n;
    b->tokens = qsf_alloc_array(p, n, sizeof *b->tokens, "vocabulary", err);
    return b->tokens ? QSF_OK : QSF_E_MEMORY;
}

void qsf_vocab_build_free(vocab_build *b)
{
    if (b->tokens) qsf_dealloc(b->platform, b->tokens, (uint64_t)b->n * sizeof *b->tokens);
    if (b->slots) qsf_dealloc(b->platform, b->slots, (uint64_t)b->n_slots * sizeof *b->slots);
    b->tokens = NULL;
    b->slots = NULL;
}

static qsf_status vocab_beyond(const vocab_build *b, uint64_t id, const char *text, qsf_error *err)
{
    return qsf_fail(err, QSF_E_CORRUPT, "token %llu \"%.40s\" is beyond the embedding of %u rows",
                    (unsigned long long)id, text, (unsigned)b->n);
}

qsf_status qsf_vocab_add(vocab_build *b, uint64_t id, const char *text, size_t len, uint8_t type, float score,
                         qsf_error *err)
{
    if (id >= b->n) return vocab_beyond(b, id, text, err);
    if (b->tokens[id].text)
        return qsf_fail(err, QSF_E_CORRUPT, "token %llu occurs twice", (unsigned long long)id);
    if (len > UINT16_MAX)
        return qsf_fail(err, QSF_E_CORRUPT, "token %llu has %zu bytes", (unsigned long long)id, len);
    b->tokens[id] = (vocab_token){ .text = text, .len = (uint32_t)len, .type = type, .score = score };
    return QSF_OK;
}

static bool vocab_begins(const char *s, size_t len, const char *with)
{
    return len >= strlen(with) && !memcmp(s, with, strlen(with));
}
static bool vocab_ends(const char *s, size_t len, const char *with)
{
    const size_t n = strlen(with);
    return len >= n && !memcmp(s + len - n, with, n);
}

/* Some models leave tokens that steer them unmarked: these are never text. */
static bool vocab_looks_special(const char *s, size_t len)
{
    static const char *const names[] = { "<pad>", "<mask>", "<2mass>", "[@BOS@]" };
    for (size_t i = 0; i < QSF_ARRAY_LEN(names); i++)
        if (len == strlen(names[i]) && !memcmp(s, names[i], len)) return true;
    return (vocab_begins(s, len, "<|") && vocab_ends(s, len, "|>")) ||
           /* full-width bars: DeepSeek */
           (vocab_begins(s, len, "<\xef\xbd\x9c") && vocab_ends(s, len, "\xef\xbd\x9c>")) ||
           (vocab_begins(s, len, "<unused") && vocab_ends(s, len, ">"));
}

/* A user-defined token is searched for in the raw input, so SentencePiece's U+2581 is replaced by
 * the space that it stands for. */
static qsf_status vocab_user_text(vocab_build *b, const char *text, size_t len, vocab_token *t,
                                  qsf_error *err)
{
    static const char mark[] = "\xe2\x96\x81";
    char *copy = qsf_arena_alloc(b->arena, len + 1, "token", err);
    uint32_t n = 0;
    if (!copy) return QSF_E_MEMORY;
    for (size_t i = 0; i < len; ) {
        const bool space = len - i >= 3 && !memcmp(text + i, mark, 3);
        copy[n++] = space ? ' ' : text[i];
        i += space ? 3 : 1;
    }
    t->text = copy;
    t->len = n;
    return QSF_OK;
}

qsf_status qsf_vocab_add_special(vocab_build *b, uint64_t id, const char *text, size_t len, bool special,
                                 qsf_error *err)
{
    if (len > UINT16_MAX)
        return qsf_fail(err, QSF_E_CORRUPT, "added token %llu has %zu bytes", (unsigned long long)id, len);
    if (id >= b->n && !special && !vocab_looks_special(text, len)) return vocab_beyond(b, id, text, err);
    if (id >= b->n) return b->ignored++, QSF_OK;
    vocab_token *t = &b->tokens[id];
    t->score = -1000;
    if (special || vocab_looks_special(text, len)) {
        *t = (vocab_token){ .text = text, .len = (uint32_t)len, .type = QSF_TOKEN_CONTROL, .score = -1000 };
        return QSF_OK;
    }
    t->type = QSF_TOKEN_USER;
    return vocab_user_text(b, text, len, t, err);
}

qsf_status qsf_vocab_add_as_is(vocab_build *b, uint64_t id, const char *text, size_t len, bool special,
                               qsf_error *err)
{
    if (len > UINT16_MAX)
        return qsf_fail(err, QSF_E_CORRUPT, "added token %llu has %zu bytes", (unsigned long long)id, len);
    special |= vocab_looks_special(text, len);
    if (id >= b->n && !special) return vocab_beyond(b, id, text, err);
    if (id >= b->n) return b->ignored++, QSF_OK;
    vocab_token *t = &b->tokens[id];
    const float score = t->text ? t->score : 0;
    *t = (vocab_token){ .text = text, .len = (uint32_t)len, .score = score,
                        .type = special ? QSF_TOKEN_CONTROL : QSF_TOKEN_USER };
    return QSF_OK;
}

bool qsf_vocab_is_byte(const char *text, size_t len)
{
    static const char hex[] = "0123456789ABCDEFabcdef";
    return len == 6 && !memcmp(text, "<0x", 3) && strchr(hex, text[3]) && strchr(hex, text[4]) &&
           text[5] == '>';
}

/* ---- finding by text ------------------------------------------------------------------------- */

static uint64_t vocab_mix(uint64_t h) { return h ^ h >> 29; }

qsf_status qsf_vocab_index(vocab_build *b, qsf_error *err)
{
    uint32_t n = 16;
    while (n < b->n * (uint64_t)2) n *= 2;          /* b->n is at most 2^24 */
    b->slots = qsf_alloc_array(b->platform, n, sizeof *b->slots, "vocabulary index", err);
    if (!b->slots) return QSF_E_MEMORY;
    b->n_slots = n;
    for (uint32_t id = 0; id < b->n; id++) {
        const vocab_token *t = &b->tokens[id];
        /* of equal texts the first counts */
        if (!t->text || qsf_vocab_find2(b, t->text, t->len, "", 0) >= 0) continue;
        uint64_t at = vocab_mix(qsf_fnv1a(QSF_FNV1A, t->text, t->len)) & (n - 1);
        while (b->slots[at]) at = (at + 1) & (n - 1);
        b->slots[at] = id + 1;
    }
    return QSF_OK;
}

int32_t qsf_vocab_find2(const vocab_build *b, const char *a, size_t alen, const char *c, size_t clen)
{
    const uint64_t h = qsf_fnv1a(qsf_fnv1a(QSF_FNV1A, a, alen), c, clen);
    for (uint64_t at = vocab_mix(h) & (b->n_slots - 1); b->slots[at]; at = (at + 1) & (b->n_slots - 1)) {
        const vocab_token *t = &b->tokens[b->slots[at] - 1];
        if (t->len == alen + clen && !memcmp(t->text, a, alen) && !memcmp(t->text + alen, c, clen))
            return (int32_t)(b->slots[at] - 1);
    }
    return -1;
}

int32_t qsf_vocab_scan(const vocab_build *b, const char *text, size_t len)
{
    for (uint32_t id = 0; id < b->n; id++) {
        const vocab_token *t = &b->tokens[id];
        if (t->text && t->len == len && !memcmp(t->text, text, len)) return (int32_t)id;
    }
    return -1;
}

/* ---- the result ------------------------------------------------------------------------------ */

qsf_status qsf_vocab_finish(vocab_build *b, bool with_scores, qsf_error *err)
{
    qsf_vocab *v = b->out;
    uint64_t total = 0;
    char pad[24];
    for (uint32_t id = 0; id < b->n; id++)
        total +=
            b->tokens[id].text ? b->tokens[id].len : qsf_format(pad, sizeof pad, "[PAD%u]", (unsigned)id);
    if (total > UINT32_MAX) return qsf_fail(err, QSF_E_CORRUPT, "the vocabulary's texts have more than 4 GB");
    v->n_tokens = b->n;
    v->text = qsf_arena_alloc(b->arena, total + 1, "vocabulary", err);
    v->at = qsf_arena_array(b->arena, (uint64_t)b->n + 1, sizeof *v->at, "vocabulary", err);
    v->types = qsf_arena_alloc(b->arena, b->n, "vocabulary", err);
    if (with_scores) v->scores = qsf_arena_array(b->arena, b->n, sizeof *v->scores, "vocabulary", err);
    if (!v->text || !v->at || !v->types || (with_scores && !v->scores)) return QSF_E_MEMORY;
    for (uint32_t id = 0; id < b->n; id++) {
        const vocab_token *t = &b->tokens[id];
        const size_t len = t->text ? t->len : qsf_format(pad, sizeof pad, "[PAD%u]", (unsigned)id);
        memcpy(v->text + v->at[id], t->text ? t->text : pad, len);
        v->at[id + 1] = v->at[id] + (uint32_t)len;
        v->types[id] = t->text ? t->type : QSF_TOKEN_UNUSED;
        if (with_scores) v->scores[id] = t->text ? t->score : -10000;
    }
    return QSF_OK;
}
