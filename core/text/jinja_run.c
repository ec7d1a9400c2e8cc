/* Jinja: the program at work, on stacks of its own.
 * SPDX-License-Identifier: MIT */
#include "text/jinja_own.h"

enum { RUN_STACK = 512 };

typedef struct run_for {            /* a for that is under way */
    jinja_scope *scope;
    jinja_loop  *loop;
    jinja_value *kept;              /* of one that only picks items */
    uint32_t     n_kept, captures, stack;
} run_for;

typedef struct run_call {           /* where a macro returns to */
    jinja_scope *scope;
    uint32_t     ip, fors;
} run_call;

typedef struct run_state {
    jinja_run    r;
    jinja_scope *scope;
    uint32_t     n, fors, calls, captures;
    size_t       capture[QSF_JINJA_DEPTH];
    run_for      f[QSF_JINJA_DEPTH];
    run_call     call[QSF_JINJA_DEPTH];
    jinja_value  stack[RUN_STACK];
} run_state;

bool jinja_fail(jinja_run *r, qsf_status st, const char *fmt, ...)
{
    char text[256];
    uint32_t line, column;
    va_list args;
    if (r->st) return false;
    va_start(args, fmt);
    qsf_vformat(text, sizeof text, fmt, args);
    va_end(args);
    jinja_place(r->t, r->at, &line, &column);
    r->st =
        qsf_fail(r->err, st, "chat template, line %u, column %u: %s", (unsigned)line, (unsigned)column, text);
    return false;
}

bool jinja_charge(jinja_run *r, size_t bytes)
{
    const size_t steps = 1 + bytes / 32;
    if (steps > r->steps) return jinja_fail(r, QSF_E_BUDGET, "the template does too much");
    r->steps -= (uint32_t)steps;
    return true;
}

void *jinja_room(jinja_run *r, size_t bytes)
{
    void *m = jinja_take(r->mem, bytes);
    if (!m) jinja_fail(r, QSF_E_MEMORY, "there is no memory for so much text and lists");
    return m;
}

/* ---- names ---- */

static jinja_bind *run_find(const run_state *s, uint32_t symbol)
{
    for (const jinja_scope *c = s->scope; c; c = c->outer)
        for (jinja_bind *b = c->binds; b; b = b->next)
            if (b->symbol == symbol) return b;
    return NULL;
}

static bool run_scope(run_state *s, jinja_scope *outer, jinja_loop *loop)
{
    jinja_scope *c = jinja_room(&s->r, sizeof *c);
    if (!c) return false;
    *c = (jinja_scope){ .outer = outer, .loop = loop };
    s->scope = c;
    return true;
}

static bool run_store(run_state *s, uint32_t symbol, jinja_value v)
{
    for (jinja_bind *b = s->scope->binds; b; b = b->next)
        if (b->symbol == symbol) {
            b->value = v;
            return true;
        }
    jinja_bind *b = jinja_room(&s->r, sizeof *b);
    if (!b) return false;
    *b = (jinja_bind){ s->scope->binds, symbol, v };
    s->scope->binds = b;
    return true;
}

static jinja_value run_load(const run_state *s, uint32_t symbol)
{
    const jinja_bind *b = run_find(s, symbol);
    if (b) return b->value;
    if (symbol == s->r.t->loop)
        for (const jinja_scope *c = s->scope; c; c = c->outer)
            if (c->loop) return (jinja_value){ .type = QSF_JINJA_LOOP, .as.own = c->loop };
    const jinja_symbol *y = &s->r.t->symbols[symbol];
    const int id = jinja_function_id(y->text, y->n);
    if (id && (s->r.now || id != jinja_function_id("strftime_now", 12)))
        return (jinja_value){ .type = QSF_JINJA_FUNCTION, .id = (uint16_t)id };
    return (jinja_value){ .type = QSF_JINJA_UNDEFINED, .n = y->n, .as.text = y->text };
}

