/* What the files of the schema reader share.
 * SPDX-License-Identifier: MIT
 *
 * A goal is a list of parts that a value has to fulfil all at once: schemas, schemas it must not
 * fulfil, values it must equal, single demands.  schema_goal.c takes goals apart: $ref and allOf
 * are put in their place, anyOf and its like make several goals of one, until only leaves are
 * there: parts that speak of the value itself.  schema_number.c, schema_string.c, schema_array.c
 * and schema_object.c make nodes of leaves; what is inside lists and objects is again a goal, and
 * schema.c keeps the goals that have a node. */
#ifndef QSF_SCHEMA_OWN_H
#define QSF_SCHEMA_OWN_H

#include "base/arena.h"
#include "grammar/schema.h"

enum {
    T_NULL = 1, T_BOOLEAN = 2, T_INTEGER = 4, T_FRACTION = 8, T_STRING = 16, T_ARRAY = 32, T_OBJECT = 64,
    T_NUMBER = T_INTEGER | T_FRACTION, T_SCALAR = 31, T_ALL = 127
};
enum { DRAFT4 = 1, DRAFT6 = 2, DRAFT7 = 4, DRAFT19 = 8, DRAFT20 = 16 };

typedef enum schema_key {
    KEY_TYPE, KEY_ENUM, KEY_CONST,
    KEY_MINIMUM, KEY_MAXIMUM, KEY_ABOVE, KEY_BELOW, KEY_MULTIPLE,
    KEY_MIN_LENGTH, KEY_MAX_LENGTH, KEY_PATTERN, KEY_FORMAT, KEY_GRAMMAR,
    KEY_ITEMS, KEY_PREFIX, KEY_MORE_ITEMS, KEY_MIN_ITEMS, KEY_MAX_ITEMS, KEY_UNIQUE,
    KEY_CONTAINS, KEY_MIN_CONTAINS, KEY_MAX_CONTAINS, KEY_FREE_ITEMS,
    KEY_PROPERTIES, KEY_PATTERNS, KEY_ADDITIONAL, KEY_NAMES, KEY_REQUIRED, KEY_MIN_PROPERTIES,
    KEY_MAX_PROPERTIES, KEY_DEPENDENCIES, KEY_DEPENDENT_REQUIRED, KEY_DEPENDENT_SCHEMAS, KEY_FREE_PROPERTIES,
    KEY_ALL_OF, KEY_ANY_OF, KEY_ONE_OF, KEY_NOT, KEY_IF, KEY_THEN, KEY_ELSE, KEY_REF, KEY_DYNAMIC_REF,
    KEY_RECURSIVE_REF, KEY_DRAFT3, KEY_COUNT
} schema_key;

/* A schema's keywords, by number; NULL: not there. */
typedef struct schema_keys { const qsf_json_node *key[KEY_COUNT]; } schema_keys;

typedef enum part_kind {
    PART_SCHEMA,            /* v holds; becomes PART_OWN and what it refers to */
    PART_NOT,               /* v does not hold */
    PART_ANY, PART_ONE,     /* v: a list of schemas */
    PART_ENUM,              /* v: a list of values, some of them lists or objects */
    PART_IF,                /* v: a schema with if */
    PART_DEPENDENT,         /* v: a key of dependencies, followed by its value */
    /* leaves */
    PART_OWN,               /* the keywords of v that speak of the value itself */
    PART_VALUE,             /* equals v */
    PART_FLIP,              /* keyword arg of schema v does not hold, and the type fits it */
    PART_TYPES,             /* one of arg */
    PART_WITH, PART_WITHOUT,        /* an object with a property of this name; nothing with it */
    PART_WITH_OTHER         /* v: a key and a schema: the property is there and breaks the schema */
} part_kind;

/* arg of PART_SCHEMA, PART_OWN and of branches: it is from a condition, which says nothing of the
 * order of properties */
enum { SCHEMA_LATE = 1 };

