/* Regular expressions: parses a pattern to a tree, which regex_nodes.c converts to grammar nodes.
 * SPDX-License-Identifier: MIT
 *
 * The children of a node are listed from the last to the first, the order in which they are needed.
 * Groups are on a stack of RX_DEPTH frames, which bounds every recursion on the tree. */
#include "grammar/regex_own.h"
#include "text/unicode.h"

/* Adds a node; 0: the pattern is too long, or out of memory. */
static uint32_t rx_add(regex *r, rx_kind kind)
{
    if (kind >= RX_AHEAD && kind <= RX_NO_EDGE && ++r->n_looks > RX_LOOKS) {
        qsf_regex_fail(r, r->at, "more than 500 assertions (\\b, lookaround)");
        return 0;
    }
    if (r->n_nodes == r->cap_nodes) {
        const uint32_t cap = r->cap_nodes ? 2 * r->cap_nodes : 64;
        qsf_error err = { 0 };
        rx_node *nodes = qsf_alloc_array(r->platform, cap, sizeof *nodes, r->what, &err);
        if (!nodes) {
            qsf_g_fail(r->b, QSF_E_MEMORY, "%s", err.text);
            r->failed = true;
            r->at = r->len;
            return 0;
        }
        if (r->nodes) memcpy(nodes, r->nodes, r->n_nodes * sizeof *nodes);
        qsf_dealloc(r->platform, r->nodes, r->cap_nodes * (uint64_t)sizeof *nodes);
        r->nodes = nodes;
        r->cap_nodes = cap;
        if (!r->n_nodes) r->n_nodes = 1;        /* index 0 stands for no node */
    }
    r->nodes[r->n_nodes] = (rx_node){ .kind = (uint8_t)kind, .at = (uint32_t)r->at };
    return r->n_nodes++;
}

/* Appends x to its parent's children. */
static void rx_child(regex *r, uint32_t *last, uint32_t x)
{
    r->nodes[x].prev = *last;
    *last = x;
}

/* A node with these children, or the only child itself; sets the flags that depend on them. */
static uint32_t rx_parent(regex *r, rx_kind kind, uint32_t last)
{
    const uint32_t x = last && !r->nodes[last].prev ? last : rx_add(r, kind);
    if (!x || x == last) return x;
    rx_node *n = &r->nodes[x];
    n->last = last;
    n->nullable = kind == RX_SEQUENCE;
    for (uint32_t c = last; c; c = r->nodes[c].prev) {
        const rx_node *child = &r->nodes[c];
        n->looks |= child->looks;
        n->behind |= child->behind;
        n->size = QSF_MIN(n->size + child->size, 1000000000u);
        if (kind == RX_SEQUENCE) n->nullable &= child->nullable;
        else n->nullable |= child->nullable;
    }
    n->size++;
    return x;
}

static uint32_t rx_leaf(regex *r, qsf_gnode node, bool single)
{
    const uint32_t x = rx_add(r, RX_LEAF);
    if (!x) return 0;
    r->nodes[x].leaf = node;
    r->nodes[x].single = single;
    r->nodes[x].size = 1;
    return x;
}

static void rx_flush(regex *r)
{
    if (!r->n_literal || r->failed) return;
    const uint32_t x = rx_leaf(r, qsf_g_bytes(r->b, r->literal, r->n_literal), r->n_literal_chars == 1);
    r->n_literal = r->n_literal_chars = 0;
    if (x) rx_child(r, &r->frames[r->depth].sequence, x);
}

/* Ends an alternative of the current group. */
static void rx_alternative(regex *r)
{
    rx_frame *f = &r->frames[r->depth];
    rx_flush(r);
    if (r->failed) return;
    const uint32_t x = rx_parent(r, RX_SEQUENCE, f->sequence);
    f->sequence = 0;
    if (x) rx_child(r, &f->choice, x);
}

/* ---- escapes ---- */

static const uint32_t rx_digits[][2] = { { '0', '9' } },
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

static bool rx_unicode(regex *r, uint32_t *c)          /* \u00e9, two of them, \u{e9}; at after the u */
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

typedef enum rx_escaped { RX_CHAR, RX_SET, RX_NODE } rx_escaped;

