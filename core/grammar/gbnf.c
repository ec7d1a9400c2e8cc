/* GBNF: rules of characters, as llama.cpp reads them.
 * SPDX-License-Identifier: MIT */
#include "grammar/gbnf.h"
#include "grammar/grammar_own.h"
#include "grammar/regex.h"
#include "text/unicode.h"

typedef struct gbnf_name { uint32_t at, len, next; qsf_gnode rule; } gbnf_name;
/* What is open: where its alternatives and the parts of its last one begin. */
typedef struct gbnf_group { uint32_t alts, parts, at; } gbnf_group;

typedef struct gbnf_reader {
    qsf_grammar_builder *b;
    qsf_grammar *g;
    const char  *text;
    size_t       len, at;
    uint32_t     flags;
    gram_mem     names, parts, alts, groups, ranges;
    uint32_t     by_hash[256];      /* names, as number + 1 */
} gbnf_reader;

static qsf_gnode gbnf_bad(gbnf_reader *r, size_t at, const char *why)
{
    return qsf_g_fail_at(r->b, QSF_E_CORRUPT, r->text, r->len, at, why);
}

static char gbnf_peek(const gbnf_reader *r) { return r->at < r->len ? r->text[r->at] : 0; }

static void gbnf_space(gbnf_reader *r, bool lines)
{
    for (bool comment = false; r->at < r->len; r->at++) {
        const char c = r->text[r->at];
        if (c == '#') comment = true;
        if (c == '\n' || c == '\r') {
            if (!lines) return;
            comment = false;
        } else if (!comment && c != ' ' && c != '\t') {
            return;
        }
    }
}

static bool gbnf_is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

/* The rule whose name is at this position. */
static qsf_gnode gbnf_rule(gbnf_reader *r)
{
    const uint32_t at = (uint32_t)r->at;
    uint32_t hash = 0;
    for (; gbnf_is_word(gbnf_peek(r)); r->at++) hash = hash * 31 + (uint8_t)r->text[r->at];
    const uint32_t len = (uint32_t)r->at - at;
    gbnf_name *n = r->names.p;
    for (uint32_t i = r->by_hash[hash % 256]; i; i = n[i - 1].next)
        if (n[i - 1].len == len && !memcmp(r->text + n[i - 1].at, r->text + at, len)) return n[i - 1].rule;
    const qsf_gnode rule = qsf_g_rule(r->b);
    if (!rule || !(n = qsf_gram_push(r->g, &r->names, sizeof *n, 1))) return 0;
    *n = (gbnf_name){ at, len, r->by_hash[hash % 256], rule };
    r->by_hash[hash % 256] = r->names.n;
    return rule;
}

/* One character of a literal or a class. */
static bool gbnf_char(gbnf_reader *r, uint32_t *c)
{
    static const char from[] = "trn\\\"[]-", to[] = "\t\r\n\\\"[]-";
    size_t used;
    if (r->at >= r->len || r->text[r->at] == 0) return gbnf_bad(r, r->at, "this is not closed") != 0;
    if (r->text[r->at] != '\\') {
        *c = qsf_utf8_decode(r->text + r->at, r->len - r->at, &used);
        r->at += used;
        return true;
    }
    r->at++;
    const char kind = gbnf_peek(r), *known = kind ? strchr(from, kind) : NULL;
    int digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (!known && !digits) return gbnf_bad(r, r->at - 1, "unknown escape in GBNF") != 0;
    r->at++;
    for (*c = known ? (uint8_t)to[known - from] : 0; digits > 0; digits--, r->at++) {
        const char d = gbnf_peek(r);
        const int v = d >= '0' && d <= '9' ? d - '0' : d >= 'a' && d <= 'f' ? d - 'a' + 10
                      : d >= 'A' && d <= 'F' ? d - 'A' + 10 : -1;
        if (v < 0) return gbnf_bad(r, r->at, "a hexadecimal digit is missing") != 0;
        *c = *c << 4 | (uint32_t)v;
    }
    if (*c > 0x10ffff) return gbnf_bad(r, r->at, "this is not a character") != 0;
    return true;
}

static void gbnf_put(gbnf_reader *r, gram_mem *list, qsf_gnode id)
{
    uint32_t *to = id ? qsf_gram_push(r->g, list, sizeof *to, 1) : NULL;
    if (to) *to = id;
}

/* A literal inside a JSON string, in which some characters are escaped. */
static qsf_gnode gbnf_json_literal(gbnf_reader *r)
{
    const size_t begin = r->at++;
    const uint32_t from = r->parts.n;
    uint32_t c;
    while (gbnf_peek(r) != '"') {
        if (r->at >= r->len) return gbnf_bad(r, begin, "this string is not closed");
        if (!gbnf_char(r, &c)) return 0;
        gbnf_put(r, &r->parts, qsf_g_json_class(r->b, (const uint32_t[1][2]){ { c, c } }, 1));
        if (r->g->status) return 0;
    }
    r->at++;
    const uint32_t n = r->parts.n - from;
    r->parts.n = from;
    return n ? qsf_g_sequence(r->b, GRAM_U32(r->parts) + from, n) : qsf_g_bytes(r->b, "", 0);
}

