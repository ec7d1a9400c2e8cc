/* Ed25519, by libsodium or OpenSSL: whichever this build has found.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_SIGN_H
#define QSF_PARITY_SIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIGN_KEY = 32, SIGN_BYTES = 64 };

/* "libsodium 1.0.18", "OpenSSL 3.0"; NULL: this build cannot sign. */
const char *sign_library(void);
/* A new secret. */
bool sign_new(uint8_t secret[SIGN_KEY]);
bool sign_public(const uint8_t secret[SIGN_KEY], uint8_t key[SIGN_KEY]);
bool sign_make(const uint8_t secret[SIGN_KEY], const void *bytes, size_t n, uint8_t out[SIGN_BYTES]);
bool sign_right(const uint8_t key[SIGN_KEY], const void *bytes, size_t n,
                const uint8_t signature[SIGN_BYTES]);

#endif
