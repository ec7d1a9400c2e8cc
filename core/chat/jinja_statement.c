/* Jinja: compiles a template to a flat program, in a single pass over the statements.
 * SPDX-License-Identifier: MIT */
#include "chat/jinja_parse.h"

typedef enum tag_word {
    TAG_OTHER, TAG_IF, TAG_ELIF, TAG_ELSE, TAG_ENDIF, TAG_FOR, TAG_ENDFOR, TAG_SET, TAG_ENDSET, TAG_MACRO,
    TAG_ENDMACRO, TAG_CALL, TAG_ENDCALL, TAG_FILTER, TAG_ENDFILTER, TAG_WITH, TAG_ENDWITH, TAG_GENERATION,
    TAG_ENDGENERATION, TAG_BLOCK, TAG_ENDBLOCK, TAG_PRINT, TAG_BREAK, TAG_CONTINUE, N_TAG_WORDS
} tag_word;
static const char *const tag_words[N_TAG_WORDS] = {
    "",          "if",     "elif",    "else",       "endif",         "for",     "endfor",
    "set",       "endset", "macro",   "endmacro",   "call",          "endcall", "filter",
    "endfilter", "with",   "endwith", "generation", "endgeneration", "block",   "endblock",
    "print",     "break",  "continue"
};

static tag_word word(const jinja_parser *p)
{
    for (int w = 1; w < N_TAG_WORDS; w++)
        if (qsf_jinja_at_name(p, tag_words[w])) return (tag_word)w;
    return TAG_OTHER;
}

static void statement(jinja_parser *p, tag_word w);

/* The end of a tag that opens a block. */
static void block_begins(jinja_parser *p)
{
    (void)qsf_jinja_skip_sign(p, ':');
    qsf_jinja_expect_tag_end(p);
}

/* Texts, output and statements up to a tag with one of these words, which is passed; TAG_OTHER: up
 * to the end of the template. */
static tag_word body(jinja_parser *p, tag_word a, tag_word b, tag_word c)
{
    tag_word found = TAG_OTHER;
    if (!qsf_jinja_parse_deeper(p)) return found;
    while (!p->st && found == TAG_OTHER) {
        if (p->tok.kind == JINJA_DATA) {
            qsf_jinja_emit(p, JOP_TEXT, 0, 0, p->tok.at);
            if (!p->st) p->t->code[jinja_here(p) - 1].at = p->tok.n;
            qsf_jinja_advance(p);
        } else if (p->tok.kind == JINJA_VAR_BEGIN) {
            qsf_jinja_advance(p);
            qsf_jinja_tuple(p, JINJA_LEVEL_IF, 0);
            qsf_jinja_emit(p, JOP_EMIT, 0, 0, 0);
            if (p->tok.kind != JINJA_VAR_END) qsf_jinja_parse_error(p, "\"}}\" is missing here");
            qsf_jinja_advance(p);
        } else if (p->tok.kind == JINJA_TAG_BEGIN) {
            qsf_jinja_advance(p);
            const tag_word w = word(p);
            if (w && (w == a || w == b || w == c)) found = w;
            if (found == TAG_OTHER) statement(p, w);
            else qsf_jinja_advance(p);
        } else {
            if (a)
                qsf_jinja_parse_fail(p, QSF_E_ARGUMENT, p->tok.at, "the template ends without ", tag_words[a],
                           strlen(tag_words[a]));
            break;
        }
    }
    p->depth--;
    return found;
}

static void scoped(jinja_parser *p, tag_word end)
{
    qsf_jinja_emit(p, JOP_SCOPE, 0, 0, 0);
    body(p, end, TAG_OTHER, TAG_OTHER);
    qsf_jinja_emit(p, JOP_UNSCOPE, 0, 0, 0);
}

/* A body in code of its own, as Jinja sees it: no loop to leave, and names of filters are
 * checked. */
