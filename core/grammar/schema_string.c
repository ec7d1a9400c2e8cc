/* JSON Schema, texts: lengths, patterns, formats, and how JSON writes characters.
 * SPDX-License-Identifier: MIT
 *
 * If only the length counts, a character may be written in any of its JSON notations.  If a pattern
 * or a format applies, it is written as itself, or as an escape if JSON requires one. */
#include "grammar/gbnf.h"
#include "grammar/lark.h"
#include "grammar/regex.h"
#include "grammar/schema_own.h"
#include "text/unicode.h"

/* ---- formats ---- */

#define HEX2 "%[\\dA-Fa-f]{2}"
#define BYTE_10 "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4 BYTE_10 "(?:\\." BYTE_10 "){3}"
#define H16 "[\\dA-Fa-f]{1,4}"
#define LS32 "(?:" H16 ":" H16 "|" IPV4 ")"
#define SHORT6(n) "(?:(?:" H16 ":){0," #n "}" H16 ")?::"
#define IPV6 "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32 \
    "|" SHORT6(1) "(?:" H16 ":){3}" LS32 "|" SHORT6(2) "(?:" H16 ":){2}" LS32 "|" SHORT6(3) H16 ":" LS32 \
    "|" SHORT6(4) LS32 "|" SHORT6(5) H16 "|" SHORT6(6) ")"
#define LABEL "[\\dA-Za-z](?:[\\dA-Za-z-]{0,61}[\\dA-Za-z])?"
#define HOST LABEL "(?:\\." LABEL ")*"
#define ATOM "[\\w!#$%&'*+/=?^`{|}~-]+"
#define DATE "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)" \
    "|02-(?:0[1-9]|1\\d|2[0-8]))" \
    "|(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
#define TIME "(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?(?:[Zz]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)" \
    "|23:59:60(?:\\.\\d+)?(?:[Zz]|[+-]00:00))"
#define HOURS "(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)"
/* of URIs; X: characters beyond ASCII, for the i... forms */
#define CHARS(X, more) "(?:[\\w.~!$&'()*+,;=" X more "-]|" HEX2 ")"
#define HIER(X)                                                                                              \
    "(?://(?:" CHARS(X, ":") "*@)?(?:\\[" IPV6 "\\]|" CHARS(X, "") "*)(?::\\d*)?(?:/" CHARS(                 \
        X, ":@/") "*)?"                                                                                      \
                  "|/?(?:" CHARS(X, ":@") CHARS(X, ":@/") "*)?)"
#define TAIL(X) "(?:\\?" CHARS(X, ":@/?") "*)?(?:#" CHARS(X, ":@/?") "*)?"
#define SCHEME "[A-Za-z][\\dA-Za-z+.-]*:"
#define NO_SCHEME(X) "(?:/" HIER(X) "|" CHARS(X, "@") "+(?:/" CHARS(X, ":@/") "*)?|)"
#define BEYOND "\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{10fffd}"
#define POINTER "(?:/(?:[^/~]|~[01])*)*"
#define VARIABLE "(?:\\w|" HEX2 ")(?:[\\w.]|" HEX2 ")*(?::[1-9]\\d{0,3}|\\*)?"

static const struct { char name[22]; const char *pattern; } schema_formats[] = {
    { "date", DATE }, { "time", TIME }, { "date-time", DATE "[Tt]" TIME },
    { "duration",
      "P(?:\\d+W|(?:\\d+D|\\d+M(?:\\d+D)?|\\d+Y(?:\\d+M(?:\\d+D)?)?)(?:T" HOURS ")?|T" HOURS ")" },
    { "email", "(?:" ATOM "(?:\\." ATOM ")*|\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\")"
               "@(?:" HOST "|\\[(?:" IPV4 "|IPv6:" IPV6 ")\\])" },
    { "idn-email", "[^@\\s]+@[^@\\s]+" },
    { "hostname", HOST }, { "ipv4", IPV4 }, { "ipv6", IPV6 },
    { "uuid", "[\\dA-Fa-f]{8}(?:-[\\dA-Fa-f]{4}){3}-[\\dA-Fa-f]{12}" },
    { "uri", SCHEME HIER("") TAIL("") }, { "iri", SCHEME HIER(BEYOND) TAIL(BEYOND) },
    { "uri-reference", "(?:" SCHEME HIER("") "|" NO_SCHEME("") ")" TAIL("") },
    { "iri-reference", "(?:" SCHEME HIER(BEYOND) "|" NO_SCHEME(BEYOND) ")" TAIL(BEYOND) },
    { "uri-template",
      "(?:[^\\0- \"'%<>\\\\^`{|}]|" HEX2 "|\\{[+#./;?&=,!@|]?" VARIABLE "(?:," VARIABLE ")*\\})*" },
    { "json-pointer", POINTER }, { "relative-json-pointer", "(?:0|[1-9]\\d*)(?:#|" POINTER ")" },
    /* names from OpenAPI and from schema generators, which do not restrict strings */
    { "password", "[^]*" }, { "binary", "[^]*" }, { "path", "[^]*" }, { "file-path", "[^]*" },
    { "directory-path", "[^]*" },
};

