/* Regular expressions: a pattern becomes nodes of a grammar.
 * SPDX-License-Identifier: MIT
 *
 * Groups are on a stack.  ^ and $ stand for no text, but for a place: each part of a
 * pattern has up to four sets of texts, by whether a ^ or a $ in it was passed.
 * Almost always only one of the four is not empty; its parts are a list: nodes stay flat. */
#include "text/regex.h"
#include "text/unicode.h"

enum { RX_BEGIN = 1, RX_END = 2, RX_DEPTH = 64, RX_STACK = 512, RX_RANGES = 2048 };

typedef struct rx_value {
    qsf_gnode v[4];         /* 0: no text */
    bool      empty;        /* v[0] has the empty text */
} rx_value;

typedef struct rx_frame {
    uint32_t alts, parts;   /* stack[alts..parts) alternatives, stack[parts..n) the sequence of now */
    uint8_t  alt_main, main;        /* which of the four sets these lists are */
    bool     alt_any, alt_empty;    /* alt_main is set; an alternative may be empty */
    bool     dead, empty;   /* the sequence's list has no text; may be empty */
    qsf_gnode alt[4], seq[4];       /* the other sets */
} rx_frame;

typedef struct regex {
    const qsf_platform  *platform;
    qsf_grammar_builder *b;
    const char *src, *what;
    size_t      len, at;
    uint32_t    flags;
    bool        failed;
    qsf_gnode   none;       /* the empty text */
    char        literal[64];
    uint32_t    n_literal, n_stack, n_ranges, depth;
    rx_frame    frames[RX_DEPTH];
    qsf_gnode   stack[RX_STACK];
    uint32_t    ranges[RX_RANGES][2];
} regex;

static void rx_fail(regex *r, size_t at, const char *why)
{
    if (!r->failed)
        qsf_g_fail(r->b, QSF_E_ARGUMENT, "%s: %s at character %llu of \"%.*s\"", r->what, why,
                   (unsigned long long)at + 1, (int)QSF_MIN(r->len, 80u), r->src);
    r->failed = true;
    r->at = r->len;
}

/* ---- sets of texts ---- */

static qsf_gnode rx_either(regex *r, qsf_gnode x, qsf_gnode y)
{
    return !x ? y : !y ? x : qsf_g_choice(r->b, (const qsf_gnode[]){ x, y }, 2);
}

static qsf_gnode rx_then(regex *r, qsf_gnode x, qsf_gnode y)
{
    return !x || !y ? 0 : x == r->none ? y : y == r->none ? x
           : qsf_g_sequence(r->b, (const qsf_gnode[]){ x, y }, 2);
}

/* stack[from..n) as one node in its place */
static qsf_gnode rx_join(regex *r, uint32_t from, bool choice)
{
    const uint32_t n = r->n_stack - from;
    const qsf_gnode *parts = r->stack + from;
    r->n_stack = from;
    return n == 1 ? parts[0] : choice ? qsf_g_choice(r->b, parts, n) : qsf_g_sequence(r->b, parts, n);
}

static void rx_push(regex *r, qsf_gnode x)
{
    rx_frame *f = &r->frames[r->depth];
    if (r->n_stack == RX_STACK) {       /* what is there becomes one node */
        if (r->n_stack - f->parts > 1) {
            const qsf_gnode joined = rx_join(r, f->parts, false);
            r->stack[r->n_stack++] = joined;
        } else {
            rx_fail(r, r->at, "too many alternatives");
        }
    }
    if (!r->failed) r->stack[r->n_stack++] = x;
}

/* The sequence of now, taken off the stack. */
static rx_value rx_sequence(regex *r)
{
    rx_frame *f = &r->frames[r->depth];
    rx_value s = { { f->seq[0], f->seq[1], f->seq[2], f->seq[3] }, f->empty };
    const qsf_gnode x = r->n_stack == f->parts ? r->none : rx_join(r, f->parts, false);
    if (!f->dead) s.v[f->main] = rx_either(r, s.v[f->main], x);
    return s;
}

static void rx_restart(regex *r)
{
    rx_frame *f = &r->frames[r->depth];
    f->main = 0;
    f->dead = false;
    f->empty = true;
    memset(f->seq, 0, sizeof f->seq);
}

static int rx_only(const rx_value *a)           /* the one set that is there; -1: more, or none */
{
    int only = -1;
    for (int i = 0; i < 4; i++)
        if (a->v[i]) {
            if (only >= 0) return -1;
            only = i;
        }
    return only;
}

