/* Jinja: compiles expressions to operations in a single pass.
 * SPDX-License-Identifier: MIT */
#include "chat/jinja_parse.h"

bool qsf_jinja_parse_deeper(jinja_parser *p)
{
    if (++p->depth <= QSF_JINJA_DEPTH) return true;
    qsf_jinja_parse_fail(p, QSF_E_BUDGET, p->tok.at, "blocks and brackets are nested too deep", "", 0);
    return false;
}

void qsf_jinja_tuple(jinja_parser *p, int level, char end)
{
    size_t n = 0;
    bool comma = false;
    while (!(end && qsf_jinja_at_sign(p, end)) && p->tok.kind != JINJA_VAR_END
           && p->tok.kind != JINJA_TAG_END &&
           p->tok.kind != JINJA_END) {
        if (n && !comma) break;
        qsf_jinja_expression(p, level);
        n++;
        comma = qsf_jinja_skip_sign(p, ',');
    }
    if (n > 255) qsf_jinja_parse_error(p, "a tuple of more than 255 items");
    if (!n && !end) qsf_jinja_parse_error(p, "an expression is missing here");
    if (n != 1 || comma) qsf_jinja_emit(p, JOP_TUPLE, n, 0, 0);
    qsf_jinja_check_unknown(p);
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
                qsf_jinja_parse_error(p, "a string has an escape that is not a character");
            else to += qsf_utf8_encode(code, to);
        } else if (c >= '0' && c <= '7') {
            for (i--, k = 0; k < 3 && i + 1 < n && s[i + 1] >= '0' && s[i + 1] <= '7'; k++)
                code = code * 8 + (uint32_t)(s[++i] - '0');
            to += qsf_utf8_encode(code, to);
        } else if (c == 'N')
            qsf_jinja_parse_fail(p, QSF_E_UNSUPPORTED, p->tok.at, "characters by name are not supported", "",
                                 0);
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
        char *out = qsf_jinja_take(&p->t->mem, v.n + p->tok.n);
        if (!out) {
            qsf_jinja_parse_fail(p, QSF_E_MEMORY, p->tok.at,
                                 "the template needs too much memory", "", 0);
            break;
        }
        if (v.n) memcpy(out, v.as.text, v.n);
        v = qsf_jinja_text_n(out, v.n + unescape(p, jinja_tok_text(p), p->tok.n, out + v.n));
        qsf_jinja_mark(jinja_marks(&p->t->mem), (size_t)(out - p->t->mem.base), v.n, true);
        qsf_jinja_advance(p);
    }
    return v;
}

static jinja_value number(jinja_parser *p)
{
    const char *s = jinja_tok_text(p);
    jinja_value v = qsf_jinja_int(0);
    const bool real = p->tok.kind == JINJA_REAL;
    if (real) v.type = QSF_JINJA_FLOAT;
    const jinja_number_kind kind = real ? qsf_jinja_read_float(s, p->tok.n, &v.as.f)
                                        : qsf_jinja_read_whole(s, p->tok.n, 0, &v.as.i);
    if (kind == JINJA_NO_NUMBER) qsf_jinja_parse_error(p, "malformed number");
    else if (kind == JINJA_LARGE && !real && s[0] != '0' && !memchr(s, '_', p->tok.n)) {
        v = qsf_jinja_text_n(s, p->tok.n);
        v.type = QSF_JINJA_BIG;
    } else if (kind == JINJA_LARGE) qsf_jinja_parse_unknown(p, "this number is too long: ");
    qsf_jinja_advance(p);
    return v;
}

/* Arguments up to ")".  *n: the number of positional ones; *x: the number of named ones (pairs of
 * name and value after them), with JINJA_STAR and JINJA_STARS if *list and **dict follow. */
