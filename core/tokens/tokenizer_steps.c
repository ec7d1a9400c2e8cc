/* Encodes text by a tokenizer's steps, in the order of Hugging Face's library: added tokens are cut
 * out, the rest is normalized, added tokens are cut out again, and the remaining text is split into
 * pieces and given to the model.
 * SPDX-License-Identifier: MIT */
#include "tokens/tokenizer_own.h"
#include "tokens/steps_text.h"

/* ---- the tables ---- */

static uint32_t finder_hash(const char *text, size_t len)
{
    uint32_t h = token_hash_begin;
    for (size_t i = 0; i < len; i++) h = token_hash_byte(h, text[i]);
    return h;
}

static qsf_status finder_new(qsf_tokenizer *t, token_finder **out, qsf_error *err)
{
    uint32_t size = 16;
    while (size < 2 * (uint64_t)t->steps->n_added && size < 1u << 30) size *= 2;
    token_finder *f = *out = qsf_arena_alloc(t->arena, sizeof *f, "added tokens", err);
    if (!f || !(f->slots = qsf_arena_array(t->arena, size, sizeof *f->slots, "added tokens", err)) ||
        !(f->texts = qsf_arena_array(t->arena, (uint64_t)t->steps->n_added + 1, sizeof *f->texts,
                                     "added tokens", err))) return QSF_E_MEMORY;
    f->mask = size - 1;
    return QSF_OK;
}

static void finder_add(token_finder *f, uint32_t i, const char *text, size_t len)
{
    const uint8_t first = len ? (uint8_t)text[0] : 0;
    if (!len) return;
    f->texts[i] = (steps_bytes){ (uint32_t)len, (char *)(uintptr_t)text };
    f->lengths[first] |= (uint64_t)1 << QSF_MIN(len, 63);
    if (len > f->longest[first]) f->longest[first] = (uint32_t)len;
    uint32_t slot = finder_hash(text, len) & f->mask;
    while (f->slots[slot]) slot = (slot + 1) & f->mask;
    f->slots[slot] = i + 1;
}

qsf_status qsf_steps_new(qsf_tokenizer *t, qsf_error *err)
{
    const qsf_vocab *v = t->vocab;
    qsf_status st;
    t->steps = qsf_arena_alloc(t->arena, sizeof *t->steps, "tokenizer", err);
    if (!t->steps) return QSF_E_MEMORY;
    if ((st = qsf_steps_read(t->arena, v->steps, v->steps_len, v->n_tokens, t->steps, err))) return st;
    t->unk = t->steps->unk;
    t->added_at = qsf_arena_array(t->arena, (uint64_t)v->n_tokens + 1, sizeof *t->added_at, "tokenizer", err);
    if (!t->added_at) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < t->steps->n_added; i++) t->added_at[t->steps->added[i].id] = i + 1;
    return QSF_OK;
}

static void steps_text_init(steps_text *x, const qsf_tokenizer *t, qsf_error *err)
{
    *x = (steps_text){ .matcher = { .platform = t->platform, .steps = t->steps, .err = err },
                       .charsmap = t->vocab->charsmap, .charsmap_len = t->vocab->charsmap_len,
                               .pre = t->pre };
}

/* Writes pieces of the text as UTF-8. */
static size_t steps_utf8(const steps_text *x, size_t first, size_t n_pieces, char *out)
{
    size_t n = 0;
    for (size_t i = first; i < first + n_pieces; i++)
        for (uint32_t k = x->pieces[i].begin; k < x->pieces[i].end; k++)
            n += qsf_utf8_encode(x->c[k], out + n);
    return n;
}

/* Registers an added token by the string it is matched by: its text, normalized or not. */
static qsf_status steps_add(qsf_tokenizer *t, steps_text *x, uint32_t i, qsf_error *err)
{
    const steps_added *a = &t->steps->added[i];
    size_t len;
    const char *text = token_text(t, a->id, &len);
    qsf_status st;
    if (!(a->flags & STEPS_NORMALIZED)) return finder_add(t->find_raw, i, text, len), QSF_OK;
    if ((st = qsf_steps_text_begin(x, text, len, true)) || (st = qsf_steps_text_run(x, 0))) return st;
    char *copy = qsf_arena_alloc(t->arena, 4 * (uint64_t)x->n + 1, "added tokens", err);
    if (!copy) return QSF_E_MEMORY;
    finder_add(t->find_normal, i, copy, steps_utf8(x, 0, x->n_pieces, copy));
    return QSF_OK;
}