static const char *schema_format(schema *s, const qsf_json_node *v)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(schema_formats); i++)
        if (qsf_json_is_text(v, schema_formats[i].name)) return schema_formats[i].pattern;
    qsf_schema_refuse(s, v, "unknown format");
    return "";
}

/* ---- nodes ---- */

qsf_gnode qsf_schema_sequence(schema *s, qsf_gnode x, qsf_gnode y)
{
    return x == s->none || y == s->none ? s->none : x == s->empty ? y : y == s->empty ? x
           : qsf_g_sequence(s->b, (const qsf_gnode[]){ x, y }, 2);
}

qsf_gnode qsf_schema_sequence3(schema *s, qsf_gnode a, qsf_gnode b, qsf_gnode c)
{
    return qsf_schema_sequence(s, a, qsf_schema_sequence(s, b, c));
}

qsf_gnode qsf_schema_either(schema *s, qsf_gnode x, qsf_gnode y)
{
    return x == s->none ? y : y == s->none ? x : qsf_g_choice(s->b, (const qsf_gnode[]){ x, y }, 2);
}

qsf_gnode qsf_schema_both(schema *s, qsf_gnode x, qsf_gnode y)
{
    const qsf_gnode out = !x ? y : !y ? x : x == s->none || y == s->none ? s->none : qsf_g_both(s->b, x, y);
    qsf_schema_note(s, out);
    return out;
}

qsf_gnode qsf_schema_bytes(schema *s, const char *text) { return qsf_g_bytes(s->b, text, strlen(text)); }

qsf_gnode qsf_schema_sign(schema *s, const char *text)
{
    return qsf_schema_sequence(s, qsf_schema_bytes(s, text), s->blanks);
}

/* ---- characters ---- */

/* A text between quotes, in its shortest writing. */
qsf_gnode qsf_schema_literal(schema *s, const char *text, size_t n)
{
    static const char escaped[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt", hex[] = "0123456789abcdef";
    char out[96];
    size_t used = 0;
    qsf_gnode done = s->empty;
    for (size_t i = 0; i < n; i++) {
        const char c = text[i], *known = c ? strchr(escaped, c) : NULL;
        if (used > sizeof out - 8) done = qsf_schema_sequence(s, done,
                                                              qsf_g_bytes(s->b, out, used)), used = 0;
        if (known) out[used++] = '\\', out[used++] = letters[known - escaped];
        else if ((uint8_t)c < 32)
            used += qsf_format(out + used, sizeof out - used, "\\u00%c%c", hex[c >> 4], hex[c & 15]);
        else out[used++] = c;
    }
    return qsf_schema_sequence(s, done, qsf_g_bytes(s->b, out, used));
}

void qsf_schema_string_begin(schema *s)
{
    static const uint32_t all[1][2] = { { 0, 0x10ffff } },
                          raw[][2] = { { 32, 33 }, { 35, 91 }, { 93, 0x10ffff } },
                          letters[][2] = { { '"', '"' }, { '/', '/' }, { '\\', '\\' }, { 'b', 'b' },
                                           { 'f', 'f' }, { 'n', 'n' }, { 'r', 'r' },   { 't', 't' } };
    /* half a character in \uD800 only with its other half */
    static const char unicode[] = "u(?:[\\dA-CE-Fa-ce-f][\\dA-Fa-f]{3}|[Dd][0-7][\\dA-Fa-f]{2}"
                                  "|[Dd][89ABab][\\dA-Fa-f]{2}\\\\u[Dd][C-Fc-f][\\dA-Fa-f]{2})";
    qsf_grammar_builder *b = s->b;
    const uint32_t digit[1][2] = { { '0', '9' } };
    s->empty = qsf_g_bytes(b, "", 0);
    s->none = qsf_g_choice(b, NULL, 0);
    s->quote = qsf_g_bytes(b, "\"", 1);
    s->digit = qsf_g_class(b, digit, 1, false);
    s->digits = qsf_g_repeat(b, s->digit, 0, QSF_G_NO_MOST);
    s->plain_char = qsf_g_json_class(b, all, 1);
    s->any_char = qsf_g_choice(b, (const qsf_gnode[]){ qsf_g_class(b, raw, QSF_ARRAY_LEN(raw), false),
        qsf_g_sequence(b, (const qsf_gnode[]){ qsf_g_bytes(b, "\\", 1), qsf_g_choice(b, (const qsf_gnode[]){
            qsf_g_class(b, letters, QSF_ARRAY_LEN(letters), false),
            qsf_regex_nodes(s->platform, b, unicode, sizeof unicode - 1, 0, s->what) }, 2) }, 2) }, 2);
    s->any_text = qsf_g_sequence(
        b, (const qsf_gnode[]){ s->quote, qsf_g_repeat(b, s->any_char, 0, QSF_G_NO_MOST), s->quote }, 3);
}

/* ---- trying texts ---- */

bool qsf_schema_fits(schema *s, const qsf_json_node *at, const char *pattern, uint32_t n, bool whole,
                     const char *text, size_t len)
{
    schema_text *t = NULL;
    qsf_grammar_builder *b;
    qsf_error err = { 0 };
    for (uint32_t i = 0; i < s->n_texts && !t; i++) if (s->texts[i].pattern == pattern) t = &s->texts[i];
    if (!t) {
        t = &s->texts[s->n_texts < QSF_ARRAY_LEN(s->texts) ? s->n_texts++ : s->n_texts - 1];
        qsf_matcher_free(t->matcher);
        qsf_grammar_drop(t->grammar);
        *t = (schema_text){ .pattern = pattern };
        qsf_status st = qsf_grammar_begin(s->platform, &b, &err);
        if (!st)
            st = qsf_grammar_finish(
                b, qsf_regex_nodes(s->platform, b, pattern, n, whole ? 0 : QSF_REGEX_SEARCH, "the pattern"),
                &t->grammar, &err);
        if (!st) st = qsf_matcher_new(s->platform, t->grammar, NULL, &t->matcher, &err);
        if (st) qsf_schema_refuse(s, at, err.text);
    }
    if (s->failed) return true;
    qsf_matcher_reset(t->matcher);
    return qsf_matcher_bytes(t->matcher, text, len) == len && qsf_matcher_whole(t->matcher);
}

static uint32_t characters(const qsf_json_node *v)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n; i++) n += (v->text[i] & 0xc0) != 0x80;
    return n;
}

