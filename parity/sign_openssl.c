/* Ed25519 by OpenSSL.
 * SPDX-License-Identifier: MIT */
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "sign.h"

const char *sign_library(void) { return "OpenSSL"; }

bool sign_new(uint8_t secret[SIGN_KEY]) { return RAND_priv_bytes(secret, SIGN_KEY) == 1; }

bool sign_public(const uint8_t secret[SIGN_KEY], uint8_t key[SIGN_KEY])
{
    size_t n = SIGN_KEY;
    EVP_PKEY *pair = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, secret, SIGN_KEY);
    const bool ok = pair && EVP_PKEY_get_raw_public_key(pair, key, &n) == 1 && n == SIGN_KEY;
    EVP_PKEY_free(pair);
    return ok;
}

bool sign_make(const uint8_t secret[SIGN_KEY], const void *bytes, size_t n, uint8_t out[SIGN_BYTES])
{
    size_t len = SIGN_BYTES;
    EVP_PKEY *pair = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, secret, SIGN_KEY);
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    const bool ok = pair && c && EVP_DigestSignInit(c, NULL, NULL, NULL, pair) == 1
                    && EVP_DigestSign(c, out, &len, bytes, n) == 1 && len == SIGN_BYTES;
    EVP_MD_CTX_free(c);
    EVP_PKEY_free(pair);
    return ok;
}

bool sign_right(const uint8_t key[SIGN_KEY], const void *bytes, size_t n, const uint8_t signature[SIGN_BYTES])
{
    EVP_PKEY *pair = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, SIGN_KEY);
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    const bool ok = pair && c && EVP_DigestVerifyInit(c, NULL, NULL, NULL, pair) == 1
                    && EVP_DigestVerify(c, signature, SIGN_BYTES, bytes, n) == 1;
    EVP_MD_CTX_free(c);
    EVP_PKEY_free(pair);
    return ok;
}
