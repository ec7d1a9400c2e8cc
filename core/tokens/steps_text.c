/* The steps that change the input: replacing, splitting, Unicode normalization.
 * SPDX-License-Identifier: MIT */
#include "tokens/steps_text.h"
#include "tokens/tokenizer_own.h"

/* A match of an expression in a piece, or the gap between two; last: the piece's last one. */
typedef struct steps_span { uint32_t begin, end; uint8_t match, last; } steps_span;

static void *steps_need(steps_text *t, steps_memory *m, uint64_t size)
{
    if (size <= m->size) return m->mem;
    if (m->mem) qsf_dealloc(t->matcher.platform, m->mem, m->size);
    m->size = 0;
    m->mem = qsf_alloc(t->matcher.platform, size, "tokenizing", t->matcher.err);
    if (m->mem) m->size = size;
    return m->mem;
}

void qsf_steps_text_free(steps_text *t)
{
    steps_memory *const all[] = { &t->points[0], &t->points[1], &t->list[0], &t->list[1], &t->spans,
                                 &t->tmp };
    for (size_t i = 0; i < QSF_ARRAY_LEN(all); i++)
        if (all[i]->mem) qsf_dealloc(t->matcher.platform, all[i]->mem, all[i]->size);
    qsf_steps_matcher_free(&t->matcher);
}

/* Room for the next version of n code points; the current one is in the other half. */
static uint32_t *steps_other(steps_text *t, uint64_t n)
{
    return steps_need(t, &t->points[t->points_at ^ 1], (n + 1) * sizeof(uint32_t));
}
static void steps_turn(steps_text *t, size_t n)
{
    t->points_at ^= 1;
    t->c = t->points[t->points_at].mem;
    t->n = n;
}
/* The same for normalizer steps, which have a single piece. */
static void steps_turn_whole(steps_text *t, size_t n)
{
    steps_turn(t, n);
    t->pieces[0].begin = 0;
    t->pieces[0].end = (uint32_t)n;
    t->n_pieces = n != 0;
}

static steps_piece *steps_pieces(steps_text *t, uint64_t n)
{
    return steps_need(t, &t->list[t->list_at ^ 1], (n + 1) * sizeof(steps_piece));
}
static void steps_pieces_turn(steps_text *t, size_t n)
{
    t->list_at ^= 1;
    t->pieces = t->list[t->list_at].mem;
    t->n_pieces = n;
}

qsf_status qsf_steps_text_begin(steps_text *t, const char *text, size_t len, bool first)
{
    uint32_t *c = steps_other(t, len);
    steps_piece *p = steps_pieces(t, 1);
    size_t n = 0;
    if (!c || !p) return QSF_E_MEMORY;
    for (size_t i = 0, used; i < len; i += used) c[n++] = qsf_utf8_decode(text + i, len - i, &used);
    p[0] = (steps_piece){ 0, (uint32_t)n, first };
    steps_turn(t, n);
    steps_pieces_turn(t, n != 0);
    return QSF_OK;
}

/* ---- expressions ---- */

/* Splits all pieces into matches and gaps, in order; *n: how many.  NULL: out of memory, or the
 * matcher failed. */
static steps_span *steps_spans(steps_text *t, const steps_expression *e, size_t *n)
{
    steps_span *s = steps_need(t, &t->spans,
                               (2 * (uint64_t)t->n + 3 * (uint64_t)t->n_pieces + 1) * sizeof *s);
    *n = 0;
    if (!s) return NULL;
    for (size_t i = 0; i < t->n_pieces; i++) {
        const uint32_t at = t->pieces[i].begin, len = t->pieces[i].end - at;
        size_t from, to, prev = 0, pos = 0, last = SIZE_MAX;
        if (qsf_steps_match_begin(&t->matcher, e, t->c + at, len)) return NULL;
        while (pos <= len && qsf_steps_match_next(&t->matcher, pos, &from, &to)) {
            pos = to + (to == from);
            if (from == to && from == last) continue;           /* an empty match right after another match */
            if (prev != from) s[(*n)++] = (steps_span){ at + (uint32_t)prev, at + (uint32_t)from, 0, 0 };
            s[(*n)++] = (steps_span){ at + (uint32_t)from, at + (uint32_t)to, 1, 0 };
            prev = last = to;
        }
        if (t->matcher.failed) return NULL;
        if (prev != len) s[(*n)++] = (steps_span){ at + (uint32_t)prev, at + len, 0, 0 };
        if (*n) s[*n - 1].last = 1;
    }
    return s;
}

