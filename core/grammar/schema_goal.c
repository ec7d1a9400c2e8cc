/* JSON Schema, goals: lists of parts are taken apart until each says what a value itself has to be.
 * SPDX-License-Identifier: MIT
 *
 * Nothing recurses on the schema: goals that are still to be taken apart are on a stack. */
#include "grammar/schema_own.h"

enum {
    GOAL_MAX_STEPS = 1000000,   /* parts that are taken apart, for a whole schema */
    GOAL_MAX_PARTS = 3000,      /* of one goal */
    GOAL_MAX_PROBE = 24,        /* leaves that qsf_schema_impossible looks at */
    GOAL_MAX_ONE = 2000,        /* schemas of a oneOf */
    GOAL_DEPTH = 4              /* nesting of values that it descends into */
};

void qsf_schema_push(schema *s, schema_part part)
{
    s->parts = qsf_schema_grow(s, s->parts, s->n_parts, &s->cap_parts, sizeof *s->parts);
    if (!s->failed) s->parts[s->n_parts++] = part;
}

bool qsf_schema_child(schema *s, const qsf_json_node *v, part_kind kind)
{
    if (kind == PART_SCHEMA && v->type == QSF_JSON_FALSE) return false;
    if (kind == PART_NOT && v->type == QSF_JSON_TRUE) return false;
    if (kind == PART_SCHEMA && (v->type == QSF_JSON_TRUE || (v->type == QSF_JSON_OBJECT && !v->n)))
        return true;
    qsf_schema_push(s, (schema_part){ v, (uint8_t)kind, 0, UINT32_MAX });
    return true;
}

bool qsf_schema_comes_from(const schema *s, const schema_part *q, const schema_part *p)
{
    for (uint32_t t = q->from; t != UINT32_MAX && s->trail[t].schema; t = s->trail[t].parent)
        if (s->trail[t].schema == p->v) return true;
    return false;
}

static bool goal_holds(const schema *s, uint32_t begin, uint32_t n, const schema_part *p)
{
    for (uint32_t i = begin; i < begin + n; i++)
        if (s->parts[i].v == p->v && s->parts[i].kind == p->kind && s->parts[i].arg == p->arg) return true;
    return false;
}

/* ---- what a part allows by itself ---- */

bool qsf_schema_allowed(schema *s, const schema_part *part, const qsf_json_node **v, uint32_t *n)
{
    *n = 1;
    *v = part->v;
    if (part->kind == PART_VALUE) return true;
    if (part->kind != PART_OWN) return false;
    const schema_keys *k = qsf_schema_keys_of(s, part->v);
    if (k->key[KEY_CONST]) {
        *v = k->key[KEY_CONST];
        return true;
    }
    if (!k->key[KEY_ENUM]) return false;
    *v = k->key[KEY_ENUM] + 1;
    *n = k->key[KEY_ENUM]->n;
    return true;
}

static uint32_t goal_types(schema *s, const schema_part *parts, uint32_t n)
{
    uint32_t types = T_ALL;
    for (uint32_t i = 0; i < n && types; i++) {
        const qsf_json_node *v;
        uint32_t count, some = 0;
        switch (parts[i].kind) {
        case PART_OWN: {
            const schema_keys *k = qsf_schema_keys_of(s, parts[i].v);
            if (k->key[KEY_TYPE]) types &= qsf_schema_types_of(s, k->key[KEY_TYPE]);
            break;
        }
        case PART_TYPES: types &= parts[i].arg; break;
        case PART_FLIP: types &= qsf_schema_key_types(parts[i].arg); break;
        case PART_WITH: case PART_WITH_OTHER: types &= T_OBJECT; break;
        default: break;
        }
        if (!qsf_schema_allowed(s, &parts[i], &v, &count)) continue;
        for (uint32_t k = 0; k < count; k++, v = qsf_json_next(v)) some |= qsf_schema_value_types(v);
        types &= some;
    }
    return types;
}

