/* Jinja: a template to a flat program.  Each statement is read once, and its operations are written
 * as it is read.
 * SPDX-License-Identifier: MIT */
#include "text/jinja_parse.h"

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
        if (jinja_at_name(p, tag_words[w])) return (tag_word)w;
    return TAG_OTHER;
}

static void statement(jinja_parser *p, tag_word w);

/* Texts, output and statements up to a tag with one of these words, which is passed; TAG_OTHER: up
 * to the end of the template. */
static tag_word body(jinja_parser *p, tag_word a, tag_word b, tag_word c)
{
    tag_word found = TAG_OTHER;
    if (!jinja_parse_deeper(p)) return found;
    while (!p->st && found == TAG_OTHER) {
        if (p->tok.kind == JINJA_DATA) {
            jinja_emit(p, JOP_TEXT, 0, 0, p->tok.at);
            if (!p->st) p->t->code[jinja_here(p) - 1].at = p->tok.n;
            jinja_advance(p);
        } else if (p->tok.kind == JINJA_VAR_BEGIN) {
            jinja_advance(p);
            jinja_tuple(p, JINJA_LEVEL_IF, 0);
            jinja_emit(p, JOP_EMIT, 0, 0, 0);
            if (p->tok.kind != JINJA_VAR_END) jinja_parse_error(p, "\"}}\" is missing here");
            jinja_advance(p);
        } else if (p->tok.kind == JINJA_TAG_BEGIN) {
            jinja_advance(p);
            const tag_word w = word(p);
            if (w && (w == a || w == b || w == c)) found = w;
            if (found == TAG_OTHER) statement(p, w);
            else jinja_advance(p);
        } else {
            if (a)
                jinja_parse_fail(p, QSF_E_ARGUMENT, p->tok.at, "the template ends without ", tag_words[a],
                           strlen(tag_words[a]));
            break;
        }
    }
    p->depth--;
    return found;
}

static void scoped(jinja_parser *p, tag_word end)
{
    jinja_emit(p, JOP_SCOPE, 0, 0, 0);
    body(p, end, TAG_OTHER, TAG_OTHER);
    jinja_emit(p, JOP_UNSCOPE, 0, 0, 0);
}

static void if_statement(jinja_parser *p)
{
    uint32_t ends = JINJA_NO_JUMP;
    tag_word w = TAG_ELIF;
    while (w == TAG_ELIF && !p->st) {
        jinja_tuple(p, JINJA_LEVEL_OR, 0);
        const uint32_t no = jinja_emit(p, JOP_JUMP_FALSE, 0, 0, JINJA_NO_JUMP);
        jinja_expect_tag_end(p);
        w = body(p, TAG_ENDIF, TAG_ELIF, TAG_ELSE);
        if (w != TAG_ENDIF) ends = jinja_emit(p, JOP_JUMP, 0, 0, ends);
        jinja_land(p, no);
    }
    if (w == TAG_ELSE) {
        jinja_expect_tag_end(p);
        body(p, TAG_ENDIF, TAG_OTHER, TAG_OTHER);
    }
    jinja_expect_tag_end(p);
    jinja_land(p, ends);
}

/* The names that take a value, as many as there are; the operations come later. */
static size_t targets(jinja_parser *p, uint16_t names[8], bool *unpack)
{
    const bool open = jinja_skip_sign(p, '(');
    size_t n = 0;
    for (*unpack = false; !p->st; *unpack = true) {
        if (n && (p->tok.kind != JINJA_NAME || jinja_at_name(p, "in"))) break;        /* after a last comma */
        if (n == 8) jinja_parse_unknown(p, "more than 8 names at once: ");
        if (jinja_at_sign(p, '('))
            jinja_parse_unknown(p, "names in brackets of their own are not known here: ");
        if (p->st) return 0;
        names[n++] = jinja_expect_symbol(p);
        if (!jinja_skip_sign(p, ',')) break;
    }
    if (open) jinja_expect_sign(p, ')', "\")\" is missing here");
    return n;
}