static qsf_status step_replace(steps_text *t, const steps_step *step)
{
    size_t n, n_out = 0, piece = 0, left = 0;
    const steps_span *s = steps_spans(t, &t->matcher.steps->expressions[step->a], &n);
    uint64_t size = t->n;
    if (t->matcher.failed) return t->matcher.status;
    for (size_t i = 0; s && i < n; i++)
        if (s[i].match) size += (uint64_t)step->text.n * (1 + s[i].end - s[i].begin);
    uint32_t *out = s ? steps_other(t, size) : NULL;
    if (!out) return QSF_E_MEMORY;
    uint32_t begin = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t before = n_out;
        for (uint32_t k = s[i].begin; !s[i].match && k < s[i].end; k++) out[n_out++] = t->c[k];
        for (uint32_t k = 0; s[i].match && k < step->text.n; k++) {
            if (step->text.c[k] != STEPS_SELF) {
                out[n_out++] = step->text.c[k];
                continue;
            }
            for (uint32_t j = s[i].begin; j < s[i].end; j++) out[n_out++] = t->c[j];
        }
        if (s[i].begin == t->pieces[piece].begin && s[i].end > s[i].begin && n_out == before)
            t->pieces[piece].first = false;
        if (!s[i].last) continue;
        t->pieces[left] = (steps_piece){ begin, (uint32_t)n_out, t->pieces[piece++].first };
        left += n_out > begin;
        begin = (uint32_t)n_out;
    }
    t->n_pieces = left;
    steps_turn(t, n_out);
    return QSF_OK;
}

/* Makes new pieces of one piece's spans s[0..n); returns their number. */
static size_t step_join(const steps_span *s, size_t n, uint32_t behaviour, steps_piece *out)
{
    const bool invert = behaviour & SPLIT_INVERT;
    bool was = false;
    size_t k = 0;
    behaviour &= 7;
    for (size_t j = 0; j < n; j++) {
        const steps_span *x = &s[behaviour == SPLIT_NEXT ? n - 1 - j : j];
        const bool match = x->match != invert;
        const bool join = k && (behaviour == SPLIT_CONTIGUOUS ? match == was
                                : behaviour >= SPLIT_PREVIOUS && match && !was);
        if (join && behaviour == SPLIT_NEXT) out[k - 1].begin = x->begin;
        else if (join) out[k - 1].end = x->end;
        else if (behaviour != SPLIT_REMOVED || !match) out[k++] = (steps_piece){ x->begin, x->end, false };
        was = match;
    }
    for (size_t i = 0; behaviour == SPLIT_NEXT && i < k / 2; i++) {
        const steps_piece swap = out[i];
        out[i] = out[k - 1 - i];
        out[k - 1 - i] = swap;
    }
    return k;
}

static qsf_status step_split(steps_text *t, const steps_step *step)
{
    size_t n, n_out = 0, piece = 0;
    const steps_span *s = steps_spans(t, &t->matcher.steps->expressions[step->a], &n);
    steps_piece *out = s ? steps_pieces(t, n) : NULL;
    if (!out) return t->matcher.failed ? t->matcher.status : QSF_E_MEMORY;
    for (size_t i = 0, k; i < n; i += k, piece++) {
        for (k = 1; !s[i + k - 1].last; k++) ;
        const size_t made = step_join(s + i, k, step->b, out + n_out), at = n_out;
        for (size_t j = 0; j < made; j++) {
            steps_piece x = out[at + j];
            x.first = t->pieces[piece].first && x.begin == t->pieces[piece].begin;
            if (x.end > x.begin) out[n_out++] = x;
        }
    }
    steps_pieces_turn(t, n_out);
    return QSF_OK;
}

typedef struct steps_cut { steps_piece *out; size_t n; steps_piece piece; } steps_cut;

static qsf_status step_cut_word(void *user, size_t begin, size_t end)
{
    steps_cut *k = user;
    const uint32_t at = k->piece.begin;
    k->out[k->n++] = (steps_piece){ at + (uint32_t)begin, at + (uint32_t)end, k->piece.first && !begin };
    return QSF_OK;
}

