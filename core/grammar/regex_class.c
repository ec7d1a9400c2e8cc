/* Regular expressions, classes of characters: sets of ranges, and how JSON writes them.
 * SPDX-License-Identifier: MIT */
#include "text/case_table.h"
#include "text/property_table.h"
#include "grammar/regex_own.h"
#include "text/unicode.h"

const uint32_t qsf_regex_words[REGEX_WORDS][2] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } };

void qsf_regex_range(regex *r, uint32_t from, uint32_t to)
{
    if (r->n_ranges == RX_RANGES) {
        qsf_regex_fail(r, r->at, "a class of too many ranges");
        return;
    }
    r->ranges[r->n_ranges][0] = from;
    r->ranges[r->n_ranges++][1] = to;
}

/* Adds the other case of a run's characters (first, first + step, ...) that are in [from, to]. */
static void case_run(regex *r, uint32_t from, uint32_t to, qsf_case_run run, bool back)
{
    const uint32_t first = back ? run.first + (uint32_t)run.by : run.first;
    const int32_t by = back ? -run.by : run.by;
    if (to < first || from > first + (run.n - 1u) * run.step) return;
    const uint32_t low = from > first ? (from - first + run.step - 1) / run.step : 0;
    const uint32_t high = QSF_MIN((to - first) / run.step, run.n - 1u);
    if (low > high) return;
    if (run.step == 1) qsf_regex_range(r, first + low + (uint32_t)by, first + high + (uint32_t)by);
    else for (uint32_t i = low; i <= high; i++)
        qsf_regex_range(r, first + i * run.step + (uint32_t)by, first + i * run.step + (uint32_t)by);
}

/* ASCII letters pair with ASCII letters only, as in ECMA-262 without the flag u. */
static void case_ascii(regex *r, uint32_t from, uint32_t to)
{
    const qsf_case_run letters = { 'A', 26, 1, 32 };
    case_run(r, from, to, letters, false);
    case_run(r, from, to, letters, true);
}

bool qsf_regex_cased(regex *r, uint32_t from, uint32_t to)
{
    const uint32_t first = r->n_ranges;
    qsf_regex_range(r, from, to);
    if (!(r->frames[r->depth].flags & RX_CASELESS)) return false;
    case_ascii(r, from, QSF_MIN(to, 127u));
    /* twice: a title-case character has two other forms */
    for (uint32_t at = first, round = 0; to > 127 && round < 2; round++)
        for (const uint32_t end = r->n_ranges; at < end && !r->failed; at++) {
            const uint32_t low = QSF_MAX(r->ranges[at][0], 128u), high = r->ranges[at][1];
            for (size_t i = 0; i < QSF_N_CASE_LOWER + QSF_N_CASE_UPPER && high >= low; i++) {
                const qsf_case_run run = i < QSF_N_CASE_LOWER ? qsf_case_lower[i]
                                                              : qsf_case_upper[i - QSF_N_CASE_LOWER];
                const uint32_t other = run.first + (uint32_t)run.by;
                if (other < 128) continue;
                case_run(r, low, high, run, false);
                case_run(r, low, high, run, true);
            }
        }
    return r->n_ranges > first + 1;
}

void qsf_regex_set(regex *r, const uint32_t (*set)[2], size_t n, bool negated)
{
    uint32_t next = 0;
    for (size_t i = 0; i < n; i++) {
        if (!negated) qsf_regex_range(r, set[i][0], set[i][1]);
        else if (set[i][0] > next) qsf_regex_range(r, next, set[i][0] - 1);
        next = set[i][1] + 1;
    }
    if (negated && next <= 0x10ffff) qsf_regex_range(r, next, 0x10ffff);
}

void qsf_regex_tidy(regex *r, uint32_t from, bool negated)
{
    uint32_t (*x)[2] = r->ranges, n = from;
    for (uint32_t i = from + 1; i < r->n_ranges; i++)
        for (uint32_t k = i; k > from && x[k][0] < x[k - 1][0]; k--)
            for (int e = 0; e < 2; e++) {
                const uint32_t t = x[k][e];
                x[k][e] = x[k - 1][e];
                x[k - 1][e] = t;
            }
    for (uint32_t i = from; i < r->n_ranges; i++) {
        if (n > from && x[i][0] <= x[n - 1][1] + 1) x[n - 1][1] = QSF_MAX(x[n - 1][1], x[i][1]);
        else x[n][0] = x[i][0], x[n++][1] = x[i][1];
    }
    r->n_ranges = n;
    if (!negated) return;
    uint32_t next = 0;
    n = from;
    for (uint32_t i = from; i < r->n_ranges; i++) {
        const uint32_t a = x[i][0], z = x[i][1];
        if (a > next) x[n][0] = next, x[n++][1] = a - 1;
        next = z + 1;
    }
    r->n_ranges = n;
    if (next <= 0x10ffff) qsf_regex_range(r, next, 0x10ffff);
}

