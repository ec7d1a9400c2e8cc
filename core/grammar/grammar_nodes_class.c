/* Classes of characters as nodes over the bytes of UTF-8.
 * SPDX-License-Identifier: MIT */
#include "grammar/grammar_own.h"

/* Sorted ranges of code points that do not touch. */
typedef struct gram_ranges {
    uint64_t *v;            /* from << 32 | to */
    size_t    n;
    uint32_t  whole[4];     /* by number of last bytes that may be any; 0: not made */
} gram_ranges;

/* The bytes from lead on, each with what follows it, to alts: those with equal tails as one. */
static void class_join(qsf_grammar *g, uint32_t *tail, uint32_t n, uint32_t lead)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t same = tail[i];
        uint32_t bits[8] = { 0 };
        if (same == GRAM_NONE) continue;
        for (uint32_t k = i; k < n; k++)
            if (tail[k] == same) {
                bits[(lead + k) / 32] |= 1u << (lead + k) % 32;
                tail[k] = GRAM_NONE;
            }
        qsf_gram_alt(g, qsf_gram_seq(g, qsf_gram_set(g, bits), same));
    }
}

/* The last n bytes of the characters [from, from + 64^n) that are in the ranges. */
static uint32_t gram_class_tail(qsf_grammar *g, gram_ranges *r, uint32_t from, uint32_t n)
{
    const uint32_t last = from + (1u << 6 * n) - 1;
    uint32_t child[64], parts = g->alts.n;
    size_t lo = 0, hi = r->n;
    while (lo < hi) {                                   /* the first range that does not end before */
        const size_t mid = (lo + hi) / 2;
        if ((uint32_t)r->v[mid] < from) lo = mid + 1;
        else hi = mid;
    }
    if (lo == r->n || r->v[lo] >> 32 > last) return GRAM_NONE;
    if (n == 0) return GRAM_EMPTY;
    const bool whole = r->v[lo] >> 32 <= from && (uint32_t)r->v[lo] >= last;
    if (whole && r->whole[n]) return r->whole[n];
    for (uint32_t i = 0; i < 64; i++)
        child[i] = whole && i ? child[0] : gram_class_tail(g, r, from + (i << 6 * (n - 1)), n - 1);
    class_join(g, child, 64, 0x80);
    const uint32_t id = qsf_gram_union(g, parts);
    if (whole) r->whole[n] = id;
    return id;
}

/* Sorts ranges and joins those that touch. */
static void class_sort(gram_ranges *r)
{
    size_t out = 0;
    qsf_gram_sort(r->v, r->n);
    for (size_t i = 0; i < r->n; i++) {
        const uint64_t x = r->v[i];
        uint64_t *last = &r->v[out ? out - 1 : 0];
        if (!out || x >> 32 > (uint64_t)(uint32_t)*last + 1) r->v[out++] = x;
        else if ((uint32_t)x > (uint32_t)*last) *last = (*last >> 32 << 32) | (uint32_t)x;
    }
    r->n = out;
}

/* What lies between the ranges: at most one more than there were. */
static void class_negate(gram_ranges *r)
{
    const size_t n = r->n;
    uint32_t next = 0;
    r->n = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t lo = (uint32_t)(r->v[i] >> 32), hi = (uint32_t)r->v[i];
        if (lo > next) r->v[r->n++] = (uint64_t)next << 32 | (lo - 1);
        next = hi + 1;
    }
    if (next <= 0x10ffff) r->v[r->n++] = (uint64_t)next << 32 | 0x10ffff;
}

/* Takes surrogates out: at most one range more. */
static void class_cut(gram_ranges *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const uint32_t lo = (uint32_t)(r->v[i] >> 32), hi = (uint32_t)r->v[i];
        if (hi < 0xd800 || lo > 0xdfff) continue;
        const bool before = lo < 0xd800, behind = hi > 0xdfff;
        memmove(r->v + i + before + behind, r->v + i + 1, (r->n - i - 1) * sizeof *r->v);
        r->n = r->n - 1 + before + behind;
        if (before) r->v[i++] = (uint64_t)lo << 32 | 0xd7ff;
        if (behind) r->v[i++] = (uint64_t)0xe000 << 32 | hi;
        i--;
    }
}

/* The characters of the ranges to alts, by the number of their bytes. */
static void class_forms(qsf_grammar *g, gram_ranges r)
{
    static const struct { uint32_t lead, n, first, least, bytes; } form[] = {
        { 0x00, 128, 0, 0, 0 }, { 0xc2, 30, 0x80, 0x80, 1 }, { 0xe0, 16, 0, 0x800, 2 },
        { 0xf0, 5, 0, 0x10000, 3 },
    };
    for (size_t f = 0; f < QSF_ARRAY_LEN(form); f++) {
        uint32_t tail[128];
        /* shorter forms of a character are not allowed: its ranges begin at the form's least */
        while (r.n && (uint32_t)r.v[0] < form[f].least) {
            r.v++;
            r.n--;
        }
        if (r.n && r.v[0] >> 32 < form[f].least)
            r.v[0] = (uint64_t)form[f].least << 32 | (uint32_t)r.v[0];
        for (uint32_t i = 0; i < form[f].n; i++)
            tail[i] = gram_class_tail(g, &r, form[f].first + (i << 6 * form[f].bytes), form[f].bytes);
        class_join(g, tail, form[f].n, form[f].lead);
    }
}

qsf_gnode qsf_g_class(qsf_grammar_builder *b, const uint32_t (*ranges)[2], size_t n, bool negated)
{
    qsf_grammar *g = (qsf_grammar *)b;
    const uint32_t from = g->alts.n;
    const uint64_t room = 2 * (uint64_t)n + 8;
    if (g->status) return 0;
    uint64_t *const v = qsf_alloc_array(g->platform, room, sizeof *v, "a class of characters", &g->err);
    if (!v) {
        g->status = QSF_E_MEMORY;
        return 0;
    }
    gram_ranges r = { .v = v };
    for (size_t i = 0; i < n; i++)
        if (ranges[i][0] <= ranges[i][1] && ranges[i][0] <= 0x10ffff)
            v[r.n++] = (uint64_t)ranges[i][0] << 32 | QSF_MIN(ranges[i][1], 0x10ffffu);
    class_sort(&r);
    if (negated) class_negate(&r);
    class_cut(&r);
    class_forms(g, r);
    qsf_dealloc(g->platform, v, room * sizeof *v);
    const uint32_t id = qsf_gram_union(g, from);
    if (id) gram_at(g, id)->flags |= GF_UTF8;
    return id;
}