/* ---- making goals ---- */

static void goal_push(schema *s, uint32_t begin)
{
    s->goals = qsf_schema_grow(s, s->goals, s->n_goals, &s->cap_goals, sizeof *s->goals);
    if (!s->failed) s->goals[s->n_goals++] = (schema_goal){ begin, s->n_parts - begin };
}

/* Another goal: that of copy[0..n), with instead[0..m) where part i was. */
static void goal_branch(schema *s, const schema_part *copy, uint32_t n, uint32_t i,
                        const schema_part *instead, uint32_t m)
{
    const uint32_t begin = s->n_parts;
    for (uint32_t k = 0; k < n && !s->failed; k++) {
        if (k == i) for (uint32_t j = 0; j < m; j++) qsf_schema_push(s, instead[j]);
        else qsf_schema_push(s, copy[k]);
    }
    goal_push(s, begin);
}

/* *from goes one step on, to schema. */
static void goal_trail(schema *s, const qsf_json_node *v, uint32_t *from)
{
    s->trail = qsf_schema_grow(s, s->trail, s->n_trail, &s->cap_trail, sizeof *s->trail);
    if (s->failed) return;
    s->trail[s->n_trail] = (schema_trail){ v, *from };
    *from = s->n_trail++;
}

/* Pushes the parts for keyword x of own's schema onto the goal. */
static void goal_keyword(schema *s, const schema_part *own, const qsf_json_node *x)
{
    static const uint8_t kinds[KEY_COUNT] = {
        [KEY_CONST] = PART_VALUE, [KEY_ENUM] = PART_ENUM, [KEY_ANY_OF] = PART_ANY, [KEY_ONE_OF] = PART_ONE,
        [KEY_NOT] = PART_NOT, [KEY_IF] = PART_IF, [KEY_PROPERTIES] = PART_OWN,
        [KEY_DEPENDENCIES] = PART_DEPENDENT, [KEY_DEPENDENT_REQUIRED] = PART_DEPENDENT,
        [KEY_DEPENDENT_SCHEMAS] = PART_DEPENDENT,
    };
    const schema_keys *k = qsf_schema_keys_of(s, own->v);
    schema_key key = 0;
    while (key < KEY_COUNT && k->key[key] != x) key++;
    if (key == KEY_COUNT || s->failed) return;
    schema_part p = { x, kinds[key], own->arg, own->from };
    const qsf_json_node *c = x + 1;
    switch (key) {
    case KEY_CONST: if (qsf_schema_value_types(x) & ~T_SCALAR) qsf_schema_push(s, p); return;
    case KEY_ENUM:
        for (uint32_t i = 0; i < x->n; i++, c = qsf_json_next(c))
            if (qsf_schema_value_types(c) & ~T_SCALAR) {
                qsf_schema_push(s, p);
                return;
            }
        return;
    case KEY_REF: case KEY_RECURSIVE_REF: case KEY_DYNAMIC_REF:
        if ((p.v = qsf_schema_resolve(s, x, key)) != NULL) qsf_schema_push(s, p);
        return;
    case KEY_ALL_OF:
        for (uint32_t i = 0; i < x->n; i++, c = qsf_json_next(c)) p.v = c, qsf_schema_push(s, p);
        return;
    case KEY_DEPENDENCIES: case KEY_DEPENDENT_REQUIRED: case KEY_DEPENDENT_SCHEMAS:
        for (uint32_t i = 0; i < x->n; i++, c = qsf_json_next(c + 1)) p.v = c, qsf_schema_push(s, p);
        return;
    case KEY_IF: case KEY_PROPERTIES: p.v = own->v; break;
    default: break;
    }
    if (p.kind) qsf_schema_push(s, p);
}