static bool run_store_space(run_state *s, uint32_t symbol, uint32_t attribute, jinja_value v)
{
    const jinja_value space = run_load(s, symbol);
    const jinja_symbol *y = &s->r.t->symbols[attribute];
    if (space.type != QSF_JINJA_SPACE)
        return jinja_fail(&s->r, QSF_E_ARGUMENT, "only a namespace can be given attributes");
    jinja_space *o = space.as.own;
    for (uint32_t i = 0; i < o->n; i++)
        if (o->pairs[2 * i].n == y->n && !memcmp(o->pairs[2 * i].as.text, y->text, y->n)) {
            o->pairs[2 * i + 1] = v;
            return true;
        }
    if (o->n == o->cap) {
        jinja_value *pairs = jinja_room(&s->r, (size_t)(o->cap + 4) * 4 * sizeof *pairs);
        if (!pairs) return false;
        if (o->n) memcpy(pairs, o->pairs, 2 * (size_t)o->n * sizeof *pairs);
        o->pairs = pairs;
        o->cap = 2 * (o->cap + 4);
    }
    o->pairs[2 * o->n] = qsf_jinja_text_n(y->text, y->n);
    o->pairs[2 * o->n++ + 1] = v;
    return true;
}

/* ---- loops, captures, macros ---- */

static bool run_for_begin(run_state *s, bool picks, const jinja_value *items)
{
    run_for *f = &s->f[s->fors];
    jinja_value list;
    if (s->fors == QSF_JINJA_DEPTH)
        return jinja_fail(&s->r, QSF_E_BUDGET, "loops lie too deep in each other");
    if (!jinja_iterate(&s->r, items, &list)) return false;
    *f = (run_for){ .scope = s->scope, .captures = s->captures, .stack = s->n };
    if (!(f->loop = jinja_room(&s->r, sizeof *f->loop))) return false;
    *f->loop = (jinja_loop){ .items = list };
    if (picks && !(f->kept = jinja_room(&s->r, list.n * sizeof list))) return false;
    s->fors++;
    return true;
}

/* Goes back to where the innermost for began, whatever was open inside the loop. */
static void run_unwind(run_state *s)
{
    const run_for *f = &s->f[s->fors - 1];
    s->scope = f->scope;
    s->n = f->stack;
    if (s->captures > f->captures) {
        s->captures = f->captures;
        s->r.out.len = s->capture[f->captures];
    }
}

static bool run_capture(run_state *s)
{
    if (s->captures == QSF_JINJA_DEPTH)
        return jinja_fail(&s->r, QSF_E_BUDGET, "blocks and calls lie too deep in each other");
    s->capture[s->captures++] = s->r.out.len;
    return true;
}

static bool run_captured(run_state *s, jinja_value *out)
{
    const size_t from = s->capture[--s->captures], n = s->r.out.len - from;
    jinja_sink text = jinja_begin_text(&s->r);
    if (!jinja_charge(&s->r, n) || !jinja_put(&s->r, &text, s->r.out.text + from, n)) return false;
    if (s->r.out.marks) jinja_mark_copy(text.marks, text.bit, s->r.out.marks, from, n);
    s->r.out.len = from;
    *out = jinja_end_text(&s->r, &text);
    return true;
}

static bool run_unpack(run_state *s, uint32_t n)
{
    jinja_value list;
    if (!jinja_iterate(&s->r, &s->stack[s->n - 1], &list)) return false;
    if (list.n != n)
        return jinja_fail(&s->r, QSF_E_ARGUMENT, "%u values for %u names", (unsigned)list.n, (unsigned)n);
    if (s->n + n > RUN_STACK) return jinja_fail(&s->r, QSF_E_BUDGET, "an expression takes too many values");
    s->n--;
    for (uint32_t i = 0; i < n; i++) s->stack[s->n++] = list.as.items[n - 1 - i];
    return true;
}

/* args: n values, then n_kw pairs.  On success the program goes on in the macro. */
static bool run_macro(run_state *s, const jinja_closure *c, const jinja_value *args, uint32_t n,
                      uint32_t n_kw, uint32_t *ip)
{
    const jinja_macro *m = c->macro;
    const jinja_symbol *symbols = s->r.t->symbols;
    if (s->calls == QSF_JINJA_DEPTH)
        return jinja_fail(&s->r, QSF_E_BUDGET, "macros call each other too deep");
    if (n > m->n_params)
        return jinja_fail(&s->r, QSF_E_ARGUMENT, "a macro takes %u arguments, not %u", (unsigned)m->n_params,
                          (unsigned)n);
    if (!run_capture(s)) return false;
    s->call[s->calls++] = (run_call){ s->scope, *ip, s->fors };
    if (!run_scope(s, c->scope, NULL)) return false;
    for (uint32_t i = 0; i < m->n_params; i++) {        /* id 1: nothing was given */
        const jinja_symbol *y = &symbols[m->params[i]];
        if (!run_store(
                s, m->params[i],
                i < n ? args[i]
                      : (jinja_value){ .type = QSF_JINJA_UNDEFINED, .id = 1, .n = y->n, .as.text = y->text }))
            return false;
    }
    for (uint32_t k = 0; k < n_kw; k++) {
        const jinja_value *name = &args[n + 2 * k];
        uint32_t i = 0, symbol = 0;
        while (i < m->n_params && !(symbols[m->params[i]].n == name->n &&
                                    !memcmp(symbols[m->params[i]].text, name->as.text, name->n)))
            i++;
        if (i < n)
            return jinja_fail(&s->r, QSF_E_ARGUMENT, "a macro gets its argument %.*s twice", (int)name->n,
                              name->as.text);
        if (i < m->n_params) symbol = m->params[i];
        else if (jinja_text_is(name, "caller")) {
            while (symbol < s->r.t->n_symbols &&
                   !(symbols[symbol].n == 6 && !memcmp(symbols[symbol].text, "caller", 6)))
                symbol++;
        } else
            return jinja_fail(&s->r, QSF_E_ARGUMENT, "a macro has no argument %.*s", (int)name->n,
                              name->as.text);
        if (!run_store(s, symbol, args[n + 2 * k + 1])) return false;
    }
    *ip = m->entry;
    return true;
}

