/* Jinja: calls of macros, methods, functions and loops; the loops themselves.
 * SPDX-License-Identifier: MIT */
#include "chat/jinja_run.h"

/* ---- arguments ---- */

/* What lies on the stack for a call: values, pairs of name and value, then perhaps a list and a
 * dict of more; *taken: how many values that are. */
static bool call_args(run_state *s, const jinja_code *c, jinja_args *a, uint32_t *taken)
{
    const uint32_t kw = c->x & JINJA_KEYWORDS, first = (c->x & JINJA_STAR_FIRST) != 0,
                   star = first || c->x & JINJA_STAR, stars = (c->x & JINJA_STARS) != 0,
                   block = (c->x & JINJA_BLOCK) != 0, plain = c->n + 2 * kw;
    jinja_value list = qsf_jinja_list(NULL, 0), dict = qsf_jinja_dict(NULL, 0);
    *taken = plain + star + stars + block;
    const jinja_value *v = &s->stack[s->n - *taken];
    *a = (jinja_args){ v, c->n, kw };
    if (star && !qsf_jinja_iterate(&s->r, &v[first ? c->n : plain], &list)) return false;
    if (stars) dict = v[plain + star];
    if (dict.type != QSF_JINJA_DICT) return qsf_jinja_refuse(&s->r, "expected a dict after **");
    if (star || stars || block) {
        jinja_value *all = qsf_jinja_items(&s->r, plain + list.n + 2 * (size_t)dict.n + 2), *to = all;
        if (!all) return false;
        *a = (jinja_args){ all, c->n + list.n, kw + dict.n + block };
        if (c->n) memcpy(to, v, c->n * sizeof *all);
        to += c->n;
        if (list.n) memcpy(to, list.as.items, list.n * sizeof *all);
        to += list.n;
        if (kw) memcpy(to, v + c->n + first, 2 * kw * sizeof *all);
        to += 2 * kw;
        if (dict.n) memcpy(to, dict.as.items, 2 * (size_t)dict.n * sizeof *all);
        to += 2 * (size_t)dict.n;
        to[0] = qsf_jinja_text("caller");
        to[1] = v[*taken - 1];
    }
    for (uint32_t i = 0; i < a->n_kw; i++) {
        const jinja_value *name = &a->pos[a->n + 2 * i];
        if (name->type != QSF_JINJA_TEXT) return qsf_jinja_refuse(&s->r, "the name of an argument must be a "
                                                                     "string");
        for (uint32_t k = 0; k < i; k++)
            if (a->pos[a->n + 2 * k].n == name->n
                && !memcmp(a->pos[a->n + 2 * k].as.text, name->as.text, name->n))
                return qsf_jinja_refuse(&s->r, "an argument is given twice");
    }
    return true;
}

/* ---- macros ---- */

/* Arguments by name: to their parameters, "caller" to a macro that uses it, others to kwargs. */
static bool macro_named(run_state *s, const jinja_macro *m, const jinja_args *a)
{
    const jinja_symbol *symbols = s->r.t->symbols;
    jinja_value *rest = qsf_jinja_items(&s->r, 2 * (size_t)a->n_kw);
    uint32_t n_rest = 0;
    if (!rest) return false;
    for (uint32_t k = 0; k < a->n_kw; k++) {
        const jinja_value *name = &a->pos[a->n + 2 * k];
        uint32_t i = QSF_MIN(a->n, m->n_params);
        while (i < m->n_params && !(symbols[m->params[i]].n == name->n &&
                                    !memcmp(symbols[m->params[i]].text, name->as.text, name->n)))
            i++;
        if (i < m->n_params) {
            if (!qsf_jinja_run_store(s, m->params[i], name[1])) return false;
        } else if (m->takes & JINJA_CALLER && qsf_jinja_text_is(name, "caller")) {
            if (!qsf_jinja_run_store(s, s->r.t->special[0], name[1])) return false;
        } else if (m->takes & JINJA_KWARGS) {
            rest[2 * n_rest] = name[0];
            rest[2 * n_rest++ + 1] = name[1];
        } else
            return qsf_jinja_fail(&s->r, QSF_E_ARGUMENT, "the macro has no argument %.*s",
                                  (int)QSF_MIN(name->n, 60),
                                  name->as.text);
    }
    return !(m->takes & JINJA_KWARGS)
        || qsf_jinja_run_store(s, s->r.t->special[1], qsf_jinja_dict(rest, n_rest));
}

