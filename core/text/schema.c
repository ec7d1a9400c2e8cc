/* JSON Schema as a grammar: lists, objects, and the goals that are inside them.
 * SPDX-License-Identifier: MIT
 *
 * Each goal that may be a list or an object is a rule of the grammar, made once; what it needs is
 * noted and made later, so that nothing recurses and schemas may be recursive. */
#include "text/regex.h"
#include "text/schema_own.h"

enum { OBJECT_MAX_STATES = 200000, OBJECT_MAX_PATTERNS = 12, ARRAY_MAX_STATES = 5000 };

static qsf_gnode sequence3(schema *s, qsf_gnode a, qsf_gnode b, qsf_gnode c)
{
    return schema_sequence(s, a, schema_sequence(s, b, c));
}

/* A sign and the blanks behind it. */
static qsf_gnode sign(schema *s, const char *text)
{
    return schema_sequence(s, schema_bytes(s, text), s->blanks);
}

/* A demand on the value inside; false: no value fits it. */
static bool child_push(schema *s, const qsf_json_node *v, part_kind kind)
{
    if (kind == PART_SCHEMA && v->type == QSF_JSON_FALSE) return false;
    if (kind == PART_NOT && v->type == QSF_JSON_TRUE) return false;
    if (kind == PART_SCHEMA && (v->type == QSF_JSON_TRUE || (v->type == QSF_JSON_OBJECT && !v->n)))
        return true;
    schema_push(s, (schema_part){ v, (uint8_t)kind, 0, UINT32_MAX });
    return true;
}

/* Whether q comes from p's schema in place: what it evaluates, p's unevaluated... sees. */
static bool comes_from(const schema *s, const schema_part *q, const schema_part *p)
{
    for (uint32_t t = q->from; t != UINT32_MAX && s->trail[t].schema; t = s->trail[t].parent)
        if (s->trail[t].schema == p->v) return true;
    return false;
}

/* ---- lists ---- */

typedef struct array_keys { const qsf_json_node *prefix, *rest; uint32_t n; } array_keys;

static array_keys array_keys_of(schema *s, const schema_part *p)
{
    const schema_keys *k = schema_keys_of(s, p->v);
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
        const qsf_json_node *v = a.prefix + 1;
        if (p->kind == PART_FLIP && p->arg == KEY_CONTAINS)
            fits = child_push(s, schema_keys_of(s, p->v)->key[KEY_CONTAINS], PART_NOT);
        if (p->kind != PART_OWN && p->kind != PART_VALUE) continue;
        if (i < a.n) {
            for (uint32_t m = 0; m < i; m++) v = qsf_json_next(v);
            fits = child_push(s, v, p->kind == PART_OWN ? PART_SCHEMA : PART_VALUE);
        } else if (p->kind == PART_VALUE) {
            fits = false;
        } else if (a.rest) {
            fits = child_push(s, a.rest, PART_SCHEMA);
        } else if (schema_keys_of(s, p->v)->key[KEY_FREE_ITEMS]) {
            bool seen = false;
            for (uint32_t m = 0; m < leaf->n; m++) {
                const schema_part *q = &leaf->parts[m];
                if (q->kind != PART_OWN || q == p || !comes_from(s, q, p)) continue;
                const array_keys b = array_keys_of(s, q);
                seen |= i < b.n || b.rest || schema_keys_of(s, q->v)->key[KEY_FREE_ITEMS];
            }
            if (!seen) fits = child_push(s, schema_keys_of(s, p->v)->key[KEY_FREE_ITEMS], PART_SCHEMA);
        }
    }
    return fits;
}

