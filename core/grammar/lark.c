/* Lark: rules of terminals, and terminals of characters, with the syntax of Lark's own grammar.
 * SPDX-License-Identifier: MIT
 *
 * Lark first cuts the input into terminals.  Here an input matches if some way of cutting it
 * matches: terminals named by %ignore may follow each terminal used in a rule, and may begin the
 * input. */
#include "grammar/grammar_own.h"
#include "grammar/lark.h"
#include "grammar/lark_common.h"
#include "grammar/regex.h"
#include "text/unicode.h"

typedef struct lark_name { const char *text; uint32_t len, next, at; qsf_gnode rule; } lark_name;
/* An open group: where its alternatives and the last one's parts begin, and its closing bracket. */
typedef struct lark_group { uint32_t alts, parts, at; char end; } lark_group;

typedef struct lark_reader {
    qsf_grammar_builder *b;
    qsf_grammar *g;
    const char  *text;
    size_t       len, at;
    uint32_t     flags;
    bool         terminal;          /* inside a terminal's definition */
    qsf_gnode    ignore;            /* a rule: what %ignore allows after a terminal */
    gram_mem     names, parts, alts, groups, ignored, pattern;
    uint32_t     by_hash[256];      /* names by hash, as index + 1 */
} lark_reader;

static qsf_gnode lark_fail(lark_reader *r, size_t at, qsf_status st, const char *why)
{
    return qsf_g_fail_at(r->b, st, r->text, r->len, at, why);
}
static qsf_gnode lark_bad(lark_reader *r, size_t at, const char *why)
{
    return lark_fail(r, at, QSF_E_CORRUPT, why);
}

static char lark_peek(const lark_reader *r, size_t ahead)
{
    return ahead < r->len - r->at ? r->text[r->at + ahead] : 0;
}
static bool lark_is_digit(char c) { return c >= '0' && c <= '9'; }
static bool lark_is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || lark_is_digit(c) || c == '_';
}

/* Skips blanks and comments; lines: also line ends. */
static void lark_space(lark_reader *r, bool lines)
{
    for (bool comment = false; r->at < r->len; r->at++) {
        const char c = r->text[r->at];
        if (c == '#' || (c == '/' && lark_peek(r, 1) == '/')) comment = true;
        if (c == '\n') {
            if (!lines) return;
            comment = false;
        } else if (!comment && c != ' ' && c != '\t' && c != '\r' && c != '\f') {
            return;
        }
    }
}

/* Skips the line end if the next line continues the rule with "|". */
static void lark_next_line(lark_reader *r)
{
    const size_t at = r->at;
    lark_space(r, true);
    if (lark_peek(r, 0) != '|') r->at = at;
}

/* ---- names ---- */

static lark_name *lark_name_of(lark_reader *r, const char *text, size_t len)
{
    uint32_t hash = 0;
    for (size_t i = 0; i < len; i++) hash = hash * 31 + (uint8_t)text[i];
    lark_name *n = r->names.p;
    for (uint32_t i = r->by_hash[hash % 256]; i; i = n[i - 1].next)
        if (n[i - 1].len == len && !memcmp(n[i - 1].text, text, len)) return &n[i - 1];
    const qsf_gnode rule = qsf_g_rule(r->b);
    if (!rule || !(n = qsf_gram_push(r->g, &r->names, sizeof *n, 1))) return NULL;
    *n = (lark_name){ text, (uint32_t)len, r->by_hash[hash % 256], (uint32_t)r->at, rule };
    r->by_hash[hash % 256] = r->names.n;
    return n;
}

/* Sets *word to the word at this position; returns its length, 0 if no word begins here. */
static size_t lark_word(lark_reader *r, const char **word)
{
    const size_t begin = r->at;
    *word = r->text + begin;
    if (lark_is_digit(lark_peek(r, 0))) return 0;
    while (lark_is_word(lark_peek(r, 0))) r->at++;
    return r->at - begin;
}

static bool lark_is_terminal(const char *word, size_t len)
{
    while (len && *word == '_') word++, len--;
    return len && *word >= 'A' && *word <= 'Z';
}

static void lark_define(lark_reader *r, lark_name *n, qsf_gnode body)
{
    if (!n || !body) return;
    if (qsf_gram_part(r->g, gram_at(r->g, n->rule), 0)) {
        lark_bad(r, r->at, "this name was defined before; the rule");
        return;
    }
    qsf_g_define(r->b, n->rule, body);
}

/* ---- strings and patterns ---- */