/* PART_SCHEMA: replaced by the parts of its keywords, in order. */
static void goal_open(schema *s, uint32_t i)
{
    const schema_goal *g = &s->goals[s->n_goals - 1];
    const schema_part p = s->parts[i];
    const qsf_json_node *v = p.v, *name = v + 1;
    schema_part own = { v, PART_OWN, p.arg, p.from };
    for (uint32_t t = p.from; t != UINT32_MAX; t = s->trail[t].parent)
        if (s->trail[t].schema == v) {
            qsf_schema_refuse(s, v, "the schema refers to itself without descending into a value");
            return;
        }
    const bool again = goal_holds(s, g->begin, g->n, &own);
    if (v->type != QSF_JSON_OBJECT && v->type != QSF_JSON_TRUE && v->type != QSF_JSON_FALSE)
        qsf_schema_refuse(s, v, "a schema must be an object, true or false");
    goal_trail(s, v, &own.from);
    /* pushes copies of the parts after i, the new parts, and the copies, which replace part i.. */
    const uint32_t keep = s->n_parts, tail = keep - (i + 1);
    for (uint32_t m = 0; m < tail && !s->failed; m++) qsf_schema_push(s, s->parts[i + 1 + m]);
    const uint32_t scratch = s->n_parts;
    if (!again && v->type == QSF_JSON_FALSE) qsf_schema_push(s, (schema_part){ v, PART_TYPES, 0, own.from });
    for (uint32_t m = 0; v->type == QSF_JSON_OBJECT && m < v->n && !again && !s->failed; m++) {
        goal_keyword(s, &own, name + 1);
        name = qsf_json_next(name + 1);
    }
    if (!again && !s->failed && !goal_holds(s, scratch, s->n_parts - scratch, &own)) qsf_schema_push(s, own);
    if (s->failed) return;
    const uint32_t made = s->n_parts - scratch;
    for (uint32_t m = 0; m < tail && !s->failed; m++) qsf_schema_push(s, s->parts[keep + m]);
    if (s->failed) return;
    memmove(s->parts + i, s->parts + scratch, (made + tail) * sizeof *s->parts);
    s->n_parts = i + made + tail;
    s->goals[s->n_goals - 1].n = s->n_parts - g->begin;
    s->n_steps += s->n_parts - g->begin;
}

/* ---- alternatives ---- */

typedef struct goal_copy { schema_part *parts; uint32_t n, i; } goal_copy;

static void goal_one(schema *s, const goal_copy *g, const schema_part *instead, uint32_t n)
{
    goal_branch(s, g->parts, g->n, g->i, instead, n);
}

/* Whether schemas x and y, in place of part i, may both hold. */
static bool goal_overlap(schema *s, const goal_copy *g, const qsf_json_node *x, const qsf_json_node *y)
{
    const uint32_t from = s->n_parts, trail = g->parts[g->i].from;
    for (uint32_t k = 0; k < g->n; k++) if (k != g->i) qsf_schema_push(s, g->parts[k]);
    qsf_schema_push(s, (schema_part){ x, PART_SCHEMA, 0, trail });
    qsf_schema_push(s, (schema_part){ y, PART_SCHEMA, 0, trail });
    return !s->failed && !qsf_schema_impossible(s, from, GOAL_DEPTH);
}

/* oneOf: one holds, and none of the others that could hold with it. */
static void goal_one_of(schema *s, const goal_copy *g)
{
    const schema_part p = g->parts[g->i];
    const uint32_t n = p.v->n;
    const qsf_json_node *x = p.v + 1;
    schema_part *list = qsf_arena_array(s->arena, n + 1, sizeof *list, "a schema", NULL);
    /* both[i * n + j], j < i: i and j overlap */
    bool *both = NULL;
    if (n > GOAL_MAX_ONE) qsf_schema_too_large(s, p.v, "a oneOf of more than 2,000 schemas");
    else if (!s->probing) both = qsf_arena_alloc(s->arena, n * n + 1, "a schema", NULL);
    if (!list || (!both && !s->probing)) qsf_schema_no_memory(s);
    for (uint32_t i = 0; both && i < n && !s->failed; i++, x = qsf_json_next(x)) {
        const qsf_json_node *y = p.v + 1;
        for (uint32_t j = 0; j < i && !s->failed; j++, y = qsf_json_next(y))
            both[i * n + j] = both[j * n + i] = goal_overlap(s, g, x, y);
    }
    x = p.v + 1;
    for (uint32_t i = 0; i < n && !s->failed; i++, x = qsf_json_next(x)) {
        uint32_t m = 0;
        const qsf_json_node *y = p.v + 1;
        list[m++] = (schema_part){ x, PART_SCHEMA, p.arg, p.from };
        for (uint32_t j = 0; both && j < n; j++, y = qsf_json_next(y))
            if (both[i * n + j]) list[m++] = (schema_part){ y, PART_NOT, 0, p.from };
        goal_one(s, g, list, m);
    }
}

