/* The table of a receipt's members, for what walks it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_RECEIPT_OWN_H
#define QSF_PARITY_RECEIPT_OWN_H

#include <stddef.h>

typedef enum field_kind {
    FIELD_OBJECT, FIELD_TEXT, FIELD_WORD, FIELD_SUM, FIELD_HEX, FIELD_FLAG, FIELD_WHOLE, FIELD_NUMBER,
    FIELD_LIST,                 /* of objects with these members */
    FIELD_TEXTS,                /* a list of texts */
    FIELD_IDS,                  /* a list of whole numbers */
    FIELD_COUNTS,               /* an object with any names, whose values are whole numbers */
    FIELD_NAMED                 /* an object with any names, whose values are texts */
} field_kind;

enum { FIELD_NULL = 1, FIELD_MAY = 2 };         /* may be null; may be missing */

typedef struct field {
    const char *name;
    field_kind  kind;
    int         flags;
    double      least, most;    /* of numbers and lists; of FIELD_HEX most: digits; of texts: bytes */
    const char *words, *help;
    const struct field *members;
    size_t      n_members;
} field;

extern const field receipt_root;

#endif