static void lark_put(lark_reader *r, const char *bytes, size_t n)
{
    char *to = n ? qsf_gram_push(r->g, &r->pattern, 1, (uint32_t)n) : NULL;
    if (to) memcpy(to, bytes, n);
}

/* Appends a character, escaped for a pattern if needed. */
static void lark_put_char(lark_reader *r, uint32_t c, bool escaped)
{
    char bytes[12];
    size_t n = 0;
    if (escaped && c < 128 && !lark_is_word((char)c)) {
        n = qsf_format(bytes, sizeof bytes, "\\x%x%x", (unsigned)c >> 4, (unsigned)c & 15);
    } else {
        n = qsf_utf8_encode(c, bytes);
    }
    lark_put(r, bytes, n);
}

/* One character of a string, with Python's escapes; an unknown escape stands for itself. */
static uint32_t lark_char(lark_reader *r)
{
    static const char from[] = "\\\"ntrfv", to[] = "\\\"\n\t\r\f\v";
    size_t used;
    uint32_t c = qsf_utf8_decode(r->text + r->at, r->len - r->at, &used);
    r->at += used;
    if (c != '\\' || r->at >= r->len) return c;
    const char kind = lark_peek(r, 0), *known = kind ? strchr(from, kind) : NULL;
    const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (known) {
        r->at++;
        return (uint8_t)to[known - from];
    }
    if (!digits) return c;
    c = 0;
    for (size_t i = 0; i < digits; i++) {
        const char d = lark_peek(r, 1 + i);
        const int v = lark_is_digit(d) ? d - '0' : d >= 'a' && d <= 'f' ? d - 'a' + 10
                      : d >= 'A' && d <= 'F' ? d - 'A' + 10 : -1;
        if (v < 0 || c > 0x10ffff >> 4) return lark_bad(r, r->at, "this is not a character");
        c = c << 4 | (uint32_t)v;
    }
    r->at += 1 + digits;
    return c;
}

/* Reads a quoted string into r->pattern, escaped for a pattern or unchanged; returns its length in
 * characters and sets *c to the last one. */
static size_t lark_text(lark_reader *r, bool escaped, uint32_t *c)
{
    const size_t begin = r->at++;
    size_t n = 0;
    r->pattern.n = 0;
    for (; lark_peek(r, 0) != '"' && !r->g->status; n++) {
        if (r->at >= r->len || r->text[r->at] == '\n') return lark_bad(r, begin, "this string is not closed");
        *c = lark_char(r);
        lark_put_char(r, *c, escaped);
    }
    r->at++;
    return n;
}

static qsf_gnode lark_pattern(lark_reader *r)
{
    return qsf_regex_nodes(r->g->platform, r->b, r->pattern.n ? r->pattern.p : "", r->pattern.n, r->flags,
                           "grammar");
}

/* "text", "text"i or "a".."z" */
static qsf_gnode lark_literal(lark_reader *r)
{
    const size_t begin = r->at;
    uint32_t range[1][2] = { { 0, 0 } };
    const size_t n = lark_text(r, false, &range[0][0]);
    if (r->g->status) return 0;
    if (lark_peek(r, 0) == '.' && lark_peek(r, 1) == '.') {
        r->at += 2;
        if (lark_peek(r, 0) != '"' || n != 1 || lark_text(r, false, &range[0][1]) != 1)
            return lark_bad(r, begin, "a range needs two single characters");
        if (range[0][1] < range[0][0]) return lark_bad(r, begin, "this range ends before it begins");
        return r->flags ? qsf_g_json_class(r->b, (const uint32_t (*)[2])range, 1)
                        : qsf_g_class(r->b, (const uint32_t (*)[2])range, 1, false);
    }
    const bool caseless = lark_peek(r, 0) == 'i' && !lark_is_word(lark_peek(r, 1));
    if (!caseless && !r->flags) return qsf_g_bytes(r->b, r->pattern.n ? r->pattern.p : "", r->pattern.n);
    r->at = begin;
    lark_text(r, true, &range[0][0]);
    r->at += caseless;
    if (caseless && r->pattern.n) {
        lark_put(r, "(?i)", 4);
        char *p = r->pattern.p;
        if (r->g->status) return 0;
        memmove(p + 4, p, r->pattern.n - 4);
        memcpy(p, "(?i)", 4);
    }
    return lark_pattern(r);
}