static bool run_call_op(run_state *s, const jinja_code *c, uint32_t *ip)
{
    const uint32_t args = c->n + 2u * c->x;
    const jinja_value *v = &s->stack[s->n - args - 1];
    jinja_args a = { v + 1, c->n, c->x, 0 };
    jinja_value result;
    jinja_run *r = &s->r;
    switch (v->type) {
    case QSF_JINJA_MACRO:
        if (!run_macro(s, v->as.own, a.pos, a.n, a.n_kw, ip)) return false;
        s->n -= args + 1;
        return true;
    case QSF_JINJA_METHOD:
        if (!jinja_method(r, v->id, v->as.items, &a, &result) || !jinja_args_done(r, &a, "a method"))
            return false;
        break;
    case QSF_JINJA_FUNCTION:
        if (!jinja_function(r, v->id, &a, &result) || !jinja_args_done(r, &a, "a function")) return false;
        break;
    case QSF_JINJA_LOOP:
        return jinja_fail(r, QSF_E_UNSUPPORTED, "a loop that calls itself is not known here");
    case QSF_JINJA_UNDEFINED:
        return jinja_fail(r, QSF_E_ARGUMENT, "%.*s is not defined", (int)v->n, v->as.text);
    default: return jinja_fail(r, QSF_E_ARGUMENT, "a value of type %s cannot be called", jinja_type_name(v));
    }
    s->n -= args;
    s->stack[s->n - 1] = result;
    return true;
}

static bool run_dict(run_state *s, uint32_t n)
{
    const jinja_value *from = &s->stack[s->n - 2 * n];
    jinja_value *pairs = jinja_room(&s->r, 2 * (size_t)n * sizeof *pairs);
    uint32_t used = 0;
    if (!pairs) return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = 0;
        bool same = false;
        if (from[2 * i].type == QSF_JINJA_LIST || from[2 * i].type == QSF_JINJA_DICT)
            return jinja_fail(&s->r, QSF_E_ARGUMENT, "a list is no key");
        for (; k < used; k++)
            if (!jinja_equal(&s->r, &pairs[2 * k], &from[2 * i], &same)) return false;
            else if (same) break;
        if (k == used) pairs[2 * used++] = from[2 * i];
        pairs[2 * k + 1] = from[2 * i + 1];
    }
    s->n -= 2 * n;
    s->stack[s->n++] = qsf_jinja_dict(pairs, used);
    return true;
}

static bool run_list(run_state *s, uint32_t n, qsf_jinja_type type)
{
    jinja_value *items = jinja_room(&s->r, n * sizeof *items);
    if (!items) return false;
    if (n) memcpy(items, &s->stack[s->n - n], n * sizeof *items);
    s->n -= n;
    s->stack[s->n++] = (jinja_value){ .type = (uint8_t)type, .n = n, .as.items = items };
    return true;
}

static bool run_negate(run_state *s, jinja_value *v, bool minus)
{
    if (!jinja_is_number(v)) {
        return v->type == QSF_JINJA_UNDEFINED
                   ? jinja_fail(&s->r, QSF_E_ARGUMENT, "%.*s is not defined", (int)v->n, v->as.text)
                   : jinja_fail(&s->r, QSF_E_ARGUMENT, "a value of type %s has no sign", jinja_type_name(v));
    }
    if (v->type == QSF_JINJA_FLOAT) v->as.f = minus ? -v->as.f : v->as.f;
    else if (v->as.i == INT64_MIN) return jinja_fail(&s->r, QSF_E_UNSUPPORTED, "a number is too large");
    else v->type = QSF_JINJA_INT, v->as.i = minus ? -v->as.i : v->as.i;
    return true;
}

