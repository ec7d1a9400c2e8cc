/* Regular expressions, classes of characters: sets of ranges, and how JSON writes them.
 * SPDX-License-Identifier: MIT */
#include "text/case_table.h"
#include "text/regex_own.h"
#include "text/unicode.h"

const uint32_t regex_words[REGEX_WORDS][2] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } };

void regex_range(regex *r, uint32_t from, uint32_t to)
{
    if (r->n_ranges == RX_RANGES) {
        regex_fail(r, r->at, "a class of too many ranges");
        return;
    }
    r->ranges[r->n_ranges][0] = from;
    r->ranges[r->n_ranges++][1] = to;
}

/* The other case of what is in [from, to] of characters first, first + step ... */
static void case_run(regex *r, uint32_t from, uint32_t to, qsf_case_run run, bool back)
{
    const uint32_t first = back ? run.first + (uint32_t)run.by : run.first;
    const int32_t by = back ? -run.by : run.by;
    if (to < first || from > first + (run.n - 1u) * run.step) return;
    const uint32_t low = from > first ? (from - first + run.step - 1) / run.step : 0;
    const uint32_t high = QSF_MIN((to - first) / run.step, run.n - 1u);
    if (low > high) return;
    if (run.step == 1) regex_range(r, first + low + (uint32_t)by, first + high + (uint32_t)by);
    else for (uint32_t i = low; i <= high; i++)
        regex_range(r, first + i * run.step + (uint32_t)by, first + i * run.step + (uint32_t)by);
}

/* ASCII with ASCII alone, as ECMA-262 has it without the flag u. */
static void case_ascii(regex *r, uint32_t from, uint32_t to)
{
    const qsf_case_run letters = { 'A', 26, 1, 32 };
    case_run(r, from, to, letters, false);
    case_run(r, from, to, letters, true);
}

bool regex_cased(regex *r, uint32_t from, uint32_t to)
{
    const uint32_t first = r->n_ranges;
    regex_range(r, from, to);
    if (!(r->frames[r->depth].flags & RX_CASELESS)) return false;
    case_ascii(r, from, QSF_MIN(to, 127u));
    for (uint32_t at = first, round = 0; to > 127 && round < 2; round++)        /* a title case has two others */
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

void regex_set(regex *r, const uint32_t (*set)[2], size_t n, bool negated)
{
    uint32_t next = 0;
    for (size_t i = 0; i < n; i++) {
        if (!negated) regex_range(r, set[i][0], set[i][1]);
        else if (set[i][0] > next) regex_range(r, next, set[i][0] - 1);
        next = set[i][1] + 1;
    }
    if (negated && next <= 0x10ffff) regex_range(r, next, 0x10ffff);
}

void regex_tidy(regex *r, uint32_t from, bool negated)
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
    if (next <= 0x10ffff) regex_range(r, next, 0x10ffff);
}

qsf_gnode regex_class(regex *r)
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

/* \p{L}, \pL, \P{Lu}, \p{^N}: what the table of classes knows.  at is behind the p. */
void regex_property(regex *r, bool negated)
{
    static const struct { char name[12]; uint16_t classes; } known[] = {
        { "L", 0x3e }, { "Letter", 0x3e }, { "Lu", 1 << QSF_C_UPPER }, { "Ll", 1 << QSF_C_LOWER },
        { "Lt", 1 << QSF_C_TITLE }, { "Lm", 1 << QSF_C_MODIFIER }, { "Lo", 1 << QSF_C_LETTER },
        { "M", 1 << QSF_C_MARK }, { "N", 1 << QSF_C_NUMBER }, { "P", 1 << QSF_C_PUNCT },
        { "S", 1 << QSF_C_SYMBOL }, { "Z", 1 << QSF_C_SEPARATOR }, { "C", 1 << QSF_C_OTHER },
    };
    const char *name = r->src + r->at, *end;
    uint32_t classes = 0, from = 0;
    size_t n = r->at < r->len;
    if (r->at < r->len && *name == '{' && (end = memchr(name, '}', r->len - r->at)) != NULL) {
        n = (size_t)(end - ++name);
        r->at += n + 2;
        if (n && *name == '^') negated = !negated, name++, n--;
    } else {
        r->at += r->at < r->len;
    }
    for (size_t i = 0; i < QSF_ARRAY_LEN(known); i++)
        if (strlen(known[i].name) == n && !memcmp(known[i].name, name, n)) classes = known[i].classes;
    if (!classes) {
        regex_fail(r, r->at - 1,
                "a property of characters that is not known (L, Lu, Ll, Lt, Lm, Lo, M, N, P, S, Z, C are)");
        return;
    }
    for (uint32_t c = 0, was = 0; c <= 0x110000; c++) {
        const uint32_t is = c <= 0x10ffff && ((classes >> qsf_class_of(c) & 1) != 0) != negated;
        if (is && !was) from = c;
        if (!is && was) regex_range(r, from, c - 1);
        was = is;
    }
}