typedef struct around { bool in_loop; uint8_t soft; } around;
static around leave(jinja_parser *p, bool in_loop)
{
    const around before = { p->in_loop, p->soft };
    p->in_loop = in_loop;
    p->soft = 0;
    return before;
}
static void enter(jinja_parser *p, around before)
{
    p->in_loop = before.in_loop;
    p->soft = before.soft;
}

static void if_statement(jinja_parser *p)
{
    uint32_t ends = JINJA_NO_JUMP;
    const uint8_t soft = p->soft;
    tag_word w = TAG_ELIF;
    p->soft = 1;
    while (w == TAG_ELIF && !p->st) {
        qsf_jinja_tuple(p, JINJA_LEVEL_OR, 0);
        const uint32_t no = qsf_jinja_emit(p, JOP_JUMP_FALSE, 0, 0, JINJA_NO_JUMP);
        block_begins(p);
        w = body(p, TAG_ENDIF, TAG_ELIF, TAG_ELSE);
        if (w != TAG_ENDIF) ends = qsf_jinja_emit(p, JOP_JUMP, 0, 0, ends);
        qsf_jinja_land(p, no);
    }
    if (w == TAG_ELSE) {
        block_begins(p);
        body(p, TAG_ENDIF, TAG_OTHER, TAG_OTHER);
    }
    p->soft = soft;
    qsf_jinja_expect_tag_end(p);
    qsf_jinja_land(p, ends);
}

/* ---- names that take values ---- */

/* Names come before their values, so the operations that store them wait here. */
enum { MOST_STORES = 32 };
typedef struct stores { jinja_code op[MOST_STORES]; uint32_t n; } stores;

static jinja_code *store_op(jinja_parser *p, stores *s, jinja_op op, uint16_t x, uint32_t arg)
{
    if (s->n == MOST_STORES) qsf_jinja_parse_unknown(p, "this many names at once are not supported: ");
    else s->op[s->n++] = (jinja_code){ .op = (uint8_t)op, .x = x, .arg = arg };
    return &s->op[s->n - 1];
}

static void targets(jinja_parser *p, stores *s, bool spaces, char end);

/* A name, an attribute of a namespace, or names in brackets. */
static void target(jinja_parser *p, stores *s, bool spaces)
{
    if (qsf_jinja_skip_sign(p, '(')) {
        if (qsf_jinja_parse_deeper(p)) targets(p, s, spaces, ')');
        p->depth--;
        qsf_jinja_expect_sign(p, ')', "\")\" is missing here");
        return;
    }
    const uint16_t name = qsf_jinja_expect_symbol(p);
    if (p->fors && name == p->t->loop) qsf_jinja_parse_error(p, "\"loop\" belongs to the loop");
    if (spaces && qsf_jinja_skip_sign(p, '.'))
        store_op(p, s, JOP_STORE_SPACE, name, qsf_jinja_expect_symbol(p));
    else store_op(p, s, JOP_STORE, name, 0);
}

static void targets(jinja_parser *p, stores *s, bool spaces, char end)
{
    const uint32_t at = s->n;
    uint32_t n = 1;
    bool comma = false;
    target(p, s, spaces);
    while (!p->st && qsf_jinja_skip_sign(p, ',')) {
        comma = true;
        if (end ? qsf_jinja_at_sign(p, end) : qsf_jinja_at_name(p, "in") || qsf_jinja_at_sign(p, '=')) break;
        target(p, s, spaces);
        n++;
    }
    if (!comma || p->st) return;
    (void)store_op(p, s, JOP_UNPACK, 0, 0);
    if (p->st) return;
    memmove(&s->op[at + 1], &s->op[at], (s->n - 1 - at) * sizeof s->op[0]);
    s->op[at] = (jinja_code){ .op = JOP_UNPACK, .n = (uint8_t)n };
}

static void store(jinja_parser *p, const stores *s)
{
    for (uint32_t i = 0; i < s->n; i++) qsf_jinja_emit(p, (jinja_op)s->op[i].op, s->op[i].n, s->op[i].x,
                                                       s->op[i].arg);
}
static void store_name(jinja_parser *p, uint16_t name) { qsf_jinja_emit(p, JOP_STORE, 0, name, 0); }

