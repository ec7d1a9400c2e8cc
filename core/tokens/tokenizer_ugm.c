/* Unigram: splits text into the tokens with the largest sum of scores (Viterbi, left to right),
 * after SentencePiece's normaliser.
 * SPDX-License-Identifier: MIT
 *
 * The normaliser is a compressed double array (Kanda 2018): a unit has its children's base in bits
 * 10 to 30 (times 256 with bit 9), its own byte in bits 0 to 7, and bit 8 if a key ends here, whose
 * offset in the list of replacements is in the unit at the base. */
#include "tokens/tokenizer_own.h"

/* No real normaliser has longer ones; a made-up one shall not take more time for each byte. */
enum { UGM_LONGEST = 256 };

typedef struct ugm_text {
    const qsf_vocab *v;
    char  *out;                           /* NULL: only counts */
    size_t n;
    bool   in_word, prepended;
} ugm_text;

static void ugm_put(ugm_text *t, const char *bytes, size_t len)
{
    if (t->out) memcpy(t->out + t->n, bytes, len);
    t->n += len;
}
static void ugm_space(ugm_text *t) { ugm_put(t, "\xe2\x96\x81", 3); }

const char *qsf_charsmap_find(const uint8_t *map, uint32_t map_len, const char *text, size_t len,
                              bool shortest,
                              size_t *used, size_t *n)
{
    if (!map) return NULL;
    const uint32_t n_units = qsf_le32(map) / 4;
    const uint8_t *units = map + 4, *texts = units + 4 * (size_t)n_units;
    const size_t n_texts = map_len - 4 - 4 * (size_t)n_units;
    const char *found = NULL;
    uint32_t at = 0, unit = n_units ? qsf_le32(units) : 0;
    for (size_t i = 0; i < QSF_MIN(len, UGM_LONGEST) && text[i] && !(found && shortest); i++) {
        const uint8_t c = (uint8_t)text[i];
        at ^= (unit >> 10) << ((unit & 512) >> 6) ^ c;
        if (at >= n_units || ((unit = qsf_le32(units + 4 * (size_t)at)) & 0x800000ffu) != c) break;
        if (!(unit & 256)) continue;
        const uint32_t leaf = at ^ (unit >> 10) << ((unit & 512) >> 6);
        const uint32_t place = leaf < n_units ? qsf_le32(units + 4 * (size_t)leaf) & 0x7fffffffu : UINT32_MAX;
        if (place >= n_texts) continue;
        const uint8_t *end = memchr(texts + place, 0, QSF_MIN(n_texts - place, UGM_LONGEST));
        if (!end) continue;
        found = (const char *)texts + place;
        *n = (size_t)(end - texts) - place;
        *used = i + 1;
    }
    return found;
}

static void ugm_normalized(ugm_text *t, const char *bytes, size_t len)
{
    const bool prefix = t->v->add_space_prefix && !t->v->space_suffix;
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != ' ') {
            if (!t->in_word && ((prefix && !t->prepended) || t->v->merge_spaces)) {
                ugm_space(t);
                t->prepended = true;
            }
            t->in_word = true;
            ugm_put(t, bytes + i, 1);
        } else {
            t->in_word = false;
            if (!t->v->merge_spaces) ugm_space(t);
        }
    }
}

static size_t ugm_normalize(const qsf_vocab *v, const char *text, size_t len, char *out)
{
    ugm_text t = { .v = v, .out = out };
    for (size_t i = 0, used; i < len; i += used) {
        size_t n = 0;
        char c[4];
        const char *by = qsf_charsmap_find(v->charsmap, v->charsmap_len, text + i, len - i, false, &used,
                                           &n);
        if (by) ugm_normalized(&t, by, n);
        else ugm_normalized(&t, c, qsf_utf8_encode(qsf_utf8_decode(text + i, len - i, &used), c));
    }
    if (v->space_suffix && v->add_space_prefix) ugm_space(&t);
    return t.n;
}