/* The node of item i, with one more demand where also is given. */
static qsf_gnode array_item(schema *s, const schema_leaf *leaf, uint32_t i, const qsf_json_node *also,
                            part_kind kind)
{
    const uint32_t from = s->n_parts;
    if (!array_child(s, leaf, i) || (also && !child_push(s, also, kind))) {
        s->n_parts = from;
        return s->none;
    }
    return schema_sequence(s, schema_value(s, from), s->blanks);
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
        const schema_keys *k = schema_keys_of(s, p->v);
        const uint32_t least = schema_count(s, k->key[KEY_MIN_ITEMS], 0),
                       most = schema_count(s, k->key[KEY_MAX_ITEMS], QSF_G_NO_MOST);
        if (p->kind == PART_FLIP) {
            if (p->arg == KEY_MIN_ITEMS && !least) d.least = QSF_G_NO_MOST, d.most = 0;
            else if (p->arg == KEY_MIN_ITEMS) d.most = QSF_MIN(d.most, least - 1);
            if (p->arg == KEY_MAX_ITEMS) d.least = QSF_MAX(d.least, most + 1);
            if (p->arg == KEY_ENUM || p->arg == KEY_CONST) {
                const qsf_json_node *v = p->arg == KEY_CONST ? k->key[KEY_CONST] : k->key[KEY_ENUM] + 1;
                for (uint32_t n = p->arg == KEY_CONST ? 1 : k->key[KEY_ENUM]->n; n; n--, v = qsf_json_next(v))
                    if (v->type == QSF_JSON_LIST)
                        schema_refuse(s, v, "the opposite of this list cannot be kept");
            }
            continue;
        }
        d.least = QSF_MAX(d.least, least);
        d.most = QSF_MIN(d.most, most);
        d.prefix = QSF_MAX(d.prefix, array_keys_of(s, p).n);
        if (k->key[KEY_UNIQUE] && k->key[KEY_UNIQUE]->type == QSF_JSON_TRUE) d.unique = k->key[KEY_UNIQUE];
        if (!k->key[KEY_CONTAINS]) continue;
        if (d.contains && d.contains != k->key[KEY_CONTAINS])
            schema_refuse(s, k->key[KEY_CONTAINS], "a second contains cannot be kept");
        if (s->free_used)
            schema_refuse(s, k->key[KEY_CONTAINS], "contains together with unevaluated... cannot be kept");
        d.contains = k->key[KEY_CONTAINS];
        d.least_in = schema_count(s, k->key[KEY_MIN_CONTAINS], 1);
        d.most_in = schema_count(s, k->key[KEY_MAX_CONTAINS], QSF_G_NO_MOST);
    }
    if (d.contains && !d.least_in && d.most_in == QSF_G_NO_MOST) d.contains = NULL;
    return d;
}

/* Behind the "[" and before the "]", item by item: at[i] is what may follow i items. */
static qsf_gnode array_items(schema *s, const schema_leaf *leaf, const array_demands *d)
{
    const qsf_gnode comma = sign(s, ",");
    const uint32_t prefix = QSF_MIN(d->prefix, d->most);
    qsf_gnode at = s->empty;
    if (d->most > prefix) {
        const qsf_gnode item = array_item(s, leaf, UINT32_MAX, NULL, 0);
        const uint32_t least = d->least > prefix ? d->least - prefix : 0,
                       most = d->most == QSF_G_NO_MOST ? d->most : d->most - prefix;
        if (item == s->none) {
            at = least ? s->none : s->empty;
        } else if (prefix) {
            at = qsf_g_repeat(s->b, schema_sequence(s, comma, item), least, most);
        } else {
            at = schema_sequence(s, item,
                                 qsf_g_repeat(s->b, schema_sequence(s, comma, item), least ? least - 1 : 0,
                                              most == QSF_G_NO_MOST ? most : most - 1));
            if (!least) at = schema_either(s, s->empty, at);
        }
    } else if (d->least > prefix) {
        return s->none;
    }
    for (uint32_t i = prefix; i-- > 0; ) {
        at = sequence3(s, i ? comma : s->empty, array_item(s, leaf, i, NULL, 0), at);
        if (i >= d->least) at = schema_either(s, s->empty, at);
    }
    return at;
}

/* The same where some of the items have to fit contains: at[c] is what may follow c of those. */
static qsf_gnode array_contains(schema *s, const schema_leaf *leaf, const array_demands *d)
{
    const qsf_gnode comma = sign(s, ",");
    const bool limited = d->most_in != QSF_G_NO_MOST, open = d->most == QSF_G_NO_MOST;
    const uint32_t counts = limited ? d->most_in : d->least_in,
                   len = open ? QSF_MAX(d->prefix, d->least) + 1 : d->most;
    if ((uint64_t)(counts + 1) * (len + 1) > ARRAY_MAX_STATES || d->least_in > counts) {
        if (d->least_in <= counts)
            schema_refuse(s, d->contains, "contains in a list of so many items cannot be kept");
        return s->none;
    }
    qsf_gnode *at = qsf_arena_array(s->arena, counts + 2, sizeof *at, "a schema", NULL);
    if (!at) {
        schema_no_memory(s);
        return s->none;
    }
    for (uint32_t i = len + 1; i-- > 0 && !s->failed; ) {
        const uint32_t index = i < d->prefix ? i : UINT32_MAX;
        const qsf_gnode before = i ? comma : s->empty;
        const qsf_gnode in = schema_sequence(s, before, array_item(s, leaf, index, d->contains, PART_SCHEMA));
        const qsf_gnode out = schema_sequence(s, before,
                                              limited ? array_item(s, leaf, index, d->contains, PART_NOT)
                                                      : array_item(s, leaf, index, NULL, 0));
        for (uint32_t c = 0; c <= counts; c++) {
            if (i == len && !open) {
                at[c] = c >= d->least_in ? s->empty : s->none;
            } else if (i == len) {
                const qsf_gnode others =
                    out == s->none ? s->empty : qsf_g_repeat(s->b, out, 0, QSF_G_NO_MOST);
                const qsf_gnode one = schema_sequence(s, others, in);
                const uint32_t least = d->least_in > c ? d->least_in - c : 0,
                               most = limited ? counts - c : least;
                at[c] = schema_sequence(
                    s, one == s->none ? least ? s->none : s->empty : qsf_g_repeat(s->b, one, least, most),
                    others);
            } else {
                const qsf_gnode more =
                    c < counts || !limited ? schema_sequence(s, in, at[QSF_MIN(c + 1, counts)]) : s->none;
                at[c] = schema_either(s, i >= d->least && c >= d->least_in ? s->empty : s->none,
                                      schema_either(s, more, schema_sequence(s, out, at[c])));
            }
        }
    }
    return at[0];
}

