/* Jinja: compiles expressions to operations in a single pass.
 * SPDX-License-Identifier: MIT */
#include "text/jinja_parse.h"

bool jinja_parse_deeper(jinja_parser *p)
{
    if (++p->depth <= QSF_JINJA_DEPTH) return true;
    jinja_parse_fail(p, QSF_E_BUDGET, p->tok.at, "blocks and brackets are nested too deep", "", 0);
    return false;
}

void jinja_tuple(jinja_parser *p, int level, char end)
{
    size_t n = 0;
    bool comma = false;
    while (!(end && jinja_at_sign(p, end)) && p->tok.kind != JINJA_VAR_END && p->tok.kind != JINJA_TAG_END &&
           p->tok.kind != JINJA_END) {
        if (n && !comma) break;
        jinja_expression(p, level);
        n++;
        comma = jinja_skip_sign(p, ',');
    }
    if (n > 255) jinja_parse_error(p, "a tuple of more than 255 items");
    if (!n && !end) jinja_parse_error(p, "an expression is missing here");
    if (n != 1 || comma) jinja_emit(p, JOP_TUPLE, n, 0, 0);
    jinja_check_unknown(p);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* A string of the source with its escapes resolved, as Python has them, appended to out;
 * returns its bytes. */
static size_t unescape(jinja_parser *p, const char *s, size_t n, char *out)
{
    static const char plain[] = "n\nt\tr\r\\\\''\"\"a\ab\bf\fv\v";
    char *to = out;
    for (size_t i = 0; i < n; i++) {
        if (s[i] != '\\' || i + 1 == n) {
            *to++ = s[i];
            continue;
        }
        const char c = s[++i];
        const size_t hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
        uint32_t code = 0;
        size_t k = 0;
        while (k + 1 < sizeof plain && plain[k] != c) k += 2;
        if (c == '\n') { }
        else if (k + 1 < sizeof plain) *to++ = plain[k + 1];
        else if (hex) {
            for (k = 0; k < hex && i + 1 < n && hex_digit(s[i + 1]) >= 0; k++)
                code = code * 16 + (uint32_t)hex_digit(s[++i]);
            if (k < hex || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
                jinja_parse_error(p, "a string has an escape that is not a character");
            else to += qsf_utf8_encode(code, to);
        } else if (c >= '0' && c <= '7') {
            for (i--, k = 0; k < 3 && i + 1 < n && s[i + 1] >= '0' && s[i + 1] <= '7'; k++)
                code = code * 8 + (uint32_t)(s[++i] - '0');
            to += qsf_utf8_encode(code, to);
        } else if (c == 'N')
            jinja_parse_fail(p, QSF_E_UNSUPPORTED, p->tok.at, "characters by name are not supported", "", 0);
        else *to++ = '\\', *to++ = c;
    }
    return (size_t)(to - out);
}

/* Strings that follow each other are one.  An escape is never longer than what
 * it is written with. */
static jinja_value string(jinja_parser *p)
{
    jinja_value v = qsf_jinja_text_n("", 0);
    while (p->tok.kind == JINJA_STRING) {
        char *out = jinja_take(&p->t->mem, v.n + p->tok.n);
        if (!out) {
            jinja_parse_fail(p, QSF_E_MEMORY, p->tok.at,
                             "the template needs too much memory", "", 0);
            break;
        }
        if (v.n) memcpy(out, v.as.text, v.n);
        v = qsf_jinja_text_n(out, v.n + unescape(p, jinja_tok_text(p), p->tok.n, out + v.n));
        jinja_mark(jinja_marks(&p->t->mem), (size_t)(out - p->t->mem.base), v.n, true);
        jinja_advance(p);
    }
    return v;
}

static jinja_value number(jinja_parser *p)
{
    const char *s = jinja_tok_text(p);
    jinja_value v = qsf_jinja_int(0);
    const bool real = p->tok.kind == JINJA_REAL;
    if (real) v.type = QSF_JINJA_FLOAT;
    const jinja_number_kind kind = real ? jinja_read_float(s, p->tok.n, &v.as.f)
                                        : jinja_read_whole(s, p->tok.n, 0, &v.as.i);
    if (kind == JINJA_NO_NUMBER) jinja_parse_error(p, "malformed number");
    else if (kind == JINJA_LARGE && !real && s[0] != '0' && !memchr(s, '_', p->tok.n)) {
        v = qsf_jinja_text_n(s, p->tok.n);
        v.type = QSF_JINJA_BIG;
    } else if (kind == JINJA_LARGE) jinja_parse_unknown(p, "this number is too long: ");
    jinja_advance(p);
    return v;
}

/* Arguments up to ")".  *n: the number of positional ones; *x: the number of named ones (pairs of
 * name and value after them), with JINJA_STAR and JINJA_STARS if *list and **dict follow. */
static void arguments(jinja_parser *p, size_t *n, size_t *x)
{
    size_t n_kw = 0;
    *n = *x = 0;
    jinja_advance(p);
    while (!jinja_at_sign(p, ')') && !p->st) {
        const bool star = jinja_at_sign(p, '*'), stars = jinja_at_sign(p, JINJA_POW);
        const jinja_lexer before = p->lex;
        const jinja_token name = p->tok;
        if (star || stars) {
            if (*x & (star ? JINJA_STAR | JINJA_STAR_FIRST | JINJA_STARS : JINJA_STARS))
                jinja_parse_error(p, "this argument is in the wrong place");
            jinja_advance(p);
            jinja_expression(p, JINJA_LEVEL_IF);
            *x |= stars ? JINJA_STARS : n_kw ? JINJA_STAR : JINJA_STAR_FIRST;
        } else {
            if (name.kind == JINJA_NAME) jinja_advance(p);
            if (name.kind == JINJA_NAME && jinja_at_sign(p, '=')) {
                if (*x & JINJA_STARS) jinja_parse_error(p, "an argument follows **");
                if (*x & JINJA_STAR) jinja_parse_unknown(p, "names on both sides of * are not supported: ");
                jinja_advance(p);
                jinja_emit_const(p, qsf_jinja_text_n(p->t->src + name.at, name.n));
                jinja_expression(p, JINJA_LEVEL_IF);
                n_kw++;
            } else if (!p->st) {
                if (n_kw || *x) jinja_parse_error(p, "an argument without a name follows one with a name");
                if (name.kind == JINJA_NAME) p->lex = before, p->tok = name;
                jinja_expression(p, JINJA_LEVEL_IF);
                ++*n;
            }
        }
        if (!jinja_skip_sign(p, ',') && !jinja_at_sign(p, ')')) jinja_parse_error(p, "\")\" is missing here");
    }
    if (*n > 255 || n_kw > 255) jinja_parse_error(p, "more than 255 arguments");
    *x |= n_kw;
    jinja_expect_sign(p, ')', "\")\" is missing here");
}

static void call(jinja_parser *p)
{
    size_t n, x;
    const uint32_t at = p->tok.at;
    arguments(p, &n, &x);
    const uint32_t i = jinja_emit(p, JOP_CALL, n, x, 0);
    if (!p->st) p->t->code[i].at = at;
}

void jinja_check_unknown(jinja_parser *p)
{
    if (!p->unknown.n || p->soft || p->st) return;
    jinja_parse_fail(p, QSF_E_ARGUMENT, p->unknown.at,
                     p->unknown.kind ? "unknown test: "
                         : "unknown filter: ",
                     p->t->src + p->unknown.at, p->unknown.n);
}

/* An unknown name fails only when it is evaluated. */
static void emit_named(jinja_parser *p, jinja_op op, int id, const jinja_token *name, size_t n, size_t x)
{
    if (id >= 0) {
        jinja_emit(p, op, n, x, (uint32_t)id);
        return;
    }
    jinja_emit(p, JOP_UNKNOWN, op == JOP_TEST, jinja_symbol_id(p, p->t->src + name->at, name->n), 0);
    if (p->soft || p->unknown.n) return;
    p->unknown = *name;
    p->unknown.kind = op == JOP_TEST;
}

void jinja_filter_call(jinja_parser *p)
{
    size_t n = 0, x = 0;
    if (p->tok.kind != JINJA_NAME) jinja_parse_error(p, "the name of a filter is missing here");
    const jinja_token name = p->tok;
    const int id = jinja_filter_id(jinja_tok_text(p), p->tok.n);
    jinja_advance(p);
    if (jinja_at_sign(p, '(')) arguments(p, &n, &x);
    emit_named(p, JOP_FILTER, id, &name, n, x);
}

static void postfix(jinja_parser *p);
static void primary(jinja_parser *p);

static void test(jinja_parser *p)
{
    size_t n = 0, x = 0;
    const bool negated = jinja_skip_name(p, "not");
    if (p->tok.kind != JINJA_NAME) jinja_parse_error(p, "the name of a test is missing here");
    const jinja_token name = p->tok;
    const int id = jinja_test_id(jinja_tok_text(p), p->tok.n);
    jinja_advance(p);
    if (jinja_at_sign(p, '(')) arguments(p, &n, &x);
    else if (((p->tok.kind == JINJA_NAME && !jinja_at_name(p, "else") && !jinja_at_name(p, "or")
               && !jinja_at_name(p, "and")) || p->tok.kind == JINJA_STRING || p->tok.kind == JINJA_NUMBER
               || p->tok.kind == JINJA_REAL || jinja_at_sign(p, '[') || jinja_at_sign(p, '{'))) {
        if (jinja_at_name(p, "is")) jinja_parse_error(p, "tests cannot be chained with \"is\"");
        primary(p);
        postfix(p);
        n = 1;
    }
    emit_named(p, JOP_TEST, id, &name, n, x);
    if (negated) jinja_emit(p, JOP_NOT, 0, 0, 0);
}

/* One index or slice; returns whether it is a slice. */
static bool subscribed(jinja_parser *p)
{
    bool slice = false;
    int n = 0;
    for (; n < 3 && !p->st; n++) {
        if (jinja_at_sign(p, ':') || (slice && (jinja_at_sign(p, ']') || jinja_at_sign(p, ','))))
            jinja_emit_const(p, (jinja_value){ .type = QSF_JINJA_NONE });
        else jinja_expression(p, JINJA_LEVEL_IF);
        if (n == 2 || !jinja_at_sign(p, ':')) break;
        slice = true;
        jinja_advance(p);
    }
    if (slice) for (n++; n < 3; n++) jinja_emit_const(p, (jinja_value){ .type = QSF_JINJA_NONE });
    return slice;
}

static void subscript(jinja_parser *p)
{
    bool slice = false;
    size_t n = 0;
    jinja_advance(p);
    for (bool comma = true; !jinja_at_sign(p, ']') && !p->st; n++) {
        if (!comma) jinja_parse_error(p, "\"]\" is missing here");
        slice |= subscribed(p);
        comma = jinja_skip_sign(p, ',');
    }
    if (n > 255 || (slice && n > 1)) jinja_parse_error(p, "an index of several parts has no slices");
    if (n != 1) jinja_emit(p, JOP_TUPLE, n, 0, 0);
    jinja_emit(p, slice ? JOP_SLICE : JOP_ITEM, 0, 0, 0);
    jinja_expect_sign(p, ']', "\"]\" is missing here");
}

static void postfix(jinja_parser *p)
{
    for (; !p->st;) {
        if (jinja_at_sign(p, '(')) call(p);
        else if (jinja_at_sign(p, '[')) subscript(p);
        else if (jinja_at_sign(p, '.')) {
            jinja_advance(p);
            if (p->tok.kind == JINJA_NUMBER) {
                jinja_emit_const(p, number(p));
                jinja_emit(p, JOP_ITEM, 0, 0, 0);
                continue;
            }
            if (p->tok.kind != JINJA_NAME) jinja_parse_error(p, "a name is missing here");
            const uint16_t s = jinja_symbol_id(p, jinja_tok_text(p), p->tok.n);
            jinja_emit(p, JOP_ATTR, 0, s, 0);
            jinja_advance(p);
        } else break;
    }
}

static void primary(jinja_parser *p)
{
    size_t n = 0;
    if (p->tok.kind == JINJA_STRING) jinja_emit_const(p, string(p));
    else if (p->tok.kind == JINJA_NUMBER || p->tok.kind == JINJA_REAL) jinja_emit_const(p, number(p));
    else if (jinja_at_name(p, "true") || jinja_at_name(p, "True") || jinja_at_name(p, "false")
             || jinja_at_name(p, "False")) {
        jinja_emit_const(p, qsf_jinja_bool(jinja_tok_text(p)[0] == 't' || jinja_tok_text(p)[0] == 'T'));
        jinja_advance(p);
    } else if (jinja_skip_name(p, "none") || jinja_skip_name(p, "None"))
        jinja_emit_const(p, (jinja_value){ .type = QSF_JINJA_NONE });
    else if (p->tok.kind == JINJA_NAME) {
        if (jinja_at_name(p, "self") || jinja_at_name(p, "super")) jinja_parse_unknown(p, "not supported: ");
        const jinja_token name = p->tok;
        const uint16_t s = jinja_expect_symbol(p);
        for (int i = 0; i < 3; i++) if (s == p->t->special[i]) p->takes |= (uint8_t)(1 << i);
        const uint32_t i = jinja_emit(p, JOP_LOAD, 0, s, 0);
        if (!p->st) p->t->code[i].at = name.at;
    } else if (jinja_skip_sign(p, '(')) {
        jinja_tuple(p, JINJA_LEVEL_IF, ')');
        jinja_expect_sign(p, ')', "\")\" is missing here");
    } else if (jinja_skip_sign(p, '[')) {
        for (; !jinja_at_sign(p, ']') && !p->st; n++) {
            jinja_expression(p, JINJA_LEVEL_IF);
            if (!jinja_skip_sign(p, ',') && !jinja_at_sign(p, ']'))
                jinja_parse_error(p, "\"]\" is missing here");
        }
        if (n > 255) jinja_parse_error(p, "a list of more than 255 items");
        jinja_emit(p, JOP_LIST, n, 0, 0);
        jinja_expect_sign(p, ']', "\"]\" is missing here");
    } else if (jinja_skip_sign(p, '{')) {
        for (; !jinja_at_sign(p, '}') && !p->st; n++) {
            jinja_expression(p, JINJA_LEVEL_IF);
            jinja_expect_sign(p, ':', "\":\" is missing here");
            jinja_expression(p, JINJA_LEVEL_IF);
            if (!jinja_skip_sign(p, ',') && !jinja_at_sign(p, '}'))
                jinja_parse_error(p, "\"}\" is missing here");
        }
        if (n > 127) jinja_parse_error(p, "a dict of more than 127 items");
        jinja_emit(p, JOP_DICT, n, 0, 0);
        jinja_expect_sign(p, '}', "\"}\" is missing here");
    } else
        jinja_parse_error(p, p->tok.kind == JINJA_END ? "the template ends too early"
                                                : "an expression is missing here");
}

void jinja_unary(jinja_parser *p, bool filters)
{
    if (!jinja_parse_deeper(p)) return;
    if (jinja_at_sign(p, '-') || jinja_at_sign(p, '+')) {
        const jinja_op op = jinja_at_sign(p, '-') ? JOP_NEG : JOP_POS;
        jinja_advance(p);
        jinja_unary(p, false);
        jinja_emit(p, op, 0, 0, 0);
    } else primary(p);
    postfix(p);
    while (filters && !p->st) {
        if (jinja_skip_sign(p, '|')) jinja_filter_call(p);
        else if (jinja_skip_name(p, "is")) test(p);
        else if (jinja_at_sign(p, '(')) call(p);
        else break;
    }
    p->depth--;
}

/* The binary operator at this token, and its precedence level; JOP_STOP: not an operator. */
static jinja_op binary(const jinja_parser *p, int *level)
{
    static const struct { uint8_t sign, op, level; } signs[] = {
        { JINJA_EQ, JOP_EQ, JINJA_LEVEL_COMPARE }, { JINJA_NE, JOP_NE, JINJA_LEVEL_COMPARE },
        { '<', JOP_LT, JINJA_LEVEL_COMPARE },      { JINJA_LE, JOP_LE, JINJA_LEVEL_COMPARE },
        { '>', JOP_GT, JINJA_LEVEL_COMPARE },      { JINJA_GE, JOP_GE, JINJA_LEVEL_COMPARE },
        { '+', JOP_ADD, JINJA_LEVEL_ADD },         { '-', JOP_SUB, JINJA_LEVEL_ADD },
        { '~', JOP_CONCAT, JINJA_LEVEL_CONCAT },   { '*', JOP_MUL, JINJA_LEVEL_MUL },
        { '/', JOP_DIV, JINJA_LEVEL_MUL },         { JINJA_FLOOR, JOP_FLOOR, JINJA_LEVEL_MUL },
        { '%', JOP_MOD, JINJA_LEVEL_MUL },         { JINJA_POW, JOP_POW, JINJA_LEVEL_POW },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(signs); i++)
        if (jinja_at_sign(p, signs[i].sign)) {
            *level = signs[i].level;
            return (jinja_op)signs[i].op;
        }
    *level = JINJA_LEVEL_COMPARE;
    if (jinja_at_name(p, "in")) return JOP_IN;
    if (jinja_at_name(p, "not")) {
        jinja_parser ahead = *p;
        jinja_lex(&ahead.lex, &ahead.tok);
        if (jinja_at_name(&ahead, "in")) return JOP_NOT_IN;
    }
    *level = jinja_at_name(p, "and") ? JINJA_LEVEL_AND : JINJA_LEVEL_OR;
    return jinja_at_name(p, "and") ? JOP_AND : jinja_at_name(p, "or") ? JOP_OR : JOP_STOP;
}

/* Compares on: a < b < c is one expression, and the first false ends it. */
static void comparison(jinja_parser *p, jinja_op op)
{
    uint32_t chain = JINJA_NO_JUMP;
    int level;
    for (;; op = binary(p, &level)) {
        jinja_advance(p);
        if (op == JOP_NOT_IN) jinja_advance(p);
        jinja_expression(p, JINJA_LEVEL_COMPARE + 1);
        if (p->st || binary(p, &level) == JOP_STOP || level != JINJA_LEVEL_COMPARE) break;
        chain = jinja_emit(p, JOP_CHAIN, op, 0, chain);
    }
    jinja_emit(p, op, 0, 0, 0);
    jinja_land(p, chain);
}

static void operators(jinja_parser *p, int least)
{
    int level;
    if (least <= JINJA_LEVEL_NOT && jinja_at_name(p, "not")) {
        jinja_advance(p);
        jinja_expression(p, JINJA_LEVEL_NOT);
        jinja_emit(p, JOP_NOT, 0, 0, 0);
    } else jinja_unary(p, true);
    while (!p->st) {
        const jinja_op op = binary(p, &level);
        if (op == JOP_STOP || level < least) break;
        if (level == JINJA_LEVEL_COMPARE) {
            comparison(p, op);
            continue;
        }
        const uint32_t at = p->tok.at;
        jinja_advance(p);
        if (op == JOP_AND || op == JOP_OR) {
            const uint32_t jump = jinja_emit(p, op, 0, 0, JINJA_NO_JUMP);
            jinja_expression(p, level + 1);
            jinja_land(p, jump);
        } else {
            jinja_expression(p, level + 1);
            const uint32_t i = jinja_emit(p, op, 0, 0, 0);
            if (!p->st) p->t->code[i].at = at;
        }
    }
}

/* "a if b else c" is compiled in source order: the code of a is jumped over, and later
 * jumped back to. */
void jinja_expression(jinja_parser *p, int level)
{
    if (!jinja_parse_deeper(p)) return;
    if (level > JINJA_LEVEL_IF) {
        operators(p, level);
        p->depth--;
        return;
    }
    const uint32_t start = jinja_emit(p, JOP_JUMP, 0, 0, jinja_here(p) + 1);
    const jinja_token unknown = p->unknown;
    operators(p, JINJA_LEVEL_OR);
    if (jinja_at_name(p, "if")) p->unknown = unknown;
    else jinja_check_unknown(p);
    /* a single operation needs no way around it */
    if (!p->st && jinja_here(p) == start + 2 && !jinja_at_name(p, "if")) {
        p->t->code[start] = p->t->code[start + 1];
        p->t->n_code--;
    }
    while (!p->st && jinja_at_name(p, "if")) {
        const uint32_t out = jinja_emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP), entry = p->t->code[start].arg;
        const uint8_t soft = p->soft;
        p->t->code[start].arg = jinja_here(p);
        p->soft = 1;
        jinja_advance(p);
        operators(p, JINJA_LEVEL_OR);
        const uint32_t no = jinja_emit(p, JOP_JUMP_FALSE, 0, 0, JINJA_NO_JUMP);
        jinja_emit(p, JOP_JUMP, 0, 0, entry);
        jinja_land(p, no);
        if (jinja_skip_name(p, "else")) jinja_expression(p, JINJA_LEVEL_IF);
        else jinja_emit_const(p, (jinja_value){ .type = QSF_JINJA_UNDEFINED });
        jinja_land(p, out);
        p->soft = soft;
    }
    p->depth--;
}
