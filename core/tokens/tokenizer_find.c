/* Finds tokens by their text, and merges by their pair: hash tables.
 * SPDX-License-Identifier: MIT */
#include "tokens/tokenizer_own.h"

static uint32_t text_hash(const char *text, size_t len)
{
    uint32_t h = token_hash_begin;
    for (size_t i = 0; i < len; i++) h = token_hash_byte(h, text[i]);
    return h;
}
static uint32_t text_slot(uint32_t hash) { return hash ^ hash >> 15; }

int32_t qsf_token_hashed(const qsf_tokenizer *t, uint32_t hash, const char *text, size_t len)
{
    const uint32_t slot = text_slot(hash), mask = t->text_mask;
    for (uint32_t i = slot & mask; t->by_text[i]; i = (i + 1) & mask) {
        size_t n;
        if ((t->by_text[i] ^ slot) & ~mask) continue;
        const uint32_t id = (t->by_text[i] & mask) - 1;
        const char *have = token_text(t, id, &n);
        if (n == len && !memcmp(have, text, len)) return (int32_t)id;
    }
    return -1;
}

int32_t qsf_tokenizer_find(const qsf_tokenizer *t, const char *text, size_t len)
{
    return len == 0 || len > t->longest ? -1 : qsf_token_hashed(t, text_hash(text, len), text, len);
}

/* Two thirds full at most: these tables are a good part of what a small budget has. */
static uint32_t table_size(uint32_t n)
{
    uint32_t size = 16;
    while (size < n + (uint64_t)n / 2 && size < 1u << 31) size *= 2;
    return size;
}

qsf_status qsf_token_texts_new(qsf_tokenizer *t, qsf_error *err)
{
    const uint32_t size = table_size(t->vocab->n_tokens);
    t->by_text = qsf_arena_array(t->arena, size, sizeof(uint32_t), "token table", err);
    if (!t->by_text) return QSF_E_MEMORY;
    t->text_mask = size - 1;
    for (uint32_t id = 0; id < t->vocab->n_tokens; id++) {
        size_t len;
        const char *text = token_text(t, id, &len);
        if (len > t->longest) t->longest = (uint32_t)len;
        if (len == 0) continue;
        const uint32_t hash = text_hash(text, len), slot = text_slot(hash);
        if (qsf_token_hashed(t, hash, text, len) >= 0) {                      /* the first of equals */
            t->twins = true;
            continue;
        }
        uint32_t i = slot & t->text_mask;
        while (t->by_text[i]) i = (i + 1) & t->text_mask;
        t->by_text[i] = (id + 1) | (slot & ~t->text_mask);
    }
    return QSF_OK;
}

/* Whether `left` and `right` together are the text of this token, which no other token has. */
static bool token_joins(const qsf_tokenizer *t, uint32_t id, const char *left, size_t n_left,
                        const char *right, size_t n_right)
{
    size_t len;
    if (t->twins || id >= t->vocab->n_tokens) return false;
    const char *text = token_text(t, id, &len);
    return len && len == n_left + n_right && !memcmp(text, left, n_left)
        && !memcmp(text + n_left, right, n_right);
}

/* The token that is `left` and `right` together, -1: none. */
static int32_t token_joined(const qsf_tokenizer *t, token_buffer *work, const char *left, size_t n_left,
                            const char *right, size_t n_right)
{
    memcpy(work->mem, left, n_left);
    memcpy((char *)work->mem + n_left, right, n_right);
    return qsf_tokenizer_find(t, work->mem, n_left + n_right);
}

qsf_status qsf_token_merges_new(qsf_tokenizer *t, qsf_error *err)
{
    const qsf_vocab *v = t->vocab;
    const uint32_t size = table_size(v->n_merges);
    uint32_t next = 0;
    token_buffer joined = { 0 };
    qsf_status st = QSF_OK;
    t->by_pair = qsf_arena_array(t->arena, size, sizeof(uint32_t), "merge table", err);
    t->merged = t->by_pair ? qsf_arena_array(t->arena, v->n_merges, sizeof(uint32_t), "merge table",
                                             err) : NULL;
    if (!t->merged) return QSF_E_MEMORY;
    t->pair_mask = size - 1;
    for (uint32_t m = 0; m < v->n_merges && !st; m++) {
        const uint32_t left = v->merges[2 * m], right = v->merges[2 * m + 1];
        /* a piece that the vocabulary lacks never occurs */
        if (left >= v->n_tokens || right >= v->n_tokens) continue;
        size_t nl, nr;
        const char *tl = token_text(t, left, &nl), *tr = token_text(t, right, &nr);
        if ((st = qsf_token_buffer_need(t, &joined, nl + nr + 1, err))) break;
        if (t->steps && nr >= t->steps->prefix.n && !memcmp(tr, t->steps->prefix.s, t->steps->prefix.n)) {
            tr += t->steps->prefix.n;         /* prefix of pieces that continue a word */
            nr -= t->steps->prefix.n;
        }
        /* mostly, tokens are in the order of their merges */
        const int32_t id = token_joins(t, next, tl, nl, tr, nr) ? (int32_t)next
            : token_joined(t, &joined, tl, nl, tr, nr);
        if (id < 0) continue;
        next = (uint32_t)id + 1;
        t->merged[m] = (uint32_t)id;
        uint32_t *slot = &t->by_pair[token_pair_slot(t, left, right)];
        if (!*slot) *slot = m + 1;                                            /* the first of equals */
    }
    qsf_token_buffer_done(t, &joined);
    return st;
}
