/* The tables of core/base/crc.c, made when a module starts: they are a sixteenth of it and do not
 * compress.
 * SPDX-License-Identifier: MIT */
#include "wasm.h"

uint32_t qsf_crc_table[16][256];

void wasm_crc_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = c >> 1 ^ (c & 1 ? 0xEDB88320u : 0);
        qsf_crc_table[0][i] = c;
    }
    for (uint32_t k = 1; k < 16; k++)
        for (uint32_t i = 0; i < 256; i++) {
            const uint32_t c = qsf_crc_table[k - 1][i];
            qsf_crc_table[k][i] = c >> 8 ^ qsf_crc_table[0][c & 255];
        }
}
