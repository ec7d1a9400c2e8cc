/* Jinja: tokens to a flat program.  Each construct is read once, and its operations are written as it is read.
 * SPDX-License-Identifier: MIT */
#include "text/jinja_own.h"

typedef struct jinja_parser {
    qsf_jinja  *t;
    jinja_lexer lex;
    jinja_token tok;
    qsf_status  st;
    qsf_error  *err;
    uint32_t    depth;
    uint32_t    next, breaks;       /* of the innermost loop: where it goes on; the chain of jumps out of it */
    bool        in_loop, in_macro;
} jinja_parser;

/* A chain of jumps that have no target yet: each holds the one before it, the first this. */
enum { JINJA_NO_JUMP = 0x7fffffff };

void *jinja_take(jinja_mem *m, size_t bytes)
{
    const size_t at = (m->used + 15) & ~(size_t)15;
    if (at > m->size || bytes > m->size - at) return NULL;
    m->used = at + bytes;
    return m->base + at;
}

void jinja_place(const qsf_jinja *t, uint32_t at, uint32_t *line, uint32_t *column)
{
    *line = *column = 1;
    for (uint32_t i = 0; i < at && i < t->len; i++) {
        if (t->src[i] == '\n') ++*line, *column = 1;
        else if ((t->src[i] & 0xc0) != 0x80) ++*column;
    }
}

/* From here on every token is the end, so that all that is half read returns. */
static void parse_fail(jinja_parser *p, qsf_status st, uint32_t at, const char *what, const char *name,
                       size_t n)
{
    uint32_t line, column;
    if (p->st) return;
    jinja_place(p->t, at, &line, &column);
    p->st = qsf_fail(p->err, st, "chat template, line %u, column %u: %s%.*s", (unsigned)line,
                     (unsigned)column, what, (int)QSF_MIN(n, 60), name);
    p->lex.error = what;
    p->tok = (jinja_token){ .kind = JINJA_END, .at = at };
}
static void parse_error(jinja_parser *p, const char *what)
{
    parse_fail(p, QSF_E_ARGUMENT, p->tok.at, what, "", 0);
}
static const char *tok_text(const jinja_parser *p) { return p->t->src + p->tok.at; }
static void parse_unknown(jinja_parser *p, const char *what)
{
    parse_fail(p, QSF_E_UNSUPPORTED, p->tok.at, what, tok_text(p), p->tok.n);
}

static void advance(jinja_parser *p)
{
    jinja_lex(&p->lex, &p->tok);
    if (p->lex.error) parse_error(p, p->lex.error);
}

/* An array that doubles; what it leaves behind is lost in the block. */
static bool room_for_one(jinja_parser *p, void **items, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap) return true;
    const uint32_t more = *cap ? 2 * *cap : 16;
    void *m = jinja_take(&p->t->mem, more * size);
    if (!m) {
        parse_fail(p, QSF_E_MEMORY, p->tok.at, "the template takes more memory than there is for it", "", 0);
        return false;
    }
    if (n) memcpy(m, *items, n * size);
    *items = m;
    *cap = more;
    return true;
}

static uint32_t emit(jinja_parser *p, jinja_op op, size_t n, size_t x, uint32_t arg)
{
    void *code = p->t->code;
    if (!room_for_one(p, &code, p->t->n_code, &p->t->code_cap, sizeof *p->t->code)) return 0;
    p->t->code = code;
    p->t->code[p->t->n_code] = (jinja_code){ (uint8_t)op, (uint8_t)n, (uint16_t)x, arg, p->tok.at };
    return p->t->n_code++;
}
static uint32_t here(const jinja_parser *p) { return p->t->n_code; }
static void land(jinja_parser *p, uint32_t chain)
{
    while (!p->st && chain != JINJA_NO_JUMP) {
        jinja_code *c = &p->t->code[chain];
        chain = c->arg;
        c->arg = here(p);
    }
}

static void emit_const(jinja_parser *p, jinja_value v)
{
    void *consts = p->t->consts;
    if (!room_for_one(p, &consts, p->t->n_consts, &p->t->const_cap, sizeof v)) return;
    p->t->consts = consts;
    p->t->consts[p->t->n_consts] = v;
    emit(p, JOP_CONST, 0, 0, p->t->n_consts++);
}

static uint16_t symbol(jinja_parser *p, const char *text, size_t n)
{
    qsf_jinja *t = p->t;
    uint32_t h = (uint32_t)n;
    for (size_t i = 0; i < n; i++) h = h * 31 + (uint8_t)text[i];
    uint16_t *head = &t->hashes[h % JINJA_HASHES];
    for (uint16_t i = *head; i != JINJA_NO_SYMBOL; i = t->symbols[i].next)
        if (t->symbols[i].n == n && !memcmp(t->symbols[i].text, text, n)) return i;
    void *symbols = t->symbols;
    if (t->n_symbols == JINJA_NO_SYMBOL) {
        parse_fail(p, QSF_E_BUDGET, p->tok.at, "the template has too many names", "", 0);
        return 0;
    }
    if (!room_for_one(p, &symbols, t->n_symbols, &t->symbol_cap, sizeof *t->symbols)) return 0;
    t->symbols = symbols;
    t->symbols[t->n_symbols] = (jinja_symbol){ text, (uint32_t)n, *head, (uint16_t)jinja_method_id(text, n) };
    return *head = (uint16_t)t->n_symbols++;
}