static void arguments(jinja_parser *p, size_t *n, size_t *x)
{
    size_t n_kw = 0;
    *n = *x = 0;
    qsf_jinja_advance(p);
    while (!qsf_jinja_at_sign(p, ')') && !p->st) {
        const bool star = qsf_jinja_at_sign(p, '*'), stars = qsf_jinja_at_sign(p, JINJA_POW);
        const jinja_lexer before = p->lex;
        const jinja_token name = p->tok;
        if (star || stars) {
            if (*x & (star ? JINJA_STAR | JINJA_STAR_FIRST | JINJA_STARS : JINJA_STARS))
                qsf_jinja_parse_error(p, "this argument is in the wrong place");
            qsf_jinja_advance(p);
            qsf_jinja_expression(p, JINJA_LEVEL_IF);
            *x |= stars ? JINJA_STARS : n_kw ? JINJA_STAR : JINJA_STAR_FIRST;
        } else {
            if (name.kind == JINJA_NAME) qsf_jinja_advance(p);
            if (name.kind == JINJA_NAME && qsf_jinja_at_sign(p, '=')) {
                if (*x & JINJA_STARS) qsf_jinja_parse_error(p, "an argument follows **");
                if (*x & JINJA_STAR)
                    qsf_jinja_parse_unknown(p, "names on both sides of * are not supported: ");
                qsf_jinja_advance(p);
                qsf_jinja_emit_const(p, qsf_jinja_text_n(p->t->src + name.at, name.n));
                qsf_jinja_expression(p, JINJA_LEVEL_IF);
                n_kw++;
            } else if (!p->st) {
                if (n_kw || *x) qsf_jinja_parse_error(p,
                                                      "an argument without a name follows one with a name");
                if (name.kind == JINJA_NAME) p->lex = before, p->tok = name;
                qsf_jinja_expression(p, JINJA_LEVEL_IF);
                ++*n;
            }
        }
        if (!qsf_jinja_skip_sign(p, ',') && !qsf_jinja_at_sign(p, ')'))
            qsf_jinja_parse_error(p, "\")\" is missing here");
    }
    if (*n > 255 || n_kw > 255) qsf_jinja_parse_error(p, "more than 255 arguments");
    *x |= n_kw;
    qsf_jinja_expect_sign(p, ')', "\")\" is missing here");
}

static void call(jinja_parser *p)
{
    size_t n, x;
    const uint32_t at = p->tok.at;
    arguments(p, &n, &x);
    const uint32_t i = qsf_jinja_emit(p, JOP_CALL, n, x, 0);
    if (!p->st) p->t->code[i].at = at;
}

void qsf_jinja_check_unknown(jinja_parser *p)
{
    if (!p->unknown.n || p->soft || p->st) return;
    qsf_jinja_parse_fail(p, QSF_E_ARGUMENT, p->unknown.at,
                         p->unknown.kind ? "unknown test: "
                         : "unknown filter: ",
                     p->t->src + p->unknown.at, p->unknown.n);
}

/* An unknown name fails only when it is evaluated. */
static void emit_named(jinja_parser *p, jinja_op op, int id, const jinja_token *name, size_t n, size_t x)
{
    if (id >= 0) {
        qsf_jinja_emit(p, op, n, x, (uint32_t)id);
        return;
    }
    qsf_jinja_emit(p, JOP_UNKNOWN, op == JOP_TEST, qsf_jinja_symbol_id(p, p->t->src + name->at, name->n), 0);
    if (p->soft || p->unknown.n) return;
    p->unknown = *name;
    p->unknown.kind = op == JOP_TEST;
}

void qsf_jinja_filter_call(jinja_parser *p)
{
    size_t n = 0, x = 0;
    if (p->tok.kind != JINJA_NAME) qsf_jinja_parse_error(p, "the name of a filter is missing here");
    const jinja_token name = p->tok;
    const int id = qsf_jinja_filter_id(jinja_tok_text(p), p->tok.n);
    qsf_jinja_advance(p);
    if (qsf_jinja_at_sign(p, '(')) arguments(p, &n, &x);
    emit_named(p, JOP_FILTER, id, &name, n, x);
}

static void postfix(jinja_parser *p);
static void primary(jinja_parser *p);

