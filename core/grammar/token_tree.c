/* A vocabulary as a tree of bytes, flat in the order of a walk.
 * SPDX-License-Identifier: MIT */
#include "grammar/grammar_own.h"
#include "text/unicode.h"

typedef struct token_range { uint32_t from, to, depth; } token_range;

typedef struct token_sorter {
    qsf_token_tree *t;
    const char    **text;           /* [n_vocab] */
    uint32_t       *len;
    uint32_t       *ids, *other;    /* tokens with text, in the order under construction; room to sort */
    uint32_t        n;
    token_range    *stack;          /* branches that are not there yet, the next one last */
    uint32_t        n_stack, cap_stack;
    qsf_error      *err;
} token_sorter;

static uint8_t token_byte(const token_sorter *s, uint32_t i, uint32_t depth)
{
    return (uint8_t)s->text[s->ids[i]][depth];
}

static token_node *token_add(token_sorter *s)
{
    qsf_token_tree *t = s->t;
    if (t->n_nodes == t->cap) {
        const uint32_t cap = t->cap ? 2 * t->cap : 4096;
        token_node *nodes = NULL;
        if (cap >> 24) qsf_fail(s->err, QSF_E_MEMORY, "the vocabulary is too large for a tree of its tokens");
        else nodes = qsf_alloc_array(t->platform, cap, sizeof *nodes, "the tree of tokens", s->err);
        if (!nodes) return NULL;
        if (t->n_nodes) memcpy(nodes, t->nodes, t->n_nodes * sizeof *nodes);
        qsf_dealloc(t->platform, t->nodes, t->cap * (uint64_t)sizeof *nodes);
        t->nodes = nodes;
        t->cap = cap;
    }
    return &t->nodes[t->n_nodes++];
}

/* Tokens that differ at depth to the stack, as one range for each byte there. */
static bool token_push(token_sorter *s, uint32_t from, uint32_t to, uint32_t depth)
{
    uint32_t count[257], i, k;
    if (to - from < 32) {
        for (i = from + 1; i < to; i++) {
            const uint32_t id = s->ids[i];
            const uint8_t byte = (uint8_t)s->text[id][depth];
            for (k = i; k > from && token_byte(s, k - 1, depth) > byte; k--) s->ids[k] = s->ids[k - 1];
            s->ids[k] = id;
        }
    } else {
        memset(count, 0, sizeof count);
        for (i = from; i < to; i++) count[token_byte(s, i, depth) + 1]++;
        for (k = 0; k < 256; k++) count[k + 1] += count[k];
        for (i = from; i < to; i++) s->other[count[token_byte(s, i, depth)]++] = s->ids[i];
        memcpy(s->ids + from, s->other, (to - from) * sizeof *s->ids);
    }
    for (; to > from; to = i) {                 /* the first one is the next that is taken */
        for (i = to - 1; i > from && token_byte(s, i - 1, depth) == token_byte(s, to - 1, depth); i--) {}
        if (s->n_stack == s->cap_stack) return false;
        s->stack[s->n_stack++] = (token_range){ i, to, depth };
    }
    return true;
}

/* The tokens of a range, which have depth + 1 bytes in common: their node, and their branches to
 * the stack. */
static bool token_branch(token_sorter *s, token_range r)
{
    uint32_t at = r.from;
    const uint8_t byte = token_byte(s, r.from, r.depth);
    for (uint32_t i = r.from; i < r.to; i++)            /* what ends here comes first */
        if (s->len[s->ids[i]] == r.depth + 1) {
            const uint32_t id = s->ids[i];
            s->ids[i] = s->ids[at];
            s->ids[at++] = id;
        }
    /* tokens with the same bytes: each a node, the last one with the branches */
    for (uint32_t i = r.from; i < QSF_MAX(at, r.from + 1); i++) {
        token_node *n = token_add(s);
        if (!n) return false;
        *n = (token_node){ (r.depth + 1) << 8 | byte, i < at ? s->ids[i] + 1 : 0 };
    }
    return token_push(s, at, r.to, r.depth + 1);
}

/* Updates a branch's token lengths from those of a branch in it. */
static void token_close(token_node *outer, const token_node *n)
{
    const uint32_t a = TOKEN_CHARS(outer->token), b = TOKEN_CHARS(n->token);
    outer->token = TOKEN_MARK(TOKEN_ID(outer->token), a && b ? QSF_MAX(a, b) : 0);
}