qsf_gnode qsf_regex_class(regex *r)
{
    const qsf_gnode x = !r->n_ranges ? qsf_g_choice(r->b, NULL, 0)
        : r->flags & QSF_REGEX_JSON ? qsf_g_json_class(r->b, (const uint32_t (*)[2])r->ranges, r->n_ranges)
        : qsf_g_class(r->b, (const uint32_t (*)[2])r->ranges, r->n_ranges, false);
    r->n_ranges = 0;
    return x;
}

static bool in_ranges(const uint32_t (*ranges)[2], size_t n, uint32_t c)
{
    for (size_t i = 0; i < n; i++) if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
    return false;
}

qsf_gnode qsf_g_json_class(qsf_grammar_builder *b, const uint32_t (*ranges)[2], size_t n)
{
    static const uint32_t plain[][2] = { { 32, 33 }, { 35, 91 }, { 93, 0x10ffff } };
    static const char escaped[] = "\"\\/\b\f\n\r\t", letters[] = "\"\\/bfnrt";
    static const char hex[] = "0123456789aAbBcCdDeEfF";
    uint32_t cut[64][2];
    qsf_gnode ways[16];
    size_t n_ways = 0, n_cut = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < QSF_ARRAY_LEN(plain); k++) {
            const uint32_t from = QSF_MAX(ranges[i][0], plain[k][0]), to = QSF_MIN(ranges[i][1], plain[k][1]);
            if (from > to) continue;
            if (n_cut == QSF_ARRAY_LEN(cut)) {          /* a long class in pieces */
                const qsf_gnode some = qsf_g_class(b, (const uint32_t (*)[2])cut, n_cut, false);
                if (n_ways < 2) ways[n_ways++] = some;
                else ways[1] = qsf_g_choice(b, (const qsf_gnode[]){ ways[1], some }, 2);
                n_cut = 0;
            }
            cut[n_cut][0] = from;
            cut[n_cut++][1] = to;
        }
    if (n_cut) ways[n_ways++] = qsf_g_class(b, (const uint32_t (*)[2])cut, n_cut, false);
    n_cut = 0;
    for (size_t i = 0; letters[i]; i++)
        if (in_ranges(ranges, n, (uint8_t)escaped[i]))
            cut[n_cut][0] = cut[n_cut][1] = (uint8_t)letters[i], n_cut++;
    if (n_cut)
        ways[n_ways++] = qsf_g_sequence(b, (const qsf_gnode[]){
            qsf_g_bytes(b, "\\", 1), qsf_g_class(b, (const uint32_t (*)[2])cut, n_cut, false) }, 2);
    for (uint32_t high = 0; high < 2; high++) {         /* \u0000 to \u001f */
        n_cut = 0;
        for (size_t i = 0; hex[i]; i++) {
            const uint32_t low = i < 10 ? (uint32_t)i : 10 + (uint32_t)(i - 10) / 2;
            if (in_ranges(ranges, n, 16 * high + low))
                cut[n_cut][0] = cut[n_cut][1] = (uint8_t)hex[i], n_cut++;
        }
        if (n_cut)
            ways[n_ways++] = qsf_g_sequence(b, (const qsf_gnode[]){
                qsf_g_bytes(b, high ? "\\u001" : "\\u000", 5),
                qsf_g_class(b, (const uint32_t (*)[2])cut, n_cut, false) }, 2);
    }
    return n_ways == 1 ? ways[0] : qsf_g_choice(b, ways, n_ways);
}

/* ---- properties ---- */

/* The general categories that the class table distinguishes, as sets of its values. */
enum {
    CLASS_N = 1 << QSF_C_NUMBER | 1 << QSF_C_NUMERAL | 1 << QSF_C_LETTER_NUMBER,
    CLASS_M = 1 << QSF_C_MARK | 1 << QSF_C_SPACING, CLASS_C = 1 << QSF_C_OTHER | 1 << QSF_C_UNASSIGNED
};
static const struct { char name[3], full[20]; uint16_t classes; } categories[] = {
    { "L", "Letter", 0x3e }, { "Lu", "Uppercase_Letter", 1 << QSF_C_UPPER },
    { "Ll", "Lowercase_Letter", 1 << QSF_C_LOWER }, { "Lt", "Titlecase_Letter", 1 << QSF_C_TITLE },
    { "LC", "Cased_Letter", 1 << QSF_C_UPPER | 1 << QSF_C_LOWER | 1 << QSF_C_TITLE },
    { "Lm", "Modifier_Letter", 1 << QSF_C_MODIFIER }, { "Lo", "Other_Letter", 1 << QSF_C_LETTER },
    { "M", "Mark", CLASS_M }, { "M", "Combining_Mark", CLASS_M },
    { "Mn", "Nonspacing_Mark", 1 << QSF_C_MARK }, { "N", "Number", CLASS_N },
    { "Nd", "Decimal_Number", 1 << QSF_C_NUMBER }, { "Nd", "digit", 1 << QSF_C_NUMBER },
    { "Nl", "Letter_Number", 1 << QSF_C_LETTER_NUMBER }, { "No", "Other_Number", 1 << QSF_C_NUMERAL },
    { "P", "Punctuation", 1 << QSF_C_PUNCT }, { "P", "punct", 1 << QSF_C_PUNCT },
    { "S", "Symbol", 1 << QSF_C_SYMBOL }, { "Z", "Separator", 1 << QSF_C_SEPARATOR },
    { "C", "Other", CLASS_C },
    { "Cn", "Unassigned", 1 << QSF_C_UNASSIGNED },
};