static qsf_status step_cut(steps_text *t)
{
    steps_cut k = { .out = steps_pieces(t, t->n) };
    if (!k.out) return QSF_E_MEMORY;
    for (size_t i = 0; i < t->n_pieces; i++) {
        k.piece = t->pieces[i];
        const size_t n = k.piece.end - k.piece.begin;
        const qsf_status st = qsf_pretokenize(t->pre, t->c + k.piece.begin, n, step_cut_word, &k);
        if (st) return st;
    }
    steps_pieces_turn(t, k.n);
    return QSF_OK;
}

/* ---- characters ---- */

static qsf_status step_prefix(steps_text *t, const steps_step *step)
{
    uint32_t *out = steps_other(t, t->n + (uint64_t)step->text.n * t->n_pieces);
    size_t n = 0;
    if (!out) return QSF_E_MEMORY;
    for (size_t i = 0; i < t->n_pieces; i++) {
        steps_piece *p = &t->pieces[i];
        const uint32_t len = p->end - p->begin, k = step->text.n;
        const bool has = len >= k && !memcmp(t->c + p->begin, step->text.c, k * sizeof *out);
        const size_t begin = n;
        if ((step->a == 2 || !has) && (step->a != 1 || p->first)) {
            memcpy(out + n, step->text.c, k * sizeof *out);
            n += k;
        }
        memcpy(out + n, t->c + p->begin, len * sizeof *out);
        n += len;
        *p = (steps_piece){ (uint32_t)begin, (uint32_t)n, p->first };
    }
    steps_turn(t, n);
    return QSF_OK;
}

static qsf_status step_letters(steps_text *t)
{
    uint32_t *out = steps_other(t, 4 * (uint64_t)t->n);
    size_t n = 0;
    if (!out) return QSF_E_MEMORY;
    for (size_t i = 0; i < t->n_pieces; i++) {
        const steps_piece p = t->pieces[i];
        t->pieces[i].begin = (uint32_t)n;
        for (uint32_t k = p.begin; k < p.end; k++) {
            char bytes[4];
            const size_t used = qsf_utf8_encode(t->c[k], bytes);
            for (size_t j = 0; j < used; j++) out[n++] = qsf_byte_letter((uint8_t)bytes[j]);
        }
        t->pieces[i].end = (uint32_t)n;
    }
    steps_turn(t, n);
    return QSF_OK;
}

/* The *n code points that a code point maps to. */
static const uint32_t *step_mapped(const steps_table *map, const uint32_t *c, uint32_t *n)
{
    uint32_t low = 0, high = map->n;
    while (low < high) {
        const uint32_t mid = (low + high) / 2;
        if (map->keys[mid] < *c) low = mid + 1;
        else high = mid;
    }
    if (low == map->n || map->keys[low] != *c) return *n = 1, c;
    return *n = map->at[low + 1] - map->at[low], map->values + map->at[low];
}

/* A normalizer step: the only piece is the whole input. */
static qsf_status step_map(steps_text *t, const steps_table *map)
{
    uint64_t size = 0;
    uint32_t k;
    for (size_t i = 0; i < t->n; i++, size += k) step_mapped(map, t->c + i, &k);
    uint32_t *out = steps_other(t, size);
    size_t n = 0;
    if (!out) return QSF_E_MEMORY;
    for (size_t i = 0; i < t->n; i++, n += k) {
        const uint32_t *to = step_mapped(map, t->c + i, &k);
        memcpy(out + n, to, k * sizeof *out);
        if (!i && !k) t->pieces[0].first = false;
    }
    steps_turn_whole(t, n);
    return QSF_OK;
}

static qsf_status step_form(steps_text *t, bool compose)
{
    uint32_t *out = steps_other(t, 4 * (uint64_t)t->n), *tmp = steps_need(t, &t->tmp,
            16 * (uint64_t)t->n + 4);
    if (!out || !tmp) return QSF_E_MEMORY;
    const size_t n = compose ? qsf_nfc(t->c, t->n, tmp, out) : qsf_nfd(t->c, t->n, out, tmp);
    steps_turn_whole(t, n);
    return QSF_OK;
}

static qsf_status step_lower(steps_text *t)
{
    uint32_t *out = steps_other(t, 2 * (uint64_t)t->n);
    size_t n = 0;
    if (!out) return QSF_E_MEMORY;
    for (size_t i = 0; i < t->n; i++) {
        out[n++] = t->c[i] == 0x130 ? 'i' : qsf_lower_case(t->c[i]);
        if (t->c[i] == 0x130) out[n++] = 0x307;         /* the only two-character lower case */
    }
    steps_turn_whole(t, n);
    return QSF_OK;
}