typedef struct schema_part {
    const qsf_json_node *v;
    uint8_t  kind, arg;
    uint32_t from;          /* the schema it comes from: an index of trail */
} schema_part;

typedef struct schema_leaf { const schema_part *parts; uint32_t n, types; } schema_leaf;

typedef struct schema_trail { const qsf_json_node *schema; uint32_t parent; } schema_trail;
typedef struct schema_goal { uint32_t begin, n; } schema_goal;
typedef struct schema_known { uint64_t hash; uint32_t begin, n; qsf_gnode node; bool open; } schema_known;
typedef struct schema_base { const qsf_json_node *node; const char *uri; uint32_t outer; } schema_base;
typedef struct schema_text {
    const char *pattern;
    uint32_t n;
    qsf_grammar *grammar;
    qsf_matcher *matcher;
} schema_text;

typedef struct schema {
    const qsf_platform  *platform;
    qsf_grammar_builder *b;
    qsf_arena           *arena;
    const qsf_json_node *root;
    const char          *what;
    uint32_t             draft;
    const qsf_json_node *at;                    /* the schema that is being made a node */
    bool                 failed, free_used;     /* unevaluated... is used somewhere */
    bool                 closed;                /* as in qsf_schema_options */
    bool                 plain;                 /* numbers have no zeros after them that say nothing */
    schema_keys        **keys;                  /* [root->skip] what was read already */
    schema_base         *bases;                 /* schemas with an $id */
    uint32_t             n_bases;
    uint64_t             n_looked;              /* nodes that references were searched in */
    /* goals that are taken apart, a stack; parts[n_parts] belong to goals[n_goals] */
    schema_part         *parts;
    schema_goal         *goals;
    schema_trail        *trail;
    uint32_t             n_parts, cap_parts, n_goals, cap_goals, n_trail, cap_trail;
    uint32_t             n_steps, probing;      /* work so far; inside of qsf_schema_impossible */
    /* goals that have a node; the first n_done of those with a rule are made */
    schema_part         *known_parts;
    schema_known        *known;
    uint32_t            *table;                 /* [n_table] 1 + index of known, by hash */
    uint32_t             n_known_parts, cap_known_parts, n_known, cap_known, n_table, n_done;
    schema_text          texts[64];             /* patterns that were tried on texts */
    uint32_t             n_texts;
    qsf_gnode            empty, none, blanks, quote, any_text, any_char, plain_char, digit, digits;
} schema;

typedef struct schema_run { uint32_t goals, parts; bool taken; } schema_run;

/* ---- schema_read.c ---- */
/* Refuses the schema because of v: `schema: #/properties/a: WHY`. */
void qsf_schema_refuse(schema *s, const qsf_json_node *v, const char *why);
void qsf_schema_no_memory(schema *s);
/* The same with QSF_E_BUDGET. */
void qsf_schema_too_large(schema *s, const qsf_json_node *v, const char *why);
/* If the builder has failed: adds the location of v to the message. */
void qsf_schema_locate(schema *s, const qsf_json_node *v);
/* If x turns out to be too large, the message will name s->at. */
void qsf_schema_note(schema *s, qsf_gnode x);
/* items of size bytes with room for one more than n; NULL: out of memory, with an error */
void *qsf_schema_grow(schema *s, void *items, uint32_t n, uint32_t *cap, size_t size);
void qsf_schema_begin(schema *s);               /* draft, bases */
const schema_keys *qsf_schema_keys_of(schema *s, const qsf_json_node *v);
const qsf_json_node *qsf_schema_resolve(schema *s, const qsf_json_node *ref, schema_key key);
uint32_t qsf_schema_types_of(schema *s, const qsf_json_node *type);
uint32_t qsf_schema_value_types(const qsf_json_node *v);
uint32_t qsf_schema_count(schema *s, const qsf_json_node *v, uint32_t otherwise);
/* The types that a keyword speaks of. */
uint32_t qsf_schema_key_types(schema_key key);

