/* Jinja: reaching into values: items, attributes, slices.
 * SPDX-License-Identifier: MIT */
#include "chat/jinja_own.h"

jinja_value *qsf_jinja_items(jinja_run *r, size_t n)
{
    return qsf_jinja_charge(r, n * sizeof(jinja_value)) ? qsf_jinja_room(r, n * sizeof(jinja_value)) : NULL;
}

bool qsf_jinja_iterate(jinja_run *r, const jinja_value *v, jinja_value *out)
{
    jinja_value *items;
    jinja_loop *l;
    uint32_t n = 0;
    switch (v->type) {
    case QSF_JINJA_UNDEFINED: return qsf_jinja_give_list(out, NULL, 0);
    case QSF_JINJA_LIST: case QSF_JINJA_TUPLE: case QSF_JINJA_RANGE: case QSF_JINJA_VIEW:
        *out = *v;
        return true;
    case QSF_JINJA_ITER:
        l = v->as.own;
        if ((r->st = l->st)) {
            if (r->err) *r->err = l->error;
            return false;
        }
        *out = l->items;
        if (l->at) out->as.items += l->at;
        out->n -= l->at;
        l->at = l->items.n;
        return true;
    case QSF_JINJA_DICT:
        if (!(items = qsf_jinja_items(r, v->n))) return false;
        for (; n < v->n; n++) items[n] = v->as.items[2 * n];
        break;
    case QSF_JINJA_TEXT:
        if (!(items = qsf_jinja_items(r, v->n))) return false;
        for (size_t at = 0, used; at < v->n; at += used) {
            (void)qsf_utf8_decode(v->as.text + at, v->n - at, &used);
            items[n] = jinja_part(v, at, at + used);
            items[n++].flags &= QSF_JINJA_OWN;
        }
        break;
    default: return qsf_jinja_fail(r, QSF_E_ARGUMENT, "a value of type %s has no items",
                                   qsf_jinja_type_name(v));
    }
    return qsf_jinja_give_list(out, items, n);
}

/* ---- dicts ---- */

bool qsf_jinja_hashable(jinja_run *r, const jinja_value *v)
{
    if (v->type == QSF_JINJA_LIST || v->type == QSF_JINJA_DICT)
        return qsf_jinja_fail(r, QSF_E_ARGUMENT, "a value of type %s cannot be a key",
                              qsf_jinja_type_name(v));
    for (uint32_t i = 0; v->type == QSF_JINJA_TUPLE && i < v->n; i++)
        if (v->as.items[i].type == QSF_JINJA_LIST || v->as.items[i].type == QSF_JINJA_DICT)
            return qsf_jinja_hashable(r, &v->as.items[i]);
    return true;
}

static const jinja_value *lookup_text(const jinja_value *pairs, uint32_t n, const char *key, size_t len)
{
    for (uint32_t i = 0; i < n; i++) {
        const jinja_value *k = &pairs[2 * i];
        if (k->type == QSF_JINJA_TEXT && k->n == len && !memcmp(k->as.text, key, len)) return k + 1;
    }
    return NULL;
}

bool qsf_jinja_lookup(jinja_run *r, const jinja_value *dict, const jinja_value *key, const jinja_value **out)
{
    *out = NULL;
    if (key->type == QSF_JINJA_TEXT) {
        *out = lookup_text(dict->as.items, dict->n, key->as.text, key->n);
        return qsf_jinja_charge_each(r, dict->n);
    }
    if (!qsf_jinja_hashable(r, key)) return false;
    for (uint32_t i = 0; i < dict->n && !*out; i++) {
        bool same;
        if (!qsf_jinja_equal(r, &dict->as.items[2 * i], key, &same)) return false;
        if (same) *out = &dict->as.items[2 * i + 1];
    }
    return true;
}

bool qsf_jinja_make_dict(jinja_run *r, jinja_value *pairs, uint32_t n, jinja_value *out)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        const jinja_value so_far = qsf_jinja_dict(pairs, used), *found;
        if (!qsf_jinja_hashable(r, &pairs[2 * i])
            || !qsf_jinja_lookup(r, &so_far, &pairs[2 * i], &found)) return false;
        if (found) pairs[found - pairs] = pairs[2 * i + 1];
        else {
            const jinja_value value = pairs[2 * i + 1];
            pairs[2 * used] = pairs[2 * i];
            pairs[2 * used++ + 1] = value;
        }
    }
    *out = qsf_jinja_dict(pairs, used);
    return true;
}

/* ---- attributes ---- */