/* ---- SentencePiece's normalizer, as Hugging Face's library applies it ---- */

/* A cluster of less than six bytes is first looked up as a whole; the shortest key of the table
 * that it begins with then replaces the entire cluster. */
static size_t step_cluster(const steps_text *t, const steps_step *step, size_t at, size_t *bytes, char *text)
{
    const steps_set *joins = &t->matcher.steps->sets[step->a], *before = &t->matcher.steps->sets[step->b];
    size_t end = at + 1, len = qsf_utf8_encode(t->c[at], text);
    const bool control = t->c[at] == '\r' || t->c[at] == '\n' || t->c[at] < 32;
    if (t->c[at] == '\r' && end < t->n && t->c[end] == '\n') {
        len += qsf_utf8_encode(t->c[end++], text + len);
    } else {
        while (!control && end < t->n && (qsf_steps_in_set(joins, t->c[end])
                                          || (qsf_steps_in_set(before, t->c[end - 1]) && t->c[end] >= 32))) {
            if (len < 6) len += qsf_utf8_encode(t->c[end], text + len);
            end++;
        }
    }
    *bytes = len;
    return end;
}

static void step_charsmap_put(const steps_text *t, const char *text, size_t len, uint32_t *out, size_t *n)
{
    size_t n_to, used;
    const char *to = qsf_charsmap_find(t->charsmap, t->charsmap_len, text, len, true, &used, &n_to);
    if (!to) {
        to = text;
        n_to = len;
    }
    for (size_t i = 0; i < n_to; i += used, ++*n) {
        const uint32_t c = qsf_utf8_decode(to + i, n_to - i, &used);
        if (out) out[*n] = c;
    }
}

static size_t step_charsmap_text(steps_text *t, const steps_step *step, uint32_t *out)
{
    size_t n = 0, n_to, used, bytes;
    char text[16];
    for (size_t i = 0, end; i < t->n; i = end) {
        end = step_cluster(t, step, i, &bytes, text);
        if (bytes < 6 && qsf_charsmap_find(t->charsmap, t->charsmap_len, text, bytes, true, &used, &n_to)) {
            step_charsmap_put(t, text, bytes, out, &n);
        } else {
            for (size_t k = i; k < end; k++)
                step_charsmap_put(t, text, qsf_utf8_encode(t->c[k], text), out, &n);
        }
        if (!i && !n) t->pieces[0].first = false;
    }
    return n;
}

static qsf_status step_charsmap(steps_text *t, const steps_step *step)
{
    const size_t n = step_charsmap_text(t, step, NULL);
    uint32_t *out = steps_other(t, n);
    if (!out) return QSF_E_MEMORY;
    step_charsmap_text(t, step, out);
    steps_turn_whole(t, n);
    return QSF_OK;
}

/* ---- running the steps ---- */

static qsf_status step_run(steps_text *t, const steps_step *step)
{
    switch (step->op) {
    case STEP_REPLACE: return step_replace(t, step);
    case STEP_SPLIT: return step_split(t, step);
    case STEP_MAP: return step_map(t, &t->matcher.steps->tables[step->a]);
    case STEP_NFD: return step_form(t, false);
    case STEP_NFC: return step_form(t, true);
    case STEP_LOWER: return step_lower(t);
    case STEP_CHARSMAP: return t->charsmap ? step_charsmap(t, step) : QSF_OK;
    case STEP_PREFIX: return step_prefix(t, step);
    case STEP_LETTERS: return step_letters(t);
    case STEP_CUT: return t->pre ? step_cut(t) : QSF_OK;
    default: return QSF_OK;
    }
}

uint32_t qsf_steps_text_after_tokens(const qsf_steps *s)
{
    for (uint32_t i = 0; i < s->n_steps; i++)
        if (s->steps[i].op == STEP_TOKENS) return i + 1;
    return 0;
}

qsf_status qsf_steps_text_run(steps_text *t, uint32_t from)
{
    const qsf_steps *s = t->matcher.steps;
    for (uint32_t i = from; i < s->n_steps && s->steps[i].op != STEP_TOKENS && t->n_pieces; i++) {
        const qsf_status st = step_run(t, &s->steps[i]);
        if (st) return st;
        if (t->n > UINT32_MAX / 8)
            return qsf_fail(t->matcher.err, QSF_E_ARGUMENT, "an input of %llu characters after its "
                            "normalizer; at most half a billion", (unsigned long long)t->n);
    }
    return QSF_OK;
}
