/* CRC-32 of a long input by all threads of a pool.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CRC_SHARED_H
#define QSF_CRC_SHARED_H

#include "base/base.h"
#include "base/pool.h"

/* qsf_crc32, or a faster one. */
typedef uint32_t qsf_crc32_way(uint32_t crc, const void *p, size_t len);
/* way(0, p, len); pool NULL: by the caller alone. */
uint32_t qsf_crc32_shared(qsf_pool *pool, qsf_crc32_way *way, const void *p, size_t len);

#endif