/* ---- tokens that are expected ---- */

static bool at_sign(const jinja_parser *p, int sign)
{
    return p->tok.kind == JINJA_SIGN && p->tok.sign == sign;
}
static bool at_name(const jinja_parser *p, const char *name)
{
    return p->tok.kind == JINJA_NAME && p->tok.n == strlen(name) && !memcmp(tok_text(p), name, p->tok.n);
}
static bool skip_sign(jinja_parser *p, int sign)
{
    if (!at_sign(p, sign)) return false;
    advance(p);
    return true;
}
static bool skip_name(jinja_parser *p, const char *name)
{
    if (!at_name(p, name)) return false;
    advance(p);
    return true;
}
static void expect_sign(jinja_parser *p, int sign, const char *what)
{
    if (!skip_sign(p, sign)) parse_error(p, what);
}
static void expect_tag_end(jinja_parser *p)
{
    if (p->tok.kind == JINJA_TAG_END) advance(p);
    else parse_error(p, "the tag does not end where it should");
}
static uint16_t expect_symbol(jinja_parser *p)
{
    static const char *const reserved[] = { "and", "or",   "not",   "if",   "else", "elif",  "in",
                                            "is",  "true", "false", "none", "True", "False", "None" };
    for (size_t i = 0; i < QSF_ARRAY_LEN(reserved); i++)
        if (at_name(p, reserved[i])) parse_error(p, "a name is missing here");
    if (p->tok.kind != JINJA_NAME) parse_error(p, "a name is missing here");
    const uint16_t s = symbol(p, tok_text(p), p->tok.n);
    advance(p);
    return s;
}

/* ---- expressions ---- */

enum {
    LEVEL_IF, LEVEL_OR, LEVEL_AND, LEVEL_NOT, LEVEL_COMPARE, LEVEL_ADD, LEVEL_CONCAT, LEVEL_MUL,
    LEVEL_POW, LEVEL_UNARY
};

static void expression(jinja_parser *p, int level);
static void unary(jinja_parser *p, bool filters);

static bool deeper(jinja_parser *p)
{
    if (++p->depth <= QSF_JINJA_DEPTH) return true;
    parse_fail(p, QSF_E_BUDGET, p->tok.at, "blocks and brackets lie too deep in each other", "", 0);
    return false;
}

/* Expressions with commas between them up to `end` (0: whatever ends them) make a tuple; a single one is itself. */
static void tuple(jinja_parser *p, int level, char end)
{
    size_t n = 0;
    bool comma = false;
    while (!(end && at_sign(p, end)) && p->tok.kind != JINJA_VAR_END && p->tok.kind != JINJA_TAG_END &&
           p->tok.kind != JINJA_END) {
        if (n && !comma) break;
        expression(p, level);
        n++;
        comma = skip_sign(p, ',');
    }
    if (n > 255) parse_error(p, "a tuple of more than 255 items");
    if (!n && !end) parse_error(p, "an expression is missing here");
    if (n != 1 || comma) emit(p, JOP_TUPLE, n, 0, 0);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* A string of the source with its escapes resolved, as Python has them, appended to out; returns its bytes. */
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
                parse_error(p, "a string has an escape that is no character");
            else to += qsf_utf8_encode(code, to);
        } else if (c >= '0' && c <= '7') {
            for (i--, k = 0; k < 3 && i + 1 < n && s[i + 1] >= '0' && s[i + 1] <= '7'; k++)
                code = code * 8 + (uint32_t)(s[++i] - '0');
            to += qsf_utf8_encode(code, to);
        } else if (c == 'N')
            parse_fail(p, QSF_E_UNSUPPORTED, p->tok.at, "characters by name are not known here", "", 0);
        else *to++ = '\\', *to++ = c;
    }
    return (size_t)(to - out);
}

/* Strings that follow each other are one.  An escape is never longer than what it is written with. */
static jinja_value string(jinja_parser *p)
{
    jinja_value v = qsf_jinja_text_n("", 0);
    while (p->tok.kind == JINJA_STRING) {
        char *out = jinja_take(&p->t->mem, v.n + p->tok.n);
        if (!out) {
            parse_fail(p, QSF_E_MEMORY, p->tok.at, "the template takes more memory than there is for it", "",
                       0);
            break;
        }
        if (v.n) memcpy(out, v.as.text, v.n);
        v = qsf_jinja_text_n(out, v.n + unescape(p, tok_text(p), p->tok.n, out + v.n));
        advance(p);
    }
    return v;
}