static qsf_gnode gbnf_literal(gbnf_reader *r)
{
    if (r->flags & QSF_REGEX_JSON) return gbnf_json_literal(r);
    const size_t begin = r->at++;
    const uint32_t from = r->ranges.n;          /* room for its bytes */
    uint32_t c;
    size_t n = 0;
    while (gbnf_peek(r) != '"') {
        if (r->at >= r->len) return gbnf_bad(r, begin, "this string is not closed");
        char *to = gbnf_char(r, &c) ? qsf_gram_push(r->g, &r->ranges, 8, 1) : NULL;
        if (!to) return 0;
        n += qsf_utf8_encode(c, (char *)r->ranges.p + 8 * (size_t)from + n);
    }
    r->at++;
    r->ranges.n = from;
    return qsf_g_bytes(r->b, (const char *)r->ranges.p + 8 * (size_t)from, n);
}

static const uint32_t gbnf_any[1][2] = { { 0, 0x10ffff } };

/* A character in one of the ranges, or with `not` in none of them. */
static qsf_gnode gbnf_one_of(gbnf_reader *r, const uint32_t (*ranges)[2], size_t n, bool negated)
{
    if (!(r->flags & QSF_REGEX_JSON)) return qsf_g_class(r->b, ranges, n, negated);
    const qsf_gnode some = qsf_g_json_class(r->b, ranges, n);
    if (!negated) return some;
    return qsf_g_both(r->b, qsf_g_json_class(r->b, gbnf_any, 1), qsf_g_not(r->b, some));
}

static qsf_gnode gbnf_class(gbnf_reader *r)
{
    const size_t begin = r->at++;
    const bool negated = gbnf_peek(r) == '^';
    r->at += negated;
    r->ranges.n = 0;
    while (gbnf_peek(r) != ']') {
        uint32_t c[2];
        if (r->at >= r->len) return gbnf_bad(r, begin, "this class is not closed");
        if (!gbnf_char(r, &c[0])) return 0;
        c[1] = c[0];
        if (gbnf_peek(r) == '-' && r->at + 1 < r->len && r->text[r->at + 1] != ']') {
            r->at++;
            if (!gbnf_char(r, &c[1])) return 0;
        }
        uint32_t *to = qsf_gram_push(r->g, &r->ranges, 8, 1);
        if (!to) return 0;
        memcpy(to, c, sizeof c);
    }
    r->at++;
    if (!r->ranges.n) return gbnf_bad(r, begin, "an empty class");
    return gbnf_one_of(r, (const uint32_t (*)[2])r->ranges.p, r->ranges.n, negated);
}

static bool gbnf_number(gbnf_reader *r, uint32_t *out)
{
    const size_t begin = r->at;
    uint64_t v = 0;
    for (; gbnf_peek(r) >= '0' && gbnf_peek(r) <= '9'; r->at++)
        v = QSF_MIN(v * 10 + (uint64_t)(r->text[r->at] - '0'), QSF_G_NO_MOST);
    if (r->at == begin) return gbnf_bad(r, r->at, "a number is missing") != 0;
    if (v == QSF_G_NO_MOST) return gbnf_bad(r, begin, "this number is too large") != 0;
    *out = (uint32_t)v;
    return true;
}

/* "*", "+", "?", "{n}", "{n,}", "{n,m}" after the last part. */
static qsf_gnode gbnf_times(gbnf_reader *r, qsf_gnode part, bool nested)
{
    const size_t begin = r->at;
    const char kind = r->text[r->at++];
    uint32_t least = kind == '+', most = kind == '?' ? 1 : QSF_G_NO_MOST;
    if (kind == '{') {
        gbnf_space(r, nested);
        if (!gbnf_number(r, &least)) return 0;
        most = least;
        gbnf_space(r, nested);
        if (gbnf_peek(r) == ',') {
            r->at++;
            gbnf_space(r, nested);
            most = QSF_G_NO_MOST;
            if (gbnf_peek(r) != '}' && !gbnf_number(r, &most)) return 0;
            gbnf_space(r, nested);
        }
        if (gbnf_peek(r) != '}') return gbnf_bad(r, r->at, "a \"}\" is missing");
        r->at++;
        if (least > most) return gbnf_bad(r, begin, "the minimum is larger than the maximum");
    }
    return qsf_g_repeat(r->b, part, least, most);
}

static void gbnf_open(gbnf_reader *r)
{
    gbnf_group *group = qsf_gram_push(r->g, &r->groups, sizeof *group, 1);
    if (group) *group = (gbnf_group){ r->alts.n, r->parts.n, (uint32_t)r->at };
}

/* The nodes of a list from one of them on; NULL: none remain. */
static const uint32_t *gbnf_from(const gram_mem *list, size_t first)
{
    return list->n > first ? GRAM_U32(*list) + first : NULL;
}

