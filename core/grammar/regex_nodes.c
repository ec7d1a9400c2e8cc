/* Regular expressions: converts the tree to grammar nodes.
 * SPDX-License-Identifier: MIT
 *
 * Parts without assertions (^, $, \b, lookahead, lookbehind) are converted directly.  The rest is
 * built from its end: each part is given the strings that may follow it, its continuation.  A
 * lookahead intersects the continuation with what it allows.  An assertion that looks back adds a
 * condition on the preceding character.  The part before it meets the condition with those of its
 * strings that end accordingly, or passes it on if it may be empty.  So a continuation is a set:
 * strings that may always follow, and others that may follow under a condition each. */
#include "grammar/regex_own.h"

/* A condition on the preceding character: that it is, or is not, in some of r->classes.  start:
 * that this is the beginning. */
typedef struct rx_condition { bool start; uint8_t in, out; } rx_condition;

typedef struct rx_set {
    qsf_gnode always;
    uint32_t  n;
    struct { rx_condition if_; qsf_gnode node; } part[RX_PARTS];
} rx_set;

enum { RX_COPIES = 4096 };      /* most nodes from expanding a repetition with assertions */

static qsf_gnode rx_either(regex *r, qsf_gnode x, qsf_gnode y)
{
    return x == r->none ? y : y == r->none || x == y ? x : qsf_g_choice(r->b, (const qsf_gnode[]){ x, y }, 2);
}

static qsf_gnode rx_then(regex *r, qsf_gnode x, qsf_gnode y)
{
    return x == r->none || y == r->none ? r->none : x == r->empty ? y : y == r->empty ? x
           : qsf_g_sequence(r->b, (const qsf_gnode[]){ x, y }, 2);
}

static qsf_gnode rx_common(regex *r, qsf_gnode x, qsf_gnode y)
{
    /* it is not known yet whether a rule matches the empty string */
    if ((x == r->empty && qsf_g_has_rules(r->b, y)) || (y == r->empty && qsf_g_has_rules(r->b, x)))
        qsf_regex_fail(r, r->len, "a $ before a repeated group that has lookaround in it is not supported; "
                       "the end");
    if (x == r->none || y == r->none) return r->none;
    if (x == r->any || x == r->all) return y == r->all ? x : y;
    return y == r->any || y == r->all || x == y ? x : qsf_g_both(r->b, x, y);
}

/* The complement; inside JSON relative to what a JSON string may contain. */
static qsf_gnode rx_other(regex *r, qsf_gnode x)
{
    if (x == r->none) return r->any;
    if (x == r->any || x == r->all) return r->none;
    if (qsf_g_has_rules(r->b, x)) {
        qsf_regex_fail(r, r->len, "a repeated group that has lookaround in it is not supported in a negative "
                       "one; the end");
        return x;
    }
    const qsf_gnode out = qsf_g_not(r->b, x);
    return r->flags & QSF_REGEX_JSON ? qsf_g_both(r->b, out, r->any) : out;
}

/* ---- parts without assertions ---- */

static qsf_gnode rx_plain(regex *r, uint32_t x)
{
    const rx_node *n = &r->nodes[x];
    qsf_gnode out = r->empty;
    if (n->kind == RX_LEAF) return n->leaf;
    if (n->kind == RX_REPEAT) return qsf_g_repeat(r->b, rx_plain(r, n->last), n->least, n->most);
    if (n->kind == RX_SEQUENCE) {
        for (uint32_t c = n->last; c; c = r->nodes[c].prev) out = rx_then(r, rx_plain(r, c), out);
        return out;
    }
    qsf_error err;
    uint32_t count = 0, i = 0;
    for (uint32_t c = n->last; c; c = r->nodes[c].prev) count++;
    qsf_gnode *parts = qsf_alloc_array(r->platform, count, sizeof *parts, r->what, &err);
    if (!parts) return qsf_g_fail(r->b, QSF_E_MEMORY, "%s", err.text);
    for (uint32_t c = n->last; c; c = r->nodes[c].prev) parts[i++] = rx_plain(r, c);
    out = qsf_g_choice(r->b, parts, count);
    qsf_dealloc(r->platform, parts, count * (uint64_t)sizeof *parts);
    return out;
}

