/* JSON Schema, objects: properties in their order, then all that are not named.
 * SPDX-License-Identifier: MIT */
#include "grammar/regex.h"
#include "grammar/schema_own.h"

enum {
    OBJECT_MAX_STATES = 200000, OBJECT_MAX_NAMES = 4000, OBJECT_MAX_PATTERNS = 12, OBJECT_MAX_SETS = 128
};

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
    if (name->type != QSF_JSON_TEXT) qsf_schema_refuse(s, name, "a property's name must be a string");
    for (uint32_t i = 0; i < o->n && !s->failed; i++)
        if (same_name(o->names[i].name, name)) {
            o->names[i].required |= required;
            return;
        }
    if (o->n == OBJECT_MAX_NAMES) qsf_schema_too_large(s, name, "an object of more than 4,000 properties");
    if (s->failed) return;
    o->names = qsf_schema_grow(s, o->names, o->n, &o->cap, sizeof *o->names);
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
                p->kind == PART_OWN || p->kind == PART_FLIP ? qsf_schema_keys_of(s, p->v) : NULL;
            const qsf_json_node *v;
            if (pass == 0) {
                if (p->kind == PART_VALUE) object_add_all(s, o, p->v, true);
                if (p->kind == PART_OWN && !p->arg && (v = k->key[KEY_PROPERTIES]) != NULL)
                    object_add_all(s, o, v, false);
                continue;
            }
            if (p->kind == PART_WITH || p->kind == PART_WITH_OTHER || p->kind == PART_WITHOUT)
                object_add(s, o, p->v, p->kind != PART_WITHOUT);
            if (!k) continue;
            const uint32_t least = qsf_schema_count(s, k->key[KEY_MIN_PROPERTIES], 0),
                           most = qsf_schema_count(s, k->key[KEY_MAX_PROPERTIES], QSF_G_NO_MOST);
            if (p->kind == PART_FLIP) {
                if (p->arg == KEY_MIN_PROPERTIES && !least) o->least = QSF_G_NO_MOST, o->most = 0;
                else if (p->arg == KEY_MIN_PROPERTIES) o->most = QSF_MIN(o->most, least - 1);
                if (p->arg == KEY_MAX_PROPERTIES) o->least = QSF_MAX(o->least, most + 1);
                if (p->arg == KEY_ENUM || p->arg == KEY_CONST) {
                    v = p->arg == KEY_CONST ? k->key[KEY_CONST] : k->key[KEY_ENUM] + 1;
                    for (uint32_t n = p->arg == KEY_CONST ? 1 : k->key[KEY_ENUM]->n; n;
                         n--, v = qsf_json_next(v))
                        if (v->type == QSF_JSON_OBJECT)
                            qsf_schema_refuse(s, v, "the opposite of this object is not supported");
                }
                continue;
            }
            o->least = QSF_MAX(o->least, least);
            o->most = QSF_MIN(o->most, most);
            if (p->arg && (v = k->key[KEY_PROPERTIES]) != NULL) object_add_all(s, o, v, false);
            if ((v = k->key[KEY_REQUIRED]) != NULL) object_add_all(s, o, v, true);
            if ((v = k->key[KEY_PATTERNS]) == NULL) continue;
            const qsf_json_node *c = v + 1;
            for (uint32_t m = 0; m < v->n; m++, c = qsf_json_next(c + 1)) {
                bool known = false;
                for (uint32_t e = 0; e < o->n_patterns; e++) known |= same_name(o->patterns[e], c);
                if (known) continue;
                if (o->n_patterns == OBJECT_MAX_PATTERNS)
                    qsf_schema_refuse(s, v, "more than 12 patterns are not supported");
                else o->patterns[o->n_patterns++] = c;
            }
        }
}

static bool name_fits(schema *s, const qsf_json_node *pattern, const qsf_json_node *name)
{
    return qsf_schema_fits(s, pattern, pattern->text, pattern->n, false, name->text, name->n);
}

/* Pushes the schemas in k for a name, or for names that match exactly the patterns in set; returns
 * whether k has any.  *fits becomes false if k forbids the name. */
static bool own_child(schema *s, const object_leaf *o, const schema_keys *k, const qsf_json_node *name,
                      uint32_t set, bool push, bool *fits)
{
    const qsf_json_node *v = name ? object_member(k->key[KEY_PROPERTIES], name) : NULL;
    const qsf_json_node *patterns = k->key[KEY_PATTERNS], *c = patterns ? patterns + 1 : NULL;
    bool found = v != NULL;
    if (v && push) *fits = qsf_schema_child(s, v, PART_SCHEMA);
    for (uint32_t i = 0; patterns && i < patterns->n && *fits;
         i++, c = qsf_json_next(c + 1)) {
        bool in = name && name_fits(s, c, name);
        for (uint32_t m = 0; !name && m < o->n_patterns; m++)
            in |= (set >> m & 1) && same_name(o->patterns[m], c);
        if (in && push) *fits = qsf_schema_child(s, c + 1, PART_SCHEMA);
        found |= in;
    }
    if (!found && k->key[KEY_ADDITIONAL]) {
        if (push) *fits = qsf_schema_child(s, k->key[KEY_ADDITIONAL], PART_SCHEMA);
        found = true;
    }
    return found;
}