static void store(jinja_parser *p, const uint16_t *names, size_t n, bool unpack)
{
    if (unpack) jinja_emit(p, JOP_UNPACK, n, 0, 0);
    for (size_t i = 0; i < n; i++) jinja_emit(p, JOP_STORE, 0, names[i], 0);
}

static void for_statement(jinja_parser *p)
{
    uint16_t names[8];
    bool unpack;
    const size_t n = targets(p, names, &unpack);
    if (!jinja_skip_name(p, "in")) jinja_parse_error(p, "\"in\" is missing here");
    jinja_tuple(p, JINJA_LEVEL_OR, 0);
    if (jinja_skip_name(p, "if")) {           /* the items that stay are a list of their own */
        jinja_emit(p, JOP_FOR, 1, 0, 0);
        const uint32_t next = jinja_emit(p, JOP_NEXT, 0, 0, JINJA_NO_JUMP);
        store(p, names, n, unpack);
        jinja_expression(p, JINJA_LEVEL_IF);
        jinja_emit(p, JOP_KEEP, 0, 0, 0);
        jinja_emit(p, JOP_JUMP, 0, 0, next);
        jinja_land(p, next);
        jinja_emit(p, JOP_KEPT, 0, 0, 0);
    }
    if (jinja_at_name(p, "recursive")) jinja_parse_unknown(p, "not known here: ");
    jinja_expect_tag_end(p);
    const bool in_loop = p->in_loop;
    const uint32_t breaks = p->breaks, outer = p->next;
    p->in_loop = true;
    p->breaks = JINJA_NO_JUMP;
    jinja_emit(p, JOP_FOR, 0, 0, 0);
    const uint32_t next = jinja_emit(p, JOP_NEXT, 0, 0, JINJA_NO_JUMP);
    store(p, names, n, unpack);
    p->next = next;
    const tag_word w = body(p, TAG_ENDFOR, TAG_ELSE, TAG_OTHER);
    jinja_emit(p, JOP_JUMP, 0, 0, next);
    jinja_land(p, next);
    const uint32_t end = jinja_emit(p, JOP_FOR_END, 0, 0, JINJA_NO_JUMP);
    p->next = outer;
    const uint32_t out = p->breaks;
    p->in_loop = in_loop;
    p->breaks = breaks;
    if (w == TAG_ELSE) {
        jinja_expect_tag_end(p);
        scoped(p, TAG_ENDFOR);
    }
    jinja_expect_tag_end(p);
    jinja_land(p, end);
    jinja_land(p, out);
}

static void set_statement(jinja_parser *p)
{
    uint16_t names[8], space = JINJA_NO_SYMBOL;
    bool unpack;
    size_t n = targets(p, names, &unpack);
    if (n == 1 && !unpack && jinja_skip_sign(p, '.')) {
        space = names[0];
        names[0] = jinja_expect_symbol(p);
    }
    if (jinja_skip_sign(p, '=')) {
        jinja_tuple(p, JINJA_LEVEL_IF, 0);
    } else {                            /* the filters come first and are jumped to from behind the block */
        const uint32_t over = jinja_emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP), filters = jinja_here(p);
        while (jinja_skip_sign(p, '|')) jinja_filter_call(p);
        const bool filtered = jinja_here(p) > filters;
        const uint32_t done = filtered ? jinja_emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP) : JINJA_NO_JUMP;
        jinja_land(p, over);
        jinja_expect_tag_end(p);
        jinja_emit(p, JOP_CAPTURE, 0, 0, 0);
        scoped(p, TAG_ENDSET);
        jinja_emit(p, JOP_CAPTURED, 0, 0, 0);
        if (filtered) jinja_emit(p, JOP_JUMP, 0, 0, filters);
        jinja_land(p, done);
    }
    if (space == JINJA_NO_SYMBOL) store(p, names, n, unpack);
    else jinja_emit(p, JOP_STORE_SPACE, 0, space, names[0]);
    jinja_expect_tag_end(p);
}

