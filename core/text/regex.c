/* Regular expressions: a pattern becomes nodes of a grammar.
 * SPDX-License-Identifier: MIT
 *
 * Groups are on a stack.  ^ and $ stand for no text, but for a place: each part of a
 * pattern has up to four sets of texts, by whether a ^ or a $ in it was passed.
 * Almost always only one of the four is not empty; its parts are a list: nodes stay flat. */
#include "text/regex_own.h"
#include "text/unicode.h"

void regex_fail(regex *r, size_t at, const char *why)
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
        const uint32_t n = r->n_stack - f->parts, alts = f->parts - f->alts;
        if (n > 1) {
            const qsf_gnode joined = rx_join(r, f->parts, false);
            r->stack[r->n_stack++] = joined;
        } else if (alts > 1) {
            r->stack[f->alts] = qsf_g_choice(r->b, r->stack + f->alts, alts);
            if (n) r->stack[f->alts + 1] = r->stack[f->parts];
            f->parts = f->alts + 1;
            r->n_stack = f->parts + n;
        } else {
            regex_fail(r, r->at, "too many groups and alternatives");
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
    f->empty = 1;
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

/* x behind the texts of n: a ^ in x needs an empty text before it, a $ in n one behind it. */
static rx_value rx_product(regex *r, const rx_value *n, const rx_value *x)
{
    rx_value out = { .empty = 0 };
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            const bool first = i & RX_END, last = k & RX_BEGIN;         /* which alone may have characters */
            const bool empty_n = n->empty >> i & 1, empty_x = x->empty >> k & 1;
            if (!n->v[i] || !x->v[k] || (first && !empty_x) || (last && !empty_n)) continue;
            out.v[i | k] = rx_either(r, out.v[i | k], first && last ? r->none : first ? n->v[i]
                                     : last ? x->v[k] : rx_then(r, n->v[i], x->v[k]));
            out.empty |= (uint8_t)((empty_n && empty_x) << (i | k));
        }
    return out;
}

static void rx_append(regex *r, const rx_value *a)
{
    rx_frame *f = &r->frames[r->depth];
    const bool others = f->seq[0] || f->seq[1] || f->seq[2] || f->seq[3];
    if (!others && !a->v[1] && !a->v[2] && !a->v[3]) {
        if (f->main & RX_END) f->dead |= !(a->empty & 1);       /* behind a $ only the empty text */
        else if (a->v[0] != r->none) rx_push(r, a->v[0]);
        if (!(a->empty & 1)) f->empty = 0;
        return;
    }
    const rx_value s = rx_sequence(r), n = rx_product(r, &s, a);
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
    rx_value a = { .empty = 0 };
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
    const rx_value s = rx_sequence(r);
    const int only = rx_only(&s);
    if (only >= 0 && !f->alt_any) f->alt_main = (uint8_t)only, f->alt_any = true;
    for (int i = 0; i < 4; i++) {
        if (!s.v[i]) continue;
        if (f->alt_any && f->alt_main == i) rx_push(r, s.v[i]), f->parts = r->n_stack;
        else f->alt[i] = rx_either(r, f->alt[i], s.v[i]);
    }
    f->alt_empty |= s.empty;
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

/* ---- escapes ---- */

static const uint32_t rx_digits[][2] = { { '0', '9' } },
    rx_words[][2] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } },
    rx_spaces[][2] = {
        { 9, 13 }, { 32, 32 }, { 0xa0, 0xa0 }, { 0x1680, 0x1680 }, { 0x2000, 0x200a }, { 0x2028, 0x2029 },
        { 0x202f, 0x202f }, { 0x205f, 0x205f }, { 0x3000, 0x3000 }, { 0xfeff, 0xfeff },
    },
    rx_lines[][2] = { { '\n', '\n' }, { '\r', '\r' }, { 0x2028, 0x2029 } };

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