/* The parts for a property; false: it may not be there. */
static bool object_child(schema *s, const object_leaf *o, const qsf_json_node *name, uint32_t set)
{
    const schema_leaf *leaf = o->leaf;
    bool fits = true, named = false, said = name || set;        /* said: a keyword covers other properties */
    for (uint32_t i = 0; i < leaf->n && fits && !s->failed; i++) {
        const schema_part *p = &leaf->parts[i];
        if (p->kind == PART_VALUE) {
            const qsf_json_node *v = name ? object_member(p->v, name) : NULL;
            fits = v && qsf_schema_child(s, v, PART_VALUE);
        }
        if (p->kind == PART_WITHOUT) fits = !name || !same_name(p->v, name);
        if (p->kind == PART_WITH_OTHER && name && same_name(p->v, name))
            fits = qsf_schema_child(s, p->v + 1, PART_NOT);
        if (p->kind != PART_OWN) continue;
        const schema_keys *k = qsf_schema_keys_of(s, p->v);
        bool found = own_child(s, o, k, name, set, true, &fits), yes = true;
        if (fits && name && k->key[KEY_NAMES]) {
            const uint32_t from = s->n_parts;
            fits = qsf_schema_child(s, k->key[KEY_NAMES], PART_SCHEMA);
            qsf_schema_push(s, (schema_part){ name, PART_VALUE, 0, UINT32_MAX });
            if (fits && !s->failed) fits = !qsf_schema_impossible(s, from, 2);
            if (!s->failed) s->n_parts = from;
        }
        named |= k->key[KEY_PROPERTIES] != NULL;
        said |= found || k->key[KEY_FREE_PROPERTIES] || k->key[KEY_NAMES] || k->key[KEY_PATTERNS];
        if (found || !k->key[KEY_FREE_PROPERTIES]) continue;
        for (uint32_t m = 0; m < leaf->n && !found; m++) {
            const schema_part *q = &leaf->parts[m];
            if (q->kind != PART_OWN || q == p || !qsf_schema_comes_from(s, q, p)) continue;
            found = own_child(s, o, qsf_schema_keys_of(s, q->v), name, set, false, &yes) ||
                    qsf_schema_keys_of(s, q->v)->key[KEY_FREE_PROPERTIES];
        }
        if (!found) fits = qsf_schema_child(s, k->key[KEY_FREE_PROPERTIES], PART_SCHEMA);
    }
    return fits && (said || !named || !s->closed);
}

/* key: what is between its quotes */
static qsf_gnode object_entry(schema *s, qsf_gnode key, qsf_gnode value)
{
    const qsf_gnode rest = qsf_schema_sequence(s, qsf_schema_sign(s, ":"),
                                                 qsf_schema_sequence(s, value, s->blanks));
    return qsf_schema_sequence3(s, s->quote, qsf_schema_sequence(s, key, s->quote),
                                qsf_schema_sequence(s, s->blanks, rest));
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
    return qsf_schema_regex(s, v, v->text, v->n, QSF_REGEX_SEARCH | QSF_REGEX_JSON);
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
        const qsf_json_node *names = p->kind == PART_OWN ? qsf_schema_keys_of(s, p->v)->key[KEY_NAMES] : NULL;
        if (names) any = true, fits = qsf_schema_child(s, names, PART_SCHEMA);
    }
    if (!any || !fits) {
        s->n_parts = from;
        return any ? s->none : 0;
    }
    qsf_schema_push(s, (schema_part){ s->root, PART_TYPES, T_STRING, UINT32_MAX });
    schema_run run = qsf_schema_start(s, from);
    while (qsf_schema_next(s, &run, &leaf)) out = qsf_schema_either(s, out, qsf_schema_strings(s, &leaf));
    qsf_schema_stop(s, &run);
    return out;
}