/* ---- sets ---- */

static bool rx_agree(rx_condition *a, rx_condition b)
{
    if (a->start != b.start && (a->start ? b.in | b.out : a->in | a->out)) return false;
    a->start |= b.start;
    a->in |= b.in;
    a->out |= b.out;
    return !(a->in & a->out);
}

static void rx_put(regex *r, rx_set *s, rx_condition if_, qsf_gnode node)
{
    if (node == r->none || r->failed) return;
    if (!if_.start && !if_.in && !if_.out) {
        s->always = rx_either(r, s->always, node);
        return;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        const rx_condition c = s->part[i].if_;
        if (c.start != if_.start || c.in != if_.in || c.out != if_.out) continue;
        s->part[i].node = rx_either(r, s->part[i].node, node);
        return;
    }
    if (s->n == RX_PARTS) {
        qsf_regex_fail(r, r->len, "too many assertions about the text before (\\b, ^, lookbehind) next to "
                       "each other; the end");
        return;
    }
    s->part[s->n].if_ = if_;
    s->part[s->n++].node = node;
}

static void rx_add_all(regex *r, rx_set *s, const rx_set *more)
{
    s->always = rx_either(r, s->always, more->always);
    for (uint32_t i = 0; i < more->n; i++) rx_put(r, s, more->part[i].if_, more->part[i].node);
}

/* What a set allows under a condition that decides all classes that the set tests. */
static qsf_gnode rx_where(regex *r, const rx_set *s, rx_condition is)
{
    qsf_gnode out = s->always;
    for (uint32_t i = 0; i < s->n; i++) {
        const rx_condition c = s->part[i].if_;
        if (c.start ? is.start : !is.start && !(c.in & ~is.in) && !(c.out & ~is.out))
            out = rx_either(r, out, s->part[i].node);
    }
    return out;
}

static rx_set rx_cut(regex *r, const rx_set *a, const rx_set *b)
{
    rx_set out = { .always = rx_common(r, a->always, b->always) };
    for (uint32_t i = 0; i < a->n; i++)
        rx_put(r, &out, a->part[i].if_, rx_common(r, a->part[i].node, b->always));
    for (uint32_t k = 0; k < b->n; k++)
        rx_put(r, &out, b->part[k].if_, rx_common(r, a->always, b->part[k].node));
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t k = 0; k < b->n; k++) {
            rx_condition both = a->part[i].if_;
            if (rx_agree(&both, b->part[k].if_))
                rx_put(r, &out, both, rx_common(r, a->part[i].node, b->part[k].node));
        }
    return out;
}

/* The classes that a set's conditions test. */
static uint8_t rx_spoken(const rx_set *s)
{
    uint8_t all = 0;
    for (uint32_t i = 0; i < s->n; i++) all |= s->part[i].if_.in | s->part[i].if_.out;
    return all;
}

/* The number of a character class, as a bit; 0: too many classes. */
static uint8_t rx_class(regex *r, qsf_gnode node)
{
    uint32_t i = 0;
    while (i < r->n_classes && r->classes[i] != node) i++;
    if (i == RX_CLASSES) {
        qsf_regex_fail(r, r->len, "more than 3 kinds of characters in lookbehinds; the end");
        return 0;
    }
    r->classes[i] = node;
    r->n_classes = QSF_MAX(r->n_classes, i + 1);
    return (uint8_t)(1u << i);
}

static qsf_gnode rx_word(regex *r)
{
    if (!r->word) {
        qsf_regex_set(r, qsf_regex_words, REGEX_WORDS, false);
        r->word = qsf_regex_class(r);
    }
    return r->word;
}

/* Some class, to tell a preceding character from the start of the input. */
static uint8_t rx_some_class(regex *r) { return r->n_classes ? 1 : rx_class(r, rx_word(r)); }

