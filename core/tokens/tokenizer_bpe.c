/* Byte-level BPE: words by the pre-tokenizer's rules, bytes as symbols, best merge first.
 * SPDX-License-Identifier: MIT */
#include "tokens/tokenizer_own.h"

static const uint32_t bpe_none = UINT32_MAX - 1;             /* a byte that the vocabulary has no token for */

static void bpe_offer(const qsf_tokenizer *t, const bpe_symbol *s, int32_t left, int32_t right,
                      merge_candidate *heap, size_t *n)
{
    if (left < 0 || right < 0) return;
    const uint32_t m = t->by_pair[token_pair_slot(t, s[left].id, s[right].id)];
    if (m)
        qsf_merge_push(heap, n, (merge_candidate){ m - 1, (uint32_t)left, (uint32_t)right, s[left].id,
                                               s[right].id });
}

void qsf_bpe_merge(const qsf_tokenizer *t, bpe_symbol *s, size_t len, merge_candidate *heap)
{
    size_t n = 0;
    for (size_t i = 0; i + 1 < len; i++) bpe_offer(t, s, (int32_t)i, (int32_t)i + 1, heap, &n);
    while (n) {
        const merge_candidate c = qsf_merge_pop(heap, &n);
        bpe_symbol *l = &s[c.left], *r = &s[c.right];
        /* stale: one of them has been merged */
        if (l->id != c.left_id || r->id != c.right_id || l->next != (int32_t)c.right) continue;
        l->id = t->merged[c.key];
        l->next = r->next;
        if (r->next >= 0) s[r->next].prev = (int32_t)c.left;
        r->id = UINT32_MAX;
        bpe_offer(t, s, l->prev, (int32_t)c.left, heap, &n);
        bpe_offer(t, s, (int32_t)c.left, l->next, heap, &n);
    }
}

/* The word as the vocabulary spells it, in GPT-2 letters unless it is raw; for whole words that are
 * tokens. */
static int32_t bpe_whole(token_work *w, const char *word, size_t len)
{
    char letters[256];
    size_t n = 0;
    if (w->t->rules & QSF_PRE_RAW) return qsf_tokenizer_find(w->t, word, len);
    if (len > sizeof letters / 2) return -1;
    for (size_t i = 0; i < len; i++) n += qsf_utf8_encode(qsf_byte_letter((uint8_t)word[i]), letters + n);
    return qsf_tokenizer_find(w->t, letters, n);
}

/* The bytes of a word as symbols.  Bytes without a token are lost.  Hugging Face's library drops
 * them before merging, llama.cpp after: this follows the former if the text is UTF-8, and the
 * latter if only llama.cpp accepts the text. */
static size_t bpe_bytes(const token_work *w, const char *word, size_t len, bpe_symbol *s)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        const int32_t id = w->t->byte_tokens[(uint8_t)word[i]];
        if (id < 0 && !w->invalid) continue;
        s[n] = (bpe_symbol){ id < 0 ? bpe_none : (uint32_t)id, (int32_t)n - 1, (int32_t)n + 1 };
        n++;
    }
    return n;
}

/* The characters of a word as symbols, if tokens are plain text; one without a token as its
 * bytes. */
static size_t bpe_characters(const token_work *w, const char *word, size_t len, bpe_symbol *s)
{
    size_t n = 0;
    for (size_t i = 0, used; i < len; i += used) {
        used = QSF_MIN(qsf_utf8_length((uint8_t)word[i]), len - i);
        const int32_t whole = qsf_tokenizer_find(w->t, word + i, used);
        for (size_t k = 0; k < (whole < 0 ? used : 1); k++) {
            const int32_t id = whole < 0 ? w->t->byte_tokens[(uint8_t)word[i + k]] : whole;
            if (id < 0) continue;
            s[n] = (bpe_symbol){ (uint32_t)id, (int32_t)n - 1, (int32_t)n + 1 };
            n++;
        }
    }
    return n;
}

static qsf_status bpe_word(token_work *w, const char *word, size_t len)
{
    const qsf_tokenizer *t = w->t;
    qsf_status st;
    if ((t->rules & QSF_PRE_WHOLE) || ((t->rules & QSF_PRE_LINES) && word[0] == '\n')) {
        const int32_t id = bpe_whole(w, word, len);
        if (id >= 0) return token_put(w->sink, id), QSF_OK;
    }
    /* Each merge takes a pair away and offers at most two: with the first len - 1 the heap never
     * holds more than 3 * len. */
    if ((st = qsf_token_buffer_need(t, &w->symbols, len * sizeof(bpe_symbol), w->err))) return st;
    if ((st = qsf_token_buffer_need(t, &w->heap, 3 * len * sizeof(merge_candidate), w->err))) return st;
    bpe_symbol *s = w->symbols.mem;
    const size_t n = t->rules & QSF_PRE_RAW ? bpe_characters(w, word, len, s) : bpe_bytes(w, word, len, s);
    if (!n) return QSF_OK;
    s[n - 1].next = -1;
    qsf_bpe_merge(t, s, n, w->heap.mem);
    for (int32_t i = 0; i >= 0; i = s[i].next)
        if (s[i].id != bpe_none) token_put(w->sink, (int32_t)s[i].id);
    return QSF_OK;
}

typedef struct bpe_range { token_work *w; const uint32_t *points; } bpe_range;

/* One word of the pre-tokenizer, back as UTF-8. */
static qsf_status bpe_cut(void *user, size_t begin, size_t end)
{
    bpe_range *r = user;
    const qsf_status st = qsf_token_buffer_need(r->w->t, &r->w->text, 4 * (end - begin), r->w->err);
    if (st) return st;
    char *text = r->w->text.mem;
    size_t n = 0;
    const unsigned rules = r->w->t->rules;
    if ((rules & QSF_PRE_NO_SPACES) && qsf_is_space(r->points[begin])) return QSF_OK;
    for (size_t i = begin; i < end; i++) {
        const bool mark = (rules & QSF_PRE_MARKS) && r->points[i] == ' ';
        n += qsf_utf8_encode(mark ? 0x2581 : r->points[i], text + n);
    }
    return bpe_word(r->w, text, n);
}

qsf_status qsf_bpe_encode(token_work *w, const char *text, size_t len)
{
    qsf_status st;
    if ((st = qsf_token_buffer_need(w->t, &w->points, len * sizeof(uint32_t), w->err))) return st;
    uint32_t *points = w->points.mem;
    size_t n = 0, used;
    w->invalid = false;
    for (size_t i = 0; i < len; i += used) {
        const uint32_t c = qsf_utf8_decode(text + i, len - i, &used);
        if ((c == QSF_REPLACEMENT && used == 1) || c - 0xd800 < 0x800) w->invalid = true;
        points[n++] = c;
    }
    if (w->t->vocab->nfc) {
        if ((st = qsf_token_buffer_need(w->t, &w->nfc, 8 * n * sizeof(uint32_t), w->err))) return st;
        uint32_t *work = w->nfc.mem, *composed = work + 4 * n;
        n = qsf_nfc(points, n, work, composed);
        points = composed;
    }
    return qsf_pretokenize(w->t->pre, points, n, bpe_cut, &(bpe_range){ w, points });
}