static void rx_append(regex *r, const rx_value *a)
{
    rx_frame *f = &r->frames[r->depth];
    const bool others = f->seq[0] || f->seq[1] || f->seq[2] || f->seq[3];
    if (!others && !a->v[1] && !a->v[2] && !a->v[3]) {
        if (f->main & RX_END) f->dead |= !a->empty;     /* behind a $ only the empty text */
        else if (a->v[0] != r->none) rx_push(r, a->v[0]);
        f->empty &= a->empty;
        return;
    }
    const bool empty = f->empty && (f->main == 0 || f->seq[0]);
    const rx_value s = rx_sequence(r);
    rx_value n = { .empty = empty && a->empty };
    n.v[0] = rx_then(r, s.v[0], a->v[0]);
    n.v[1] = rx_either(r, rx_then(r, s.v[1], a->v[0]), empty ? a->v[1] : 0);
    n.v[2] = rx_either(r, rx_then(r, s.v[0], a->v[2]), a->empty ? s.v[2] : 0);
    n.v[3] = rx_either(r, rx_either(r, rx_then(r, s.v[1], a->v[2]), a->empty ? s.v[3] : 0),
                       empty ? a->v[3] : 0);
    const int only = rx_only(&n);
    rx_restart(r);
    f->empty = n.empty;
    f->dead = only < 0;
    if (only < 0) memcpy(f->seq, n.v, sizeof f->seq);
    else f->main = (uint8_t)only;
    if (only >= 0 && n.v[only] != r->none) rx_push(r, n.v[only]);
}

static void rx_flush(regex *r)
{
    rx_value a = { .empty = false };
    if (!r->n_literal) return;
    a.v[0] = qsf_g_bytes(r->b, r->literal, r->n_literal);
    r->n_literal = 0;
    rx_append(r, &a);
}

/* The sequence of now becomes an alternative. */
static void rx_alternative(regex *r)
{
    rx_frame *f = &r->frames[r->depth];
    rx_flush(r);
    const bool empty = f->empty && (f->main == 0 || f->seq[0]);
    const rx_value s = rx_sequence(r);
    const int only = rx_only(&s);
    if (only >= 0 && !f->alt_any) f->alt_main = (uint8_t)only, f->alt_any = true;
    for (int i = 0; i < 4; i++) {
        if (!s.v[i]) continue;
        if (f->alt_any && f->alt_main == i) rx_push(r, s.v[i]), f->parts = r->n_stack;
        else f->alt[i] = rx_either(r, f->alt[i], s.v[i]);
    }
    f->alt_empty |= s.v[0] && empty;
    rx_restart(r);
}

static void rx_open(regex *r)
{
    rx_frame *f = &r->frames[r->depth];
    *f = (rx_frame){ .alts = r->n_stack, .parts = r->n_stack };
    rx_restart(r);
}

static rx_value rx_close(regex *r)
{
    rx_frame *f = &r->frames[r->depth];
    rx_alternative(r);
    rx_value a = { { f->alt[0], f->alt[1], f->alt[2], f->alt[3] }, f->alt_empty };
    if (f->alt_any) a.v[f->alt_main] = rx_either(r, a.v[f->alt_main], rx_join(r, f->alts, true));
    return a;
}

/* ---- classes ---- */

static const uint32_t rx_digits[][2] = { { '0', '9' } },
    rx_words[][2] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } },
    rx_spaces[][2] = {
        { 9, 13 }, { 32, 32 }, { 0xa0, 0xa0 }, { 0x1680, 0x1680 }, { 0x2000, 0x200a }, { 0x2028, 0x2029 },
        { 0x202f, 0x202f }, { 0x205f, 0x205f }, { 0x3000, 0x3000 }, { 0xfeff, 0xfeff },
    },
    rx_lines[][2] = { { '\n', '\n' }, { '\r', '\r' }, { 0x2028, 0x2029 } };

static void rx_range(regex *r, uint32_t from, uint32_t to)
{
    if (r->n_ranges == RX_RANGES) {
        rx_fail(r, r->at, "a class of too many ranges");
        return;
    }
    r->ranges[r->n_ranges][0] = from;
    r->ranges[r->n_ranges++][1] = to;
}

/* Sorted ranges, or all that is in none of them. */
static void rx_set(regex *r, const uint32_t (*set)[2], size_t n, bool negated)
{
    uint32_t next = 0;
    for (size_t i = 0; i < n; i++) {
        if (!negated) rx_range(r, set[i][0], set[i][1]);
        else if (set[i][0] > next) rx_range(r, next, set[i][0] - 1);
        next = set[i][1] + 1;
    }
    if (negated && next <= 0x10ffff) rx_range(r, next, 0x10ffff);
}

