/* Jinja: filters on the items of a value.
 * SPDX-License-Identifier: MIT */
#include "chat/jinja_own.h"

static const jinja_value filter_none = { .type = QSF_JINJA_NONE };

/* A generator of Python: its items can be had once, it is true, and has neither length nor
 * places. */
static bool filter_generator(jinja_run *r, jinja_value *items, uint32_t n, jinja_value *out)
{
    jinja_loop *l = qsf_jinja_room(r, sizeof *l);
    if (!l) return false;
    *l = (jinja_loop){ .items = qsf_jinja_list(items, n) };
    *out = (jinja_value){ .type = QSF_JINJA_ITER, .as.own = l };
    return true;
}

/* ---- attributes ---- */

/* What "a.b.0" is in v; a number is an index.  unset: in place of what is not there. */
static bool filter_path(jinja_run *r, const jinja_value *v, const jinja_value *path, const jinja_value *unset,
                        jinja_value *out)
{
    jinja_value at = *v, item;
    if (!jinja_given(unset)) unset = NULL;
    if (path->type != QSF_JINJA_TEXT) {
        if (!qsf_jinja_item(r, v, path, out)) return false;
        if (unset && out->type == QSF_JINJA_UNDEFINED) *out = *unset;
        return true;
    }
    for (uint32_t i = 0, end; i <= path->n; i = end + 1) {
        int64_t number = 0;
        for (end = i; end < path->n && path->as.text[end] != '.'; end++)
            number = path->as.text[end] >= '0' && path->as.text[end] <= '9' && number >= 0 && number < 100000
                         ? 10 * number + (path->as.text[end] - '0')
                         : -1;
        const jinja_value key = number >= 0 && end > i ? qsf_jinja_int(number) : jinja_part(path, i, end);
        if (!qsf_jinja_item(r, &at, &key, &item)) return false;
        at = unset && item.type == QSF_JINJA_UNDEFINED ? *unset : item;
    }
    *out = at;
    return true;
}

/* What values are ordered by: an attribute, and texts in small letters. */
static bool filter_key(jinja_run *r, const jinja_value *v, const jinja_value *attribute,
                       const jinja_value *unset, bool exact, jinja_value *out)
{
    *out = *v;
    if (jinja_given(attribute) && !filter_path(r, v, attribute, unset, out)) return false;
    if (exact || out->type != QSF_JINJA_TEXT) return true;
    const jinja_value text = *out;
    return qsf_jinja_lower_text(r, &text, out);
}

/* The same by several attributes with commas between them: a list. */
static bool filter_keys(jinja_run *r, const jinja_value *v, const jinja_value *attribute, bool exact,
                        jinja_value *out)
{
    uint32_t n = 1, from = 0, end = 0;
    if (!attribute || attribute->type != QSF_JINJA_TEXT || !memchr(attribute->as.text, ',', attribute->n))
        return filter_key(r, v, attribute, NULL, exact, out);
    for (uint32_t i = 0; i < attribute->n; i++) n += attribute->as.text[i] == ',';
    jinja_value *keys = qsf_jinja_items(r, n);
    if (!keys) return false;
    for (uint32_t i = 0; i < n; i++, from = end + 1) {
        for (end = from; end < attribute->n && attribute->as.text[end] != ','; end++) { }
        const jinja_value part = jinja_part(attribute, from, end);
        if (!filter_key(r, v, &part, NULL, exact, &keys[i])) return false;
    }
    return qsf_jinja_give_list(out, keys, n);
}

/* By insertion at a place that halving finds; equal ones keep their order.  equal_first: what is
 * equal needs no order, as in lists. */
static bool filter_order(jinja_run *r, jinja_value *items, jinja_value *keys, uint32_t count, bool reverse,
                         bool equal_first)
{
    for (uint32_t n = 1; n < count; n++) {
        const jinja_value item = items[n], key = keys[n];
        uint32_t from = 0, to = n;
        while (from < to) {
            const uint32_t half = (from + to) / 2;
            bool less, same = false;
            if (equal_first && !qsf_jinja_equal(r, &keys[half], &key, &same)) return false;
            less = false;
            if (!same && !qsf_jinja_less(r, reverse ? &keys[half] : &key, reverse ? &key : &keys[half],
                                         &less))
                return false;
            if (less) to = half;
            else from = half + 1;
        }
        if (!qsf_jinja_charge(r, (n - from) * 2 * sizeof *items)) return false;
        memmove(&items[from + 1], &items[from], (n - from) * sizeof *items);
        memmove(&keys[from + 1], &keys[from], (n - from) * sizeof *keys);
        items[from] = item;
        keys[from] = key;
    }
    return true;
}