static jinja_value number(jinja_parser *p)
{
    static const double tens[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    const char *s = tok_text(p);
    uint64_t m = 0;
    int e = 0, more = 0, sign = 1;
    bool point = false, big = false;
    size_t i = 0;
    for (; i < p->tok.n && s[i] != 'e' && s[i] != 'E'; i++) {
        if (s[i] == '.') point = true;
        if (s[i] < '0' || s[i] > '9') continue;
        if (m > (INT64_MAX - 9) / 10) big = true;
        else m = 10 * m + (uint64_t)(s[i] - '0');
        e -= point;
    }
    for (i++; i < p->tok.n; i++) {
        if (s[i] == '-') sign = -1;
        else if (s[i] >= '0' && s[i] <= '9' && more < 1000) more = 10 * more + (s[i] - '0');
    }
    e += sign * more;
    const bool real = p->tok.kind == JINJA_REAL;
    if (!real && p->tok.n > 1 && s[0] == '0' && m) parse_error(p, "a number does not begin with 0");
    if (big || (real && (m > (1ull << 53) || e > 22 || e < -22)))
        parse_unknown(p, "this number is too long: "); /* below both powers are exact */
    advance(p);
    if (!real) return qsf_jinja_int((int64_t)m);
    const double f = e < 0 ? (double)m / tens[QSF_MIN(-e, 22)] : (double)m * tens[QSF_MIN(e, 22)];
    return (jinja_value){ .type = QSF_JINJA_FLOAT, .as.f = f };
}

/* Arguments up to ")": how many by place, and how many by name (as pairs of name and value behind them). */
static void arguments(jinja_parser *p, size_t *n, size_t *n_kw)
{
    *n = *n_kw = 0;
    advance(p);
    while (!at_sign(p, ')') && !p->st) {
        if (at_sign(p, '*') || at_sign(p, JINJA_POW))
            parse_unknown(p, "arguments out of a list are not known here: ");
        const jinja_lexer before = p->lex;
        const jinja_token name = p->tok;
        if (name.kind == JINJA_NAME) advance(p);
        if (name.kind == JINJA_NAME && at_sign(p, '=')) {
            advance(p);
            emit_const(p, qsf_jinja_text_n(p->t->src + name.at, name.n));
            expression(p, LEVEL_IF);
            ++*n_kw;
        } else if (!p->st) {
            if (*n_kw) parse_error(p, "an argument without a name follows one with a name");
            if (name.kind == JINJA_NAME) p->lex = before, p->tok = name;
            expression(p, LEVEL_IF);
            ++*n;
        }
        if (!skip_sign(p, ',') && !at_sign(p, ')')) parse_error(p, "\")\" is missing here");
    }
    if (*n > 255 || *n_kw > 255) parse_error(p, "more than 255 arguments");
    expect_sign(p, ')', "\")\" is missing here");
}

static void call(jinja_parser *p)
{
    size_t n, n_kw;
    const uint32_t at = p->tok.at;
    arguments(p, &n, &n_kw);
    const uint32_t i = emit(p, JOP_CALL, n, n_kw, 0);
    if (!p->st) p->t->code[i].at = at;
}

/* What follows "|": the value is on the stack. */
static void filter(jinja_parser *p)
{
    size_t n = 0, n_kw = 0;
    if (p->tok.kind != JINJA_NAME) parse_error(p, "the name of a filter is missing here");
    const int id = jinja_filter_id(tok_text(p), p->tok.n);
    if (id < 0) parse_unknown(p, "no filter is known here by the name ");
    advance(p);
    if (at_sign(p, '(')) arguments(p, &n, &n_kw);
    emit(p, JOP_FILTER, n, n_kw, (uint32_t)id);
}

static void postfix(jinja_parser *p);
static void primary(jinja_parser *p);

static void test(jinja_parser *p)
{
    size_t n = 0, n_kw = 0;
    const bool negated = skip_name(p, "not");
    if (p->tok.kind != JINJA_NAME) parse_error(p, "the name of a test is missing here");
    const int id = jinja_test_id(tok_text(p), p->tok.n);
    if (id < 0) parse_unknown(p, "no test is known here by the name ");
    advance(p);
    if (at_sign(p, '(')) arguments(p, &n, &n_kw);
    else if (((p->tok.kind == JINJA_NAME && !at_name(p, "else") && !at_name(p, "or") && !at_name(p, "and")) ||
              p->tok.kind == JINJA_STRING || p->tok.kind == JINJA_NUMBER || p->tok.kind == JINJA_REAL ||
              at_sign(p, '[') || at_sign(p, '{'))) {
        if (at_name(p, "is")) parse_error(p, "tests cannot be chained with \"is\"");
        primary(p);
        postfix(p);
        n = 1;
    }
    emit(p, JOP_TEST, n, n_kw, (uint32_t)id);
    if (negated) emit(p, JOP_NOT, 0, 0, 0);
}

static void subscript(jinja_parser *p)
{
    bool slice = false;
    int n = 0;
    advance(p);
    for (; n < 3 && !p->st; n++) {
        if (at_sign(p, ':') || at_sign(p, ']')) {
            if (!slice && at_sign(p, ']')) parse_error(p, "an index is missing here");
            emit_const(p, (jinja_value){ .type = QSF_JINJA_NONE });
        } else expression(p, LEVEL_IF);
        if (!at_sign(p, ':')) break;
        slice = true;
        advance(p);
    }
    if (at_sign(p, ',')) parse_unknown(p, "an index of several parts is not known here: ");
    if (slice) for (n++; n < 3; n++) emit_const(p, (jinja_value){ .type = QSF_JINJA_NONE });
    emit(p, slice ? JOP_SLICE : JOP_ITEM, 0, 0, 0);
    expect_sign(p, ']', "\"]\" is missing here");
}

static void postfix(jinja_parser *p)
{
    for (; !p->st;) {
        if (at_sign(p, '(')) call(p);
        else if (at_sign(p, '[')) subscript(p);
        else if (at_sign(p, '.')) {
            advance(p);
            if (p->tok.kind == JINJA_NUMBER) {
                emit_const(p, number(p));
                emit(p, JOP_ITEM, 0, 0, 0);
                continue;
            }
            if (p->tok.kind != JINJA_NAME) parse_error(p, "a name is missing here");
            const uint16_t s = symbol(p, tok_text(p), p->tok.n);
            emit(p, JOP_ATTR, 0, s, 0);
            advance(p);
        } else break;
    }
}

static void primary(jinja_parser *p)
{
    size_t n = 0;
    if (p->tok.kind == JINJA_STRING) emit_const(p, string(p));
    else if (p->tok.kind == JINJA_NUMBER || p->tok.kind == JINJA_REAL) emit_const(p, number(p));
    else if (at_name(p, "true") || at_name(p, "True") || at_name(p, "false") || at_name(p, "False")) {
        emit_const(p, qsf_jinja_bool(tok_text(p)[0] == 't' || tok_text(p)[0] == 'T'));
        advance(p);
    } else if (skip_name(p, "none") || skip_name(p, "None"))
        emit_const(p, (jinja_value){ .type = QSF_JINJA_NONE });
    else if (p->tok.kind == JINJA_NAME) {
        if (p->in_macro && (at_name(p, "varargs") || at_name(p, "kwargs")))
            parse_unknown(p, "not known here: ");
        if (at_name(p, "self") || at_name(p, "super") || at_name(p, "cycler") || at_name(p, "joiner") ||
            at_name(p, "lipsum"))
            parse_unknown(p, "not known here: ");
        const jinja_token name = p->tok;
        const uint16_t s = expect_symbol(p);
        const uint32_t i = emit(p, JOP_LOAD, 0, s, 0);
        if (!p->st) p->t->code[i].at = name.at;
    } else if (skip_sign(p, '(')) {
        tuple(p, LEVEL_IF, ')');
        expect_sign(p, ')', "\")\" is missing here");
    } else if (skip_sign(p, '[')) {
        for (; !at_sign(p, ']') && !p->st; n++) {
            expression(p, LEVEL_IF);
            if (!skip_sign(p, ',') && !at_sign(p, ']')) parse_error(p, "\"]\" is missing here");
        }
        if (n > 255) parse_error(p, "a list of more than 255 items");
        emit(p, JOP_LIST, n, 0, 0);
        expect_sign(p, ']', "\"]\" is missing here");
    } else if (skip_sign(p, '{')) {
        for (; !at_sign(p, '}') && !p->st; n++) {
            expression(p, LEVEL_IF);
            expect_sign(p, ':', "\":\" is missing here");
            expression(p, LEVEL_IF);
            if (!skip_sign(p, ',') && !at_sign(p, '}')) parse_error(p, "\"}\" is missing here");
        }
        if (n > 127) parse_error(p, "a dict of more than 127 items");
        emit(p, JOP_DICT, n, 0, 0);
        expect_sign(p, '}', "\"}\" is missing here");
    } else
        parse_error(p, p->tok.kind == JINJA_END ? "the template ends too early"
                                                : "an expression is missing here");
}

static void unary(jinja_parser *p, bool filters)
{
    if (!deeper(p)) return;
    if (at_sign(p, '-') || at_sign(p, '+')) {
        const jinja_op op = at_sign(p, '-') ? JOP_NEG : JOP_POS;
        advance(p);
        unary(p, false);
        emit(p, op, 0, 0, 0);
    } else primary(p);
    postfix(p);
    while (filters && !p->st) {
        if (skip_sign(p, '|')) filter(p);
        else if (skip_name(p, "is")) test(p);
        else if (at_sign(p, '(')) call(p);
        else break;
    }
    p->depth--;
}

/* The operator of two sides that stands here, and its level; JOP_STOP: there is none. */
static jinja_op binary(const jinja_parser *p, int *level)
{
    static const struct { uint8_t sign, op, level;
    } signs[] = {
        { JINJA_EQ, JOP_EQ, LEVEL_COMPARE }, { JINJA_NE, JOP_NE, LEVEL_COMPARE },
        { '<', JOP_LT, LEVEL_COMPARE },      { JINJA_LE, JOP_LE, LEVEL_COMPARE },
        { '>', JOP_GT, LEVEL_COMPARE },      { JINJA_GE, JOP_GE, LEVEL_COMPARE },
        { '+', JOP_ADD, LEVEL_ADD },         { '-', JOP_SUB, LEVEL_ADD },
        { '~', JOP_CONCAT, LEVEL_CONCAT },   { '*', JOP_MUL, LEVEL_MUL },
        { '/', JOP_DIV, LEVEL_MUL },         { JINJA_FLOOR, JOP_FLOOR, LEVEL_MUL },
        { '%', JOP_MOD, LEVEL_MUL },         { JINJA_POW, JOP_POW, LEVEL_POW },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(signs); i++)
        if (at_sign(p, signs[i].sign)) {
            *level = signs[i].level;
            return (jinja_op)signs[i].op;
        }
    *level = LEVEL_COMPARE;
    if (at_name(p, "in")) return JOP_IN;
    if (at_name(p, "not")) {
        jinja_parser ahead = *p;
        jinja_lex(&ahead.lex, &ahead.tok);
        if (at_name(&ahead, "in")) return JOP_NOT_IN;
    }
    *level = at_name(p, "and") ? LEVEL_AND : LEVEL_OR;
    return at_name(p, "and") ? JOP_AND : at_name(p, "or") ? JOP_OR : JOP_STOP;
}

/* Compares on: a < b < c is one expression, and the first false ends it. */
static void comparison(jinja_parser *p, jinja_op op)
{
    uint32_t chain = JINJA_NO_JUMP;
    int level;
    for (;; op = binary(p, &level)) {
        advance(p);
        if (op == JOP_NOT_IN) advance(p);
        expression(p, LEVEL_COMPARE + 1);
        if (p->st || binary(p, &level) == JOP_STOP || level != LEVEL_COMPARE) break;
        chain = emit(p, JOP_CHAIN, op, 0, chain);
    }
    emit(p, op, 0, 0, 0);
    land(p, chain);
}

static void operators(jinja_parser *p, int least)
{
    int level;
    if (least <= LEVEL_NOT && at_name(p, "not")) {
        advance(p);
        expression(p, LEVEL_NOT);
        emit(p, JOP_NOT, 0, 0, 0);
    } else unary(p, true);
    while (!p->st) {
        const jinja_op op = binary(p, &level);
        if (op == JOP_STOP || level < least) break;
        if (level == LEVEL_COMPARE) {
            comparison(p, op);
            continue;
        }
        const uint32_t at = p->tok.at;
        advance(p);
        if (op == JOP_AND || op == JOP_OR) {
            const uint32_t jump = emit(p, op, 0, 0, JINJA_NO_JUMP);
            expression(p, level + 1);
            land(p, jump);
        } else {
            expression(p, level + 1);
            const uint32_t i = emit(p, op, 0, 0, 0);
            if (!p->st) p->t->code[i].at = at;
        }
    }
}

/* "a if b else c" is written as it is read: a is a stretch of code that is jumped over, and back to. */
static void expression(jinja_parser *p, int level)
{
    if (!deeper(p)) return;
    if (level > LEVEL_IF) {
        operators(p, level);
        p->depth--;
        return;
    }
    const uint32_t start = emit(p, JOP_JUMP, 0, 0, here(p) + 1);
    operators(p, LEVEL_OR);
    if (!p->st && here(p) == start + 2 && !at_name(p, "if")) { /* a single operation needs no way around it */
        p->t->code[start] = p->t->code[start + 1];
        p->t->n_code--;
    }
    while (!p->st && at_name(p, "if")) {
        const uint32_t out = emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP), entry = p->t->code[start].arg;
        p->t->code[start].arg = here(p);
        advance(p);
        operators(p, LEVEL_OR);
        const uint32_t no = emit(p, JOP_JUMP_FALSE, 0, 0, JINJA_NO_JUMP);
        emit(p, JOP_JUMP, 0, 0, entry);
        land(p, no);
        if (skip_name(p, "else")) expression(p, LEVEL_IF);
        else emit_const(p, (jinja_value){ .type = QSF_JINJA_UNDEFINED });
        land(p, out);
    }
    p->depth--;
}

