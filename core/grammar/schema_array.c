/* JSON Schema, lists: item by item, and how many of them.
 * SPDX-License-Identifier: MIT */
#include "grammar/schema_own.h"

enum { ARRAY_MAX_STATES = 5000, ARRAY_MAX_PREFIX = 10000 };

typedef struct array_keys { const qsf_json_node *prefix, *rest; uint32_t n; } array_keys;

static array_keys array_keys_of(schema *s, const schema_part *p)
{
    const schema_keys *k = qsf_schema_keys_of(s, p->v);
    const qsf_json_node *items = k->key[KEY_ITEMS], *prefix = k->key[KEY_PREFIX];
    array_keys a = { prefix, items, 0 };
    if (items && items->type == QSF_JSON_LIST) a.prefix = items, a.rest = k->key[KEY_MORE_ITEMS];
    if (a.prefix && a.prefix->type == QSF_JSON_LIST) a.n = a.prefix->n;
    return a;
}

/* The parts for item i; UINT32_MAX: for those beyond all prefixes. */
static bool array_child(schema *s, const schema_leaf *leaf, uint32_t i)
{
    bool fits = true;
    for (uint32_t k = 0; k < leaf->n && fits; k++) {
        const schema_part *p = &leaf->parts[k];
        const array_keys a = p->kind == PART_OWN ? array_keys_of(s, p) : (array_keys){ p->v, NULL, p->v->n };
        const qsf_json_node *v = a.prefix ? a.prefix + 1 : NULL;
        if (p->kind == PART_FLIP && p->arg == KEY_CONTAINS)
            fits = qsf_schema_child(s, qsf_schema_keys_of(s, p->v)->key[KEY_CONTAINS], PART_NOT);
        if (p->kind != PART_OWN && p->kind != PART_VALUE) continue;
        if (i < a.n) {
            for (uint32_t m = 0; m < i; m++) v = qsf_json_next(v);
            fits = qsf_schema_child(s, v, p->kind == PART_OWN ? PART_SCHEMA : PART_VALUE);
        } else if (p->kind == PART_VALUE) {
            fits = false;
        } else if (a.rest) {
            fits = qsf_schema_child(s, a.rest, PART_SCHEMA);
        } else if (qsf_schema_keys_of(s, p->v)->key[KEY_FREE_ITEMS]) {
            bool seen = false;
            for (uint32_t m = 0; m < leaf->n; m++) {
                const schema_part *q = &leaf->parts[m];
                if (q->kind != PART_OWN || q == p || !qsf_schema_comes_from(s, q, p)) continue;
                const array_keys b = array_keys_of(s, q);
                seen |= i < b.n || b.rest || qsf_schema_keys_of(s, q->v)->key[KEY_FREE_ITEMS];
            }
            if (!seen) fits = qsf_schema_child(s, qsf_schema_keys_of(s, p->v)->key[KEY_FREE_ITEMS],
                                               PART_SCHEMA);
        }
    }
    return fits;
}

/* The node of item i, with one more demand where also is given. */
static qsf_gnode array_item(schema *s, const schema_leaf *leaf, uint32_t i, const qsf_json_node *also,
                            part_kind kind)
{
    const uint32_t from = s->n_parts;
    if (!array_child(s, leaf, i) || (also && !qsf_schema_child(s, also, kind))) {
        s->n_parts = from;
        return s->none;
    }
    return qsf_schema_sequence(s, qsf_schema_value(s, from), s->blanks);
}

typedef struct array_demands {
    uint32_t least, most, prefix, least_in, most_in;
    const qsf_json_node *contains, *unique;
} array_demands;