/* Reads an escape after its backslash: to *c a character or a node's kind, to r->ranges a set. */
static rx_escaped rx_escape(regex *r, bool in_class, uint32_t *c)
{
    static const char control[] = "tnvfr", codes[] = "\t\n\v\f\r";
    const size_t start = r->at - 1;
    size_t used;
    if (r->at >= r->len) {
        qsf_regex_fail(r, start, "a trailing backslash");
        return RX_CHAR;
    }
    const char e = r->src[r->at];
    const bool upper = e >= 'A' && e <= 'Z';
    r->at++;
    switch (e) {
    case 'd': case 'D': qsf_regex_set(r, rx_digits, 1, upper); return RX_SET;
    case 'w': case 'W': qsf_regex_set(r, qsf_regex_words, REGEX_WORDS, upper); return RX_SET;
    case 's': case 'S': qsf_regex_set(r, rx_spaces, QSF_ARRAY_LEN(rx_spaces), upper); return RX_SET;
    case 'p': case 'P': qsf_regex_property(r, upper); return RX_SET;
    case 'x':
        if (!rx_hex(r, 2, c)) qsf_regex_fail(r, start, "\\x needs two hexadecimal digits");
        return RX_CHAR;
    case 'u': if (!rx_unicode(r, c)) qsf_regex_fail(r, start, "this is not a character"); return RX_CHAR;
    case 'c':
        *c = r->at < r->len ? (uint8_t)r->src[r->at++] & 31 : 0;
        return RX_CHAR;
    case '0': *c = 0; return RX_CHAR;
    case 'A': case 'z': case 'Z':
        if (in_class) break;
        *c = e == 'A' ? RX_BEGIN : RX_END;
        return RX_NODE;
    case 'b': case 'B':
        if (in_class && e == 'B') break;
        *c = in_class ? '\b' : e == 'B' ? RX_NO_EDGE : RX_EDGE;
        return in_class ? RX_CHAR : RX_NODE;
    case 'k': qsf_regex_fail(r, start, "an unsupported backreference"); return RX_CHAR;
    default: break;
    }
    const char *known = strchr(control, e);
    if (known && e) *c = (uint8_t)codes[known - control];
    else if (e >= '1' && e <= '9') qsf_regex_fail(r, start, "an unsupported backreference");
    else if (upper || (e >= 'a' && e <= 'z')) qsf_regex_fail(r, start, "an unknown escape");
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

/* at is after the "[" */
static void rx_bracket(regex *r)
{
    const size_t start = r->at - 1;
    const bool negated = r->at < r->len && r->src[r->at] == '^';
    r->at += negated;
    for (;;) {
        if (r->at >= r->len) {
            qsf_regex_fail(r, start, "this class is not closed");
            return;
        }
        uint32_t c = rx_char(r), to = 0;
        if (c == ']') break;
        if (c == '\\' && rx_escape(r, true, &c) == RX_SET) continue;
        if (r->len - r->at >= 2 && r->src[r->at] == '-' && r->src[r->at + 1] != ']') {
            const size_t minus = r->at++;
            to = rx_char(r);
            if (to == '\\' && rx_escape(r, true, &to) == RX_SET) {      /* [a-\d]: the "-" is one */
                qsf_regex_range(r, '-', '-');
                to = c;
            } else if (to < c) {
                qsf_regex_fail(r, minus, "a range that ends before it begins");
            }
        } else {
            to = c;
        }
        qsf_regex_cased(r, c, to);
    }
    qsf_regex_tidy(r, 0, negated);
}

/* ---- quantifiers ---- */

static bool rx_number(const regex *r, size_t *at, uint32_t *out)
{
    const size_t start = *at;
    for (*out = 0; *at < r->len && r->src[*at] >= '0' && r->src[*at] <= '9'; ++*at)
        *out = QSF_MIN(10 * *out + (uint32_t)(r->src[*at] - '0'), 100000000u);
    return *at > start;
}

/* Whether a quantifier is at r->at; advances past it. */
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
        if (*most < *least) qsf_regex_fail(r, r->at, "a repetition whose maximum is less than its minimum");
    } else if (c != '*' && c != '+' && c != '?') {
        return false;
    }
    if (at < r->len && r->src[at] == '?') at++;         /* lazy: the same texts */
    else if (at < r->len && (r->src[at] == '+' || r->src[at] == '*'))
        qsf_regex_fail(r, at, "two quantifiers in a row");
    if (!r->failed) r->at = at;
    return true;
}

