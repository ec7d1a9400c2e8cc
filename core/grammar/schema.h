/* JSON Schema as a grammar: the JSON documents that match a schema.
 * SPDX-License-Identifier: MIT
 *
 * Drafts 4 to 2020-12.  A keyword that a grammar cannot enforce is refused by its name and place,
 * never ignored; docs/grammars.md lists what is enforced, and the notations of JSON. */
#ifndef QSF_TEXT_SCHEMA_H
#define QSF_TEXT_SCHEMA_H

#include "grammar/grammar_nodes.h"
#include "text/json.h"

typedef struct qsf_schema_options {
    size_t   size;
    uint32_t blanks;        /* most blanks and line ends at a place where JSON may have some; 0: compact,
                             * QSF_G_NO_MOST: any number */
    const char *what;       /* names the schema in messages; NULL: "schema" */
    const qsf_json_node *at;        /* compile only this part of the schema; NULL: all of it */
    bool     object;        /* the value must be an object */
    bool     closed;        /* an object with named properties has no others, unless the schema specifies them
                             * by additionalProperties, patternProperties and so on */
    bool     loose;         /* for qsf_grammar_nodes_of: calls qsf_schema_loosen first */
} qsf_schema_options;

/* Nodes for the documents that match schema, a boolean or an object, which may be a part of a
 * larger document and of a larger grammar; references are looked up inside schema.  The document
 * may be freed afterwards.  options NULL: compact.  If the schema is refused, the builder fails:
 *
 * QSF_E_ARGUMENT   a keyword that cannot be enforced, with its JSON pointer QSF_E_BUDGET     the
 * schema has too many alternatives QSF_E_MEMORY */
qsf_gnode qsf_schema_nodes(const qsf_platform *p, qsf_grammar_builder *b, const qsf_json_node *schema,
                           const qsf_schema_options *options);
/* Any JSON value. */
qsf_gnode qsf_json_nodes(const qsf_platform *p, qsf_grammar_builder *b, const qsf_schema_options *options);

#endif