/* ---- statements ---- */

typedef enum tag_word {
    TAG_OTHER, TAG_IF, TAG_ELIF, TAG_ELSE, TAG_ENDIF, TAG_FOR, TAG_ENDFOR, TAG_SET, TAG_ENDSET, TAG_MACRO,
    TAG_ENDMACRO, TAG_CALL, TAG_ENDCALL, TAG_FILTER, TAG_ENDFILTER, TAG_WITH, TAG_ENDWITH, TAG_GENERATION,
    TAG_ENDGENERATION, TAG_BREAK, TAG_CONTINUE, N_TAG_WORDS
} tag_word;
static const char *const tag_words[N_TAG_WORDS] = {
    "",          "if",     "elif",    "else",       "endif",         "for",     "endfor",
    "set",       "endset", "macro",   "endmacro",   "call",          "endcall", "filter",
    "endfilter", "with",   "endwith", "generation", "endgeneration", "break",   "continue"
};

static tag_word word(const jinja_parser *p)
{
    for (int w = 1; w < N_TAG_WORDS; w++)
        if (at_name(p, tag_words[w])) return (tag_word)w;
    return TAG_OTHER;
}

static void statement(jinja_parser *p, tag_word w);

/* Texts, output and statements up to a tag with one of these words, which is passed; TAG_OTHER: up to the end of the template. */
static tag_word body(jinja_parser *p, tag_word a, tag_word b, tag_word c)
{
    tag_word found = TAG_OTHER;
    if (!deeper(p)) return found;
    while (!p->st && found == TAG_OTHER) {
        if (p->tok.kind == JINJA_DATA) {
            emit(p, JOP_TEXT, 0, 0, p->tok.at);
            if (!p->st) p->t->code[here(p) - 1].at = p->tok.n;
            advance(p);
        } else if (p->tok.kind == JINJA_VAR_BEGIN) {
            advance(p);
            tuple(p, LEVEL_IF, 0);
            emit(p, JOP_EMIT, 0, 0, 0);
            if (p->tok.kind != JINJA_VAR_END) parse_error(p, "\"}}\" is missing here");
            advance(p);
        } else if (p->tok.kind == JINJA_TAG_BEGIN) {
            advance(p);
            const tag_word w = word(p);
            if (w && (w == a || w == b || w == c)) found = w;
            if (found == TAG_OTHER) statement(p, w);
            else advance(p);
        } else {
            if (a)
                parse_fail(p, QSF_E_ARGUMENT, p->tok.at, "the template ends without ", tag_words[a],
                           strlen(tag_words[a]));
            break;
        }
    }
    p->depth--;
    return found;
}

