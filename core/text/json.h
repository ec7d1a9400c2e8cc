/* The core's JSON reader: for messages, tools, schemas, and keyword arguments of templates.
 * SPDX-License-Identifier: MIT
 *
 * A document becomes a flat list of nodes in source order; the children of a list or an object
 * follow it, and `skip` leads past them.  Nothing recurses.  Strict as required by RFC 8259: UTF-8,
 * no comments, nothing after the value. */
#ifndef QSF_TEXT_JSON_H
#define QSF_TEXT_JSON_H

#include "base/host.h"

enum { QSF_JSON_DEPTH = 512 };      /* lists and objects in each other */

typedef enum qsf_json_type {
    QSF_JSON_NULL, QSF_JSON_FALSE, QSF_JSON_TRUE, QSF_JSON_NUMBER, QSF_JSON_TEXT, QSF_JSON_LIST,
    QSF_JSON_OBJECT
} qsf_json_type;

/* A key is a string node before its value. */
typedef struct qsf_json_node {
    uint8_t     type;
    uint32_t    n;              /* bytes of a string or a number, items of a list, pairs of an object */
    uint32_t    skip;           /* nodes of the whole value, this one included: node + skip is the next */
    uint32_t    at;             /* where the value begins in the source */
    const char *text;           /* an unescaped string, a number as written; terminated */
} qsf_json_node;

/* A value that was read.  All memory is the document's. */
typedef struct qsf_json {
    const qsf_platform  *platform;
    qsf_json_node       *nodes;         /* nodes[0] is the outermost value */
    uint32_t             n_nodes, cap;
    char                *text;          /* [n_text] what the nodes point to */
    uint64_t             n_text;
} qsf_json;

/* Reads text[0..len).  what names it in messages ("tools").  On an error *out is empty.
 *
 * QSF_E_CORRUPT   not JSON, with line and column; or nested deeper than QSF_JSON_DEPTH
 * QSF_E_MEMORY    out of memory, or the text has 4 GB */
qsf_status qsf_json_read(const qsf_platform *p, const char *text, size_t len, const char *what,
                         qsf_json *out, qsf_error *err);
void       qsf_json_drop(qsf_json *j);          /* takes an empty one */

/* The value of a key, the last one if the key is repeated; NULL: the key is missing, or v is not an
 * object. */
const qsf_json_node *qsf_json_member(const qsf_json_node *v, const char *key);
/* The first item or key inside v; iterate with n to count and skip to advance. */
static inline const qsf_json_node *qsf_json_first(const qsf_json_node *v) { return v + 1; }
static inline const qsf_json_node *qsf_json_next(const qsf_json_node *v) { return v + v->skip; }
bool qsf_json_is_text(const qsf_json_node *v, const char *text);
/* A number without point and exponent that an int64_t holds; false: v is none. */
bool qsf_json_whole(const qsf_json_node *v, int64_t *out);
/* A number as the nearest double (infinity if it is too large). */
double qsf_json_number(const qsf_json_node *v);

#endif