/* ---- schema_goal.c ---- */
void qsf_schema_push(schema *s, schema_part part);      /* onto the parts of the goal that is being made */
schema_run qsf_schema_start(schema *s, uint32_t from);  /* a run over the goal of parts[from..n_parts) */
/* Pushes a demand on a value inside; false: no value fits it. */
bool qsf_schema_child(schema *s, const qsf_json_node *v, part_kind kind);
/* Whether q comes from p's schema in place: what it evaluates, p's unevaluated... sees. */
bool qsf_schema_comes_from(const schema *s, const schema_part *q, const schema_part *p);
bool qsf_schema_next(schema *s, schema_run *run, schema_leaf *leaf);
void qsf_schema_stop(schema *s, schema_run *run);       /* before its end */
/* Whether no value fits the goal parts[from..n_parts), as far as that shows; takes it off. */
bool qsf_schema_impossible(schema *s, uint32_t from, uint32_t depth);
/* The list of values that a part allows: enum or const; *n of them from *v on. */
bool qsf_schema_allowed(schema *s, const schema_part *part, const qsf_json_node **v, uint32_t *n);

/* ---- schema_number.c ---- */
typedef struct schema_decimal { bool minus; uint16_t whole, n; char digits[400]; } schema_decimal;
bool qsf_schema_decimal_of(const qsf_json_node *v, schema_decimal *out);
int qsf_schema_decimal_compare(const schema_decimal *x, const schema_decimal *y);
qsf_gnode qsf_schema_numbers(schema *s, const schema_leaf *leaf);   /* s->none: no number fits */

/* ---- schema_string.c ---- */
void qsf_schema_string_begin(schema *s);
qsf_gnode qsf_schema_strings(schema *s, const schema_leaf *leaf);   /* between the quotes */
qsf_gnode qsf_schema_literal(schema *s, const char *text, size_t n); /* this string between the quotes */
/* What matches pattern[0..n); flags as in qsf_regex_nodes.  at: its place in the schema. */
qsf_gnode qsf_schema_regex(schema *s, const qsf_json_node *at, const char *pattern, uint32_t n,
                           uint32_t flags);
/* Whether text matches a pattern; whole: from its beginning to its end. */
bool qsf_schema_fits(schema *s, const qsf_json_node *at, const char *pattern, uint32_t n, bool whole,
                     const char *text, size_t len);

/* Make nodes; s->none (no string) and s->empty need no node of their own.  0 in `both`: any
 * string. */
qsf_gnode qsf_schema_sequence(schema *s, qsf_gnode x, qsf_gnode y);
qsf_gnode qsf_schema_sequence3(schema *s, qsf_gnode a, qsf_gnode b, qsf_gnode c);
qsf_gnode qsf_schema_either(schema *s, qsf_gnode x, qsf_gnode y);
qsf_gnode qsf_schema_both(schema *s, qsf_gnode x, qsf_gnode y);
qsf_gnode qsf_schema_bytes(schema *s, const char *text);
qsf_gnode qsf_schema_sign(schema *s, const char *text); /* and the blanks after it */

/* ---- schema_array.c, schema_object.c ---- */
qsf_gnode qsf_schema_array(schema *s, const schema_leaf *leaf);
qsf_gnode qsf_schema_object(schema *s, const schema_leaf *leaf);
/* Whether a value may fit the leaf, as far as it shows from what is inside, depth values deep. */
bool qsf_schema_array_possible(schema *s, const schema_leaf *leaf, uint32_t depth);
bool qsf_schema_object_possible(schema *s, const schema_leaf *leaf, uint32_t depth);

/* ---- schema.c ---- */
bool qsf_schema_leaf_impossible(schema *s, const schema_leaf *leaf, uint32_t depth);
/* The node of the goal parts[from..n_parts); takes it off. */
qsf_gnode qsf_schema_value(schema *s, uint32_t from);

#endif