static qsf_gnode array_node(schema *s, const schema_leaf *leaf)
{
    const array_demands d = array_demands_of(s, leaf);
    if (s->failed || d.least > d.most) return s->none;
    if (d.unique && d.most > 1) {
        schema_refuse(s, d.unique, "uniqueItems cannot be kept");
        return s->none;
    }
    const qsf_gnode items = d.contains ? array_contains(s, leaf, &d) : array_items(s, leaf, &d);
    return sequence3(s, sign(s, "["), items, schema_bytes(s, "]"));
}

/* ---- objects ---- */

typedef struct object_name { const qsf_json_node *name; bool required; } object_name;
typedef struct object_leaf {
    const schema_leaf   *leaf;
    object_name         *names;
    uint32_t             n, cap, least, most;
    const qsf_json_node *patterns[OBJECT_MAX_PATTERNS];         /* patternProperties' keys, each once */
    uint32_t             n_patterns, apart[OBJECT_MAX_PATTERNS];        /* those that no key has with it */
} object_leaf;

static bool same_name(const qsf_json_node *x, const qsf_json_node *y)
{
    return x == y || (x->n == y->n && !memcmp(x->text, y->text, x->n));
}

static const qsf_json_node *object_member(const qsf_json_node *v, const qsf_json_node *name)
{
    const qsf_json_node *k = v ? v + 1 : NULL;
    for (uint32_t i = 0; v && v->type == QSF_JSON_OBJECT && i < v->n; i++, k = qsf_json_next(k + 1))
        if (same_name(k, name)) return k + 1;
    return NULL;
}

static void object_add(schema *s, object_leaf *o, const qsf_json_node *name, bool required)
{
    if (name->type != QSF_JSON_TEXT) schema_refuse(s, name, "a name of a property has to be a text");
    for (uint32_t i = 0; i < o->n && !s->failed; i++)
        if (same_name(o->names[i].name, name)) {
            o->names[i].required |= required;
            return;
        }
    o->names = schema_grow(s, o->names, o->n, &o->cap, sizeof *o->names);
    if (!s->failed) o->names[o->n++] = (object_name){ name, required };
}

static void object_add_all(schema *s, object_leaf *o, const qsf_json_node *v, bool required)
{
    const qsf_json_node *k = v + 1;
    const bool object = v->type == QSF_JSON_OBJECT;
    for (uint32_t i = 0; i < v->n && !s->failed; i++, k = qsf_json_next(k + object))
        object_add(s, o, k, required);
}

