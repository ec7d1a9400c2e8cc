/* Jinja: the program at work, on stacks of its own.
 * SPDX-License-Identifier: MIT */
#include "chat/jinja_run.h"

bool qsf_jinja_fail(jinja_run *r, qsf_status st, const char *fmt, ...)
{
    char text[256];
    uint32_t line, column;
    va_list args;
    if (r->st) return false;
    va_start(args, fmt);
    qsf_vformat(text, sizeof text, fmt, args);
    va_end(args);
    qsf_jinja_place(r->t, r->at, &line, &column);
    r->st =
        qsf_fail(r->err, st, "chat template, line %u, column %u: %s", (unsigned)line, (unsigned)column, text);
    return false;
}

bool qsf_jinja_refuse(jinja_run *r, const char *why) { return qsf_jinja_fail(r, QSF_E_ARGUMENT, "%s", why); }
bool qsf_jinja_unknown(jinja_run *r,
                       const char *what) { return qsf_jinja_fail(r, QSF_E_UNSUPPORTED, "%s", what); }

bool qsf_jinja_charge(jinja_run *r, size_t bytes)
{
    const size_t steps = 1 + bytes / 32;
    if (r->st || steps > r->steps)
        return qsf_jinja_fail(r, QSF_E_BUDGET, "the template takes too many steps");
    r->steps -= (uint32_t)steps;
    return true;
}

/* One far from 1 takes up to 100 us. */
bool qsf_jinja_charge_float(jinja_run *r) { return qsf_jinja_charge(r, 32 * 1000); }
bool qsf_jinja_charge_each(jinja_run *r, size_t n) { return qsf_jinja_charge(r, 8 * n); }

void *qsf_jinja_room(jinja_run *r, size_t bytes)
{
    void *m = qsf_jinja_take(r->mem, bytes);
    if (!m) qsf_jinja_fail(r, QSF_E_MEMORY, "the template needs too much memory for text and lists");
    return m;
}

/* ---- names ---- */

static jinja_bind *run_find_in(run_state *s, const jinja_scope *c, uint32_t symbol)
{
    uint32_t n = 0;
    jinja_bind *b = c->binds;
    for (; b && b->symbol != symbol; b = b->next) n++;
    s->r.steps -= QSF_MIN(s->r.steps, n / 16);          /* among many names it takes a while */
    return b;
}
static jinja_bind *run_find(run_state *s, uint32_t symbol)
{
    jinja_bind *b = NULL;
    for (const jinja_scope *c = s->scope; c && !b; c = c->outer) b = run_find_in(s, c, symbol);
    return b;
}

bool qsf_jinja_run_scope(run_state *s, jinja_scope *outer, jinja_loop *loop)
{
    jinja_scope *c = qsf_jinja_room(&s->r, sizeof *c);
    if (!c) return false;
    *c = (jinja_scope){ .outer = outer, .before = s->scope, .loop = loop };
    s->scope = c;
    return true;
}

bool qsf_jinja_run_store(run_state *s, uint32_t symbol, jinja_value v)
{
    jinja_bind *b = run_find_in(s, s->scope, symbol);
    if (b) {
        b->value = v;
        return true;
    }
    if ((b = s->spare)) s->spare = b->next;
    else if (!(b = qsf_jinja_room(&s->r, sizeof *b))) return false;
    *b = (jinja_bind){ s->scope->binds, symbol, v };
    s->scope->binds = b;
    return true;
}

jinja_value qsf_jinja_run_load(run_state *s, uint32_t symbol)
{
    const jinja_bind *b = run_find(s, symbol);
    if (b) {
        jinja_value v = b->value;
        if (v.type == QSF_JINJA_UNDEFINED) v.id = 0;
        return v;
    }
    if (symbol == s->r.t->loop)
        for (const jinja_scope *c = s->scope; c; c = c->outer)
            if (c->loop) return (jinja_value){ .type = QSF_JINJA_LOOP, .as.own = c->loop };
    const jinja_symbol *y = &s->r.t->symbols[symbol];
    if (y->function != JN_NONE && (s->r.now || y->function != JN_STRFTIME))
        return (jinja_value){ .type = QSF_JINJA_FUNCTION, .id = y->function };
    return (jinja_value){ .type = QSF_JINJA_UNDEFINED, .n = y->n, .as.text = y->text };
}

