/* Finds the tokens that text begins with, by hashing it byte by byte; and RWKV's tokenizer, which
 * always takes the longest one.
 * SPDX-License-Identifier: MIT
 *
 * For each four bytes, a table has the lengths of the tokens that begin with them: only these
 * lengths are looked up, and the search ends at the longest. */
#include "tokens/tokenizer_own.h"

enum { PREFIX_SLOTS = 8192, PREFIX_BYTES = 4, PREFIX_LONG = 63 };

static uint64_t *prefix_slot(const qsf_tokenizer *t, const char *text)
{
    return &t->begins[(qsf_le32((const uint8_t *)text) * 2654435761u) >> 19];       /* 13 bits */
}

/* Whether plain text may become this token. */
static bool prefix_plain(const qsf_tokenizer *t, uint32_t id)
{
    const uint8_t k = t->vocab->types[id];
    if (token_apart(t, id)) return false;
    return k == QSF_TOKEN_NORMAL || k == QSF_TOKEN_USER || k == QSF_TOKEN_UNUSED;
}

qsf_status qsf_prefix_new(qsf_tokenizer *t, qsf_error *err)
{
    const qsf_vocab *v = t->vocab;
    double least = 0;
    t->begins = qsf_arena_array(t->arena, PREFIX_SLOTS, sizeof *t->begins, "token table", err);
    if (!t->begins) return QSF_E_MEMORY;
    for (uint32_t id = 0; id < v->n_tokens; id++) {
        size_t len;
        const char *text = token_text(t, id, &len);
        if (!prefix_plain(t, id)) continue;
        if (len >= PREFIX_BYTES) *prefix_slot(t, text) |= (uint64_t)1 << QSF_MIN(len, PREFIX_LONG);
        if (v->scores && v->types[id] == QSF_TOKEN_NORMAL && v->scores[id] < least) least = v->scores[id];
    }
    t->unknown_score = least - 10;              /* SentencePiece's penalty */
    return QSF_OK;
}

prefix_walk qsf_prefix_begin(const qsf_tokenizer *t, const char *text, size_t len)
{
    prefix_walk p = { text, QSF_MIN(len, t->longest), 0, token_hash_begin, 14 };     /* lengths below four */
    if (len >= PREFIX_BYTES) p.lengths |= *prefix_slot(t, text);
    return p;
}

int32_t qsf_prefix_next(const qsf_tokenizer *t, prefix_walk *p)
{
    while (p->n < p->len && (p->n >= PREFIX_LONG ? p->lengths >> PREFIX_LONG : p->lengths >> (p->n + 1))) {
        p->hash = token_hash_byte(p->hash, p->text[p->n++]);
        if (!(p->lengths >> QSF_MIN(p->n, PREFIX_LONG) & 1)) continue;
        const int32_t id = qsf_token_hashed(t, p->hash, p->text, p->n);
        if (id >= 0 && prefix_plain(t, (uint32_t)id)) return id;
    }
    return -1;
}

int32_t qsf_prefix_longest(const qsf_tokenizer *t, const char *text, size_t len, size_t *n)
{
    prefix_walk p = qsf_prefix_begin(t, text, len);
    int32_t best = -1;
    for (int32_t id; (id = qsf_prefix_next(t, &p)) >= 0; best = id) *n = p.n;
    return best;
}

qsf_status qsf_rwkv_encode(token_work *w, const char *text, size_t len)
{
    for (size_t i = 0, n; i < len; i += n) {
        const int32_t id = qsf_prefix_longest(w->t, text + i, len - i, &n);
        if (id < 0) n = 1;
        if (id >= 0 || w->t->vocab->unk >= 0) token_put(w->sink, id < 0 ? w->t->vocab->unk : id);
    }
    return QSF_OK;
}