static void object_read(schema *s, object_leaf *o)
{
    const schema_leaf *leaf = o->leaf;
    o->most = QSF_G_NO_MOST;
    for (uint32_t pass = 0; pass < 2; pass++)           /* properties first, then what else is named */
        for (uint32_t i = 0; i < leaf->n && !s->failed; i++) {
            const schema_part *p = &leaf->parts[i];
            const schema_keys *k =
                p->kind == PART_OWN || p->kind == PART_FLIP ? schema_keys_of(s, p->v) : NULL;
            const qsf_json_node *v;
            if (pass == 0) {
                if (p->kind == PART_VALUE) object_add_all(s, o, p->v, true);
                if (p->kind == PART_OWN && (v = k->key[KEY_PROPERTIES]) != NULL) {
                    if (v->type != QSF_JSON_OBJECT) schema_refuse(s, v, "this has to be an object");
                    else object_add_all(s, o, v, false);
                }
                continue;
            }
            if (p->kind == PART_WITH || p->kind == PART_WITH_OTHER || p->kind == PART_WITHOUT)
                object_add(s, o, p->v, p->kind != PART_WITHOUT);
            if (!k) continue;
            const uint32_t least = schema_count(s, k->key[KEY_MIN_PROPERTIES], 0),
                           most = schema_count(s, k->key[KEY_MAX_PROPERTIES], QSF_G_NO_MOST);
            if (p->kind == PART_FLIP) {
                if (p->arg == KEY_MIN_PROPERTIES && !least) o->least = QSF_G_NO_MOST, o->most = 0;
                else if (p->arg == KEY_MIN_PROPERTIES) o->most = QSF_MIN(o->most, least - 1);
                if (p->arg == KEY_MAX_PROPERTIES) o->least = QSF_MAX(o->least, most + 1);
                if (p->arg == KEY_ENUM || p->arg == KEY_CONST) {
                    v = p->arg == KEY_CONST ? k->key[KEY_CONST] : k->key[KEY_ENUM] + 1;
                    for (uint32_t n = p->arg == KEY_CONST ? 1 : k->key[KEY_ENUM]->n; n;
                         n--, v = qsf_json_next(v))
                        if (v->type == QSF_JSON_OBJECT)
                            schema_refuse(s, v, "the opposite of this object cannot be kept");
                }
                continue;
            }
            o->least = QSF_MAX(o->least, least);
            o->most = QSF_MIN(o->most, most);
            if ((v = k->key[KEY_REQUIRED]) != NULL) {
                if (v->type != QSF_JSON_LIST) schema_refuse(s, v, "this has to be a list of names");
                else object_add_all(s, o, v, true);
            }
            if ((v = k->key[KEY_PATTERNS]) == NULL || v->type != QSF_JSON_OBJECT) continue;
            const qsf_json_node *c = v + 1;
            for (uint32_t m = 0; m < v->n; m++, c = qsf_json_next(c + 1)) {
                bool known = false;
                for (uint32_t e = 0; e < o->n_patterns; e++) known |= same_name(o->patterns[e], c);
                if (known) continue;
                if (o->n_patterns == OBJECT_MAX_PATTERNS)
                    schema_refuse(s, v, "more than 12 patterns cannot be kept");
                else o->patterns[o->n_patterns++] = c;
            }
        }
}

static bool name_fits(schema *s, const qsf_json_node *pattern, const qsf_json_node *name)
{
    return schema_fits(s, pattern, pattern->text, pattern->n, false, name->text, name->n);
}

/* Pushes what k says of a name, or of those that fit just the patterns in set; whether it says
 * anything of it.  *fits becomes false where it forbids it. */
static bool own_child(schema *s, const object_leaf *o, const schema_keys *k, const qsf_json_node *name,
                      uint32_t set, bool push, bool *fits)
{
    const qsf_json_node *v = name ? object_member(k->key[KEY_PROPERTIES], name) : NULL;
    const qsf_json_node *patterns = k->key[KEY_PATTERNS], *c = patterns ? patterns + 1 : NULL;
    bool found = v != NULL;
    if (v && push) *fits = child_push(s, v, PART_SCHEMA);
    for (uint32_t i = 0; patterns && patterns->type == QSF_JSON_OBJECT && i < patterns->n && *fits;
         i++, c = qsf_json_next(c + 1)) {
        bool in = name && name_fits(s, c, name);
        for (uint32_t m = 0; !name && m < o->n_patterns; m++)
            in |= (set >> m & 1) && same_name(o->patterns[m], c);
        if (in && push) *fits = child_push(s, c + 1, PART_SCHEMA);
        found |= in;
    }
    if (!found && k->key[KEY_ADDITIONAL]) {
        if (push) *fits = child_push(s, k->key[KEY_ADDITIONAL], PART_SCHEMA);
        found = true;
    }
    return found;
}

/* The parts for a property; false: it may not be there. */
static bool object_child(schema *s, const object_leaf *o, const qsf_json_node *name, uint32_t set)
{
    const schema_leaf *leaf = o->leaf;
    bool fits = true;
    for (uint32_t i = 0; i < leaf->n && fits && !s->failed; i++) {
        const schema_part *p = &leaf->parts[i];
        if (p->kind == PART_VALUE) {
            const qsf_json_node *v = name ? object_member(p->v, name) : NULL;
            fits = v && child_push(s, v, PART_VALUE);
        }
        if (p->kind == PART_WITHOUT) fits = !name || !same_name(p->v, name);
        if (p->kind == PART_WITH_OTHER && name && same_name(p->v, name))
            fits = child_push(s, p->v + 1, PART_NOT);
        if (p->kind != PART_OWN) continue;
        const schema_keys *k = schema_keys_of(s, p->v);
        bool found = own_child(s, o, k, name, set, true, &fits), yes = true;
        if (fits && name && k->key[KEY_NAMES]) {
            const uint32_t from = s->n_parts;
            fits = child_push(s, k->key[KEY_NAMES], PART_SCHEMA);
            schema_push(s, (schema_part){ name, PART_VALUE, 0, UINT32_MAX });
            if (fits && !s->failed) fits = !schema_impossible(s, from, 2);
            if (!s->failed) s->n_parts = from;
        }
        if (found || !k->key[KEY_FREE_PROPERTIES]) continue;
        for (uint32_t m = 0; m < leaf->n && !found; m++) {
            const schema_part *q = &leaf->parts[m];
            if (q->kind != PART_OWN || q == p || !comes_from(s, q, p)) continue;
            found = own_child(s, o, schema_keys_of(s, q->v), name, set, false, &yes) ||
                    schema_keys_of(s, q->v)->key[KEY_FREE_PROPERTIES];
        }
        if (!found) fits = child_push(s, k->key[KEY_FREE_PROPERTIES], PART_SCHEMA);
    }
    return fits;
}