static bool run_store_space(run_state *s, uint32_t symbol, uint32_t attribute, jinja_value v)
{
    const jinja_value space = qsf_jinja_run_load(s, symbol);
    const jinja_symbol *y = &s->r.t->symbols[attribute];
    if (space.type != QSF_JINJA_SPACE)
        return qsf_jinja_refuse(&s->r, "only a namespace can be given attributes");
    jinja_space *o = space.as.own;
    if (!qsf_jinja_charge_each(&s->r, o->n)) return false;
    for (uint32_t i = 0; i < o->n; i++) {
        const jinja_value *k = &o->pairs[2 * i];
        if (k->type != QSF_JINJA_TEXT || k->n != y->n || memcmp(k->as.text, y->text, y->n)) continue;
        o->pairs[2 * i + 1] = v;
        return true;
    }
    if (o->n == o->cap) {
        jinja_value *pairs = qsf_jinja_items(&s->r, (size_t)(o->cap + 4) * 4);
        if (!pairs) return false;
        if (o->n) memcpy(pairs, o->pairs, 2 * (size_t)o->n * sizeof *pairs);
        o->pairs = pairs;
        o->cap = 2 * (o->cap + 4);
    }
    o->pairs[2 * o->n] = qsf_jinja_text_n(y->text, y->n);
    o->pairs[2 * o->n++ + 1] = v;
    return true;
}

/* ---- captures, values of several others ---- */

bool qsf_jinja_run_capture(run_state *s)
{
    if (s->captures == QSF_JINJA_DEPTH)
        return qsf_jinja_fail(&s->r, QSF_E_BUDGET, "blocks and calls are nested too deep");
    s->capture[s->captures++] = s->r.out.len;
    return true;
}

bool qsf_jinja_run_captured(run_state *s, jinja_value *out)
{
    const size_t from = s->capture[--s->captures], n = s->r.out.len - from;
    jinja_sink text = qsf_jinja_begin_text(&s->r);
    if (!qsf_jinja_charge(&s->r, n) || !qsf_jinja_put(&s->r, &text, s->r.out.text + from, n)) return false;
    if (s->r.out.marks) qsf_jinja_mark_copy(text.marks, text.bit, s->r.out.marks, from, n);
    s->r.out.len = from;
    *out = qsf_jinja_end_text(&s->r, &text);
    return true;
}

static bool run_unpack(run_state *s, uint32_t n)
{
    jinja_value list;
    if (!qsf_jinja_iterate(&s->r, &s->stack[s->n - 1], &list)) return false;
    if (list.n != n)
        return qsf_jinja_fail(&s->r, QSF_E_ARGUMENT, "%u values for %u names", (unsigned)list.n, (unsigned)n);
    if (s->n + n > RUN_STACK) return qsf_jinja_fail(&s->r, QSF_E_BUDGET,
                                                    "an expression takes too many values");
    s->n--;
    for (uint32_t i = 0; i < n; i++) s->stack[s->n++] = list.as.items[n - 1 - i];
    return true;
}

static bool run_dict(run_state *s, uint32_t n)
{
    jinja_value *pairs = qsf_jinja_items(&s->r, 2 * (size_t)n);
    if (!pairs) return false;
    s->n -= 2 * n;
    if (n) memcpy(pairs, &s->stack[s->n], 2 * n * sizeof *pairs);
    return qsf_jinja_make_dict(&s->r, pairs, n, &s->stack[s->n++]);
}

static bool run_list(run_state *s, uint32_t n, qsf_jinja_type type)
{
    jinja_value *items = qsf_jinja_items(&s->r, n);
    if (!items) return false;
    if (n) memcpy(items, &s->stack[s->n - n], n * sizeof *items);
    s->n -= n;
    s->stack[s->n++] = (jinja_value){ .type = (uint8_t)type, .n = n, .as.items = items };
    return true;
}

static bool run_negate(run_state *s, jinja_value *v, bool minus)
{
    if (v->type == QSF_JINJA_UNDEFINED) return qsf_jinja_undefined(&s->r, v);
    if (!qsf_jinja_is_number(v))
        return qsf_jinja_fail(&s->r, v->type == QSF_JINJA_BIG ? QSF_E_UNSUPPORTED : QSF_E_ARGUMENT,
                              "a value of type %s cannot be negated", qsf_jinja_type_name(v));
    if (v->type == QSF_JINJA_FLOAT) v->as.f = minus ? -v->as.f : v->as.f;
    else if (v->as.i == INT64_MIN) return qsf_jinja_unknown(&s->r, "a number is too large");
    else v->type = QSF_JINJA_INT, v->as.i = minus ? -v->as.i : v->as.i;
    return true;
}

/* ---- the program ---- */

static bool run_concat(run_state *s)
{
    jinja_value *v = &s->stack[s->n - 2];
    s->n--;
    if (v[0].type == QSF_JINJA_TEXT && v[1].type == QSF_JINJA_TEXT)
        return qsf_jinja_join_texts(&s->r, &v[0], &v[1], &v[0]);
    jinja_sink text = qsf_jinja_begin_text(&s->r);
    if (!qsf_jinja_print(&s->r, &text, &v[0]) || !qsf_jinja_print(&s->r, &text, &v[1])) return false;
    v[0] = qsf_jinja_end_text(&s->r, &text);
    return true;
}