/* /pattern/flags */
static qsf_gnode lark_regex(lark_reader *r)
{
    const size_t begin = r->at++;
    size_t end = r->at;
    while (end < r->len && r->text[end] != '/' && r->text[end] != '\n')
        end += r->text[end] == '\\' && end + 1 < r->len ? 2 : 1;
    if (end >= r->len || r->text[end] != '/') return lark_bad(r, begin, "this pattern is not closed");
    const size_t first = r->at;
    r->pattern.n = 0;
    for (r->at = end + 1; lark_peek(r, 0) && strchr("imslux", lark_peek(r, 0)); r->at++) {
        const char flag[] = { '(', '?', lark_peek(r, 0), ')' };
        if (flag[2] == 'x' || flag[2] == 'l')
            return lark_fail(r, r->at, QSF_E_UNSUPPORTED, "this flag of a pattern is not supported");
        if (flag[2] != 'u') lark_put(r, flag, sizeof flag);
    }
    lark_put(r, r->text + first, end - first);
    return r->g->status ? 0 : lark_pattern(r);
}

/* ---- rules ---- */

static bool lark_number(lark_reader *r, uint32_t *out)
{
    const size_t begin = r->at;
    uint64_t v = 0;
    for (; lark_is_digit(lark_peek(r, 0)); r->at++)
        v = QSF_MIN(v * 10 + (uint64_t)(r->text[r->at] - '0'), QSF_G_NO_MOST);
    if (r->at == begin) return lark_bad(r, r->at, "a number is missing") != 0;
    if (v == QSF_G_NO_MOST) return lark_bad(r, begin, "this number is too large") != 0;
    *out = (uint32_t)v;
    return true;
}

/* "*", "+", "?", "~n" or "~n..m" after a part. */
static qsf_gnode lark_times(lark_reader *r, qsf_gnode part)
{
    const size_t begin = r->at;
    const char kind = r->text[r->at++];
    uint32_t least = kind == '+', most = kind == '?' ? 1 : QSF_G_NO_MOST;
    if (kind == '~') {
        lark_space(r, false);
        if (!lark_number(r, &least)) return 0;
        most = least;
        if (lark_peek(r, 0) == '.' && lark_peek(r, 1) == '.') {
            r->at += 2;
            if (!lark_number(r, &most)) return 0;
        }
        if (least > most) return lark_bad(r, begin, "the minimum is larger than the maximum");
    }
    return qsf_g_repeat(r->b, part, least, most);
}

static void lark_list(lark_reader *r, gram_mem *list, qsf_gnode id)
{
    uint32_t *to = id ? qsf_gram_push(r->g, list, sizeof *to, 1) : NULL;
    if (to) *to = id;
}

static void lark_open(lark_reader *r, char end)
{
    lark_group *group = qsf_gram_push(r->g, &r->groups, sizeof *group, 1);
    if (group) *group = (lark_group){ r->alts.n, r->parts.n, (uint32_t)r->at, end };
}

/* Makes the parts an alternative of the innermost group; close: makes its alternatives one node. */
static qsf_gnode lark_end(lark_reader *r, bool close)
{
    if (r->g->status) return 0;
    const lark_group *group = (lark_group *)r->groups.p + r->groups.n - 1;
    const uint32_t n = r->parts.n - group->parts;
    lark_list(r, &r->alts, qsf_g_sequence(r->b, n ? GRAM_U32(r->parts) + group->parts : NULL, n));
    r->parts.n = group->parts;
    if (!close || r->g->status) return 0;
    const qsf_gnode id = qsf_g_choice(r->b, GRAM_U32(r->alts) + group->alts, r->alts.n - group->alts);
    r->alts.n = group->alts;
    r->groups.n--;
    return id;
}

/* In a rule, ignored input may follow a terminal. */
static qsf_gnode lark_used(lark_reader *r, qsf_gnode terminal)
{
    const qsf_gnode parts[] = { terminal, r->ignore };
    return r->terminal ? terminal : qsf_g_sequence(r->b, parts, 2);
}

static qsf_gnode lark_reference(lark_reader *r)
{
    const char *word;
    const size_t at = r->at, n = lark_word(r, &word);
    const bool terminal = lark_is_terminal(word, n);
    if (lark_peek(r, 0) == '{') return lark_fail(r, at, QSF_E_UNSUPPORTED, "templates are not supported");
    if (r->terminal && !terminal) return lark_bad(r, at, "a terminal can only consist of terminals");
    const lark_name *name = lark_name_of(r, word, n);
    if (!name) return 0;
    return terminal ? lark_used(r, name->rule) : name->rule;
}

/* -> alias, which names a branch of the parse tree */
static qsf_gnode lark_alias(lark_reader *r)
{
    const char *word;
    r->at += 2;
    lark_space(r, false);
    if (!lark_word(r, &word)) return lark_bad(r, r->at, "a name is missing after \"->\"");
    return 1;
}