/* ---- loops ---- */

static void for_statement(jinja_parser *p)
{
    stores names = { .n = 0 };
    p->fors++;
    targets(p, &names, false, 0);
    if (!qsf_jinja_skip_name(p, "in")) qsf_jinja_parse_error(p, "\"in\" is missing here");
    qsf_jinja_tuple(p, JINJA_LEVEL_OR, 0);
    const uint32_t entry = jinja_here(p);
    if (qsf_jinja_skip_name(p, "if")) {       /* the items that stay are a list of their own */
        qsf_jinja_emit(p, JOP_FOR, 1, 0, 0);
        const uint32_t next = qsf_jinja_emit(p, JOP_NEXT, 0, 0, JINJA_NO_JUMP);
        store(p, &names);
        qsf_jinja_expression(p, JINJA_LEVEL_IF);
        qsf_jinja_emit(p, JOP_KEEP, 0, 0, 0);
        qsf_jinja_emit(p, JOP_JUMP, 0, 0, next);
        qsf_jinja_land(p, next);
        qsf_jinja_emit(p, JOP_KEPT, 0, 0, 0);
    }
    const bool recursive = qsf_jinja_skip_name(p, "recursive");
    block_begins(p);
    const around before = leave(p, true);
    const uint32_t breaks = p->breaks, outer = p->next;
    p->breaks = JINJA_NO_JUMP;
    qsf_jinja_emit(p, JOP_FOR, 0, 0, recursive ? entry : 0);
    const uint32_t next = qsf_jinja_emit(p, JOP_NEXT, 0, 0, JINJA_NO_JUMP);
    store(p, &names);
    p->next = next;
    const tag_word w = body(p, TAG_ENDFOR, TAG_ELSE, TAG_OTHER);
    qsf_jinja_emit(p, JOP_JUMP, 0, 0, next);
    qsf_jinja_land(p, next);
    const uint32_t end = qsf_jinja_emit(p, JOP_FOR_END, 0, 0, JINJA_NO_JUMP);
    const uint32_t out = p->breaks;
    p->next = outer;
    p->breaks = breaks;
    enter(p, before);
    if (w == TAG_ELSE) {
        block_begins(p);
        scoped(p, TAG_ENDFOR);
    }
    qsf_jinja_expect_tag_end(p);
    qsf_jinja_land(p, end);
    qsf_jinja_land(p, out);
    if (recursive) qsf_jinja_emit(p, JOP_LOOP_END, 0, 0, 0);
    p->fors--;
}

/* ---- blocks that become values ---- */

/* The code of the filters comes first; after the block, which ends with `end`, a jump leads back to
 * it.  The filtered text stays on the stack. */
static void filtered_block(jinja_parser *p, tag_word end, bool inline_filter)
{
    const uint32_t over = qsf_jinja_emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP), filters = jinja_here(p);
    if (inline_filter) qsf_jinja_filter_call(p);
    while (qsf_jinja_skip_sign(p, '|')) qsf_jinja_filter_call(p);
    qsf_jinja_check_unknown(p);
    const bool filtered = jinja_here(p) > filters;
    const uint32_t done = filtered ? qsf_jinja_emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP) : JINJA_NO_JUMP;
    qsf_jinja_land(p, over);
    block_begins(p);
    const uint8_t soft = p->soft;
    p->soft = 0;
    qsf_jinja_emit(p, JOP_CAPTURE, 0, 0, 0);
    scoped(p, end);
    qsf_jinja_emit(p, JOP_CAPTURED, 0, 0, 0);
    p->soft = soft;
    if (filtered) qsf_jinja_emit(p, JOP_JUMP, 0, 0, filters);
    qsf_jinja_land(p, done);
}

static void set_statement(jinja_parser *p)
{
    stores names = { .n = 0 };
    targets(p, &names, true, 0);
    if (qsf_jinja_skip_sign(p, '=')) qsf_jinja_tuple(p, JINJA_LEVEL_IF, 0);
    else filtered_block(p, TAG_ENDSET, false);
    store(p, &names);
    qsf_jinja_expect_tag_end(p);
}