/* Enumerates which of these classes the preceding character is in, ending with the start of the
 * input; *way begins at 0. */
static bool rx_ways(uint8_t classes, uint32_t *way, rx_condition *out)
{
    while (*way < 1u << RX_CLASSES && (*way & ~(uint32_t)classes)) ++*way;
    if (*way > 1u << RX_CLASSES) return false;
    *out = *way == 1u << RX_CLASSES ? (rx_condition){ .start = true }
                                    : (rx_condition){ false, (uint8_t)*way, (uint8_t)(classes & ~*way) };
    ++*way;
    return true;
}

static rx_set rx_opposite(regex *r, const rx_set *s)
{
    rx_set out = { .always = r->none };
    const uint8_t spoken = rx_spoken(s), classes = spoken ? spoken : rx_some_class(r);
    rx_condition is;
    if (!s->n) out.always = rx_other(r, s->always);
    for (uint32_t way = 0; s->n && !r->failed && rx_ways(classes, &way, &is); )
        rx_put(r, &out, is, rx_other(r, rx_where(r, s, is)));
    return out;
}

/* The characters that meet a condition. */
static qsf_gnode rx_before_of(regex *r, rx_condition c)
{
    qsf_gnode x = r->any_char;
    for (uint32_t i = 0; i < RX_CLASSES; i++) {
        if (c.in >> i & 1) x = x == r->any_char ? r->classes[i] : rx_common(r, x, r->classes[i]);
        if (c.out >> i & 1) x = rx_common(r, x, rx_other(r, r->classes[i]));
    }
    return x;
}

/* The continuation before a part without assertions. */
static rx_set rx_pass(regex *r, qsf_gnode x, bool nullable, const rx_set *s)
{
    rx_set out = { .always = rx_then(r, x, s->always) };
    for (uint32_t i = 0; i < s->n; i++) {
        const rx_condition c = s->part[i].if_;
        if (nullable) rx_put(r, &out, c, s->part[i].node);
        if (c.start) continue;
        const qsf_gnode ends = rx_then(r, r->any, rx_before_of(r, c));
        out.always = rx_either(r, out.always, rx_then(r, rx_common(r, x, ends), s->part[i].node));
    }
    return out;
}

/* What a set allows at the start of the input. */
static qsf_gnode rx_start(regex *r, const rx_set *s)
{
    return rx_where(r, s, (rx_condition){ .start = true });
}

/* ---- assertions ---- */

static rx_set rx_before(regex *r, uint32_t x, const rx_set *s);

/* \b (edge) or \B. */
static rx_set rx_edge(regex *r, bool edge, const rx_set *s)
{
    const uint8_t word = rx_class(r, rx_word(r));
    const qsf_gnode next = rx_then(r, rx_word(r), r->all), other = rx_other(r, next);
    rx_set places = { .always = r->none };
    rx_put(r, &places, (rx_condition){ false, word, 0 }, edge ? other : next);
    rx_put(r, &places, (rx_condition){ false, 0, word }, edge ? next : other);
    rx_put(r, &places, (rx_condition){ .start = true }, edge ? next : other);
    return rx_cut(r, s, &places);
}

/* If a lookbehind needs only one character or the beginning, adds its condition to *out. */
static bool rx_behind_short(regex *r, uint32_t x, rx_set *out)
{
    static const uint32_t line[][2] = { { '\n', '\n' } };
    const rx_node *n = &r->nodes[x];
    if (n->kind == RX_CHOICE) {
        for (uint32_t c = n->last; c; c = r->nodes[c].prev) if (!rx_behind_short(r, c, out)) return false;
        return true;
    }
    if (n->kind == RX_LINE_BEGIN) {
        qsf_regex_set(r, line, 1, false);
        rx_put(r, out, (rx_condition){ false, rx_class(r, qsf_regex_class(r)), 0 }, r->any);
    }
    if (n->kind == RX_BEGIN || n->kind == RX_LINE_BEGIN)
        rx_put(r, out, (rx_condition){ .start = true }, r->any);
    else if (n->kind == RX_LEAF && n->single)
        rx_put(r, out, (rx_condition){ false, rx_class(r, n->leaf), 0 }, r->any);
    else
        return false;
    return true;
}

