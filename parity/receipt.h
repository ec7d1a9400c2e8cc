/* Receipts of comparisons: JSON whose members docs/receipt.schema.json lists.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_RECEIPT_H
#define QSF_PARITY_RECEIPT_H

#include <yyjson.h>

#include "parity.h"

/* RECEIPT_VALUE: most bytes of an option's value. */
enum { RECEIPT_BYTES = 1 << 24, RECEIPT_DEPTH = 8, RECEIPT_VALUE = 65 };

/* ---- receipt_fields.c: the table of members, of which the schema is made ---- */

/* The schema as JSON; the caller frees.  NULL: out of memory. */
char *receipt_schema(size_t *len);
/* Whether members, types and ranges of a receipt are those of the table. */
qsf_status receipt_shape(yyjson_val *root, qsf_error *err);

/* ---- receipt_write.c ---- */

/* Whether an option of a context has a member of its own in a receipt, or follows from the
 * comparison; the others are in options.context. */
bool receipt_has_place(const char *option);
/* A receipt's text, terminated; the caller frees. */
qsf_status receipt_text(const parity_settings *set, const prompt_list *prompts, const parity_result *r,
                        char **text, size_t *len, qsf_error *err);

/* ---- receipt_check.c ---- */

/* Reads a receipt and checks its shape and its arithmetic.  *out: yyjson_doc_free. */
qsf_status receipt_read(const char *text, size_t len, yyjson_doc **out, qsf_error *err);
/* The value at "parity.steps"; NULL if it is missing. */
yyjson_val *receipt_at(yyjson_val *root, const char *path);

#endif
