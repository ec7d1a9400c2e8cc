/* Jinja: kinds of letters, upper and lower case.
 * SPDX-License-Identifier: MIT */
#include "text/case_table.h"
#include "chat/jinja_own.h"

static const qsf_case_run *letter_run(const qsf_case_run *runs, size_t n, uint32_t c, bool back)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t from = back ? runs[i].first + (uint32_t)runs[i].by : runs[i].first;
        if (c >= from && c - from < (uint32_t)runs[i].n * runs[i].step && (c - from) % runs[i].step == 0)
            return &runs[i];
    }
    return NULL;
}

static uint32_t letter_case(uint32_t c, bool upper)
{
    const qsf_case_run *run;
    if (!upper) return qsf_lower_case(c);
    if (c < 0x80) return c - 32 * (c >= 'a' && c <= 'z');
    run = letter_run(qsf_case_upper, QSF_N_CASE_UPPER, c, false);
    if (run) return c + (uint32_t)run->by;
    run = letter_run(qsf_case_lower, QSF_N_CASE_LOWER, c, true);
    return run ? c - (uint32_t)run->by : c;
}

static bool letter_special(uint32_t c)
{
    return c >= 0x80 && letter_run(qsf_case_special, QSF_N_CASE_SPECIAL, c, false) != NULL;
}
/* Those whose title case is not the upper one. */
static bool letter_titled(uint32_t c)
{
    return (c >= 0x1c4 && c <= 0x1cc) || (c >= 0x1f1 && c <= 0x1f3) || (c >= 0x10d0 && c <= 0x10ff);
}
static bool letter_cased(uint32_t c)
{
    const qsf_class k = qsf_class_of(c);
    return k == QSF_C_UPPER || k == QSF_C_LOWER || k == QSF_C_TITLE;
}

/* lower, upper, swapcase, capitalize, title; JF_TITLE as the filter has it. */
bool qsf_jinja_cased(jinja_run *r, int id, const jinja_value *v, jinja_value *out)
{
    bool inside = false;
    jinja_sink s = qsf_jinja_begin_text(r);
    size_t used;
    for (size_t i = 0; i < v->n; i += used) {
        const uint32_t c = qsf_utf8_decode(v->as.text + i, v->n - i, &used);
        const bool first = !inside && (id == JM_CAPITALIZE || id == JM_TITLE);
        const bool up = id == JM_UPPER || first || (id == JM_SWAPCASE && letter_case(c, false) == c);
        char text[4];
        if (c >= 0x80 && !qsf_jinja_charge(r, 256)) return false;   /* its way through the tables */
        if (c >= 0x80 && ((letter_special(c) && !(c == 0xdf && !first)) || (first && letter_titled(c))
                          || (id == JM_CASEFOLD && letter_cased(c))))
            return qsf_jinja_unknown(r, "the other case of a character is not supported");
        const uint32_t as = letter_case(c, up);
        const char *other = c == 0xdf && up ? "SS" : text;
        const size_t n = other == text ? qsf_utf8_encode(as, text) : 2;
        if (as == c && other == text ? !qsf_jinja_put_part(r, &s, v, i, used)
            : !qsf_jinja_put_for(r, &s, v, i, other, n))
            return false;
        inside = id == JM_CAPITALIZE || letter_cased(c);
    }
    *out = qsf_jinja_end_text(r, &s);
    out->flags |= v->flags & QSF_JINJA_SAFE;
    return qsf_jinja_charge_each(r, v->n);
}

bool qsf_jinja_lower_text(jinja_run *r, const jinja_value *v, jinja_value *out)
{
    return qsf_jinja_cased(r, JM_LOWER, v, out);
}

static bool letter_is(int id, uint32_t c, bool first)
{
    const qsf_class k = qsf_class_of(c);
    switch (id) {
    case JM_ISALNUM: return qsf_is_letter(c) || k == QSF_C_NUMBER;
    case JM_ISALPHA: return qsf_is_letter(c);
    case JM_ISASCII: return c < 0x80;
    case JM_ISPRINTABLE: return qsf_jinja_printable(c);
    case JM_ISSPACE: return qsf_jinja_is_space(c);
    case JM_ISIDENTIFIER: return c == '_' || qsf_is_letter(c)
        || (!first && (k == QSF_C_NUMBER || k == QSF_C_MARK));
    default: return c >= '0' && c <= '9';       /* isdigit, isdecimal, isnumeric */
    }
}

/* islower, isupper, istitle: something has a case, and none the wrong one. */
static bool letters_cased(int id, const jinja_value *v)
{
    bool any = false, inside = false;
    size_t used;
    for (size_t i = 0; i < v->n; i += used) {
        const uint32_t c = qsf_utf8_decode(v->as.text + i, v->n - i, &used);
        const qsf_class k = qsf_class_of(c);
        const bool upper = k == QSF_C_UPPER || k == QSF_C_TITLE, lower = k == QSF_C_LOWER;
        if (id == JM_ISLOWER ? upper : id == JM_ISUPPER ? lower : (upper && inside) || (lower && !inside))
            return false;
        any |= upper || lower;
        inside = upper || lower;
    }
    return any;
}

bool qsf_jinja_letters(jinja_run *r, int id, const jinja_value *v, bool *out)
{
    size_t used;
    *out = v->n > 0 || id == JM_ISASCII || id == JM_ISPRINTABLE;
    if (!qsf_jinja_charge_each(r, v->n)) return false;
    if (id == JM_ISLOWER || id == JM_ISUPPER || id == JM_ISTITLE) {
        *out = letters_cased(id, v);
        return true;
    }
    for (size_t i = 0; i < v->n && *out; i += used) {
        const uint32_t c = qsf_utf8_decode(v->as.text + i, v->n - i, &used);
        if (c >= 0x80 && (id == JM_ISDIGIT || id == JM_ISDECIMAL || id == JM_ISNUMERIC))
            return qsf_jinja_unknown(r, "digits beyond ASCII are not supported");
        *out = letter_is(id, c, !i);
    }
    return true;
}