/* ---- the program ---- */

static bool run_filter_op(run_state *s, const jinja_code *c)
{
    const uint32_t args = c->n + 2u * c->x;
    jinja_value *v = &s->stack[s->n - args - 1], result;
    jinja_args a = { v + 1, c->n, c->x, 0 };
    bool is = false;
    if (c->op == JOP_FILTER ? !jinja_filter(&s->r, (int)c->arg, v, &a, &result)
                            : !jinja_test(&s->r, (int)c->arg, v, &a, &is))
        return false;
    if (!jinja_args_done(&s->r, &a, c->op == JOP_FILTER ? "a filter" : "a test")) return false;
    *v = c->op == JOP_FILTER ? result : qsf_jinja_bool(is);
    s->n -= args;
    return true;
}

static bool run_concat(run_state *s)
{
    jinja_value *v = &s->stack[s->n - 2];
    jinja_sink text = jinja_begin_text(&s->r);
    if (!jinja_print(&s->r, &text, &v[0]) || !jinja_print(&s->r, &text, &v[1])) return false;
    v[0] = jinja_end_text(&s->r, &text);
    s->n--;
    return true;
}

/* Output and names. */
static bool run_name_op(run_state *s, const jinja_code *c, jinja_value *top)
{
    jinja_run *r = &s->r;
    const qsf_jinja *t = s->r.t;
    switch ((jinja_op)c->op) {
    case JOP_TEXT: return jinja_put(r, &r->out, t->src + c->arg, c->at);
    case JOP_EMIT:
        if (!jinja_print(r, &r->out, top)) return false;
        s->n--;
        return true;
    case JOP_CONST: s->stack[s->n++] = t->consts[c->arg]; return true;
    case JOP_LOAD: s->stack[s->n++] = run_load(s, c->x); return true;
    case JOP_STORE:
        if (!run_store(s, c->x, *top)) return false;
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
        return jinja_attribute(r, &v, y->text, y->n, y->method, top);
    }
    case JOP_ITEM: {
        const jinja_value v = top[-1];
        if (!jinja_item(r, &v, top, &top[-1])) return false;
        s->n--;
        return true;
    }
    case JOP_SLICE: {
        const jinja_value v = top[-3];
        if (!jinja_slice(r, &v, &top[-2], &top[-3])) return false;
        s->n -= 3;
        return true;
    }
    case JOP_CALL: return run_call_op(s, c, ip);
    case JOP_FILTER: case JOP_TEST: return run_filter_op(s, c);
    default: return true;
    }
}

/* Operators, and values made of several others. */
static bool run_operator(run_state *s, const jinja_code *c, jinja_value *top, uint32_t *ip)
{
    jinja_run *r = &s->r;
    bool is = false;
    switch ((jinja_op)c->op) {
    case JOP_NOT: *top = qsf_jinja_bool(!jinja_true(top)); return true;
    case JOP_NEG: case JOP_POS: return run_negate(s, top, c->op == JOP_NEG);
    case JOP_ADD: case JOP_SUB: case JOP_MUL: case JOP_DIV: case JOP_FLOOR: case JOP_MOD: case JOP_POW: {
        const jinja_value a = top[-1];
        if (!jinja_binary(r, (jinja_op)c->op, &a, top, &top[-1])) return false;
        s->n--;
        return true;
    }
    case JOP_CONCAT: return run_concat(s);
    case JOP_EQ: case JOP_NE: case JOP_LT: case JOP_LE: case JOP_GT: case JOP_GE: case JOP_IN:
        case JOP_NOT_IN:
        if (!jinja_compare(r, (jinja_op)c->op, &top[-1], top, &is)) return false;
        s->n--;
        top[-1] = qsf_jinja_bool(is);
        return true;
    case JOP_CHAIN:
        if (!jinja_compare(r, (jinja_op)c->n, &top[-1], top, &is)) return false;
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
        if (!jinja_true(top)) *ip = c->arg;
        s->n--;
        return true;
    case JOP_AND: case JOP_OR:
        if (jinja_true(top) == (c->op == JOP_OR)) *ip = c->arg;
        else s->n--;
        return true;
    case JOP_FOR:
        s->n--;
        return run_for_begin(s, c->n, top);
    case JOP_NEXT: {
        run_for *f = &s->f[s->fors - 1];
        run_unwind(s);
        if (f->loop->at == f->loop->items.n) {
            *ip = c->arg;
            return true;
        }
        if (!run_scope(s, f->scope, f->kept ? NULL : f->loop)) return false;
        s->stack[s->n++] = f->loop->items.as.items[f->loop->at++];
        return true;
    }
    case JOP_KEEP: {
        run_for *f = &s->f[s->fors - 1];
        if (jinja_true(top)) f->kept[f->n_kept++] = f->loop->items.as.items[f->loop->at - 1];
        s->n--;
        return true;
    }
    case JOP_KEPT: {
        const run_for *f = &s->f[--s->fors];
        s->stack[s->n++] = qsf_jinja_list(f->kept, f->n_kept);
        return true;
    }
    case JOP_FOR_END:
        if (s->f[--s->fors].loop->items.n) *ip = c->arg;
        return true;
    case JOP_BREAK:
        run_unwind(s);
        s->fors--;
        *ip = c->arg;
        return true;
    default: return true;
    }
}