static bool reach_loop(jinja_run *r, const jinja_loop *l, const char *name, size_t n, jinja_value *out)
{
    static const char *const names[] = { "index", "index0", "first", "last", "length", "revindex",
                                         "revindex0",
                                         "depth", "depth0", "previtem", "nextitem" };
    const int64_t at = l->at, len = l->items.n;
    size_t k = 0;
    (void)r;
    while (k < QSF_ARRAY_LEN(names) && !(strlen(names[k]) == n && !memcmp(names[k], name, n))) k++;
    const int64_t numbers[] = { at, at - 1, at == 1, at == len, len, len - at + 1, len - at, l->depth + 1,
                                l->depth };
    if (k < QSF_ARRAY_LEN(numbers)) *out = k == 2 || k == 3 ? qsf_jinja_bool(numbers[k] != 0)
                                                            : qsf_jinja_int(numbers[k]);
    else if (k == 9 && at > 1) *out = l->items.as.items[at - 2];
    else if (k == 10 && at < len) *out = l->items.as.items[at];
    return k < QSF_ARRAY_LEN(names);
}

static bool reach_macro(jinja_run *r, const jinja_closure *c, const char *name, size_t n, jinja_value *out)
{
    static const char *const names[] = { "caller", "catch_kwargs", "catch_varargs", "name", "arguments" };
    const jinja_symbol *symbols = r->t->symbols;
    const jinja_macro *m = c->macro;
    size_t k = 0;
    while (k < QSF_ARRAY_LEN(names) && !(strlen(names[k]) == n && !memcmp(names[k], name, n))) k++;
    if (k < 3) *out = qsf_jinja_bool(m->takes >> k & 1);
    else if (k == 3)
        *out = m->name == JINJA_NO_SYMBOL ? (jinja_value){ .type = QSF_JINJA_NONE }
                                          : qsf_jinja_text_n(symbols[m->name].text, symbols[m->name].n);
    else if (k == 4) {
        jinja_value *items = qsf_jinja_items(r, m->n_params);
        if (!items) return false;
        for (uint32_t i = 0; i < m->n_params; i++)
            items[i] = qsf_jinja_text_n(symbols[m->params[i]].text, symbols[m->params[i]].n);
        *out = (jinja_value){ .type = QSF_JINJA_TUPLE, .n = m->n_params, .as.items = items };
    }
    return true;
}

/* v.name: a method, or else the member of v by that name. */
bool qsf_jinja_attribute(jinja_run *r, const jinja_value *v, const char *name, size_t n, int method,
                         jinja_value *out)
{
    const jinja_value *found = NULL;
    const jinja_loop *l = v->as.own;
    *out = (jinja_value){ .type = QSF_JINJA_UNDEFINED, .n = (uint32_t)n, .as.text = name };
    if (method && qsf_jinja_has_method(v, method)) {
        if (method >= JM_CHANGE) return true;           /* nothing changes: it is not there */
        jinja_value *self = qsf_jinja_room(r, sizeof *self);
        if (!self) return false;
        *self = *v;
        *out = (jinja_value){ .type = QSF_JINJA_METHOD, .id = (uint16_t)method, .as.items = self };
        return true;
    }
    switch (v->type) {
    case QSF_JINJA_UNDEFINED: return qsf_jinja_undefined(r, v);
    case QSF_JINJA_LOOP: (void)reach_loop(r, l, name, n, out); return true;
    case QSF_JINJA_MACRO: return reach_macro(r, v->as.own, name, n, out);
    case QSF_JINJA_SPACE: {
        const jinja_space *o = v->as.own;
        if (!qsf_jinja_charge_each(r, o->n)) return false;
        found = lookup_text(o->pairs, o->n, name, n);
        break;
    }
    case QSF_JINJA_DICT: found = lookup_text(v->as.items, v->n, name, n); break;
    case QSF_JINJA_TUPLE:
        if (v->id && n == 7 && !memcmp(name, "grouper", 7)) found = &v->as.items[0];
        if (v->id && n == 4 && !memcmp(name, "list", 4)) found = &v->as.items[1];
        break;
    case QSF_JINJA_CYCLER:
        if (n == 7 && !memcmp(name, "current", 7)) found = &l->items.as.items[l->at];
        break;
    default: break;
    }
    if (found) *out = *found;
    return v->type != QSF_JINJA_DICT || qsf_jinja_charge_each(r, v->n);
}

/* ---- items and slices ---- */

/* Texts are UTF-8, or what stands for it. */
uint32_t qsf_jinja_offset(const jinja_value *v, size_t i)
{
    size_t at = 0, used;
    for (; i && at < v->n; i--, at += used) (void)qsf_utf8_decode(v->as.text + at, v->n - at, &used);
    return (uint32_t)at;
}
size_t qsf_jinja_length(const jinja_value *v)
{
    size_t n = 0, used;
    if (v->type != QSF_JINJA_TEXT) return v->n;
    for (size_t at = 0; at < v->n; at += used, n++) (void)qsf_utf8_decode(v->as.text + at, v->n - at, &used);
    return n;
}

static bool reach_has_places(const jinja_value *v)
{
    return v->type >= QSF_JINJA_TEXT && v->type <= QSF_JINJA_RANGE;
}