/* key: what is between its quotes */
static qsf_gnode object_entry(schema *s, qsf_gnode key, qsf_gnode value)
{
    return sequence3(s, s->quote, schema_sequence(s, key, s->quote),
                     sequence3(s, s->blanks, sign(s, ":"), schema_sequence(s, value, s->blanks)));
}

/* Which patterns no key has in common: then there are fewer sets of them to look at. */
static void object_apart(schema *s, object_leaf *o)
{
    for (uint32_t i = 0; i < o->n_patterns; i++)
        for (uint32_t k = 0; k < i && !s->failed; k++) {
            qsf_grammar_builder *b;
            qsf_grammar *g = NULL;
            qsf_error err = { 0 };
            if (qsf_grammar_begin(s->platform, &b, &err)) continue;
            const qsf_gnode x = qsf_regex_nodes(s->platform, b, o->patterns[i]->text, o->patterns[i]->n,
                                                QSF_REGEX_SEARCH, "x");
            const qsf_gnode y = qsf_regex_nodes(s->platform, b, o->patterns[k]->text, o->patterns[k]->n,
                                                QSF_REGEX_SEARCH, "y");
            const bool both = x && y;
            const qsf_status st = qsf_grammar_finish(b, both ? qsf_g_both(b, x, y) : 0, &g, &err);
            if (both && st == QSF_E_ARGUMENT) o->apart[i] |= 1u << k, o->apart[k] |= 1u << i;
            qsf_grammar_drop(g);
        }
}

static qsf_gnode object_pattern(schema *s, const qsf_json_node *v)
{
    char what[160];
    qsf_format(what, sizeof what, "%s: \"%.*s\"", s->what, 100, v->text);
    return qsf_regex_nodes(s->platform, s->b, v->text, v->n, QSF_REGEX_SEARCH | QSF_REGEX_JSON, what);
}

/* The texts that propertyNames allows; 0: all. */
static qsf_gnode object_names(schema *s, const object_leaf *o)
{
    const uint32_t from = s->n_parts;
    qsf_gnode out = s->none;
    schema_leaf leaf;
    bool fits = true, any = false;
    for (uint32_t i = 0; i < o->leaf->n && fits; i++) {
        const schema_part *p = &o->leaf->parts[i];
        const qsf_json_node *names = p->kind == PART_OWN ? schema_keys_of(s, p->v)->key[KEY_NAMES] : NULL;
        if (names) any = true, fits = child_push(s, names, PART_SCHEMA);
    }
    if (!any || !fits) {
        s->n_parts = from;
        return any ? s->none : 0;
    }
    schema_push(s, (schema_part){ s->root, PART_TYPES, T_STRING, UINT32_MAX });
    schema_run run = schema_start(s, from);
    while (schema_next(s, &run, &leaf)) out = schema_either(s, out, schema_strings(s, &leaf));
    schema_stop(s, &run);
    return out;
}

/* Properties that are not named one by one: a choice over what patterns fit their keys. */
static qsf_gnode object_others(schema *s, object_leaf *o)
{
    qsf_gnode out = s->none,
              *literals = qsf_arena_array(s->arena, o->n + 1, sizeof *literals, "a schema", NULL),
              not_named = 0;
    bool names_read = false;
    qsf_gnode names = 0;
    if (!literals) {
        schema_no_memory(s);
        return out;
    }
    object_apart(s, o);
    for (uint32_t set = 0; set < 1u << o->n_patterns && !s->failed; set++) {
        bool none = false;
        for (uint32_t m = 0; m < o->n_patterns; m++) none |= (set >> m & 1) && (o->apart[m] & set);
        const uint32_t from = s->n_parts;
        if (none) continue;
        if (!object_child(s, o, NULL, set)) {
            if (!s->failed) s->n_parts = from;
            continue;
        }
        const qsf_gnode value = schema_value(s, from);
        if (value == s->none) continue;
        if (!names_read) {
            names = object_names(s, o);
            for (uint32_t i = 0; i < o->n; i++)
                literals[i] = schema_literal(s, o->names[i].name->text, o->names[i].name->n);
            if (o->n) not_named = qsf_g_not(s->b, qsf_g_choice(s->b, literals, o->n));
            names_read = true;
        }
        qsf_gnode key = schema_both(s, not_named, names);
        for (uint32_t m = 0; m < o->n_patterns && !s->failed; m++) {
            if (!(set >> m & 1) && (o->apart[m] & set)) continue;
            const qsf_gnode x = object_pattern(s, o->patterns[m]);
            key = schema_both(s, key, set >> m & 1 ? x : qsf_g_not(s->b, x));
        }
        const bool all = !key;
        key = schema_both(s, key, qsf_g_repeat(s->b, all ? s->any_char : s->plain_char, 0, QSF_G_NO_MOST));
        out = schema_either(s, out, object_entry(s, key, value));
    }
    return out;
}