/* Scopes, captures and macros. */
static bool run_scope_op(run_state *s, const jinja_code *c, uint32_t *ip)
{
    jinja_run *r = &s->r;
    const qsf_jinja *t = s->r.t;
    switch ((jinja_op)c->op) {
    case JOP_SCOPE: return run_scope(s, s->scope, NULL);
    case JOP_UNSCOPE: s->scope = s->scope->outer; return true;
    case JOP_CAPTURE: return run_capture(s);
    case JOP_CAPTURED:
        if (!run_captured(s, &s->stack[s->n])) return false;
        s->n++;
        return true;
    case JOP_MACRO: {
        jinja_closure *m = jinja_room(r, sizeof *m);
        if (!m) return false;
        *m = (jinja_closure){ &t->macros[c->arg], s->scope };
        s->stack[s->n++] = (jinja_value){ .type = QSF_JINJA_MACRO, .as.own = m };
        return true;
    }
    case JOP_PARAM: {
        const jinja_bind *b = run_find(s, c->x);
        if (!(b && b->value.type == QSF_JINJA_UNDEFINED && b->value.id)) *ip = c->arg;
        return true;
    }
    case JOP_RETURN:
        if (!run_captured(s, &s->stack[s->n])) return false;
        s->n++;
        s->calls--;
        s->scope = s->call[s->calls].scope;
        *ip = s->call[s->calls].ip;
        return true;
    default: return true;
    }
}

static bool run_program(run_state *s)
{
    for (uint32_t ip = 0;;) {
        const jinja_code *c = &s->r.t->code[ip++];
        jinja_value *top = s->n ? &s->stack[s->n - 1] : s->stack;
        bool ok;
        if (!jinja_charge(&s->r, 0)) return false;
        if (s->n + 2 > RUN_STACK)
            return jinja_fail(&s->r, QSF_E_BUDGET, "an expression takes too many values");
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

qsf_status qsf_jinja_render(qsf_jinja *t, const qsf_jinja_var *vars, size_t n_vars, int64_t now,
                            uint32_t steps, char *out, size_t cap, size_t *len, uint8_t *own, qsf_error *err)
{
    run_state *s = jinja_take(&t->mem, sizeof *s);
    *len = 0;
    if (!s || !cap) {
        t->mem.used = t->mark;
        return qsf_fail(err, QSF_E_MEMORY, "the chat template takes more memory than there is for it");
    }
    memset(s, 0, offsetof(run_state, f));
    s->r = (jinja_run){
        .t = t, .mem = &t->mem, .out = { out, 0, cap - 1, own, 0 }, .err = err, .steps = steps, .now = now
    };
    bool ok = run_scope(s, NULL, NULL);
    for (size_t i = 0; ok && i < n_vars; i++) {
        const size_t n = strlen(vars[i].name);
        for (uint32_t y = 0; ok && y < t->n_symbols; y++)
            if (t->symbols[y].n == n && !memcmp(t->symbols[y].text, vars[i].name, n))
                ok = run_store(s, y, vars[i].value);
    }
    if (ok) (void)run_program(s);
    const qsf_status st = s->r.st;
    *len = st ? 0 : s->r.out.len;
    out[*len] = 0;
    t->mem.used = t->mark;                          /* s is gone */
    return st;
}
