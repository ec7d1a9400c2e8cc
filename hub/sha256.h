/* SHA-256, by which a hub names files, and receipts name files, texts and numbers.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HUB_SHA256_H
#define QSF_HUB_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct sha256 {
    uint32_t h[8];
    uint64_t n;                 /* bytes so far */
    uint8_t  block[64];
} sha256;

enum { SHA256_HEX = 65 };       /* with its end */

void sha256_begin(sha256 *s);
void sha256_add(sha256 *s, const void *bytes, size_t n);
void sha256_end(sha256 *s, uint8_t out[32]);
void sha256_hex(const uint8_t sum[32], char out[SHA256_HEX]);
/* Ends the sum and writes it in hexadecimal digits. */
void sha256_end_hex(sha256 *s, char out[SHA256_HEX]);

#endif