/* Behind the "{" and before the "}": at[c] is what may follow c properties, from the last name to
 * the first.  c stops where it makes no difference any more. */
static qsf_gnode object_rest(schema *s, object_leaf *o)
{
    const qsf_gnode comma = sign(s, ","), others = object_others(s, o);
    uint32_t counts = QSF_MAX(o->least, 1);
    if (o->most != QSF_G_NO_MOST && (o->most < o->n || others != s->none)) counts = QSF_MAX(o->most, 1);
    else o->most = QSF_G_NO_MOST;
    const uint64_t reach = o->n + (others != s->none ? (uint64_t)counts : 1);
    counts = (uint32_t)QSF_MIN(counts, QSF_MAX(reach, 1));
    if ((uint64_t)(counts + 1) * (o->n + 1) > OBJECT_MAX_STATES) {
        schema_refuse(s, o->leaf->n ? o->leaf->parts[0].v : s->root,
                      "minProperties or maxProperties of so many cannot be kept");
        return s->none;
    }
    qsf_gnode *at = qsf_arena_array(s->arena, (uint64_t)counts + 2, sizeof *at, "a schema", NULL);
    if (!at) {
        schema_no_memory(s);
        return s->none;
    }
    const qsf_gnode other = schema_sequence(s, comma, others);
    for (uint32_t c = 0; c <= counts; c++) {
        const uint32_t least = o->least > c ? o->least - c : 0, most = o->most == QSF_G_NO_MOST ? o->most
                                                                       : o->most > c            ? o->most - c
                                                                                                : 0;
        if (others == s->none || !most) at[c] = least ? s->none : s->empty;
        else if (c) at[c] = qsf_g_repeat(s->b, other, least, most);
        else at[c] = schema_either(s, least ? s->none : s->empty, schema_sequence(s, others,
                qsf_g_repeat(s->b, other, least ? least - 1 : 0, most == QSF_G_NO_MOST ? most : most - 1)));
    }
    for (uint32_t i = o->n; i-- > 0 && !s->failed; ) {
        const qsf_json_node *name = o->names[i].name;
        const uint32_t from = s->n_parts;
        qsf_gnode value = s->none;
        if (object_child(s, o, name, 0)) value = schema_value(s, from);
        else if (!s->failed) s->n_parts = from;
        const qsf_gnode entry = object_entry(s, schema_literal(s, name->text, name->n), value),
                        next = schema_sequence(s, comma, entry);
        for (uint32_t c = 0; c <= QSF_MIN(counts, i); c++) {
            const qsf_gnode take = o->most != QSF_G_NO_MOST && c >= o->most ? s->none
                                 : schema_sequence(s, c ? next : entry, at[QSF_MIN(c + 1, counts)]);
            at[c] = o->names[i].required ? take : schema_either(s, take, at[c]);
        }
    }
    return s->failed ? s->none : at[0];
}

static qsf_gnode object_node(schema *s, const schema_leaf *leaf)
{
    object_leaf o = { .leaf = leaf };
    object_read(s, &o);
    if (s->failed || o.least > o.most) return s->none;
    return sequence3(s, sign(s, "{"), object_rest(s, &o), schema_bytes(s, "}"));
}

/* ---- leaves ---- */

/* null, true or false, by its type in a JSON text */
static qsf_gnode word_node(schema *s, const schema_leaf *leaf, qsf_json_type type, const char *text)
{
    const qsf_json_node *v;
    uint32_t n;
    for (uint32_t i = 0; i < leaf->n; i++) {
        const schema_part *p = &leaf->parts[i];
        bool found = false, flip = p->kind == PART_FLIP && (p->arg == KEY_ENUM || p->arg == KEY_CONST);
        schema_part own = *p;
        if (flip) own.kind = PART_OWN;
        if (!schema_allowed(s, &own, &v, &n)) continue;
        for (; n; n--, v = qsf_json_next(v)) found |= v->type == type;
        if (found == flip) return s->none;
    }
    return schema_bytes(s, text);
}