static void scoped(jinja_parser *p, tag_word end)
{
    emit(p, JOP_SCOPE, 0, 0, 0);
    body(p, end, TAG_OTHER, TAG_OTHER);
    emit(p, JOP_UNSCOPE, 0, 0, 0);
}

static void if_statement(jinja_parser *p)
{
    uint32_t ends = JINJA_NO_JUMP;
    tag_word w = TAG_ELIF;
    while (w == TAG_ELIF && !p->st) {
        tuple(p, LEVEL_OR, 0);
        const uint32_t no = emit(p, JOP_JUMP_FALSE, 0, 0, JINJA_NO_JUMP);
        expect_tag_end(p);
        w = body(p, TAG_ENDIF, TAG_ELIF, TAG_ELSE);
        if (w != TAG_ENDIF) ends = emit(p, JOP_JUMP, 0, 0, ends);
        land(p, no);
    }
    if (w == TAG_ELSE) {
        expect_tag_end(p);
        body(p, TAG_ENDIF, TAG_OTHER, TAG_OTHER);
    }
    expect_tag_end(p);
    land(p, ends);
}

/* The names that take a value, as many as there are; the operations come later. */
static size_t targets(jinja_parser *p, uint16_t names[8], bool *unpack)
{
    const bool open = skip_sign(p, '(');
    size_t n = 0;
    for (*unpack = false; !p->st; *unpack = true) {
        if (n && (p->tok.kind != JINJA_NAME || at_name(p, "in"))) break;        /* after a last comma */
        if (n == 8) parse_unknown(p, "more than 8 names at once: ");
        if (at_sign(p, '(')) parse_unknown(p, "names in brackets of their own are not known here: ");
        if (p->st) return 0;
        names[n++] = expect_symbol(p);
        if (!skip_sign(p, ',')) break;
    }
    if (open) expect_sign(p, ')', "\")\" is missing here");
    return n;
}