/* lists: keys are compared as lists of one item, as the sort filter of jinja2 has them. */
static bool filter_sort(jinja_run *r, const jinja_value *list, const jinja_value *attribute, bool exact,
                        bool reverse, bool lists, jinja_value *out)
{
    jinja_value *items = qsf_jinja_items(r, list->n), *keys = qsf_jinja_items(r, list->n);
    if (!items || !keys) return false;
    for (uint32_t i = 0; i < list->n; i++) {
        items[i] = list->as.items[i];
        if (!filter_keys(r, &items[i], attribute, exact, &keys[i])) return false;
    }
    *out = qsf_jinja_list(items, list->n);
    return filter_order(r, items, keys, list->n, reverse, lists);
}

static bool filter_best(jinja_run *r, const jinja_value *list, const jinja_value *attribute, bool exact,
                        bool most, jinja_value *out)
{
    jinja_value key, best = { .type = QSF_JINJA_UNDEFINED };
    for (uint32_t i = 0; i < list->n; i++) {
        bool less = !i;
        if (!filter_key(r, &list->as.items[i], attribute, NULL, exact, &key)) return false;
        if (i && !qsf_jinja_less(r, most ? &best : &key, most ? &key : &best, &less)) return false;
        if (!less) continue;
        best = key;
        *out = list->as.items[i];
    }
    return true;
}

static bool filter_unique(jinja_run *r, const jinja_value *list, const jinja_bound *b, jinja_value *out)
{
    jinja_value *items = qsf_jinja_items(r, list->n), *keys = qsf_jinja_items(r, list->n);
    uint32_t n = 0;
    if (!items || !keys) return false;
    for (uint32_t i = 0; i < list->n; i++) {
        bool same = false;
        if (!filter_key(r, &list->as.items[i], b->arg[1], NULL, jinja_flag(b->arg[0]), &keys[n])
            || !qsf_jinja_hashable(r, &keys[n]))
            return false;
        for (uint32_t k = 0; k < n && !same; k++)
            if (!qsf_jinja_equal(r, &keys[k], &keys[n], &same)) return false;
        if (!same) items[n++] = list->as.items[i];
    }
    return filter_generator(r, items, n, out);
}

bool qsf_jinja_pairs(jinja_run *r, const jinja_value *dict, jinja_value *out)
{
    jinja_value *items = qsf_jinja_items(r, dict->n);
    if (!items) return false;
    for (uint32_t i = 0; i < dict->n; i++)
        items[i] = (jinja_value){ .type = QSF_JINJA_TUPLE, .n = 2, .as.items = &dict->as.items[2 * i] };
    return qsf_jinja_give_list(out, items, dict->n);
}

static bool filter_group(jinja_run *r, const jinja_value *list, const jinja_bound *b, jinja_value *out)
{
    const bool exact = jinja_flag(b->arg[2]);
    jinja_value *items = qsf_jinja_items(r, list->n), *keys = qsf_jinja_items(r, list->n),
                *groups = qsf_jinja_items(r, list->n), *pairs = qsf_jinja_items(r, 2 * (size_t)list->n);
    uint32_t n = 0;
    if (!items || !keys || !groups || !pairs) return false;
    for (uint32_t i = 0; i < list->n; i++) {
        items[i] = list->as.items[i];
        if (!filter_key(r, &items[i], b->arg[0], b->arg[1], exact, &keys[i])) return false;
    }
    if (!filter_order(r, items, keys, list->n, false, false)) return false;
    for (uint32_t i = 0; i < list->n; i++) {
        bool same = false;
        if (i && !qsf_jinja_equal(r, &keys[i - 1], &keys[i], &same)) return false;
        if (!same) {
            if (!filter_key(r, &items[i], b->arg[0], b->arg[1], true, &pairs[2 * n])) return false;
            pairs[2 * n + 1] = qsf_jinja_list(&items[i], 0);
            groups[n] = (jinja_value){ .type = QSF_JINJA_TUPLE, .id = 1, .n = 2, .as.items = &pairs[2 * n] };
            n++;
        }
        pairs[2 * n - 1].n++;
    }
    return qsf_jinja_give_list(out, groups, n);
}

