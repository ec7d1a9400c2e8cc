/* JSON Schema as a grammar: values, and the goals that are inside them.
 * SPDX-License-Identifier: MIT
 *
 * Each goal that may be a list or an object is a rule of the grammar, made once; what it needs is
 * noted and made later, so that nothing recurses and schemas may be recursive. */
#include "grammar/schema_own.h"

enum { SCHEMA_MAX_VALUES = 1000000 };

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
        if (!qsf_schema_allowed(s, &own, &v, &n)) continue;
        for (; n; n--, v = qsf_json_next(v)) found |= v->type == type;
        if (found == flip) return s->none;
    }
    return qsf_schema_bytes(s, text);
}

static qsf_gnode scalar_node(schema *s, const schema_leaf *leaf)
{
    qsf_gnode out = s->none;
    if (leaf->types & T_NULL) out = word_node(s, leaf, QSF_JSON_NULL, "null");
    if (leaf->types & T_BOOLEAN)
        out = qsf_schema_either(s, out,
                                qsf_schema_either(s, word_node(s, leaf, QSF_JSON_TRUE, "true"),
                                                  word_node(s, leaf, QSF_JSON_FALSE, "false")));
    if (leaf->types & T_NUMBER) out = qsf_schema_either(s, out, qsf_schema_numbers(s, leaf));
    if (leaf->types & T_STRING)
        out = qsf_schema_either(s, out,
                                qsf_schema_sequence3(s, s->quote, qsf_schema_strings(s, leaf), s->quote));
    return out;
}

bool qsf_schema_leaf_impossible(schema *s, const schema_leaf *leaf, uint32_t depth)
{
    const qsf_json_node *v;
    uint32_t n;
    bool listed = false;
    for (uint32_t i = 0; i < leaf->n && !listed; i++) listed = qsf_schema_allowed(s, &leaf->parts[i], &v, &n);
    if (leaf->types & T_SCALAR) {
        /* a look at patterns would cost too much */
        const uint32_t sure = listed ? 0 : T_STRING | T_NULL | T_BOOLEAN;
        if (leaf->types & sure || scalar_node(s, leaf) != s->none) return false;
    }
    return !(leaf->types & T_ARRAY && qsf_schema_array_possible(s, leaf, depth))
        && !(leaf->types & T_OBJECT && qsf_schema_object_possible(s, leaf, depth));
}

/* ---- goals ---- */

static uint64_t known_hash(const schema_part *parts, uint32_t n)
{
    uint64_t h = n;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ (uint64_t)(uintptr_t)parts[i].v ^ parts[i].kind) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    return h;
}

/* The node of a goal; container not NULL: only if it has no lists and objects, else *container. */
static qsf_gnode known_make(schema *s, uint32_t which, bool *container)
{
    const schema_known k = s->known[which];
    const uint32_t from = s->n_parts;
    qsf_gnode *out = NULL;
    uint32_t n = 0, cap = 0;
    schema_leaf leaf;
    for (uint32_t i = 0; i < k.n; i++) qsf_schema_push(s, s->known_parts[k.begin + i]);
    schema_run run = qsf_schema_start(s, from);
    s->at = k.n ? s->known_parts[k.begin].v : NULL;
    while (qsf_schema_next(s, &run, &leaf)) {
        if (container && (leaf.types & ~T_SCALAR)) {
            *container = true;
            qsf_schema_stop(s, &run);
            return s->none;
        }
        qsf_gnode x = scalar_node(s, &leaf);
        if (leaf.types & T_ARRAY && !s->failed) x = qsf_schema_either(s, x, qsf_schema_array(s, &leaf));
        if (leaf.types & T_OBJECT && !s->failed) x = qsf_schema_either(s, x, qsf_schema_object(s, &leaf));
        if (x == s->none) continue;
        out = qsf_schema_grow(s, out, n, &cap, sizeof *out);
        if (s->failed) break;
        out[n++] = x;
    }
    qsf_schema_stop(s, &run);
    if (k.n) qsf_schema_locate(s, s->known_parts[k.begin].v);
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

qsf_gnode qsf_schema_value(schema *s, uint32_t from)
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
            qsf_schema_no_memory(s);
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
            qsf_schema_grow(s, s->known_parts, s->n_known_parts, &s->cap_known_parts, sizeof *s->known_parts);
        if (!s->failed) s->known_parts[s->n_known_parts++] = parts[i];
    }
    s->known = qsf_schema_grow(s, s->known, s->n_known, &s->cap_known, sizeof *s->known);
    if (s->failed) return s->none;
    const uint32_t which = s->n_known++;
    s->known[which] = k;
    s->table[slot] = which + 1;
    bool container = false;
    const qsf_json_node *at = s->at;
    const qsf_gnode node = known_make(s, which, &container);
    s->at = at;
    s->known[which].node = container ? qsf_g_rule(s->b) : node;
    s->known[which].open = container;           /* to be made */
    return s->known[which].node;
}

static qsf_gnode schema_make(schema *s, const qsf_schema_options *o)
{
    qsf_schema_begin(s);
    qsf_schema_push(s, (schema_part){ o && o->at ? o->at : s->root, PART_SCHEMA, 0, UINT32_MAX });
    if (o && o->object) qsf_schema_push(s, (schema_part){ s->root, PART_TYPES, T_OBJECT, UINT32_MAX });
    const qsf_gnode root = qsf_schema_value(s, 0);
    for (; s->n_done < s->n_known && !s->failed; s->n_done++) {
        if (!s->known[s->n_done].open) continue;
        const qsf_gnode body = known_make(s, s->n_done, NULL);
        qsf_g_define(s->b, s->known[s->n_done].node, body);
    }
    if (root == s->none) qsf_schema_refuse(s, s->root, "no value fits this schema");
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
            .platform = p, .b = b, .arena = arena, .root = v, .what = o && o->what ? o->what : "schema",
            .closed = o && o->closed,
        };
        if (v->skip > SCHEMA_MAX_VALUES)
            st = qsf_fail(&err, QSF_E_BUDGET, "%s: #: more than 1,000,000 values and names", s->what);
        if (!st) s->keys = qsf_arena_array(arena, v->skip, sizeof *s->keys, "a schema", &err);
        if (!st && !s->keys) st = QSF_E_MEMORY;
    }
    if (st) {
        qsf_g_fail(b, st, "%s", err.text);
    } else {
        qsf_schema_string_begin(s);
        s->blanks = o && o->blanks
                        ? qsf_g_repeat(b, qsf_g_class(b, blank, QSF_ARRAY_LEN(blank), false), 0, o->blanks)
                        : s->empty;
        root = schema_make(s, o);
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