static array_demands array_demands_of(schema *s, const schema_leaf *leaf)
{
    array_demands d = { 0, QSF_G_NO_MOST, 0, 0, QSF_G_NO_MOST, NULL, NULL };
    for (uint32_t i = 0; i < leaf->n && !s->failed; i++) {
        const schema_part *p = &leaf->parts[i];
        if (p->kind == PART_VALUE && p->v->type == QSF_JSON_LIST) {
            d.least = QSF_MAX(d.least, p->v->n);
            d.most = QSF_MIN(d.most, p->v->n);
            d.prefix = QSF_MAX(d.prefix, p->v->n);
        }
        if (p->kind != PART_OWN && p->kind != PART_FLIP) continue;
        const schema_keys *k = qsf_schema_keys_of(s, p->v);
        const uint32_t least = qsf_schema_count(s, k->key[KEY_MIN_ITEMS], 0),
                       most = qsf_schema_count(s, k->key[KEY_MAX_ITEMS], QSF_G_NO_MOST);
        if (p->kind == PART_FLIP) {
            if (p->arg == KEY_MIN_ITEMS && !least) d.least = QSF_G_NO_MOST, d.most = 0;
            else if (p->arg == KEY_MIN_ITEMS) d.most = QSF_MIN(d.most, least - 1);
            if (p->arg == KEY_MAX_ITEMS) d.least = QSF_MAX(d.least, most + 1);
            if (p->arg == KEY_ENUM || p->arg == KEY_CONST) {
                const qsf_json_node *v = p->arg == KEY_CONST ? k->key[KEY_CONST] : k->key[KEY_ENUM] + 1;
                for (uint32_t n = p->arg == KEY_CONST ? 1 : k->key[KEY_ENUM]->n; n; n--, v = qsf_json_next(v))
                    if (v->type == QSF_JSON_LIST)
                        qsf_schema_refuse(s, v, "the opposite of this list is not supported");
            }
            continue;
        }
        d.least = QSF_MAX(d.least, least);
        d.most = QSF_MIN(d.most, most);
        d.prefix = QSF_MAX(d.prefix, array_keys_of(s, p).n);
        if (k->key[KEY_UNIQUE] && k->key[KEY_UNIQUE]->type == QSF_JSON_TRUE) d.unique = k->key[KEY_UNIQUE];
        if (!k->key[KEY_CONTAINS]) continue;
        if (d.contains && d.contains != k->key[KEY_CONTAINS])
            qsf_schema_refuse(s, k->key[KEY_CONTAINS], "a second contains is not supported");
        if (s->free_used)
            qsf_schema_refuse(s, k->key[KEY_CONTAINS],
                              "contains together with unevaluated... is not supported");
        d.contains = k->key[KEY_CONTAINS];
        d.least_in = qsf_schema_count(s, k->key[KEY_MIN_CONTAINS], 1);
        d.most_in = qsf_schema_count(s, k->key[KEY_MAX_CONTAINS], QSF_G_NO_MOST);
    }
    if (d.contains && !d.least_in && d.most_in == QSF_G_NO_MOST) d.contains = NULL;
    return d;
}

/* The part between "[" and "]", item by item: at[i] is what may follow i items. */
static qsf_gnode array_items(schema *s, const schema_leaf *leaf, const array_demands *d)
{
    const qsf_gnode comma = qsf_schema_sign(s, ",");
    const uint32_t prefix = QSF_MIN(d->prefix, d->most);
    qsf_gnode at = s->empty;
    if (prefix > ARRAY_MAX_PREFIX) {
        qsf_schema_too_large(s, leaf->parts[0].v, "a list of more than 10,000 different items");
        return s->none;
    }
    if (d->most > prefix) {
        const qsf_gnode item = array_item(s, leaf, UINT32_MAX, NULL, 0);
        const uint32_t least = d->least > prefix ? d->least - prefix : 0,
                       most = d->most == QSF_G_NO_MOST ? d->most : d->most - prefix;
        if (item == s->none) {
            at = least ? s->none : s->empty;
        } else if (prefix) {
            at = qsf_g_repeat(s->b, qsf_schema_sequence(s, comma, item), least, most);
        } else {
            at = qsf_schema_sequence(s, item,
                                     qsf_g_repeat(s->b, qsf_schema_sequence(s, comma, item),
                                                  least ? least - 1 : 0,
                                                  most == QSF_G_NO_MOST ? most : most - 1));
            if (!least) at = qsf_schema_either(s, s->empty, at);
        }
    } else if (d->least > prefix) {
        return s->none;
    }
    for (uint32_t i = prefix; i-- > 0; ) {
        at = qsf_schema_sequence3(s, i ? comma : s->empty, array_item(s, leaf, i, NULL, 0), at);
        if (i >= d->least) at = qsf_schema_either(s, s->empty, at);
    }
    return at;
}