static void filter_statement(jinja_parser *p)
{
    const uint32_t over = jinja_emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP), filters = jinja_here(p);
    do jinja_filter_call(p);
    while (jinja_skip_sign(p, '|'));
    const uint32_t done = jinja_emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP);
    jinja_land(p, over);
    jinja_expect_tag_end(p);
    jinja_emit(p, JOP_CAPTURE, 0, 0, 0);
    scoped(p, TAG_ENDFILTER);
    jinja_emit(p, JOP_CAPTURED, 0, 0, 0);
    jinja_emit(p, JOP_JUMP, 0, 0, filters);
    jinja_land(p, done);
    jinja_emit(p, JOP_EMIT, 0, 0, 0);
    jinja_expect_tag_end(p);
}

static void with_statement(jinja_parser *p)
{
    uint16_t names[8];
    size_t n = 0;
    while (p->tok.kind != JINJA_TAG_END && !p->st) {
        if (n == 8) jinja_parse_unknown(p, "more than 8 names at once: ");
        if (p->st) return;
        names[n++] = jinja_expect_symbol(p);
        jinja_expect_sign(p, '=', "\"=\" is missing here");
        jinja_expression(p, JINJA_LEVEL_IF);
        if (!jinja_skip_sign(p, ',')) break;
    }
    jinja_expect_tag_end(p);
    jinja_emit(p, JOP_SCOPE, 0, 0, 0);
    while (n) store(p, &names[--n], 1, false);
    body(p, TAG_ENDWITH, TAG_OTHER, TAG_OTHER);
    jinja_emit(p, JOP_UNSCOPE, 0, 0, 0);
    jinja_expect_tag_end(p);
}

/* Parameters in brackets and a body, as code of its own that is jumped over. */
static uint32_t macro(jinja_parser *p, uint16_t name, tag_word end, uint32_t index)
{
    jinja_macro m = { .name = name };
    const bool in_loop = p->in_loop, in_macro = p->in_macro;
    const uint32_t over = jinja_emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP);
    m.entry = jinja_here(p);
    p->in_loop = false;
    p->in_macro = true;
    if (jinja_skip_sign(p, '(')) {
        while (!jinja_at_sign(p, ')') && !p->st) {
            if (m.n_params == QSF_ARRAY_LEN(m.params)) jinja_parse_unknown(p, "more than 16 parameters: ");
            if (p->st) return 0;
            const uint16_t s = jinja_expect_symbol(p);
            m.params[m.n_params++] = s;
            if (jinja_skip_sign(p, '=')) {
                const uint32_t given = jinja_emit(p, JOP_PARAM, 0, s, JINJA_NO_JUMP);
                jinja_expression(p, JINJA_LEVEL_IF);
                store(p, &s, 1, false);
                jinja_land(p, given);
            }
            if (!jinja_skip_sign(p, ',') && !jinja_at_sign(p, ')'))
                jinja_parse_error(p, "\")\" is missing here");
        }
        jinja_expect_sign(p, ')', "\")\" is missing here");
    }
    jinja_expect_tag_end(p);
    body(p, end, TAG_OTHER, TAG_OTHER);
    jinja_emit(p, JOP_RETURN, 0, 0, 0);
    jinja_land(p, over);
    jinja_expect_tag_end(p);
    p->in_loop = in_loop;
    p->in_macro = in_macro;
    if (!p->st) p->t->macros[index] = m;
    return index;
}

static uint32_t new_macro(jinja_parser *p)
{
    void *macros = p->t->macros;
    if (!jinja_room_for_one(p, &macros, p->t->n_macros, &p->t->macro_cap, sizeof *p->t->macros)) return 0;
    p->t->macros = macros;
    p->t->macros[p->t->n_macros] = (jinja_macro){ .name = JINJA_NO_SYMBOL };
    return p->t->n_macros++;
}