static void test(jinja_parser *p)
{
    size_t n = 0, x = 0;
    const bool negated = qsf_jinja_skip_name(p, "not");
    if (p->tok.kind != JINJA_NAME) qsf_jinja_parse_error(p, "the name of a test is missing here");
    const jinja_token name = p->tok;
    const int id = qsf_jinja_test_id(jinja_tok_text(p), p->tok.n);
    qsf_jinja_advance(p);
    if (qsf_jinja_at_sign(p, '(')) arguments(p, &n, &x);
    else if (((p->tok.kind == JINJA_NAME && !qsf_jinja_at_name(p, "else") && !qsf_jinja_at_name(p, "or")
               && !qsf_jinja_at_name(p, "and")) || p->tok.kind == JINJA_STRING || p->tok.kind == JINJA_NUMBER
               || p->tok.kind == JINJA_REAL || qsf_jinja_at_sign(p, '[') || qsf_jinja_at_sign(p, '{'))) {
        if (qsf_jinja_at_name(p, "is")) qsf_jinja_parse_error(p, "tests cannot be chained with \"is\"");
        primary(p);
        postfix(p);
        n = 1;
    }
    emit_named(p, JOP_TEST, id, &name, n, x);
    if (negated) qsf_jinja_emit(p, JOP_NOT, 0, 0, 0);
}

/* One index or slice; returns whether it is a slice. */
static bool subscribed(jinja_parser *p)
{
    bool slice = false;
    int n = 0;
    for (; n < 3 && !p->st; n++) {
        if (qsf_jinja_at_sign(p, ':') || (slice && (qsf_jinja_at_sign(p, ']') || qsf_jinja_at_sign(p, ','))))
            qsf_jinja_emit_const(p, (jinja_value){ .type = QSF_JINJA_NONE });
        else qsf_jinja_expression(p, JINJA_LEVEL_IF);
        if (n == 2 || !qsf_jinja_at_sign(p, ':')) break;
        slice = true;
        qsf_jinja_advance(p);
    }
    if (slice) for (n++; n < 3; n++) qsf_jinja_emit_const(p, (jinja_value){ .type = QSF_JINJA_NONE });
    return slice;
}

static void subscript(jinja_parser *p)
{
    bool slice = false;
    size_t n = 0;
    qsf_jinja_advance(p);
    for (bool comma = true; !qsf_jinja_at_sign(p, ']') && !p->st; n++) {
        if (!comma) qsf_jinja_parse_error(p, "\"]\" is missing here");
        slice |= subscribed(p);
        comma = qsf_jinja_skip_sign(p, ',');
    }
    if (n > 255 || (slice && n > 1)) qsf_jinja_parse_error(p, "an index of several parts has no slices");
    if (n != 1) qsf_jinja_emit(p, JOP_TUPLE, n, 0, 0);
    qsf_jinja_emit(p, slice ? JOP_SLICE : JOP_ITEM, 0, 0, 0);
    qsf_jinja_expect_sign(p, ']', "\"]\" is missing here");
}

static void postfix(jinja_parser *p)
{
    for (; !p->st;) {
        if (qsf_jinja_at_sign(p, '(')) call(p);
        else if (qsf_jinja_at_sign(p, '[')) subscript(p);
        else if (qsf_jinja_at_sign(p, '.')) {
            qsf_jinja_advance(p);
            if (p->tok.kind == JINJA_NUMBER) {
                qsf_jinja_emit_const(p, number(p));
                qsf_jinja_emit(p, JOP_ITEM, 0, 0, 0);
                continue;
            }
            if (p->tok.kind != JINJA_NAME) qsf_jinja_parse_error(p, "a name is missing here");
            const uint16_t s = qsf_jinja_symbol_id(p, jinja_tok_text(p), p->tok.n);
            qsf_jinja_emit(p, JOP_ATTR, 0, s, 0);
            qsf_jinja_advance(p);
        } else break;
    }
}

