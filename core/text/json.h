/* JSON as the core reads it: messages, tools, schemas, keyword arguments of templates.
 * SPDX-License-Identifier: MIT
 *
 * A text becomes a flat list of nodes in the order of the text; the children of a list or an object
 * stand behind it, and `skip` leads past them.  Nothing recurses.  Strict as RFC 8259 says: UTF-8,
 * no comments, nothing behind the value. */
#ifndef QSF_TEXT_JSON_H
#define QSF_TEXT_JSON_H

#include "base/host.h"

enum { QSF_JSON_DEPTH = 512 };      /* lists and objects in each other */

typedef enum qsf_json_type {
    QSF_JSON_NULL, QSF_JSON_FALSE, QSF_JSON_TRUE, QSF_JSON_NUMBER, QSF_JSON_TEXT, QSF_JSON_LIST,
    QSF_JSON_OBJECT
} qsf_json_type;

/* A key is a text node before its value. */
typedef struct qsf_json_node {
    uint8_t     type;
    uint32_t    n;              /* bytes of a text or a number, items of a list, pairs of an object */
    uint32_t    skip;           /* nodes of the whole value, this one included: node + skip is the next */
    uint32_t    at;             /* where the value begins in the source */
    const char *text;           /* a text without its escapes, a number as written; terminated */
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

/* The value of a key, the last one where it stands there twice; NULL: there is none, or v is no
 * object. */
const qsf_json_node *qsf_json_member(const qsf_json_node *v, const char *key);
/* The first item, or key, of what is inside v; with n to count and skip to go on. */
static inline const qsf_json_node *qsf_json_first(const qsf_json_node *v) { return v + 1; }
static inline const qsf_json_node *qsf_json_next(const qsf_json_node *v) { return v + v->skip; }
bool qsf_json_is_text(const qsf_json_node *v, const char *text);
/* A number without point and exponent that an int64_t holds; false: v is none. */
bool qsf_json_whole(const qsf_json_node *v, int64_t *out);
/* A number as the nearest double where 15 digits say it, else within 2 units of the last place. */
double qsf_json_number(const qsf_json_node *v);

#endif