/* select, reject, selectattr, rejectattr: items that a test takes, or that are true. */
static bool filter_pick(jinja_run *r, int id, const jinja_value *list, const jinja_args *a, jinja_value *out)
{
    const uint32_t first = id == JF_SELECTATTR || id == JF_REJECTATTR;
    const bool wanted = id == JF_SELECT || id == JF_SELECTATTR;
    int test = -1;
    uint32_t n = 0;
    if (a->n < first) return qsf_jinja_refuse(r, "the name of an attribute is missing");
    if (a->n > first) {
        const jinja_value *name = &a->pos[first];
        test = name->type == QSF_JINJA_TEXT ? qsf_jinja_test_id(name->as.text, name->n) : -1;
        if (test < 0 && list->n) return qsf_jinja_refuse(r, "unknown test");
    }
    const uint32_t skipped = QSF_MIN(first + 1, a->n);
    const jinja_args rest = { a->pos + skipped, a->n - skipped, a->n_kw };
    jinja_value *items = qsf_jinja_items(r, list->n);
    if (!items) return false;
    for (uint32_t i = 0; i < list->n; i++) {
        jinja_value v = list->as.items[i];
        if (first && !filter_path(r, &list->as.items[i], &a->pos[0], NULL, &v)) return false;
        bool is = qsf_jinja_true(&v);
        if (test >= 0 && !qsf_jinja_test(r, test, &v, &rest, &is)) return false;
        if (is == wanted) items[n++] = list->as.items[i];
    }
    return filter_generator(r, items, n, out);
}

static bool filter_map(jinja_run *r, const jinja_value *list, const jinja_args *a, jinja_value *out)
{
    const jinja_value *attribute = NULL, *unset = NULL, *name = a->n ? &a->pos[0] : NULL;
    int id = -1;
    for (uint32_t k = 0; !a->n && k < a->n_kw; k++) {
        const jinja_value *pair = &a->pos[2 * k];
        if (qsf_jinja_text_is(pair, "attribute")) attribute = pair + 1;
        else if (qsf_jinja_text_is(pair, "default")) unset = pair + 1;
        else return qsf_jinja_refuse(r, "map has no such argument");
    }
    if (!list->n) return filter_generator(r, NULL, 0, out);
    if (name && name->type == QSF_JINJA_TEXT) id = qsf_jinja_filter_id(name->as.text, name->n);
    if (!attribute && id < 0) return qsf_jinja_refuse(r, "map needs an attribute or a filter that exists");
    const jinja_args rest = { a->pos + 1, a->n - 1, a->n_kw };
    jinja_value *items = qsf_jinja_items(r, list->n);
    if (!items || !qsf_jinja_deeper(r)) return false;
    for (uint32_t i = 0; i < list->n; i++)
        if (attribute ? !filter_path(r, &list->as.items[i], attribute, unset, &items[i])
                      : !qsf_jinja_filter(r, id, &list->as.items[i], &rest, &items[i]))
            return false;
    r->depth--;
    return filter_generator(r, items, list->n, out);
}

static bool filter_sum(jinja_run *r, const jinja_value *list, const jinja_bound *b, jinja_value *out)
{
    *out = b->arg[1] ? *b->arg[1] : qsf_jinja_int(0);
    if (out->type == QSF_JINJA_TEXT) return qsf_jinja_refuse(r, "strings cannot be summed; use join");
    for (uint32_t i = 0; i < list->n; i++) {
        jinja_value v = list->as.items[i];
        const jinja_value so_far = *out;
        if (jinja_given(b->arg[0]) && !filter_path(r, &list->as.items[i], b->arg[0], NULL, &v)) return false;
        if (!qsf_jinja_binary(r, JOP_ADD, &so_far, &v, out)) return false;
    }
    return true;
}

/* ---- parts ---- */

static bool filter_part(jinja_run *r, const jinja_value *list, int64_t from, int64_t n, int64_t fill,
                        const jinja_value *with, jinja_value *out)
{
    jinja_value *items = qsf_jinja_items(r, (size_t)(n + fill));
    if (!items) return false;
    if (n) memcpy(items, list->as.items + from, (size_t)n * sizeof *items);
    for (int64_t i = 0; i < fill; i++) items[n + i] = *with;
    return qsf_jinja_give_list(out, items, (size_t)(n + fill));
}

