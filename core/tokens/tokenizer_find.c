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
    for (uint32_t i = text_slot(hash) & t->text_mask; t->by_text[i]; i = (i + 1) & t->text_mask) {
        size_t n;
        const char *have = token_text(t, t->by_text[i] - 1, &n);
        if (n == len && !memcmp(have, text, len)) return (int32_t)(t->by_text[i] - 1);
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
        if (len == 0 || qsf_tokenizer_find(t, text, len) >= 0) continue;      /* the first of equals */
        uint32_t i = text_slot(text_hash(text, len)) & t->text_mask;
        while (t->by_text[i]) i = (i + 1) & t->text_mask;
        t->by_text[i] = id + 1;
    }
    return QSF_OK;
}

qsf_status qsf_token_merges_new(qsf_tokenizer *t, qsf_error *err)
{
    const qsf_vocab *v = t->vocab;
    const uint32_t size = table_size(v->n_merges);
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
        memcpy(joined.mem, tl, nl);
        memcpy((char *)joined.mem + nl, tr, nr);
        const int32_t id = qsf_tokenizer_find(t, joined.mem, nl + nr);
        if (id < 0) continue;
        t->merged[m] = (uint32_t)id;
        uint32_t *slot = &t->by_pair[token_pair_slot(t, left, right)];
        if (!*slot) *slot = m + 1;                                            /* the first of equals */
    }
    qsf_token_buffer_done(t, &joined);
    return st;
}