qsf_status qsf_steps_ready(qsf_tokenizer *t, qsf_error *err)
{
    steps_text x;
    qsf_status st;
    if ((st = finder_new(t, &t->find_raw, err)) || (st = finder_new(t, &t->find_normal, err))) return st;
    steps_text_init(&x, t, err);
    for (uint32_t i = 0; i < t->steps->n_added && !st; i++) st = steps_add(t, &x, i, err);
    qsf_steps_text_free(&x);
    return st;
}

/* ---- added tokens in the input ---- */

typedef struct added_scan {
    const qsf_tokenizer *t;
    const token_finder  *f;
    const char *text;
    size_t      len, at, done;          /* where to continue; the end of the last token found */
    const qsf_text_span *spans;
    size_t      n_spans, span;
} added_scan;

/* The longest added token at the current position; control tokens may be at most control_len bytes
 * long.  UINT32_MAX: none. */
static uint32_t added_at(const added_scan *s, size_t control_len, size_t *n)
{
    const char *text = s->text + s->at;
    const uint8_t first = (uint8_t)text[0];
    const size_t most = QSF_MIN(s->f->longest[first], s->len - s->at);
    uint32_t h = token_hash_begin, best = UINT32_MAX;
    for (size_t l = 1; l <= most; l++) {
        h = token_hash_byte(h, text[l - 1]);
        if (!(s->f->lengths[first] >> QSF_MIN(l, 63) & 1)) continue;
        for (uint32_t slot = h & s->f->mask; s->f->slots[slot]; slot = (slot + 1) & s->f->mask) {
            const uint32_t i = s->f->slots[slot] - 1;
            const uint8_t type = s->t->vocab->types[s->t->steps->added[i].id];
            if (s->f->texts[i].n != l || memcmp(s->f->texts[i].s, text, l)) continue;
            if (l > control_len && type != QSF_TOKEN_USER) continue;
            best = i;
            *n = l;
            break;
        }
    }
    return best;
}

static uint32_t point_before(const char *text, size_t at, size_t *used)
{
    size_t from = at - 1;
    while (from && at - from < 4 && ((uint8_t)text[from] & 0xc0) == 0x80) from--;
    const uint32_t c = qsf_utf8_decode(text + from, at - from, used);
    if (*used != at - from) *used = 1;
    return c;
}

static bool added_in_word(const added_scan *s, size_t from, size_t to)
{
    const steps_set *word = &s->t->steps->sets[0];
    size_t used;
    return (from && qsf_steps_in_set(word, point_before(s->text, from, &used)))
           || (to < s->len && qsf_steps_in_set(word, qsf_utf8_decode(s->text + to, s->len - to, &used)));
}

/* Finds the next added token, which with the white space it strips covers [*from, s->done). */
static bool added_next(added_scan *s, size_t *from, uint32_t *id)
{
    while (s->at < s->len) {
        size_t n = 0, used;
        while (s->span < s->n_spans && s->spans[s->span].at + s->spans[s->span].len <= s->at) s->span++;
        const qsf_text_span *span = s->span < s->n_spans ? &s->spans[s->span] : NULL;
        const uint32_t i = added_at(s, span && span->is_template ? span->at + span->len - s->at : 0, &n);
        if (i == UINT32_MAX) {
            s->at++;
            continue;
        }
        const steps_added *a = &s->t->steps->added[i];
        size_t begin = s->at, end = s->at + n;
        s->at = end;
        if ((a->flags & STEPS_SINGLE_WORD) && added_in_word(s, begin, end)) continue;
        while ((a->flags & STEPS_LSTRIP) && begin > s->done
               && qsf_is_space(point_before(s->text, begin, &used))) begin -= used;
        while ((a->flags & STEPS_RSTRIP) && end < s->len
               && qsf_is_space(qsf_utf8_decode(s->text + end, s->len - end, &used))) end += used;
        *from = begin;
        *id = a->id;
        s->done = QSF_MAX(end, s->done);
        return true;
    }
    return false;
}

/* ---- models ---- */

/* Looks up a token of the model; plain text never gives control tokens. */
static int32_t model_find(const qsf_tokenizer *t, const char *text, size_t len)
{
    const int32_t id = qsf_tokenizer_find(t, text, len);
    return id < 0 || token_apart(t, (uint32_t)id) || t->vocab->types[id] == QSF_TOKEN_CONTROL ? -1 : id;
}