/* Sorts and joins ranges[from..); negates them where asked. */
static void rx_tidy(regex *r, uint32_t from, bool negated)
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
    if (next <= 0x10ffff) rx_range(r, next, 0x10ffff);
}

static qsf_gnode rx_class(regex *r)
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
static void rx_property(regex *r, bool negated)
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
        rx_fail(r, r->at - 1,
                "a property of characters that is not known (L, Lu, Ll, Lt, Lm, Lo, M, N, P, S, Z, C are)");
        return;
    }
    for (uint32_t c = 0, was = 0; c <= 0x110000; c++) {
        const uint32_t is = c <= 0x10ffff && ((classes >> qsf_class_of(c) & 1) != 0) != negated;
        if (is && !was) from = c;
        if (!is && was) rx_range(r, from, c - 1);
        was = is;
    }
}

/* ---- escapes ---- */

static bool rx_hex(regex *r, size_t n, uint32_t *out)
{
    *out = 0;
    if (r->len - r->at < n || !n || n > 6) return false;
    for (size_t i = 0; i < n; i++) {
        const int c = r->src[r->at + i] | 32, digit = c >= '0' && c <= '9'   ? c - '0'
                                                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                                             : -1;
        if (digit < 0) return false;
        *out = 16 * *out + (uint32_t)digit;
    }
    r->at += n;
    return true;
}

