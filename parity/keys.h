/* Files of keys, and signatures of receipts by them.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_KEYS_H
#define QSF_PARITY_KEYS_H

#include <yyjson.h>

#include "qsf.h"

/* Writes a new secret key to path and its public key to path.pub. */
qsf_status keys_new(const char *path, qsf_error *err);
/* The receipt text[0..len) with a signature by the secret key of the file; the caller frees
 * *out. */
qsf_status keys_sign(const char *path, const char *text, size_t len, char **out, size_t *n, qsf_error *err);
/* Checks the signature of a receipt that receipt_read took.  key: a file with the public key that
 * it must be by, or NULL.  *is_signed: there is one.
 *
 * QSF_E_CORRUPT       it is wrong, by another key, or missing although a key was given
 * QSF_E_UNSUPPORTED   this build does not support signatures */
qsf_status keys_check(const char *key, const char *text, size_t len, yyjson_val *root, bool *is_signed,
                      qsf_error *err);

#endif