/* The best way to a place: its sum, its last token, and where that begins. */
typedef struct ugm_node { double score; int32_t id; uint32_t from; } ugm_node;

static void ugm_offer(ugm_node *nodes, size_t from, size_t to, int32_t id, double score)
{
    if (nodes[from].score + score > nodes[to].score)
        nodes[to] = (ugm_node){ nodes[from].score + score, id, (uint32_t)from };
}

static void ugm_forward(const qsf_tokenizer *t, const char *text, size_t len, ugm_node *nodes)
{
    const qsf_vocab *v = t->vocab;
    for (size_t i = 0; i <= len; i++) nodes[i] = (ugm_node){ i ? -DBL_MAX : 0, t->unk, 0 };
    for (size_t i = 0, whole; i < len; i += whole) {
        whole = QSF_MIN(qsf_utf8_length((uint8_t)text[i]), len - i);
        prefix_walk p = qsf_prefix_begin(t, text + i, len - i);
        bool single = false;
        for (int32_t id; (id = qsf_prefix_next(t, &p)) >= 0;) {
            single |= p.n == whole;
            const bool given = v->types[id] == QSF_TOKEN_USER && v->kind != QSF_VOCAB_STEPS;
            const double score = given || !v->scores ? 0 : (double)v->scores[id];
            ugm_offer(nodes, i, i + p.n, id, score);
        }
        if (!single) ugm_offer(nodes, i, i + whole, t->unk, t->unknown_score);
    }
}

/* What no token is made of: its bytes if the vocabulary has tokens for them; else one unknown
 * token, and so for several in a row. */
static void ugm_unknown(token_work *w, const char *text, size_t len, bool again)
{
    const qsf_vocab *v = w->t->vocab;
    const int32_t *bytes = w->t->byte_tokens;
    const int32_t first = bytes[(uint8_t)text[0]];
    if (first < 0 || v->types[first] != QSF_TOKEN_BYTE) {
        if (!again && w->t->unk >= 0) token_put(w->sink, w->t->unk);
        return;
    }
    for (size_t i = 0; i < len; i++)
        if (bytes[(uint8_t)text[i]] >= 0) token_put(w->sink, bytes[(uint8_t)text[i]]);
}

qsf_status qsf_ugm_encode(token_work *w, const char *text, size_t len)
{
    const qsf_vocab *v = w->t->vocab;
    const size_t n = ugm_normalize(v, text, len, NULL);
    qsf_status st;
    if (n >= UINT32_MAX / 4)
        return qsf_fail(w->err, QSF_E_ARGUMENT, "an input of %llu bytes after its normaliser; at most 1 GB",
                        (unsigned long long)n);
    if ((st = qsf_token_buffer_need(w->t, &w->text, n + 1, w->err))) return st;
    ugm_normalize(v, text, len, w->text.mem);
    return qsf_ugm_tokens(w, w->text.mem, n);
}

qsf_status qsf_ugm_tokens(token_work *w, const char *normalized, size_t n)
{
    const int32_t unk = w->t->unk;
    const qsf_status st = qsf_token_buffer_need(w->t, &w->symbols, (n + 1) * sizeof(ugm_node), w->err);
    if (st) return st;
    ugm_node *nodes = w->symbols.mem;
    ugm_forward(w->t, normalized, n, nodes);
    /* The tokens from the end, to where nodes are not needed any more: each has a byte at least. */
    size_t first = n + 1;
    for (size_t at = n; at;) {
        const ugm_node node = nodes[at];
        nodes[--first] = node;
        at = node.from;
    }
    for (size_t i = first; i <= n; i++) {
        const size_t from = nodes[i].from, end = i < n ? nodes[i + 1].from : n;
        const bool again = i > first && nodes[i - 1].id == unk;
        if (nodes[i].id == unk) ugm_unknown(w, normalized + from, end - from, again);
        else token_put(w->sink, nodes[i].id);
    }
    return QSF_OK;
}