bool qsf_jinja_item(jinja_run *r, const jinja_value *v, const jinja_value *key, jinja_value *out)
{
    const jinja_value k = *key;
    *out = (jinja_value){ .type = QSF_JINJA_UNDEFINED,
                          .n = k.type == QSF_JINJA_TEXT ? k.n : 7,
                          .as.text = k.type == QSF_JINJA_TEXT ? k.as.text : "an item" };
    if (v->type == QSF_JINJA_UNDEFINED) return qsf_jinja_undefined(r, v);
    if (v->type == QSF_JINJA_DICT && k.type != QSF_JINJA_LIST && k.type != QSF_JINJA_DICT) {
        const jinja_value *found;
        if (!qsf_jinja_lookup(r, v, &k, &found)) return false;
        if (found) {
            *out = *found;
            return true;
        }
    } else if (reach_has_places(v) && (k.type == QSF_JINJA_INT || k.type == QSF_JINJA_BOOL)) {
        const int64_t n = (int64_t)qsf_jinja_length(v), i = k.as.i < 0 ? k.as.i + n : k.as.i;
        if (!qsf_jinja_charge_each(r, v->type == QSF_JINJA_TEXT ? v->n : 0)) return false;
        if (i < 0 || i >= n) return true;
        if (v->type != QSF_JINJA_TEXT) *out = v->as.items[i];
        else *out = jinja_part(v, qsf_jinja_offset(v, (size_t)i), qsf_jinja_offset(v, (size_t)i + 1));
        return true;
    }
    if (k.type != QSF_JINJA_TEXT) return true;
    const int method = qsf_jinja_method_id(k.as.text, k.n); /* v["strip"] is v.strip without such an item */
    if (v->type == QSF_JINJA_DICT && !(method && qsf_jinja_has_method(v, method))) return true;
    return qsf_jinja_attribute(r, v, k.as.text, k.n, method, out);
}

/* A bound of a slice as Python reads it, into [least, most]. */
static bool slice_bound(jinja_run *r, const jinja_value *b, int64_t n, int64_t least, int64_t most,
                        int64_t *out)
{
    if (b->type == QSF_JINJA_NONE) return true;
    if (!qsf_jinja_whole(r, b, false, out)) return false;
    if (*out < 0) *out = *out < -n ? least : *out + n;
    *out = QSF_MAX(QSF_MIN(*out, most), least);
    return true;
}

bool qsf_jinja_slice(jinja_run *r, const jinja_value *v, const jinja_value bounds[3], jinja_value *out)
{
    const bool text = v->type == QSF_JINJA_TEXT;
    int64_t step = 1;
    if (v->type == QSF_JINJA_UNDEFINED) return qsf_jinja_undefined(r, v);
    if (!reach_has_places(v))
        return qsf_jinja_fail(r, QSF_E_ARGUMENT, "a value of type %s has no slices", qsf_jinja_type_name(v));
    const int64_t n = (int64_t)qsf_jinja_length(v);
    if (!qsf_jinja_whole(r, &bounds[2], true, &step)) return false;
    if (!step) return qsf_jinja_refuse(r, "a slice of step 0");
    step = QSF_MAX(QSF_MIN(step, n + 1), -n - 1);
    const int64_t least = step < 0 ? -1 : 0, most = step < 0 ? n - 1 : n;
    int64_t from = step < 0 ? n - 1 : 0, to = step < 0 ? -1 : n;
    if (!slice_bound(r, &bounds[0], n, least, most, &from) || !slice_bound(r, &bounds[1], n, least, most, &to)
        || !qsf_jinja_charge(r, v->n * (text ? 8 : sizeof *v)))
        return false;
    if (v->type == QSF_JINJA_RANGE)
        return qsf_jinja_unknown(r, "slices of ranges are not supported; make a list of it");
    if (step == 1) {
        *out = *v;
        if (text) {
            const uint32_t at = qsf_jinja_offset(v, (size_t)from);
            *out = jinja_part(v, at, to > from ? qsf_jinja_offset(v, (size_t)to) : at);
        } else {
            if (v->n) out->as.items += from;
            out->n = (uint32_t)QSF_MAX(to - from, 0);
            out->id = 0;
        }
        return true;
    }
    jinja_value list;
    if (!qsf_jinja_iterate(r, v, &list)) return false;
    jinja_value *items = text ? NULL : qsf_jinja_items(r, v->n);
    jinja_sink s = qsf_jinja_begin_text(r);
    uint32_t count = 0;
    if (!text && !items) return false;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
        if (!text) items[count++] = list.as.items[i];
        else if (!qsf_jinja_put_text(r, &s, &list.as.items[i])) return false;
    if (text) {
        *out = qsf_jinja_end_text(r, &s);
        out->flags |= v->flags & QSF_JINJA_SAFE;
    } else *out = (jinja_value){ .type = v->type, .n = count, .as.items = items };
    return true;
}