static void primary(jinja_parser *p)
{
    size_t n = 0;
    if (p->tok.kind == JINJA_STRING) qsf_jinja_emit_const(p, string(p));
    else if (p->tok.kind == JINJA_NUMBER || p->tok.kind == JINJA_REAL) qsf_jinja_emit_const(p, number(p));
    else if (qsf_jinja_at_name(p, "true") || qsf_jinja_at_name(p, "True") || qsf_jinja_at_name(p, "false")
             || qsf_jinja_at_name(p, "False")) {
        qsf_jinja_emit_const(p, qsf_jinja_bool(jinja_tok_text(p)[0] == 't' || jinja_tok_text(p)[0] == 'T'));
        qsf_jinja_advance(p);
    } else if (qsf_jinja_skip_name(p, "none") || qsf_jinja_skip_name(p, "None"))
        qsf_jinja_emit_const(p, (jinja_value){ .type = QSF_JINJA_NONE });
    else if (p->tok.kind == JINJA_NAME) {
        if (qsf_jinja_at_name(p, "self") || qsf_jinja_at_name(p, "super"))
            qsf_jinja_parse_unknown(p, "not supported: ");
        const jinja_token name = p->tok;
        const uint16_t s = qsf_jinja_expect_symbol(p);
        for (int i = 0; i < 3; i++) if (s == p->t->special[i]) p->takes |= (uint8_t)(1 << i);
        const uint32_t i = qsf_jinja_emit(p, JOP_LOAD, 0, s, 0);
        if (!p->st) p->t->code[i].at = name.at;
    } else if (qsf_jinja_skip_sign(p, '(')) {
        qsf_jinja_tuple(p, JINJA_LEVEL_IF, ')');
        qsf_jinja_expect_sign(p, ')', "\")\" is missing here");
    } else if (qsf_jinja_skip_sign(p, '[')) {
        for (; !qsf_jinja_at_sign(p, ']') && !p->st; n++) {
            qsf_jinja_expression(p, JINJA_LEVEL_IF);
            if (!qsf_jinja_skip_sign(p, ',') && !qsf_jinja_at_sign(p, ']'))
                qsf_jinja_parse_error(p, "\"]\" is missing here");
        }
        if (n > 255) qsf_jinja_parse_error(p, "a list of more than 255 items");
        qsf_jinja_emit(p, JOP_LIST, n, 0, 0);
        qsf_jinja_expect_sign(p, ']', "\"]\" is missing here");
    } else if (qsf_jinja_skip_sign(p, '{')) {
        for (; !qsf_jinja_at_sign(p, '}') && !p->st; n++) {
            qsf_jinja_expression(p, JINJA_LEVEL_IF);
            qsf_jinja_expect_sign(p, ':', "\":\" is missing here");
            qsf_jinja_expression(p, JINJA_LEVEL_IF);
            if (!qsf_jinja_skip_sign(p, ',') && !qsf_jinja_at_sign(p, '}'))
                qsf_jinja_parse_error(p, "\"}\" is missing here");
        }
        if (n > 127) qsf_jinja_parse_error(p, "a dict of more than 127 items");
        qsf_jinja_emit(p, JOP_DICT, n, 0, 0);
        qsf_jinja_expect_sign(p, '}', "\"}\" is missing here");
    } else
        qsf_jinja_parse_error(p, p->tok.kind == JINJA_END ? "the template ends too early"
                                                : "an expression is missing here");
}