/* batch: lists of n items; slice: n lists. */
static bool filter_cut(jinja_run *r, bool batch, const jinja_value *list, const jinja_bound *b,
                       jinja_value *out)
{
    const jinja_value *with = jinja_given(b->arg[1]) ? b->arg[1] : NULL;
    int64_t count = 0, at = 0, parts;
    if (!qsf_jinja_whole(r, b->arg[0], false, &count)) return false;
    if (count > 100000) return qsf_jinja_fail(r, QSF_E_BUDGET, "a list cannot be split into this many parts");
    if (!count && !batch) return qsf_jinja_refuse(r, "a list cannot be split into 0 parts");
    if (batch && count <= 0) return qsf_jinja_unknown(r, "batches of size 0 are not supported");
    parts = QSF_MAX(batch ? ((int64_t)list->n + count - 1) / count : count, 0);
    jinja_value *lists = qsf_jinja_items(r, (size_t)parts);
    if (!lists) return false;
    for (int64_t i = 0; i < parts; i++) {
        const int64_t n = batch ? QSF_MIN(count, list->n - at) : list->n / count + (i < list->n % count);
        const int64_t fill = !with ? 0 : batch ? count - n : i >= list->n % count;
        if (!filter_part(r, list, at, n, fill, with, &lists[i])) return false;
        at += n;
    }
    return filter_generator(r, lists, (uint32_t)parts, out);
}

static bool filter_reverse(jinja_run *r, const jinja_value *v, jinja_value *out)
{
    const jinja_value bounds[3] = { filter_none, filter_none, qsf_jinja_int(-1) };
    jinja_value list, back;
    if (v->type == QSF_JINJA_TEXT) return qsf_jinja_slice(r, v, bounds, out);
    if (!qsf_jinja_iterate(r, v, &list)) return false;
    list.type = QSF_JINJA_LIST;
    if (!qsf_jinja_slice(r, &list, bounds, &back)) return false;
    *out = back;
    return v->type == QSF_JINJA_ITER || filter_generator(r, (jinja_value *)back.as.items, back.n, out);
}

/* ---- all of them ---- */

/* Those that do not go through the items one by one. */
static bool filter_whole(jinja_run *r, int id, const jinja_value *v, const jinja_bound *b, jinja_value *out,
                         bool *done)
{
    *done = true;
    switch (id) {
    case JF_LENGTH: case JF_COUNT:
        if (v->type != QSF_JINJA_UNDEFINED && v->type != QSF_JINJA_LOOP
            && (v->type < QSF_JINJA_TEXT || v->type > QSF_JINJA_DICT || v->type == QSF_JINJA_ITER))
            return qsf_jinja_fail(r, QSF_E_ARGUMENT, "a value of type %s has no length",
                                  qsf_jinja_type_name(v));
        *out = qsf_jinja_int(v->type == QSF_JINJA_UNDEFINED ? 0
                             : v->type == QSF_JINJA_LOOP ? ((const jinja_loop *)v->as.own)->items.n
                                                         : (int64_t)qsf_jinja_length(v));
        return qsf_jinja_charge_each(r, v->type == QSF_JINJA_TEXT ? v->n : 0);
    case JF_REVERSE: return filter_reverse(r, v, out);
    case JF_ITEMS: case JF_DICTSORT: {
        jinja_value pairs;
        const jinja_value *by = b->arg[1], place = qsf_jinja_int(by && qsf_jinja_text_is(by, "value"));
        if (v->type == QSF_JINJA_UNDEFINED && id == JF_ITEMS) return filter_generator(r, NULL, 0, out);
        if (v->type != QSF_JINJA_DICT)
            return qsf_jinja_fail(r, QSF_E_ARGUMENT, "only a dict has items, not %s", qsf_jinja_type_name(v));
        if (id == JF_DICTSORT && by && !qsf_jinja_text_is(by, "key") && !place.as.i)
            return qsf_jinja_refuse(r, "a dict is sorted by key or value");
        if (!qsf_jinja_pairs(r, v, &pairs)) return false;
        if (id == JF_ITEMS) return filter_generator(r, (jinja_value *)pairs.as.items, pairs.n, out);
        return filter_sort(r, &pairs, &place, jinja_flag(b->arg[0]), jinja_flag(b->arg[2]), false, out);
    }
    case JF_FIRST: case JF_LAST:
        *out = (jinja_value){ .type = QSF_JINJA_UNDEFINED, .n = 7, .as.text = "an item" };
        if (v->type == QSF_JINJA_ITER && id == JF_LAST)
            return qsf_jinja_refuse(r, "a generator has no last item");
        if (v->type != QSF_JINJA_ITER) break;
        {
            jinja_loop *l = v->as.own;
            jinja_value items;
            if (l->st) return qsf_jinja_iterate(r, v, &items);
            if (l->at < l->items.n) *out = l->items.as.items[l->at++];
            return true;
        }
    default: break;
    }
    *done = false;
    return true;
}