/* Output and names. */
static bool run_name_op(run_state *s, const jinja_code *c, jinja_value *top)
{
    jinja_run *r = &s->r;
    const qsf_jinja *t = s->r.t;
    switch ((jinja_op)c->op) {
    case JOP_TEXT: return qsf_jinja_put(r, &r->out, t->src + c->arg, c->at);
    case JOP_EMIT:
        if (c->n && !qsf_jinja_need_text(r, top, "the end of a filter block")) return false;
        if (!qsf_jinja_print(r, &r->out, top)) return false;
        s->n--;
        return true;
    case JOP_CONST: s->stack[s->n++] = t->consts[c->arg]; return true;
    case JOP_LOAD: s->stack[s->n++] = qsf_jinja_run_load(s, c->x); return true;
    case JOP_STORE:
        if (!qsf_jinja_run_store(s, c->x, *top)) return false;
        s->n--;
        return true;
    case JOP_STORE_SPACE:
        if (!run_store_space(s, c->x, c->arg, *top)) return false;
        s->n--;
        return true;
    case JOP_UNPACK: return run_unpack(s, c->n);
    default: return true;
    }
}

/* Members and calls of a value. */
static bool run_reach_op(run_state *s, const jinja_code *c, jinja_value *top, uint32_t *ip)
{
    jinja_run *r = &s->r;
    const qsf_jinja *t = s->r.t;
    switch ((jinja_op)c->op) {
    case JOP_ATTR: {
        const jinja_symbol *y = &t->symbols[c->x];
        const jinja_value v = *top;
        return qsf_jinja_attribute(r, &v, y->text, y->n, y->method, top);
    }
    case JOP_ITEM: {
        const jinja_value v = top[-1];
        if (!qsf_jinja_item(r, &v, top, &top[-1])) return false;
        s->n--;
        return true;
    }
    case JOP_SLICE: {
        const jinja_value v = top[-3];
        if (!qsf_jinja_slice(r, &v, &top[-2], &top[-3])) return false;
        s->n -= 3;
        return true;
    }
    case JOP_CALL: return qsf_jinja_run_call(s, c, ip);
    case JOP_FILTER: case JOP_TEST: return qsf_jinja_run_filter(s, c);
    default: return true;
    }
}

/* Operators, and values made of several others. */
static bool run_operator(run_state *s, const jinja_code *c, jinja_value *top, uint32_t *ip)
{
    jinja_run *r = &s->r;
    bool is = false;
    switch ((jinja_op)c->op) {
    case JOP_NOT: *top = qsf_jinja_bool(!qsf_jinja_true(top)); return true;
    case JOP_NEG: case JOP_POS: return run_negate(s, top, c->op == JOP_NEG);
    case JOP_ADD: case JOP_SUB: case JOP_MUL: case JOP_DIV: case JOP_FLOOR: case JOP_MOD: case JOP_POW: {
        const jinja_value a = top[-1];
        if (!qsf_jinja_binary(r, (jinja_op)c->op, &a, top, &top[-1])) return false;
        s->n--;
        return true;
    }
    case JOP_CONCAT: return run_concat(s);
    case JOP_EQ: case JOP_NE: case JOP_LT: case JOP_LE: case JOP_GT: case JOP_GE: case JOP_IN:
        case JOP_NOT_IN:
        if (!qsf_jinja_compare(r, (jinja_op)c->op, &top[-1], top, &is)) return false;
        s->n--;
        top[-1] = qsf_jinja_bool(is);
        return true;
    case JOP_CHAIN:
        if (!qsf_jinja_compare(r, (jinja_op)c->n, &top[-1], top, &is)) return false;
        s->n--;
        top[-1] = is ? *top : qsf_jinja_bool(false);
        if (!is) *ip = c->arg;
        return true;
    case JOP_LIST: case JOP_TUPLE:
        return run_list(s, c->n, c->op == JOP_LIST ? QSF_JINJA_LIST : QSF_JINJA_TUPLE);
    case JOP_DICT: return run_dict(s, c->n);
    default: return true;
    }
}

/* Jumps, with what decides them, and loops. */
static bool run_jump_op(run_state *s, const jinja_code *c, jinja_value *top, uint32_t *ip)
{
    switch ((jinja_op)c->op) {
    case JOP_JUMP: *ip = c->arg; return true;
    case JOP_JUMP_FALSE:
        if (!qsf_jinja_true(top)) *ip = c->arg;
        s->n--;
        return true;
    case JOP_AND: case JOP_OR:
        if (qsf_jinja_true(top) == (c->op == JOP_OR)) *ip = c->arg;
        else s->n--;
        return true;
    default: return qsf_jinja_run_loop(s, c, top, ip);
    }
}