/* Parts become an alternative of the innermost group; close: the alternatives become one node. */
static qsf_gnode gbnf_end(gbnf_reader *r, bool close)
{
    if (r->g->status) return 0;
    const gbnf_group *group = (gbnf_group *)r->groups.p + r->groups.n - 1;
    const uint32_t *parts = gbnf_from(&r->parts, group->parts);
    gbnf_put(r, &r->alts, qsf_g_sequence(r->b, parts, r->parts.n - group->parts));
    r->parts.n = group->parts;
    if (!close || r->g->status) return 0;
    const qsf_gnode id = qsf_g_choice(r->b, gbnf_from(&r->alts, group->alts), r->alts.n - group->alts);
    r->alts.n = group->alts;
    r->groups.n--;
    return id;
}

/* The definition of a rule, to the end of its line. */
static qsf_gnode gbnf_body(gbnf_reader *r)
{
    gbnf_open(r);
    while (!r->g->status) {
        const char c = gbnf_peek(r);
        const bool nested = r->groups.n > 1;
        const gbnf_group *group = (gbnf_group *)r->groups.p + r->groups.n - 1;
        qsf_gnode id = 0;
        if (c == '"') {
            id = gbnf_literal(r);
        } else if (c == '[') {
            id = gbnf_class(r);
        } else if (c == '.') {
            id = gbnf_one_of(r, gbnf_any, 1, false);
            r->at++;
        } else if (gbnf_is_word(c)) {
            id = gbnf_rule(r);
        } else if (c && strchr("*+?{", c)) {
            if (r->parts.n == group->parts)
                return gbnf_bad(r, r->at, "there is nothing to repeat");
            id = gbnf_times(r, GRAM_U32(r->parts)[--r->parts.n], nested);
        } else if (c == '<' || c == '!') {
            return qsf_g_fail(r->b, QSF_E_UNSUPPORTED,
                              "grammar: <token> is not supported; write the token's text in quotes");
        } else if (c == '(' || c == '|') {
            r->at++;
            if (c == '(') gbnf_open(r);
            else gbnf_end(r, false);
            gbnf_space(r, true);
            continue;
        } else if (c == ')' && nested) {
            r->at++;
            id = gbnf_end(r, true);
        } else {
            if (nested) return gbnf_bad(r, group->at ? group->at - 1 : 0, "this \"(\" has no \")\"");
            return gbnf_end(r, true);
        }
        gbnf_put(r, &r->parts, id);
        gbnf_space(r, r->groups.n > 1);
    }
    return 0;
}

static void gbnf_rules(gbnf_reader *r)
{
    for (gbnf_space(r, true); r->at < r->len && !r->g->status; gbnf_space(r, true)) {
        if (!gbnf_is_word(gbnf_peek(r))) {
            gbnf_bad(r, r->at, "the name of a rule is missing");
            return;
        }
        const qsf_gnode rule = gbnf_rule(r);
        gbnf_space(r, false);
        if (r->len - r->at < 3 || memcmp(r->text + r->at, "::=", 3)) {
            gbnf_bad(r, r->at, "\"::=\" is missing");
            return;
        }
        r->at += 3;
        gbnf_space(r, true);
        qsf_g_define(r->b, rule, gbnf_body(r));
        if (r->at < r->len && gbnf_peek(r) != '\n' && gbnf_peek(r) != '\r')
            gbnf_bad(r, r->at, "expected a part of a rule or the end of the line");
    }
}

qsf_gnode qsf_gbnf_nodes(qsf_grammar_builder *b, const char *text, size_t len, uint32_t flags)
{
    gbnf_reader r = { .b = b, .g = (qsf_grammar *)b, .text = text, .len = len, .flags = flags };
    qsf_gnode root = 0;
    if (len > UINT32_MAX / 16) return qsf_g_fail(b, QSF_E_BUDGET, "a grammar's text can have at most 256 MB");
    if (qsf_gram_push(r.g, &r.parts, sizeof(uint32_t), 1)) r.parts.n = 0;   /* never NULL: places in */
    if (qsf_gram_push(r.g, &r.ranges, 8, 1)) r.ranges.n = 0;                /* them are counted from it */
    gbnf_rules(&r);
    for (uint32_t i = 0; i < r.names.n; i++) {
        const gbnf_name *n = (gbnf_name *)r.names.p + i;
        const bool is_root = n->len == 4 && !memcmp(text + n->at, "root", 4);
        if (!r.g->status && !qsf_gram_part(r.g, gram_at(r.g, n->rule), 0))
            qsf_g_fail(b, QSF_E_CORRUPT, "grammar: the rule %.*s is used and not defined",
                       (int)QSF_MIN(n->len, 80u), text + n->at);
        if (is_root) root = n->rule;
    }
    if (!root) qsf_g_fail(b, QSF_E_CORRUPT, "grammar: the rule \"root\" is missing");
    qsf_gram_release(r.g, &r.names, sizeof(gbnf_name));
    qsf_gram_release(r.g, &r.parts, sizeof(uint32_t));
    qsf_gram_release(r.g, &r.alts, sizeof(uint32_t));
    qsf_gram_release(r.g, &r.groups, sizeof(gbnf_group));
    qsf_gram_release(r.g, &r.ranges, 8);
    return r.g->status ? 0 : root;
}