static bool token_build(token_sorter *s)
{
    qsf_token_tree *t = s->t;
    if (!token_push(s, 0, s->n, 0)) return false;
    while (s->n_stack)
        if (!token_branch(s, s->stack[--s->n_stack])) return false;
    /* depths become the lengths of branches; open[d]: the node that is open at depth d */
    uint32_t *open = s->other, n_open = 0;
    for (uint32_t i = 0; i <= t->n_nodes; i++) {
        const uint32_t depth = i < t->n_nodes ? t->nodes[i].skip_byte >> 8 : 1;
        for (; n_open >= depth; n_open--) {
            token_node *n = &t->nodes[open[n_open - 1]];
            n->skip_byte = (i - open[n_open - 1]) << 8 | (n->skip_byte & 255);
            if (n_open > 1) token_close(&t->nodes[open[n_open - 2]], n);
        }
        if (i == t->n_nodes) break;
        open[n_open++] = i;
        token_node *n = &t->nodes[i];
        t->print ^= (depth << 8 | (n->skip_byte & 255)) ^ (uint64_t)n->token << 32;
        t->print *= 0x9e3779b97f4a7c15u;
        t->print ^= t->print >> 29;
        const uint32_t chars = n->token ? t->chars[n->token - 1] : 1;
        n->token = TOKEN_MARK(n->token, QSF_MIN(chars, TOKEN_ANY));
    }
    t->print ^= t->n_vocab;
    return true;
}

/* The number of characters of a plain token; 0: not plain. */
static uint8_t token_chars(const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0, used; i < len; i += used, n++) {
        const uint8_t c = (uint8_t)text[i];
        const size_t whole = qsf_utf8_length(c);
        if (c < 32 || c == '"' || c == '\\' || (c >= 0x80 && (c < 0xc2 || c > 0xf4))) return 0;
        /* the bytes that may follow the first byte of a character, see Unicode's table 3-7 */
        for (used = 1; used < whole && i + used < len; used++) {
            const uint8_t b = (uint8_t)text[i + used];
            if (b < (used == 1 && c == 0xe0 ? 0xa0 : used == 1 && c == 0xf0 ? 0x90 : 0x80)
                || b > (used == 1 && c == 0xed ? 0x9f : used == 1 && c == 0xf4 ? 0x8f : 0xbf)) return 0;
        }
    }
    return n < 255 ? (uint8_t)n : 0;
}

/* Adds a plain token of n characters to the sets. */
static void token_note(qsf_token_tree *t, uint32_t id, uint8_t n)
{
    const uint64_t words = qsf_ceil_div(t->n_vocab, 32);
    if (!n) return;
    t->chars[id] = n;
    t->plain[id / 32] |= 1u << id % 32;
    for (uint32_t few = n; few <= TOKEN_FEW; few++) t->plain[few * words + id / 32] |= 1u << id % 32;
    t->n_longer += n > TOKEN_FEW;
    t->most_chars = QSF_MAX(t->most_chars, n);
}

/* Bytes of the texts of all control tokens, and of the byte before each. */
static uint64_t token_controls(const qsf_tokenizer *tok, uint32_t n_vocab)
{
    const char *text;
    uint64_t n = 0;
    for (uint32_t id = 0; id < n_vocab; id++)
        if (!qsf_tokenizer_piece(tok, (int32_t)id, false, &text))
            n += 1 + qsf_tokenizer_piece(tok, (int32_t)id, true, &text);
    return n;
}

/* Writes a control token's byte and then its text to `at`; returns the length, 0 without text. */
static size_t token_control(const qsf_tokenizer *tok, uint32_t id, const char **text, char *at)
{
    const size_t len = qsf_tokenizer_piece(tok, (int32_t)id, true, text);
    if (!len) return 0;
    *at = '\xff';
    memcpy(at + 1, *text, len);
    *text = at;
    return len + 1;
}