/* Scopes, captures and macros. */
static bool run_scope_op(run_state *s, const jinja_code *c, uint32_t *ip)
{
    jinja_run *r = &s->r;
    const qsf_jinja *t = s->r.t;
    switch ((jinja_op)c->op) {
    case JOP_SCOPE: return qsf_jinja_run_scope(s, c->n ? s->root : s->scope, NULL);
    case JOP_UNSCOPE: s->scope = s->scope->before; return true;
    case JOP_CAPTURE: return qsf_jinja_run_capture(s);
    case JOP_CAPTURED:
        if (!qsf_jinja_run_captured(s, &s->stack[s->n])) return false;
        s->n++;
        return true;
    case JOP_MACRO: {
        jinja_closure *m = qsf_jinja_room(r, sizeof *m);
        if (!m) return false;
        *m = (jinja_closure){ &t->macros[c->arg], s->scope };
        s->closures++;
        s->stack[s->n++] = (jinja_value){ .type = QSF_JINJA_MACRO, .as.own = m };
        return true;
    }
    case JOP_PARAM: {
        const jinja_bind *b = run_find(s, c->x);
        if (!(b && b->value.type == QSF_JINJA_UNDEFINED && b->value.id)) *ip = c->arg;
        return true;
    }
    case JOP_RETURN:
        if (!qsf_jinja_run_captured(s, &s->stack[s->n])) return false;
        s->n++;
        qsf_jinja_run_return(s, ip);
        return true;
    case JOP_UNKNOWN:
        return qsf_jinja_fail(r, QSF_E_ARGUMENT, "unknown %s: %.*s", c->n ? "test"
                              : "filter",
                              (int)t->symbols[c->x].n, t->symbols[c->x].text);
    default: return true;
    }
}

static bool run_program(run_state *s)
{
    for (uint32_t ip = 0;;) {
        const jinja_code *c = &s->r.t->code[ip++];
        jinja_value *top = s->n ? &s->stack[s->n - 1] : s->stack;
        bool ok;
        if (!qsf_jinja_charge(&s->r, 0)) return false;
        if (s->n + 2 > RUN_STACK)
            return qsf_jinja_fail(&s->r, QSF_E_BUDGET, "an expression takes too many values");
        if (c->op != JOP_TEXT) s->r.at = c->at;
        if (c->op == JOP_STOP) return true;
        if (c->op < JOP_ATTR) ok = run_name_op(s, c, top);
        else if (c->op < JOP_NOT) ok = run_reach_op(s, c, top, &ip);
        else if (c->op < JOP_JUMP) ok = run_operator(s, c, top, &ip);
        else if (c->op < JOP_SCOPE) ok = run_jump_op(s, c, top, &ip);
        else ok = run_scope_op(s, c, &ip);
        if (!ok) return false;
    }
}

uint32_t qsf_jinja_steps(const qsf_jinja *t) { return t->steps; }

qsf_status qsf_jinja_render(qsf_jinja *t, const qsf_jinja_var *vars, size_t n_vars, int64_t now,
                            uint32_t steps, char *out, size_t cap, size_t *len, uint8_t *own, qsf_error *err)
{
    run_state *s = qsf_jinja_take(&t->mem, sizeof *s);
    *len = 0;
    t->steps = 0;
    if (cap) *out = 0;
    if (!s || !cap) {
        t->mem.used = t->mark;
        return qsf_fail(err, QSF_E_MEMORY, "the chat template needs too much memory");
    }
    memset(s, 0, offsetof(run_state, f));
    s->r = (jinja_run){
        .t = t, .mem = &t->mem, .out = { out, 0, cap - 1, own, 0 }, .err = err, .steps = steps, .now = now
    };
    bool ok = qsf_jinja_run_scope(s, NULL, NULL);
    s->root = s->scope;
    for (size_t i = 0; ok && i < n_vars; i++) {
        const size_t n = strlen(vars[i].name);
        for (uint32_t y = 0; ok && y < t->n_symbols; y++)
            if (t->symbols[y].n == n && !memcmp(t->symbols[y].text, vars[i].name, n))
                ok = qsf_jinja_run_store(s, y, vars[i].value);
    }
    if (ok) (void)run_program(s);
    const qsf_status st = s->r.st;
    t->steps = steps - s->r.steps;
    *len = st ? 0 : s->r.out.len;
    out[*len] = 0;
    t->mem.used = t->mark;                          /* s is gone */
    return st;
}
