/* WordPiece, BERT's tokenizer: words between spaces and punctuation, each the longest pieces that
 * fit from its beginning.
 * SPDX-License-Identifier: MIT
 *
 * The first piece of a word begins with U+2581 here, as in GGUF files; others have no prefix.  If
 * llama.cpp and Hugging Face's library differ (control characters that are white space, Hangul,
 * spacing marks, very long words), this follows the latter, with which the models were trained. */
#include "tokens/tokenizer_own.h"

enum { WPM_LONGEST = 100 };               /* characters of a word; longer ones are unknown */

typedef struct wpm_word {
    char   text[3 + 4 * WPM_LONGEST];
    size_t len, n;                        /* bytes with the mark; characters */
} wpm_word;

/* BERT's list; the gap before U+2B920 is in all implementations. */
static bool wpm_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0xf900 && c <= 0xfaff)
        || (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf)
        || (c >= 0x2f800 && c <= 0x2fa1f);
}

/* The pieces of the word, which is empty then. */
static void wpm_end(const token_work *w, wpm_word *word)
{
    const size_t before = w->sink->n;
    int32_t id = word->n > WPM_LONGEST ? -1 : 0;
    for (size_t i = 0, n = 0; id >= 0 && word->n && i < word->len; i += n) {
        id = qsf_prefix_longest(w->t, word->text + i, word->len - i, &n);
        if (id >= 0) token_put(w->sink, id);
    }
    if (id < 0) {
        w->sink->n = before;
        if (w->t->vocab->unk >= 0) token_put(w->sink, w->t->vocab->unk);
    }
    word->len = 3;
    word->n = 0;
}

static void wpm_put(wpm_word *word, uint32_t c)
{
    if (word->n++ < WPM_LONGEST) word->len += qsf_utf8_encode(c, word->text + word->len);
}

static void wpm_point(const token_work *w, wpm_word *word, uint32_t c)
{
    const qsf_vocab *v = w->t->vocab;
    const qsf_class k = qsf_class_of(c);
    const bool line = c == '\t' || c == '\n' || c == '\r';
    if (!c || c == QSF_REPLACEMENT || (qsf_class_stored(c) == QSF_C_OTHER && !line)) return;
    if (qsf_is_space(c)) {
        wpm_end(w, word);
        return;
    }
    if (v->strip_accents && k == QSF_C_MARK && !qsf_is_spacing_mark(c)) return;
    const bool alone = k == QSF_C_PUNCT || (c < 0x80 && k == QSF_C_SYMBOL) || wpm_chinese(c);
    if (alone) wpm_end(w, word);
    if (v->lowercase && c == 0x130) {                     /* the one whose lower case is two characters */
        wpm_put(word, 'i');
        wpm_put(word, 0x307);
    } else {
        wpm_put(word, v->lowercase ? qsf_lower_case(c) : c);
    }
    if (alone) wpm_end(w, word);
}

qsf_status qsf_wpm_encode(token_work *w, const char *text, size_t len)
{
    qsf_status st;
    wpm_word word = { .text = "\xe2\x96\x81", .len = 3 };
    if ((st = qsf_token_buffer_need(w->t, &w->points, len * sizeof(uint32_t), w->err))) return st;
    uint32_t *points = w->points.mem;
    size_t n = 0, used;
    for (size_t i = 0; i < len; i += used) points[n++] = qsf_utf8_decode(text + i, len - i, &used);
    if (w->t->vocab->strip_accents) {
        if ((st = qsf_token_buffer_need(w->t, &w->nfc, 8 * n * sizeof(uint32_t), w->err))) return st;
        uint32_t *plain = w->nfc.mem;
        n = qsf_nfd(points, n, plain, plain + 4 * n);
        points = plain;
    }
    for (size_t i = 0; i < n; i++) wpm_point(w, &word, points[i]);
    wpm_end(w, &word);
    return QSF_OK;
}