static void unk_put(const token_work *w)
{
    if (w->t->unk >= 0) token_put(w->sink, w->t->unk);
}

/* Takes the longest piece each time; if that fails, the whole word is unknown. */
static qsf_status wordpiece_word(token_work *w, const char *word, size_t len)
{
    const qsf_steps *s = w->t->steps;
    const size_t before = w->sink->n, head = s->prefix.n;
    size_t chars = 0;
    for (size_t i = 0; i < len; i++) chars += ((uint8_t)word[i] & 0xc0) != 0x80;
    const qsf_status st = qsf_token_buffer_need(w->t, &w->heap, head + len + 1, w->err);
    if (st) return st;
    char *text = w->heap.mem;
    memcpy(text, s->prefix.s, head);
    memcpy(text + head, word, len);
    for (size_t at = 0; at < len && chars <= s->max_chars;) {
        const char *from = at ? text + at : text + head;
        const size_t more = at ? head : 0;
        size_t n = QSF_MIN(len - at, w->t->longest);
        int32_t id = -1;
        if (at) memcpy(text + at, s->prefix.s, head);
        for (; n && (id = model_find(w->t, from, more + n)) < 0; n--) ;
        if (id < 0) break;
        token_put(w->sink, id);
        if ((at += n) == len) return QSF_OK;
    }
    w->sink->n = before;
    unk_put(w);
    return QSF_OK;
}

typedef struct bpe_build { bpe_symbol *s; size_t n; bool pending; } bpe_build;

static void build_put(bpe_build *b, int32_t id)
{
    b->s[b->n] = (bpe_symbol){ (uint32_t)id, (int32_t)b->n - 1, (int32_t)b->n + 1 };
    b->n++;
}

/* Handles a character that is not a token. */
static void build_unknown(const token_work *w, bpe_build *b, const char *text, size_t len)
{
    const qsf_tokenizer *t = w->t;
    bool bytes = t->steps->flags & STEPS_BYTE_FALLBACK;
    for (size_t i = 0; i < len && bytes; i++) bytes = t->byte_tokens[(uint8_t)text[i]] >= 0;
    for (size_t i = 0; i < len && bytes; i++) build_put(b, t->byte_tokens[(uint8_t)text[i]]);
    if (bytes || t->unk < 0) return;
    if (b->pending && !(t->steps->flags & STEPS_FUSE_UNK)) build_put(b, t->unk);
    b->pending = true;
}

static qsf_status bpe_word_steps(token_work *w, const char *word, size_t len)
{
    const qsf_tokenizer *t = w->t;
    const qsf_steps *s = t->steps;
    const size_t most = len + s->prefix.n + s->suffix.n + 2;
    bpe_build b = { 0 };
    char text[512];
    qsf_status st;
    if (s->flags & STEPS_IGNORE_MERGES) {
        const int32_t id = model_find(t, word, len);
        if (id >= 0) return token_put(w->sink, id), QSF_OK;
    }
    if (s->prefix.n + s->suffix.n > sizeof text - 8)
        return qsf_fail(w->err, QSF_E_UNSUPPORTED, "a prefix or suffix of words of more than 500 bytes");
    if ((st = qsf_token_buffer_need(t, &w->symbols, (most * (1 + s->prefix.n + s->suffix.n)) * sizeof *b.s,
                                    w->err)) ||
        (st = qsf_token_buffer_need(t, &w->heap, 3 * (most * (1 + s->prefix.n + s->suffix.n))
                                    * sizeof(merge_candidate), w->err))) return st;
    b.s = w->symbols.mem;
    for (size_t i = 0, used; i < len; i += used) {
        size_t n = 0;
        used = QSF_MIN(qsf_utf8_length((uint8_t)word[i]), len - i);
        if (i) memcpy(text, s->prefix.s, n = s->prefix.n);
        memcpy(text + n, word + i, used);
        n += used;
        if (i + used == len) {
            memcpy(text + n, s->suffix.s, s->suffix.n);
            n += s->suffix.n;
        }
        const int32_t id = model_find(t, text, n);
        if (id < 0) {
            build_unknown(w, &b, text, n);
            continue;
        }
        if (b.pending) build_put(&b, t->unk);
        b.pending = false;
        build_put(&b, id);
    }
    if (b.pending) build_put(&b, t->unk);
    if (!b.n) return QSF_OK;
    b.s[b.n - 1].next = -1;
    qsf_bpe_merge(t, b.s, b.n, w->heap.mem);
    for (int32_t i = 0; i >= 0; i = b.s[i].next) token_put(w->sink, (int32_t)b.s[i].id);
    return QSF_OK;
}