static bool same_text(const qsf_json_node *x, const qsf_json_node *y)
{
    return x->type == QSF_JSON_TEXT && y->type == QSF_JSON_TEXT && x->n == y->n &&
           !memcmp(x->text, y->text, x->n);
}

static bool has_text(const qsf_json_node *list, uint32_t n, const qsf_json_node *v)
{
    for (; n; n--, list = qsf_json_next(list)) if (same_text(list, v)) return true;
    return false;
}

/* ---- leaves ---- */

/* A pattern or a format: as nodes, or whether text matches it. */
typedef struct text_rule { const qsf_json_node *at; const char *pattern; uint32_t n; bool whole; } text_rule;

static bool rule_of(schema *s, const schema_keys *k, bool format, text_rule *out)
{
    const qsf_json_node *v = k->key[format ? KEY_FORMAT : KEY_PATTERN];
    if (!v || s->failed) return false;
    const char *pattern = format ? schema_format(s, v) : v->text;
    *out = (text_rule){ v, pattern, format ? (uint32_t)strlen(pattern) : v->n, format };
    return true;
}

qsf_gnode qsf_schema_regex(schema *s, const qsf_json_node *at, const char *pattern, uint32_t n,
                           uint32_t flags)
{
    char what[160];
    qsf_format(what, sizeof what, "\"%.*s\"", 100, at->text);
    const qsf_gnode out = qsf_regex_nodes(s->platform, s->b, pattern, n, flags, what);
    qsf_schema_locate(s, at);
    return out;
}

static qsf_gnode rule_nodes(schema *s, const text_rule *r)
{
    return qsf_schema_regex(s, r->at, r->pattern, r->n, QSF_REGEX_JSON | (r->whole ? 0 : QSF_REGEX_SEARCH));
}

typedef struct text_demands {
    uint32_t least, most;
    bool plain, negated;
    qsf_gnode node;
    const qsf_json_node *grammar;   /* the value of x-grammar, or NULL */
} text_demands;

/* The grammar of a string, which cannot be combined with other keywords. */
static void demand_grammar(schema *s, const qsf_json_node *v, const qsf_json_node *text, text_demands *out)
{
    if (!v || s->failed) return;
    if (text || out->node) {
        qsf_schema_refuse(s, v, "a grammar together with other keywords of the same text is not supported");
        return;
    }
    out->node = qsf_lark_is(v->text, v->n) ? qsf_lark_nodes(s->b, v->text, v->n, QSF_REGEX_JSON)
                                           : qsf_gbnf_nodes(s->b, v->text, v->n, QSF_REGEX_JSON);
    out->plain = true;
    out->grammar = v;
    qsf_schema_locate(s, v);
}