/* On success the program continues in the macro. */
static bool call_macro(run_state *s, const jinja_closure *c, const jinja_args *a, uint32_t *ip)
{
    const jinja_macro *m = c->macro;
    const qsf_jinja *t = s->r.t;
    if (s->calls == QSF_JINJA_DEPTH)
        return qsf_jinja_fail(&s->r, QSF_E_BUDGET, "macro calls are nested too deep");
    if (a->n > m->n_params && !(m->takes & JINJA_VARARGS))
        return qsf_jinja_fail(&s->r, QSF_E_ARGUMENT, "a macro takes %u arguments, not %u",
                              (unsigned)m->n_params,
                              (unsigned)a->n);
    if (!qsf_jinja_run_capture(s)) return false;
    s->call[s->calls++] = (run_call){ s->scope, *ip, s->fors, 0 };
    if (!qsf_jinja_run_scope(s, c->scope, NULL)) return false;
    for (uint32_t i = 0; i < m->n_params; i++) {        /* id 1: nothing was given */
        const jinja_symbol *y = &t->symbols[m->params[i]];
        const jinja_value none = { .type = QSF_JINJA_UNDEFINED, .id = 1, .n = y->n, .as.text = y->text };
        if (!qsf_jinja_run_store(s, m->params[i], i < a->n ? a->pos[i] : none)) return false;
    }
    if (m->takes & JINJA_CALLER) {
        const jinja_value none = { .type = QSF_JINJA_UNDEFINED, .n = 6, .as.text = "caller" };
        if (!qsf_jinja_run_store(s, t->special[0], none)) return false;
    }
    if (m->takes & JINJA_VARARGS) {
        const uint32_t n = a->n > m->n_params ? a->n - m->n_params : 0;
        jinja_value *items = qsf_jinja_items(&s->r, n);
        if (!items) return false;
        if (n) memcpy(items, a->pos + m->n_params, n * sizeof *items);
        const jinja_value list = { .type = QSF_JINJA_TUPLE, .n = n, .as.items = items };
        if (!qsf_jinja_run_store(s, t->special[2], list)) return false;
    }
    if (!macro_named(s, m, a)) return false;
    *ip = m->entry;
    return true;
}

void qsf_jinja_run_return(run_state *s, uint32_t *ip)
{
    s->calls--;
    s->scope = s->call[s->calls].scope;
    *ip = s->call[s->calls].ip;
}

/* "loop(items)" in a recursive loop: the text that the loop writes of them. */
static bool call_loop(run_state *s, const jinja_loop *l, const jinja_args *a, uint32_t *ip, jinja_value *top)
{
    if (!l->entry)
        return qsf_jinja_refuse(&s->r, "a loop that is called must be marked \"recursive\"");
    if (a->n != 1 || a->n_kw) return qsf_jinja_refuse(&s->r, "a loop takes one argument when called");
    if (s->calls == QSF_JINJA_DEPTH)
        return qsf_jinja_fail(&s->r, QSF_E_BUDGET, "recursive loops are nested too "
                                                                            "deep");
    if (!qsf_jinja_run_capture(s)) return false;
    s->call[s->calls++] = (run_call){ s->scope, *ip, s->fors, l->depth + 1 };
    s->scope = l->scope;
    *top = a->pos[0];
    *ip = l->entry;
    return true;
}

/* ---- calls ---- */

bool qsf_jinja_run_call(run_state *s, const jinja_code *c, uint32_t *ip)
{
    jinja_run *r = &s->r;
    jinja_args a;
    jinja_value result = qsf_jinja_text("");
    uint32_t taken;
    if (!call_args(s, c, &a, &taken)) return false;
    jinja_value *v = &s->stack[s->n - taken - 1];
    switch (v->type) {
    case QSF_JINJA_MACRO:
        if (!call_macro(s, v->as.own, &a, ip)) return false;
        s->n -= taken + 1;
        return true;
    case QSF_JINJA_LOOP:
        if (!call_loop(s, v->as.own, &a, ip, v)) return false;
        s->n -= taken;
        return true;
    case QSF_JINJA_METHOD: if (!qsf_jinja_method(r, v->id, v->as.items, &a, &result)) return false; break;
    case QSF_JINJA_FUNCTION: if (!qsf_jinja_function(r, v->id, &a, &result)) return false; break;
    case QSF_JINJA_JOINER: {
        jinja_loop *l = v->as.own;
        if (a.n || a.n_kw) return qsf_jinja_refuse(r, "a joiner takes no arguments");
        if (l->at++) result = l->items.as.items[0];
        break;
    }
    case QSF_JINJA_UNDEFINED: return qsf_jinja_undefined(r, v);
    default: return qsf_jinja_fail(r, QSF_E_ARGUMENT, "a value of type %s cannot be called",
                                   qsf_jinja_type_name(v));
    }
    s->n -= taken;
    s->stack[s->n - 1] = result;
    return true;
}