void qsf_jinja_unary(jinja_parser *p, bool filters)
{
    if (!qsf_jinja_parse_deeper(p)) return;
    if (qsf_jinja_at_sign(p, '-') || qsf_jinja_at_sign(p, '+')) {
        const jinja_op op = qsf_jinja_at_sign(p, '-') ? JOP_NEG : JOP_POS;
        qsf_jinja_advance(p);
        qsf_jinja_unary(p, false);
        qsf_jinja_emit(p, op, 0, 0, 0);
    } else primary(p);
    postfix(p);
    while (filters && !p->st) {
        if (qsf_jinja_skip_sign(p, '|')) qsf_jinja_filter_call(p);
        else if (qsf_jinja_skip_name(p, "is")) test(p);
        else if (qsf_jinja_at_sign(p, '(')) call(p);
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
        if (qsf_jinja_at_sign(p, signs[i].sign)) {
            *level = signs[i].level;
            return (jinja_op)signs[i].op;
        }
    *level = JINJA_LEVEL_COMPARE;
    if (qsf_jinja_at_name(p, "in")) return JOP_IN;
    if (qsf_jinja_at_name(p, "not")) {
        jinja_parser ahead = *p;
        qsf_jinja_lex(&ahead.lex, &ahead.tok);
        if (qsf_jinja_at_name(&ahead, "in")) return JOP_NOT_IN;
    }
    *level = qsf_jinja_at_name(p, "and") ? JINJA_LEVEL_AND : JINJA_LEVEL_OR;
    return qsf_jinja_at_name(p, "and") ? JOP_AND : qsf_jinja_at_name(p, "or") ? JOP_OR : JOP_STOP;
}

/* Compares on: a < b < c is one expression, and the first false ends it. */
static void comparison(jinja_parser *p, jinja_op op)
{
    uint32_t chain = JINJA_NO_JUMP;
    int level;
    for (;; op = binary(p, &level)) {
        qsf_jinja_advance(p);
        if (op == JOP_NOT_IN) qsf_jinja_advance(p);
        qsf_jinja_expression(p, JINJA_LEVEL_COMPARE + 1);
        if (p->st || binary(p, &level) == JOP_STOP || level != JINJA_LEVEL_COMPARE) break;
        chain = qsf_jinja_emit(p, JOP_CHAIN, op, 0, chain);
    }
    qsf_jinja_emit(p, op, 0, 0, 0);
    qsf_jinja_land(p, chain);
}

static void operators(jinja_parser *p, int least)
{
    int level;
    if (least <= JINJA_LEVEL_NOT && qsf_jinja_at_name(p, "not")) {
        qsf_jinja_advance(p);
        qsf_jinja_expression(p, JINJA_LEVEL_NOT);
        qsf_jinja_emit(p, JOP_NOT, 0, 0, 0);
    } else qsf_jinja_unary(p, true);
    while (!p->st) {
        const jinja_op op = binary(p, &level);
        if (op == JOP_STOP || level < least) break;
        if (level == JINJA_LEVEL_COMPARE) {
            comparison(p, op);
            continue;
        }
        const uint32_t at = p->tok.at;
        qsf_jinja_advance(p);
        if (op == JOP_AND || op == JOP_OR) {
            const uint32_t jump = qsf_jinja_emit(p, op, 0, 0, JINJA_NO_JUMP);
            qsf_jinja_expression(p, level + 1);
            qsf_jinja_land(p, jump);
        } else {
            qsf_jinja_expression(p, level + 1);
            const uint32_t i = qsf_jinja_emit(p, op, 0, 0, 0);
            if (!p->st) p->t->code[i].at = at;
        }
    }
}

/* "a if b else c" is compiled in source order: the code of a is jumped over, and later
 * jumped back to. */
void qsf_jinja_expression(jinja_parser *p, int level)
{
    if (!qsf_jinja_parse_deeper(p)) return;
    if (level > JINJA_LEVEL_IF) {
        operators(p, level);
        p->depth--;
        return;
    }
    const uint32_t start = qsf_jinja_emit(p, JOP_JUMP, 0, 0, jinja_here(p) + 1);
    const jinja_token unknown = p->unknown;
    operators(p, JINJA_LEVEL_OR);
    if (qsf_jinja_at_name(p, "if")) p->unknown = unknown;
    else qsf_jinja_check_unknown(p);
    /* a single operation needs no way around it */
    if (!p->st && jinja_here(p) == start + 2 && !qsf_jinja_at_name(p, "if")) {
        p->t->code[start] = p->t->code[start + 1];
        p->t->n_code--;
    }
    while (!p->st && qsf_jinja_at_name(p, "if")) {
        const uint32_t out = qsf_jinja_emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP), entry = p->t->code[start].arg;
        const uint8_t soft = p->soft;
        p->t->code[start].arg = jinja_here(p);
        p->soft = 1;
        qsf_jinja_advance(p);
        operators(p, JINJA_LEVEL_OR);
        const uint32_t no = qsf_jinja_emit(p, JOP_JUMP_FALSE, 0, 0, JINJA_NO_JUMP);
        qsf_jinja_emit(p, JOP_JUMP, 0, 0, entry);
        qsf_jinja_land(p, no);
        if (qsf_jinja_skip_name(p, "else")) qsf_jinja_expression(p, JINJA_LEVEL_IF);
        else qsf_jinja_emit_const(p, (jinja_value){ .type = QSF_JINJA_UNDEFINED });
        qsf_jinja_land(p, out);
        p->soft = soft;
    }
    p->depth--;
}