qsf_status qsf_token_tree_new(const qsf_platform *p, const qsf_tokenizer *tok, uint32_t n_vocab,
                              qsf_token_tree **out, qsf_error *err)
{
    qsf_status st = QSF_E_MEMORY;
    qsf_token_tree *t = *out = qsf_alloc(p, sizeof *t, "the tree of tokens", err);
    token_sorter s = { .t = t, .err = err };
    if (!t) return st;
    *t = (qsf_token_tree){ .platform = p, .tokenizer = tok, .n_vocab = n_vocab };
    const uint64_t cap_other = (uint64_t)n_vocab + 65536;
    char *at;                                   /* of the next control token's text */
    s.cap_stack = n_vocab + 256;
    s.text = qsf_alloc_array(p, n_vocab, sizeof *s.text, "the tree of tokens", err);
    s.len = qsf_alloc_array(p, n_vocab, sizeof *s.len, "the tree of tokens", err);
    s.ids = qsf_alloc_array(p, n_vocab, sizeof *s.ids, "the tree of tokens", err);
    s.other = qsf_alloc_array(p, cap_other, sizeof *s.other, "the tree of tokens", err);
    s.stack = qsf_alloc_array(p, s.cap_stack, sizeof *s.stack, "the tree of tokens", err);
    t->chars = qsf_alloc(p, n_vocab, "the tree of tokens", err);
    t->plain = qsf_alloc_array(p, (TOKEN_FEW + 1) * qsf_ceil_div(n_vocab, 32), sizeof *t->plain,
                               "the tree of tokens", err);
    const uint64_t cap_controls = token_controls(tok, n_vocab);
    char *controls = qsf_alloc(p, cap_controls, "the tree of tokens", err);
    if (t->chars && t->plain && s.text && s.len && s.ids && s.other && s.stack && controls) {
        uint32_t n_ends = 0;
        at = controls;
        for (uint32_t id = 0; id < n_vocab; id++) {
            size_t len = qsf_tokenizer_piece(tok, (int32_t)id, false, &s.text[id]);
            const bool control = !len;
            if (control) at += len = token_control(tok, id, &s.text[id], at);
            n_ends += qsf_tokenizer_is_end(tok, (int32_t)id);
            if (!len || len > 65536 || qsf_tokenizer_is_end(tok, (int32_t)id)) continue;
            s.len[id] = (uint32_t)len;
            t->depth = QSF_MAX(t->depth, (uint32_t)len);
            s.ids[s.n++] = id;
            if (!control) token_note(t, id, token_chars(s.text[id], len));
        }
        t->ends = qsf_alloc_array(p, n_ends, sizeof *t->ends, "the tree of tokens", err);
        t->longer = qsf_alloc_array(p, t->n_longer, sizeof *t->longer, "the tree of tokens", err);
        for (uint32_t id = 0, n = 0; t->longer && id < n_vocab; id++)
            if (t->chars[id] > TOKEN_FEW) t->longer[n++] = id;
        for (uint32_t id = 0; t->ends && id < n_vocab; id++)
            if (qsf_tokenizer_is_end(tok, (int32_t)id)) t->ends[t->n_ends++] = (int32_t)id;
        if (t->ends && t->longer && token_build(&s)) st = QSF_OK;
    }
    qsf_dealloc(p, controls, cap_controls);
    qsf_dealloc(p, s.text, n_vocab * (uint64_t)sizeof *s.text);
    qsf_dealloc(p, s.len, n_vocab * (uint64_t)sizeof *s.len);
    qsf_dealloc(p, s.ids, n_vocab * (uint64_t)sizeof *s.ids);
    qsf_dealloc(p, s.other, cap_other * sizeof *s.other);
    qsf_dealloc(p, s.stack, s.cap_stack * (uint64_t)sizeof *s.stack);
    if (st) {
        qsf_token_tree_free(t);
        *out = NULL;
    }
    return st;
}

void qsf_token_tree_free(qsf_token_tree *t)
{
    if (!t) return;
    qsf_dealloc(t->platform, t->nodes, t->cap * (uint64_t)sizeof *t->nodes);
    qsf_dealloc(t->platform, t->ends, t->n_ends * (uint64_t)sizeof *t->ends);
    qsf_dealloc(t->platform, t->chars, t->n_vocab);
    qsf_dealloc(t->platform, t->plain, (TOKEN_FEW + 1) * qsf_ceil_div(t->n_vocab, 32) * sizeof *t->plain);
    qsf_dealloc(t->platform, t->longer, t->n_longer * (uint64_t)sizeof *t->longer);
    qsf_dealloc(t->platform, t, sizeof *t);
}