static void filter_statement(jinja_parser *p)
{
    filtered_block(p, TAG_ENDFILTER, true);
    qsf_jinja_emit(p, JOP_EMIT, 1, 0, 0);
    qsf_jinja_expect_tag_end(p);
}

static void with_statement(jinja_parser *p)
{
    stores names[8];
    size_t n = 0;
    for (bool comma = true; p->tok.kind != JINJA_TAG_END && !qsf_jinja_at_sign(p, ':') && !p->st; n++) {
        if (!comma) qsf_jinja_parse_error(p, "\",\" is missing here");
        if (n == QSF_ARRAY_LEN(names)) qsf_jinja_parse_unknown(p, "more than 8 names at once: ");
        if (p->st) return;
        names[n].n = 0;
        targets(p, &names[n], false, 0);
        qsf_jinja_expect_sign(p, '=', "\"=\" is missing here");
        qsf_jinja_expression(p, JINJA_LEVEL_IF);
        comma = qsf_jinja_skip_sign(p, ',');
    }
    block_begins(p);
    qsf_jinja_emit(p, JOP_SCOPE, 0, 0, 0);
    while (n) store(p, &names[--n]);
    body(p, TAG_ENDWITH, TAG_OTHER, TAG_OTHER);
    qsf_jinja_emit(p, JOP_UNSCOPE, 0, 0, 0);
    qsf_jinja_expect_tag_end(p);
}

/* A block of a template that is never extended: it is rendered in place, and sees only the
 * template's names unless it is scoped. */
static void block_statement(jinja_parser *p)
{
    const jinja_token name = p->tok;
    if (name.kind != JINJA_NAME) qsf_jinja_parse_error(p, "a name is missing here");
    qsf_jinja_advance(p);
    const bool scoped_too = qsf_jinja_skip_name(p, "scoped");
    if (qsf_jinja_at_name(p, "required")) qsf_jinja_parse_unknown(p, "no template is extended here: ");
    block_begins(p);
    const around before = leave(p, false);
    qsf_jinja_emit(p, JOP_SCOPE, !scoped_too, 0, 0);
    body(p, TAG_ENDBLOCK, TAG_OTHER, TAG_OTHER);
    qsf_jinja_emit(p, JOP_UNSCOPE, 0, 0, 0);
    enter(p, before);
    if (p->tok.kind == JINJA_NAME && p->tok.n == name.n
        && !memcmp(jinja_tok_text(p), p->t->src + name.at, name.n))
        qsf_jinja_advance(p);
    qsf_jinja_expect_tag_end(p);
}

static void print_statement(jinja_parser *p)
{
    for (bool comma = true; p->tok.kind != JINJA_TAG_END && !p->st; ) {
        if (!comma) qsf_jinja_parse_error(p, "\",\" is missing here");
        qsf_jinja_expression(p, JINJA_LEVEL_IF);
        qsf_jinja_emit(p, JOP_EMIT, 0, 0, 0);
        comma = qsf_jinja_skip_sign(p, ',');
    }
    qsf_jinja_expect_tag_end(p);
}

/* ---- macros ---- */

/* Parameters in brackets, and the operations that set the defaults of missing arguments; returns
 * the number of parameters without a default. */
static uint32_t signature(jinja_parser *p, jinja_macro *m)
{
    uint32_t plain = 0;
    qsf_jinja_advance(p);
    for (bool comma = true; !qsf_jinja_at_sign(p, ')') && !p->st; ) {
        if (!comma) qsf_jinja_parse_error(p, "\")\" is missing here");
        if (m->n_params == QSF_ARRAY_LEN(m->params)) qsf_jinja_parse_unknown(p, "more than 16 parameters: ");
        if (p->st) return 0;
        const uint16_t s = qsf_jinja_expect_symbol(p);
        m->params[m->n_params++] = s;
        if (qsf_jinja_skip_sign(p, '=')) {
            const uint32_t given = qsf_jinja_emit(p, JOP_PARAM, 0, s, JINJA_NO_JUMP);
            qsf_jinja_expression(p, JINJA_LEVEL_IF);
            store_name(p, s);
            qsf_jinja_land(p, given);
        } else if (++plain < m->n_params)
            qsf_jinja_parse_error(p, "a parameter without a default follows one with it");
        comma = qsf_jinja_skip_sign(p, ',');
    }
    qsf_jinja_expect_sign(p, ')', "\")\" is missing here");
    return plain;
}