static uint32_t rx_repeat(regex *r, uint32_t x, uint32_t least, uint32_t most)
{
    const uint32_t out = rx_add(r, RX_REPEAT);
    if (!out) return 0;
    rx_node *n = &r->nodes[out];
    const rx_node *child = &r->nodes[x];
    n->last = x;
    n->least = least;
    n->most = most;
    n->looks = child->looks && most;
    n->behind = child->behind && most;
    n->nullable = !least || child->nullable;
    /* a repetition with assertions is expanded to this many copies */
    const uint64_t copies = most == QSF_G_NO_MOST ? (uint64_t)least + 1 : most;
    n->size = (uint32_t)QSF_MIN((n->looks ? copies : 1) * child->size + 1, 1000000000u);
    return out;
}

/* ---- groups ---- */

/* Reads flags after "(?", up to ")" or ":"; returns whether they open a group. */
static bool rx_flags(regex *r, size_t start)
{
    static const char known[] = "ismua";
    rx_frame *f = &r->frames[r->depth];
    uint8_t flags = f->flags;
    bool off = false;
    for (;; r->at++) {
        const char c = r->at < r->len ? r->src[r->at] : 0, *flag = c ? strchr(known, c) : NULL;
        if (c == '-' && !off) {
            off = true;
        } else if (c == ')' || c == ':') {
            r->at++;
            if (c == ')') f->flags = flags;
            else r->group_flags = flags;
            return c == ':';
        } else if (!flag) {
            qsf_regex_fail(r, start, "only the flags i, m and s are supported; this group");
            return false;
        } else {
            const uint8_t bit = (uint8_t)(1u << (flag - known));
            flags = off ? flags & (uint8_t)~bit : flags | bit;
        }
    }
}

/* "(" was read: goes into the group. */
static void rx_group(regex *r)
{
    const size_t start = r->at - 1, left = r->len - r->at;
    const char *s = r->src + r->at;
    rx_kind kind = RX_CHOICE;
    bool negated = false;
    rx_flush(r);
    r->group_flags = r->frames[r->depth].flags;
    if (left > 1 && s[0] == '?') {
        const bool behind = s[1] == '<' && left > 2 && (s[2] == '=' || s[2] == '!');
        const size_t p = s[1] == 'P' ? 2 : 1;
        const char *end = NULL;
        if (s[1] == '=' || s[1] == '!' || behind) {
            kind = behind ? RX_BEHIND : RX_AHEAD;
            negated = s[1 + behind] == '!';
            r->at += 2 + behind;
        } else if (left > p && s[p] == '<') {
            end = memchr(s, '>', left);
            r->at += end ? (size_t)(end - s) + 1 : left;
        } else if (s[1] == '#') {
            end = memchr(s, ')', left);
            r->at += end ? (size_t)(end - s) + 1 : left;
            return;
        } else if (s[1] == '>' || s[1] == '(' || p == 2) {
            qsf_regex_fail(r, start,
                           "atomic groups, conditions and backreferences are not supported; this group");
            return;
        } else {
            r->at++;
            if (!rx_flags(r, start)) return;
        }
    }
    if (r->depth + 1 == RX_DEPTH) {
        qsf_regex_fail(r, start, "groups are nested too deep (the maximum is 64 levels)");
        return;
    }
    if (r->failed) return;
    r->frames[++r->depth] = (rx_frame){ .kind = (uint8_t)kind, .negated = negated, .flags = r->group_flags };
}

/* Ends the current group; returns its node. */
static uint32_t rx_close(regex *r)
{
    rx_frame *f = &r->frames[r->depth];
    rx_alternative(r);
    const uint32_t x = r->failed ? 0 : rx_parent(r, RX_CHOICE, f->choice);
    if (!x || f->kind == RX_CHOICE) return x;
    const uint32_t look = rx_add(r, (rx_kind)f->kind);
    if (!look) return 0;
    rx_node *n = &r->nodes[look];
    n->last = x;
    n->negated = f->negated;
    n->looks = n->nullable = true;
    n->behind = f->kind == RX_BEHIND || r->nodes[x].behind;
    n->size = r->nodes[x].size + 1;
    return look;
}

static uint32_t rx_place(regex *r, rx_kind kind)
{
    const bool lines = r->frames[r->depth].flags & RX_LINES;
    if (lines && kind == RX_BEGIN) kind = RX_LINE_BEGIN;
    if (lines && kind == RX_END) kind = RX_LINE_END;
    const uint32_t x = rx_add(r, kind);
    if (!x) return 0;
    rx_node *n = &r->nodes[x];
    n->looks = n->nullable = true;
    n->behind = kind != RX_END && kind != RX_LINE_END;
    n->size = 1;
    return x;
}

