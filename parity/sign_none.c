/* No library for signatures in this build.
 * SPDX-License-Identifier: MIT */
#include "sign.h"

const char *sign_library(void) { return NULL; }

bool sign_new(uint8_t secret[SIGN_KEY])
{
    (void)secret;
    return false;
}

bool sign_public(const uint8_t secret[SIGN_KEY], uint8_t key[SIGN_KEY])
{
    (void)secret, (void)key;
    return false;
}

bool sign_make(const uint8_t secret[SIGN_KEY], const void *bytes, size_t n, uint8_t out[SIGN_BYTES])
{
    (void)secret, (void)bytes, (void)n, (void)out;
    return false;
}

bool sign_right(const uint8_t key[SIGN_KEY], const void *bytes, size_t n, const uint8_t signature[SIGN_BYTES])
{
    (void)key, (void)bytes, (void)n, (void)signature;
    return false;
}