/* Properties that are not named one by one: a choice over what patterns fit their keys. */
static qsf_gnode object_others(schema *s, object_leaf *o)
{
    qsf_gnode out = s->none,
              *literals = qsf_arena_array(s->arena, o->n + 1, sizeof *literals, "a schema", NULL),
              not_named = 0;
    bool names_read = false;
    uint32_t sets = 0;
    qsf_gnode names = 0;
    if (!literals) {
        qsf_schema_no_memory(s);
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
        const qsf_gnode value = qsf_schema_value(s, from);
        if (value == s->none) continue;
        if (sets++ == OBJECT_MAX_SETS)
            qsf_schema_too_large(s, o->patterns[0], "more than 7 patterns that fit the same names");
        if (!names_read) {
            names = object_names(s, o);
            for (uint32_t i = 0; i < o->n; i++)
                literals[i] = qsf_schema_literal(s, o->names[i].name->text, o->names[i].name->n);
            if (o->n) not_named = qsf_g_not(s->b, qsf_g_choice(s->b, literals, o->n));
            names_read = true;
        }
        qsf_gnode key = qsf_schema_both(s, not_named, names);
        for (uint32_t m = 0; m < o->n_patterns && !s->failed; m++) {
            if (!(set >> m & 1) && (o->apart[m] & set)) continue;
            const qsf_gnode x = object_pattern(s, o->patterns[m]);
            key = qsf_schema_both(s, key, set >> m & 1 ? x : qsf_g_not(s->b, x));
        }
        const bool all = !key;
        key = qsf_schema_both(s, key,
                              qsf_g_repeat(s->b, all ? s->any_char : s->plain_char, 0, QSF_G_NO_MOST));
        out = qsf_schema_either(s, out, object_entry(s, key, value));
    }
    return out;
}

/* The part between "{" and "}": at[c] is what may follow c properties, from the last name to the
 * first.  c ends where it no longer makes a difference. */
static qsf_gnode object_rest(schema *s, object_leaf *o)
{
    const qsf_gnode comma = qsf_schema_sign(s, ","), others = object_others(s, o);
    uint32_t counts = QSF_MAX(o->least, 1);
    if (o->most != QSF_G_NO_MOST && (o->most < o->n || others != s->none)) counts = QSF_MAX(o->most, 1);
    else o->most = QSF_G_NO_MOST;
    const uint64_t reach = o->n + (others != s->none ? (uint64_t)counts : 1);
    counts = (uint32_t)QSF_MIN(counts, QSF_MAX(reach, 1));
    if ((uint64_t)(counts + 1) * (o->n + 1) > OBJECT_MAX_STATES) {
        qsf_schema_refuse(s, o->leaf->n ? o->leaf->parts[0].v : s->root,
                          "minProperties or maxProperties this large are not supported");
        return s->none;
    }
    qsf_gnode *at = qsf_arena_array(s->arena, (uint64_t)counts + 2, sizeof *at, "a schema", NULL);
    if (!at) {
        qsf_schema_no_memory(s);
        return s->none;
    }
    const qsf_gnode other = qsf_schema_sequence(s, comma, others);
    for (uint32_t c = 0; c <= counts; c++) {
        const uint32_t least = o->least > c ? o->least - c : 0, most = o->most == QSF_G_NO_MOST ? o->most
                                                                       : o->most > c            ? o->most - c
                                                                                                : 0;
        if (others == s->none || !most) at[c] = least ? s->none : s->empty;
        else if (c) at[c] = qsf_g_repeat(s->b, other, least, most);
        else at[c] = qsf_schema_either(s, least ? s->none : s->empty, qsf_schema_sequence(s, others,
                qsf_g_repeat(s->b, other, least ? least - 1 : 0, most == QSF_G_NO_MOST ? most : most - 1)));
    }
    for (uint32_t i = o->n; i-- > 0 && !s->failed; ) {
        const qsf_json_node *name = o->names[i].name;
        const uint32_t from = s->n_parts;
        qsf_gnode value = s->none;
        if (object_child(s, o, name, 0)) value = qsf_schema_value(s, from);
        else if (!s->failed) s->n_parts = from;
        const qsf_gnode entry = object_entry(s, qsf_schema_literal(s, name->text, name->n), value),
                        next = qsf_schema_sequence(s, comma, entry);
        for (uint32_t c = 0; c <= QSF_MIN(counts, i); c++) {
            const qsf_gnode take = o->most != QSF_G_NO_MOST && c >= o->most ? s->none
                                 : qsf_schema_sequence(s, c ? next : entry, at[QSF_MIN(c + 1, counts)]);
            at[c] = o->names[i].required ? take : qsf_schema_either(s, take, at[c]);
        }
    }
    return s->failed ? s->none : at[0];
}

qsf_gnode qsf_schema_object(schema *s, const schema_leaf *leaf)
{
    object_leaf o = { .leaf = leaf };
    object_read(s, &o);
    if (s->failed || o.least > o.most) return s->none;
    return qsf_schema_sequence3(s, qsf_schema_sign(s, "{"), object_rest(s, &o), qsf_schema_bytes(s, "}"));
}

bool qsf_schema_object_possible(schema *s, const schema_leaf *leaf, uint32_t depth)
{
    object_leaf o = { .leaf = leaf };
    object_read(s, &o);
    uint32_t required = 0;
    bool possible = o.least <= o.most;
    for (uint32_t i = 0; i < o.n && possible && !s->failed; i++) {
        if (!o.names[i].required) continue;
        const uint32_t from = s->n_parts;
        required++;
        possible = object_child(s, &o, o.names[i].name, 0) && !s->failed;
        if (possible) possible = !qsf_schema_impossible(s, from, depth);
        if (!s->failed) s->n_parts = from;
    }
    return possible && required <= o.most;
}
