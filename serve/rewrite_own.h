/* Internals shared by the rewriters.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_REWRITE_OWN_H
#define QSF_SERVE_REWRITE_OWN_H

#include "request_own.h"
#include "rewrite.h"

/* ---- rewrite.c ---- */
/* Parses the body as an object; NULL: *e says why not.  The caller frees doc. */
yyjson_val *rewrite_begin(const char *text, size_t len, yyjson_doc **doc, serve_rewritten *out,
                          serve_error *e);
/* Closes the written object and frees doc.  ok: nothing was refused. */
bool rewrite_end(yyjson_doc *doc, serve_rewritten *out, bool ok, serve_error *e);
/* Writes "name":, after a comma unless it is the first member. */
void rewrite_name(serve_text *out, const char *name);
void rewrite_value(serve_text *out, const char *name, yyjson_val *v);    /* nothing if v is NULL or null */
void rewrite_text(serve_text *out, const char *name, const char *text);
/* Copies all members except those in `known`, which ends with NULL. */
void rewrite_rest(serve_text *out, yyjson_val *root, const char *const *known);
/* Reads a boolean member; otherwise: the value if it is missing. */
bool rewrite_flag(yyjson_val *root, const char *name, bool otherwise, bool *value, serve_error *e);

#endif