static bool rx_unicode(regex *r, uint32_t *c)          /* \uXXXX, two of them, \u{...}; at behind the u */
{
    uint32_t low;
    if (r->at < r->len && r->src[r->at] == '{') {
        const char *end = memchr(r->src + r->at, '}', r->len - r->at);
        const size_t n = end ? (size_t)(end - (r->src + r->at)) - 1 : 0;
        r->at++;
        if (!rx_hex(r, n, c)) return false;
        r->at++;
        return *c <= 0x10ffff;
    }
    if (!rx_hex(r, 4, c)) return false;
    if (*c < 0xd800 || *c > 0xdbff || r->len - r->at < 6 || r->src[r->at] != '\\' || r->src[r->at + 1] != 'u')
        return true;
    r->at += 2;
    if (!rx_hex(r, 4, &low) || low < 0xdc00 || low > 0xdfff) return false;
    *c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

typedef enum rx_kind { RX_CHAR, RX_SET, RX_PLACE } rx_kind;

/* What follows a backslash: a character to *c, ranges to r->ranges, or a place to *c. */
static rx_kind rx_escape(regex *r, bool in_class, uint32_t *c)
{
    static const char control[] = "tnvfr", codes[] = "\t\n\v\f\r";
    const size_t start = r->at - 1;
    size_t used;
    if (r->at >= r->len) {
        rx_fail(r, start, "a backslash with nothing behind it");
        return RX_CHAR;
    }
    const char e = r->src[r->at];
    const bool upper = e >= 'A' && e <= 'Z';
    r->at++;
    switch (e) {
    case 'd': case 'D': rx_set(r, rx_digits, 1, upper); return RX_SET;
    case 'w': case 'W': rx_set(r, rx_words, QSF_ARRAY_LEN(rx_words), upper); return RX_SET;
    case 's': case 'S': rx_set(r, rx_spaces, QSF_ARRAY_LEN(rx_spaces), upper); return RX_SET;
    case 'p': case 'P': rx_property(r, upper); return RX_SET;
    case 'x':
        if (!rx_hex(r, 2, c)) rx_fail(r, start, "two hexadecimal digits have to follow \\x");
        return RX_CHAR;
    case 'u': if (!rx_unicode(r, c)) rx_fail(r, start, "this is no character"); return RX_CHAR;
    case 'c':
        *c = r->at < r->len ? (uint8_t)r->src[r->at++] & 31 : 0;
        return RX_CHAR;
    case '0': *c = 0; return RX_CHAR;
    case 'A': case 'z': case 'Z':
        if (in_class) break;
        *c = e == 'A' ? RX_BEGIN : RX_END;
        return RX_PLACE;
    case 'b':
        if (in_class) {
            *c = '\b';
            return RX_CHAR;
        }
        /* fall through */
    case 'B': rx_fail(r, start, "a word boundary (\\b, \\B) cannot be kept"); return RX_CHAR;
    case 'k': rx_fail(r, start, "a backreference cannot be kept"); return RX_CHAR;
    default: break;
    }
    const char *known = strchr(control, e);
    if (known && e) *c = (uint8_t)codes[known - control];
    else if (e >= '1' && e <= '9') rx_fail(r, start, "a backreference cannot be kept");
    else if (upper || (e >= 'a' && e <= 'z')) rx_fail(r, start, "an escape that is not known");
    else *c = qsf_utf8_decode(r->src + r->at - 1, r->len - r->at + 1, &used), r->at += used - 1;
    return RX_CHAR;
}

static uint32_t rx_char(regex *r)
{
    size_t used = 1;
    const uint32_t c = qsf_utf8_decode(r->src + r->at, r->len - r->at, &used);
    r->at += used;
    return c;
}

/* at is behind the "[" */
static void rx_bracket(regex *r)
{
    const size_t start = r->at - 1;
    const bool negated = r->at < r->len && r->src[r->at] == '^';
    r->at += negated;
    for (;;) {
        if (r->at >= r->len) {
            rx_fail(r, start, "this class has no end");
            return;
        }
        uint32_t c = rx_char(r), to = 0;
        if (c == ']') break;
        if (c == '\\' && rx_escape(r, true, &c) == RX_SET) continue;
        if (r->len - r->at >= 2 && r->src[r->at] == '-' && r->src[r->at + 1] != ']') {
            const size_t minus = r->at++;
            to = rx_char(r);
            if (to == '\\' && rx_escape(r, true, &to) == RX_SET) {      /* [a-\d]: the "-" is one */
                rx_range(r, '-', '-');
                to = c;
            } else if (to < c) {
                rx_fail(r, minus, "a range that ends before it begins");
            }
        } else {
            to = c;
        }
        rx_range(r, c, to);
    }
    rx_tidy(r, 0, negated);
}

/* ---- quantifiers ---- */

static bool rx_number(const regex *r, size_t *at, uint32_t *out)
{
    const size_t start = *at;
    for (*out = 0; *at < r->len && r->src[*at] >= '0' && r->src[*at] <= '9'; ++*at)
        *out = QSF_MIN(10 * *out + (uint32_t)(r->src[*at] - '0'), 100000000u);
    return *at > start;
}

/* Whether a quantifier stands at r->at; goes behind it. */
static bool rx_quantifier(regex *r, uint32_t *least, uint32_t *most)
{
    size_t at = r->at;
    const char c = at < r->len ? r->src[at++] : 0;
    *least = c == '+';
    *most = c == '?' ? 1 : QSF_G_NO_MOST;
    if (c == '{') {
        if (!rx_number(r, &at, least)) return false;
        *most = *least;
        if (at < r->len && r->src[at] == ',') {
            at++;
            if (!rx_number(r, &at, most)) *most = QSF_G_NO_MOST;
        }
        if (at >= r->len || r->src[at++] != '}') return false;
        if (*most < *least) rx_fail(r, r->at, "a repetition whose most is less than its least");
    } else if (c != '*' && c != '+' && c != '?') {
        return false;
    }
    if (at < r->len && r->src[at] == '?') at++;         /* lazy: the same texts */
    else if (at < r->len && (r->src[at] == '+' || r->src[at] == '*'))
        rx_fail(r, at, "two quantifiers in a row");
    if (!r->failed) r->at = at;
    return true;
}

static void rx_repeat(regex *r, rx_value *a, uint32_t least, uint32_t most)
{
    if (!a->v[1] && !a->v[2] && !a->v[3]) {
        a->v[0] = qsf_g_repeat(r->b, a->v[0] ? a->v[0] : qsf_g_choice(r->b, NULL, 0), least, most);
    } else if (most > 1) {
        rx_fail(r, r->at - 1, "a repeated group with ^ or $ in it cannot be kept");
    } else if (!least) {
        a->v[0] = rx_either(r, a->v[0], r->none);
    }
    a->empty |= !least;
}

/* ---- the pattern ---- */

/* "(" was read: goes into the group. */
static void rx_group(regex *r)
{
    const size_t start = r->at - 1, left = r->len - r->at;
    const char *s = r->src + r->at;
    rx_flush(r);
    if (left && s[0] == '?') {
        const size_t p = left > 1 && s[1] == 'P' ? 2 : 1;
        if (left > 1 && s[1] == ':') {
            r->at += 2;
        } else if (left > p + 1 && s[p] == '<' && s[p + 1] != '=' && s[p + 1] != '!') {
            const char *end = memchr(s, '>', left);
            r->at += end ? (size_t)(end - s) + 1 : left;
        } else {
            rx_fail(r, start, left > 1 && strchr("=!<", s[1]) ? "lookahead and lookbehind cannot be kept"
                                                              : "flags of a pattern cannot be kept");
            return;
        }
    }
    if (r->depth + 1 == RX_DEPTH) {
        rx_fail(r, start, "groups are nested too deep (64 levels are possible)");
        return;
    }
    r->depth++;
    rx_open(r);
}

static void rx_literal(regex *r, uint32_t c, rx_value *a)
{
    uint32_t least, most;
    const size_t at = r->at;
    if ((r->flags & QSF_REGEX_JSON) && (c < 32 || c == '/')) {
        rx_range(r, c, c);
        a->v[0] = rx_class(r);
        return;
    }
    char bytes[8] = "\\";
    const size_t escape = (r->flags & QSF_REGEX_JSON) && (c == '"' || c == '\\');
    const size_t n = escape + qsf_utf8_encode(c, bytes + escape);
    if (rx_quantifier(r, &least, &most)) {
        if (!r->failed) r->at = at;
        a->v[0] = qsf_g_bytes(r->b, bytes, n);
        return;
    }
    if (r->n_literal + n > sizeof r->literal) rx_flush(r);
    memcpy(r->literal + r->n_literal, bytes, n);
    r->n_literal += (uint32_t)n;
}

/* One character of the pattern and what belongs to it: the value, none where it was used up. */
static rx_value rx_atom(regex *r)
{
    rx_value a = { .empty = false };
    const size_t start = r->at;
    uint32_t c = rx_char(r);
    switch (c) {
    case '|': rx_alternative(r); break;
    case '(': rx_group(r); break;
    case ')':
        if (!r->depth) {
            rx_fail(r, start, "this \")\" closes nothing");
            break;
        }
        rx_flush(r);
        a = rx_close(r);
        r->depth--;
        if (!a.v[0] && !a.v[1] && !a.v[2] && !a.v[3]) rx_fail(r, start, "no text can fit this group");
        break;
    case '^': a.v[RX_BEGIN] = r->none; break;
    case '$': a.v[RX_END] = r->none; break;
    case '.':
        rx_set(r, rx_lines, QSF_ARRAY_LEN(rx_lines), true);
        a.v[0] = rx_class(r);
        break;
    case '[':
        rx_bracket(r);
        a.v[0] = rx_class(r);
        break;
    case '*': case '+': case '?': rx_fail(r, start, "there is nothing to repeat"); break;
    case '\\':
        switch (rx_escape(r, false, &c)) {
        case RX_SET: a.v[0] = rx_class(r); break;
        case RX_PLACE: a.v[c] = r->none; break;
        default: rx_literal(r, c, &a);
        }
        break;
    default: rx_literal(r, c, &a);
    }
    return a;
}

static qsf_gnode rx_pattern(regex *r)
{
    uint32_t least, most;
    rx_open(r);
    while (r->at < r->len) {
        rx_value a = rx_atom(r);
        if (!a.v[0] && !a.v[1] && !a.v[2] && !a.v[3]) continue;
        rx_flush(r);
        if (rx_quantifier(r, &least, &most)) rx_repeat(r, &a, least, most);
        if (!r->failed) rx_append(r, &a);
    }
    if (r->depth) rx_fail(r, r->len, "a \")\" is missing");
    if (r->failed) return QSF_G_FAILED;
    const rx_value a = rx_close(r);
    if (!a.v[0] && !a.v[1] && !a.v[2] && !a.v[3]) rx_fail(r, 0, "^ and $ stand where no text can fit them");
    const uint32_t all[1][2] = { { 0, 0x10ffff } };
    const qsf_gnode any = r->flags & QSF_REGEX_SEARCH
        ? qsf_g_repeat(r->b, r->flags & QSF_REGEX_JSON ? qsf_g_json_class(r->b, all, 1)
                                                       : qsf_g_class(r->b, all, 1, false), 0, QSF_G_NO_MOST)
        : r->none;
    qsf_gnode out = 0;
    for (int i = 0; i < 4; i++) {
        qsf_gnode x = a.v[i];
        if (!(i & RX_BEGIN)) x = rx_then(r, any, x);
        if (!(i & RX_END)) x = rx_then(r, x, any);
        out = rx_either(r, out, x);
    }
    return out;
}

qsf_gnode qsf_regex_nodes(const qsf_platform *p, qsf_grammar_builder *b, const char *pattern, size_t len,
                          uint32_t flags, const char *what)
{
    qsf_error err = { 0 };
    regex *r = qsf_alloc(p, sizeof *r, what, &err);
    if (!r) return qsf_g_fail(b, QSF_E_MEMORY, "%s", err.text);
    *r = (regex){ .platform = p, .b = b, .src = pattern, .what = what, .len = len, .flags = flags,
                  .none = qsf_g_bytes(b, "", 0) };
    const qsf_gnode out = rx_pattern(r);
    qsf_dealloc(p, r, sizeof *r);
    return out;
}
