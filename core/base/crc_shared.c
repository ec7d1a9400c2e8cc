/* CRC-32 of a long input by all threads of a pool: of parts of it, then of all of them together.
 * SPDX-License-Identifier: MIT
 *
 * A CRC is the remainder of a polynomial, with x^0 in bit 31.  Bytes that follow multiply it by x^8
 * each, and add their own CRC. */
#include "base/crc_shared.h"

enum { CRC_PARTS = 64, CRC_LEAST = 64 << 10 };

static uint32_t crc_product(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
        if (a & bit) product ^= b;
        b = b >> 1 ^ (b & 1 ? 0xEDB88320u : 0);
    }
    return product;
}

/* x to the power of 8 * n. */
static uint32_t crc_power(size_t n)
{
    uint32_t power = 1u << 31, square = 1u << 23;
    for (; n; n >>= 1) {
        if (n & 1) power = crc_product(power, square);
        square = crc_product(square, square);
    }
    return power;
}

typedef struct crc_parts {
    qsf_crc32_way *way;
    const uint8_t *p;
    size_t   len, part;
    uint32_t crcs[CRC_PARTS];
} crc_parts;

static size_t crc_part_len(const crc_parts *c, size_t i) { return QSF_MIN(c->part, c->len - i * c->part); }

static void crc_part(void *arg, uint32_t thread, uint32_t piece)
{
    crc_parts *c = arg;
    (void)thread;
    c->crcs[piece] = c->way(0, c->p + piece * c->part, crc_part_len(c, piece));
}

uint32_t qsf_crc32_shared(qsf_pool *pool, qsf_crc32_way *way, const void *p, size_t len)
{
    const size_t most = QSF_MIN(len / CRC_LEAST, (size_t)CRC_PARTS);
    if (!pool || most < 2 || qsf_pool_size(pool) < 2) return way(0, p, len);
    const size_t pieces = QSF_MIN((size_t)qsf_pool_pieces(pool, most), most);
    crc_parts c = { .way = way, .p = p, .len = len, .part = (len + pieces - 1) / pieces };
    const uint32_t n = (uint32_t)((len + c.part - 1) / c.part);
    qsf_pool_run(pool, n, (uint32_t)QSF_MIN(c.part, (size_t)UINT32_MAX), crc_part, &c);
    const uint32_t by_part = crc_power(c.part);
    uint32_t crc = c.crcs[0];
    for (uint32_t i = 1; i < n; i++) {
        const size_t more = crc_part_len(&c, i);
        crc = crc_product(more == c.part ? by_part : crc_power(more), crc) ^ c.crcs[i];
    }
    return crc;
}