static qsf_gnode scalar_node(schema *s, const schema_leaf *leaf)
{
    qsf_gnode out = s->none;
    if (leaf->types & T_NULL) out = word_node(s, leaf, QSF_JSON_NULL, "null");
    if (leaf->types & T_BOOLEAN)
        out = schema_either(s, out,
                            schema_either(s, word_node(s, leaf, QSF_JSON_TRUE, "true"),
                                          word_node(s, leaf, QSF_JSON_FALSE, "false")));
    if (leaf->types & T_NUMBER) out = schema_either(s, out, schema_numbers(s, leaf));
    if (leaf->types & T_STRING)
        out = schema_either(s, out, sequence3(s, s->quote, schema_strings(s, leaf), s->quote));
    return out;
}

bool schema_leaf_impossible(schema *s, const schema_leaf *leaf, uint32_t depth)
{
    const qsf_json_node *v;
    uint32_t n;
    bool listed = false;
    for (uint32_t i = 0; i < leaf->n && !listed; i++) listed = schema_allowed(s, &leaf->parts[i], &v, &n);
    if (leaf->types & T_SCALAR) {
        const uint32_t sure =
            listed ? 0 : T_STRING | T_NULL | T_BOOLEAN; /* a look at patterns would cost too much */
        if (leaf->types & sure || scalar_node(s, leaf) != s->none) return false;
    }
    if (leaf->types & T_ARRAY) {
        const array_demands d = array_demands_of(s, leaf);
        bool possible = d.least <= d.most;
        for (uint32_t i = 0; i < QSF_MIN(d.least, 8u) && possible && !s->failed; i++) {
            const uint32_t from = s->n_parts;
            possible = array_child(s, leaf, i) && !s->failed;
            if (possible) possible = !schema_impossible(s, from, depth);
            if (!s->failed) s->n_parts = from;
        }
        if (possible) return false;
    }
    if (leaf->types & T_OBJECT) {
        object_leaf o = { .leaf = leaf };
        object_read(s, &o);
        uint32_t required = 0;
        bool possible = o.least <= o.most;
        for (uint32_t i = 0; i < o.n && possible && !s->failed; i++) {
            if (!o.names[i].required) continue;
            const uint32_t from = s->n_parts;
            required++;
            possible = object_child(s, &o, o.names[i].name, 0) && !s->failed;
            if (possible) possible = !schema_impossible(s, from, depth);
            if (!s->failed) s->n_parts = from;
        }
        if (possible && required <= o.most) return false;
    }
    return true;
}

/* ---- goals ---- */

static uint64_t known_hash(const schema_part *parts, uint32_t n)
{
    uint64_t h = n;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ (uint64_t)(uintptr_t)parts[i].v ^ parts[i].kind) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    return h;
}

/* The node of a goal; container not NULL: only if it has no lists and no objects, else *container. */
static qsf_gnode known_make(schema *s, uint32_t which, bool *container)
{
    const schema_known k = s->known[which];
    const uint32_t from = s->n_parts;
    qsf_gnode *out = NULL;
    uint32_t n = 0, cap = 0;
    schema_leaf leaf;
    for (uint32_t i = 0; i < k.n; i++) schema_push(s, s->known_parts[k.begin + i]);
    schema_run run = schema_start(s, from);
    while (schema_next(s, &run, &leaf)) {
        if (container && (leaf.types & ~T_SCALAR)) {
            *container = true;
            schema_stop(s, &run);
            return s->none;
        }
        qsf_gnode x = scalar_node(s, &leaf);
        if (leaf.types & T_ARRAY && !s->failed) x = schema_either(s, x, array_node(s, &leaf));
        if (leaf.types & T_OBJECT && !s->failed) x = schema_either(s, x, object_node(s, &leaf));
        if (x == s->none) continue;
        out = schema_grow(s, out, n, &cap, sizeof *out);
        if (s->failed) break;
        out[n++] = x;
    }
    schema_stop(s, &run);
    return s->failed || !n ? s->none : n == 1 ? out[0] : qsf_g_choice(s->b, out, n);
}

static bool known_find(schema *s, uint64_t hash, const schema_part *parts, uint32_t n, uint32_t *slot)
{
    uint32_t i = (uint32_t)(hash >> 32) & (s->n_table - 1);
    for (; s->table[i]; i = (i + 1) & (s->n_table - 1)) {
        const schema_known *k = &s->known[s->table[i] - 1];
        bool same = k->hash == hash && k->n == n;
        for (uint32_t m = 0; m < n && same; m++)
            same = s->known_parts[k->begin + m].v == parts[m].v &&
                   s->known_parts[k->begin + m].kind == parts[m].kind;
        if (same) break;
    }
    *slot = i;
    return s->table[i] != 0;
}