/* All strings that end in a match of a lookbehind. */
static qsf_gnode rx_ends(regex *r, uint32_t x)
{
    const rx_set end = { .always = r->empty }, s = rx_before(r, x, &end), all = rx_pass(r, r->any, true, &s);
    if (r->nodes[x].looks && r->nodes[x].nullable)
        qsf_regex_fail(r, r->nodes[x].at - 1, "this lookbehind is not supported; it ends");
    return rx_start(r, &all);
}

static rx_set rx_behind(regex *r, const rx_node *n, const rx_set *s)
{
    rx_set places = { .always = r->none };
    if (!rx_behind_short(r, n->last, &places)) {
        qsf_regex_fail(r, n->at - 1,
                       "a lookbehind of more than one character is only supported at the ends of a "
                       "pattern; this one ends");
        return *s;
    }
    if (n->negated) places = rx_opposite(r, &places);
    return rx_cut(r, s, &places);
}

static rx_set rx_ahead(regex *r, const rx_node *n, const rx_set *s)
{
    const rx_set rest = { .always = r->all };
    rx_set places = rx_before(r, n->last, &rest);
    if (n->negated) places = rx_opposite(r, &places);
    return rx_cut(r, s, &places);
}

/* $: the end of the input or, with lines, of a line. */
static rx_set rx_end(regex *r, bool lines, const rx_set *s)
{
    static const uint32_t line[][2] = { { '\n', '\n' } };
    rx_set places = { .always = r->empty };
    if (lines) {
        qsf_regex_set(r, line, 1, false);
        places.always = rx_either(r, r->empty, rx_then(r, qsf_regex_class(r), r->all));
    }
    return rx_cut(r, s, &places);
}

/* ---- repetitions with assertions ---- */

static bool rx_is_blank(const rx_node *n)
{
    return n->kind >= RX_AHEAD || (n->kind == RX_SEQUENCE && !n->last);
}

/* The continuation before one more round of x, without rounds that match the empty string. */
static rx_set rx_round(regex *r, uint32_t x, const rx_set *s)
{
    const rx_node *n = &r->nodes[x];
    rx_set out = { .always = r->none };
    if (n->kind != RX_CHOICE) {
        if (rx_is_blank(n)) return out;
        if (n->nullable)
            qsf_regex_fail(r, n->at - 1,
                           "a repeated group with ^ or $ or lookaround that may be empty is not "
                           "supported; this one ends");
        return rx_before(r, x, s);
    }
    for (uint32_t c = n->last; c && !r->failed; c = r->nodes[c].prev) {
        const rx_set one = rx_round(r, c, s);
        rx_add_all(r, &out, &one);
    }
    return out;
}

/* Registers the classes that assertions in x test on the preceding character. */
static void rx_know(regex *r, uint32_t x)
{
    const rx_node *n = &r->nodes[x];
    rx_set unused = { .always = r->none };
    if (!n->behind) return;
    if (n->kind == RX_EDGE || n->kind == RX_NO_EDGE) (void)rx_class(r, rx_word(r));
    if (n->kind == RX_LINE_BEGIN) (void)rx_behind_short(r, x, &unused);
    if (n->kind == RX_BEHIND) (void)rx_behind_short(r, n->last, &unused);
    for (uint32_t c = n->last; c; c = r->nodes[c].prev) rx_know(r, c);
}