bool qsf_jinja_run_filter(run_state *s, const jinja_code *c)
{
    jinja_args a;
    jinja_value result;
    uint32_t taken;
    bool is = false;
    if (!call_args(s, c, &a, &taken)) return false;
    jinja_value *v = &s->stack[s->n - taken - 1];
    if (c->op == JOP_FILTER ? !qsf_jinja_filter(&s->r, (int)c->arg, v, &a, &result)
                            : !qsf_jinja_test(&s->r, (int)c->arg, v, &a, &is))
        return false;
    *v = c->op == JOP_FILTER ? result : qsf_jinja_bool(is);
    s->n -= taken;
    return true;
}

/* ---- loops ---- */

/* picks: this loop only selects items.  entry: where a call of the loop jumps to; 0: the loop is
 * not recursive. */
static bool loop_begin(run_state *s, bool picks, uint32_t entry, const jinja_value *items)
{
    run_for *f = &s->f[s->fors];
    jinja_value list;
    if (s->fors == QSF_JINJA_DEPTH)
        return qsf_jinja_fail(&s->r, QSF_E_BUDGET, "loops lie too deep in each other");
    if (!qsf_jinja_iterate(&s->r, items, &list)) return false;
    *f = (run_for){ .scope = s->scope, .captures = s->captures, .stack = s->n };
    if (!(f->loop = qsf_jinja_room(&s->r, sizeof *f->loop))) return false;
    const run_call *call = s->calls ? &s->call[s->calls - 1] : NULL;
    *f->loop = (jinja_loop){ .items = list, .entry = entry, .scope = s->scope };
    if (entry && call && call->fors == s->fors) f->loop->depth = call->depth;
    if (picks && !(f->kept = qsf_jinja_items(&s->r, list.n))) return false;
    s->fors++;
    return true;
}

/* Goes back to where the innermost for began, whatever was open inside the loop. */
static void loop_unwind(run_state *s)
{
    const run_for *f = &s->f[s->fors - 1];
    s->scope = f->scope;
    s->n = f->stack;
    if (s->captures > f->captures) {
        s->captures = f->captures;
        s->r.out.len = s->capture[f->captures];
    }
}

static bool loop_next(run_state *s, uint32_t end, uint32_t *ip)
{
    run_for *f = &s->f[s->fors - 1];
    loop_unwind(s);
    if (f->loop->at == f->loop->items.n) {
        *ip = end;
        return true;
    }
    if (f->inside && f->closures == s->closures) {      /* nothing remembers the last time's names */
        for (jinja_bind *b; (b = f->inside->binds); s->spare = b) {
            f->inside->binds = b->next;
            b->next = s->spare;
        }
        s->scope = f->inside;
    } else if (!qsf_jinja_run_scope(s, f->scope, f->kept ? NULL : f->loop)) return false;
    f->inside = s->scope;
    f->closures = s->closures;
    s->stack[s->n++] = f->loop->items.as.items[f->loop->at++];
    return true;
}

bool qsf_jinja_run_loop(run_state *s, const jinja_code *c, jinja_value *top, uint32_t *ip)
{
    run_for *f = s->fors ? &s->f[s->fors - 1] : NULL;
    switch ((jinja_op)c->op) {
    case JOP_FOR:
        s->n--;
        return loop_begin(s, c->n, c->arg, top);
    case JOP_NEXT: return loop_next(s, c->arg, ip);
    case JOP_KEEP:
        if (qsf_jinja_true(top)) f->kept[f->n_kept++] = f->loop->items.as.items[f->loop->at - 1];
        s->n--;
        return true;
    case JOP_KEPT:
        s->fors--;
        s->stack[s->n++] = qsf_jinja_list(f->kept, f->n_kept);
        return true;
    case JOP_FOR_END:
        s->fors--;
        if (f->loop->items.n) *ip = c->arg;
        return true;
    case JOP_LOOP_END:                          /* of a recursive one: was it called? */
        if (!s->calls || !s->call[s->calls - 1].depth || s->call[s->calls - 1].fors != s->fors) return true;
        if (!qsf_jinja_run_captured(s, &s->stack[s->n])) return false;
        s->n++;
        qsf_jinja_run_return(s, ip);
        return true;
    default:                                    /* JOP_BREAK */
        loop_unwind(s);
        s->fors--;
        *ip = c->arg;
        return true;
    }
}
