/* The codebooks of core/tensor/codebooks.h, made when a module starts.  Each holds its entries in
 * the order of the numbers that their fields are as digits, so that the set of these numbers says
 * all: a bit each is a third of the entries, and compresses.
 * SPDX-License-Identifier: MIT */
#include "wasm.h"

#include "codebook_sets.h"
#include "tensor/codebooks.h"

uint16_t qsf_iq2_xxs_grid[256], qsf_iq2_xs_grid[512], qsf_iq2_s_grid[1024], qsf_iq3_xxs_grid[256],
    qsf_iq3_s_grid[512], qsf_iq1_grid[2048];

/* Entries of 16 / bits digits, each less than base. */
static void make(uint16_t *grid, const uint8_t *set, uint32_t len, uint32_t bits, uint32_t base)
{
    for (uint32_t i = 0; i < 8 * len; i++) {
        if (!(set[i / 8] >> i % 8 & 1)) continue;
        uint32_t entry = 0, left = i;
        for (uint32_t shift = 0; shift < 16; shift += bits, left /= base) entry |= left % base << shift;
        *grid++ = (uint16_t)entry;
    }
}

void wasm_codebooks(void)
{
    make(qsf_iq2_xxs_grid, iq2_xxs_set, sizeof iq2_xxs_set, 2, 3);
    make(qsf_iq2_xs_grid, iq2_xs_set, sizeof iq2_xs_set, 2, 3);
    make(qsf_iq2_s_grid, iq2_s_set, sizeof iq2_s_set, 2, 3);
    make(qsf_iq3_xxs_grid, iq3_xxs_set, sizeof iq3_xxs_set, 4, 8);
    make(qsf_iq3_s_grid, iq3_s_set, sizeof iq3_s_set, 4, 8);
    make(qsf_iq1_grid, iq1_set, sizeof iq1_set, 2, 3);
}