/* One part of a rule, or a repetition of the part before; 0: none, or an error. */
static qsf_gnode lark_part(lark_reader *r, char c)
{
    const lark_group *group = (lark_group *)r->groups.p + r->groups.n - 1;
    if (c == '"') return lark_used(r, lark_literal(r));
    if (c == '/') return lark_used(r, lark_regex(r));
    if (lark_is_word(c) && !lark_is_digit(c)) return lark_reference(r);
    if (r->parts.n == group->parts) return lark_bad(r, r->at, "there is nothing to repeat");
    return lark_times(r, GRAM_U32(r->parts)[--r->parts.n]);
}

/* The definition of a name, up to the end of its last line. */
static qsf_gnode lark_body(lark_reader *r)
{
    lark_open(r, 0);
    for (lark_space(r, false); !r->g->status; lark_space(r, r->groups.n > 1)) {
        const lark_group *group = (lark_group *)r->groups.p + r->groups.n - 1;
        if (r->groups.n == 1) lark_next_line(r);
        const char c = lark_peek(r, 0);
        if (c == '(' || c == '[') {
            r->at++;
            lark_open(r, c == '(' ? ')' : ']');
        } else if (c == '|') {
            r->at++;
            lark_end(r, false);
            if (r->groups.n == 1) lark_space(r, true);
        } else if (c && c == group->end) {
            r->at++;
            const qsf_gnode id = lark_end(r, true);
            lark_list(r, &r->parts, c == ']' ? qsf_g_repeat(r->b, id, 0, 1) : id);
        } else if (c == '-' && lark_peek(r, 1) == '>') {
            lark_alias(r);
        } else if (c && (strchr("\"/*+?~", c) || (lark_is_word(c) && !lark_is_digit(c)))) {
            lark_list(r, &r->parts, lark_part(r, c));
        } else if (group->end) {
            return lark_bad(r, group->at ? group->at - 1 : 0, "this bracket is not closed");
        } else {
            if (c && c != '\n') return lark_bad(r, r->at, "expected a part of a rule or the end of the line");
            return lark_end(r, true);
        }
    }
    return 0;
}

/* ---- directives ---- */

static bool lark_takes(lark_reader *r, const char *text)
{
    const size_t n = strlen(text);
    if (r->len - r->at < n || memcmp(r->text + r->at, text, n)) return false;
    r->at += n;
    return true;
}

/* Imports a name of common, optionally under another name: "NAME" or "NAME -> OTHER". */
static void lark_import_one(lark_reader *r)
{
    const char *word, *other;
    const size_t at = r->at, n = lark_word(r, &word);
    const char *pattern = qsf_lark_common(word, n);
    size_t n_other = n;
    if (!pattern) {
        lark_fail(r, at, QSF_E_UNSUPPORTED, "common has no terminal of this name");
        return;
    }
    other = word;
    lark_space(r, false);
    if (lark_takes(r, "->")) {
        lark_space(r, false);
        if (!(n_other = lark_word(r, &other))) {
            lark_bad(r, r->at, "a name is missing after \"->\"");
            return;
        }
    }
    lark_define(r, lark_name_of(r, other, n_other),
                qsf_regex_nodes(r->g->platform, r->b, pattern, strlen(pattern), r->flags, "grammar"));
}

/* %import common.NAME or %import common (NAME, NAME) */
static void lark_import(lark_reader *r)
{
    const size_t at = r->at;
    if (!lark_takes(r, "common") || lark_is_word(lark_peek(r, 0))) {
        lark_fail(r, at, QSF_E_UNSUPPORTED, "only common can be imported");
        return;
    }
    if (lark_takes(r, ".")) {
        lark_import_one(r);
        return;
    }
    lark_space(r, false);
    if (!lark_takes(r, "(")) lark_bad(r, r->at, "a name of common is missing");
    while (!r->g->status) {
        lark_space(r, true);
        lark_import_one(r);
        lark_space(r, true);
        if (lark_takes(r, ")")) return;
        if (!lark_takes(r, ",") && !r->g->status) lark_bad(r, r->at, "a \",\" or \")\" is missing");
    }
}

static void lark_directive(lark_reader *r)
{
    const size_t at = r->at;
    if (lark_takes(r, "%ignore")) {
        r->terminal = true;
        lark_list(r, &r->ignored, lark_body(r));
    } else if (lark_takes(r, "%import")) {
        lark_space(r, false);
        lark_import(r);
    } else if (lark_takes(r, "%llguidance")) {          /* its options do not affect the language */
        while (r->at < r->len && r->text[r->at] != '\n') r->at++;
    } else {
        lark_fail(r, at, QSF_E_UNSUPPORTED, "the only directives supported are %import and %ignore");
    }
}

