/* CRC-32 as in zlib and PNG, sixteen bytes a step: on processors without a better way
 * (kernels/crc32.c), and for short inputs.
 * SPDX-License-Identifier: MIT */
#include "base/base.h"
#if defined(QSF_CRC_TABLE_MADE)                 /* where 16 KB in a download matter, the platform makes it */
extern uint32_t qsf_crc_table[16][256];
#else
#include "base/crc_table.h"
#endif

uint32_t qsf_crc32(uint32_t crc, const void *p, size_t len)
{
    const uint8_t *b = p;
    const uint32_t (*t)[256] = qsf_crc_table;
    crc = ~crc;
    for (; len >= 16; b += 16, len -= 16) {
        const uint32_t w0 = qsf_le32(b) ^ crc, w1 = qsf_le32(b + 4), w2 = qsf_le32(b + 8),
            w3 = qsf_le32(b + 12);
        crc = t[15][w0 & 255] ^ t[14][w0 >> 8 & 255] ^ t[13][w0 >> 16 & 255] ^ t[12][w0 >> 24]
            ^ t[11][w1 & 255] ^ t[10][w1 >> 8 & 255] ^ t[9][w1 >> 16 & 255] ^ t[8][w1 >> 24]
            ^ t[7][w2 & 255] ^ t[6][w2 >> 8 & 255] ^ t[5][w2 >> 16 & 255] ^ t[4][w2 >> 24]
            ^ t[3][w3 & 255] ^ t[2][w3 >> 8 & 255] ^ t[1][w3 >> 16 & 255] ^ t[0][w3 >> 24];
    }
    while (len--) crc = crc >> 8 ^ t[0][(crc ^ *b++) & 255];
    return ~crc;
}