static void store(jinja_parser *p, const uint16_t *names, size_t n, bool unpack)
{
    if (unpack) emit(p, JOP_UNPACK, n, 0, 0);
    for (size_t i = 0; i < n; i++) emit(p, JOP_STORE, 0, names[i], 0);
}

static void for_statement(jinja_parser *p)
{
    uint16_t names[8];
    bool unpack;
    const size_t n = targets(p, names, &unpack);
    if (!skip_name(p, "in")) parse_error(p, "\"in\" is missing here");
    tuple(p, LEVEL_OR, 0);
    if (skip_name(p, "if")) {           /* the items that stay are a list of their own */
        emit(p, JOP_FOR, 1, 0, 0);
        const uint32_t next = emit(p, JOP_NEXT, 0, 0, JINJA_NO_JUMP);
        store(p, names, n, unpack);
        expression(p, LEVEL_IF);
        emit(p, JOP_KEEP, 0, 0, 0);
        emit(p, JOP_JUMP, 0, 0, next);
        land(p, next);
        emit(p, JOP_KEPT, 0, 0, 0);
    }
    if (at_name(p, "recursive")) parse_unknown(p, "not known here: ");
    expect_tag_end(p);
    const bool in_loop = p->in_loop;
    const uint32_t breaks = p->breaks, outer = p->next;
    p->in_loop = true;
    p->breaks = JINJA_NO_JUMP;
    emit(p, JOP_FOR, 0, 0, 0);
    const uint32_t next = emit(p, JOP_NEXT, 0, 0, JINJA_NO_JUMP);
    store(p, names, n, unpack);
    p->next = next;
    const tag_word w = body(p, TAG_ENDFOR, TAG_ELSE, TAG_OTHER);
    emit(p, JOP_JUMP, 0, 0, next);
    land(p, next);
    const uint32_t end = emit(p, JOP_FOR_END, 0, 0, JINJA_NO_JUMP);
    p->next = outer;
    const uint32_t out = p->breaks;
    p->in_loop = in_loop;
    p->breaks = breaks;
    if (w == TAG_ELSE) {
        expect_tag_end(p);
        scoped(p, TAG_ENDFOR);
    }
    expect_tag_end(p);
    land(p, end);
    land(p, out);
}