/* name: ..., ?name: ..., name.2: ... */
static void lark_rule(lark_reader *r)
{
    const char *word;
    uint32_t priority;
    while (lark_peek(r, 0) && strchr("?!", lark_peek(r, 0))) r->at++;
    const size_t at = r->at, n = lark_word(r, &word);
    if (!n) {
        lark_bad(r, r->at, "the name of a rule is missing");
        return;
    }
    if (lark_peek(r, 0) == '{') {
        lark_fail(r, at, QSF_E_UNSUPPORTED, "templates are not supported");
        return;
    }
    lark_space(r, false);
    if (lark_takes(r, ".")) {
        r->at += lark_peek(r, 0) == '-';
        if (!lark_number(r, &priority)) return;
        lark_space(r, false);
    }
    if (!lark_takes(r, ":")) {
        lark_bad(r, r->at, "\":\" is missing after the name of a rule");
        return;
    }
    r->terminal = lark_is_terminal(word, n);
    const qsf_gnode body = lark_body(r);
    lark_define(r, body ? lark_name_of(r, word, n) : NULL, body);
}

static void lark_statements(lark_reader *r)
{
    for (lark_space(r, true); r->at < r->len && !r->g->status; lark_space(r, true)) {
        if (lark_peek(r, 0) == '%') lark_directive(r);
        else lark_rule(r);
        lark_space(r, false);
        if (!r->g->status && r->at < r->len && lark_peek(r, 0) != '\n')
            lark_bad(r, r->at, "the end of the line is missing");
    }
}

/* The node of the whole grammar, if every name has a definition. */
static qsf_gnode lark_root(lark_reader *r)
{
    qsf_gnode start = 0;
    for (uint32_t i = 0; i < r->names.n && !r->g->status; i++) {
        const lark_name *n = (lark_name *)r->names.p + i;
        if (!qsf_gram_part(r->g, gram_at(r->g, n->rule), 0))
            qsf_g_fail(r->b, QSF_E_CORRUPT, "grammar: %.*s is used and not defined%s",
                       (int)QSF_MIN(n->len, 80u), n->text,
                       qsf_lark_common(n->text, n->len) ? "; is an %import common missing?" : "");
        if (n->len == 5 && !memcmp(n->text, "start", 5)) start = n->rule;
    }
    if (!start) return qsf_g_fail(r->b, QSF_E_CORRUPT, "grammar: the rule \"start\" is missing");
    const qsf_gnode all = qsf_g_choice(r->b, r->ignored.n ? GRAM_U32(r->ignored) : NULL, r->ignored.n);
    qsf_g_define(r->b, r->ignore, qsf_g_repeat(r->b, all, 0, QSF_G_NO_MOST));
    return qsf_g_sequence(r->b, (const qsf_gnode[]){ r->ignore, start }, 2);
}

qsf_gnode qsf_lark_nodes(qsf_grammar_builder *b, const char *text, size_t len, uint32_t flags)
{
    lark_reader r = { .b = b, .g = (qsf_grammar *)b, .text = text, .len = len, .flags = flags };
    qsf_gnode root = 0;
    if (len > UINT32_MAX / 16) return qsf_g_fail(b, QSF_E_BUDGET, "a grammar's text can have at most 256 MB");
    r.ignore = qsf_g_rule(b);
    lark_statements(&r);
    if (!r.g->status) root = lark_root(&r);
    qsf_gram_release(r.g, &r.names, sizeof(lark_name));
    qsf_gram_release(r.g, &r.parts, sizeof(uint32_t));
    qsf_gram_release(r.g, &r.alts, sizeof(uint32_t));
    qsf_gram_release(r.g, &r.groups, sizeof(lark_group));
    qsf_gram_release(r.g, &r.ignored, sizeof(uint32_t));
    qsf_gram_release(r.g, &r.pattern, 1);
    return r.g->status ? 0 : root;
}

bool qsf_lark_is(const char *text, size_t len)
{
    lark_reader r = { .text = text, .len = len };
    const char *word;
    lark_space(&r, true);
    const char c = lark_peek(&r, 0);
    if (c == '%' || c == '?' || c == '!') return true;
    if (!lark_word(&r, &word)) return false;
    if (lark_peek(&r, 0) == '{' || lark_peek(&r, 0) == '.') return true;
    lark_space(&r, false);
    return lark_peek(&r, 0) == ':' && lark_peek(&r, 1) != ':';
}
