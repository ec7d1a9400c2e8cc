/* JSON as values of templates: messages, tools, documents, keyword arguments.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_JINJA_JSON_H
#define QSF_JINJA_JSON_H

#include "chat/jinja.h"
#include "text/json.h"

/* Turns one value, with all that is in it, into values of templates as Python's json.loads has
 * them: keys in their order (of two that are the same, the first one's place and the last one's
 * value), whole numbers of any size.  Texts stay where they are and are foreign, as are numbers.
 *
 * values   out: [node->skip], values[0] is the outermost; lists and dicts point to others there
 *
 * Nothing recurses. */
void qsf_jinja_from_json(const qsf_json_node *node, qsf_jinja_value *values);

/* The value of a key of a dict; NULL: the key is missing, or dict is not a dict. */
const qsf_jinja_value *qsf_jinja_member(const qsf_jinja_value *dict, const char *key);

#endif
