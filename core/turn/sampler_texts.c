/* What a sampler knows of texts: those that are banned, those that break a repetition, and the end
 * of what was accepted.
 * SPDX-License-Identifier: MIT */
#include "turn/sampler_own.h"

enum { SAMPLER_TEXT_MOST = 1024 };

uint32_t qsf_sampler_piece(const qsf_sampler *s, int32_t id, const char **piece)
{
    *piece = "";
    return s->tokenizer ? (uint32_t)qsf_tokenizer_piece(s->tokenizer, id, false, piece) : 0;
}

const char *qsf_sampler_list_next(const sampler_texts *l, uint32_t *at, uint32_t *len)
{
    if (*at >= l->len) return NULL;
    *len = qsf_le16(l->bytes + *at);
    const char *text = (const char *)l->bytes + *at + 2;
    *at += 2 + *len;
    return text;
}

static bool text_within(const char *text, uint32_t len, const char *what, uint32_t n)
{
    for (uint32_t i = 0; i + n <= len; i++)
        if (text[i] == *what && !memcmp(text + i, what, n)) return true;
    return false;
}

bool qsf_sampler_list_within(const sampler_texts *l, const char *text, uint32_t len)
{
    const char *what;
    for (uint32_t at = 0, n; (what = qsf_sampler_list_next(l, &at, &n));)
        if (text_within(text, len, what, n)) return true;
    return false;
}

/* Room for the tail that the longest text needs; what is there stays. */
static qsf_status sampler_tail_room(qsf_sampler *s, qsf_error *err)
{
    const uint32_t cap = 2 * QSF_MAX(s->banned.longest, s->breakers.longest);
    if (cap <= s->cap_tail) return QSF_OK;
    char *tail = qsf_alloc(s->platform, cap, "texts", err);
    if (!tail) return QSF_E_MEMORY;
    if (s->n_tail) memcpy(tail, s->tail, s->n_tail);
    qsf_dealloc(s->platform, s->tail, s->cap_tail);
    s->tail = tail;
    s->cap_tail = cap;
    return QSF_OK;
}

static qsf_status sampler_list_add(qsf_sampler *s, sampler_texts *l, const char *text, size_t len,
                                   qsf_error *err)
{
    if (!s->tokenizer)
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "the model has no vocabulary: strings cannot be searched for");
    if (len == 0 || len > SAMPLER_TEXT_MOST)
        return qsf_fail(err, QSF_E_ARGUMENT, "a string of %llu bytes; it must have 1 to %d",
                        (unsigned long long)len, SAMPLER_TEXT_MOST);
    if (l->cap - l->len < len + 2) {
        const uint32_t cap = 2 * l->cap + 2 + (uint32_t)len;
        uint8_t *bytes = qsf_alloc(s->platform, cap, "texts", err);
        if (!bytes) return QSF_E_MEMORY;
        if (l->len) memcpy(bytes, l->bytes, l->len);
        qsf_dealloc(s->platform, l->bytes, l->cap);
        l->bytes = bytes;
        l->cap = cap;
    }
    const uint32_t longest = l->longest;
    l->longest = QSF_MAX(longest, (uint32_t)len);
    const qsf_status st = sampler_tail_room(s, err);
    if (st) {
        l->longest = longest;
        return st;
    }
    qsf_put16(l->bytes + l->len, (uint16_t)len);
    memcpy(l->bytes + l->len + 2, text, len);
    l->len += 2 + (uint32_t)len;
    return QSF_OK;
}

enum { STARTS = 257 };