static void goal_any_of(schema *s, const goal_copy *g)
{
    const schema_part p = g->parts[g->i];
    const uint32_t n = p.v->n;
    schema_part list[6];
    if (!s->free_used) {
        const qsf_json_node *x = p.v + 1;
        for (uint32_t i = 0; i < n && !s->failed; i++, x = qsf_json_next(x))
            goal_one(s, g, &(schema_part){ x, PART_SCHEMA, p.arg, p.from }, 1);
        return;
    }
    /* what is evaluated depends on all that hold: each set of them */
    if (n > QSF_ARRAY_LEN(list)) {
        qsf_schema_refuse(s, p.v,
                          "anyOf of more than 6 schemas together with unevaluated... is not supported");
        return;
    }
    for (uint32_t set = 1; set < 1u << n && !s->failed; set++) {
        const qsf_json_node *x = p.v + 1;
        uint32_t m = 0;
        for (uint32_t i = 0; i < n; i++, x = qsf_json_next(x))
            if (set >> i & 1) list[m++] = (schema_part){ x, PART_SCHEMA, p.arg, p.from };
        goal_one(s, g, list, m);
    }
}

static void goal_enum(schema *s, const goal_copy *g)
{
    const schema_part p = g->parts[g->i];
    const qsf_json_node *x = p.v + 1;
    goal_one(s, g, &(schema_part){ p.v, PART_TYPES, T_SCALAR, p.from }, 1);
    for (uint32_t i = 0; i < p.v->n && !s->failed; i++, x = qsf_json_next(x))
        if (qsf_schema_value_types(x) & ~T_SCALAR)
            goal_one(s, g, &(schema_part){ x, PART_VALUE, 0, p.from }, 1);
}

static void goal_if(schema *s, const goal_copy *g)
{
    const schema_part p = g->parts[g->i];
    const schema_keys *k = qsf_schema_keys_of(s, p.v);
    schema_part list[2] = { { k->key[KEY_IF], PART_SCHEMA, SCHEMA_LATE, p.from },
                            { k->key[KEY_THEN], PART_SCHEMA, p.arg, p.from } };
    if (!k->key[KEY_THEN] && !k->key[KEY_ELSE] && !s->free_used) {
        goal_one(s, g, NULL, 0);
        return;
    }
    goal_one(s, g, list, 1 + (k->key[KEY_THEN] != NULL));
    list[0].kind = PART_NOT;
    list[1].v = k->key[KEY_ELSE];
    goal_one(s, g, list, 1 + (k->key[KEY_ELSE] != NULL));
}

static void goal_dependent(schema *s, const goal_copy *g)
{
    const schema_part p = g->parts[g->i];
    const qsf_json_node *x = p.v + 1;
    schema_part list[40];
    uint32_t n = 0;
    goal_one(s, g, &(schema_part){ p.v, PART_WITHOUT, 0, p.from }, 1);
    list[n++] = (schema_part){ p.v, PART_WITH, 0, p.from };
    if (x->type == QSF_JSON_LIST) {
        const qsf_json_node *c = x + 1;
        if (x->n >= QSF_ARRAY_LEN(list)) qsf_schema_refuse(s, x, "more than 39 names are not supported here");
        for (uint32_t i = 0; i < x->n && n < QSF_ARRAY_LEN(list); i++, c = qsf_json_next(c))
            list[n++] = (schema_part){ c, PART_WITH, 0, p.from };
    } else {
        list[n++] = (schema_part){ x, PART_SCHEMA, p.arg, p.from };
    }
    goal_one(s, g, list, n);
}

