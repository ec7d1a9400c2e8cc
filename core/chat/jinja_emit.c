/* Jinja: helpers for parsing expressions and statements: expected tokens, and emitting the flat
 * program.
 * SPDX-License-Identifier: MIT */
#include "chat/jinja_parse.h"

void *qsf_jinja_take(jinja_mem *m, size_t bytes)
{
    const size_t at = (m->used + 15) & ~(size_t)15;
    if (at > m->size || bytes > m->size - at) return NULL;
    m->used = at + bytes;
    return m->base + at;
}

void qsf_jinja_place(const qsf_jinja *t, uint32_t at, uint32_t *line, uint32_t *column)
{
    *line = *column = 1;
    for (uint32_t i = 0; i < at && i < t->len; i++) {
        if (t->src[i] == '\n') ++*line, *column = 1;
        else if ((t->src[i] & 0xc0) != 0x80) ++*column;
    }
}

void qsf_jinja_parse_fail(jinja_parser *p, qsf_status st, uint32_t at, const char *what, const char *name,
                       size_t n)
{
    uint32_t line, column;
    if (p->st) return;
    qsf_jinja_place(p->t, at, &line, &column);
    p->st = qsf_fail(p->err, st, "chat template, line %u, column %u: %s%.*s", (unsigned)line,
                     (unsigned)column, what, (int)QSF_MIN(n, 60), name);
    p->lex.error = what;
    p->tok = (jinja_token){ .kind = JINJA_END, .at = at };
}
void qsf_jinja_parse_error(jinja_parser *p, const char *what)
{
    qsf_jinja_parse_fail(p, QSF_E_ARGUMENT, p->tok.at, what, "", 0);
}
void qsf_jinja_parse_unknown(jinja_parser *p, const char *what)
{
    qsf_jinja_parse_fail(p, QSF_E_UNSUPPORTED, p->tok.at, what, jinja_tok_text(p), p->tok.n);
}

void qsf_jinja_advance(jinja_parser *p)
{
    qsf_jinja_lex(&p->lex, &p->tok);
    if (p->lex.error) qsf_jinja_parse_error(p, p->lex.error);
}

bool qsf_jinja_room_for_one(jinja_parser *p, void **items, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap) return true;
    const uint32_t more = *cap ? 2 * *cap : 16;
    void *m = qsf_jinja_take(&p->t->mem, more * size);
    if (!m) {
        qsf_jinja_parse_fail(p, QSF_E_MEMORY, p->tok.at, "the template needs too much memory",
                             "", 0);
        return false;
    }
    if (n) memcpy(m, *items, n * size);
    *items = m;
    *cap = more;
    return true;
}

uint32_t qsf_jinja_emit(jinja_parser *p, jinja_op op, size_t n, size_t x, uint32_t arg)
{
    void *code = p->t->code;
    if (!qsf_jinja_room_for_one(p, &code, p->t->n_code, &p->t->code_cap, sizeof *p->t->code)) return 0;
    p->t->code = code;
    p->t->code[p->t->n_code] = (jinja_code){ (uint8_t)op, (uint8_t)n, (uint16_t)x, arg, p->tok.at };
    return p->t->n_code++;
}
void qsf_jinja_land(jinja_parser *p, uint32_t chain)
{
    while (!p->st && chain != JINJA_NO_JUMP) {
        jinja_code *c = &p->t->code[chain];
        chain = c->arg;
        c->arg = jinja_here(p);
    }
}

void qsf_jinja_emit_const(jinja_parser *p, jinja_value v)
{
    void *consts = p->t->consts;
    if (!qsf_jinja_room_for_one(p, &consts, p->t->n_consts, &p->t->const_cap, sizeof v)) return;
    p->t->consts = consts;
    p->t->consts[p->t->n_consts] = v;
    qsf_jinja_emit(p, JOP_CONST, 0, 0, p->t->n_consts++);
}

uint16_t qsf_jinja_symbol_id(jinja_parser *p, const char *text, size_t n)
{
    qsf_jinja *t = p->t;
    uint32_t h = (uint32_t)n;
    for (size_t i = 0; i < n; i++) h = h * 31 + (uint8_t)text[i];
    uint16_t *head = &t->hashes[h % JINJA_HASHES];
    for (uint16_t i = *head; i != JINJA_NO_SYMBOL; i = t->symbols[i].next)
        if (t->symbols[i].n == n && !memcmp(t->symbols[i].text, text, n)) return i;
    void *symbols = t->symbols;
    if (t->n_symbols == JINJA_NO_SYMBOL) {
        qsf_jinja_parse_fail(p, QSF_E_BUDGET, p->tok.at, "the template has too many names", "", 0);
        return 0;
    }
    if (!qsf_jinja_room_for_one(p, &symbols, t->n_symbols, &t->symbol_cap, sizeof *t->symbols)) return 0;
    t->symbols = symbols;
    t->symbols[t->n_symbols] = (jinja_symbol){ text, (uint32_t)n, *head,
                                               (uint8_t)qsf_jinja_method_id(text, n),
                                               (uint8_t)qsf_jinja_function_id(text, n) };
    return *head = (uint16_t)t->n_symbols++;
}

/* ---- tokens that are expected ---- */

bool qsf_jinja_at_sign(const jinja_parser *p, int sign)
{
    return p->tok.kind == JINJA_SIGN && p->tok.sign == sign;
}
bool qsf_jinja_at_name(const jinja_parser *p, const char *name)
{
    return p->tok.kind == JINJA_NAME && p->tok.n == strlen(name)
        && !memcmp(jinja_tok_text(p), name, p->tok.n);
}
bool qsf_jinja_skip_sign(jinja_parser *p, int sign)
{
    if (!qsf_jinja_at_sign(p, sign)) return false;
    qsf_jinja_advance(p);
    return true;
}
bool qsf_jinja_skip_name(jinja_parser *p, const char *name)
{
    if (!qsf_jinja_at_name(p, name)) return false;
    qsf_jinja_advance(p);
    return true;
}
void qsf_jinja_expect_sign(jinja_parser *p, int sign, const char *what)
{
    if (!qsf_jinja_skip_sign(p, sign)) qsf_jinja_parse_error(p, what);
}
void qsf_jinja_expect_tag_end(jinja_parser *p)
{
    if (p->tok.kind == JINJA_TAG_END) qsf_jinja_advance(p);
    else qsf_jinja_parse_error(p, "expected the end of the tag");
}
uint16_t qsf_jinja_expect_symbol(jinja_parser *p)
{
    static const char *const reserved[] = { "true", "false", "none", "True", "False", "None" };
    for (size_t i = 0; i < QSF_ARRAY_LEN(reserved); i++)
        if (qsf_jinja_at_name(p, reserved[i])) qsf_jinja_parse_error(p, "a name is missing here");
    if (p->tok.kind != JINJA_NAME) qsf_jinja_parse_error(p, "a name is missing here");
    const uint16_t s = qsf_jinja_symbol_id(p, jinja_tok_text(p), p->tok.n);
    qsf_jinja_advance(p);
    return s;
}