qsf_gnode schema_value(schema *s, uint32_t from)
{
    uint32_t n = 0, slot;
    if (s->failed) return s->none;
    for (uint32_t i = from; i < s->n_parts; i++) {              /* each part once */
        bool seen = false;
        for (uint32_t k = 0; k < n; k++)
            seen |= s->parts[from + k].v == s->parts[i].v && s->parts[from + k].kind == s->parts[i].kind;
        if (!seen) s->parts[from + n++] = s->parts[i];
    }
    s->n_parts = from;
    const schema_part *parts = s->parts + from;
    const uint64_t hash = known_hash(parts, n);
    if (s->n_known * 2 >= s->n_table) {
        const uint32_t size = s->n_table ? 2 * s->n_table : 64;
        s->table = qsf_arena_array(s->arena, size, sizeof *s->table, "a schema", NULL);
        if (!s->table) {
            schema_no_memory(s);
            return s->none;
        }
        s->n_table = size;
        for (uint32_t i = 0; i < s->n_known; i++) {
            uint32_t at = (uint32_t)(s->known[i].hash >> 32) & (size - 1);
            while (s->table[at]) at = (at + 1) & (size - 1);
            s->table[at] = i + 1;
        }
    }
    if (known_find(s, hash, parts, n, &slot)) return s->known[s->table[slot] - 1].node;
    schema_known k = { hash, s->n_known_parts, n, 0, false };
    for (uint32_t i = 0; i < n && !s->failed; i++) {
        s->known_parts =
            schema_grow(s, s->known_parts, s->n_known_parts, &s->cap_known_parts, sizeof *s->known_parts);
        if (!s->failed) s->known_parts[s->n_known_parts++] = parts[i];
    }
    s->known = schema_grow(s, s->known, s->n_known, &s->cap_known, sizeof *s->known);
    if (s->failed) return s->none;
    const uint32_t which = s->n_known++;
    s->known[which] = k;
    s->table[slot] = which + 1;
    bool container = false;
    const qsf_gnode node = known_make(s, which, &container);
    s->known[which].node = container ? qsf_g_rule(s->b) : node;
    s->known[which].open = container;           /* to be made */
    return s->known[which].node;
}

static qsf_gnode schema_make(schema *s)
{
    schema_begin(s);
    schema_push(s, (schema_part){ s->root, PART_SCHEMA, 0, UINT32_MAX });
    const qsf_gnode root = schema_value(s, 0);
    for (; s->n_done < s->n_known && !s->failed; s->n_done++) {
        if (!s->known[s->n_done].open) continue;
        const qsf_gnode body = known_make(s, s->n_done, NULL);
        qsf_g_define(s->b, s->known[s->n_done].node, body);
    }
    if (root == s->none) schema_refuse(s, s->root, "no value fits this schema");
    return root;
}

qsf_gnode qsf_schema_nodes(const qsf_platform *p, qsf_grammar_builder *b, const qsf_json_node *v,
                           const qsf_schema_options *o)
{
    static const uint32_t blank[][2] = { { '\t', '\n' }, { '\r', '\r' }, { ' ', ' ' } };
    qsf_error err = { 0 };
    qsf_arena *arena = NULL;
    schema *s = NULL;
    qsf_gnode root = QSF_G_FAILED;
    qsf_status st = qsf_arena_new(p, &arena, &err);
    if (!st && !(s = qsf_arena_alloc(arena, sizeof *s, "a schema", &err))) st = QSF_E_MEMORY;
    if (!st) {
        *s = (schema){
            .platform = p, .b = b, .arena = arena, .root = v, .what = o && o->what ? o->what : "schema"
        };
        s->keys = qsf_arena_array(arena, v->skip, sizeof *s->keys, "a schema", &err);
        if (!s->keys) st = QSF_E_MEMORY;
    }
    if (st) {
        qsf_g_fail(b, st, "%s", err.text);
    } else {
        schema_string_begin(s);
        s->blanks = o && o->blanks
                        ? qsf_g_repeat(b, qsf_g_class(b, blank, QSF_ARRAY_LEN(blank), false), 0, o->blanks)
                        : s->empty;
        root = schema_make(s);
        for (uint32_t i = 0; i < s->n_texts; i++) {
            qsf_matcher_free(s->texts[i].matcher);
            qsf_grammar_drop(s->texts[i].grammar);
        }
        if (s->failed) root = QSF_G_FAILED;
    }
    qsf_arena_free(arena);
    return root;
}

qsf_gnode qsf_json_nodes(const qsf_platform *p, qsf_grammar_builder *b, const qsf_schema_options *o)
{
    static const qsf_json_node any = { .type = QSF_JSON_TRUE, .skip = 1, .text = "" };
    return qsf_schema_nodes(p, b, &any, o);
}