static bool filter_now(jinja_run *r, int id, const jinja_value *v, const jinja_args *a, const jinja_bound *b,
                       jinja_value *out)
{
    const bool lazy = id >= JF_MAP && id <= JF_SELECTATTR && id != JF_MAX && id != JF_MIN;
    jinja_value list = qsf_jinja_list(NULL, 0);
    bool done;
    if (!filter_whole(r, id, v, b, out, &done) || done) return r->st == QSF_OK;
    if ((!lazy || qsf_jinja_true(v)) && (!qsf_jinja_iterate(r, v, &list) || !qsf_jinja_charge(r, list.n)))
        return false;
    switch (id) {
    case JF_LIST:
        *out = list;
        out->type = QSF_JINJA_LIST;
        return true;
    case JF_FIRST: if (list.n) *out = list.as.items[0]; return true;
    case JF_LAST: if (list.n) *out = list.as.items[list.n - 1]; return true;
    case JF_MAP: return filter_map(r, &list, a, out);
    case JF_SORT:
        return filter_sort(r, &list, b->arg[2], jinja_flag(b->arg[1]), jinja_flag(b->arg[0]), true, out);
    case JF_MIN: case JF_MAX:
        *out = (jinja_value){ .type = QSF_JINJA_UNDEFINED, .n = 7, .as.text = "an item" };
        return filter_best(r, &list, b->arg[1], jinja_flag(b->arg[0]), id == JF_MAX, out);
    case JF_UNIQUE: return filter_unique(r, &list, b, out);
    case JF_GROUPBY: return filter_group(r, &list, b, out);
    case JF_SUM: return filter_sum(r, &list, b, out);
    case JF_BATCH: case JF_SLICE: return filter_cut(r, id == JF_BATCH, &list, b, out);
    case JF_JOIN: {
        jinja_value between = qsf_jinja_text(""), items = list;
        if (b->arg[0] && !qsf_jinja_to_text(r, b->arg[0], &between)) return false;
        if (jinja_given(b->arg[1])) {
            jinja_value *of = qsf_jinja_items(r, list.n);
            if (!of) return false;
            for (uint32_t i = 0; i < list.n; i++)
                if (!filter_path(r, &list.as.items[i], b->arg[1], NULL, &of[i])) return false;
            items = qsf_jinja_list(of, list.n);
        }
        return qsf_jinja_text_join(r, &between, &items, true, out);
    }
    default: return filter_pick(r, id, &list, a, out);
    }
}

/* A generator makes its items on demand, so errors are only reported then. */
bool qsf_jinja_filter_items(jinja_run *r, int id, const jinja_value *v, const jinja_args *a,
                            const jinja_bound *b,
                            jinja_value *out)
{
    const bool lazy = id == JF_MAP || id == JF_SELECT || id == JF_SELECTATTR || id == JF_REJECT
        || id == JF_UNIQUE
                      || id == JF_REJECTATTR || id == JF_BATCH || id == JF_SLICE || id == JF_ITEMS;
    const uint32_t depth = r->depth;
    if (filter_now(r, id, v, a, b, out)) return true;
    if (!lazy || (r->st != QSF_E_ARGUMENT && r->st != QSF_E_UNSUPPORTED)) return false;
    jinja_loop *l = qsf_jinja_take(r->mem, sizeof *l);
    if (!l) return false;
    *l = (jinja_loop){ .items = qsf_jinja_list(NULL, 0), .st = r->st };
    if (r->err) l->error = *r->err;
    r->st = QSF_OK;
    r->depth = depth;
    *out = (jinja_value){ .type = QSF_JINJA_ITER, .as.own = l };
    return true;
}
