/* Character sets that a tokenizer.json's expressions and steps use.
 * SPDX-License-Identifier: MIT */
#include "read/hf_sets.h"
#include "read/hf_set_table.h"
#include "tokens/pretokenize_ranges.h"
#include "text/unicode.h"

#ifdef QSF_HAVE_YYJSON

void qsf_points_add(uint32_t *p, uint32_t c) { p[c / 32] |= 1u << c % 32; }

void qsf_points_add_if(uint32_t *p, points_is *is)
{
    for (uint32_t c = 0; c < 0x110000; c++)
        if (is(c)) qsf_points_add(p, c);
}

uint32_t qsf_steps_set_add(steps_build *s, const uint32_t *p)
{
    steps_list *l = &s->sets;
    const size_t head = l->n;
    uint32_t n = 0, last = 0;
    qsf_steps_put(s, l, 0);
    for (uint32_t c = 0; c < 0x110000; c++) {
        const uint32_t from = c;
        while (c < 0x110000 && (p[c / 32] >> c % 32 & 1)) c++;
        if (c == from) continue;
        qsf_steps_put(s, l, from - last);
        qsf_steps_put(s, l, c - 1 - from);
        last = c;
        n++;
    }
    if (!s->st) l->v[head] = n;
    return s->n_sets++;
}

uint32_t qsf_steps_set_of(steps_build *s, points_is *is)
{
    uint32_t *p = s->st ? NULL : qsf_alloc(s->b->platform, sizeof(points), "a set", s->err);
    if (!p) {
        if (!s->st) s->st = QSF_E_MEMORY;
        return 0;
    }
    memset(p, 0, sizeof(points));
    qsf_points_add_if(p, is);
    const uint32_t i = qsf_steps_set_add(s, p);
    qsf_dealloc(s->b->platform, p, sizeof(points));
    return i;
}

bool qsf_points_property(uint32_t *p, const char *name)
{
    const bool not = *name == '^';
    const size_t len = strlen(name += not);
    bool known = false;
    if (!strcmp(name, "Han")) {
        for (uint32_t c = 0; c < 0x110000; c++)
            if (qsf_is_han(c) != not) qsf_points_add(p, c);
        return true;
    }
    if (len < 1 || len > 2) return false;
    for (uint32_t i = 0; i < qsf_hf_n_runs; i++) {
        const uint32_t end = i + 1 < qsf_hf_n_runs ? qsf_hf_run_from[i + 1] : 0x110000;
        const bool is = !strncmp(qsf_hf_categories + 2 * qsf_hf_run_category[i], name, len);
        known |= is;
        for (uint32_t c = qsf_hf_run_from[i]; is != not && c < end; c++) qsf_points_add(p, c);
    }
    return known;
}

static bool points_in(const uint32_t *ranges, uint32_t n, uint32_t c)
{
    return qsf_steps_in_set(&(steps_set){ n, (uint32_t *)(uintptr_t)ranges }, c);
}

bool qsf_points_space(uint32_t c) { return qsf_is_space(c); }
bool qsf_points_digit(uint32_t c) { return qsf_is_digit(c); }
bool qsf_points_word_onig(uint32_t c) { return points_in(qsf_hf_word, qsf_hf_n_word, c); }
bool qsf_points_word_rust(uint32_t c) { return points_in(qsf_hf_rust_word, qsf_hf_n_rust_word, c); }
bool qsf_points_no_word_rust(uint32_t c) { return !qsf_points_word_rust(c) && !qsf_is_space(c); }
bool qsf_points_numeric(uint32_t c) { return points_in(qsf_hf_numeric, qsf_hf_n_numeric, c); }
bool qsf_points_punct(uint32_t c) { return points_in(qsf_hf_punct, qsf_hf_n_punct, c); }
bool qsf_points_mark(uint32_t c) { return points_in(qsf_hf_accents, qsf_hf_n_accents, c); }
bool qsf_points_bert_mark(uint32_t c) { return points_in(qsf_hf_bert_accents, qsf_hf_n_bert_accents, c); }
bool qsf_points_control(uint32_t c) { return !c || points_in(qsf_hf_control, qsf_hf_n_control, c); }
bool qsf_points_bert_space(uint32_t c) { return qsf_is_space(c) && c != 11 && c != 12 && c != 0x85; }
bool qsf_points_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0xf900 && c <= 0xfaff)
        || (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf)
        || (c >= 0x2f800 && c <= 0x2fa1f);
}
bool qsf_points_nmt_removed(uint32_t c)
{
    return (c >= 1 && c <= 8) || c == 11 || (c >= 14 && c <= 31) || c == 0x7f || c == 0x8f || c == 0x9f;
}
bool qsf_points_nmt_space(uint32_t c)
{
    return c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200b && c <= 0x200f)
            || c == 0x2028
        || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
}
/* Grapheme clusters (Unicode Standard Annex 29), reduced to what short clusters need: characters
 * that join the one before them, and characters that join the one after them. */
bool qsf_points_joins(uint32_t c)
{
    return qsf_class_of(c) == QSF_C_MARK || c == 0x200c || c == 0x200d || c == 0xe33 || c == 0xeb3
        || c == 0xff9e || c == 0xff9f || (c >= 0x1f3fb && c <= 0x1f3ff) || (c >= 0xe0020 && c <= 0xe007f);
}
bool qsf_points_joins_next(uint32_t c)
{
    return (c >= 0x600 && c <= 0x605) || c == 0x6dd || c == 0x70f || c == 0x890 || c == 0x891 || c == 0x8e2
        || c == 0xd4e;
}

#endif
