/* SentencePiece: characters joined by the score of what they become, bytes for what the vocabulary
 * lacks.
 * SPDX-License-Identifier: MIT
 *
 * Joins in one part of the text do not affect another if no token reaches across: in most
 * vocabularies tokens have a space only at their beginning, so each word is joined on its own, with
 * a heap that stays small. */
#include "tokens/tokenizer_own.h"

static const char spm_space[] = "\xe2\x96\x81";              /* U+2581 */

void qsf_spm_new(qsf_tokenizer *t)
{
    for (uint32_t id = 0; id < t->vocab->n_tokens; id++) {
        size_t len;
        const char *text = token_text(t, id, &len), *end = text + len, *at = text;
        while (at < end && (at = memchr(at + 1, spm_space[0], (size_t)(end - at - 1))) != NULL)
            if (end - at >= 3 && !memcmp(at, spm_space, 3))
                t->before_space[(uint8_t)at[-1] / 32] |= 1u << (uint8_t)at[-1] % 32;
    }
}

/* len 0: merged into the one before */
typedef struct spm_symbol { uint32_t at, len; int32_t prev, next; } spm_symbol;

/* Bytes of a first symbol, by its first byte; a byte that cannot begin a character is a symbol of
 * its own, except that from 0xf8 on it takes the next three bytes, as in llama.cpp. */
static size_t spm_length(uint8_t lead) { return lead >= 0xf8 ? 4 : qsf_utf8_length(lead); }

/* Scores as keys: larger scores first. */
static uint64_t spm_key(float score)
{
    const uint32_t u = qsf_f32_bits(score + 0.0f),       /* -0 is 0 */
                    ordered = u & 0x80000000u ? ~u : u | 0x80000000u;
    return UINT32_MAX - ordered;
}

static void spm_offer(const token_work *w, const char *text, const spm_symbol *s, int32_t left, int32_t right,
                      merge_candidate *heap, size_t *n)
{
    if (left < 0 || right < 0) return;
    const int32_t id = qsf_tokenizer_find(w->t, text + s[left].at, s[left].len + s[right].len);
    if (id < 0) return;
    const float score = w->t->vocab->scores ? w->t->vocab->scores[id] : 0;
    qsf_merge_push(heap, n, (merge_candidate){ spm_key(score), (uint32_t)left, (uint32_t)right, s[left].len,
                                           s[right].len });
}

static void spm_merge(const token_work *w, const char *text, spm_symbol *s, size_t len, merge_candidate *heap)
{
    size_t n = 0;
    for (size_t i = 0; i + 1 < len; i++) spm_offer(w, text, s, (int32_t)i, (int32_t)i + 1, heap, &n);
    while (n) {
        const merge_candidate c = qsf_merge_pop(heap, &n);
        spm_symbol *l = &s[c.left], *r = &s[c.right];
        /* stale: one of them has been merged */
        if (l->len != c.left_id || r->len != c.right_id || l->next != (int32_t)c.right) continue;
        l->len += r->len;
        l->next = r->next;
        if (r->next >= 0) s[r->next].prev = (int32_t)c.left;
        r->len = 0;
        spm_offer(w, text, s, l->prev, (int32_t)c.left, heap, &n);
        spm_offer(w, text, s, (int32_t)c.left, l->next, heap, &n);
    }
}

static void spm_put(const token_work *w, const char *text, size_t len)
{
    const qsf_tokenizer *t = w->t;
    const int32_t id = qsf_tokenizer_find(t, text, len);
    if (id >= 0) {
        token_put(w->sink, id);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        const int32_t byte = t->byte_tokens[(uint8_t)text[i]];
        if (byte >= 0) token_put(w->sink, byte);
        else if (t->vocab->unk >= 0) token_put(w->sink, t->vocab->unk);
    }
}

/* The end of the part of the text that begins at a symbol: a space that no token has after what is
 * before it, or n. */
static size_t spm_part(const token_work *w, const char *text, size_t at, size_t n)
{
    for (at += spm_length((uint8_t)text[at]); at < n; at += spm_length((uint8_t)text[at])) {
        const uint8_t before = (uint8_t)text[at - 1];
        if (n - at >= 3 && !memcmp(text + at, spm_space, 3)
            && !(w->t->before_space[before / 32] >> before % 32 & 1)) return at;
    }
    return n;
}

static void spm_encode_part(const token_work *w, const char *text, size_t at, size_t end)
{
    spm_symbol *s = w->symbols.mem;
    size_t n = 0;
    for (; at < end; n++) {
        const size_t used = QSF_MIN(spm_length((uint8_t)text[at]), end - at);
        s[n] = (spm_symbol){ (uint32_t)at, (uint32_t)used, (int32_t)n - 1, (int32_t)n + 1 };
        at += used;
    }
    s[n - 1].next = -1;
    spm_merge(w, text, s, n, w->heap.mem);
    for (int32_t i = 0; i >= 0; i = s[i].next) spm_put(w, text + s[i].at, s[i].len);
}

qsf_status qsf_spm_encode(token_work *w, const char *text, size_t len, bool space)
{
    const qsf_tokenizer *t = w->t;
    qsf_status st;
    if ((st = qsf_token_buffer_need(t, &w->text, 3 * (uint64_t)len + 3, w->err))) return st;
    char *escaped = w->text.mem;
    size_t n = 0;
    if (space) {
        memcpy(escaped, spm_space, 3);
        n = 3;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] == ' ') {
            memcpy(escaped + n, spm_space, 3);
            n += 3;
        } else {
            escaped[n++] = text[i];
        }
    }
    if ((st = qsf_token_buffer_need(t, &w->symbols, n * sizeof(spm_symbol), w->err))) return st;
    if ((st = qsf_token_buffer_need(t, &w->heap, 3 * n * sizeof(merge_candidate), w->err))) return st;
    for (size_t at = 0, end; at < n; at = end) {
        end = spm_part(w, escaped, at, n);
        spm_encode_part(w, escaped, at, end);
    }
    return QSF_OK;
}
