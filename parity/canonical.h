/* One text for all ways to write a JSON document: what is signed.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_CANONICAL_H
#define QSF_PARITY_CANONICAL_H

#include "qsf.h"

/* Of a JSON object text[0..len), without its member "signature" if it has one; the caller frees
 * *out. */
qsf_status canonical_text(const char *text, size_t len, char **out, size_t *n, qsf_error *err);

#endif
