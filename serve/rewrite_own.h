/* What the rewriters share.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_REWRITE_OWN_H
#define QSF_SERVE_REWRITE_OWN_H

#include "request_own.h"
#include "rewrite.h"

/* ---- rewrite.c ---- */
/* The body as an object; NULL: *e says why it is none.  doc is to be freed. */
yyjson_val *rewrite_begin(const char *text, size_t len, yyjson_doc **doc, serve_rewritten *out,
                          serve_error *e);
/* Ends the object that was written, and frees doc.  ok: nothing was refused. */
bool rewrite_end(yyjson_doc *doc, serve_rewritten *out, bool ok, serve_error *e);
/* "name": with a comma where there is something before it. */
void rewrite_name(serve_text *out, const char *name);
void rewrite_value(serve_text *out, const char *name, yyjson_val *v);    /* nothing where v is NULL or null */
void rewrite_text(serve_text *out, const char *name, const char *text);
/* Passes on all members but those of a list, which ends with NULL. */
void rewrite_rest(serve_text *out, yyjson_val *root, const char *const *known);
/* A member that is true or false, or missing. */
bool rewrite_flag(yyjson_val *root, const char *name, bool otherwise, bool *value, serve_error *e);

#endif
