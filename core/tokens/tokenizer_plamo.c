/* PLaMo 2: Unigram from the text's end, with scores as whole numbers and bytes for what is unknown.
 * SPDX-License-Identifier: MIT */
#include "tokens/tokenizer_own.h"

static const int64_t plamo_unknown = 10000000, plamo_invalid = 20000000;

/* The best way from a place to the end; id -1: the character's bytes. */
typedef struct plamo_node { int64_t cost; int32_t id; uint32_t len; } plamo_node;

static int64_t plamo_cost(const qsf_vocab *v, int32_t id)
{
    const double score = v->scores ? (double)v->scores[id] * 1e4 : 0;
    if (!(score > -1e9 && score < 1e9)) return plamo_invalid;
    return (int64_t)(score < 0 ? floor(-score + 0.5) : -floor(score + 0.5));
}

static void plamo_best(const qsf_tokenizer *t, const char *text, size_t at, size_t len, plamo_node *nodes)
{
    const size_t whole = QSF_MIN(qsf_utf8_length((uint8_t)text[at]), len - at);
    nodes[at] = (plamo_node){ nodes[at + whole].cost + plamo_unknown, -1, (uint32_t)whole };
    prefix_walk p = qsf_prefix_begin(t, text + at, len - at);
    for (int32_t id; (id = qsf_prefix_next(t, &p)) >= 0;) {
        const int64_t cost = plamo_cost(t->vocab, id);
        /* of equals the longest */
        if (cost < plamo_invalid && nodes[at + p.n].cost + cost <= nodes[at].cost)
            nodes[at] = (plamo_node){ nodes[at + p.n].cost + cost, id, (uint32_t)p.n };
    }
}

qsf_status qsf_plamo_encode(token_work *w, const char *text, size_t len)
{
    qsf_status st;
    size_t n = 0, used;
    if ((st = qsf_token_buffer_need(w->t, &w->text, 3 * (uint64_t)len + 4, w->err))) return st;
    if ((st = qsf_token_buffer_need(w->t, &w->symbols, (3 * (uint64_t)len + 1) * sizeof(plamo_node), w->err)))
        return st;
    char *clean = w->text.mem;
    plamo_node *nodes = w->symbols.mem;
    for (size_t i = 0; i < len; i += used) {
        const uint32_t c = qsf_utf8_decode(text + i, len - i, &used);
        if (i || c != 0xfeff) n += qsf_utf8_encode(c, clean + n);        /* without a byte order mark */
    }
    nodes[n] = (plamo_node){ 0, -1, 0 };
    for (size_t i = n; i-- > 0;) {
        if (((uint8_t)clean[i] & 0xc0) != 0x80) plamo_best(w->t, clean, i, n, nodes);
        else nodes[i].cost = INT64_MAX / 2;                /* no character begins here */
    }
    for (size_t i = 0; i < n; i += nodes[i].len) {
        if (nodes[i].id >= 0) token_put(w->sink, nodes[i].id);
        for (size_t k = 0; nodes[i].id < 0 && k < nodes[i].len; k++) {
            const int32_t id = w->t->byte_tokens[(uint8_t)clean[i + k]];
            if (id >= 0) token_put(w->sink, id);
        }
    }
    return QSF_OK;
}