/* Any number of rounds: one rule, or a rule for each state of the preceding character. */
static rx_set rx_loop(regex *r, uint32_t x, const rx_set *s)
{
    if (!r->nodes[x].behind) {
        rx_set out = *s;
        out.always = qsf_g_rule(r->b);
        const rx_set round = rx_round(r, x, &out);
        qsf_g_define(r->b, out.always, rx_either(r, s->always, round.always));
        return out;
    }
    rx_know(r, x);
    (void)rx_some_class(r);
    const uint8_t classes = (uint8_t)((1u << r->n_classes) - 1);
    rx_set out = { .always = r->none };
    rx_condition is;
    for (uint32_t way = 0; !r->failed && rx_ways(classes, &way, &is); )
        rx_put(r, &out, is, qsf_g_rule(r->b));
    const rx_set round = rx_round(r, x, &out);
    for (uint32_t i = 0; i < out.n && !r->failed; i++) {
        is = out.part[i].if_;
        qsf_g_define(r->b, out.part[i].node, rx_either(r, rx_where(r, s, is), rx_where(r, &round, is)));
    }
    return out;
}

static rx_set rx_times(regex *r, const rx_node *n, const rx_set *s)
{
    rx_set out = *s;
    const uint32_t most = n->most == QSF_G_NO_MOST ? n->least : n->most;
    if (n->size > RX_COPIES) {
        qsf_regex_fail(r, n->at - 1, "a group with ^, $ or lookaround in it is repeated too often; this one "
                       "ends");
        return out;
    }
    if (n->most == QSF_G_NO_MOST) out = rx_loop(r, n->last, &out);
    for (uint32_t i = n->least; i < most && !r->failed; i++) {
        out = rx_before(r, n->last, &out);
        rx_add_all(r, &out, s);
    }
    for (uint32_t i = 0; i < n->least && !r->failed; i++) out = rx_before(r, n->last, &out);
    return out;
}

/* ---- the pattern ---- */

/* The continuation before x, given the one after it. */
static rx_set rx_before(regex *r, uint32_t x, const rx_set *s)
{
    const rx_node *n = &r->nodes[x];
    rx_set out = { .always = r->none };
    if (r->failed) return out;
    if (!n->looks) return rx_pass(r, rx_plain(r, x), n->nullable, s);
    switch (n->kind) {
    case RX_SEQUENCE:
        out = *s;
        for (uint32_t c = n->last; c && !r->failed; c = r->nodes[c].prev) out = rx_before(r, c, &out);
        return out;
    case RX_CHOICE:
        for (uint32_t c = n->last; c && !r->failed; c = r->nodes[c].prev) {
            const rx_set one = rx_before(r, c, s);
            rx_add_all(r, &out, &one);
        }
        return out;
    case RX_REPEAT: return rx_times(r, n, s);
    case RX_AHEAD: return rx_ahead(r, n, s);
    case RX_BEHIND: return rx_behind(r, n, s);
    case RX_EDGE: case RX_NO_EDGE: return rx_edge(r, n->kind == RX_EDGE, s);
    case RX_END: case RX_LINE_END: return rx_end(r, n->kind == RX_LINE_END, s);
    default: rx_behind_short(r, x, &out); return rx_cut(r, s, &out);
    }
}

static bool rx_is_long_behind(regex *r, uint32_t x)
{
    rx_set unused = { .always = r->none };
    return r->nodes[x].kind == RX_BEHIND && !rx_behind_short(r, r->nodes[x].last, &unused);
}

/* Whether something in x looks ahead. */
static bool rx_looks_ahead(const regex *r, uint32_t x)
{
    const rx_node *n = &r->nodes[x];
    if (!n->looks || n->kind == RX_BEHIND || n->kind == RX_BEGIN || n->kind == RX_LINE_BEGIN) return false;
    if (n->kind >= RX_AHEAD) return true;
    for (uint32_t c = n->last; c; c = r->nodes[c].prev) if (rx_looks_ahead(r, c)) return true;
    return false;
}

/* All strings whose end satisfies a lookbehind. */
static qsf_gnode rx_known_ends(regex *r, uint32_t x)
{
    const qsf_gnode ends = rx_ends(r, r->nodes[x].last);
    return r->nodes[x].negated ? rx_other(r, ends) : ends;
}