/* A goal for each name, key or schema in x: that it is broken. */
static void goal_each(schema *s, const goal_copy *g, const qsf_json_node *x, part_kind kind, uint32_t from)
{
    const qsf_json_node *c = x + 1;
    for (uint32_t i = 0; i < x->n && !s->failed; i++) {
        const schema_part list[] = { { c, (uint8_t)kind, 0, from }, { c, PART_TYPES, T_OBJECT, from } };
        goal_one(s, g, list, kind == PART_WITHOUT ? 2 : 1);
        c = qsf_json_next(x->type == QSF_JSON_OBJECT ? c + 1 : c);
    }
}

/* A goal in which keyword key of p's schema does not hold. */
static void goal_not_key(schema *s, const goal_copy *g, const schema_part *p, schema_key key)
{
    const schema_keys *k = qsf_schema_keys_of(s, p->v);
    const qsf_json_node *x = k->key[key], *c = x + 1;
    schema_part one = { p->v, PART_FLIP, (uint8_t)key, p->from }, *all;
    switch (key) {
    case KEY_TYPE:
        one.kind = PART_TYPES;
        one.arg = (uint8_t)(T_ALL & ~qsf_schema_types_of(s, x));
        break;
    case KEY_ENUM: case KEY_CONST: case KEY_MINIMUM: case KEY_MAXIMUM: case KEY_MULTIPLE: case KEY_MIN_LENGTH:
    case KEY_MAX_LENGTH: case KEY_PATTERN: case KEY_FORMAT: case KEY_MIN_ITEMS: case KEY_MAX_ITEMS:
    case KEY_MIN_PROPERTIES: case KEY_MAX_PROPERTIES: break;
    case KEY_ABOVE: case KEY_BELOW: if (x->type != QSF_JSON_NUMBER) return; break;
    case KEY_CONTAINS:
        if (!s->probing && (k->key[KEY_MIN_CONTAINS] || k->key[KEY_MAX_CONTAINS]))
            qsf_schema_refuse(s, x, "its opposite is not supported");
        break;
    case KEY_REQUIRED: goal_each(s, g, x, PART_WITHOUT, p->from); return;
    case KEY_PROPERTIES: goal_each(s, g, x, PART_WITH_OTHER, p->from); return;
    case KEY_ALL_OF: goal_each(s, g, x, PART_NOT, p->from); return;
    case KEY_ANY_OF:
        all = qsf_arena_array(s->arena, x->n + 1, sizeof *all, "a schema", NULL);
        if (!all) qsf_schema_no_memory(s);
        for (uint32_t i = 0; all && i < x->n; i++, c = qsf_json_next(c))
            all[i] = (schema_part){ c, PART_NOT, 0, p->from };
        if (all) goal_one(s, g, all, x->n);
        return;
    case KEY_NOT: one.v = x, one.kind = PART_SCHEMA, one.arg = SCHEMA_LATE; break;
    case KEY_REF:
        one.v = qsf_schema_resolve(s, x, KEY_REF);
        one.kind = PART_NOT, one.arg = 0;
        break;
    case KEY_THEN: case KEY_ELSE: return;       /* they have no effect alone */
    default:
        if (x->type == (key == KEY_UNIQUE ? QSF_JSON_FALSE : QSF_JSON_TRUE)) return;    /* breaks nothing */
        if (!s->probing) qsf_schema_refuse(s, x,
                                           "the opposite of this is not supported (in not, oneOf or if)");
        goal_one(s, g, NULL, 0);
        return;
    }
    if (!s->failed) goal_one(s, g, &one, 1);
}