/* Adds a character to the current literal, or returns its node if it cannot be part of one. */
static uint32_t rx_literal(regex *r, uint32_t c)
{
    uint32_t least, most;
    const size_t at = r->at;
    const bool cased = r->frames[r->depth].flags & RX_CASELESS && qsf_regex_cased(r, c, c);
    if (cased || ((r->flags & QSF_REGEX_JSON) && (c < 32 || c == '/'))) {
        if (!cased) r->n_ranges = 0, qsf_regex_range(r, c, c);
        qsf_regex_tidy(r, 0, false);
        return rx_leaf(r, qsf_regex_class(r), true);
    }
    r->n_ranges = 0;
    char bytes[8] = "\\";
    const size_t escape = (r->flags & QSF_REGEX_JSON) && (c == '"' || c == '\\');
    const size_t n = escape + qsf_utf8_encode(c, bytes + escape);
    if (rx_quantifier(r, &least, &most)) {
        if (!r->failed) r->at = at;
        return rx_leaf(r, qsf_g_bytes(r->b, bytes, n), true);
    }
    if (r->n_literal + n > sizeof r->literal) rx_flush(r);
    memcpy(r->literal + r->n_literal, bytes, n);
    r->n_literal += (uint32_t)n;
    r->n_literal_chars++;
    return 0;
}

/* Reads one element of the pattern; returns its node, or 0 if there is nothing to add. */
static uint32_t rx_atom(regex *r)
{
    const size_t start = r->at;
    uint32_t c = rx_char(r), x = 0;
    switch (c) {
    case '|': rx_alternative(r); return 0;
    case '(': rx_group(r); return 0;
    case ')':
        if (!r->depth) {
            qsf_regex_fail(r, start, "this \")\" is unmatched");
            return 0;
        }
        rx_flush(r);
        x = rx_close(r);
        r->depth--;
        return x;
    case '^': return rx_place(r, RX_BEGIN);
    case '$': return rx_place(r, RX_END);
    case '.':
        if (r->frames[r->depth].flags & RX_DOT_ALL) qsf_regex_range(r, 0, 0x10ffff);
        else qsf_regex_set(r, rx_lines, QSF_ARRAY_LEN(rx_lines), true);
        return rx_leaf(r, qsf_regex_class(r), true);
    case '[':
        rx_bracket(r);
        return rx_leaf(r, qsf_regex_class(r), true);
    case '*': case '+': case '?': qsf_regex_fail(r, start, "there is nothing to repeat"); return 0;
    case '\\':
        switch (rx_escape(r, false, &c)) {
        case RX_SET: return rx_leaf(r, qsf_regex_class(r), true);
        case RX_NODE: return rx_place(r, (rx_kind)c);
        default: return rx_literal(r, c);
        }
    default: return rx_literal(r, c);
    }
}

/* Parses the whole pattern; 0: refused. */
static uint32_t rx_pattern(regex *r)
{
    uint32_t least, most;
    while (r->at < r->len) {
        uint32_t x = rx_atom(r);
        if (!x || r->failed) continue;
        rx_flush(r);
        if (rx_quantifier(r, &least, &most)) x = rx_repeat(r, x, least, most);
        if (x && !r->failed) rx_child(r, &r->frames[r->depth].sequence, x);
    }
    if (r->depth) qsf_regex_fail(r, r->len, "a \")\" is missing");
    return r->failed ? 0 : rx_close(r);
}

qsf_gnode qsf_regex_nodes(const qsf_platform *p, qsf_grammar_builder *b, const char *pattern, size_t len,
                          uint32_t flags, const char *what)
{
    qsf_error err = { 0 };
    regex *r = qsf_alloc(p, sizeof *r, what, &err);
    qsf_gnode out = QSF_G_FAILED;
    if (!r) return qsf_g_fail(b, QSF_E_MEMORY, "%s", err.text);
    *r = (regex){ .platform = p, .b = b, .src = pattern, .what = what, .len = len, .flags = flags,
                  .frames[0].kind = RX_CHOICE };
    if (len > RX_LENGTH) qsf_regex_fail(r, 0, "a pattern of more than a million bytes begins");
    const uint32_t root = rx_pattern(r);
    if (root) out = qsf_regex_nodes_of(r, root);
    if (r->nodes) qsf_dealloc(p, r->nodes, r->cap_nodes * (uint64_t)sizeof *r->nodes);
    qsf_dealloc(p, r, sizeof *r);
    return out;
}