/* Sorts the tokens by the first byte of their text (counting sort). */
static qsf_status sampler_starts(qsf_sampler *s, qsf_error *err)
{
    const char *piece;
    uint32_t next[STARTS] = { 0 };
    if (s->starts) return QSF_OK;
    s->starts = qsf_alloc_array(s->platform, STARTS + (size_t)s->n_vocab, sizeof *s->starts, "texts", err);
    if (!s->starts) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < s->n_vocab; i++)
        if (qsf_sampler_piece(s, (int32_t)i, &piece)) next[(uint8_t)*piece + 1]++;
    for (uint32_t b = 1; b < STARTS; b++) next[b] += next[b - 1];
    memcpy(s->starts, next, sizeof next);
    for (uint32_t i = 0; i < s->n_vocab; i++)
        if (qsf_sampler_piece(s, (int32_t)i, &piece)) s->starts[STARTS + next[(uint8_t)*piece]++] = i;
    return QSF_OK;
}

const uint32_t *qsf_sampler_starting(const qsf_sampler *s, uint8_t byte, uint32_t *n)
{
    *n = s->starts[byte + 1] - s->starts[byte];
    return s->starts + STARTS + s->starts[byte];
}

static size_t banned_words(const qsf_sampler *s) { return (size_t)qsf_ceil_div(s->n_vocab, 32); }

qsf_status qsf_sampler_ban(qsf_sampler *s, const char *text, size_t len, qsf_error *err)
{
    if (!s->banned_whole)
        s->banned_whole = qsf_alloc_array(s->platform, banned_words(s), sizeof(uint32_t), "texts", err);
    if (!s->banned_whole) return QSF_E_MEMORY;
    qsf_status st = sampler_starts(s, err);
    if (st || (st = sampler_list_add(s, &s->banned, text, len, err))) return st;
    for (uint32_t i = 0; i < s->n_vocab; i++) {
        const char *piece;
        const uint32_t n = qsf_sampler_piece(s, (int32_t)i, &piece);
        if (n >= len && text_within(piece, n, text, (uint32_t)len)) s->banned_whole[i / 32] |= 1u << i % 32;
    }
    return QSF_OK;
}

qsf_status qsf_sampler_breaker(qsf_sampler *s, const char *text, size_t len, qsf_error *err)
{
    if (len) return sampler_list_add(s, &s->breakers, text, len, err);
    s->breakers.len = 0;
    return QSF_OK;
}

void qsf_sampler_texts_free(qsf_sampler *s)
{
    qsf_dealloc(s->platform, s->banned.bytes, s->banned.cap);
    qsf_dealloc(s->platform, s->breakers.bytes, s->breakers.cap);
    qsf_dealloc(s->platform, s->tail, s->cap_tail);
    if (s->starts) qsf_dealloc(s->platform, s->starts, (STARTS + (size_t)s->n_vocab) * sizeof *s->starts);
    if (s->banned_whole) qsf_dealloc(s->platform, s->banned_whole, banned_words(s) * sizeof *s->banned_whole);
}

/* Whether a breaker that begins in the tail ends in the piece after it. */
static bool breaker_spans(const qsf_sampler *s, const char *piece, uint32_t len)
{
    const char *what;
    for (uint32_t at = 0, n; (what = qsf_sampler_list_next(&s->breakers, &at, &n));)
        for (uint32_t before = 1; before < n && before <= s->n_tail; before++)
            if (n - before <= len && !memcmp(s->tail + s->n_tail - before, what, before)
                && !memcmp(piece, what + before, n - before)) return true;
    return false;
}

bool qsf_sampler_text(qsf_sampler *s, int32_t token)
{
    const char *piece;
    if (!s->cap_tail) return false;
    const uint32_t n = qsf_sampler_piece(s, token, &piece), half = s->cap_tail / 2;
    const bool breaks = qsf_sampler_list_within(&s->breakers, piece, n) || breaker_spans(s, piece, n);
    const uint32_t take = QSF_MIN(n, half);
    if (s->n_tail + take > s->cap_tail) {
        memmove(s->tail, s->tail + s->n_tail - half, half);
        s->n_tail = half;
    }
    if (take) memcpy(s->tail + s->n_tail, piece + n - take, take);
    s->n_tail += take;
    s->n_answer = QSF_MIN(s->n_answer + take, half);
    return breaks;
}