/* What one part demands, without the values it lists; with text: whether text fulfils it. */
static bool demand(schema *s, const schema_part *p, const qsf_json_node *text, text_demands *out)
{
    if (p->kind != PART_OWN && p->kind != PART_FLIP) return true;
    const schema_keys *k = qsf_schema_keys_of(s, p->v);
    const bool flip = p->kind == PART_FLIP;
    const qsf_json_node *least = k->key[KEY_MIN_LENGTH], *most = k->key[KEY_MAX_LENGTH];
    text_rule r;
    uint32_t from = 0, to = UINT32_MAX;
    if (flip && (p->arg == KEY_ENUM || p->arg == KEY_CONST)) {
        const qsf_json_node *v = p->arg == KEY_CONST ? k->key[KEY_CONST] : k->key[KEY_ENUM] + 1;
        uint32_t n = p->arg == KEY_CONST ? 1 : k->key[KEY_ENUM]->n;
        if (text) return !has_text(v, n, text);
        for (; n; n--, v = qsf_json_next(v))
            if (v->type == QSF_JSON_TEXT)
                out->plain = out->negated = true,
                out->node = qsf_schema_both(s, out->node,
                                            qsf_g_not(s->b, qsf_schema_literal(s, v->text, v->n)));
        return true;
    }
    if (flip) {
        if (p->arg == KEY_MIN_LENGTH) to = qsf_schema_count(s, least, 0) - 1;
        if (p->arg == KEY_MIN_LENGTH && !qsf_schema_count(s, least, 0)) from = 1, to = 0;
        if (p->arg == KEY_MAX_LENGTH) from = qsf_schema_count(s, most, 0) + 1;
    } else {
        from = qsf_schema_count(s, least, 0);
        to = qsf_schema_count(s, most, UINT32_MAX);
    }
    if (text && (characters(text) < from || characters(text) > to)) return false;
    if (out) out->least = QSF_MAX(out->least, from), out->most = QSF_MIN(out->most, to);
    for (int format = 0; format < 2; format++) {
        if (flip && p->arg != (format ? KEY_FORMAT : KEY_PATTERN)) continue;
        if (!rule_of(s, k, format, &r)) continue;
        if (text) {
            if (qsf_schema_fits(s, r.at, r.pattern, r.n, r.whole, text->text, text->n) == flip) return false;
            continue;
        }
        const qsf_gnode x = rule_nodes(s, &r);
        out->plain = true;
        out->negated |= flip;
        out->node = qsf_schema_both(s, out->node, flip ? qsf_g_not(s->b, x) : x);
    }
    if (!flip) demand_grammar(s, k->key[KEY_GRAMMAR], text, out);
    return true;
}

qsf_gnode qsf_schema_strings(schema *s, const schema_leaf *leaf)
{
    const qsf_json_node *v = NULL, *list;
    const schema_part *from = NULL;
    text_demands d = { .most = QSF_G_NO_MOST };
    uint32_t n = 0, n_list, n_out = 0;
    for (uint32_t i = 0; i < leaf->n && !from; i++)
        if (qsf_schema_allowed(s, &leaf->parts[i], &v, &n)) from = &leaf->parts[i];
    if (!from) {
        for (uint32_t i = 0; i < leaf->n && !s->failed; i++) demand(s, &leaf->parts[i], NULL, &d);
        if (d.grammar && (d.least || d.most != QSF_G_NO_MOST))
            qsf_schema_refuse(s, d.grammar,
                              "a grammar together with lengths of the same text is not supported");
        if (d.least > d.most || s->failed) return s->none;
        if (d.node && !d.least && d.most == QSF_G_NO_MOST && !d.negated) return d.node;
        return qsf_schema_both(s, d.node,
                               qsf_g_repeat(s->b, d.plain ? s->plain_char : s->any_char, d.least, d.most));
    }
    qsf_gnode *out = qsf_arena_array(s->arena, n + 1, sizeof *out, "a schema", NULL);
    if (!out) {
        qsf_schema_no_memory(s);
        return s->none;
    }
    for (; n && !s->failed; n--, v = qsf_json_next(v)) {
        bool fits = v->type == QSF_JSON_TEXT;
        for (uint32_t i = 0; i < leaf->n && fits; i++) {
            fits = demand(s, &leaf->parts[i], v, NULL);
            if (fits && &leaf->parts[i] != from && qsf_schema_allowed(s, &leaf->parts[i], &list, &n_list))
                fits = has_text(list, n_list, v);
        }
        if (fits) out[n_out++] = qsf_schema_literal(s, v->text, v->n);
    }
    return n_out ? qsf_g_choice(s->b, out, n_out) : s->none;
}