/* The same if some of the items have to fit contains: at[c] is what may follow c of those. */
static qsf_gnode array_contains(schema *s, const schema_leaf *leaf, const array_demands *d)
{
    const qsf_gnode comma = qsf_schema_sign(s, ",");
    const bool limited = d->most_in != QSF_G_NO_MOST, open = d->most == QSF_G_NO_MOST;
    const uint32_t counts = limited ? d->most_in : d->least_in,
                   len = open ? QSF_MAX(d->prefix, d->least) + 1 : d->most;
    if ((uint64_t)(counts + 1) * (len + 1) > ARRAY_MAX_STATES || d->least_in > counts) {
        if (d->least_in <= counts)
            qsf_schema_refuse(s, d->contains, "contains in a list of this many items is not supported");
        return s->none;
    }
    qsf_gnode *at = qsf_arena_array(s->arena, counts + 2, sizeof *at, "a schema", NULL);
    if (!at) {
        qsf_schema_no_memory(s);
        return s->none;
    }
    for (uint32_t i = len + 1; i-- > 0 && !s->failed; ) {
        const uint32_t index = i < d->prefix ? i : UINT32_MAX;
        const qsf_gnode before = i ? comma : s->empty;
        const qsf_gnode in = qsf_schema_sequence(s, before,
                                                 array_item(s, leaf, index, d->contains, PART_SCHEMA));
        const qsf_gnode out = qsf_schema_sequence(s, before,
                                                  limited ? array_item(s, leaf, index, d->contains, PART_NOT)
                                                      : array_item(s, leaf, index, NULL, 0));
        for (uint32_t c = 0; c <= counts; c++) {
            if (i == len && !open) {
                at[c] = c >= d->least_in ? s->empty : s->none;
            } else if (i == len) {
                const qsf_gnode others =
                    out == s->none ? s->empty : qsf_g_repeat(s->b, out, 0, QSF_G_NO_MOST);
                const qsf_gnode one = qsf_schema_sequence(s, others, in);
                const uint32_t least = d->least_in > c ? d->least_in - c : 0,
                               most = limited ? counts - c : least;
                at[c] = qsf_schema_sequence(
                    s, one == s->none ? least ? s->none : s->empty : qsf_g_repeat(s->b, one, least, most),
                    others);
            } else {
                const qsf_gnode more =
                    c < counts || !limited ? qsf_schema_sequence(s, in, at[QSF_MIN(c + 1, counts)]) : s->none;
                at[c] = qsf_schema_either(s, i >= d->least && c >= d->least_in ? s->empty : s->none,
                                          qsf_schema_either(s, more, qsf_schema_sequence(s, out, at[c])));
            }
        }
    }
    return at[0];
}

qsf_gnode qsf_schema_array(schema *s, const schema_leaf *leaf)
{
    const array_demands d = array_demands_of(s, leaf);
    if (s->failed || d.least > d.most) return s->none;
    if (d.unique && d.most > 1) {
        qsf_schema_refuse(s, d.unique, "uniqueItems is not supported");
        return s->none;
    }
    const qsf_gnode items = d.contains ? array_contains(s, leaf, &d) : array_items(s, leaf, &d);
    return qsf_schema_sequence3(s, qsf_schema_sign(s, "["), items, qsf_schema_bytes(s, "]"));
}

bool qsf_schema_array_possible(schema *s, const schema_leaf *leaf, uint32_t depth)
{
    const array_demands d = array_demands_of(s, leaf);
    bool possible = d.least <= d.most;
    for (uint32_t i = 0; i < QSF_MIN(d.least, 8u) && possible && !s->failed; i++) {
        const uint32_t from = s->n_parts;
        possible = array_child(s, leaf, i) && !s->failed;
        if (possible) possible = !qsf_schema_impossible(s, from, depth);
        if (!s->failed) s->n_parts = from;
    }
    return possible;
}