static bool name_is(const char *name, size_t n, const char *text)
{
    return strlen(text) == n && !memcmp(name, text, n);
}

/* Skips a prefix of a property's name, such as "gc=". */
static bool name_begins(const char **name, size_t *n, const char *text)
{
    const size_t len = strlen(text);
    if (*n <= len || memcmp(*name, text, len)) return false;
    *name += len;
    *n -= len;
    return true;
}

static void property_classes(regex *r, uint32_t classes, bool negated)
{
    uint32_t from = 0;
    for (uint32_t c = 0, was = 0; c <= 0x110000; c++) {
        const uint32_t is = c <= 0x10ffff && ((classes >> qsf_class_stored(c) & 1) != 0) != negated;
        if (is && !was) from = c;
        if (!is && was) qsf_regex_range(r, from, c - 1);
        was = is;
    }
}

static uint32_t property_number(const uint8_t **at)
{
    uint32_t n = 0;
    for (int shift = 0;; shift += 7, ++*at) {
        n |= (uint32_t)(**at & 127) << shift;
        if (**at < 128) break;
    }
    ++*at;
    return n;
}

static void property_ranges(regex *r, const qsf_property *p, bool negated)
{
    const uint8_t *at = qsf_property_ranges + p->at, *end = at + p->len;
    uint32_t last = 0;
    while (at < end) {
        const uint32_t from = last + property_number(&at), to = from + property_number(&at);
        if (!negated) qsf_regex_range(r, from, to - 1);
        else if (from > last) qsf_regex_range(r, last, from - 1);
        last = to;
    }
    if (negated) qsf_regex_range(r, last, 0x10ffff);
}

/* Adds the ranges of the named property; false: unknown. */
static bool property_add(regex *r, const char *name, size_t n, bool negated)
{
    static const uint32_t any[][2] = { { 0, 0x10ffff } }, ascii[][2] = { { 0, 127 } },
        hex[][2] = { { '0', '9' }, { 'A', 'F' }, { 'a', 'f' } },
        space[][2] = { { 9, 13 }, { 32, 32 }, { 0x85, 0x85 }, { 0xa0, 0xa0 }, { 0x1680, 0x1680 },
                       { 0x2000, 0x200a }, { 0x2028, 0x2029 }, { 0x202f, 0x202f }, { 0x205f, 0x205f },
                       { 0x3000, 0x3000 } };
    static const struct { const char *name; const uint32_t (*set)[2]; size_t n; } sets[] = {
        { "Any", any, 1 }, { "ASCII", ascii, 1 }, { "ASCII_Hex_Digit", hex, QSF_ARRAY_LEN(hex) },
        { "White_Space", space, QSF_ARRAY_LEN(space) }, { "space", space, QSF_ARRAY_LEN(space) },
    };
    const bool script = name_begins(&name, &n, "Script=") || name_begins(&name, &n, "sc=");
    const bool category = !script && (name_begins(&name, &n, "General_Category=")
                                      || name_begins(&name, &n, "gc="));
    for (size_t i = 0; i < QSF_ARRAY_LEN(categories) && !script; i++)
        if (name_is(name, n, categories[i].name) || name_is(name, n, categories[i].full)) {
            property_classes(r, categories[i].classes, negated);
            return true;
        }
    for (size_t i = 0; i < QSF_ARRAY_LEN(sets) && !script && !category; i++)
        if (name_is(name, n, sets[i].name)) {
            qsf_regex_set(r, sets[i].set, sets[i].n, negated);
            return true;
        }
    for (size_t i = 0; i < QSF_N_PROPERTIES && !category; i++)
        if (name_is(name, n, qsf_properties[i].name)) {
            property_ranges(r, &qsf_properties[i], negated);
            return true;
        }
    return false;
}

/* \p{L}, \pL, \P{Lu}, \p{^N}, \p{Script=Greek}, from after the p. */
void qsf_regex_property(regex *r, bool negated)
{
    const char *name = r->src + r->at, *end;
    size_t n = r->at < r->len;
    if (r->at < r->len && *name == '{' && (end = memchr(name, '}', r->len - r->at)) != NULL) {
        n = (size_t)(end - ++name);
        r->at += n + 2;
        if (n && *name == '^') negated = !negated, name++, n--;
    } else {
        r->at += r->at < r->len;
    }
    if (!property_add(r, name, n, negated))
        qsf_regex_fail(r, r->at - 1,
                       "an unknown property of characters (known: general categories, Any, ASCII, "
                       "White_Space, emoji and the larger scripts)");
}