/* The last of the long lookbehinds at the beginning of a list; 0: none. */
static uint32_t rx_leading(regex *r, uint32_t last)
{
    uint32_t run = 0;
    for (uint32_t c = last; c; c = r->nodes[c].prev)
        if (!rx_is_long_behind(r, c)) run = 0;
        else if (!run) run = c;
    return run;
}

/* Removes long lookbehinds, and a $ among them, from the end of a list.  *ends: what they require
 * of the whole input before them; 0: nothing. */
static uint32_t rx_trailing(regex *r, uint32_t last, qsf_gnode *ends, bool *over)
{
    uint32_t c = last;
    for (; c && (r->nodes[c].kind == RX_END || rx_is_long_behind(r, c)); c = r->nodes[c].prev) {
        if (r->nodes[c].kind == RX_END) *over = true;
        else *ends = rx_common(r, *ends ? *ends : r->any, rx_known_ends(r, c));
    }
    return *ends ? c : last;
}

/* An alternative of the whole pattern.  Lookbehinds of any length may stand at its ends, because
 * there the whole input before them is known. */
static qsf_gnode rx_whole(regex *r, uint32_t x, qsf_gnode around)
{
    const bool list = r->nodes[x].kind == RX_SEQUENCE && r->nodes[x].looks;
    qsf_gnode before = around, behind = around, ends = 0;
    bool over = false, nullable = true;
    rx_set s = { .always = around };
    const uint32_t last = rx_trailing(r, list ? r->nodes[x].last : x, &ends, &over);
    const uint32_t leading = list ? rx_leading(r, last) : 0;
    if (ends) {
        s.always = r->empty;
        if (over) behind = r->empty;
        for (uint32_t c = behind == r->empty ? 0 : last; c && !r->failed; c = r->nodes[c].prev)
            if (rx_looks_ahead(r, c))
                qsf_regex_fail(r, r->nodes[c].at - 1,
                               "a lookahead, or \\b, together with a lookbehind of more than one character "
                               "at the end of the pattern is not supported; the first ends");
    }
    uint32_t c = last;
    for (; c != leading && !r->failed; c = r->nodes[c].prev) s = rx_before(r, c, &s);
    for (; c && !r->failed; c = r->nodes[c].prev) {
        before = rx_common(r, before, rx_known_ends(r, c));
        nullable &= r->nodes[r->nodes[c].last].nullable != r->nodes[c].negated;
    }
    if (around == r->empty) before = nullable ? around : r->none;
    const rx_set all = rx_pass(r, before, nullable, &s);
    const qsf_gnode out = rx_start(r, &all);
    return ends ? rx_then(r, rx_common(r, out, ends), behind) : out;
}

qsf_gnode qsf_regex_nodes_of(regex *r, uint32_t root)
{
    static const uint32_t all[1][2] = { { 0, 0x10ffff } };
    const rx_node *n = &r->nodes[root];
    r->empty = qsf_g_bytes(r->b, "", 0);
    r->none = qsf_g_choice(r->b, NULL, 0);
    r->any_char = r->flags & QSF_REGEX_JSON ? qsf_g_json_class(r->b, all, 1)
                                            : qsf_g_class(r->b, all, 1, false);
    r->any = qsf_g_repeat(r->b, r->any_char, 0, QSF_G_NO_MOST);
    r->all = qsf_g_all(r->b);
    const qsf_gnode around = r->flags & QSF_REGEX_SEARCH ? r->any : r->empty;
    if (!n->looks) return rx_then(r, around, rx_then(r, rx_plain(r, root), around));
    qsf_gnode out = r->none;
    if (n->kind != RX_CHOICE) out = rx_whole(r, root, around);
    else for (uint32_t c = n->last, prev; c && !r->failed; c = prev) {
        prev = r->nodes[c].prev;
        r->nodes[c].prev = 0;                   /* detach it: it is converted alone */
        out = rx_either(r, out, rx_whole(r, c, around));
    }
    if (!r->failed && out == r->none) qsf_regex_fail(r, 0, "^ and $ stand where no text can fit them");
    return r->failed ? QSF_G_FAILED : out;
}