static void set_statement(jinja_parser *p)
{
    uint16_t names[8], space = JINJA_NO_SYMBOL;
    bool unpack;
    size_t n = targets(p, names, &unpack);
    if (n == 1 && !unpack && skip_sign(p, '.')) {
        space = names[0];
        names[0] = expect_symbol(p);
    }
    if (skip_sign(p, '=')) {
        tuple(p, LEVEL_IF, 0);
    } else {                            /* the filters come first and are jumped to from behind the block */
        const uint32_t over = emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP), filters = here(p);
        while (skip_sign(p, '|')) filter(p);
        const bool filtered = here(p) > filters;
        const uint32_t done = filtered ? emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP) : JINJA_NO_JUMP;
        land(p, over);
        expect_tag_end(p);
        emit(p, JOP_CAPTURE, 0, 0, 0);
        scoped(p, TAG_ENDSET);
        emit(p, JOP_CAPTURED, 0, 0, 0);
        if (filtered) emit(p, JOP_JUMP, 0, 0, filters);
        land(p, done);
    }
    if (space == JINJA_NO_SYMBOL) store(p, names, n, unpack);
    else emit(p, JOP_STORE_SPACE, 0, space, names[0]);
    expect_tag_end(p);
}

static void filter_statement(jinja_parser *p)
{
    const uint32_t over = emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP), filters = here(p);
    do filter(p);
    while (skip_sign(p, '|'));
    const uint32_t done = emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP);
    land(p, over);
    expect_tag_end(p);
    emit(p, JOP_CAPTURE, 0, 0, 0);
    scoped(p, TAG_ENDFILTER);
    emit(p, JOP_CAPTURED, 0, 0, 0);
    emit(p, JOP_JUMP, 0, 0, filters);
    land(p, done);
    emit(p, JOP_EMIT, 0, 0, 0);
    expect_tag_end(p);
}

static void with_statement(jinja_parser *p)
{
    uint16_t names[8];
    size_t n = 0;
    while (p->tok.kind != JINJA_TAG_END && !p->st) {
        if (n == 8) parse_unknown(p, "more than 8 names at once: ");
        if (p->st) return;
        names[n++] = expect_symbol(p);
        expect_sign(p, '=', "\"=\" is missing here");
        expression(p, LEVEL_IF);
        if (!skip_sign(p, ',')) break;
    }
    expect_tag_end(p);
    emit(p, JOP_SCOPE, 0, 0, 0);
    while (n) store(p, &names[--n], 1, false);
    body(p, TAG_ENDWITH, TAG_OTHER, TAG_OTHER);
    emit(p, JOP_UNSCOPE, 0, 0, 0);
    expect_tag_end(p);
}

/* Parameters in brackets and a body, as code of its own that is jumped over. */
static uint32_t macro(jinja_parser *p, uint16_t name, tag_word end, uint32_t index)
{
    jinja_macro m = { .name = name };
    const bool in_loop = p->in_loop, in_macro = p->in_macro;
    const uint32_t over = emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP);
    m.entry = here(p);
    p->in_loop = false;
    p->in_macro = true;
    if (skip_sign(p, '(')) {
        while (!at_sign(p, ')') && !p->st) {
            if (m.n_params == QSF_ARRAY_LEN(m.params)) parse_unknown(p, "more than 16 parameters: ");
            if (p->st) return 0;
            const uint16_t s = expect_symbol(p);
            m.params[m.n_params++] = s;
            if (skip_sign(p, '=')) {
                const uint32_t given = emit(p, JOP_PARAM, 0, s, JINJA_NO_JUMP);
                expression(p, LEVEL_IF);
                store(p, &s, 1, false);
                land(p, given);
            }
            if (!skip_sign(p, ',') && !at_sign(p, ')')) parse_error(p, "\")\" is missing here");
        }
        expect_sign(p, ')', "\")\" is missing here");
    }
    expect_tag_end(p);
    body(p, end, TAG_OTHER, TAG_OTHER);
    emit(p, JOP_RETURN, 0, 0, 0);
    land(p, over);
    expect_tag_end(p);
    p->in_loop = in_loop;
    p->in_macro = in_macro;
    if (!p->st) p->t->macros[index] = m;
    return index;
}