static bool rx_unicode(regex *r, uint32_t *c)          /* \u00e9, two of them, \u{e9}; at behind the u */
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
        regex_fail(r, start, "a backslash with nothing behind it");
        return RX_CHAR;
    }
    const char e = r->src[r->at];
    const bool upper = e >= 'A' && e <= 'Z';
    r->at++;
    switch (e) {
    case 'd': case 'D': regex_set(r, rx_digits, 1, upper); return RX_SET;
    case 'w': case 'W': regex_set(r, rx_words, QSF_ARRAY_LEN(rx_words), upper); return RX_SET;
    case 's': case 'S': regex_set(r, rx_spaces, QSF_ARRAY_LEN(rx_spaces), upper); return RX_SET;
    case 'p': case 'P': regex_property(r, upper); return RX_SET;
    case 'x':
        if (!rx_hex(r, 2, c)) regex_fail(r, start, "two hexadecimal digits have to follow \\x");
        return RX_CHAR;
    case 'u': if (!rx_unicode(r, c)) regex_fail(r, start, "this is no character"); return RX_CHAR;
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
    case 'B': regex_fail(r, start, "a word boundary (\\b, \\B) cannot be kept"); return RX_CHAR;
    case 'k': regex_fail(r, start, "a backreference cannot be kept"); return RX_CHAR;
    default: break;
    }
    const char *known = strchr(control, e);
    if (known && e) *c = (uint8_t)codes[known - control];
    else if (e >= '1' && e <= '9') regex_fail(r, start, "a backreference cannot be kept");
    else if (upper || (e >= 'a' && e <= 'z')) regex_fail(r, start, "an escape that is not known");
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
            regex_fail(r, start, "this class has no end");
            return;
        }
        uint32_t c = rx_char(r), to = 0;
        if (c == ']') break;
        if (c == '\\' && rx_escape(r, true, &c) == RX_SET) continue;
        if (r->len - r->at >= 2 && r->src[r->at] == '-' && r->src[r->at + 1] != ']') {
            const size_t minus = r->at++;
            to = rx_char(r);
            if (to == '\\' && rx_escape(r, true, &to) == RX_SET) {      /* [a-\d]: the "-" is one */
                regex_range(r, '-', '-');
                to = c;
            } else if (to < c) {
                regex_fail(r, minus, "a range that ends before it begins");
            }
        } else {
            to = c;
        }
        regex_range(r, c, to);
    }
    regex_tidy(r, 0, negated);
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
        if (*most < *least) regex_fail(r, r->at, "a repetition whose most is less than its least");
    } else if (c != '*' && c != '+' && c != '?') {
        return false;
    }
    if (at < r->len && r->src[at] == '?') at++;         /* lazy: the same texts */
    else if (at < r->len && (r->src[at] == '+' || r->src[at] == '*'))
        regex_fail(r, at, "two quantifiers in a row");
    if (!r->failed) r->at = at;
    return true;
}

static void rx_repeat(regex *r, rx_value *a, uint32_t least, uint32_t most)
{
    if (!most) {
        *a = (rx_value){ { r->none }, 1 };
    } else if (!a->v[1] && !a->v[2] && !a->v[3]) {
        a->v[0] = qsf_g_repeat(r->b, a->v[0] ? a->v[0] : qsf_g_choice(r->b, NULL, 0), least, most);
    } else if (most > 1) {
        regex_fail(r, r->at - 1, "a repeated group with ^ or $ in it cannot be kept");
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
            regex_fail(r, start, left > 1 && strchr("=!<", s[1]) ? "lookahead and lookbehind cannot be kept"
                                                              : "flags of a pattern cannot be kept");
            return;
        }
    }
    if (r->depth + 1 == RX_DEPTH) {
        regex_fail(r, start, "groups are nested too deep (64 levels are possible)");
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
        regex_range(r, c, c);
        a->v[0] = regex_class(r);
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
    rx_value a = { .empty = 0 };
    const size_t start = r->at;
    uint32_t c = rx_char(r);
    switch (c) {
    case '|': rx_alternative(r); break;
    case '(': rx_group(r); break;
    case ')':
        if (!r->depth) {
            regex_fail(r, start, "this \")\" closes nothing");
            break;
        }
        rx_flush(r);
        a = rx_close(r);
        r->depth--;
        if (!a.v[0] && !a.v[1] && !a.v[2] && !a.v[3]) regex_fail(r, start, "no text can fit this group");
        break;
    case '^': a = (rx_value){ { 0, r->none }, 1 << RX_BEGIN }; break;
    case '$': a = (rx_value){ { 0, 0, r->none }, 1 << RX_END }; break;
    case '.':
        regex_set(r, rx_lines, QSF_ARRAY_LEN(rx_lines), true);
        a.v[0] = regex_class(r);
        break;
    case '[':
        rx_bracket(r);
        a.v[0] = regex_class(r);
        break;
    case '*': case '+': case '?': regex_fail(r, start, "there is nothing to repeat"); break;
    case '\\':
        switch (rx_escape(r, false, &c)) {
        case RX_SET: a.v[0] = regex_class(r); break;
        case RX_PLACE: a.v[c] = r->none, a.empty = (uint8_t)(1 << c); break;
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
    if (r->depth) regex_fail(r, r->len, "a \")\" is missing");
    if (r->failed) return QSF_G_FAILED;
    const rx_value a = rx_close(r);
    if (!a.v[0] && !a.v[1] && !a.v[2] && !a.v[3])
        regex_fail(r, 0, "^ and $ stand where no text can fit them");
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
    if (len > RX_LENGTH) regex_fail(r, 0, "a pattern of more than a million bytes begins");
    const qsf_gnode out = rx_pattern(r);
    qsf_dealloc(p, r, sizeof *r);
    return out;
}
