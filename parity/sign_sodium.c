/* Ed25519 by libsodium.
 * SPDX-License-Identifier: MIT */
#include <sodium.h>
#include <string.h>

#include "sign.h"

const char *sign_library(void) { return sodium_init() < 0 ? NULL : "libsodium"; }

bool sign_new(uint8_t secret[SIGN_KEY])
{
    if (sodium_init() < 0) return false;
    randombytes_buf(secret, SIGN_KEY);
    return true;
}

static bool sodium_pair(const uint8_t secret[SIGN_KEY], uint8_t key[SIGN_KEY], uint8_t pair[2 * SIGN_KEY])
{
    return sodium_init() >= 0 && !crypto_sign_seed_keypair(key, pair, secret);
}

bool sign_public(const uint8_t secret[SIGN_KEY], uint8_t key[SIGN_KEY])
{
    uint8_t pair[2 * SIGN_KEY];
    const bool ok = sodium_pair(secret, key, pair);
    sodium_memzero(pair, sizeof pair);
    return ok;
}

bool sign_make(const uint8_t secret[SIGN_KEY], const void *bytes, size_t n, uint8_t out[SIGN_BYTES])
{
    uint8_t pair[2 * SIGN_KEY], key[SIGN_KEY];
    const bool ok = sodium_pair(secret, key, pair) && !crypto_sign_detached(out, NULL, bytes, n, pair);
    sodium_memzero(pair, sizeof pair);
    return ok;
}

bool sign_right(const uint8_t key[SIGN_KEY], const void *bytes, size_t n, const uint8_t signature[SIGN_BYTES])
{
    return sodium_init() >= 0 && !crypto_sign_verify_detached(signature, bytes, n, key);
}