static qsf_status model_word(token_work *w, const char *word, size_t len)
{
    switch (w->t->steps->model) {
    case STEPS_BPE: return bpe_word_steps(w, word, len);
    case STEPS_WORDPIECE: return wordpiece_word(w, word, len);
    case STEPS_UNIGRAM: return qsf_ugm_tokens(w, word, len);
    default: break;
    }
    const int32_t id = model_find(w->t, word, len);
    if (id >= 0) token_put(w->sink, id);
    else unk_put(w);
    return QSF_OK;
}

/* ---- the text ---- */

/* Encodes normalized text without added tokens. */
static qsf_status steps_plain(token_work *w, steps_text *x, const char *text, size_t len, bool first)
{
    qsf_status st;
    if (!len) return QSF_OK;
    if ((st = qsf_steps_text_begin(x, text, len, first)) ||
        (st = qsf_steps_text_run(x, qsf_steps_text_after_tokens(w->t->steps)))) return st;
    for (size_t i = 0; i < x->n_pieces; i++) {
        const size_t most = 4 * (size_t)(x->pieces[i].end - x->pieces[i].begin);
        if ((st = qsf_token_buffer_need(w->t, &w->nfc, most + 1, w->err))) return st;
        if ((st = model_word(w, w->nfc.mem, steps_utf8(x, i, 1, w->nfc.mem)))) return st;
    }
    return QSF_OK;
}

/* Encodes raw text from which the added tokens have been cut out. */
static qsf_status steps_given(token_work *w, steps_text *x, const char *text, size_t len, bool first,
                              bool is_template)
{
    qsf_status st;
    if (!len) return QSF_OK;
    if ((st = qsf_steps_text_begin(x, text, len, first)) || (st = qsf_steps_text_run(x, 0))) return st;
    if (!x->n_pieces) return QSF_OK;
    if ((st = qsf_token_buffer_need(w->t, &w->text, 4 * (uint64_t)x->n + 1, w->err))) return st;
    const char *normal = w->text.mem;
    const size_t n = steps_utf8(x, 0, x->n_pieces, w->text.mem);
    first = x->pieces[0].first;
    const qsf_text_span all = { 0, n, is_template };
    added_scan scan = { .t = w->t, .f = w->t->find_normal, .text = normal, .len = n, .spans = &all,
                        .n_spans = 1 };
    size_t plain = 0, from;
    for (uint32_t id; added_next(&scan, &from, &id); plain = scan.done) {
        if (from > plain && (st = steps_plain(w, x, normal + plain, from - plain, first
                                              && !plain))) return st;
        token_put(w->sink, (int32_t)id);
    }
    return steps_plain(w, x, normal + plain, n - plain, first && !plain);
}

/* Whether text[from..to) comes entirely from the template. */
static bool steps_in_template(const qsf_text_span *spans, size_t n, size_t from, size_t to)
{
    for (size_t i = 0; i < n; i++)
        if (!spans[i].is_template && spans[i].at < to && spans[i].at + spans[i].len > from) return false;
    return true;
}

qsf_status qsf_steps_encode(token_work *w, const char *text, size_t len, const qsf_text_span *spans,
                            size_t n_spans)
{
    added_scan scan = { .t = w->t, .f = w->t->find_raw, .text = text, .len = len, .spans = spans,
                        .n_spans = n_spans };
    steps_text x;
    size_t plain = 0, from;
    uint32_t id;
    qsf_status st = QSF_OK;
    bool more = true;
    steps_text_init(&x, w->t, w->err);
    while (!st && more) {
        more = added_next(&scan, &from, &id);
        if (!more) from = len;
        if (from > plain)
            st = steps_given(w, &x, text + plain, from - plain, !plain,
                             steps_in_template(spans, n_spans, plain, from));
        if (more) token_put(w->sink, (int32_t)id);
        plain = scan.done;
    }
    qsf_steps_text_free(&x);
    return st;
}