/* The body, up to `end`; what it uses of caller, kwargs and varargs it takes. */
static void macro_body(jinja_parser *p, jinja_macro *m, uint32_t plain, tag_word end, uint32_t index)
{
    const around before = leave(p, false);
    const uint8_t takes = p->takes;
    p->takes = 0;
    block_begins(p);
    body(p, end, TAG_OTHER, TAG_OTHER);
    qsf_jinja_emit(p, JOP_RETURN, 0, 0, 0);
    enter(p, before);
    m->takes = p->takes;
    for (uint32_t i = 0; i < m->n_params; i++)
        for (int k = 0; k < 3; k++)
            if (m->params[i] == p->t->special[k]) {
                if (!k && m->takes & JINJA_CALLER && i < plain)
                    qsf_jinja_parse_error(p, "the parameter \"caller\" needs a default");
                m->takes &= (uint8_t)~(1 << k);
            }
    p->takes |= takes;
    if (!p->st) p->t->macros[index] = *m;
}

static uint32_t new_macro(jinja_parser *p)
{
    void *macros = p->t->macros;
    if (!qsf_jinja_room_for_one(p, &macros, p->t->n_macros, &p->t->macro_cap, sizeof *p->t->macros)) return 0;
    p->t->macros = macros;
    p->t->macros[p->t->n_macros] = (jinja_macro){ .name = JINJA_NO_SYMBOL };
    return p->t->n_macros++;
}

static void macro_statement(jinja_parser *p)
{
    jinja_macro m = { .name = qsf_jinja_expect_symbol(p) };
    const uint32_t index = new_macro(p), over = qsf_jinja_emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP);
    if (!qsf_jinja_at_sign(p, '(')) qsf_jinja_parse_error(p, "\"(\" is missing here");
    m.entry = jinja_here(p);
    macro_body(p, &m, signature(p, &m), TAG_ENDMACRO, index);
    qsf_jinja_land(p, over);
    qsf_jinja_emit(p, JOP_MACRO, 0, 0, index);
    store_name(p, m.name);
    qsf_jinja_expect_tag_end(p);
}

/* "call(a) f(x)": the block is a macro that f gets as its argument "caller". */
static void call_statement(jinja_parser *p)
{
    jinja_macro m = { .name = JINJA_NO_SYMBOL };
    const uint32_t index = new_macro(p), over = qsf_jinja_emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP);
    m.entry = jinja_here(p);
    const uint32_t plain = qsf_jinja_at_sign(p, '(') ? signature(p, &m) : 0;
    const uint32_t inside = qsf_jinja_emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP);
    qsf_jinja_land(p, over);
    qsf_jinja_unary(p, false);
    if (p->st) return;
    jinja_code *last = &p->t->code[jinja_here(p) - 1];
    if (last->op != JOP_CALL) {
        qsf_jinja_parse_error(p, "a call is missing here");
        return;
    }
    const jinja_code call_code = *last;
    p->t->n_code--;
    qsf_jinja_emit(p, JOP_MACRO, 0, 0, index);
    qsf_jinja_emit(p, JOP_CALL, call_code.n, call_code.x | JINJA_BLOCK, 0);
    qsf_jinja_emit(p, JOP_EMIT, 0, 0, 0);
    const uint32_t end = qsf_jinja_emit(p, JOP_JUMP, 0, 0, JINJA_NO_JUMP);
    qsf_jinja_land(p, inside);
    macro_body(p, &m, plain, TAG_ENDCALL, index);
    qsf_jinja_land(p, end);
    qsf_jinja_expect_tag_end(p);
}