static void macro_statement(jinja_parser *p)
{
    const uint16_t name = jinja_expect_symbol(p);
    const uint32_t index = new_macro(p);
    if (!jinja_at_sign(p, '(')) jinja_parse_error(p, "\"(\" is missing here");
    macro(p, name, TAG_ENDMACRO, index);
    jinja_emit(p, JOP_MACRO, 0, 0, index);
    store(p, &name, 1, false);
}

/* "call f(x)": the block is a macro that f gets as its argument "caller". */
static void call_statement(jinja_parser *p)
{
    if (jinja_at_sign(p, '(')) jinja_parse_unknown(p, "a call block with parameters is not known here: ");
    const uint32_t index = new_macro(p);
    jinja_unary(p, false);
    if (p->st) return;
    jinja_code *last = &p->t->code[jinja_here(p) - 1];
    if (last->op != JOP_CALL) {
        jinja_parse_error(p, "a call is missing here");
        return;
    }
    const jinja_code call_code = *last;
    p->t->n_code--;
    jinja_emit_const(p, qsf_jinja_text("caller"));
    jinja_emit(p, JOP_MACRO, 0, 0, index);
    jinja_emit(p, JOP_CALL, call_code.n, call_code.x + 1u, 0);
    jinja_emit(p, JOP_EMIT, 0, 0, 0);
    macro(p, jinja_symbol_id(p, "caller", 6), TAG_ENDCALL, index);
}

static void statement(jinja_parser *p, tag_word w)
{
    if (w != TAG_OTHER && w != TAG_BREAK && w != TAG_CONTINUE) jinja_advance(p);
    switch (w) {
    case TAG_IF: if_statement(p); break;
    case TAG_FOR: for_statement(p); break;
    case TAG_SET: set_statement(p); break;
    case TAG_MACRO: macro_statement(p); break;
    case TAG_CALL: call_statement(p); break;
    case TAG_FILTER: filter_statement(p); break;
    case TAG_WITH: with_statement(p); break;
    case TAG_GENERATION:
        jinja_expect_tag_end(p);
        scoped(p, TAG_ENDGENERATION);
        jinja_expect_tag_end(p);
        break;
    case TAG_BREAK: case TAG_CONTINUE:
        if (!p->in_loop) jinja_parse_error(p, "there is no loop around this");
        jinja_advance(p);
        if (w == TAG_BREAK) p->breaks = jinja_emit(p, JOP_BREAK, 0, 0, p->breaks);
        else jinja_emit(p, JOP_JUMP, 0, 0, p->next);
        jinja_expect_tag_end(p);
        break;
    default: jinja_parse_unknown(p, "no tag is known here by the name "); break;
    }
}

qsf_status qsf_jinja_parse(void *mem, size_t size, const char *text, size_t len, qsf_jinja **out,
                           qsf_error *err)
{
    jinja_mem m = { mem, 0, size / 9 * 8 & ~(size_t)15 };
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
    jinja_mark(jinja_marks(&m), (size_t)(src - m.base), n, true);
    *t = (qsf_jinja){ .mem = m, .src = src, .len = n };
    memset(t->hashes, 0xff, sizeof t->hashes);
    jinja_parser p = { .t = t,
                       .lex = { .src = src, .len = n, .state = 'd', .line_start = true },
                       .err = err,
                       .breaks = JINJA_NO_JUMP };
    t->loop = jinja_symbol_id(&p, "loop", 4);
    jinja_advance(&p);
    body(&p, TAG_OTHER, TAG_OTHER, TAG_OTHER);
    jinja_emit(&p, JOP_STOP, 0, 0, 0);
    if (p.st) return p.st;
    t->mem.used = (t->mem.used + 15) & ~(size_t)15;
    t->mark = t->mem.used;
    *out = t;
    return QSF_OK;
}