/* A schema does not hold if one of its keywords does not. */
static void goal_not(schema *s, const goal_copy *g)
{
    schema_part p = g->parts[g->i];
    const schema_keys *k = qsf_schema_keys_of(s, p.v);
    if (p.v->type == QSF_JSON_FALSE) goal_one(s, g, NULL, 0);
    if (p.v->type != QSF_JSON_OBJECT) return;
    goal_trail(s, NULL, &p.from);               /* what is in here evaluates nothing */
    for (uint32_t key = 0; key < KEY_COUNT && !s->failed; key++)
        if (k->key[key]) goal_not_key(s, g, &p, (schema_key)key);
}

/* ---- runs ---- */

schema_run qsf_schema_start(schema *s, uint32_t from)
{
    const schema_run run = { s->n_goals, from, false };
    goal_push(s, from);
    return run;
}

bool qsf_schema_impossible(schema *s, uint32_t from, uint32_t depth)
{
    schema_leaf leaf;
    bool impossible = depth > 0;
    uint32_t n = 0;
    schema_run run = qsf_schema_start(s, from);
    s->probing++;
    while (impossible && qsf_schema_next(s, &run, &leaf))
        impossible = ++n <= GOAL_MAX_PROBE && qsf_schema_leaf_impossible(s, &leaf, depth - 1);
    s->probing--;
    qsf_schema_stop(s, &run);
    return impossible && !s->failed;
}

static void goal_pop(schema *s)
{
    s->n_parts = s->goals[--s->n_goals].begin;
}

void qsf_schema_stop(schema *s, schema_run *run)
{
    if (s->failed) return;
    s->n_goals = run->goals;
    s->n_parts = run->parts;
}

bool qsf_schema_next(schema *s, schema_run *run, schema_leaf *leaf)
{
    if (run->taken && !s->failed) goal_pop(s);
    run->taken = false;
    while (!s->failed && s->n_goals > run->goals) {
        const schema_goal g = s->goals[s->n_goals - 1];
        uint32_t open = UINT32_MAX, branch = UINT32_MAX;
        for (uint32_t i = g.begin; i < g.begin + g.n; i++) {
            if (s->parts[i].kind == PART_SCHEMA) open = QSF_MIN(open, i);
            else if (s->parts[i].kind < PART_OWN) branch = QSF_MIN(branch, i);
        }
        if (++s->n_steps > GOAL_MAX_STEPS || g.n > GOAL_MAX_PARTS) {
            qsf_schema_too_large(s, s->parts[g.begin].v,
                                 "too many nested alternatives of anyOf, oneOf, if and not; simplify them");
            return false;
        }
        if (open != UINT32_MAX) {
            goal_open(s, open);
            continue;
        }
        leaf->parts = s->parts + g.begin;
        leaf->n = g.n;
        leaf->types = goal_types(s, leaf->parts, g.n);
        if (!leaf->types) {
            goal_pop(s);
            continue;
        }
        if (branch == UINT32_MAX) {
            run->taken = true;
            return !s->failed;
        }
        goal_copy copy = { qsf_arena_array(s->arena, g.n, sizeof *copy.parts, "a schema", NULL), g.n,
                           branch - g.begin };
        if (!copy.parts) {
            qsf_schema_no_memory(s);
            return false;
        }
        memcpy(copy.parts, leaf->parts, g.n * sizeof *copy.parts);
        goal_pop(s);
        switch (copy.parts[copy.i].kind) {
        case PART_ANY: goal_any_of(s, &copy); break;
        case PART_ONE: goal_one_of(s, &copy); break;
        case PART_ENUM: goal_enum(s, &copy); break;
        case PART_IF: goal_if(s, &copy); break;
        case PART_DEPENDENT: goal_dependent(s, &copy); break;
        default: goal_not(s, &copy);
        }
    }
    return false;
}