/* jinja2 has the tags that need other templates, and autoescape; any other tag is an error. */
static void unknown_statement(jinja_parser *p)
{
    static const char *const known[] = { "extends", "include", "import", "from", "autoescape" };
    qsf_status st = QSF_E_ARGUMENT;
    for (size_t i = 0; i < QSF_ARRAY_LEN(known); i++) if (qsf_jinja_at_name(p, known[i]))
        st = QSF_E_UNSUPPORTED;
    qsf_jinja_parse_fail(p, st, p->tok.at, "unknown tag: ", jinja_tok_text(p), p->tok.n);
}

static void statement(jinja_parser *p, tag_word w)
{
    if (w != TAG_OTHER && w != TAG_BREAK && w != TAG_CONTINUE) qsf_jinja_advance(p);
    switch (w) {
    case TAG_IF: if_statement(p); break;
    case TAG_FOR: for_statement(p); break;
    case TAG_SET: set_statement(p); break;
    case TAG_MACRO: macro_statement(p); break;
    case TAG_CALL: call_statement(p); break;
    case TAG_FILTER: filter_statement(p); break;
    case TAG_WITH: with_statement(p); break;
    case TAG_BLOCK: block_statement(p); break;
    case TAG_PRINT: print_statement(p); break;
    case TAG_GENERATION:
        qsf_jinja_expect_tag_end(p);
        scoped(p, TAG_ENDGENERATION);
        qsf_jinja_expect_tag_end(p);
        break;
    case TAG_BREAK: case TAG_CONTINUE:
        if (!p->in_loop) qsf_jinja_parse_error(p, "this is not inside a loop");
        qsf_jinja_advance(p);
        if (w == TAG_BREAK) p->breaks = qsf_jinja_emit(p, JOP_BREAK, 0, 0, p->breaks);
        else qsf_jinja_emit(p, JOP_JUMP, 0, 0, p->next);
        qsf_jinja_expect_tag_end(p);
        break;
    default: unknown_statement(p); break;
    }
}

qsf_status qsf_jinja_parse(void *mem, size_t size, const char *text, size_t len, qsf_jinja **out,
                           qsf_error *err)
{
    jinja_mem m = { mem, 0, size / 9 * 8 & ~(size_t)15 };
    qsf_jinja *t = qsf_jinja_take(&m, sizeof *t);
    char *src = len < UINT32_MAX / 2 ? qsf_jinja_take(&m, len + 1) : NULL;
    uint32_t n = 0;
    *out = NULL;
    if (!t || !src)
        return qsf_fail(err, QSF_E_MEMORY, "the chat template needs too much memory");
    for (size_t i = 0; i < len; i++) {          /* every line ends with "\n", and the last one without */
        if (text[i] == '\r' && i + 1 < len && text[i + 1] == '\n') continue;
        src[n++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (n && src[n - 1] == '\n') n--;
    src[n] = 0;
    qsf_jinja_mark(jinja_marks(&m), (size_t)(src - m.base), n, true);
    *t = (qsf_jinja){ .mem = m, .src = src, .len = n };
    memset(t->hashes, 0xff, sizeof t->hashes);
    jinja_parser p = { .t = t,
                       .lex = { .src = src, .len = n, .state = 'd', .line_start = true },
                       .err = err,
                       .breaks = JINJA_NO_JUMP };
    t->loop = qsf_jinja_symbol_id(&p, "loop", 4);
    t->special[0] = qsf_jinja_symbol_id(&p, "caller", 6);
    t->special[1] = qsf_jinja_symbol_id(&p, "kwargs", 6);
    t->special[2] = qsf_jinja_symbol_id(&p, "varargs", 7);
    qsf_jinja_advance(&p);
    body(&p, TAG_OTHER, TAG_OTHER, TAG_OTHER);
    qsf_jinja_emit(&p, JOP_STOP, 0, 0, 0);
    if (p.st) return p.st;
    t->mem.used = (t->mem.used + 15) & ~(size_t)15;
    t->mark = t->mem.used;
    *out = t;
    return QSF_OK;
}