static uint32_t new_macro(jinja_parser *p)
{
    void *macros = p->t->macros;
    if (!room_for_one(p, &macros, p->t->n_macros, &p->t->macro_cap, sizeof *p->t->macros)) return 0;
    p->t->macros = macros;
    p->t->macros[p->t->n_macros] = (jinja_macro){ .name = JINJA_NO_SYMBOL };
    return p->t->n_macros++;
}

static void macro_statement(jinja_parser *p)
{
    const uint16_t name = expect_symbol(p);
    const uint32_t index = new_macro(p);
    if (!at_sign(p, '(')) parse_error(p, "\"(\" is missing here");
    macro(p, name, TAG_ENDMACRO, index);
    emit(p, JOP_MACRO, 0, 0, index);
    store(p, &name, 1, false);
}

/* "call f(x)": the block is a macro that f gets as its argument "caller". */
static void call_statement(jinja_parser *p)
{
    if (at_sign(p, '(')) parse_unknown(p, "a call block with parameters is not known here: ");
    const uint32_t index = new_macro(p);
    unary(p, false);
    if (p->st) return;
    jinja_code *last = &p->t->code[here(p) - 1];
    if (last->op != JOP_CALL) {
        parse_error(p, "a call is missing here");
        return;
    }
    const jinja_code call_code = *last;
    p->t->n_code--;
    emit_const(p, qsf_jinja_text("caller"));
    emit(p, JOP_MACRO, 0, 0, index);
    emit(p, JOP_CALL, call_code.n, call_code.x + 1u, 0);
    emit(p, JOP_EMIT, 0, 0, 0);
    macro(p, symbol(p, "caller", 6), TAG_ENDCALL, index);
}

static void statement(jinja_parser *p, tag_word w)
{
    if (w != TAG_OTHER && w != TAG_BREAK && w != TAG_CONTINUE) advance(p);
    switch (w) {
    case TAG_IF: if_statement(p); break;
    case TAG_FOR: for_statement(p); break;
    case TAG_SET: set_statement(p); break;
    case TAG_MACRO: macro_statement(p); break;
    case TAG_CALL: call_statement(p); break;
    case TAG_FILTER: filter_statement(p); break;
    case TAG_WITH: with_statement(p); break;
    case TAG_GENERATION:
        expect_tag_end(p);
        scoped(p, TAG_ENDGENERATION);
        expect_tag_end(p);
        break;
    case TAG_BREAK: case TAG_CONTINUE:
        if (!p->in_loop) parse_error(p, "there is no loop around this");
        advance(p);
        if (w == TAG_BREAK) p->breaks = emit(p, JOP_BREAK, 0, 0, p->breaks);
        else emit(p, JOP_JUMP, 0, 0, p->next);
        expect_tag_end(p);
        break;
    default: parse_unknown(p, "no tag is known here by the name "); break;
    }
}

qsf_status qsf_jinja_parse(void *mem, size_t size, const char *text, size_t len, qsf_jinja **out,
                           qsf_error *err)
{
    jinja_mem m = { mem, 0, size };
    qsf_jinja *t = jinja_take(&m, sizeof *t);
    char *src = len < UINT32_MAX / 2 ? jinja_take(&m, len + 1) : NULL;
    uint32_t n = 0;
    *out = NULL;
    if (!t || !src)
        return qsf_fail(err, QSF_E_MEMORY, "the chat template takes more memory than there is for it");
    for (size_t i = 0; i < len; i++) {          /* every line ends with "\n", and the last one without */
        if (text[i] == '\r' && i + 1 < len && text[i + 1] == '\n') continue;
        src[n++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (n && src[n - 1] == '\n') n--;
    src[n] = 0;
    *t = (qsf_jinja){ .mem = m, .src = src, .len = n };
    memset(t->hashes, 0xff, sizeof t->hashes);
    jinja_parser p = { .t = t,
                       .lex = { .src = src, .len = n, .state = 'd', .line_start = true },
                       .err = err,
                       .breaks = JINJA_NO_JUMP };
    t->loop = symbol(&p, "loop", 4);
    advance(&p);
    body(&p, TAG_OTHER, TAG_OTHER, TAG_OTHER);
    emit(&p, JOP_STOP, 0, 0, 0);
    if (p.st) return p.st;
    t->mem.used = (t->mem.used + 15) & ~(size_t)15;
    t->mark = t->mem.used;
    *out = t;
    return QSF_OK;
}
